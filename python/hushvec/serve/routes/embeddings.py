"""`POST /v1/embeddings`: OpenAI's shape, with rows that are released privately; `POST /v1/privatize`: the client's own vectors, as
JSON or as an Arrow stream."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field, field_validator

from hushvec.mechanisms import PublicProjection
from hushvec.serve.bodies import ARROW, Fields, Rows, read_vectors, write_vectors
from hushvec.serve.failures import invalid
from hushvec.serve.releases import NOTE_OWN_TEXT, Payload, epsilon_of, json_payload, receipt_headers, release_rows
from hushvec.serve.routes import Run, answer, documented
from hushvec.serve.service import Caller, Service, require_texts

router = APIRouter()

# The public map behind `dimensions` is random, the same everywhere.
_PROJECTION_SEED = 0


class EmbeddingsRequest(Fields):
    """What OpenAI's clients send; `epsilon` is ours."""

    input: str | list[str]
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    user: str | None = Field(default=None, description="ignored, and kept nowhere")
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")

    @field_validator("input", mode="before")
    @classmethod
    def _no_tokens(cls, value: Any) -> Any:
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, int | list):
            raise ValueError("must be texts: tokens cannot be redacted, and belong to one model")
        return value


@router.post("/v1/embeddings", tags=["embeddings"], openapi_extra=documented(EmbeddingsRequest))
async def embeddings(request: Request) -> Response:
    """Private embeddings of texts. The whole request is one release."""
    return await answer(request, EmbeddingsRequest, _release)


def _release(service: Service, caller: Caller, asked: EmbeddingsRequest, run: Run) -> Payload:
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    require_texts(texts, caller, "input")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    name = service.model_name(caller, asked.model)
    model = service.model(name)
    rows = model.embed(caller.clean(texts), caller.name)
    projection = None if asked.dimensions is None else _projection(rows.shape[1], asked.dimensions)
    if projection is not None:
        rows = projection.transform(rows)
    notes = (NOTE_OWN_TEXT,) if caller.tenant.per == "record" else ()

    def make(budget: Any) -> Payload:
        release = release_rows(rows, caller.tenant, epsilon, budget, notes=notes, projection=projection)
        service.metrics.released(caller.name, len(rows), epsilon)
        fields = {
            "object": "list",
            "data": _data(np.asarray(release.values, np.float32), asked.encoding_format),
            "model": name,
            # Numbers of tokens would tell the lengths of texts.
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
            "hushvec": {"receipt": release.receipt.to_dict()},
        }
        return json_payload(fields, release.receipt)

    return run(make)


def _data(rows: NDArray[np.float32], encoding: str) -> list[dict[str, Any]]:
    values: Any = rows if encoding == "float" else [base64.b64encode(row.astype("<f4").tobytes()).decode() for row in rows]
    return [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]


@lru_cache(maxsize=16)
def _projection(dimension: int, wanted: int) -> PublicProjection | None:
    if wanted > dimension:
        raise invalid(f"dimensions must be at most {dimension}, the model's, got {wanted}", "dimensions")
    return None if wanted == dimension else PublicProjection.johnson_lindenstrauss(dimension, wanted, _PROJECTION_SEED)


class PrivatizeRequest(Fields):
    """Rows of one length, each about another person unless the policy says otherwise."""

    vectors: Rows
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")


@dataclass
class _Stream:
    """`PrivatizeRequest` as an Arrow stream."""

    vectors: NDArray[Any]
    epsilon: float | None


_STREAM = {"type": "string", "format": "binary", "description": "an Arrow IPC stream with one column, vector"}


@router.post("/v1/privatize", tags=["vectors"], openapi_extra=documented(PrivatizeRequest, more={ARROW: {"schema": _STREAM}}))
async def privatize(request: Request) -> Response:
    """Vectors with noise. The whole request is one release."""
    return await answer(request, PrivatizeRequest, _release_rows, arrow=lambda body, most: _Stream(*read_vectors(body, most)))


def _release_rows(service: Service, caller: Caller, asked: PrivatizeRequest | _Stream, run: Run) -> Payload:
    rows, limit = [asked.vectors], caller.tenant.limits.rows
    del asked.vectors  # the release takes the rows out of this list, so that they are let go
    count = len(rows[0])
    if count > limit:
        raise invalid(f"vectors must have at most {limit} rows, got {count}", "vectors")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)

    def make(budget: Any) -> Payload:
        release = release_rows(rows.pop(), caller.tenant, epsilon, budget)
        service.metrics.released(caller.name, count, epsilon)
        if isinstance(asked, _Stream):
            headers = receipt_headers(release.receipt)
            return Payload(write_vectors(release.values, headers), ARROW, headers)
        return json_payload({"vectors": release.values, "receipt": release.receipt.to_dict()}, release.receipt)

    return run(make)
