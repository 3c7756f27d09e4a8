"""`POST /v1/redact` and `POST /v1/rewrite`: texts without personal data, and texts as public ones; the mechanisms of rewritings,
their costs, and rewriters kept for the next request."""

from __future__ import annotations

import contextlib
import math
import threading
from collections import Counter
from typing import Any, Literal, get_args

from fastapi import APIRouter
from pydantic import Field

from hushvec.budget import BudgetState
from hushvec.data import public_sentences
from hushvec.serve.bodies import Epsilon, Fields
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.models import NOBODY, Kept, Turns
from hushvec.serve.policy import Redaction, Tenant
from hushvec.serve.releases import Payload, epsilon_of, json_payload
from hushvec.serve.reloading import redactor_of
from hushvec.serve.routes import Run, endpoint
from hushvec.serve.service import Caller, Service, require_texts
from hushvec.text.inverters.public import on_grid
from hushvec.text.pii.redactor import Redactor
from hushvec.text.rewriting.chunks import Chunking
from hushvec.text.rewriting.rewriter import Rewriter

router = APIRouter(tags=["texts"])

# Not here: "l2_laplace", whose releases are no DP claim, and "laplacian", whose guarantee is that of "privunit", which keeps the
# subject of more texts. "gaussian" hardly ever keeps it; it is here because people ask for it, and the page says what to expect.
RewritingMechanism = Literal["randomized_response", "privunit", "gaussian"]
DEFAULT_MECHANISM: RewritingMechanism = "randomized_response"

# Everything in the output follows from one release. Chunks would show where finds stood among them, without a guarantee.
_LEVEL = "document"

# At a low epsilon the best guess from a release is nearly always the same public text. A trial on public texts shows it.
TRIAL_RELEASES = 60
SHARE_TO_WARN_OF = 0.5

# Rewriting takes the processors: tenants take turns, with one text each.
_turns = Turns()


class RedactRequest(Fields):
    """A text, and what stays in it."""

    text: str
    allow_categories: list[str] = Field(default=[], max_length=100, description="categories that are not looked for")
    allow_list: list[str] = Field(default=[], max_length=1000, description="finds that stay: exact texts")


class RewriteRequest(RedactRequest):
    """A text that is about one person."""

    epsilon: Epsilon = None
    mechanism: RewritingMechanism = Field(default=DEFAULT_MECHANISM, description="gaussian costs the policy's delta as well")


@endpoint(router, "/v1/redact", RedactRequest)
def redact(service: Service, caller: Caller, asked: RedactRequest, run: Run) -> Payload:
    """Personal data found by rules and replaced by placeholders. No differential privacy: nothing is charged."""
    require_texts([asked.text], caller, "text")
    redaction = _redactor(caller, asked).redact(asked.text)
    return json_payload({**redaction.to_dict(private=False), "is_dp_claim": False})


def _redactor(caller: Caller, asked: RedactRequest) -> Redactor:
    """Return the tenant's redactor, with what this request allows beyond the policy."""
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


@endpoint(router, "/v1/rewrite", RewriteRequest)
def rewrite(service: Service, caller: Caller, asked: RewriteRequest, run: Run) -> Payload:
    """The text as a public one, by a mechanism of differential privacy. Charged."""
    require_texts([asked.text], caller, "text")
    epsilon, mechanism = epsilon_of(caller.tenant, asked.epsilon), asked.mechanism
    delta = delta_of(caller.tenant, mechanism)
    if delta and not is_offered(caller.tenant, mechanism, state := service.budget_state(caller)):
        rule = f"mechanism {mechanism} costs delta {delta:g}, and the whole budget has delta {state.max_delta or 0.0:g}"
        raise ServiceError(403, "not_in_policy", rule, param="mechanism")
    rewriter = rewriter_for(epsilon, asked.allow_categories, asked.allow_list, mechanism=mechanism, delta=delta, tenant=caller.name)
    trial = trial_for(epsilon, mechanism, delta, caller.name)

    def make(budget: Any) -> Payload:
        try:
            with _turns.of(caller.name):
                rewriting = rewriter.rewrite(asked.text, budget=budget)
        except ValueError:  # before the charge, as every error about arguments
            raise out_of_range(mechanism) from None
        service.metrics.released(caller.name, rewriting.n_chunks, rewriting.epsilon_total)
        return json_payload({**rewriting.to_dict(private=False), **trial}, rewriting.receipt)

    return run(make)


