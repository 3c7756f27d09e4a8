"""The check before the clock: it takes the truth and refuses each near miss."""

import numpy as np
import pytest

import laws

SAMPLES = 1 << 18


@pytest.fixture
def rng():
    return np.random.Generator(np.random.PCG64(7))


@pytest.mark.parametrize("law", ["gaussian", "laplace"])
@pytest.mark.parametrize("scale", [0.6, 40.0])
def test_true_law_is_accepted(rng, law, scale):
    draw = {"gaussian": rng.normal, "laplace": rng.laplace}[law]
    assert laws.moment_complaint(draw(0.0, scale, SAMPLES), law, scale) == ""


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda z: 1.05 * z, "second moment"),
        (lambda z: z + 0.05, "mean"),
        (lambda z: np.clip(z, -2.5, 2.5), "moment"),
        (lambda z: np.where(z > 3.0, np.inf, z), "not finite"),
        (lambda z: np.sign(z) * np.sqrt(np.abs(z)), "moment"),
    ],
    ids=["scale 5 % off", "shift", "cut tail", "infinite", "wrong law"],
)
def test_near_miss_of_a_gaussian_is_refused(rng, change, named):
    assert named in laws.moment_complaint(change(rng.normal(size=SAMPLES)), "gaussian", 1.0)


def test_laplace_of_the_same_variance_is_not_a_gaussian(rng):
    samples = rng.laplace(0.0, np.sqrt(0.5), SAMPLES)
    assert "fourth moment" in laws.moment_complaint(samples, "gaussian", 1.0)


# Epsilon, delta, sigma: rows of tests/evidence/vectors/gaussian_sigma.csv (80-digit arithmetic).
KNOWN = [
    (1.0, 1e-5, 3.73063163481594183224982257504),
    (1.0, 1e-9, 5.49526615723829619322687065762),
    (1.0, 1e-1, 1.08587776519185649839442108321),
]


@pytest.mark.parametrize(("epsilon", "delta", "sigma"), KNOWN)
def test_known_sigma_is_accepted(epsilon, delta, sigma):
    assert laws.sigma_complaint(np.array([sigma]), np.array([epsilon]), np.array([delta])) == ""


@pytest.mark.parametrize("factor", [1.0 + 1e-4, 1.0 - 1e-4])
def test_sigma_off_by_a_ten_thousandth_is_refused(factor):
    epsilon, delta, sigma = (np.array([value]) for value in KNOWN[0])
    assert "asked" in laws.sigma_complaint(factor * sigma, epsilon, delta)


def test_clipped_rows_end_at_the_clip_norm_and_short_rows_stay():
    x = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], dtype=np.float32)
    clipped = laws.clipped(x, 1.0)
    assert np.linalg.norm(clipped[0]) == pytest.approx(1.0, abs=1e-15)
    assert np.array_equal(clipped[1:], x[1:].astype(np.float64))
