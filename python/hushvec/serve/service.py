"""What all requests of a process share: the policy in force, open models, ledgers, threads."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from starlette.requests import Request

from hushvec.budget import BudgetState, PrivacyBudget
from hushvec.errors import BudgetError
from hushvec.integrations.detectors import detector
from hushvec.serve.answers import AnswerStore
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.keys import owner_of
from hushvec.serve.ledgers import Ledgers, answers_url
from hushvec.serve.metrics import Metrics
from hushvec.serve.models import ServedModel
from hushvec.serve.policy import OPERATOR, Policy, Redaction, Tenant, now_utc, read_policy
from hushvec.serve.releases import Asked, Releases
from hushvec.serve.work import Work
from hushvec.text.pii.redactor import Redactor

_log = logging.getLogger("hushvec.serve")


@dataclass(frozen=True)
class Account:
    """A tenant and its part of the policy, as it is for one request."""

    name: str
    tenant: Tenant


@dataclass(frozen=True)
class Caller(Account):
    """Whom a request is from: the tenant that it releases for.

    Args:
        secret: the key that was sent; empty for the one tenant without keys.
    """

    secret: str

    def asked(self, request: Request, body: bytearray) -> Asked:
        """The request, for `Releases`, which read the body where there is a key."""
        key = request.headers.get("idempotency-key")
        return Asked(self.name, self.tenant.budget, self.secret, request.url.path, body if key is not None else b"", key)

    @cached_property
    def redactor(self) -> Redactor | None:
        """What replaces personal data in this tenant's texts; None where the policy asks for none."""
        return redactor_of(self.tenant.redact)


@dataclass(frozen=True)
class Operator:
    """Whom a request is from: somebody who reads the accounts of every tenant.

    Args:
        accounts: all of them.
    """

    accounts: tuple[Account, ...]


class Service:
    """A running service.

    Args:
        policy: what is in force.
        path: of its file, for `reload`; None without one.

    Raises:
        ValueError, OSError, MissingExtraError: as for `require_redactors`.
    """

    def __init__(self, policy: Policy, path: Path | None = None) -> None:
        require_redactors(policy)
        self.policy = policy
        self.path = path
        self.metrics = Metrics()
        self.work = Work(self.metrics.waiting)
        ledgers = Ledgers(policy.store)
        self.releases = Releases(ledgers, AnswerStore(answers_url(policy.store)))
        self._models: dict[str, ServedModel] = {}
        self._opening = threading.Lock()

    # ---- who ----

    def sender(self, request: Request) -> Caller | Operator:
        """Whom a request is from.

        Raises:
            ServiceError: 401, the same for a missing, wrong and revoked key.
        """
        policy = self.policy
        if not policy.needs_keys:
            name, tenant = next(iter(policy.tenants.items()))
            return Caller(name, tenant, "")
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        owner = owner_of(key.strip(), policy.owners_of_keys()) if scheme.lower() == "bearer" else None
        if owner is None:
            raise ServiceError(401, "invalid_api_key", "a valid API key must be sent: Authorization: Bearer KEY")
        if owner == OPERATOR:
            return Operator(tuple(Account(name, tenant) for name, tenant in policy.tenants.items()))
        return Caller(owner, policy.tenants[owner], key.strip())

    # ---- budgets ----

    def ledger(self, account: Account) -> PrivacyBudget:
        """The ledger that pays for a tenant in the present period."""
        terms = account.tenant.budget
        with readable_ledger():
            return self.releases.ledgers.open(account.name, terms, terms.period(now_utc()))

    def budget_state(self, account: Account) -> BudgetState:
        """What is spent and left in it."""
        budget = self.ledger(account)
        with readable_ledger():
            return budget.state()

    # ---- models ----

    def model_name(self, caller: Caller, asked: str | None) -> str:
        """The model that a request means; the tenant's first one if it names none."""
        allowed = caller.tenant.models
        if asked is None:
            return allowed[0]
        if asked not in allowed:
            raise ServiceError(404, "model_not_found", f"model must be one of {', '.join(allowed)}", param="model")
        return asked

    def model(self, name: str) -> ServedModel:
        """An open model; the first request for it waits until it is loaded."""
        found = self._models.get(name)
        if found is not None and found.settings == self.policy.models[name]:
            return found   # without waiting for another one that is being loaded
        with self._opening:
            settings = self.policy.models[name]
            found = self._models.get(name)
            if found is None or found.settings != settings:
                try:
                    found = self._models[name] = ServedModel(name, settings)
                except (OSError, ValueError, ImportError, AttributeError) as error:
                    _log.error("model %s cannot be opened: %s: %s", name, type(error).__name__, error)
                    raise ServiceError(503, "model_unavailable", f"model {name} cannot be opened; see the service's log") from None
            return found

    def open_models(self) -> None:
        """Open every model that a tenant uses, so that no request waits for it."""
        for name in {name for tenant in self.policy.tenants.values() for name in tenant.models}:
            self.model(name)

    def is_ready(self) -> bool:
        """Whether models are open and the ledgers' database answers."""
        try:
            self.open_models()
            self.releases.answers.find("")
        except Exception as error:
            _log.error("not ready: %s", type(error).__name__)
            return False
        return True

    # ---- the policy ----

    def reload(self) -> None:
        """Put the file's policy in force. A file that is wrong changes nothing.

        Raises:
            ValueError, OSError: the file is no policy, names another store, or leaves a tenant without keys.
            ValueError, OSError, MissingExtraError: as for `require_redactors`.
        """
        if self.path is None:
            raise ValueError("there is no policy file to read again")
        fresh = read_policy(self.path)
        if fresh.store != self.policy.store:
            raise ValueError("store must stay the same while the service runs")
        if self.policy.needs_keys and fresh.tenants_without_keys():
            raise ValueError(f"tenants.{fresh.tenants_without_keys()[0]}.keys must not be empty while the service runs")
        require_redactors(fresh)
        self.policy = fresh

    def close(self) -> None:
        for model in self._models.values():
            model.close()
        self.releases.ledgers.close()
        self.releases.answers.close()
        self.metrics.close()


def require_redactors(policy: Policy) -> None:
    """Make every tenant's redactor once: its models are loaded before the first request, and what is missing is said now.

    Raises:
        ValueError: a category that does not exist, or an entry that names no detector.
        OSError: there is no such model.
        MissingExtraError: the library of a detector is not installed.
    """
    for name, tenant in policy.tenants.items():
        try:
            redactor_of(tenant.redact)
        except ValueError as error:
            raise ValueError(f"tenants.{name}.redact: {error}") from None


def redactor_of(settings: bool | Redaction) -> Redactor | None:
    if settings is False:
        return None
    chosen = Redaction() if settings is True else settings
    return Redactor(
        patterns=chosen.categories,
        allow_categories=chosen.allow_categories or None,
        allow_list=chosen.allow_list or None,
        replacement=chosen.replacement,
        detectors=[detector(entry) for entry in chosen.detectors] or None,
    )


@contextlib.contextmanager
def readable_ledger() -> Iterator[None]:
    """A ledger that fails while it is read makes the answer 503."""
    try:
        yield
    except BudgetError:
        raise ServiceError(503, "ledger_unavailable", "the ledger cannot be read", retry_after=1) from None


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def require_texts(texts: list[str], caller: Caller, param: str) -> None:
    """Texts within the tenant's limits."""
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
