"""The study as a command: its files, going on after an interruption, findings from rows, bad options."""

import argparse
import csv
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from hushvec_studies.clinical import cohort, command
from hushvec_studies.clinical.command import add_arguments, run_clinical, settings_of
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, PRIVUNIT
from hushvec_studies.clinical.findings import bought, classical, disagreements, sentences, smallest_epsilon
from hushvec_studies.clinical.plan import PARTS, Settings, planned
from hushvec_studies.harness import measurements

SMALL = [
    *("--patients", "40", "--dimension", "48", "--public-rows", "120", "--draws", "2", "--sizes", "20", "--resamples", "50"),
    *("--epsilons", "4", "16", "--sigmas", "0.1", "0.3"),
]


def options(folder, *words, small=True):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(["-o", str(folder), *(SMALL if small else ()), *words])


@pytest.fixture
def small_cohorts(monkeypatch):
    """Cohorts whose own directions fit into 48 dimensions."""
    for name, strengths in cohort.COHORTS.items():
        own = None if strengths.own_dimension is None else 30
        monkeypatch.setitem(cohort.COHORTS, name, replace(strengths, diagnoses=4, own_dimension=own))


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def counting(monkeypatch, *, stop_after=None):
    """Cells that are measured from now on; the run is interrupted at the one after `stop_after`."""
    made = []
    real = command.measure

    def measure(cell):
        if stop_after is not None and len(made) == stop_after:
            raise KeyboardInterrupt
        made.append(cell.digest)
        return real(cell)

    monkeypatch.setattr(command, "measure", measure)
    return made


PARTS_ASKED = ("--parts", "grid", "sigmas")


