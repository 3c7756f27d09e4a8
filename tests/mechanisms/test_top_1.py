"""The bound on finding a row again: against exact enumeration of small cases, and where the wrong formula would be too small."""

import itertools
import math

import numpy as np
import pytest

from hushvec.mechanisms import PrivUnit, top_1_bound
from hushvec.mechanisms.privunit import top_1_probability
from hushvec.mechanisms.recommend import recommend
from hushvec.mechanisms.top_1 import top_1_sentence

RNG = np.random.default_rng(0)


def subset_mechanism(inputs, size, epsilon):
    """[inputs, outputs]: an output is a set of inputs, e^epsilon times likelier for its members."""
    sets = list(itertools.combinations(range(inputs), size))
    law = np.ones((inputs, len(sets)))
    for place, members in enumerate(sets):
        law[list(members), place] = math.exp(epsilon)
    return law / law.sum(axis=1, keepdims=True)


def mixed(*laws):
    """Each with equal probability, and the output says which."""
    return np.hstack(laws) / len(laws)


def some_mechanism(inputs, outputs, epsilon):
    """A law whose ratios are at most e^epsilon; what is missing to 1 goes to one output more."""
    law = np.exp(epsilon * RNG.integers(0, 2, (inputs, outputs))) * RNG.exponential(size=outputs)
    law /= law.sum(axis=1).max() * (1 + math.exp(-epsilon))
    rest = 1 - law.sum(axis=1, keepdims=True)
    law = np.hstack([law, rest])
    assert (law.max(axis=0) <= math.exp(epsilon) * law.min(axis=0) * (1 + 1e-12)).all()
    return law


def found_for_queries(law, prior, n):
    """One of n rows is released, and looked up among the n: the best rule, all lists and outputs enumerated."""
    lists = itertools.product(range(len(law)), repeat=n)
    return sum(prior[list(rows)].prod() * law[list(rows)].max(axis=0).sum() for rows in lists) / n


def found_for_documents(law, prior, n):
    """All n rows are released, and one of them is looked up: the best rule, all queries and lists of outputs enumerated."""
    anything = prior @ law
    total = 0.0
    for outputs in itertools.product(range(law.shape[1]), repeat=n):
        chosen = list(outputs)
        total += anything[chosen].prod() * (prior @ (law[:, chosen] / anything[chosen]).max(axis=1))
    return total / n


def test_the_published_values():
    """n = 2,000 at epsilon 4, 8, 10, 12, 16."""
    found = [round(100 * top_1_bound(epsilon, 2000), 1) for epsilon in (4, 8, 10, 12, 16)]
    assert found == [2.4, 37.9, 67.2, 85.8, 97.9]


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("epsilon", [0.3, 1.5, 4.0])
def test_no_small_mechanism_beats_it(n, epsilon):
    for _ in range(20):
        inputs, outputs = int(RNG.integers(2, 6)), int(RNG.integers(1, 6))
        prior = RNG.dirichlet(np.ones(inputs))
        law = some_mechanism(inputs, outputs, epsilon)
        assert found_for_queries(law, prior, n) <= top_1_bound(epsilon, n)
        assert found_for_documents(law, prior, n) <= top_1_bound(epsilon, n, noise_on="documents")


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 4.0])
def test_sets_of_inputs_come_up_to_it(n, epsilon):
    """Attained for q = size / inputs, and the best of 8 sizes is within 2 % of the best q."""
    found, rise = [], math.expm1(epsilon)
    prior = np.full(8, 1 / 8)
    for size in range(1, 8):
        q = size / 8
        found.append(found_for_queries(subset_mechanism(8, size, epsilon), prior, n))
        assert found[-1] == pytest.approx((1 + rise * (1 - (1 - q) ** n)) / (1 + q * rise) / n, rel=1e-12)
    assert 0.98 * top_1_bound(epsilon, n) < max(found) <= top_1_bound(epsilon, n)


@pytest.mark.parametrize("epsilon, inputs, sizes", [(1.0, 5, (1, 2, 3)), (2.0, 5, (1, 2)), (3.0, 6, (1, 2))])
def test_noisy_documents_need_a_bound_of_their_own(epsilon, inputs, sizes):
    """Sets of several sizes, n = 2: more than the bound for queries, so that one would be wrong for documents."""
    law = mixed(*(subset_mechanism(inputs, size, epsilon) for size in sizes))
    found = found_for_documents(law, np.full(inputs, 1 / inputs), 2)
    assert top_1_bound(epsilon, 2) < found <= top_1_bound(epsilon, 2, noise_on="documents")


