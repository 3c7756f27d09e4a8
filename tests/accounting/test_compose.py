"""`compose`: the smallest valid bound, its name, and what it refuses."""

import math
import random
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hushvec as hv
from accounting import profiles
from evidence.reference.sizes import scaled
from hushvec.accounting import (
    ApproximateDP,
    BoundedRangeDP,
    GaussianDP,
    LaplaceDP,
    PoissonSampledGaussianDP,
    PureDP,
    Repeated,
    ZeroConcentratedDP,
    compose,
    gaussian_sigma_for,
    pld,
    poisson,
)

DELTA = 1e-5


def bounds(composition):
    return {one.theorem: one.epsilon for one in composition.candidates}


def test_ten_times_one_half():
    """The fact sheet: advanced composition is 10.83 there, worse than the basic 5.0; the best is just below 5."""
    together = compose([(PureDP(epsilon=0.5), 10)], delta=DELTA)
    found = bounds(together)
    assert found["basic"] == 5.0
    assert found["advanced"] == pytest.approx(10.8311, abs=1e-3)
    assert together.theorem == "optimal" and 4.99 < together.epsilon < 5.0
    assert math.sqrt(10) * 0.5 < 2 < together.epsilon   # sqrt(k) epsilon is no theorem
    assert "10.8308" in str(together) and str(together).splitlines()[2].split()[0] == "optimal"


def test_advanced_is_its_formula():
    found = bounds(compose([(PureDP(epsilon=0.01), 1000), (PureDP(epsilon=0.05), 20)], delta=DELTA))["advanced"]
    squares = 1000 * 0.01**2 + 20 * 0.05**2
    drift = 1000 * 0.01 * math.expm1(0.01) + 20 * 0.05 * math.expm1(0.05)
    assert found == pytest.approx(math.sqrt(2 * math.log(1 / DELTA) * squares) + drift, rel=1e-12)


def test_advanced_pays_for_the_deltas_of_the_releases():
    releases = [(ApproximateDP(epsilon=0.01, delta=5e-9), 1000)]
    found = bounds(compose(releases, delta=DELTA))["advanced"]
    slack = DELTA - 1000 * 5e-9
    assert found == pytest.approx(math.sqrt(2 * math.log(1 / slack) * 1000 * 1e-4) + 10 * math.expm1(0.01), rel=1e-9)


@pytest.mark.parametrize("multipliers", [[1.0, 2.0, 3.0], [0.3], [5.0] * 25, [0.1, 100.0]])
def test_gaussian_releases_are_one(multipliers):
    together = compose([GaussianDP(noise_multiplier=one) for one in multipliers], delta=DELTA)
    joint = 1 / math.sqrt(sum(1 / one**2 for one in multipliers))
    assert together.theorem in ("gaussian", "single")
    exact = hv.gaussian_epsilon(DELTA, joint)
    assert exact * (1 - 1e-12) <= together.epsilon <= exact * (1 + 1e-12)


def test_the_joint_sigma_of_published_receipts():
    """golden/seed_receipts.csv: K chunks at (16, 1e-3) with sensitivity 3."""
    for row in profiles.vectors("seed_receipts.csv"):
        count = int(row["n_chunks"])
        assert gaussian_sigma_for(count, 16.0, 1e-3, 3.0) == pytest.approx(float(row["sigma_joint"]), rel=1e-9)
        basic = gaussian_sigma_for(count, 16.0, 1e-3, 3.0, composition="basic")
        assert basic == pytest.approx(float(row["sigma_basic"]), rel=1e-9)
        together = compose([(GaussianDP(noise_multiplier=float(row["sigma_joint"]) / 3.0), count)], delta=1e-3)
        assert together.epsilon == pytest.approx(16.0, rel=1e-8)


