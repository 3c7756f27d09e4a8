"""How much personal data the rules of hushvec.text find, beside the pattern recognisers of Presidio, on sentences with known answers.

    python -m hushvec_studies.redaction.recall DATA/pii_synth.json -o studies/hushvec_studies/redaction/results/recall.json

The data: 1,500 synthetic sentences of presidio-research (synth_dataset_v2.json). The rules were tuned on the sentences whose
template_id is even; those with an odd one are reported apart.

A gold span counts as found if a predicted span of a compatible category overlaps it; as exact if one has its boundaries; as
hidden if every letter and digit of it lies in predicted spans of any category. A predicted span counts as right if it overlaps
a gold span of a compatible type. Precision is given for types that have a category of their own.
"""

import argparse
import json
import time
from collections import Counter
from pathlib import Path

from hushvec.text import Redactor
from hushvec_studies.harness.outputs import write_json

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
PRESIDIO_CATEGORIES = {
    "EMAIL_ADDRESS": "email address",
    "CREDIT_CARD": "card number",
    "IBAN_CODE": "bank account number",
    "US_SSN": "social security number",
    "US_ITIN": "tax number",
    "IP_ADDRESS": "ip address",
    "PHONE_NUMBER": "phone number",
    "URL": "web address",
    "DATE_TIME": "date",
    "US_DRIVER_LICENSE": "identity document number",
    "US_PASSPORT": "identity document number",
}


def type_of(category):
    """The gold type that a category of its own stands for."""
    return next((name for name, categories in COMPATIBLE.items() if category in categories), None)


def counts(records, detect):
    """type -> Counter(gold, found, exact, hidden, predicted, right); `detect(text)` gives (start, end, category)."""
    table = {name: Counter() for name in COMPATIBLE}
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


def presidio_detect():
    """Presidio's pattern recognisers alone: the finds of its default registry without a language model."""
    from hushvec.integrations.presidio import PresidioDetector

    detector = PresidioDetector()

    def detect(text):
        return [
            (found.start, found.end, PRESIDIO_CATEGORIES.get(found.entity_type, found.entity_type.lower()))
            for found in detector.raw(text)
        ]

    return detect


def halves(records):
    return {
        "all": records,
        "even": [record for record in records if record["template_id"] % 2 == 0],
        "odd": [record for record in records if record["template_id"] % 2],
    }


def study(records, detectors):
    results = {}
    for name, detect in detectors.items():
        began = time.perf_counter()
        found = {part: summary(counts(chosen, detect)) for part, chosen in halves(records).items()}
        results[name] = {"seconds": round(time.perf_counter() - began, 2), **found}
    return results


def markdown(results):
    def cell(value):
        return "-" if value is None else f"{value:.3f}"

    lines = [
        "| type | gold | recall | exact | hidden | precision | odd half: recall | precision | Presidio: recall | exact | precision |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    ours, theirs = results["hushvec"], results.get("presidio")
    for name in ours["all"]:
        row, odd = ours["all"][name], ours["odd"][name]
        other = theirs["all"][name] if theirs else dict.fromkeys(row)
        label = "**the seven with an aim**" if name == "aimed" else name
        lines.append(
            f"| {label} | {row['gold']} | "
            + " | ".join(cell(row[key]) for key in ("recall", "exact", "hidden", "precision"))
            + f" | {cell(odd['recall'])} | {cell(odd['precision'])} | "
            + " | ".join(cell(other[key]) for key in ("recall", "exact", "precision"))
            + " |"
        )
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--no-presidio", action="store_true")
    options = parser.parse_args()
    records = json.loads(options.data.read_text(encoding="utf-8"))
    detectors = {"hushvec": detect_with(Redactor())}
    if not options.no_presidio:
        detectors["presidio"] = presidio_detect()
    results = study(records, detectors)
    print(markdown(results))
    if options.output:
        write_json(options.output, results)


if __name__ == "__main__":
    main()
