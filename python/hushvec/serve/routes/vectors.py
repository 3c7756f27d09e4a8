"""`POST /v1/privatize`: the client's own vectors, as JSON or as an Arrow stream."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hushvec.serve import arrow
from hushvec.serve.answering import JSON, Run, answer, documented
from hushvec.serve.bodies import Rows, json_fields
from hushvec.serve.failures import invalid
from hushvec.serve.noise import epsilon_of, release_rows
from hushvec.serve.receipts import receipt_headers
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Service

router = APIRouter(tags=["vectors"])


class PrivatizeRequest(BaseModel):
    """Rows of one length, each about another person unless the policy says otherwise."""

    model_config = ConfigDict(extra="forbid")

    vectors: Rows
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")


class _Rows:
    """What was asked, in either form. The one element of `rows` is taken out for the release."""

    def __init__(self, rows: NDArray[Any], epsilon: float | None, *, is_arrow: bool) -> None:
        self.rows = [rows]
        self.epsilon = epsilon
        self.is_arrow = is_arrow


_STREAM = {"type": "string", "format": "binary", "description": "an Arrow IPC stream with one column, vector"}


@router.post("/v1/privatize", openapi_extra=documented(PrivatizeRequest, more={arrow.MEDIA_TYPE: {"schema": _STREAM}}))
async def privatize(request: Request) -> Response:
    """Vectors with noise. The whole request is one release."""
    return await answer(request, _read, _release, types=(JSON, arrow.MEDIA_TYPE))


def _read(body: bytearray, media_type: str, most: int) -> _Rows:
    if media_type == arrow.MEDIA_TYPE:
        rows, epsilon = arrow.read_vectors(body, most)
        return _Rows(rows, epsilon, is_arrow=True)
    fields = json_fields(body, PrivatizeRequest, most)
    return _Rows(fields.vectors, fields.epsilon, is_arrow=False)


def _release(service: Service, caller: Caller, asked: _Rows, run: Run) -> Payload:
    limit, count = caller.tenant.limits.rows, len(asked.rows[0])
    if count > limit:
        raise invalid(f"vectors must have at most {limit} rows, got {count}", "vectors")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)

    def make(budget: Any) -> Payload:
        release = release_rows(asked.rows.pop(), caller.tenant, epsilon, budget)
        service.metrics.released(caller.name, count, epsilon)
        headers = receipt_headers(release.receipt)
        if asked.is_arrow:
            return Payload(arrow.write_vectors(release.values, headers), arrow.MEDIA_TYPE, headers)
        fields = {"vectors": release.values, "receipt": release.receipt.to_dict()}
        return Payload(orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY), JSON, headers)

    return run(make)
