"""From the account of a run to its receipt."""

from __future__ import annotations

from hushvec._native import _core
from hushvec.accounting import compose
from hushvec.receipts.base import LedgerEntry
from hushvec.receipts.training import TrainingReceipt
from hushvec.training.guarantee import TrainingGuarantee
from hushvec.training.run_account import RunAccount


def receipt_of(account: RunAccount, guarantee: TrainingGuarantee, *, rounds: int) -> TrainingReceipt:
    """The receipt of a run.

    Args:
        account: of the run.
        guarantee: of the same account. Its epsilon is of all that its accountant holds; that of the receipt is of the run alone, since
            a reader can recompute nothing else. Other releases in the accountant have receipts of their own.
        rounds: of the key stream.
    """
    steps, charge = guarantee.steps, guarantee.charge
    together = None
    if steps > 0 and guarantee.noise_multiplier > 0:
        together = compose([(account.schedule.loss, steps)], delta=guarantee.delta)
    unpriced = None if guarantee.noise_multiplier == 0 and steps > 0 else 0.0
    return TrainingReceipt(
        adjacency=guarantee.adjacency,
        epsilon=unpriced if together is None else together.epsilon,
        delta=guarantee.delta,
        steps=steps,
        planned_steps=guarantee.planned_steps,
        sampling_probability=guarantee.sampling_probability,
        noise_multiplier=guarantee.noise_multiplier,
        clip_norm=guarantee.clip_norm,
        clipping=guarantee.clipping,
        sensitivity=guarantee.sensitivity,
        sigma=guarantee.sigma,
        expected_batch_size=guarantee.expected_batch_size,
        theorem="" if together is None else together.theorem,
        resumed=guarantee.resumed,
        grade=guarantee.grade,
        key_source=guarantee.key_source,
        rounds=rounds,
        is_dp_claim=guarantee.is_dp_claim,
        library_version=_core.__version__,
        notes=guarantee.notes,
        charge=None if charge is None else LedgerEntry(**charge),
    )
