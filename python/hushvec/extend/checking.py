"""Parts of a mechanism of your own, and a check of what it promises: docs/extend.md is the guide."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.rounding import float32_up
from hushvec.mechanisms import VectorMechanism, known_mechanisms, registered
from hushvec.mechanisms.base import RowKeys
from hushvec.receipts.vectors import Receipt
from hushvec.receipts.verify import verify_receipt
from hushvec.release.vectors import Release, privatize

_MOST_BITS = 24
_WORD_BITS = 64

# Of what is measured: within so many standard errors, which a right mechanism misses with a probability of 6e-7 a figure.
_ERRORS = 5.0
_DIMENSION, _DELTA = 3, 1e-3
_PRICES = (0.5, 2.0)
_CLIP_NORMS = (1.0, 1.5)


def uniform_integers(shape: tuple[int, ...], bits: int, *, generator: _core.Generator | None = None) -> NDArray[np.int32]:
    """Draw independent whole numbers, each of 0 ... 2^bits - 1 with the same probability, exactly.

    Args:
        shape: of the result.
        bits: 1 to 24.
        generator: key stream; the process-wide one, keyed by the operating system, if None.
    """
    share = 2 ** (_WORD_BITS - validate.whole_number("bits", bits, at_least=1, at_most=_MOST_BITS))
    codes = np.zeros(shape, np.int32)
    return np.asarray(_core.randomized_response(codes, 2**bits, (share, share), require_generator(generator)), np.int32)


def float32_at_least(value: Fraction) -> float:
    """Return the smallest float32 that is not below a number > 0: sigma or scale as receipts state it."""
    return float(float32_up(value))


def check_mechanism(mechanism: type[VectorMechanism], *, releases: int = 4000) -> tuple[str, ...]:
    """Try a mechanism for rows of floats against what `VectorMechanism` promises for it.

    Args:
        mechanism: the class, registered or not.
        releases: how many rows are released where something is measured.

    Returns:
        The sentences that were tried, all of which held.

    Raises:
        AssertionError: some do not hold; the message has a line for each.
        TypeError, ValueError: `register` refuses the class.

    Guarantees:
        A right mechanism fails with a probability below 1e-4; the same seeds are used in every call, so it passes always or never.
        A mechanism that passes may still be wrong: privacy is proved, and a check can only refute it.

    Example:
        >>> from hushvec.extend import check_mechanism
        >>> from hushvec.mechanisms import Laplacian
        >>> check_mechanism(Laplacian)[0]
        'its receipt has the numbers of its law, and a mechanism can be made of them'
    """
    known = known_mechanisms().get(getattr(mechanism, "name", "")) is mechanism
    with nullcontext() if known else registered(mechanism):
        return tried(mechanism.name, _CHECKS, mechanism, releases)


def tried(name: str, checks: Sequence[Callable[..., None]], *given: Any) -> tuple[str, ...]:
    """Call every check with what is given, and return their docstrings, the sentences that hold; AssertionError if some do not."""
    failures = []
    for check in checks:
        try:
            check(*given)
        except AssertionError as failure:
            failures.append(f"{name}: {check.__doc__}: {failure}")
        except Exception as error:
            failures.append(f"{name}: {check.__doc__}: {type(error).__name__}: {error}")
    if failures:
        raise AssertionError("\n".join(failures))
    return tuple(str(check.__doc__) for check in checks)


# ---- what is tried; a docstring is the sentence that must hold ----


def _law_is_stated(kind: type[VectorMechanism], releases: int) -> None:
    """its receipt has the numbers of its law, and a mechanism can be made of them"""
    for made in _examples(kind):
        name = kind.parameter_name
        require(name in ("sigma", "scale"), f"parameter_name must be 'sigma' or 'scale', got {name!r}")
        twice = _stated(made, 2 * made.noise_parameter)
        require(twice.noise_parameter == 2 * made.noise_parameter, f"{name} must be a functools.cached_property or a field")
        require(kind.grade in ("exact", "float"), f"grade must be 'exact' or 'float', got {kind.grade!r}")
        require(kind.sensitivity_norm in ("l1", "l2"), f"sensitivity_norm must be 'l1' or 'l2', got {kind.sensitivity_norm!r}")


def _price_is_kept(kind: type[VectorMechanism], releases: int) -> None:
    """it costs at most its price, in every currency"""
    for epsilon in () if kind.takes_sigma else _PRICES:
        made = _made(kind, epsilon)
        cost, delta = made.cost
        require(cost <= epsilon, f"epsilon must be at most {epsilon!r}, got {cost!r}")
        require(delta <= (_DELTA if kind.takes_delta else 0.0), f"delta must be 0 or the one asked for, got {delta!r}")
        require(made.loss.delta(cost) <= delta * (1 + 1e-6), f"loss must have delta {delta!r} at epsilon {cost!r}")


def _sensitivity_covers_clipped_rows(kind: type[VectorMechanism], releases: int) -> None:
    """no two rows are farther apart after the clip than its sensitivity"""
    order = 1 if kind.sensitivity_norm == "l1" else 2
    for made in () if kind.directions_only else _examples(kind):
        for one, two in _pairs(made):
            distance = float(np.linalg.norm((one - two).astype(np.float64), order))
            require(distance <= made.sensitivity * (1 + 1e-6), f"sensitivity must be >= {distance!r}, got {made.sensitivity!r}")


def _loss_is_within_cost(kind: type[VectorMechanism], releases: int) -> None:
    """no output tells two rows apart by more than its cost"""
    for made in _examples(kind):
        epsilon, delta = made.cost
        for one, two in _pairs(made):
            ratio = _log_ratio(made, _released(made, one, releases), one, two)
            beyond = np.maximum(0.0, -np.expm1(epsilon - ratio))  # whose mean is delta at epsilon
            if delta == 0:
                largest = float(ratio.max())
                require(largest <= epsilon * (1 + 1e-6), f"the privacy loss must be at most {epsilon!r}, got {largest!r}")
            mean, error = float(beyond.mean()), float(beyond.std()) / math.sqrt(releases)
            require(mean <= delta + _ERRORS * error + 1e-9, f"delta must be at least {mean:.3g}, got {delta!r}")


def _density_is_that_of_the_releases(kind: type[VectorMechanism], releases: int) -> None:
    """its density is that of its releases, and of those of a job"""
    for made in _examples(kind):
        for one, two in _pairs(made):
            both = [_released(made, 2 * one, releases)]  # which the clip shortens
            if kind.in_jobs and kind.grade == "exact":
                both.append(_released_keyed(made, 2 * one, releases))
            for released in both if (one == made.clipped(2 * one)).all() else ():
                likelier = np.exp(-_log_ratio(made, released, one, two))  # of mean 1
                mean, error = float(likelier.mean()), float(likelier.std()) / math.sqrt(releases)
                near = abs(mean - 1) <= _ERRORS * error + 1e-3
                require(near, f"the mean of the likelihood ratio must be 1, got {mean:.4g} +- {error:.2g}")


def _noise_has_its_size(kind: type[VectorMechanism], releases: int) -> None:
    """its noise has the norm that it states"""
    for made in _examples(kind):
        one, _ = next(_pairs(made))
        squares = np.square(_released(made, one, releases).astype(np.float64) - one).sum(axis=1)
        error = float(squares.std()) / math.sqrt(releases) / float(squares.mean())
        measured = math.sqrt(float(squares.mean()))
        require(
            abs((measured / made.noise_norm) ** 2 - 1) <= 2 * _ERRORS * error + 1e-3,
            f"noise_norm must be about {measured:.4g}, got {made.noise_norm:.4g}",
        )


def _seed_gives_the_bits(kind: type[VectorMechanism], releases: int) -> None:
    """a seed gives the same bits, another seed others, and x stays as it was"""
    made = _made(kind, _PRICES[0])
    rows = _rows(20)
    before = rows.copy()
    first, again, other = (_release(made, rows, seed).values for seed in (1, 1, 2))
    require(np.array_equal(first, again), "the same seed gave other values")
    require(not np.array_equal(first, other), "another seed gave the same values")
    require(np.array_equal(rows, before), "x was changed")


def _form_is_kept(kind: type[VectorMechanism], releases: int) -> None:
    """values have the shape and dtype of x, and are finite multiples of its grid"""
    made = _made(kind, _PRICES[0])
    for x in (_rows(5), _rows(5)[0], _rows(5).astype(np.float64), _rows(0), np.zeros_like(_rows(2)), _rows(6)[::2]):
        values, receipt = _release(made, x, 1)
        require(values.shape == x.shape and values.dtype == x.dtype, f"{x.shape} {x.dtype} became {values.shape} {values.dtype}")
        require(bool(np.isfinite(values).all()), "a value is not finite")
        if isinstance(receipt, Receipt) and receipt.grid is not None:
            rest = np.fmod(values.astype(np.float64), receipt.grid)
            require(not rest.any(), f"a value is no multiple of the receipt's grid, {receipt.grid!r}")


def _bad_rows_are_refused(kind: type[VectorMechanism], releases: int) -> None:
    """NaN and Inf are refused, and nothing of them is written"""
    made = _made(kind, _PRICES[0])
    for bad in (np.nan, np.inf):
        rows = _rows(5)
        rows[3, 0] = bad
        out = np.full_like(rows, 7)
        privatized = partial(_release, made, rows, 1)
        applied = partial(made.apply, rows, out, _core.Generator.unsafe_seeded(1))
        for call in (privatized, applied):
            try:
                call()
            except ValueError as error:
                require("x" in str(error), f"the error must name x, got {str(error)!r}")
            else:
                require(False, f"{bad} was released")
        require(bool((out == 7).all()), "out was written before the rows were refused")


def _receipts_are_true(kind: type[VectorMechanism], releases: int) -> None:
    """its receipts hold, come back from JSON, and do not hold with a smaller price or noise"""
    for made in _examples(kind):
        receipt = privatize(_rows(4), mechanism=made).receipt
        require(isinstance(receipt, Receipt), f"a release must have a Receipt, got {validate.kind(receipt)}")
        assert isinstance(receipt, Receipt)
        wanted = "holds" if kind.grade == "exact" else "not a DP claim"
        found = verify_receipt(receipt)
        require(found.status == wanted, f"a receipt must be {wanted!r}, got {found.status!r}: {'; '.join(found.reasons)}")
        require(Receipt.from_json(receipt.to_json()) == receipt, "a receipt must come back from its JSON as it was")
        stated = receipt.epsilon, receipt.delta
        require(stated == made.cost, f"a receipt must state {made.cost}, got {stated}")
        forged: list[dict[str, Any]] = [{"epsilon": 0.9 * receipt.epsilon}]
        if not kind.directions_only:  # there sigma only scales the result
            forged.append({kind.parameter_name: 0.5 * made.noise_parameter})
        for changes in forged:
            status = verify_receipt(dataclasses.replace(receipt, **changes)).status
            require(status == "does not hold", f"a receipt with {changes} must not hold, got {status!r}")


def _words_are_there(kind: type[VectorMechanism], releases: int) -> None:
    """it says in words what it costs and leaves"""
    made = _made(kind, _PRICES[0])
    lines = made.describe()
    require(all(isinstance(line, str) and line for line in lines), "describe must return lines of text")
    require(any(repr(made.cost[0]) in line for line in lines), f"describe must say epsilon {made.cost[0]!r}")
    require(0 < made.expected_cosine() <= 1, f"expected_cosine must be in (0, 1], got {made.expected_cosine()!r}")


_CHECKS: tuple[Callable[[type[VectorMechanism], int], None], ...] = (
    _law_is_stated,
    _price_is_kept,
    _sensitivity_covers_clipped_rows,
    _loss_is_within_cost,
    _density_is_that_of_the_releases,
    _noise_has_its_size,
    _seed_gives_the_bits,
    _form_is_kept,
    _bad_rows_are_refused,
    _receipts_are_true,
    _words_are_there,
)


def require(holds: bool, why: str) -> None:
    if not holds:
        raise AssertionError(why)


# ---- what they are tried on ----


def _made(kind: type[VectorMechanism], epsilon: float, clip_norm: float = 1.0) -> VectorMechanism:
    setting: dict[str, Any] = {"dimension": _DIMENSION, "clip_norm": clip_norm, "rows_per_person": 1}
    own = {"epsilon": None, "sigma": 4.0 * clip_norm / epsilon} if kind.takes_sigma else {"epsilon": epsilon, "sigma": None}
    return kind.from_arguments(delta=_DELTA, **own, **setting)


def _examples(kind: type[VectorMechanism]) -> Iterator[VectorMechanism]:
    return (_made(kind, epsilon, clip_norm) for epsilon in _PRICES for clip_norm in _CLIP_NORMS)


def _stated(made: VectorMechanism, parameter: float) -> VectorMechanism:
    names = ("dimension", "clip_norm", "rows_per_person", "epsilon", *(("delta",) if made.takes_delta else ()), *made.further_numbers)
    numbers = {name: getattr(made, name) for name in names}
    return type(made).stated({**numbers, made.parameter_name: parameter, "released_grid": made.grid})


def _rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(1).standard_normal((count, _DIMENSION)).astype(np.float32)


def _pairs(made: VectorMechanism) -> Iterator[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Pairs of clipped rows: opposite corners, opposite ends of an axis, neighbors, and a row and none."""
    even = np.ones(made.dimension, np.float32)
    axis = np.eye(made.dimension, dtype=np.float32)[0]
    pairs = [(even, -even), (axis, -axis), (even, even - axis / 2)]
    if not made.directions_only:
        pairs.append((axis, 0 * axis))
    for one, two in pairs:
        yield tuple(made.clipped(made.clip_norm * 2 * row) for row in (one, two))


def _release(made: VectorMechanism, rows: NDArray[Any], seed: int) -> Release:
    return privatize(rows, mechanism=made, generator=_core.Generator.unsafe_seeded(seed))


def _released(made: VectorMechanism, row: NDArray[np.float32], count: int) -> NDArray[Any]:
    values: NDArray[Any] = _release(made, np.tile(row, (count, 1)), 3).values
    return values


def _released_keyed(made: VectorMechanism, row: NDArray[np.float32], count: int) -> NDArray[Any]:
    rows = np.tile(row, (count, 1))
    out = np.empty_like(rows)
    places = np.zeros((count, 5), "<u8")
    places[:, 2] = np.arange(count)
    made.release_keyed(rows, out, RowKeys(bytes(32), places.view(np.uint8), "chacha20"), half_words=made.half_words)
    return out


def _log_ratio(made: VectorMechanism, outputs: NDArray[Any], one: NDArray[Any], two: NDArray[Any]) -> NDArray[np.float64]:
    densities = made.log_densities(outputs.astype(np.float64), np.stack([one, two]).astype(np.float64))
    return np.asarray(densities[:, 0] - densities[:, 1])
