"""The history of ratios: what a run adds to it, and what its picture shows."""

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import history

RUN = json.loads((Path(__file__).parents[1] / "results/amd-epyc-2-cores.json").read_text(encoding="utf-8"))
SVG = "{http://www.w3.org/2000/svg}"


def claim(text, measured):
    return {"text": text, "measured": measured}


def run(*claims, date="2026-01-02", cpu="One", quick=False):
    return {**RUN, "date": date, "machine": {**RUN["machine"], "cpu": cpu}, "settings": {"quick": quick}, "claims": list(claims)}


def test_a_line_has_the_ratios_that_were_measured_and_no_times():
    made = history.entry(run(claim("fill, over MKL", 2.50001), claim("ns per pair", 378.0), claim("fill, over torch", None)), "abc")
    assert made == {"date": "2026-01-02", "commit": "abc", "machine": "One, 2 cores, avx512", "ratios": {"fill, over MKL": 2.5}}


def test_a_committed_run_has_its_claims_in_the_history():
    ratios = history.entry(RUN, "abc")["ratios"]
    assert len(ratios) > 20 and all(0.5 < ratio < 10 for ratio in ratios.values())


@pytest.mark.parametrize("wrong, told", [
    (run(claim("fill, over MKL", 2.5), quick=True), "the run must have the sizes of the claims, got one with --quick"),
    (run(claim("ns per pair", 378.0)), "the run must have a ratio that a claim is about, got 1 claims without"),
])
def test_a_run_without_figures_is_refused_and_adds_nothing(tmp_path, capsys, wrong, told):
    (tmp_path / "run.json").write_text(json.dumps(wrong))
    with pytest.raises(SystemExit, match="^2$"):
        history.main([str(tmp_path / "run.json"), "--commit", "abc", "--history", str(tmp_path / "kept")])
    assert told in capsys.readouterr().err and not (tmp_path / "kept").exists()


def test_runs_are_added_one_by_one_and_all_are_drawn(tmp_path):
    nights = [("2026-01-01", "One", 2.0), ("2026-01-02", "Two & a half", 4.0), ("2026-01-03", "One", 2.2)]
    for date, cpu, ratio in nights:
        (tmp_path / "run.json").write_text(json.dumps(run(claim("fill, over MKL", ratio), date=date, cpu=cpu)))
        assert history.main([str(tmp_path / "run.json"), "--commit", date, "--history", str(tmp_path / "kept")]) == 0
    kept = history.read(tmp_path / "kept/history.jsonl")
    assert [(one["date"], one["ratios"]["fill, over MKL"]) for one in kept] == [(date, ratio) for date, _, ratio in nights]

    drawn = ElementTree.parse(tmp_path / "kept/history.svg").getroot()
    words = [found.text for found in drawn.iter(f"{SVG}text")]
    assert words[:2] == ["One, 2 cores, avx512", "Two & a half, 2 cores, avx512"]
    assert words[2:] == ["fill, over MKL", "2.20", "2.00 to 4.00", "2026-01-01", "2026-01-03"]
    first, last, other = ((float(dot.get("cx")), float(dot.get("cy"))) for dot in drawn.iter(f"{SVG}circle"))
    assert (first[0], other[0], last[0]) == (history.LEFT, (history.LEFT + history.RIGHT) / 2, history.RIGHT)
    assert first[1] > last[1] > other[1]   # 2.0, 2.2, 4.0


def test_one_run_alone_can_be_drawn():
    assert history.svg([history.entry(RUN, "abc")]).count("<circle") == len(history.entry(RUN, "abc")["ratios"])
