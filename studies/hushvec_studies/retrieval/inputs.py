"""What runs work on: the vectors of a split and of its queries, which are key phrases of the documents.

They are made in the study's own process; workers get the vectors, and need neither texts nor model.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.extend.helpers import Progress
from hushvec_studies.harness.embeddings import EmbeddingCache
from hushvec_studies.harness.logs import stage
from hushvec_studies.harness.rows import bytes_of
from hushvec_studies.retrieval.configuration import Configuration, Queries
from hushvec_studies.retrieval.corpora import Corpus, load_corpus
from hushvec_studies.retrieval.key_phrases import key_phrases, prepared_text
from hushvec_studies.retrieval.plan import Run


@dataclass(frozen=True, eq=False)
class Inputs:
    """Vectors of one split.

    Args:
        documents: float32 [n, d].
        queries: float32 [m, d], those of one document beside each other.
        query_documents: int64 [m], the row of the document that each query is of, ascending.
        categories: int64 [n], a number for each category.
        public: float32 [p, d], rows of another split that public maps are fitted on; no rows where none is asked for.
    """

    documents: NDArray[np.float32]
    queries: NDArray[np.float32]
    query_documents: NDArray[np.int64]
    categories: NDArray[np.int64]
    public: NDArray[np.float32]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it; inputs of one digest are the same ones."""
        arrays = [getattr(self, field.name) for field in fields(self)]
        return hashlib.sha256(b"".join(map(bytes_of, arrays))).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Inputs) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def asked(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The documents that have a query, and [n, q, d] queries for each; one with fewer than q asks its own again in turn."""
        documents, first, counts = np.unique(self.query_documents, return_index=True, return_counts=True)
        places = first[:, None] + np.arange(counts.max()) % counts[:, None]
        return documents, self.queries[places]


def public_split(configuration: Configuration) -> str:
    """The split that public maps are fitted on; ValueError: it is the searched one, which is never public."""
    searched, wanted = configuration.data.split, configuration.privacy.public_split
    chosen = wanted or ("train" if searched == "val" else "val")
    if searched in ("all", chosen):
        raise ValueError(
            f"privacy.public_split must be another split than data.split, {searched!r}, got {chosen!r}: "
            "a map that was fitted on the documents is not public"
        )
    return chosen


class AllInputs:
    """Inputs of a study, made when they are first asked for.

    Args:
        cache: folder of the embedding cache.
        embedder: model name -> anything with `model_id` and `embed(texts)`.
    """

    def __init__(self, cache: Path, embedder: Callable[[str], Any], progress: bool = True) -> None:
        self._cache, self._embedder, self._progress = cache, embedder, progress
        self._corpora: dict[str, Corpus] = {}
        self._caches: dict[str, EmbeddingCache] = {}
        self._made: dict[str, Inputs] = {}

    def of(self, run: Run) -> Inputs:
        """The inputs of a run; ValueError, TypeError, OSError: texts that cannot be read or embedded."""
        configuration = run.configuration
        corpus = self._corpus(configuration)
        other = None if run.projection == "none" else public_split(configuration)
        if other is not None:
            _require_enough(run.projection, corpus, other)
        data, queries = configuration.data, configuration.queries
        said = repr((data, configuration.embedding.model, queries, configuration.seed, other))
        if said not in self._made:
            self._made[said] = self._of(configuration, corpus, other)
        return self._made[said]

    @property
    def left_out(self) -> tuple[tuple[str, int], ...]:
        """Why documents of the sources are not among the inputs, and how many."""
        counts: Counter[str] = Counter()
        for corpus in self._corpora.values():
            # of one source under several settings, the setting that leaves out the most
            counts |= Counter(dict(corpus.left_out))
        return tuple(counts.items())

    def _corpus(self, configuration: Configuration) -> Corpus:
        data = configuration.data
        # whichever part of it is searched and however its texts are embedded
        of_parts = {"split", "max_documents", "lower_case", "drop_stop_words"}
        said = json.dumps([data.model_dump(mode="json", exclude=of_parts), configuration.seed])
        if said not in self._corpora:
            with stage("corpus") as facts:
                self._corpora[said] = load_corpus(
                    data.source,
                    data_home=data.data_home,
                    categories=data.categories,
                    min_tokens=data.min_tokens,
                    splits=data.splits,
                    seed=configuration.seed,
                )
                facts["documents"] = len(self._corpora[said])
        return self._corpora[said]

    def _of(self, configuration: Configuration, corpus: Corpus, other: str | None) -> Inputs:
        part = _searched(corpus, configuration)
        texts, of_documents = _phrases(configuration.queries, part)
        prepare = partial(prepared_text, lower_case=configuration.data.lower_case, drop=configuration.data.drop_stop_words)
        public = () if other is None else corpus.part(other).texts
        groups = [[prepare(text) for text in group] for group in (part.texts, texts, public)]
        documents, queries, fitted_on = self._embedded(configuration.embedding.model, groups)
        categories = np.unique(part.categories, return_inverse=True)[1]
        return Inputs(documents, queries, of_documents, categories.astype(np.int64), fitted_on)

    def _embedded(self, name: str, groups: Sequence[Sequence[str]]) -> list[NDArray[np.float32]]:
        if name not in self._caches:
            with stage("model", model=name):
                self._caches[name] = EmbeddingCache(self._cache, self._embedder(name))
        texts = [text for group in groups for text in group]
        with stage("embedding", texts=len(texts)), Progress("embedding", len(texts) if self._progress else 0) as progress:
            rows = self._caches[name].embed(texts, progress.advance if self._progress else None)
        return np.split(rows, np.cumsum([len(group) for group in groups])[:-1])


def _require_enough(projection: str, corpus: Corpus, split: str) -> None:
    """Refuse a map that needs more public rows than there are, before anything is measured."""
    wanted, rows = int(projection.partition(":")[2] or 1), len(corpus.part(split))
    if wanted > rows - 1:
        raise ValueError(
            f"privacy.projections must have at most {max(0, rows - 1)} components, as the split {split} has {rows} documents, got "
            f"{projection} (leave the number out: all components that there are)"
        )


def _phrases(asked: Queries, part: Corpus) -> tuple[list[str], NDArray[np.int64]]:
    """Key phrases of the documents, and the row of the document of each."""
    phrases = [key_phrases(text, count=asked.per_document, tokens=asked.tokens) for text in part.texts]
    texts = [phrase for own in phrases for phrase in own]
    if not texts:
        raise ValueError(
            f"data.source must have texts with key phrases of {asked.tokens[0]} to {asked.tokens[1]} words, got none"
        )
    return texts, np.repeat(np.arange(len(part)), [len(own) for own in phrases])


def drawn(count: int, most: int | None, seed: int) -> NDArray[np.intp]:
    """Places of at most so many of `count` things, ascending, each set of them as likely as another."""
    if most is None or most >= count:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).permutation(count)[:most])


def _searched(corpus: Corpus, configuration: Configuration) -> Corpus:
    """The documents of the split, or as many of them as are asked for, drawn by the seed."""
    data = configuration.data
    part = corpus if data.split == "all" else corpus.part(data.split)
    if data.max_documents is None or data.max_documents >= len(part):
        return part
    return part.at(drawn(len(part), data.max_documents, configuration.seed))