def test_the_files_of_a_study(tmp_path, small_cohorts, capsys):
    assert run_clinical(options(tmp_path, *PARTS_ASKED, "--json")) == 0
    printed = json.loads(capsys.readouterr().out)
    assert files(tmp_path) == ["clinical.csv", "clinical.json", "clinical.svg", "measured"]
    stored = json.loads((tmp_path / "clinical.json").read_text())
    assert printed == stored
    with (tmp_path / "clinical.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    # two cohorts, three maps, all mechanisms at two epsilons; three maps and two sigmas
    assert len(rows) == len(stored["rows"]) == 2 * 3 * len(LDP) * 2 + 3 * 2
    for row, other in zip(rows, stored["rows"]):
        assert row["mechanism"] == other["mechanism"]
        assert float(row["top_1_low"]) <= float(row["top_1"]) == other["top_1"] <= float(row["top_1_high"])
    assert "no private releases" in stored["note"]
    assert stored["settings"]["epsilons"] == [4.0, 16.0]


def test_words_for_people(tmp_path, small_cohorts, capsys):
    run_clinical(options(tmp_path, "--parts", "sigmas"))
    lines = capsys.readouterr().out.splitlines()
    assert any("sigma 0.1" in line and "costs epsilon 284.4" in line for line in lines)


def test_an_interrupted_study_goes_on_where_it_was(tmp_path, small_cohorts, monkeypatch):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    run_clinical(options(whole, *PARTS_ASKED))
    with monkeypatch.context() as patched:
        before = counting(patched, stop_after=11)
        with pytest.raises(KeyboardInterrupt):
            run_clinical(options(broken, *PARTS_ASKED))
    assert files(broken) == ["measured"] and len(files(broken / "measured")) == 11
    after = counting(monkeypatch)
    run_clinical(options(broken, *PARTS_ASKED))
    assert not set(before) & set(after)
    assert len(before) + len(after) == len(files(whole / "measured"))
    for name in ("clinical.json", "clinical.csv"):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()
    after.clear()
    run_clinical(options(broken, *PARTS_ASKED))
    assert after == []


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": {}, "row": {}}', "\xff"])
def test_a_damaged_file_is_measured_again(tmp_path, small_cohorts, monkeypatch, damage):
    run_clinical(options(tmp_path, "--parts", "sigmas"))
    path = sorted((tmp_path / "measured").iterdir())[0]
    whole = path.read_bytes()
    path.write_bytes(damage.encode("latin-1"))
    made = counting(monkeypatch)
    run_clinical(options(tmp_path, "--parts", "sigmas"))
    assert made == [path.stem] and path.read_bytes() == whole


def test_a_study_of_other_settings_uses_what_it_shares(tmp_path, small_cohorts, monkeypatch):
    run_clinical(options(tmp_path, "--parts", "sigmas"))
    made = counting(monkeypatch)
    run_clinical(options(tmp_path, "--parts", "sigmas", "--sigmas", "0.1", "0.5"))
    assert len(made) == 3
    assert {row["sigma"] for row in json.loads((tmp_path / "clinical.json").read_text())["rows"]} == {0.1, 0.5}


def test_a_measurement_is_written_whole_or_not_at_all(tmp_path, small_cohorts, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(measurements.json, "dump", broken)
        with pytest.raises(OSError, match="disk full"):
            run_clinical(options(tmp_path, "--parts", "sigmas"))
    assert files(tmp_path / "measured") == []


def test_a_recorded_cohort(tmp_path, capsys):
    rows = np.random.default_rng(1).standard_normal((90, 24)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    run_clinical(
        options(tmp_path / "out", "--rows", str(tmp_path / "rows.npy"), "--patients", "30", "--parts", *PARTS_WITHOUT_AGREEMENT)
    )
    stored = json.loads((tmp_path / "out" / "clinical.json").read_text())
    assert {row["cohort"] for row in stored["rows"]} == {"rows.npy"}
    assert {row["public_map"] for row in stored["rows"]} == {"none", "mean", "whitened"}
    assert stored["settings"]["recorded"]["name"] == "rows.npy"


PARTS_WITHOUT_AGREEMENT = [part for part in PARTS if part != "agreement"]


def test_the_figure(tmp_path, small_cohorts):
    asked = options(tmp_path, "--parts", "grid", "sigmas")
    run_clinical(asked)
    drawn = (tmp_path / "clinical.svg").read_text()
    assert drawn.startswith("<svg") and "privunit" in drawn and "public map: whitened" in drawn


def test_the_usual_plan():
    """Every part has cells, and what is shared is measured once."""
    parts = planned(Settings())
    assert list(parts) == PARTS_WITHOUT_AGREEMENT and all(parts.values())
    cells = [cell for some in parts.values() for cell in some]
    assert len({cell.digest for cell in cells}) < len(cells)
    assert {cell.mechanism for cell in parts["grid"]} == set(LDP)
    assert {cell.mechanism for cell in parts["sigmas"]} == {EMPIRICAL}
    sizes = {cell.patients * cell.draws for cell in parts["sizes"]}
    assert min(sizes) >= 3000  # of few patients as many releases are made as of many


@pytest.mark.parametrize(
    "words, error, text",
    [
        (["--parts", "gird"], ValueError, "parts[0] must be one of grid, sigmas"),
        (["--cohorts", "none"], ValueError, "cohorts[0] must be one of distinct"),
        (["--patients", "1"], ValueError, "must be >= 2, got 1"),
        (["--draws", "0"], ValueError, "draws must be >= 1, got 0"),
        (["--epsilons", "-1"], ValueError, "epsilons[0] must be > 0, got -1.0"),
        (["--epsilons", "nan"], SystemExit, "2"),
        (["--sigmas", "0"], ValueError, "sigmas[0] must be > 0, got 0.0"),
        (["--delta", "0"], ValueError, "delta must be > 0, got 0.0"),
        (["--confidence", "95"], ValueError, "confidence must be < 1, got 95.0"),
        (["--seed", "-1"], ValueError, "seed must be >= 0, got -1"),
        (["--resamples", "0"], ValueError, "resamples must be >= 1, got 0"),
        (["--dimension", "1"], ValueError, "dimension must be >= 2, got 1"),
        (["--sizes", "1"], ValueError, "must be >= 2, got 1"),
        (["--rows", "nothing.npy"], FileNotFoundError, "nothing.npy"),
    ],
)
def test_bad_options(tmp_path, words, error, text):
    with pytest.raises(error) as raised:
        run_clinical(options(tmp_path / "out", *words))
    assert text in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_too_many_patients_for_a_file(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(5, dtype=np.float32))
    with pytest.raises(ValueError, match="patients must be at most 5"):
        settings_of(options(tmp_path, "--rows", str(tmp_path / "rows.npy")))


# ---- findings ----


def row(mechanism, epsilon=None, *, top_1, true_epsilon=None, sigma=None, **more):
    return {
        "cohort": "ward",
        "patients": 100,
        "public_map": "none",
        "mechanism": mechanism,
        "epsilon": epsilon,
        "sigma": sigma,
        "true_epsilon": epsilon if true_epsilon is None else true_epsilon,
        "true_delta": 1e-5,
        "true_epsilon_at_0.001": 1.0,
        "true_epsilon_at_1e-08": 2.0,
        "delta_at_epsilon": None,
        "noise_parameter": sigma,
        "grade": "exact",
        "top_1": top_1,
        "top_1_low": top_1 - 0.01,
        "top_1_high": top_1 + 0.01,
        "cosine": 0.1,
        "cosine_theory": 0.1,
        **more,
    }


ROWS = [
    row(PRIVUNIT, 8.0, top_1=0.5),
    row(PRIVUNIT, 16.0, top_1=0.96),
    row("gaussian", 8.0, top_1=0.01),
    row("gaussian", 16.0, top_1=0.03),
    row(CLASSICAL, 8.0, top_1=0.02, true_epsilon=8.2, delta_at_epsilon=0.9e-5, noise_parameter=1.2),
    row(CLASSICAL, 16.0, top_1=0.04, true_epsilon=18.9, delta_at_epsilon=3e-4, noise_parameter=0.6),
    row(EMPIRICAL, top_1=0.95, true_epsilon=91.8, sigma=0.2),
    row(EMPIRICAL, top_1=0.99, true_epsilon=284.0, sigma=0.1),
]


def test_what_a_sigma_buys():
    first, second = bought(ROWS)
    assert (first["sigma"], first["true_epsilon"], first["privunit_epsilon"]) == (0.2, 91.8, 16.0)
    assert (second["sigma"], second["privunit_epsilon"]) == (0.1, None)
    elsewhere = [{**one, "public_map": "mean"} if one["mechanism"] == EMPIRICAL else one for one in ROWS]
    assert [one["privunit_epsilon"] for one in bought(elsewhere)] == [None, None]


def test_what_the_classical_formula_gives():
    assert [(one["epsilon"], one["true_epsilon"], one["enough"]) for one in classical(ROWS)] == [
        (8.0, 8.2, True),
        (16.0, 18.9, False),
    ]


def test_the_sentences_follow_the_rows():
    told = "\n".join(sentences(ROWS, [{"difference": 0.004}, {"difference": -0.02}], 16.0))
    assert "privunit behind map 'none' reaches 0.95: 0.960" in told
    assert "sigma 0.2 finds 0.950" in told and "PrivUnit at epsilon 16, delta 0" in told
    assert "PrivUnit at no measured epsilon" in told
    assert "classical formula gives too little noise: epsilon 16" in told and "epsilon 8 has" not in told
    assert "differ by at most 2.00% in 2 comparisons; 1 of them by more than 1%" in told
    worse = "\n".join(sentences([one for one in ROWS if one["top_1"] != 0.96], [], 16.0))
    assert "does not reach 0.95" in worse and "Cosine" not in worse
    without_a_claim = "\n".join(sentences([*ROWS, row("l2_laplace", 16.0, top_1=0.98, grade="float")], [], 16.0))
    assert "privunit behind map 'none' reaches 0.95: 0.960" in without_a_claim


def test_smallest_and_largest():
    assert smallest_epsilon(ROWS[:2], 0.4) == 8.0 and smallest_epsilon([], 0.4) is None
    assert disagreements([]) == {"comparisons": 0, "largest_difference": None, "within": 0.01, "outside": 0}
    assert math.isclose(disagreements([{"difference": -0.011}])["largest_difference"], 0.011)
