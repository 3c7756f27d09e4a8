"""An Opacus engine's account beside this library's, for the same steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from opacus import PrivacyEngine

from hushvec._util import validate
from hushvec.accounting import Accountant, PoissonSampledGaussianDP
from hushvec.training.opacus_engine import ExactPrivacyEngine


@dataclass(frozen=True, kw_only=True)
class OpacusAccounting:
    """The cost of an engine's steps according to two accountants.

    Args:
        opacus_epsilon: by the engine's own accountant.
        epsilon: by hushvec.accounting, rounded up.
        delta: for both.
        opacus_accountant: "prv", "rdp" or "gdp". The last is an approximation and no bound.
        theorem: that gave `epsilon`.
        steps: taken so far.
    """

    opacus_epsilon: float
    epsilon: float
    delta: float
    opacus_accountant: str
    theorem: str
    steps: int


def opacus_accounting(privacy_engine: Any, delta: float) -> OpacusAccounting:
    """Compare an engine's account with this library's for the same steps, add-remove.

    Args:
        privacy_engine: an opacus.PrivacyEngine that has stepped.
        delta: in (0, 1).

    Raises:
        TypeError: it is no PrivacyEngine.
        ValueError: it has not stepped, or a step had no noise.
        ModelChangedError: an engine of `secure_opacus` whose model has changed outside of the private steps.

    Example:
        >>> import warnings
        >>> from opacus import PrivacyEngine
        >>> from hushvec.training import opacus_accounting
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     engine = PrivacyEngine(accountant="rdp")
        >>> for _ in range(100):
        ...     engine.accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> both = opacus_accounting(engine, 1e-5)
        >>> round(both.opacus_epsilon, 2), round(both.epsilon, 2), both.steps
        (1.21, 0.72, 100)
    """
    if not isinstance(privacy_engine, PrivacyEngine):
        raise TypeError(f"privacy_engine must be an opacus.PrivacyEngine, got {validate.kind(privacy_engine)}")
    checked = validate.delta(delta)
    if isinstance(privacy_engine, ExactPrivacyEngine):
        for watch in privacy_engine.hushvec_watches:
            watch.require_unchanged(exact=True)
    accountant = Accountant(adjacency="add-remove")
    for noise_multiplier, sample_rate, steps in privacy_engine.accountant.history:
        accountant.add(
            PoissonSampledGaussianDP(noise_multiplier=float(noise_multiplier), sampling_probability=float(sample_rate)), steps
        )
    if not len(accountant):
        raise ValueError("privacy_engine must have stepped, got an engine without steps")
    ours = accountant.compose(delta=checked)
    return OpacusAccounting(
        opacus_epsilon=float(privacy_engine.accountant.get_epsilon(checked)),
        epsilon=ours.epsilon,
        delta=checked,
        opacus_accountant=privacy_engine.accountant.mechanism(),
        theorem=ours.theorem,
        steps=len(accountant),
    )
