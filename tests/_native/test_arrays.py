"""Which arrays are taken, what is said of others, and what is made like them."""

import sys
import types

import numpy as np
import pytest

import hushvec
from hushvec._native import _core, arrays, kernels, rowwise

torch = pytest.importorskip("torch")

FLOATS = [np.float32, np.float64, np.float16]
FEW = "must be a numpy array, a torch tensor or a CuPy array, got"
LARGE = 2**24 + 1


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 3)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_of_numpy_in_one_or_two_dimensions_are_plain(dtype, shape):
    x = np.zeros(shape, dtype)
    assert arrays.is_plain(x) and rowwise.given_array("x", x) is x
    arrays.require_array("x", x)
    arrays.require_array("x", torch.zeros(shape, dtype=torch.bfloat16))


REFUSED = {
    "integers": (np.zeros((2, 3), np.int64), TypeError, "x must be float32 or float64 or float16, got int64"),
    "three dimensions": (np.zeros((2, 2, 2), np.float32), ValueError, "x must have 1 or 2 dimensions, got 3"),
    "no dimension": (np.zeros((), np.float32), ValueError, "x must have 1 or 2 dimensions, got 0"),
    "another byte order": (np.zeros(3, ">f4"), TypeError, "x must be in native byte order, got >f4"),
    "a mask": (np.ma.zeros(3), TypeError, "x must be a plain numpy array, got MaskedArray (its mask would be lost)"),
    "a list": ([1.0], TypeError, f"x {FEW} list"),
    "integers of torch": (torch.zeros(3, dtype=torch.int64), TypeError,
                          "x must be float32 or float64 or float16 or bfloat16, got int64"),
    "a sparse tensor": (torch.zeros(2, 2).to_sparse(), TypeError, "x must be a dense tensor, got layout torch.sparse_coo"),
    "a device without memory": (torch.zeros(3, device="meta"), ValueError, "x must be on the CPU or a CUDA device, got meta"),
    "a gradient": (torch.zeros(3, requires_grad=True), ValueError,
                   "x must not require grad, got requires_grad=True (pass x.detach())"),
}  # fmt: skip


@pytest.mark.parametrize("x, error, text", REFUSED.values(), ids=REFUSED)
def test_another_array_is_refused_by_what_it_is(x, error, text):
    assert not arrays.is_plain(x)
    with pytest.raises(error) as raised:
        arrays.require_array("x", x)
    assert str(raised.value) == text


@pytest.mark.parametrize("library, kinds", arrays._WAYS, ids="-".join)
def test_an_object_of_a_known_library_is_told_the_way_and_no_other_is(library, kinds):
    way = f" (pass {arrays._WAYS[library, kinds].format('x')})"
    for name in kinds.split():
        found = arrays._no_array("x", type(name, (), {"__module__": f"{library}.core"})(), "it failed")
        assert str(found).endswith(way) and str(found).startswith(f"x {FEW} ")
        assert "pass" not in str(arrays._no_array("x", type(name, (), {"__module__": "another"})(), ""))
    assert "pass" not in str(arrays._no_array("x", type("Other", (), {"__module__": f"{library}.core"})(), ""))


def test_why_dlpack_failed_is_said_but_for_an_array_that_is_traced(monkeypatch):
    tracer = type("Tracer", (), {})
    monkeypatch.setitem(sys.modules, "jax", types.SimpleNamespace(core=types.SimpleNamespace(Tracer=tracer)))
    assert str(arrays._no_array("x", tracer(), "why\nmore")).endswith("hushvec.integrations.jax works on it)")
    assert str(arrays._no_array("x", 1, "why\nmore")) == f"x {FEW} int (DLPack: why)"
    assert str(arrays._no_array("x", 1, "")) == f"x {FEW} int"


def test_arrays_of_numpy_are_recorded_by_nobody():
    assert arrays.is_recorded(np.zeros(3)) is False
    assert arrays.is_traced(np.zeros(3)) is False


def test_names_of_dtypes():
    """A text is the name that it says, so that "f4" is refused; an object has the name of its dtype."""
    for dtype, name in [("float32", "float32"), ("f4", "f4"), (np.float16, "float16"), (np.dtype("f8"), "float64"),
                        (torch.bfloat16, "bfloat16"), (float, "float64"), ("bfloat16", "bfloat16")]:  # fmt: skip
        assert arrays.dtype_named(dtype) == name
    with pytest.raises(TypeError, match=r"^dtype must be float32, float64 or float16, got 'f4'$"):
        arrays.noise_target((2,), "f4", None, None)


