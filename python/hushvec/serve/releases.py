"""A release on request: its rows checked, its budget charged once, its noise drawn, its answer kept."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from hushvec._util.publish import is_first_to_write, private_folder
from hushvec.budget import PrivacyBudget, default_file, default_store, open_store
from hushvec.budget.store import PROBE
from hushvec.errors import AlreadyChargedError, BudgetError, PrivacyBudgetExhaustedError
from hushvec.extend import ChargeOnce, ReleasePlan, Store, StoreFailure, plan_release, release_planned
from hushvec.mechanisms import Mechanism, PublicCodebook, PublicProjection
from hushvec.release import Release
from hushvec.serve.answers import LONGEST_KEY, AnswerStore, Claim, claim_name, fingerprint_of
from hushvec.serve.bodies import BYTES_PER_NUMBER, JSON, Part
from hushvec.serve.failures import ServiceError, about_vectors, invalid, too_large
from hushvec.serve.metrics import span
from hushvec.serve.policy import BudgetTerms, Limits, Tenant, now_utc

_log = logging.getLogger("hushvec.serve")

MOST_KEPT_BYTES = 16_000_000  # of a request with an Idempotency-Key: its answer, of about the same size, is kept in a database
MOST_UNKEPT_BYTES = 64_000_000  # of answers that could not be kept, in this process
KEY_FILE = "serve.key"
LEAST_PART = 1e-3  # of the policy's epsilon, which a request may ask for


@dataclass(frozen=True)
class Payload:
    """The body of an answer and the headers that belong to it."""

    body: bytes | memoryview
    media_type: str
    headers: dict[str, str]


@dataclass(frozen=True)
class Asked:
    """A request to release something."""

    tenant: str
    terms: BudgetTerms
    limits: Limits
    secrets: tuple[str, ...]  # hashes of the tenant's keys, that of the key that was sent first; empty where none is needed
    path: str
    body: bytes | bytearray  # empty without a key
    key: str | None  # the Idempotency-Key

    @property
    def name(self) -> str:
        return claim_name(self.tenant, self.key or "")

    @cached_property
    def digest(self) -> bytes:
        digest = hashlib.sha256(self.path.encode() + b"\0")
        digest.update(self.body)
        return digest.digest()

    @property
    def period(self) -> str:
        return self.terms.period(now_utc())


class Releases:
    """Charges and answers of one store."""

    def __init__(self, ledgers: Ledgers, answers: AnswerStore) -> None:
        self.ledgers = ledgers
        self.answers = answers
        self._unkept: dict[str, tuple[str, Payload]] = {}  # by name, with the tenant
        self._unkept_lock, self._claiming = threading.Lock(), threading.Lock()

    def close(self) -> None:
        self.ledgers.close()
        self.answers.close()

    def run(self, asked: Asked, make: Callable[[PrivacyBudget | ChargeOnce], Payload], numbers: int = 0) -> Payload:
        """Answer a request by `make`, which charges the budget that it gets and releases, or by what was kept. The answer is
        about so many `numbers` long, for which there must be place."""
        try:
            with span("release"):
                if asked.key is None:
                    return make(self.ledgers.open(asked.tenant, asked.terms, asked.period))
                return self._once(asked, make, numbers * BYTES_PER_NUMBER)
        except PrivacyBudgetExhaustedError as error:
            raise exhausted(error, asked.terms) from None
        except AlreadyChargedError:
            rule = "this Idempotency-Key was charged and has no answer: it is being made, or it was lost."
            rule += " Try again, then with a new key"
            raise ServiceError(409, "already_charged", rule, param="Idempotency-Key", retry_after=1) from None
        except BudgetError as error:
            _log.error("ledger of tenant %s cannot be used: %s", asked.tenant, error.reason)
            raise _no_store(may_be_charged=error.may_be_charged) from None

    def admit(self, asked: Asked) -> None:
        """Refuse a wrong key, and a new one of a tenant whose answers take all of their place, before the body is read."""
        assert asked.key is not None
        if not 1 <= len(asked.key) <= LONGEST_KEY or not asked.key.isprintable():
            raise invalid(f"Idempotency-Key must be 1 to {LONGEST_KEY} printable characters", "Idempotency-Key")
        if self._stored(lambda: self.answers.find(asked.name)) is None:
            self._require_place(asked, 1)

    def find(self, asked: Asked) -> Payload | None:
        """Return the kept answer, looked up before any work is done."""
        if asked.key is None:
            return None
        if len(asked.body) > MOST_KEPT_BYTES:
            raise too_large(f"the body must have at most {MOST_KEPT_BYTES:,} bytes with an Idempotency-Key", "Idempotency-Key")
        claim = self._stored(lambda: self.answers.find(asked.name))
        return None if claim is None else self._answer(asked, claim)

    def _require_place(self, asked: Asked, size: int) -> None:
        count, held = self._stored(lambda: self.answers.held_for(asked.tenant))
        if count >= asked.limits.answers or held + size > asked.limits.answer_bytes:
            rule = f"at most {asked.limits.answers:,} answers and {asked.limits.answer_bytes:,} bytes of them are kept for a day: "
            rule += "repeat the request without an Idempotency-Key, or later"
            raise ServiceError(429, "too_many_answers", rule, param="Idempotency-Key", retry_after=3600)

    def can_be_kept(self) -> bool:
        """Return whether a charge and an answer could be stored now; the log says why not."""
        try:
            self._stored(self.ledgers.probe)
            self._stored(self.answers.probe)
        except ServiceError:
            return False
        return True

    def _once(self, asked: Asked, make: Callable[[PrivacyBudget | ChargeOnce], Payload], size: int) -> Payload:
        fingerprint = next(self._hashes_of(asked))
        with self._claiming:
            self._require_place(asked, size)
            claim = self._stored(lambda: self.answers.claim(asked.name, asked.period, fingerprint, asked.tenant, size))
        kept = self._answer(asked, claim)
        if kept is not None:
            return kept
        try:
            answer = make(ChargeOnce(self.ledgers.open(asked.tenant, asked.terms, claim.period), f"request {asked.name}"))
        except AlreadyChargedError:
            # Perhaps the answer was kept since the claim was read.
            kept = self.find(asked)
            if kept is None:
                raise
            return kept
        except (ServiceError, PrivacyBudgetExhaustedError) as error:
            # Nothing is charged, and the ledger of an earlier period will not pay for the key either: its total only grows.
            self._stored(lambda: self.answers.drop(asked.name, claim.period))
            if isinstance(error, ServiceError) or claim.period == asked.period:
                raise
            return self._once(asked, make, size)
        self._keep(asked.tenant, asked.name, answer)
        return answer

    def _keep(self, tenant: str, name: str, answer: Payload) -> None:
        """Store an answer. If that fails, it is sent all the same, because it is paid for, and held in memory."""
        from sqlalchemy.exc import SQLAlchemyError

        try:
            self.answers.keep(name, answer.body, {**answer.headers, "content-type": answer.media_type})
        except SQLAlchemyError as error:
            _log.error("an answer cannot be kept, and is lost when this process ends: %s", type(error).__name__)
            with self._unkept_lock:
                self._unkept[name] = tenant, answer
                sizes = Counter[str]()
                for owner, one in self._unkept.values():
                    sizes[owner] += len(one.body)
                while sizes.total() > MOST_UNKEPT_BYTES:  # the oldest of the tenant that has the most is let go
                    first = next(name for name, (owner, _) in self._unkept.items() if owner == sizes.most_common(1)[0][0])
                    owner, one = self._unkept.pop(first)
                    sizes[owner] -= len(one.body)
        else:
            self._unkept.pop(name, None)

    def _answer(self, asked: Asked, claim: Claim) -> Payload | None:
        if claim.fingerprint not in self._hashes_of(asked):
            raise ServiceError(422, "idempotency_key_reused", "Idempotency-Key was used for another request", param="Idempotency-Key")
        if claim.body is not None and claim.headers is not None:
            headers = dict(claim.headers)
            found = Payload(claim.body, headers.pop("content-type"), headers)
        else:
            held = self._unkept.get(asked.name)
            if held is None:
                return None
            found = held[1]
            self._keep(asked.tenant, asked.name, found)
        return Payload(found.body, found.media_type, {**found.headers, "Idempotent-Replayed": "true"})

    def _hashes_of(self, asked: Asked) -> Iterator[str]:
        """Return a hash by each of the tenant's keys: a client may repeat a request with a new one."""
        secrets = [secret.encode() for secret in asked.secrets] or [self._stored(lambda: self._local_secret)]
        return (fingerprint_of(secret, asked.digest) for secret in secrets)

    @cached_property
    def _local_secret(self) -> bytes:
        """In place of API keys where none are needed, for every process of this user: 32 random bytes, away from the store."""
        path = Path(default_file()).with_name(KEY_FILE)
        if not path.exists():
            private_folder(path.parent)
            is_first_to_write(path, secrets.token_bytes(32))  # or another process was faster, and its file is whole
        if not path.is_file() or len(secret := path.read_bytes()) != 32:
            raise BudgetError(f"{path}: must be the 32 bytes that a service wrote: restore it, or remove it for new ones")
        return secret

    @staticmethod
    def _stored(call: Callable[[], Any]) -> Any:
        from sqlalchemy.exc import SQLAlchemyError

        try:
            return call()
        except (SQLAlchemyError, OSError) as error:
            reason = error.reason if isinstance(error, BudgetError) else type(error).__name__
            _log.error("the store of ledgers and answers cannot be used: %s", reason)
            raise _no_store(may_be_charged=True) from None


