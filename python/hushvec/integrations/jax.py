"""hushvec inside JAX programs, also under jax.jit: `clip` and `clip_and_noise` for jax.Array; noisy gradients for optax, jax_privacy.

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
from functools import cache, lru_cache, partial
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
from hushvec.training.gradients import clip_and_noise_gradients, require_scales, sigma_of

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
    x: Any, clip_norm: float, sigma: float | None = None, *, scale: float | None = None, exact: bool = True,
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
    return _noise_program(norm, law, name, value, exact, *_named(generator))(x)


def differentially_private_aggregate(
    l2_norm_clip: float, noise_multiplier: float, key: None = None, *, seed: None = None, divisor: float | None = None,
    generator: _core.Generator | None = None,
) -> Any:
    """`optax.contrib.differentially_private_aggregate` with exact sums and exact noise: one step of DP-SGD up to the optimizer.

    Args:
        l2_norm_clip: largest norm of one example's gradient, over all arrays together, in [2^-100, 2^20]; errors say clip_norm.
        noise_multiplier: standard deviation of the noise / l2_norm_clip, >= 0. 0 adds no noise and gives no privacy.
        key, seed: refused: the operating system keys the noise. `generator` is as for `clip_and_noise`; a seeded one is not private.
        divisor: of the noisy sum, a public constant: the expected size of Poisson batches. None: B, as in optax, if B is public.

    Returns:
        optax's transformation, without state: `update(updates, state, params=None, *, is_padding_example=None)` makes arrays [...]
        of a pytree of per-example gradients [B, ...], in their dtypes (those of `clip`). B = 0, with a divisor, gives noise alone.
        `is_padding_example`, bool [B], marks rows that do not count: of Poisson batches that were padded to a public size.

    Raises TypeError or ValueError when it is made or traced; JAX's errors for other dtypes, NaN or Inf in a run, and for jax.vmap.

    Guarantees:
        Those of `hushvec.training.clip_and_noise_gradients` with clipping="exact", and its bits before the division, also under
        jax.jit: XLA sums nothing. Division and rounding to 16 bits follow the noise. No budget is charged, no sampling checked.

    Example:
        >>> import jax, optax
        >>> from hushvec.integrations.jax import differentially_private_aggregate
        >>> optimizer = optax.chain(differentially_private_aggregate(1.0, 1.1), optax.sgd(0.1))
        >>> gradients = jax.numpy.ones((64, 3))                  # of 64 examples, as jax.vmap(jax.grad(loss), (None, 0)) gives them
        >>> jax.jit(optimizer.update)(gradients, optimizer.init(jax.numpy.zeros(3)))[0].shape
        (3,)
    """
    jax, optax = _import_optax(key=key, seed=seed)
    clip_norm, noise_multiplier = require_scales(l2_norm_clip, noise_multiplier)
    divide_by = None if divisor is None else validate.positive("divisor", divisor)
    source, name = _named(generator)
    attributes = dict(clip_norm=np.float64(clip_norm), sigma=np.float64(sigma_of(noise_multiplier, clip_norm)), generator=name)

    def on_host(*parts: Any) -> Any:
        rows = tuple(np.asarray(part, "float32" if part.dtype == "bfloat16" else None) for part in parts)
        return clip_and_noise_gradients(rows, clip_norm, noise_multiplier, clipping="exact", generator=source, allow_empty=True)

    def sums_of(*parts: Any) -> Any:
        results = tuple(jax.ShapeDtypeStruct(part.shape[1:], "float32") for part in parts)
        return _call("hushvec_noisy_sums", on_host, attributes, True, results, *parts)
    program = jax.jit(sums_of, inline=True)

    def update(updates: Any, state: Any, params: Any = None, *, is_padding_example: Any = None, **_: Any) -> tuple[Any, Any]:
        parts = jax.tree.map(jax.numpy.asarray, jax.tree.leaves(updates))
        for part in parts:
            if not part.ndim or len(part) != len(parts[0]):
                raise ValueError(f"updates must have one number of examples B in shapes [B, ...], got {part.shape}")
        rows = len(parts[0])
        if rows == 0 and divide_by is None:
            raise ValueError("divisor must be given for updates of 0 examples")
        if is_padding_example is not None:
            padding = jax.numpy.asarray(is_padding_example)
            if padding.shape != (rows,) or padding.dtype != bool:
                raise ValueError(f"is_padding_example must be bool [{rows}], got {padding.dtype} {list(padding.shape)}")
            parts = [jax.numpy.where(padding.reshape(rows, *[1] * (part.ndim - 1)), 0, part) for part in parts]
        sums = program(*[part.reshape(rows, math.prod(part.shape[1:])) for part in parts])
        noisy = [(s / (divide_by or rows)).reshape(part.shape[1:]).astype(part.dtype) for s, part in zip(sums, parts)]
        return jax.tree.unflatten(jax.tree.structure(updates), noisy), state

    return optax.GradientTransformationExtraArgs(lambda params: optax.EmptyState(), update)


def gaussian_privatizer(*, stddev: float, prng_key: None = None, generator: _core.Generator | None = None) -> Any:
    """`jax_privacy.noise_addition.gaussian_privatizer` with exact noise: for sums of clipped gradients that JAX has computed.

    Returns optax's transformation, without state: `update` takes a pytree of arrays (dtypes of `clip`) and returns it with noise
    N(0, stddev^2), stddev in [2^-100, 2^83], of the guarantees and errors of `clip_and_noise` with clip_norm = 2^17 stddev.
    `generator` and the refused key are as for `differentially_private_aggregate`. The release as a whole is float: XLA clips and sums
    in floating point, so one example may move the sum by a little more than the sensitivity that stddev was computed for.

    Example:
        >>> import jax
        >>> from hushvec.integrations.jax import gaussian_privatizer
        >>> privatizer = gaussian_privatizer(stddev=1.1)
        >>> total = jax.numpy.ones((3, 4))                       # of jax_privacy.clipped_grad
        >>> jax.jit(privatizer.update)(total, privatizer.init(total))[0].shape
        (3, 4)
    """
    jax, optax = _import_optax(prng_key=prng_key)
    norm = validate.clip_norm(2.0**17 * validate.positive("stddev", stddev))

    def noisy(leaf: Any) -> Any:
        x = jax.numpy.asarray(leaf)
        row = x.ravel().astype("float32" if x.dtype == "bfloat16" else x.dtype)  # exactly; callbacks take no bfloat16
        return clip_and_noise(row, norm, stddev, generator=generator).reshape(x.shape).astype(x.dtype)

    def update(sum_of_clipped_grads: Any, noise_state: Any, params: Any = None) -> tuple[Any, Any]:
        return jax.tree.map(noisy, sum_of_clipped_grads), noise_state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


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
    """Compile a function of x, to which jax.vmap gives all rows at once."""
    jax = _import_jax()

    @jax.custom_batching.custom_vmap  # type: ignore[untyped-decorator]
    def program(x: Any) -> Any:
        return _call(target, on_host, attributes, draws, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    @program.def_vmap  # type: ignore[untyped-decorator]
    def all_rows(_size: int, _batched: list[bool], x: Any) -> tuple[Any, bool]:
        matrix = x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
        return program(matrix).reshape(x.shape), True

    compiled: Callable[[Any], Any] = jax.jit(program, inline=True)
    return compiled


def _call(target: str, on_host: Callable[..., Any], attributes: dict[str, Any], draws: bool, results: Any, *arrays: Any) -> Any:
    """Call the core's handler, or Python, by the platform."""
    jax = _import_jax()
    by_callback = partial(jax.experimental.io_callback if draws else jax.pure_callback, on_host, results)
    in_program = partial(jax.ffi.ffi_call(target, results, has_side_effect=draws), **attributes)
    return jax.lax.platform_dependent(*arrays, **dict.fromkeys(_platforms(jax), in_program), default=by_callback)


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


def _import_optax(**keys: Any) -> tuple[Any, Any]:
    with needs_extra("hushvec.integrations.jax", "jax"):
        import optax
    if given := [name for name, value in keys.items() if value is not None]:
        raise TypeError(f"{given[0]} must be None: the operating system keys the noise, and a key in JAX's state would reveal it")
    return _import_jax(), optax


def _named(generator: _core.Generator | None) -> tuple[_core.Generator, str]:
    """What is drawn from, and its name in a program: none for the process-wide generator."""
    source = require_generator(generator)
    name = "" if generator is None else _names.setdefault(source, secrets.token_hex(16))
    if name:
        _core.name_generator(name, source)
    return source, name


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
