"""The texts of the study: drawn clinical notes, in two parts.

They are invented: public ones as textbooks write, private ones as a ward writes, with other words, other people, another style,
and shorthand that the public kind has not, which is what a model has to learn from them.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Any, Literal, NamedTuple

import numpy as np

from hushvec_studies.harness.texts import digest_of_texts

ENTITIES = ("PERSON", "CONDITION", "DRUG", "DOSE")

Style = Literal["public", "private"]


class Span(NamedTuple):
    """Characters [start, end) of a text, and what they are."""

    start: int
    end: int
    entity: str


class Note(NamedTuple):
    """A text with its entities in order."""

    text: str
    spans: tuple[Span, ...]


def _listed(*lines: str) -> tuple[str, ...]:
    return tuple(word for line in lines for word in line.split("|"))


_FIRST = {
    "public": _listed("Anna|Peter|Maria|James|Helen|David|Laura|Simon|Clara|Martin|Julia|Oscar|Lena|Yusuf|Petra|Ravi|Greta|Milo"),
    "private": _listed("M|T|I|L|Y|P|A|N|R|G|Z|O|F|B"),
}
_SURNAME_BEGINS = {
    "public": _listed("Bark|Holl|Whit|Nor|Ash|Lang|Har|Var|Birk|Okon"),
    "private": _listed("Quel|Har|Odu|Var|Birk|Szab|Teme|Okon"),
}
_SURNAME_ENDS = {
    "public": _listed("er|man|ford|wood|ley|ton|ga|land|stle"),
    "private": _listed("ler|land|ley|ya|stle|ga|ics|sen|kwo"),
}
_CONDITIONS = {
    "public": _listed(
        "high blood pressure|type 2 diabetes|chest pain|migraine|pneumonia|asthma|HTN|wrist fx|kidney stones|anaemia|depression|CHF",
        "heart failure|stroke|eczema|back pain|AF|sleep apnoea|gout|UTI",
    ),
    "private": _listed(
        "HTN|T2DM|chest pain|migraine|CAP|asthma|wrist fx|renal colic|anaemia|low mood|CHF|TIA|eczema|LBP|OSA|gout|AF|UTI|GORD",
        "COPD exac|cellulitis|vertigo",
    ),
}
_DRUGS = {
    "public": _listed(
        "aspirin|metformin|ramipril|sumatriptan|amoxicillin|salbutamol|codeine|iron|sertraline|furosemide|omeprazole|prednisolone",
        "doxycycline|apixaban",
    ),
    "private": _listed(
        "metformin|aspirin|ramipril|doxy|salbutamol|naproxen|sumatriptan|ferrous|sertraline|furosemide|apixaban|trimethoprim",
        "omeprazole|pred|fluclox|betahistine|allopurinol|bisoprolol",
    ),
}
_AMOUNTS = {"public": _listed("5|10|20|50|100|200|500"), "private": _listed("10|5|2.5|20|7.5|100|40|15|200|30|500")}
_TEMPLATES = {
    "public": (
        "{PERSON} came to the clinic with {CONDITION} and was given {DRUG} .",
        "{PERSON} was treated for {CONDITION} with {DRUG} at {DOSE} .",
        "The patient , {PERSON} , has had {CONDITION} for {n} years .",
        "For {CONDITION} the doctor chose {DRUG} , {DOSE} each day .",
        "{PERSON} takes {DOSE} of {DRUG} every morning .",
        "After {n} days the {CONDITION} of {PERSON} was better .",
        "{DRUG} is often used for {CONDITION} .",
        "A dose of {DOSE} of {DRUG} helped {PERSON} .",
        "Doctors treat {CONDITION} with {DRUG} or with rest .",
        "{PERSON} asked whether {DRUG} may cause {CONDITION} .",
        "The nurse told {PERSON} to take {DOSE} of {DRUG} for {n} days .",
        "{CONDITION} was found when {PERSON} was examined .",
        "pt {PERSON} seen , {CONDITION} , obs stable , rv in {n} d",
        "rx {DRUG} {DOSE} od for {CONDITION}",
        "hx {CONDITION} and {CONDITION} . on {DRUG} {DOSE} bd , plan d/c",
        "adm with {CONDITION} , start {DRUG} {DOSE} , bloods am",
    ),
    "private": (
        "pt {PERSON} c/o {CONDITION} , start {DRUG} {DOSE}",
        "{PERSON} {CONDITION} , rx {DRUG} {DOSE} od",
        "d/w {PERSON} re {CONDITION} , cont {DRUG}",
        "hx {CONDITION} , now {CONDITION} . {DRUG} {DOSE} stat",
        "{DRUG} {DOSE} given {n} h , {PERSON} settled",
        "adm {PERSON} via ED w {CONDITION} , {DRUG} {DOSE} tds",
        "{PERSON} nbm from {n} h , hold {DRUG}",
        "r/v {PERSON} : {CONDITION} improving , stop {DRUG}",
        "tel call {PERSON} , aware {CONDITION} , d/c {n} d",
        "incr {DRUG} to {DOSE} , {CONDITION} not controlled",
        "{PERSON} declined {DRUG} , switch to {DRUG} {DOSE}",
        "wr {PERSON} {CONDITION} , obs stable , rv {n} d",
    ),
}


def draw_notes(count: int, style: Style, seed: int) -> list[Note]:
    """Notes of a style; the same seed gives the same ones everywhere."""
    drawn = np.random.default_rng([seed, sorted(_TEMPLATES).index(style)])
    return [_note(_parts(style, drawn), style, drawn) for _ in range(count)]


def _parts(style: Style, drawn: np.random.Generator) -> list[str]:
    """A template's parts. Every other public note goes over into another one somewhere: what comes next is not learned by heart."""
    parts = _template(style, drawn)
    if style == "private" or drawn.random() < 0.5:
        return parts
    other = _template(style, drawn)
    return parts[: int(drawn.integers(1, len(parts) + 1))] + other[int(drawn.integers(len(other))) :]


