"""Notes as tokens: byte-level BPE of public text, a token for each kind of entity behind every word of one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec.training.ghost import IGNORED
from hushvec_studies.harness.checkpoints import learned_byte_pairs
from hushvec_studies.personalize.texts import Note, Span

BEGIN, END = "<begin>", "<end>"
_WORD = re.compile(r"\S+")


class Batch(NamedTuple):
    """Notes of one length, int64 [B, T]: ids filled up with the end, labels (IGNORED where there is no note), and a mask."""

    ids: NDArray[np.int64]
    labels: NDArray[np.int64]
    mask: NDArray[np.int64]


@dataclass(frozen=True)
class Coded:
    """A note as tokens.

    Args:
        ids: of the tokens, the beginning first, cut to the context.
        word_ends: places of the last token of every word.
        word_tags: the entity of every word, as a number from 1; 0 for none.
    """

    ids: tuple[int, ...]
    word_ends: tuple[int, ...]
    word_tags: tuple[int, ...]


class Coding:
    """How notes become tokens.

    Args:
        tokenizer: of the tokenizers library.
        entities: kinds with tokens of their own, whose ids are `tags`.
        begin, end: ids of the tokens around a note.
    """

    def __init__(self, tokenizer: Any, entities: Sequence[str], begin: int, end: int, tags: Sequence[int]) -> None:
        self._tokenizer, self.entities = tokenizer, tuple(entities)
        self.begin, self.end, self.tags = begin, end, tuple(tags)
        self._pieces: dict[str, tuple[int, ...]] = {}

    def code(self, note: Note, context: int) -> Coded:
        """Tokens of a note, at most `context` of them."""
        ids, ends, tags = [self.begin], [], []
        for match in _WORD.finditer(note.text):
            tag = self._tag(match, note.spans)
            pieces = self._word(match.group())
            needed = len(pieces) + (tag > 0)
            if len(ids) + needed > context - 1:
                break
            ids.extend(pieces)
            ends.append(len(ids) - 1)
            tags.append(tag)
            if tag:
                ids.append(self.tags[tag - 1])
        return Coded((*ids, self.end), tuple(ends), tuple(tags))

    def batch(self, notes: Sequence[Coded]) -> Batch:
        """Notes side by side."""
        longest = max(len(note.ids) for note in notes)
        ids = np.full((len(notes), longest), self.end, np.int64)
        labels, mask = np.full_like(ids, IGNORED), np.zeros_like(ids)
        for row, note in enumerate(notes):
            ids[row, : len(note.ids)] = labels[row, : len(note.ids)] = note.ids
            mask[row, : len(note.ids)] = 1
        return Batch(ids, labels, mask)

    def _word(self, word: str) -> tuple[int, ...]:
        if word not in self._pieces:
            self._pieces[word] = tuple(self._tokenizer.encode(f" {word}", add_special_tokens=False).ids)
        return self._pieces[word]

    def _tag(self, word: re.Match[str], spans: Iterable[Span]) -> int:
        """The first entity that the word has a character of."""
        for span in spans:
            if span.entity in self.entities and span.start < word.end() and word.start() < span.end:
                return 1 + self.entities.index(span.entity)
        return 0


def fitted_tokenizer(texts: Iterable[str], entities: Sequence[str], size: int) -> Any:
    """Byte-level BPE of public text, with tokens for the beginning, the end and the entities."""
    return learned_byte_pairs(
        (f" {text}" for text in texts),
        size,
        [BEGIN, END, *map(tag_token, entities)],
        feature="the study of personalisation",
        extra="peft",
    )


def coding_of(tokenizer: Any, entities: Sequence[str]) -> Coding:
    """Of a tokenizer that `fitted_tokenizer` made."""
    return Coding(
        tokenizer,
        entities,
        tokenizer.token_to_id(BEGIN),
        tokenizer.token_to_id(END),
        [tokenizer.token_to_id(tag_token(entity)) for entity in entities],
    )


def tag_token(entity: str) -> str:
    return f"<{entity}>"
