"""Which way rows go for a search for NaN and Inf, and for unit rows: kernels of a device, the array's library, or the core."""

import subprocess
import sys
import types

import numpy as np
import pytest

from hushvec._native import arrays, cuda, rowwise

torch = pytest.importorskip("torch")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def some_rows(dtype, rows=9):
    x = np.random.default_rng(3).standard_normal((rows, 33)) * np.exp2(np.arange(rows) - 4)[:, None]
    x[rows // 2] = 0
    return torch.from_numpy(x).to(dtype)


def core_bits(x):
    out = torch.empty_like(x)
    rowwise.unit_rows(x, out)
    return out


@pytest.fixture
def no_kernel(monkeypatch):
    """Tensors in CPU memory count as arrays on a device that no kernel can read."""
    monkeypatch.setattr(rowwise, "on_cuda", lambda x: arrays.is_torch(x))
    monkeypatch.setattr(cuda, "takes", lambda *given: False)
    monkeypatch.setattr(rowwise, "_DEVICE_RUN", 66)


@pytest.fixture
def kernels(monkeypatch):
    """Tensors in CPU memory count as arrays on a device; each call of a kernel is noted, and `found` is what it reports."""
    made = types.SimpleNamespace(calls=[], found=None)

    def find_bad_row(x):
        made.calls.append("find_bad_row")
        return made.found

    def unit_rows(x, out, *, check):
        made.calls.append("unit_rows, checked" if check else "unit_rows")
        out.zero_()
        return made.found if check else None

    monkeypatch.setattr(rowwise, "on_cuda", lambda x: arrays.is_torch(x))
    monkeypatch.setattr(cuda, "takes", lambda *given: True)
    monkeypatch.setattr(cuda, "find_bad_row", find_bad_row)
    monkeypatch.setattr(cuda, "unit_rows", unit_rows)
    return made


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_without_a_kernel_unit_rows_have_the_bits_of_the_core(dtype, request):
    x = some_rows(dtype)
    expected, before = core_bits(x), x.clone()
    request.getfixturevalue("no_kernel")
    for given in (x, x[:1], x[2], torch.cat([x, x], 1)[:, :33], x.T.contiguous().T):
        wanted = expected[2] if given.ndim == 1 else expected[: len(given)]
        assert torch.equal(rowwise.unit_rows(given, torch.empty_like(given)), wanted)
        assert torch.equal(rowwise.checked_unit_rows("x", given, torch.empty_like(given)), wanted)
    assert torch.equal(x, before)
    assert rowwise.unit_rows(x, x) is x and torch.equal(x, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("value", "printed"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_without_a_kernel_bad_rows_are_found(no_kernel, dtype, value, printed):
    for row in (0, 5, 8):
        x = some_rows(dtype)
        assert rowwise.first_nonfinite_row(x) is None
        x[row, 32] = x[8, 0] = value
        assert rowwise.first_nonfinite_row(x) == row
        out = torch.full_like(x, 7)
        with pytest.raises(ValueError, match=f"^rows must be finite, got {printed} in row {100 + row}$"):
            rowwise.require_finite("rows", x, first_row=100)
        with pytest.raises(ValueError, match=f"^rows must be finite, got {printed} in row {100 + row}$"):
            rowwise.checked_unit_rows("rows", x, out, first_row=100)
        assert (out == 7).all()


def test_a_device_is_asked_once(kernels):
    x, out = some_rows(torch.float32), some_rows(torch.float32)
    assert rowwise.checked_rows("x", x, finite=True).finite
    assert kernels.calls == ["find_bad_row"]
    kernels.calls.clear()
    assert rowwise.unit_rows(x, out) is out and (out == 0).all()
    assert rowwise.checked_unit_rows("x", x, out) is out
    assert kernels.calls == ["unit_rows", "unit_rows, checked"]


def test_what_a_kernel_finds_is_named(kernels):
    x = some_rows(torch.float32)
    kernels.found, x[4, 7] = 4, -torch.inf
    with pytest.raises(ValueError, match=r"^x must be finite, got -inf in row 34$"):
        rowwise.require_finite("x", x, first_row=30)
    with pytest.raises(ValueError, match=r"^x must be finite, got -inf in row 34$"):
        rowwise.checked_unit_rows("x", x, torch.empty_like(x), first_row=30)
    with pytest.raises(ValueError, match=r"^x must be finite, got NaN or Inf in row 4$"):  # the kernel wrote over it
        rowwise.checked_unit_rows("x", x, x)


@pytest.mark.parametrize("dtype", arrays.NUMPY_DTYPES)
def test_rows_of_numpy(dtype):
    x = some_rows(getattr(torch, dtype)).numpy()
    expected = rowwise.unit_rows(x, np.empty_like(x))
    assert np.array_equal(rowwise.checked_unit_rows("x", x, np.empty_like(x)), expected)
    x[6, 1] = np.nan
    out = np.full_like(x, 7)
    with pytest.raises(ValueError, match=r"^x must be finite, got nan in row 8$"):
        rowwise.checked_unit_rows("x", x, out, first_row=2)
    assert (out == 7).all()
    checked = rowwise.checked_rows("x", x, finite=False)
    assert (checked.rows, checked.dimension, checked.dtype, checked.on_cuda, checked.finite) == (9, 33, dtype, False, False)
    with pytest.raises(ValueError, match=r"^x must be finite, got nan in row 6$"):
        rowwise.checked_rows("x", x, finite=True)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (5, 0)])
def test_arrays_of_nothing(shape, request):
    for x in (np.empty(shape, np.float32), torch.empty(shape)):
        assert rowwise.first_nonfinite_row(x) is None
        assert rowwise.checked_unit_rows("x", x, arrays.empty_like(x)).shape == x.shape
    request.getfixturevalue("no_kernel")
    assert rowwise.first_nonfinite_row(torch.empty(shape)) is None
    assert rowwise.unit_rows(torch.empty(shape), torch.empty(shape)).shape == shape


@pytest.mark.parametrize("name", ["arrays", "cuda", "rowwise"])
def test_a_module_is_imported_alone(name):
    """A circle would show in the module that it begins with."""
    subprocess.run([sys.executable, "-W", "error", "-c", f"import hushvec._native.{name}"], check=True)
