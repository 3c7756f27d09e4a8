"""A release on request: its rows checked, its budget charged once, its noise drawn, its answer kept."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hushvec.budget import PrivacyBudget
from hushvec.errors import AlreadyChargedError, BudgetError, PrivacyBudgetExhaustedError
from hushvec.release.charging import ChargeOnce
from hushvec.serve.answers import LONGEST_KEY, AnswerStore, Claim, claim_name, fingerprint_of
from hushvec.serve.failures import ServiceError, invalid, too_large
from hushvec.serve.ledgers import Ledgers
from hushvec.serve.policy import BudgetTerms, now_utc
from hushvec.serve.tracing import span

_log = logging.getLogger("hushvec.serve")

# Of a request with an Idempotency-Key: its answer, of about the same size, is kept in a database.
MOST_KEPT_BYTES = 16_000_000


@dataclass(frozen=True)
class Payload:
    """The body of an answer and the headers that belong to it."""

    body: bytes | memoryview
    media_type: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Asked:
    """Who asks, what, and under which key.

    Args:
        tenant: its name.
        terms: of its budget.
        secret: what the fingerprint is keyed with: the client's API key.
        path, body: what was asked; the body is empty without a key.
        key: the Idempotency-Key, or None.
    """

    tenant: str
    terms: BudgetTerms
    secret: str
    path: str
    body: bytes | bytearray
    key: str | None


class Releases:
    """Charges and answers of one store."""

    def __init__(self, ledgers: Ledgers, answers: AnswerStore) -> None:
        self.ledgers = ledgers
        self.answers = answers

    def run(self, asked: Asked, make: Callable[[PrivacyBudget | ChargeOnce], Payload]) -> Payload:
        """The answer to a request, from `make`, which charges the budget that it gets and releases; or the one that was kept.

        Raises:
            ServiceError: the key was used for something else, its release was lost or is being made, the budget is exhausted, or a
                store cannot be used.
        """
        try:
            with span("release"):
                if asked.key is None:
                    return make(self._ledger(asked, self._period(asked)))
                return self._once(asked, make)
        except PrivacyBudgetExhaustedError as error:
            raise exhausted(error, asked.terms) from None
        except AlreadyChargedError:
            raise _charged_before() from None
        except BudgetError as error:
            _log.error("ledger of tenant %s cannot be used: %s", asked.tenant, error.reason)
            raise _no_store(may_be_charged=error.may_be_charged) from None

    def find(self, asked: Asked) -> Payload | None:
        """The kept answer, looked up before any work is done."""
        if asked.key is None:
            return None
        require_key(asked.key)
        if len(asked.body) > MOST_KEPT_BYTES:
            raise too_large(f"the body must have at most {MOST_KEPT_BYTES:,} bytes with an Idempotency-Key", "Idempotency-Key")
        claim = self._stored(lambda: self.answers.find(claim_name(asked.tenant, asked.key or "")))
        return None if claim is None else _kept(asked, claim)

    def _once(self, asked: Asked, make: Callable[[PrivacyBudget | ChargeOnce], Payload]) -> Payload:
        assert asked.key is not None
        name = claim_name(asked.tenant, require_key(asked.key))
        fingerprint = fingerprint_of(asked.secret, asked.path, asked.body)
        claim = self._stored(lambda: self.answers.claim(name, self._period(asked), fingerprint))
        kept = _kept(asked, claim)
        if kept is not None:
            return kept
        try:
            answer = make(ChargeOnce(self._ledger(asked, claim.period), f"request {name}"))
        except AlreadyChargedError:
            # Perhaps the answer was kept since the claim was read.
            kept = self.find(asked)
            if kept is None:
                raise
            return kept
        self._stored(lambda: self.answers.keep(name, bytes(answer.body), {**answer.headers, "content-type": answer.media_type}))
        return answer

    def _ledger(self, asked: Asked, period: str) -> PrivacyBudget:
        return self.ledgers.open(asked.tenant, asked.terms, period)

    @staticmethod
    def _period(asked: Asked) -> str:
        return asked.terms.period(now_utc())

    @staticmethod
    def _stored(call: Callable[[], Any]) -> Any:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return call()
        except SQLAlchemyError as error:
            _log.error("the store of answers cannot be used: %s", type(error).__name__)
            raise _no_store(may_be_charged=True) from None


def require_key(key: str) -> str:
    """An Idempotency-Key of the right length."""
    if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable():
        raise invalid(f"Idempotency-Key must be 1 to {LONGEST_KEY} printable characters", "Idempotency-Key")
    return key


def exhausted(error: PrivacyBudgetExhaustedError, terms: BudgetTerms) -> ServiceError:
    """402: what was asked for does not fit into what is left."""
    renewal = terms.renewal(now_utc())
    remaining = None
    if error.max_epsilon is not None and error.consumed_epsilon is not None:
        remaining = {
            "epsilon": max(0.0, error.max_epsilon - error.consumed_epsilon),
            "delta": max(0.0, (error.max_delta or 0.0) - (error.consumed_delta or 0.0)),
        }
    renews = "it does not renew" if renewal is None else f"it renews at {renewal.isoformat()}"
    return ServiceError(
        402,
        PrivacyBudgetExhaustedError.code,
        f"the privacy budget has not enough left for this release; {renews}",
        remaining=remaining,
        renews_at=None if renewal is None else renewal.isoformat(),
    )


def _kept(asked: Asked, claim: Claim) -> Payload | None:
    if claim.fingerprint != fingerprint_of(asked.secret, asked.path, asked.body):
        raise ServiceError(422, "idempotency_key_reused", "Idempotency-Key was used for another request", param="Idempotency-Key")
    if claim.body is None or claim.headers is None:
        return None
    headers = dict(claim.headers)
    media_type = headers.pop("content-type")
    return Payload(claim.body, media_type, {**headers, "Idempotent-Replayed": "true"})


def _charged_before() -> ServiceError:
    return ServiceError(
        409,
        "already_charged",
        "this Idempotency-Key was charged and has no answer: it is being made, or it was lost. Try again, then with a new key",
        param="Idempotency-Key",
        retry_after=1,
    )


def _no_store(*, may_be_charged: bool) -> ServiceError:
    message = "the ledger cannot be used; nothing was released"
    message += ". The charge may be recorded: repeat with the same Idempotency-Key" if may_be_charged else " or charged"
    return ServiceError(503, "ledger_unavailable", message, retry_after=1)
