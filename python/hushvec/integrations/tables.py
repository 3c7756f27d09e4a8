"""A column of vectors in a table: `privatize_column(table, "embedding", epsilon=...)`, for Arrow, pandas, polars and datasets.

The column goes through Arrow, where everything odd is refused with its row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import rowwise
from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.extend import RowReceipt
from hushvec.jobs import columns
from hushvec.release import privatize

ACCEPTED = "a pyarrow Table or RecordBatch, a pandas or polars DataFrame, or a datasets.Dataset"


class ReleasedTable(NamedTuple):
    """The table of `privatize_column`, and the receipt of the column, whose notes name what was copied without protection."""

    table: Any
    receipt: RowReceipt


def privatize_column(table: Any, column: str = "embedding", *, notes: Sequence[str] = (), **release: Any) -> ReleasedTable:
    """Release one column of a table as `hushvec.privatize` releases an array.

    Args:
        table: a pyarrow Table or RecordBatch, a pandas DataFrame, a polars DataFrame or a datasets.Dataset. Not changed.
        column: of the vectors: lists, fixed-size lists or arrays of floats, all of one length. They are taken as float32.
        notes, release: arguments of `hushvec.privatize`: epsilon, mechanism, clip_norm, budget and so on.

    Returns:
        ReleasedTable(table, receipt). The column is float32: fixed-size lists in Arrow, `Array` in polars, `List` with a length in
        datasets; in pandas fixed-size lists where it was of an Arrow type, else an array per row. Everything else in the table is
        passed on as it is, has no protection and is named in the receipt. A datasets.Dataset comes back in memory;
        `hushvec.integrations.datasets` releases one that does not fit there.

    Raises:
        TypeError, ValueError: another kind of table or column; a null, another length, NaN or Inf (the row is named, counted from 0);
            as `privatize`. Nothing is charged then.

    Example:
        >>> import numpy as np, pyarrow as pa
        >>> from hushvec.integrations.tables import privatize_column
        >>> table = pa.table({"id": ["a", "b"], "embedding": [[1.0, 0.0], [0.0, 1.0]]})
        >>> released = privatize_column(table, epsilon=8.0, mechanism="privunit")
        >>> str(released.table.schema.field("embedding").type), released.receipt.notes
        ('fixed_size_list<item: float>[2]', ('copied without protection: id',))
    """
    require_arrow()
    kind = _kind_of(table)
    if kind.names.count(column) != 1:
        raise ValueError(f"table must have one column {column!r}, got {', '.join(map(repr, kind.names)) or 'none'}")
    rows = vectors_of(column, kind.take(table, column))
    others = [str(name) for name in (*kind.names, *kind.beside) if name != column]
    copied = (f"copied without protection: {', '.join(others)}",) if others else ()
    if isinstance(notes, str):
        raise TypeError("notes must be a sequence of strings")
    values, receipt = privatize(rows, notes=(*copied, *notes), **release)
    return ReleasedTable(kind.give(table, column, values), receipt)


def vectors_of(name: str, column: Any, *, dtype: str = "float32", first_row: int = 0) -> NDArray[Any]:
    """Return the rows [n, d] of an Arrow column of float lists, if possible without a copy; `first_row` is for errors."""
    import pyarrow.compute

    kind = columns.storage_type(column.type)
    if not columns.is_of_floats(kind):
        raise TypeError(f"{name} must hold lists of floats, got {column.type}")
    dimension = columns.declared_length(kind)
    if dimension is None:
        lengths = pyarrow.compute.list_value_length(column.storage if hasattr(column, "storage") else column).drop_null()
        if not len(lengths):
            raise ValueError(f"{name} must have a row that says how long all are, got {len(column)} rows without one")
        dimension = lengths[0].as_py()
    found = columns.vectors_of(name, column, dimension, lambda row: f"row {first_row + row}")
    rowwise.require_finite(name, found, first_row=first_row)
    with np.errstate(over="ignore"):
        rows: NDArray[Any] = found.astype(dtype, copy=False)
    rowwise.require_finite(f"{name} in the range of {dtype}", rows, first_row=first_row)
    return rows


def require_arrow() -> None:
    with needs_extra("columns of tables", "tables"):
        import pyarrow  # noqa: F401


def _arrow_with(table: Any, column: str, values: NDArray[np.float32]) -> Any:
    return columns.with_column(table, column, columns.fixed_size_lists(values))


class _Kind(NamedTuple):
    """How a table is read and made."""

    names: list[Any]  # of its columns
    take: Callable[[Any, str], Any]  # a column as an Arrow array
    give: Callable[[Any, str, NDArray[np.float32]], Any]  # the table with released rows in the column's place
    beside: tuple[str, ...] = ()  # what it holds beside columns


def _kind_of(table: Any) -> _Kind:
    """Without importing any library: anyone who has a table has loaded its library."""
    pandas, polars, datasets = (sys.modules.get(name) for name in ("pandas", "polars", "datasets"))
    if columns.is_arrow(table):
        return _Kind(list(table.schema.names), columns.column_of, _arrow_with)
    if pandas is not None and isinstance(table, pandas.DataFrame):
        index = () if isinstance(table.index, pandas.RangeIndex) else ("the index",)
        return _Kind(list(table.columns), _pandas_column, _pandas_with, index)
    if polars is not None and isinstance(table, polars.DataFrame):
        return _Kind(list(table.columns), _polars_column, _polars_with)
    if datasets is not None and isinstance(table, datasets.Dataset):
        return _Kind(list(table.column_names), _dataset_column, _dataset_with)
    way = " (call its collect())" if hasattr(table, "collect") else " (hushvec.privatize takes an array of vectors)"
    raise TypeError(f"table must be {ACCEPTED}, got {validate.kind(table)}{way}")


def _pandas_column(frame: Any, column: str) -> Any:
    import pyarrow

    try:
        found = pyarrow.array(frame[column], from_pandas=True)
    except (pyarrow.ArrowException, TypeError):
        raise TypeError(f"{column} must hold lists of floats or arrays of one dimension, got other values among them") from None
    return pyarrow.concat_arrays(found.chunks) if hasattr(found, "chunks") and found.chunks else found


def _pandas_with(frame: Any, column: str, values: NDArray[np.float32]) -> Any:
    import pandas

    is_of_arrow = isinstance(frame[column].dtype, pandas.ArrowDtype)
    rows = pandas.arrays.ArrowExtensionArray(columns.fixed_size_lists(values)) if is_of_arrow else list(values)
    changed = frame.copy(deep=False)
    changed[column] = pandas.Series(rows, index=frame.index, dtype=None if is_of_arrow else object)
    return changed


def _polars_column(frame: Any, column: str) -> Any:
    import polars

    series = frame.get_column(column)
    if not isinstance(series.dtype, polars.List | polars.Array):
        raise TypeError(f"{column} must hold lists of floats, got {series.dtype}")
    return series.to_arrow()


def _polars_with(frame: Any, column: str, values: NDArray[np.float32]) -> Any:
    import polars

    return frame.with_columns(polars.from_arrow(columns.fixed_size_lists(values)).alias(column))


def _dataset_column(dataset: Any, column: str) -> Any:
    return columns.column_of(dataset.select_columns(column).with_format("arrow")[:], column)


def _dataset_with(dataset: Any, column: str, values: NDArray[np.float32]) -> Any:
    import datasets

    changed = _arrow_with(dataset.with_format("arrow")[:], column, values).replace_schema_metadata(None)
    info = dataset.info.copy()
    info.features = dataset.features.copy()
    info.features[column] = datasets.List(datasets.Value("float32"), length=values.shape[1])
    released = datasets.Dataset(datasets.table.InMemoryTable(changed), info=info, split=dataset.split)
    return with_format_of(dataset, released)


def with_format_of(dataset: Any, other: Any) -> Any:
    """Return a data set that hands out its rows as another one does."""
    shown = dataset.format
    return other.with_format(shown["type"], shown["columns"], shown["output_all_columns"], **shown["format_kwargs"])
