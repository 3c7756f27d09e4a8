"""Keys that look alike are refused: each would be a ledger of its own, with the whole limit."""

import unicodedata

import pytest

from hushvec.budget import PrivacyBudget, arguments, budget_keys, verify_ledger

NFC, NFD = (unicodedata.normalize(form, "Übung") for form in ("NFC", "NFD"))
WIDE = "ｎｏｔｅｓ"
MIXED = ["n\u043etes", "\u039dotes", "\u0578otes"]  # a Cyrillic, a Greek, an Armenian letter among Latin ones
INVISIBLE = ["no\u034ftes", "notes\ufe0f", "\u3164notes", "notes\u2800", "notes\U000e0100"]
UNUSUAL = [NFD, "notes ", " notes", *INVISIBLE, WIDE, "ﬁles", *MIXED]
CONTROLS = ["notes\x00", "no\x1ftes", "notes\n", "\u202enotes", "no\u2067tes\u2069", "notes\u200e"]


@pytest.fixture
def as_before(monkeypatch):
    """Ledgers as hushvec made them when every printable key would do."""

    def make(store, key):
        with monkeypatch.context() as patched:
            patched.setattr(arguments, "require_plain", lambda one: one)
            with PrivacyBudget(10.0, persist_key=key, store=store) as budget:
                budget.consume(4.0)

    return make


@pytest.mark.parametrize("key", [*UNUSUAL, *CONTROLS, "notes\u00a0", "notes\u200b", "\ufeffnotes", " "])
def test_a_new_ledger_has_a_plain_key(make, key):
    with pytest.raises(ValueError, match=r"persist_key must (be|not mix)"):
        make(10.0, key=key)


def test_the_error_says_what_is_mixed():
    with pytest.raises(ValueError) as caught:
        PrivacyBudget(10.0, persist_key="team \u0430lice")
    assert str(caught.value) == (
        "persist_key must not mix the letters of cyrillic and latin in one word, got 'team \\u0430lice'; "
        "a ledger that has this key already is opened by PrivacyBudget.reopen"
    )


@pytest.mark.parametrize("key", ["notes", NFC, "研究 7", "two words", "🙂", "naïve café", "β-blocker", "пациенты 2026 A", "研究abc"])
def test_plain_keys(make, key):
    assert make(10.0, key=key).state().key == key


@pytest.mark.parametrize("key", UNUSUAL)
def test_an_old_ledger_is_still_there(make_durable, as_before, key):
    store = make_durable.store
    key = f"{key} of {make_durable.key}" if key in (NFD, " notes", "\u3164notes") else f"{make_durable.key} {key}"
    as_before(store, key)
    assert key in budget_keys(store)
    assert verify_ledger(key, store=store).holds
    with pytest.raises(ValueError, match=r"opened by PrivacyBudget\.reopen"):
        PrivacyBudget(10.0, persist_key=key, store=store)
    with PrivacyBudget.reopen(key, store=store) as budget:
        assert (budget.remaining(), budget.export()["budget_key"]) == (6.0, key)