def exhausted(error: PrivacyBudgetExhaustedError, terms: BudgetTerms) -> ServiceError:
    """Return error 402: what was asked for does not fit into what is left."""
    renewal = terms.renewal(now_utc())
    remaining = None
    if error.max_epsilon is not None and error.consumed_epsilon is not None:
        remaining = {
            "epsilon": max(0.0, error.max_epsilon - error.consumed_epsilon),
            "delta": max(0.0, (error.max_delta or 0.0) - (error.consumed_delta or 0.0)),
        }
    renews = "it does not renew" if renewal is None else f"it renews at {renewal.isoformat()}"
    return ServiceError(
        402, PrivacyBudgetExhaustedError.code,
        f"the privacy budget has not enough left for this release; {renews}",
        remaining=remaining,
        renews_at=None if renewal is None else renewal.isoformat(),
    )


def _no_store(*, may_be_charged: bool) -> ServiceError:
    message = "the ledger cannot be used; nothing was released"
    message += ". The charge may be recorded: repeat with the same Idempotency-Key" if may_be_charged else " or charged"
    return ServiceError(503, "ledger_unavailable", message, retry_after=1)


# ---- ledgers: one for each period of a tenant's budget, opened when they are first charged ----


# Of one tenant. A repeated request may still ask for the ledger of the period before.
_MOST_OPEN = 2


