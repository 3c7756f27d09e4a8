"""Arrays of CuPy on the emulated device, and what each public function puts on it. test_on_emulated_device.py runs it in a process:

    pytest -m gpu --emulated-device tests/native/cuda/calls_on_emulated_device.py
"""

import sys

import numpy as np
import pytest
from native.cuda import emulated_backend
from native.cuda.emulated_backend import Array, Graph, Stream, counts

import hushvec as hv
from hushvec.aggregates import private_classifier, private_covariance, private_sums
from hushvec.aggregates.totals import GroupTotals
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise
from hushvec.mechanisms import PublicCodebook

pytestmark = pytest.mark.gpu

ROWS, DIMENSION = 40, 384
DTYPES = ["float32", "float64", "float16"]
VECTORS = np.random.default_rng(0).standard_normal((ROWS, DIMENSION)).astype("float32")
BOOK = PublicCodebook.of(np.random.default_rng(1).standard_normal((64, DIMENSION)))


@pytest.fixture(autouse=True)
def _cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", emulated_backend.emulated_cupy())


def seeded():
    return hv.Generator.unsafe_seeded(9)


# ---- what a call costs ----


def private(**settings):
    return lambda x: hv.privatize(x, **settings)


def added(parts, rows=16):
    """A sum of so many parts, and rows for it."""
    shapes = [(7, 1 + i) for i in range(parts)]
    total = ClippedSum(shapes, clip_norm=1.0, sigma=0.7)
    return total, [Array(np.ones((rows, *shape), "float32")) for shape in shapes]


def adding(parts):
    total, rows = added(parts)
    return lambda x: total.add(rows)


def releasing(parts, earlier=None):
    total, rows = added(parts)

    def release(x):
        total.add(rows)
        before = counts()
        total.release(earlier=earlier)
        return before

    return release


# What a call puts on the device, after a first one like it: kernels, memsets, copies, waits. Each draws from a generator of its own.
# Whoever makes one of these numbers larger has made every such call slower.
CALLS = {
    "clip": (lambda: lambda x: hv.clip(x, 1.0), (1, 2, 1, 1)),
    "clip_and_noise": (lambda: lambda x: hv.clip_and_noise(x, 1.0, 0.5, generator=hv.Generator()), (2, 2, 1, 1)),
    "clip_and_noise, float": (lambda: lambda x: hv.clip_and_noise(x, 1.0, 0.5, exact=False, generator=hv.Generator()), (1, 2, 1, 1)),
    "gaussian_noise": (lambda: lambda x: hv.gaussian_noise(x.shape, like=x, generator=hv.Generator()), (1, 0, 0, 0)),
    "laplacian_noise": (lambda: lambda x: hv.laplacian_noise(x.shape, like=x, generator=hv.Generator()), (1, 0, 0, 0)),
    "l2_laplace_noise": (lambda: lambda x: hv.l2_laplace_noise(x.shape, 1.0, like=x, generator=hv.Generator()), (3, 3, 0, 0)),
    "privatize": (lambda: lambda x: hv.privatize(x, epsilon=8.0, generator=hv.Generator()), (2, 2, 1, 1)),
    "privatize, the generator of the process": (lambda: private(epsilon=8.0), (2, 2, 1, 1)),
    "privatize, laplacian": (lambda: private(epsilon=8.0, mechanism="laplacian"), (2, 2, 1, 1)),
    "privatize, l2_laplace": (lambda: private(epsilon=8.0, mechanism="l2_laplace"), (4, 3, 1, 1)),
    "privatize, privunit": (lambda: private(epsilon=8.0, mechanism="privunit"), (2, 2, 1, 1)),
    "privatize, a codebook": (lambda: private(mechanism=BOOK.mechanism(epsilon=4.0)), (4, 4, 2, 2)),
    "privatize, int8": (lambda: private(epsilon=8.0, dtype="int8"), (3, 2, 1, 1)),
    "privatize, int8 privunit": (lambda: private(epsilon=8.0, dtype="int8", mechanism="privunit"), (3, 2, 1, 1)),
    "privatize, normalize": (lambda: private(epsilon=8.0, normalize=True), (3, 4, 2, 2)),
    "privatize, normalize and renormalize": (lambda: private(epsilon=8.0, normalize=True, renormalize=True), (4, 4, 2, 2)),
    "privatize, a budget": (lambda: private(epsilon=8.0, budget=Budget()), (3, 4, 2, 2)),
    "randomized_response": (lambda: lambda x: hv.randomized_response(label_codes(), range(10), 2.0), (2, 2, 1, 1)),
    "discrete_gaussian": (lambda: lambda x: hv.discrete_gaussian(1000, 300.0, out=Array(np.zeros(1000, "int64"))), (2, 2, 4, 3)),
    "PublicCodebook.encode": (lambda: BOOK.encode, (2, 2, 1, 1)),
    "ClippedSum.add of 1 part": (lambda: adding(1), (3, 2, 1, 1)),
    "ClippedSum.add of 3 parts": (lambda: adding(3), (9, 2, 1, 1)),
    "ClippedSum.add of 50 parts": (lambda: adding(50), (150, 2, 1, 1)),
    "ClippedSum.release of 1 part": (lambda: releasing(1), (2, 2, 2, 1)),
    "ClippedSum.release of 3 parts": (lambda: releasing(3), (2, 2, 2, 1)),
    "ClippedSum.release of 50 parts": (lambda: releasing(50), (2, 2, 2, 1)),
    "ClippedSum.release of 50 parts, correlated": (lambda: releasing(50, EarlierNoise((1.0, -0.5))), (2, 2, 2, 1)),
}  # fmt: skip


