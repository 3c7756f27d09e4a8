"""Which arrays are accepted, and how a result array is made: numpy, torch and CuPy, and those that DLPack exports.

torch and CuPy are looked up among the loaded modules: an object can be a tensor only if its library is loaded. Exported arrays are
worked on as numpy arrays that share their memory (`shared`), and results go back by the Array API (`returned`).
"""

from __future__ import annotations

import contextlib
import math
import sys
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util.recording import recording_error, require_no_recorder
from hushvec._util.validate import kind, whole_number

__all__ = [
    "DEFAULT_DTYPE", "NUMPY_DTYPES", "TORCH_DTYPES", "as_matrix", "device_of", "device_scope", "dtype_name", "in_order",
    "is_contiguous", "is_torch", "library_of", "new_array", "on_cuda", "require_array", "require_form", "require_same_kind",
    "returned", "shared",
]

ArrayT = TypeVar("ArrayT")

NUMPY_DTYPES = ("float32", "float64", "float16")
TORCH_DTYPES = (*NUMPY_DTYPES, "bfloat16")
DEFAULT_DTYPE = "float32"
_DIMENSIONS = (1, 2)
_JAX = "jax.Array of a program that is being traced (hushvec.integrations.jax works on it)"
_CPU, _CUDA = 1, 2  # devices, as DLPack numbers them
# numpy builds a dtype's name on every access, which takes a tenth of the time of a small release.
_NAMES = {np.dtype(name): name for name in NUMPY_DTYPES}


# numpy is asked about first, in each of these: small calls ask often, and torch answers in Python whether an array is its own.


def is_torch(x: Any) -> bool:
    torch = None if isinstance(x, np.ndarray) else sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_cupy(x: Any) -> bool:
    cupy = None if isinstance(x, np.ndarray) else sys.modules.get("cupy")
    return cupy is not None and isinstance(x, cupy.ndarray)


def on_cuda(x: Any) -> bool:
    return not isinstance(x, np.ndarray) and (is_cupy(x) or (is_torch(x) and x.device.type == "cuda"))


def device_of(x: Any) -> str:
    """ "cpu" or "cuda:0", whatever the library."""
    if is_cupy(x):
        return f"cuda:{x.device.id}"
    return str(x.device) if is_torch(x) else "cpu"


def device_scope(x: Any) -> contextlib.AbstractContextManager[Any]:
    return x.device if is_cupy(x) else contextlib.nullcontext()


def is_traced(x: Any) -> bool:
    """Whether torch.compile is recording a call on x instead of running it."""
    return not isinstance(x, np.ndarray) and is_torch(x) and bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def is_recorded(x: Any) -> bool:
    """Whether anything of torch that keeps calls of operators is recording a call on x: torch.compile, torch.export, make_fx, ..."""
    if isinstance(x, np.ndarray) or not is_torch(x):
        return False
    from hushvec._util.torch_recording import keeps_operators

    return keeps_operators()


def is_exported(x: Any) -> bool:
    """Whether x is an array of another library that shares it through DLPack."""
    return not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__") and not is_torch(x) and not is_cupy(x)


def shared(name: str, x: Any, *, written: bool = False) -> Any:
    """x, but an exported array as a numpy array over the same memory, read-only unless its capsule is versioned and says otherwise.
    From another device than CUDA a copy, which cannot be `written`. bfloat16, which numpy lacks, becomes a torch tensor."""
    if not is_exported(x):
        return x
    require_no_recorder()
    try:
        device, index = x.__dlpack_device__()
        if device != _CUDA and not written and str(getattr(x, "dtype", "")).endswith("bfloat16"):
            return import_module("torch").from_dlpack(x)
        if device == _CPU or (device != _CUDA and written):
            array = np.from_dlpack(x)
            if array.size and array.flags.owndata:
                raise ValueError("its data pointer is null")  # where numpy makes memory of its own
            return array
        if device != _CUDA:
            with contextlib.suppress(Exception):
                return np.from_dlpack(x, device="cpu")  # which numpy asks of x since 2.1
            return np.asarray(memoryview(x))  # of MLX, whose GPU works in the memory of the CPU
    except Exception as error:  # of any library
        raise _no_array(name, x, error) from error
    ways = f"torch.from_dlpack({name}) or cupy.from_dlpack({name}), the same memory"
    raise ValueError(f"{name} must be on the CPU, or a torch tensor or a CuPy array, got {kind(x)} on cuda:{index} (pass {ways})")