@pytest.mark.parametrize("epsilon, n", [(0.5, 1000), (2.0, 10), (8.0, 1000)])
def test_noisy_documents_come_near_their_bound(epsilon, n):
    """With two likelihood ratios, the low one and e^epsilon times it, of which the best is taken."""
    low = np.exp(-np.linspace(0, epsilon, 2001))
    high = low * math.exp(epsilon)
    share = (1 - low) / (high - low)
    found = float((high - (high - low) * (1 - share) ** n).max()) / n
    assert 0.96 * top_1_bound(epsilon, n, noise_on="documents") < found <= top_1_bound(epsilon, n, noise_on="documents")


def test_a_mechanism_that_knows_the_rows_may_do_better():
    """Randomized response over the list itself: outside of what the bound covers."""
    epsilon, n = 8.0, 2000
    knows = math.exp(epsilon) / (math.exp(epsilon) + n - 1)
    assert top_1_bound(epsilon, n) < top_1_bound(epsilon, n, noise_on="documents") < knows


@pytest.mark.parametrize("epsilon, share", [(4.0, 0.5), (8.0, 0.9), (12.0, 0.9), (16.0, 0.9)])
def test_privunit_stays_below_and_near(epsilon, share):
    mechanism = PrivUnit(epsilon=epsilon, dimension=384, corpus_size=1999)
    found = top_1_probability(mechanism.cap_probability, mechanism.threshold, 1999)
    assert share < found / top_1_bound(epsilon, 2000) < 1


def test_the_sentence_rounds_up():
    """85.84 is not "at most 85.8"."""
    assert top_1_sentence(12.0, 2000) == (
        "of 2,000 independent rows, at most 85.9 % can be found on average, with any mechanism of "
        "epsilon = 12 and delta = 0 that does not know them"
    )
    assert "at most 100 %" in top_1_sentence(50.0, 2000)


def test_where_users_meet_it():
    """An n of "others" is one row less than a corpus."""
    told = "of 2,000 independent rows, at most 2.43 % can be found on average, with any mechanism of epsilon = 4"
    assert told in "\n".join(PrivUnit(epsilon=8.0, dimension=384, rows_per_person=2, corpus_size=1999).describe())
    assert "independent rows" not in "\n".join(PrivUnit(epsilon=8.0, dimension=384).describe())
    assert told in recommend(384, 4.0, n=1999).why.replace("Of 2,000", "of 2,000")
    assert "independent rows" not in recommend(384, 4.0).why


@pytest.mark.parametrize("noise_on", ["queries", "documents"])
def test_its_shape(noise_on):
    """It rises with epsilon and falls with n, from chance to 1, and never leaves [1/n, 1]."""
    epsilons, sizes = (1e-6, 0.1, 1.0, 4.0, 10.0, 20.0, 40.0, 800.0), (1, 2, 10, 1000, 10**6, 10**9)
    table = np.array([[top_1_bound(epsilon, size, noise_on=noise_on) for size in sizes] for epsilon in epsilons])
    assert (np.diff(table, axis=0) >= -1e-2 * table[1:]).all() and (np.diff(table, axis=1) <= 0).all()
    assert (table >= 1 / np.array(sizes)).all() and (table <= 1).all()
    assert (table[:, 0] == 1).all() and (table[-1] == 1).all()
    np.testing.assert_allclose(table[0], 1 / np.array(sizes), rtol=1e-3)


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ((0.0, 10), ValueError, "epsilon must be > 0"),
        ((math.inf, 10), ValueError, "epsilon must be finite"),
        (("8", 10), TypeError, "epsilon must be a number"),
        ((8.0, 0), ValueError, "corpus_size must be >= 1"),
        ((8.0, 2.5), TypeError, "corpus_size must be a whole number"),
    ],
)
def test_bad_input(arguments, error, text):
    with pytest.raises(error, match=text):
        top_1_bound(*arguments)
    with pytest.raises(ValueError, match="noise_on must be one of 'queries', 'documents'"):
        top_1_bound(8.0, 10, noise_on="scores")
