"""Whole numbers with the exact law of the discrete Gaussian and the discrete Laplacian, alone and on rows of whole numbers after the
exact clip (docs/proofs/discrete_gaussian.md); no privacy claim."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, kernels
from hushvec._native.arrays import dtype_name, dtype_named, is_contiguous, is_cupy, is_torch, require_form, require_integers
from hushvec._native.kernels import require_generator
from hushvec._util.validate import kind, number, whole_number

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-6, 2.0**40
_LARGEST_FOR_INT32 = {"sigma": 2.0**27, "scale": 2.0**24}
DTYPES = ("int64", "int32")


def discrete_gaussian(
    shape: int | tuple[int, ...], sigma: float, *, dtype: Any = "int64", generator: _core.Generator | None = None, out: Any = None
) -> Any:
    """Draw independent whole numbers k with probability proportional to exp(-k^2 / (2 sigma^2)).

    Args:
        shape: a length, or a tuple of lengths.
        sigma: parameter of the law, in [2^-6, 2^40]; for int32 at most 2^27. The standard deviation is at most sigma.
        dtype: "int64" or "int32", of a new numpy array; numpy's and torch's names of them too.
        generator: key stream to draw from; the process-wide one, keyed by the operating system, if None.
        out: a contiguous numpy array, torch tensor (CPU, CUDA) or CuPy array of int64 or int32 and of this shape, filled in place.

    Returns:
        The filled array: `out` itself where it was given.

    Raises:
        TypeError: another dtype; an `out` that is no such array.
        ValueError: sigma out of range; a shape that is not that of `out`; read-only `out`.
        RuntimeError: no CUDA backend or driver for an array on CUDA; a capture of a CUDA graph.

    Guarantees:
        The law is exact for the double sigma, for as long as the key stream cannot be told from random bits: rejection below a
        staircase of whole counts, in which floating point decides only what its error bound proves; everything else is compared with
        as many bits as it takes. The samples depend on generator, sigma and position alone, not on dtype, backend or threads.
        A building block without a privacy claim.

    Edge cases:
        int32 saturates at +-(2^31 - 1), with a probability below 2^-120 a sample. What is not decided by 1408 bits is redrawn, with a
        probability below 2^-1400. How long a call takes depends on its samples. On CUDA it waits, and the
        host settles what a word does not decide at once, at most 59 samples in 1,000.

    Reference:
        Canonne, Kamath and Steinke, "The discrete Gaussian for differential privacy" (2020), definition 1; docs/format.md section 15,
        docs/proofs/discrete.md.

    Example:
        >>> import hushvec as hv
        >>> hv.discrete_gaussian((2, 384), sigma=4.0).dtype
        dtype('int64')
    """
    return _draw(shape, "sigma", sigma, dtype, generator, out)


def discrete_laplacian(
    shape: int | tuple[int, ...], scale: float, *, dtype: Any = "int64", generator: _core.Generator | None = None, out: Any = None
) -> Any:
    """Draw independent whole numbers k with probability proportional to exp(-|k| / scale). All else is as in `discrete_gaussian`.

    Args:
        shape, dtype, generator, out: as in `discrete_gaussian`.
        scale: parameter of the law, in [2^-6, 2^40]; for int32 at most 2^24. The difference of two geometric variables with success
            probability 1 - exp(-1 / scale) has this law.

    Returns:
        The filled array: `out` itself where it was given.

    Raises:
        TypeError, ValueError: as `discrete_gaussian`.

    Guarantees:
        As `discrete_gaussian`.

    Edge cases:
        As in `discrete_gaussian`.

    Reference:
        Ghosh, Roughgarden and Sundararajan, "Universally utility-maximizing privacy mechanisms" (2009), definition 2.1, with
        alpha = exp(-1 / scale); docs/format.md section 15.

    Example:
        >>> import hushvec as hv
        >>> hv.discrete_laplacian(384, scale=2.5, dtype="int32").dtype
        dtype('int32')
    """
    return _draw(shape, "scale", scale, dtype, generator, out)


def _draw(shape: Any, name: str, scale: Any, dtype: Any, generator: _core.Generator | None, out: Any) -> Any:
    source = require_generator(generator)
    target = _target(shape, dtype, out)
    scale = number(name, scale)
    largest = _LARGEST_FOR_INT32[name] if dtype_name(target) == "int32" else LARGEST_SCALE
    if not SMALLEST_SCALE <= scale <= largest:
        of = " for int32" if largest < LARGEST_SCALE else ""
        raise ValueError(f"{name} must be in [2^-6, 2^{int(np.log2(largest))}]{of}, got {scale!r}")
    kernels.fill_discrete(target, name == "scale", scale, source)
    return target if out is None else out


def _target(shape: Any, dtype: Any, out: Any) -> Any:
    lengths = tuple([whole_number("shape", one, at_least=0) for one in (shape if isinstance(shape, (tuple, list)) else (shape,))])
    wanted = dtype_named(dtype)
    if wanted not in DTYPES:
        raise TypeError(f"dtype must be int64 or int32, got {dtype!r}")
    if out is None:
        return np.empty(lengths, wanted)
    out = arrays.shared("out", out, written=True)
    if not (type(out) is np.ndarray or is_torch(out) or is_cupy(out)):
        raise TypeError(f"out must be a numpy array, a torch tensor or a CuPy array, got {kind(out)}")
    require_integers("out", out)
    found = dtype_name(out)
    if found not in DTYPES:
        raise TypeError(f"out must be int64 or int32, got {found}")
    if wanted not in (DTYPES[0], found):
        raise TypeError(f"out must be {wanted}, the dtype asked for, got {found}")
    require_form(out, lengths, found)
    if not is_contiguous(out) or (isinstance(out, np.ndarray) and not (out.dtype.isnative and out.flags.aligned)):
        raise TypeError("out must be contiguous, aligned and in native byte order, got one that is not")
    return out


# ---- on rows ----


def whole_rows(name: str, x: Any) -> arrays.CheckedRows:
    """Rows of whole numbers as an array that `clip_and_add` takes."""
    x = arrays.shared(name, x)
    if type(x) is not np.ndarray or x.dtype.name not in DTYPES or not x.dtype.isnative:
        got = f"{kind(x)} of {x.dtype}" if hasattr(x, "dtype") else kind(x)
        raise TypeError(f"{name} must be a numpy array of int64 or int32 for discrete noise ('gaussian' takes floats), got {got}")
    if x.ndim not in (1, 2):
        raise ValueError(f"{name} must have 1 or 2 dimensions, got {x.ndim}")
    return arrays.CheckedRows(x, *arrays.rows_and_dimension(x), x.dtype.name, on_cuda=False, finite=True)


def clip_and_add(x: NDArray[Any], clip_norm: float, law: str, scale: float, source: _core.Generator) -> NDArray[Any]:
    """A new array of x's shape and dtype: rows after the exact clip, with discrete noise; sums beyond the dtype are its ends.

    A row of a norm N above clip_norm, L2 for "discrete_gaussian" and L1 for "discrete_laplacian", is brought to it: x becomes the
    integer part of x clip_norm / N, exactly. The other rows stay as they are.
    """
    return _core.clip_and_add_discrete(np.require(x, requirements=("C", "A")), clip_norm, law == "discrete_laplacian", scale, source)
