"""Rows through a tenant's mechanism: plans kept per dimension and epsilon, one release per request."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hushvec.release.vectors import Release, ReleasePlan, plan_release, release_planned
from hushvec.serve.failures import invalid
from hushvec.serve.policy import Tenant

if TYPE_CHECKING:
    from hushvec.budget import PrivacyBudget
    from hushvec.mechanisms import Mechanism, PublicProjection
    from hushvec.release.charging import ChargeOnce

NOTE_OWN_TEXT = "each row is taken to depend on its own text only"

_CLAIMS_WITHOUT_DELTA = 1e-5  # what `privatize` takes and does not use


def epsilon_of(tenant: Tenant, asked: float | None) -> float:
    """The epsilon of a request: the policy's, or a smaller one that it asks for."""
    if asked is None:
        return tenant.epsilon
    if not 0 < asked <= tenant.epsilon:
        raise invalid(f"epsilon must be above 0 and at most {tenant.epsilon:g}, the policy's", "epsilon")
    return asked


def release_rows(
    rows: Any,
    tenant: Tenant,
    epsilon: float,
    budget: PrivacyBudget | ChargeOnce,
    *,
    notes: tuple[str, ...] = (),
    projection: PublicProjection | None = None,
) -> Release:
    """Rows of floats [n, d] through the mechanism, after the budget is charged.

    Raises:
        ServiceError: rows that the mechanism does not take. Nothing is charged.
        PrivacyBudgetExhaustedError, BudgetError, AlreadyChargedError: of the budget.
    """
    try:
        plan = _plan(tenant, rows.shape, str(rows.dtype), epsilon)
        return release_planned(rows, plan, budget=budget, notes=notes, projection=projection)
    except (ValueError, TypeError) as error:
        raise invalid(_about_rows(error)) from None


def _plan(tenant: Tenant, shape: tuple[int, ...], dtype: str, epsilon: float) -> ReleasePlan:
    rows, dimension = shape
    return _planned(
        rows if tenant.per == "release" else 1,
        dimension,
        dtype,
        tenant.mechanism,
        tenant.codebook,
        epsilon,
        tenant.delta if tenant.mechanism == "gaussian" else _CLAIMS_WITHOUT_DELTA,
        tenant.clip_norm,
        tenant.per,
    )


@lru_cache(maxsize=256)
def _planned(
    rows: int, dimension: int, dtype: str, name: str, codebook: str | None, epsilon: float, delta: float, clip_norm: float, per: str
) -> ReleasePlan:
    mechanism: str | Mechanism = name
    if codebook is not None:
        mechanism = load_codebook(codebook).mechanism(epsilon, rows_per_person=rows if per == "release" else 1)
    return plan_release(
        rows=rows,
        dimension=dimension,
        dtype=dtype,
        epsilon=None if codebook is not None else epsilon,
        delta=delta,
        clip_norm=clip_norm,
        mechanism=mechanism,
        sigma=None,
        normalize=False,
        renormalize=False,
        per=per,
        generator=None,
    )


@lru_cache(maxsize=16)
def load_codebook(path: str) -> Any:
    from hushvec.mechanisms import PublicCodebook

    return PublicCodebook.load(path)


def _about_rows(error: Exception) -> str:
    """The library's errors about rows name a row and a rule; the library's name for them is x."""
    return "vectors" + str(error).removeprefix("x") if str(error).startswith("x ") else str(error)
