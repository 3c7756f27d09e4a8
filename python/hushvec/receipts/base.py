"""Shared by receipts of every kind: fields as strict JSON, the ledger entry of the charge, the result of a check.

docs/receipts.md describes every field. Each kind has a file beside this one; `registry` lists them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import Sheet, shown
from hushvec.errors import ReceiptError
from hushvec.mechanisms import ADJACENCY
from hushvec.receipts.fields import (
    ROUNDS,
    Number,
    OneOf,
    WholeNumber,
    boolean,
    digest,
    json_object,
    number_of_text,
    require_fields,
    string,
    strings,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from hushvec.budget import Charge

Status = Literal["holds", "does not hold", "not a DP claim"]
HOLDS: Status = "holds"
DOES_NOT_HOLD: Status = "does not hold"
NOT_A_CLAIM: Status = "not a DP claim"

NOTE_FLOAT = "floating-point: not protected"
NOTE_SEED = "key from a user-given seed: not a DP claim"


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """Where a release was charged: one row of a budget's ledger.

    Args:
        ledger: identity of the ledger, the hash of its first row.
        sequence: number of the row, >= 2.
        charge_id: the id that a retry of the charge uses.
        entry_hash: SHA-256 of the row and, through it, of all rows before it; 64 hexadecimal digits.

    Raises:
        ReceiptError: a field of the wrong kind.
    """

    ledger: str
    sequence: int
    charge_id: str
    entry_hash: str

    def __post_init__(self) -> None:
        digest("charge.ledger", self.ledger)
        WholeNumber(2)("charge.sequence", self.sequence)
        string("charge.charge_id", self.charge_id)
        digest("charge.entry_hash", self.entry_hash)

    @classmethod
    def of(cls, charge: Charge) -> LedgerEntry:
        """The row that a charge of a `PrivacyBudget` made."""
        return cls(
            ledger=charge.ledger, sequence=charge.sequence, charge_id=charge.charge_id, entry_hash=charge.entry_hash
        )


@shown
@dataclass(frozen=True, kw_only=True)
class ReceiptFields:
    """Base of all receipts: checks fields, writes and reads them as strict JSON. `print` shows them in words."""

    # Whole numbers that JSON holds as text, since some readers round large ones.
    _text_numbers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        rules = self._field_rules()
        for field in dataclasses.fields(self):
            rules[field.name](field.name, getattr(self, field.name))

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        """The rule of every field, by name."""
        raise NotImplementedError

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields whose JSON form differs from the receipt's."""
        numbers = {name: number_of_text(name, fields[name]) for name in cls._text_numbers}
        return {**numbers, "notes": tuple(fields["notes"]), "charge": entry_of(fields["charge"])}

    @property
    def rho(self) -> float:
        """rho of the privacy loss in zero-concentrated DP, rounded up: what a ledger in rho is charged."""
        rho: float = self.loss.rho  # type: ignore[attr-defined]
        return rho

    @property
    def has_loss(self) -> bool:
        """Whether `loss` is one that composes."""
        return True

    def _why_no_claim(self) -> list[str]:
        """Why there can be no claim; empty if there can be one."""
        return [NOTE_SEED] if self.key_source == "seed" else []  # type: ignore[attr-defined]

    def _sheet(self) -> Sheet:
        from hushvec.receipts.facts import sheet_of

        return sheet_of(self)

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, in the order of their definition."""
        fields = dataclasses.asdict(self)
        return {**fields, **{name: str(fields[name]) for name in self._text_numbers}, "notes": list(fields["notes"])}

    def to_json(self) -> str:
        """JSON text, indented. Numbers are written with all digits that their float64 value needs."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The receipt of a mapping with exactly the fields of `to_dict`, of which `cipher` may be missing where `rounds` tells it.

        Raises:
            ReceiptError: a field is missing, unknown, of the wrong kind or out of its set of values.
        """
        fields = with_cipher(fields)
        require_fields(fields, [field.name for field in dataclasses.fields(cls)])
        return cls(**{**fields, **cls._read(fields)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The receipt of a JSON text as `to_json` writes it.

        Raises:
            ReceiptError: not JSON, a number that is not finite, a field twice, or what `from_dict` refuses.
        """
        return cls.from_dict(json_object(text))


def release_sheet(values: str, receipt: ReceiptFields) -> Sheet:
    """What is shown of a release: what its values are, then its receipt."""
    sheet = receipt._sheet()
    return sheet._replace(title=sheet.title.replace("Receipt", "Release", 1), facts=(("released", values), *sheet.facts))


def key_fields(generator: _core.Generator, *, on_device: bool = False) -> dict[str, Any]:
    """The fields that say what the noise of a release was drawn from.

    Raises:
        ValueError: on a device, of a generator that was asked for AES-256.
    """
    cipher = generator.device_cipher if on_device else generator.cipher
    return {"key_source": generator.key_source, **cipher_fields(cipher)}


