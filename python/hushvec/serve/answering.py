"""The way of every request that releases something: who, what, whether it was answered before, the work, the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from hushvec.serve.bodies import read_body, require_type
from hushvec.serve.failures import ServiceError
from hushvec.serve.policy import OPERATOR
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Operator, Service, service_of

Asked = TypeVar("Asked")

JSON = "application/json"

Run = Callable[[Callable[[Any], Payload]], Payload]


async def answer(
    request: Request,
    read: Callable[[bytearray, str, int], Asked],
    work: Callable[[Service, Caller, Asked, Run], Payload],
    *,
    types: tuple[str, ...] = (JSON,),
) -> Response:
    """The response to a request.

    Args:
        request: with a body of one of `types`.
        read: from the body, its type and the limit of its bytes to what is asked.
        work: checks everything and calls its last argument once, with a function that charges a budget and releases. What `work` does
            without that call, it does without a charge.
        types: media types.
    """
    service = service_of(request)
    caller = identified(request)
    media_type = require_type(request, *types)
    most = caller.tenant.limits.body_bytes
    with service.work.body(caller.name, most) as take:
        bodies = [await read_body(request, most, take)]
        asked = caller.asked(request, bodies[0])

        def make() -> Payload:
            kept = service.releases.find(asked)
            if kept is not None:
                return kept
            fields = read(bodies.pop(), media_type, most)  # the body is let go before the work begins
            return work(service, caller, fields, lambda release: service.releases.run(asked, release))

        payload = await service.work.run(make, caller.name)
    return Response(payload.body, media_type=payload.media_type, headers=payload.headers)


def identified(request: Request) -> Caller:
    """The tenant that a request is from.

    Raises:
        ServiceError: 401; 403 for an operator, who may release for nobody.
    """
    sender = reader(request)
    if isinstance(sender, Operator):
        raise ServiceError(403, "operator_key", "a tenant's key must be sent: an operator's key reads budgets and ledgers only")
    return sender


def reader(request: Request) -> Caller | Operator:
    """Whom a request is from; the log and the metrics name the tenant."""
    sender = service_of(request).sender(request)
    request.state.tenant = OPERATOR if isinstance(sender, Operator) else sender.name
    return sender


def documented(model: type[BaseModel], more: dict[str, Any] | None = None) -> dict[str, Any]:
    """The request body of an endpoint, for the OpenAPI document. Bodies are read by `answer`, within limits."""
    content = {JSON: {"schema": model.model_json_schema()}, **(more or {})}
    return {"requestBody": {"required": True, "content": content}}
