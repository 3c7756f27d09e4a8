"""`RunAccount`: the cost of a run's steps, charged before each step's noise is drawn, and what a checkpoint keeps of it.

Steps are accounted for as separate Poisson samples, which they name. Once one cannot, all steps of the run count without sampling.
Runs that share an account must declare that their batches are independent (docs/proofs/dp_sgd.md, "One sample, two releases").
"""

from __future__ import annotations

import math
import os
import secrets
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import plural
from hushvec.accounting import Accountant, PrivacyLoss
from hushvec.budget import PrivacyBudget
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError
from hushvec.extend import Budget, entry_of_charge, require_budget, require_secret_key
from hushvec.training.gradients import require_scales
from hushvec.training.journal import StepFlags, StepJournal
from hushvec.training.samples import Sample, drawn
from hushvec.training.schedule import Account, Settings, StepSchedule

_WHEN_USED_UP = (
    "a resumed run has steps - optimizer.steps_taken left, as a journal counts those after the checkpoint too; a longer run costs "
    "more epsilon"
)

_NEEDS_A_SAMPLE = (
    "step() with a budget, which is charged for Poisson samples, must have one of its own, got gradients that are not known to be of "
    "one whole sample of PoissonSampler or poisson_loader, drawn here with at most the run's probability and without a seed, and new "
    'to it: read one sample after the other, each for one step (docs/training.md, "One batch, one release")'
)

_MOST_RANGES = 100  # of samples in a receipt


def new_run_id() -> str:
    return secrets.token_hex(16)


@dataclass(kw_only=True)
class RunHistory:
    """The history of a run, all in a checkpoint. Resumed without a journal it gets a new run_id, as one of its branches."""

    run_id: str = field(default_factory=new_run_id)
    steps: int = 0  # that are accounted for
    resumed: int = 0  # how often the run was resumed from a checkpoint
    float_sums: bool = False  # a step had a sum made in floating point,
    noise_free: bool = False  # no noise,
    seeded: bool = False  # noise or a sample of a seeded key,
    unwatched: bool = False  # gradients of a model that was not watched,
    distributed: bool = False  # or examples of several processes
    unnamed: bool = False  # or of samples that are not known to be the run's own, one for each step
    row_norm: float | None = None  # that the next sum's rows are clipped to, where the clip norm adapts
    accepted: bool = False  # the user has accepted changes of the model
    allowed_buffers: list[str] = field(default_factory=list)  # that forward passes may write
    charged: bool = False
    charge: dict[str, Any] | None = None  # the row of the budget's ledger
    # [process, first, last] that the Poisson samples of steps are among; None: not known
    samples: list[list[Any]] | None = field(default_factory=list)

    def note(self, flags: StepFlags) -> None:
        for flag in StepFlags:  # each has the name of a field
            if flag in flags:
                setattr(self, str(flag.name).lower(), True)

    def note_sample(self, sample: Sample | None) -> None:
        """Keep which sample a step rests on; unknown from the first step on that has none, or those of other processes too."""
        if self.samples is None or self.distributed or self.unnamed or sample is None or sample.seeded:
            self.samples = None
            return
        follows = bool(self.samples) and self.samples[-1][::2] == [sample.process, sample.number - 1]
        first = self.samples.pop()[1] if follows else sample.number
        self.samples.append([sample.process, first, sample.number])
        if len(self.samples) > _MOST_RANGES:  # used in no order: one range has all of a process, and perhaps others
            of_process: dict[str, list[int]] = {}
            for process, *places in self.samples:
                of_process.setdefault(process, []).extend(places)
            self.samples = [[process, min(places), max(places)] for process, places in of_process.items()]


