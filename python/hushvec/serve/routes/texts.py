"""`POST /v1/redact` and `POST /v1/rewrite`: texts without personal data, and texts as public ones."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from hushvec.serve.bodies import Fields
from hushvec.serve.failures import ServiceError
from hushvec.serve.policy import Redaction
from hushvec.serve.releases import Payload, epsilon_of, json_payload
from hushvec.serve.reloading import redactor_of
from hushvec.serve.rewriters import (
    DEFAULT_MECHANISM,
    RewritingMechanism,
    delta_of,
    is_offered,
    out_of_range,
    rewriter_for,
    trial_for,
    unknown_category,
)
from hushvec.serve.routes import Run, answer, documented
from hushvec.serve.service import Caller, Service, require_texts
from hushvec.text.pii.redactor import Redactor

router = APIRouter(tags=["texts"])

class RedactRequest(Fields):
    """A text, and what stays in it."""

    text: str
    allow_categories: list[str] = Field(default=[], max_length=100, description="categories that are not looked for")
    allow_list: list[str] = Field(default=[], max_length=1000, description="finds that stay: exact texts")


class RewriteRequest(RedactRequest):
    """A text that is about one person."""

    epsilon: float | None = Field(default=None, gt=0, description="at most the policy's")
    mechanism: RewritingMechanism = Field(default=DEFAULT_MECHANISM, description="gaussian costs the policy's delta as well")


@router.post("/v1/redact", openapi_extra=documented(RedactRequest))
async def redact(request: Request) -> Response:
    """Personal data found by rules and replaced by placeholders. No differential privacy: nothing is charged."""
    return await answer(request, RedactRequest, _redact)


@router.post("/v1/rewrite", openapi_extra=documented(RewriteRequest))
async def rewrite(request: Request) -> Response:
    """The text as a public one, by a mechanism of differential privacy. Charged."""
    return await answer(request, RewriteRequest, _rewrite)


def _redact(service: Service, caller: Caller, asked: RedactRequest, run: Run) -> Payload:
    require_texts([asked.text], caller, "text")
    redaction = _redactor(caller, asked).redact(asked.text)
    return json_payload({**redaction.to_dict(private=False), "is_dp_claim": False})


def _redactor(caller: Caller, asked: RedactRequest) -> Redactor:
    """The tenant's redactor, with what this request allows beyond the policy."""
    if not asked.allow_categories and not asked.allow_list and caller.redactor is not None:
        return caller.redactor
    settings = caller.tenant.redact if isinstance(caller.tenant.redact, Redaction) else Redaction()
    allowed = {
        "allow_categories": [*settings.allow_categories, *asked.allow_categories],
        "allow_list": [*settings.allow_list, *asked.allow_list],
    }
    try:
        redactor = redactor_of(settings.model_copy(update=allowed))
    except ValueError:
        raise unknown_category() from None
    assert redactor is not None
    return redactor


def _rewrite(service: Service, caller: Caller, asked: RewriteRequest, run: Run) -> Payload:
    require_texts([asked.text], caller, "text")
    epsilon, mechanism = epsilon_of(caller.tenant, asked.epsilon), asked.mechanism
    delta = delta_of(caller.tenant, mechanism)
    if delta and not is_offered(caller.tenant, mechanism, state := service.budget_state(caller)):
        rule = f"mechanism {mechanism} costs delta {delta:g}, and the whole budget has delta {state.max_delta or 0.0:g}"
        raise ServiceError(403, "not_in_policy", rule, param="mechanism")
    rewriter = rewriter_for(epsilon, asked.allow_categories, asked.allow_list, mechanism=mechanism, delta=delta)
    trial = trial_for(epsilon, mechanism, delta)

    def make(budget: Any) -> Payload:
        try:
            rewriting = rewriter.rewrite(asked.text, budget=budget)
        except ValueError:  # before the charge, as every error about arguments
            raise out_of_range(mechanism) from None
        service.metrics.released(caller.name, rewriting.n_chunks, rewriting.epsilon_total)
        return json_payload({**rewriting.to_dict(private=False), **trial}, rewriting.receipt)

    return run(make)
