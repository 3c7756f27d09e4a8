"""PublicChoice: randomized response over representative public texts."""

import math

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import RandomizedResponse
from hushvec.text.public_choice import PublicChoice, best_size, representatives
from text.public_texts import clustered, corpus_of, numbers_of

pytestmark = pytest.mark.ranks


def test_the_true_answer_is_the_nearest_representative():
    corpus = corpus_of(clustered(200, 16))
    choice, private = PublicChoice(corpus, 4.0, size=30), clustered(50, 16, seed=1)
    nearest = (private @ corpus.embeddings[choice.numbers].T).argmax(axis=1)
    np.testing.assert_array_equal(choice.nearest(private * np.float32(3)), nearest)
    sure = PublicChoice(corpus, 40.0, size=30)
    texts, _ = sure.release(private, generator=hv.Generator.unsafe_seeded(1))
    np.testing.assert_array_equal(numbers_of(texts), choice.numbers[nearest])


def test_texts_follow_randomized_response():
    """30,000 releases of one row among 5 texts. Truths within 5 standard errors of the law; the law at 1.2 epsilon is rejected."""
    corpus = corpus_of(clustered(5, 8, topics=5))
    choice, count = PublicChoice(corpus, 2.0, size=5), 30_000
    texts, receipt = choice.release(np.tile(corpus.embeddings[3], (count, 1)), generator=hv.Generator.unsafe_seeded(1))
    true = (numbers_of(texts) == 3).mean()

    def deviations(epsilon):
        expected = RandomizedResponse(epsilon=epsilon, k=5).probability_of_truth
        return abs(true - expected) / math.sqrt(expected * (1 - expected) / count)

    assert deviations(2.0) < 5 < deviations(2.4)
    assert receipt.epsilon == 2.0 and receipt.answers == count


def test_all_texts_at_a_large_epsilon_and_few_at_a_small_one():
    corpus = corpus_of(clustered(500, 24))
    sizes = [len(PublicChoice(corpus, epsilon).numbers) for epsilon in (0.5, 3.0, 20.0)]
    assert 2 <= sizes[0] < sizes[1] < sizes[2]
    private = clustered(40, 24, seed=3)
    texts, _ = PublicChoice(corpus, 40.0, size=500).release(private, generator=hv.Generator.unsafe_seeded(1))
    np.testing.assert_array_equal(numbers_of(texts), (private @ corpus.embeddings.T).argmax(axis=1))


def test_representatives_are_an_order_that_covers():
    """Every text once; the first of 20 topics' worth of them cover held-out rows better than as many at random (50 draws)."""
    rows, private = clustered(600, 24), clustered(300, 24, seed=9)
    order = representatives(rows)
    np.testing.assert_array_equal(np.sort(order), np.arange(600))
    np.testing.assert_array_equal(order, representatives(rows))

    def covered(numbers):
        return (private @ rows[numbers].T).max(axis=1).mean()

    rng = np.random.default_rng(0)
    assert covered(order[:20]) > max(covered(rng.permutation(600)[:20]) for _ in range(50))


def test_representatives_are_the_greedy_ones():
    """On 30 texts, of which every other one is looked at, against the greedy choice written out."""
    rows = clustered(30, 6)
    seen = np.arange(30)[::2]
    cosines = np.maximum(rows[seen] @ rows.T, 0)
    cosines[np.arange(15), seen] = 0
    reached, order = np.zeros(15), representatives(rows)
    for number in order[:8]:
        gains = np.maximum(cosines - reached[:, None], 0).sum(axis=0)
        assert gains[number] == pytest.approx(gains.max(), abs=1e-5)
        reached = np.maximum(reached, cosines[:, number])


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 8.0])
def test_the_size_is_the_best_on_held_out_texts(epsilon):
    rows = clustered(400, 24)
    order = representatives(rows)
    held_out = np.arange(400)[1::2]
    scores = {}
    for size in range(2, 401):
        mechanism = RandomizedResponse(epsilon=epsilon, k=size)
        cosines = rows[held_out] @ rows[order[:size]].T
        own = held_out[:, None] == order[None, :size]
        best = np.where(own, -1, cosines).max(axis=1).mean()
        others = (np.where(own, 0, cosines).sum(axis=1).mean() - best) / (size - 1)
        scores[size] = mechanism.probability_of_truth * best + (1 - mechanism.probability_of_truth) * others
    found = best_size(rows, order, epsilon)
    assert scores[found] >= max(scores.values()) - 1.01e-4
    assert all(scores[size] < max(scores.values()) - 0.99e-4 for size in range(found + 1, 401))


