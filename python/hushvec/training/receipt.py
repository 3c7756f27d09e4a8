"""The receipt of a run, from its account."""

from __future__ import annotations

from hushvec._native import _core
from hushvec.accounting import compose
from hushvec.accounting.releases import SampleRange
from hushvec.receipts.base import LedgerEntry, cipher_fields
from hushvec.receipts.training import TrainingReceipt
from hushvec.training.guarantee import TrainingGuarantee
from hushvec.training.run_account import RunAccount

# The fields that a receipt copies from the guarantee.
_SAME = (
    "adjacency", "delta", "steps", "planned_steps", "sampling_probability", "noise_multiplier", "clip_norm", "clipping",
    "sensitivity", "sigma", "expected_batch_size", "resumed", "grade", "key_source", "is_dp_claim", "notes",
)  # fmt: skip


def receipt_of(account: RunAccount, guarantee: TrainingGuarantee, *, cipher: str) -> TrainingReceipt:
    """The receipt of a run, from its account and the guarantee of that account.

    The guarantee's epsilon is of all that the accountant holds; that of the receipt is of the run alone, which a reader can recompute.
    Other releases in the accountant have separate receipts.
    """
    steps, charge = guarantee.steps, guarantee.charge
    together = None
    if steps > 0 and guarantee.noise_multiplier > 0:
        together = compose([(account.schedule.loss, steps)], delta=guarantee.delta)
    unpriced = None if guarantee.noise_multiplier == 0 and steps > 0 else 0.0
    return TrainingReceipt(
        **{name: getattr(guarantee, name) for name in _SAME},
        epsilon=unpriced if together is None else together.epsilon,
        theorem="" if together is None else together.theorem,
        **cipher_fields(cipher),
        samples=None if account.record.samples is None else tuple(SampleRange(*one) for one in account.record.samples),
        library_version=_core.__version__,
        charge=None if charge is None else LedgerEntry(**charge),
    )
