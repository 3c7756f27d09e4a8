"""`RunAccount`: the cost of a run's steps, charged before each step's noise is drawn."""

from __future__ import annotations

import dataclasses
import math
import os
import secrets
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import plural
from hushvec.accounting import Accountant
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.release.charging import Budget, entry_of_charge, require_budget, require_secret_key
from hushvec.training import shared
from hushvec.training.journal import StepFlags, StepJournal
from hushvec.training.sampler import drawn
from hushvec.training.schedule import StepSchedule
from hushvec.training.settings import Settings

_WHEN_USED_UP = (
    "a resumed run has steps - optimizer.steps_taken left, as a journal counts those after the checkpoint too; a longer run costs "
    "more epsilon"
)


def new_run_id() -> str:
    """A new id, for a run that no journal and no charge has recorded."""
    return secrets.token_hex(16)


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """What the guarantee must mention about one step."""

    float_sum: bool
    seeded: bool
    watched: bool
    distributed: bool = False

    @property
    def flags(self) -> int:
        """As a journal keeps them."""
        return (
            StepFlags.FLOAT_SUMS * self.float_sum
            | StepFlags.SEEDED * self.seeded
            | StepFlags.UNWATCHED * (not self.watched)
            | StepFlags.DISTRIBUTED * self.distributed
        )


@dataclass(kw_only=True)
class Record:
    """What has happened in a run. A checkpoint keeps all of it.

    The journal and the budget's charge carry the run_id. A run that resumes from a checkpoint without a journal gets a new one: it
    is one branch of what may be many.
    """

    run_id: str = field(default_factory=new_run_id)
    steps: int = 0  # that are accounted for
    resumed: int = 0  # how often the run was resumed from a checkpoint
    float_sums: bool = False  # a step had a sum made in floating point,
    noise_free: bool = False  # no noise,
    seeded: bool = False  # noise or a sample of a seeded key,
    unwatched: bool = False  # gradients of a model that was not watched,
    distributed: bool = False  # or examples of several processes
    accepted: bool = False  # the user has accepted changes of the model
    allowed_buffers: list[str] = field(default_factory=list)  # that forward passes may write
    charged: bool = False
    charge: dict[str, Any] | None = None  # the row of the budget's ledger
    # [process, first, last] of the Poisson samples that steps may rest on; None: not known
    samples: list[list[Any]] | None = field(default_factory=list)

    def note(self, flags: int) -> None:
        """Keep what the guarantee must mention about one or several steps."""
        self.float_sums = self.float_sums or bool(flags & StepFlags.FLOAT_SUMS)
        self.seeded = self.seeded or bool(flags & StepFlags.SEEDED)
        self.unwatched = self.unwatched or bool(flags & StepFlags.UNWATCHED)
        self.distributed = self.distributed or bool(flags & StepFlags.DISTRIBUTED)

    def note_samples(self, first: int, steps: int) -> None:
        """Keep that so many steps, here, rest on samples that this process has drawn from this number on.

        They are not known if there are fewer than steps, if others have had a part in a step, or if one came from a seed.
        """
        if self.samples is None or self.distributed or drawn.seeded >= first or drawn.number - first + 1 < steps:
            self.samples = None
            return
        others = [one for one in self.samples if one[:2] != [drawn.process, first]]
        self.samples = [*others, [drawn.process, first, drawn.number]]


