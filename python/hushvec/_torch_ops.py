"""The operations as torch custom operators: what torch.compile sees of hushvec.

A compiled program may merge equal calls, drop or reorder them, unless they are seen to change something. So the key stream is
a tensor here, which every operator declares it changes: six int64 words, key (4), next nonce, rounds. Each call draws from the
nonce in it and adds one.

    hushvec::gaussian_noise_(Tensor(a!) out, float sigma, Tensor(b!) state) -> ()
    hushvec::laplacian_noise_(Tensor(a!) out, float scale, Tensor(b!) state) -> ()
    hushvec::clip_and_noise(Tensor x, float clip_norm, float sigma, bool exact, Tensor(a!) state) -> Tensor
"""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

import torch

from hushvec import _core, _kernels, _validate
from hushvec._arrays import device_of, new_array, require_array

STATE_WORDS = 6
ROUNDS_WORD = 5


def stream_state(device: Any = "cpu", *, rounds: int = 20, seed: int | None = None) -> torch.Tensor:
    """Make a key stream that lives in a tensor, for `hushvec::` operators.

    Args:
        device: where it lives: the device of the tensors it will be used with.
        rounds: 20, 12 or 8, as in `Generator`.
        seed: None for a key from the operating system; a number as in `Generator.unsafe_seeded`, which gives no privacy.

    Returns:
        An int64 tensor of 6 words: key (4), next nonce, rounds.

    Raises:
        ValueError: rounds or seed out of range.

    Guarantees:
        The same key and nonce give the bits of the eager functions. The tensor is the key: never clone it, save it, show it or
        use it from two threads or streams at the same time, since two calls that read one nonce draw the same noise.
        A forked child finds a fresh key in a state keyed by the operating system, and cannot use a seeded one.

    Edge cases:
        Any number of states may exist; they are independent of each other and of every generator unless they share a seed.

    Reference:
        docs/format.md section 1.

    Example:
        >>> import torch
        >>> from hushvec.integrations.torch_ops import clip_and_noise, stream_state
        >>> clip_and_noise(torch.ones(4, 384), 1.0, 0.5, True, stream_state()).shape
        torch.Size([4, 384])
    """
    generator = _core.Generator(rounds) if seed is None else _core.Generator.unsafe_seeded(seed, rounds)
    state = torch.from_numpy(_core._state_words(generator._reserve())).to(device)
    (_os_keyed if seed is None else _seeded)[id(state)] = state
    return state


_os_keyed: WeakValueDictionary[int, torch.Tensor] = WeakValueDictionary()
_seeded: WeakValueDictionary[int, torch.Tensor] = WeakValueDictionary()


def _leave_the_streams_of_the_parent() -> None:
    # Words in device memory are left alone: CUDA does not work in a forked child.
    for state in list(_os_keyed.values()):
        if state.device.type == "cpu":
            words = state.numpy()
            words[:] = _core._state_words(_core.Generator(int(words[ROUNDS_WORD]))._reserve())
    for state in list(_seeded.values()):
        if state.device.type == "cpu":
            state.numpy()[ROUNDS_WORD] = 0


os.register_at_fork(after_in_child=_leave_the_streams_of_the_parent)


@torch.library.custom_op("hushvec::gaussian_noise_", mutates_args=("out", "state"))
def gaussian_noise_(out: torch.Tensor, sigma: float, state: torch.Tensor) -> None:
    """Fill out with N(0, sigma^2), as `hushvec.gaussian_noise`; the noise is drawn from `state`, which it advances."""
    _fill(out, "gaussian", _validate.not_negative("sigma", sigma), state)


@torch.library.custom_op("hushvec::laplacian_noise_", mutates_args=("out", "state"))
def laplacian_noise_(out: torch.Tensor, scale: float, state: torch.Tensor) -> None:
    """Fill out with Laplace noise, as `hushvec.laplacian_noise`; the noise is drawn from `state`, which it advances."""
    _fill(out, "laplacian", _validate.not_negative("scale", scale), state)


@torch.library.custom_op("hushvec::clip_and_noise", mutates_args=("state",))
def clip_and_noise(x: torch.Tensor, clip_norm: float, sigma: float, exact: bool, state: torch.Tensor) -> torch.Tensor:
    """A new tensor, as `hushvec.clip_and_noise` makes it; the noise is drawn from `state`, which it advances."""
    require_array("x", x)
    _require_state(state, "x", x)
    clip_norm = _validate.clip_norm(clip_norm)
    sigma = _validate.positive("sigma", sigma) if exact else _validate.not_negative("sigma", sigma)
    out: torch.Tensor = new_array(x, tuple(x.shape))
    _kernels.clip_and_noise(x, clip_norm, sigma, out, state, "gaussian", exact, out_is_fresh=True)
    return out


@gaussian_noise_.register_fake
def _(out: torch.Tensor, sigma: float, state: torch.Tensor) -> None:
    pass


@laplacian_noise_.register_fake
def _(out: torch.Tensor, scale: float, state: torch.Tensor) -> None:
    pass


@clip_and_noise.register_fake
def _(x: torch.Tensor, clip_norm: float, sigma: float, exact: bool, state: torch.Tensor) -> torch.Tensor:
    return x.new_empty(x.shape)


def _fill(out: torch.Tensor, law: str, scale: float, state: torch.Tensor) -> None:
    require_array("out", out)
    _require_state(state, "out", out)
    _kernels.fill(out, law, scale, state)


def _require_state(state: torch.Tensor, name: str, array: torch.Tensor) -> None:
    if state.dtype != torch.int64 or tuple(state.shape) != (STATE_WORDS,) or not state.is_contiguous():
        raise ValueError(f"state must be a tensor of 6 int64 words (stream_state), got {state.dtype} {tuple(state.shape)}")
    if state.device != array.device:
        raise ValueError(f"state must be on {device_of(array)} like {name}, got {device_of(state)}")
    if state.device.type == "cpu" and int(state[ROUNDS_WORD]) == 0:
        raise RuntimeError("this seeded state belongs to the parent process, which has the same stream: make one in each process")


# ---- what the public functions become while torch.compile records them ------------------------------------------------


def traced_noise(law: str, out: torch.Tensor, scale: float, generator: Any) -> torch.Tensor:
    _no_generator(generator)
    _no_gradient("out", out)
    fill = gaussian_noise_ if law == "gaussian" else laplacian_noise_
    fill(out, float(scale), _default_state(device_of(out)))
    return out


def traced_clip_and_noise(
    x: torch.Tensor, clip_norm: float, sigma: float, exact: bool, out: torch.Tensor | None, generator: Any
) -> torch.Tensor:
    _no_generator(generator)
    _no_gradient("x", x)
    noisy = clip_and_noise(x, float(clip_norm), float(sigma), exact, _default_state(device_of(x)))
    return noisy if out is None else out.copy_(noisy)


def _no_generator(generator: Any) -> None:
    if generator is not None:
        raise ValueError("generator must be None under torch.compile: use the hushvec:: operators with a stream_state")


def _no_gradient(name: str, x: torch.Tensor) -> None:
    if x.requires_grad:
        raise ValueError(f"{name} must not require grad, got requires_grad=True (pass {name}.detach())")


_default_states: dict[str, torch.Tensor] = {}


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def _default_state(device: str) -> torch.Tensor:
    """One state for each device, made while a program is recorded; its tensor becomes an input of the program."""
    if device not in _default_states:
        _default_states[device] = stream_state(device)
    return _default_states[device]
