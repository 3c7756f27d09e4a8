"""The kinds of receipt, with the class and the check of each.

A new kind is a file beside this one and a row in this table.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from hushvec.receipts.base import ReceiptFields, Verification

if TYPE_CHECKING:
    from hushvec.receipts.labels import LabelReceipt
    from hushvec.receipts.reports import ReportReceipt
    from hushvec.receipts.selections import SelectionReceipt
    from hushvec.receipts.training import TrainingReceipt
    from hushvec.receipts.vectors import Receipt

    AnyReceipt: TypeAlias = "Receipt | LabelReceipt | SelectionReceipt | ReportReceipt | TrainingReceipt"


class Kind(NamedTuple):
    """A kind of receipt. Its module is imported when a receipt of the kind is read or verified."""

    module: str
    receipt: str
    check: str

    @property
    def receipt_class(self) -> type[ReceiptFields]:
        found: type[ReceiptFields] = self._named(self.receipt)
        return found

    @property
    def verify(self) -> Callable[[Any], Verification]:
        found: Callable[[Any], Verification] = self._named(self.check)
        return found

    def _named(self, name: str) -> Any:
        return getattr(import_module(f"hushvec.receipts.{self.module}"), name)


VECTORS = Kind("vectors", "Receipt", "verify_vector_receipt")
LABELS = Kind("labels", "LabelReceipt", "verify_label_receipt")

# By the value of the field receipt_kind. Receipts of vectors have no such field.
NAMED = {
    "labels": LABELS,
    "reports": Kind("reports", "ReportReceipt", "verify_report_receipt"),
    "selection": Kind("selections", "SelectionReceipt", "verify_selection_receipt"),
    "training": Kind("training", "TrainingReceipt", "verify_training_receipt"),
}


def named(kind: Any) -> Kind:
    """The kind named by a field receipt_kind. An unknown name is read as labels, which refuse it."""
    return NAMED.get(kind, LABELS) if isinstance(kind, str) else LABELS


def kind_of(receipt: Any) -> Kind:
    """The kind of a receipt object.

    Raises:
        TypeError: the object is not a receipt.
    """
    for kind in (VECTORS, *NAMED.values()):
        if isinstance(receipt, kind.receipt_class):
            return kind
    hint = ", which hushvec.receipts.receipt_from_json reads" if isinstance(receipt, str) else ""
    raise TypeError(f"receipt must be a receipt of hushvec or a mapping, got {type(receipt).__name__}{hint}")
