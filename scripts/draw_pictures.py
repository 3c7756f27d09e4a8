"""Draws pictures of README.md and docs, for light and for dark pages, from measured data; and the data of the charts of `hushvec ui`.

    python scripts/draw_pictures.py            # writes docs/pictures and python/hushvec/serve/page/study.json
    python scripts/draw_pictures.py --check    # writes nothing; exit code 1 names what differs

    utility_and_attack, study.json    from studies/hushvec_studies/overview/results/utility_and_attack.json
    aggregates                        from studies/hushvec_studies/aggregates/results/aggregates.json
    protections                       from studies/hushvec_studies/protections/results/protections.json
    speed                             from bench/results/amd-epyc-2-cores.json
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs/pictures"
PAGE_DATA = ROOT / "python/hushvec/serve/page/study.json"
STUDY = ROOT / "studies/hushvec_studies/overview/results/utility_and_attack.json"
AGGREGATES = ROOT / "studies/hushvec_studies/aggregates/results/aggregates.json"
PROTECTIONS = ROOT / "studies/hushvec_studies/protections/results/protections.json"
SPEED = ROOT / "bench/results/amd-epyc-2-cores.json"
Point = tuple[float, float]


@dataclass(frozen=True)
class Theme:
    """Colors on a page of one kind; the pictures have no background of their own. Okabe and Ito's for lines, lighter on dark."""

    ink: str
    faint: str
    grid: str
    codebook: str
    privunit: str
    gaussian: str
    peer: str


THEMES = {
    "light": Theme("#1f2328", "#59636e", "#d1d9e0", "#007a5e", "#0a66b0", "#c4500b", "#9aa3ad"),
    "dark": Theme("#f0f6fc", "#9198a1", "#3d444d", "#2fc39a", "#58a6ff", "#f0883e", "#656c76"),
}


def text(at: Point, words: str, color: str, anchor: str = "start", extra: str = "") -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1]:.1f}" fill="{color}" text-anchor="{anchor}"{extra}>{words}</text>'


