"""The columns of a study's rows: their names, kinds and order, and how a value stands in a file.

A row is a dict with every name of COLUMNS. A value that a run does not have is None: an empty cell in CSV, null in JSON.
The first names are those of the published study "Mute the Vectors", in its order; the others are our own. A row is one run seen
at one k, the number of documents that a search answers with: the attack on it and `recall_at_k` differ from k to k, the other
figures are the same in all rows of a run. `run_id` and `k` together name a row.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hushvec_studies.harness.outputs import write_csv

Row = dict[str, Any]

# The attacks and the beginnings of their columns.
ATTACKS = {"logistic": "mia", "likelihood": "lira", "released": "released"}
# The words of the column `mechanism`.
MECHANISMS = ("none", "doc_ldp", "query_ldp", "score_ldp", "combined")
FALSE_POSITIVE_RATES = (0.001, 0.01)
# Depths at which recall has a column of its own, whatever k the study asks for.
RECALL_DEPTHS = (1, 5, 10)


class Column(NamedTuple):
    """A column: `kind` is "text", "whole", "number" or "flag"; a number may be infinite."""

    name: str
    kind: str
    meaning: str


SOURCE_COLUMNS = (
    Column("run_id", "text", "UUID of the run, made from config_hash: the same configuration has the same one"),
    Column("timestamp", "text", "when the run ended, ISO 8601, UTC"),
    Column("git_commit", "text", "commit of the repository that the study was started in"),
    Column("config_hash", "text", "fingerprint of everything that decides the figures: settings of the run, texts, version"),
    Column("mechanism", "text", "none, doc_ldp, query_ldp, score_ldp or combined"),
    Column("epsilon_doc", "number", "epsilon of one document's vector; inf: no noise there"),
    Column("epsilon_query", "number", "epsilon of one query's vector; inf: no noise there"),
    Column("epsilon_score", "number", "epsilon of one query's scores, for every document; inf: no noise there"),
    Column("embedding_model", "text", "name of the embedding model"),
    Column("dataset_split", "text", "train, val, test, or all"),
    Column("num_documents", "whole", "documents in the index that recall is measured on"),
    Column("num_queries", "whole", "queries that recall is measured with"),
    Column("mia_auc", "number", "logistic attack: area under the ROC curve"),
    Column("tpr_0.001_fpr", "number", "logistic attack: true positive rate where the false positive rate is 0.1 %"),
    Column("tpr_0.01_fpr", "number", "logistic attack: true positive rate where the false positive rate is 1 %"),
    Column("avg_membership_score", "number", "logistic attack: mean probability that it gives to membership"),
    Column("recall_at_1", "number", "share of queries whose document is the first result"),
    Column("recall_at_5", "number", "share of queries whose document is among the first 5"),
    Column("recall_at_10", "number", "share of queries whose document is among the first 10"),
    Column("mrr", "number", "mean reciprocal rank, 0 where the document was not returned"),
    Column("latency_mean_ms", "number", "time of one query, searched alone, milliseconds"),
    Column("latency_std_ms", "number", "its standard deviation"),
    Column("latency_p99_ms", "number", "its 99th percentile"),
    Column("index_build_time_s", "number", "seconds to put noise on the documents and build the index"),
    Column("peak_memory_gb", "number", "most memory that the process has held at once so far, GiB"),
    Column("recall_at_1_ci_lower", "number", "interval of recall_at_1"),
    Column("recall_at_1_ci_upper", "number", "interval of recall_at_1"),
    Column("mia_auc_ci_lower", "number", "interval of mia_auc"),
    Column("mia_auc_ci_upper", "number", "interval of mia_auc"),
)


def _interval(name: str) -> tuple[Column, Column]:
    return (
        Column(f"{name}_ci_lower", "number", f"interval of {name}"),
        Column(f"{name}_ci_upper", "number", f"interval of {name}"),
    )


def _estimate(name: str, meaning: str) -> tuple[Column, ...]:
    return Column(name, "number", meaning), *_interval(name)


OWN_COLUMNS = (
    Column("k", "whole", "number of documents that a search answers with, in this row"),
    *_estimate("recall_at_k", "recall at this row's k"),
    Column("study", "text", "name of the configuration"),
    Column("sides", "text", "sides with noise, joined by +: document, query, score; none"),
    Column("noise", "text", "name of the noise family of the configuration; none"),
    Column("noise_doc", "text", "mechanism on documents; none"),
    Column("noise_query", "text", "mechanism on queries; none"),
    Column("noise_score", "text", "mechanism on scores; none"),
    Column("delta", "number", "delta asked for; mechanisms of pure epsilon do not use it"),
    Column("projection", "text", "public map before the noise: none, mean, or pca or whiten, with a dimension or all"),
    Column("queries_per_document", "whole", "key phrases asked for per document"),
    Column("seed", "whole", "seed of the run"),
    *_interval("recall_at_5"),
    *_interval("recall_at_10"),
    *_interval("mrr"),
    *_estimate("ndcg_at_10", "normalized discounted cumulative gain of the first 10"),
    *_estimate("category_precision_at_10", "share of the first 10 results that are of the query's category"),
    *_estimate("mean_cosine", "mean cosine of an indexed document with its clean vector"),
    Column("theoretical_cosine", "number", "what theory says about mean_cosine"),
    *_estimate("recall_at_1_difference", "recall_at_1 less that of the same run without noise, paired by query"),
    Column("recall_at_1_p_value", "number", "of the paired test that this difference is 0"),
    Column("recall_at_1_cohens_d", "number", "its effect size"),
    Column("num_candidates", "whole", "documents whose membership the attacks decide"),
    Column("attack_queries", "whole", "queries that the adversary asks about each of them, at most"),
    Column("shadow_models", "whole", "indexes that the attacks learn from"),
    Column("target_models", "whole", "indexes that the attacks are judged on"),
    *_interval("tpr_0.001_fpr"),
    *_interval("tpr_0.01_fpr"),
    *_estimate("lira_auc", "likelihood-ratio attack: area under the ROC curve"),
    *_estimate("lira_tpr_0.001_fpr", "likelihood-ratio attack: true positive rate at 0.1 % false positives"),
    *_estimate("lira_tpr_0.01_fpr", "likelihood-ratio attack: true positive rate at 1 % false positives"),
    *_estimate("released_auc", "attack on released rows: area under the ROC curve"),
    *_estimate("released_tpr_0.001_fpr", "attack on released rows: true positive rate at 0.1 % false positives"),
    *_estimate("released_tpr_0.01_fpr", "attack on released rows: true positive rate at 1 % false positives"),
    Column("epsilon_claimed", "number", "guarantee of documents against the attacks' queries; inf: none"),
    Column("delta_claimed", "number", "the delta that goes with it"),
    Column("tpr_0.001_fpr_bound", "number", "largest true positive rate at 0.1 % that the claim allows"),
    Column("tpr_0.01_fpr_bound", "number", "largest true positive rate at 1 % that the claim allows"),
    Column("auc_bound", "number", "largest area that the claim allows"),
    Column("epsilon_lower", "number", "epsilon that the logistic attack proves at least"),
    Column("lira_epsilon_lower", "number", "epsilon that the likelihood-ratio attack proves at least"),
    Column("released_epsilon_lower", "number", "epsilon that the attack on released rows proves at least"),
    Column("exposed", "flag", "an attack proved more than the claim"),
    Column("hushvec_version", "text", "version of this package"),
    Column("run_seconds", "number", "how long the run took"),
)

COLUMNS = SOURCE_COLUMNS + OWN_COLUMNS
NAMES = tuple(column.name for column in COLUMNS)
KINDS = {column.name: column.kind for column in COLUMNS}
# Figures of the clock and the machine: two runs of one configuration agree in everything else.
OF_THE_MOMENT = {
    *("timestamp", "git_commit", "index_build_time_s", "peak_memory_gb", "run_seconds"),
    *("latency_mean_ms", "latency_std_ms", "latency_p99_ms"),
}


def columns_text() -> str:
    """The columns with their meanings, for the help of the commands; one line for a column and its interval."""
    shown = [column for column in COLUMNS if not column.name.endswith(("_ci_lower", "_ci_upper"))]
    return "\n".join(
        [
            "columns of results.csv, those of the published study first:",
            *(f"  {column.name}\n      {column.meaning}" for column in shown),
            "\nNAME_ci_lower and NAME_ci_upper are the interval of NAME. An empty cell: the run has no such figure.",
        ]
    )


def attack_column(attack: str, name: str) -> str:
    """Column of an attack's figure ("auc", "tpr_0.001_fpr", "tpr_0.01_fpr", "epsilon_lower").

    Example:
        >>> attack_column("logistic", "auc"), attack_column("logistic", "tpr_0.01_fpr"), attack_column("likelihood", "tpr_0.01_fpr")
        ('mia_auc', 'tpr_0.01_fpr', 'lira_tpr_0.01_fpr')
    """
    prefix = ATTACKS[attack]
    return name if prefix == "mia" and name != "auc" else f"{prefix}_{name}"


def empty_row() -> Row:
    """A row with every column and no value."""
    return dict.fromkeys(NAMES)


def write_rows(rows: Iterable[Mapping[str, Any]], output: Path) -> None:
    """The rows as a CSV file with all columns, which appears whole or not at all."""
    write_csv(
        output,
        [
            {name: str(row[name]).lower() if KINDS[name] == "flag" and row[name] is not None else row[name] for name in NAMES}
            for row in rows
        ],
        NAMES,
    )


def read_rows(path: Path) -> list[Row]:
    """The rows of a CSV file that `write_rows` made; ValueError names line and column where it is another file."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file)
        header = next(lines, [])
        if tuple(header) != NAMES:
            raise ValueError(f"{path}: line 1: must name the columns of a study: {_first_difference(header)}")
        return [_row(path, number, cells) for number, cells in enumerate(lines, start=2)]


