"""`charged_by`: who charges stands in the row, in every store, over processes, and with charges that a release makes itself."""

import pickle

import numpy as np
import pytest

import hushvec as hv
from hushvec.budget import PrivacyBudget, verify_export
from hushvec.budget.arguments import charged_by_and_purpose


def purposes(budget):
    return [row["purpose"] for row in budget.export()["rows"]]


def test_a_name_stands_apart_from_every_purpose(make):
    budget = make(10.0, charged_by="search")
    budget.consume(1.0, purpose="a study")
    budget.consume(1.0)
    hv.privatize(np.eye(4), epsilon=2.0, budget=budget)
    budget.reset(purpose="a new month")
    assert purposes(budget) == [
        "",
        "search\x1fa study",
        "search\x1f",
        "search\x1fgaussian, 4 x 4, per record",
        "search\x1fa new month",
    ]
    assert budget.export()["rows"][1]["purpose"].rpartition("\x1f") == ("search", "\x1f", "a study")
    assert budget.verify().holds


def test_without_a_name_rows_are_as_given(make):
    budget = make(10.0)
    budget.consume(1.0, purpose="a study")
    budget.consume(1.0)
    assert purposes(budget) == ["", "a study", ""]


def test_two_names_share_a_ledger(tmp_path):
    path = tmp_path / "b.sqlite"
    search = PrivacyBudget(3.0, persist_key="notes", store=path, charged_by="search")
    with search, PrivacyBudget.reopen("notes", store=path, charged_by="report") as report:
        search.consume(1.0, purpose="x")
        report.consume(1.5, purpose="x")
        with pytest.raises(hv.PrivacyBudgetExhaustedError):
            search.consume(1.0)
        assert purposes(report) == ["", "search\x1fx", "report\x1fx"]


def test_a_retry_by_another_name_is_the_same_charge(tmp_path):
    path = tmp_path / "b.sqlite"
    for name, repeated in (("search", False), ("report", True)):
        with PrivacyBudget(3.0, persist_key="notes", store=path, charged_by=name) as budget:
            assert budget.consume(1.0, charge_id="monday").repeated is repeated


def test_a_name_goes_to_another_process(tmp_path):
    with PrivacyBudget(3.0, persist_key="notes", store=tmp_path / "b.sqlite", charged_by="search") as budget:
        with pickle.loads(pickle.dumps(budget)) as copy:
            copy.consume(1.0, purpose="x")
        assert purposes(budget) == ["", "search\x1fx"]


@pytest.mark.parametrize(
    ("name", "kind", "text"),
    [
        (7, TypeError, "charged_by must be a str, got int"),
        ("", ValueError, "charged_by must be 1 to 1000 printable characters, got ''"),
        ("a\nb", ValueError, "charged_by must be 1 to 1000 printable characters"),
        ("x" * 101, ValueError, "charged_by must be at most 100 characters, got 'xxx"),
        ("a\x1fb", ValueError, "charged_by must be 1 to 1000 printable characters, got 'a\\x1fb'"),
    ],
)
def test_bad_names(tmp_path, name, kind, text):
    path = tmp_path / "b.sqlite"
    with pytest.raises(kind) as caught:
        PrivacyBudget(1.0, persist_key="notes", store=path, charged_by=name)
    assert str(caught.value).startswith(text)
    assert not path.exists()


def test_no_purpose_passes_for_a_name(make):
    budget = make(10.0)
    budget.consume(1.0, purpose="search: a study")
    with pytest.raises(ValueError, match=r"^purpose must be 1 to 1000 printable characters, got 'search\\x1fa study'$"):
        budget.consume(1.0, purpose="search\x1fa study")
    assert budget.consumed() == 1.0
    assert [charged_by_and_purpose(one) for one in purposes(budget)] == [("", ""), ("", "search: a study")]


def test_a_purpose_is_as_long_with_a_name(make):
    budget = make(10.0, charged_by="n: " * 33)
    budget.consume(1.0, purpose="x" * 1000)
    with pytest.raises(ValueError, match=r"^purpose must be 1 to 1000 printable characters, got 'xxx"):
        budget.consume(1.0, purpose="x" * 1001)
    assert budget.consumed() == 1.0 and charged_by_and_purpose(purposes(budget)[1]) == ("n: " * 33, "x" * 1000)
    assert budget.verify().holds and verify_export(budget.export()).holds
