"""Noise on arrays: clipping of rows to an L2 ball, alone and fused with noise; noise alone, without a privacy claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushvec._native import _core, arrays, kernels
from hushvec._native.arrays import ArrayT, returned
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import given_array
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import clip_norm as require_clip_norm
from hushvec._util.validate import flag, not_negative, positive


def clip(x: ArrayT, clip_norm: float, *, out: ArrayT | None = None) -> ArrayT:
    """Scale down every row whose L2 norm exceeds clip_norm.

    Args:
        x: float array [d] (one row) or [n, d]: numpy, torch or with DLPack on the CPU, any strides; torch CUDA or CuPy, contiguous;
            float32, float64, float16 or (torch, DLPack) bfloat16. Lists and integers become float32, as in `privatize`.
        clip_norm: C, the largest norm allowed, in the unit of x; in [2^-100, 2^100].
        out: where the result goes, of x's kind, shape, dtype and device; may be x itself. A new array if None. DLPack must say that
            memory of another library may be written to.

    Returns:
        The clipped rows: `out` itself where it was given.

    Raises:
        ValueError: clip_norm out of range; NaN or Inf in x (the row is named); `out` of another form, read-only, or overlapping x
            without being x; a tensor that requires grad. Nothing is written then, except that on CUDA rows with NaN or Inf are zero.
        RuntimeError: no CUDA backend or driver for an x on CUDA; a caller that torch.func or torch.fx.symbolic_trace records.

    Guarantees:
        |row|_2 <= clip_norm in real arithmetic, on the CPU even while another thread writes to x. Rows of norm up to
        clip_norm (1 - 2^-20) come back bit for bit. The same bits on every backend and for any number of threads.

    Edge cases:
        On CUDA the work runs on the caller's current stream, which is waited for; not so inside a CUDA graph capture, where rows
        with NaN or Inf become zero rows without an error. torch.compile, torch.export, torch.jit.trace and make_fx record the
        operator `hushvec::clip` (`hushvec::clip_` with `out`) of hushvec.integrations.torch_ops.

    Reference:
        docs/format.md section 4.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> row = hv.clip(np.array([3.0, 4.0], np.float32), clip_norm=1.0)
        >>> bool(abs(np.linalg.norm(row) - 1) < 1e-5)
        True
    """
    if arrays.is_recorded(x):
        from hushvec._native import torch_ops

        return torch_ops.traced_clip(x, clip_norm, out)  # type: ignore[arg-type, return-value]
    require_no_recorder("clip")
    values = given_array("x", x)
    clip_norm = require_clip_norm(clip_norm)
    target = arrays.output_like(values, out)
    kernels.clip(values, clip_norm, target, out_is_fresh=out is None)
    return target if values is x and (out is None or out is target) else returned(x, target, out)  # type: ignore[no-any-return]


def clip_and_noise(
    x: ArrayT, clip_norm: float, sigma: float | None = None, *, scale: float | None = None, exact: bool = True,
    out: ArrayT | None = None, generator: _core.Generator | None = None,
) -> ArrayT:
    """Clip every row to clip_norm and add Gaussian noise N(0, sigma^2), or Laplace noise of a scale, fused.

    Args:
        x: as in `clip`; so are clip_norm and out.
        sigma: standard deviation of the noise, in the unit of x. `gaussian_sigma(epsilon, delta, 2 * clip_norm)` gives it.
        scale: in place of sigma: that of Laplace noise, the mean of |z|. `laplace_scale(epsilon, 2 * clip_norm * sqrt(d))` gives it.
        exact: True releases the exact rounding of the ideal mechanism; False adds in floating point, for comparison only.
        generator: key stream to draw from; the process-wide one, keyed by the operating system, if None.

    Returns:
        The noisy rows: `out` itself where it was given.

    Raises:
        TypeError: both sigma and scale, or neither.
        ValueError: as `clip`; sigma or scale out of range; clip_norm / sigma outside [2^-60, 2^30] where exact.
        RuntimeError: as `gaussian_noise`.

    Guarantees:
        Adjacency: replace one row; unit of privacy: one row; L2 sensitivity 2 clip_norm. With exact=True every output is
        round((clip(x) + sigma Z) / g) g over the reals for a public power of two g, hence exactly as private as the ideal
        Gaussian mechanism: (epsilon, gaussian_delta(epsilon, sigma, 2 clip_norm)) for every epsilon, for as long as the key
        stream cannot be told from random bits. With a scale the same holds of the Laplace mechanism: (2 clip_norm sqrt(d) / scale, 0).
        sigma is rounded up to float32 first. The same bits on every CPU and CUDA device. With exact=False, or a seeded generator,
        there is no such guarantee. On CUDA x must not change during the call.

    Edge cases:
        sigma = 0 is accepted only with exact=False and clips alone. Values saturate at 2^24 g, float16 and bfloat16 results at their
        largest finite value. CUDA streams, graphs and torch.compile: as `gaussian_noise`; in a graph, rows with NaN or Inf are
        released as zero rows without an error.

    Reference:
        Balle and Wang (2018), theorem 8; docs/format.md sections 4 and 5.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> sigma = hv.gaussian_sigma(epsilon=8.0, delta=1e-5, sensitivity=2.0)
        >>> hv.clip_and_noise(np.ones((4, 384), np.float32), clip_norm=1.0, sigma=sigma).shape
        (4, 384)
    """
    law, name, noise = law_of(sigma, scale)
    if arrays.is_traced(x):
        from hushvec._native import torch_ops

        return torch_ops.traced_clip_and_noise(x, clip_norm, law, noise, exact, out, generator)  # type: ignore[arg-type, return-value]
    source = require_generator(generator)
    values = given_array("x", x)
    clip_norm = require_clip_norm(clip_norm)
    noise = positive(name, noise) if flag("exact", exact) else not_negative(name, noise)
    target = arrays.output_like(values, out)
    kernels.clip_and_noise(values, clip_norm, noise, target, source, law, exact, out_is_fresh=out is None)
    return target if values is x and (out is None or out is target) else returned(x, target, out)  # type: ignore[no-any-return]


def law_of(sigma: float | None, scale: float | None) -> tuple[str, str, float]:
    if scale is None:
        if sigma is None:
            raise TypeError("sigma must be given, or scale in its place, got neither")
        return "gaussian", "sigma", sigma
    if sigma is not None:
        raise TypeError("sigma must be left out where scale is given, got both")
    return "laplacian", "scale", scale


def gaussian_noise(
    shape: int | tuple[int, ...], sigma: float = 1.0, *, dtype: Any = "float32", like: Any = None, out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw independent Gaussian noise N(0, sigma^2).

    Args:
        shape: a length, or (rows, columns).
        sigma: standard deviation, in the unit of the data.
        dtype: "float32", "float64" or "float16" of a new numpy array.
        like: an array of numpy, torch (CPU, CUDA), CuPy or with DLPack; the result is a new one of that kind, dtype and device.
        out: an array of these kinds and of this shape, filled in place; decides kind, dtype and device. CUDA arrays must be
            contiguous.
        generator: key stream to draw from; the process-wide one, keyed by the operating system, if None.

    Returns:
        The filled array: `out` itself where it was given.

    Raises:
        TypeError: a dtype that `like` or `out` contradicts.
        ValueError: sigma < 0, NaN or above 2^100; a shape that is not 1-D or 2-D or differs from that of `out`; read-only `out`;
            a tensor that requires grad.
        RuntimeError: no CUDA backend or driver for an array on CUDA; a captured graph without an ordinary call before; a caller that
            is being exported, traced, transformed by torch.func or run on fake tensors.

    Guarantees:
        The stream is cryptographic (AES-256 or ChaCha) and never repeats. float64 samples use 64 bits per uniform, the others
        32. Adding this noise to data in floating point gives no differential privacy in the strict sense: the last bits of
        the sum depend on the data (Mironov 2012). `privatize` and `clip_and_noise` do it properly.

    Edge cases:
        A length of 0 gives an empty array; sigma = 0 gives zeros. On CUDA the work runs on the caller's current stream, which is
        waited for. Inside a CUDA graph capture nothing waits: the generator, or without a seed another one of its cipher, must have
        been used on the device once before, and every replay draws new noise. Under torch.compile every call of the program draws
        new noise, on the CPU from the process-wide generator and on CUDA from one for each device; `generator` must be None.

    Reference:
        Box and Muller, "A note on the generation of random normal deviates" (1958), equation 1; docs/format.md section 3.

    Example:
        >>> import hushvec as hv
        >>> hv.gaussian_noise((2, 384), sigma=0.1).shape
        (2, 384)
    """
    return _noise("gaussian", "sigma", sigma, generator, arrays.noise_target(shape, dtype, like, out), like, out)


