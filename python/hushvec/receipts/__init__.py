"""Receipts: what a release did, what it guarantees, and whether the guarantee follows.

docs/receipts.md describes every field and the three answers of `verify_receipt`. `base` is shared, each kind has its own file,
`registry` lists them, and `verify` checks any of them.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use
from hushvec.receipts.base import LedgerEntry, Verification
from hushvec.receipts.vectors import Receipt
from hushvec.receipts.verify import receipt_from_dict, receipt_from_json, verify_charges, verify_receipt

if TYPE_CHECKING:
    from hushvec.receipts.aggregates import AggregateReceipt, AggregateStatistic
    from hushvec.receipts.labels import LabelReceipt
    from hushvec.receipts.reports import ReportReceipt
    from hushvec.receipts.selections import SelectionReceipt
    from hushvec.receipts.training import TrainingReceipt

__all__ = [
    "AggregateReceipt",
    "AggregateStatistic",
    "LabelReceipt",
    "LedgerEntry",
    "Receipt",
    "ReportReceipt",
    "SelectionReceipt",
    "TrainingReceipt",
    "Verification",
    "receipt_from_dict",
    "receipt_from_json",
    "verify_charges",
    "verify_receipt",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "aggregates": "AggregateReceipt AggregateStatistic",
        "labels": "LabelReceipt",
        "reports": "ReportReceipt",
        "selections": "SelectionReceipt",
        "training": "TrainingReceipt",
    },
)