def line(points: Iterable[Point], color: str, width: float = 2.0, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="{width:g}"{dashed} stroke-linejoin="round"/>'


def dots(points: Iterable[Point], color: str) -> list[str]:
    return [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">\n<title>{title}</title>\n'
            f"{body}\n</svg>\n")


# ---- utility and attack over epsilon

LINES = (("codebook", "public codebook"), ("privunit", "PrivUnit"), ("gaussian", "Gaussian"))
TICKS = (1, 2, 4, 8, 16, 24)
TOP, BOTTOM, PANEL = 62, 268, 270


@dataclass(frozen=True)
class Panel:
    """Shares in percent over epsilon or another measure, whose axis is logarithmic unless it begins with 0."""

    left: float
    ticks: tuple[float, ...] = TICKS
    unit: str = "epsilon"

    def at(self, place: float, share: float) -> Point:
        first, last = self.ticks[0], self.ticks[-1]
        along = math.log(place / first) / math.log(last / first) if first else place / last
        return self.left + PANEL * along, BOTTOM - (BOTTOM - TOP) * share

    def frame(self, theme: Theme, title: str, subtitle: str) -> list[str]:
        parts = [text((self.left, 22), title, theme.ink, extra=' font-weight="600" font-size="15"'),
                 text((self.left, 42), subtitle, theme.faint)]
        for percent in (0, 25, 50, 75, 100):
            left, right = self.at(self.ticks[0], percent / 100), self.at(self.ticks[-1], percent / 100)
            parts += [line([left, right], theme.grid, 1), text((self.left - 8, left[1] + 4), f"{percent} %", theme.faint, "end")]
        parts += [text((self.at(tick, 0)[0], BOTTOM + 19), f"{tick:g}", theme.faint, "middle") for tick in self.ticks]
        return [*parts, text((self.left + PANEL / 2, BOTTOM + 38), self.unit, theme.faint, "middle")]

    def reference(self, theme: Theme, share: float, words: str, above: bool = True) -> list[str]:
        ends = [self.at(self.ticks[0], share), self.at(self.ticks[-1], share)]
        return [line(ends, theme.faint, 1, "4 4"), text((ends[0][0] + 4, ends[0][1] + (-6 if above else 15)), words, theme.faint)]


def labels(ends: Sequence[tuple[Point, str, str]]) -> list[str]:
    """(end of a line, its name, its color): names beside the ends, apart from each other."""
    parts, lowest = [], 0.0
    for (x, y), words, color in sorted(ends, key=lambda one: one[0][1]):
        lowest = max(y + 4, lowest + 16)
        parts.append(text((x + 8, lowest), words, color, extra=' font-weight="600"'))
    return parts


def utility_and_attack(theme: Theme) -> str:
    """Two panels: what is found in released rows, and who is recognized in them."""
    study = json.loads(STUDY.read_text(encoding="utf-8"))
    rows, people = study["rows"], study["private"]
    clean = next(row for row in rows if row["mechanism"] == "none")["utility"][0]
    found, recognized = Panel(56), Panel(520)
    parts = found.frame(theme, "What search finds", "posts on the same topic among the 10 nearest released rows")
    parts += found.reference(theme, clean, "no noise")
    parts += found.reference(theme, study["utility_by_chance"], "by chance", above=False)
    parts += recognized.frame(theme, "Who is recognized", f"right one of {people:,} named, with all clean rows at hand")
    bound = [(epsilon, 1 / (1 + (people - 1) * math.exp(-epsilon))) for epsilon in [1 + 23 * step / 60 for step in range(61)]]
    parts.append(line([recognized.at(*one) for one in bound], theme.faint, 1.5, "4 4"))
    parts.append(text((recognized.at(7.2, 0.60)[0] - 4, recognized.at(7.2, 0.60)[1]), "most that epsilon allows", theme.faint, "end"))
    for panel, measure in ((found, "utility"), (recognized, "attack")):
        names: list[tuple[Point, str, str]] = []
        for name, label in LINES:
            color = getattr(theme, name)
            places = [panel.at(row["epsilon"], row[measure][0]) for row in rows if row["mechanism"] == name]
            parts += [line(places, color), *dots(places, color)]
            names.append((places[-1], label, color))
        parts += labels(names)
    return picture(940, 320, "Search quality and re-identification by epsilon, for three mechanisms", parts)


# ---- classifiers of many people's rows over epsilon

LEARNED = (
    ("private_classifier", "private_classifier", "codebook"),
    ("class_centroids", "class_centroids", "privunit"),
    ("public codebook", "codebook rows*", "peer"),
    ("privunit", "PrivUnit rows", "gaussian"),
)
COLLECTIONS = {"banking77": "Banking77", "newsgroups": "20 Newsgroups"}


def aggregates(theme: Theme) -> str:
    """Two panels, a collection in each: accuracy of what is learned from aggregates and from released rows."""
    study = json.loads(AGGREGATES.read_text(encoding="utf-8"))
    best = lambda row: max(row["accuracy"].values())[0]
    parts: list[str] = []
    for left, (name, title) in zip((56, 520), COLLECTIONS.items()):
        panel = Panel(left, tuple(study["settings"]["epsilons"]))
        (about,) = (one for one in study["collections"] if one["name"] == name)
        rows = [row for row in study["rows"] if row["collection"] == name]
        parts += panel.frame(theme, title, f"accuracy of {about['classes']} classes, from {about['people']:,} people's rows")
        clean = max(best(row) for row in rows if row["epsilon"] is None)
        parts += panel.reference(theme, clean, "logistic regression, no noise")
        names: list[tuple[Point, str, str]] = []
        for method, label, shade in LEARNED:
            color = getattr(theme, shade)
            places = [panel.at(row["epsilon"], best(row)) for row in rows if row["method"] == method]
            parts += [line(places, color), *dots(places, color)]
            names.append((places[-1], label, color))
        parts += labels(names)
    parts.append(text((56, 336), "* codes are fitted on half of the rows, which are public then", theme.faint))
    return picture(940, 348, "Accuracy of classifiers by epsilon, from aggregates and from released rows", parts)


# ---- protected rows: who is named with so many known pairs, and against what the rows are good for

BY_PAIRS = (
    ("rotation", "rotation", "gaussian"),
    ("dcpe-2.5", "encryption, 2.5", "peer"),
    ("sign-bits", "sign bits", "ink"),
    ("noise-0.1", "noise, 0.1", "faint"),
    ("privunit-16", "PrivUnit, 16", "privunit"),
)
BESIDE = {  # a point's name, and where it stands
    "rotation": ("all others", -46, 24), "noise-0.1": ("noise, 0.1", 7, 4), "privunit-16": ("PrivUnit, 16", 7, 4),
    "privunit-8": ("PrivUnit, 8", -6, -9), "codebook-8": ("codebook, 8", 7, 4),
}
NAMING = ("same space: rows named", "known pairs: rows named", "no pairs: rows named")


def protections(theme: Theme) -> str:
    """Two panels of the first collection: rows named over known pairs, and over what a search keeps where it keeps more."""
    study = json.loads(PROTECTIONS.read_text(encoding="utf-8"))
    about = study["collections"][0]
    lines = [one for one in study["lines"] if one["collection"] == about["name"]]
    pairs = study["settings"]["pairs"]
    by_pairs, by_use = Panel(56, (pairs[0], 100, pairs[-1]), "known pairs"), Panel(600, (0, 0.25, 0.5, 0.75, 1), "first ten kept")
    parts = by_pairs.frame(theme, "Who is named with known pairs", f"of {about['rows']:,} rows, behind a map learned from the pairs")
    parts += by_use.frame(theme, "Who is named, and what is kept", "by the attack that names most, against a search's first ten")
    names: list[tuple[Point, str, str]] = []
    for name, label, shade in BY_PAIRS:
        color = getattr(theme, shade)
        own = [one for one in lines if one["protection"] == name and one["what"] == NAMING[1]]
        places = [by_pairs.at(one["pairs"], one["value"][0]) for one in own]
        parts += [line(places, color), *dots(places, color)]
        names.append((places[-1], label, color))
    parts += labels(names)
    for one in study["protections"]:
        if one["collection"] != about["name"]:
            continue
        own = [found for found in lines if found["protection"] == one["protection"]]
        kept = max(found["value"][0] for found in own if found["what"].startswith("first ten kept"))
        at = by_use.at(kept, max(found["value"][0] for found in own if found["what"] in NAMING))
        color = theme.gaussian if one["epsilon"] is None else theme.privunit
        words, right, below = BESIDE.get(one["protection"], ("", 0, 0))
        parts += [*dots([at], color), text((at[0] + right, at[1] + below), words, color, extra=' font-weight="600"')]
    return picture(980, 320, "Rows named in protected vectors, by known pairs and by what a search keeps", parts)


# ---- search and attack for the page of the service, which is installed without the studies

DECIMALS = 5  # one of 3,047 posts is 0.00033


def page_data() -> str:
    """The shares of the study as the page reads them: one list per line of its charts."""
    study = json.loads(STUDY.read_text(encoding="utf-8"))
    rows = study["rows"]
    share = lambda number: round(number, DECIMALS)
    lines = []
    for name, _ in LINES:
        own = [row for row in rows if row["mechanism"] == name]
        lines.append({
            "mechanism": name,
            "epsilons": [row["epsilon"] for row in own],
            "on_topic": [share(row["utility"][0]) for row in own],
            "recognized": [share(row["attack"][0]) for row in own],
        })
    clean = next(row for row in rows if row["mechanism"] == "none")["utility"][0]
    fields = {"public": study["public"], "private": study["private"], "clean": share(clean),
              "chance": share(study["utility_by_chance"]), "lines": lines}
    return json.dumps(fields, separators=(",", ":")) + "\n"


# ---- speed

BARS = (
    ("hushvec exact aes256", "hushvec", "exact noise from a secure generator"),
    ("numpy blocks + MKL ARS5", "numpy + MKL", "neither exact nor secure"),
    ("numpy blocks + AES-256-CTR", "numpy + OpenSSL AES", "secure, not exact"),
    ("torch in place", "torch, in place", "neither exact nor secure"),
    ("torch eager", "torch", "neither exact nor secure"),
)
BAR_LEFT, BAR_WIDTH, BAR_STEP, BAR_TOP = 170, 430, 30, 62


def ns_of(record: dict[str, Any], workload: str, contestant: str) -> float:
    one = record["workloads"][workload]["contestants"][contestant]
    return statistics.median(one["turns_ns"]) / (one["calls_per_turn"] * one["items_per_call"])


def speed(theme: Theme) -> str:
    """Bars of ns per element, and the one that would not fit in words."""
    record = json.loads(SPEED.read_text(encoding="utf-8"))
    times = [ns_of(record, "clip_and_noise", name) for name, _, _ in BARS]
    longest = max(times)
    parts = [text((0, 22), "Clip and noise, ns per element", theme.ink, extra=' font-weight="600" font-size="15"'),
             text((0, 42), "10,000 x 768 float32, one thread of an AMD EPYC (Zen 4); shorter is better", theme.faint)]
    for place, ((_, label, kind), ns) in enumerate(zip(BARS, times)):
        y = BAR_TOP + BAR_STEP * place
        color = theme.codebook if place == 0 else theme.peer
        width = BAR_WIDTH * ns / longest
        parts += [text((BAR_LEFT - 10, y + 15), label, theme.ink, "end", ' font-weight="600"' if place == 0 else ""),
                  f'<rect x="{BAR_LEFT}" y="{y}" width="{width:.1f}" height="21" rx="3" fill="{color}"/>',
                  text((BAR_LEFT + width + 8, y + 15), f"{ns:.2f}", theme.ink),
                  text((BAR_LEFT + width + 44, y + 15), kind, theme.faint)]
    y = BAR_TOP + BAR_STEP * len(BARS)
    opendp = f"{ns_of(record, 'gaussian_fill', 'OpenDP'):,.0f} for the noise alone; exact and secure"
    copy = f"a copy of the same arrays takes {ns_of(record, 'clip_and_noise', 'memcpy (no noise)'):.2f}"
    parts += [text((BAR_LEFT - 10, y + 15), "OpenDP", theme.ink, "end"), text((BAR_LEFT, y + 15), opendp, theme.ink),
              text((BAR_LEFT, y + 42), copy, theme.faint)]
    return picture(880, y + 56, "Time per element of clip-and-noise by hushvec and other libraries", parts)


DRAWN: dict[str, Callable[[Theme], str]] = {
    "utility_and_attack": utility_and_attack, "aggregates": aggregates, "protections": protections, "speed": speed,
}


def published() -> dict[Path, str]:
    """What the files should hold."""
    pictures = {PICTURES / f"{name}_{shade}.svg": draw(theme) for name, draw in DRAWN.items() for shade, theme in THEMES.items()}
    return {**pictures, PAGE_DATA: page_data()}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file differs from the data")
    check = parser.parse_args(arguments).check
    holds = lambda path, content: path.exists() and path.read_text(encoding="utf-8") == content
    differing = [(path, content) for path, content in published().items() if not holds(path, content)]
    for path, content in differing:
        if check:
            print(f"{path.relative_to(ROOT)} differs from its data: run scripts/draw_pictures.py", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(content, encoding="utf-8")
    return 1 if check and differing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