class Budget:
    def consume(self, epsilon, delta):
        pass


def label_codes():
    return Array(np.arange(1000) % 10)


@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_puts_on_the_device(name):
    make, expected = CALLS[name]
    call, x = make(), Array(VECTORS)
    call(x)
    emulated_backend.wait()
    start = counts()
    start = call(x) if name.startswith("ClippedSum.release") else (call(x), start)[1]
    done = [after - before for after, before in zip(counts(), start, strict=True)]
    kernels, memsets, copies, waits, faults, attributes, device_changes = done
    assert (kernels, memsets, copies, waits) == expected
    assert (faults, attributes, device_changes) == (0, 0, 0)


# ---- arrays of CuPy ----


def same_bits(ours, expected):
    assert isinstance(ours, Array) and ours.dtype == expected.dtype
    np.testing.assert_array_equal(ours.get().view(np.uint8), expected.view(np.uint8))


def offset(x):
    """A view into other memory, at the alignment of an element only."""
    whole = Array(np.zeros(x.size + 1, x.dtype))
    whole.host[1:] = x.reshape(-1)
    return Array(whole.host[1:].reshape(x.shape))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [Array, offset], ids=["aligned", "offset"])
@pytest.mark.parametrize("shape", [(40, 384), (1, 384), (384,), (0, 7), (40, 1), (9, 30)], ids=str)
def test_every_function_has_the_bits_of_the_cpu(shape, place, dtype):
    host = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    x, out = place(host), place(np.zeros_like(host))
    same_bits(hv.clip(x, 1.0), hv.clip(host, 1.0))
    noisy = hv.clip_and_noise(host, 1.0, 0.5, generator=seeded())
    assert hv.clip_and_noise(x, 1.0, 0.5, out=out, generator=seeded()) is out
    same_bits(out, noisy)
    unit = {"normalize": True, "renormalize": True}
    for settings in ({}, {"mechanism": "laplacian"}, {"mechanism": "privunit"}, {"dtype": "int8"}, unit):
        ours, expected = (hv.privatize(rows, epsilon=50.0, generator=seeded(), **settings) for rows in (x, host))
        same_bits(ours.values, expected.values)
        assert ours.receipt == expected.receipt
    assert hv.clip_and_noise(x, 1.0, 0.5, out=x, generator=seeded()) is x
    same_bits(x, noisy)


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_sum_has_the_bits_of_the_cpu(dtype, parts, version):
    shapes = [(300,), (7,), (2, 3)][:parts]
    rows = [np.random.default_rng(3).standard_normal((16, *shape)).astype(dtype) for shape in shapes]
    sums = [ClippedSum(shapes, clip_norm=1.0, sigma=0.7) for _ in range(2)]
    for total, given in zip(sums, (rows, [Array(part) for part in rows]), strict=True):
        total.add(given)
        total.add(given)
    expected, ours = (total.release(hv.Generator.unsafe_seeded(9, format_version=version)) for total in sums)
    for part, wanted in zip(ours, expected, strict=True):
        same_bits(part, wanted)


