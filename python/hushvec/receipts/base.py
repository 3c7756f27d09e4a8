"""Shared by receipts of every kind: fields with their rules, strict JSON, the ledger entry of the charge, the result of a check.

docs/receipts.md describes every field. A kind declares each of its fields once: the annotation has its type and its rule, a function
of name and value that raises ReceiptError.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, get_type_hints

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, shown
from hushvec._util.rounding import up
from hushvec.accounting import PrivacyLoss, PureDP, Repeated
from hushvec.budget import Charge
from hushvec.errors import ReceiptError
from hushvec.mechanisms import ADJACENCY

if TYPE_CHECKING:
    from typing_extensions import Self

Status = Literal["holds", "does not hold", "not a DP claim"]
HOLDS: Status = "holds"
DOES_NOT_HOLD: Status = "does not hold"
NOT_A_CLAIM: Status = "not a DP claim"

NOTE_FLOAT = "floating-point: not protected"
NOTE_SEED = "key from a user-given seed: not a DP claim"

# The unit of privacy: every row is another person, or all rows are one person.
PER = ("record", "release")

# The version of exact noise on rows and sums from half the key stream, of any cipher: docs/format.md section 16.
HALF_WORDS = 3

# Rounds of each cipher of the key stream.
ROUNDS = {"aes256": 14, "chacha20": 20, "chacha12": 12, "chacha8": 8}
WORDS = 2**64  # equally likely values that laws of labels and reports are drawn from

_MOST_CHARACTERS = 1 << 20
MOST_EXPORT_CHARACTERS = 1 << 30

_CIPHERS = {"aes256": "AES-256", "chacha20": "ChaCha20", "chacha12": "ChaCha12", "chacha8": "ChaCha8"}
_KEYS = {"os": "key from the operating system", "seed": "KEY FROM A USER-GIVEN SEED"}
_DIGITS = 16  # of a digest that is printed


# ---- strict JSON ----


def json_object(text: str, what: str = "receipt", most_characters: int = _MOST_CHARACTERS) -> Any:
    """The value of a JSON text without repeated fields and without NaN or Inf. `what` names the text in messages."""
    if len(text) > most_characters:
        raise ReceiptError(f"{what} must have at most {most_characters} characters, got {len(text)}")

    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields = dict(pairs)
        if len(fields) != len(pairs):
            raise ReceiptError(f"{what} must not have a field twice")
        return fields

    def refuse_constant(constant: str) -> float:
        raise ReceiptError(f"{what} must hold finite numbers, got {constant}")

    try:
        return json.loads(text, object_pairs_hook=distinct, parse_constant=refuse_constant)
    except ReceiptError:
        raise
    except (ValueError, RecursionError) as error:
        raise ReceiptError(f"{what} must be JSON: {error}") from None


def require_fields(fields: Any, known: Collection[str]) -> None:
    """Check that all fields are known and none is missing, and that notes are a list."""
    try:
        validate.fields("receipt", fields, known)
    except (TypeError, ValueError) as error:
        raise ReceiptError(str(error)) from None
    if not isinstance(fields["notes"], (list, tuple)):
        raise ReceiptError("notes must be a list of strings")


# ---- rules of fields ----


class OneOf:
    """A value of a set, of the same kind as in it: 1.0 and True are not 1."""

    def __init__(self, *accepted: str | int) -> None:
        self.accepted: Collection[str | int] = accepted

    def __call__(self, name: str, value: Any) -> None:
        if type(value) not in (str, int) or value not in self.accepted:
            raise ReceiptError(f"{name} must be one of {', '.join(map(repr, self.accepted))}, got {value!r:.60}")


class Number:
    """A finite float64. A whole number that float64 would round is refused."""

    def __init__(self, rule: str, holds: Callable[[float], bool], *, optional: bool = False) -> None:
        self.rule, self.holds, self.optional = rule, holds, optional

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ReceiptError(f"{name} must be a number, got {type(value).__name__}")
        try:
            is_float64 = math.isfinite(value) and float(value) == value
        except OverflowError:  # an int beyond float64
            is_float64 = False
        if not (is_float64 and self.holds(value)):
            raise ReceiptError(f"{name} must be {self.rule}, got {value!r:.60}")


class WholeNumber:
    def __init__(self, at_least: int, below: int = 2**63, *, optional: bool = False) -> None:
        self.at_least, self.below, self.optional = at_least, below, optional

    def __call__(self, name: str, value: Any) -> None:
        if value is None and self.optional:
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise ReceiptError(f"{name} must be a whole number, got {type(value).__name__}")
        if not self.at_least <= value < self.below:
            end = f"2^{self.below.bit_length() - 1}" if self.below.bit_count() == 1 else self.below
            raise ReceiptError(f"{name} must be >= {self.at_least} and < {end}, got {value!r:.60}")


def boolean(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ReceiptError(f"{name} must be true or false, got {type(value).__name__}")


def string(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ReceiptError(f"{name} must be a string, got {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ReceiptError(f"{name} must be text that UTF-8 can hold, got {value!r:.60}") from None


def strings(name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise ReceiptError(f"{name} must be a list of strings")
    for note in value:
        string(name, note)


def digest(name: str, value: Any, digits: int = 64) -> None:
    string(name, value)
    if len(value) != digits or set(value) - set("0123456789abcdef"):
        raise ReceiptError(f"{name} must be {digits} hexadecimal digits, got {value!r:.80}")


def optional_digest(name: str, value: Any) -> None:
    if value is not None:
        digest(name, value)


def entry_or_none(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, LedgerEntry):
        raise ReceiptError(f"{name} must be null or an object with ledger, sequence, charge_id and entry_hash")


def number_of_text(name: str, value: Any) -> int:
    """The whole number of a text of digits. A JSON number is refused: a reader may have rounded it."""
    string(name, value)
    if not re.fullmatch("0|[1-9][0-9]{0,19}", value):
        raise ReceiptError(f"{name} must be a whole number as text, got {value!r:.60}")
    return int(value)


@cache
def rules_of(kind: type) -> Mapping[str, Callable[[str, Any], None]]:
    """The rule of every field of a dataclass, from its annotations."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name].__metadata__[0] for field in dataclasses.fields(kind)}


