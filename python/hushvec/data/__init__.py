"""Texts that ship with hushvec, for demos, tutorials, studies and tests without a network.

All of them were written for hushvec and are under its license (MIT). Nobody in them exists; "private" is the part that they play.
Notes and sentences come as vectors too, for first steps without an embedding model.

    python -m hushvec.data > records.jsonl      # the records as a file, for `hushvec retrieve` and `hushvec study`
"""

from __future__ import annotations

import json
from importlib import resources
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lines import SHIPPED_NOTES, SHIPPED_RECORDS, SHIPPED_SENTENCES, shipped_texts

__all__ = ["Record", "private_note_vectors", "private_notes", "public_sentence_vectors", "public_sentences", "records"]

_NOTES = 80  # rows of notes in minilm.npy; the sentences follow


class Record(NamedTuple):
    """A record about a person.

    Args:
        id: all different.
        person: a name; some people have several records.
        category: "bank", "clinic", "home", "school", "travel" or "work".
        text: two or three sentences, all different.
        question: what somebody would ask to find it, in other words. Records of the same matter share questions.
        follows: the id of the record that this one repeats, nearly word for word, or None.
    """

    id: str
    person: str
    category: str
    text: str
    question: str
    follows: str | None


def records() -> list[Record]:
    """1,200 records about some 300 people, in random order; scripts/make_records.py makes them.

    Example:
        >>> from hushvec.data import records
        >>> found = records()
        >>> len(found), found[0].id, sum(record.follows is not None for record in found) > 100
        (1200, 'r0000', True)
    """
    return [Record(**json.loads(line)) for line in shipped_texts(SHIPPED_RECORDS)]


def private_notes() -> list[str]:
    """80 notes of one sentence each, every one about another invented person, as an office or a ward would write them.

    Example:
        >>> from hushvec.data import private_notes
        >>> len(private_notes()), private_notes()[1]
        (80, "Mr. Oduya's blood pressure was 168 over 102 again this morning.")
    """
    return shipped_texts(SHIPPED_NOTES)


def public_sentences() -> list[str]:
    """320 sentences of general knowledge: numbers 4 i to 4 i + 3 treat the subject of note i in other words.

    Example:
        >>> from hushvec.data import public_sentences
        >>> len(public_sentences()), public_sentences()[4]
        (320, 'High blood pressure rarely causes symptoms at first.')
    """
    return shipped_texts(SHIPPED_SENTENCES)


def private_note_vectors() -> NDArray[np.float32]:
    """`private_notes` as all-MiniLM-L6-v2 embeds them: float32[80, 384], unit length. Stored as int8: cosine to the model's > 0.9999.

    Example:
        >>> from hushvec.data import private_note_vectors
        >>> private_note_vectors().shape
        (80, 384)
    """
    return _vectors()[:_NOTES]


def public_sentence_vectors() -> NDArray[np.float32]:
    """`public_sentences` as all-MiniLM-L6-v2 embeds them: float32[320, 384], as `private_note_vectors`.

    Example:
        >>> from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
        >>> cosines = public_sentence_vectors() @ private_note_vectors()[1]
        >>> private_notes()[1], public_sentences()[int(cosines.argmax())]
        ("Mr. Oduya's blood pressure was 168 over 102 again this morning.", 'Blood pressure should be measured while sitting still.')
    """
    return _vectors()[_NOTES:]


def _vectors() -> NDArray[np.float32]:
    with resources.files("hushvec").joinpath("data", "minilm.npy").open("rb") as file:
        rows = np.load(file, allow_pickle=False).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows, np.float32)
