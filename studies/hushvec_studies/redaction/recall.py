"""Recall and precision on sentences with known answers: 1,500 synthetic ones of presidio-research (synth_dataset_v2.json).

The rules were tuned on the sentences whose template_id is even; those with an odd one are reported apart.

A gold span counts as found if a predicted span of a compatible category overlaps it; as exact if one has its boundaries; as
hidden if every letter and digit of it lies in predicted spans of any category. A predicted span counts as right if it overlaps
a gold span of a compatible type. Precision is given for types that have a category of their own.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from hushvec_studies.redaction.tab import Detect

# Gold type -> categories of hushvec that answer it. Addresses come in pieces in the data, postal codes among them.
COMPATIBLE = {
    "EMAIL_ADDRESS": {"email address"},
    "CREDIT_CARD": {"card number"},
    "IBAN_CODE": {"bank account number"},
    "US_SSN": {"social security number", "tax number"},
    "IP_ADDRESS": {"ip address"},
    "PHONE_NUMBER": {"phone number"},
    "DOMAIN_NAME": {"web address"},
    "PERSON": {"full person name"},
    "ORGANIZATION": {"organization"},
    "STREET_ADDRESS": {"street address", "postal code"},
    "GPE": {"location", "street address"},
    "ZIP_CODE": {"postal code", "street address"},
    "DATE_TIME": {"date"},
    "AGE": {"age"},
    "TITLE": {"title"},
    "US_DRIVER_LICENSE": {"identity document number"},
    "NRP": {"nationality"},
}
AIMED = ("EMAIL_ADDRESS", "CREDIT_CARD", "IBAN_CODE", "US_SSN", "IP_ADDRESS", "PHONE_NUMBER", "DOMAIN_NAME")

def type_of(category):
    """The gold type that a category of its own stands for."""
    return next((name for name, categories in COMPATIBLE.items() if category in categories), None)


def counts(records: Iterable[dict[str, Any]], detect: Detect) -> dict[str, Counter[str]]:
    """type -> Counter(gold, found, exact, hidden, predicted, right); `detect(text)` gives (start, end, category)."""
    table: dict[str, Counter[str]] = {name: Counter() for name in COMPATIBLE}
    for record in records:
        text = record["full_text"]
        predicted = list(detect(text))
        gold = [(span["start_position"], span["end_position"], span["entity_type"]) for span in record["spans"]]
        covered = bytearray(len(text))
        for start, end, _ in predicted:
            covered[start:end] = b"\1" * (end - start)
        for start, end, kind in gold:
            row = table[kind]
            row["gold"] += 1
            fitting = [one for one in predicted if one[2] in COMPATIBLE[kind] and one[0] < end and one[1] > start]
            row["found"] += bool(fitting)
            row["exact"] += any(one[:2] == (start, end) for one in fitting)
            row["hidden"] += all(covered[at] for at in range(start, end) if text[at].isalnum())
        for start, end, category in predicted:
            kind = type_of(category)
            if kind is not None:
                table[kind]["predicted"] += 1
                table[kind]["right"] += any(
                    category in COMPATIBLE[other] and first < end and last > start for first, last, other in gold
                )
    return table


def share(part, whole):
    return round(part / whole, 4) if whole else None


def rates(row):
    return {
        "gold": row["gold"],
        "recall": share(row["found"], row["gold"]),
        "exact": share(row["exact"], row["gold"]),
        "hidden": share(row["hidden"], row["gold"]),
        "predicted": row["predicted"],
        "precision": share(row["right"], row["predicted"]),
    }


def summary(table):
    aimed = sum((table[name] for name in AIMED), Counter())
    return {"aimed": rates(aimed), **{name: rates(row) for name, row in table.items()}}


def detect_with(finder):
    """A function that gives (start, end, category) of what a `Redactor` or a detector alone finds."""
    return lambda text: [(span.start, span.end, span.category) for span in finder.detect(text)]


def is_held_out(record):
    """Whether a sentence is of a template that the rules were not tuned on."""
    return record["template_id"] % 2 == 1
