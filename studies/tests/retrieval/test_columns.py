"""Columns of rows: the published names, and files that give back what was put in."""

import math
import re

import pytest

from hushvec_studies.retrieval.columns import (
    COLUMNS,
    KINDS,
    NAMES,
    SOURCE_COLUMNS,
    empty_row,
    from_json,
    read_rows,
    to_json,
    write_rows,
)

PUBLISHED = [
    "run_id",
    "timestamp",
    "git_commit",
    "config_hash",
    "mechanism",
    "epsilon_doc",
    "epsilon_query",
    "epsilon_score",
    "embedding_model",
    "dataset_split",
    "num_documents",
    "num_queries",
    "mia_auc",
    "tpr_0.001_fpr",
    "tpr_0.01_fpr",
    "avg_membership_score",
    "recall_at_1",
    "recall_at_5",
    "recall_at_10",
    "mrr",
    "latency_mean_ms",
    "latency_std_ms",
    "latency_p99_ms",
    "index_build_time_s",
    "peak_memory_gb",
    "recall_at_1_ci_lower",
    "recall_at_1_ci_upper",
    "mia_auc_ci_lower",
    "mia_auc_ci_upper",
]

VALUES = {"text": 'a "b", c\nd', "whole": -3, "number": 0.1, "flag": True}


def full_row():
    return {name: VALUES[KINDS[name]] for name in NAMES} | {
        "epsilon_doc": math.inf,
        "mia_auc": None,
        "exposed": False,
        "mrr": 1e-300,
    }


def test_the_published_columns_come_first_in_their_order():
    assert [column.name for column in SOURCE_COLUMNS] == PUBLISHED
    assert list(NAMES[: len(PUBLISHED)]) == PUBLISHED
    assert len(set(NAMES)) == len(NAMES)


# Figures of the clock, of theory and of tests; what is asked for or promised; ends of intervals.
NO_SAMPLE = re.compile(
    "epsilon|delta$|delta_claimed|latency|time|memory|seconds|theoretical|p_value|cohens|bound|avg_membership|_ci_"
)


def test_every_measured_figure_has_an_interval():
    measured = [column.name for column in COLUMNS if column.kind == "number" and not NO_SAMPLE.search(column.name)]
    assert {"mia_auc", "recall_at_5", "lira_tpr_0.001_fpr", "mean_cosine", "recall_at_1_difference"} <= set(measured)
    for name in measured:
        assert {f"{name}_ci_lower", f"{name}_ci_upper"} <= set(NAMES), name


def test_rows_come_back_as_they_were(tmp_path):
    rows = [full_row(), empty_row(), empty_row() | {"delta": 1e-5, "k": 10}]
    write_rows(rows, tmp_path / "rows.csv")
    assert read_rows(tmp_path / "rows.csv") == rows
    assert [from_json(to_json(row)) for row in rows] == rows
    assert [type(value) for value in read_rows(tmp_path / "rows.csv")[0].values()] == [type(value) for value in rows[0].values()]


@pytest.mark.parametrize(
    "change, message",
    [
        (
            lambda text: text.replace("timestamp", "time", 1),
            "line 1: must name the columns of a study: column 2 must be timestamp",
        ),
        (lambda text: text.replace(",run_seconds", "", 1), "got nothing"),
        (lambda text: text.replace("\n", ",more\n", 1), "must be nothing more, got more"),
        (lambda text: text.replace("0.25", "quarter"), "line 2: mrr must be a number, got 'quarter'"),
        (lambda text: text + "1,2\n", "line 3: must have"),
        (lambda text: "", "line 1"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    path = tmp_path / "rows.csv"
    write_rows([empty_row() | {"mrr": 0.25}], path)
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(path)
