"""Mechanism against mechanism: which are paired, and that difference, p and effect are those of the paired queries."""

import csv
import itertools
from pathlib import Path

import numpy as np
import pytest
import study_stand_ins as stand_ins
from made_rows import made_row

from hushvec_studies.harness.paired import paired_test
from hushvec_studies.retrieval import tables as module
from hushvec_studies.retrieval.configuration import Statistics
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.records import Record, StudyFolder
from hushvec_studies.retrieval.runs import do_runs
from hushvec_studies.retrieval.tables import holm, mechanism_pairs

DOCUMENTS, EACH = 200, 3
STATISTICS = Statistics(resamples=400)


def record(side, noise, epsilon, ranks, seed=2025, ks=(1, 10), **changes):
    rows = tuple(made_row(side, noise, epsilon, k, seed=seed, **changes) for k in ks)
    return Record(rows=rows, ranks=tuple(ranks), queries_of=(EACH,) * DOCUMENTS)


def ranks_of(share, seed):
    """Found at a rank within ten with this probability, else not at all; the queries of one document alike."""
    rng = np.random.default_rng(seed)
    return np.repeat(np.where(rng.random(DOCUMENTS) < share, rng.integers(1, 11, DOCUMENTS), 0), EACH).tolist()


def columns(table):
    names = [heading.name for heading in table.headings]
    return [dict(zip(names, line)) for line in table.lines]


def test_every_two_of_one_epsilon_are_paired_once():
    names = [("document", "gaussian"), ("document", "pure"), ("query", "gaussian")]
    given = [record(*name, epsilon, ranks_of(0.3, 1)) for name in names for epsilon in (20.0, 5.0)]
    given += [record("none", "none", float("inf"), ranks_of(0.9, 2)), record("score", "pure", 7.0, ranks_of(0.5, 3))]
    given += [record("score", "gaussian", 5.0, ranks_of(0.5, 3), projection="mean"), record("score", "pure", 5.0, (), ks=(1, 10))]
    found = columns(mechanism_pairs(given, None, STATISTICS, 2025))
    joined = [", ".join(name) for name in names]
    assert [(line["epsilon"], line["first"], line["second"]) for line in found] == [
        (epsilon, *pair) for epsilon in ("20", "5") for pair in itertools.combinations(joined, 2)
    ]


def test_the_figures_are_those_of_a_paired_test_by_document():
    first, second = ranks_of(0.6, 1), ranks_of(0.4, 2)
    given = [record("document", "pure", 5.0, first), record("document", "gaussian", 5.0, second)]
    (line,) = columns(mechanism_pairs(given, None, STATISTICS, 2025))
    one, other = (np.array(ranks) > 0 for ranks in (first, second))
    differences = (one.astype(float) - other).reshape(DOCUMENTS, EACH).mean(axis=1)
    assert line["difference"].value == pytest.approx(differences.mean())
    assert (line["recall_first"], line["recall_second"]) == (one.mean(), other.mean())
    assert line["cohens_d"] == pytest.approx(differences.mean() / differences.std(ddof=1))
    # 200 documents, sign-flip test, alpha = 0.001: shares of 0.6 and 0.4 differ
    assert line["p_value"] < 0.001 and line["difference"].low > 0
    # the mutant that takes the three queries of a document for three documents has an interval narrower by sqrt(3)
    alone = paired_test(one, other, resamples=400, limits=(-1.0, 1.0)).difference
    width = line["difference"].high - line["difference"].low
    assert width == pytest.approx((alone.high - alone.low) * 3**0.5, rel=0.15)


def test_equal_mechanisms_are_not_told_apart():
    """60 pairs of one law, 200 documents each, alpha = 0.05: binomial(60, 0.05) has at most 10 with probability 0.9997."""
    given = [record("document", "gaussian", float(n), ranks_of(0.5, 2 * n)) for n in range(1, 61)]
    given += [record("document", "pure", float(n), ranks_of(0.5, 2 * n + 1)) for n in range(1, 61)]
    found = columns(mechanism_pairs(given, None, STATISTICS, 2025))
    assert len(found) == 60
    assert sum(line["p_value"] < 0.05 for line in found) <= 10
    assert [line["p_value_holm"] for line in found] == holm([line["p_value"] for line in found])


def test_runs_of_other_seeds_are_not_paired():
    given = [record("document", noise, 5.0, ranks_of(0.5, 1), seed=seed) for noise in ("gaussian", "pure") for seed in (1, 2)]
    found = columns(mechanism_pairs(given, None, STATISTICS, 2025))
    assert [(line["seed"], line["first"], line["second"]) for line in found] == [
        (seed, "document, gaussian", "document, pure") for seed in (1, 2)
    ]


def test_the_ranks_of_a_run_give_its_recall(tmp_path):
    configuration = stand_ins.small(tmp_path, "attack.attacks=[]", "privacy.mechanisms=[none, doc_ldp, score_ldp]")
    do_runs(configuration, planned(configuration), tmp_path / "s", workers=0, embedder=stand_ins.model, progress=False)
    records = StudyFolder(tmp_path / "s").records()
    for one in records:
        ranks = np.array(one.ranks)
        assert len(ranks) == sum(one.queries_of) == one.rows[0]["num_queries"]
        for k in (1, 5, 10):
            assert ((ranks > 0) & (ranks <= k)).mean() == pytest.approx(one.rows[0][f"recall_at_{k}"])
    table = mechanism_pairs(records, None, configuration.statistics, configuration.seed)
    assert {(line["first"], line["second"]) for line in columns(table)} == set(
        itertools.combinations(["document, gaussian", "document, pure", "score, gaussian", "score, pure"], 2)
    )


def test_the_page_has_the_committed_comparison():
    with (Path(module.__file__).parent / "results" / "records_mechanisms.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    page = (Path(__file__).parents[3] / "docs" / "studies.md").read_text(encoding="utf-8")
    told = [line for line in page.splitlines() if line.startswith(("| document, gaussian | ", "| document, pure | "))]
    assert len(rows) == 36 and len(told) == 3
    assert set(told) <= {_line_of(row) for row in rows}


def _line_of(row):
    names = ("recall_first", "recall_second", "difference", "difference_ci_lower", "difference_ci_upper")
    first, second, difference, low, high = (f"{float(row[name]):.3f}" for name in names)
    p, adjusted = (f"{float(row[name]):.4f}" for name in ("p_value", "p_value_holm"))
    cells = (row["first"], row["second"], f"{float(row['epsilon']):g}", first, second, f"{difference} [{low}, {high}]", p, adjusted)
    return f"| {' | '.join(cells)} | {float(row['cohens_d']):.2f} |"
