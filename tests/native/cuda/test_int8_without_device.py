"""int8 releases for arrays on a device, without one: what the binding refuses, and what Python passes on to it."""

import sys

import numpy as np
import pytest
from native.cuda.device_stand_in import Backend, cupy_module, ndarray
from native.cuda.fake_arrays import OnDevice, workspace

import hushvec as hv
from hushvec._native import _core
from hushvec._native import cuda as dispatch

MECHANISMS = {"gaussian": {"epsilon": 8.0}, "empirical": {"sigma": 0.24}, "privunit": {"epsilon": 8.0}}


class Int8Backend(Backend):
    """The core's integers, as whole numbers of x's dtype."""

    def privunit_workspace_bytes(self, x):
        return 4096

    def clip_and_noise(self, x, clip_norm, sigma, out, source, law, exact, workspace, stream, whole):
        self._write(x, out, whole, lambda target: _core.clip_and_noise(x.host, clip_norm, sigma, target, source, law, exact, True))

    def privunit(self, x, cap_probability, threshold, sigma, out, source, workspace, stream, whole):
        self._write(x, out, whole, lambda target: _core.privunit(x.host, cap_probability, threshold, sigma, target, source))

    def _write(self, x, out, whole, release):
        self.calls.append("release")
        assert out.host.dtype == x.host.dtype
        target = np.empty(x.shape, np.int8) if whole else out.host
        release(target)
        out.host[...] = target

    def int8_values(self, numbers, out, stream):
        self.calls.append("int8_values")
        out.host[...] = numbers.host


@pytest.fixture
def device(monkeypatch):
    module = Int8Backend()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(sys.modules, "cupy", cupy_module())
    monkeypatch.setattr(dispatch, "prepare_capture", lambda generator, array: None)
    return module


@pytest.mark.parametrize("dtype", ["int8", None])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_release_has_the_values_and_the_receipt_of_the_cpu(device, mechanism, dtype):
    x = np.random.default_rng(0).standard_normal((5, 48)).astype(np.float32)
    settings = {"mechanism": mechanism, "dtype": dtype, **MECHANISMS[mechanism]}
    ours = hv.privatize(ndarray(x), generator=hv.Generator.unsafe_seeded(3), **settings)
    expected = hv.privatize(x, generator=hv.Generator.unsafe_seeded(3), **settings)
    assert ours.values.dtype == expected.values.dtype == (dtype or "float32")
    np.testing.assert_array_equal(ours.values.host, expected.values)
    assert ours.receipt == expected.receipt
    assert device.calls == (["release", "int8_values"] if dtype else ["release"])


ROWS, BYTES = OnDevice((4, 8)), OnDevice((4, 8), dtype="int8", offset=1 << 14)


@pytest.mark.parametrize(
    ("numbers", "out", "error", "text"),
    [
        (ROWS, OnDevice((4, 8), dtype="int32"), TypeError, "out must have dtype int8, got int32"),
        (ROWS, OnDevice((4, 7), dtype="int8"), ValueError, "out must have 32 elements, got 28"),
        (ROWS, OnDevice((4, 8), dtype="int8", device=1), ValueError, "out must be on cuda:0, got cuda:1"),
        (ROWS, np.zeros((4, 8), np.int8), ValueError, "out must be in CUDA memory, got the CPU"),
        (BYTES, BYTES, TypeError, "numbers must have dtype float32, float64, float16 or bfloat16, got int8"),
    ],
)
def test_refused_whole_numbers(cuda, numbers, out, error, text):
    with pytest.raises(error) as raised:
        cuda.int8_values(numbers, out, 0)
    assert str(raised.value) == text


def test_refused_laws(cuda):
    source = hv.Generator.unsafe_seeded(1)._reserve_for_device()
    for law, exact, sigma, text in (
        ("laplacian", True, 1.0, "law must be gaussian for an out of int8"),
        ("gaussian", False, 1.0, "exact must be True and sigma > 0 for an out of int8"),
        ("gaussian", True, 0.0, "exact must be True and sigma > 0 for an out of int8"),
        ("gaussian", True, 2.0**-7, "sigma must be >= 0.015625 for int8 values with clip_norm 1, got 0.0078125"),
    ):
        with pytest.raises(ValueError) as raised:
            cuda.clip_and_noise(ROWS, 1.0, sigma, ROWS, source, law, exact, workspace(), 0, whole=True)
        assert str(raised.value) == text
    with pytest.raises(ValueError, match=r"^threshold must be in \[0, 32\] for int8 values, got 4e\+01"):
        cuda.privunit(ROWS, 0.75, 40.0, 1.0, ROWS, source, workspace(), 0, whole=True)
