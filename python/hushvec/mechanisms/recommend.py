"""`recommend`: which mechanism gives the most at a price, with the figures of all that were looked at."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec._util.display import Sheet, shown
from hushvec.errors import UtilityWarning
from hushvec.mechanisms.candidates import TASKS, Option, Request, entries_for, option_of
from hushvec.mechanisms.reasons import table_row, why

if TYPE_CHECKING:
    from hushvec.mechanisms import CodebookFit, PublicCodebook, PublicProjection


@shown
@dataclass(frozen=True)
class Recommendation:
    """What `recommend` returns; `print` shows all of it.

    Args:
        task: what was asked for.
        mechanism: the recommended mechanism, ready for use; its `cost` is within the price.
        why: one or two sentences with the numbers.
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
        return (header, *(table_row(option, figures) for option in self.options))

    def _sheet(self) -> Sheet:
        remarks = ((option.name, option.remark) for option in self.options if option.remark)
        return Sheet(
            f"Recommended for task {self.task!r}: {self.options[0].name}",
            (*remarks, ("why", self.why)),
            table=tuple(row[:-1] for row in self.table),
        )


def recommend(
    dimension: int,
    epsilon: float,
    delta: float = 1e-5,
    *,
    task: str = "retrieval",
    clip_norm: float = 1.0,
    unit_rows: bool = True,
    rows_per_person: int = 1,
    n: int | None = None,
    labels: int | Sequence[Hashable] | None = None,
    k: int | None = None,
    sensitivity: float | None = None,
    codebook: PublicCodebook | None = None,
    projection: PublicProjection | None = None,
    public_sample: Any = None,
) -> Recommendation:
    """Say which mechanism gives the most at a price, and why, before anything is spent.

    Args:
        dimension: d, elements in a row; not used by "labels" and "top_k".
        epsilon: > 0, the price of one release to each person in it.
        delta: in [0, 1). 0 asks for a pure guarantee, which the Gaussian mechanism has not.
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
        codebook: for "retrieval": a codebook of public rows of the same kind, which usually keeps most where there are such rows.
            Without one, `why` asks for it.
        projection: the public map that rows will go through before the release, if there is one; `dimension` is that behind it.
        public_sample: **public** rows like those to be released, which neither codebook nor projection was made from; never private
            ones. Both are checked on it, and a codebook is then ranked by what it keeps of these rows.
        sensitivity: for "top_k", the most that one score moves; 2 clip_norm, that of a product with a unit query, if None.

    Returns:
        A `Recommendation`: mechanism, why, options, table; `print` shows them.

    Raises:
        TypeError: wrong kinds; an argument that the task needs is missing.
        ValueError: a value out of its range, an unknown task, an argument that the task does not use, or no mechanism at this price.

    Guarantees:
        A mechanism whose released bits carry the guarantee (grade "exact") comes before one that is computed in floating point; if
        the latter would give more, `why` says so. Every mechanism costs at most (epsilon, delta) under replace-one. Nothing is
        drawn, charged or released. Figures are expectations of the mechanism, not of what your data will show: "ideal top-1" is
        that of rows without near neighbors, and real rows have some.

    Edge cases:
        A codebook or a map that does not fit the sample gives a `UtilityWarning`. Metric differential privacy has another price
        (1/distance) and is never among the options. Noise of a sigma chosen freely ("empirical") has no price to compare at.

    Reference:
        docs/mechanisms.md, with what was measured on real text.

    Example:
        >>> from hushvec.mechanisms.recommend import recommend
        >>> recommendation = recommend(384, 8.0, task="release", unit_rows=False)
        >>> recommendation.mechanism.name, recommendation.table[0][:4]
        ('gaussian', ('mechanism', 'epsilon', 'delta', 'grade'))
    """
    if public_sample is not None and codebook is None and projection is None:
        raise ValueError("public_sample must be None without codebook or projection, which are checked on it")
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
        codebook=None if codebook is None else _checked_codebook(codebook, dimension),
        codebook_fit=None,
    )
    request = replace(request, codebook_fit=_warned_of_misfits(request, projection, public_sample))
    asked = TASKS[task]
    for name in ("n", "labels", "k", "sensitivity", "codebook"):
        if getattr(request, name) is None and name in asked.needs:
            raise TypeError(f"{name} must be given for task {task!r}")
        if getattr(request, name) is not None and name not in asked.needs + asked.takes:
            raise ValueError(f"{name} must be None for task {task!r}, got {getattr(request, name)!r}")
    options = tuple(sorted((option_of(entry, request) for entry in entries_for(request)), key=_rank))
    if options[0].mechanism is None:
        reasons = "; ".join(f"{option.name}: {option.remark}" for option in options)
        raise ValueError(f"no mechanism for task {task!r} at epsilon = {request.epsilon!r}, delta = {request.delta!r}: {reasons}")
    return Recommendation(task, options[0].mechanism, why(options, request), options)


def _checked_codebook(value: Any, dimension: int) -> PublicCodebook:
    from hushvec.mechanisms import PublicCodebook

    if not isinstance(value, PublicCodebook):
        raise TypeError(f"codebook must be a hushvec.mechanisms.PublicCodebook or None, got {validate.kind(value)}")
    if value.dimension != dimension:
        raise ValueError(f"codebook must be for {dimension} elements, got one for {value.dimension}")
    return value


def _warned_of_misfits(request: Request, projection: PublicProjection | None, public_sample: Any) -> CodebookFit | None:
    """What the codebook keeps of the sample. Warns if the codebook or the map does not fit it."""
    if projection is not None:
        from hushvec.mechanisms import PublicProjection

        if not isinstance(projection, PublicProjection):
            raise TypeError(f"projection must be a hushvec.mechanisms.PublicProjection or None, got {validate.kind(projection)}")
        if projection.output_dimension != request.dimension:
            raise ValueError(f"projection must lead to {request.dimension} elements, got one to {projection.output_dimension}")
        if request.codebook is not None:
            raise ValueError("projection must be None with a codebook: fit the codebook on rows behind it")
    if public_sample is None:
        return None
    if projection is not None:
        of_map = projection.check(public_sample)
        if not of_map.fits:
            warnings.warn(str(of_map), UtilityWarning, stacklevel=3)
    if request.codebook is None:
        return None
    fit = request.codebook.check(public_sample, epsilon=request.epsilon / request.rows_per_person)
    if not fit.is_worth_it:
        warnings.warn(str(fit), UtilityWarning, stacklevel=3)
    return fit


def _checked_labels(labels: Any) -> int | Sequence[Hashable]:
    """How many, or what the mechanism will check one by one."""
    if hasattr(labels, "__index__"):
        return validate.whole_number("labels", labels, at_least=2)
    if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
        raise TypeError(f"labels must be a whole number or a sequence, got {validate.kind(labels)}")
    return labels  # type: ignore[no-any-return]


def _rank(option: Option) -> tuple[bool, bool, float]:
    return option.mechanism is None, not option.claims_privacy, -option.merit
