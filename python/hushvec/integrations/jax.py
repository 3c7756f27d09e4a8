"""hushvec inside JAX programs: `clip` and `clip_and_noise` for jax.Array, also under jax.jit.

On the CPU a compiled program calls the core itself (jax.ffi). On an accelerator, and where JAX has several CPU devices, which XLA
refuses calls with a side effect for, rows are processed on the host: JAX copies them there and back around a call of Python.

XLA may merge equal calls, drop those whose result nobody reads, and compute constants while it compiles. So the call that draws is
one with a side effect, which XLA makes once for each time that the program comes to it.

A program may outlive the process that compiled it. It draws from the process-wide generator of whatever process runs it. A
Generator that was given is known to the program by a random name that only this process can resolve.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec import noise
from hushvec._native import _core
from hushvec._native.arrays import TORCH_DTYPES
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.noise.fills import law_of

# Compiled programs do not say when they are gone: a generator that one of them was traced with lives as long as the process.
_names: dict[_core.Generator, str] = {}

# Calls outside jax.jit find their program here; its arguments are part of it.
_KEPT_PROGRAMS = 256


def clip(x: Any, clip_norm: float) -> Any:
    """`hushvec.clip` of a jax.Array.

    Args:
        x: float32, float64, float16 or bfloat16 [d] (one row) or [n, d].
        clip_norm: a Python number, fixed when the program is compiled.

    Returns:
        A jax.Array of x's shape and dtype, with the bits of `hushvec.clip`.

    Errors are those of `hushvec.clip`, at once or while the program is traced; for NaN or Inf in x an error of JAX that quotes
    ours, when the program runs; JAX's own for jax.grad through it.

    Example:
        >>> import jax
        >>> from hushvec.integrations.jax import clip
        >>> jax.jit(lambda x: clip(x, 1.0))(jax.numpy.ones((4, 384))).shape
        (4, 384)
    """
    _require_array(_import_jax(), x)
    return _clip_program(validate.clip_norm(clip_norm))(x)


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
        x: as for `clip`.
        clip_norm, sigma, scale, exact: as there; Python numbers, fixed when the program is compiled.
        generator: as there; the process-wide one, keyed by the operating system, if None. A jax.random key is none.

    Raises:
        TypeError, ValueError: as `clip`. bfloat16 on an accelerator, and a program that draws from a `generator` of another
            process: as for NaN. jax.export: JAX's error.

    Guarantees:
        Those of `hushvec.clip_and_noise`, and its bits. Every run of the program draws, so do equal calls within it, every turn of
        jax.lax.scan and every row of jax.vmap. A call is neither merged with another nor left out.

    Edge cases:
        XLA does not fix the order of several calls in one program: with a seeded generator, which of them draws first may change.
        Under jax.vmap all rows are one release, with the bits of one matrix. An x that does not depend on the mapped axis is released
        once, and the result repeated. A `generator` that was given lives as long as the process (docs/performance.md, "JAX").

    Example:
        >>> import jax
        >>> from hushvec.integrations.jax import clip_and_noise
        >>> release = jax.jit(lambda x: clip_and_noise(x, clip_norm=1.0, sigma=0.6))
        >>> release(jax.numpy.ones((4, 384))).shape
        (4, 384)
    """
    _require_array(_import_jax(), x)
    norm = validate.clip_norm(clip_norm)
    law, name, value = law_of(sigma, scale)
    value = validate.positive(name, value) if validate.flag("exact", exact) else validate.not_negative(name, value)
    source = require_generator(generator)
    source_name = ""
    if generator is not None:
        source_name = _names.setdefault(source, secrets.token_hex(16))
        _core.name_generator(source_name, source)
    return _noise_program(norm, law, name, value, exact, source, source_name)(x)


@lru_cache(_KEPT_PROGRAMS)
def _clip_program(clip_norm: float) -> Callable[[Any], Any]:
    attributes = {"clip_norm": np.float64(clip_norm)}
    return _program("hushvec_clip", lambda rows: noise.clip(np.asarray(rows), clip_norm), attributes, draws=False)


@lru_cache(_KEPT_PROGRAMS)
def _noise_program(
    clip_norm: float, law: str, parameter: str, value: float, exact: bool, source: _core.Generator, source_name: str
) -> Callable[[Any], Any]:
    chosen: Any = {parameter: value}
    attributes = dict(clip_norm=np.float64(clip_norm), noise=np.float64(value), law=law, exact=exact, generator=source_name)

    def on_host(rows: Any) -> NDArray[Any]:
        return noise.clip_and_noise(np.asarray(rows), clip_norm, exact=exact, generator=source, **chosen)

    return _program("hushvec_clip_and_noise", on_host, attributes, draws=True)


def _program(target: str, on_host: Callable[[Any], Any], attributes: dict[str, Any], *, draws: bool) -> Callable[[Any], Any]:
    """A compiled function of x: a call of the core's handler, or of Python, by the platform. jax.vmap gives it all rows at once."""
    jax = _import_jax()
    callback = jax.experimental.io_callback if draws else jax.pure_callback

    def by_callback(x: Any) -> Any:
        return callback(on_host, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    def in_program(x: Any) -> Any:
        return jax.ffi.ffi_call(target, jax.ShapeDtypeStruct(x.shape, x.dtype), has_side_effect=draws)(x, **attributes)

    @jax.custom_batching.custom_vmap  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return jax.lax.platform_dependent(x, **dict.fromkeys(_platforms(jax), in_program), default=by_callback)

    @program.def_vmap  # type: ignore[untyped-decorator]
    def all_rows(_size: int, _batched: list[bool], x: Any) -> tuple[Any, bool]:
        matrix = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return program(matrix).reshape(x.shape), True

    compiled: Callable[[Any], Any] = jax.jit(program, inline=True)
    return compiled


def _platforms(jax: Any) -> tuple[str, ...]:
    """Where a program calls the core itself; elsewhere it calls Python."""
    try:
        return ("cpu",) if jax.device_count("cpu") == 1 else ()
    except RuntimeError:  # JAX was told to use accelerators alone
        return ()


def _import_jax() -> Any:
    with needs_extra("hushvec.integrations.jax", "jax"):
        import jax
        import jax.custom_batching
        import jax.experimental
        import jax.ffi
    _register_handlers(jax)
    return jax


@cache
def _register_handlers(jax: Any) -> None:
    for target, handler in _core.xla_handlers().items():
        jax.ffi.register_ffi_target(target, handler, platform="cpu")


def _require_array(jax: Any, x: Any) -> None:
    if not isinstance(x, jax.Array):
        raise TypeError(f"x must be a jax.Array, got {validate.kind(x)}")
    if x.dtype.name not in TORCH_DTYPES:
        raise TypeError(f"x must be {' or '.join(TORCH_DTYPES)}, got {x.dtype.name}")
    if x.ndim not in (1, 2):
        raise ValueError(f"x must have 1 or 2 dimensions, got {x.ndim}")
