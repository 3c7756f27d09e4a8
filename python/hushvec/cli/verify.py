"""`hushvec verify RECEIPT ...`: recompute the guarantees of receipts, alone and together, and check that a ledger paid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec.accounting import Composition, compose
from hushvec.cli._output import answered, receipt_lines
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._receipt_files import EXPORT, mistaken, read_bytes, read_receipts, text_of
from hushvec.cli._style import paint, printable
from hushvec.errors import ReceiptError
from hushvec.receipts import DOES_NOT_HOLD, HOLDS, NOT_A_CLAIM, Verification, units_differ, verify_charges, verify_receipt
from hushvec.receipts.base import MOST_EXPORT_CHARACTERS, json_object

if TYPE_CHECKING:
    from hushvec.receipts.verify import AnyReceipt

EXIT_CODES = {HOLDS: 0, DOES_NOT_HOLD: 1, NOT_A_CLAIM: 2}
_STYLES: dict[str, str] = {HOLDS: "good", DOES_NOT_HOLD: "bad", NOT_A_CLAIM: "warn"}
SHOWN_RECEIPTS = 10  # of more than so many, the answers alone are printed


class Verify(Command, name="verify", examples=(
    ("one receipt", "hushvec verify private.npy.receipt.json"),
    ("several releases about the same people, which must cost at most 10 together", "hushvec verify *.receipt.json --epsilon 10"),
    (
        "and that a ledger paid for them",
        "hushvec budget export --key clinic -o ledger.json\n  hushvec verify *.receipt.json --ledger ledger.json",
    ),
)):
    """Recompute the guarantee of receipts of every kind from their parameters. Several are also added up, where all are about one
    unit of privacy: not a person's five rows and another person's single row.

    exit code 0  holds
              1  does not hold: a stated number does not follow from the others, the releases together cost more
                 than --epsilon, or the ledger is inconsistent or did not pay for a receipt
              2  not a DP claim (seeded key, float grade, labels with their model's scores, training without noise),
                 or a receipt or ledger that cannot be read

    It checks the receipts' numbers. It cannot check that the values were made that way."""

    receipts: list[str] = argument(
        "a receipt file, JSON lines with a receipt each (hushvec rewrite --lines), or - for standard input", "RECEIPT", nargs="+"
    )
    epsilon: float | None = option("the claimed epsilon of all releases together, about the same people")
    delta: float | None = option("the delta of that claim (default: the sum of the receipts' own)")
    independent_samples: bool = option(
        "your word that trainings drew samples of their own, where receipts do not show it (else: no amplification)"
    )
    ledger: str | None = option("what `hushvec budget export` wrote: check it, and that it paid", metavar="EXPORT")

    def run(self) -> int:
        named = [one for name in self.receipts for one in read_receipts(name)]
        receipts = [receipt for _, receipt in named]
        found = [verify_receipt(receipt) for receipt in receipts]
        statuses = {one.status for one in found}
        further: dict[str, Verification] = {}
        composition = None
        asked = self.epsilon is not None or self.delta is not None
        # Losses about two units or adjacencies have no sum, nor has the unknown loss behind a receipt that does not hold. Training has
        # no loss before its first step, and no finite one without noise. compose refuses what was asked for.
        refused = None if asked or DOES_NOT_HOLD in statuses else units_differ(receipts)
        comparable = refused is None and all(receipt.has_loss for receipt in receipts)
        if DOES_NOT_HOLD not in statuses and (asked or (len(receipts) > 1 and comparable)):
            further["together"], composition = _together(receipts, self, claimed=NOT_A_CLAIM not in statuses)
        if self.ledger is not None:
            further["ledger"] = _ledger(receipts, self.ledger, independent_samples=self.independent_samples)
        every = (one.status for one in (*found, *further.values()))
        if refused is not None:  # is no fault of the receipts
            further["together"] = Verification(NOT_A_CLAIM, (f"no claim about all releases: {refused}",))
        status = max(every, key=lambda status: (status != HOLDS, status == DOES_NOT_HOLD))
        value: dict[str, Any] = {"status": status}
        each = [{**_as_json(one), "receipt": receipt.to_dict()} for one, receipt in zip(found, receipts)]
        value |= {"receipts": each} if len(each) > 1 else {name: each[0][name] for name in ("reasons", "receipt")}
        value |= {title: _as_json(one) for title, one in further.items()}
        if composition is not None:
            value["together"] |= {name: getattr(composition, name) for name in ("epsilon", "delta", "theorem")}
        answered(self, value, _painted(status), *_lines(named, found, further))
        return EXIT_CODES[status]


def _together(receipts: list[AnyReceipt], options: Verify, *, claimed: bool) -> tuple[Verification, Composition]:
    epsilon = None if options.epsilon is None else validate.not_negative("--epsilon", options.epsilon)
    delta = sum(receipt.delta for receipt in receipts) if options.delta is None else options.delta
    composition = compose(receipts, delta=delta, independent_samples=options.independent_samples)
    promise = f"({composition.epsilon!r}, {composition.delta!r})-DP by {composition.theorem} composition ({composition.reference})"
    if composition.unamplified:
        promise += f"; {composition.unamplified} of them count without amplification, as they may rest on the same samples"
    elif options.independent_samples:
        promise += "; that samples are independent is your word where receipts do not show it"
    if epsilon is not None and composition.epsilon > epsilon:
        return Verification(DOES_NOT_HOLD, (f"epsilon = {epsilon!r} is less than the releases cost together: {promise}",)), composition
    if not claimed:
        return Verification(NOT_A_CLAIM, (f"all releases together would be {promise} if each made a claim",)), composition
    return Verification(HOLDS, (f"all releases together, about the same people, are {promise}",)), composition


def _ledger(receipts: list[AnyReceipt], name: str, *, independent_samples: bool) -> Verification:
    content = read_bytes(name, MOST_EXPORT_CHARACTERS, EXPORT)
    try:
        export = json_object(text_of(content, MOST_EXPORT_CHARACTERS), "export", MOST_EXPORT_CHARACTERS)
        return verify_charges(receipts, export, independent_samples=independent_samples)
    except (ValueError, TypeError) as error:
        raise ReceiptError(mistaken(name, content, EXPORT) or f"{name}: {error}") from None


def _as_json(found: Verification) -> dict[str, Any]:
    return {"status": found.status, "reasons": list(found.reasons)}


def _painted(status: str) -> str:
    return paint(_STYLES[status], status)


def _lines(named: list[tuple[str, AnyReceipt]], found: list[Verification], further: dict[str, Verification]) -> Iterator[str]:
    for (name, receipt), one in zip(named, found):
        if len(named) > 1:
            yield f"{printable(name)}: {_painted(one.status)}"
        yield _reasons(one)
        if len(named) <= SHOWN_RECEIPTS:
            yield f"\n{receipt_lines(receipt)}"
    for title, one in further.items():
        yield f"\n{title}: {_painted(one.status)}"
        yield _reasons(one)


def _reasons(found: Verification) -> str:
    return "\n".join(printable(f"  {reason}") for reason in found.reasons)
