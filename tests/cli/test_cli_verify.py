"""hushvec verify: the three answers, and what is no receipt."""

import dataclasses
import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "receipt.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def receipt(**arguments):
    return hv.privatize(np.ones((3, 384), np.float32), **{"epsilon": 8.0, **arguments}).receipt


CASES = {
    "holds": (lambda: receipt(), 0),
    "does not hold": (lambda: dataclasses.replace(receipt(), epsilon=1.0), 1),
    "not a DP claim": (lambda: receipt(mechanism="l2_laplace"), 2),
}


@pytest.mark.parametrize("status", CASES)
def test_status_and_exit_code(write, status):
    make, code = CASES[status]
    path = write(make().to_json())
    finished = hushvec_here("verify", path)
    assert finished.code == code
    assert finished.out.splitlines()[0] == status
    assert finished.err == ""
    as_json = hushvec_here("verify", path, "--json")
    assert as_json.code == code
    report = json.loads(as_json.out)
    assert report["status"] == status
    assert report["reasons"]
    assert report["receipt"] == make().to_dict()


def test_a_seed_is_not_a_claim(write):
    path = write(receipt(generator=hv.Generator.unsafe_seeded(1)).to_json())
    finished = hushvec_here("verify", path)
    assert finished.code == 2
    assert "NOT A DP CLAIM" in finished.out
    assert "user-given seed" in finished.out


def test_the_reason_names_the_numbers(write):
    finished = hushvec_here("verify", write(dataclasses.replace(receipt(), clip_norm=2.0, sensitivity=4.0).to_json()))
    assert finished.code == 1
    assert "gives delta = " in finished.out


