"""The operations as torch custom operators: what torch.compile sees of hushvec.

A compiled program may merge equal calls, drop or reorder them, unless they declare a side effect. So what noise is drawn
from is a tensor here, the state, which every operator declares it changes.

`clip_and_noise_` and `clip_` write to `out`. Where that is also what they read, x is None: an operator must not get memory that
it writes twice.
`clip` and `clip_` draw nothing and have no state: equal calls may be merged, and torch.export and tracers may keep them.

torch copies tensors, saves them and keeps them in programs, and a copied key stream would repeat its noise. So a state holds no
key: it says "the generator of this process", in a token that no other process has. Only a seed, which is not secret, is in the
state itself, with the nonce that each call advances. Eight int64 words: key (4), next nonce, rounds, token (2).

What is in a state is ChaCha. The generator of the process draws from its own cipher on the CPU, from ChaCha20 on a device.
"""

from __future__ import annotations

import secrets
import weakref
from functools import cache
from typing import Any

import torch

from hushvec._native import _core, cuda, kernels
from hushvec._native.arrays import device_of, dtype_name, output_like, require_array, require_form, require_same_kind
from hushvec._util import validate
from hushvec._util.os_files import call_around_fork
from hushvec._util.recording import recording_error, require_no_recorder
from hushvec._util.torch_recording import is_exporting

__all__ = [
    "clip", "clip_", "clip_and_laplacian_noise", "clip_and_noise", "clip_and_noise_", "gaussian_noise_", "laplacian_noise_",
    "stream_state",
]

STREAM_WORDS = 6
ROUNDS_WORD = 5
STATE_WORDS = 8
_TOKEN_BYTES = 16
_LAWS = ("gaussian", "laplacian")

# The two kinds of state of this process. They are random, but not secret.
_keyed_by_os = secrets.token_bytes(_TOKEN_BYTES)
_seeded = secrets.token_bytes(_TOKEN_BYTES)


def _disown_seeded_states() -> None:
    """A forked child has its parent's generators with new keys, but a seed means the same in both."""
    global _seeded
    _seeded = secrets.token_bytes(_TOKEN_BYTES)


call_around_fork(after_in_child=_disown_seeded_states)

# What is drawn from for the states in CUDA memory, by address: to read a token there would mean to wait for the device, and a
# captured graph could not. None if seeded.
_on_device: dict[int, _core.Generator | None] = {}


def stream_state(device: Any = "cpu", *, rounds: int = 20, seed: int | None = None) -> torch.Tensor:
    """Make what the `hushvec::` operators draw their noise from: a tensor that stands for a key stream.

    Args:
        device: where it lives: the device of the tensors it will be used with.
        rounds: of ChaCha: 20, 12 or 8. Without a seed 20 stands for the generator of the process, which on the CPU draws from its
            own cipher: AES-256 where the processor has instructions for it.
        seed: None for a key from the operating system; a number as in `Generator.unsafe_seeded`, which gives no privacy.

    Returns:
        An int64 tensor of 8 words: key (4), next nonce, rounds, token (2). Without a seed the key and the nonce are zeros.

    Guarantees:
        Without a seed the tensor holds no key. It names the generators of this process, whose calls never share a nonce: it may be
        cloned, deep-copied, moved, saved and used from several threads, and no two calls draw the same noise. Another process
        refuses it, however it got there. A forked child may use it, and draws from its own keys.
        With a seed, key and nonce give the bits of the eager functions, and a copy repeats them. Every other process refuses it, a
        forked child included.

    Edge cases:
        Recognizing a copy in CUDA memory takes a read that waits for the device, so a captured graph needs the tensor itself.
        The graph draws from a key in device memory, which no other call uses but graphs.

    Example:
        >>> import torch
        >>> from hushvec.integrations.torch_ops import clip_and_noise, stream_state
        >>> clip_and_noise(torch.ones(4, 384), 1.0, 0.5, True, stream_state()).shape
        torch.Size([4, 384])
    """
    require_no_recorder("a state")
    return _new_state(torch.device(device), rounds, seed)


def _new_state(device: torch.device, rounds: int, seed: int | None) -> torch.Tensor:
    generator = _core.Generator(rounds) if seed is None else _core.Generator.unsafe_seeded(seed, rounds)
    state = torch.zeros(STATE_WORDS, dtype=torch.int64)
    words = state.numpy()
    words[ROUNDS_WORD] = rounds
    words[STREAM_WORDS:].view("u1")[:] = bytearray(_keyed_by_os if seed is None else _seeded)
    if seed is not None:
        words[:STREAM_WORDS] = _core._state_words(generator._reserve_for_device())
    if device.type != "cuda":
        return state.to(device)
    state = state.to(device)
    if seed is None:
        cuda.prepare_capture(generator, state)
    _on_device[state.data_ptr()] = generator if seed is None else None
    weakref.finalize(state, _on_device.pop, state.data_ptr(), None).atexit = False
    return state


