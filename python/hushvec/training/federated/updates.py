"""`clip_and_noise_update`: one client's whole update, clipped and noisy before it leaves the client."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from hushvec._native import _core
from hushvec._native.arrays import dtype_name, is_torch, library_of, on_cuda, require_array, require_same_kind
from hushvec._native.kernels import joined
from hushvec._native.rowwise import first_nonfinite_row, require_finite
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.extend import Budget, charge, plan_release, release_sheet, require_chargeable
from hushvec.receipts import Receipt, TrainingReceipt
from hushvec.training.gradients import named_arrays, restored, sigma_of
from hushvec.training.noise_multiplier import noise_multiplier_for
from hushvec.training.schedule import StepSchedule

NOTE_UPDATE = "the row is the whole update of one client, clipped by one norm over its {}, in this order"
NOTE_ROUNDS = "one of {} rounds with this noise, which are ({!r}, {!r})-DP together"
_MOST_FLOAT16 = 65504.0


@shown
class UpdateRelease(NamedTuple):
    """Noisy values in the structure of the update, and their receipt, which `print` shows in words."""

    values: Any
    receipt: Receipt | TrainingReceipt

    def __repr__(self) -> str:
        return f"UpdateRelease({self._size()}, {self.receipt.mechanism}, is_dp_claim={self.receipt.is_dp_claim})"

    def _size(self) -> str:
        parts = named_arrays("values", self.values)[1]
        return f"{plural(len(parts), 'array')}, {plural(sum(math.prod(part.shape) for part in parts), 'element')}"

    def _sheet(self) -> Sheet:
        return release_sheet(self._size(), self.receipt)


def clip_and_noise_update(
    update: Any, *, clip_norm: float, delta: float, epsilon: float | None = None, noise_multiplier: float | None = None,
    rounds: int = 1, budget: Budget | None = None, generator: _core.Generator | None = None,
) -> UpdateRelease:
    """Clip and noise one client's update before it leaves the client: local differential privacy for all of the client's data.

    Args:
        update: a mapping, list or tuple of arrays, or one array, of any shapes: numpy, torch or CuPy; float32, float64, float16 or
            bfloat16, also mixed. Names, order, shapes and dtypes are public. Whole numbers, such as counters of batches, are refused.
        clip_norm: C in [2^-100, 2^100], the largest L2 norm of the update, over all of its arrays together.
        delta: in (0, 1), for all rounds together.
        epsilon: > 0, for all rounds together. The noise is the smallest with which `compose` gives so many rounds this epsilon.
        noise_multiplier: sigma / C > 0, in place of epsilon.
        rounds: how many updates the client releases with this noise, at most; a promise of the caller, unless a budget counts.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged for this round before anything is drawn.
            One in rho adds rounds up as `rounds` does; one in epsilon and delta pays what this round costs alone, in the sum far
            more than `epsilon`.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy, and
            together with a budget it is refused.

    Returns:
        UpdateRelease(values, receipt): new arrays of the same names, shapes and dtypes, and a `hushvec.Receipt` whose one row is the
        update. Its epsilon is that of this round alone; `compose` adds up the receipts of a run.

    Raises:
        TypeError: epsilon and noise_multiplier, or neither; what is not an array of floats.
        ValueError: NaN or Inf (the array is named), arrays on several devices, no element at all, an argument out of its range.
        PrivacyBudgetExhaustedError: not enough of the budget is left. It is charged after all checks, before anything is drawn.

    Guarantees:
        Any two updates give outputs that (epsilon, delta)-DP says cannot be told apart: replacing one update by any other moves the
        clipped one by at most 2 C, which is the sensitivity, and cannot be given. Noise N(0, sigma^2) is added over the reals and
        rounded to a public grid, as in `hushvec.clip_and_noise`; smaller floats are then rounded from it.

    Edge cases:
        Arrays of one dtype are drawn in it. Mixed ones are drawn in float32, or in float64 if one is, and rounded to their own dtype;
        float16 saturates at 65504. The values may be views of one block of memory. torch parameters are detached.

    Reference:
        Balle and Wang (2018), theorem 8; Dong, Roth, Su (2022), "Gaussian Differential Privacy", corollary 3.3: `rounds` Gaussians
        are one of sqrt(rounds) times the sensitivity.

    Example:
        >>> import numpy as np
        >>> from hushvec.federated import clip_and_noise_update
        >>> update = {"weight": np.ones((10, 3), np.float32), "bias": np.ones(10, np.float32)}
        >>> values, receipt = clip_and_noise_update(update, clip_norm=1.0, epsilon=8.0, delta=1e-5)
        >>> values["weight"].shape, receipt.sensitivity, receipt.epsilon
        ((10, 3), 2.0, 8.0)
    """
    count = validate.whole_number("rounds", rounds, at_least=1)
    delta = validate.delta(delta)
    names, parts = named_arrays("update", update)
    dimension = sum(math.prod(part.shape) for part in parts)
    flat = _flat(names, parts)
    if epsilon is not None and noise_multiplier is None and count == 1:
        noise: dict[str, Any] = {"mechanism": "gaussian", "epsilon": epsilon}
        together = validate.positive("epsilon", epsilon)
    else:
        multiplier, together = noise_of_rounds(epsilon, noise_multiplier, delta, count, adjacency="replace-one")
        noise = {"mechanism": "empirical", "epsilon": None, "sigma": sigma_of(multiplier, validate.clip_norm(clip_norm))}
    plan = plan_release(
        rows=1, dimension=dimension, dtype=dtype_name(flat), delta=delta, clip_norm=clip_norm, generator=generator, **noise
    )
    notes = [NOTE_UPDATE.format(plural(len(parts), "array"))] + [NOTE_ROUNDS.format(count, together, delta)] * (count > 1)
    receipt = plan.vector_receipt(1, on_device=on_cuda(flat), notes=tuple(notes), chosen_sigma=epsilon is None)
    plan.mechanism.require_release(flat)
    if budget is not None:
        require_chargeable(budget, plan)
        if first_nonfinite_row(flat) is not None:
            _require_finite(names, parts)
        receipt = charge(receipt, budget, plan)
    try:
        plan.mechanism.apply(flat, flat, plan.generator, out_is_fresh=True)
    except ValueError:  # the core knows no names
        _require_finite(names, parts)
        raise
    return UpdateRelease(restored(update, _cut(flat, parts)), receipt)


def noise_of_rounds(
    epsilon: float | None, noise_multiplier: float | None, delta: float, rounds: int, *, adjacency: str,
    sampling_probability: float = 1.0,
) -> tuple[float, float]:
    """(noise multiplier, epsilon of all rounds together), from one of the two."""
    if (epsilon is None) == (noise_multiplier is None):
        raise TypeError(f"epsilon or noise_multiplier must be given, got {'neither' if epsilon is None else 'both'}")
    if epsilon is not None:
        return noise_multiplier_for(epsilon, delta, sampling_probability, rounds, adjacency), float(epsilon)
    multiplier = validate.positive("noise_multiplier", noise_multiplier)
    schedule = StepSchedule(noise_multiplier=multiplier, sampling_probability=sampling_probability, adjacency=adjacency)
    return multiplier, schedule.as_stated.epsilon(rounds, delta)


def _flat(names: list[str], parts: list[Any]) -> Any:
    """A new run of all elements, of one dtype that holds each of them."""
    runs = [part.reshape(-1) for part in parts]
    for name, run in zip(names, runs):
        require_array(name, run)
        require_same_kind(name, run, names[0], runs[0])
    if not any(math.prod(part.shape) for part in parts):
        raise ValueError("update must have at least 1 element, got 0")
    dtypes = {dtype_name(run) for run in runs}
    common = dtypes.pop() if len(dtypes) == 1 else "float64" if "float64" in dtypes else "float32"
    if is_torch(runs[0]):
        runs = [run.to(getattr(library_of(run), common)) for run in runs]
    else:
        runs = [run.astype(common, copy=False) for run in runs]
    return joined(runs)


def _cut(flat: Any, parts: list[Any]) -> list[Any]:
    """The elements in the parts' shapes and dtypes."""
    found, end = [], 0
    for part in parts:
        begin, end = end, end + math.prod(part.shape)
        values = flat[begin:end].reshape(part.shape)
        if values.dtype != part.dtype:
            values = values.clip(-_MOST_FLOAT16, _MOST_FLOAT16) if dtype_name(part) == "float16" else values
            values = values.to(part.dtype) if is_torch(part) else values.astype(part.dtype)
        found.append(values)
    return found


def _require_finite(names: list[str], parts: list[Any]) -> None:
    for name, part in zip(names, parts):
        require_finite(name, part.reshape(1, -1))
