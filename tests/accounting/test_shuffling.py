"""Shuffled reports: every outcome of small shuffles enumerated, high precision, published figures, and compositions.

Nothing here shares code with the library: laws of histograms are built report by report, adaptive ones permutation by permutation,
and profiles of pairs in 30 digits or more.
"""

import functools
import itertools
import math
import sys

import mpmath
import numpy as np
import pytest

from evidence.reference.sizes import scaled
from hushvec.accounting import Accountant, ApproximateDP, GaussianDP, LaplaceDP, PureDP, Shuffled, compose, shuffling
from hushvec.accounting.releases import coarsened, collect

POINTS = [0.0, 0.02, 0.1, 0.3, 0.6, 0.9]   # shares of the local epsilon


def histogram_law(laws):
    """The law of how often each answer occurs among independent reports."""
    found = {(0,) * len(laws[0]): 1.0}
    for law in laws:
        after = {}
        for counts, mass in found.items():
            for answer, probability in enumerate(law):
                if probability:
                    more = (*counts[:answer], counts[answer] + 1, *counts[answer + 1 :])
                    after[more] = after.get(more, 0.0) + mass * probability
        found = after
    return found


def hockey_stick(one, other, epsilon):
    return math.fsum(max(0.0, mass - math.exp(epsilon) * other.get(outcome, 0.0)) for outcome, mass in one.items())


def worst_direction(laws, one, other, rest, epsilon):
    """delta of replacing input `one` by `other` among people with the inputs `rest`, the larger of both directions."""
    first, second = (histogram_law([laws[person], *(laws[input_] for input_ in rest)]) for person in (one, other))
    return max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))


def k_ary(epsilon, k):
    scale = math.exp(epsilon) + k - 1
    return [[(math.exp(epsilon) if answer == label else 1.0) / scale for answer in range(k)] for label in range(k)]


def asymmetric(epsilon):
    """A bit whose 1 is told more often than its 0: ratios e^epsilon for one answer, and less for the other."""
    rare = 0.5 * (1 - math.exp(-epsilon)) / (math.exp(epsilon) - math.exp(-epsilon))
    return [[1 - rare, rare], [1 - math.exp(epsilon) * rare, math.exp(epsilon) * rare]]


def three_of_five(epsilon):
    """Subset selection, sizes 2 of 5: answers may be as likely under both inputs, and more likely than under all others."""
    subsets = list(itertools.combinations(range(5), 2))
    weights = [[math.exp(epsilon) if label in subset else 1.0 for subset in subsets] for label in range(5)]
    return [[weight / sum(row) for weight in row] for row in weights]


def same_for_both(epsilon):
    """Answers 0 and 1 tell inputs 0 and 1 apart; both give answer 2 as often, and e^epsilon times as often as input 2 does."""
    e = math.exp(epsilon)
    return [[weight / (2 * e + 3) for weight in row] for row in ([e, 1, e, 2], [1, e, e, 2], [1, 1, 1, 2 * e])]


def ratio_of(laws):
    return max(math.log(a / b) for one, other in itertools.permutations(laws, 2) for a, b in zip(one, other))


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("k, n", [(2, 12), (2, 7), (3, 12), (3, 4), (4, 9), (6, 5), (3, 1), (2, 2)])
def test_never_below_k_ary_response(epsilon, k, n):
    laws, loss = k_ary(epsilon, k), Shuffled(PureDP(epsilon=epsilon), n)
    for rest in ([k - 1] * (n - 1), [0] * (n - 1), [index % k for index in range(n - 1)]):
        for share in POINTS:
            exact = worst_direction(laws, 0, 1, rest, share * epsilon)
            assert exact <= loss.delta(share * epsilon) * (1 + 1e-13)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
