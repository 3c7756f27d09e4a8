"""The tail bound behind the one-run audit: published values, an optimum over all mechanisms, and a case the published term misses.

docs/proofs/audit.md proves the bound; here it is compared with the best that any (epsilon, delta)-DP mechanism of one to three bits
can do, found by linear programming over all of them.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize, sparse, stats

from hushvec.audit import one_run_epsilon, one_run_p_value
from hushvec.audit.one_run import published_p_value


@pytest.mark.parametrize(
    ("records", "guesses", "right", "delta", "printed"),
    # Steinke, Nasr, Jagielski (2023): appendix D (rounded) and figure 11 (cut), at 95 %
    [(1000, 100, 75, 1e-4, 0.673), (100_000, 1510, 1439, 1e-5, 2.675)],
)
def test_published_values(records, guesses, right, delta, printed):
    assert published_p_value(records, guesses, right, printed - 0.0005, delta) < 0.05
    assert published_p_value(records, guesses, right, printed + 0.001, delta) > 0.05
    ours = one_run_epsilon(records, guesses, right, delta, 0.05)
    assert printed - 0.3 < ours <= printed + 0.001


@pytest.mark.parametrize(("guesses", "right"), [(1, 1), (10, 9), (1000, 800), (100_000, 73_500)])
def test_without_delta_it_is_a_binomial_tail(guesses, right):
    p = one_run_p_value(2 * guesses, guesses, right, 1.0, 0.0)
    assert p == pytest.approx(stats.binom.sf(right - 1, guesses, 1 / (1 + math.exp(-1.0))), rel=1e-8)


@pytest.mark.parametrize(("records", "guesses", "right", "delta"), [(500, 100, 90, 0.0), (500, 100, 90, 1e-6), (9000, 50, 50, 1e-7)])
@pytest.mark.parametrize("alpha", [0.05, 1e-3])
def test_epsilon_is_where_the_p_value_passes_alpha(records, guesses, right, delta, alpha):
    epsilon = one_run_epsilon(records, guesses, right, delta, alpha)
    assert epsilon > 0
    assert one_run_p_value(records, guesses, right, epsilon, delta) <= alpha
    assert one_run_p_value(records, guesses, right, epsilon + 1e-6, delta) > alpha


def test_nothing_is_ruled_out_by_few_right_guesses():
    assert one_run_epsilon(1000, 100, 50, 0.0, 0.05) == 0.0
    assert one_run_epsilon(1000, 0, 0, 0.0, 0.05) == 0.0
    assert one_run_epsilon(1000, 100, 100, 0.5, 0.05) == 0.0


@pytest.mark.parametrize(
    ("records", "guesses", "right", "epsilon", "delta"),
    [(50, 20, 17, 0.5, 1e-3), (30, 30, 25, 1.0, 0.01), (99, 12, 3, 2.0, 0.02), (3000, 2000, 1500, 1.0, 1e-4)],
)
def test_the_proved_term_is_the_optimum_of_its_linear_programme(records, guesses, right, epsilon, delta):
    q = 1 / (1 + math.exp(epsilon))
    steps = np.arange(1, right + 1)
    best = -optimize.linprog(
        -np.ones(right),
        A_ub=[steps],
        b_ub=[q * records * delta],
        bounds=[(0, weight) for weight in stats.binom.pmf(right - steps, guesses, 1 - q)],
    ).fun
    proved = stats.binom.sf(right - 1, guesses, 1 - q) + best
    found = one_run_p_value(records, guesses, right, epsilon, delta)
    published = published_p_value(records, guesses, right, epsilon, delta)
    assert found == pytest.approx(max(min(proved, 1.0), published), rel=1e-7)


def best_mechanism(bits, right, epsilon, delta):
    """The largest P[at least `right` of `bits` guessed] over all (epsilon, delta)-DP mechanisms from bits to guesses."""
    inputs = 2**bits
    neighbours = [(a, a ^ (1 << bit)) for a in range(inputs) for bit in range(bits)]
    chance = lambda source, guess: source * inputs + guess
    excess = lambda pair, guess: inputs**2 + pair * inputs + guess
    variables = inputs**2 + len(neighbours) * inputs
    gain = np.zeros(variables)
    for source, guess in itertools.product(range(inputs), repeat=2):
        gain[chance(source, guess)] = (bits - (source ^ guess).bit_count() >= right) / inputs
    rows, limits = sparse.lil_matrix((len(neighbours) * (inputs + 1), variables)), []
    for pair, (a, b) in enumerate(neighbours):
        for guess in range(inputs):
            rows[len(limits), [chance(a, guess), chance(b, guess), excess(pair, guess)]] = [1.0, -math.exp(epsilon), -1.0]
            limits.append(0.0)
        rows[len(limits), [excess(pair, guess) for guess in range(inputs)]] = 1.0
        limits.append(delta)
    sums = sparse.lil_matrix((inputs, variables))
    for source in range(inputs):
        sums[source, [chance(source, guess) for guess in range(inputs)]] = 1.0
    found = optimize.linprog(-gain, A_ub=rows.tocsr(), b_ub=limits, A_eq=sums.tocsr(), b_eq=np.ones(inputs), bounds=(0, 1))
    assert found.success
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-3, 0.05])
@pytest.mark.parametrize("bits", [1, 2, 3])
def test_no_mechanism_beats_the_bound(bits, epsilon, delta):
    for right in range(1, bits + 1):
        best = best_mechanism(bits, right, epsilon, delta)
        bound = one_run_p_value(bits, bits, right, epsilon, delta)
        assert best <= bound + 1e-9
        if delta == 0:
            assert best == pytest.approx(bound, abs=1e-8)  # randomized response reaches it


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


def test_a_mechanism_that_the_published_term_does_not_cover():
    """Two bits, epsilon > ln 3: randomized response that errs in both bits less often, by delta / (1 + e^epsilon)."""
    epsilon, delta = 2.0, 1e-3
    p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    shift = delta / (1 + math.exp(epsilon))
    law = np.array([[(p * p + shift, p * q, q * q - shift)[(s ^ t).bit_count()] for t in range(4)] for s in range(4)])
    assert np.allclose(law.sum(axis=1), 1)
    for s, bit in itertools.product(range(4), (1, 2)):
        assert hockey_stick(law[s], law[s ^ bit], epsilon) <= delta * (1 + 1e-12)
    one_right = 1 - law[0, 3]
    assert published_p_value(2, 2, 1, epsilon, delta) < one_right <= one_run_p_value(2, 2, 1, epsilon, delta)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: one_run_p_value(10, 11, 5, 1.0, 0.0), "records must be >= guesses = 11, got 10"),
        (lambda: one_run_p_value(10, 5, 6, 1.0, 0.0), "guesses must be >= right = 6, got 5"),
        (lambda: one_run_p_value(10, 5, -1, 1.0, 0.0), "right must be >= 0, got -1"),
        (lambda: one_run_p_value(10, 5, 3, -1.0, 0.0), "epsilon must be >= 0, got -1.0"),
        (lambda: one_run_p_value(10, 5, 3, 1.0, 1.0), "delta must be > 0 and < 1, got 1.0"),
        (lambda: one_run_p_value(10, 5, 3, math.nan, 0.0), "epsilon must be finite, got nan"),
        (lambda: one_run_epsilon(10, 5, 3, 0.0, 0.0), "alpha must be > 0 and < 1, got 0.0"),
        (lambda: one_run_epsilon(10, 5, 3, 0.0, 1.0), "alpha must be > 0 and < 1, got 1.0"),
    ],
)
def test_refused(call, text):
    with pytest.raises(ValueError) as refused:
        call()
    assert str(refused.value) == text


def test_a_fraction_of_a_record_is_refused():
    with pytest.raises(TypeError, match="right must be a whole number, got float"):
        one_run_p_value(10, 5, 3.0, 1.0, 0.0)
