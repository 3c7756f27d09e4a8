"""Bodies of requests and answers. They are read up to a limit and within a time; the values of JSON take no more memory than the limit
either. Vectors also come and go as an Arrow IPC stream: one column `vector` of fixed-size lists, in one or more batches."""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Annotated, Any, TypeVar

import anyio
import ijson
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, ValidationError, WithJsonSchema
from starlette.requests import ClientDisconnect, Request

from hushvec._util.lazy import needs_extra
from hushvec.serve.failures import ServiceError, invalid, too_large

SECONDS_TO_SEND = 60.0
SECONDS_BETWEEN_PARTS = 10.0
DEEPEST = 32
LONGEST_TEXT = 1_000_000   # bytes, whatever the limit of the body

# A number of a vector takes 4 bytes when it is read, 4 as a row, 4 when it is released and 12 in the answer, not all at once.
BYTES_PER_NUMBER = 16
_BYTES_PER_LIST = 112
_BYTES_PER_OBJECT = 240
_BYTES_PER_ENTRY = 64
_PART = 4096   # bytes that are parsed at once
JSON = "application/json"
_NUMBERS = {"vector": 1, "vectors": 2, "pool": 2}   # fields of numbers, and how deep their lists are

Model = TypeVar("Model", bound=BaseModel)
Epsilon = Annotated[float | None, Field(gt=0, description="at most the policy's")]
Part = Callable[[], AbstractContextManager[None]]   # in which a part of long work is done: see `Work.part`


class Fields(BaseModel):
    """The base of what requests hold: no other fields than those that are named."""

    model_config = ConfigDict(extra="forbid")


async def read_body(request: Request, most: int, take: Callable[[int], None] = lambda size: None) -> bytearray:
    """Read the body, of at most `most` bytes. `take` is told the size of every part before it is kept; it refuses by raising."""
    too_long = too_large(f"the body must have at most {most:,} bytes")
    length = request.headers.get("content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise too_long
    body = bytearray()
    try:
        with anyio.fail_after(SECONDS_TO_SEND) as scope:
            last = scope.deadline
            scope.deadline = min(last, anyio.current_time() + SECONDS_BETWEEN_PARTS)
            async for part in request.stream():
                if len(body) + len(part) > most:
                    raise too_long
                take(len(part))
                body += part
                scope.deadline = min(last, anyio.current_time() + SECONDS_BETWEEN_PARTS)
    except TimeoutError:
        rule = f"the body must arrive within {SECONDS_TO_SEND:g} s, with at most {SECONDS_BETWEEN_PARTS:g} s between its parts"
        raise ServiceError(408, "too_slow", rule) from None
    except ClientDisconnect:
        raise ServiceError(400, "disconnected", "the client closed the connection") from None
    return body


def require_type(request: Request, *allowed: str) -> str:
    """Return the media type of the body. A page of another origin may not send JSON without asking, and gets no answer if it asks."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in allowed:
        raise ServiceError(415, "wrong_content_type", f"Content-Type must be {' or '.join(allowed)}", param="Content-Type")
    return given


def json_fields(body: bytes | bytearray, model: type[Model], most: int, part: Part = nullcontext) -> Model:
    """Return the fields of a JSON object whose values may take `most` bytes of memory; errors name fields, not what they hold."""
    fields = _parsed(body, most, part if len(body) > _PART else nullcontext)
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False, include_context=False)[0]
        if problem["type"] == "extra_forbidden":  # its place is the client's word
            raise invalid(f"the body must hold no fields besides {', '.join(model.model_fields)}") from None
        param = ".".join(map(str, problem["loc"]))
        raise invalid(f"{param or 'the body'}: {problem['msg'].removeprefix('Value error, ')}", param or None) from None


def _vector(value: Any) -> NDArray[np.float32]:
    if not isinstance(value, array):
        raise ValueError("must be a list of numbers")
    return np.array(value, np.float32)


def _rows(value: Any) -> NDArray[np.float32]:
    if not isinstance(value, list) or not all(isinstance(row, array) for row in value):
        raise ValueError("must be a list of lists of numbers")
    if not value:
        raise ValueError("must hold at least 1 row, got 0")
    shortest, longest = min(map(len, value)), max(map(len, value))
    if shortest < longest or not shortest:
        raise ValueError(f"must hold rows of one length above 0, got lengths {shortest} to {longest}")
    rows = np.empty((len(value), longest), np.float32)
    for place, row in enumerate(value):
        rows[place] = row
    return rows


_LIST_OF_NUMBERS = {"type": "array", "items": {"type": "number"}}
Vector = Annotated[Any, PlainValidator(_vector), WithJsonSchema(_LIST_OF_NUMBERS)]   # float32 [d]; what is too large becomes Inf
Rows = Annotated[Any, PlainValidator(_rows), WithJsonSchema({"type": "array", "items": _LIST_OF_NUMBERS})]   # float32 [n, d]


def _parsed(body: bytes | bytearray, most: int, part: Part) -> Any:
    if _has_half_of_a_character(body):
        raise invalid("the body must be valid Unicode, got half of a character")
    tree, events = _Tree(most), ijson.sendable_list()
    parser = ijson.basic_parse_coro(events, use_float=True)
    silent, view = 0, memoryview(body)
    try:
        for start in range(0, len(body), _PART):
            with part():
                parser.send(view[start : start + _PART])
                silent = 0 if events else silent + _PART
                if silent > max(LONGEST_TEXT, most // 8):  # the parser gathers a text before it gives it
                    raise too_large(f"a text in the body must have at most {max(LONGEST_TEXT, most // 8):,} bytes")
                tree.add(events)
                events.clear()
        parser.close()
        tree.add(events)
    except (ijson.JSONError, ValueError):
        raise invalid("the body must be JSON in UTF-8, with numbers of 64 bits") from None
    return tree.top[0]


class _Tree:
    """Values from a parser's events. Lists of numbers in the fields `_NUMBERS` are arrays of float32."""

    def __init__(self, most: int) -> None:
        self.top: list[Any] = []
        self._most = self._left = most
        self._open: list[Any] = [self.top]
        self._ranks = [0]   # of the open lists: how deep their numbers are
        self._key = ""

    def add(self, events: list[tuple[str, Any]]) -> None:
        inside, left = self._open[-1], self._left
        for event, value in events:
            if type(inside) is array:
                if event == "number":
                    inside.append(value)
                    left -= BYTES_PER_NUMBER
                elif event == "end_array":
                    inside = self._close()
                else:
                    raise invalid(f"{self._key} must hold numbers", self._key)   # the key is that of a field
            elif event == "map_key":
                self._key = value
                left -= sys.getsizeof(value) + _BYTES_PER_ENTRY
            elif event in ("end_array", "end_map"):
                inside = self._close()
            elif event == "start_map":
                inside = self._begin({}, 0)
                left -= _BYTES_PER_OBJECT
            elif event == "start_array":
                rank = _NUMBERS.get(self._key, 0) if len(self._open) == 2 and type(inside) is dict else self._ranks[-1] - 1
                inside = self._begin(array("f") if rank == 1 else [], rank)
                left -= _BYTES_PER_LIST
            else:
                self._put(value)
                left -= sys.getsizeof(value) + 16
        self._left = left
        if left < 0:
            raise too_large(f"what the body holds must take at most {self._most:,} bytes of memory: send less, or vectors as Arrow")

    def _put(self, value: Any) -> None:
        inside = self._open[-1]
        if type(inside) is dict:
            inside[self._key] = value
        else:
            inside.append(value)

    def _begin(self, inner: Any, rank: int) -> Any:
        if len(self._open) > DEEPEST:
            raise invalid(f"the body must be nested at most {DEEPEST} deep")
        self._put(inner)
        self._open.append(inner)
        self._ranks.append(rank)
        return inner

    def _close(self) -> Any:
        self._open.pop()
        self._ranks.pop()
        return self._open[-1]


# The parser puts a question mark in place of the first half of a surrogate pair that has no second one.
_FIRST_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])")