def _row(path: Path, number: int, cells: Sequence[str]) -> Row:
    if len(cells) != len(NAMES):
        raise ValueError(f"{path}: line {number}: must have {len(NAMES)} cells, got {len(cells)}")
    row = {}
    for name, cell in zip(NAMES, cells, strict=True):
        try:
            row[name] = _value(KINDS[name], cell)
        except ValueError:
            raise ValueError(f"{path}: line {number}: {name} must be a {KINDS[name]}, got {cell!r:.40}") from None
    return row


def _first_difference(header: Sequence[str]) -> str:
    place = next(
        (at for at, (got, name) in enumerate(zip(header, NAMES, strict=False)) if got != name), min(len(header), len(NAMES))
    )
    expected = NAMES[place] if place < len(NAMES) else "nothing more"
    return f"column {place + 1} must be {expected}, got {header[place] if place < len(header) else 'nothing'}"


def _value(kind: str, cell: str) -> Any:
    if cell == "":
        return None
    if kind == "flag":
        return {"true": True, "false": False}[cell] if cell in ("true", "false") else int("")
    return {"text": str, "whole": int, "number": float}[kind](cell)


def to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row as strict JSON can hold it: an infinite number is the string "inf" (or "-inf")."""
    return {name: repr(value) if isinstance(value, float) and math.isinf(value) else value for name, value in row.items()}


def from_json(row: Mapping[str, Any]) -> Row:
    """What `to_json` was given."""
    return {
        name: float(value) if KINDS.get(name) == "number" and isinstance(value, str) else value for name, value in row.items()
    }