# torch.compile finds it by its name, as any global tensor, so that a program that it saved draws from the process it runs in.
# Before the operators, which can be registered once: an import that fails here may be repeated.
require_no_recorder("hushvec.integrations.torch_ops")
_default_state_on_cpu = _new_state(torch.device("cpu"), 20, None)


@cache
def _generator_of_process(rounds: int) -> _core.Generator:
    return _core.default_generator() if rounds == 20 else _core.Generator(rounds)


def _source(state: torch.Tensor, name: str, array: torch.Tensor) -> _core.Generator | torch.Tensor:
    """The source of a call's noise: a generator, or the words of a seeded stream, whose nonce the call advances."""
    require_no_recorder()
    if state.dtype != torch.int64 or tuple(state.shape) != (STATE_WORDS,) or not state.is_contiguous():
        raise ValueError(f"state must be a tensor of 8 int64 words (stream_state), got {state.dtype} {tuple(state.shape)}")
    if state.device != array.device:
        raise ValueError(f"state must be on {device_of(array)} like {name}, got {device_of(state)}")
    if state.device.type == "cuda":
        if state.data_ptr() in _on_device:
            return _on_device[state.data_ptr()] or state[:STREAM_WORDS]
        if torch.cuda.is_current_stream_capturing():
            raise RuntimeError("state must be the tensor that stream_state returned while a CUDA graph is captured, got a copy")
    words = state.cpu().numpy()
    token = words[STREAM_WORDS:].tobytes()
    if token == _keyed_by_os:
        return _generator_of_process(int(words[ROUNDS_WORD]))
    if token == _seeded:
        return state[:STREAM_WORDS]
    raise RuntimeError("state must come from stream_state in this process, got one of another (one that was saved, sent or inherited)")


@torch.library.custom_op("hushvec::gaussian_noise_", mutates_args=("out", "state"))
def gaussian_noise_(out: torch.Tensor, sigma: float, state: torch.Tensor) -> None:
    """Fill out with N(0, sigma^2), as `hushvec.gaussian_noise`; the noise is drawn from `state`, which it advances."""
    _fill(out, "gaussian", validate.not_negative("sigma", sigma), state)


@torch.library.custom_op("hushvec::laplacian_noise_", mutates_args=("out", "state"))
def laplacian_noise_(out: torch.Tensor, scale: float, state: torch.Tensor) -> None:
    """Fill out with Laplace noise, as `hushvec.laplacian_noise`; the noise is drawn from `state`, which it advances."""
    _fill(out, "laplacian", validate.not_negative("scale", scale), state)


@torch.library.custom_op("hushvec::clip_and_noise", mutates_args=("state",))
def clip_and_noise(x: torch.Tensor, clip_norm: float, sigma: float, exact: bool, state: torch.Tensor) -> torch.Tensor:
    """A new tensor, as `hushvec.clip_and_noise` makes it; the noise is drawn from `state`, which it advances."""
    return _noisy(x, clip_norm, "gaussian", sigma, exact, state)


@torch.library.custom_op("hushvec::clip_and_laplacian_noise", mutates_args=("state",))
def clip_and_laplacian_noise(x: torch.Tensor, clip_norm: float, scale: float, exact: bool, state: torch.Tensor) -> torch.Tensor:
    """A new tensor, as `hushvec.clip_and_noise` makes it for a `scale`; the noise is drawn from `state`, which it advances."""
    return _noisy(x, clip_norm, "laplacian", scale, exact, state)


@torch.library.custom_op("hushvec::clip_and_noise_", mutates_args=("out", "state"))
def clip_and_noise_(
    out: torch.Tensor, x: torch.Tensor | None, clip_norm: float, law: str, noise: float, exact: bool, state: torch.Tensor
) -> None:
    """`hushvec.clip_and_noise` of x into out, or of out where x is None. `noise`: sigma of law "gaussian", scale of "laplacian"."""
    _noisy(out if x is None else x, clip_norm, law, noise, exact, state, out)


@torch.library.custom_op("hushvec::clip", mutates_args=())
def clip(x: torch.Tensor, clip_norm: float) -> torch.Tensor:
    """A new tensor, as `hushvec.clip` makes it."""
    return _clipped(x, clip_norm)


