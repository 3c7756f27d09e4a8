"""The account of a run in a checkpoint: writing it, checking it against the run that resumes, and loading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from hushvec._util import validate
from hushvec.accounting import Accountant, PrivacyLoss
from hushvec.training.journal import StepJournal
from hushvec.training.run_account import Record, RunAccount, is_ledger, new_run_id
from hushvec.training.schedule import StepSchedule

VERSION = 3
_FIELDS = {"version", "settings", "accountant", *(one.name for one in fields(Record))}


def written(account: RunAccount) -> dict[str, Any]:
    """Everything, in types that torch.save keeps and `weights_only` loads."""
    return {
        "version": VERSION,
        "settings": asdict(account.settings),
        "accountant": account.accountant.to_dict(),
        **asdict(account.record),
    }


def require_loadable(account: RunAccount, state: Any) -> dict[str, Any]:
    """The part of an optimizer's state that `written` made, if this run can resume from it.

    Raises:
        ValueError: as `DPOptimizer.load_state_dict`. Nothing has changed then.
    """
    stored = state.get("privacy") if isinstance(state, Mapping) else None
    stored = {"samples": None, **stored} if isinstance(stored, dict) else stored  # of checkpoints from before that field
    if not isinstance(stored, dict) or "optimizer" not in state or set(stored) != _FIELDS:
        raise ValueError("state_dict must be that of a DPOptimizer, got something else")
    if stored["version"] != VERSION:
        raise ValueError(f"version must be {VERSION}, got {stored['version']!r}")
    if not is_own(account, stored):
        _require_unused(account)
    account.settings.require_same(stored["settings"])
    validate.whole_number("steps", stored["steps"], at_least=0)
    if account.journal is not None:
        _require_journal_of(account.journal, stored["run_id"], stored["steps"])
    _others(stored, account.schedule)
    return stored


def is_own(account: RunAccount, stored: Mapping[str, Any]) -> bool:
    """Whether a run that has not begun loads its own state back, as Accelerate does when it wraps an optimizer.

    That is no resumption: nothing has been drawn that anybody could have seen.
    """
    not_begun = stored["steps"] == account.record.steps == 0 and not account.drawn_here
    return not_begun and stored["run_id"] == account.record.run_id


def take_over(account: RunAccount, stored: Mapping[str, Any]) -> None:
    """Load what `require_loadable` returned."""
    if is_own(account, stored):
        return
    for loss, count in _others(stored, account.schedule):
        account.accountant.add(loss, count)
    now, goes_on = account.record, _goes_on(account.journal, stored)
    account.record = Record(**{one.name: stored[one.name] for one in fields(Record)})
    account.record.steps = now.steps
    account.count(max(0, stored["steps"] - now.steps))
    account.record.samples = None if now.steps > stored["steps"] else account.record.samples  # not of steps in the journal alone
    account.record.resumed += 1
    account.record.noise_free = account.record.noise_free or now.noise_free
    if account.journal is not None:
        account.record.note(account.journal.flags)
    account.record.allowed_buffers = sorted({*stored["allowed_buffers"], *now.allowed_buffers})
    # A PrivacyBudget is asked again, under the same charge_id; what another budget was told is not told twice.
    account.record.charged = goes_on and stored["charged"] and not is_ledger(account.budget)
    if not goes_on:
        account.record.run_id, account.record.charge = new_run_id(), None


def _goes_on(journal: StepJournal | None, stored: Mapping[str, Any]) -> bool:
    """Whether the same run resumes, rather than one of several branches from its checkpoint.

    The journal proves it: it has all steps of all branches. Without a journal, the charge recorded in the checkpoint may have
    paid for an earlier continuation, so this one is a new run and is charged for all of its steps.
    """
    return journal is not None and journal.run_id == stored["run_id"]


def _require_unused(account: RunAccount) -> None:
    """Refuse an account that holds anything but the steps counted by a journal."""
    record = account.record
    if account.drawn_here:
        raise ValueError(
            f"load_state_dict() needs an optimizer that has not stepped, got one with {record.steps} steps: going back would "
            "forget them (the wrapped optimizer's own state can be loaded through .optimizer)"
        )
    if len(account.accountant) != (0 if record.noise_free else record.steps):
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


def _others(stored: Mapping[str, Any], schedule: StepSchedule) -> list[tuple[PrivacyLoss, int]]:
    """What the stored accountant holds beside the run's own steps.

    Raises:
        ValueError, TypeError: it is damaged, or does not hold those steps.
    """
    counts, steps = dict(Accountant.from_dict(stored["accountant"])), stored["steps"]
    if schedule.noise_multiplier > 0:
        own = schedule.loss
        if counts.get(own, 0) < steps:
            raise ValueError(f"the checkpoint's accountant must hold its {steps} steps, got {counts.get(own, 0)}")
        counts[own] = counts.get(own, 0) - steps
    return [(loss, count) for loss, count in counts.items() if count]