def test_sigma_for_is_never_too_small():
    for count in (1, 2, 3, 5, 7, 10, 1000):
        sigma = gaussian_sigma_for(count, 1.0, DELTA, 2.0)
        assert hv.gaussian_delta(1.0, sigma, 2.0 * math.sqrt(count) * (1 - 1e-15)) <= DELTA
        split = gaussian_sigma_for(count, 1.0, DELTA, 2.0, composition="basic")
        assert (split > sigma) if count > 1 else (split == sigma == hv.gaussian_sigma(1.0, DELTA, 2.0))
    for bad, error in ((0, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="n_releases must be"):
            gaussian_sigma_for(bad, 1.0, DELTA)


ONE_OF_EACH = [
    PureDP(epsilon=0.3),
    ApproximateDP(epsilon=0.3, delta=1e-7),
    BoundedRangeDP(epsilon=0.5),
    ZeroConcentratedDP(rho=0.01),
    GaussianDP(noise_multiplier=5.0),
    LaplaceDP(noise_multiplier=2.0),
    PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.01, adjacency="replace-one"),
]


@pytest.mark.parametrize("loss", ONE_OF_EACH, ids=lambda loss: loss.name)
def test_one_release_costs_itself(loss):
    together = compose([loss], delta=DELTA)
    assert together.epsilon == loss.epsilon(DELTA) and together.releases == 1
    back = compose([loss], epsilon=0.2)
    assert back.delta == loss.delta(0.2)
    assert together.epsilon <= min(bounds(together).values())


# Sums of one-dimensional Laplace losses, also with a Gaussian one, by quadrature: tests/evidence/vectors/make_accounting_vectors.py.
LAPLACE = [row for row in profiles.vectors("composition_exact.csv") if row["kind"] == "laplace"]


@pytest.mark.parametrize("row", LAPLACE, ids=lambda row: f"{row['releases']}+{row['gaussian']}@{row['epsilon']}")
def test_compositions_are_above_the_integrated_profile_and_close(row):
    releases = [LaplaceDP(noise_multiplier=float(one)) for one in row["releases"].split(";")]
    if row["gaussian"]:
        releases.append(GaussianDP(noise_multiplier=float(row["gaussian"])))
    epsilon, exact = float(row["epsilon"]), float(row["delta"])
    together = compose(releases, epsilon=epsilon)
    for candidate in together.candidates:
        assert exact * (1 - 1e-12) <= candidate.delta
    if len(releases) == 1:
        assert together.delta <= exact * (1 + 1e-12)
    elif "dp_accounting" in sys.modules:
        assert together.theorem == "pld" and together.delta <= exact * 1.0005 + 1e-9


@st.composite
def any_releases(draw):
    kinds = {
        "pure": st.builds(PureDP, epsilon=st.floats(0.01, 1)),
        "pair": st.builds(ApproximateDP, epsilon=st.floats(0.01, 1), delta=st.floats(0, 1e-7)),
        "range": st.builds(BoundedRangeDP, epsilon=st.floats(0.01, 1)),
        "zcdp": st.builds(ZeroConcentratedDP, rho=st.floats(1e-4, 0.1)),
        "gaussian": st.builds(GaussianDP, noise_multiplier=st.floats(1, 50)),
    }
    return draw(st.lists(st.one_of(*kinds.values()), min_size=1, max_size=8))


@settings(max_examples=scaled(12, 200), deadline=None)
@given(any_releases(), st.randoms(use_true_random=False))
def test_the_order_of_releases_does_not_matter(releases, shuffle):
    other = list(releases)
    shuffle.shuffle(other)
    assert compose(releases, delta=1e-5) == compose(other, delta=1e-5)


@settings(max_examples=scaled(12, 200), deadline=None)
@given(any_releases(), st.floats(1.1, 20))
def test_more_delta_less_epsilon(releases, factor):
    assert compose(releases, delta=2e-6 * factor).epsilon <= compose(releases, delta=2e-6).epsilon * (1 + 1e-12)
    assert compose(releases, epsilon=0.3 * factor).delta <= compose(releases, epsilon=0.3).delta * (1 + 1e-12)


@settings(max_examples=scaled(12, 200), deadline=None)
@given(any_releases(), any_releases())
def test_another_release_never_makes_it_cheaper(releases, more):
    fewer, all_of_them = compose(releases, delta=1e-5).epsilon, compose([*releases, *more], delta=1e-5).epsilon
    assert fewer <= all_of_them * (1 + 1e-9)


