"""The texts that a decoder learns: from a file or a list, deduplicated and split into training and validation."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hushvec._util.lines import distinct_texts, texts_of_file


@dataclass(frozen=True)
class Corpus:
    """Distinct texts in a fixed order, the first `held_out` of them for validation.

    Made by `split_corpus`.
    """

    texts: tuple[str, ...]
    held_out: int

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the texts in their order, each with its length before it."""
        content = hashlib.sha256(f"hushvec training corpus {self.held_out}\n".encode())
        for text in self.texts:
            encoded = text.encode()
            content.update(len(encoded).to_bytes(8, "little") + encoded)
        return content.hexdigest()


def read_corpus(corpus: str | os.PathLike[str] | Sequence[str], text_key: str | None = None) -> list[str]:
    """The texts of a file or a sequence, without blank ones and repeats, in their order.

    Args:
        corpus: a path: UTF-8, one text per line, or JSON lines with `text_key`. Or the texts themselves.
        text_key: the key of the text in JSON lines.
    """
    if isinstance(corpus, str | os.PathLike):
        name = os.fspath(corpus)
        texts = distinct_texts(text for _, text in texts_of_file(Path(name), text_key))
    elif text_key is not None:
        raise ValueError("text_key must be left out where corpus is a sequence of texts")
    else:
        name, texts = "corpus", distinct_texts(corpus, "corpus", "a path or a sequence of strings")
    if len(texts) < 2:
        raise ValueError(f"{name}: must hold at least 2 different texts, got {len(texts)}")
    return texts


def split_corpus(texts: Sequence[str], validation: float) -> Corpus:
    """Held-out texts first, then the others; inside each part the order is kept.

    A text is held out if the hash of its bytes is among the lowest `validation` of all hashes, regardless of the rest of the
    corpus and of its order. At least one text is held out, and at least one is not.
    """
    hashes = [int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8, person=b"held-out").digest(), "little") for text in texts]
    held_out = {number for number, value in enumerate(hashes) if value < validation * 2.0**64}
    if not held_out:
        held_out = {min(range(len(texts)), key=hashes.__getitem__)}
    elif len(held_out) == len(texts):
        held_out.remove(max(range(len(texts)), key=hashes.__getitem__))
    order = sorted(range(len(texts)), key=lambda number: number not in held_out)
    return Corpus(tuple(texts[number] for number in order), len(held_out))
