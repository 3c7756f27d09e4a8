"""Short sentences for a small pair of inverter and corrector: those of the records that ship, told of other people.

Held out are sentences of the records that name somebody. Training has the same templates with other names, never a held-out sentence:
what the pair can show is whether it reads the name, the numbers and the template out of a vector, not how it does on other prose.
"""

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

from hushvec.data import records
from hushvec.extend import published_text
from hushvec_studies.harness.texts import objects_of
from hushvec_studies.rewriting.documents import Document

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NAME = "{}"


class Texts(NamedTuple):
    """What a pair is trained and judged on.

    Args:
        first: for the inverter.
        second: for the corrector: texts that the inverter never saw, so that its mistakes are those it makes on private texts.
        held_out: documents; gold is the name of the person.
    """

    first: list[str]
    second: list[str]
    held_out: list[Document]


def sentences():
    """(sentence, the person it names or None) of every record, all different, in order."""
    found = {}
    for record in records():
        for sentence in _SENTENCE_END.split(record.text):
            found[sentence] = record.person if record.person in sentence else None
    return sorted(found.items())


def shipped_texts(held_out, variants, seed):
    """Texts of the records that ship.

    Args:
        held_out: how many sentences.
        variants: names for each template, at most.
        seed: of both choices, and of which half a text is in.
    """
    chance = random.Random(seed)
    known = sentences()
    named = [(sentence, person) for sentence, person in known if person is not None]
    private = chance.sample(named, min(held_out, len(named) - 2))
    people = sorted({person for _, person in named})
    templates = sorted({sentence.replace(person, _NAME) for sentence, person in named})
    names = min(variants, len(people))
    filled = {template.replace(_NAME, person) for template in templates for person in chance.sample(people, names)}
    # the rewriter cuts a name out: what stands around it becomes a text of its own
    around = {part.strip() for template in templates for part in template.split(_NAME) if part.strip(" .,")}
    plain = {sentence for sentence, person in known if person is None}
    made = sorted((filled | around | plain) - {sentence for sentence, _ in private})
    chance.shuffle(made)
    half = len(made) // 2
    return Texts(made[:half], made[half:], [Document(text, (person,), (person,)) for text, person in private])


def write_documents(path, documents):
    """One object per line: text, gold."""
    with published_text(Path(path)) as file:
        for one in documents:
            file.write(json.dumps({"text": one.text, "gold": list(one.gold)}, ensure_ascii=False) + "\n")


def read_documents(path):
    """What `write_documents` wrote, or lines of {"text": ...} without gold strings."""
    return [Document(one["text"], tuple(one.get("gold", ())), tuple(one.get("gold", ()))) for one in objects_of(Path(path))]
