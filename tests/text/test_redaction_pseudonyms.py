"""Pseudonyms: the same for the same value and key, of one person for one person, restored exactly; the vault keeps them encrypted."""

import base64
import csv
import hashlib
import hmac
import io
import itertools
import json
import multiprocessing
import stat

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hushvec.text import (
    Pseudonymizer,
    Redactor,
    new_key,
    read_key,
    read_vault,
    redact,
    redact_csv,
    redact_json,
    redact_mail,
    restore,
    write_vault,
)
from hushvec.text.pii.pseudonyms import Known, Restorer
from hushvec.text.pii.spans import replaced

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))
TEXT = "Jane Doe called from 415-555-0188. Mr Doe was told: write to jane@example.com. JANE DOE did."


def shown(text, key=KEY, **options):
    return Pseudonymizer(key, **options).pseudonymize(text).text


def test_the_hash_by_hand():
    """HMAC-SHA-256 with a key derived from the given one, over scope, category and plain value; 12 letters of base 32."""
    derived = hmac.new(KEY, b"hushvec pseudonyms 1", hashlib.sha256).digest()
    digest = hmac.new(derived, b"\0email address\0a@b.com", hashlib.sha256).digest()
    assert shown("Mail A@b.com") == f"Mail [EMAIL_{base64.b32encode(digest)[:12].decode()}]"


def test_the_same_value_has_the_same_pseudonym():
    first, second = Pseudonymizer(KEY), Pseudonymizer(KEY)
    assert first.pseudonymize(TEXT).text == second.pseudonymize(TEXT).text
    assert shown("mail a@b.com") == shown("mail  a@b.com").replace("  ", " ")
    assert shown("mail a@b.com") != shown("mail c@b.com")
    assert shown("mail a@b.com") != shown("mail a@b.com", OTHER)
    assert not any(word in shown(TEXT) for word in ("Jane", "Doe", "JANE", "0188"))


def test_one_person_in_several_forms():
    result = Pseudonymizer(KEY).pseudonymize(TEXT)
    people = [span.placeholder.rstrip("]").split("_") for span in result.spans if span.category == "full person name"]
    assert len({name[1] for name in people}) == 1
    assert [name[2:] for name in people] == [[], ["2"], ["3"]]


def test_a_part_of_two_names_is_nobodys():
    spans = Pseudonymizer(KEY).pseudonymize("Jane Doe met John Doe, and Mr Doe left.").spans
    letters = [span.placeholder.rstrip("]").split("_")[1] for span in spans if span.category == "full person name"]
    assert len(set(letters)) == 3


def test_scopes():
    within = Pseudonymizer(KEY, scope="document")
    one, again, other = (
        within.pseudonymize(text, document=name).text for text, name in (("a@b.com", "1"), ("a@b.com", "1"), ("a@b.com", "2"))
    )
    assert one == again != other
    assert within.pseudonymize("a@b.com").text == within.pseudonymize("a@b.com").text
    across = Pseudonymizer(KEY)
    assert across.pseudonymize("a@b.com", document="1").text == across.pseudonymize("a@b.com", document="2").text


def test_restoring_gives_back_what_stood_there():
    names = Pseudonymizer(KEY)
    parts = [names.pseudonymize(text).text for text in (TEXT, "Jane\tDoe, (Doe)", "[PERSON] and [PERSON_AAAA] stay")]
    assert [restore(part, names.known) for part in parts] == [TEXT, "Jane\tDoe, (Doe)", "[PERSON] and [PERSON_AAAA] stay"]
    assert restore("Ask " + parts[0][:21] + ".", names.known) == "Ask Jane Doe."


PIECES = ("Jane Doe", "Doe", "Jane", "a@b.com", "10.0.0.1", "mr", "é\u0301", "[PERSON]", "\n", "said")


@given(st.lists(st.sampled_from(PIECES), max_size=12))
@settings(max_examples=200, deadline=None)
def test_restoring_any_text(pieces):
    text = " ".join(pieces)
    names = Pseudonymizer(KEY)
    assert restore(names.pseudonymize(text).text, names.known) == text


SECRET = "Walter Smith"
HIDDEN = Pseudonymizer(KEY).pseudonymize(f"{SECRET} called.", document="a").text
OWN = HIDDEN[: -len(" called.")]
ESCAPED = Pseudonymizer(KEY).pseudonymize(OWN).text
WIDE = "".join(chr(ord(one) + 0xFEE0) for one in OWN)
SPACED = OWN[:4] + "\u200b" + OWN[4:]
ALTERED = (OWN.lower(), OWN.replace("_", r"\_"), f"[**{OWN[1:-1]}**]", f"%5B{OWN[1:-1]}%5D", f"&#91;{OWN[1:]}")
FORGED = (OWN, ESCAPED, *ALTERED, "\\", "%", "&#91", OWN[:-1] + "_2]", WIDE, SPACED, OWN[:9], OWN[9:])
FORGED += ("[PERSON_1]", "[EMAIL]", "[", "]", "\u0301")


