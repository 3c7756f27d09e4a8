"""What captured graphs draw from, without a device: when it is made, and that nothing is drawn twice. The stand-in for the backend takes
nonces from states as the kernels do."""

import os
import sys

import pytest
from native.cuda.device_stand_in import Backend, cupy_module

import hushvec as hv
from hushvec._native import _core
from hushvec._native import cuda as dispatch


@pytest.fixture
def device(monkeypatch):
    """A backend and states as in a new process, and arrays to fill."""
    module, cupy = Backend(), cupy_module()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(dispatch, "_states", {})
    monkeypatch.setattr(dispatch, "_captured", [])
    module.out = cupy.empty((2, 8))
    module.second_out = type(module.out)(module.out.host, device=1)
    return module


def fill(device, generator, *, captured=False, out=None):
    device.capturing = captured
    dispatch.fill(device.out if out is None else out, "gaussian", 1.0, generator)


def seeded():
    return hv.Generator.unsafe_seeded(9)


def test_a_hundred_generators_load_the_kernels_and_write_a_key_once(device):
    for _ in range(100):
        fill(device, hv.Generator())
    assert device.calls == ["load_kernels", "write_state", *["fill"] * 100]
    assert len(set(device.drawn)) == 100


def test_each_device_and_each_cipher_has_its_state(device):
    for generator in (hv.Generator(), hv.Generator(12), hv.Generator(8), hv.Generator(12)):
        fill(device, generator)
    fill(device, hv.Generator(), out=device.second_out)
    assert (device.calls.count("load_kernels"), device.calls.count("write_state")) == (2, 4)
    rounds = [int(state.host[5]) for state in dispatch._states.values()]
    keys = {tuple(state.host[:4]) for state in dispatch._states.values()}
    assert rounds == [20, 12, 8, 20] and len(keys) == 4


@pytest.mark.parametrize("make", [hv.Generator, seeded])
def test_generators_graphs_and_ordinary_calls_never_share_a_nonce(device, make):
    first, second = make(), hv.Generator()
    for _ in range(3):
        for generator in (first, second):
            fill(device, generator)
            fill(device, generator, captured=True)
    assert len(set(device.drawn)) == len(device.drawn) == 12


def test_a_seeded_generator_draws_from_its_own_nonces(device):
    generators = seeded(), seeded()
    for generator in generators:
        fill(device, generator)
        for _ in range(2):
            fill(device, generator, captured=True)
    start = tuple(_core._state_words(seeded()._apart(0))[:5])
    assert device.drawn[1:3] == device.drawn[4:6] == [start, (*start[:4], start[4] + 1)]
    assert dispatch._states == {}


@pytest.mark.parametrize("make", [hv.Generator, seeded])
def test_a_capture_before_any_call(device, make):
    generator = make()
    with pytest.raises(RuntimeError) as caught:
        fill(device, generator, captured=True)
    assert str(caught.value) == "generator must have been used on cuda:0 before a graph is captured: run the call once outside"
    fill(device, hv.Generator())
    with pytest.raises(RuntimeError, match="^generator must have been used on cuda:1 before"):
        fill(device, generator, captured=True, out=device.second_out)
    assert device.calls == ["load_kernels", "write_state", "fill"]


def test_a_forked_child_has_a_key_of_its_own(device, monkeypatch):
    generator = hv.Generator()
    fill(device, generator)
    fill(device, generator, captured=True)
    monkeypatch.setattr(os, "getpid", lambda child=os.getpid() + 1: child)
    with pytest.raises(RuntimeError, match="must have been used on cuda:0 before"):
        fill(device, generator, captured=True)
    fill(device, generator)
    fill(device, generator, captured=True)
    assert len({draw[:4] for draw in device.drawn}) == len(device.drawn) == 4


def test_what_a_graph_draws_from_lives_as_long_as_the_process(device):
    generator = seeded()
    fill(device, generator)
    fill(device, generator, captured=True)
    del generator
    assert [tuple(state.host[4:]) for state in dispatch._captured if state.shape == (6,)] == [(-(2**63) + 1, 20)]


def test_a_generator_of_aes_is_refused(device):
    for captured in (False, True):
        with pytest.raises(ValueError, match="aes256"):
            fill(device, hv.Generator(cipher="aes256"), captured=captured)
    assert device.calls == []
