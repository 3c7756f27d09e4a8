"""Noise alone: building blocks without a privacy claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushvec._native import _core, kernels
from hushvec._native.arrays import (
    DEFAULT_DTYPE,
    ArrayT,
    device_scope,
    dtype_name,
    empty_like,
    is_torch,
    is_traced,
    noise_target,
    require_array,
    require_same_kind,
)
from hushvec._native.conversion import as_array
from hushvec._native.generators import require_generator
from hushvec._util.validate import not_negative


def gaussian_noise(
    shape: int | tuple[int, ...],
    sigma: float = 1.0,
    *,
    dtype: Any = DEFAULT_DTYPE,
    like: Any = None,
    out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw independent Gaussian noise N(0, sigma^2).

    Args:
        shape: a length, or (rows, columns).
        sigma: standard deviation, in the unit of the data.
        dtype: "float32", "float64" or "float16" of a new numpy array.
        like: a numpy array, torch tensor (CPU, CUDA) or CuPy array; the result is a new one of that kind, dtype and device.
        out: an array of these kinds and of this shape, filled in place; decides kind, dtype and device. CUDA arrays must be
            contiguous.
        generator: key stream to draw from; the process-wide one, keyed by the operating system, if None.

    Returns:
        The filled array: `out` itself where it was given.

    Raises:
        TypeError: wrong kinds, or a dtype that `like` or `out` contradicts.
        ValueError: sigma < 0, NaN or above 2^100; a shape that is not 1-D or 2-D or differs from that of `out`; read-only `out`;
            a tensor that requires grad.
        RuntimeError: no CUDA backend or driver for an array on CUDA; a captured graph without an ordinary call before; a caller that
            is being exported, traced, transformed by torch.func or run on fake tensors, whatever array it asks for.

    Guarantees:
        The stream is cryptographic (AES-256 or ChaCha) and never repeats. float64 samples use 64 bits per uniform, the others
        32. Adding this noise to data in floating point gives no differential privacy in the strict sense: the last bits of
        the sum depend on the data (Mironov 2012). `privatize` and `clip_and_noise` do it properly.

    Edge cases:
        A length of 0 gives an empty array; sigma = 0 gives zeros. On CUDA the work runs on the caller's current stream; inside
        a CUDA graph capture the generator, or without a seed another one of its cipher, must have been used on the device once
        before, and every replay draws new noise. Under torch.compile every call of the program draws new noise, on the CPU
        from the process-wide generator and on CUDA from one for each device; `generator` must be None.

    Reference:
        Box and Muller, "A note on the generation of random normal deviates" (1958), equation 1; docs/format.md section 3.

    Example:
        >>> import hushvec as hv
        >>> hv.gaussian_noise((2, 384), sigma=0.1).shape
        (2, 384)
    """
    return _noise("gaussian", "sigma", sigma, generator, noise_target(shape, dtype, like, out))


