"""`hushvec card RECEIPT ...`: the entry of a deployment for a public registry, from its receipts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hushvec._native._core import __version__
from hushvec._util.publish import SHARED, published_text
from hushvec.accounting import compose
from hushvec.cli._output import answered
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._receipt_files import read_receipts
from hushvec.cli._style import printable
from hushvec.errors import ReceiptError
from hushvec.receipts import HOLDS, LabelReceipt, Receipt, TrainingReceipt, sheet_of, units_differ, verify_receipt

TO_FILL = "FILL IN"
TO_CHECK = "CHECK"
# What a receipt shows of a release, which says more about its size than its privacy or is not for publication.
_LEFT_OUT = ("", "guarantee", "charged")


class Card(Command, name="card", examples=(
    ("of one release", "hushvec card private.npy.receipt.json -o deployment.yaml"),
    ("of all releases about the same people", "hushvec card *.receipt.json -o deployment.yaml"),
)):
    """Write the entry of a deployment for OpenDP's registry of DP deployments, a YAML file of its schema, from receipts about the
    same people, which are composed. What no receipt can say is marked FILL IN, what it only suggests CHECK. Every receipt must
    hold."""

    receipts: list[str] = argument("a receipt file, JSON lines with a receipt each, or - for standard input", "RECEIPT", nargs="+")
    independent_samples: bool = option(
        "your word that trainings drew samples of their own, where receipts do not show it (else: no amplification)"
    )
    output: Path | None = option("the file; printed if left out", None, "-o", metavar="YAML")

    def run(self) -> int:
        named = [one for name in self.receipts for one in read_receipts(name)]
        for name, receipt in named:
            found = verify_receipt(receipt)
            if found.status != HOLDS:
                raise ReceiptError(f"{name}: {found.status}: {'; '.join(found.reasons)}")
        receipts = [receipt for _, receipt in named]
        if (reason := units_differ(receipts)) is not None:
            raise ReceiptError(f"receipts must be about one unit and adjacency to have one entry: {reason}")
        entry = entry_of(receipts, independent_samples=self.independent_samples)
        text = "\n".join(lines_of(entry)) + "\n"
        if self.output is None:
            return answered(self, _values(entry), text.rstrip("\n"))
        with published_text(self.output, mode=SHARED) as file:
            file.write(text)
        return answered(self, {**_values(entry), "output": str(self.output)}, _left(self.output, text))


class Marked:
    """A value with what a person must do about it."""

    def __init__(self, value: Any, mark: str) -> None:
        self.value, self.mark = value, mark


def blank(mark: str = TO_FILL) -> Marked:
    return Marked("", mark)


def entry_of(receipts: list[Any], *, independent_samples: bool) -> dict[str, Any]:
    """Return the entry, in the order of the schema."""
    one, several = receipts[0], len(receipts) > 1
    delta = sum(receipt.delta for receipt in receipts)
    total = compose(receipts, delta=delta, independent_samples=independent_samples) if several else one
    pure = total.delta == 0
    parameters = {"epsilon": total.epsilon} if pure else {"epsilon": total.epsilon, "delta": total.delta}
    on_rows = all(isinstance(receipt, Receipt | LabelReceipt) for receipt in receipts)
    kinds = {"Machine learning model" if isinstance(one, TrainingReceipt) else "Dataset" if on_rows else "Summary statistics"}
    guarantee = next(text for name, text in sheet_of(one).facts if name == "guarantee").partition(" for ")[2]
    composition = f"{total.theorem} composition of {len(receipts)} releases ({total.reference})" if several else "one release"
    return {
        "url_slug": blank("FILL IN: name-curator-year"),
        "status": "Draft",
        "tier": Marked(3, "CHECK: 3 if all that follows is filled in"),
        "deployment": {
            "basic": {
                "name": blank(), "data_curators": [blank()], "intended_use": blank(),
                "data_product_type": Marked(min(kinds), TO_CHECK), "data_product_region": blank(), "description": blank(),
                "publication_date": Marked("1900-01-01", "FILL IN: YYYY-MM-DD"),
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Approximate DP",
                "data_domain": blank(),
                "unprotected_quantities": Marked("The number of rows and of columns.", "CHECK: and ids, times, whatever is beside it"),
            },
            "privacy_loss": {
                "privacy_unit": Marked(_unit(guarantee), TO_CHECK),
                "privacy_unit_details": Marked(f"Adjacency of the receipts: {guarantee}.", "CHECK: who is behind a row"),
                "privacy_parameters": parameters,
                "privacy_parameters_details": f"Upper bounds, recomputed from {_count(receipts)} by hushvec {__version__}.",
            },
            "deployment_model": {
                "model_name": Marked("Local" if on_rows else "Central", "CHECK: Local only if rows were released where they arose"),
                "actors": blank(),
                "release_type": Marked("Many releases" if several else "One release", TO_CHECK),
                "data_source_type": Marked("Static", TO_CHECK),
                "access_type": Marked("Non-interactive", TO_CHECK),
            },
            "accounting": {"post_processing": blank(), "composition": f"{composition[0].upper()}{composition[1:]}."},
            "implementation": {
                "preprocessing_and_hyperparameter_tuning": blank(),
                "mechanisms": "\n".join(dict.fromkeys(map(_mechanism, receipts))),
                "justification": blank(),
            },
            "administrative": {
                "sources": blank(),
                "notes": "SHA-256 of the receipts' files: " + ", ".join(map(_digest, receipts)) + ". Check them with hushvec-verify.",
                "registry_authors": [blank()],
            },
        },
    }


def _unit(guarantee: str) -> str:
    return guarantee.partition(", ")[0]


def _count(receipts: list[Any]) -> str:
    return "one receipt" if len(receipts) == 1 else f"{len(receipts)} receipts"


def _mechanism(receipt: Any) -> str:
    facts = "; ".join(f"{name}: {text}" for name, text in sheet_of(receipt).facts if name not in _LEFT_OUT)
    return f"{facts}; hushvec {receipt.library_version}."


def _digest(receipt: Any) -> str:
    """As sha256sum has it of the receipt's file."""
    return hashlib.sha256(f"{receipt.to_json()}\n".encode()).hexdigest()


# ---- YAML: every scalar as JSON writes it ----


def _scalar(value: Any) -> str:
    text = json.dumps(value)
    # 2e-05 is a string in YAML 1.1, where numbers have a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


def lines_of(value: Any, indent: str = "") -> Iterator[str]:
    items = value.items() if isinstance(value, dict) else [(None, one) for one in value]
    for key, one in items:
        start = f"{indent}- " if key is None else f"{indent}{key}:"
        mark = f"  # {one.mark}" if isinstance(one, Marked) else ""
        plain = one.value if isinstance(one, Marked) else one
        if isinstance(plain, dict | list):
            yield start
            yield from lines_of(plain, indent + "  ")
        else:
            yield f"{start}{' ' if key is not None else ''}{_scalar(plain)}{mark}"


def _values(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _values(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_values(one) for one in value]
    return value.value if isinstance(value, Marked) else value


def _left(path: Path, text: str) -> str:
    marks = text.count(TO_FILL), text.count(TO_CHECK)
    return f"{printable(str(path))}: {marks[0]} fields to fill in, {marks[1]} to check; then propose it to the registry"