def in_format(kind, texts):
    if kind == "json":
        return json.dumps({"note": texts, "a": {"full_name": "".join(texts)}}, ensure_ascii=False)
    if kind == "csv":
        file = io.StringIO()
        csv.writer(file).writerows([["id", "note"], *(["".join(texts), text] for text in texts)])
        return file.getvalue()
    if kind == "mail":
        lines = [text.replace("\n", " ") for text in texts]
        return "".join(f"{name}: {text}\n" for name, text in zip(("Subject", "From", "To", "X-A"), lines)) + "\n" + "\n".join(lines)
    return "".join(texts)


def rewritten(kind, text, find, stand_in):
    if kind == "json":
        return redact_json(text, find).text
    if kind == "csv":
        return redact_csv(text, find, columns=["note"]).text
    return redact_mail(text, find, placeholder=stand_in).text if kind == "mail" else replaced(text, find(text))


@given(
    st.sampled_from(["text", "json", "csv", "mail"]),
    st.lists(st.lists(st.sampled_from((*PIECES, *FORGED)), max_size=5).map("".join), min_size=1, max_size=4),
    st.sampled_from([None, ["email"], ["phone"]]),
    st.booleans(),
)
@example("mail", ["", f"{OWN}{OWN}Jane[PERSON]a@b.com"], ["phone"], False)  # an address that starts within a pseudonym
@settings(max_examples=400, deadline=None)
def test_no_document_brings_back_what_another_one_has(kind, texts, patterns, known_before):
    """Restoring undoes it exactly, whatever looks like a pseudonym; bound to its document, no text brings back the other's value."""
    document, other = in_format(kind, texts), Known({OWN: SECRET}, {"a": [OWN]})
    redactor = None if patterns is None else Redactor(patterns=patterns)
    names = Pseudonymizer(KEY, redactor=redactor, known=other if known_before else None)
    hidden = rewritten(
        kind,
        document,
        lambda text: names.spans(text, document="b"),
        lambda category, value: names.placeholder(category, value, document="b"),
    )
    names.pseudonymize("nothing", document="b")
    known = Known({**names.known, **other}, {**names.known.documents, **other.documents})
    back = Restorer(known)
    again = rewritten(kind, hidden, back, lambda category, value: replaced(value, back(value)))
    assert again == document or (kind == "json" and json.loads(again) == json.loads(document))  # escapes of letters may differ
    for text in (HIDDEN, hidden, document, ESCAPED):
        assert SECRET not in restore(text, known, document="b")


def test_a_literal_pseudonym_is_one_more_value():
    names = Pseudonymizer(KEY)
    hidden = names.pseudonymize(f"{SECRET} called.", document="a").text
    literal = names.pseudonymize(hidden, document="b")
    assert literal.text.startswith("[PLACEHOLDER_") and literal.spans[0].text == OWN
    assert restore(literal.text, names.known) == hidden
    assert restore(hidden, names.known, document="a") == f"{SECRET} called."
    assert restore(hidden, names.known, document="b") == hidden
    with pytest.raises(ValueError, match=r"^document must be the name of one that was pseudonymized, got 'c'$"):
        restore(hidden, names.known, document="c")


def test_many_forms_of_a_value_with_a_long_name_come_back():
    redactor = Redactor(custom_patterns={"a" * 48: "(?i:badge)"})
    names = Pseudonymizer(KEY, redactor=redactor)
    text = " ".join(map("".join, itertools.product(*zip("badge", "BADGE"))))
    hidden = names.pseudonymize(text).text
    assert len(set(hidden.split())) == 32 and restore(hidden, names.known) == text
    again = Pseudonymizer(KEY, redactor=redactor, known=names.known)
    assert again.pseudonymize(" ".join(text.split()[::-1])).text == " ".join(hidden.split()[::-1])


def test_it_replaces_what_redaction_replaces():
    redactor = Redactor(patterns=["email"])
    spans = Pseudonymizer(KEY, redactor=redactor).pseudonymize(TEXT).spans
    assert [span[:4] for span in spans] == [span[:4] for span in redact(TEXT, patterns=["email"]).spans]
    assert "jane" not in repr(Pseudonymizer(KEY).pseudonymize(TEXT))


