"""Which cells the study is made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
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
    cells = {
        "grid": lambda: _grid(
            settings, [main] if settings.recorded else [main, _population(settings, "distinct")], settings.epsilons
        ),
        "sigmas": lambda: _sigmas(settings, [main], settings.sigmas),
        "cohorts": lambda: _cohorts(settings),
        "shares": lambda: _shares(settings),
        "sizes": lambda: _sizes(settings, main),
        "seeds": lambda: _seeds(settings),
    }
    possible = ("grid", "sigmas") if settings.recorded else tuple(cells)
    return {part: cells[part]() for part in settings.parts if part in possible}


def _population(settings: Settings, name: str) -> Population:
    strengths = COHORTS[name]
    return Population(name=name, strengths=strengths, dimension=settings.dimension, seed=settings.seed)


def _grid(
    settings: Settings,
    sources: Iterable[Source],
    epsilons: Sequence[float],
    mechanisms: Sequence[str] = LDP,
    maps: Sequence[str] = MAPS,
) -> list[Cell]:
    return [
        _cell(settings, source, public_map, mechanism, epsilon=epsilon)
        for source in sources
        for public_map in maps
        for mechanism in mechanisms
        for epsilon in epsilons
    ]


def _sigmas(settings: Settings, sources: Iterable[Source], sigmas: Sequence[float]) -> list[Cell]:
    return [
        _cell(settings, source, public_map, EMPIRICAL, sigma=sigma)
        for source in sources
        for public_map in MAPS
        for sigma in sigmas
    ]


def _cohorts(settings: Settings) -> list[Cell]:
    sources = [_population(settings, name) for name in settings.cohorts]
    sharing = [source for source in sources if source.strengths.mean > 0]
    return [
        *_grid(settings, sources, COHORT_EPSILONS, (PRIVUNIT, PRIVUNIT_CORPUS, "gaussian")),
        *_grid(settings, sharing, COHORT_EPSILONS, (PRIVUNIT, PRIVUNIT_CORPUS), (MEAN_ELSEWHERE,)),
        *_sigmas(settings, sources, (PUBLISHED_SIGMA,)),
    ]


def _shares(settings: Settings) -> list[Cell]:
    alone = _population(settings, "distinct")
    sources = [alone, *(replace(alone, name=f"mean {share:g}", strengths=Strengths(mean=share)) for share in MEAN_SHARES)]
    return _grid(settings, sources, (MAIN_EPSILON,), (PRIVUNIT, PRIVUNIT_CORPUS, "gaussian"), (NONE, MEAN))


def _sizes(settings: Settings, source: Source) -> list[Cell]:
    return [
        _cell(settings, source, WHITENED, mechanism, epsilon=epsilon, patients=size)
        for size in settings.sizes
        for mechanism in (PRIVUNIT, PRIVUNIT_CORPUS)
        for epsilon in (STRICT_EPSILON, MAIN_EPSILON)
    ]


def _seeds(settings: Settings) -> list[Cell]:
    """Distinct patients without a map, and those of the main cohort whitened: where top-1 is what one asks for."""
    cells = []
    for name, public_map in (("distinct", NONE), (MAIN_COHORT, WHITENED)):
        drawn = _population(settings, name)
        others = [replace(drawn, name=f"{name} #{number}", seed=settings.seed + number) for number in range(1, OTHER_SEEDS + 1)]
        cells += _grid(settings, others, (MAIN_EPSILON,), (PRIVUNIT, PRIVUNIT_CORPUS), (public_map,))
    return cells


def _cell(
    settings: Settings,
    source: Source,
    public_map: str,
    mechanism: str,
    *,
    epsilon: float | None = None,
    sigma: float | None = None,
    patients: int | None = None,
) -> Cell:
    return Cell(
        source=source,
        patients=settings.patients if patients is None else patients,
        public_map=public_map,
        mechanism=mechanism,
        epsilon=epsilon,
        sigma=sigma,
        # of another number of patients as many releases as of the usual one
        draws=settings.draws if patients is None else max(1, settings.draws * settings.patients // patients),
        **settings.model_dump(include={"public_rows", "delta", "seed", "confidence", "resamples"}),
    )