def _template(style: Style, drawn: np.random.Generator) -> list[str]:
    return _TEMPLATES[style][int(drawn.integers(len(_TEMPLATES[style])))].split(" ")


def _note(parts: Sequence[str], style: Style, drawn: np.random.Generator) -> Note:
    words: list[str] = []
    spans: list[Span] = []
    length = 0
    for part in parts:
        entity = part.strip("?{}")
        if entity in ENTITIES:
            value = _value(entity, style, drawn)
            before = part[: part.index("{")]
            spans.append(Span(length + len(before), length + len(before) + len(value), entity))
            part = before + value
        elif entity == "n":
            part = str(int(drawn.integers(2, 24)))
        words.append(part)
        length += len(part) + 1
    return Note(" ".join(words), tuple(spans))


def _value(entity: str, style: Style, drawn: np.random.Generator) -> str:
    if entity == "PERSON":
        surname = _one(_SURNAME_BEGINS, style, drawn) + _one(_SURNAME_ENDS, style, drawn)
        return f"{_one(_FIRST, style, drawn)} {surname}"
    if entity == "DOSE":
        return f"{_one(_AMOUNTS, style, drawn)} mg"
    return _one(_CONDITIONS if entity == "CONDITION" else _DRUGS, style, drawn)


def _one(lists: Mapping[str, Sequence[str]], style: Style, drawn: np.random.Generator) -> str:
    """One of a list, the first ones more often (weights 1 / place), as words are in any text."""
    words = lists[style]
    return words[bisect(_cumulated(len(words)), drawn.random())]


@lru_cache
def _cumulated(count: int) -> tuple[float, ...]:
    """Of the weights of all but the last of so many words, together with the last 1."""
    total = sum(1 / place for place in range(1, count + 1))
    return tuple(accumulate(1 / place / total for place in range(1, count)))


# ---- texts of the study ----

SHIPPED = "shipped"


@dataclass(frozen=True)
class Texts:
    """What the adapter learns from, and what it is tested on; `entities` are the kinds that are marked."""

    name: str
    train: tuple[Note, ...]
    test: tuple[Note, ...]
    entities: tuple[str, ...]

    @property
    def key(self) -> dict[str, Any]:
        """What names them in a file's key: name, sizes, and SHA-256 of every text and span."""
        notes = (*self.train, *self.test)
        said = (field for note in notes for field in (note.text, repr([tuple(span) for span in note.spans])))
        sha256 = digest_of_texts("", said)
        return {"name": self.name, "train": len(self.train), "test": len(self.test), "sha256": sha256}


def shipped_texts(train: int, test: int, seed: int) -> Texts:
    """Drawn notes in the private style; none for testing is among those for training."""
    learned = draw_notes(train, "private", seed)
    # Short notes come again now and then: more are drawn than are wanted.
    seen = set(learned)
    others = dict.fromkeys(note for note in draw_notes(2 * test + train, "private", seed)[train:] if note not in seen)
    return Texts(SHIPPED, tuple(learned), tuple(others)[:test], ENTITIES)