def returned(x: Any, values: Any, out: Any = None) -> Any:
    """A result for the caller who gave x: `out`, or values in the library of x and on its device."""
    if out is not None or not is_exported(x) or not hasattr(x, "__array_namespace__"):
        return values if out is None else out
    library = x.__array_namespace__()
    if is_torch(values):
        return library.from_dlpack(values)
    place = {"device": x.device} if hasattr(x, "device") else {}
    return library.asarray(values, dtype=getattr(library, values.dtype.name), **place)  # MLX makes float64 float32 unless told


def array_kind(x: Any) -> str:
    """The type as an error shows it; numpy and CuPy have the same name for theirs."""
    return "cupy.ndarray" if is_cupy(x) else kind(x)


def dtype_name(x: Any) -> str:
    """ "float32", "float64", "float16" or "bfloat16", whatever the library calls it."""
    return str(x.dtype).removeprefix("torch.") if is_torch(x) else _NAMES.get(x.dtype) or str(x.dtype.name)


class CheckedRows(NamedTuple):
    """Rows that passed all checks (a 1-D array is one row), with the facts that later steps need. `finite`: checked for NaN and
    Inf."""

    values: Any
    rows: int
    dimension: int
    dtype: str
    on_cuda: bool
    finite: bool


def is_plain(x: Any) -> bool:
    """Whether `require_array` holds for x at once, as nearly always: numpy's own array of floats, in native byte order."""
    return type(x) is np.ndarray and x.dtype in _NAMES and x.ndim in _DIMENSIONS


def require_array(name: str, x: Any) -> None:
    """One or two dimensions, a floating dtype, memory of the CPU or a CUDA device, nothing hidden (mask, gradient)."""
    if is_plain(x):
        return
    if isinstance(x, np.ndarray):
        _require_ndarray(name, x)
    elif is_torch(x):
        _require_tensor(name, x)
    elif is_cupy(x):
        _require_dtype(name, x, NUMPY_DTYPES)
    else:
        require_no_recorder()  # a recorder's stand-in is not an array
        raise _no_array(name, x, "")
    if x.ndim not in _DIMENSIONS:
        raise ValueError(f"{name} must have 1 or 2 dimensions, got {x.ndim}")


def _no_array(name: str, x: Any, error: Any) -> TypeError:
    got = _JAX if isinstance(x, getattr(getattr(sys.modules.get("jax"), "core", None), "Tracer", ())) else kind(x)
    library = type(x).__module__.partition(".")[0]
    way = next((way for (one, kinds), way in _WAYS.items() if one == library and kind(x).rpartition(".")[2] in kinds.split()), None)
    why = f" (DLPack: {str(error).splitlines()[0]})" if str(error) and got is not _JAX else ""
    why = why if way is None else f" (pass {way.format(name)})"
    return TypeError(f"{name} must be a numpy array, a torch tensor or a CuPy array, got {got}{why}")


_OF_A_TABLE = "the whole table to hushvec.integrations.tables.privatize_column"
# What to pass in place of an object of another library: (library, its types) -> the expression.
_WAYS = {
    ("pandas", "DataFrame"): f"{{0}}.to_numpy(), or for a column of vectors {_OF_A_TABLE}",
    ("pandas", "Series Index"): f"numpy.stack({{0}}) where each element is a vector, or {_OF_A_TABLE}",
    ("polars", "DataFrame"): f"{{0}}.to_numpy(), or for a column of vectors {_OF_A_TABLE}",
    ("polars", "LazyFrame"): f"{{0}}.collect().to_numpy(), or for a column of vectors {_OF_A_TABLE}",
    ("polars", "Series"): f"numpy.stack({{0}}.to_list()) where each element is a vector, or {_OF_A_TABLE}",
    ("pyarrow", "ChunkedArray ListArray LargeListArray FixedSizeListArray"): f"numpy.stack({{0}}.to_pylist()), or {_OF_A_TABLE}",
    ("pyarrow", "Table RecordBatch"): "it to hushvec.integrations.tables.privatize_column",
    ("datasets", "Dataset"): "it to hushvec.integrations.tables.privatize_column",
    ("h5py", "Dataset"): "{0}[:]",
    ("h5py", "File Group"): "one of its data sets, as {0}['embeddings'][:]",
    ("scipy", "csr_matrix csc_matrix coo_matrix csr_array csc_array coo_array"): "{0}.toarray()",
    ("flwr", "ArrayRecord"): "one of {0}.to_numpy_ndarrays(); hushvec.integrations.flower makes whole updates private",
}