@pytest.mark.parametrize(
    "randomizer, rests, n",
    [
        (asymmetric, ([0], [1], [0, 1]), 12),
        (asymmetric, ([0], [1], [0, 1]), 3),
        (three_of_five, ([2], [0], [2, 3, 4]), 3),
        (same_for_both, ([2], [0], [2, 1]), 8),
        (same_for_both, ([2], [2, 0]), 3),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_never_below_other_randomizers(randomizer, rests, n, epsilon):
    laws, loss = randomizer(epsilon), Shuffled(PureDP(epsilon=epsilon), n)
    assert ratio_of(laws) <= epsilon * (1 + 1e-9)
    for rest in rests:
        people = list(itertools.islice(itertools.cycle(rest), n - 1))
        for share in POINTS:
            assert worst_direction(laws, 0, 1, people, share * epsilon) <= loss.delta(share * epsilon) * (1 + 1e-13)


def random_randomizer(random, epsilon, inputs, answers):
    """Laws of all inputs, each between m and e^epsilon m for a common m; None if there are none of the drawn shape."""
    optimize = pytest.importorskip("scipy.optimize")
    shape = random.random((inputs, answers))
    shape = shape if random.random() < 0.3 else (shape < random.random()).astype(float)
    heights = 1 + math.expm1(epsilon) * shape
    found = optimize.linprog(random.standard_normal(answers), A_eq=heights, b_eq=np.ones(inputs), bounds=(0, None))
    if found.status != 0:
        return None
    laws = heights * found.x
    return laws[:, laws.max(axis=0) > 0].tolist()


def test_never_below_random_randomizers():
    """400 of them, with all kinds of people around; some come near the bound."""
    random = np.random.default_rng(5)
    nearest, tried = 0.0, 0
    while tried < 400:
        epsilon, n = float(random.choice([0.3, 1.0, 2.0, 4.0])), int(random.integers(2, 6))
        laws = random_randomizer(random, epsilon, int(random.integers(2, 5)), int(random.integers(4, 9)))
        if laws is None:
            continue
        tried += 1
        loss = Shuffled(epsilon=epsilon, n=n)
        rest = random.integers(0, len(laws), n - 1).tolist()
        for share in (0.0, 0.05, 0.3, 0.7):
            ratio = worst_direction(laws, 0, 1, rest, share * epsilon) / loss.delta(share * epsilon)
            nearest = max(nearest, ratio)
            assert ratio <= 1 + 1e-9   # linprog's own tolerance
    assert nearest > 0.9


def adaptive_law(first, later, people):
    """People in random order; the first answers by `first`, whoever comes next by the randomizer that the answers so far choose."""
    found = {}
    for order in itertools.permutations(people):
        seen = {(): 1.0 / math.factorial(len(people))}
        for place, person in enumerate(order):
            after = {}
            for answers, mass in seen.items():
                laws = first if place == 0 else later[sum(answers) % len(later)]
                for answer, probability in enumerate(laws[person]):
                    after[(*answers, answer)] = after.get((*answers, answer), 0.0) + mass * probability
            seen = after
        for answers, mass in seen.items():
            found[answers] = found.get(answers, 0.0) + mass
    return found


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
@pytest.mark.parametrize("rest", [[2], [2, 2], [2, 1, 0]])
def test_never_below_randomizers_that_follow_the_answers(epsilon, rest):
    loss = Shuffled(PureDP(epsilon=epsilon), len(rest) + 1)
    kinds = (k_ary(epsilon, 3), same_for_both(epsilon), three_of_five(epsilon))
    for first, *later in itertools.permutations(kinds):
        one, other = (adaptive_law(first, later, [person, *rest]) for person in (0, 1))
        for share in POINTS:
            exact = max(hockey_stick(one, other, share * epsilon), hockey_stick(other, one, share * epsilon))
            assert exact <= loss.delta(share * epsilon) * (1 + 1e-13)


# ---- the pair itself, in many digits


def walk_excess(mpmath, steps, ratio):
    """E[max(0, M - steps * ratio)] for the end M of a fair walk, term by term from the far end of it."""
    first = int(mpmath.floor(steps * (1 + ratio) / 2)) + 1
    term, found = mpmath.binomial(steps, first) * mpmath.mpf(2) ** -steps, mpmath.mpf(0)
    for upward in range(first, steps + 1):
        more = term * (2 * upward - steps - steps * ratio)
        found += more
        if more < found * mpmath.mpf(10) ** -18:
            break
        term = term * (steps - upward) / (upward + 1)
    return found


def pair_delta(mpmath, epsilon, n, at, clone):
    """delta(at) of (A + D, C - A + 1 - D) against its mirror image with C ~ Binomial(n - 1, clone)."""
    e, y = mpmath.exp(mpmath.mpf(epsilon)), mpmath.exp(mpmath.mpf(at))
    slope = (e - 1) / (e + 1)
    ratio = (y - 1) / (y + 1) / slope
    mode = int(mpmath.floor(n * clone))
    at_mode = mpmath.binomial(n - 1, mode) * clone**mode * (1 - clone) ** (n - 1 - mode)
    found = mpmath.mpf(0)
    for direction in (1, -1):
        mass, clones = at_mode, mode
        while 0 <= clones <= n - 1 and mass > mpmath.mpf(10) ** -26:
            if direction == 1 or clones < mode:
                found += mass * slope * (1 + y) * walk_excess(mpmath, clones + 1, ratio) / (clones + 1)
            if direction == 1:
                mass = mass * (n - 1 - clones) / (clones + 1) * clone / (1 - clone)
            else:
                mass = mass * clones / (n - clones) * (1 - clone) / clone
            clones += direction
    return found


def pair_by_outcomes(epsilon, n):
    """Both laws of the pair, outcome by outcome: clones of the first kind, of the second, and all others."""
    p = 1 / (math.exp(epsilon) + 1)
    laws = [[p, p, 1 - 2 * p], [1 - p, p, 0.0], [p, 1 - p, 0.0]]
    return tuple(histogram_law([laws[person], *([laws[0]] * (n - 1))]) for person in (1, 2))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0, 9.0])
