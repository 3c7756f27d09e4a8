"""`recommend`: which mechanism gives the most at a price, with the figures of all that were looked at."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hushvec.mechanisms import (  # isort: skip
    CodebookFit, GumbelTopK, PublicCodebook, PublicProjection, RandomizedResponse, VectorMechanism, priced_mechanisms,
    top_1_sentence,
)
from hushvec._util import validate
from hushvec._util.display import Sheet, shown
from hushvec._util.keywords import moved
from hushvec.errors import UtilityWarning

TOP_1 = "ideal top-1"

# Above this many labels per e^epsilon, randomized response is no longer the best way to learn frequencies.
_UNARY_IS_BETTER_FROM = 3.0


@dataclass(frozen=True)
class Option:
    """One mechanism that was looked at.

    Args:
        name, grade: of the mechanism; "exact" or "float".
        mechanism: the object, ready for use; None where it cannot be had at this price, and grade and figures are empty.
        figures, merit: what it gives, by name, and the figure that ranks, larger is better.
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


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicData:
    """What `recommend` may use of public rows of the same kind: a codebook or a map, of rows that are nobody's who is protected.

    Args:
        codebook: for "retrieval": which usually keeps most where there are such rows.
        projection: the map that rows will go through before the release; `dimension` is that behind it.
        sample: **other** public rows, not those of codebook or projection, which are checked on it.
    """

    codebook: PublicCodebook | None = None
    projection: PublicProjection | None = None
    sample: Any = None

    def __post_init__(self) -> None:
        for name, kind in ("codebook", PublicCodebook), ("projection", PublicProjection):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a hushvec.mechanisms.{kind.__name__} or None, got {validate.kind(value)}")
        if self.codebook is not None and self.projection is not None:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it")
        if self.sample is not None and self.codebook is None and self.projection is None:
            raise ValueError("sample must be None without codebook or projection, which are checked on it")

    def require_fit(self, dimension: int) -> None:
        """Refuse what is not for rows of `dimension` elements."""
        if self.codebook is not None and self.codebook.dimension != dimension:
            raise ValueError(f"codebook must be for {dimension} elements, got one for {self.codebook.dimension}")
        if self.projection is not None and self.projection.output_dimension != dimension:
            raise ValueError(f"projection must lead to {dimension} elements, got one to {self.projection.output_dimension}")


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
    def has_corpus(self) -> bool:
        return self.task == "retrieval" and self.n is not None

    @property
    def ranked_by(self) -> str:
        return TOP_1 if self.has_corpus else TASKS[self.task].ranked_by


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of the candidates table; `made` returns the mechanism for a request."""

    name: str
    made: Callable[[Request], Any]
    figures: Callable[[Any, Request], dict[str, float]]
    obstacle: Callable[[Request], str] = lambda request: ""
    remark: Callable[[Request], str] = lambda request: ""


@dataclass(frozen=True, kw_only=True)
class Task:
    """A comparison: the figure that ranks, and the optional arguments of `recommend` that the task needs or takes."""

    entries: Callable[[], tuple[Entry, ...]]
    ranked_by: str
    larger_is_better: bool = False
    together: str = ""  # what answers it for many people's rows at once: a function of hushvec.aggregates, and its command
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


def _row_figures(mechanism: Any, request: Request) -> dict[str, float]:
    noise = float(mechanism.noise_norm)
    figures = {"expected cosine": float(mechanism.expected_cosine()), "noise norm": noise}
    if request.task == "mean":
        assert request.n is not None
        figures["standard error"] = noise / math.sqrt(request.n * request.rows_per_person)
    return {TOP_1: mechanism.top_1_probability(request.n or 0), **figures} if request.has_corpus else figures


def _codebook_figures(mechanism: Any, request: Request) -> dict[str, float]:
    fit = request.codebook_fit
    return {"expected cosine": float(mechanism.expected_cosine()) if fit is None else fit.expected_cosine}


def _codebook_remark(request: Request) -> str:
    if request.codebook_fit is not None:
        return "measured on the public sample"
    return "for rows like the public ones: codebook.check(public_sample, epsilon=...) says whether yours are"


def _codebook_made(request: Request) -> Any:
    assert request.codebook is not None
    return request.codebook.mechanism(request.epsilon, rows_per_person=request.rows_per_person)


_CODEBOOK = Entry(
    name="codebook", made=_codebook_made, figures=_codebook_figures,
    obstacle=lambda request: "a public code does not tell one row from others near it" if request.has_corpus else "",
    remark=_codebook_remark,
)


def _of_rows() -> tuple[Entry, ...]:
    """The mechanisms of rows of floats that are made for a price."""
    return tuple(
        Entry(name=name, made=partial(_made, kind), figures=_row_figures, obstacle=partial(_obstacle, kind))
        for name, kind in priced_mechanisms().items()
    )


def _made(kind: type[VectorMechanism], request: Request) -> VectorMechanism:
    return kind.for_price(
        epsilon=request.epsilon,
        delta=request.delta,
        corpus_size=request.n if request.has_corpus else None,
        dimension=request.dimension, clip_norm=request.clip_norm, rows_per_person=request.rows_per_person,
    )


def _obstacle(kind: type[VectorMechanism], request: Request) -> str:
    if kind.directions_only and not (request.unit_rows or request.task == "retrieval"):
        return "releases directions only, and unit_rows is False"
    return "needs delta > 0" if kind.takes_delta and request.delta == 0 else ""


def _response(request: Request) -> RandomizedResponse:
    labels: Any = {"k" if isinstance(request.labels, int) else "labels": request.labels}
    return RandomizedResponse(epsilon=request.epsilon, **labels)


def _label_figures(mechanism: Any, request: Request) -> dict[str, float]:
    """Standard error at n answers, or at one, of the frequency of a label that nobody holds."""
    return {"truth": mechanism.probability_of_truth, "standard error": mechanism.standard_error(0.0, request.n or 1)}


def _label_remark(request: Request) -> str:
    count = request.labels if isinstance(request.labels, int) else len(request.labels or ())
    if count - 2 <= _UNARY_IS_BETTER_FROM * math.exp(request.epsilon):
        return ""
    return "more than 3 e^epsilon + 2 labels: unary encoding would have a smaller error"


def _top_k(request: Request) -> GumbelTopK:
    moves = 2 * request.clip_norm if request.sensitivity is None else request.sensitivity
    assert request.k is not None
    return GumbelTopK(k=request.k, epsilon=request.epsilon, sensitivity=moves)


_LABELS = Entry(name="randomized_response", made=_response, figures=_label_figures, remark=_label_remark)
_TOP_K = Entry(name="gumbel_top_k", made=_top_k, figures=lambda mechanism, request: {"score noise": mechanism.noise_deviation})
TASKS: dict[str, Task] = {
    "retrieval": Task(
        entries=_of_rows, ranked_by="expected cosine", larger_is_better=True,
        together="private_classifier, hushvec aggregate classifier", takes=("n", "codebook"),
    ),
    "release": Task(entries=_of_rows, ranked_by="noise norm", together="private_mean, hushvec aggregate mean"),
    "mean": Task(entries=_of_rows, ranked_by="standard error", together="private_mean, hushvec aggregate mean", needs=("n",)),
    "labels": Task(
        entries=lambda: (_LABELS,), ranked_by="standard error", together="private_histogram", needs=("labels",), takes=("n",)
    ),
    "top_k": Task(entries=lambda: (_TOP_K,), ranked_by="score noise", needs=("k",), takes=("sensitivity",)),
}


def option_of(entry: Entry, request: Request) -> Option:
    obstacle = entry.obstacle(request)
    if not obstacle:
        try:
            mechanism = entry.made(request)
            figures = entry.figures(mechanism, request)
        except ValueError as refusal:   # a price that this mechanism cannot be had at, such as noise beyond float32
            obstacle = str(refusal)
    if obstacle:
        return Option(name=entry.name, mechanism=None, grade="", figures={}, merit=-math.inf, remark=obstacle)
    value = figures[request.ranked_by]
    grade = str(getattr(mechanism, "grade", "exact"))  # the discrete mechanisms have no other grade
    return Option(
        name=entry.name, mechanism=mechanism, grade=grade, figures=figures,
        merit=value if TASKS[request.task].larger_is_better else -value,
        remark=entry.remark(request) if grade == "exact" else "no claim: computed in floating point",
    )


# Up to this epsilon a release of one row keeps little, and one release about many rows nearly all.
_TOGETHER_UP_TO = 4.0
_TOGETHER = (
    "Is the question about many people together, and may one holder see their rows? Then release the answer once, in place of every "
    "row: hushvec.aggregates.{function} (docs/aggregates.md)."
)
_ARE_THERE_PUBLIC_ROWS = (
    "Are there public rows of the same kind? Then a codebook of them may keep several times as much: "
    "give public=PublicData(codebook=PublicCodebook.fit(public_rows, epsilon=...))."
)
_WHITEN_FIRST = (
    "Are there public rows of the same kind? Then whiten first: together with the split for n, this finds the same row more often "
    "than either alone. whitening = PublicProjection.fit(public_rows, components=m, whiten=True), m as large as they allow, and "
    "privatize(x, projection=whitening, mechanism=PrivUnit(epsilon={epsilon!r}, dimension=m, corpus_size={n}))."
)


def why(options: tuple[Option, ...], request: Request) -> str:
    best = options[0]
    epsilon, delta = map(_exact, best.mechanism.cost)
    together = TASKS[request.task].together
    sentences = [_TOGETHER.format(function=together)] if together and request.epsilon <= _TOGETHER_UP_TO else []
    sentences += [f"{best.name}: {_told(best, request)} at epsilon = {epsilon}, delta = {delta}{_next_best(options, request)}."]
    better = [option for option in options[1:] if option.mechanism is not None and option.merit > best.merit]
    if not best.claims_privacy:
        sentences.append("No option carries a claim: all are computed in floating point.")
    elif better:
        told = ", ".join(f"{option.name} would give {_told(option, request)}" for option in better)
        sentences.append(f"{told}, but is computed in floating point and carries no claim.")
    elif best.remark:
        sentences.append(f"{best.remark[0].upper()}{best.remark[1:]}.")
    if "codebook" in TASKS[request.task].takes and request.codebook is None and not request.has_corpus:
        sentences.append(_ARE_THERE_PUBLIC_ROWS)
    if request.has_corpus:
        assert request.n is not None
        bound = top_1_sentence(request.epsilon / request.rows_per_person, request.n + 1)
        sentences.append(f"{bound[0].upper()}{bound[1:]}.")
        if best.name == "privunit":
            sentences.append(_WHITEN_FIRST.format(epsilon=request.epsilon, n=request.n))
    return " ".join(sentences)


def _next_best(options: tuple[Option, ...], request: Request) -> str:
    behind = [option for option in options[1:] if option.claims_privacy and option.merit < options[0].merit]
    return f", against {_told(behind[0], request)} with {behind[0].name}" if behind and options[0].claims_privacy else ""


def _told(option: Option, request: Request) -> str:
    return f"{request.ranked_by} {option.figures[request.ranked_by]:.3g}"


def _exact(cost: float) -> str:
    """All digits: a price is not rounded down."""
    return repr(float(cost)).removesuffix(".0")


@shown
@dataclass(frozen=True)
class Recommendation:
    """Result of `recommend`; `print` shows all of it.

    Args:
        task: what was asked for.
        mechanism: the recommended mechanism, ready for use; its `cost` is within the price.
        why: one or two sentences with the numbers; up to epsilon = 4 `hushvec.aggregates` comes first.
        options: everything that was looked at, the best first, what cannot be had last.
    """

    task: str
    mechanism: Any
    why: str
    options: tuple[Option, ...]

    @property
    def table(self) -> tuple[tuple[str, ...], ...]:
        """Rows for printing, a header first: mechanism, epsilon, delta, grade, the figures, a remark."""
        figures = tuple(dict.fromkeys(name for option in self.options for name in option.figures))
        header = ("mechanism", "epsilon", "delta", "grade", *figures, "remark")
        rows = []
        for option in self.options:
            cost = ("", "") if option.mechanism is None else tuple(map(_exact, option.mechanism.cost))
            values = (f"{option.figures[name]:.4g}" if name in option.figures else "" for name in figures)
            rows.append((option.name, *cost, option.grade, *values, option.remark))
        return (header, *rows)

    def _sheet(self) -> Sheet:
        remarks = ((option.name, option.remark) for option in self.options if option.remark)
        return Sheet(
            f"Recommended for task {self.task!r}: {self.options[0].name}",
            (*remarks, ("why", self.why)),
            table=tuple(row[:-1] for row in self.table),
        )


@moved({
    "codebook": "public=PublicData(codebook=...)",
    "projection": "public=PublicData(projection=...)",
    "public_sample": "public=PublicData(sample=...)",
})
def recommend(
    dimension: int, epsilon: float, delta: float = 1e-5, *, task: str = "retrieval", clip_norm: float = 1.0,
    unit_rows: bool = True, rows_per_person: int = 1, n: int | None = None, labels: int | Sequence[Hashable] | None = None,
    k: int | None = None, sensitivity: float | None = None, public: PublicData | None = None,
) -> Recommendation:
    """Say which mechanism gives the most at a price, and why, before anything is spent.

    Args:
        dimension: d, elements in a row; not used by "labels" and "top_k".
        epsilon: > 0, the price of one release to each person in it.
        delta: in [0, 1). 0 asks for a pure guarantee, which the Gaussian mechanism does not have.
        task: "retrieval": the direction of a noisy row matters; ranked by expected cosine, or with n by how often the right one of n
            others is nearest; `why` then also asks for public rows, for a whitening map.
            "release": the row itself matters; ranked by the root mean square error.
            "mean": the mean over n people, each of whom releases rows of their own; ranked by its standard error.
            "labels": each person answers with one of some labels; judged by the standard error of a frequency.
            "top_k": the k best of many candidates by private scores.
        clip_norm: C, the L2 norm that rows are clipped to.
        unit_rows: all rows have length clip_norm, as most embedding models make them, so that their length says nothing. False
            leaves out, for "release" and "mean", what releases only directions.
        rows_per_person: r, how many rows one person contributes; public.
        n: how many people, needed for "mean" and optional for "labels"; for "retrieval", how many other rows a release is looked up
            among (public, optional): PrivUnit then splits epsilon for that.
        labels: how many labels, or the labels; needed for "labels".
        k: how many candidates are named; needed for "top_k".
        sensitivity: for "top_k", the most that one score moves; 2 clip_norm, that of a product with a unit query, if None.
        public: a `hushvec.PublicData`: codebook or map of public rows, checked on a sample of others.

    Returns:
        A `Recommendation`.

    Raises:
        TypeError: an argument that the task needs is missing.
        ValueError: an argument that the task does not use, or no mechanism at this price.

    Guarantees:
        A mechanism whose released bits carry the guarantee (grade "exact") comes before one that is computed in floating point;
        if the latter would give more, `why` says so. Every mechanism costs at most (epsilon, delta) under replace-one. Nothing is
        drawn, charged or released. Figures are expectations of the mechanism: "ideal top-1" is that of rows without near neighbors.

    Edge cases:
        A codebook or a map that does not fit the sample gives a `UtilityWarning`. Metric DP and "empirical" are never options.

    Reference:
        docs/mechanisms.md, with what was measured on real text.

    Example:
        >>> from hushvec.mechanisms.recommend import recommend
        >>> recommendation = recommend(384, 8.0, task="release", unit_rows=False)
        >>> recommendation.mechanism.name, recommendation.table[0][:4]
        ('gaussian', ('mechanism', 'epsilon', 'delta', 'grade'))
    """
    if not isinstance(public, PublicData | None):
        raise TypeError(f"public must be a hushvec.PublicData or None, got {validate.kind(public)}")
    given = public or PublicData()
    request = Request(
        dimension=validate.whole_number("dimension", dimension, at_least=1),
        epsilon=validate.positive("epsilon", epsilon),
        delta=validate.delta(delta, zero_allowed=True),
        task=validate.choice("task", task, TASKS),
        clip_norm=validate.clip_norm(clip_norm),
        unit_rows=validate.flag("unit_rows", unit_rows),
        rows_per_person=validate.whole_number("rows_per_person", rows_per_person, at_least=1),
        n=None if n is None else validate.whole_number("n", n, at_least=1),
        labels=None if labels is None else _checked_labels(labels),
        k=None if k is None else validate.whole_number("k", k, at_least=1),
        sensitivity=None if sensitivity is None else validate.positive("sensitivity", sensitivity),
        codebook=given.codebook, codebook_fit=None,
    )
    given.require_fit(request.dimension)
    request = replace(request, codebook_fit=_warned_of_misfits(request, given))
    asked = TASKS[task]
    for name in ("n", "labels", "k", "sensitivity", "codebook"):
        if getattr(request, name) is None and name in asked.needs:
            raise TypeError(f"{name} must be given for task {task!r}")
        if getattr(request, name) is not None and name not in asked.needs + asked.takes:
            raise ValueError(f"{name} must be None for task {task!r}, got {getattr(request, name)!r}")
    entries = (*asked.entries(), *(() if given.codebook is None else (_CODEBOOK,)))
    found = (option_of(entry, request) for entry in entries)
    options = tuple(sorted(found, key=lambda option: (option.mechanism is None, not option.claims_privacy, -option.merit)))
    if options[0].mechanism is None:
        reasons = "; ".join(f"{option.name}: {option.remark}" for option in options)
        raise ValueError(f"no mechanism for task {task!r} at epsilon = {request.epsilon!r}, delta = {request.delta!r}: {reasons}")
    return Recommendation(task, options[0].mechanism, why(options, request), options)


def _warned_of_misfits(request: Request, public: PublicData) -> CodebookFit | None:
    """How well the codebook serves the sample. Warns if the codebook or the map does not fit it."""
    if public.sample is None:
        return None
    if public.projection is not None:
        of_map = public.projection.check(public.sample)
        if not of_map.fits:
            warnings.warn(str(of_map), UtilityWarning, stacklevel=4)
    if public.codebook is None:
        return None
    fit = public.codebook.check(public.sample, epsilon=request.epsilon / request.rows_per_person)
    if not fit.is_worth_it:
        warnings.warn(str(fit), UtilityWarning, stacklevel=4)
    return fit


def _checked_labels(labels: Any) -> int | Sequence[Hashable]:
    """How many, or what the mechanism will check one by one."""
    if hasattr(labels, "__index__"):
        return validate.whole_number("labels", labels, at_least=2)
    if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
        raise TypeError(f"labels must be a whole number or a sequence, got {validate.kind(labels)}")
    return labels  # type: ignore[no-any-return]