def _require_ndarray(name: str, x: NDArray[Any]) -> None:
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{name} must be a plain numpy array, got MaskedArray (its mask would be lost)")
    _require_dtype(name, x, NUMPY_DTYPES)
    if not x.dtype.isnative:
        raise TypeError(f"{name} must be in native byte order, got {x.dtype.str}")


def require_integers(name: str, x: Any) -> None:
    """A torch tensor or a CuPy array of whole numbers, of any number of dimensions, in memory of the CPU or a CUDA device."""
    if not dtype_name(x).startswith(("int", "uint")):
        raise TypeError(f"{name} must be whole numbers, got {dtype_name(x)}")
    if is_torch(x):
        _require_values(name, x)


def _require_tensor(name: str, x: Any) -> None:
    torch = sys.modules["torch"]
    _require_dtype(name, x, TORCH_DTYPES)
    _require_values(name, x)
    if not torch.compiler.is_dynamo_compiling() and x.is_neg():  # torch.compile cannot ask; the compiled call refuses it
        raise ValueError(f"{name} must hold its own signs, got a negated view: pass {name}.resolve_neg()")
    if x.requires_grad:
        require_no_recorder()  # a transform of torch.func asks for the gradient, where detach() would not help
        raise ValueError(f"{name} must not require grad, got requires_grad=True (pass {name}.detach())")


def _require_values(name: str, x: Any) -> None:
    """Refuse tensors whose elements have no place in memory of the CPU or a CUDA device."""
    torch = sys.modules["torch"]
    if x.layout is not torch.strided:
        raise TypeError(f"{name} must be a dense tensor, got layout {x.layout}")
    if x.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} must be on the CPU or a CUDA device, got {x.device}")
    if type(x) is torch.Tensor:
        return
    if hasattr(x, "placements"):
        ways = f"{name}.to_local(), this process's part, or {name}.full_tensor()"
        raise TypeError(f"{name} must be a plain tensor, got DTensor (pass {ways})")
    if _is_fake(x):
        require_no_recorder()
        raise recording_error("noise", "FakeTensorMode")


def _is_fake(x: Any) -> bool:
    """Whether a tensor is a stand-in from the recording of a program. The mode that made it may have ended."""
    return bool(x.untyped_storage().device.type == "meta")  # _require_values has refused a device "meta" that x itself names


def _require_dtype(name: str, x: Any, accepted: tuple[str, ...]) -> None:
    if dtype_name(x) not in accepted:
        raise TypeError(f"{name} must be {' or '.join(accepted)}, got {dtype_name(x)}")


def rows_and_dimension(x: Any) -> tuple[int, int]:
    """(rows, elements in a row); a 1-D array is one row."""
    shape = tuple(x.shape)
    return (1, shape[0]) if len(shape) == 1 else (shape[0], shape[1])


def output_like(x: ArrayT, out: ArrayT | None) -> ArrayT:
    """`out`, or its memory, after a check that a result of x's kind, shape and dtype fits it, or a new array of that sort."""
    if out is None:
        return new_array(x, x.shape)  # type: ignore[attr-defined, no-any-return]
    if type(out) is not np.ndarray:
        out = shared("out", out, written=True)
    require_output(out, tuple(x.shape), dtype_name(x))  # type: ignore[attr-defined]
    require_same_kind("out", out, "x", x)
    return out


def require_same_kind(name: str, array: Any, like_name: str, like: Any) -> None:
    if isinstance(array, np.ndarray) and isinstance(like, np.ndarray):
        return
    if (is_torch(array), is_cupy(array)) != (is_torch(like), is_cupy(like)):
        raise TypeError(f"{name} must be of the kind of {like_name}, {array_kind(like)}, got {array_kind(array)}")
    if device_of(array) != device_of(like):
        raise ValueError(f"{name} must be on {device_of(like)} like {like_name}, got {device_of(array)}")


def require_output(out: Any, shape: tuple[int, ...], dtype: str) -> None:
    require_array("out", out)
    require_form(out, shape, dtype)


def require_form(out: Any, shape: tuple[int, ...], dtype: str) -> None:
    """Check shape, dtype and that it is writable, of an array of any number of dimensions."""
    if tuple(out.shape) != shape:
        raise ValueError(f"out must have shape {shape}, got {tuple(out.shape)}")
    if dtype_name(out) != dtype:
        raise TypeError(f"out must be {dtype}, got {dtype_name(out)}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writable, got a read-only array")