def cipher_fields(cipher: str) -> dict[str, Any]:
    """The fields that follow from the cipher, and itself."""
    return {"cipher": cipher, "rounds": ROUNDS[cipher], "format_version": _core.format_versions[cipher]}


def with_cipher(fields: Any) -> Any:
    """The fields with those of a receipt from before AES-256, which name ChaCha by its rounds alone."""
    if not isinstance(fields, Mapping) or "cipher" in fields:
        return fields
    named = [cipher for cipher in ("chacha20", "chacha12", "chacha8") if fields.get("rounds") == ROUNDS[cipher]]
    return {**fields, "cipher": named[0]} if named else fields


class Keyed(Protocol):
    """A receipt, as far as its cipher goes."""

    @property
    def cipher(self) -> str: ...

    @property
    def rounds(self) -> int: ...

    @property
    def format_version(self) -> int: ...


def cipher_faults(receipt: Keyed) -> list[str]:
    """What contradicts the cipher."""
    expected = cipher_fields(receipt.cipher)
    return [
        f"{name} must be {expected[name]} for {receipt.cipher}, got {getattr(receipt, name)}"
        for name in ("rounds", "format_version")
        if getattr(receipt, name) != expected[name]
    ]


@shown
class Verification(NamedTuple):
    """The result of `verify_receipt`. `print` shows it with its reasons.

    Args:
        status: "holds", "does not hold" or "not a DP claim".
        reasons: why, one sentence each; never empty.
    """

    status: Status
    reasons: tuple[str, ...]

    def _sheet(self) -> Sheet:
        title = f"Verification: {self.status}"
        if self.status == HOLDS:
            return Sheet(title, tuple(("reason", reason) for reason in self.reasons))
        return Sheet(title, (), self.reasons)


class Claimant(Keyed, Protocol):
    """A receipt, as far as its cipher and its claim go."""

    @property
    def is_dp_claim(self) -> bool: ...

    def _why_no_claim(self) -> list[str]: ...


class OfPureDP(Protocol):
    """A receipt of a mechanism that may have no delta."""

    @property
    def mechanism(self) -> str: ...
    @property
    def delta(self) -> float: ...


def verification(
    receipt: Claimant,
    faults: Sequence[str],
    guarantee: Callable[[str], str],
    *,
    basis: str,
    otherwise: str = "would hold with a secret key",
) -> Verification:
    """The result for a receipt whose law was checked.

    Args:
        faults: what does not follow from the law.
        guarantee: the receipt's guarantee as a sentence that ends with the given words.
        basis: what it follows from.
        otherwise: under which the guarantee of a receipt without a claim would hold.
    """
    why_no_claim = receipt._why_no_claim()
    claimed = [f"is_dp_claim must be false: {reason}" for reason in why_no_claim] if receipt.is_dp_claim else []
    contradictions = (*faults, *cipher_faults(receipt), *claimed)
    if contradictions:
        return Verification(DOES_NOT_HOLD, contradictions)
    if not receipt.is_dp_claim:
        return Verification(NOT_A_CLAIM, (*(why_no_claim or ["the receipt itself makes no claim"]), guarantee(otherwise)))
    return Verification(HOLDS, (guarantee(f"follows from the {basis}"),))


def delta_faults(receipt: OfPureDP) -> list[str]:
    """What contradicts a mechanism that has no delta."""
    return [f"delta must be 0 for {receipt.mechanism}, got {receipt.delta!r}"] if receipt.delta != 0 else []


def rows_per_person(per: str, rows: int) -> int:
    """How many rows of a release concern one person, at least 1."""
    return max(1, rows) if validate.choice("per", per, PER) == "release" else 1


def entry_of(value: Any) -> Any:
    """The LedgerEntry of a mapping with its fields; anything else is returned as it is, for the field's rule to refuse."""
    known = {field.name for field in dataclasses.fields(LedgerEntry)}
    return LedgerEntry(**value) if isinstance(value, Mapping) and set(value) == known else value


def entry_or_none(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, LedgerEntry):
        raise ReceiptError(f"{name} must be null or an object with ledger, sequence, charge_id and entry_hash")


# The unit of privacy: every row is another person, or all rows are one person.
PER = ("record", "release")

CLIP_NORM_RULE = Number("in [2^-100, 2^100]", lambda value: 2.0**-100 <= value <= 2.0**100)

# Rules of the fields that receipts of every kind have.
SHARED_RULES: dict[str, Callable[[str, Any], None]] = {
    "adjacency": OneOf(ADJACENCY),
    "delta": Number(">= 0 and < 1", lambda value: 0 <= value < 1),
    "grade": OneOf("exact"),
    "key_source": OneOf("os", "seed"),
    "cipher": OneOf(*ROUNDS),
    "rounds": OneOf(*ROUNDS.values()),
    "is_dp_claim": boolean,
    "library_version": string,
    "notes": strings,
    "charge": entry_or_none,
    "format_version": OneOf(*sorted(set(_core.format_versions.values()))),
}
