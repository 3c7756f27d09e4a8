"""Bodies of requests: read up to a limit and within a time, and JSON whose values take no more memory than the limit either."""

from __future__ import annotations

import re
import sys
import time
from array import array
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import anyio
import ijson
import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, PlainValidator, ValidationError, WithJsonSchema
from starlette.requests import ClientDisconnect, Request

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
_PART = 16_384   # bytes that are parsed at once
_REST = 0.0002   # seconds between parts, in which threads of other requests run
_NUMBERS = {"vector": 1, "vectors": 2}   # fields of numbers, and how deep their lists are

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, most: int, take: Callable[[int], None] = lambda size: None) -> bytearray:
    """The body, of at most `most` bytes.

    Args:
        request: what is read.
        most: bytes.
        take: is told the size of every part before it is kept; it refuses by raising.

    Raises:
        ServiceError: it is longer, does not come in time, or its length is no number.
    """
    length = request.headers.get("content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise _too_long(most)
    body = bytearray()
    try:
        with anyio.fail_after(SECONDS_TO_SEND) as scope:
            last = scope.deadline
            scope.deadline = min(last, anyio.current_time() + SECONDS_BETWEEN_PARTS)
            async for part in request.stream():
                if len(body) + len(part) > most:
                    raise _too_long(most)
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
    """The media type of the body. A page of another origin cannot send JSON without asking, and is not answered when it asks."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in allowed:
        raise ServiceError(415, "wrong_content_type", f"Content-Type must be {' or '.join(allowed)}", param="Content-Type")
    return given


def json_fields(body: bytes | bytearray, model: type[Model], most: int) -> Model:
    """The fields of a JSON object. Other threads run while it is parsed.

    Args:
        body: JSON in UTF-8.
        model: of the fields.
        most: bytes of memory that the values may take.

    Raises:
        ServiceError: not UTF-8, not JSON, too deep, too much in it, or fields that are wrong: which ones, and not what they hold.
    """
    fields = _parsed(body, most)
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


def _parsed(body: bytes | bytearray, most: int) -> Any:
    if _has_half_of_a_character(body):
        raise invalid("the body must be valid Unicode, got half of a character")
    tree, events = _Tree(most), ijson.sendable_list()
    parser = ijson.basic_parse_coro(events, use_float=True)
    silent, view = 0, memoryview(body)
    try:
        for start in range(0, len(body), _PART):
            parser.send(view[start : start + _PART])
            silent = 0 if events else silent + _PART
            if silent > max(LONGEST_TEXT, most // 8):  # the parser gathers a text before it gives it
                raise too_large(f"a text in the body must have at most {max(LONGEST_TEXT, most // 8):,} bytes")
            tree.add(events)
            events.clear()
            if len(body) > _PART:
                time.sleep(_REST)
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


def _too_long(most: int) -> ServiceError:
    return too_large(f"the body must have at most {most:,} bytes")
