"""The game that attacks are judged by, and its models: indexes of random halves of a pool, asked about every candidate.

A fair coin for each random pair says which of its two documents goes into the index, as one random row number: turning one coin
replaces one row (docs/proofs/membership_bound.md). Shadow models come in couples with the same pairs and opposite coins.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.retrieval.attacks.features import Ids, Scores, Vectors, require_vectors, unit

# Queries of one call of search: the scores of a whole index for so many are some hundred MB at 10,000 documents.
QUERIES_AT_ONCE = 4096

# Shadow indexes that are kept after their searches, for attacks on the rows in them.
KEPT_SHADOWS = 2

_TARGET, _SHADOW = 0, 1
# Purposes that random numbers of a game are drawn for.
_PAIRS, _NOISE, _ORDER, RESAMPLES = range(4)


@dataclass(frozen=True)
class Model:
    """One index and what it answered."""

    index: Any  # the index itself; None for all but the first shadows
    members: NDArray[np.bool_]  # [n], which candidates are in it
    pairs: NDArray[np.intp]  # [m, 2], the candidates of each pair; the index has one of each
    coins: NDArray[np.intp]  # [m], 0 where the first of the pair is in, 1 where the second is
    slots: Ids  # [m], the row number and id of each pair in the index
    ids: Ids  # [n, q, k], what was returned for each candidate's queries, best first
    scores: Scores | None  # likewise; None if there are none

    @property
    def own(self) -> Ids:
        """[n]: the id that a candidate has, if it is a member; its pair's partner has it otherwise."""
        own = np.empty(self.pairs.size, np.int64)
        own[self.pairs] = self.slots[:, None]
        return own


@dataclass(frozen=True, eq=False)
class Game:
    """All models of one setting, searched once: any number of attacks can be judged on it."""

    documents: Vectors  # [n, d], the candidates at unit length, behind the index's public map if it has one
    queries: Vectors  # [n, q, d], likewise
    targets: tuple[Model, ...]  # models that attacks are judged on
    shadows: tuple[Model, ...]  # models that attacks learn from
    k: int  # depth of the answers
    root: int  # where the draws of pairs, coins and later resampling come from

    @property
    def expected(self) -> Scores:
        """[n, q]: cosine of each candidate's clean vector and its queries, which anyone who has the document can compute."""
        return np.asarray(np.einsum("nd,nqd->nq", self.documents, self.queries))

    def at(self, k: int) -> Game:
        """The same game with answers cut to the best k, as if only so many had been asked for."""
        if k == self.k:
            return self
        if not 1 <= validate.whole_number("k", k, at_least=1) <= self.k:
            raise ValueError(f"k must be <= {self.k}, the depth of this game's answers, got {k}")
        targets, shadows = (
            tuple(replace(one, ids=one.ids[:, :, :k], scores=None if one.scores is None else one.scores[:, :, :k]) for one in models)
            for models in (self.targets, self.shadows)
        )
        return replace(self, k=k, targets=targets, shadows=shadows)


def play(
    make_index: Callable[[_core.Generator], Any], documents: Any, queries: Any = None, *, k: int = 10, shadow_models: int = 16,
    target_models: int = 1, candidates: int | None = None, seed: int | None = 2025, progress: Callable[[int], None] | None = None,
) -> Game:
    """Build the target and shadow indexes of a membership game and ask each about every candidate.

    Random halves of the pool go into them; attacks know the members of the shadow indexes and learn from these. Several attacks,
    depths and claims can share a game: `judge(game, attack=...)`, `game.at(k)`.

    Args:
        make_index: takes a hushvec.Generator and returns an empty index: something with add(vectors, ids) and search(queries, k),
            whose answer has `ids` and `scores` (None if there are none). `PrivateIndex.fresh` is one.
        documents: float array [n, d], the pool; n >= 4. Of an odd pool one document is left out.
        queries: float array [n, q, d], what the adversary asks about each candidate; None: the candidate's own vector.
        k: depth of the answers, from 1 to n // 2.
        shadow_models: even, or 0; each costs one search of all n q queries.
        target_models: indexes that attacks are judged on; more make intervals narrower and epsilon_lower larger.
        candidates: an even number of documents of the pool that are asked about, drawn at random; None: all.
        seed: of members, key streams and later resampling; None: from the operating system.
        progress: called with 1 after each of the models.
    """
    if not callable(make_index):
        raise TypeError(f"make_index must be a function of a generator, got {validate.kind(make_index)}")
    pool = require_vectors("documents", documents, 2)
    if len(pool) < 4:
        raise ValueError(f"documents must have at least 4 rows, got {len(pool)}")
    asked = pool[:, None, :] if queries is None else require_vectors("queries", queries, 3)
    if len(asked) != len(pool) or asked.shape[2] != pool.shape[1] or asked.shape[1] < 1:
        raise ValueError(f"queries must be [{len(pool)}, q, {pool.shape[1]}] with q >= 1 for these documents, got {asked.shape}")
    half = len(pool) // 2
    if validate.whole_number("k", k, at_least=1) > half:
        raise ValueError(f"k must be <= {half}, half of the documents, got {k}")
    if validate.whole_number("shadow_models", shadow_models, at_least=0) % 2:
        raise ValueError(f"shadow_models must be even, got {shadow_models}")
    validate.whole_number("target_models", target_models, at_least=1)
    root = secrets.randbits(128) if seed is None else validate.whole_number("seed", seed, at_least=0)
    order = random_of(root, _ORDER).permutation(len(pool))[: 2 * half]
    chosen = len(order) if candidates is None else validate.whole_number("candidates", candidates, at_least=4)
    if chosen % 2 or chosen > len(order):
        raise ValueError(f"candidates must be even and at most {len(order)}, got {chosen}")
    if len(order) < len(pool) or chosen < len(order):
        # candidates first; each part in the order of the pool
        order = np.concatenate([np.sort(order[:chosen]), np.sort(order[chosen:])])
        pool, asked = pool[order], asked[order[:chosen]]

    def model(kind: int, number: int) -> Model:
        drawn = _drawn(chosen, len(pool), root, kind, number)
        words = np.random.SeedSequence([root, _NOISE, kind, number]).generate_state(1, np.uint64)
        index = make_index(_core.Generator() if seed is None else _core.Generator.unsafe_seeded(int(words[0])))
        if not (callable(getattr(index, "add", None)) and callable(getattr(index, "search", None))):
            raise TypeError(f"make_index must return an index with add and search, got {validate.kind(index)}")
        searched = _searched(index, pool, asked, drawn, k, keep=kind == _TARGET or number < KEPT_SHADOWS)
        if progress is not None:
            progress(1)
        return searched

    targets = tuple(model(_TARGET, number) for number in range(target_models))
    return Game(
        documents=_clean(pool[:chosen], targets[0].index), queries=_clean(asked, targets[0].index), targets=targets,
        shadows=tuple(model(_SHADOW, number) for number in range(shadow_models)),
        k=k,
        root=root,
    )


