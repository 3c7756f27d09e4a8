"""PrivUnitG on arrays in CUDA memory: dispatch and refusals with stand-ins; with a device, the CPU's bits."""

import sys
import types

import numpy as np
import pytest
from native.cuda.fake_arrays import OnDevice, workspace

import hushvec as hv
from hushvec._native import _core
from hushvec._native import cuda as dispatch
from hushvec.mechanisms import PrivUnit

torch = pytest.importorskip("torch")

LAW = (0.75, 1.5)
X = OnDevice()


def stream():
    return hv.Generator()._reserve_for_device()


# ---- the binding, which refuses before a launch ----


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda cuda: cuda.privunit(X, 2.0**-54, 1.5, 1.0, X, stream(), workspace(), 0), ValueError, r"multiple of 2\^-53"),
        (lambda cuda: cuda.privunit(X, *LAW, 2.0**101, X, stream(), workspace(), 0), ValueError, "sigma"),
        (lambda cuda: cuda.privunit(X, *LAW, 1.0, OnDevice((8, 4)), stream(), workspace(), 0), ValueError, r"out must have shape \(4, 8\) like x"),
        (lambda cuda: cuda.privunit(X, *LAW, 1.0, X, OnDevice((6,), dtype="float64"), workspace(), 0), ValueError, "got a state on a device"),
        (
            lambda cuda: cuda.privunit(X, *LAW, 1.0, X, hv.Generator.unsafe_seeded(1, cipher="aes256")._reserve(), workspace(), 0),
            ValueError,
            "source must be a stream of ChaCha on a device, got one of aes256",
        ),
        (lambda cuda: cuda.privunit(X, *LAW, 1.0, X, stream(), workspace(1), 0), ValueError, r"workspace must be contiguous and have \d+ bytes, got 4"),
        (lambda cuda: cuda.privunit_workspace_bytes(OnDevice((1, 2**30 + 1))), ValueError, r"x must have rows of at most 2\^30 elements"),
    ],
)
def test_bad_arguments(cuda, call, kind, text):
    with pytest.raises(kind, match=text):
        call(cuda)


def test_the_workspace_grows_with_the_rows(cuda):
    """16 bytes a row, a list of rows with their directions, and for rows that do not fit shared memory room for each block."""
    size = lambda *shape, dtype="float32": cuda.privunit_workspace_bytes(OnDevice(shape, dtype=dtype))   # noqa: E731
    assert size(0, 8) == size(4, 0) == 256
    assert size(2048, 8) - size(1024, 8) == 1024 * 16
    assert size(1, 5000) < 2 * 5000 * 4 < 4 * 20_000 * 4 > size(1, 20_000) > 3 * 20_000 * 4
    assert size(1, 20_000, dtype="float64") - size(1, 20_000) == pytest.approx(20_000 * 4, abs=2048)
    assert size(10**6, 20_000) < 10**6 * 16 + 2**26 + 80 * 20_000 * 4


# ---- dispatch, with a stand-in for the backend ----


@pytest.fixture
def stand_in(monkeypatch):
    """A backend that notes what it is called with, and arrays of CuPy that it takes."""
    cupy = types.ModuleType("cupy")

    class ndarray:  # noqa: N801
        def __init__(self, shape=(2, 8), dtype="float32"):
            self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(dtype)
            self.device = types.SimpleNamespace(id=0)

    cupy.ndarray = ndarray
    made = types.ModuleType("hushvec._native._cuda")
    made.__version__, made.calls, made.capturing, made.bad_row = hv.__version__, [], False, None
    made.check_driver = lambda: None
    made.current_stream = lambda x, index: 7
    made.is_capturing = lambda stream, index: made.capturing
    made.privunit_workspace_bytes = lambda x: 4096
    made.privunit = lambda *arguments: made.calls.append(arguments) or made.bad_row
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, made.__name__, made)
    monkeypatch.setattr(dispatch, "new_array", lambda like, shape, dtype=None: ndarray(shape, dtype))
    made.array = ndarray
    return made


