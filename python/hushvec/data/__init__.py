"""Texts that ship with hushvec: invented, MIT-licensed, and small enough for demos, tutorials and tests without a network.

Nobody in them exists. "Private" is the part that the notes play; use your own public texts for work with your own records.
"""

from __future__ import annotations

from hushvec._util.lines import SHIPPED_NOTES, SHIPPED_SENTENCES, shipped_texts

__all__ = ["private_notes", "public_sentences"]


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
