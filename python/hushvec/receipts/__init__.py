"""Receipts: what a release did, what it guarantees, and whether the guarantee follows.

docs/receipts.md describes every field and the three answers of `verify_receipt`. `base` is shared, each kind has its own file,
`registry` lists them, and `verify` checks any of them.
"""

from hushvec.receipts.base import (  # isort: skip
    DOES_NOT_HOLD, HALF_WORDS, HOLDS, NOT_A_CLAIM, NOTE_FLOAT, NOTE_SEED, PER, ROUNDS, LedgerEntry, Verification, cipher_fields,
    sheet_of,
)
from hushvec._util.lazy import at_first_use
from hushvec.receipts.vectors import INT8, Receipt
from hushvec.receipts.verify import receipt_from_dict, receipt_from_json, units_differ, verify_charges, verify_receipt

with at_first_use(globals()):
    from hushvec.receipts.aggregates import AggregateReceipt, AggregateStatistic, squared_mu
    from hushvec.receipts.labels import LabelReceipt, row_receipt
    from hushvec.receipts.reports import ReportReceipt, instantaneous_epsilon, permanent_epsilon
    from hushvec.receipts.selections import SelectionReceipt
    from hushvec.receipts.training import CLIPPED, NOTE_CLIENTS, NOTE_NOISE_FREE, TrainingReceipt, sensitivity_factor, step_loss

__all__ = [
    "CLIPPED", "DOES_NOT_HOLD", "HALF_WORDS", "HOLDS", "INT8", "NOTE_CLIENTS", "NOTE_FLOAT", "NOTE_NOISE_FREE", "NOTE_SEED",
    "NOT_A_CLAIM", "PER", "ROUNDS", "AggregateReceipt", "AggregateStatistic", "LabelReceipt", "LedgerEntry", "Receipt",
    "ReportReceipt", "SelectionReceipt", "TrainingReceipt", "Verification", "cipher_fields", "instantaneous_epsilon",
    "permanent_epsilon", "receipt_from_dict", "receipt_from_json", "row_receipt", "sensitivity_factor", "sheet_of",
    "squared_mu", "step_loss", "units_differ", "verify_charges", "verify_receipt",
]
