"""`POST /v1/redact` and `POST /v1/rewrite`: texts without personal data, and texts as public ones."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from hushvec.serve.answering import JSON, Run, answer, documented
from hushvec.serve.bodies import json_fields
from hushvec.serve.noise import epsilon_of
from hushvec.serve.policy import Redaction
from hushvec.serve.receipts import receipt_headers
from hushvec.serve.releases import Payload
from hushvec.serve.service import Caller, Service, redactor_of, require_texts
from hushvec.text.rewriting.rewriter import Rewriter

router = APIRouter(tags=["texts"])


class RedactRequest(BaseModel):
    """A text, and the categories that stay in it."""

    model_config = ConfigDict(extra="forbid")

    text: str
    allow_categories: list[str] = Field(default=[], max_length=100)


class RewriteRequest(BaseModel):
    """A text that is about one person."""

    model_config = ConfigDict(extra="forbid")

    text: str
    allow_categories: list[str] = Field(default=[], max_length=100)
    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")


@router.post("/v1/redact", openapi_extra=documented(RedactRequest))
async def redact(request: Request) -> Response:
    """Personal data found by rules and replaced by placeholders. No differential privacy: nothing is charged."""
    return await answer(request, lambda body, _: json_fields(body, RedactRequest), _redact)


@router.post("/v1/rewrite", openapi_extra=documented(RewriteRequest))
async def rewrite(request: Request) -> Response:
    """The text as a public one, chosen with differential privacy. Charged."""
    return await answer(request, lambda body, _: json_fields(body, RewriteRequest), _rewrite)


def _redact(service: Service, caller: Caller, asked: RedactRequest, run: Run) -> Payload:
    require_texts([asked.text], caller, "text")
    redaction = _redactor(caller, asked.allow_categories).redact(asked.text)
    fields = {**redaction.to_dict(private=False), "is_dp_claim": False}
    return Payload(json.dumps(fields, ensure_ascii=False).encode(), JSON, {})


def _redactor(caller: Caller, allow_categories: list[str]) -> Any:
    if not allow_categories and caller.redactor is not None:
        return caller.redactor
    settings = caller.tenant.redact if isinstance(caller.tenant.redact, Redaction) else Redaction()
    allowed = [*settings.allow_categories, *allow_categories]
    return redactor_of(settings.model_copy(update={"allow_categories": allowed}))


def _rewrite(service: Service, caller: Caller, asked: RewriteRequest, run: Run) -> Payload:
    require_texts([asked.text], caller, "text")
    epsilon = epsilon_of(caller.tenant, asked.epsilon)
    rewriter = _rewriter(epsilon, tuple(asked.allow_categories))

    def make(budget: Any) -> Payload:
        rewriting = rewriter.rewrite(asked.text, budget=budget)
        service.metrics.released(caller.name, rewriting.n_chunks, epsilon)
        fields = rewriting.to_dict(private=False)
        headers = {} if rewriting.receipt is None else receipt_headers(rewriting.receipt)
        return Payload(json.dumps(fields, ensure_ascii=False).encode(), JSON, headers)

    return run(make)


@lru_cache(maxsize=64)
def _rewriter(epsilon: float, allow_categories: tuple[str, ...]) -> Rewriter:
    return Rewriter(epsilon=epsilon, allow_categories=allow_categories or None)