class Ledgers:
    """The ledgers of one store: that of `PrivacyBudget`, or $HUSHVEC_BUDGET_STORE or the default file if None."""

    def __init__(self, store: str | None) -> None:
        self.store = store if store is not None else default_store()
        self._probed: Store | None = None
        self._open: dict[str, OrderedDict[str, PrivacyBudget]] = {}
        self._lock = threading.Lock()

    def probe(self) -> None:
        """Write to the store, which is made if there is none, and take it back: BudgetError where a charge would fail."""
        self._probed = self._probed or open_store(self.store, create=True)
        try:
            with self._probed.write("", keep=False) as (transaction,):
                transaction.append(PROBE)
        except StoreFailure as failure:
            raise BudgetError(failure.reason) from None

    def open(self, tenant: str, terms: BudgetTerms, period: str) -> PrivacyBudget:
        """Return the ledger that pays in a period. One that exists keeps its limits until the next period."""
        with self._lock:
            mine = self._open.setdefault(tenant, OrderedDict())
            budget = mine.get(period)
            if budget is None:
                settings: dict[str, Any] = {"store": self.store, "charged_by": "hushvec serve"}
                key = ledger_key(tenant, period)
                try:
                    budget = PrivacyBudget(terms.epsilon, terms.delta, persist_key=key, **settings)
                except ValueError:  # it exists, with the limits of an earlier policy
                    budget = PrivacyBudget.reopen(key, **settings)
                mine[period] = budget
            mine.move_to_end(period)
            if len(mine) > _MOST_OPEN:
                mine.popitem(last=False)  # not closed: another request may hold it, and its connection ends with the last of them
            return budget

    def close(self) -> None:
        with self._lock:
            for budget in chain.from_iterable(mine.values() for mine in self._open.values()):
                budget.close()
            self._open.clear()
            if self._probed is not None:
                self._probed.close()


