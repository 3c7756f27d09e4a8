"""Rewriters of the service: which mechanisms it offers for a text, what they cost, and rewriters kept for the next request."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from hushvec.budget import BudgetState
from hushvec.data import public_sentences
from hushvec.serve.failures import ServiceError, invalid
from hushvec.serve.policy import Tenant
from hushvec.text.inverters.public import on_grid
from hushvec.text.pii.redactor import Redactor
from hushvec.text.rewriting.rewriter import Rewriter

# Not here: "l2_laplace", whose releases are no DP claim, and "laplacian", whose guarantee is that of "privunit", which keeps the
# subject of more texts. "gaussian" hardly ever keeps it; it is here because people ask for it, and the page says what to expect.
RewritingMechanism = Literal["randomized_response", "privunit", "gaussian"]
DEFAULT_MECHANISM: RewritingMechanism = "randomized_response"

# Everything in the output follows from one release. Chunks would show where finds stood among them, without a guarantee.
_LEVEL = "document"

# At a low epsilon the best guess from a release is nearly always the same public text. A trial on public texts shows it.
TRIAL_RELEASES = 60
SHARE_TO_WARN_OF = 0.5

# The first rewriter loads a model and embeds the public texts. Requests that come meanwhile wait for it.
_building = threading.Lock()


def delta_of(tenant: Tenant, mechanism: str) -> float:
    return tenant.delta if mechanism == "gaussian" else 0.0


def is_offered(tenant: Tenant, mechanism: str, state: BudgetState) -> bool:
    """Whether the whole budget of a period has room for one such release."""
    delta = delta_of(tenant, mechanism)
    return delta == 0 or delta <= (state.max_delta or 0.0)


def offers(tenant: Tenant, state: BudgetState) -> list[dict[str, str | float]]:
    """The mechanisms that a tenant may ask for, the default first, with their delta."""
    names = get_args(RewritingMechanism)
    return [{"mechanism": name, "delta": delta_of(tenant, name)} for name in names if is_offered(tenant, name, state)]


def rewriter_for(
    epsilon: float,
    allow_categories: list[str] | None = None,
    allow_list: list[str] | None = None,
    *,
    mechanism: str = DEFAULT_MECHANISM,
    delta: float = 0.0,
) -> Rewriter:
    """A rewriter at this epsilon. Those with an `allow_list` are made anew: its texts are private and must not be kept."""
    categories = tuple(sorted(set(allow_categories or ())))
    try:
        with _building:
            if not allow_list:
                return _kept_rewriter(epsilon, categories, mechanism, delta)
            redactor = Redactor(allow_categories=categories or None, allow_list=allow_list)
            return Rewriter(epsilon=epsilon, delta=delta, mechanism=mechanism, level=_LEVEL, redactor=redactor)
    except ValueError:
        try:
            Redactor(allow_categories=categories or None)
        except ValueError:
            raise unknown_category() from None
        raise out_of_range(mechanism) from None


@dataclass(frozen=True)
class Trial:
    """Variety of answers: TRIAL_RELEASES different public texts, rewritten."""

    epsilon: float
    different: int  # answers among them that differ
    most_common: int  # times that the most frequent answer came

    def fields(self) -> dict[str, object]:
        """For a response; `warning` is None unless one answer came more often than all others together."""
        warning = None
        if self.most_common > SHARE_TO_WARN_OF * TRIAL_RELEASES:
            warning = (
                f"{self.most_common} of {TRIAL_RELEASES} different public texts got the same answer at epsilon {self.epsilon:.3g}: "
                "the answer says little about the text"
            )
        counts = {"releases": TRIAL_RELEASES, "different": self.different, "most_common": self.most_common}
        return {"trial": {"epsilon": self.epsilon, **counts}, "warning": warning}


def trial_for(epsilon: float, mechanism: str, delta: float) -> Trial:
    """The trial at the power of sqrt(2) nearest to epsilon, made once: public texts cost no budget."""
    with _building:
        try:
            return _trial(on_grid(epsilon), mechanism, delta)
        except ValueError:  # at the end of the mechanism's range
            try:
                return _trial(epsilon, mechanism, delta)
            except ValueError:
                raise out_of_range(mechanism) from None


@lru_cache(maxsize=256)
def _trial(epsilon: float, mechanism: str, delta: float) -> Trial:
    texts = public_sentences()
    texts = texts[:: len(texts) // TRIAL_RELEASES][:TRIAL_RELEASES]
    answers = Counter(one.output for one in _kept_rewriter(epsilon, (), mechanism, delta).rewrite_all(texts))
    return Trial(epsilon, len(answers), max(answers.values()))


@lru_cache(maxsize=64)
def _kept_rewriter(epsilon: float, allow_categories: tuple[str, ...], mechanism: str, delta: float) -> Rewriter:
    return Rewriter(epsilon=epsilon, delta=delta, mechanism=mechanism, level=_LEVEL, allow_categories=allow_categories or None)


def unknown_category() -> ServiceError:
    return invalid("allow_categories must name categories of personal data", "allow_categories")


def out_of_range(mechanism: str) -> ServiceError:
    return invalid(f"epsilon must be in the range of mechanism {mechanism}", "epsilon")
