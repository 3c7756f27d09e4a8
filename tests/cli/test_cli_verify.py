"""hushvec verify: the three answers, and what is no receipt."""

import dataclasses
import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec


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
    finished = hushvec("verify", path)
    assert finished.code == code
    assert finished.out.splitlines()[0] == status
    assert finished.err == ""
    as_json = hushvec("verify", path, "--json")
    assert as_json.code == code
    report = json.loads(as_json.out)
    assert report["status"] == status
    assert report["reasons"]
    assert report["receipt"] == make().to_dict()


def test_a_seed_is_not_a_claim(write):
    path = write(receipt(generator=hv.Generator.unsafe_seeded(1)).to_json())
    finished = hushvec("verify", path)
    assert finished.code == 2
    assert "NOT a DP claim" in finished.out
    assert "user-given seed" in finished.out


def test_the_reason_names_the_numbers(write):
    finished = hushvec("verify", write(dataclasses.replace(receipt(), clip_norm=2.0, sensitivity=4.0).to_json()))
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
    assert_one_line(hushvec("verify", write(content)), "receipt.json", text)


def test_truncated(write):
    text = receipt().to_json()
    for length in (1, len(text) // 2, len(text) - 1):
        assert_one_line(hushvec("verify", write(text[:length])), "receipt must be JSON")


def test_no_such_file(tmp_path):
    assert_one_line(hushvec("verify", tmp_path / "absent.json"), "No such file", "absent.json")
    assert_one_line(hushvec("verify", tmp_path), "Is a directory")
    assert_one_line(hushvec("verify"), "the following arguments are required: receipt")