def test_a_mechanism_reaches_the_backend(stand_in):
    mechanism, x, out = PrivUnit(epsilon=8.0, dimension=8), stand_in.array(), stand_in.array()
    generator, same = hv.Generator.unsafe_seeded(3), hv.Generator.unsafe_seeded(3)
    assert mechanism.apply(x, out, generator) is out
    ((*arguments, source, scratch, handle, whole),) = stand_in.calls
    assert arguments == [x, mechanism.cap_probability, mechanism.threshold, mechanism.sigma, out]
    assert scratch.shape == (4096,) and scratch.dtype == np.uint8 and handle == 7 and not whole
    assert (_core._state_words(source) == _core._state_words(same._reserve_for_device())).all()


def test_a_capture_is_refused_before_anything_is_drawn(stand_in):
    stand_in.capturing = True
    generator, same = hv.Generator.unsafe_seeded(3), hv.Generator.unsafe_seeded(3)
    with pytest.raises(RuntimeError, match="^privunit cannot be captured in a CUDA graph: the host settles what float64 cannot decide$"):
        PrivUnit(epsilon=8.0, dimension=8).apply(stand_in.array(), stand_in.array(), generator)
    assert stand_in.calls == []
    assert (_core._state_words(generator._reserve_for_device()) == _core._state_words(same._reserve_for_device())).all()


def test_a_bad_row_is_named(stand_in, monkeypatch):
    stand_in.bad_row = 1
    monkeypatch.setattr(dispatch, "nonfinite_error", lambda name, x, row: ValueError(f"{name} must be finite, row {row}"))
    with pytest.raises(ValueError, match="x must be finite, row 1"):
        PrivUnit(epsilon=8.0, dimension=8).apply(stand_in.array(), stand_in.array(), hv.Generator())


# ---- on a device ----

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
SHAPES = [(1, 1), (3, 7), (40, 33), (3, 257), (64, 384), (500, 768), (33, 1000), (7, 4096), (2, 70_001)]


def some_rows(shape, dtype):
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, size=(*shape[:-1], 1)))
    if shape[0] > 1:
        x[shape[0] // 2] = 0
    return torch.from_numpy(x).to(dtype)


def seeded(rounds=20):
    return hv.Generator.unsafe_seeded(9, rounds=rounds)


def assert_same_bits(on_device, on_host):
    assert on_device.is_cuda and on_device.dtype == on_host.dtype
    np.testing.assert_array_equal(on_device.cpu().view(torch.uint8).numpy(), on_host.contiguous().view(torch.uint8).numpy())


@pytest.mark.gpu
@pytest.mark.parametrize("rounds", [20, 12, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bits(shape, dtype, rounds):
    x = some_rows(shape, dtype)
    mechanism = PrivUnit(epsilon=8.0, dimension=shape[-1])
    on_device, on_host = seeded(rounds), seeded(rounds)
    for _ in range(2):  # nonces count alike
        ours, expected = x.cuda(), torch.empty_like(x)
        mechanism.apply(ours, ours, on_device)
        mechanism.apply(x, expected, on_host)
        assert_same_bits(ours, expected)


@pytest.mark.gpu
def test_privatize():
    x = some_rows((64, 384), torch.float32)
    settings = {"mechanism": "privunit", "epsilon": 8.0}
    ours, expected = hv.privatize(x.cuda(), generator=seeded(), **settings), hv.privatize(x, generator=seeded(), **settings)
    assert_same_bits(ours.values, expected.values)
    assert ours.receipt == expected.receipt


@pytest.mark.gpu
def test_a_row_with_nan():
    x = some_rows((64, 384), torch.float32).cuda()
    x[11, 5] = torch.nan
    with pytest.raises(ValueError, match="x must be finite, got nan in row 11"):
        hv.privatize(x, mechanism="privunit", epsilon=8.0)


@pytest.mark.gpu
def test_a_capture():
    x, generator = some_rows((64, 384), torch.float32).cuda(), seeded()
    mechanism = PrivUnit(epsilon=8.0, dimension=384)
    out, other_work = torch.empty_like(x), torch.zeros(1, device="cuda")
    mechanism.apply(x, out, generator)
    with pytest.raises(RuntimeError, match="privunit cannot be captured"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        other_work.add_(1)  # torch warns of an empty graph
        mechanism.apply(x, out, generator)
