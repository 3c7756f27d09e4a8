"""A check of what a release of your own promises: docs/extend.md is the guide."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.budget.ledger import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.extend.checking import require, tried
from hushvec.receipts.vectors import Receipt, stated_mechanism
from hushvec.receipts.verify import receipt_from_json, verify_charges, verify_receipt

_DRAWS = 400
# Of what is measured: within so many standard errors, of a law with kurtosis 6, as that of Laplace noise.
_ERRORS, _KURTOSIS = 5.0, 6.0
_LARGE = 1e3  # of rows that a clip must shorten


def check_release(release: Callable[..., Any], x: NDArray[Any], *, additive: bool = True) -> tuple[str, ...]:
    """Try a release of your own against what every release of hushvec keeps.

    Args:
        release: called as release(rows, budget=..., generator=...), each of the two or None; gives what has `values` and `receipt`.
        x: rows that it can release, float32 or float64 [n, d], n >= 2.
        additive: whether its values are numbers of the rows plus the noise of its receipt. False where more is done with them, or
            the mechanism gives directions: then neither noise nor sensitivity can be measured.

    Returns:
        The sentences that were tried, all of which held.

    Raises:
        AssertionError: some do not hold; the message has a line for each.

    Guarantees:
        A right release fails with a probability below 1e-4; the seeds are the same in every call. One that passes may still be
        wrong: privacy is proved, and a check can only refute it.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from functools import partial
        >>> from hushvec.extend import check_release
        >>> check_release(partial(hv.privatize, epsilon=2.0), np.ones((4, 8), np.float32))[0]
        'its receipt holds, and comes back from JSON'
    """
    checks = _CHECKS if additive else _CHECKS[:-2]
    return tried(getattr(release, "__name__", "release"), checks, release, np.array(x))


# ---- what is tried; a docstring is the sentence that must hold ----


def _receipt_holds(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """its receipt holds, and comes back from JSON"""
    receipt = release(x, budget=None, generator=None).receipt
    found = verify_receipt(receipt)
    require(found.status == "holds", f"a receipt must hold, got {found.status!r}: {'; '.join(found.reasons)}")
    require(receipt_from_json(receipt.to_json()) == receipt, "a receipt must come back as it was")


def _draws_are_its_own(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """every release draws anew, but a seed gives the same bits and no claim; x stays as it was"""
    before = x.copy()
    one, two = (release(x, budget=None, generator=None).values for _ in range(2))
    require(np.array_equal(x, before), "x was changed")
    require(not np.array_equal(one, two), "two releases gave the same values")
    (first, receipt), (again, _), (other, _) = (_seeded(release, x, seed) for seed in (1, 1, 2))
    require(np.array_equal(first, again), "the same seed gave other values")
    require(not np.array_equal(first, other), "another seed gave the same values")
    require(not receipt.is_dp_claim, "a receipt must claim nothing with a seed")


def _charge_pays(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """a budget is charged once, for what the receipt promises, and the receipt names the charge"""
    budget = PrivacyBudget(1e6, 0.5)
    receipt = release(x, budget=budget, generator=None).receipt
    export = budget.export()
    require(len(export["rows"]) == 2, f"one charge must be made, got {len(export['rows']) - 1}")
    found = verify_charges([receipt], export)
    require(found.status == "holds", f"the charge must pay for the receipt: {'; '.join(found.reasons)}")


def _refusal_stands(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """what a budget refuses is not released"""
    try:
        release(x, budget=PrivacyBudget(1e-9), generator=None)
    except PrivacyBudgetExhaustedError:
        return
    raise AssertionError("a full budget must be refused by PrivacyBudgetExhaustedError")


def _bad_input_costs_nothing(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """NaN, Inf, rows of another form and a seed with a budget are refused before the charge"""
    seeded = _core.Generator.unsafe_seeded(1)
    for case, generator in ((np.nan, None), (np.inf, None), ("3-D", None), ("text", None), ("a seed", seeded)):
        bad: Any = {"3-D": x[None], "text": "rows"}.get(str(case), x.copy())
        if isinstance(case, float):
            bad[-1, -1] = case
        budget = PrivacyBudget(1e6, 0.5)
        try:
            release(bad, budget=budget, generator=generator)
        except (TypeError, ValueError):
            require(len(budget.export()["rows"]) == 1, f"{case} was refused after the charge")
        else:
            raise AssertionError(f"{case} must be refused by TypeError or ValueError")


def _sensitivity_is_kept(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """no person moves the values by more than the receipt's sensitivity"""
    values, receipt = _seeded(release, x, 1)
    size, step = np.size(values), receipt.grid or 0.0
    order, rounding = (1, size * step) if receipt.sensitivity_norm == "l1" else (2, math.sqrt(size) * step)
    person = slice(0, 1) if receipt.per == "record" else slice(None)
    even, axis = _LARGE * np.ones(x.shape[1]), _LARGE * np.eye(x.shape[1])[0]
    found = []
    for row in (x[person], even, -even, axis, -axis, 0 * even):
        other = x.copy()
        other[person] = row
        found.append(np.ravel(_seeded(release, other, 1)[0]).astype(np.float64))
    moved = max(float(np.linalg.norm(one - two, order)) for one, two in combinations(found, 2))
    most = receipt.sensitivity * (1 + 1e-3) + rounding
    require(moved <= most, f"sensitivity must be >= {moved:.6g}, got {receipt.sensitivity!r}")


def _noise_has_its_size(release: Callable[..., Any], x: NDArray[Any]) -> None:
    """its noise is not smaller than that of its receipt, and of every number its own"""
    drawn = np.stack([np.ravel(_seeded(release, x, seed)[0]).astype(np.float64) for seed in range(_DRAWS)])
    noise, stated = drawn - drawn.mean(axis=0), stated_mechanism(_seeded(release, x, 0)[1]).element_variance
    least = stated * (1 - _ERRORS * math.sqrt((_KURTOSIS - 1) / noise.size) - 1 / _DRAWS)
    require(float(noise.var()) >= least, f"the noise must have variance {stated:.4g}, got {noise.var():.4g}")
    together = float(noise.sum(axis=1).var()) / noise.shape[1]
    most = float(noise.var()) * (1 + _ERRORS * math.sqrt((_KURTOSIS - 1) / _DRAWS))
    require(together <= most, f"every number must have noise of its own, got sums of variance {together:.4g} for {noise.var():.4g}")


_CHECKS = (
    _receipt_holds, _draws_are_its_own, _charge_pays, _refusal_stands, _bad_input_costs_nothing, _sensitivity_is_kept,
    _noise_has_its_size,
)


def _seeded(release: Callable[..., Any], x: NDArray[Any], seed: int) -> tuple[NDArray[Any], Receipt]:
    made = release(x, budget=None, generator=_core.Generator.unsafe_seeded(seed))
    return np.asarray(made.values), made.receipt
