"""State that all requests of a process share: the policy in force, open models, ledgers, threads."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from prometheus_client import Gauge
from starlette.requests import Request

from hushvec.budget import BudgetState, PrivacyBudget
from hushvec.errors import BudgetError
from hushvec.serve.answers import AnswerStore
from hushvec.serve.failures import ServiceError, busy, invalid
from hushvec.serve.keys import hash_of, owner_of
from hushvec.serve.metrics import Metrics
from hushvec.serve.models import NOBODY, ServedModel, Turns
from hushvec.serve.policy import OPERATOR, AnyModel, Policy, Tenant, now_utc
from hushvec.serve.released_rows import ReleasedRows
from hushvec.serve.releases import Asked, Ledgers, Releases, load_codebook
from hushvec.serve.reloading import PolicyInForce, redactor_of
from hushvec.text.pii.redactor import Redactor

_log = logging.getLogger("hushvec.serve")

SECONDS_BETWEEN_CHECKS = 1.0
SECONDS_BETWEEN_OPENINGS = 10.0


@dataclass(frozen=True)
class Account:
    """A tenant and its part of the policy, as it is for one request."""

    name: str
    tenant: Tenant


@dataclass(frozen=True)
class Caller(Account):
    """A tenant that sent a request, which it releases for."""

    secret: str  # the key that was sent; empty for the one tenant without keys

    def asked(self, request: Request, body: bytearray) -> Asked:
        """Return the request, for `Releases`, which read the body where there is a key."""
        key = request.headers.get("idempotency-key")
        sent = hash_of(self.secret)
        keys = (sent, *(known for known in self.tenant.keys if known != sent)) if self.secret else ()
        body = body if key is not None else bytearray()
        terms, limits = self.tenant.budget, self.tenant.limits
        return Asked(self.name, terms=terms, limits=limits, secrets=keys, path=request.url.path, body=body, key=key)

    @cached_property
    def redactor(self) -> Redactor | None:
        """Redactor of personal data in this tenant's texts; None where the policy asks for none."""
        return redactor_of(self.tenant.redact)

    def clean(self, texts: list[str]) -> list[str]:
        """Return the texts that a model may see."""
        return texts if self.redactor is None else [redaction.text for redaction in self.redactor.redact_all(texts)]


@dataclass(frozen=True)
class Operator:
    """A sender who reads the accounts of every tenant."""

    accounts: tuple[Account, ...]


