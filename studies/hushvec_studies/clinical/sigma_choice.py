"""An empirical sigma chosen on a hold-out and reported on the rest: cosine and top-1 over sigma.

    python -m hushvec_studies.clinical.sigma_choice -o folder
    python -m hushvec_studies.clinical.sigma_choice -o folder --rows embeddings.npy

Every collection is split in two halves. On the hold-out each sigma is tried, and the largest one is chosen at which the interval of
top-1 lies above `--wanted`, as it does at every smaller sigma. The rest, which had no part in the choice, is then measured at all
sigmas. Collections: the records that ship with hushvec, by MiniLM, no person in both halves; the drawn cohorts `clinical` and
`distinct` of 1920 dimensions; or the rows of a file.

The choice is one of utility: what a sigma costs in epsilon stands beside it. Noise comes from a seed: these are measurements, and no
private releases.
"""

from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from hushvec.data import records
from hushvec_studies.clinical.cell import Cell, measure
from hushvec_studies.clinical.cohort import COHORTS, Population, Recorded
from hushvec_studies.clinical.contenders import EMPIRICAL, NONE
from hushvec_studies.clinical.findings import share
from hushvec_studies.clinical.plan import PUBLISHED_SIGMA
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.charts import INK, Figure, Panel, Series, svg_of
from hushvec_studies.harness.measurements import grid, measured
from hushvec_studies.harness.outputs import surroundings, write_csv, write_study, write_text
from hushvec_studies.harness.settings import Several, Share, as_json, parsed
from hushvec_studies.harness.tables import Estimate

SIGMAS = (0.01, 0.02, 0.05, 0.1, 0.11, 0.12, 0.13, 0.14, 0.15, 0.16, 0.17, 0.18, 0.19, 0.2, 0.25, 0.3, 0.5, 1.0)
HOLD_OUT, REST = "hold-out", "rest"
DRAWN = ("clinical", "distinct")
SHIPPED = "records"
NAME = "sigma_choice"

Row = Mapping[str, Any]
Unit = NDArray[np.float32]


class Settings(harness.Settings):
    """Arguments of the program."""

    sigmas: Several[Annotated[float, Field(gt=0)]] = Field(default=SIGMAS, description="that are tried")
    wanted: Share = Field(default=0.95, description="top-1 that the interval on the hold-out must lie above")
    patients: Annotated[int, Field(ge=2)] = Field(default=1000, description="of each half of a drawn cohort")
    draws: Annotated[int, Field(ge=1)] = Field(default=5, description="releases of each row")
    delta: Share = Field(default=1e-5, description="at which a sigma's epsilon is stated")
    seed: Annotated[int, Field(ge=0)] = Field(default=2025, description="of halves, noise and resampling")
    confidence: Share = Field(default=0.95, description="of the intervals")
    resamples: Annotated[int, Field(ge=1)] = Field(default=1000, description="of the bootstrap")


@dataclass(frozen=True)
class Half:
    """One half of a collection, as a source of rows."""

    name: str
    part: str
    rows: Unit = field(hash=False, compare=False)
    digest: str

    @classmethod
    def of(cls, name: str, part: str, rows: Unit) -> Half:
        return cls(name, part, rows, hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest())

    @property
    def key(self) -> dict[str, Any]:
        return {"half": self.part, "rows": self.digest}

    def patients(self, count: int) -> Unit:
        return self.rows[:count]

    def public(self, count: int, patients: int) -> Unit:
        return self.rows[:0]


