"""Arrays of other libraries, taken through DLPack: the results of numpy in the caller's library, and what may not be written is not.

array-api-strict is the library here. Capsules of other producers (read-only, unversioned, of a GPU) are made of numpy's own; MLX, dpnp
and JAX run where they are installed.
"""

from __future__ import annotations

import array
import ctypes
import types
from importlib import import_module

import numpy as np
import pytest

import hushvec as hv
from hushvec.aggregates import private_sums
from hushvec.federated import clip_and_noise_update
from hushvec.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    MetricEpsilon,
    MetricLaplace,
    PublicCodebook,
    PublicProjection,
    RandomizedResponse,
)
from hushvec.training import clip_and_noise_gradients

strict = pytest.importorskip("array_api_strict")

pytestmark = pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="numpy before 2.1 has no versioned capsules")

CPU, CUDA, METAL, ONE_API = 1, 2, 8, 14  # as DLPack numbers devices
READ_ONLY = 1
ROWS = np.random.default_rng(0).standard_normal((6, 8))
BOOK = PublicCodebook.of(np.eye(8, dtype=np.float32))
TO_THREE = PublicProjection.fit(np.random.default_rng(1).standard_normal((20, 8)), components=3)


def seeded():
    return hv.Generator.unsafe_seeded(7)


CALLS = {
    "clip": lambda x: hv.clip(x, 1.0),
    "clip_and_noise": lambda x: hv.clip_and_noise(x, 1.0, 0.5, generator=seeded()),
    "gaussian_noise": lambda x: hv.gaussian_noise(tuple(x.shape), like=x, generator=seeded()),
    "laplacian_noise": lambda x: hv.laplacian_noise(tuple(x.shape), like=x, generator=seeded()),
    "l2_laplace_noise": lambda x: hv.l2_laplace_noise(tuple(x.shape), like=x, generator=seeded()),
    "add_noise": lambda x: hv.add_noise(x, x),
    "privatize": lambda x: hv.privatize(x, epsilon=8.0, generator=seeded()).values,
    "unit rows": lambda x: hv.privatize(x, epsilon=8.0, normalize=True, renormalize=True, generator=seeded()).values,
    "int8": lambda x: hv.privatize(x, epsilon=8.0, dtype="int8", generator=seeded()).values,
    "to_float32": lambda x: hv.privatize(x, epsilon=8.0, dtype="int8", generator=seeded()).to_float32(),
    "projection": lambda x: hv.privatize(x, epsilon=8.0, projection=TO_THREE, generator=seeded()).values,
    "codebook": lambda x: hv.privatize(x, mechanism=BOOK.mechanism(4.0), generator=seeded()).values,
    "apply": lambda x: Gaussian(epsilon=8.0, delta=1e-5, dimension=8).apply(x, None, seeded()),
    "metric": lambda x: MetricLaplace(epsilon=MetricEpsilon(9.0), dimension=8).release(x, generator=seeded()),
    "transform": TO_THREE.transform,
    "encode": BOOK.encode,
    "update": lambda x: clip_and_noise_update({"w": x}, clip_norm=1.0, epsilon=8.0, delta=1e-5, generator=seeded()).values["w"],
    "gradients": lambda x: clip_and_noise_gradients([x], clip_norm=1.0, noise_multiplier=1.0, generator=seeded())[0],
}


