"""hushvec audit mechanism."""

import json
import os
import re

import numpy as np
import pytest

from audit import samplers
from cli.command import assert_one_line, hushvec, hushvec_here
from hushvec.audit import MechanismTarget
from hushvec.cli import audit, main
from hushvec.mechanisms import PublicCodebook


def answer(*arguments, code=0):
    finished = hushvec_here("audit", "mechanism", *arguments, "--json")
    assert finished.code == code, finished.err
    return json.loads(finished.out)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--epsilon", 1],
        ["--mechanism", "laplacian", "--epsilon", 2, "--dimension", 4, "--clip-norm", 1.5],
        ["--mechanism", "l2_laplace", "--epsilon", 2, "--dimension", 1],
        ["--mechanism", "empirical", "--sigma", 1.5, "--delta", 1e-6],
        ["--mechanism", "randomized_response", "--epsilon", 1, "--labels", 5],
    ],
)
def test_real_mechanisms_are_consistent_with_their_claim(arguments):
    """Keys of the operating system: a false alarm in one of a million runs."""
    found = answer(*arguments, "--samples", 5000, "--confidence", 1 - 1e-6)
    assert found["flagged"] is False
    assert [result["method"] for result in found["results"]] == ["pair", "one-run", "repeats"]
    for result in found["results"][:2]:
        assert 0 <= result["epsilon_lower"] <= found["epsilon"] == result["epsilon_claimed"]


def test_a_codebook(tmp_path):
    PublicCodebook.of(np.eye(5, dtype=np.float32)).save(tmp_path / "book.npz")
    asked = ["--mechanism", "codebook", "--codebook", tmp_path / "book.npz", "--samples", 5000, "--method", "pair"]
    found = answer(*asked, "--epsilon", 1, "--confidence", 1 - 1e-6)
    assert (found["mechanism"], found["epsilon"], found["flagged"]) == ("codebook", 1.0, False)
    assert_one_line(hushvec_here("audit", "mechanism", *asked), "epsilon must be given for mechanism 'codebook'")


def test_one_method():
    found = answer("--mechanism", "laplacian", "--epsilon", 1, "--dimension", 1, "--samples", 20_000, "--method", "one-run")
    assert [result["method"] for result in found["results"]] == ["one-run"]
    assert found["results"][0]["epsilon_lower"] > 0.8


def test_text_says_that_it_is_no_proof():
    finished = hushvec_here("audit", "mechanism", "--epsilon", 12, "--samples", 2000)
    assert finished.code == 0
    assert "consistent with the claim, which is no proof of it (confidence 0.999)" in finished.out
    assert "could not have refuted the claim" in finished.out
    assert "epsilon 12.0, delta 1e-05" in finished.out
    assert finished.err == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "epsilon must be given for mechanism 'gaussian'"),
        (["--mechanism", "randomized_response"], "epsilon must be given for mechanism 'randomized_response'"),
        (["--epsilon", "0"], "epsilon must be > 0, got 0.0"),
        (["--epsilon", "nan"], "--epsilon: must be finite, got nan"),
        (["--epsilon", "1", "--delta", "0"], "delta must be > 0 and < 1, got 0.0"),
        (["--epsilon", "1", "--dimension", "0"], "dimension must be >= 1, got 0"),
        (["--epsilon", "1", "--samples", "10"], "samples must be >= 1000, got 10"),
        (["--epsilon", "1", "--samples", "-10"], "samples must be >= 1000, got -10"),
        (["--epsilon", "1", "--confidence", "1"], "confidence must be > 0 and < 1, got 1.0"),
        (["--epsilon", "1", "--clip-norm", "-1"], "clip_norm must be > 0, got -1.0"),
        (["--epsilon", "1", "--sigma", "1"], "sigma must be None for mechanism 'gaussian'"),
        (["--mechanism", "randomized_response", "--epsilon", "1", "--labels", "1"], "labels must be >= 2, got 1"),
        (["--mechanism", "exponential", "--epsilon", "1"], "invalid choice: 'exponential'"),
        (["--epsilon", "1", "--mechanism", "codebook"], "--codebook FILE must be given with --mechanism codebook, and with no other"),
        (["--epsilon", "1", "--codebook", "book.npz"], "--codebook FILE must be given with --mechanism codebook, and with no other"),
        (["--epsilon", "1", "--method", "two"], "invalid choice: 'two'"),
    ],
)
def test_bad_input(arguments, text):
    assert_one_line(hushvec_here("audit", "mechanism", *arguments), text)


@pytest.mark.parametrize("arguments", [[], ["receipts"]])
def test_what_can_be_audited(arguments):
    assert_one_line(hushvec_here("audit", *arguments))


def test_a_flagged_mechanism_is_exit_code_1(tmp_path):
    """The command over a package whose Laplacian has lost its sqrt(d)."""
    (tmp_path / "sitecustomize.py").write_text(
        "from hushvec.mechanisms import Laplacian\nLaplacian.sensitivity = property(lambda self: 2 * self.clip_norm)\n"
    )
    arguments = ["--mechanism", "laplacian", "--epsilon", "2", "--dimension", "16", "--samples", "100000"]
    finished = hushvec("audit", "mechanism", *arguments, environment=with_path(tmp_path))
    assert finished.code == 1, finished.err
    assert "FLAGGED: the claim is refuted" in finished.out


def with_path(folder):
    return {"PYTHONPATH": os.pathsep.join(part for part in (str(folder), os.environ.get("PYTHONPATH", "")) if part)}


def test_text_has_an_estimate_with_its_standard_error():
    finished = hushvec_here("audit", "mechanism", "--mechanism", "laplacian", "--epsilon", 1, "--dimension", 1, "--samples", 20_000)
    assert finished.code == 0
    assert re.search(r"pair +epsilon >= 0\.\d+ by [^;]*; estimate \d\.\d{4} with standard error 0\.\d{4} by ", finished.out)


def test_a_suspicious_claim_is_said_to_be_and_exits_with_0(monkeypatch, capsys):
    low = MechanismTarget(samplers.GaussianTenPercentLow(epsilon=8.0, dimension=8), samplers.seeds(5))
    monkeypatch.setattr(audit, "_target", lambda options: low)
    assert main(["audit", "mechanism", "--epsilon", "8", "--method", "pair"]) == 0
    verdict = "SUSPICIOUS: not refuted, but an estimate is more than 3 standard errors above the claim (confidence 0.999)"
    assert verdict in capsys.readouterr().out