Read = TypeVar("Read")


def read_as(kind: type[Read], value: Any) -> Read | Any:
    """The object of a mapping with exactly its fields; anything else is returned as it is, for the field's rule to refuse."""
    known = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**value) if isinstance(value, Mapping) and set(value) == known else value


# ---- fields that several kinds have ----


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

    ledger: Annotated[str, digest]
    sequence: Annotated[int, WholeNumber(2)]
    charge_id: Annotated[str, string]
    entry_hash: Annotated[str, digest]

    def __post_init__(self) -> None:
        for name, rule in rules_of(LedgerEntry).items():
            rule(f"charge.{name}", getattr(self, name))

    @classmethod
    def of(cls, charge: Charge) -> LedgerEntry:
        """The row that a charge of a `PrivacyBudget` made."""
        return cls(ledger=charge.ledger, sequence=charge.sequence, charge_id=charge.charge_id, entry_hash=charge.entry_hash)


Adjacency = Annotated[str, OneOf(ADJACENCY)]
Per = Annotated[str, OneOf(*PER)]
Positive = Annotated[float, Number("> 0 and finite", lambda value: value > 0)]
NotNegative = Annotated[float, Number(">= 0 and finite", lambda value: value >= 0)]
OptionalPositive = Annotated[float | None, Number("> 0 and finite, or null", lambda value: value > 0, optional=True)]
Delta = Annotated[float, Number(">= 0 and < 1", lambda value: 0 <= value < 1)]
ClipNorm = Annotated[float, Number("in [2^-100, 2^100]", lambda value: 2.0**-100 <= value <= 2.0**100)]
Count = Annotated[int, WholeNumber(0)]
CountFromOne = Annotated[int, WholeNumber(1)]
Flag = Annotated[bool, boolean]
Text = Annotated[str, string]
Digest = Annotated[str, digest]
OptionalDigest = Annotated[str | None, optional_digest]
Exact = Annotated[str, OneOf("exact")]
ExactOrFloat = Annotated[str, OneOf("exact", "float")]
KeySource = Annotated[str, OneOf("os", "seed")]
Cipher = Annotated[str, OneOf(*ROUNDS)]
Rounds = Annotated[int, OneOf(*ROUNDS.values())]
FormatVersion = Annotated[int, OneOf(*sorted({*_core.format_versions.values(), HALF_WORDS}))]
Version = Annotated[int, OneOf(1)]
Notes = Annotated[tuple[str, ...], strings]
OptionalCharge = Annotated[LedgerEntry | None, entry_or_none]


# ---- receipts ----


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


Facts = list[tuple[str, str]]


