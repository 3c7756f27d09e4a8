"""Errors as clients see them: one error, in the shape of OpenAI's, that never repeats what the client sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hushvec.errors import HushvecError


class ServiceError(HushvecError):
    """An answer other than 200: a code that programs read, a message for people without texts, vectors or keys, the field of the
    request that is wrong, and the seconds after which the same request may succeed."""

    def __init__(
        self, status: int, code: str, message: str, *, param: str | None = None, retry_after: int | None = None, **more: Any
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message
        self.param, self.retry_after, self.more = param, retry_after, more

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code, **self.more}}

    def headers(self) -> dict[str, str]:
        headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
        return {**headers, "WWW-Authenticate": "Bearer"} if self.status == 401 else headers


def invalid(message: str, param: str | None = None) -> ServiceError:
    return ServiceError(400, "invalid_request", message, param=param)


@contextmanager
def about_vectors(name: str) -> Iterator[None]:
    """Answer 400 to errors of the library about a row and a rule, in which `name` is what it calls the vectors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        message = str(error)
        raise invalid("vectors" + message.removeprefix(name) if message.startswith(f"{name} ") else message) from None


def too_large(message: str, param: str | None = None) -> ServiceError:
    return ServiceError(413, "too_large", message, param=param)


def busy(message: str, seconds: int = 1) -> ServiceError:
    return ServiceError(503, "busy", message, retry_after=seconds)