def test_a_value_that_takes_the_place_of_another_gets_a_number():
    """Pseudonyms of an earlier vault are never given to another value."""
    taken = {shown("a@b.com"): "somebody else"}
    names = Pseudonymizer(KEY, known=taken)
    assert names.pseudonymize("a@b.com").text == shown("a@b.com")[:-1] + "_2]"
    assert list(taken.values()) == ["somebody else"] and len(names.known) == 2


def test_a_vault(tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "names.vault"
    known = {"[PERSON_AAAA]": 'Jané "Doe"\n', "[EMAIL_BBBB]": "a@b.com"}
    write_vault(path, known, KEY)
    assert read_vault(path, KEY) == known
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"Doe" not in path.read_bytes() and b"PERSON" not in path.read_bytes()
    before = path.read_bytes()
    write_vault(path, known, KEY)
    assert path.read_bytes() != before  # a new nonce
    assert [file.name for file in tmp_path.iterdir()] == ["names.vault"]


def test_a_vault_keeps_documents_and_reads_the_earlier_format(tmp_path):
    aead = pytest.importorskip("cryptography.hazmat.primitives.ciphers.aead")
    names = Pseudonymizer(KEY)
    names.pseudonymize("a@b.com", document="notes")
    write_vault(tmp_path / "v", names.known, KEY)
    read = read_vault(tmp_path / "v", KEY)
    assert (read, read.documents) == (names.known, {"notes": frozenset(names.known)})
    more = Pseudonymizer(KEY, known=read)
    more.pseudonymize("c@d.com", document="letter")
    assert more.known.of("notes") == names.known and set(more.known.of("letter").values()) == {"c@d.com"}
    derived, mark = hmac.new(KEY, b"hushvec vault 1", hashlib.sha256).digest(), b"hushvec vault 1\n"
    sealed = aead.AESGCM(derived).encrypt(bytes(12), json.dumps(names.known).encode(), mark)
    (tmp_path / "v").write_bytes(mark + bytes(12) + sealed)
    read = read_vault(tmp_path / "v", KEY)
    assert (read, read.documents) == (names.known, {})


def test_a_wrong_key_and_every_changed_byte_are_noticed(tmp_path):
    pytest.importorskip("cryptography")
    path = tmp_path / "names.vault"
    write_vault(path, {"[PERSON_AAAA]": "Jane Doe"}, KEY)
    whole = path.read_bytes()
    with pytest.raises(ValueError, match=r"names\.vault: must be opened with the key that it was written with, unchanged") as caught:
        read_vault(path, OTHER)
    assert "Jane" not in str(caught.value)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ValueError, match=r"names\.vault: must be"):
            read_vault(path, KEY)
    for content in (b"", whole[:20], whole[:-1], whole + b"x"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"names\.vault: must be"):
            read_vault(path, KEY)


def test_keys(tmp_path):
    path = tmp_path / "names.key"
    key = new_key(path)
    assert read_key(path) == key and len(key) == 32
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError, match="a key is never overwritten"):
        new_key(path)
    (tmp_path / "link.key").symlink_to(tmp_path / "nothing")
    with pytest.raises(FileExistsError, match="a key is never overwritten"):
        new_key(tmp_path / "link.key")
    assert read_key(path) == key and len(list(tmp_path.iterdir())) == 2
    for content in ("", "abc", "00" * 31, "xx" * 32):
        path.write_text(content)
        with pytest.raises(ValueError, match=r"names\.key: must hold a key of at least 32 bytes in hexadecimal"):
            read_key(path)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((b"short",), ValueError, "key must have at least 32 bytes, got 5"),
        (("x" * 32,), TypeError, "key must be bytes, got str"),
        ((KEY, "world"), ValueError, "scope must be one of 'document', 'collection', got 'world'"),
    ],
)
def test_bad_settings(arguments, error, words):
    with pytest.raises(error, match=words):
        Pseudonymizer(arguments[0], **({"scope": arguments[1]} if arguments[1:] else {}))


def test_bad_texts():
    for call in (Pseudonymizer(KEY).pseudonymize, lambda text: restore(text, {})):
        with pytest.raises(TypeError, match="text must be a string, got bytes"):
            call(b"x")


def _ask(path, barrier, answers):
    barrier.wait()
    try:
        answers.put(new_key(path))
    except FileExistsError:
        answers.put(None)


def test_of_several_processes_one_gets_the_key(tmp_path):
    context = multiprocessing.get_context("fork")
    for number in range(5):
        barrier, answers = context.Barrier(3), context.Queue()
        asking = [context.Process(target=_ask, args=(tmp_path / f"{number}.key", barrier, answers)) for _ in range(3)]
        for process in asking:
            process.start()
        got = [answers.get(timeout=60) for _ in asking]
        for process in asking:
            process.join()
        assert [key for key in got if key] == [read_key(tmp_path / f"{number}.key")]
