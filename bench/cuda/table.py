"""From medians to ratios and tables: pure functions."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from cases import COPY, FILL

Timings = Mapping[str, Mapping[str, Any]]


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


def rates(entry: Mapping[str, Any]) -> dict[str, float]:
    """GB/s and ns per sample of a timing with "bytes" and "samples"."""
    seconds = entry["median_ms"] / 1e3
    return {"gb_per_s": entry["bytes"] / seconds / 1e9, "ns_per_sample": seconds / entry["samples"] * 1e9}


def share_of_ceiling(entry: Mapping[str, Any], timings: Timings) -> float | None:
    """Bytes a second over those of the ceiling that the entry names, or None where that was not timed."""
    ceiling = timings.get(entry.get("ceiling", ""))
    if ceiling is None:
        return None
    return rates(entry)["gb_per_s"] / rates(ceiling)["gb_per_s"]


def over_peers(timings: Timings) -> dict[str, dict[str, float]]:
    """For each of our timings, how many times longer each peer takes for the same work: {ours: {peer: ratio}}."""
    found: dict[str, dict[str, float]] = {}
    for name, entry in timings.items():
        if name in (COPY, FILL) or entry.get("peer"):
            continue
        peers = {
            peer: other["median_ms"] / entry["median_ms"]
            for peer, other in timings.items()
            if other.get("peer") and other["work"] == entry.get("work")
        }
        if peers:
            found[name] = peers
    return found


def level_1(output: str) -> dict[str, float]:
    """What count_open_samples printed: {"gaussian s 64.0": share of samples that leave level 1}."""
    lines = re.findall(r"^(\w+)\s+s ([\d.]+)\s+samples (\d+)\s+leave level 1 (\d+)", output, re.MULTILINE)
    return {f"{law} s {s}": int(left) / int(samples) for law, s, samples, left in lines}


def kernels(output: str) -> dict[str, Any]:
    """What time_kernels printed: {"machine": its first line, "timings": {name: entry}}. A line that was cut off is left out."""
    found: dict[str, Any] = {"machine": {}, "timings": {}}
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "device" in entry:
            found["machine"] = entry
        elif isinstance(entry, dict) and "name" in entry:
            found["timings"][entry.pop("name")] = entry
    return found


def align(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))) for row in rows)


def table(timings: Timings) -> str:
    """One line a timing, in the order they were made."""
    rows = [("", "ms", "spread", "GB/s", "ns/sample", "of ceiling")]
    for name, entry in timings.items():
        rate, share = rates(entry), share_of_ceiling(entry, timings)
        rows.append((
            name, f"{entry['median_ms']:.3f}", f"{entry['spread']:.1%}", f"{rate['gb_per_s']:.0f}", f"{rate['ns_per_sample']:.5f}",
            "" if share is None else f"{share:.0%}",
        ))  # fmt: skip
    return align(rows)


def peer_table(timings: Timings) -> str:
    """For each of our timings how many times longer each peer of the same work takes."""
    lines = [
        (name, "   ".join(f"{peer.split(',')[0]} {ratio:.2f}x" for peer, ratio in peers.items()))
        for name, peers in over_peers(timings).items()
    ]
    return align([("", "peers take"), *lines])


def overhead_table(overheads: Mapping[str, float]) -> str:
    return align([("", "us a call"), *((name, f"{value:.1f}") for name, value in overheads.items())])


def aims_table(aims: Sequence[Mapping[str, Any]]) -> str:
    rows = [("", "aim", "measured", "")]
    for aim in aims:
        measured = "-" if aim["measured"] is None else f"{aim['measured']:.2f}"
        bound = "none for this device" if aim["bound"] is None else f"{'<=' if aim['at_most'] else '>='} {aim['bound']:.2f}"
        rows.append((aim["text"], bound, measured, aim["verdict"]))
    return align(rows)