class RunAccount:
    """Accountant, budget and journal of one run. `DPOptimizer` describes the arguments."""

    def __init__(
        self,
        settings: Settings,
        *,
        accountant: Accountant | None,
        budget: Budget | None,
        generator: _core.Generator,
        delta: float | None,
        journal: str | PathLike[str] | None,
        independent_batches: bool,
        charges: bool = True,
    ) -> None:
        self.independent_batches = independent_batches
        self.settings, self.delta, self.budget = settings, delta, budget
        self.schedule = settings.schedule
        self.accountant = _require_accountant(accountant, self.schedule)
        self.planned_cost = None if budget is None else self._cost_of_all_steps(budget, generator)
        if not charges:  # rank 0 does
            self.budget = journal = None
        self.record = Record()
        self.drawn_here = 0  # steps
        self._first_sample = drawn.number + 1
        self._process = os.getpid()
        self.journal = None if journal is None else StepJournal(journal, settings=settings.digest)
        sampled = self.settings.sampling_probability < 1 and self.accountant.is_amplified
        shared.require_accountant_alone(self, holds_sampled=sampled)  # last of all checks: a refused run must not enter the accountant
        if self.journal is not None and self.journal.run_id is not None:
            self.record.run_id = self.journal.run_id
            self.record.note(self.journal.flags)
            self.count(self.journal.steps)
            self.record.samples = None if self.journal.steps else []

    def charge_step(self, facts: StepFacts) -> None:
        """Record a step before its noise is drawn: charge the budget, then the journal, then the accountant."""
        if os.getpid() != self._process:
            raise ValueError(
                "step() must be called in the process that made the optimizer, got a fork of it: each process would account for its "
                "own steps, and the budget's one charge would pay for both (save a checkpoint and load it there)"
            )
        planned = self.settings.steps
        if planned is not None and self.record.steps >= planned:
            raise PrivacyBudgetExhaustedError(f"the schedule of {planned} steps is used up; {_WHEN_USED_UP}", hint=_WHEN_USED_UP)
        shared.require_budget_alone(self)
        self._charge_budget()
        if self.settings.sampling_probability < 1 and drawn.seeded >= self._first_sample:  # who knows the seed knows the samples
            facts = dataclasses.replace(facts, seeded=True)
        if self.journal is not None:
            self.journal.append(self.record.run_id, facts.flags)
        self.note_step(facts)

    def note_step(self, facts: StepFacts) -> None:
        """Count a step that has been charged, here or by rank 0."""
        self.count(1)
        self.drawn_here += 1
        self.record.note(facts.flags)
        if self.settings.sampling_probability < 1:
            self.record.note_samples(self._first_sample, self.drawn_here)

    def follow(self, steps: int) -> None:
        """Count what rank 0 has counted beside these: steps of its journal that a checkpoint does not have."""
        self.count(steps - self.record.steps)

    def count(self, steps: int) -> None:
        """Count more steps."""
        if steps == 0:
            return
        if self.settings.noise_multiplier == 0:
            self.record.noise_free = True
        else:
            self.accountant.add(self.schedule.loss, steps)
        self.record.steps += steps

    def epsilon(self, delta: float | None) -> float:
        """Epsilon of everything in the accountant; math.inf if a step had no noise."""
        checked = self.delta_or_own(delta)
        return math.inf if self.record.noise_free else self.accountant.epsilon(checked)

    def delta_or_own(self, value: float | None) -> float:
        """The given delta, or that of the run."""
        if value is not None:
            return validate.delta(value)
        if self.delta is None:
            raise TypeError("delta must be given, here or to the constructor")
        return self.delta

    def _charge_budget(self) -> None:
        if self.budget is None or self.record.charged:
            return
        assert self.planned_cost is not None and self.settings.steps is not None
        epsilon, delta, rho = self.planned_cost
        purpose = f"training, {plural(self.settings.steps, 'step')}, {self.settings.adjacency}"
        entry = entry_of_charge(self.budget, epsilon, delta, rho, purpose, charge_id=f"training-{self.record.run_id}")
        self.record.charge = None if entry is None else asdict(entry)
        self.record.charged = True

    def _cost_of_all_steps(self, budget: Budget, generator: _core.Generator) -> tuple[float, float, float]:
        """(epsilon, delta, rho), for the budget."""
        require_budget(budget)
        require_secret_key(generator)
        steps = self.settings.steps
        if steps is None or self.delta is None:
            raise TypeError("steps and delta must be given with a budget, which is charged for the whole run before its first step")
        if self.settings.noise_multiplier == 0:
            raise ValueError("noise_multiplier must be > 0 with a budget, got 0.0")
        return self.schedule.epsilon(steps, self.delta), self.delta, self.schedule.rho(steps)


def is_ledger(budget: Any) -> bool:
    """Whether it is a PrivacyBudget, which recognizes repeated charges by their id."""
    from hushvec.budget import PrivacyBudget

    return isinstance(budget, PrivacyBudget)


def _require_accountant(value: Any, schedule: StepSchedule) -> Accountant:
    if value is None:
        return Accountant(adjacency=schedule.adjacency)
    if not isinstance(value, Accountant):
        raise TypeError(f"accountant must be a hushvec.accounting.Accountant or None, got {validate.kind(value)}")
    if value.adjacency not in (None, schedule.adjacency):
        raise ValueError(f"adjacency must be that of the accountant, {value.adjacency!r}, got {schedule.adjacency!r}")
    return value