@shown
@dataclass(frozen=True, kw_only=True)
class ReceiptFields:
    """Base of all receipts: checks fields, writes and reads them as strict JSON. `print` shows them in words.

    Every kind declares its own fields, in the order of its JSON. These mean the same in all of them:

    Args:
        receipt_kind: "labels", "reports", "selection", "training" or "aggregate"; receipts of vectors have no such field.
        receipt_version: version of the fields, 1.
        format_version: version of the release format, docs/format.md: 2 for "aes256", else 1; 3 for exact noise on rows and sums.
        library_version: hushvec that made the release.
        adjacency: "replace-one": one person's data is replaced by any other; of training and aggregates also "add-remove".
        epsilon, delta: the guarantee; delta is 0 for pure differential privacy.
        grade: "exact": the values are those of the ideal mechanism, rounded. "float": a part was computed in floating point.
        key_source: "os" or "seed".
        cipher: of the key stream: "aes256", "chacha20", "chacha12" or "chacha8".
        rounds: of the cipher: 14, 20, 12 or 8.
        is_dp_claim: whether the numbers are claimed at all. False for a seeded key and for the float grade.
        notes: what else a reader should know, in plain words.
        charge: the row of a budget's ledger that paid for the release, or None.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.
    """

    if TYPE_CHECKING:
        mechanism: str
        adjacency: str
        epsilon: float | None
        delta: float
        key_source: str
        cipher: str
        rounds: int
        format_version: int
        is_dp_claim: bool
        notes: tuple[str, ...] = ()
        charge: LedgerEntry | None = None

    # Whole numbers that JSON holds as text, since some readers round large ones.
    _text_numbers: ClassVar[tuple[str, ...]] = ()
    # What the guarantee follows from.
    _basis: ClassVar[str] = "law"

    def __post_init__(self) -> None:
        for name, rule in rules_of(type(self)).items():  # type: ignore[arg-type]
            rule(name, getattr(self, name))

    @classmethod
    def _read(cls, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The fields whose JSON form differs from the receipt's."""
        numbers = {name: number_of_text(name, fields[name]) for name in cls._text_numbers}
        return {**numbers, "notes": tuple(fields["notes"]), "charge": read_as(LedgerEntry, fields["charge"])}

    @property
    def loss(self) -> PrivacyLoss | Repeated:
        """The privacy loss of the release, for `hushvec.accounting.compose`; `Repeated` where it is several about one person."""
        assert self.epsilon is not None
        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)

    @property
    def rho(self) -> float:
        """rho of the privacy loss in zero-concentrated DP, rounded up: what a ledger in rho is charged."""
        loss = self.loss
        return up(loss.count * loss.item.rho) if isinstance(loss, Repeated) else loss.rho

    @property
    def unit(self) -> float | None:
        """How many rows of a person the guarantee is about: 1, at most so many, or math.inf for all, however many there are.

        Losses about different units have no sum. None where there is one row at most, per record: it is all that there is of a person.
        """
        return 1

    @property
    def has_loss(self) -> bool:
        """Whether `loss` is one that composes."""
        return True

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain Python values, in the order of their definition."""
        fields = dataclasses.asdict(self)
        return {**fields, **{name: str(fields[name]) for name in self._text_numbers}, "notes": list(fields["notes"])}

    def to_json(self) -> str:
        """JSON text, indented. Numbers are written with all digits that their float64 value needs."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Self:
        """The receipt of a mapping with exactly the fields of `to_dict`.

        Raises:
            ReceiptError: a field is missing, unknown, of the wrong kind or out of its set of values.
        """
        require_fields(fields, [field.name for field in dataclasses.fields(cls)])
        return cls(**{**fields, **cls._read(fields)})

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The receipt of a JSON text as `to_json` writes it.

        Raises:
            ReceiptError: not JSON, a number that is not finite, a field twice, or what `from_dict` refuses.
        """
        return cls.from_dict(json_object(text))

    def _faults(self) -> list[str]:
        """Why a stated number does not follow from the others."""
        raise NotImplementedError

    def _guarantee(self, verb: str) -> str:
        """The guarantee as a sentence that ends with these words."""
        raise NotImplementedError

    def _otherwise(self) -> str:
        """The condition under which the guarantee of a receipt without a claim would hold."""
        return "with a secret key"

    def _why_no_claim(self) -> list[str]:
        """Why there can be no claim; empty if there can be one."""
        return [NOTE_SEED] if self.key_source == "seed" else []

    def _verified(self) -> Verification:
        """The answer of `hushvec.verify_receipt`."""
        why_no_claim = self._why_no_claim()
        contradictions = (
            *self._faults(),
            *self._cipher_faults(),
            *(f"is_dp_claim must be false: {reason}" for reason in why_no_claim if self.is_dp_claim),
        )
        if contradictions:
            return Verification(DOES_NOT_HOLD, contradictions)
        if not self.is_dp_claim:
            reasons = why_no_claim or ["the receipt itself makes no claim"]
            return Verification(NOT_A_CLAIM, (*reasons, self._guarantee(f"would hold {self._otherwise()}")))
        return Verification(HOLDS, (self._guarantee(f"follows from the {self._basis}"),))

    @property
    def _may_be_of_half_words(self) -> bool:
        return False

    def _cipher_faults(self) -> list[str]:
        rounds, version = ROUNDS[self.cipher], _core.format_versions[self.cipher]
        faults = []
        if self.rounds != rounds:
            faults.append(f"rounds must be {rounds} for {self.cipher}, got {self.rounds}")
        versions = (version, HALF_WORDS) if self._may_be_of_half_words else (version,)
        if self.format_version not in versions:
            faults.append(f"format_version must be {' or '.join(map(str, versions))} for {self.cipher}, got {self.format_version}")
        return faults

    def _delta_faults(self) -> list[str]:
        """Contradictions of a mechanism that has no delta."""
        return [f"delta must be 0 for {self.mechanism}, got {self.delta!r}"] if self.delta != 0 else []

    def _described(self) -> tuple[str, str, Facts]:
        """(title, unit of privacy, facts) of this kind, in plain words. Nothing is stated that the receipt does not state."""
        raise NotImplementedError

    def _sheet(self) -> Sheet:
        """The text of `print` and notebooks. A claim that the receipt's own fields contradict is not shown as one."""
        title, unit, facts = self._described()
        reasons = self._why_no_claim() or ([] if self.is_dp_claim else ["the receipt itself makes no claim"])
        price = f"epsilon {at_least(self.epsilon)}, delta {at_least(self.delta)} for {unit}, {self.adjacency}"
        if reasons:
            title = f"{title}: NOT A DP CLAIM"
            claim = [("guarantee", "none"), ("parameters", f"{price}: not guaranteed")]
        else:
            claim = [("guarantee", price), ("", "as the receipt states; hushvec.verify_receipt recomputes it")]
        stands_out = bool(reasons) or self.mechanism == "empirical"
        entry = self.charge
        shared = [
            ("noise", f"{_CIPHERS[self.cipher]}, {_KEYS[self.key_source]}"),
            ("charged", "to no ledger" if entry is None else f"row {entry.sequence} of ledger {short(entry.ledger)}"),
            *(("note", note) for note in (() if stands_out else self.notes)),
        ]
        cautions = dict.fromkeys((*reasons, *(self.notes if stands_out else ())))
        return Sheet(title, (*claim, *facts, *shared), tuple(cautions))


