"""hushvec budget create, show, verify, reset, export."""

import json
import re
import sqlite3

import pytest

from cli.command import assert_one_line, hushvec, hushvec_here
from hushvec.budget import PrivacyBudget, verify_export
from hushvec.budget.store import TABLE
from postgres_server import PostgresServer, why_not


@pytest.fixture
def store(tmp_path):
    """A file with two ledgers."""
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(10.0, 1e-4, persist_key="notes", store=path) as budget:
        budget.consume(2.5, 1e-5, charge_id="monday")
        budget.consume(0.1)
    with PrivacyBudget(max_rho=0.5, persist_key="study", store=path, on_exhausted="warn") as budget:
        budget.consume(rho=0.5)
    return path


def answer(*arguments, code=0):
    finished = hushvec_here("budget", *arguments, "--json")
    assert finished.code == code, finished.err
    return json.loads(finished.out)


def test_create(tmp_path):
    path = tmp_path / "new.sqlite"
    found = answer("create", "--key", "clinic", "--epsilon", 10, "--delta", 1e-4, "--store", path)
    assert (found["limit"], found["consumed"]) == ({"epsilon": "10", "delta": "0.0001"}, {"epsilon": "0", "delta": "0"})
    assert (found["key"], found["on_exhausted"], found["head"]["rows"]) == ("clinic", "block", 1)
    assert answer("show", "--key", "clinic", "--store", path) == found
    with PrivacyBudget.reopen("clinic", store=path) as budget:
        budget.consume(4.0)
    again = hushvec_here("budget", "create", "--key", "clinic", "--epsilon", 20, "--store", path)
    assert_one_line(again)
    assert again.err == (
        "hushvec budget create: there is already a budget with key 'clinic': hushvec budget show --key clinic shows it\n"
    )
    assert answer("show", "--key", "clinic", "--store", path)["consumed"]["epsilon"] == "4"
    rho = answer("create", "--key", "study", "--rho", 0.5, "--on-exhausted", "warn", "--store", path)
    assert (rho["limit"], rho["on_exhausted"]) == ({"rho": "0.5"}, "warn")
    printed = hushvec_here("budget", "create", "--key", "third", "--epsilon", 1, "--store", path).out
    assert printed.startswith("created 'third'\n\nPrivacy budget 'third'\n  epsilon    0.0 of 1 spent (0 %), 1.0 left\n")
    assert [ledger["key"] for ledger in answer("show", "--store", path)] == ["clinic", "study", "third"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--key", "k"], "one of --epsilon and --rho must be given: the limit"),
        (["--key", "k", "--epsilon", 1, "--rho", 1], "one of --epsilon and --rho must be given: the limit"),
        (["--key", "k", "--rho", 1, "--delta", 0.1], "--delta must come with --epsilon: --rho is a limit of its own"),
        (["--key", "k", "--epsilon", -1], "max_epsilon must be > 0, got -1.0"),
        (["--key", "k", "--epsilon", 1, "--delta", 1], "max_delta must be < 1, got 1"),
        (["--key", "", "--epsilon", 1], "persist_key must be 1 to 1000 printable characters"),
        (["--epsilon", 1], "the following arguments are required: --key"),
    ],
)
def test_what_cannot_be_created(tmp_path, arguments, text):
    path = tmp_path / "new.sqlite"
    assert_one_line(hushvec_here("budget", "create", *arguments, "--store", path), text)
    assert not path.exists()


def test_show_one(store):
    found = answer("show", "--key", "notes", "--store", store)
    assert found["limit"] == {"epsilon": "10", "delta": "0.0001"}
    assert found["consumed"] == {"epsilon": "2.6", "delta": "0.00001"}
    assert (found["key"], found["currency"], found["on_exhausted"], found["period"]) == ("notes", "epsilon_delta", "block", 0)
    assert (found["exhausted"], found["head"]["rows"]) == (False, 3)
    text = hushvec_here("budget", "show", "--key", "notes", "--store", store).out
    with PrivacyBudget.reopen("notes", store=store) as budget:
        assert text == f"{budget}\n"
    assert text.splitlines()[1] == "  epsilon    2.6 of 10 spent (26 %), 7.4 left"
    study = hushvec_here("budget", "show", "--key", "study", "--store", store).out
    assert "  ! on_exhausted='warn': this ledger only counts" in study and "  rho        0.5 of 0.5 spent (100 %), 0.0 left\n" in study


def test_show_all(store):
    found = answer("show", "--store", store)
    assert [ledger["key"] for ledger in found] == ["notes", "study"]
    assert found[1]["consumed"] == {"rho": "0.5"} and found[1]["exhausted"]
    lines = hushvec_here("budget", "show", "--store", store).out.splitlines()
    assert [re.split("  +", line) for line in lines] == [
        ["key", "spent", "left", "limit", "charges", "resets"],
        ["notes", "epsilon 2.6, delta 1e-05", "epsilon 7.4, delta 9e-05", "epsilon 10, delta 0.0001", "2", "0"],
        ["study", "rho 0.5", "rho 0.0", "rho 0.5", "1", "0", "only counts"],
    ]


def test_amounts_are_rounded_to_the_safe_side(tmp_path):
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(1.23456712, 1e-4, persist_key="k", store=path) as budget:
        budget.consume(0.1111111)
        state = budget.state()
    found = answer("show", "--key", "k", "--store", path)
    assert (found["limit"]["epsilon"], found["consumed"]["epsilon"]) == ("1.23456712", "0.1111111")
    for arguments in (("--key", "k"), ()):
        text = hushvec_here("budget", "show", "--store", path, *arguments).out
        assert "0.111112" in text and "1.12345" in text and "1.23457" in text
    assert 0.111112 >= state.consumed_epsilon and 1.12345 <= state.remaining_epsilon and 1.23457 >= state.max_epsilon


