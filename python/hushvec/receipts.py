"""Receipts: what a release did, what it promises, and whether the one follows from the other.

docs/receipts.md describes every field and the three answers of `verify_receipt`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeAlias

from hushvec import _core, _validate
from hushvec._receipt_fields import (
    ROUNDS,
    Number,
    OneOf,
    WholeNumber,
    boolean,
    digest,
    json_object,
    number_of_text,
    optional_digest,
    require_fields,
    string,
    strings,
)
from hushvec.calibrate import gaussian_delta, gaussian_epsilon
from hushvec.errors import ReceiptError
from hushvec.mechanisms import ADJACENCY, MECHANISMS, quotient_down, sensitivity

if TYPE_CHECKING:
    from typing_extensions import Self

    from hushvec.accounting import PrivacyLoss
    from hushvec.budget import Charge
    from hushvec.label_receipt import LabelReceipt
    from hushvec.report_receipt import ReportReceipt
    from hushvec.selection_receipt import SelectionReceipt
    from hushvec.training_receipt import TrainingReceipt

    AnyReceipt: TypeAlias = "Receipt | LabelReceipt | SelectionReceipt | ReportReceipt | TrainingReceipt"

RECEIPT_VERSION = 1

Status = Literal["holds", "does not hold", "not a DP claim"]
HOLDS: Status = "holds"
DOES_NOT_HOLD: Status = "does not hold"
NOT_A_CLAIM: Status = "not a DP claim"

NOTE_FLOAT = "floating-point: not protected"
NOTE_SEED = "key from a user-given seed: not a DP claim"

_GAUSSIANS = ("gaussian", "empirical")
_PRIVUNIT = "privunit"


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


@dataclass(frozen=True, kw_only=True)
class ReceiptFields:
    """What receipts of every kind do with their fields: check them, and write and read them as strict JSON."""

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
        """The fields that JSON holds in another form than the receipt."""
        numbers = {name: number_of_text(name, fields[name]) for name in cls._text_numbers}
        return {**numbers, "notes": tuple(fields["notes"]), "charge": entry_of(fields["charge"])}

    @property
    def rho(self) -> float:
        """The privacy loss in zero-concentrated DP, rounded up: what a ledger in rho must have been charged."""
        rho: float = self.loss.rho  # type: ignore[attr-defined]
        return rho

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


@dataclass(frozen=True, kw_only=True)
class Receipt(ReceiptFields):
    """The record of one release: parameters as used, and the guarantee they give.

    Args:
        receipt_version: version of these fields, 1.
        format_version: version of the release format, docs/format.md.
        library_version: hushvec that made the release.
        mechanism: "gaussian", "laplacian", "l2_laplace", "privunit" or "empirical".
        adjacency: "replace-one".
        per: unit of privacy: "record", every row is another person; "release", all rows are one person.
        epsilon: promised epsilon.
        delta: promised delta; 0 for laplacian, l2_laplace and privunit.
        clip_norm: C, the L2 norm that rows were clipped to; that all rows were brought to for privunit.
        sensitivity: how far one person's clipped data can move, in the norm of sensitivity_norm.
        sensitivity_norm: "l2" or "l1".
        sigma: standard deviation of Gaussian noise as used (privunit: across the direction), else None. A float32, written out
            exactly.
        scale: scale of Laplace noise as used, else None. A float32, written out exactly.
        cap_probability, threshold: the law of privunit, else None: docs/proofs/privunit.md.
        grid: the power of two that exact values are multiples of; None for the float grade.
        grade: "exact" or "float".
        key_source: "os" or "seed".
        rounds: of the ChaCha key stream: 20, 12 or 8.
        rows: number of rows released.
        dimension: elements in a row.
        dtype: of the released values.
        normalize: rows were brought to unit length before the noise.
        renormalize: rows were brought to unit length after the noise (post-processing).
        nonfinite: what happens to rows with NaN or Inf: "raise", nothing is released.
        charge: the row of a budget's ledger that paid for the release, or None.
        projection: SHA-256 of the public map that rows went through before the mechanism, or None.
        is_dp_claim: whether the numbers are promised at all. False for a seeded key and for the float grade.
        notes: what else a reader should know, in plain words.

    Raises:
        ReceiptError: a field of the wrong kind or out of its set of values.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0).receipt
        >>> hv.Receipt.from_json(receipt.to_json()) == receipt
        True
    """

    mechanism: str
    adjacency: str
    per: str
    epsilon: float
    delta: float
    clip_norm: float
    sensitivity: float
    sensitivity_norm: str
    sigma: float | None
    scale: float | None
    cap_probability: float | None
    threshold: float | None
    grid: float | None
    grade: str
    key_source: str
    rounds: int
    rows: int
    dimension: int
    dtype: str
    normalize: bool
    renormalize: bool
    nonfinite: str
    is_dp_claim: bool
    library_version: str
    notes: tuple[str, ...] = ()
    charge: LedgerEntry | None = None
    projection: str | None = None
    format_version: int = _core.format_version
    receipt_version: int = RECEIPT_VERSION

    @classmethod
    def _field_rules(cls) -> Mapping[str, Callable[[str, Any], None]]:
        return _FIELD_RULES

    @property
    def loss(self) -> PrivacyLoss:
        """The privacy loss of the release, for `hushvec.accounting.compose`: of its noise, whatever epsilon it states.

        Meaningful for a receipt that `verify_receipt` found to hold; of the mechanism over the reals for one that claims nothing.
        """
        from hushvec.accounting import GaussianDP, PureDP

        if self.mechanism in _GAUSSIANS and self.sigma is not None:
            return GaussianDP(noise_multiplier=quotient_down(self.sigma, _sensitivity(self)), adjacency=self.adjacency)
        return PureDP(epsilon=self.epsilon, adjacency=self.adjacency)


class Verification(NamedTuple):
    """The answer of `verify_receipt`.

    Args:
        status: "holds", "does not hold" or "not a DP claim".
        reasons: why, one sentence each; never empty.
    """

    status: Status
    reasons: tuple[str, ...]


def receipt_from_dict(fields: Mapping[str, Any]) -> AnyReceipt:
    """The receipt of a mapping, of the kind that its receipt_kind names: of vectors where it has none.

    Raises:
        ReceiptError: no receipt of that kind.
    """
    if not isinstance(fields, Mapping) or "receipt_kind" not in fields:
        return Receipt.from_dict(fields)
    kinds = list(_kinds())
    read: AnyReceipt = next((kind for kind in kinds if kind.receipt_kind == fields["receipt_kind"]), kinds[0]).from_dict(fields)
    return read


def receipt_from_json(text: str) -> AnyReceipt:
    """The receipt of a JSON text, of any kind.

    Raises:
        ReceiptError: not JSON, or no receipt.
    """
    return receipt_from_dict(json_object(text))


def verify_receipt(receipt: AnyReceipt | Mapping[str, Any]) -> Verification:
    """Recompute a receipt's guarantee from its parameters and compare it with what the receipt says.

    Args:
        receipt: a `Receipt`, `LabelReceipt`, `SelectionReceipt`, `ReportReceipt` or `TrainingReceipt`, or a mapping with the
            fields of one (`json.load` of a receipt file).

    Returns:
        A `Verification`:
        "does not hold" if a stated number does not follow from the others (too small an epsilon, delta, sensitivity, sigma or
        scale; a grid or a grade that such a release does not have), or a promise is made where there can be none;
        else "not a DP claim" if the receipt promises nothing (a seeded key, the float grade, labels with their model's scores);
        else "holds".

    Raises:
        ReceiptError: the mapping is no receipt.
        TypeError: neither a receipt nor a mapping.
        MissingExtraError: a training sampled its examples, and hushvec[accounting] is not installed.

    Guarantees:
        The sensitivity is recomputed from clip_norm, per, rows and dimension, never taken from the receipt. Laplace guarantees
        are compared in exact arithmetic; the Gaussian delta, and the logarithm of the ratio of a law of labels, are rounded up
        before they are compared. "holds" speaks of the receipt's numbers: nothing in a receipt proves that given values were
        made that way.

    Edge cases:
        A larger epsilon or delta than the noise gives is a weaker promise, and holds.

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
    _validate.rounding_to_nearest()
    if isinstance(receipt, Mapping):
        receipt = receipt_from_dict(receipt)
    if not isinstance(receipt, Receipt):
        return _verify_other(receipt)
    contradictions = [*_setting_faults(receipt), *_noise_faults(receipt), *_claim_faults(receipt)]
    if contradictions:
        return Verification(DOES_NOT_HOLD, tuple(contradictions))
    if not receipt.is_dp_claim:
        ideal = _guarantee(receipt, "would hold in real arithmetic with a secret key")
        return Verification(NOT_A_CLAIM, (*_why_no_claim(receipt), ideal))
    return Verification(HOLDS, (_guarantee(receipt, "follows from the parameters"),))


def _kinds() -> dict[type[Any], Callable[[Any], Verification]]:
    """The kinds that a field names, and how each is verified. Labels come first: what no kind is read as is read as theirs."""
    from hushvec.label_receipt import LabelReceipt, verify_label_receipt
    from hushvec.report_receipt import ReportReceipt, verify_report_receipt
    from hushvec.selection_receipt import SelectionReceipt, verify_selection_receipt
    from hushvec.training_receipt import TrainingReceipt, verify_training_receipt

    return {
        LabelReceipt: verify_label_receipt,
        ReportReceipt: verify_report_receipt,
        SelectionReceipt: verify_selection_receipt,
        TrainingReceipt: verify_training_receipt,
    }


def _verify_other(receipt: Any) -> Verification:
    for kind, verify in _kinds().items():
        if isinstance(receipt, kind):
            return verify(receipt)
    raise TypeError(f"receipt must be a receipt of hushvec or a mapping, got {type(receipt).__name__}")


def verification(
    receipt: AnyReceipt,
    faults: Sequence[str],
    guarantee: Callable[[str], str],
    *,
    basis: str,
    why_no_claim: Sequence[str],
    otherwise: str = "would hold with a secret key",
) -> Verification:
    """The answer for a receipt whose law was checked.

    Args:
        faults: what does not follow from the law.
        guarantee: the receipt's guarantee as a sentence that ends with the given words.
        basis: what it follows from.
        why_no_claim: why there can be no promise; empty if there can be one.
        otherwise: under which the guarantee of a receipt without a claim would hold.
    """
    claimed = [f"is_dp_claim must be false: {reason}" for reason in why_no_claim] if receipt.is_dp_claim else []
    if faults or claimed:
        return Verification(DOES_NOT_HOLD, (*faults, *claimed))
    if not receipt.is_dp_claim:
        return Verification(NOT_A_CLAIM, (*(why_no_claim or ["the receipt itself makes no claim"]), guarantee(otherwise)))
    return Verification(HOLDS, (guarantee(f"follows from the {basis}"),))


def verify_charges(receipts: Sequence[AnyReceipt], export: Mapping[str, Any]) -> Verification:
    """Check that a ledger holds, and that it paid for every receipt with a charge of its own.

    Args:
        receipts: releases charged to one ledger, of vectors, labels, selections, reports and trainings.
        export: of `PrivacyBudget.export`, or the same read from JSON.

    Returns:
        "holds", or "does not hold" with the reasons: a row that does not follow from the others; a receipt that does not hold
        itself, or names no charge, another ledger, a charge that is not there, one that another receipt names too, or one smaller
        than its promise.

    Raises:
        ValueError, TypeError: the export is none.

    Guarantees:
        Amounts are compared as the exact decimals that they print as. A ledger in rho must have charged the rho of the receipt's
        noise. "holds" speaks of numbers: whoever can write a whole ledger can write one that holds.

    Edge cases:
        No receipts: only the ledger is checked. The ledger may hold more charges than there are receipts: a crash between charge
        and release spends.

    Reference:
        docs/budget.md: rows, hashes and what a chain can show.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> budget = hv.PrivacyBudget(10.0)
        >>> receipt = hv.privatize(np.ones((2, 384), np.float32), epsilon=8.0, budget=budget).receipt
        >>> hv.verify_charges([receipt], budget.export()).status
        'holds'
    """
    from hushvec.budget import verify_export

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
    if faults:
        return Verification(DOES_NOT_HOLD, tuple(faults))
    return Verification(HOLDS, (f"{report.rows} rows of the ledger follow from each other and pay for {len(receipts)} receipts",))


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
    if receipt.epsilon is None:
        return "it promises nothing that a charge could pay for: its epsilon is null"
    if rows[1]["rho"]:
        enough = Fraction(row["rho"]) >= Fraction(repr(receipt.rho))
    else:
        enough = all(Fraction(row[name]) >= Fraction(repr(getattr(receipt, name))) for name in ("epsilon", "delta"))
    return None if enough else f"the charge named, row {charge.sequence}, is smaller than what it promises"


def has_sigma(mechanism: str) -> bool:
    """Whether a mechanism's noise is stated as sigma, not as scale."""
    return mechanism in (*_GAUSSIANS, _PRIVUNIT)


def rows_per_person(per: str, rows: int) -> int:
    """How many rows of a release concern one person, at least 1."""
    return max(1, rows) if per == "release" else 1


def _setting_faults(receipt: Receipt) -> list[str]:
    """What contradicts the mechanism's setting: sensitivity, norm, delta, normalisation."""
    faults = []
    kind = MECHANISMS[receipt.mechanism]
    if receipt.sensitivity_norm != kind.sensitivity_norm:
        expected = kind.sensitivity_norm
        faults.append(f"sensitivity_norm must be {expected!r} for {receipt.mechanism}, got {receipt.sensitivity_norm!r}")
    needed = _sensitivity(receipt)
    if receipt.sensitivity < needed:
        faults.append(
            f"sensitivity must be >= {needed!r} for clip_norm = {receipt.clip_norm!r}, per = {receipt.per!r}, "
            f"{receipt.rows} rows of {receipt.dimension}, got {receipt.sensitivity!r}"
        )
    if receipt.mechanism not in _GAUSSIANS and receipt.delta != 0:
        faults.append(f"delta must be 0 for {receipt.mechanism}, got {receipt.delta!r}")
    if receipt.mechanism in _GAUSSIANS and receipt.delta == 0:
        faults.append(f"delta must be > 0 for {receipt.mechanism}, got 0.0")
    if receipt.mechanism == _PRIVUNIT and not receipt.normalize:
        faults.append("normalize must be true for privunit, which releases directions")
    elif receipt.mechanism != _PRIVUNIT and receipt.normalize and receipt.clip_norm != 1:
        faults.append(f"clip_norm must be 1.0 with normalize, got {receipt.clip_norm!r}")
    return faults


def _noise_faults(receipt: Receipt) -> list[str]:
    """What contradicts the noise: the parameter, its grid, and the guarantee that it gives."""
    name, other = ("sigma", "scale") if has_sigma(receipt.mechanism) else ("scale", "sigma")
    parameter = getattr(receipt, name)
    if parameter is None:
        return [f"{name} must be given for {receipt.mechanism}"]
    faults = []
    if getattr(receipt, other) is not None:
        faults.append(f"{other} must be null for {receipt.mechanism}, got {getattr(receipt, other)!r}")
    faults += _grid_faults(receipt, name, parameter)
    if receipt.mechanism == _PRIVUNIT:
        return faults + _privunit_faults(receipt)
    for field in ("cap_probability", "threshold"):
        if getattr(receipt, field) is not None:
            faults.append(f"{field} must be null for {receipt.mechanism}, got {getattr(receipt, field)!r}")
    return faults + (_gaussian_faults(receipt, parameter) if name == "sigma" else _laplace_faults(receipt, parameter))


def _grid_faults(receipt: Receipt, name: str, parameter: float) -> list[str]:
    try:
        if receipt.mechanism == _PRIVUNIT:
            used, grid = _core.privunit_grid(parameter)
        else:
            used, grid = _core.exact_grid(parameter, receipt.clip_norm)
    except ValueError as error:
        return [str(error)]
    if used != parameter:
        return [f"{name} must be a float32, got {parameter!r}"]
    expected = grid if receipt.grade == "exact" else None
    if receipt.grid != expected:
        return [f"grid must be {expected!r} for this {name}, clip_norm and grade, got {receipt.grid!r}"]
    return []


def _gaussian_faults(receipt: Receipt, sigma: float) -> list[str]:
    distance = _sensitivity(receipt)
    delta = gaussian_delta(receipt.epsilon, sigma, distance)
    if receipt.delta == 0 or delta <= receipt.delta:
        return []
    epsilon = gaussian_epsilon(receipt.delta, sigma, distance)
    return [
        f"sigma = {sigma!r} at L2 sensitivity {distance!r} gives delta = {delta:.4g} at epsilon = {receipt.epsilon!r}, "
        f"more than the {receipt.delta!r} stated; at that delta it gives epsilon = {epsilon:.6g}"
    ]


def _privunit_faults(receipt: Receipt) -> list[str]:
    """epsilon is the sum over the person's rows; sigma is a mere scale of the result and carries no guarantee."""
    if receipt.cap_probability is None or receipt.threshold is None:
        return ["cap_probability and threshold must be given for privunit"]
    try:
        one_row = _core.privunit_epsilon(receipt.cap_probability, receipt.threshold)
    except ValueError as error:
        return [str(error)]
    rows = rows_per_person(receipt.per, receipt.rows)
    if Fraction(one_row) * rows <= Fraction(receipt.epsilon):
        return []
    return [
        f"cap_probability = {receipt.cap_probability!r} at threshold = {receipt.threshold!r} gives epsilon = "
        f"{one_row * rows:.6g}, more than the {receipt.epsilon!r} stated"
    ]


def _laplace_faults(receipt: Receipt, scale: float) -> list[str]:
    one_person = 2 * Fraction(receipt.clip_norm) * rows_per_person(receipt.per, receipt.rows)
    square = one_person**2 * (receipt.dimension if receipt.mechanism == "laplacian" else 1)
    if (Fraction(scale) * Fraction(receipt.epsilon)) ** 2 >= square:
        return []
    distance = _sensitivity(receipt)
    return [
        f"scale = {scale!r} at {receipt.sensitivity_norm.upper()} sensitivity {distance!r} gives "
        f"epsilon = {distance / scale:.6g}, more than the {receipt.epsilon!r} stated"
    ]


def _claim_faults(receipt: Receipt) -> list[str]:
    """A promise where there can be none, and a grade that the mechanism does not have."""
    faults = []
    if receipt.grade == "exact" and MECHANISMS[receipt.mechanism].grade != "exact":
        faults.append(f"grade must be 'float' for {receipt.mechanism}: it has no exact form")
    if receipt.is_dp_claim:
        faults += [f"is_dp_claim must be false: {reason}" for reason in _why_no_claim(receipt)]
    return faults


def _why_no_claim(receipt: Receipt) -> list[str]:
    reasons = []
    if receipt.grade == "float":
        reasons.append(NOTE_FLOAT)
    if receipt.key_source == "seed":
        reasons.append(NOTE_SEED)
    if not reasons and not receipt.is_dp_claim:
        reasons.append("the receipt itself makes no claim")
    return reasons


def _sensitivity(receipt: Receipt) -> float:
    return sensitivity(
        receipt.mechanism,
        clip_norm=receipt.clip_norm,
        rows_per_person=rows_per_person(receipt.per, receipt.rows),
        dimension=receipt.dimension,
    )


def _guarantee(receipt: Receipt, verb: str) -> str:
    unit = "one row" if receipt.per == "record" else "all rows of the release"
    return f"({receipt.epsilon!r}, {receipt.delta!r})-DP under replacement of {unit} {verb}"


def entry_of(value: Any) -> Any:
    """The LedgerEntry of a mapping with its fields; anything else is left for the field's rule to refuse."""
    known = {field.name for field in dataclasses.fields(LedgerEntry)}
    return LedgerEntry(**value) if isinstance(value, Mapping) and set(value) == known else value


def entry_or_none(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, LedgerEntry):
        raise ReceiptError(f"{name} must be null or an object with ledger, sequence, charge_id and entry_hash")


_POSITIVE = Number("> 0 and finite", lambda value: value > 0)
_OPTIONAL_POSITIVE = Number("> 0 and finite, or null", lambda value: value > 0, optional=True)

CLIP_NORM_RULE = Number("in [2^-100, 2^100]", lambda value: 2.0**-100 <= value <= 2.0**100)

# Of the fields that receipts of every kind have.
SHARED_RULES: dict[str, Callable[[str, Any], None]] = {
    "adjacency": OneOf(ADJACENCY),
    "delta": Number(">= 0 and < 1", lambda value: 0 <= value < 1),
    "grade": OneOf("exact"),
    "key_source": OneOf("os", "seed"),
    "rounds": OneOf(*ROUNDS),
    "is_dp_claim": boolean,
    "library_version": string,
    "notes": strings,
    "charge": entry_or_none,
    "format_version": OneOf(_core.format_version),
}

_FIELD_RULES: dict[str, Callable[[str, Any], None]] = {
    **SHARED_RULES,
    "mechanism": OneOf(*MECHANISMS),
    "per": OneOf("record", "release"),
    "epsilon": Number(">= 0 and finite", lambda value: value >= 0),
    "clip_norm": CLIP_NORM_RULE,
    "sensitivity": _POSITIVE,
    "sensitivity_norm": OneOf("l1", "l2"),
    "sigma": _OPTIONAL_POSITIVE,
    "scale": _OPTIONAL_POSITIVE,
    "cap_probability": Number("> 0 and < 1, or null", lambda value: 0 < value < 1, optional=True),
    "threshold": Number("in [0, 128], or null", lambda value: 0 <= value <= 128, optional=True),
    "grid": _OPTIONAL_POSITIVE,
    "grade": OneOf("exact", "float"),
    "rows": WholeNumber(0),
    "dimension": WholeNumber(1),
    "dtype": OneOf("float32", "float64", "float16", "bfloat16"),
    "normalize": boolean,
    "renormalize": boolean,
    "nonfinite": OneOf("raise"),
    "projection": optional_digest,
    "receipt_version": OneOf(RECEIPT_VERSION),
}
