"""What is attacked: rows of a task, the adversary's public rows, and a stranger's embeddings of the same texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hushvec_studies.evaluation.attacks.alignment import stranger
from hushvec_studies.evaluation.attacks.words import word_tables
from hushvec_studies.evaluation.vectors import Hashed, Labelled, Posts, Rows, Searched, Texts
from hushvec_studies.search_by_mechanism.measure import halves


@dataclass(frozen=True)
class Foreign(Hashed):
    """A stranger's embeddings of public and of private texts.

    Args:
        name: of the embedder.
    """

    name: str
    public: Rows
    private: Rows


@dataclass(frozen=True)
class Target(Hashed):
    """Private rows that are released, and what an adversary has who can send public texts through the same mechanism.

    Args:
        name: of the data.
        public, private: rows.
        public_words, private_words: which words stand in which text.
        foreign: a stranger's embeddings.
        averaged: whether releases serve averages, not a search: it decides how a mechanism splits epsilon.
        purpose: of `PublicCodebook.fit`.
    """

    name: str
    public: Rows
    private: Rows
    public_words: NDArray[np.bool_]
    private_words: NDArray[np.bool_]
    foreign: tuple[Foreign, ...]
    averaged: bool
    purpose: str


@dataclass(frozen=True)
class Sought(Target):
    """A target of which some texts are looked for by their releases.

    Args:
        model: embedding model, by name.
        sought: places of the private texts that are looked for.
        texts: public and private.
    """

    model: str
    sought: NDArray[np.int64]
    texts: Texts


def sought(data: Labelled, model: str, count: int, seed: int) -> Sought:
    """So many of the training texts, drawn at random."""
    public, private, public_texts, private_texts = _parts(data)
    no_words = (np.empty((len(public), 0), bool), np.empty((len(private), 0), bool))
    drawn = np.sort(np.random.default_rng(seed).permutation(len(private))[:count]).astype(np.int64)
    texts = (public_texts, private_texts)
    return Sought(data.name, public, private, *no_words, (), True, "cosine", model, drawn, texts)


def target(data: Searched | Posts | Labelled, strangers: Sequence[str]) -> Target:
    """The rows that a task releases: of documents the private half of the first split, of posts the private ones, of classes the
    training rows."""
    public, private, public_texts, private_texts = _parts(data)
    foreign = tuple(Foreign(name, *stranger(name)(public_texts, private_texts)) for name in strangers)
    purpose = "search" if isinstance(data, Searched) else "cosine"
    words = word_tables(public_texts, private_texts)
    return Target(data.name, public, private, *words, foreign, isinstance(data, Labelled), purpose)


def _parts(data: Searched | Posts | Labelled) -> tuple[Rows, Rows, list[str], list[str]]:
    if isinstance(data, Searched):
        public, private, _, _ = next(halves(len(data.documents), data.relevant, 1))
        (texts,) = data.texts
        return data.documents[public], data.documents[private], [texts[one] for one in public], [texts[one] for one in private]
    if isinstance(data, Posts):
        public_texts, private_texts = data.texts
        return data.public, data.private, public_texts, private_texts
    public_texts, training_texts = data.texts
    return data.public, data.training, public_texts, training_texts
