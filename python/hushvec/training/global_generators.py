"""The global generators of torch, NumPy and Python, which private batches must neither move for others to see nor read in public.

Dropout, a collator that masks tokens, and anything else that draws by chance moves a generator by the size of its batch and the
length of its texts, and hosts write these generators into checkpoints. Who knows a seed knows, moreover, which mask stands at which
place of a batch: one example less then gives every later one another mask. So private draws come from the operating system, and
what is left behind depends on the seed and the number of steps alone.

Generators on the CPU and on CUDA; one that a program makes for itself (torch.Generator()) is its own business.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

_numpy: Any = np.random  # whose stubs leave out set_bit_generator
# Where the 624 words of the Mersenne Twister lie in the state of torch's generator on the CPU, whose seeds have 32 bits alone.
_WORDS = slice(24, 24 + 8 * 624)


def _words_of(state: torch.Tensor) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return state.numpy()[_WORDS].view(np.uint64)


_expected = np.random.RandomState(9).get_state(legacy=False)["state"]["key"]
if not np.array_equal(_words_of(torch.Generator().manual_seed(9).get_state()), _expected):
    raise ImportError(f"torch must keep a Mersenne Twister in its generator on the CPU, got torch {torch.__version__} with another")


def _of_torch() -> list[torch.Generator]:
    """The CPU's, and those of CUDA if it is in use."""
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return [torch.default_generator, *(torch.cuda.default_generators if in_use else ())]


def seed_from_system() -> None:
    """Give all global generators a state that nobody knows. torch.initial_seed() stays what it is."""
    random.seed()
    _numpy.set_bit_generator(np.random.MT19937())  # a new one: an older one may be seeded, or put back, by the program
    fresh = torch.Generator().manual_seed(torch.initial_seed()).get_state()
    _words_of(fresh)[:] = np.frombuffer(os.urandom(4 * 624), np.uint32)
    on_cpu, *on_cuda = _of_torch()
    on_cpu.set_state(fresh)
    for generator in on_cuda:
        generator.manual_seed(int.from_bytes(os.urandom(8), "little"))


@contextmanager
def undisturbed() -> Iterator[None]:
    """Draws inside, a decorated function's or a block's, come from the operating system; all generators are as before afterwards."""
    before = random.getstate(), _numpy.get_bit_generator(), [(one, one.get_state()) for one in _of_torch()]
    seed_from_system()
    try:
        yield
    finally:
        _put_back(*before)


def _put_back(python: Any, numpy: Any, torch_states: list[tuple[torch.Generator, torch.Tensor]]) -> None:
    random.setstate(python)
    _numpy.set_bit_generator(numpy)
    for generator, state in torch_states:
        generator.set_state(state)


def forget_draws() -> None:
    """Give all generators the next state of a sequence that begins with torch's seed, whatever was drawn before."""
    random.seed(torch.initial_seed())  # what was seeded: no draw moves it
    seed = random.getrandbits(63)
    _numpy.set_bit_generator(np.random.MT19937(seed))
    for generator in _of_torch():
        generator.manual_seed(seed)


@contextmanager
def draws_forgotten() -> Iterator[None]:
    try:
        yield
    finally:
        forget_draws()


def before_forward(module: torch.nn.Module, *_: Any) -> None:
    """A forward pre-hook where the backward pass comes later, in other hands: what training draws is unseen until `forget_draws`."""
    if module.training and torch.is_grad_enabled():
        seed_from_system()


class UndisturbedLoader(DataLoader[Any]):
    """A DataLoader whose examples and batches are made `undisturbed`, the seeds of its workers included."""

    def __iter__(self) -> Any:
        with undisturbed():
            batches = super().__iter__()
        while True:
            with undisturbed():
                try:
                    batch = next(batches)
                except StopIteration:
                    return
            yield batch
