"""Adds a run to a history of ratios, one line of JSON for each run, and draws all of it.

    python bench/python/run.py --workloads gaussian_fill clip_and_noise --out build/run.json
    python bench/python/history.py build/run.json --commit COMMIT --history build/speed      # history.jsonl and history.svg there

A line has the date, the commit, the processor, and the ratios that claims are about, of two times taken next to each other: mostly a
peer's over hushvec's. They depend less on clock and load than times do, but still on the processor, so that each has its own color.
"""

from __future__ import annotations

import argparse
import datetime
import html
import json
import math
import sys
from pathlib import Path
from typing import Any, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from scripts.draw_pictures import dots, line, picture, text  # noqa: E402

Entry = dict[str, Any]
# Colors that people with color blindness tell apart (Okabe and Ito 2008).
COLORS = ("#0a66b0", "#c4500b", "#007a5e", "#9b5a8c", "#8a6d00", "#4c9fd6")
INK, FAINT = "#1f2328", "#59636e"
WIDTH, LEFT, RIGHT, ROW, CURVE = 880, 16, 780, 62, 34   # pixels; a row is a line of text and, below it, a curve


def entry(record: dict[str, Any], commit: str) -> Entry:
    """The line of a run.

    Args:
        record: what `run.py --out` writes.

    Raises:
        ValueError: the run was a quick one, whose sizes are not those of the claims, or has no ratio.
    """
    if record["settings"]["quick"]:
        raise ValueError("the run must have the sizes of the claims, got one with --quick")
    ratios = {claim["text"]: round(claim["measured"], 4) for claim in record["claims"]
              if claim["measured"] is not None and " over " in claim["text"]}
    if not ratios:
        raise ValueError(f"the run must have a ratio that a claim is about, got {len(record['claims'])} claims without")
    machine, backends = record["machine"], record["software"]["hushvec_backends"]
    name = f"{machine['cpu']}, {machine['cores']} cores, {backends['active']}"
    return {"date": record["date"], "commit": commit, "machine": name, "ratios": ratios}


def read(path: Path) -> list[Entry]:
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def svg(entries: Sequence[Entry]) -> str:
    """A row for each claim that the newest run measured: its ratio by date, on a logarithmic axis of its own, and the newest number."""
    machines = list(dict.fromkeys(one["machine"] for one in entries))
    colors = {name: COLORS[index % len(COLORS)] for index, name in enumerate(machines)}
    days = [datetime.date.fromisoformat(one["date"]).toordinal() for one in entries]
    claims = list(entries[-1]["ratios"])
    parts = [text((LEFT, 22 + 18 * index), html.escape(name), colors[name]) for index, name in enumerate(machines)]
    top = 34 + 18 * len(machines)
    for index, claim in enumerate(claims):
        parts += _row(claim, entries, days, colors, top + ROW * index)
    bottom = top + ROW * len(claims) + 16
    parts += [text((LEFT, bottom), entries[days.index(min(days))]["date"], FAINT),
              text((RIGHT, bottom), entries[days.index(max(days))]["date"], FAINT, "end")]
    height = bottom + 16
    background = f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    return picture(WIDTH, height, "Ratios of hushvec to other libraries by date", [background, *parts])


def _row(claim: str, entries: Sequence[Entry], days: Sequence[int], colors: dict[str, str], top: int) -> list[str]:
    found = [(day, one["ratios"][claim], one["machine"]) for day, one in zip(days, entries) if claim in one["ratios"]]
    low, high = min(ratio for _, ratio, _ in found) / 1.05, max(ratio for _, ratio, _ in found) * 1.05

    def at(day: int, ratio: float) -> tuple[float, float]:
        share = (day - min(days)) / max(1, max(days) - min(days))
        return LEFT + (RIGHT - LEFT) * share, top + ROW - 8 - CURVE * math.log(ratio / low) / math.log(high / low)

    parts = [text((LEFT, top + 12), html.escape(claim), INK)]
    for name, color in colors.items():
        points = [at(day, ratio) for day, ratio, machine in found if machine == name]
        parts += [*([line(points, color, 1.5)] if len(points) > 1 else []), *dots(points, color)]
    _, newest, machine = found[-1]
    return [*parts, text((WIDTH - 16, top + 32), f"{newest:.2f}", colors[machine], "end", ' font-weight="bold"'),
            text((WIDTH - 16, top + 48), f"{low * 1.05:.2f} to {high / 1.05:.2f}", FAINT, "end", ' font-size="11"')]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="what run.py --out wrote")
    parser.add_argument("--commit", required=True, help="what was measured")
    parser.add_argument("--history", type=Path, required=True, help="folder of history.jsonl and history.svg")
    options = parser.parse_args(arguments)
    try:
        newest = entry(json.loads(options.run.read_text(encoding="utf-8")), options.commit)
    except ValueError as error:
        parser.error(str(error))
    options.history.mkdir(parents=True, exist_ok=True)
    entries = [*read(options.history / "history.jsonl"), newest]
    (options.history / "history.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in entries), encoding="utf-8")
    (options.history / "history.svg").write_text(svg(entries), encoding="utf-8")
    print(f"{len(entries)} runs in {options.history / 'history.svg'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