def delta_of(tenant: Tenant, mechanism: str) -> float:
    """Return the delta of a rewriting."""
    return tenant.delta if mechanism == "gaussian" else 0.0


def is_offered(tenant: Tenant, mechanism: str, state: BudgetState) -> bool:
    """Return whether the whole budget of a period has room for one such release."""
    delta = delta_of(tenant, mechanism)
    return delta == 0 or delta <= (state.max_delta or 0.0)


def offers(tenant: Tenant, state: BudgetState) -> list[dict[str, str | float]]:
    """Return the mechanisms that a tenant may ask for, the default first, with their delta."""
    names = get_args(RewritingMechanism)
    return [{"mechanism": name, "delta": delta_of(tenant, name)} for name in names if is_offered(tenant, name, state)]


def rewriter_for(
    epsilon: float, allow_categories: list[str] | None = None, allow_list: list[str] | None = None, *,
    mechanism: str = DEFAULT_MECHANISM, delta: float = 0.0, tenant: str = NOBODY,
) -> Rewriter:
    """Return a rewriter at this epsilon. Those with an `allow_list` are made anew: its texts are private and must not be kept."""
    categories = tuple(sorted(set(allow_categories or ())))
    try:
        kept = kept_rewriter(tenant, epsilon, categories, mechanism, delta)  # first: it embeds the public texts by turns
        return kept if not allow_list else _rewriter(epsilon, categories, mechanism, delta, allow_list)
    except ValueError:
        try:
            Redactor(allow_categories=categories or None)
        except ValueError:
            raise unknown_category() from None
        raise out_of_range(mechanism) from None


def _rewriter(epsilon: float, categories: tuple[str, ...], mechanism: str, delta: float, allow_list: Any = None) -> Rewriter:
    redactor = Redactor(allow_categories=categories or None, allow_list=allow_list)
    return Rewriter(epsilon=epsilon, delta=delta, mechanism=mechanism, chunking=Chunking(level=_LEVEL), redactor=redactor)


kept_rewriter = Kept(_rewriter, 64)  # the first one loads a model and embeds the public texts

_trials: dict[tuple[float, str, float], dict[str, object]] = {}  # few: their epsilons are powers of sqrt(2) within a policy's range
_trying: dict[tuple[float, str, float], threading.Lock] = {}


def trial_for(epsilon: float, mechanism: str, delta: float, tenant: str = NOBODY) -> dict[str, object]:
    """Return the variety of answers: of different public texts, rewritten at the power of sqrt(2) nearest to epsilon that the
    mechanism takes.

    Made once, in the tenant's turns: public texts cost no budget. "warning" is None unless one answer came more often than all
    others together.
    """
    for step in (1.0, math.sqrt(2), math.sqrt(0.5)):
        key = (on_grid(epsilon * step), mechanism, delta)
        with contextlib.suppress(ValueError):  # beyond the mechanism's range
            if key not in _trials:
                with _trying.setdefault(key, threading.Lock()):
                    if key not in _trials:
                        _trials[key] = _trial(*key, tenant)
            return _trials[key]
    raise out_of_range(mechanism)


def _trial(epsilon: float, mechanism: str, delta: float, tenant: str) -> dict[str, object]:
    texts, answers = public_sentences(), Counter[str]()
    rewriter = kept_rewriter(tenant, epsilon, (), mechanism, delta)
    for text in texts[:: len(texts) // TRIAL_RELEASES][:TRIAL_RELEASES]:
        with _turns.of(tenant):
            answers[rewriter.rewrite(text).output] += 1
    most, warning = max(answers.values()), None
    if most > SHARE_TO_WARN_OF * TRIAL_RELEASES:
        same = f"{most} of {TRIAL_RELEASES} different public texts got the same answer at epsilon {epsilon:.3g}"
        warning = f"{same}: the answer says little about the text"
    trial = {"epsilon": epsilon, "releases": TRIAL_RELEASES, "different": len(answers), "most_common": most}
    return {"trial": trial, "warning": warning}


def unknown_category() -> ServiceError:
    return invalid("allow_categories must name categories of personal data", "allow_categories")


def out_of_range(mechanism: str) -> ServiceError:
    return invalid(f"epsilon must be in the range of mechanism {mechanism}", "epsilon")