class RunAccount:
    """Accountant, budget and journal of one run. `DPOptimizer` and `Account` describe the arguments; `generator` is the terms' or the
    process-wide one."""

    def __init__(
        self, settings: Settings, terms: Account, *, generator: _core.Generator, delta: float | None, charges: bool = True
    ) -> None:
        self.independent_batches = validate.flag("independent_batches", terms.independent_batches)
        self.settings, self.delta, self.schedule = settings, delta, settings.schedule
        self.accountant = _require_accountant(terms.accountant, self.schedule)
        self.planned_cost = None if terms.budget is None else self._cost_of_all_steps(terms.budget, generator)
        self.budget, journal = (terms.budget, terms.journal) if charges else (None, None)  # else rank 0 charges
        self.record = RunHistory()
        self.drawn_here = 0  # steps
        self.first_sample = 1  # later than any that lost steps of a resumed run may rest on
        drawn.forget()  # what was read before is of no step here
        self._process, self._lock = os.getpid(), threading.Lock()
        self.journal = None if journal is None else StepJournal(journal, settings=settings.digest)
        self._is_sampled = settings.sampling_probability < 1
        # last of all checks: a refused run must not enter the accountant
        require_accountant_alone(self, holds_sampled=self._is_sampled and self.accountant.is_amplified)
        if self.journal is not None and self.journal.run_id is not None:
            self.record.run_id = self.journal.run_id
            self.note(self.journal.flags)
            self.count(self.journal.steps)
            self.record.samples = None if self.journal.steps and self._is_sampled else []
            self.first_sample = drawn.number + 1

    @property
    def loss(self) -> PrivacyLoss:
        """Of one step: of a Poisson sample, or once a step of the run could not name its own, of one that is known to all."""
        return self.schedule.loss.unamplified if self.is_unnamed else self.schedule.loss

    @property
    def is_unnamed(self) -> bool:
        return self.record.unnamed and self._is_sampled

    def can_name(self, sample: Sample | None) -> bool:
        """Whether a step may rest on this sample: it was drawn here, as likely as accounted for, and the run has not used it."""
        return not self._is_sampled or (
            sample is not None
            and sample.process == drawn.process
            and sample.number >= self.first_sample
            and sample.probability <= self.settings.sampling_probability
            and self.record.run_id not in sample.used_by
        )

    def charge_step(self, flags: StepFlags, sample: Sample | None) -> None:
        """Record a step before its noise is drawn: charge the budget, then the journal, then the accountant.

        `sample` is the one that it rests on, or None if that is not known. For a run of several processes it is that of this one.
        """
        with self._lock:  # of threads that release at once, no more than the planned steps
            self._charge_step(flags, sample)

    def _charge_step(self, flags: StepFlags, sample: Sample | None) -> None:
        if os.getpid() != self._process:
            raise ValueError(
                "step() must be called in the process that made the optimizer, got a fork of it: each process would account for its "
                "own steps, and the budget's one charge would pay for both (save a checkpoint and load it there)"
            )
        planned = self.settings.steps
        if planned is not None and self.record.steps >= planned:
            raise PrivacyBudgetExhaustedError(f"the schedule of {planned} steps is used up; {_WHEN_USED_UP}", hint=_WHEN_USED_UP)
        if self.budget is not None and self._is_sampled and flags & (StepFlags.UNNAMED | StepFlags.SEEDED):
            raise ValueError(_NEEDS_A_SAMPLE)
        require_budget_alone(self)
        self._charge_budget()
        if self.journal is not None:
            self.journal.append(self.record.run_id, flags)
        self.note_step(flags, sample)

    def note_step(self, flags: StepFlags, sample: Sample | None) -> None:
        self.note(flags)
        self.count(1)
        self.drawn_here += 1
        if self._is_sampled:
            self.record.note_sample(sample)
        if sample is not None:
            sample.used_by.add(self.record.run_id)

    def note(self, flags: StepFlags) -> None:
        self.record.note(flags)
        if self.is_unnamed:
            self.accountant.without_amplification()

    def count(self, steps: int) -> None:
        if steps == 0:
            return
        counted = self.schedule.counted
        if self.settings.noise_multiplier == 0:
            self.record.noise_free = True
        elif added := counted(self.record.steps + steps) - counted(self.record.steps):
            self.accountant.add(self.loss, added)
        self.record.steps += steps

    def epsilon(self, delta: float | None) -> float:
        checked = self.delta_or_own(delta)
        return math.inf if self.record.noise_free else self.accountant.epsilon(checked)

    def delta_or_own(self, value: float | None) -> float:
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
        return self.schedule.as_stated.epsilon(steps, self.delta), self.delta, self.schedule.rho(steps)