@pytest.mark.parametrize("count", [2, 5, 8])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 8.0, 16.0])
def test_none_of_a_few_texts_is_dropped(count, epsilon):
    for seed in range(20):
        choice = PublicChoice(corpus_of(clustered(count, 24, seed=seed)), epsilon)
        assert sorted(choice.numbers.tolist()) == list(range(count)) and choice.mechanism.k == count


def expected_cosine(rows, numbers, private, epsilon):
    """Of what randomized response over these texts answers to private rows."""
    cosines, mechanism = private @ rows[numbers].T, RandomizedResponse(epsilon=epsilon, k=len(numbers))
    best = cosines.max(axis=1)
    others = (cosines.sum(axis=1) - best) / (len(numbers) - 1)
    return (mechanism.probability_of_truth * best + (1 - mechanism.probability_of_truth) * others).mean()


def test_few_texts_do_not_hide_that_a_size_is_harmful():
    """Of 40 texts at epsilon 1 the true one would be told with probability 0.07, so most are left out, to the good of fresh rows."""
    rows, private = clustered(40, 24), clustered(500, 24, seed=7)
    assert RandomizedResponse(epsilon=1.0, k=40).probability_of_truth < 0.07
    numbers = PublicChoice(corpus_of(rows), 1.0).numbers
    assert 2 <= len(numbers) <= 8
    assert expected_cosine(rows, numbers, private, 1.0) > expected_cosine(rows, np.arange(40), private, 1.0) + 0.05
    assert len(PublicChoice(corpus_of(rows), 16.0).numbers) == 40


@pytest.mark.parametrize("count", [9, 12, 40, 63])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_few_held_out_texts_and_an_imagined_one(count, epsilon):
    """The rule for fewer than 32 held-out texts, written out."""
    rows = clustered(count, 24)
    order = representatives(rows)
    sizes, held_out = np.arange(2, count + 1), np.arange(count)[1::2]
    assert len(held_out) < 32
    scores, imagined = np.empty((len(held_out), len(sizes))), np.empty(len(sizes))
    for column, size in enumerate(sizes):
        truth = RandomizedResponse(epsilon=epsilon, k=int(size)).probability_of_truth
        cosines = rows[held_out] @ rows[order[:size]].T
        own = held_out[:, None] == order[None, :size]
        best = np.where(own, -1, cosines).max(axis=1)
        others = (np.where(own, 0, cosines).sum(axis=1) - best) / (size - 1)
        scores[:, column] = truth * best + (1 - truth) * others
        imagined[column] = truth + (1 - truth) * others.mean()
    top = scores.mean(axis=0).argmax()
    losses = np.vstack([scores[:, [top]] - scores, scores[:, top].mean() - imagined])
    margins = losses.mean(axis=0) - losses.std(axis=0, ddof=1) / math.sqrt(len(losses))
    found = best_size(rows, order, epsilon) - 2
    assert found >= top
    assert margins[found] <= 1e-6 and (margins[found + 1 :] > -1e-6).all()


def test_it_is_charged_and_refused_before_anything_is_drawn():
    budget = hv.PrivacyBudget(10.0)
    choice = PublicChoice(corpus_of(clustered(50, 8)), 8.0)
    with pytest.raises(ValueError, match="row 0"):
        choice.release(np.full((1, 8), np.nan, np.float32), budget=budget)
    assert budget.consumed() == 0.0
    choice.release(clustered(1, 8, seed=2), budget=budget)
    assert budget.consumed() == 8.0
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        choice.release(clustered(1, 8, seed=2), budget=budget)


def test_no_rows():
    texts, receipt = PublicChoice(corpus_of(clustered(50, 8)), 8.0).release(np.empty((0, 8), np.float32))
    assert texts == [] and receipt.answers == 0


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: PublicChoice("corpus", 1.0), TypeError, "must be a PublicCorpus"),
        (lambda: PublicChoice(corpus_of(clustered(1, 8)), 1.0), ValueError, "at least two texts, got 1"),
        (lambda: PublicChoice(corpus_of(clustered(5, 8)), 0.0), ValueError, "epsilon must be > 0"),
        (lambda: PublicChoice(corpus_of(clustered(5, 8)), 1.0, size=6), ValueError, "size must be at most 5"),
        (lambda: PublicChoice(corpus_of(clustered(5, 8)), 1.0, size=1), ValueError, "size must be >= 2"),
        (lambda: PublicChoice(corpus_of(clustered(5, 8)), 1.0).release(np.ones((1, 7), np.float32)), ValueError, "shape"),
    ],
)
def test_refusals(make, kind, words):
    with pytest.raises(kind, match=words):
        make()
