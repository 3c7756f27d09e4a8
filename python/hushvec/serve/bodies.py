"""Bodies of requests: read up to a limit and within a time, and JSON that is neither deep nor wrong."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import anyio
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from hushvec.serve.failures import ServiceError, invalid, too_large

SECONDS_TO_SEND = 60.0
DEEPEST = 32

Model = TypeVar("Model", bound=BaseModel)


async def read_body(request: Request, most: int) -> bytes:
    """The body, of at most `most` bytes.

    Raises:
        ServiceError: it is longer, does not come in time, or its length is no number.
    """
    length = request.headers.get("content-length")
    if length is not None and length.isdigit() and int(length) > most:
        raise _too_long(most)
    parts: list[bytes] = []
    size = 0
    try:
        with anyio.fail_after(SECONDS_TO_SEND):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise _too_long(most)
                parts.append(part)
    except TimeoutError:
        raise ServiceError(408, "too_slow", f"the body must arrive within {SECONDS_TO_SEND:g} s") from None
    except ClientDisconnect:
        raise ServiceError(400, "disconnected", "the client closed the connection") from None
    return b"".join(parts)


def require_type(request: Request, *allowed: str) -> str:
    """The media type of the body. A page of another origin cannot send JSON without asking, and is not answered when it asks."""
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in allowed:
        raise ServiceError(415, "wrong_content_type", f"Content-Type must be {' or '.join(allowed)}", param="Content-Type")
    return given


def json_fields(body: bytes, model: type[Model]) -> Model:
    """The fields of a JSON object.

    Raises:
        ServiceError: not UTF-8, not JSON, too deep, or fields that are wrong: which ones, and not what they hold.
    """
    try:
        fields = json.loads(body.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep() from None
    except ValueError:
        raise invalid("the body must be JSON in UTF-8") from None
    if _depth_exceeds(fields, DEEPEST):
        raise _too_deep()
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False, include_context=False)[0]
        param = ".".join(map(str, problem["loc"]))
        raise invalid(f"{param or 'the body'}: {problem['msg'].removeprefix('Value error, ')}", param or None) from None


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _depth_exceeds(value: Any, most: int) -> bool:
    """Whether lists and objects are nested deeper than that. Level by level: no recursion."""
    level: list[Any] = [value]
    for _ in range(most):
        level = [inner for one in level if isinstance(one, list | dict) for inner in _nested(one)]
        if not level:
            return False
    return True


def _nested(value: list[Any] | dict[str, Any]) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value
    return [one for one in inner if isinstance(one, list | dict)]


def _too_deep() -> ServiceError:
    return invalid(f"the body must be nested at most {DEEPEST} deep")


def _too_long(most: int) -> ServiceError:
    return too_large(f"the body must have at most {most:,} bytes")
