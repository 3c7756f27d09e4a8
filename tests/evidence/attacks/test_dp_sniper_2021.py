"""Bichsel, Steffen, Bogunovic, Vechev, "DP-Sniper: black-box discovery of differential privacy violations using classifiers"
(2021): a classifier learns to tell two neighbours apart, and its surest outputs are the event that is counted.

For each case: a quarter of n outputs of each input trains and chooses, for shares c of 1/2 to 0.003, the outputs that the classifier
is surest of; the rest is counted. Outputs of equal score are all in an event or all out of it. Statistic: ln((a - delta) / b) with
Clopper-Pearson bounds, Bonferroni over the events; alpha = 1e-6.
"""

import numpy as np
import pytest

from evidence.attacks import searches
from evidence.attacks.evidence import counts, epsilon_shown
from evidence.reference.sizes import scaled
from evidence.statistical.draws import generator

N = scaled(120_000, 1_000_000)
CALLS = scaled(3_000, 200_000)
SHARES = (0.5, 0.1, 0.01, 0.003)


def shown(case, n, seed):
    stream = generator(seed)
    training = n // 4
    sides = [np.asarray(case.of(side, n, stream), np.float64) for side in (0, 1)]
    score = searches.learned(*(side[:training] for side in sides))
    first, second = (score(side) for side in sides)
    events = []
    for share in SHARES:
        high, low = np.quantile(first[:training], 1 - share), np.quantile(second[:training], share)
        events += [lambda s, t=high: s > t, lambda s, t=high: s >= t, lambda s, t=low: s < t, lambda s, t=low: s <= t]
    judged = [counts(events, scores[training:]) for scores in (first, second)]
    return epsilon_shown(*judged, n - training, delta=case.delta)


# What the search has to find at the least, where some event has about the whole epsilon.
FOUND = {
    "privatize laplacian": 0.7,
    "privatize l2_laplace": 0.9,
    "privatize privunit": 1.8,
    "GumbelTopK": 0.9,
    "randomized_response": 0.85,
    "Vocabulary k_rr": 0.85,
    "Vocabulary unary": 0.85,
    "Vocabulary hadamard": 0.85,
    "BloomFilter": 1.7,
    "PrivateIndex laplacian": 0.8,
}


@pytest.mark.parametrize("name", searches.CORRECT)
def test_public_functions_keep_their_claim(name):
    case = searches.CORRECT[name]
    assert FOUND.get(name, 0.0) <= shown(case, N, seed=1) <= case.epsilon


@pytest.mark.parametrize("name", searches.CORRECT_CALLS)
def test_sums_of_gradients_keep_their_claim(name):
    case = searches.CORRECT_CALLS[name]
    assert shown(case, CALLS, seed=1) <= case.epsilon


@pytest.mark.parametrize("name", searches.MUTANTS)
def test_mutants_are_found(name):
    case = searches.MUTANTS[name]
    assert shown(case, N, seed=2) > case.epsilon
