"""A release on request: its rows checked, its budget charged once, its noise drawn, its answer kept."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hushvec._util.publish import PRIVATE, private_folder, unfinished
from hushvec.budget import PrivacyBudget
from hushvec.budget.arguments import default_file
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

# Of answers that could not be kept, in this process.
MOST_UNKEPT_BYTES = 64_000_000

KEY_FILE = "serve.key"


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
        secret: the client's API key; empty where none is needed.
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
        self._unkept: dict[str, Payload] = {}
        self._unkept_lock = threading.Lock()

    def close(self) -> None:
        self.ledgers.close()
        self.answers.close()

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
        return None if claim is None else self._answer(asked, claim)

    def can_be_kept(self) -> bool:
        """Whether an answer could be stored now; the log says why not."""
        try:
            self._stored(self.answers.probe)
        except ServiceError:
            return False
        return True

    def _once(self, asked: Asked, make: Callable[[PrivacyBudget | ChargeOnce], Payload]) -> Payload:
        assert asked.key is not None
        name = claim_name(asked.tenant, require_key(asked.key))
        fingerprint = self._hash_of(asked)
        claim = self._stored(lambda: self.answers.claim(name, self._period(asked), fingerprint))
        kept = self._answer(asked, claim)
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
        except PrivacyBudgetExhaustedError:
            # The ledger of that period has not paid for the key and will not: its total only grows.
            self._stored(lambda: self.answers.drop(name, claim.period))
            if claim.period == self._period(asked):
                raise
            return self._once(asked, make)
        self._keep(name, answer)
        return answer

    def _keep(self, name: str, answer: Payload) -> None:
        """Store an answer. Where that fails, on a full disk for instance, it is sent all the same, because it is paid for, and held in
        memory for a client that asks again."""
        from sqlalchemy.exc import SQLAlchemyError

        whole = bytes(answer.body)
        try:
            self.answers.keep(name, whole, {**answer.headers, "content-type": answer.media_type})
        except SQLAlchemyError as error:
            _log.error("an answer cannot be kept, and is lost when this process ends: %s", type(error).__name__)
            with self._unkept_lock:
                self._unkept[name] = Payload(whole, answer.media_type, answer.headers)
                while sum(len(one.body) for one in self._unkept.values()) > MOST_UNKEPT_BYTES:
                    self._unkept.pop(next(iter(self._unkept)))
        else:
            self._unkept.pop(name, None)

    def _answer(self, asked: Asked, claim: Claim) -> Payload | None:
        """The answer to a claimed request, if there is one."""
        if claim.fingerprint != self._hash_of(asked):
            raise ServiceError(422, "idempotency_key_reused", "Idempotency-Key was used for another request", param="Idempotency-Key")
        if claim.body is not None and claim.headers is not None:
            headers = dict(claim.headers)
            found = Payload(claim.body, headers.pop("content-type"), headers)
        else:
            name = claim_name(asked.tenant, asked.key or "")
            held = self._unkept.get(name)
            if held is None:
                return None
            self._keep(name, held)
            found = held
        return Payload(found.body, found.media_type, {**found.headers, "Idempotent-Replayed": "true"})

    def _hash_of(self, asked: Asked) -> str:
        return fingerprint_of(asked.secret.encode() or self._stored(lambda: self._local_secret), asked.path, asked.body)

    @cached_property
    def _local_secret(self) -> bytes:
        """In place of API keys where none are needed, for every process of this user: 32 random bytes, away from the store."""
        path = Path(default_file()).with_name(KEY_FILE)
        if not path.exists():
            private_folder(path.parent)
            with unfinished(path, mode=PRIVATE) as beside:
                beside.file.write(secrets.token_bytes(32))
                beside.complete()
                with suppress(FileExistsError):  # another process was faster, and its file is whole
                    beside.take_free_place()
        return path.read_bytes()

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
        except (SQLAlchemyError, OSError) as error:
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