@torch.library.custom_op("hushvec::clip_", mutates_args=("out",))
def clip_(out: torch.Tensor, x: torch.Tensor | None, clip_norm: float) -> None:
    """`hushvec.clip` of x into out, or of out where x is None."""
    _clipped(out if x is None else x, clip_norm, out)


def _refuse_export(*arguments: Any) -> None:
    """torch.compile, make_fx and the caller's fake tensors may also call an operator's stand-in."""
    if is_exporting():
        raise recording_error("noise", "torch.export")


for _operator in (gaussian_noise_, laplacian_noise_, clip_and_noise_):
    _operator.register_fake(_refuse_export)
clip_.register_fake(lambda out, x, clip_norm: None)
clip.register_fake(lambda x, clip_norm: x.new_empty(x.shape))


@clip_and_noise.register_fake
@clip_and_laplacian_noise.register_fake
def _(x: torch.Tensor, clip_norm: float, noise: float, exact: bool, state: torch.Tensor) -> torch.Tensor:
    _refuse_export()
    return x.new_empty(x.shape)


def _noisy(
    x: torch.Tensor, clip_norm: float, law: str, noise: float, exact: bool, state: torch.Tensor, out: torch.Tensor | None = None
) -> torch.Tensor:
    require_array("x", x)
    source = _source(state, "x", x)
    clip_norm = validate.clip_norm(clip_norm)
    name = "sigma" if validate.choice("law", law, _LAWS) == "gaussian" else "scale"
    noise = validate.positive(name, noise) if exact else validate.not_negative(name, noise)
    target = output_like(x, out)
    kernels.clip_and_noise(x, clip_norm, noise, target, source, law, exact, out_is_fresh=out is None)
    return target


def _clipped(x: torch.Tensor, clip_norm: float, out: torch.Tensor | None = None) -> torch.Tensor:
    require_array("x", x)
    clip_norm = validate.clip_norm(clip_norm)
    target = output_like(x, out)
    kernels.clip(x, clip_norm, target, out_is_fresh=out is None)
    return target


def _fill(out: torch.Tensor, law: str, scale: float, state: torch.Tensor) -> None:
    require_array("out", out)
    kernels.fill(out, law, scale, _source(state, "out", out))


# ---- what the public functions become while torch.compile records them ------------------------------------------------


def traced_noise(law: str, out: torch.Tensor, scale: float, generator: Any) -> torch.Tensor:
    _require_traceable(generator)
    _no_gradient("out", out)
    fill = gaussian_noise_ if law == "gaussian" else laplacian_noise_
    fill(out, float(scale), _default_state(device_of(out)))
    return out


def traced_clip_and_noise(
    x: torch.Tensor, clip_norm: float, law: str, noise: float, exact: bool, out: torch.Tensor | None, generator: Any
) -> torch.Tensor:
    _require_traceable(generator)
    _require_fitting(out, x)
    state = _default_state(device_of(x))
    if out is not None:
        clip_and_noise_(out, None if out is x else x, float(clip_norm), law, float(noise), exact, state)
        return out
    release = clip_and_noise if law == "gaussian" else clip_and_laplacian_noise
    noisy: torch.Tensor = release(x, float(clip_norm), float(noise), exact, state)
    return noisy


def traced_clip(x: torch.Tensor, clip_norm: float, out: torch.Tensor | None) -> torch.Tensor:
    _require_fitting(out, x)
    if out is not None:
        clip_(out, None if out is x else x, float(clip_norm))
        return out
    clipped: torch.Tensor = clip(x, float(clip_norm))
    return clipped


def _require_fitting(out: torch.Tensor | None, x: torch.Tensor) -> None:
    """Check `x` and `out` as the eager functions do, while the program is recorded."""
    _no_gradient("x", x)
    if out is not None:
        require_form(out, tuple(x.shape), dtype_name(x))
        require_same_kind("out", out, "x", x)
        _no_gradient("out", out)


def _require_traceable(generator: Any) -> None:
    _refuse_export()
    if generator is not None:
        raise ValueError("generator must be None under torch.compile: use the hushvec:: operators with a stream_state")


def _no_gradient(name: str, x: torch.Tensor) -> None:
    if x.requires_grad:
        raise ValueError(f"{name} must not require grad, got requires_grad=True (pass {name}.detach())")


def _default_state(device: str) -> torch.Tensor:
    return _default_state_on_cpu if device == "cpu" else _default_state_on(device)


_default_states: dict[str, torch.Tensor] = {}


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _default_state_on(device: str) -> torch.Tensor:
    """One state for each device, made while a program is recorded; its tensor becomes an input of the program."""
    if device not in _default_states:
        _default_states[device] = stream_state(device)
    return _default_states[device]