def test_a_new_array_is_like_another_but_for_what_is_asked():
    for like in (np.zeros((2, 3), np.float16), torch.zeros(2, 3, dtype=torch.float16)):
        for dtype in (None, "float64", "int32"):
            made = arrays.new_array(like, (4,), dtype=dtype)
            assert type(made) is type(like) and tuple(made.shape) == (4,)
            assert arrays.dtype_name(made) == (dtype or "float16")


class Exported:
    """An array with nothing but DLPack; with a namespace, results become its own."""

    def __dlpack__(self):
        raise AssertionError


class InALibrary(Exported):
    def __array_namespace__(self):
        return types.SimpleNamespace(asarray=lambda values, dtype: ("its own", values, dtype), float32="its float32")


def test_results_go_back_to_the_library_that_has_a_namespace():
    values = np.zeros(3, np.float32)
    for x in (values, torch.zeros(3), Exported()):
        assert arrays.returned(x, values) is values
    assert arrays.returned(InALibrary(), values) == ("its own", values, "its float32")
    assert arrays.returned(InALibrary(), values, "out") == arrays.returned(values, values, "out") == "out"


@pytest.mark.parametrize("dtype, name", [("int8", "float32"), ("uint64", "float32"), ("f2", "float16"), ("f8", "float64")])
def test_whole_numbers_become_float32_and_floats_stay(dtype, name):
    x = np.ones((2, 3), dtype)
    assert rowwise.dtype_after(x.dtype) == rowwise.as_array("x", x).dtype.name == name
    assert (rowwise.as_array("x", x) is x) == (name != "float32")


@pytest.mark.parametrize("x", [[1, 2], (1.5, 2.5), [[1.0], [2.0]], [np.ones(2, np.float32)] * 2, [torch.ones(2)] * 2,
                               np.arange(6).reshape(2, 3), torch.arange(3)], ids=str)  # fmt: skip
def test_sequences_and_integers_become_arrays_with_the_same_numbers(x):
    found = rowwise.as_array("x", x)
    assert arrays.dtype_name(found) == "float32"
    wanted = [np.asarray(row) for row in x] if isinstance(x, list) else x
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted, np.float32))


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, list, lambda rows: [rows]], ids=["numpy", "torch", "list", "rows"])
@pytest.mark.parametrize("value", [LARGE, -LARGE])
def test_a_whole_number_that_float32_lacks_is_refused(make, value):
    with pytest.raises(ValueError, match=rf"^x must hold whole numbers of at most 2\^24 .*, got {value} \(pass a float64 arr"):
        rowwise.as_array("x", make([0, 7, value]))
    assert rowwise.as_array("x", make([2**24, -(2**24)])).shape[-1] == 2
    assert np.asarray(rowwise.as_array("x", np.zeros((0, 3), np.int64))).shape == (0, 3)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "torch"])
def test_the_first_row_that_is_not_finite_is_found_in_every_run(monkeypatch, kind):
    monkeypatch.setattr(rowwise, "_HOST_RUN", 12)   # three rows of four
    for row in range(10):
        x = np.ones((10, 4), "float32" if kind == "torch" else kind)
        x[row:, row % 4] = np.nan if row % 2 else -np.inf
        x = torch.from_numpy(x) if kind == "torch" else x
        assert rowwise.first_nonfinite_row(x) == row
        assert rowwise.first_nonfinite_row(x[:row]) is None
        with pytest.raises(ValueError, match=rf"^x must be finite, got (nan|-inf) in row {row + 5}$"):
            rowwise.require_finite("x", x, first_row=5)


def test_a_row_whose_square_overflows_is_finite():
    assert rowwise.first_nonfinite_row(np.full((2, 3), 1e300)) is None
    assert rowwise.first_nonfinite_row(np.full((2, 3), 1e38, np.float32)) is None


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_codes_in_the_memory_of_the_cpu_are_answered_there(make):
    source = hushvec.Generator.unsafe_seeded(1)
    codes = make(np.arange(5, dtype=np.int32))
    assert type(kernels.randomized_response(codes, 5, _core.response_law(1.0, 5), source)) is type(codes)


@pytest.mark.parametrize("name", ["_interpreters", "_xxsubinterpreters"])
def test_a_subinterpreter_is_refused_whichever_name_python_has_for_it(monkeypatch, name):
    def interpreters(asked):
        if asked != name:
            raise ModuleNotFoundError(asked)
        return types.SimpleNamespace(get_current=lambda: current, get_main=lambda: 0)

    monkeypatch.setattr(hushvec._native, "import_module", interpreters)
    current = 0
    hushvec._native._require_main_interpreter()
    current = 1
    with pytest.raises(ImportError, match=r"^hushvec must be imported in the main interpreter, got a subinterpreter"):
        hushvec._native._require_main_interpreter()
