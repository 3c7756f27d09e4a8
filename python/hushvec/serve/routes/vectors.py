"""`POST /v1/privatize`: the client's own vectors, as JSON or as an Arrow stream."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from hushvec.serve import arrow
from hushvec.serve.answering import JSON, Run, answer, documented
from hushvec.serve.bodies import json_fields
from hushvec.serve.failures import invalid
from hushvec.serve.noise import epsilon_of, release_rows
from hushvec.serve.receipts import receipt_headers
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Service

router = APIRouter(tags=["vectors"])


class PrivatizeRequest(BaseModel):
    """Rows of one length, each about another person unless the policy says otherwise."""

    model_config = ConfigDict(extra="forbid")

    vectors: list[list[float]]
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")


class _Rows:
    """What was asked, in either form."""

    def __init__(self, rows: NDArray[Any], epsilon: float | None, *, is_arrow: bool) -> None:
        self.rows = rows
        self.epsilon = epsilon
        self.is_arrow = is_arrow


_STREAM = {"type": "string", "format": "binary", "description": "an Arrow IPC stream with one column, vector"}


@router.post("/v1/privatize", openapi_extra=documented(PrivatizeRequest, more={arrow.MEDIA_TYPE: {"schema": _STREAM}}))
async def privatize(request: Request) -> Response:
    """Vectors with noise. The whole request is one release."""
    return await answer(request, _read, _release, types=(JSON, arrow.MEDIA_TYPE))


def _read(body: bytes, media_type: str) -> _Rows:
    if media_type == arrow.MEDIA_TYPE:
        rows, epsilon = arrow.read_vectors(body)
        return _Rows(rows, epsilon, is_arrow=True)
    fields = json_fields(body, PrivatizeRequest)
    if not fields.vectors:
        raise invalid("vectors must hold at least 1 row, got 0", "vectors")
    lengths = [len(row) for row in fields.vectors]
    if min(lengths) != max(lengths) or not lengths[0]:
        raise invalid(f"vectors must hold rows of one length above 0, got lengths {min(lengths)} to {max(lengths)}", "vectors")
    with np.errstate(over="ignore"):  # what float32 cannot hold is refused with the rows
        return _Rows(np.array(fields.vectors, np.float32), fields.epsilon, is_arrow=False)


def _release(service: Service, caller: Caller, asked: _Rows, run: Run) -> Payload:
    limit = caller.tenant.limits.rows
    if len(asked.rows) > limit:
        raise invalid(f"vectors must have at most {limit} rows, got {len(asked.rows)}", "vectors")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)

    def make(budget: Any) -> Payload:
        release = release_rows(asked.rows, caller.tenant, epsilon, budget)
        service.metrics.released(caller.name, len(asked.rows), epsilon)
        headers = receipt_headers(release.receipt)
        if asked.is_arrow:
            return Payload(arrow.write_vectors(release.values, headers), arrow.MEDIA_TYPE, headers)
        fields = {"vectors": release.values.tolist(), "receipt": release.receipt.to_dict()}
        return Payload(json.dumps(fields, separators=(",", ":")).encode(), JSON, headers)

    return run(make)
