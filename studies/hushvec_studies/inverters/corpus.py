"""The examples of a decoder: texts, split into training and validation; their tokens; their batches."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushvec.embedders.checkpoints import Tokens
from hushvec.extend.helpers import distinct_texts, texts_of_file
from hushvec_studies.harness.checkpoints import learned_byte_pairs
from hushvec_studies.harness.texts import digest_of_texts


@dataclass(frozen=True)
class Corpus:
    """Distinct texts in a fixed order, the first `held_out` of them for validation. Made by `split_corpus`."""

    texts: tuple[str, ...]
    held_out: int

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the texts in their order, each with its length before it."""
        return digest_of_texts(f"hushvec training corpus {self.held_out}\n", self.texts)


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


PAD, END = "<pad>", "</s>"
PAD_ID, END_ID = 0, 1  # as T5 numbers them


def learned_tokens(texts: Sequence[str], vocabulary: int) -> Tokens:
    """A byte-level tokenizer of at most `vocabulary` tokens that ends every text with </s>. Decoding gives every text back."""
    tokenizer = learned_byte_pairs(texts, vocabulary, [PAD, END], feature="training a decoder", extra="text")
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    return Tokens(tokenizer, tidy=False)


def portable(tokenizer_json: str) -> str:
    """The same vocabulary in the format of older releases, which newer ones also read: a merge is "a b" instead of ["a", "b"].

    Byte-level tokens have no spaces in them, so nothing is lost.
    """
    content = json.loads(tokenizer_json)
    content["model"]["merges"] = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    return json.dumps(content, ensure_ascii=False) + "\n"


IGNORED = -100  # a label that the loss leaves out

# Texts are sorted by length among this many batches: enough for little padding, few enough for a new mix in every epoch.
BATCHES_SORTED_TOGETHER = 50


class Batches:
    """The batches of every epoch, for texts of these lengths; the last batch of an epoch may be smaller."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._seed = seed
        self._epoch, self._of_epoch = -1, list[NDArray[np.intp]]()

    @property
    def in_epoch(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def at(self, step: int) -> NDArray[np.intp]:
        """Numbers of the texts of a step, counted from 0 over all epochs, sorted."""
        epoch, position = divmod(step, self.in_epoch)
        if epoch != self._epoch:
            self._epoch, self._of_epoch = epoch, self._ordered(epoch)
        return self._of_epoch[position]

    def _ordered(self, epoch: int) -> list[NDArray[np.intp]]:
        random = np.random.default_rng([self._seed, epoch])
        order = random.permutation(len(self._lengths))
        together = self._batch_size * BATCHES_SORTED_TOGETHER
        batches = []
        for first in range(0, len(order), together):
            pool = order[first : first + together]
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches += [np.sort(pool[start : start + self._batch_size]) for start in range(0, len(pool), self._batch_size)]
        return [batches[number] for number in random.permutation(len(batches))]


def labels_of(ids: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Token ids as a table, padded with the label that the loss ignores."""
    labels = np.full((len(ids), max(map(len, ids))), IGNORED, np.int64)
    for row, tokens in zip(labels, ids):
        row[: len(tokens)] = tokens
    return labels