class Service:
    """A running service; arguments and errors are those of `PolicyInForce`, and BudgetError where a store cannot be used."""

    def __init__(self, policy: Policy, path: Path | None = None, host: str | None = None, kept: Path | None = None) -> None:
        self.in_force = PolicyInForce(policy, path, host, kept)
        self.path = path
        self.metrics = Metrics()
        self.work = Work(self.metrics.waiting)
        self.releases = opened_stores(policy)
        self.released_rows = ReleasedRows(self.releases.ledgers.store)
        self._models: dict[str, ServedModel] = {}
        self._failed: dict[str, tuple[AnyModel, float]] = {}
        self._opening: dict[str, threading.Lock] = {}
        self._checking = threading.Lock()
        self._checked_at = float("-inf")
        self._is_ready = False

    @property
    def policy(self) -> Policy:
        return self.in_force.policy

    def sender(self, request: Request) -> Caller | Operator:
        """Return the sender of a request; a missing, a wrong and a revoked key are the same error 401."""
        policy = self.policy
        if not policy.needs_keys:
            name, tenant = next(iter(policy.tenants.items()))
            return Caller(name, tenant, "")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        owner = owner_of(key.strip(), self.in_force.valid_keys_of(policy)) if scheme.lower() == "bearer" else None
        if owner is None:
            raise ServiceError(401, "invalid_api_key", "a valid API key must be sent: Authorization: Bearer KEY")
        if owner == OPERATOR:
            return Operator(tuple(Account(name, tenant) for name, tenant in policy.tenants.items()))
        return Caller(owner, policy.tenants[owner], key.strip())

    def ledger(self, account: Account) -> PrivacyBudget:
        """Return the ledger that pays for a tenant in the present period."""
        terms = account.tenant.budget
        with readable_ledger():
            return self.releases.ledgers.open(account.name, terms, terms.period(now_utc()))

    def budget_state(self, account: Account) -> BudgetState:
        budget = self.ledger(account)
        with readable_ledger():
            return budget.state()

    def model_name(self, caller: Caller, asked: str | None) -> str:
        """Return the model that a request means; the tenant's first one if it names none."""
        allowed = caller.tenant.models
        if asked is None:
            return allowed[0]
        if asked not in allowed:
            raise ServiceError(404, "model_not_found", f"model must be one of {', '.join(allowed)}", param="model")
        return asked

    def model(self, name: str) -> ServedModel:
        """Return an open model; the first request waits until it is loaded. One that failed is tried again after some seconds."""
        with self._opening.setdefault(name, threading.Lock()):
            settings = self.policy.models.get(name)
            if settings is None:  # it left the policy since the request was checked
                raise ServiceError(404, "model_not_found", "model is no longer in the policy", param="model")
            found = self._models.get(name)
            if found is not None and found.settings == settings:
                return found
            failed, since = self._failed.get(name, (None, 0.0))
            if failed == settings and time.monotonic() < since + SECONDS_BETWEEN_OPENINGS:
                raise _unavailable(name)
            try:
                found = self._models[name] = ServedModel(name, settings)
            except (Exception, SystemExit) as error:  # of the model's code, which may do anything; no request's text is in it yet
                self._failed[name] = settings, time.monotonic()
                _log.error("model %s cannot be opened: %s: %s", name, type(error).__name__, error)
                raise _unavailable(name) from None
            return found

    def open_models(self) -> bool:
        """Open every model that a tenant uses, so that no request waits for it; returns whether any could be opened. The log says
        which could not, and requests for those are answered with 503."""
        names = {name for tenant in self.policy.tenants.values() for name in tenant.models}
        return sum(map(self._opens, sorted(names))) > 0  # all of them

    def _opens(self, name: str) -> bool:
        try:
            self.model(name)
        except ServiceError:
            return False
        return True

    def is_ready(self) -> bool:
        """Return whether a release would succeed: the stores can be written to, and a tenant has a ledger that can be read, a
        model that is open, and its codebook. The log says what fails. Asked more than once a second, the answer is the last one."""
        with self._checking:
            if time.monotonic() > self._checked_at + SECONDS_BETWEEN_CHECKS:
                accounts = [Account(name, tenant) for name, tenant in self.policy.tenants.items()]
                self._is_ready = self.releases.can_be_kept() and any(self._can_release(account) for account in accounts)
                self._checked_at = time.monotonic()
            return self._is_ready

    def _can_release(self, account: Account) -> bool:
        try:
            if account.tenant.codebook is not None:
                load_codebook(account.tenant.codebook)
            self.budget_state(account)
        except (ServiceError, ValueError, OSError) as error:
            _log.error("tenant %s: releases fail: %s", account.name, error)
            return False
        return any(map(self._opens, account.tenant.models))

    def reload(self) -> bool:
        """Do `PolicyInForce.reload`, and open the models."""
        changed = self.in_force.reload()
        if changed:
            self.open_models()
        return changed

    def close(self) -> None:
        for model in self._models.values():
            model.close()
        self.releases.close()
        self.released_rows.close()
        self.metrics.close()


def opened_stores(policy: Policy) -> Releases:
    """Return the policy's stores, made if there are none."""
    ledgers = Ledgers(policy.store)
    ledgers.probe()
    return Releases(ledgers, AnswerStore(ledgers.store))