def test_standard_input(write):
    finished = hushvec("verify", "-", stdin=receipt().to_json().encode())
    assert (finished.code, finished.out.splitlines()[0]) == (0, "holds")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "receipt must be JSON"),
        (b"not json", "receipt must be JSON"),
        (b"{}", "receipt must have the field"),
        (b"[1]", "receipt must be an object"),
        (b"\xff\xfe", "can't decode"),
        (b"{" * 100_000, "receipt must be JSON"),
        (b" " * (1 << 23), "at most"),
        (b'{"epsilon": Infinity}', "receipt must hold finite numbers, got Infinity"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_malformed(write, content, text):
    assert_one_line(hushvec_here("verify", write(content)), "receipt.json", text)


def test_truncated(write):
    text = receipt().to_json()
    for length in (1, len(text) // 2, len(text) - 1):
        assert_one_line(hushvec_here("verify", write(text[:length])), "receipt must be JSON")


def test_no_such_file(tmp_path):
    assert_one_line(hushvec_here("verify", tmp_path / "absent.json"), "No such file", "absent.json")
    assert_one_line(hushvec_here("verify", tmp_path), f"{tmp_path}: a folder, not a receipt")
    assert_one_line(hushvec_here("verify"), "the following arguments are required: RECEIPT")


def an_npz(path):
    np.savez(path, x=np.ones(2))


def an_array(path):
    np.save(path, np.ones(2))


def a_table(path):
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(__import__("pyarrow").table({"x": [1.0]}), path)


def a_store(path):
    with hv.PrivacyBudget(1.0, persist_key="k", store=path):
        pass


@pytest.mark.parametrize(
    ("name", "make", "text"),
    [
        ("x.npy", an_array, "x.npy: an array of numpy (.npy), not a receipt\n"),
        ("x.npz", an_npz, "x.npz: a zip archive (.npz and others), not a receipt\n"),
        ("x.parquet", a_table, "x.parquet: a Parquet file, not a receipt\n"),
        ("x.gz", lambda path: path.write_bytes(b"\x1f\x8b\x08"), "x.gz: a gzip file, not a receipt\n"),
        (
            "x.sqlite",
            a_store,
            "x.sqlite: an SQLite file, not a receipt; if it is a store of budgets: hushvec budget show --store x.sqlite\n",
        ),
        ("x.jsonl", lambda path: path.write_text('{"a": 1}\n{"a": 2}\n'), "x.jsonl: 2 lines of JSON, not a receipt\n"),
        (
            "x.json",
            lambda path: path.write_text(json.dumps(hv.PrivacyBudget(1.0).export())),
            "x.json: a ledger export, not a receipt; pass it as --ledger beside receipts, or to hushvec budget verify --export\n",
        ),
        (
            "x.json",
            lambda path: path.write_text(json.dumps({"output": "out.npy", "receipt": receipt().to_dict()})),
            "x.json: the JSON of a command, not a receipt; pass the object under its key 'receipt' as a file of its own, or to -\n",
        ),
        (
            "x.json",
            lambda path: path.write_text(json.dumps([receipt().to_dict()] * 2)),
            "x.json: a list of 2 objects, not a receipt; pass each receipt as a file of its own\n",
        ),
    ],
)
def test_another_kind_of_file_is_named(tmp_path, name, make, text):
    make(tmp_path / name)
    finished = hushvec_here("verify", name, cwd=tmp_path)
    assert_one_line(finished)
    assert finished.err == f"hushvec verify: {text}"


def test_the_receipt_beside_the_file_is_named(tmp_path):
    an_array(tmp_path / "x.npy")
    (tmp_path / "x.npy.receipt.json").write_text(receipt().to_json())
    finished = hushvec_here("verify", "x.npy", cwd=tmp_path)
    assert finished.err == "hushvec verify: x.npy: an array of numpy (.npy), not a receipt; its receipt is x.npy.receipt.json\n"
    for number in range(4):
        (tmp_path / f"{number}.receipt.json").write_text("")
    finished = hushvec_here("verify", tmp_path)
    expected = "a folder, not a receipt; pass a receipt in it: 0.receipt.json, 1.receipt.json, 2.receipt.json and 2 more"
    assert finished.err == f"hushvec verify: {tmp_path}: {expected}\n"


def test_a_receipt_is_no_ledger(tmp_path, write):
    path = write(receipt().to_json())
    expected = f"{path}: a receipt, not a ledger export; hushvec budget export writes one"
    assert_one_line(hushvec_here("verify", path, "--ledger", path), expected)
    assert_one_line(hushvec_here("verify", path, "--ledger", tmp_path), f"{tmp_path}: a folder, not a ledger export")


@pytest.fixture
def files(tmp_path):
    """Writes objects as JSON files and returns their paths."""

    def files(**contents):
        for name, content in contents.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(content))
        return [tmp_path / f"{name}.json" for name in contents]

    return files


def paid(count=2):
    budget = hv.PrivacyBudget(100.0)
    receipts = [receipt(budget=budget).to_dict() for _ in range(count)]
    return receipts, budget.export()


def test_several_receipts_are_composed(files):
    paths = files(a=receipt().to_dict(), b=receipt().to_dict(), c=receipt(mechanism="privunit", epsilon=1.0).to_dict())
    finished = hushvec_here("verify", *paths, "--json")
    assert finished.code == 0
    report = json.loads(finished.out)
    assert [one["status"] for one in report["receipts"]] == ["holds"] * 3
    assert report["together"]["epsilon"] <= 17.0
    assert report["together"]["delta"] == 2e-5
    assert "all releases together, about the same people, are" in hushvec_here("verify", *paths).out


@pytest.mark.parametrize(("epsilon", "code"), [(17.0, 0), (5.0, 1)])
def test_a_promise_for_all_of_them(files, epsilon, code):
    paths = files(a=receipt().to_dict(), b=receipt().to_dict())
    finished = hushvec_here("verify", *paths, "--epsilon", epsilon, "--delta", 2e-5, "--json")
    assert finished.code == code
    assert json.loads(finished.out)["together"]["status"] == ("holds" if code == 0 else "does not hold")


def test_one_bad_receipt_spoils_the_rest(files):
    paths = files(a=receipt().to_dict(), b=CASES["does not hold"][0]().to_dict())
    finished = hushvec_here("verify", *paths)
    assert finished.code == 1 and "together" not in finished.out
    paths = files(a=receipt().to_dict(), b=CASES["not a DP claim"][0]().to_dict())
    finished = hushvec_here("verify", *paths)
    assert finished.code == 2
    assert "together: not a DP claim\n  all releases together would be" in finished.out


def test_a_ledger_that_paid(files):
    receipts, export = paid()
    paths = files(a=receipts[0], b=receipts[1], ledger=export)
    finished = hushvec_here("verify", *paths[:2], "--ledger", paths[2], "--json")
    assert finished.code == 0
    assert json.loads(finished.out)["ledger"]["status"] == "holds"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda receipts, export: export["rows"].pop(1), "row 2 of the ledger"),
        (lambda receipts, export: export["rows"][2].update(epsilon="1"), "row 3 of the ledger"),
        (lambda receipts, export: receipts.__setitem__(1, receipts[0]), "receipt 2: another receipt names the same charge"),
        (lambda receipts, export: receipts[0].update(charge=None), "receipt 1: it names no charge"),
        (lambda receipts, export: receipts[1]["charge"].update(ledger="0" * 64), "receipt 2: it names another ledger"),
        (lambda receipts, export: receipts[1]["charge"].update(sequence=9), "receipt 2: the ledger has no such charge"),
        (lambda receipts, export: receipts[0].update(epsilon=9.0), "receipt 1: the charge named, row 2, is smaller"),
    ],
)
def test_a_ledger_that_did_not_pay(files, spoil, reason):
    receipts, export = paid()
    spoil(receipts, export)
    paths = files(a=receipts[0], b=receipts[1], ledger=export)
    finished = hushvec_here("verify", *paths[:2], "--ledger", paths[2])
    assert finished.code == 1
    assert reason in finished.out


def test_what_is_no_ledger(files):
    paths = files(a=receipt().to_dict(), ledger={"rows": []})
    assert_one_line(hushvec_here("verify", paths[0], "--ledger", paths[1]), "ledger.json")


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--epsilon", "nan"), "--epsilon: must be finite, got nan"),
        (("--epsilon", "-1"), "--epsilon must be >= 0, got -1.0"),
        (("--delta", "inf"), "--delta: must be finite, got inf"),
        (("--delta", "-1e-5"), "delta must be >= 0 and < 1, got -1e-05"),
        (("--delta", "1"), "delta must be >= 0 and < 1, got 1.0"),
    ],
)
def test_a_claim_that_is_no_number_is_refused(files, option, words):
    paths = files(a=receipt().to_dict(), b=receipt().to_dict())
    assert_one_line(hushvec_here("verify", *paths, "=".join(option)), words)
    assert_one_line(hushvec_here("verify", paths[0], "=".join(option)), words)
