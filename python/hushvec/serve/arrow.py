"""Vectors as an Arrow IPC stream: one column `vector` of fixed-size lists, in one or more batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec.serve.failures import invalid, too_large

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
COLUMN = "vector"
EPSILON = b"hushvec.epsilon"   # in the metadata of the schema

_INT = struct.Struct("<i")
_SHORT = struct.Struct("<H")
_LONG = struct.Struct("<q")
_OFFSET_AND_LENGTH = struct.Struct("<qq")


def read_vectors(body: bytes | bytearray, most: int) -> tuple[NDArray[Any], float | None]:
    """Rows [n, d], float32, float64 or float16, and the epsilon that the schema asks for. One batch is not copied.

    Args:
        body: the stream, whose buffers may be compressed.
        most: bytes of the rows, uncompressed; looked up in the stream before anything is decompressed.

    Raises:
        ServiceError: no such stream.
    """
    pyarrow = _pyarrow()
    try:
        with pyarrow.ipc.open_stream(body) as reader:
            schema = reader.schema
            size = _list_size(pyarrow, schema)
            sizes = list(_uncompressed(pyarrow, body))
            twice = max(sizes) if len(sizes) > 1 else 0   # while batches are brought together, one of them is there twice
            if sum(sizes) > most or len(body) + sum(sizes) + twice > 2 * most:
                raise too_large(f"column {COLUMN} must have at most {most:,} bytes, uncompressed", COLUMN)
            batches = [batch for batch in reader if len(batch)]
            for batch in batches:
                batch.validate(full=True)
    except (pyarrow.ArrowException, OSError, ValueError, IndexError, struct.error):
        raise invalid("the body must be an Arrow IPC stream", COLUMN) from None
    if not batches:
        raise invalid(f"column {COLUMN} must have at least 1 row, got 0", COLUMN)
    rows, filled = np.empty((sum(map(len, batches)), size), schema.field(COLUMN).type.value_type.to_pandas_dtype()), 0
    while batches:
        column = batches.pop(0).column(0)
        if column.null_count or column.flatten().null_count:
            raise invalid(f"column {COLUMN} must have no nulls", COLUMN)
        part = column.flatten().to_numpy(zero_copy_only=True).reshape(-1, size)
        if len(part) == len(rows):
            return part, _epsilon(schema.metadata)
        rows[filled : filled + len(part)] = part
        filled += len(part)
    return rows, _epsilon(schema.metadata)


def write_vectors(rows: NDArray[Any], metadata: dict[str, str]) -> memoryview:
    """The stream of rows [n, d] with the receipt in the schema's metadata."""
    pyarrow = _pyarrow()
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.reshape(-1)), rows.shape[1])
    schema = pyarrow.schema([(COLUMN, column.type)], metadata=metadata)
    batch = pyarrow.record_batch([column], schema=schema)
    counted = pyarrow.MockOutputStream()
    with pyarrow.ipc.new_stream(counted, schema) as writer:
        writer.write_batch(batch)
    buffer = pyarrow.allocate_buffer(counted.size())   # a stream that grows would copy itself
    with pyarrow.FixedSizeBufferWriter(buffer) as sink, pyarrow.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(batch)
    return memoryview(buffer)


def _list_size(pyarrow: Any, schema: Any) -> int:
    """The length of the rows; there is one column, and no dictionary."""
    if schema.names != [COLUMN]:
        raise invalid(f"the stream must have one column, {COLUMN}: others would pass unprotected", COLUMN)
    kind = schema.field(COLUMN).type
    if not pyarrow.types.is_fixed_size_list(kind) or not pyarrow.types.is_floating(kind.value_type) or kind.list_size < 1:
        raise invalid(f"column {COLUMN} must be fixed-size lists of float16, float32 or float64", COLUMN)
    size: int = kind.list_size
    return size


def _uncompressed(pyarrow: Any, body: bytes | bytearray) -> Iterator[int]:
    """Bytes that each compressed batch says it takes; pyarrow allocates them without a limit of its own.

    They stand in front of each buffer; where the buffers are, the metadata says, in tables of the FlatBuffers format.
    """
    for message in pyarrow.ipc.MessageReader.open_stream(body):
        if message.type == "schema":
            continue
        data = message.metadata
        if message.type != "record batch" or message.metadata_version != pyarrow.ipc.MetadataVersion.V5:
            raise invalid("the stream must have record batches of metadata version 5, and nothing else", COLUMN)
        batch = _target(data, _field(data, _target(data, 0), 2))
        if not _field(data, batch, 3):
            continue
        buffers = _target(data, _field(data, batch, 2))
        places = (_OFFSET_AND_LENGTH.unpack_from(data, buffers + 4 + 16 * i) for i in range(_INT.unpack_from(data, buffers)[0]))
        # -1: this one is not compressed.
        yield sum(max(_LONG.unpack_from(message.body, offset)[0], 0) for offset, length in places if length >= _LONG.size)


def _target(data: Any, place: int) -> int:
    return place + int(_INT.unpack_from(data, place)[0])


def _field(data: Any, table: int, number: int) -> int:
    """Where a table has this field; 0 if it leaves it out."""
    offsets = table - _INT.unpack_from(data, table)[0]
    if 4 + 2 * number >= _SHORT.unpack_from(data, offsets)[0]:
        return 0
    offset: int = _SHORT.unpack_from(data, offsets + 4 + 2 * number)[0]
    return table + offset if offset else 0


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
