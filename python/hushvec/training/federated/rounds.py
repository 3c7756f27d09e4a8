"""`PrivateRounds`: one client's updates over a whole run, counted in a ledger that outlives the client's process."""

from __future__ import annotations

from os import PathLike
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.budget import Charge, PrivacyBudget
from hushvec.extend import Budget, ChargeOnce, NotCopied, entry_of_charge, require_budget
from hushvec.mechanisms import EmpiricalGaussian
from hushvec.training.federated.updates import UpdateRelease, clip_and_noise_update, noise_of_rounds
from hushvec.training.gradients import sigma_of


class PrivateRounds:
    """`clip_and_noise_update` for the rounds of a run, never more of them than are paid for.

    Args:
        clip_norm, delta, epsilon, noise_multiplier, rounds: as in `clip_and_noise_update`; epsilon and delta are for all rounds.
        persist_key: name of this client's ledger of the run, made here if there is none: a `PrivacyBudget` in rho that holds
            exactly `rounds` rounds. A restarted client that gives the same name goes on where it was.
        store: of the ledger, as for `PrivacyBudget`: a file of the user's if None. "memory" forgets with the process.
        budget: charged (epsilon, delta), or rho, of the whole run before its first round. A PrivacyBudget knows the run again after
            a restart and is not charged twice.

    Raises:
        TypeError, ValueError: an argument of the wrong kind or out of its range; the ledger is one of other limits.
        BudgetError: the store cannot be used.
        RuntimeError: `release` in a fork, TypeError: a copy, where `budget` is no PrivacyBudget: its copy would be charged.

    Guarantees:
        Everything that `release` returns under one ledger, however often it is called, by whichever processes, is (epsilon,
        delta)-DP under replacement of all of the client's data. Each call is charged on stable storage before its noise is drawn.

    Edge cases:
        An update that was charged and lost with its process stays charged.

    Reference:
        Dong, Roth, Su (2022), corollary 3.3; docs/proofs/budget_filter.md for charges in rho.

    Example:
        >>> import numpy as np
        >>> from hushvec.federated import PrivateRounds
        >>> rounds = PrivateRounds(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=2, persist_key="client-7", store="memory")
        >>> [rounds.release({"weight": np.ones(3, np.float32)}).receipt.charge.sequence for _ in range(2)], rounds.left
        ([2, 3], 0)
    """

    def __init__(
        self, *, clip_norm: float, delta: float, epsilon: float | None = None, noise_multiplier: float | None = None,
        rounds: int = 1, persist_key: str, store: str | PathLike[str] | None = None, budget: Budget | None = None,
    ) -> None:
        self._clip_norm, self._delta = validate.clip_norm(clip_norm), validate.delta(delta)
        self._rounds = validate.whole_number("rounds", rounds, at_least=1)
        self._multiplier, together = noise_of_rounds(epsilon, noise_multiplier, self._delta, self._rounds, adjacency="replace-one")
        sigma = sigma_of(self._multiplier, self._clip_norm)
        one = EmpiricalGaussian(chosen_sigma=sigma, delta=self._delta, dimension=1, clip_norm=self._clip_norm)
        self._rho = one.loss.rho
        if budget is not None:
            require_budget(budget)
        validate.instance("persist_key", persist_key, str, "a str")
        run = (together, self._delta, up(self._rounds * self._rho))
        self.ledger = PrivacyBudget(max_rho=run[2], persist_key=persist_key, store=store)
        pays = _RunThenRound if isinstance(budget, PrivacyBudget) else PaidRounds
        self._pays: Budget = self.ledger if budget is None else pays(budget, run, self.ledger)

    @property
    def left(self) -> int:
        """How many rounds can still be released."""
        return int(self.ledger.remaining() / self._rho * (1 + 1e-9))

    def release(self, update: Any, *, generator: _core.Generator | None = None) -> UpdateRelease:
        """One round: what `clip_and_noise_update` returns and raises, with a receipt that names the row of the ledger.

        PrivacyBudgetExhaustedError where all rounds are used up, or `budget` has too little left for the run: nothing is released.
        """
        return clip_and_noise_update(
            update, clip_norm=self._clip_norm, delta=self._delta, noise_multiplier=self._multiplier, rounds=self._rounds,
            budget=self._pays, generator=generator,
        )


class _RunThenRound(ChargeOnce):
    """Charges a budget for the whole run, once, and then the ledger of the run for a round."""

    def __init__(self, budget: Budget, cost: tuple[float, float, float], ledger: PrivacyBudget) -> None:
        super().__init__(ledger, f"federated-{ledger.state().ledger}")
        self._whole, self._cost, self._paid = budget, cost, False

    def consume(self, epsilon: float, delta: float = 0.0, *, rho: float | None = None, purpose: str | None = None) -> Charge:
        if not self._paid:   # a PrivacyBudget knows the id again in another process
            entry_of_charge(self._whole, *self._cost, "federated learning, all rounds", charge_id=self._charge_id)
            self._paid = True
        return self._budget.consume(epsilon, delta, rho=rho, purpose=purpose)


class PaidRounds(NotCopied, _RunThenRound):
    """The same with a budget of the caller's own, which a copy or a fork would have a copy of."""

    def consume(self, epsilon: float, delta: float = 0.0, *, rho: float | None = None, purpose: str | None = None) -> Charge:
        self.require_own_process()
        return super().consume(epsilon, delta, rho=rho, purpose=purpose)