def short(digest: str) -> str:
    """A digest as it is printed."""
    return digest[:_DIGITS]


def all_of(count: int, one: str) -> str:
    return f"one {one}" if count == 1 else f"all {count:,} {one}s"


def sheet_of(receipt: ReceiptFields) -> Sheet:
    """The text that is shown of a receipt of any kind."""
    return receipt._sheet()


def release_sheet(values: str, receipt: ReceiptFields) -> Sheet:
    """The text that is shown of a release: its values, then its receipt."""
    sheet = receipt._sheet()
    return sheet._replace(title=sheet.title.replace("Receipt", "Release", 1), facts=(("released", values), *sheet.facts))


def key_fields(generator: _core.Generator, *, on_device: bool = False, half_words: bool = False) -> dict[str, Any]:
    """The fields that say what the noise of a release was drawn from; `half_words` says that version 3 has such noise.

    Raises:
        ValueError: on a device, of a generator that was asked for AES-256.
    """
    cipher = generator.device_cipher if on_device else generator.cipher
    fields = {"key_source": generator.key_source, **cipher_fields(cipher)}
    if half_words and generator.format_version == HALF_WORDS:
        fields["format_version"] = HALF_WORDS
    return fields


def cipher_fields(cipher: str) -> dict[str, Any]:
    """The fields that follow from the cipher, and itself."""
    return {"cipher": cipher, "rounds": ROUNDS[cipher], "format_version": _core.format_versions[cipher]}


def unit_of(per: str, rows: int) -> float | None:
    """`ReceiptFields.unit` of a release of so many rows."""
    return math.inf if per == "release" else 1 if rows > 1 else None


def rows_per_person(per: str, rows: int) -> int:
    """How many rows of a release concern one person, at least 1."""
    return max(1, rows) if validate.choice("per", per, PER) == "release" else 1
