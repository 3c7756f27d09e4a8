"""Vectors as an Arrow IPC stream: one column `vector` of fixed-size lists, in one or more batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.extras import needs_extra
from hushvec.serve.failures import invalid

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
COLUMN = "vector"
EPSILON = b"hushvec.epsilon"   # in the metadata of the schema


def read_vectors(body: bytes) -> tuple[NDArray[Any], float | None]:
    """Rows [n, d], float32, float64 or float16, and the epsilon that the schema asks for. One batch is not copied.

    Raises:
        ServiceError: no such stream.
    """
    pyarrow = _pyarrow()
    try:
        with pyarrow.ipc.open_stream(body) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError):
        raise invalid("the body must be an Arrow IPC stream", COLUMN) from None
    if table.column_names != [COLUMN]:
        raise invalid(f"the stream must have one column, {COLUMN}: others would pass unprotected", COLUMN)
    kind = table.schema.field(COLUMN).type
    if not pyarrow.types.is_fixed_size_list(kind) or not pyarrow.types.is_floating(kind.value_type) or kind.list_size < 1:
        raise invalid(f"column {COLUMN} must be fixed-size lists of float16, float32 or float64", COLUMN)
    column = table.column(COLUMN)
    if len(column) == 0:
        raise invalid(f"column {COLUMN} must have at least 1 row, got 0", COLUMN)
    parts = [chunk.flatten() for chunk in column.chunks]
    if column.null_count or any(part.null_count for part in parts):
        raise invalid(f"column {COLUMN} must have no nulls", COLUMN)
    rows = [part.to_numpy(zero_copy_only=True).reshape(-1, kind.list_size) for part in parts if len(part)]
    return (rows[0] if len(rows) == 1 else np.concatenate(rows)), _epsilon(table.schema.metadata)


def write_vectors(rows: NDArray[Any], metadata: dict[str, str]) -> memoryview:
    """The stream of rows [n, d] with the receipt in the schema's metadata."""
    pyarrow = _pyarrow()
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), rows.shape[1])
    schema = pyarrow.schema([(COLUMN, column.type)], metadata=metadata)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pyarrow.record_batch([column], schema=schema))
    return memoryview(sink.getvalue())


def _epsilon(metadata: dict[bytes, bytes] | None) -> float | None:
    given = (metadata or {}).get(EPSILON)
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        raise invalid(f"{EPSILON.decode()} in the schema's metadata must be a number", EPSILON.decode()) from None


def _pyarrow() -> Any:
    with needs_extra("vectors as Arrow streams", "serve"):
        import pyarrow
        import pyarrow.ipc
    return pyarrow
