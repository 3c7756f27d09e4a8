"""An empirical sigma chosen on a hold-out: the rule, the halves, that the rest has no part in the choice, and the page."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from hushvec.data import records
from hushvec_studies.clinical import sigma_choice
from hushvec_studies.clinical.plan import PUBLISHED_SIGMA
from hushvec_studies.clinical.sigma_choice import (
    HOLD_OUT,
    REST,
    Half,
    Settings,
    chosen,
    figure_of,
    halves_of_drawn,
    halves_of_file,
    halves_of_records,
    sentences,
    study_of,
)

RESULTS = Path(sigma_choice.__file__).parent / "results" / "sigma_choice"
PAGE = (Path(__file__).parents[3] / "docs" / "clinical.md").read_text(encoding="utf-8")
# 60 rows that are all found leave an interval that begins at 0.94
SMALL = Settings(sigmas=(0.01, 2.0, 3.0), wanted=0.8, draws=2, resamples=40)


def half(part, seed, count=60, dimension=32):
    rows = np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)
    return Half.of("drawn", part, rows / np.linalg.norm(rows, axis=1, keepdims=True))


def test_the_largest_sigma_that_is_shown_to_keep_enough_is_chosen():
    def row(sigma, low):
        return {"sigma": sigma, "top_1_low": low}

    assert chosen([row(0.3, 0.5), row(0.1, 0.99), row(0.2, 0.96)], 0.95) == 0.2
    # a lucky sigma behind one that fails is not chosen
    assert chosen([row(0.1, 0.99), row(0.2, 0.9), row(0.3, 0.96)], 0.95) == 0.1
    assert chosen([row(0.1, 0.95)], 0.95) is None


def test_the_rest_has_no_part_in_the_choice(tmp_path):
    first = half(HOLD_OUT, 1)
    alike = [study_of([(first, half(REST, seed))], SMALL, tmp_path) for seed in (2, 3)]
    assert alike[0]["choices"][0]["sigma"] == alike[1]["choices"][0]["sigma"] == 0.01
    assert alike[0]["choices"][0]["hold_out"] == alike[1]["choices"][0]["hold_out"]
    assert alike[0]["choices"][0]["rest"] != alike[1]["choices"][0]["rest"]
    # an impossible rest changes nothing either: all its rows are one row, so that no release finds its own
    row = np.tile(half(REST, 4).rows[:1], (60, 1))
    study = study_of([(first, Half.of("drawn", REST, row))], SMALL, tmp_path)
    assert study["choices"][0]["sigma"] == 0.01 and study["choices"][0]["rest"]["top_1"] < 0.1
    assert "is not shown to keep" in sentences(study)[0]


def test_nothing_is_chosen_where_nothing_keeps_enough(tmp_path):
    settings = Settings(sigmas=(3.0,), draws=1, resamples=40)
    study = study_of([(half(HOLD_OUT, 1), half(REST, 2))], settings, tmp_path)
    assert study["choices"][0]["sigma"] is None and study["choices"][0]["rest"] is None
    assert "no sigma that was tried" in sentences(study)[0]
    assert len(figure_of(study).panels[0].series) == 4


def test_halves_of_records_share_no_person():
    known = records()
    places = {record.text: place for place, record in enumerate(known)}
    first, second = halves_of_records(lambda texts: np.array([[places[text]] for text in texts], np.float32), 7)
    people = [{known[int(place)].person for place in one.rows[:, 0]} for one in (first, second)]
    assert people[0] and people[1] and not people[0] & people[1]
    assert len(first.rows) + len(second.rows) == 1200


def test_halves_of_other_rows_are_disjoint(tmp_path):
    first, second = halves_of_drawn("clinical", 20, 3)
    assert len({row.tobytes() for one in (first, second) for row in one.rows}) == 40
    np.save(tmp_path / "rows.npy", np.random.default_rng(1).standard_normal((41, 8), np.float32))
    first, second = halves_of_file(tmp_path / "rows.npy", 3)
    assert (len(first.rows), len(second.rows)) == (20, 21)
    assert len({row.tobytes() for one in (first, second) for row in one.rows}) == 41


def test_the_program_writes_its_files(tmp_path, monkeypatch, capsys):
    np.save(tmp_path / "rows.npy", np.random.default_rng(1).standard_normal((40, 16), np.float32))
    words = ["--rows", str(tmp_path / "rows.npy"), "--sigmas", "0.2", "2", "--wanted", "0.8", "--draws", "1", "--resamples", "20"]
    monkeypatch.setattr(sys, "argv", ["sigma_choice", "-o", str(tmp_path / "out"), *words])
    sigma_choice.main()
    assert "rows.npy: sigma 0.2 was chosen on the hold-out" in capsys.readouterr().out
    study = json.loads((tmp_path / "out" / "sigma_choice.json").read_text())
    assert len(study["rows"]) == 4 and study["choices"][0]["published"]["sigma"] == PUBLISHED_SIGMA
    assert (tmp_path / "out" / "sigma_choice.svg").read_text().startswith("<svg ")
    monkeypatch.setattr(sys, "argv", ["sigma_choice", "-o", str(tmp_path / "out"), "--sigmas", "-1"])
    with pytest.raises(SystemExit):
        sigma_choice.main()
    assert "must be > 0" in capsys.readouterr().err


def test_the_page_has_the_committed_choices():
    study = json.loads((RESULTS / "sigma_choice.json").read_text(encoding="utf-8"))
    assert study["settings"]["wanted"] == Settings().wanted and tuple(study["settings"]["sigmas"]) == Settings().sigmas
    for one in study["choices"]:
        first, rest, published = one["hold_out"], one["rest"], one["published"]
        line = (
            f"| {one['cohort']} | {one['sigma']:g} | {first['top_1']:.3f} | {rest['top_1']:.3f} [{rest['top_1_low']:.3f}, "
            f"{rest['top_1_high']:.3f}] | {rest['cosine']:.3f} | {rest['true_epsilon']:.1f} | "
            f"{published['top_1']:.3f} [{published['top_1_low']:.3f}, {published['top_1_high']:.3f}] | {published['cosine']:.3f} |"
        )
        assert line in PAGE, line
