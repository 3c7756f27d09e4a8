"""Columns of an Arrow table: vectors as float lists, ids as numbers or strings. Errors name the row."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.jobs import derivation

Label = Callable[[int], str]
_WHOLE = re.compile("0|-?[1-9][0-9]{0,19}")  # as str() writes it


def is_arrow(batch: Any) -> bool:
    """Return whether it is a RecordBatch or a Table, without importing pyarrow: they exist only if it is loaded."""
    arrow = sys.modules.get("pyarrow")
    return arrow is not None and isinstance(batch, arrow.RecordBatch | arrow.Table)


def column_of(batch: Any, name: str) -> Any:
    names = batch.schema.names
    if names.count(name) != 1:
        raise ValueError(f"batch must have one column {name!r}, got {', '.join(map(repr, names)) or 'none'}")
    column = batch.column(name)
    if not hasattr(column, "combine_chunks"):
        return column
    combined = column.combine_chunks()
    # Older versions of pyarrow answer with a chunked array where there are no chunks or several.
    return combined if not hasattr(combined, "chunks") else sys.modules["pyarrow"].concat_arrays(combined.chunks)


def require_vectors(name: str, kind: Any, dtype: str) -> None:
    """The type of a vector column: lists of this dtype, of any of the three sorts; or Ray's tensors, which are stored as such."""
    stored = storage_type(kind)
    if not _is_list(stored) or str(stored.value_type) != ARROW_NAMES[dtype]:
        raise TypeError(f"{name} must hold lists of {dtype}, got {kind}")


def is_of_floats(stored: Any) -> bool:
    return _is_list(stored) and bool(sys.modules["pyarrow"].types.is_floating(stored.value_type))


def declared_length(stored: Any) -> int | None:
    return int(stored.list_size) if sys.modules["pyarrow"].types.is_fixed_size_list(stored) else None


def _is_list(stored: Any) -> bool:
    types = sys.modules["pyarrow"].types
    return bool(types.is_list(stored) or types.is_large_list(stored) or types.is_fixed_size_list(stored))


ARROW_NAMES = {"float32": "float", "float64": "double", "float16": "halffloat"}


def storage_type(kind: Any) -> Any:
    return kind.storage_type if hasattr(kind, "storage_type") else kind


def vectors_of(name: str, column: Any, dimension: int, label: Label) -> NDArray[Any]:
    """Return the rows [n, dimension] of a list column, without a copy where the memory allows it."""
    stored = column.storage if hasattr(column, "storage") else column
    if not len(stored):
        return np.empty((0, dimension), np.dtype(stored.type.value_type.to_pandas_dtype()))
    import pyarrow.compute

    if stored.null_count:
        row = int(np.flatnonzero(stored.is_null().to_numpy(zero_copy_only=False))[0])
        raise ValueError(f"{name} must hold {dimension} numbers, got null in {label(row)}")
    lengths = pyarrow.compute.list_value_length(stored).to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(lengths != dimension)
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"{name} must hold {dimension} numbers, got {int(lengths[row])} numbers in {label(row)}")
    flat = stored.flatten()
    if flat.null_count:
        row = int(np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))[0]) // dimension
        raise ValueError(f"{name} must hold numbers, got null in {label(row)}")
    values: NDArray[Any] = flat.to_numpy(zero_copy_only=False)
    return values.reshape(-1, dimension)


def fixed_size_lists(values: NDArray[Any]) -> Any:
    """Return the Arrow column of rows [n, d]: fixed-size lists over the same memory."""
    import pyarrow

    flat = pyarrow.array(values.reshape(-1))
    return pyarrow.FixedSizeListArray.from_arrays(flat, values.shape[1])


def with_column(batch: Any, name: str, column: Any) -> Any:
    """Return the batch with this column in the place of the old one of its name; everything else as it was."""
    place = batch.schema.names.index(name)
    schema = batch.schema.set(place, batch.schema.field(place).with_type(column.type))
    columns = [*batch.columns[:place], column, *batch.columns[place + 1 :]]
    return type(batch).from_arrays(columns, schema=schema)


def places_of_ids(name: str, ids: Any, *, as_texts: bool) -> tuple[derivation.Places, Label]:
    """Return places of rows by their ids, unique and without a null, and how an error names a row; `name` is that of the column.

    A whole number and the text that it prints as are one id, which is the one or the other in all of a job.
    """
    array = _id_array(name, ids)
    if not as_texts and array.dtype.kind not in "iu":
        array = _whole_numbers(name, array)
    if array.dtype.kind in "iu" and not as_texts:
        if not (array[1:] > array[:-1]).all():
            ordered = np.sort(array)
            twice = np.flatnonzero(ordered[1:] == ordered[:-1])
            if twice.size:
                raise ValueError(f"{name} must be unique, got {int(ordered[twice[0]])} twice")
        return derivation.numbers(array), lambda row: f"the row with {name} {int(array[row])}"
    texts = array.tolist()
    if array.dtype.kind in "iu":
        texts = list(map(str, texts))
    _require_texts(name, texts)
    if len(set(texts)) < len(texts):
        seen: set[str] = set()
        text = next(text for text in texts if text in seen or seen.add(text))  # type: ignore[func-returns-value]
        raise ValueError(f"{name} must be unique, got {text!r:.80} twice")
    return derivation.texts(texts), lambda row: f"the row with {name} {texts[row]!r:.80}"


def _whole_numbers(name: str, texts: NDArray[Any]) -> NDArray[Any]:
    _require_texts(name, texts.tolist())
    for row, text in enumerate(texts.tolist()):
        if not _WHOLE.fullmatch(text):
            raise ValueError(f"{name} must hold whole numbers in a job with rows_by='integer-ids', got {text!r:.80} in row {row}")
    return _from_sequence(name, [int(text) for text in texts.tolist()])


def _require_texts(name: str, texts: list[Any]) -> None:
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must hold whole numbers or strings, got {type(text).__name__} in row {row}")


def _id_array(name: str, ids: Any) -> NDArray[Any]:
    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(ids, arrow.Array | arrow.ChunkedArray):
        if ids.null_count:
            row = int(np.flatnonzero(ids.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"{name} must hold no null, got one in row {row}")
        texts = (arrow.types.is_string, arrow.types.is_large_string, getattr(arrow.types, "is_string_view", lambda _: False))
        if not (arrow.types.is_integer(ids.type) or any(is_text(ids.type) for is_text in texts)):
            raise TypeError(f"{name} must hold whole numbers or strings, got {ids.type}")
        return np.asarray(ids.to_numpy(zero_copy_only=False))
    # A copy of an array that another thread may write to: ids that are unique stay so.
    array = ids.copy() if isinstance(ids, np.ndarray) and ids.dtype.kind != "O" else _from_sequence(name, ids)
    if array.ndim != 1 or array.dtype.kind not in "iuUO":
        raise TypeError(f"{name} must hold whole numbers or strings in one dimension, got {array.dtype}[{array.ndim}-D]")
    return array


def _from_sequence(name: str, ids: Any) -> NDArray[Any]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence | np.ndarray):
        raise TypeError(f"{name} must be an array or a sequence of ids, got {type(ids).__name__}")
    values = list(ids)
    if all(isinstance(value, int | np.integer) and not isinstance(value, bool) for value in values):
        if values and not (-(2**63) <= min(values) and max(values) < (2**63 if min(values) < 0 else 2**64)):
            raise ValueError(f"{name} must fit into 64 bits, got {min(values)} to {max(values)}")
        return np.array(values, np.int64 if not values or max(values) < 2**63 else np.uint64)
    return np.array(values, object)