def _has_half_of_a_character(body: bytes | bytearray) -> bool:
    for found in _FIRST_HALF.finditer(body):
        before = place = found.start()
        while place and body[place - 1] == ord("\\"):
            place -= 1
        if (before - place) % 2 == 0:  # or else its backslash is an escaped one
            return True
    return False


# ---- Arrow ----


ARROW = "application/vnd.apache.arrow.stream"
COLUMN = "vector"
MOST_BATCHES = 10_000   # each takes a kilobyte, however few rows it has
EPSILON = b"hushvec.epsilon"   # in the metadata of the schema

_INT = struct.Struct("<i")
_SHORT = struct.Struct("<H")
_LONG = struct.Struct("<q")
_OFFSET_AND_LENGTH = struct.Struct("<qq")


def read_vectors(body: bytes | bytearray, most: int) -> tuple[NDArray[Any], float | None]:
    """Read rows [n, d], float32, float64 or float16, and the epsilon that the schema asks for. One batch is not copied.

    The rows may have `most` bytes, uncompressed, which is looked up in the stream before anything is decompressed.
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
    batches.reverse()
    while batches:
        column = batches.pop().column(0)
        if column.null_count or column.flatten().null_count:
            raise invalid(f"column {COLUMN} must have no nulls", COLUMN)
        part = column.flatten().to_numpy(zero_copy_only=True).reshape(-1, size)
        if len(part) == len(rows):
            return part, _epsilon(schema.metadata)
        rows[filled : filled + len(part)] = part
        filled += len(part)
    return rows, _epsilon(schema.metadata)


def write_vectors(rows: NDArray[Any], metadata: dict[str, str]) -> memoryview:
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
    if schema.names != [COLUMN]:
        raise invalid(f"the stream must have one column, {COLUMN}: others would pass unprotected", COLUMN)
    kind = schema.field(COLUMN).type
    if not pyarrow.types.is_fixed_size_list(kind) or not pyarrow.types.is_floating(kind.value_type) or kind.list_size < 1:
        raise invalid(f"column {COLUMN} must be fixed-size lists of float16, float32 or float64", COLUMN)
    return int(kind.list_size)


def _uncompressed(pyarrow: Any, body: bytes | bytearray) -> Iterator[int]:
    """Yield bytes that each compressed batch says it takes, read from its buffers; pyarrow allocates them without a limit."""
    for count, message in enumerate(pyarrow.ipc.MessageReader.open_stream(body)):
        if count > MOST_BATCHES:
            raise too_large(f"the stream must have at most {MOST_BATCHES:,} batches", COLUMN)
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
    offsets = table - _INT.unpack_from(data, table)[0]
    if 4 + 2 * number >= _SHORT.unpack_from(data, offsets)[0]:
        return 0
    offset: int = _SHORT.unpack_from(data, offsets + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _epsilon(metadata: dict[bytes, bytes] | None) -> float | None:
    given = (metadata or {}).get(EPSILON)
    try:
        return None if given is None else float(given)
    except ValueError:
        raise invalid(f"{EPSILON.decode()} in the schema's metadata must be a number", EPSILON.decode()) from None


def _pyarrow() -> Any:
    with needs_extra("vectors as Arrow streams", "serve"):
        import pyarrow
        import pyarrow.ipc
    return pyarrow
