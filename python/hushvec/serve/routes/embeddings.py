"""`POST /v1/embeddings`: OpenAI's shape, with rows that are released privately."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, field_validator

from hushvec.mechanisms import PublicProjection
from hushvec.serve.answering import Run, answer, documented
from hushvec.serve.bodies import json_fields
from hushvec.serve.failures import invalid
from hushvec.serve.noise import NOTE_OWN_TEXT, epsilon_of, release_rows
from hushvec.serve.receipts import receipt_headers
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Service, require_texts

router = APIRouter(tags=["embeddings"])

# The public map behind `dimensions` is random, the same everywhere.
_PROJECTION_SEED = 0


class EmbeddingsRequest(BaseModel):
    """What OpenAI's clients send; `epsilon` is ours."""

    model_config = ConfigDict(extra="forbid")

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


@router.post("/v1/embeddings", openapi_extra=documented(EmbeddingsRequest))
async def embeddings(request: Request) -> Response:
    """Private embeddings of texts. The whole request is one release."""
    return await answer(request, _read, _release)


def _read(body: bytearray, media_type: str, most: int) -> EmbeddingsRequest:
    return json_fields(body, EmbeddingsRequest, most)


def _release(service: Service, caller: Caller, asked: EmbeddingsRequest, run: Run) -> Payload:
    texts = [asked.input] if isinstance(asked.input, str) else asked.input
    require_texts(texts, caller, "input")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    name = service.model_name(caller, asked.model)
    model = service.model(name)
    redactor = caller.redactor
    clean = texts if redactor is None else [redaction.text for redaction in redactor.redact_all(texts)]
    rows = model.embed(clean, caller.name)
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
        body = orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
        return Payload(body, "application/json", receipt_headers(release.receipt))

    return run(make)


def _data(rows: NDArray[np.float32], encoding: str) -> list[dict[str, Any]]:
    values: Any = rows if encoding == "float" else [_base64(row) for row in rows]
    return [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]


def _base64(row: NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()


@lru_cache(maxsize=16)
def _projection(dimension: int, wanted: int) -> PublicProjection | None:
    if wanted > dimension:
        raise invalid(f"dimensions must be at most {dimension}, the model's, got {wanted}", "dimensions")
    return None if wanted == dimension else PublicProjection.johnson_lindenstrauss(dimension, wanted, _PROJECTION_SEED)
