"""The texts of the study: drawn notes, or the user's JSON lines with or without marked entities, in two parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec._util.lines import json_record, require_utf8
from hushvec_studies.harness.json_lines import lines_of
from hushvec_studies.personalize.notes import ENTITIES, Note, Span, draw_notes

SHIPPED = "shipped"
_TEST_SHARE = 5  # one of so many texts of a file is for testing
_FEWEST = 20


@dataclass(frozen=True)
class Texts:
    """What the adapter learns from, and what it is tested on.

    Args:
        name: of where they come from.
        train, test: notes.
        entities: the kinds that are marked; () if none is.
    """

    name: str
    train: tuple[Note, ...]
    test: tuple[Note, ...]
    entities: tuple[str, ...]

    @property
    def key(self) -> dict[str, Any]:
        """What names them in a file's key: name, sizes, and SHA-256 of every text and span."""
        content = hashlib.sha256()
        for note in (*self.train, *self.test):
            for field in (note.text, repr([tuple(span) for span in note.spans])):
                encoded = field.encode()
                content.update(len(encoded).to_bytes(8, "little") + encoded)
        return {"name": self.name, "train": len(self.train), "test": len(self.test), "sha256": content.hexdigest()}


def shipped_texts(train: int, test: int, seed: int) -> Texts:
    """Drawn notes in the private style; none for testing is among those for training."""
    learned = draw_notes(train, "private", seed)
    # Short notes come again now and then: more are drawn than are wanted.
    seen = set(learned)
    others = dict.fromkeys(note for note in draw_notes(2 * test + train, "private", seed)[train:] if note not in seen)
    return Texts(SHIPPED, tuple(learned), tuple(others)[:test], ENTITIES)


def texts_of_file(path: Path, entities: Sequence[str], most: int | None = None) -> Texts:
    """The texts of a JSON lines file (.jsonl, .jsonl.xz, .jsonl.gz).

    Args:
        path: one object a line with `text` or `full_text`, and `spans` if entities are marked: objects with `entity_type`,
            `start_position` and `end_position`, in characters.
        entities: which kinds of spans are of interest; others are left unmarked. A public choice: they are not read from the texts.
        most: texts to use at most, in the order of the file; None: all.

    Returns:
        Texts; one in five, by the hash of the text, is for testing, so that equal texts are on one side.

    Raises:
        ValueError: another kind of file, a damaged one, a line that is not such an object, or fewer than 20 texts; the line is named.
        OSError: it cannot be read.
    """
    notes = notes_of_file(path, entities)[:most]
    if len(notes) < _FEWEST:
        raise ValueError(f"{path}: must have at least {_FEWEST} texts, got {len(notes)}")
    tested = [int(hashlib.sha256(note.text.encode()).hexdigest(), 16) % _TEST_SHARE == 0 for note in notes]
    train = tuple(note for note, kept in zip(notes, tested) if not kept)
    test = tuple(note for note, kept in zip(notes, tested) if kept)
    if not train or not test:
        raise ValueError(f"{path}: must have different texts, so that some are for training and some for testing")
    return Texts(path.name, train, test, tuple(entities))


def notes_of_file(path: Path, entities: Sequence[str]) -> list[Note]:
    """Every text of the file with its spans; as `texts_of_file`."""
    return [_note(line, where, entities) for where, line in lines_of(path)]


def _note(line: str, where: str, entities: Sequence[str]) -> Note:
    key = "full_text" if '"full_text"' in line else "text"
    record = json_record(line, key, where)
    text = require_utf8(record.text, where)
    if not text.strip():
        raise ValueError(f"{where}: {key!r} must not be empty")
    spans = record.fields.get("spans", [])
    if not isinstance(spans, list):
        raise ValueError(f"{where}: 'spans' must be a list, got {type(spans).__name__}")
    kept = (_span(one, where, len(text)) for one in spans)
    return Note(text, tuple(sorted(span for span in kept if span.entity in entities)))


def _span(said: Any, where: str, length: int) -> Span:
    try:
        span = Span(said["start_position"], said["end_position"], said["entity_type"])
    except (TypeError, KeyError):
        raise ValueError(f"{where}: a span must have entity_type, start_position and end_position") from None
    whole = all(isinstance(place, int) and not isinstance(place, bool) for place in span[:2])
    if not whole or not isinstance(span.entity, str) or not 0 <= span.start < span.end <= length:
        raise ValueError(f"{where}: a span must be within its text of {length} characters, got {tuple(span)}")
    return span


def plain(texts: Iterable[str]) -> list[Note]:
    """Texts without entities."""
    return [Note(text, ()) for text in texts]
