"""Mironov, "On significance of the least significant bits for differential privacy" (2012): porous support.

A textbook Laplace sampler maps 2^53 uniforms to floating-point numbers. Many numbers near an output of x are not outputs of x at all,
so one release often says for certain which of two inputs it came from. The attack goes back from an output to the uniforms that could
have made it, for each candidate x, and rules out an x that none of them leads from.

Every test: n outputs of each of two neighbours; statistic: the epsilon that counts of fixed events prove (Clopper-Pearson,
Bonferroni), alpha = 1e-6.
"""

import numpy as np
import pytest

import hushvec as hv
from evidence.attacks import naive
from evidence.attacks.evidence import counts, epsilon_shown
from evidence.reference.sizes import scaled
from evidence.statistical.draws import generator

N = scaled(40_000, 5_000_000)
EPSILON, DELTA = 1.0, 1e-5

# How far from the uniform that real arithmetic names the search goes: the logarithm, the product and the sum round.
REACH = 12


def is_reachable(y, x, scale):
    """Whether some uniform multiple of 2^-53 makes the textbook sampler give exactly y from x."""
    distance = y - x
    nearest = np.rint(np.exp(-np.abs(distance) / scale) * 2.0**53)
    found = np.zeros(y.shape, bool)
    for step in range(-REACH, REACH + 1):
        u = np.clip(nearest + step, 1, 2**53 - 1) * 2.0**-53
        noise = np.where(distance < 0, 1.0, -1.0) * (scale * np.log(u))
        found |= x + noise == y
    return found


def events(pair, scale):
    """What an attacker looks at, all of it fixed in advance: who could have made an output, its low bits, its sign and size."""
    return [
        *(lambda y, x=x: is_reachable(y, x, scale) for x in pair),
        *(lambda y, bits=bits: y != np.rint(np.ldexp(y, bits)) * 2.0**-bits for bits in range(0, 60, 2)),
        lambda y: y > 0,
        lambda y: np.abs(y) > scale,
    ]


def shown(release, pair, scale, delta=0.0):
    tried = events(pair, scale)
    first, second = (counts(tried, release(np.full((N, 1), x))[:, 0].astype(np.float64)) for x in pair)
    return epsilon_shown(first, second, N, delta=delta)


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1 / 3, -0.7)])
def test_the_textbook_sampler_is_broken(pair):
    """Claims epsilon = 1 for inputs up to 2 apart; n = 40,000; at least 5 is proved."""
    rng = np.random.default_rng(1)
    assert shown(lambda x: naive.laplace(x, 2 / EPSILON, rng), pair, 2 / EPSILON) > 5


def test_an_output_of_the_textbook_sampler_names_its_input():
    """Single outputs of x = 0: a third and more cannot come from x = 1, and every one can come from where it came from. n = 40,000."""
    y = naive.laplace(np.zeros(N), 2.0, np.random.default_rng(2))
    assert is_reachable(y, 0.0, 2.0).all()
    assert np.mean(~is_reachable(y, 1.0, 2.0)) > 1 / 3


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("noise", ["laplacian_noise", "l2_laplace_noise"])
def test_noise_added_by_hand_is_broken_as_the_documents_say(noise, dtype):
    """The float grade: `gaussian_noise` and its kin promise nothing, and low bits show why. Claims epsilon = 1; 4 is proved."""
    stream = generator(3)
    release = lambda x: hv.add_noise(x.astype(dtype), getattr(hv, noise)(x.shape, 2.0, dtype=dtype, generator=stream))
    assert shown(release, (0.0, 1.0), 2.0) > 4


def released(mechanism, dtype, seed):
    """`privatize` on rows of one number; what is claimed of it, and the scale of its noise."""
    stream = generator(seed)
    settings = dict(epsilon=EPSILON, delta=DELTA, mechanism=mechanism, generator=stream)
    receipt = hv.privatize(np.zeros((1, 1), dtype), **settings).receipt
    return lambda x: hv.privatize(x.astype(dtype), **settings).values, receipt


PAIRS = [(0.0, 1.0), (1 / 3, -0.7), (-1.0, 1.0), (2.0**-149, 1.0)]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("mechanism", ["laplacian", "gaussian"])
def test_privatize_withstands_it(mechanism, dtype, pair):
    release, receipt = released(mechanism, dtype, seed=4)
    scale = receipt.scale or receipt.sigma
    assert shown(release, pair, scale, receipt.delta) <= receipt.epsilon


@pytest.mark.parametrize("pair", [(-1.0, 1.0), (-(2.0**-40), 1.0)])
def test_privunit_withstands_it(pair):
    release, receipt = released("privunit", "float64", seed=5)
    assert shown(release, pair, receipt.sigma) <= receipt.epsilon


@pytest.mark.parametrize("pair", PAIRS)
def test_exact_clip_and_noise_withstands_it(pair):
    sigma, stream = hv.gaussian_sigma(EPSILON, DELTA, 2.0), generator(6)
    release = lambda x: hv.clip_and_noise(x, 1.0, sigma, generator=stream)
    assert shown(release, pair, sigma, DELTA) <= EPSILON


def test_clip_and_noise_in_floating_point_is_broken_as_its_documents_say():
    """exact=False: the positive control on the same function."""
    sigma, stream = hv.gaussian_sigma(EPSILON, DELTA, 2.0), generator(7)
    release = lambda x: hv.clip_and_noise(x, 1.0, sigma, exact=False, generator=stream)
    assert shown(release, (0.0, 1.0), sigma, DELTA) > 3


@pytest.mark.parametrize("mechanism", ["laplacian", "gaussian"])
def test_both_inputs_reach_every_point_of_the_grid(mechanism):
    """No holes: each of the grid points within one scale of 0 is an output of -1 and of 1 alike, and no single point tells more than
    epsilon. n = 200,000 outputs of each; a point is expected 300 times and more, so that a miss has a probability below 1e-100.
    """
    rows = scaled(200_000, 10_000_000)
    release, receipt = released(mechanism, "float64", seed=8)
    reach = int((receipt.scale or receipt.sigma) / receipt.grid)
    seen = []
    for x in (-1.0, 1.0):
        places = np.rint(release(np.full((rows, 1), x))[:, 0] / receipt.grid).astype(np.int64)
        inside = places[np.abs(places) <= reach]
        seen.append(np.bincount(inside + reach, minlength=2 * reach + 1))
    assert min(side.min() for side in seen) > 0
    assert epsilon_shown(*seen, rows, delta=receipt.delta) <= receipt.epsilon
