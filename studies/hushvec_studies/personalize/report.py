"""What the runs of the study say: means over seeds, and sentences by rules that are written here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

# Columns that a summary has the mean, the least and the largest of, over seeds.
_WORTHS = ("perplexity", "accuracy", "accuracy_frequent", "accuracy_rare", "f1", "f1_least", "f1_most", "f1_chance")
MEASURES = (*(f"{name}_{when}" for name in _WORTHS for when in ("before", "after")), "seconds")
# What is the same for all seeds of an epsilon.
_SHARED = (
    *("texts", "base", "epsilon_asked", "epsilon", "delta", "adjacency", "noise_multiplier", "sampling_probability", "steps"),
    *("expected_batch", "clip_norm", "learning_rate", "rank", "trainable", "train_notes", "test_notes", "grade"),
)


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """A row for each epsilon that was asked for, from none to the smallest: mean, least and largest of every measure over seeds."""
    found = []
    for asked in sorted({_asked(row) for row in rows}, reverse=True):
        some = [row for row in rows if _asked(row) == asked]
        line: dict[str, Any] = {name: some[0][name] for name in _SHARED} | {"seeds": len(some)}
        for name in MEASURES:
            values = [row[name] for row in some if row[name] is not None]
            line[name] = sum(values) / len(values) if values else None
            line[f"{name}_low"] = min(values, default=None)
            line[f"{name}_high"] = max(values, default=None)
        found.append(line)
    return found


def sentences(rows: Sequence[Row]) -> list[str]:
    """The findings in words."""
    return [_worth(line) for line in summary(rows)]


def claim(row: Row) -> str:
    """What a row's training costs, in words."""
    if row["epsilon"] is None:
        return "no DP"
    return f"epsilon {row['epsilon']:.4g}, delta {row['delta']:g}"


def _worth(line: Row) -> str:
    task = "" if line["f1_after"] is None else f", F1 of entities {line['f1_before']:.3f} to {line['f1_after']:.3f} {_beside(line)}"
    kinds = [(kind, line[f"accuracy_{kind}_after"]) for kind in ("frequent", "rare")]
    words = "".join(f", {kind} words {share:.3f}" for kind, share in kinds if share is not None)
    return (
        f"{claim(line)}: perplexity {line['perplexity_before']:.2f} to {line['perplexity_after']:.2f}, "
        f"next token {line['accuracy_before']:.3f} to {line['accuracy_after']:.3f}{words}{task}; noise multiplier "
        f"{line['noise_multiplier']:.4g}, {line['steps']} steps of sampling probability {line['sampling_probability']:.4g}."
    )


def _beside(line: Row) -> str:
    """What an F1 is compared with: chance, and for one run its interval."""
    chance = f"{line['f1_chance_after']:.3f} by chance"
    if line["seeds"] > 1:
        return f"(mean of {line['seeds']} runs, {chance})"
    verdict = "" if line["f1_least_after"] > line["f1_chance_after"] else ", not shown to be above it"
    return f"(95 % interval {line['f1_least_after']:.3f} to {line['f1_most_after']:.3f}, {chance}{verdict})"


def _asked(row: Row) -> float:
    return math.inf if row["epsilon_asked"] is None else float(row["epsilon_asked"])