def empty_like(x: ArrayT) -> ArrayT:
    return new_array(x, tuple(x.shape))  # type: ignore[attr-defined, no-any-return]


# Elements from which on new memory of torch is to lie on large pages, as that of numpy does: a fault for each 4 KiB takes longer
# than the noise on them.
_WORTH_LARGE_PAGES = 2**20


def new_array(like: Any, shape: tuple[int, ...], *, dtype: str | None = None) -> Any:
    """A new array of this shape, of the kind and device of `like`, and of its dtype unless another is named."""
    if isinstance(like, np.ndarray):
        return np.empty(shape, dtype or like.dtype)
    if is_torch(like):
        new = like.new_empty(shape, dtype=dtype and getattr(sys.modules["torch"], dtype))
        if math.prod(shape) >= _WORTH_LARGE_PAGES and like.device.type == "cpu":
            _core.prefer_large_pages(new.data_ptr(), new.nbytes)
        return new
    with device_scope(like):
        return library_of(like).empty(shape, dtype=dtype or like.dtype)


def copy_beside(like: Any, host: NDArray[Any]) -> Any:
    if is_torch(like):
        return sys.modules["torch"].tensor(host, device=like.device)
    with device_scope(like):
        return sys.modules["cupy"].asarray(host)


def noise_target(shape: Any, dtype: Any, like: Any, out: Any) -> Any:
    """The array that a noise function fills.

    `out` decides everything where it is given, then `like`, then `dtype`. A dtype other than the default that `out` or
    `like` contradicts is refused: what the caller wrote is never silently ignored.
    """
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(lengths) not in (1, 2):
        raise ValueError(f"shape must have 1 or 2 dimensions, got {len(lengths)}")
    wanted_shape = tuple([whole_number("shape", length, at_least=0) for length in lengths])
    wanted_dtype = _dtype(dtype)
    model = out if out is not None else like
    if model is None:
        return np.empty(wanted_shape, wanted_dtype)
    name = "out" if out is not None else "like"
    if type(model) is not np.ndarray:
        model = shared(name, model, written=out is not None)
    require_array(name, model)
    if wanted_dtype not in (DEFAULT_DTYPE, dtype_name(model)):
        raise TypeError(f"{name} must be {wanted_dtype}, the dtype asked for, got {dtype_name(model)}")
    if out is not None:
        require_output(model, wanted_shape, dtype_name(model))
        return model
    return new_array(model, wanted_shape)


def _dtype(dtype: Any) -> str:
    if dtype_named(dtype) == "bfloat16":
        raise TypeError("dtype must be float32, float64 or float16, got bfloat16 (like= or out= a torch tensor gives it)")
    if dtype_named(dtype) not in NUMPY_DTYPES:
        raise TypeError(f"dtype must be float32, float64 or float16, got {dtype!r}")
    return dtype_named(dtype)


def dtype_named(dtype: Any) -> str:
    """The name of what a user gave as a dtype: a name, or an object of numpy or torch."""
    name = str(dtype).removeprefix("torch.")
    if not (isinstance(dtype, str) or name in TORCH_DTYPES):
        with contextlib.suppress(TypeError):
            name = np.dtype(dtype).name
    return name


def is_contiguous(array: Any) -> bool:
    return bool(array.is_contiguous() if is_torch(array) else array.flags.c_contiguous)


def in_order(x: Any) -> Any:
    """x, or a copy of it in row-major order, without gaps."""
    if is_torch(x):
        return x.contiguous()
    with device_scope(x):
        return library_of(x).ascontiguousarray(x)


def as_matrix(x: Any) -> Any:
    return x[None, :] if x.ndim == 1 else x


def library_of(x: Any) -> Any:
    if is_torch(x):
        return sys.modules["torch"]
    return sys.modules["cupy"] if is_cupy(x) else np


def nonfinite_value(x: Any, row: int) -> float | None:
    with device_scope(x):
        values = as_matrix(x)[row]
        found = values[~library_of(values).isfinite(values)]
        return float(found[0]) if len(found) else None


def nonfinite_error(name: str, x: Any, row: int, *, first_row: int = 0) -> ValueError:
    value = nonfinite_value(x, row)
    found = "NaN or Inf" if value is None else repr(value)
    return ValueError(f"{name} must be finite, got {found} in row {first_row + row}")