def ledger_key(tenant: str, period: str) -> str:
    return f"serve/{tenant}/{period}" if period else f"serve/{tenant}"


# ---- rows through a tenant's mechanism: plans kept per dimension and epsilon ----


def epsilon_of(tenant: Tenant, asked: float | None) -> float:
    """Return the epsilon of a request: the policy's, or a smaller one, down to a part of it that bounds the rows of a ledger."""
    if asked is None:
        return tenant.epsilon
    if not tenant.epsilon * LEAST_PART <= asked <= tenant.epsilon:
        rule = f"epsilon must be from {tenant.epsilon * LEAST_PART:g} to {tenant.epsilon:g}, the policy's"
        raise invalid(rule, "epsilon")
    return asked


def release_rows(
    rows: Any, tenant: Tenant, epsilon: float, budget: PrivacyBudget | ChargeOnce, *, notes: tuple[str, ...] = (),
    projection: PublicProjection | None = None, renormalize: bool = False,
) -> Release:
    """Release rows of floats [n, d], after the budget is charged; rows that the mechanism does not take are refused before.

    `renormalize`: to unit length after the noise, as codes of a codebook are.
    """
    with about_vectors("x"):
        plan = _planned(
            mechanism=tenant.mechanism, codebook=tenant.codebook, epsilon=epsilon,
            rows=len(rows) if tenant.per == "release" else 1,
            dimension=rows.shape[1], dtype=str(rows.dtype), delta=tenant.delta, clip_norm=tenant.clip_norm, per=tenant.per,
            renormalize=renormalize and tenant.codebook is None,
        )
        return release_planned(rows, plan, budget=budget, notes=notes, projection=projection)


@lru_cache(maxsize=256)
def _planned(*, mechanism: str | Mechanism, codebook: str | None, epsilon: float | None, rows: int, **settings: Any) -> ReleasePlan:
    if codebook is not None:
        mechanism, epsilon = load_codebook(codebook).mechanism(epsilon, rows_per_person=rows), None
    return plan_release(mechanism=mechanism, epsilon=epsilon, rows=rows, **settings)


@lru_cache(maxsize=16)
def load_codebook(path: str) -> Any:
    if Path(path).exists() and not Path(path).is_file():
        raise ValueError(f"{path}: must be a plain file")
    return PublicCodebook.load(path)


# ---- receipts on the wire: in the body, and in a header for clients that read no extension fields ----


HEADER = "Hushvec-Receipt"
_NUMBERS_AT_ONCE, _ITEMS_AT_ONCE = 8192, 16


def receipt_headers(receipt: Any) -> dict[str, str]:
    """Return the receipt as one line of ASCII JSON; none without one."""
    return {} if receipt is None else {HEADER: json.dumps(receipt.to_dict(), separators=(",", ":"), ensure_ascii=True)}


def json_payload(fields: dict[str, Any], receipt: Any = None, part: Part = nullcontext) -> Payload:
    """Encode the fields, which may hold arrays, and the receipt as a header. Lists and matrices are encoded by the part."""
    encoded, body = partial(orjson.dumps, option=orjson.OPT_SERIALIZE_NUMPY), bytearray()
    for name, value in fields.items():
        body += b"," + encoded(name) + b":"
        is_matrix = isinstance(value, np.ndarray) and value.ndim == 2
        step = 1 + (_NUMBERS_AT_ONCE // value.shape[1] if is_matrix else _ITEMS_AT_ONCE)
        if not (is_matrix or isinstance(value, list)) or len(value) <= step:
            body += encoded(value)
            continue
        for start in range(0, len(value), step):
            with part():
                body += (b"," if start else b"[") + encoded(value[start : start + step])[1:-1]
        body += b"]"
    body[:1] = b"{"
    body += b"}"
    return Payload(memoryview(body), JSON, receipt_headers(receipt))
