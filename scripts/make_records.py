"""Write python/hushvec/data/records.jsonl: 1,200 invented records of 300 invented people, for work without a network.

    python scripts/make_records.py            # write the file
    python scripts/make_records.py --check    # exit code 1 if the file differs

All sentences were written for hushvec and are under its license (MIT). Nobody in them exists. The same seed gives the same file.
A record is a situation of scripts/record_situations.py, told in one of several ways. About every sixth one is followed by a second
record of the same person about the same matter, which is nearly a duplicate: what happens to those is a question for any search.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from record_situations import FIRST_NAMES, FOLLOW_UPS, LAST_NAMES, SITUATIONS, SLOTS

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "python" / "hushvec" / "data" / "records.jsonl"
SEED, RECORDS, PEOPLE = 2026, 1200, 300


def records() -> list[dict[str, Any]]:
    """The records in a random order: id, person, category, text, question, follows."""
    drawn = random.Random(SEED)
    people = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES]
    drawn.shuffle(people)
    people = people[:PEOPLE]
    found: list[dict[str, Any]] = []
    texts: set[str] = set()
    categories = list(SITUATIONS)
    matters = 0
    while len(found) < RECORDS:
        category = categories[matters % len(categories)]
        situation = drawn.choice(SITUATIONS[category])
        person = drawn.choice(people)
        text = told(situation["text"], person, drawn)
        if text in texts:
            continue
        texts.add(text)
        matters += 1
        question = drawn.choice(situation["questions"])
        found.append({"person": person, "category": category, "text": text, "question": question, "follows": None})
        if drawn.random() < 1 / 6 and len(found) < RECORDS:
            again = f"{text.split('. ')[0].rstrip('.')}. {filled(drawn.choice(FOLLOW_UPS), person, drawn)}"
            if again not in texts:
                texts.add(again)
                found.append(found[-1] | {"text": again, "follows": len(found) - 1})
    order = list(range(len(found)))
    drawn.shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    numbered = [found[old] for old in order]
    for number, one in enumerate(numbered):
        one["id"] = f"r{number:04}"
        one["follows"] = None if one["follows"] is None else f"r{place[one['follows']]:04}"
    return [{key: one[key] for key in ("id", "person", "category", "text", "question", "follows")} for one in numbered]


def told(parts: tuple[tuple[str, ...], ...], person: str, drawn: random.Random) -> str:
    """One way to tell a situation: a sentence of each part, the last one in two of three records."""
    chosen = [drawn.choice(part) for part in parts]
    if drawn.random() < 1 / 3:
        chosen = chosen[:-1]
    return " ".join(filled(sentence, person, drawn) for sentence in chosen)


def filled(sentence: str, person: str, drawn: random.Random) -> str:
    """A sentence with its slots filled."""
    values = {slot: str(drawn.choice(choices)) for slot, choices in SLOTS.items()}
    return sentence.format(name=person, first=person.split()[0], last=person.split()[1], **values)


def content() -> str:
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        return int(TARGET.read_text("utf-8") != content())
    TARGET.write_text(content(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
