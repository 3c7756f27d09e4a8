"""Clipped, summed and noisy gradients of one batch, as a function."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

from hushvec._native import _core
from hushvec._native.arrays import DEFAULT_DTYPE, TORCH_DTYPES, dtype_name, is_torch, new_array, returned, shared
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.rounding import product_up
from hushvec.training.clip_rules import LARGEST_CLIP_NORM
from hushvec.training.clipped_sums import CLIPPINGS, ClippedSum

# Units in the largest gradient below which a sum without noise is worth a warning: fewer than 8 bits of it are kept.
FEW_UNITS = 2**8


def sigma_of(noise_multiplier: float, clip_norm: float, stretch: float = 1.0) -> float:
    """noise_multiplier * clip_norm * stretch, rounded up."""
    return product_up(noise_multiplier, clip_norm, stretch)


def require_scales(clip_norm: float, noise_multiplier: float, stretch: float = 1.0) -> tuple[float, float]:
    """Both as floats, if gradients can be clipped to this norm and get this noise: the two must have a common grid."""
    norm = validate.clip_norm(clip_norm)
    if norm > LARGEST_CLIP_NORM:
        raise ValueError(
            f"clip_norm must be <= 2^20 for gradients, got {norm!r}: sums are held in units of clip_norm 2^-25, and smaller "
            "gradients vanish (scale the loss instead; without clipping there is no privacy)"
        )
    multiplier = validate.not_negative("noise_multiplier", noise_multiplier)
    try:
        ClippedSum([(1,)], clip_norm=norm, sigma=sigma_of(multiplier, norm, stretch))
    except ValueError as error:
        raise ValueError(f"noise_multiplier {multiplier!r} and clip_norm {norm!r} must have a common grid: {error}") from None
    return norm, multiplier


def warn_if_lost(parts: list[Any], clip_norm: float) -> None:
    """Warn of gradients without noise that are barely representable in the units of the sum."""
    unit = math.ldexp(1.0, math.ceil(math.log2(clip_norm)) - 25)
    largest = max((float(abs(part).max()) for part in parts if math.prod(part.shape)), default=0.0)
    if 0 < largest < FEW_UNITS * unit:
        warnings.warn(
            f"gradients of at most {largest:.3g} are rounded to multiples of {unit:.3g}, which clip_norm = {clip_norm!r} sets: "
            "lower it",
            stacklevel=4,
        )


def clip_and_noise_gradients(
    per_example_grads: Any, clip_norm: float, noise_multiplier: float, *, divisor: float | None = None, clipping: str = "auto",
    generator: _core.Generator | None = None, allow_empty: bool = False,
) -> Any:
    """The noisy sum of clipped per-example gradients: one step of DP-SGD up to the optimizer.

    Args:
        per_example_grads: an array [B, ...], or a list, tuple or mapping of arrays [B, ...], one for each parameter; numpy or torch.
            An example's norm is taken over all of them together.
        clip_norm: C, the largest norm of one example's gradient, in its unit; in [2^-100, 2^20]. What is below C 2^-25 is dropped.
        noise_multiplier: sigma / C, >= 0. 0 adds no noise and gives no privacy.
        divisor: what the noisy sum is divided by: a public constant, such as the expected batch size. None: 1. Never the true size.
        clipping: "exact": rows longer than C come to norm C (1 - 2^-20). "estimated": to at least 0.97 C, from one read of the
            gradients. "auto": by the length of a row. Never above C in any of them.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy.
        allow_empty: accept B = 0, an empty Poisson sample: the result is noise alone.

    Returns:
        The same structure without B: float32 arrays of the same library.

    Raises:
        ValueError: NaN or Inf (array and row are named); B that differs between arrays, or 0.

    Guarantees:
        The sum before the noise is exact and moves by at most C in L2 when an example is added or removed, 2 C when one is
        replaced. The noise is N(0, sigma^2) in every coordinate, added over the reals and rounded to a public grid. One call is
        (epsilon, gaussian_delta(epsilon, noise_multiplier, 1))-DP under add-remove, before any amplification.

    Edge cases:
        An example of norm 0 counts as it is. Results saturate at the end of the grid (docs/format.md). Without noise a warning
        says when the gradients are barely above C 2^-25.

    Reference:
        Abadi et al. (2016), algorithm 1; docs/proofs/dp_sgd.md; docs/format.md section 7.

    Example:
        >>> import numpy as np
        >>> from hushvec.training import clip_and_noise_gradients
        >>> gradients = {"weight": np.ones((64, 10, 3), np.float32), "bias": np.ones((64, 10), np.float32)}
        >>> noisy = clip_and_noise_gradients(gradients, clip_norm=1.0, noise_multiplier=1.1, divisor=64)
        >>> {name: part.shape for name, part in noisy.items()}
        {'weight': (10, 3), 'bias': (10,)}
    """
    source = require_generator(generator)
    names, parts = named_arrays("per_example_grads", per_example_grads)
    clip_norm, noise_multiplier = require_scales(clip_norm, noise_multiplier)
    divide_by = 1.0 if divisor is None else validate.positive("divisor", divisor)
    validate.choice("clipping", clipping, CLIPPINGS)
    for name, part in zip(names, parts):
        if part.ndim < 1:
            raise ValueError(f"{name} must have at least 1 dimension, that of the examples, got 0")
        if len(part) != len(parts[0]):
            raise ValueError(f"{name} must have {len(parts[0])} examples like {names[0]}, got {len(part)}")
    rows = len(parts[0])
    if rows == 0 and not validate.flag("allow_empty", allow_empty):
        raise ValueError(f"{names[0]} must have at least 1 example, got 0 (allow_empty=True gives noise alone)")
    total = ClippedSum(
        [tuple(part.shape[1:]) for part in parts], clip_norm=clip_norm, sigma=sigma_of(noise_multiplier, clip_norm), clipping=clipping
    )
    if rows and noise_multiplier == 0:
        warn_if_lost(parts, clip_norm)
    if rows:
        total.add(parts, names)
    noisy = total.release(source, [new_array(part, tuple(part.shape[1:]), dtype=DEFAULT_DTYPE) for part in parts])
    if divide_by != 1.0:
        for part in noisy:
            part /= divide_by
    return restored(per_example_grads, noisy)


def named_arrays(what: str, structure: Any) -> tuple[list[str], list[Any]]:
    """The arrays of a mapping, a list, a tuple or one array, and what errors call them; `what` is the argument's name."""
    if isinstance(structure, Mapping):
        names, parts = [f"{what}[{name!r}]" for name in structure], list(structure.values())
    elif isinstance(structure, (list, tuple)):
        names, parts = [f"{what}[{index}]" for index in range(len(structure))], list(structure)
    else:
        names, parts = [what], [structure]
    parts = [shared(name, part) for name, part in zip(names, parts)]
    if not parts:
        raise ValueError(f"{what} must hold at least 1 array, got none")
    for name, part in zip(names, parts):
        if not (hasattr(part, "shape") and hasattr(part, "dtype")):
            raise TypeError(f"{name} must be a numpy array or a torch tensor, got {validate.kind(part)}")
        if dtype_name(part) not in TORCH_DTYPES:
            raise TypeError(f"{name} must be {' or '.join(TORCH_DTYPES)}, got {dtype_name(part)}")
    return names, [part.detach() if is_torch(part) else part for part in parts]


def restored(structure: Any, parts: list[Any]) -> Any:
    """These arrays in the structure that `named_arrays` took them from, and of its kind."""
    if isinstance(structure, Mapping):
        return dict(zip(structure, map(returned, structure.values(), parts)))
    if isinstance(structure, (list, tuple)):
        return (list if isinstance(structure, list) else tuple)(map(returned, structure, parts))
    return returned(structure, parts[0])
