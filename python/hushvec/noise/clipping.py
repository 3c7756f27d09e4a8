"""Clipping of rows to an L2 ball, alone and fused with Gaussian or Laplace noise."""

from __future__ import annotations

from hushvec._native import _core, kernels
from hushvec._native.arrays import ArrayT, is_recorded, is_traced, output_like, require_array
from hushvec._native.conversion import as_array
from hushvec._native.generators import require_generator
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import clip_norm as require_clip_norm
from hushvec._util.validate import flag, not_negative, positive


def clip(x: ArrayT, clip_norm: float, *, out: ArrayT | None = None) -> ArrayT:
    """Scale down every row whose L2 norm exceeds clip_norm.

    Args:
        x: float array [d] (one row) or [n, d]: numpy or torch CPU with any strides, torch CUDA or CuPy contiguous; float32,
            float64, float16 or (torch) bfloat16. Lists and integers become float32, as in `privatize`.
        clip_norm: C, the largest norm allowed, in the unit of x; in [2^-100, 2^100].
        out: where the result goes, of x's kind, shape, dtype and device; may be x itself. A new array if None.

    Returns:
        The clipped rows: `out` itself where it was given.

    Raises:
        TypeError: wrong kinds, or dtypes that differ.
        ValueError: clip_norm out of range; NaN or Inf in x (the row is named); a wrong shape, a read-only `out`, or one that
            overlaps x without being x; a tensor that requires grad or lies on another device. Nothing is written in any of
            these cases, but for NaN or Inf on CUDA, where `out` then holds a result in which such rows are zero, or that another
            thread writes to x during the call.
        RuntimeError: no CUDA backend or driver for an x on CUDA; a caller that is being transformed by torch.func, or recorded by
            torch.fx.symbolic_trace, which would not see that rows are clipped; an x that is no tensor under another recorder.

    Guarantees:
        |row|_2 <= clip_norm in real arithmetic, not only up to rounding. Rows of norm up to clip_norm (1 - 2^-20) come back
        bit for bit. The same bits on every backend and for any number of threads. On the CPU this holds even while another
        thread writes to x: norm and values of a row come from one read.

    Edge cases:
        A zero row stays zero. No rows or no columns: an empty array. On CUDA the work runs on the caller's current stream,
        which is waited for; not so inside a CUDA graph capture, where rows with NaN or Inf become zero rows without an error.
        torch.compile, torch.export, torch.jit.trace and make_fx record the operator `hushvec::clip` (`hushvec::clip_` with `out`),
        which a process that runs the program has once it has imported hushvec.integrations.torch_ops.

    Reference:
        docs/format.md section 4.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> row = hv.clip(np.array([3.0, 4.0], np.float32), clip_norm=1.0)
        >>> bool(abs(np.linalg.norm(row) - 1) < 1e-5)
        True
    """
    if is_recorded(x):
        from hushvec._native import torch_ops

        return torch_ops.traced_clip(x, clip_norm, out)  # type: ignore[arg-type, return-value]
    require_no_recorder("clip")
    x = as_array("x", x)
    require_array("x", x)
    clip_norm = require_clip_norm(clip_norm)
    target = output_like(x, out)
    kernels.clip(x, clip_norm, target, out_is_fresh=out is None)
    return target