@pytest.mark.parametrize("bands", [1, 2, 4, 8, 16])
def test_releases_that_share_noise_have_the_bits_of_the_cpu(bands):
    shapes, coefficients = [(300,), (7,), (2, 3), (1000,)], (1.0, *(-0.7 / i for i in range(1, bands)))
    rows = [np.random.default_rng(3).standard_normal((16, *shape)).astype("float32") for shape in shapes]
    released = []
    for given in (rows, [Array(part) for part in rows]):
        total, earlier, generator = ClippedSum(shapes, clip_norm=1.0, sigma=0.7), EarlierNoise(coefficients), seeded()
        released.append([])
        for step in range(bands + 1):
            total.add(given)
            released[-1] += total.release(generator, earlier=earlier)
    expected, ours = released
    for part, wanted in zip(ours, expected, strict=True):
        same_bits(part, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_answers_have_the_bits_of_the_cpu(dtype):
    codes = (np.arange(1000) % 10).astype(dtype)
    ours = hv.randomized_response(Array(codes), range(10), 2.0, generator=seeded())
    same_bits(ours, hv.randomized_response(codes, range(10), 2.0, generator=seeded()))


@pytest.mark.parametrize("draw", [hv.discrete_gaussian, hv.discrete_laplacian])
@pytest.mark.parametrize("scale", [0.02, 3.0, 1e6, 2.0**39])
@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_whole_numbers_are_those_of_the_cpu(dtype, scale, draw):
    scale = min(scale, 2.0**24) if dtype == "int32" else scale
    source = [seeded(), seeded()]
    for shape in (0, 1, 257, (3, 5, 700)):   # nonces count alike
        expected = draw(shape, scale, dtype=dtype, generator=source[0])
        out = Array(np.ones_like(expected))
        assert draw(shape, scale, out=out, generator=source[1]) is out
        same_bits(out, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_refused(dtype):
    host = np.ones((40, 384), dtype)
    host[5, 3] = np.nan
    bad = Array(host)
    for call in (
        lambda: hv.clip(bad, 1.0),
        lambda: hv.clip_and_noise(bad, 1.0, 0.5),
        lambda: hv.privatize(bad, epsilon=8.0),
        lambda: hv.privatize(bad, epsilon=8.0, mechanism="privunit"),
        lambda: BOOK.encode(bad),
    ):
        with pytest.raises(ValueError, match="x must be finite, got nan in row 5"):
            call()
    with pytest.raises(ValueError, match="x must be contiguous in row-major order"):
        hv.clip(Array(bad.host[:, ::2]), 1.0)
    with pytest.raises(ValueError, match="x must be in CUDA memory, got the CPU"):
        sys.modules["hushvec._native._cuda"].clip(InHostMemory(), 1.0, bad, bad, 0)


class InHostMemory:
    @property
    def __cuda_array_interface__(self):
        return {"shape": (4, 8), "typestr": "<f4", "strides": None, "data": (VECTORS.ctypes.data, False), "version": 3}


def test_a_call_runs_on_the_current_stream_and_not_before_something_waits():
    x, chosen = Array(VECTORS), Stream()
    with emulated_backend.stream(chosen):
        noise = hv.gaussian_noise((ROWS, DIMENSION), like=x, generator=seeded())
    unwritten = noise.host.copy()
    emulated_backend.call("cudaStreamSynchronize", 0)
    np.testing.assert_array_equal(noise.host.view(np.uint32), unwritten.view(np.uint32))
    chosen.synchronize()
    np.testing.assert_allclose(noise.host, hv.gaussian_noise((ROWS, DIMENSION), generator=seeded()), atol=1e-4)


def test_a_captured_call_draws_anew_in_every_replay():
    x, generator, graph = Array(VECTORS), hv.Generator(), Graph()
    seen = [hv.clip_and_noise(x, 1.0, 0.5, generator=generator).get()]
    out = Array(np.zeros_like(VECTORS))
    with graph.capture():
        hv.clip_and_noise(x, 1.0, 0.5, out=out, generator=generator)
        with pytest.raises(RuntimeError, match="privatize cannot be captured"):
            hv.privatize(x, epsilon=8.0)
    assert not out.get().any()
    for _ in range(3):
        graph.replay()
        seen.append(out.get())
    assert all((a != b).any() for i, a in enumerate(seen) for b in seen[:i])


# ---- aggregates ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("groups", [None, 3])
def test_sums_by_group_are_those_of_the_cpu(dtype, groups):
    codes = None if groups is None else np.arange(ROWS, dtype=np.uint32) % 2   # the third has no rows
    x = VECTORS.astype(dtype)
    on_cpu, on_device = (GroupTotals(groups or 1, DIMENSION, 1.0) for _ in range(2))
    for block in (slice(0, 25), slice(25, ROWS)):
        given = None if codes is None else codes[block]
        on_cpu.add(x[block], given)
        on_device.add(Array(x[block].copy()), given)
    assert (on_device.sums() == on_cpu.sums()).all() and (on_device.counts == on_cpu.counts).all()
    x[7, 3] = np.inf
    with pytest.raises(ValueError, match="rows must be finite, got inf in row 7"):
        on_device.add(Array(x), None)
    assert (on_device.sums() == on_cpu.sums()).all()


def test_aggregates_of_rows_on_a_device():
    """The same bits as of rows in CPU memory, from the same key."""
    for x in (VECTORS, Array(VECTORS.copy())):
        terms = {"epsilon": 1.0, "delta": 1e-5}
        labels = np.arange(ROWS) % 4
        released = [
            private_sums(x, labels, labels=4, generator=seeded(), **terms).sums,
            private_sums(x, people=(labels % 3).tolist(), rows_per_person=5, generator=seeded(), **terms).sums,
            private_covariance(x, people=labels, generator=seeded(), **terms).covariance,
            private_classifier(x, labels, labels=4, steps=2, generator=seeded(), **terms).coef_,
        ]
        first = released if x is VECTORS else first
        assert all((one == other).all() for one, other in zip(released, first, strict=True))