@pytest.mark.parametrize("n", [1, 2, 3, 12, 40])
def test_delta_is_that_of_the_pair(epsilon, n):
    mpmath = pytest.importorskip("mpmath")
    one, other = pair_by_outcomes(epsilon, n)
    for share in POINTS:
        at = share * epsilon
        found = Shuffled(PureDP(epsilon=epsilon), n).delta(at)
        with mpmath.workdps(50):
            exact = float(pair_delta(mpmath, epsilon, n, at, 2 / (mpmath.exp(mpmath.mpf(epsilon)) + 1)))
        for first, second in ((one, other), (other, one)):
            assert hockey_stick(first, second, at) == pytest.approx(exact, rel=1e-9, abs=1e-14)
        assert exact <= found <= exact * (1 + 1e-8)


TABLE = [   # local epsilon, people, delta
    (0.5, 1_000, 1e-6),
    (1.0, 10_000, 1e-6),
    (2.0, 10_000, 1e-8),
    (4.0, 100_000, 1e-6),
    (6.0, 1_000_000, 1e-8),
    (8.0, 1_000_000, 1e-6),
    (8.0, 1_000_000, 1e-8),
    (10.0, 1_000_000, 1e-6),
]


# The others take longer.
@pytest.mark.parametrize("epsilon, n, delta", scaled([TABLE[0], TABLE[7]], [TABLE[0], TABLE[3], TABLE[5], TABLE[7]]))
def test_epsilon_is_that_of_thirty_digits(epsilon, n, delta):
    """Never below, and within 0.1 %: the exact delta at the stated epsilon is at most delta, and above it a little before."""
    mpmath = pytest.importorskip("mpmath")
    found = Shuffled(PureDP(epsilon=epsilon), n).epsilon(delta)
    with mpmath.workdps(30):
        clone = 2 / (mpmath.exp(mpmath.mpf(epsilon)) + 1)
        assert pair_delta(mpmath, epsilon, n, found, clone) <= delta < pair_delta(mpmath, epsilon, n, 0.999 * found, clone)


def published_closed_form(epsilon, n, delta):
    """Feldman, McMillan, Talwar (2021), theorem 3.1."""
    e = math.exp(epsilon)
    assert epsilon <= math.log(n / (16 * math.log(2 / delta)))
    return math.log1p((e - 1) / (e + 1) * (8 * math.sqrt(e * math.log(4 / delta) / n) + 8 * e / n))