def laplacian_noise(
    shape: int | tuple[int, ...], scale: float = 1.0, *, dtype: Any = "float32", like: Any = None, out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw independent Laplace noise, density exp(-|z|/scale) / (2 scale). All else is as in `gaussian_noise`.

    Args:
        scale: mean of |z|; the standard deviation is sqrt(2) times as large.
        shape, dtype, like, out, generator: as in `gaussian_noise`.

    Returns:
        The filled array.

    Raises:
        ValueError: scale < 0, NaN or above 2^100.

    Guarantees:
        A building block without a privacy claim.

    Edge cases:
        scale = 0 gives zeros.

    Reference:
        Inverse distribution function, -scale ln u with a random sign; docs/format.md section 3.

    Example:
        >>> import hushvec as hv
        >>> hv.laplacian_noise(384, scale=0.5).dtype
        dtype('float32')
    """
    return _noise("laplacian", "scale", scale, generator, arrays.noise_target(shape, dtype, like, out), like, out)


def l2_laplace_noise(
    shape: int | tuple[int, ...], scale: float = 1.0, *, dtype: Any = "float32", like: Any = None, out: Any = None,
    generator: _core.Generator | None = None,
) -> Any:
    """Draw rows of L2-Laplace noise, density proportional to exp(-|z|_2 / scale) on each row. All else is as in `gaussian_noise`.

    Args:
        shape: a length d (one row), or (rows, d).
        scale: the row's norm is Gamma(d, scale), so its mean is d * scale; the direction is uniform.
        dtype, like, out, generator: as in `gaussian_noise`.

    Returns:
        The filled array.

    Raises:
        ValueError: scale < 0, NaN or above 2^100.
        RuntimeError: a caller that is being recorded, by torch.compile too.

    Guarantees:
        A building block without a privacy claim.

    Edge cases:
        In one dimension the law is that of `laplacian_noise`. On a device it takes memory for as many normals as there are elements.

    Reference:
        Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); docs/format.md section 1.

    Example:
        >>> import hushvec as hv
        >>> hv.l2_laplace_noise((3, 384), scale=0.01).shape
        (3, 384)
    """
    return _noise("l2_laplace", "scale", scale, generator, arrays.noise_target(shape, dtype, like, out), like, out)


def _noise(law: str, name: str, scale: float, generator: _core.Generator | None, target: Any, like: Any, out: Any) -> Any:
    if law != "l2_laplace" and arrays.is_traced(target):
        from hushvec._native import torch_ops

        return torch_ops.traced_noise(law, target, scale, generator)
    scale = not_negative(name, scale)
    kernels.fill(target, law, scale, require_generator(generator))
    return target if like is out or target is out else returned(like, target, out)  # without both, None


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
    given, embedding, noise = embedding, given_array("embedding", embedding), given_array("noise", noise)
    arrays.require_same_kind("noise", noise, "embedding", embedding)
    if arrays.dtype_name(embedding) != arrays.dtype_name(noise):
        raise TypeError(f"noise must be {arrays.dtype_name(embedding)}, got {arrays.dtype_name(noise)}")
    shape = tuple(embedding.shape)  # type: ignore[attr-defined]
    if shape != tuple(noise.shape):
        raise ValueError(f"noise must have shape {shape}, got {tuple(noise.shape)}")
    total = arrays.empty_like(embedding)
    if arrays.is_torch(embedding):
        total.copy_(embedding + noise)  # type: ignore[attr-defined]
    elif isinstance(embedding, np.ndarray):
        np.add(embedding, noise, out=total)  # type: ignore[call-overload]
    else:
        with arrays.device_scope(embedding):
            total[...] = embedding + noise  # type: ignore[index]
    return returned(given, total)  # type: ignore[no-any-return]