def _clean(vectors: Vectors, index: Any) -> Vectors:
    projection = getattr(index, "projection", None)
    if projection is None:
        return unit(vectors)
    rows = np.asarray(projection.transform(vectors.reshape(-1, vectors.shape[-1])), np.float32)
    return unit(rows.reshape(*vectors.shape[:-1], -1))


def random_of(root: int, *purpose: int) -> np.random.Generator:
    """Draws for one purpose of a game."""
    return np.random.default_rng(np.random.SeedSequence([root, *purpose]))


_Drawn = tuple[NDArray[np.intp], NDArray[np.intp], Ids]


def _drawn(candidates: int, pool: int, root: int, kind: int, number: int) -> _Drawn:
    """Pairs [n / 2, 2], those of candidates first, their coins (opposite in shadows 2 i and 2 i + 1) and slots."""
    couple, turned = divmod(number, 2) if kind == _SHADOW else (number, 0)
    random = random_of(root, _PAIRS, kind, couple)
    order = np.concatenate([random.permutation(candidates), candidates + random.permutation(pool - candidates)])
    coins = random.integers(0, 2, pool // 2) ^ turned
    return order.reshape(-1, 2), coins, random.permutation(pool // 2).astype(np.int64)


def _searched(index: Any, pool: Vectors, asked: Vectors, drawn: _Drawn, k: int, *, keep: bool) -> Model:
    pairs, coins, slots = drawn
    inside = pairs[np.arange(len(pairs)), coins]
    rows = np.empty_like(inside)
    rows[slots] = inside
    index.add(pool[rows], np.arange(len(rows)))
    ids = np.empty((*asked.shape[:2], k), np.int64)
    scores: Scores | None = np.empty(ids.shape, np.float32)
    for place in _calls(*asked.shape[:2]):
        answer = index.search(np.ascontiguousarray(asked[place]), k)
        ids[place] = _answered("ids", answer.ids, ids[place].shape)
        if answer.scores is None:
            scores = None
        elif scores is not None:
            scores[place] = _answered("scores", answer.scores, ids[place].shape)
    if ids.min() < 0 or ids.max() >= len(rows):
        raise ValueError(f"ids of a search must be among the {len(rows)} that were added, got {int(ids.min())} to {int(ids.max())}")
    if scores is not None and not np.isfinite(scores).all():
        raise ValueError("scores of a search must be finite, got NaN or Inf")
    count = len(asked) // 2  # pairs of candidates
    members = np.zeros(len(asked), bool)
    members[inside[:count]] = True
    of_pairs = {"pairs": pairs[:count], "coins": coins[:count], "slots": slots[:count]}
    return Model(index=index if keep else None, members=members, ids=ids, scores=scores, **of_pairs)


def _calls(candidates: int, queries: int) -> Iterator[tuple[slice, int]]:
    """Queries of each call of search, a candidate's at the same place of different calls: noise that restarts repeats in them."""
    for first in range(0, candidates, QUERIES_AT_ONCE):
        for number in range(queries):
            yield slice(first, min(first + QUERIES_AT_ONCE, candidates)), number


def _answered(name: str, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"{name} of a search must be {list(shape)}, got {list(array.shape)}")
    return array