def test_show_all_names_what_is_exhausted(tmp_path):
    with PrivacyBudget(1.0, persist_key="k", store=tmp_path / "b.sqlite") as budget:
        for _ in range(2):
            budget.reset()
            budget.consume(1.0)
    line = hushvec_here("budget", "show", "--store", tmp_path / "b.sqlite").out.splitlines()[1]
    assert re.split("  +", line)[-3:] == ["2", "2", "exhausted"]


def test_the_store_may_come_from_the_environment(store):
    finished = hushvec("budget", "show", "--json", environment={"HUSHVEC_BUDGET_STORE": str(store)})
    assert [ledger["key"] for ledger in json.loads(finished.out)] == ["notes", "study"]


def test_verify(store):
    found = answer("verify", "--key", "notes", "--store", store)
    assert (found["holds"], found["rows"], found["first_wrong"]) == (True, 3, None)
    assert found["entry_hash"] in hushvec_here("budget", "verify", "--key", "notes", "--store", store).out


def test_verify_names_the_first_wrong_row(store):
    with sqlite3.connect(store) as connection:
        connection.execute(f"DROP TRIGGER {TABLE}_no_update")
        connection.execute(f"UPDATE {TABLE} SET epsilon = '0.5' WHERE budget_key = 'notes' AND sequence = 2")
    connection.close()
    found = answer("verify", "--key", "notes", "--store", store, code=1)
    assert (found["holds"], found["first_wrong"], found["reason"]) == (False, 2, "entry_hash does not follow from the row")
    finished = hushvec_here("budget", "verify", "--key", "notes", "--store", store)
    assert (finished.code, finished.out) == (1, "does not hold: row 2: entry_hash does not follow from the row\n")


def test_export_and_verify_it(store, tmp_path):
    file = tmp_path / "export.json"
    finished = hushvec_here("budget", "export", "--key", "notes", "--store", store, "-o", file)
    assert finished.code == 0 and "3 rows" in finished.out
    export = json.loads(file.read_text())
    assert verify_export(export).holds
    assert export == answer("export", "--key", "notes", "--store", store)
    assert [name.name for name in tmp_path.glob("*export*")] == ["export.json"]
    assert answer("verify", "--export", file)["holds"]
    export["rows"].pop()
    file.write_text(json.dumps(export))
    assert answer("verify", "--export", file, code=1)["first_wrong"] == 3


def test_verify_against_an_earlier_export(store, tmp_path):
    file = tmp_path / "export.json"
    hushvec_here("budget", "export", "--key", "notes", "--store", store, "-o", file)
    with PrivacyBudget.reopen("notes", store=store) as budget:
        budget.consume(0.5)
    assert answer("verify", "--key", "notes", "--store", store, "--against", file)["holds"]
    with sqlite3.connect(store) as connection:
        connection.execute(f"DROP TRIGGER {TABLE}_no_delete")
        connection.execute(f"DELETE FROM {TABLE} WHERE budget_key = 'notes' AND sequence > 2")
    connection.close()
    assert answer("verify", "--key", "notes", "--store", store)["holds"]
    assert answer("verify", "--key", "notes", "--store", store, "--against", file, code=1)["first_wrong"] == 3


def test_reset_needs_yes(store):
    assert_one_line(hushvec_here("budget", "reset", "--key", "notes", "--store", store), "--yes must be given")
    assert answer("show", "--key", "notes", "--store", store)["period"] == 0
    found = answer("reset", "--key", "notes", "--store", store, "--yes", "--purpose", "december")
    assert (found["period"], found["consumed"]) == (1, {"epsilon": "0", "delta": "0"})
    row = answer("export", "--key", "notes", "--store", store)["rows"][-1]
    assert (row["kind"], row["purpose"]) == ("reset", "december")
    assert answer("verify", "--key", "notes", "--store", store)["holds"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["show", "--key", "nobody"], "there is no budget with key 'nobody'"),
        (["verify", "--key", "nobody"], "there is no budget with key 'nobody'"),
        (["export", "--key", "nobody"], "there is no budget with key 'nobody'"),
        (["reset", "--key", "nobody", "--yes"], "there is no budget with key 'nobody'"),
        (["verify"], "one of --key and --export must be given"),
        (["export"], "--key"),
        (["reset", "--yes"], "--key"),
        (["show", "--key", ""], "persist_key must be 1 to 1000 printable characters"),
        ([], "ACTION"),
    ],
)
def test_bad_input(store, arguments, text):
    assert_one_line(hushvec_here("budget", *arguments, *(["--store", store] if arguments else [])), text)


def test_a_store_that_is_not_there(tmp_path):
    missing = tmp_path / "missing.sqlite"
    for action in (["show"], ["verify", "--key", "k"], ["reset", "--key", "k", "--yes"]):
        assert_one_line(hushvec_here("budget", *action, "--store", missing), f"{missing}: there is no such file")
    assert not missing.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "7", "{}", '{"rows": []}'])
def test_files_that_are_no_exports(tmp_path, content):
    file = tmp_path / "export.json"
    file.write_text(content)
    assert_one_line(hushvec_here("budget", "verify", "--export", file), "must")


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_postgresql():
    with PostgresServer() as server:
        with PrivacyBudget(1.0, persist_key="fleet", store=server.url) as budget:
            budget.consume(0.25)
        assert answer("show", "--key", "fleet", "--store", server.url)["consumed"]["epsilon"] == "0.25"
        assert answer("verify", "--key", "fleet", "--store", server.url)["holds"]
        assert_one_line(hushvec_here("budget", "show", "--key", "no", "--store", server.url), "there is no budget with key 'no'")
