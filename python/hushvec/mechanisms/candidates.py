"""What `recommend` chooses from: the mechanisms for each task, their arguments, and the figures that rank them."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hushvec._util.statistics import norm_sf

if TYPE_CHECKING:
    from hushvec.mechanisms import CodebookFit, PublicCodebook

TOP_1 = "ideal top-1"

# The sum over a normal law: the trapezoid rule on it is right to many digits with these.
_TAIL, _STEP = 9.0, 2.0**-6

# Above this many labels per e^epsilon, randomized response is no longer the best way to learn frequencies.
_UNARY_IS_BETTER_FROM = 3.0


@dataclass(frozen=True)
class Option:
    """One mechanism that was looked at.

    Args:
        name: of the mechanism.
        mechanism: the object, ready for use; None where it cannot be had at this price.
        grade: "exact" or "float"; "" where it cannot be had.
        figures: what it gives, by name; empty where it cannot be had.
        merit: the figure that ranks, larger is better.
        remark: why it cannot be had, or what to know about it; may be empty.
    """

    name: str
    mechanism: Any
    grade: str
    figures: dict[str, float]
    merit: float
    remark: str

    @property
    def claims_privacy(self) -> bool:
        """Whether released bits carry the guarantee."""
        return self.grade == "exact"


@dataclass(frozen=True, kw_only=True)
class Request:
    dimension: int
    epsilon: float
    delta: float
    task: str
    clip_norm: float
    unit_rows: bool
    rows_per_person: int
    n: int | None
    labels: int | Sequence[Hashable] | None
    k: int | None
    sensitivity: float | None
    codebook: PublicCodebook | None
    codebook_fit: CodebookFit | None

    @property
    def row_setting(self) -> dict[str, Any]:
        return {"dimension": self.dimension, "clip_norm": self.clip_norm, "rows_per_person": self.rows_per_person}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the candidates table. The class is looked up by name in hushvec.mechanisms when it is needed."""

    name: str
    class_name: str
    arguments: Callable[[Request], dict[str, Any]]
    figures: Callable[[Any, Request], dict[str, float]]
    grade: Callable[[Any], str] = lambda mechanism: str(mechanism.grade)
    obstacle: Callable[[Request], str] = lambda request: ""
    remark: Callable[[Request], str] = lambda request: ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is compared, and the sentence that reports it.

    Args:
        entries: the candidates.
        ranked_by: the figure that ranks.
        larger_is_better: whether more of it is better.
        needs: optional arguments of `recommend` that it cannot do without.
        takes: those that it also uses.
    """

    entries: tuple[Entry, ...]
    ranked_by: str
    larger_is_better: bool
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _row_figures(mechanism: Any, request: Request) -> dict[str, float]:
    figures = {"expected cosine": float(mechanism.expected_cosine()), "noise norm": float(mechanism.noise_norm)}
    if request.task == "mean":
        assert request.n is not None
        figures["standard error"] = figures["noise norm"] / math.sqrt(request.n * request.rows_per_person)
    return figures


def _noise_figures(mechanism: Any, request: Request) -> dict[str, float]:
    figures = _row_figures(mechanism, request)
    return figures if not has_corpus(request) else {TOP_1: _ideal_top_1(mechanism, request.n or 0), **figures}


def _direction_figures(mechanism: Any, request: Request) -> dict[str, float]:
    figures = _row_figures(mechanism, request)
    if not has_corpus(request):
        return figures
    from hushvec.mechanisms.privunit import top_1_probability

    return {TOP_1: top_1_probability(mechanism.cap_probability, mechanism.threshold, request.n or 0), **figures}


def has_corpus(request: Request) -> bool:
    return request.task == "retrieval" and request.n is not None


def _ideal_top_1(mechanism: Any, others: int) -> float:
    """Probability that a release is nearer to its own row than to n rows orthogonal to it and to each other.

    Along unit vectors, in units of the noise of an element, the others' scores are nearly independent N(0, 1). A mechanism that adds
    noise has the own score N(s, 1), s = C / noise; the answer is the mean of Phi(score)^n, a sum over a fine grid.
    """
    signal = mechanism.clip_norm * math.sqrt(mechanism.dimension) / mechanism.noise_norm
    noise = [-_TAIL + step * _STEP for step in range(round(2 * _TAIL / _STEP) + 1)]
    wins = (norm_sf(-(signal + value)) ** others for value in noise)
    return math.fsum(win * math.exp(-value * value / 2) for win, value in zip(wins, noise)) * _STEP / math.sqrt(2 * math.pi)


def _needs_delta(request: Request) -> str:
    return "" if request.delta > 0 else "needs delta > 0"


def _drops_the_length(request: Request) -> str:
    return "" if request.unit_rows or request.task == "retrieval" else "releases directions only, and unit_rows is False"


def _pure(request: Request) -> dict[str, Any]:
    return {"epsilon": request.epsilon, **request.row_setting}


def _approximate(request: Request) -> dict[str, Any]:
    return {"delta": request.delta, **_pure(request)}


def _pure_with_corpus(request: Request) -> dict[str, Any]:
    return {"corpus_size": request.n, **_pure(request)} if has_corpus(request) else _pure(request)


def entries_for(request: Request) -> tuple[Entry, ...]:
    entries = TASKS[request.task].entries
    return entries if request.codebook is None else (*entries, _CODEBOOK)


def _needs_no_identity(request: Request) -> str:
    return "a public code does not tell one row from others near it" if has_corpus(request) else ""


def _response_arguments(request: Request) -> dict[str, Any]:
    settings = {"dimension": request.dimension, "rows_per_person": request.rows_per_person}
    return {"codebook": request.codebook, "epsilon": request.epsilon, **settings}


def _response_figures(mechanism: Any, request: Request) -> dict[str, float]:
    fit = request.codebook_fit
    return {"expected cosine": float(mechanism.expected_cosine()) if fit is None else fit.expected_cosine}


def _public_kind(request: Request) -> str:
    if request.codebook_fit is not None:
        return "measured on the public sample"
    return "for rows like the public ones: codebook.check(public_sample, epsilon=...) says whether yours are"


_CODEBOOK = Entry(
    name="codebook",
    class_name="CodebookResponse",
    arguments=_response_arguments,
    figures=_response_figures,
    obstacle=_needs_no_identity,
    remark=_public_kind,
)
_ROWS = (
    Entry(
        name="privunit",
        class_name="PrivUnit",
        arguments=_pure_with_corpus,
        figures=_direction_figures,
        obstacle=_drops_the_length,
    ),
    Entry(name="gaussian", class_name="Gaussian", arguments=_approximate, figures=_noise_figures, obstacle=_needs_delta),
    Entry(name="laplacian", class_name="Laplacian", arguments=_pure, figures=_noise_figures),
    Entry(name="l2_laplace", class_name="L2Laplace", arguments=_pure, figures=_noise_figures),
)


def _always_exact(mechanism: Any) -> str:
    """Laws of whole numbers and decided comparisons: the discrete mechanisms have no other grade."""
    return "exact"


def _label_arguments(request: Request) -> dict[str, Any]:
    key = "k" if isinstance(request.labels, int) else "labels"
    return {"epsilon": request.epsilon, key: request.labels}


def _label_figures(mechanism: Any, request: Request) -> dict[str, float]:
    """Standard error at n answers, or at one, of the frequency of a label that nobody holds: sqrt(q (1 - q) / n) / (p - q)."""
    count = int(mechanism.k)
    others = math.exp(-request.epsilon) * (count - 1)
    truth = 1 / (1 + others)
    other = math.exp(-request.epsilon) * truth
    answers = 1 if request.n is None else request.n
    return {"truth": truth, "standard error": math.sqrt(other * (1 - other) / answers) / (truth - other)}


def _label_remark(request: Request) -> str:
    count = request.labels if isinstance(request.labels, int) else len(request.labels or ())
    if count - 2 <= _UNARY_IS_BETTER_FROM * math.exp(request.epsilon):
        return ""
    return "more than 3 e^epsilon + 2 labels: unary encoding would have a smaller error"


def _top_k_arguments(request: Request) -> dict[str, Any]:
    moves = 2 * request.clip_norm if request.sensitivity is None else request.sensitivity
    return {"k": request.k, "epsilon": request.epsilon, "sensitivity": moves}


def _top_k_figures(mechanism: Any, request: Request) -> dict[str, float]:
    """Standard deviation of the Gumbel noise, in the unit of the scores: pi / sqrt(6) * 2 D k / epsilon."""
    assert request.k is not None
    return {"score noise": math.pi / math.sqrt(6) * 2 * float(mechanism.sensitivity) * request.k / request.epsilon}


TASKS: dict[str, Task] = {
    "retrieval": Task(entries=_ROWS, ranked_by="expected cosine", larger_is_better=True, takes=("n", "codebook")),
    "release": Task(entries=_ROWS, ranked_by="noise norm", larger_is_better=False),
    "mean": Task(entries=_ROWS, ranked_by="standard error", larger_is_better=False, needs=("n",)),
    "labels": Task(
        entries=(
            Entry(
                name="randomized_response",
                class_name="RandomizedResponse",
                arguments=_label_arguments,
                figures=_label_figures,
                grade=_always_exact,
                remark=_label_remark,
            ),
        ),
        ranked_by="standard error",
        larger_is_better=False,
        needs=("labels",),
        takes=("n",),
    ),
    "top_k": Task(
        entries=(
            Entry(
                name="gumbel_top_k",
                class_name="GumbelTopK",
                arguments=_top_k_arguments,
                figures=_top_k_figures,
                grade=_always_exact,
            ),
        ),
        ranked_by="score noise",
        larger_is_better=False,
        needs=("k",),
        takes=("sensitivity",),
    ),
}


def ranked_by(request: Request) -> str:
    return TOP_1 if has_corpus(request) else TASKS[request.task].ranked_by


def option_of(entry: Entry, request: Request) -> Option:
    obstacle = entry.obstacle(request)
    if obstacle:
        return _not_to_be_had(entry, obstacle)
    from hushvec import mechanisms

    try:
        mechanism = getattr(mechanisms, entry.class_name)(**entry.arguments(request))
        figures = entry.figures(mechanism, request)
    except ValueError as refusal:   # a price that this mechanism cannot be had at, such as noise beyond float32
        return _not_to_be_had(entry, str(refusal))
    asked = TASKS[request.task]
    value = figures[ranked_by(request)]
    grade = entry.grade(mechanism)
    return Option(
        name=entry.name,
        mechanism=mechanism,
        grade=grade,
        figures=figures,
        merit=value if asked.larger_is_better else -value,
        remark=entry.remark(request) if grade == "exact" else "no claim: computed in floating point",
    )


def _not_to_be_had(entry: Entry, reason: str) -> Option:
    return Option(name=entry.name, mechanism=None, grade="", figures={}, merit=-math.inf, remark=reason)
