"""The game: who is in which model, what is asked, and what is refused."""

import numpy as np
import pytest

from hushvec.mechanisms import PublicProjection
from hushvec.retrieval.attacks.features import own_scores
from hushvec.retrieval.attacks.membership import judge
from hushvec.retrieval.attacks.shadows import play
from retrieval.attacks.small_indexes import OnDocuments, Plain, directions, near

POOL = directions(60, 8)


class Recorder(Plain):
    """Remembers what it was asked."""

    def __init__(self, generator):
        super().__init__(generator)
        self.calls = []

    def search(self, queries, k):
        self.calls.append(np.array(queries))
        return super().search(queries, k)


def models(game):
    return (*game.targets, *game.shadows)


def test_members_are_one_of_each_pair():
    game = play(Plain, POOL, k=5, shadow_models=6, target_models=2)
    for model in models(game):
        assert sorted(model.pairs.ravel()) == list(range(60))
        assert sorted(model.slots) == list(range(30))
        inside = model.pairs[np.arange(30), model.coins]
        assert sorted(inside) == np.flatnonzero(model.members).tolist()


def test_the_index_has_the_members_at_the_slots_of_their_pairs():
    game = play(Plain, POOL, k=5, shadow_models=2)
    model = game.targets[0]
    inside = model.pairs[np.arange(30), model.coins]
    np.testing.assert_allclose(model.index.rows[model.slots], POOL[inside], atol=1e-6)
    assert (model.index.ids == np.arange(30)).all()
    assert (model.own[model.pairs[:, 0]] == model.slots).all() and (model.own[model.pairs[:, 1]] == model.slots).all()


def test_shadows_come_in_couples():
    game = play(Plain, POOL, k=5, shadow_models=8)
    for first, second in zip(game.shadows[::2], game.shadows[1::2]):
        assert (first.members != second.members).all()
        assert (first.pairs == second.pairs).all() and (first.slots == second.slots).all()
    assert (np.sum([model.members for model in game.shadows], axis=0) == 4).all()
    assert not (game.shadows[0].members == game.shadows[2].members).all()


def test_coins_are_fair_and_models_differ():
    """Of 200 x 30 coins those that are 1 are 3000 +- 5 x 38.7 (alpha < 1e-6)."""
    game = play(Plain, POOL, k=1, shadow_models=0, target_models=200)
    coins = np.stack([model.coins for model in game.targets])
    assert abs(coins.sum() - 3000) < 5 * np.sqrt(1500)
    assert len({tuple(row) for row in coins}) == 200
    # a document's slot says nothing about whether it is in
    slots = np.concatenate([model.own[model.members] for model in game.targets])
    others = np.concatenate([model.own[~model.members] for model in game.targets])
    assert abs(slots.mean() - others.mean()) < 1e-9


def test_seeded_games_repeat_and_others_do_not():
    release = dict(epsilon=1.0, mechanism="privunit")
    first, again, other, unseeded = (
        play(lambda generator: OnDocuments(generator, **release), POOL, k=5, shadow_models=2, seed=seed)
        for seed in (1, 1, 2, None)
    )
    assert (first.targets[0].ids == again.targets[0].ids).all() and (first.shadows[1].scores == again.shadows[1].scores).all()
    assert not (first.targets[0].members == other.targets[0].members).all()
    assert not first.targets[0].index.receipts[0].is_dp_claim
    assert unseeded.targets[0].index.receipts[0].is_dp_claim


def test_queries_of_a_candidate_are_in_different_calls_at_the_same_place():
    queries = near(POOL, 3, 0.7)
    game = play(Recorder, POOL, queries, k=5, shadow_models=0)
    for number, call in enumerate(game.targets[0].index.calls):
        np.testing.assert_array_equal(call, queries[:, number])


def test_answers_are_in_the_order_of_candidates_and_queries():
    queries = near(POOL, 3, 0.7)
    game = play(Plain, POOL, queries, k=5, shadow_models=0)
    model = game.targets[0]
    for candidate, query in ((0, 0), (17, 2), (59, 1)):
        answer = model.index.search(queries[candidate, query][None], 5)
        assert (model.ids[candidate, query] == answer.ids[0]).all()
    np.testing.assert_allclose(game.expected, np.full((60, 3), 0.7), atol=1e-5)


def test_fewer_candidates_from_the_same_pool():
    game = play(Plain, POOL, near(POOL, 2, 0.7), k=5, shadow_models=2, candidates=20)
    assert len(game.documents) == 20 and len(game.targets[0].index.rows) == 30
    model = game.targets[0]
    assert model.ids.shape == (20, 2, 5) and model.pairs.shape == (10, 2)
    inside = model.pairs[np.arange(10), model.coins]
    np.testing.assert_allclose(model.index.rows[model.slots], game.documents[inside], atol=1e-6)
    np.testing.assert_allclose(game.expected, 0.7, atol=1e-5)
    assert {tuple(row) for row in game.documents.round(5)} <= {tuple(row) for row in POOL.round(5)}


