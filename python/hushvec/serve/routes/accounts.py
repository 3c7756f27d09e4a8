"""Budgets and receipts: what is spent, what is left, whether the chain holds, and whether a receipt does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request, Response

from hushvec.errors import MissingExtraError, ReceiptError
from hushvec.receipts import verify_receipt
from hushvec.serve.bodies import JSON, Fields, json_fields, read_body, require_type
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.policy import Limits, now_utc
from hushvec.serve.releases import json_payload
from hushvec.serve.routes import documented, identified, reader
from hushvec.serve.routes.texts import offers
from hushvec.serve.service import Account, Caller, Operator, Service, readable_ledger, service_of

router = APIRouter(tags=["accounts"])


class VerifyRequest(Fields):
    """A receipt, as a response had it."""

    receipt: dict[str, Any]


@router.post("/v1/receipts/verify", openapi_extra=documented(VerifyRequest))
async def verify(request: Request) -> dict[str, Any]:
    """The receipt's guarantee, computed again from its parameters."""
    sender = reader(request)
    limits = Limits() if isinstance(sender, Operator) else sender.tenant.limits
    require_type(request, JSON)
    most, work, tenant = limits.body_bytes, service_of(request).work, request.state.tenant
    with work.body(tenant, most) as take:
        body = await read_body(request, most, take)
        return await work.run(lambda: _verified(json_fields(body, VerifyRequest, most)), tenant)


@router.get("/v1/budgets")
async def own_budget(request: Request) -> Response:
    """The caller's budget in the present period."""
    caller = identified(request)
    return await _run(request, lambda service: _budget(service, caller))


@router.get("/v1/budgets/{tenant}")
async def budget(request: Request, tenant: str) -> Response:
    """The same by name. A tenant sees its own budget only; another name answers as one that does not exist. Operators see all."""
    account = _account(reader(request), tenant)
    return await _run(request, lambda service: _budget(service, account))


@router.get("/v1/budgets/{tenant}/ledger")
async def ledger(request: Request, tenant: str) -> Response:
    """Every row of the present period's ledger, and whether the hash chain holds."""
    account = _account(reader(request), tenant)
    return await _run(request, lambda service: _ledger(service, account))


@router.get("/v1/tenants")
async def tenants(request: Request) -> Response:
    """Every tenant's budget, for operators. Without keys, that of the one local tenant."""
    sender = reader(request)
    accounts = sender.accounts if isinstance(sender, Operator) else (sender,)
    if isinstance(sender, Caller) and sender.secret:
        raise ServiceError(403, "operators_only", "an operator's key must be sent: a tenant reads its own budget at /v1/budgets")
    return await _run(request, lambda service: {"tenants": [_budget(service, account) for account in accounts]})


async def _run(request: Request, call: Callable[[Service], dict[str, Any]]) -> Response:
    """Return the answer, made as a whole in the tenant's thread: a long ledger must not hold up what all tenants share."""
    service = service_of(request)
    return Response(await service.work.run(lambda: json_payload(call(service)).body, request.state.tenant), media_type=JSON)


def _account(sender: Caller | Operator, tenant: str) -> Account:
    """Return the account of this name, among those that the sender may read."""
    accounts = sender.accounts if isinstance(sender, Operator) else (sender,)
    for account in accounts:
        if account.name == tenant:
            return account
    raise ServiceError(404, "not_found", "there is no such budget")


def _verified(asked: VerifyRequest) -> dict[str, Any]:
    try:
        found = verify_receipt(asked.receipt)
    except (ReceiptError, MissingExtraError, TypeError, ValueError):
        raise invalid("receipt must be a receipt of hushvec, complete and unchanged in its kinds", "receipt") from None
    return {"status": found.status, "reasons": list(found.reasons)}


def _budget(service: Service, account: Account) -> dict[str, Any]:
    terms, now = account.tenant.budget, now_utc()
    renewal = terms.renewal(now)
    state = service.budget_state(account)
    return {
        "tenant": account.name,
        "period": terms.period(now) or None,
        "renews_at": None if renewal is None else renewal.isoformat(),
        "limit": {"epsilon": state.max_epsilon, "delta": state.max_delta},
        "consumed": {"epsilon": state.consumed_epsilon, "delta": state.consumed_delta},
        "remaining": {"epsilon": state.remaining_epsilon, "delta": state.remaining_delta},
        "exhausted": state.exhausted,
        "charges": state.rows - 1,
        "ledger": state.ledger,
        "per_request": {"epsilon": account.tenant.epsilon, "mechanism": account.tenant.mechanism, "per": account.tenant.per},
        "aggregates": {"delta": account.tenant.delta} if account.tenant.aggregates else None,
        "rewriting": offers(account.tenant, state),
    }


def _ledger(service: Service, account: Account) -> dict[str, Any]:
    budget = service.ledger(account)
    with readable_ledger():
        report, export = budget.verify(), budget.export()
    return {"tenant": account.name, "holds": report.holds, "rows": report.rows, "reason": report.reason, "export": export}
