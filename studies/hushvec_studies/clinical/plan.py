"""Which cells the study is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

from pydantic import Field

from hushvec_studies.clinical.cell import Cell
from hushvec_studies.clinical.cohort import COHORTS, DIMENSION, Population, Recorded, Source, Strengths
from hushvec_studies.clinical.contenders import (
    EMPIRICAL,
    LDP,
    MAPS,
    MEAN,
    MEAN_ELSEWHERE,
    NONE,
    PRIVUNIT,
    PRIVUNIT_CORPUS,
    WHITENED,
)
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.measurements import grid
from hushvec_studies.harness.settings import Listed, Positive, Several, Share, one_of

MAIN_COHORT = "clinical"
MAIN_EPSILON = 16.0
# What a source study calls strict, and the sigma that it recommends instead.
STRICT_EPSILON = 10.0
PUBLISHED_SIGMA = 0.2

EPSILONS = (1.0, 2.0, 5.0, 8.0, 10.0, 12.0, 14.0, 16.0, 20.0, 24.0, 32.0, 50.0, 100.0, 200.0)
COHORT_EPSILONS = (5.0, 10.0, 16.0, 20.0, 50.0)
SIGMAS = (0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0, 2.0)
MEAN_SHARES = (0.25, 0.5, 0.75, 0.9)
SIZES = (100, 300, 3000, 10_000)
OTHER_SEEDS = 4

# Part of the study -> what it asks.
PARTS = {
    "grid": "every mechanism at every epsilon",
    "sigmas": "empirical sigmas, and what they buy",
    "cohorts": "cohorts from distinct to hardly distinct",
    "shares": "how much of a vector patients share, against theory",
    "sizes": "how many patients there are",
    "seeds": "other populations of the same strengths",
    "agreement": "the cosine: theory against measurement",
}


AtLeastTwo = Annotated[int, Field(ge=2)]


class Settings(harness.Settings):
    """The study's arguments."""

    parts: Several[Annotated[str, one_of(PARTS)]] = Field(
        default=tuple(PARTS), description=f"of {', '.join(PARTS)}; files have the first two and the last"
    )
    cohorts: Several[Annotated[str, one_of(COHORTS)]] = Field(default=tuple(COHORTS), description=f"of {', '.join(COHORTS)}")
    patients: AtLeastTwo = Field(default=1000, description="how many")
    dimension: AtLeastTwo = Field(default=DIMENSION, description="of drawn patients")
    public_rows: AtLeastTwo = Field(default=4000, description="of drawn cohorts")
    epsilons: Several[Positive] = Field(default=EPSILONS, description="that mechanisms are asked for")
    sigmas: Several[Positive] = Field(default=SIGMAS, description="of empirical noise")
    sizes: Listed[AtLeastTwo] = Field(default=SIZES, description="further numbers of patients")
    delta: Share = Field(default=1e-5, description="of the Gaussian kinds")
    draws: Annotated[int, Field(ge=1)] = Field(default=5, description="releases of each patient")
    seed: Annotated[int, Field(ge=0)] = Field(default=2025, description="of patients, noise and resampling")
    confidence: Share = Field(default=0.95, description="of the intervals")
    resamples: Annotated[int, Field(ge=1)] = Field(default=1000, description="of the bootstrap")
    recorded: Recorded | None = None


def planned(settings: Settings) -> dict[str, list[Cell]]:
    """The cells of each part that is asked for. A cell may be in several.

    A recorded cohort has one strength and one size: of the drawn ones' parts it has "grid" and "sigmas".
    """
    main: Source = settings.recorded if settings.recorded is not None else _population(settings, MAIN_COHORT)
    cells = partial(_cells, settings)
    parts: dict[str, Callable[[], list[Cell]]] = {
        "grid": lambda: cells([main] if settings.recorded else [main, _population(settings, "distinct")], epsilons=settings.epsilons),
        "sigmas": lambda: cells([main], (EMPIRICAL,), sigmas=settings.sigmas),
        "cohorts": lambda: _cohorts(settings),
        "shares": lambda: _shares(settings),
        "sizes": lambda: [
            cell
            for size in settings.sizes
            for cell in cells([main], _OF_PRIVUNIT, (WHITENED,), epsilons=(STRICT_EPSILON, MAIN_EPSILON), patients=size)
        ],
        "seeds": lambda: _seeds(settings),
    }
    possible = ("grid", "sigmas") if settings.recorded else tuple(parts)
    return {part: parts[part]() for part in settings.parts if part in possible}


_OF_PRIVUNIT = (PRIVUNIT, PRIVUNIT_CORPUS)


def _population(settings: Settings, name: str) -> Population:
    return Population(name=name, strengths=COHORTS[name], dimension=settings.dimension, seed=settings.seed)


def _cohorts(settings: Settings) -> list[Cell]:
    sources = [_population(settings, name) for name in settings.cohorts]
    sharing = [source for source in sources if source.strengths.mean > 0]
    return [
        *_cells(settings, sources, (*_OF_PRIVUNIT, "gaussian"), epsilons=COHORT_EPSILONS),
        *_cells(settings, sharing, _OF_PRIVUNIT, (MEAN_ELSEWHERE,), epsilons=COHORT_EPSILONS),
        *_cells(settings, sources, (EMPIRICAL,), sigmas=(PUBLISHED_SIGMA,)),
    ]


def _shares(settings: Settings) -> list[Cell]:
    alone = _population(settings, "distinct")
    sources = [alone, *(replace(alone, name=f"mean {share:g}", strengths=Strengths(mean=share)) for share in MEAN_SHARES)]
    return _cells(settings, sources, (*_OF_PRIVUNIT, "gaussian"), (NONE, MEAN), epsilons=(MAIN_EPSILON,))


def _seeds(settings: Settings) -> list[Cell]:
    """Distinct patients without a map, and those of the main cohort whitened: where top-1 is what one asks for."""
    cells = []
    for name, public_map in (("distinct", NONE), (MAIN_COHORT, WHITENED)):
        drawn = _population(settings, name)
        others = [replace(drawn, name=f"{name} #{number}", seed=settings.seed + number) for number in range(1, OTHER_SEEDS + 1)]
        cells += _cells(settings, others, _OF_PRIVUNIT, (public_map,), epsilons=(MAIN_EPSILON,))
    return cells


def _cells(
    settings: Settings,
    sources: Iterable[Source],
    mechanisms: Sequence[str] = LDP,
    maps: Sequence[str] = MAPS,
    *,
    epsilons: Sequence[float | None] = (None,),
    sigmas: Sequence[float | None] = (None,),
    patients: int | None = None,
) -> list[Cell]:
    """Every mechanism at every price on every source behind every map. Of another number of patients there are as many releases as of
    the usual one."""
    count = settings.patients if patients is None else patients
    draws = settings.draws if patients is None else max(1, settings.draws * settings.patients // patients)
    given = settings.model_dump(include={"public_rows", "delta", "seed", "confidence", "resamples"})
    cell = partial(Cell, patients=count, draws=draws, **given)
    return grid(cell, source=sources, public_map=maps, mechanism=mechanisms, epsilon=epsilons, sigma=sigmas)