def clip_and_noise(
    x: ArrayT,
    clip_norm: float,
    sigma: float | None = None,
    *,
    scale: float | None = None,
    exact: bool = True,
    out: ArrayT | None = None,
    generator: _core.Generator | None = None,
) -> ArrayT:
    """Clip every row to clip_norm and add Gaussian noise N(0, sigma^2), or Laplace noise of a scale, fused.

    Args:
        x: float array [d] (one row) or [n, d]: numpy or torch CPU with any strides, torch CUDA or CuPy contiguous; float32,
            float64, float16 or (torch) bfloat16. Lists and integers become float32, as in `privatize`.
        clip_norm: C, in the unit of x; in [2^-100, 2^100].
        sigma: standard deviation of the noise, in the unit of x. `gaussian_sigma(epsilon, delta, 2 * clip_norm)` gives it.
        scale: in place of sigma: that of Laplace noise, the mean of |z|. `laplace_scale(epsilon, 2 * clip_norm * sqrt(d))` gives it:
            an L2 clip bounds the L1 distance by sqrt(d) times as much.
        exact: True releases the exact rounding of the ideal mechanism; False adds in floating point, for comparison only.
        out: where the result goes, of x's kind, shape, dtype and device; may be x itself. A new array if None.
        generator: key stream to draw from; the process-wide one, keyed by the operating system, if None.

    Returns:
        The noisy rows: `out` itself where it was given.

    Raises:
        TypeError: wrong kinds, or dtypes that differ; both sigma and scale, or neither.
        ValueError: clip_norm, sigma or scale out of range; clip_norm / sigma outside [2^-60, 2^30] where exact; NaN or Inf in x (the
            row is named); a wrong shape, a read-only `out`, or one that overlaps x without being x; a tensor that requires
            grad or lies on another device. Nothing is written in any of these cases, but for NaN or Inf on CUDA: `out` then
            holds a release in which such rows count as zero rows, or that another thread writes to x during the call.
        RuntimeError: no CUDA backend or driver for an x on CUDA; a captured graph without an ordinary call before; a caller that is
            being exported, traced, transformed by torch.func or run on fake tensors.

    Guarantees:
        Adjacency: replace one row; unit of privacy: one row; L2 sensitivity 2 clip_norm. With exact=True every output is
        round((clip(x) + sigma Z) / g) g over the reals for a public power of two g, hence exactly as private as the ideal
        Gaussian mechanism: (epsilon, gaussian_delta(epsilon, sigma, 2 clip_norm)) for every epsilon, for as long as the key
        stream cannot be told from random bits. With a scale the same holds of the Laplace mechanism: (2 clip_norm sqrt(d) / scale, 0).
        sigma is rounded up to float32 first. The same bits on every CPU and CUDA
        device. With exact=False, or a seeded generator, there is no such guarantee. On the CPU norm and values of a row come
        from one read, so that a row is clipped even while another thread writes to x; on CUDA x must not change during the call.

    Edge cases:
        No rows or no columns: an empty array. sigma = 0 is accepted only with exact=False and clips alone. Values saturate
        at 2^24 g, float16 and bfloat16 results at their largest finite value. On CUDA the work runs on the caller's current
        stream, which is waited for. Inside a CUDA graph capture nothing waits: rows with NaN or Inf are released as zero rows
        without an error; the generator, or without a seed another one of its cipher, must have been used on the device once
        before; every replay draws new noise. Under torch.compile every call of the program draws new noise, on the CPU from the
        process-wide generator and on CUDA from one for each device; `generator` must be None.

    Reference:
        Balle and Wang, "Improving the Gaussian mechanism for differential privacy" (2018), theorem 8; docs/format.md
        sections 4 and 5.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> sigma = hv.gaussian_sigma(epsilon=8.0, delta=1e-5, sensitivity=2.0)
        >>> hv.clip_and_noise(np.ones((4, 384), np.float32), clip_norm=1.0, sigma=sigma).shape
        (4, 384)
    """
    law, name, noise = law_of(sigma, scale)
    if is_traced(x):
        from hushvec._native import torch_ops

        return torch_ops.traced_clip_and_noise(x, clip_norm, law, noise, exact, out, generator)  # type: ignore[arg-type, return-value]
    source = require_generator(generator)
    x = as_array("x", x)
    require_array("x", x)
    clip_norm = require_clip_norm(clip_norm)
    noise = positive(name, noise) if flag("exact", exact) else not_negative(name, noise)
    target = output_like(x, out)
    kernels.clip_and_noise(x, clip_norm, noise, target, source, law, exact, out_is_fresh=out is None)
    return target


def law_of(sigma: float | None, scale: float | None) -> tuple[str, str, float]:
    """The law, the name of its parameter, and that parameter."""
    if scale is None:
        if sigma is None:
            raise TypeError("sigma must be given, or scale in its place, got neither")
        return "gaussian", "sigma", sigma
    if sigma is not None:
        raise TypeError("sigma must be left out where scale is given, got both")
    return "laplacian", "scale", scale
