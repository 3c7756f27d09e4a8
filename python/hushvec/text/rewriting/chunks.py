"""Splitting a text into parts to rewrite and placeholders."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hushvec._util import validate
from hushvec.accounting import COMPOSITIONS
from hushvec.text.pii.spans import Span

LEVELS = ("chunk", "document")

_WORD = re.compile(r"\S+")
_SENTENCE_ENDS = (".", "!", "?")


@dataclass(frozen=True, kw_only=True)
class Chunking:
    """How a document is cut into chunks, and how many are released together.

    Args:
        level: "chunk": each stretch between placeholders is rewritten by itself. "document": the redacted text is one vector and the
            output is what that inverts to, nothing else. None: "document" for "privunit" and "randomized_response", else "chunk".
        max_length: tokens in a chunk, special tokens counted; longer stretches are cut. Not for level "document".
        max_chunks: a public number of chunks: shorter texts are filled up, neighboring chunks of longer ones are joined (their
            mean row), and placeholders come last, so that neither K nor their places say anything about the text.
        composition: for "gaussian". "joint": all chunks are one release, the exact bound. "basic": epsilon/K and delta/K for each.
    """

    level: str | None = None
    max_length: int = 32
    max_chunks: int | None = None
    composition: str = "joint"

    def __post_init__(self) -> None:
        if self.level is not None:
            validate.choice("level", self.level, LEVELS)
        validate.whole_number("max_length", self.max_length, at_least=1)
        if self.max_chunks is not None:
            validate.whole_number("max_chunks", self.max_chunks, at_least=1)
        validate.choice("composition", self.composition, COMPOSITIONS)


class TokenPieces:
    """Pieces of at most `max_length` tokens of an embedder's own tokenizer, special tokens counted.

    Args:
        max_length: tokens in a piece.
        tokenizer: a fast one of the library `transformers`, or one of `tokenizers`; None: words between spaces count as tokens.
    """

    def __init__(self, max_length: int, tokenizer: Any | None) -> None:
        self._tokenizer = tokenizer
        specials = 0 if tokenizer is None else int(tokenizer.num_special_tokens_to_add(False))
        self._room = max_length - specials
        if self._room < 1:
            raise ValueError(f"max_length must be > {specials}, the special tokens of the embedder, got {max_length}")

    def __call__(self, text: str) -> list[str]:
        """Runs of the text, in order and without gaps."""
        if len(text) <= self._room:  # no token is shorter than a character
            return [text]
        tokens = self._tokens(text)
        pieces, begin, first = [], 0, 0
        while len(tokens) - first > self._room:
            first = self._end(text, tokens, first)
            pieces.append(text[begin : tokens[first][0]])
            begin = tokens[first][0]
        return [*pieces, text[begin:]]

    def _tokens(self, text: str) -> list[tuple[int, int]]:
        """Where each token begins and ends. Characters that the tokenizer drops belong to none."""
        if self._tokenizer is None:
            return [match.span() for match in _WORD.finditer(text)]
        if callable(self._tokenizer):
            encoded = self._tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, truncation=False, verbose=False)
            offsets = encoded["offset_mapping"]
        else:
            offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return [(start, end) for start, end in offsets if start < end]

    def _end(self, text: str, tokens: list[tuple[int, int]], first: int) -> int:
        """The token that the next piece begins with: after a sentence, else after a word, else where the room ends."""
        last = first + self._room
        after_word = None
        for token in range(last, first + self._room // 2, -1):
            gap = text[tokens[token - 1][1] : tokens[token][0]]
            if gap and ("\n" in gap or text[tokens[token - 1][1] - 1] in _SENTENCE_ENDS):
                return token
            if gap and after_word is None:
                after_word = token
        return after_word if after_word is not None else last


Pieces = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A part of the text; the parts in order are the whole text. `span` is a find; `chunk` is the number, from 0, of the chunk
    that it is or is joined into, and None where there is nothing to rewrite."""

    text: str
    span: Span | None
    chunk: int | None


def has_words(text: str) -> bool:
    """Whether it has a letter or a digit; parts without any are dropped."""
    return any(character.isalnum() for character in text)


def cut(text: str, spans: Sequence[Span], pieces: Pieces) -> tuple[Part, ...]:
    """The parts of a text: finds, and the text between them in pieces short enough for the embedder."""
    parts: list[Part] = []
    chunk = 0

    def add_plain(stretch: str) -> None:
        nonlocal chunk
        for piece in pieces(stretch) if has_words(stretch) else [stretch]:
            if piece:
                worth = has_words(piece)
                parts.append(Part(piece, None, chunk if worth else None))
                chunk += worth

    end = 0
    for span in spans:
        add_plain(text[end : span.start])
        parts.append(Part(text[span.start : span.end], span, None))
        end = span.end
    add_plain(text[end:])
    return tuple(parts)


def joined(parts: Sequence[Part], most: int) -> tuple[Part, ...]:
    """The parts with neighboring chunks joined until there are at most `most`, of as many parts as each other, or one less."""
    count = sum(part.chunk is not None for part in parts)
    if count <= most:
        return tuple(parts)
    return tuple(part if part.chunk is None else replace(part, chunk=part.chunk * most // count) for part in parts)
