"""Choosing: `hushvec recommend`, which mechanism keeps most at a price, before anything is spent; `hushvec sigma`, the Gaussian
mechanism as a calculator, in all three directions."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec.cli._files import Columns, all_rows
from hushvec.cli._output import answered, facts, table
from hushvec.cli._parser import Command, option
from hushvec.cli._style import paint, printable
from hushvec.mechanisms import MECHANISMS, PublicCodebook, PublicProjection, rounded_up
from hushvec.mechanisms.candidates import TASKS
from hushvec.mechanisms.recommend import Recommendation, recommend
from hushvec.noise.calibration import expected_cosine, gaussian_delta, gaussian_epsilon, gaussian_sigma

WIDTH = 80
SHOWN_DIGITS = 8


class Recommend(
    Command,
    name="recommend",
    examples=(
        ("vectors of 384 elements, to be searched among 10,000", "hushvec recommend --epsilon 8 --dimension 384 --n 10000"),
        ("pure epsilon only", "hushvec recommend --epsilon 4 --delta 0 --dimension 768 --task release"),
        ("a survey with 5 answers and 1,000 people", "hushvec recommend --epsilon 1 --task labels --labels 5 --n 1000"),
    ),
):
    """Compare the mechanisms that fit a task at a given epsilon. Nothing is drawn or charged.

    retrieval  the direction of a noisy vector matters (default)
    release    the vector itself matters, length and all
    mean       the mean over --n people, each with noise of their own
    labels     each person answers with one of --labels labels
    top_k      the --k best of many candidates by private scores"""

    epsilon: float = option("the price of one release to each person in it", required=True)
    delta: float = option("default 1e-5; 0: only mechanisms without delta", 1e-5)
    task: str = option("what the releases are for", "retrieval", choices=tuple(TASKS))
    dimension: int | None = option("elements in a vector; not for labels and top_k", metavar="D")
    n: int | None = option("people; for retrieval: other rows that a release is looked up among")
    labels: int | None = option("for labels: how many", metavar="K")
    k: int | None = option("for top_k: how many candidates are named")
    sensitivity: float | None = option("for top_k: the most that one score moves (default 2 clip_norm)")
    clip_norm: float = option("L2 norm that rows are clipped to", 1.0)
    any_length: bool = option("lengths of rows differ and matter; else all are unit vectors")
    rows_per_person: int = option("rows that one person contributes", 1, metavar="R")
    codebook: Path | None = option("for retrieval: a public codebook (hushvec codebook)", metavar="FILE")
    projection: Path | None = option("a public map, saved by PublicProjection.save", metavar="FILE")
    public_sample: Path | None = option("other public rows, to check codebook and map on", metavar="FILE")

    def run(self) -> int:
        if self.dimension is None and self.task not in ("labels", "top_k"):
            raise ValueError(f"--dimension must be given for --task {self.task}: elements in a vector")
        found = recommend(
            1 if self.dimension is None else self.dimension,
            self.epsilon,
            self.delta,
            task=self.task,
            clip_norm=self.clip_norm,
            unit_rows=not self.any_length,
            rows_per_person=self.rows_per_person,
            n=self.n,
            labels=self.labels,
            k=self.k,
            sensitivity=self.sensitivity,
            codebook=None if self.codebook is None else PublicCodebook.load(self.codebook),
            projection=None if self.projection is None else PublicProjection.load(self.projection),
            public_sample=None if self.public_sample is None else np.asarray(all_rows(self.public_sample, Columns()), np.float32),
        )
        return answered(self, _as_json(found), *_shown(found, self))


def _as_json(found: Recommendation) -> dict[str, Any]:
    return {
        "task": found.task,
        "mechanism": found.options[0].name,
        "why": found.why,
        "options": [
            {
                "mechanism": option.name,
                "cost": None if option.mechanism is None else list(option.mechanism.cost),
                "grade": option.grade,
                "figures": {name: float(value) for name, value in option.figures.items()},
                "remark": option.remark,
            }
            for option in found.options
        ],
    }


def _shown(found: Recommendation, options: Recommend) -> Iterator[str]:
    header, *rows = (row[:-1] for row in found.table)  # the remarks do not fit beside the figures
    first, best, *rest = table(header, rows).split("\n")
    yield from (first, paint("good", best), *rest)
    yield from (printable(f"  {option.name}: {option.remark}") for option in found.options if option.remark)
    yield ""
    yield from textwrap.wrap(printable(found.why), WIDTH, break_long_words=False, break_on_hyphens=False)
    if command := _next_command(found, options):
        yield from ("", f"{paint('title', 'Next')}  {paint('name', command)}")


def _next_command(found: Recommendation, options: Recommend) -> str | None:
    """The release that was recommended, if a command line can say it."""
    name, mechanism = found.options[0].name, found.mechanism
    if name not in MECHANISMS or options.rows_per_person != 1 or getattr(mechanism, "corpus_size", None) is not None:
        return None
    delta = f" --delta {options.delta:g}" if mechanism.cost[1] else ""
    clip_norm = "" if options.clip_norm == 1 else f" --clip-norm {options.clip_norm:g}"
    return f"hushvec privatize IN -o OUT --mechanism {name} --epsilon {options.epsilon:g}{delta}{clip_norm}"


# ---- sigma ----


class Sigma(
    Command,
    name="sigma",
    examples=(
        ("the noise for epsilon 8 at delta 1e-5", "hushvec sigma --epsilon 8"),
        (
            "what a sigma that you already use is worth, and what it leaves of 384 elements",
            "hushvec sigma --sigma 0.2 --delta 1e-6 --dimension 384",
        ),
    ),
):
    """Two of --epsilon, --delta and --sigma give the third (Balle and Wang 2018, theorem 8).
    With --epsilon alone, delta is 1e-5. The sensitivity is 2 clip_norm: a vector of norm at most
    clip_norm replaced by another one."""

    epsilon: float | None = option("of one release")
    delta: float | None = option("of one release (default 1e-5 with --epsilon alone)")
    sigma: float | None = option("standard deviation of the noise on every element")
    clip_norm: float | None = option("L2 norm that vectors are clipped to (default 1)", alone="size")
    sensitivity: float | None = option("L2 sensitivity itself, instead of --clip-norm", alone="size")
    dimension: int | None = option("also print the cosine to expect in D dimensions", metavar="D")

    def run(self) -> int:
        if self.sensitivity is not None:
            sensitivity = validate.positive("sensitivity", self.sensitivity)
            clip_norm = sensitivity / 2
        else:
            clip_norm = validate.positive("clip_norm", 1.0 if self.clip_norm is None else self.clip_norm)
            sensitivity = 2 * clip_norm
        computed, epsilon, delta, sigma = _solve(self.epsilon, self.delta, self.sigma, sensitivity)
        answer: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": delta,
            "sigma": sigma,
            "sensitivity": sensitivity,
            "clip_norm": clip_norm,
        }
        if self.dimension is not None:
            validate.whole_number("dimension", self.dimension, at_least=1)
            answer["dimension"] = self.dimension
            answer["expected_cosine"] = expected_cosine(sigma, self.dimension, clip_norm)
            answer["noise_norm"] = sigma * math.sqrt(self.dimension)
        if epsilon > 0 and delta < 1:
            classical = float(gaussian_sigma(epsilon, delta, sensitivity, method="classical", allow_unproven=True))
            answer["classical_sigma"] = classical
            answer["classical_delta"] = gaussian_delta(epsilon, classical, sensitivity)
        return answered(self, answer, facts(_lines(answer, computed)))


def _solve(
    epsilon: float | None, delta: float | None, sigma: float | None, sensitivity: float
) -> tuple[str, float, float, float]:
    """(name of the one that was computed, epsilon, delta, sigma)."""
    if delta is None and (epsilon is None) != (sigma is None):
        delta = 1e-5
    if epsilon is not None and delta is not None and sigma is None:
        return "sigma", epsilon, delta, float(gaussian_sigma(epsilon, delta, sensitivity))
    if sigma is not None and delta is not None and epsilon is None:
        found = float(gaussian_epsilon(delta, sigma, sensitivity))
        if not math.isfinite(found):
            raise ValueError(f"sigma must be large enough for a finite epsilon, got {sigma!r}")
        return "epsilon", found, delta, sigma
    if sigma is not None and epsilon is not None and delta is None:
        return "delta", epsilon, float(gaussian_delta(epsilon, sigma, sensitivity)), sigma
    raise ValueError("two of --epsilon, --delta and --sigma must be given, the third is computed")


def _lines(answer: dict[str, Any], computed: str) -> list[tuple[str, str]]:
    # What was computed is rounded up, so the printed digits are never less than it.
    up = f"{rounded_up(answer[computed], SHOWN_DIGITS):.{SHOWN_DIGITS}g}"
    lines = [
        *((name, up if name == computed else repr(answer[name])) for name in ("epsilon", "delta", "sigma")),
        ("sensitivity", f"{answer['sensitivity']:.6g} (L2, replace one vector of norm at most {answer['clip_norm']:.6g})"),
    ]
    if "dimension" in answer:
        cosine = f"{answer['expected_cosine']:.4f} in {answer['dimension']} dimensions; noise norm {answer['noise_norm']:.4g}"
        lines.append(("expected cosine", cosine))
    if "classical_sigma" in answer:
        verdict = "enough" if answer["classical_delta"] <= answer["delta"] else "NOT enough"
        given = f"actually gives delta = {answer['classical_delta']:.3g}: {verdict}"
        lines.append(("classical sigma", f"{answer['classical_sigma']:.6g}, which {given}"))
    return lines
