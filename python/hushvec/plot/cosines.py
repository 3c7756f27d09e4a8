"""The expected cosine over epsilon, by mechanism."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hushvec._util import validate
from hushvec._util.statistics import Estimate
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, Mechanism, PrivUnit, PublicCodebook
from hushvec.plot.axes import axes_or_new, finished, look, points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = ("gaussian", "laplacian", "l2_laplace", "privunit")
_Pure = type[Laplacian] | type[L2Laplace] | type[PrivUnit]
_PURE: dict[str, _Pure] = {"laplacian": Laplacian, "l2_laplace": L2Laplace, "privunit": PrivUnit}
_LOW, _HIGH, _COUNT = 1.0, 128.0, 57

At = Callable[[float], Mechanism]


def cosine(
    dimension: int,
    epsilons: Iterable[float] | None = None,
    *,
    mechanisms: Sequence[str | PublicCodebook] = NAMED,
    delta: float = 1e-5,
    clip_norm: float = 1.0,
    rows_per_person: int = 1,
    measured: Iterable[tuple[float, Any]] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw what noise leaves of a row: the expected cosine of a row with its release, over epsilon, by mechanism.

    Args:
        dimension: d, elements in a row.
        epsilons: each > 0; 57 from 1 to 128 if None.
        mechanisms: "gaussian", "laplacian", "l2_laplace", "privunit", and codebooks (`PublicCodebook`) for rows of this dimension.
        delta: of "gaussian", in (0, 1).
        clip_norm: C, which is also the length of the row.
        rows_per_person: r, how many rows share the epsilon of one person.
        measured: pairs (epsilon, what was measured there): an `Evaluation` with mean_cosine, an `Estimate`, or a number.
        ax: matplotlib axes to draw on; new ones if None.

    Returns:
        The axes.

    Raises:
        TypeError: wrong kinds.
        ValueError: a value out of its range, a codebook for another dimension, an evaluation without clean rows.
        MissingExtraError: matplotlib is not installed: hushvec[plot].

    Guarantees:
        Curves are `Mechanism.expected_cosine` of mechanisms that cost at most (epsilon, delta); nothing is drawn or charged. The curve
        of a codebook is for rows like those that it was fitted on. A mechanism of the float grade is labeled: it makes no claim.

    Example:
        >>> import hushvec as hv
        >>> ax = hv.plot.cosine(384, [1, 8, 64], mechanisms=["gaussian", "privunit"])
        >>> [line.get_label() for line in ax.lines]
        ['gaussian, delta = 1e-05', 'privunit']
    """
    setting = {
        "dimension": validate.whole_number("dimension", dimension, at_least=1),
        "clip_norm": validate.clip_norm(clip_norm),
        "rows_per_person": validate.whole_number("rows_per_person", rows_per_person, at_least=1),
    }
    grid = np.geomspace(_LOW, _HIGH, _COUNT).tolist() if epsilons is None else sorted(_positive(one) for one in epsilons)
    series = [_series(one, validate.delta(delta), setting) for one in mechanisms]
    found = [(_positive(epsilon), _measured(value)) for epsilon, value in measured]
    curves = [(label, [at(epsilon).expected_cosine() for epsilon in grid]) for label, at in series]
    ax = axes_or_new(ax)
    for number, (label, curve) in enumerate(curves):
        style = look(number)
        ax.plot(grid, curve, color=style.color, linestyle=style.dashes, label=label)
    if found:
        points(ax, [epsilon for epsilon, _ in found], [value for _, value in found], number=len(curves), label="measured")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0, 1.02)
    unit = "one row" if rows_per_person == 1 else f"{rows_per_person:,} rows of one person"
    title = f"What the noise leaves of a row, {dimension:,} dimensions"
    return finished(ax, x=f"epsilon for {unit}", y="expected cosine with the clean row", title=title)


def _positive(epsilon: Any) -> float:
    return validate.positive("epsilon", epsilon)


def _series(given: Any, delta: float, setting: dict[str, Any]) -> tuple[str, At]:
    """Label and mechanism at each epsilon."""
    if isinstance(given, PublicCodebook):
        if given.dimension != setting["dimension"]:
            raise ValueError(f"mechanisms must be for {setting['dimension']} elements, got a codebook for {given.dimension}")
        rows = setting["rows_per_person"]
        return f"public codebook of {len(given):,}", lambda epsilon: given.mechanism(epsilon=epsilon, rows_per_person=rows)
    name = validate.choice("mechanisms", given, NAMED)
    if name == "gaussian":
        return f"{name}, delta = {delta:g}", lambda epsilon: Gaussian(epsilon=epsilon, delta=delta, **setting)
    kind = _PURE[name]
    label = f"{name} (float: no claim)" if kind.grade == "float" else name
    return label, lambda epsilon: kind(epsilon=epsilon, **setting)


def _measured(value: Any) -> Estimate | float:
    metrics = getattr(value, "metrics", None)
    if metrics is not None:
        if "mean_cosine" not in metrics:
            raise ValueError("measured must have mean_cosine, got an evaluation without it (evaluate(..., clean=rows) measures it)")
        value = metrics["mean_cosine"]
    return value if isinstance(value, Estimate) else validate.number("measured", value)