@settings(max_examples=scaled(12, 200), deadline=None)
@given(any_releases())
def test_epsilon_and_delta_agree(releases):
    together = compose(releases, delta=1e-5)
    assert compose(releases, epsilon=max(together.epsilon, 1e-9)).delta <= 1e-5 * (1 + 1e-9)
    assert together.epsilon == min(bounds(together).values())
    assert together.theorem == together.candidates[0].theorem and together.reference == together.candidates[0].reference


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0.02, 2.0), min_size=2, max_size=6))
def test_no_theorem_undercuts_what_randomized_response_does(epsilons):
    """Every bound that applies to pure releases is at least the exact composition of the worst ones, by enumeration."""
    together = compose([PureDP(epsilon=one) for one in epsilons], delta=1e-4)
    for candidate in together.candidates:
        if candidate.epsilon < math.inf:
            assert enumerated_delta(epsilons, candidate.epsilon) <= 1e-4 * (1 + 1e-9)


def enumerated_delta(epsilons, epsilon):
    laws = [np.array([1 / (1 + math.exp(-one)), 1 / (1 + math.exp(one))]) for one in epsilons]
    p, q = np.ones(1), np.ones(1)
    for law in laws:
        p, q = np.multiply.outer(p, law).ravel(), np.multiply.outer(q, law[::-1]).ravel()
    return profiles.two_point_delta(p, q, epsilon)


@pytest.mark.parametrize("count", [1, 4, 20])
def test_no_theorem_undercuts_a_product_of_gumbel_picks(count):
    """Bounded-range releases of the worst kind for each s: delta of the product, enumerated by its binomial law."""
    epsilon = 0.4
    together = compose([(BoundedRangeDP(epsilon=epsilon), count)], delta=1e-4)
    for s in np.linspace(0.02, 0.38, 10):
        p = (1 - math.exp(s - epsilon)) / (1 - math.exp(-epsilon))
        weights = [math.comb(count, k) * p**k * (1 - p) ** (count - k) for k in range(count + 1)]
        losses = [k * s + (count - k) * (s - epsilon) for k in range(count + 1)]
        delta = math.fsum(w * max(0.0, -math.expm1(together.epsilon - loss)) for w, loss in zip(weights, losses))
        assert delta <= 1e-4


def test_failures_are_paid_for_by_every_theorem():
    releases = [(ApproximateDP(epsilon=0.1, delta=1e-6), 3), (GaussianDP(noise_multiplier=4.0), 2)]
    together = compose(releases, delta=DELTA)
    without = compose([(PureDP(epsilon=0.1), 3), (GaussianDP(noise_multiplier=4.0), 2)], delta=DELTA - 3e-6)
    for name, epsilon in bounds(together).items():
        if epsilon < math.inf:
            assert epsilon >= bounds(without)[name] * (1 - 1e-5)
    with pytest.raises(ValueError, match="delta must be >= "):
        compose(releases, delta=1e-6)


def test_without_delta_pure_releases_add_up():
    assert compose([PureDP(epsilon=0.1)] * 3).epsilon == math.fsum([0.1] * 3)
    assert compose([PureDP(epsilon=0.5), PureDP(epsilon=0.25)]).theorem == "basic"
    pairs = compose([(0.5, 1e-6), (0.25, 0.0), (0.25, 2e-6)])
    assert pairs.delta == math.fsum([1e-6, 2e-6]) and 0.999 < pairs.epsilon <= 1.0
    assert compose([PureDP(epsilon=0.5)] * 2, delta=0.0).epsilon == 1.0


@dataclass
class Mechanism:
    loss: object


def test_everything_that_counts_as_a_release():
    loss = PureDP(epsilon=0.25)
    same = [
        [loss] * 4,
        [(loss, 4)],
        [[loss, 4]],
        [Repeated(loss, 4)],
        [Mechanism(loss)] * 4,
        [(Mechanism(loss), 3), loss],
        [(0.25, 0)] * 4,
        [((0.25, 0.0), 4)],
        [Repeated((0.25, 0), np.int64(4))],
        iter([loss] * 4),
    ]
    answers = {compose(releases, delta=DELTA).epsilon for releases in same}
    assert len(answers) == 1


