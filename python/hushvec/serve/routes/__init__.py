"""The endpoints, one file for each kind; and the way of every request that releases something: who, what, whether it was answered
before, the work, the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from hushvec.serve.bodies import ARROW, JSON, json_fields, read_body, require_type
from hushvec.serve.failures import ServiceError
from hushvec.serve.policy import OPERATOR
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Operator, Service, service_of

Run = Callable[..., Payload]  # of a function that charges and releases, and of how many numbers its answer has
Work = Callable[[Service, Caller, Any, Run], Payload]
Arrow = Callable[[bytearray, int], Any]
_STREAM = {"type": "string", "format": "binary", "description": "an Arrow IPC stream with one column, vector"}


def endpoint(router: APIRouter, path: str, fields: type[BaseModel], *tags: str, arrow: Arrow | None = None) -> Callable[[Work], Work]:
    """Answer POST requests to a path by the decorated function, whose name and docstring go into the OpenAPI document.

    The body is JSON of these fields, or an Arrow stream where `arrow` reads one, from the body and the limit of its bytes. The
    function checks everything and calls its last argument once, with a function that charges a budget and releases. What it does
    without that call, it does without a charge.
    """
    document = documented(fields, {ARROW: {"schema": _STREAM}} if arrow else {})

    def answers(work: Work) -> Work:
        async def answered(request: Request) -> Response:
            return await _answer(request, fields, work, arrow)

        answered.__name__, answered.__doc__ = work.__name__, work.__doc__
        router.post(path, tags=[*tags], openapi_extra=document)(answered)
        return work

    return answers


async def _answer(request: Request, fields: type[BaseModel], work: Work, arrow: Arrow | None) -> Response:
    service = service_of(request)
    caller = identified(request)
    media_type = require_type(request, JSON, *([ARROW] if arrow else []))
    most = caller.tenant.limits.body_bytes
    if (early := caller.asked(request, bytearray())).key is not None:
        await service.work.run(partial(service.releases.admit, early), caller.name)
    with service.work.body(caller.name, most) as take:
        bodies = [await read_body(request, most, take)]
        asked, part = caller.asked(request, bodies[0]), partial(service.work.part, caller.name)

        def make() -> Payload:
            kept = service.releases.find(asked)
            if kept is not None:
                return kept
            body = bodies.pop()
            values = arrow(body, most) if arrow and media_type == ARROW else json_fields(body, fields, most, part)
            del body  # let go before the work begins
            return work(service, caller, values, partial(service.releases.run, asked))

        payload = await service.work.run(make, caller.name)
    return Response(payload.body, media_type=payload.media_type, headers=payload.headers)


def identified(request: Request) -> Caller:
    """Return the tenant that a request is from. An operator may release for nobody: 403."""
    sender = reader(request)
    if isinstance(sender, Operator):
        raise ServiceError(403, "operator_key", "a tenant's key must be sent: an operator's key reads budgets and ledgers only")
    return sender


def reader(request: Request) -> Caller | Operator:
    """Return the sender of a request; the log and the metrics name the tenant."""
    sender = service_of(request).sender(request)
    request.state.tenant = OPERATOR if isinstance(sender, Operator) else sender.name
    return sender


def documented(model: type[BaseModel], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the request body of an endpoint for the OpenAPI document. Bodies are read by `_answer`, within limits."""
    content = {JSON: {"schema": model.model_json_schema()}, **(more or {})}
    return {"requestBody": {"required": True, "content": content}}
