"""Errors as clients see them: one error, in the shape of OpenAI's, that never repeats what the client sent."""

from __future__ import annotations

from typing import Any

from hushvec.errors import HushvecError


class ServiceError(HushvecError):
    """An answer other than 200. `code` is for programs and `message` for people, without texts, vectors or keys; `param` is
    the wrong field, `retry_after` in seconds, `more` further fields of the error.
    """

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


def too_large(message: str, param: str | None = None) -> ServiceError:
    return ServiceError(413, "too_large", message, param=param)


def busy(message: str, seconds: int = 1) -> ServiceError:
    return ServiceError(503, "busy", message, retry_after=seconds)