def test_published_figures_are_met():
    """apple/ml-shuffling-amplification, for 4-DP reports of 10^5 people at delta = 1e-6: 0.1675 to 0.1728, in closed form 0.5378.

    Its pair has e^-epsilon in place of our 2/(e^epsilon + 1): about half as many clones. The test's own formula meets its figures.
    """
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(30):
        clone = mpmath.exp(-4)
        assert pair_delta(mpmath, 4.0, 10**5, 0.1675385583317841, clone) >= 1e-6
        assert pair_delta(mpmath, 4.0, 10**5, 0.172790550755978, clone) <= 1e-6
    assert published_closed_form(4.0, 10**5, 1e-6) == pytest.approx(0.5378, rel=0.01)
    found = Shuffled(PureDP(epsilon=4.0), 10**5).epsilon(1e-6)
    assert 0.1675 / math.sqrt(2.1) < found < 0.1675 / math.sqrt(1.9)


def test_local_epsilon_eight_over_a_million_reports():
    """The published closed form gives 1.09 at delta = 1e-8; the exact profile of the pair used here, a third of that."""
    assert published_closed_form(8.0, 10**6, 1e-8) == pytest.approx(1.088, abs=1e-3)
    loss = Shuffled(PureDP(epsilon=8.0), 10**6)
    assert 0.30 < loss.epsilon(1e-6) < 0.31 and 0.38 < loss.epsilon(1e-8) < 0.385


def three_ary_delta(epsilon, n, at):
    """Exact: 3-ary response, inputs 0 and 1, everyone else with input 2. A bound for all randomizers has to cover it.

    With h = (P - e^at Q)/R for the law R of everyone else, delta is the mean of the positive part of the sum of h, over n.
    """
    stats = pytest.importorskip("scipy.stats")
    e, y = math.exp(epsilon), math.exp(at)
    gain, loss, idle = e - y, e * y - 1, (y - 1) / e
    deviation = math.sqrt(n * 2 / (e + 2))
    counts = np.arange(max(1, math.floor(deviation**2 - 12 * deviation)), min(n, math.ceil(deviation**2 + 12 * deviation) + 40) + 1)
    threshold = (loss * counts + idle * (n - counts)) / (gain + loss)
    first = np.floor(threshold) + 1
    mean = (gain + loss) * counts / 2 * stats.binom.sf(first - 2, counts - 1, 0.5)
    excess = mean - (loss * counts + idle * (n - counts)) * stats.binom.sf(first - 1, counts, 0.5)
    return float(np.sum(stats.binom.pmf(counts, n, 2 / (e + 2)) * np.maximum(excess, 0.0)) / n)