def test_an_odd_pool_leaves_one_document_out():
    game = play(Plain, POOL[:59], k=5, shadow_models=0)
    assert len(game.documents) == 58 and len(game.targets[0].index.rows) == 29


def test_cut_is_a_smaller_k():
    """The best 3 of 10 are what is asked for by k = 3, where nothing is random."""
    queries = near(POOL, 2, 0.6)
    deep, shallow = play(Plain, POOL, queries, k=10, shadow_models=2), play(Plain, POOL, queries, k=3, shadow_models=2)
    assert (deep.at(3).targets[0].ids == shallow.targets[0].ids).all()
    assert judge(deep.at(3), resamples=10).to_dict() == judge(shallow, resamples=10).to_dict()
    assert deep.at(10) is deep


def test_a_public_map_is_applied_to_what_the_adversary_computes():
    class Mapped(Plain):
        projection = PublicProjection.johnson_lindenstrauss(8, 4, seed=1)

        def add(self, vectors, ids):
            super().add(self.projection.transform(vectors), ids)

        def search(self, queries, k):
            return super().search(self.projection.transform(queries), k)

    game = play(Mapped, POOL, near(POOL, 2, 0.7), k=30, shadow_models=0)
    model = game.targets[0]
    own = own_scores(model.ids, model.scores, model.own)
    np.testing.assert_allclose(own[model.members], game.expected[model.members], atol=1e-5)
    assert np.abs(own[~model.members] - game.expected[~model.members]).max() > 0.1


def test_progress_counts_models():
    seen = []
    play(Plain, POOL, k=1, shadow_models=4, target_models=2, progress=seen.append)
    assert seen == [1] * 6


@pytest.mark.parametrize(
    "change,words",
    [
        (dict(documents=POOL[:3]), "documents must have at least 4 rows, got 3"),
        (
            dict(documents=np.where(np.arange(60) == 7, np.nan, 1.0)[:, None] * POOL),
            "documents must be finite, got NaN or Inf in row 7",
        ),
        (dict(documents=POOL[0]), "documents must have 2 dimensions, got 1"),
        (dict(queries=POOL), "queries must have 3 dimensions, got 2"),
        (dict(queries=near(POOL, 2, 0.5)[:50]), "queries must be [60, q, 8] with q >= 1 for these documents, got (50, 2, 8)"),
        (dict(k=31), "k must be <= 30, half of the documents, got 31"),
        (dict(k=0), "k must be >= 1, got 0"),
        (dict(shadow_models=3), "shadow_models must be even, got 3"),
        (dict(target_models=0), "target_models must be >= 1, got 0"),
        (dict(candidates=5), "candidates must be even and at most 60, got 5"),
        (dict(candidates=62), "candidates must be even and at most 60, got 62"),
        (dict(seed=-1), "seed must be >= 0, got -1"),
    ],
)
def test_bad_values(change, words):
    arguments = {"documents": POOL, "k": 5, "shadow_models": 2} | change
    with pytest.raises(ValueError) as caught:
        play(Plain, **arguments)
    assert str(caught.value) == words


def test_bad_kinds():
    with pytest.raises(TypeError, match="documents must be a float array, got int64"):
        play(Plain, np.ones((8, 2), np.int64))
    with pytest.raises(TypeError, match="k must be a whole number, got bool"):
        play(Plain, POOL, k=True)


def test_what_is_no_index_is_refused():
    with pytest.raises(TypeError, match="make_index must be a function of a generator, got ndarray"):
        play(POOL, POOL)
    with pytest.raises(TypeError, match="make_index must return an index with add and search, got NoneType"):
        play(lambda generator: None, POOL)


def test_vectors_beyond_float32_are_refused():
    with pytest.raises(ValueError, match=r"documents must be in the range of float32, got 1e\+300"):
        play(Plain, np.full((8, 2), 1e300))


def test_answers_that_cannot_be_are_refused():
    class Foreign(Plain):
        def add(self, vectors, ids):
            super().add(vectors, ids + 1)

    class Broken(Plain):
        def noisy(self, scores):
            return np.where(scores > 0.999, np.nan, scores)

    with pytest.raises(ValueError, match="ids of a search must be among the 30 that were added, got 1 to 30"):
        play(Foreign, POOL, k=5)
    with pytest.raises(ValueError, match="scores of a search must be finite, got NaN or Inf"):
        play(Broken, POOL, k=30)


def test_an_index_that_answers_with_too_little_is_refused():
    class Short(Plain):
        def search(self, queries, k):
            return super().search(queries, k - 1)

    with pytest.raises(ValueError, match=r"ids of a search must be \[60, 5\], got \[60, 4\]"):
        play(Short, POOL, k=5)
