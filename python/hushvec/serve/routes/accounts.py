"""Budgets and receipts: what is spent, what is left, whether the chain holds, and whether a receipt does."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from hushvec.errors import MissingExtraError, ReceiptError
from hushvec.receipts.verify import verify_receipt
from hushvec.serve.answering import JSON, Run, answer, documented, identified
from hushvec.serve.bodies import json_fields
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.policy import now_utc
from hushvec.serve.releases import Payload
from hushvec.serve.rewriters import offers
from hushvec.serve.service import Caller, Service, readable_ledger, service_of

router = APIRouter(tags=["accounts"])


class VerifyRequest(BaseModel):
    """A receipt, as a response had it."""

    model_config = ConfigDict(extra="forbid")

    receipt: dict[str, Any]


@router.post("/v1/receipts/verify", openapi_extra=documented(VerifyRequest))
async def verify(request: Request) -> Response:
    """The receipt's guarantee, computed again from its parameters."""
    return await answer(request, lambda body, _: json_fields(body, VerifyRequest), _verify)


@router.get("/v1/budgets")
async def own_budget(request: Request) -> dict[str, Any]:
    """The caller's budget in the present period."""
    service = service_of(request)
    caller = identified(request)
    return await service.work.run(lambda: _budget(service, caller))


@router.get("/v1/budgets/{tenant}")
async def budget(request: Request, tenant: str) -> dict[str, Any]:
    """The same by name. A caller sees its own budget only; another name answers as one that does not exist."""
    service = service_of(request)
    caller = _own(identified(request), tenant)
    return await service.work.run(lambda: _budget(service, caller))


@router.get("/v1/budgets/{tenant}/ledger")
async def ledger(request: Request, tenant: str) -> dict[str, Any]:
    """Every row of the present period's ledger, and whether the hash chain holds."""
    service = service_of(request)
    caller = _own(identified(request), tenant)
    return await service.work.run(lambda: _ledger(service, caller))


def _own(caller: Caller, tenant: str) -> Caller:
    if tenant != caller.name:
        raise ServiceError(404, "not_found", "there is no such budget")
    return caller


def _verify(service: Service, caller: Caller, asked: VerifyRequest, run: Run) -> Payload:
    try:
        found = verify_receipt(asked.receipt)
    except (ReceiptError, MissingExtraError, TypeError, ValueError):
        raise invalid("receipt must be a receipt of hushvec, complete and unchanged in its kinds", "receipt") from None
    return Payload(json.dumps({"status": found.status, "reasons": list(found.reasons)}).encode(), JSON, {})


def _budget(service: Service, caller: Caller) -> dict[str, Any]:
    terms, now = caller.tenant.budget, now_utc()
    renewal = terms.renewal(now)
    state = service.budget_state(caller)
    return {
        "tenant": caller.name,
        "period": terms.period(now) or None,
        "renews_at": None if renewal is None else renewal.isoformat(),
        "limit": {"epsilon": state.max_epsilon, "delta": state.max_delta},
        "consumed": {"epsilon": state.consumed_epsilon, "delta": state.consumed_delta},
        "remaining": {"epsilon": state.remaining_epsilon, "delta": state.remaining_delta},
        "exhausted": state.exhausted,
        "charges": state.rows - 1,
        "ledger": state.ledger,
        "per_request": {"epsilon": caller.tenant.epsilon, "mechanism": caller.tenant.mechanism, "per": caller.tenant.per},
        "rewriting": offers(caller.tenant, state),
    }


def _ledger(service: Service, caller: Caller) -> dict[str, Any]:
    budget = service.ledger(caller)
    with readable_ledger():
        report, export = budget.verify(), budget.export()
    return {"tenant": caller.name, "holds": report.holds, "rows": report.rows, "reason": report.reason, "export": export}
