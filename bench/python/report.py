"""Turns outcomes and verdicts into aligned tables and into the results file."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
from pathlib import Path
from typing import Any, Sequence

from claims import Verdict
from rounds import Outcome, Series

SCHEMA = 1
ABSENT = "-"

# On an idle machine the middle contestant spreads by 1 to 3 %.
BUSY_SPREAD = 0.05


def align(rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to equal width; the first to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}" if value >= 100 else f"{value:.3f}"


def _ratio(value: float | None) -> str:
    if value is None:
        return ABSENT
    return f"{value:,.0f}x" if value >= 100 else f"{value:.2f}x"


def is_busy(outcome: Outcome) -> bool:
    """Whether something else took the machine while this workload ran."""
    spreads = [series.spread for series in outcome.series.values()]
    return bool(spreads) and statistics.median(spreads) > BUSY_SPREAD


def workload_table(outcome: Outcome) -> str:
    """One table: fastest first, then who did not run and why."""
    workload = outcome.workload
    references = workload.references
    header = ["contestant", "secure", "exact", f"ns/{workload.unit}", "min", "spread", "GB/s"]
    header += [f"/ {name.removeprefix('hushvec ')}" for name in references]
    rows = [header]
    for name, series in sorted(outcome.series.items(), key=lambda item: item[1].median):
        rows.append([
            name,
            "yes" if series.contestant.secure_key_stream else "no",
            "yes" if series.contestant.exact else "no",
            _number(series.median),
            _number(series.fastest),
            f"{100 * series.spread:.1f} %",
            f"{series.gigabytes_per_second:.2f}",
            *(_ratio(outcome.ratio(name, reference)) for reference in references),
        ])
    lines = [workload.title, align(rows)] if len(rows) > 1 else [workload.title]
    by_reason: dict[str, list[str]] = {}
    for name, reason in outcome.not_run.items():
        by_reason.setdefault(reason, []).append(name)
    lines += [f"  not run: {'; '.join(names)}: {reason}" for reason, names in by_reason.items()]
    if is_busy(outcome):
        bound = f"{100 * BUSY_SPREAD:.0f} %"
        lines.append(f"  busy machine: half of them spread by over {bound}; run again")
    lines += [f"  WRONG OUTPUT, not timed: {name}: {text}" for name, text in outcome.wrong.items()]
    return "\n".join(lines)


def claims_table(verdicts: Sequence[Verdict]) -> str:
    rows = [["claim", "claimed", "measured", "verdict"]]
    for verdict in verdicts:
        claim = verdict.claim
        show = _ratio if claim.below is not None else lambda ns: f"{_number(ns)} ns"
        rows.append([
            claim.text,
            ABSENT if verdict.bound is None else ("<= " if claim.at_most else ">= ") + show(verdict.bound),
            ABSENT if verdict.measured is None else show(verdict.measured),
            verdict.word + (f" ({verdict.reason})" if verdict.reason else ""),
        ])
    verdict_width = max(len(row[-1]) for row in rows)
    for row in rows:
        row[-1] = row[-1].ljust(verdict_width)
    return align(rows)


def _series_record(series: Series) -> dict[str, Any]:
    return {
        "secure_key_stream": series.contestant.secure_key_stream,
        "exact": series.contestant.exact,
        "items_per_call": series.items,
        "calls_per_turn": series.calls,
        "bytes_per_item": series.bytes_per_item,
        "turns_ns": series.turns_ns,
        "ns_per_item_median": series.median,
        "ns_per_item_min": series.fastest,
        "spread": series.spread,
        "gigabytes_per_second": series.gigabytes_per_second,
    }


def _outcome_record(outcome: Outcome) -> dict[str, Any]:
    return {
        "title": outcome.workload.title,
        "operation": outcome.workload.operation,
        "shape": list(outcome.workload.shape),
        "contestants": {name: _series_record(series) for name, series in outcome.series.items()},
        "ratios": {
            reference: {name: outcome.ratio(name, reference) for name in outcome.series}
            for reference in outcome.workload.references
            if reference in outcome.series
        },
        "busy_machine": is_busy(outcome),
        "not_run": outcome.not_run,
        "wrong_output": outcome.wrong,
    }


def results_record(
    facts: dict[str, Any],
    settings: dict[str, Any],
    outcomes: dict[str, Outcome],
    verdicts: Sequence[Verdict],
) -> dict[str, Any]:
    """Everything a run knows, ready for JSON."""
    return {
        "schema": SCHEMA,
        **facts,
        "settings": settings,
        "workloads": {name: _outcome_record(outcome) for name, outcome in outcomes.items()},
        "claims": [
            {
                "text": verdict.claim.text,
                "workload": verdict.claim.workload,
                "bounds": dict(verdict.claim.bounds),
                "bound": verdict.bound,
                "at_most": verdict.claim.at_most,
                "measured": verdict.measured,
                "verdict": verdict.word,
                "reason": verdict.reason,
            }
            for verdict in verdicts
        ],
    }


def disagreement(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Why the results of two runs cannot be merged, or an empty string.  Only what is known before a run is read."""
    for part in ("machine", "software", "settings"):
        before, after = ({k: v for k, v in record[part].items() if k != "load_average"} for record in (old, new))
        if before != after:
            keys = ", ".join(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)))
            return f"results to merge must agree in {part}, they differ in {keys}"
    return ""


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """`new` with the tables of `old` that it lacks, and the verdicts read from them; `disagreement` has none."""
    kept = [claim for claim in old["claims"] if claim["workload"] not in new["workloads"]]
    return {**new, "workloads": {**old["workloads"], **new["workloads"]}, "claims": [*kept, *new["claims"]]}


def write_json(record: dict[str, Any], path: Path) -> None:
    """Writes beside `path` and renames, so that a reader never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1, default=str)
            file.write("\n")
        # mkstemp makes the file private; a result is for everyone.
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