def laplacian_noise(
    shape: int | tuple[int, ...],
    scale: float = 1.0,
    *,
    dtype: Any = DEFAULT_DTYPE,
    like: Any = None,
    out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw independent Laplace noise, density exp(-|z|/scale) / (2 scale).

    Args:
        shape: a length, or (rows, columns).
        scale: mean of |z|; the standard deviation is sqrt(2) times as large.
        dtype: as in `gaussian_noise`; so are `like`, `out` and `generator`.
        like: a numpy array, torch tensor (CPU, CUDA) or CuPy array; the result is a new one of that kind, dtype and device.
        out: an array of these kinds and of this shape, filled in place. CUDA arrays must be contiguous.
        generator: key stream to draw from; the process-wide one if None.

    Returns:
        The filled array.

    Raises:
        TypeError: wrong kinds, or a dtype that `like` or `out` contradicts.
        ValueError: scale < 0, NaN or above 2^100; a wrong shape; read-only `out`;
            a tensor that requires grad.
        RuntimeError: as `gaussian_noise`.

    Guarantees:
        As `gaussian_noise`: a building block without a privacy claim.

    Edge cases:
        A length of 0 gives an empty array; scale = 0 gives zeros. CUDA streams, graphs and torch.compile: as `gaussian_noise`.

    Reference:
        Inverse distribution function, -scale ln u with a random sign; docs/format.md section 3.

    Example:
        >>> import hushvec as hv
        >>> hv.laplacian_noise(384, scale=0.5).dtype
        dtype('float32')
    """
    return _noise("laplacian", "scale", scale, generator, noise_target(shape, dtype, like, out))


def l2_laplace_noise(
    shape: int | tuple[int, ...],
    scale: float = 1.0,
    *,
    dtype: Any = DEFAULT_DTYPE,
    like: Any = None,
    out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw rows of L2-Laplace noise, density proportional to exp(-|z|_2 / scale) on each row.

    Args:
        shape: a length d (one row), or (rows, d).
        scale: the row's norm is Gamma(d, scale), so its mean is d * scale; the direction is uniform.
        dtype: as in `gaussian_noise`; so are `like`, `out` and `generator`.
        like: a numpy array, torch tensor (CPU, CUDA) or CuPy array; the result is a new one of that kind, dtype and device.
        out: an array of these kinds and of this shape, filled in place. CUDA arrays must be contiguous.
        generator: key stream to draw from; the process-wide one if None.

    Returns:
        The filled array.

    Raises:
        TypeError: wrong kinds, or a dtype that `like` or `out` contradicts.
        ValueError: scale < 0, NaN or above 2^100; a wrong shape; read-only `out`.
        RuntimeError: as `gaussian_noise`; a caller that is being recorded, by torch.compile too.

    Guarantees:
        As `gaussian_noise`: a building block without a privacy claim.

    Edge cases:
        A length of 0 gives an empty array; scale = 0 gives zeros. In one dimension the law is that of `laplacian_noise`. CUDA
        streams and graphs: as `gaussian_noise`. A call on a device takes memory for as many normals as the array has elements.

    Reference:
        Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); docs/format.md section 1.

    Example:
        >>> import hushvec as hv
        >>> hv.l2_laplace_noise((3, 384), scale=0.01).shape
        (3, 384)
    """
    return _noise("l2_laplace", "scale", scale, generator, noise_target(shape, dtype, like, out))


def _noise(law: str, name: str, scale: float, generator: _core.Generator | None, target: Any) -> Any:
    if law != "l2_laplace" and is_traced(target):
        from hushvec._native import torch_ops

        return torch_ops.traced_noise(law, target, scale, generator)
    scale = not_negative(name, scale)
    kernels.fill(target, law, scale, require_generator(generator))
    return target


def add_noise(embedding: ArrayT, noise: Any) -> ArrayT:
    """Add noise to an embedding, element by element.

    Args:
        embedding: float array [d] or [n, d], numpy, torch (CPU, CUDA) or CuPy. Lists and integers become float32, as in `privatize`.
        noise: an array of the same kind, shape and dtype, or a list.

    Returns:
        A new array; neither argument changes.

    Raises:
        TypeError: not arrays of one kind and dtype.
        ValueError: different shapes; a tensor that requires grad or lies on another device.

    Guarantees:
        None about privacy: this is a plain floating-point sum of whatever is given. `privatize` releases with a receipt.

    Edge cases:
        NaN and Inf pass through as in any sum; nothing is broadcast.

    Reference:
        The plain sum of "The algorithmic foundations of differential privacy" (Dwork and Roth 2014), definition 3.3.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> hv.add_noise(np.ones(384, np.float32), hv.gaussian_noise(384, sigma=0.1)).shape
        (384,)
    """
    embedding, noise = as_array("embedding", embedding), as_array("noise", noise)
    require_array("embedding", embedding)
    require_array("noise", noise)
    require_same_kind("noise", noise, "embedding", embedding)
    if dtype_name(embedding) != dtype_name(noise):
        raise TypeError(f"noise must be {dtype_name(embedding)}, got {dtype_name(noise)}")
    shape = tuple(embedding.shape)  # type: ignore[attr-defined]
    if shape != tuple(noise.shape):
        raise ValueError(f"noise must have shape {shape}, got {tuple(noise.shape)}")
    total = empty_like(embedding)
    if is_torch(embedding):
        total.copy_(embedding + noise)  # type: ignore[attr-defined]
    elif isinstance(embedding, np.ndarray):
        np.add(embedding, noise, out=total)  # type: ignore[call-overload]
    else:
        with device_scope(embedding):
            total[...] = embedding + noise  # type: ignore[index]
    return total
