"""hushvec inside JAX programs: `clip` and `clip_and_noise` for jax.Array, also under jax.jit.

XLA may merge equal calls, drop those whose result nobody reads, and compute constants while it compiles. So the call that draws is
one with a side effect (jax.experimental.io_callback), which XLA makes once for each time that the program comes to it. JAX keeps
programs with such calls out of its compilation cache and exports none.

Rows are processed on the host. An array on an accelerator is copied there and back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec import noise
from hushvec._native import _core
from hushvec._native.arrays import NUMPY_DTYPES
from hushvec._native.generators import require_generator
from hushvec._util import validate
from hushvec._util.extras import needs_extra
from hushvec.noise.clipping import law_of


def clip(x: Any, clip_norm: float) -> Any:
    """`hushvec.clip` of a jax.Array.

    Args:
        x: float32, float64 or float16 [d] (one row) or [n, d].
        clip_norm: a Python number, fixed when the program is compiled.

    Returns:
        A jax.Array of x's shape and dtype, with the bits of `hushvec.clip`.

    Raises:
        MissingExtraError: JAX is not installed.
        TypeError, ValueError: as `hushvec.clip`, at once or while the program is traced. NaN or Inf in x: an error of JAX that quotes
            ours, when the program runs. jax.grad through it: JAX's error.

    Example:
        >>> import jax
        >>> from hushvec.integrations.jax import clip
        >>> jax.jit(lambda x: clip(x, 1.0))(jax.numpy.ones((4, 384))).shape
        (4, 384)
    """
    jax = _import_jax()
    _require_array(jax, x)
    norm = validate.clip_norm(clip_norm)

    def on_host(rows: Any) -> NDArray[Any]:
        return noise.clip(np.asarray(rows), norm)

    return jax.pure_callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x, vmap_method="sequential")


def clip_and_noise(
    x: Any,
    clip_norm: float,
    sigma: float | None = None,
    *,
    scale: float | None = None,
    exact: bool = True,
    generator: _core.Generator | None = None,
) -> Any:
    """`hushvec.clip_and_noise` of a jax.Array: new noise each time the program runs.

    Args:
        x: float32, float64 or float16 [d] (one row) or [n, d].
        clip_norm, sigma, scale, exact: as there; Python numbers, fixed when the program is compiled.
        generator: as there; the process-wide one, keyed by the operating system, if None. A jax.random key is none.

    Returns:
        A jax.Array of x's shape and dtype.

    Raises:
        MissingExtraError: JAX is not installed.
        TypeError, ValueError: as `hushvec.clip_and_noise`, at once or while the program is traced; bfloat16. NaN or Inf in x: an error
            of JAX that quotes ours, when the program runs. jax.grad through it, and jax.export: JAX's errors.

    Guarantees:
        Those of `hushvec.clip_and_noise`, and its bits. Every run of the program draws, so do equal calls within it, every turn of
        jax.lax.scan and every row of jax.vmap. A call is neither merged with another nor left out.

    Edge cases:
        XLA does not fix the order of several calls in one program: with a seeded generator, which of them draws first may change.
        Under jax.vmap rows are released one by one; give a matrix instead.

    Reference:
        docs/performance.md, "JAX".

    Example:
        >>> import jax
        >>> from hushvec.integrations.jax import clip_and_noise
        >>> release = jax.jit(lambda x: clip_and_noise(x, clip_norm=1.0, sigma=0.6))
        >>> release(jax.numpy.ones((4, 384))).shape
        (4, 384)
    """
    jax = _import_jax()
    _require_array(jax, x)
    norm = validate.clip_norm(clip_norm)
    _, name, value = law_of(sigma, scale)
    value = validate.positive(name, value) if validate.flag("exact", exact) else validate.not_negative(name, value)
    source = require_generator(generator)
    chosen: Any = {name: value}

    def on_host(rows: Any) -> NDArray[Any]:
        return noise.clip_and_noise(np.asarray(rows), norm, exact=exact, generator=source, **chosen)

    callback: Callable[..., Any] = jax.experimental.io_callback
    return callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _import_jax() -> Any:
    with needs_extra("hushvec.integrations.jax", "jax"):
        import jax
        import jax.experimental
    return jax


def _require_array(jax: Any, x: Any) -> None:
    if not isinstance(x, jax.Array):
        raise TypeError(f"x must be a jax.Array, got {validate.kind(x)}")
    if x.dtype.name not in NUMPY_DTYPES:
        raise TypeError(f"x must be {' or '.join(NUMPY_DTYPES)}, got {x.dtype.name}")
    if x.ndim not in (1, 2):
        raise ValueError(f"x must have 1 or 2 dimensions, got {x.ndim}")