def _unavailable(name: str) -> ServiceError:
    return ServiceError(503, "model_unavailable", f"model {name} cannot be opened; see the service's log")


@contextlib.contextmanager
def readable_ledger() -> Iterator[None]:
    """Answer 503 where a ledger fails while it is read."""
    try:
        yield
    except BudgetError:
        raise ServiceError(503, "ledger_unavailable", "the ledger cannot be read", retry_after=1) from None


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def require_rows(count: int, caller: Caller) -> None:
    """Refuse more rows than the tenant's limit."""
    if count > (most := caller.tenant.limits.rows):
        raise invalid(f"vectors must have at most {most} rows, got {count}", "vectors")


def require_texts(texts: list[str], caller: Caller, param: str) -> None:
    """Refuse texts beyond the tenant's limits."""
    limits = caller.tenant.limits
    if not texts:
        raise invalid(f"{param} must hold at least 1 text, got 0", param)
    if len(texts) > limits.texts:
        raise invalid(f"{param} must hold at most {limits.texts} texts, got {len(texts)}", param)
    for number, text in enumerate(texts):
        if not text.strip():
            raise invalid(f"{param} must not hold an empty text, got one at position {number}", param)
        if len(text) > limits.characters:
            rule = f"{param} must have at most {limits.characters} characters each"
            raise invalid(f"{rule}, got {len(text)} at position {number}", param)


# ---- threads for what computes or waits for a disk: some for each tenant, so that no tenant waits for what another asked ----


Answer = TypeVar("Answer")

THREADS = 8          # of a tenant
MOST_WAITING = 64    # of its requests, for a thread
REST = 0.0002       # seconds, at least, between parts of long work
BODIES = 4           # how many times the limit of one body all bodies of a tenant may have


@dataclass
class _Share:  # of a tenant
    limiter: anyio.CapacityLimiter
    inside: int = 0
    bytes: int = 0


class Work:
    """Runs calls in threads, with bounds for each tenant: other tenants do not wait. The gauge follows how many run or wait."""

    def __init__(self, gauge: Gauge, threads: int = THREADS, most_waiting: int = MOST_WAITING) -> None:
        self._gauge = gauge
        self._most = threads + most_waiting
        self._turns = Turns()
        self._shares: dict[str, _Share] = defaultdict(lambda: _Share(anyio.CapacityLimiter(threads)))

    async def run(self, call: Callable[[], Answer], tenant: str = NOBODY) -> Answer:
        """Return the call's answer. Once begun, a call goes on even if its client leaves: what it charged is released and kept."""
        share = self._shares[tenant]
        if share.inside >= self._most:
            raise busy("the service is busy: too many requests wait")
        share.inside += 1
        self._gauge.inc()
        try:
            # A thread cannot be stopped: without `abandon_on_cancel`, who is canceled waits for it.
            return await anyio.to_thread.run_sync(call, limiter=share.limiter)
        finally:
            share.inside -= 1
            self._gauge.dec()

    @contextlib.contextmanager
    def part(self, tenant: str) -> Iterator[None]:
        """Hold a turn for a part of long work in Python, which keeps the interpreter's lock: one at a time, with a rest, twice as
        long as the part where other tenants' requests are at hand."""
        with self._turns.of(tenant):
            began = time.thread_time()
            yield
            others = any(share.inside for name, share in list(self._shares.items()) if name != tenant)
            time.sleep(max(REST, 2 * others * (time.thread_time() - began)))

    @contextlib.contextmanager
    def body(self, tenant: str, most: int) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts bytes of a body until the block ends, and refuses more than BODIES times `most` of a tenant."""
        share, taken = self._shares[tenant], 0

        def take(size: int) -> None:
            nonlocal taken
            if share.bytes + size > BODIES * most:
                raise busy(f"the service is busy: it has {BODIES * most:,} bytes of requests at hand")
            share.bytes += size
            taken += size

        try:
            yield take
        finally:
            share.bytes -= taken
