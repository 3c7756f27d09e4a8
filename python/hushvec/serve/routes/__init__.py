"""The endpoints, one file for each kind; and the way of every request that releases something: who, what, whether it was answered
before, the work, the answer."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fastapi import Request, Response
from pydantic import BaseModel

from hushvec.serve.bodies import ARROW, JSON, json_fields, read_body, require_type
from hushvec.serve.failures import ServiceError
from hushvec.serve.policy import OPERATOR
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Operator, Service, service_of

Run = Callable[..., Payload]  # of a function that charges and releases, and of how many numbers its answer has


async def answer(
    request: Request,
    fields: type[BaseModel],
    work: Callable[[Service, Caller, Any, Run], Payload],
    *,
    arrow: Callable[[bytearray, int], Any] | None = None,
) -> Response:
    """The response to a request, whose body is JSON of these fields, or an Arrow stream where `arrow` reads one.

    `work` checks everything and calls its last argument once, with a function that charges a budget and releases. What it does
    without that call, it does without a charge. `arrow` gets the body and the limit of its bytes.
    """
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
    """The tenant that a request is from. An operator may release for nobody: 403."""
    sender = reader(request)
    if isinstance(sender, Operator):
        raise ServiceError(403, "operator_key", "a tenant's key must be sent: an operator's key reads budgets and ledgers only")
    return sender


def reader(request: Request) -> Caller | Operator:
    """The sender of a request; the log and the metrics name the tenant."""
    sender = service_of(request).sender(request)
    request.state.tenant = OPERATOR if isinstance(sender, Operator) else sender.name
    return sender


def documented(model: type[BaseModel], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The request body of an endpoint, for the OpenAPI document. Bodies are read by `answer`, within limits."""
    content = {JSON: {"schema": model.model_json_schema()}, **(more or {})}
    return {"requestBody": {"required": True, "content": content}}