def test_pairs_take_the_adjacency_of_their_company():
    together = compose([(0.1, 1e-9), GaussianDP(noise_multiplier=5.0, adjacency="add-remove")], delta=DELTA)
    assert together.adjacency == "add-remove"
    assert compose([(0.1, 0.0)]).adjacency == "replace-one"


def test_mixed_adjacencies_are_refused():
    text = "releases must all have one adjacency, got 'replace-one' and 'add-remove' \\(releases\\[1\\]\\)"
    with pytest.raises(ValueError, match=text):
        compose([PureDP(epsilon=0.1), PureDP(epsilon=0.1, adjacency="add-remove")])


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: compose([]), ValueError, "releases must not be empty"),
        (lambda: compose(PureDP(epsilon=1.0)), TypeError, "releases must be a list of releases, got PureDP"),
        (lambda: compose("ab"), TypeError, "releases must be a list"),
        (lambda: compose(None), TypeError, "releases must be a list"),
        (lambda: compose([object()]), TypeError, "releases\\[0\\] must be a privacy loss"),
        (lambda: compose([1.0]), TypeError, "releases\\[0\\] must be a privacy loss, .* got float"),
        (lambda: compose([(0.0, 1e-5)]), ValueError, "epsilon must be > 0, got 0.0"),
        (lambda: compose([(-1.0, 1e-5)]), ValueError, "epsilon must be > 0"),
        (lambda: compose([(math.nan, 1e-5)]), ValueError, "epsilon must be finite, got nan"),
        (lambda: compose([(1.0, 2.0)]), ValueError, "delta must be"),
        (lambda: compose([(True, 0.1)]), TypeError, "epsilon must be a number, got bool"),
        (lambda: compose([("1", 0.1)]), TypeError, "epsilon must be a number, got str"),
        (lambda: compose([(1.0, 0.1, 0.1)]), TypeError, "releases\\[0\\] must be"),
        (lambda: compose([(PureDP(epsilon=1.0), 0)]), ValueError, "count must be >= 1, got 0"),
        (lambda: compose([(PureDP(epsilon=1.0), 2.0)]), TypeError, "count must be a whole number, got float"),
        (lambda: compose([(PureDP(epsilon=1.0), True)]), TypeError, "count must be a whole number, got bool"),
        (lambda: compose([(PureDP(epsilon=1.0), -3)]), ValueError, "count must be >= 1, got -3"),
        (lambda: Repeated(PureDP(epsilon=1.0), 1.5), TypeError, "count must be a whole number"),
        (lambda: compose([PureDP(epsilon=1.0)], delta=math.nan), ValueError, "delta must be finite"),
        (lambda: compose([PureDP(epsilon=1.0)], delta=-1e-9), ValueError, "delta must be >= 0 and < 1"),
        (lambda: compose([PureDP(epsilon=1.0)], delta=1.0), ValueError, "delta must be >= 0 and < 1, got 1.0"),
        (lambda: compose([PureDP(epsilon=1.0)], delta="x"), TypeError, "delta must be a number"),
        (lambda: compose([PureDP(epsilon=1.0)], epsilon=0.0), ValueError, "epsilon must be > 0, got 0.0"),
        (lambda: compose([PureDP(epsilon=1.0)], epsilon=math.inf), ValueError, "epsilon must be finite"),
        (lambda: compose([PureDP(epsilon=1.0)], epsilon=1.0, delta=0.1), ValueError, "delta and epsilon must not both be given"),
        (lambda: compose([GaussianDP(noise_multiplier=1.0)] * 2), ValueError, "delta must be given: GaussianDP"),
        (lambda: compose([GaussianDP(noise_multiplier=1.0)], delta=0.0), ValueError, "delta must be > 0.0 for GaussianDP, got 0.0"),
        (lambda: compose([GaussianDP(noise_multiplier=1.0), (1.0, 1e-5)], delta=1e-5), ValueError, "must be > 1e-05 for GaussianDP"),
        (lambda: compose([ApproximateDP(epsilon=1.0, delta=1e-4)], delta=1e-5), ValueError, "must be >= 0.0001, which the releases"),
        (lambda: compose([(ApproximateDP(epsilon=1.0, delta=0.5), 2)]), ValueError, "the deltas of the releases add up to 1.0"),
    ],
)
def test_bad_input(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_without_the_extra(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "dp_accounting"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    # Hypothesis draws constants of this file too: what it has asked for is known already.
    poisson._log_moments.cache_clear()
    pld._composed.cache_clear()
    sampled = PoissonSampledGaussianDP(noise_multiplier=1.13, sampling_probability=0.01)
    with pytest.raises(hv.MissingExtraError, match="hushvec\\[accounting\\]"):
        compose([(sampled, 10)], delta=DELTA)
    with pytest.raises(hv.MissingExtraError, match="hushvec\\[accounting\\]"):
        sampled.rdp(2.0)
    for one in (sampled, PoissonSampledGaussianDP(noise_multiplier=1.13, sampling_probability=0.01, adjacency="replace-one")):
        assert compose([one], delta=DELTA).epsilon == one.epsilon(DELTA)   # one release needs no extra
    mixed = compose([PureDP(epsilon=0.1), GaussianDP(noise_multiplier=3.0)], delta=DELTA)
    assert mixed.theorem != "pld"
    assert next(one for one in mixed.candidates if one.theorem == "pld").note == "needs hushvec[accounting]"
    again = compose([GaussianDP(noise_multiplier=3.0)] * 5, delta=DELTA)
    assert again.theorem == "gaussian"


def test_extreme_releases_have_an_answer():
    tiny = compose([GaussianDP(noise_multiplier=1e-200)] * 2, delta=DELTA)
    assert tiny.epsilon == math.inf
    assert compose([GaussianDP(noise_multiplier=1e-200)] * 2, epsilon=1.0).delta == 1.0
    assert compose([GaussianDP(noise_multiplier=1e300)] * 2, delta=DELTA).epsilon == 0.0
    assert compose([PureDP(epsilon=1e-300)] * 3, delta=DELTA).epsilon == 0.0
    assert compose([PureDP(epsilon=1e300)] * 3, delta=DELTA).epsilon <= 3.0000001e300
    assert compose([(PureDP(epsilon=1e-3), 10**12)], delta=DELTA).epsilon <= 1e9


def test_many_different_losses_do_not_take_minutes():
    draw = random.Random(1)
    releases = [LaplaceDP(noise_multiplier=draw.uniform(10, 20)) for _ in range(1000)]
    together = compose(releases, delta=DELTA)
    # Between all of them at the least and at the most noise; for small losses nearly one Gaussian with the same squares.
    assert together.epsilon < compose([(LaplaceDP(noise_multiplier=10.0), 1000)], delta=DELTA).epsilon
    limit = hv.gaussian_epsilon(DELTA, 1 / math.sqrt(math.fsum(1 / one.noise_multiplier**2 for one in releases)))
    assert 0.9 * limit < together.epsilon < 1.05 * limit


def test_basic_composition_shares_delta_among_the_losses_that_need_one():
    """Three Gaussians a third each; what is epsilon-DP takes none, and what was spent as delta is not shared."""
    gaussian, pure = GaussianDP(noise_multiplier=2.0), PureDP(epsilon=0.25)

    def basic(*losses):
        return next(one.epsilon for one in compose(losses, delta=1e-5).candidates if one.theorem == "basic")

    assert basic((gaussian, 3), pure) == pytest.approx(3 * gaussian.epsilon(1e-5 / 3) + 0.25, rel=1e-9)
    spent = ApproximateDP(epsilon=0.5, delta=4e-6)
    assert basic((gaussian, 3), spent) == pytest.approx(3 * gaussian.epsilon(6e-6 / 3) + 0.5, rel=1e-9)
    assert basic((pure, 4)) == 1.0
