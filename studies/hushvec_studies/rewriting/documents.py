"""The private documents of the studies, with the strings of personal data that they are known to hold, and the public texts."""

import json
import random
import re
from dataclasses import dataclass
from email.utils import parseaddr
from pathlib import Path

from hushvec.data import records as records_that_ship
from hushvec_studies.harness.texts import objects_of

SHARED = Path(__file__).parents[4] / "shared" / "data"
SENTENCES = SHARED / "pii_synth.json"
POSTS = SHARED / "20newsgroups_8.jsonl.xz"

# Gold types that point to somebody. The others ("Mr.", "31", "French") stand in every newspaper.
IDENTIFYING = {
    *("PERSON", "STREET_ADDRESS", "CREDIT_CARD", "PHONE_NUMBER", "EMAIL_ADDRESS"),
    *("IBAN_CODE", "US_SSN", "IP_ADDRESS", "US_DRIVER_LICENSE"),
}
# "Li" and "nan" are substrings of ordinary words.
SHORTEST_IDENTIFYING = 5

_SENDER = re.compile(r"^From: (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """A private text.

    Args:
        gold: surface strings of personal data that it holds, by the data's own labels.
        identifying: those of them that point to somebody whom no public text names, and are not just part of a common word.
    """

    text: str
    gold: tuple[str, ...]
    identifying: tuple[str, ...]


def every_record(path):
    return json.loads(Path(path).read_text(encoding="utf-8"))


def records(path, count, seed, *, parity=1):
    """Records of synthetic sentences with gold spans, in random order, of one parity of template_id: rules were tuned on 0."""
    chosen = [record for record in every_record(path) if record["template_id"] % 2 == parity]
    random.Random(seed).shuffle(chosen)
    return chosen[:count]


def sentences(path: Path, count: int | None, seed: int, *, parity: int = 1) -> list[Document]:
    return [sentence(record) for record in records(path, count, seed, parity=parity)]


def sentence(record):
    spans = record["spans"]
    return Document(
        record["full_text"],
        tuple(span["entity_value"] for span in spans),
        tuple(span["entity_value"] for span in spans if _points_to_somebody(span)),
    )


def _points_to_somebody(span):
    return span["entity_type"] in IDENTIFYING and len(span["entity_value"]) >= SHORTEST_IDENTIFYING


def read_posts(path):
    """Every post of the file: dictionaries with id, split, category and text."""
    return objects_of(Path(path))


def private_posts(posts, count, seed):
    """Posts of the newer half as documents, in random order.

    Their gold strings are what the From line says of the sender. Many wrote in the older half too, so that a public post names them;
    identifying are the strings that stand nowhere in it.
    """
    newer = _half(posts, "test", count, seed)
    public = "\n".join(public_posts(posts, None, seed)).lower()
    return [_post(text, public) for text in newer]


def _post(text, public):
    gold = sender(text)
    return Document(text, gold, tuple(string for string in gold if string.lower() not in public))


def public_posts(posts, count, seed):
    """Texts of the older half, in random order."""
    return _half(posts, "train", count, seed)


def _half(posts, split, count, seed):
    chosen = [post["text"] for post in posts if post["split"] == split]
    random.Random(seed).shuffle(chosen)
    return chosen[:count]


def shipped_records(count, seed):
    """Of the invented records that ship with hushvec: those of half of the people as private documents, those of the others as public
    texts, both in random order. Gold is the name of the person.
    """
    found = records_that_ship()
    people = sorted({record.person for record in found})
    chance = random.Random(seed)
    chance.shuffle(people)
    mine = set(people[: len(people) // 2])
    chance.shuffle(found)
    private = [Document(one.text, (one.person,), (one.person,)) for one in found if one.person in mine and one.person in one.text]
    return private[:count], [one.text for one in found if one.person not in mine]


def sender(text):
    """The address and the name in the From line, where they are long enough."""
    line = _SENDER.search(text)
    name, address = parseaddr(line[1]) if line else ("", "")
    return tuple(value for value in (address, name) if len(value) >= SHORTEST_IDENTIFYING)


# ---- sentences with other people's data in them: what an adversary makes who knows the templates and has lists of values ----

def values_of(records):
    values = {}
    for record in records:
        for span in record["spans"]:
            values.setdefault(span["entity_type"], set()).add(span["entity_value"])
    return {kind: sorted(some) for kind, some in values.items()}


def filled_anew(record, values, chance):
    """The record's sentence with every gold span replaced by a value of its type."""
    text = record["full_text"]
    for span in sorted(record["spans"], key=lambda span: -span["start_position"]):
        text = text[: span["start_position"]] + chance.choice(values[span["entity_type"]]) + text[span["end_position"] :]
    return text


def varied(records, values, count, seed):
    """Sentences filled anew, `count` for each template, all different and none of them a private one."""
    chance = random.Random(seed)
    templates = {record["template_id"]: record for record in records}
    private = {record["full_text"] for record in records}
    made = {filled_anew(record, values, chance) for record in templates.values() for _ in range(count)}
    return sorted(made - private)


def with_other_names(records, persons, count, names, seed):
    """[count][names] texts: sentences with a person in them, each with its own name first and then with the names of others."""
    chance = random.Random(seed)
    lists = []
    for record in records:
        own = next((span["entity_value"] for span in record["spans"] if span["entity_type"] == "PERSON"), None)
        if own is not None and len(lists) < count:
            others = chance.sample(sorted(set(persons) - {own}), names - 1)
            lists.append([record["full_text"].replace(own, name) for name in (own, *others)])
    return lists