def test_the_lower_bound_is_the_enumeration():
    for epsilon, n in ((1.0, 6), (3.0, 9)):
        for share in POINTS[1:]:
            exact = worst_direction(k_ary(epsilon, 3), 0, 1, [2] * (n - 1), share * epsilon)
            assert three_ary_delta(epsilon, n, share * epsilon) == pytest.approx(exact, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("epsilon, n, delta", [row for row in TABLE if row[0] >= 2])
def test_no_bound_for_all_randomizers_could_be_ten_percent_smaller(epsilon, n, delta):
    found = Shuffled(PureDP(epsilon=epsilon), n).epsilon(delta)
    assert three_ary_delta(epsilon, n, found / 1.1) > delta >= three_ary_delta(epsilon, n, found)


# ---- the shape of the loss


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("delta", [1e-4, 1e-9])
def test_more_people_and_less_local_epsilon_cost_less(epsilon, delta):
    found = [Shuffled(epsilon=epsilon, n=n).epsilon(delta) for n in (1, 2, 5, 30, 1_000, 30_000, 10**6, 10**9, 2**30, 10**13)]
    assert all(more >= fewer for more, fewer in itertools.pairwise(found))
    assert found[0] == PureDP(epsilon=epsilon).epsilon(delta) <= epsilon and found[-1] < found[0]
    for n in (2, 100, 10**6):
        grown = [Shuffled(epsilon=factor * epsilon, n=n) for factor in (0.5, 0.9, 1.0, 1.1, 2.0)]
        assert all(less.epsilon(delta) <= more.epsilon(delta) * (1 + 1e-6) for less, more in itertools.pairwise(grown))
        assert all(loss.epsilon(delta) <= loss.pure_epsilon == loss.epsilon(0.0) for loss in grown)


def test_beyond_the_tables_the_closed_form_counts_more_people():
    """Above 2^30 people tables stand still, and the closed form falls with the root of n."""
    at_most, far_more = (Shuffled(epsilon=4.0, n=n).epsilon(1e-6) for n in (2**30, 2**44))
    assert far_more < at_most / 20


@pytest.mark.parametrize("epsilon, n, delta", TABLE)
def test_the_closed_form_is_above_the_profile(epsilon, n, delta):
    """Not far above where there are some hundred clones, and below the published closed form where that applies."""
    at = Shuffled(epsilon=epsilon, n=n).epsilon(delta)
    assert shuffling.closed_form_delta(epsilon, n, at) >= delta
    assert shuffling.closed_form_delta(epsilon, n, (2 if epsilon < 10 else 3) * at) <= delta
    if epsilon <= math.log(n / (16 * math.log(2 / delta))):
        assert shuffling.closed_form_delta(epsilon, n, published_closed_form(epsilon, n, delta)) <= delta


@pytest.mark.parametrize("epsilon", [1e-300, 1e-13, 1e-11, 1e-6, 50.0, 99.0, 101.0, 800.0])
@pytest.mark.parametrize("n", [2, 1_000, 10**9, 10**400])
def test_extreme_epsilons_have_an_answer(epsilon, n):
    loss = Shuffled(PureDP(epsilon=epsilon), n)
    for share in (0.0, 0.5, 0.999, 1.0, 3.0):
        assert 0 <= loss.delta(share * epsilon) <= PureDP(epsilon=epsilon).delta(share * epsilon)
    assert 0 <= loss.epsilon(1e-9) <= epsilon


def test_blocks_of_clones_only_add(monkeypatch):
    """Blocks are above one row for each number of clones, and not by much."""
    blocks = shuffling.profile(2.0, 10**5)
    monkeypatch.setattr(shuffling, "BLOCKS", 10**6)
    monkeypatch.setattr(shuffling, "MOST_CELLS", 2**30)
    rows = shuffling.profile.__wrapped__(2.0, 10**5)
    assert len(blocks.steps) < 600 and len(rows.steps) > 4_000
    at = np.linspace(0, 0.2, 20)
    fine, coarse = rows.deltas(at), blocks.deltas(at)
    assert np.all(fine <= coarse * (1 + 1e-9)) and np.all(coarse <= 1.05 * fine)


# ---- composition


@pytest.mark.parametrize("epsilon, n", [(1.0, 4), (2.5, 6)])
def test_compositions_are_the_products_of_the_pair(epsilon, n):
    """Three batches: every outcome of the product enumerated, against privacy loss distributions."""
    pytest.importorskip("dp_accounting")
    one, other = pair_by_outcomes(epsilon, n)
    p, q = (np.array([law[outcome] for outcome in one]) for law in (one, other))
    many = [functools.reduce(np.multiply.outer, [law] * 3).ravel() for law in (p, q)]
    for at in (0.1, 0.5 * epsilon, epsilon, 2 * epsilon):
        exact = float(np.maximum(0.0, many[0] - math.exp(at) * many[1]).sum())
        together = compose([(Shuffled(epsilon=epsilon, n=n), 3)], epsilon=at)
        assert exact * (1 - 1e-12) <= together.delta <= exact * 1.001
        assert together.theorem == "pld"


def test_one_batch_costs_its_own_loss_also_on_the_grid():
    pytest.importorskip("dp_accounting")
    loss = Shuffled(epsilon=6.0, n=10**5)
    together = compose([loss], delta=1e-6)
    assert together.theorem == "single" and together.epsilon == loss.epsilon(1e-6)
    on_grid = next(one for one in together.candidates if one.theorem == "pld").epsilon
    assert loss.epsilon(1e-6) * (1 - 1e-5) <= on_grid <= loss.epsilon(1e-6) * 1.001


def test_many_batches_grow_like_the_root():
    pytest.importorskip("dp_accounting")
    one, many = (compose([(Shuffled(epsilon=4.0, n=10**5), batches)], delta=1e-6) for batches in (4, 100))
    assert many.theorem == one.theorem == "pld"
    assert 4 < many.epsilon / one.epsilon < 8
    mixed = compose([(Shuffled(epsilon=4.0, n=10**5), 4), GaussianDP(noise_multiplier=20.0), PureDP(epsilon=0.1)], delta=1e-6)
    assert one.epsilon < mixed.epsilon < one.epsilon + 0.1 + GaussianDP(noise_multiplier=20.0).epsilon(1e-6)


def test_batches_beyond_the_tables_compose():
    pytest.importorskip("dp_accounting")
    at_most, far_more = (compose([(Shuffled(epsilon=4.0, n=n), 3)], delta=1e-6) for n in (2**30, 2**44))
    assert next(one for one in far_more.candidates if one.theorem == "pld").epsilon <= at_most.epsilon * (1 + 1e-9)
    assert at_most.theorem == "pld" and far_more.theorem == "basic"


def test_basic_composition_shares_delta(monkeypatch):
    """Also where hushvec[accounting] is missing; the local guarantee counts where it is smaller."""
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    loss = Shuffled(epsilon=4.0, n=10**5)
    together = compose([(loss, 4), ApproximateDP(epsilon=0.1, delta=1e-7)], delta=1e-6)
    assert together.theorem == "basic"
    share = 9e-7 / 4
    assert together.epsilon == pytest.approx(4 * loss.epsilon(share) + 0.1, rel=1e-9)
    assert compose([(loss, 4)], epsilon=together.epsilon).delta <= 1e-6
    assert compose([(loss, 4)], delta=0.0).epsilon == 16.0
    local = Shuffled(epsilon=0.01, n=2)
    assert next(one for one in compose([(local, 2)], delta=1e-12).candidates if one.theorem == "basic").epsilon <= 0.02


def test_different_batches_are_stated_as_the_worst():
    many = collect([Shuffled(epsilon=1 + index / 100, n=1_000 + index) for index in range(10)], independent_samples=True)
    few = coarsened(many, (Shuffled,), 2)
    assert {(loss.epsilon_bound, loss.n, count) for loss, count in few.counts} == {(1.04, 1_000, 5), (1.09, 1_005, 5)}


def test_an_accountant_keeps_shuffled_batches():
    accountant = Accountant()
    accountant.add(Shuffled(PureDP(epsilon=4.0), 1_000), 3)
    stored = accountant.to_dict()
    assert stored["releases"] == [{"loss": "shuffled", "count": 3, "epsilon": 4.0, "n": 1_000}]
    assert Accountant.from_dict(stored) == accountant


# ---- what is refused


class WithLoss:
    loss = PureDP(epsilon=2.0)


@pytest.mark.parametrize("given", [PureDP(epsilon=2.0), WithLoss()])
def test_a_loss_an_object_with_one_and_an_epsilon_say_the_same(given):
    assert Shuffled(given, 100) == Shuffled(epsilon=2.0, n=100) == Shuffled(loss=given, n=100)
    assert Shuffled(given, np.int64(100)).n == 100


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"loss": PureDP(epsilon=1.0, adjacency="add-remove"), "n": 9}, ValueError, "adjacency must be 'replace-one' for Shuffled"),
        ({"epsilon": 1.0, "n": 9, "adjacency": "add-remove"}, ValueError, "number of shuffled reports is public, got 'add-remove'"),
        ({"loss": PureDP(epsilon=1.0), "n": 9, "adjacency": "add-remove"}, ValueError, "adjacency must be that of the loss"),
        ({"epsilon": 1.0, "n": 9, "adjacency": "both"}, ValueError, "adjacency must be one of"),
        ({"loss": GaussianDP(noise_multiplier=1.0), "n": 9}, TypeError, "loss must be PureDP, .* got GaussianDP"),
        ({"loss": LaplaceDP(noise_multiplier=1.0), "n": 9}, TypeError, "loss must be PureDP, .* got LaplaceDP"),
        ({"loss": ApproximateDP(epsilon=1.0, delta=1e-6), "n": 9}, TypeError, "loss must be PureDP, .* got ApproximateDP"),
        ({"loss": Shuffled(epsilon=1.0, n=2), "n": 9}, TypeError, "loss must be PureDP, .* got Shuffled"),
        ({"loss": 1.0, "n": 9}, TypeError, "loss must be PureDP, .* got float"),
        ({"loss": PureDP(epsilon=1.0), "epsilon": 1.0, "n": 9}, ValueError, "loss and epsilon must not both be given"),
        ({"n": 9}, TypeError, "epsilon must be a number, got NoneType"),
        ({"epsilon": 0.0, "n": 9}, ValueError, "epsilon must be > 0, got 0.0"),
        ({"epsilon": math.inf, "n": 9}, ValueError, "epsilon must be finite, got inf"),
        ({"loss": PureDP(epsilon=1.0)}, TypeError, "n must be a whole number, got NoneType"),
        ({"loss": PureDP(epsilon=1.0), "n": 0}, ValueError, "n must be >= 1, got 0"),
        ({"loss": PureDP(epsilon=1.0), "n": -5}, ValueError, "n must be >= 1, got -5"),
        ({"loss": PureDP(epsilon=1.0), "n": 1e6}, TypeError, "n must be a whole number, got float"),
        ({"loss": PureDP(epsilon=1.0), "n": True}, TypeError, "n must be a whole number, got bool"),
        ({"loss": PureDP(epsilon=1.0), "n": "9"}, TypeError, "n must be a whole number, got str"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Shuffled(**arguments)


# ---- mistakes put in on purpose


def check_small_shuffles():
    for epsilon, k, n in ((1.0, 2, 2), (3.0, 2, 2), (1.0, 3, 12), (3.0, 3, 12)):
        for share in POINTS:
            exact = worst_direction(k_ary(epsilon, k), 0, 1, [k - 1] * (n - 1), share * epsilon)
            assert exact <= Shuffled(epsilon=epsilon, n=n).delta(share * epsilon) * (1 + 1e-12)


def check_the_grid_of_the_pair():
    one, other = pair_by_outcomes(2.0, 4)
    for at in (0.2, 1.0):
        found = next(x for x in compose([Shuffled(epsilon=2.0, n=4)], epsilon=at).candidates if x.theorem == "pld").delta
        assert hockey_stick(one, other, at) <= found * (1 + 1e-12)


PROFILE, BLOCKS, CURVE = shuffling.profile, shuffling._blocks, shuffling.shuffled_curve


@pytest.mark.parametrize(
    "what, mutant, check",
    [
        ("profile", lambda epsilon, people: PROFILE(epsilon, people + 1), check_small_shuffles),
        ("profile", lambda epsilon, people: PROFILE(0.97 * epsilon, people), check_small_shuffles),
        ("_blocks", lambda others, odds: BLOCKS(others, 1.3 * odds), check_small_shuffles),
        ("closed_form_delta", lambda epsilon, people, at: math.exp(-people * at * at), check_small_shuffles),
        ("shuffled_curve", lambda epsilon, people, at: CURVE(epsilon, people + 1, at), check_the_grid_of_the_pair),
    ],
    ids=["one_person_more", "epsilon_smaller", "clones_likelier", "a_bound_of_another_model", "one_person_more_on_the_grid"],
)
def test_a_mutant_is_caught(what, mutant, check, monkeypatch):
    if check is check_the_grid_of_the_pair:
        pytest.importorskip("dp_accounting")
    from hushvec.accounting import pld

    shuffling.profile.cache_clear()
    pld._composed.cache_clear()
    check()
    shuffling.profile.cache_clear()
    pld._composed.cache_clear()
    try:
        monkeypatch.setattr(shuffling, what, mutant)
        with pytest.raises(AssertionError):
            check()
    finally:
        monkeypatch.undo()
        PROFILE.cache_clear()
        pld._composed.cache_clear()


@pytest.mark.parametrize("epsilon, n", [(1.0, 50), (4.0, 300)])
def test_a_curve_at_negative_epsilons_is_the_mirror_image_and_never_below(epsilon, n):
    """delta(x) = 1 - e^x + e^x delta(-x), with the delta(-x) that is found, in fifty digits; within 32 roundings."""
    points = np.array([-3.0, -0.7, -0.1, -1e-3, -1e-9, 0.0, 0.05, 0.5])
    found = shuffling.shuffled_curve(epsilon, n, points)
    with mpmath.workdps(50):
        for point, value in zip(points.tolist(), found.tolist()):
            mirror = mpmath.mpf(float(shuffling.shuffled_curve(epsilon, n, np.array([abs(point)]))[0]))
            exact = mirror if point >= 0 else 1 - mpmath.exp(point) + mpmath.exp(point) * mirror
            assert exact <= value <= exact * (1 + 32 * mpmath.mpf(2) ** -53)