def is_ledger(budget: Any) -> bool:
    """Whether it is a PrivacyBudget, which recognizes repeated charges by their id."""
    return isinstance(budget, PrivacyBudget)


def _require_accountant(value: Accountant | None, schedule: StepSchedule) -> Accountant:
    if value is None:
        return Accountant(adjacency=schedule.adjacency)
    validate.instance("accountant", value, Accountant, "a hushvec.accounting.Accountant or None")
    if value.adjacency not in (None, schedule.adjacency):
        raise ValueError(f"adjacency must be that of the accountant, {value.adjacency!r}, got {schedule.adjacency!r}")
    return value


_WHY = (
    "{name} must be of one optimizer, got {what}: two that step on one batch cost more than two steps on two batches. One optimizer "
    "with all parameters clips and accounts for them together; if the other one draws batches of its own, pass "
    "independent_batches=True"
)

_accountants: WeakValueDictionary[int, Any] = WeakValueDictionary()  # by id, those that a run has had: they have no hash
_charging: WeakSet[Any] = WeakSet()  # runs that have asked a budget


def require_accountant_alone(run: Any, *, holds_sampled: bool = False) -> None:
    """Refuse a second run with one accountant, or a first where it holds sampled losses, unless batches are independent."""
    if (holds_sampled or _accountants.get(id(run.accountant)) is run.accountant) and not run.independent_batches:
        raise ValueError(_WHY.format(name="accountant", what="that of another DPOptimizer"))
    _accountants[id(run.accountant)] = run.accountant


def require_budget_alone(run: Any) -> None:
    """Refuse a second run on one budget while the first has steps left, unless a journal is shared or batches independent."""
    if run.budget is None or run.record.charged:
        return
    ledger = ledger_of(run.budget)
    for other in () if run.independent_batches else tuple(_charging):
        ledgers = {ledger, ledger_of(other.budget)}
        hidden = None in ledgers and max(run.settings.sampling_probability, other.settings.sampling_probability) < 1
        same = other.budget is run.budget or hidden or (None not in ledgers and len(ledgers) == 1)
        if same and other.record.charged and other.record.run_id != run.record.run_id and other.record.steps < other.settings.steps:
            raise ValueError(_WHY.format(name="budget", what="one that pays, or may pay, for another DPOptimizer with steps left"))
    _charging.add(run)


def ledger_of(budget: Any) -> str | None:
    """Which ledger a PrivacyBudget charges; None for a custom budget, or one that cannot be read."""
    try:
        return budget.state().ledger if is_ledger(budget) else None
    except (BudgetError, ValueError):
        return None


VERSION = 3
_FIELDS = {"version", "settings", "accountant", *(one.name for one in fields(RunHistory))}


def account_written(account: RunAccount) -> dict[str, Any]:
    """Everything, in types that torch.save keeps and `weights_only` loads."""
    return {
        "version": VERSION,
        "settings": asdict(account.settings),
        "accountant": account.accountant.to_dict(),
        **asdict(account.record),
    }


def require_loadable(account: RunAccount, state: Any) -> dict[str, Any]:
    """The part of an optimizer's state that `account_written` made, if this run can resume from it. Changes nothing."""
    stored = state.get("privacy") if isinstance(state, Mapping) else None
    if not isinstance(stored, dict) or "optimizer" not in state or set(stored) != _FIELDS:
        raise ValueError("state_dict must be that of a DPOptimizer, got something else")
    if stored["version"] != VERSION:
        raise ValueError(f"version must be {VERSION}, got {stored['version']!r}")
    if not is_own(account, stored):
        _require_unused(account)
    account.settings.require_same(stored["settings"])
    validate.whole_number("steps", stored["steps"], at_least=0)
    if stored["row_norm"] is not None:
        require_scales(stored["row_norm"], account.settings.noise_multiplier)
    if account.journal is not None:
        _require_journal_of(account.journal, stored["run_id"], stored["steps"])
    _others(stored, account)
    return stored


