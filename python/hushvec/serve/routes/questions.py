"""`POST /v1/ask` and `POST /v1/rank`: the two halves of a private question to a holder of public documents.

The service stands on the asker's side: it sees the question, and makes what the holder may see.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import Field

from hushvec.retrieval.queries.question import Question, candidates, ranked, unit
from hushvec.serve.bodies import Fields, Rows, Vector
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.releases import Payload, epsilon_of, json_payload, release_rows
from hushvec.serve.routes import Run, answer, documented
from hushvec.serve.service import Caller, Service, require_texts

router = APIRouter(tags=["questions"])

MOST_FETCHED = 10_000

# Mechanisms whose releases point somewhere: a holder can search for them.
_DIRECTIONS = ("codebook", "privunit")


class _Question(Fields):
    """A question as a text or as a vector."""

    text: str | None = None
    vector: Vector | None = None
    model: str | None = None


class AskRequest(_Question):
    """A question as a text or as a vector."""

    fetch: int = Field(default=50, ge=1, le=MOST_FETCHED)
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")


class RankRequest(_Question):
    """The same question, and what the holder sent back."""

    ids: list[int] | list[str]
    vectors: Rows
    k: int = Field(default=10, ge=1, le=MOST_FETCHED)


@router.post("/v1/ask", openapi_extra=documented(AskRequest))
async def ask(request: Request) -> Response:
    """What to send to the holder: a released row, and how many documents to return. Charged."""
    return await answer(request, AskRequest, _ask)


@router.post("/v1/rank", openapi_extra=documented(RankRequest))
async def rank(request: Request) -> Response:
    """The holder's documents ranked by the clean question. Costs nothing; the ranking is as private as the question."""
    return await answer(request, RankRequest, _rank)


def _ask(service: Service, caller: Caller, asked: AskRequest, run: Run) -> Payload:
    if caller.tenant.mechanism not in _DIRECTIONS:
        raise ServiceError(403, "not_in_policy", f"questions need mechanism {' or '.join(_DIRECTIONS)} in the policy")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    row = _row(service, caller, asked)

    def make(budget: Any) -> Payload:
        release = release_rows(row, caller.tenant, epsilon, budget)
        service.metrics.released(caller.name, 1, epsilon)
        question = Question(unit(np.asarray(release.values, np.float32))[0], asked.fetch)
        return json_payload({"question": json.loads(question.to_json()), "receipt": release.receipt.to_dict()}, release.receipt)

    return run(make)


def _rank(service: Service, caller: Caller, asked: RankRequest, run: Run) -> Payload:
    row = _row(service, caller, asked)
    try:
        found = candidates(asked.ids, asked.vectors)
    except (TypeError, ValueError) as error:
        raise invalid(str(error), "vectors") from None
    if found.vectors.shape[1] != row.shape[1]:
        raise invalid(f"vectors must have {row.shape[1]} columns, got {found.vectors.shape[1]}", "vectors")
    ids, scores = ranked(row[0], found)
    return json_payload({"ids": ids[: asked.k].tolist(), "scores": scores[: asked.k].tolist()})


def _row(service: Service, caller: Caller, asked: _Question) -> NDArray[np.float32]:
    """The question as one row."""
    if (asked.text is None) == (asked.vector is None):
        raise invalid("one of text and vector must be given", "text")
    if asked.vector is not None:
        row: NDArray[np.float32] = asked.vector[None]
        if row.shape[1] == 0 or not np.isfinite(row).all():
            raise invalid("vector must hold finite numbers, at least 1", "vector")
        return row
    assert asked.text is not None
    require_texts([asked.text], caller, "text")
    return service.model(service.model_name(caller, asked.model)).embed(caller.clean([asked.text]), caller.name)