class _Versioned(ctypes.Structure):
    """A versioned capsule up to its device."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
    )


_python = ctypes.PyDLL(None)
_pointer = _python.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Shared:
    """An array with nothing but DLPack, in CPU memory whatever it says. Producers from before version 1 know no max_version."""

    def __init__(self, values, *, device=CPU, flags=0, versioned=True):
        self.values, self.shape, self.dtype = values, values.shape, values.dtype
        self._device, self._flags, self._versioned = device, flags, versioned
        self.asked = []

    def __dlpack__(self, **asked):
        self.asked.append(asked)
        if not self._versioned:
            if asked:
                raise TypeError("__dlpack__() got an unexpected keyword argument")
            return self.values.__dlpack__()
        if asked.get("dl_device") == (CPU, 0) and self._device != CPU:
            return self.values.copy().__dlpack__(max_version=(1, 0))
        capsule = self.values.__dlpack__(max_version=(1, 0))
        tensor = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        tensor.flags, tensor.device = self._flags, self._device
        return capsule

    def __dlpack_device__(self):
        return self._device, 0


class Placed(Shared):
    """Such an array of a library that has the Array API, and devices."""

    def __init__(self, values, *, device=CPU, place="here", **said):
        super().__init__(values, device=device, **said)
        self.device = place

    def __array_namespace__(self):
        def asarray(values, *, dtype, device):
            return Placed(np.asarray(values, dtype), device=self._device, place=device)

        return types.SimpleNamespace(asarray=asarray, float32=np.float32, float64=np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_numpys_in_the_callers_library(name, dtype):
    rows = ROWS.astype(dtype)
    for device in strict.__array_namespace_info__().devices()[:2]:
        given = strict.asarray(rows, device=device, copy=True)
        result, wanted = CALLS[name](given), CALLS[name](rows)
        assert type(result) is type(given)
        assert result.device == device
        got = np.from_dlpack(result)
        assert got.dtype == wanted.dtype
        assert np.array_equal(got, wanted)
        assert np.array_equal(np.from_dlpack(given), rows)


@pytest.mark.parametrize("rows", [ROWS[::2, 1:7:2], ROWS[::-1], ROWS.T, ROWS[:0], ROWS[0], ROWS[:, :1]], ids=str)
def test_any_strides_and_no_rows(rows):
    given = strict.asarray(rows, copy=False)
    assert np.array_equal(np.from_dlpack(hv.clip(given, 1.0)), hv.clip(rows, 1.0))
    values = hv.privatize(given, epsilon=8.0, generator=seeded()).values
    assert np.array_equal(np.from_dlpack(values), hv.privatize(rows, epsilon=8.0, generator=seeded()).values)


def test_whole_numbers():
    counts = np.array([[3], [0], [12]])
    for dtype in (np.int64, np.int32):
        mechanism = DiscreteGaussian(epsilon=1.0, dimension=1, clip_norm=10)
        result = hv.privatize(strict.asarray(counts.astype(dtype)), mechanism=mechanism, generator=seeded()).values
        wanted = hv.privatize(counts.astype(dtype), mechanism=mechanism, generator=seeded()).values
        assert np.from_dlpack(result).dtype == dtype
        assert np.array_equal(np.from_dlpack(result), wanted)
        out = strict.zeros((3, 2), dtype=getattr(strict, np.dtype(dtype).name))
        assert hv.discrete_gaussian((3, 2), 4.0, generator=seeded(), out=out) is out
        assert np.array_equal(np.from_dlpack(out), hv.discrete_gaussian((3, 2), 4.0, dtype=dtype, generator=seeded()))
    assert np.from_dlpack(hv.clip(strict.asarray(counts), 100.0)).dtype == np.float32
    answers = RandomizedResponse(epsilon=1.0, k=13).respond(strict.asarray(counts), generator=seeded())
    assert isinstance(answers, type(out))
    assert np.array_equal(np.from_dlpack(answers), RandomizedResponse(epsilon=1.0, k=13).respond(counts, generator=seeded()))


def test_aggregates_and_sequences_take_them():
    rows, groups = np.abs(ROWS), ["a", "b"] * 3
    given = strict.asarray(rows)
    terms = {"groups": groups, "labels": ["a", "b"], "clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5}
    assert np.array_equal(private_sums(given, generator=seeded(), **terms).sums, private_sums(rows, generator=seeded(), **terms).sums)
    assert np.array_equal(hv.clip([given[0, ...], given[1, ...]], 1.0), hv.clip(rows[:2], 1.0))
    assert type(hv.clip([given[0, ...]], 1.0)) is np.ndarray


FILLS = {
    "clip": lambda x, out: hv.clip(x, 1.0, out=out),
    "clip_and_noise": lambda x, out: hv.clip_and_noise(x, 1.0, 0.5, out=out, generator=seeded()),
    "gaussian_noise": lambda x, out: hv.gaussian_noise(tuple(out.shape), out=out, generator=seeded()),
    "apply": lambda x, out: Gaussian(epsilon=8.0, delta=1e-5, dimension=8).apply(x, out, seeded()),
}


@pytest.mark.parametrize("name", FILLS)
def test_out_is_written_where_its_capsule_allows_it(name):
    wanted = FILLS[name](ROWS, np.empty_like(ROWS))
    out = strict.zeros(ROWS.shape)
    assert FILLS[name](strict.asarray(ROWS), out) is out
    assert np.array_equal(np.from_dlpack(out), wanted)
    in_place = strict.asarray(ROWS, copy=True)
    assert FILLS[name](in_place, in_place) is in_place
    assert np.array_equal(np.from_dlpack(in_place), wanted)


@pytest.mark.parametrize("said", [{"flags": READ_ONLY}, {"versioned": False}], ids=str)
@pytest.mark.parametrize("name", FILLS)
def test_read_only_memory_is_read_and_never_written(name, said):
    memory = ROWS.copy()
    given = Shared(memory, **said)
    assert np.array_equal(hv.clip(given, 1.0), hv.clip(ROWS, 1.0))
    assert given.asked[0]["max_version"] >= (1, 0)
    with pytest.raises(ValueError, match=r"^out must be writable, got a read-only array$"):
        FILLS[name](given, given)
    assert np.array_equal(memory, ROWS)


def test_read_only_arrays_of_a_library():
    frozen = ROWS.copy()
    frozen.flags.writeable = False
    given = strict.asarray(frozen, copy=False)
    with pytest.raises(ValueError, match=r"^out must be writable, got a read-only array$"):
        hv.clip(given, 1.0, out=given)
    whole = np.zeros((2, 2), np.int64)
    whole.flags.writeable = False
    with pytest.raises(ValueError, match=r"^out must be writable, got a read-only array$"):
        hv.discrete_gaussian((2, 2), 4.0, out=strict.asarray(whole, copy=False))


def test_without_a_namespace_results_are_numpys():
    result = hv.privatize(Shared(ROWS), epsilon=8.0, generator=seeded()).values
    assert type(result) is np.ndarray
    assert np.array_equal(result, hv.privatize(ROWS, epsilon=8.0, generator=seeded()).values)


def test_a_library_with_devices_brings_rows_to_the_cpu_and_gets_values_back_there():
    given = Placed(ROWS, device=ONE_API, place="sycl:1")
    result = hv.clip(given, 1.0)
    assert type(result) is Placed
    assert result.device == "sycl:1"
    assert np.array_equal(result.values, hv.clip(ROWS, 1.0))
    assert given.asked == [{"dl_device": (CPU, 0), "copy": None, "max_version": (1, 0)}]
    with pytest.raises(TypeError) as raised:
        hv.clip(given, 1.0, out=given)
    assert str(raised.value) == (
        "out must be a numpy array, a torch tensor or a CuPy array, got Placed (DLPack: Unsupported device in DLTensor.)"
    )


@pytest.mark.parametrize("draw", [hv.discrete_gaussian, hv.discrete_laplacian])
def test_whole_numbers_are_not_drawn_into_a_copy_of_memory_that_is_elsewhere(draw):
    memory = np.zeros((2, 3), np.int64)
    with pytest.raises(TypeError, match=r"^out must be a numpy array, a torch tensor or a CuPy array, got Shared \(DLPack: "):
        draw((2, 3), 4.0, out=Shared(memory, device=ONE_API))
    assert not memory.any()


class OnMetal(array.array):
    """One row, as MLX has it on a Mac: DLPack says Metal, and the memory is also a buffer."""

    def __dlpack__(self):
        return Shared(np.ones(48, np.float32), device=METAL).__dlpack__()

    def __dlpack_device__(self):
        return METAL, 0


def test_memory_of_metal_is_read_as_a_buffer():
    row = ROWS.astype(np.float32).ravel()
    assert np.array_equal(hv.clip(OnMetal("f", row.tobytes()), 1.0), hv.clip(row, 1.0))


class Charges:
    def __init__(self):
        self.taken = []

    def consume(self, epsilon, delta):
        self.taken.append((epsilon, delta))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, budget: hv.privatize(x, epsilon=8.0, budget=budget),
        lambda x, budget: hv.clip(x, 1.0),
        lambda x, budget: hv.clip(ROWS, 1.0, out=x),
    ],
)
def test_cuda_memory_is_left_to_torch_and_cupy(call):
    budget = Charges()
    with pytest.raises(ValueError) as raised:
        call(Shared(ROWS, device=CUDA), budget)
    assert str(raised.value).split(" ", 1)[1].replace("out", "x") == (
        "must be on the CPU, or a torch tensor or a CuPy array, got Shared on cuda:0 (pass torch.from_dlpack(x) or "
        "cupy.from_dlpack(x), the same memory)"
    )
    assert budget.taken == []


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (ROWS.astype(bool), "x must be float32 or float64 or float16, got bool"),
        (ROWS.astype(complex), "x must be float32 or float64 or float16, got complex128"),
        (ROWS[None], "x must have 1 or 2 dimensions, got 3"),
        (np.where(ROWS > 1, np.nan, ROWS), "x must be finite, got nan in row 0"),
    ],
)
def test_rows_are_checked_as_numpys_are(rows, text):
    budget = Charges()
    with pytest.raises((TypeError, ValueError)) as raised:
        hv.privatize(Shared(rows), epsilon=8.0, budget=budget)
    assert str(raised.value) == text
    assert budget.taken == []


def test_a_budget_is_charged_once():
    budget = Charges()
    hv.privatize(strict.asarray(ROWS), epsilon=8.0, budget=budget)
    assert budget.taken == [(8.0, 1e-5)]


def test_bfloat16_goes_through_torch():
    torch = pytest.importorskip("torch")

    class Brain(Shared):
        """As bfloat16 of MLX and JAX: numpy has no such dtype."""

        def __init__(self, tensor):
            self.tensor, self.shape, self.dtype = tensor, tuple(tensor.shape), "mlx.core.bfloat16"

        def __dlpack__(self, **asked):
            return self.tensor.__dlpack__(**asked)

        def __dlpack_device__(self):
            return CPU, 0

        def __array_namespace__(self):
            return types.SimpleNamespace(from_dlpack=lambda values: Brain(torch.from_dlpack(values)))

    rows = torch.from_numpy(ROWS).bfloat16()
    result = hv.privatize(Brain(rows), epsilon=8.0, generator=seeded()).values
    assert type(result) is Brain
    assert torch.equal(result.tensor, hv.privatize(rows, epsilon=8.0, generator=seeded()).values)
    with pytest.raises(TypeError, match=r"^out must be .* got Brain \(DLPack: Unsupported dtype"):
        hv.clip(Brain(rows), 1.0, out=Brain(rows))


def _mlx(rows):
    core = import_module("mlx.core")
    return core.array(rows, dtype=getattr(core, rows.dtype.name))


LIBRARIES = {
    "mlx.core": _mlx,
    "dpnp": lambda rows: import_module("dpnp").asarray(rows),
    "jax": lambda rows: import_module("jax.numpy").asarray(rows),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries_that_are_installed(name):
    pytest.importorskip(name)
    for dtype in ("float32", "float16"):
        rows = ROWS.astype(dtype)
        given = LIBRARIES[name](rows)
        for call in CALLS.values():
            result = call(given)
            assert type(result) is type(given)
            assert getattr(result, "device", None) == getattr(given, "device", None)
            assert np.array_equal(np.from_dlpack(result, device="cpu"), call(rows))
        with pytest.raises((TypeError, ValueError), match=r"^out must be "):
            hv.clip(given, 1.0, out=given)
