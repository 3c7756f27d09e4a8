"""The kinds of receipt, one verifier for all of them, and one for the ledger that paid for them.

docs/receipts.md describes the three answers. A new kind is a file beside this one and a row in `NAMED`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from hushvec._util import validate
from hushvec.accounting.releases import sharing_samples, unit_in_words
from hushvec.budget import verify_export
from hushvec.errors import ReceiptError
from hushvec.receipts.base import DOES_NOT_HOLD, HOLDS, ReceiptFields, Verification, json_object
from hushvec.receipts.labels import LabelReceipt, released_rows
from hushvec.receipts.vectors import Receipt

if TYPE_CHECKING:
    from hushvec.receipts.aggregates import AggregateReceipt
    from hushvec.receipts.reports import ReportReceipt
    from hushvec.receipts.selections import SelectionReceipt
    from hushvec.receipts.training import TrainingReceipt

    AnyReceipt: TypeAlias = "Receipt | LabelReceipt | SelectionReceipt | ReportReceipt | TrainingReceipt | AggregateReceipt"


# Module and class of each kind, by the value of receipt_kind; receipts of vectors have no such field. A module is imported when
# a receipt of its kind is read.
NAMED = {
    "aggregate": ("aggregates", "AggregateReceipt"),
    "labels": ("labels", "LabelReceipt"),
    "reports": ("reports", "ReportReceipt"),
    "selection": ("selections", "SelectionReceipt"),
    "training": ("training", "TrainingReceipt"),
}


def require_receipt(receipt: Any) -> None:
    """Raises TypeError for anything but a receipt."""
    if not isinstance(receipt, ReceiptFields):
        hint = ", which hushvec.receipts.receipt_from_json reads" if isinstance(receipt, str) else ""
        raise TypeError(f"receipt must be a receipt of hushvec or a mapping, got {type(receipt).__name__}{hint}")


_SHARED = (
    "its samples are those of another receipt, or not known to be independent of them, and then charges of epsilon and delta do not "
    "add up (independent_samples says that they are)"
)


def receipt_from_dict(fields: Mapping[str, Any]) -> AnyReceipt:
    """The receipt of a mapping, of the kind named by receipt_kind; of vectors without such a field. ReceiptError if it is none."""
    module, name = "vectors", "Receipt"
    if isinstance(fields, Mapping) and "receipt_kind" in fields:
        kind = fields["receipt_kind"]
        module, name = NAMED.get(kind if isinstance(kind, str) else "", NAMED["labels"])  # which refuses an unknown kind
    read: AnyReceipt = getattr(import_module(f"hushvec.receipts.{module}"), name).from_dict(fields)
    return read


def receipt_from_json(text: str) -> AnyReceipt:
    """The receipt of a JSON text, of any kind. ReceiptError if it is none."""
    return receipt_from_dict(json_object(text))


def verify_receipt(receipt: AnyReceipt | Mapping[str, Any]) -> Verification:
    """Recompute a receipt's guarantee from its parameters and compare it with what the receipt says.

    Args:
        receipt: a `Receipt`, `LabelReceipt`, `SelectionReceipt`, `ReportReceipt`, `TrainingReceipt` or `AggregateReceipt`, or a
            mapping with the fields of one (`json.load` of a receipt file).

    Returns:
        A `Verification`:
        "does not hold" if a stated number does not follow from the others (too small an epsilon, delta, sensitivity, sigma or
        scale; a grid or a grade that such a release does not have; rounds or a format version that are not its cipher's), or a
        claim is made where there can be none;
        else "not a DP claim" if the receipt claims nothing (a seeded key, the float grade, labels with their model's scores);
        else "holds".

    Raises:
        ReceiptError: the mapping is not a receipt, or its numbers are too extreme to be computed with.
        TypeError: neither a receipt nor a mapping.
        MissingExtraError: a training sampled its examples, and hushvec[accounting] is not installed.

    Guarantees:
        The sensitivity is recomputed from clip_norm, per, rows and dimension (of aggregates from clip_norm, adjacency and
        rows_per_person), never taken from the receipt. Laplace guarantees are compared in exact arithmetic; the Gaussian delta, and
        the logarithm of the ratio of a law of labels, are rounded up before they are compared. "holds" is about the receipt's
        numbers: nothing in a receipt proves that the values were made that way.

    Edge cases:
        A larger epsilon or delta than the noise gives is a weaker claim, and holds.

    Reference:
        Balle and Wang (2018), theorem 8; Dwork, McSherry, Nissim, Smith (2006), proposition 1.

    Example:
        >>> import dataclasses, hushvec as hv, numpy as np
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0).receipt
        >>> hv.verify_receipt(receipt).status
        'holds'
        >>> hv.verify_receipt(dataclasses.replace(receipt, epsilon=7.0)).status
        'does not hold'
    """
    validate.rounding_to_nearest()
    if not isinstance(receipt, ReceiptFields) and isinstance(receipt, Mapping):  # the abstract class is slow to ask
        receipt = receipt_from_dict(receipt)
    require_receipt(receipt)
    try:
        return receipt._verified()
    except ArithmeticError as error:
        raise ReceiptError(f"receipt must have numbers that can be computed with, got some too extreme: {error}") from None


def verify_charges(receipts: Sequence[AnyReceipt], export: Mapping[str, Any], *, independent_samples: bool = False) -> Verification:
    """Check that a ledger holds, and that every receipt has its own charge in it.

    Args:
        receipts: releases charged to one ledger, of vectors, labels, selections, reports, trainings and aggregates.
        export: of `PrivacyBudget.export`, or the same read from JSON.
        independent_samples: your word that trainings rest on samples of their own where their receipts do not show it.

    Returns:
        "holds", or "does not hold" with the reasons: a row that does not follow from the others; a receipt that does not hold
        itself, or names no charge, another ledger, a missing charge, one that another receipt names too, one smaller than its
        guarantee, or one to fewer people than it has rows; a ledger in epsilon and delta whose trainings may share samples, since
        these charges do not add up. Where receipts are about different units (one row, one person), and not all are charged to
        people, the last reason says for whom the charges add up.

    Raises:
        ValueError, TypeError: the export is not a ledger export.

    Guarantees:
        Amounts are compared as the exact decimals that they print as. A ledger in rho must have charged the rho of the receipt's
        noise. "holds" is about the numbers: anyone who can write a whole ledger can write one that holds.

    Edge cases:
        No receipts: only the ledger is checked. The ledger may hold more charges than there are receipts: a charge before a crash
        stays spent.

    Reference:
        docs/budget.md: rows, hashes and what a chain can show.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> budget = hv.PrivacyBudget(10.0)
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0, budget=budget).receipt
        >>> hv.verify_charges([receipt], budget.export()).status
        'holds'
    """
    report = verify_export(export)
    if not report.holds:
        return Verification(DOES_NOT_HOLD, (f"row {report.first_wrong} of the ledger: {report.reason}",))
    rows = {row["sequence"]: row for row in export["rows"]}
    faults, paid = [], set()
    for number, receipt in enumerate(receipts, 1):
        fault = _charge_fault(receipt, export["ledger"], rows)
        place = receipt.charge and (receipt.charge.ledger, receipt.charge.sequence)
        if fault is None and place in paid:
            fault = "another receipt names the same charge"
        paid.add(place)
        if fault is not None:
            faults.append(f"receipt {number}: {fault}")
    if not faults and not rows[1]["rho"] and not independent_samples:  # rho adds up for any samples
        charged = [(number, receipt) for number, receipt in enumerate(receipts, 1) if receipt.has_loss]
        sharing = sharing_samples([receipt for _, receipt in charged])
        faults = [f"receipt {charged[place][0]}: {_SHARED}" for place in sorted(sharing)]
    if faults:
        return Verification(DOES_NOT_HOLD, tuple(faults))
    paid_for = f"{report.rows} rows of the ledger follow from each other and pay for {len(receipts)} receipts"
    of_people = all(receipt.charge and rows[receipt.charge.sequence]["policy"] for receipt in receipts)
    different = None if of_people else units_differ(receipts)
    return Verification(HOLDS, (paid_for, *(() if different is None else (different,))))


def units_differ(receipts: Sequence[AnyReceipt]) -> str | None:
    """In words, which receipts are about what, and for whom their losses add up; None where all are about one unit."""
    numbered = [*enumerate(receipts, 1)][::-1]
    units = {receipt.unit: f"receipt {number} is about {unit_in_words(receipt.unit)}" for number, receipt in numbered if receipt.unit}
    rules = {receipt.adjacency: f"receipt {number} about {receipt.adjacency}" for number, receipt in numbered}
    if len(rules) > 1:
        return f"{', '.join(sorted(rules.values()))}, so their losses have no sum"
    if len(units) > 1:
        return f"{', '.join(sorted(units.values()))}, so their losses add up for {unit_in_words(min(units))} of each release alone"
    return None


def _rows_of_people(receipt: AnyReceipt) -> int | None:
    """How many people a release must have been charged to: one for each row that is another person's, else the one of all rows; None
    where a receipt does not say which rows are whose."""
    if not isinstance(receipt, Receipt | LabelReceipt):
        return None
    return released_rows(receipt) if receipt.per == "record" else 1


def _charge_fault(receipt: AnyReceipt, ledger: str, rows: Mapping[int, Mapping[str, Any]]) -> str | None:
    if verify_receipt(receipt).status == DOES_NOT_HOLD:
        return "it does not hold"
    charge = receipt.charge
    if charge is None:
        return "it names no charge"
    if charge.ledger != ledger:
        return "it names another ledger"
    row = rows.get(charge.sequence)
    named = {"kind": "charge", "charge_id": charge.charge_id, "entry_hash": charge.entry_hash}
    if row is None or any(row[name] != value for name, value in named.items()):
        return f"the ledger has no such charge as the one named, row {charge.sequence}"
    if row["policy"]:  # of a ledger that counts by person
        from hushvec.budget.people import hashes_of

        charged, rows_of_people = len(hashes_of(row["policy"])), _rows_of_people(receipt)
        if rows_of_people is None:
            return f"the charge named, row {charge.sequence}, is of some people, and whom the release is about is not in its receipt"
        if charged < rows_of_people:
            return f"the charge named, row {charge.sequence}, is of {charged} people, the release of {rows_of_people} rows"
    if receipt.epsilon is None:
        return "it promises nothing that a charge could pay for: its epsilon is null"
    if rows[1]["rho"]:
        enough = Fraction(row["rho"]) >= Fraction(repr(receipt.rho))
    else:
        enough = all(Fraction(row[name]) >= Fraction(repr(getattr(receipt, name))) for name in ("epsilon", "delta"))
    return None if enough else f"the charge named, row {charge.sequence}, is smaller than what it promises"
