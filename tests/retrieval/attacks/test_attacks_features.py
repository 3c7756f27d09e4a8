"""Features of answers, against loops that read like their definitions."""

import math

import numpy as np
import pytest

from hushvec.retrieval.attacks.features import FEATURES, Returned, features_of, own_scores, top_score

RANDOM = np.random.default_rng(4)
SHAPES = [(1, 1, 1), (7, 1, 10), (20, 3, 1), (20, 3, 5), (5, 8, 4)]


def features(ids, scores):
    return features_of(Returned.of(ids, scores), scores)


def answers(candidates, queries, depth, documents=9):
    """Ids without repetition within a query, scores descending; some negative."""
    ids = np.stack(
        [[RANDOM.permutation(max(depth, documents))[:depth] for _ in range(queries)] for _ in range(candidates)]
    ).astype(np.int64)
    scores = np.sort(RANDOM.normal(0.2, 0.5, (candidates, queries, depth)))[:, :, ::-1].astype(np.float32)
    return ids, scores


def presumed(ids):
    """The id most queries return; of equals the one with the smallest mean rank, then the smallest id."""
    found = {}
    for row in ids:
        for rank, name in enumerate(row, start=1):
            found.setdefault(int(name), []).append(rank)
    name = min(found, key=lambda name: (-len(found[name]), sum(found[name]) / len(found[name]), name))
    return found[name]


def naive(ids, scores):
    values = [float(score) for score in scores.ravel()]
    mean = sum(values) / len(values)
    ranks = presumed(ids)
    pairs = sum(abs(one - other) for one in values for other in values)
    size = sum(map(abs, values))
    return [
        max(values),
        mean,
        math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)),
        len(ranks),
        sum(ranks) / len(ranks),
        max(ranks),
        pairs / (2 * len(values) * size) if size else 0.0,
    ]


def score_in(ids, scores, query, name):
    return {int(one): float(score) for one, score in zip(ids[query], scores[query])}.get(name)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_seven_features(shape):
    ids, scores = answers(*shape)
    found = features(ids, scores)
    assert found.shape == (shape[0], len(FEATURES))
    np.testing.assert_allclose(found, [naive(*one) for one in zip(ids, scores)], rtol=1e-6, atol=1e-7)


def test_gini_is_the_usual_one_for_scores_that_are_not_negative():
    """Of (1, 0, 0, 0) it is 3/4, of equal scores 0."""
    ids = np.arange(4, dtype=np.int64).reshape(1, 1, 4)
    assert features(ids, np.array([[[1, 0, 0, 0]]], np.float32))[0, 6] == 0.75
    assert features(ids, np.ones((1, 1, 4), np.float32))[0, 6] == 0.0
    assert features(ids, np.zeros((1, 1, 4), np.float32))[0, 6] == 0.0


def test_without_scores_their_features_are_zero():
    ids, scores = answers(6, 3, 5)
    with_scores, without = features(ids, scores), features(ids, None)
    np.testing.assert_array_equal(without[:, [0, 1, 2, 6]], 0.0)
    np.testing.assert_array_equal(without[:, 3:6], with_scores[:, 3:6])


def test_names_of_ids_do_not_matter():
    """Opaque ids: a renaming that keeps their order among equals changes nothing."""
    ids, scores = answers(30, 3, 5)
    np.testing.assert_array_equal(features(ids, scores), features(1000 + 7 * ids, scores))


def test_the_candidates_own_id_is_not_used():
    """If all ids are shifted by one, modulo their number, so that own ids become others', features that matter stay."""
    ids, scores = answers(30, 3, 5)
    shifted = features((ids + 1) % 9, scores)
    np.testing.assert_allclose(shifted[:, [0, 1, 2, 3, 6]], features(ids, scores)[:, [0, 1, 2, 3, 6]])


@pytest.mark.parametrize("shape", SHAPES)
def test_statistics_of_one_document(shape):
    ids, scores = answers(*shape)
    expected = RANDOM.normal(0, 0.5, shape[:2]).astype(np.float32)
    returned = Returned.of(ids, scores)
    sums, matches, shifts = [], [], []
    for one, score, wanted in zip(ids, scores, expected):
        total, fits, spreads = [], [], []
        for name in set(one.ravel().tolist()):
            seen = [score_in(one, score, query, name) for query in range(shape[1])]
            last = [float(row.min()) for row in score]
            total.append(np.mean([low if value is None else value for value, low in zip(seen, last)]))
            fitted = [min(low, want) if value is None else value for value, low, want in zip(seen, last, wanted)]
            fits.append(-np.log(np.mean((np.array(fitted) - wanted) ** 2) + 1e-12))
            away = [value - want for value, want in zip(seen, wanted) if value is not None]
            spreads.append(-np.log(np.var(away) + 1e-12) if len(away) >= 2 else -np.inf)
        sums.append(max(total))
        matches.append(max(fits))
        shifts.append(max(spreads))
    np.testing.assert_allclose(returned.best_sum(), sums, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(returned.match(expected), matches, rtol=1e-4, atol=1e-3)
    known = [value for value in shifts if np.isfinite(value)]
    lowest = min(known) if known else 0.0
    wanted = [value if np.isfinite(value) else lowest for value in shifts]
    np.testing.assert_allclose(returned.match_but_for_shift(expected), wanted, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(top_score(scores), scores[:, :, 0].mean(axis=1), rtol=1e-6)


def test_an_exact_match_stands_out():
    """Equal scores to rounding against scores that are 0.001 away: 13.8 in a logarithm of squares, 1e-6 on a linear scale."""
    ids = np.array([[[0, 1]], [[0, 1]]], np.int64)
    scores = np.array([[[0.5, 0.4]], [[0.501, 0.4]]], np.float32)
    exact, near = Returned.of(ids, scores).match(np.array([[0.5], [0.5]], np.float32))
    assert exact - near == pytest.approx(np.log(1e6), abs=0.1)


@pytest.mark.parametrize("shape", SHAPES)
def test_own_scores(shape):
    ids, scores = answers(*shape)
    own = RANDOM.integers(0, 9, shape[0])
    for values in (scores, None):
        found = own_scores(ids, values, own)
        for candidate in range(shape[0]):
            for query in range(shape[1]):
                places = np.flatnonzero(ids[candidate, query] == own[candidate])
                rank = -(places[0] + 1.0) if len(places) else -np.inf
                score = float(scores[candidate, query, places[0]]) if len(places) else -np.inf
                assert found[candidate, query] == (rank if values is None else score)
