"""From medians to ratios and a table: pure functions."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any


def slug(name: str) -> str:
    """A file name for a device: "NVIDIA H200" becomes "nvidia-h200"."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def summary(milliseconds: Sequence[float]) -> dict[str, float]:
    """Median, least, and half the spread between the quartiles relative to the median."""
    ordered = sorted(milliseconds)
    middle = statistics.median(ordered)
    quarter = len(ordered) // 4
    return {
        "median_ms": middle,
        "min_ms": ordered[0],
        "spread": (ordered[-1 - quarter] - ordered[quarter]) / (2 * middle),
    }


def rates(entry: dict[str, Any]) -> dict[str, float]:
    """GB/s and ns per sample of a timing with "bytes" and "samples"."""
    seconds = entry["median_ms"] / 1e3
    return {"gb_per_s": entry["bytes"] / seconds / 1e9, "ns_per_sample": seconds / entry["samples"] * 1e9}


def share_of_ceiling(entry: dict[str, Any], timings: dict[str, dict[str, Any]]) -> float | None:
    """Bytes a second over those of the ceiling that the entry names, or None where that was not timed."""
    ceiling = timings.get(entry.get("ceiling", ""))
    if ceiling is None:
        return None
    return rates(entry)["gb_per_s"] / rates(ceiling)["gb_per_s"]


def table(timings: dict[str, dict[str, Any]]) -> str:
    """One line a timing, in the order they were made."""
    rows = [("", "ms", "spread", "GB/s", "ns/sample", "of ceiling")]
    for name, entry in timings.items():
        rate, share = rates(entry), share_of_ceiling(entry, timings)
        rows.append((
            name, f"{entry['median_ms']:.3f}", f"{entry['spread']:.1%}", f"{rate['gb_per_s']:.0f}", f"{rate['ns_per_sample']:.5f}",
            "" if share is None else f"{share:.0%}",
        ))  # fmt: skip
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) for row in rows)