def halves_of_records(embed: Any, seed: int) -> tuple[Half, Half]:
    """The records that ship: the two halves have no person in common."""
    people = sorted({record.person for record in records()})
    random.Random(seed).shuffle(people)
    first = set(people[: len(people) // 2])
    rows = np.asarray(embed([record.text for record in records()]), np.float32)
    inside = np.array([record.person in first for record in records()])
    return _halves(SHIPPED, rows[inside], rows[~inside])


def halves_of_drawn(name: str, patients: int, seed: int) -> tuple[Half, Half]:
    rows = Population(name=name, strengths=COHORTS[name], seed=seed).patients(2 * patients)
    return _halves(f"{name}, 1920 dimensions", rows[:patients], rows[patients:])


def halves_of_file(path: Path, seed: int) -> tuple[Half, Half]:
    """Rows of a file in random order; errors as for `hushvec study clinical --rows`."""
    recorded = Recorded(path)
    rows = recorded.patients(len(recorded))[np.random.default_rng(seed).permutation(len(recorded))]
    return _halves(path.name, rows[: len(rows) // 2], rows[len(rows) // 2 :])


def _halves(name: str, first: Unit, second: Unit) -> tuple[Half, Half]:
    return Half.of(name, HOLD_OUT, first), Half.of(name, REST, second)


def cells_of(half: Half, settings: Settings) -> list[Cell]:
    given = settings.model_dump(include={"delta", "draws", "seed", "confidence", "resamples"})
    kind: dict[str, Any] = {"public_map": NONE, "public_rows": 0, "mechanism": EMPIRICAL, "epsilon": None}
    return grid(partial(Cell, source=half, patients=len(half.rows), **kind, **given), sigma=sorted(settings.sigmas))


def chosen(rows: Iterable[Row], wanted: float) -> float | None:
    """The largest sigma whose interval of top-1 on a hold-out lies above `wanted`, as it does at every smaller one; None:
    none."""
    best = None
    for row in sorted(rows, key=lambda row: row["sigma"]):
        if row["top_1_low"] <= wanted:
            break
        best = float(row["sigma"])
    return best


def study_of(pairs: Sequence[tuple[Half, Half]], settings: Settings, folder: Path) -> dict[str, Any]:
    """Measure what is not there yet, and describe it: what sigma_choice.json holds."""
    wanted = [(cell, half) for pair in pairs for half in pair for cell in cells_of(half, settings)]
    made = measured([(cell, measure) for cell, _ in wanted], folder, "measuring").rows
    rows = [{"part": half.part} | {name: made[cell.digest][name] for name in _SHOWN} for cell, half in wanted]
    return {
        "settings": as_json(settings),
        "surroundings": surroundings(),
        "choices": [_choice(first.name, rows, settings.wanted) for first, _ in pairs],
        "rows": rows,
    }


_FIGURES = ("top_1", "top_1_low", "top_1_high", "cosine", "cosine_low", "cosine_high", "cosine_theory")
_SHOWN = ("cohort", "patients", "draws", "dimension", "sigma", *_FIGURES, "true_epsilon", "true_delta")


def _choice(cohort: str, rows: Sequence[Row], wanted: float) -> dict[str, Any]:
    """What was chosen for a collection, on both halves, and the published sigma on the rest."""
    own = [row for row in rows if row["cohort"] == cohort]
    sigma = chosen((row for row in own if row["part"] == HOLD_OUT), wanted)
    said: dict[str, Any] = {"cohort": cohort, "wanted": wanted, "sigma": sigma}
    for name, part, at in (("hold_out", HOLD_OUT, sigma), ("rest", REST, sigma), ("published", REST, PUBLISHED_SIGMA)):
        row = next((row for row in own if row["part"] == part and row["sigma"] == at), None)
        said[name] = None if row is None else {key: row[key] for key in ("sigma", *_FIGURES, "true_epsilon", "true_delta")}
    return said


def sentences(study: Mapping[str, Any]) -> list[str]:
    told = []
    for one in study["choices"]:
        if one["sigma"] is None:
            told.append(f"{one['cohort']}: no sigma that was tried is shown to have a top-1 above {one['wanted']} on the hold-out.")
            continue
        rest = one["rest"]
        kept = "keeps" if rest["top_1_low"] > one["wanted"] else "is not shown to keep"
        told.append(
            f"{one['cohort']}: sigma {one['sigma']:g} was chosen on the hold-out; on the rest it {kept} a top-1 above "
            f"{one['wanted']}: {share(rest)}, cosine {rest['cosine']:.3f}. "
            f"It costs epsilon {rest['true_epsilon']:.4g} at delta {rest['true_delta']:g}, and whoever holds the rows identifies "
            "as many."
        )
    return told


def figure_of(study: Mapping[str, Any]) -> Figure:
    """Cosine and top-1 over sigma, a panel for each collection, a vertical line at the choice."""
    panels = []
    for one in study["choices"]:
        own = [row for row in study["rows"] if row["cohort"] == one["cohort"]]
        panels.append(
            Panel(
                title=one["cohort"],
                series=(
                    *(
                        _line(f"{label}, {part}", [row for row in own if row["part"] == part], measure, style, kind)
                        for style, (label, measure) in enumerate((("top-1", "top_1"), ("cosine", "cosine")))
                        for part, kind in ((HOLD_OUT, "points"), (REST, "curve"))
                    ),
                    *_mark(one["sigma"]),
                ),
                levels=(("wanted", Estimate(one["wanted"])),),
            )
        )
    return Figure(
        name=NAME,
        folder="",
        title="Cosine and top-1 over sigma; the line is the choice on the hold-out",
        caption="",
        panels=tuple(panels),
        x_label="sigma (log scale)",
        y_label="top-1 and cosine",
        ticks=tuple((tick, f"{tick:g}") for tick in (0.01, 0.03, 0.1, 0.3, 1.0)),
        log_x=True,
        y_range=(0.0, 1.0),
        columns=3,
    )


def _line(label: str, rows: Sequence[Row], measure: str, style: int, kind: str) -> Series:
    return Series(
        label=label,
        x=tuple(Estimate(row["sigma"]) for row in rows),
        y=tuple(Estimate(row[measure], row[f"{measure}_low"], row[f"{measure}_high"]) for row in rows),
        style=style,
        kind=kind,
    )


def _mark(sigma: float | None) -> list[Series]:
    """A vertical line at the choice."""
    if sigma is None:
        return []
    return [Series("chosen", (Estimate(sigma), Estimate(sigma)), (Estimate(0.0), Estimate(1.0)), style=INK, kind="theory")]


def _pairs(rows: Path | None, settings: Settings) -> list[tuple[Half, Half]]:
    if rows is not None:
        return [halves_of_file(rows, settings.seed)]
    from hushvec.embedders.minilm import MiniLMEmbedder

    drawn = [halves_of_drawn(name, settings.patients, settings.seed) for name in DRAWN]
    return [halves_of_records(MiniLMEmbedder().embed, settings.seed), *drawn]


class Arguments(Settings):
    """Of the command line."""

    output: Path = Field(description="folder of the study")
    rows: Path | None = Field(default=None, description="an .npy file of embeddings instead of the collections above")


def main() -> None:
    settings = parsed(__doc__ or "", Arguments)
    try:
        pairs = _pairs(settings.rows, settings)
    except (TypeError, ValueError, OSError) as error:
        sys.exit(f"sigma_choice: {error}")
    study = study_of(pairs, settings, settings.output)
    write_study(settings.output / f"{NAME}.json", study)
    write_csv(settings.output / f"{NAME}.csv", study["rows"])
    write_text(settings.output / f"{NAME}.svg", svg_of(figure_of(study)))
    print("\n".join(sentences(study)))


if __name__ == "__main__":
    main()
