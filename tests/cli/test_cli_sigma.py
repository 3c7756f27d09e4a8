"""hushvec sigma, hushvec backends, and the command as a whole."""

import csv
import json
import math
import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here

VECTORS = Path(__file__).parents[1] / "evidence" / "vectors" / "gaussian_sigma.csv"


def answer(*arguments):
    finished = hushvec_here("sigma", *arguments, "--json")
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def some_known_sigmas():
    with VECTORS.open() as file:
        rows = [row for row in csv.reader(file) if row and row[0] not in ("epsilon", "") and not row[0].startswith("#")]
    return rows[:: max(1, len(rows) // 6)]


@pytest.mark.parametrize("row", some_known_sigmas(), ids=lambda row: f"{row[0]},{row[1]}")
def test_sigma_from_epsilon_and_delta(row):
    found = answer("--epsilon", row[0], "--delta", row[1], "--sensitivity", 1)["sigma"]
    assert found == pytest.approx(float(row[2]), rel=1e-12)


def test_all_three_directions_agree():
    sigma = answer("--epsilon", 8, "--delta", 1e-6)["sigma"]
    assert answer("--sigma", sigma, "--delta", 1e-6)["epsilon"] == pytest.approx(8, rel=1e-9)
    assert answer("--sigma", sigma, "--epsilon", 8)["delta"] == pytest.approx(1e-6, rel=1e-9)


def test_clip_norm_is_half_the_sensitivity():
    assert answer("--epsilon", 8, "--clip-norm", 1.5) == answer("--epsilon", 8, "--sensitivity", 3)
    assert answer("--epsilon", 8)["sensitivity"] == 2.0
    assert answer("--epsilon", 8)["delta"] == 1e-5


def test_dimension_gives_the_expected_cosine():
    found = answer("--sigma", 0.2, "--dimension", 1920)
    assert found["expected_cosine"] == pytest.approx(1 / math.sqrt(1 + 1920 * 0.04))
    assert found["epsilon"] == pytest.approx(91.8, abs=0.05)


def test_the_classical_sigma_is_shown_with_its_true_delta():
    found = answer("--epsilon", 20, "--sensitivity", 1)
    assert found["classical_sigma"] == pytest.approx(0.24224, abs=1e-5)
    assert found["classical_delta"] == pytest.approx(1.5e-3, rel=0.05)
    assert "NOT enough" in hushvec_here("sigma", "--epsilon", 20).out
    assert "NOT" not in hushvec_here("sigma", "--epsilon", 0.9).out


def test_printed_digits_are_never_too_small():
    for epsilon in (0.3, 1, 7, 33):
        lines = dict(line.split()[:2] for line in hushvec_here("sigma", "--epsilon", epsilon).out.splitlines())
        assert hv.gaussian_delta(epsilon, float(lines["sigma"]), 2.0) <= 1e-5
        assert float(lines["sigma"]) == pytest.approx(hv.gaussian_sigma(epsilon, 1e-5, 2.0), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "two of --epsilon, --delta and --sigma must be given"),
        (["--delta", "1e-5"], "two of --epsilon, --delta and --sigma must be given"),
        (["--epsilon", "1", "--delta", "1e-5", "--sigma", "1"], "two of --epsilon, --delta and --sigma must be given"),
        (["--epsilon", "-1"], "epsilon must be > 0 and finite, got -1.0"),
        (["--epsilon", "nan"], "--epsilon: must be finite, got nan"),
        (["--epsilon", "eight"], "invalid float value: 'eight'"),
        (["--epsilon", "1", "--delta", "1"], "delta must be > 0 and < 1, got 1"),
        (["--sigma", "0"], "sigma must be > 0 and finite, got 0"),
        (["--sigma", "1e-300"], "sigma must be large enough for a finite epsilon, got 1e-300"),
        (["--epsilon", "1", "--clip-norm", "0"], "clip_norm must be > 0, got 0.0"),
        (["--epsilon", "1", "--sensitivity", "-2"], "sensitivity must be > 0, got -2.0"),
        (["--epsilon", "1", "--clip-norm", "1", "--sensitivity", "2"], "not allowed with"),
        (["--epsilon", "1", "--dimension", "0"], "dimension must be >= 1, got 0"),
        (["--unknown"], "unrecognized arguments: --unknown"),
    ],
)
def test_bad_input(arguments, text):
    assert_one_line(hushvec_here("sigma", *arguments), text)


def test_backends():
    finished = hushvec_here("backends", "--json")
    report = json.loads(finished.out)
    assert finished.code == 0
    assert report["active"] in report["available"]
    assert set(report["available"]) <= set(report["compiled"])
    assert report["version"] == hv.__version__
    assert report["format_versions"] == {"aes256": 2, "chacha20": 1, "chacha12": 1, "chacha8": 1}
    assert report["aes"]["active"] in report["aes"]["available"]
    assert set(report["aes"]["available"]) <= set(report["aes"]["compiled"])
    assert report["default_cipher"] == hv.Generator().cipher
    assert report["memory"] == hv.secure_memory.status()["protections"]
    assert list(report["memory"]) == ["kept out of swap", "left out of core dumps", "wiped in forked children"]
    lines = dict(re.split("  +", line.strip(), maxsplit=1) for line in hushvec_here("backends").out.splitlines())
    versions = {"format_versions": "aes256 2, chacha20 1, chacha12 1, chacha8 1"}
    inner = {f"{name} {one}": value for name in ("aes", "memory") for one, value in report[name].items()}
    expected = {**report, **inner, **versions}
    del expected["aes"], expected["memory"]
    assert lines == {name: ", ".join(value) if isinstance(value, list) else str(value) for name, value in expected.items()}


def test_a_backend_can_be_forced():
    forced = hushvec("backends", "--json", environment={"HUSHVEC_BACKEND": "portable", "HUSHVEC_NUM_THREADS": "3"})
    assert json.loads(forced.out)["active"] == "portable"
    assert json.loads(forced.out)["threads"] == 3


def test_an_implementation_of_aes_can_be_forced():
    """Portable AES is slower than ChaCha20, and no default."""
    forced = hushvec("backends", "--json", environment={"HUSHVEC_AES": "portable"})
    report = json.loads(forced.out)
    assert (report["aes"]["active"], report["default_cipher"]) == ("portable", "chacha20")
    assert report["aes"]["compiled"] == hv.backends()["aes"]["compiled"]


def test_help_and_version():
    assert hushvec("--version").out == f"hushvec {hv.__version__}\n"
    for command in ("demo", "privatize", "sigma", "verify", "audit mechanism", "backends"):
        assert command.split()[0] in hushvec_here("--help").out
        finished = hushvec_here(*command.split(), "--help")
        assert finished.code == 0
        assert "--json" in finished.out


@pytest.mark.parametrize("arguments", [["nonsense"], ["sigma", "--epsilon"]])
def test_what_is_no_command(arguments):
    assert_one_line(hushvec_here(*arguments))


def test_the_script_is_installed():
    script = next(entry for entry in entry_points(group="console_scripts") if entry.name == "hushvec")
    assert script.value == "hushvec.cli:main"
