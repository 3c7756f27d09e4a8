"""What calls on arrays in CUDA memory pass on to the backend, with a stand-in for it: where it is looked for, what outlives a
captured graph, what is written as whole numbers. Calls on a device, and what the kernels compute, are in tests/native/cuda."""

import sys
import types

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core
from hushvec._native import cuda as dispatch
from native.cuda.device_stand_in import Backend, cupy_module, ndarray

ROWS = np.random.default_rng(0).standard_normal((5, 48)).astype(np.float32)


class Answering(Backend):
    """The core's values; whole numbers where they are asked for, which `int8_values` turns into integers."""

    bad_row = None

    def clip(self, x, clip_norm, out, workspace, stream):
        self.calls.append("clip")
        _core.clip(x.host, clip_norm, out.host)
        return self.bad_row

    def clip_and_noise(self, x, clip_norm, sigma, out, source, law, exact, workspace, stream, whole):
        self.calls.append("whole numbers" if whole else "values")
        target = np.empty(x.shape, np.int8) if whole else out.host
        _core.clip_and_noise(x.host, clip_norm, sigma, target, source, law, exact, True)
        out.host[...] = target
        return self.bad_row

    def int8_values(self, numbers, out, stream):
        self.calls.append("int8_values")
        out.host[...] = numbers.host

    def release_workspace_bytes(self, lengths, coefficients=()):
        return sum(lengths)

    def release_sums(self, sums, clip_norm, sigma, out, drawn, workspace, stream):
        self.calls.append(("release_sums", len(sums), workspace.shape))


@pytest.fixture
def device(monkeypatch):
    module = Answering()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "cupy", cupy_module())
    monkeypatch.setattr(dispatch, "_captured", [])
    monkeypatch.setattr(dispatch, "prepare_capture", lambda generator, array: None)
    return module


@pytest.mark.parametrize("place", dispatch._PLACES)
def test_the_backend_is_found_in_each_place_loaded_or_not(monkeypatch, place):
    for name in dispatch._PLACES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    module, searched = types.ModuleType(place), []

    def import_module(name):
        searched.append(name)
        if name == place:
            return module
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(dispatch, "import_module", import_module)
    assert dispatch._installed() is module
    assert searched == list(dispatch._PLACES)[: list(dispatch._PLACES).index(place) + 1]
    monkeypatch.setitem(sys.modules, place, module)
    assert dispatch._installed() is module and searched[-1] == place
    monkeypatch.setattr(dispatch, "import_module", lambda name: pytest.fail(f"{name} is searched though {place} is loaded"))
    assert dispatch._installed() is module


def test_no_backend_anywhere(monkeypatch):
    for name in dispatch._PLACES:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "cupy", cupy_module())
    assert dispatch.state() == "not built" and not dispatch.takes(ndarray(ROWS))
    parts = [ndarray(ROWS[0], 1), ndarray(ROWS[1], 0)]
    for release in (
        lambda: dispatch.release_sums([], 1.0, 1.0, parts, hv.Generator()),
        lambda: dispatch.release_correlated([], 1.0, 1.0, parts, [], []),
    ):
        with pytest.raises(RuntimeError, match=r"^out is on cuda:1, but this build of hushvec has no CUDA backend"):
            release()


def test_kernels_take_contiguous_arrays_where_a_backend_can_be_used(device, monkeypatch):
    whole, gaps = ndarray(ROWS), ndarray(ROWS[:, ::2])
    assert dispatch.takes(whole, whole) and not dispatch.takes(whole, gaps)
    monkeypatch.setattr(Answering, "__version__", "0.0.1")
    assert dispatch.state() == "of another version" and not dispatch.takes(whole)


@pytest.mark.parametrize("capturing", [False, True])
def test_scratch_memory_outlives_a_capture_and_nothing_else(device, capturing):
    device.capturing = capturing
    out = ndarray(np.empty_like(ROWS))
    dispatch.clip(ndarray(ROWS), 1.0, out)
    assert [scratch.shape for scratch in dispatch._captured] == ([(4096,)] if capturing else [])
    np.testing.assert_array_equal(out.host, hv.clip(ROWS, 1.0))


def test_tensors_of_torch_are_kept_by_torch(device, monkeypatch):
    device.capturing = True
    monkeypatch.setattr(dispatch, "is_torch", lambda x: True)
    assert dispatch._kept_in_capture(device, ndarray(ROWS), "scratch") == "scratch" and dispatch._captured == []


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_whole_numbers_are_made_for_int8_alone(device, dtype):
    out = ndarray(np.empty(ROWS.shape, dtype))
    dispatch.clip_and_noise(ndarray(ROWS), 1.0, 0.5, out, hv.Generator.unsafe_seeded(3), "gaussian", True)
    assert device.calls == (["whole numbers", "int8_values"] if dtype == "int8" else ["values"])
    expected = np.empty(ROWS.shape, dtype)
    _core.clip_and_noise(ROWS, 1.0, 0.5, expected, hv.Generator.unsafe_seeded(3), "gaussian", True, True)
    np.testing.assert_array_equal(out.host, expected)


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_a_row_with_nan_is_refused_and_turned_into_nothing(device, dtype):
    device.bad_row = 2
    out = ndarray(np.empty(ROWS.shape, dtype))
    with pytest.raises(ValueError, match=r"^x must be finite, got "):
        dispatch.clip_and_noise(ndarray(ROWS), 1.0, 0.5, out, hv.Generator.unsafe_seeded(3), "gaussian", True)
    assert "int8_values" not in device.calls


def test_sums_are_released_with_scratch_memory_for_each(device):
    parts = [ndarray(np.zeros(length, np.float32)) for length in (3, 4)]
    dispatch.release_sums(parts, 1.0, 1.0, parts, hv.Generator())
    assert device.calls == [("release_sums", 2, (7,))]