def is_own(account: RunAccount, stored: Mapping[str, Any]) -> bool:
    """Whether a run that has not begun loads its own state back, as Accelerate does when it wraps an optimizer: nothing was drawn."""
    not_begun = stored["steps"] == account.record.steps == 0 and not account.drawn_here
    return not_begun and stored["run_id"] == account.record.run_id


def take_over(account: RunAccount, stored: Mapping[str, Any]) -> None:
    if is_own(account, stored):
        return
    others, now = _others(stored, account), account.record
    for loss, count in others:
        account.accountant.add(loss, count)
    # A journal proves that the same run resumes: it has all steps of all branches. Without one, the charge in the checkpoint may have
    # paid for an earlier continuation, so this is a new run and is charged for all of its steps.
    goes_on = account.journal is not None and account.journal.run_id == stored["run_id"]
    account.record = RunHistory(**{one.name: stored[one.name] for one in fields(RunHistory)})
    account.record.steps = now.steps
    account.note(StepFlags.UNNAMED if now.unnamed or stored["unnamed"] else StepFlags(0))
    account.count(max(0, stored["steps"] - now.steps))
    if now.steps > stored["steps"] and now.samples is None:  # not of steps in the journal alone
        account.record.samples = None
    account.first_sample = drawn.number + 1
    account.record.resumed += 1
    account.record.noise_free = account.record.noise_free or now.noise_free
    if account.journal is not None:
        account.note(account.journal.flags)
    account.record.allowed_buffers = sorted({*stored["allowed_buffers"], *now.allowed_buffers})
    # A PrivacyBudget is asked again, under the same charge_id; what another budget was told is not told twice.
    account.record.charged = goes_on and stored["charged"] and not is_ledger(account.budget)
    if not goes_on:
        account.record.run_id, account.record.charge = new_run_id(), None


def _require_unused(account: RunAccount) -> None:
    """Refuse an account that holds anything but the steps counted by a journal."""
    record = account.record
    if account.drawn_here:
        raise ValueError(
            f"load_state_dict() needs an optimizer that has not stepped, got one with {record.steps} steps: going back would "
            "forget them (the wrapped optimizer's own state can be loaded through .optimizer)"
        )
    if len(account.accountant) != (0 if record.noise_free else account.schedule.counted(record.steps)):
        raise ValueError("load_state_dict() needs an accountant of this run alone, got one with other releases in it")


def _require_journal_of(journal: StepJournal, run_id: str, steps: int) -> None:
    """Refuse the journal of another run, or one with fewer steps."""
    if journal.run_id is None:
        if steps:
            raise ValueError("the journal must be that of the run in the checkpoint, got an empty one")
        return
    if journal.run_id != run_id:
        raise ValueError(f"the journal must be that of run {run_id}, got that of run {journal.run_id}")
    if journal.steps < steps:
        raise ValueError(f"the journal must have at least {steps} steps, got {journal.steps}")
    journal.require_original()


def _others(stored: Mapping[str, Any], account: RunAccount) -> list[tuple[PrivacyLoss, int]]:
    """The losses that the stored accountant holds beside the run's own steps."""
    accountant, schedule, steps = Accountant.from_dict(stored["accountant"]), account.schedule, stored["steps"]
    if stored["unnamed"]:
        accountant.without_amplification()
    counts = dict(accountant)
    if schedule.noise_multiplier > 0:
        own, steps = schedule.loss.unamplified if stored["unnamed"] else schedule.loss, schedule.counted(steps)
        if counts.get(own, 0) < steps:
            raise ValueError(f"the checkpoint's accountant must hold its {steps} steps, got {counts.get(own, 0)}")
        counts[own] = counts.get(own, 0) - steps
    return [(loss, count) for loss, count in counts.items() if count]
