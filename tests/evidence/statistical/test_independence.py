"""Samples of one call, of different calls and of different rows are independent.

Statistic: correlation of the values, of their squares and of their absolute values, sqrt(n) * r standard normal,
n = 10^7 (5 * 10^7); the smallest of the three p-values times three; alpha = 1e-6, so |r| above 1.7e-3 is rejected.
Lag 128 is the two outputs of a Box-Muller pair (words w and w + 8), 16 the next word, 256 the next group of blocks.
A pair is also tested jointly: half the squared radius Exp(1), the angle uniform, the two uncorrelated.
"""

import numpy as np
import pytest

from evidence.reference import chacha, checks, release
from evidence.reference.sizes import scaled
from evidence.statistical.draws import ALPHA, CIPHERS, generator, noise, released_integers

SAMPLES = scaled(6_000_000, 50_000_000)
LAWS = ("gaussian", "laplacian")
LAGS = (1, 2, 8, 16, 64, 128, 256, 4096)


def pair_outputs(samples):
    """(cosine outputs, sine outputs) of whole groups of 256 samples."""
    return release.box_muller_words(samples[: samples.size // chacha.GROUP * chacha.GROUP])


def repetition_p_value(samples):
    """Rejects a stream whose second half depends on its first."""
    half = samples.size // 2
    return checks.independent(samples[:half], samples[half : 2 * half])


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", LAWS)
def test_lags_and_repetition(law, cipher):
    samples = noise(law, SAMPLES, seed=401, cipher=cipher).astype(np.float64)
    for lag in LAGS:
        assert checks.independent_at_lag(samples, lag) > ALPHA, lag
    assert repetition_p_value(samples) > ALPHA


@pytest.mark.parametrize("dtype", ("float32", "float64"))
@pytest.mark.parametrize("cipher", CIPHERS)
def test_pairs_are_jointly_gaussian(dtype, cipher):
    samples = noise("gaussian", SAMPLES, dtype=dtype, seed=402, cipher=cipher).astype(np.float64)
    assert checks.jointly_gaussian(*pair_outputs(samples)) > ALPHA


@pytest.mark.parametrize("cipher", CIPHERS)
def test_laplace_samples_that_share_a_block_are_independent(cipher):
    samples = noise("laplacian", SAMPLES, seed=403, cipher=cipher).astype(np.float64)
    assert checks.independent(*pair_outputs(samples)) > ALPHA


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cipher", CIPHERS)
def test_calls_are_independent(law, cipher):
    stream = generator(404, cipher)
    first, second, third = (noise(law, SAMPLES // 2, stream=stream) for _ in range(3))
    assert checks.independent(first, second) > ALPHA
    assert checks.independent(first, third) > ALPHA
    assert checks.independent(second, third) > ALPHA


@pytest.mark.parametrize(("cipher", "other"), [("chacha8", "chacha12"), ("aes256", "chacha8")])
def test_keys_and_ciphers_are_independent(cipher, other):
    first = noise("gaussian", SAMPLES // 2, seed=405, cipher=cipher)
    assert checks.independent(first, noise("gaussian", SAMPLES // 2, seed=406, cipher=cipher)) > ALPHA
    assert checks.independent(first, noise("gaussian", SAMPLES // 2, stream=generator(405, other))) > ALPHA


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("cipher", CIPHERS)
def test_noise_of_an_exact_release_is_independent_within_and_between_rows(law, cipher):
    x = np.random.default_rng(407).uniform(-0.04, 0.04, (4000, 512)).astype(np.float32)  # norm at most 0.91
    n, in_grid_units, s = released_integers(law, x, 1.0, 0.7, seed=408, cipher=cipher)
    residual = (n - in_grid_units) / s
    for lag in (1, 16, 128, 256, 512):
        assert checks.independent_at_lag(residual, lag) > ALPHA, lag
    assert checks.uncorrelated(residual, in_grid_units) > ALPHA
    if law == "gaussian":
        assert checks.jointly_gaussian(*pair_outputs(residual)) > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_a_release_without_its_data_is_rejected(law):
    in_grid_units = np.random.default_rng(415).uniform(-2.5, 2.5, 2_000_000)
    residual = np.rint(89.6 * noise(law, in_grid_units.size, seed=415)) - in_grid_units
    assert checks.uncorrelated(residual, in_grid_units) < ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_a_reused_nonce_is_rejected(law):
    """Two generators at the same nonce: what a copied or restarted generator would release."""
    first, second = (noise(law, SAMPLES // 2, stream=generator(409)) for _ in range(2))
    assert checks.independent(first, second) < ALPHA
    assert checks.independent(first, -second) < ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_a_reused_nonce_is_rejected_in_exact_releases(law):
    """The same nonce for different data: the noise cancels in the difference, the residuals agree."""
    rng = np.random.default_rng(410)
    residuals = []
    for _ in range(2):
        x = rng.uniform(-0.04, 0.04, (400, 512)).astype(np.float32)
        n, in_grid_units, s = released_integers(law, x, 1.0, 0.7, seed=411)
        residuals.append((n - in_grid_units) / s)
    assert checks.independent(*residuals) < ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_a_repeated_stream_is_rejected(law):
    half = noise(law, SAMPLES // 2, seed=412).astype(np.float64)
    assert repetition_p_value(np.concatenate([half, half])) < ALPHA
    assert repetition_p_value(np.concatenate([half, -half])) < ALPHA


def test_dependent_pairs_are_rejected():
    cosines, sines = pair_outputs(noise("gaussian", SAMPLES, seed=413).astype(np.float64))
    radius = np.hypot(cosines, sines)
    mutants = {
        "sine taken from the cosine": np.sign(sines) * np.abs(cosines),
        "half the angles": np.abs(sines),
        "another pair's radius": sines / radius * np.roll(radius, 1),
        "scale 5 % off": 1.05 * sines,
        "correlated by 0.01": 0.01 * cosines + np.sqrt(1.0 - 1e-4) * sines,
    }
    for name, mutant in mutants.items():
        assert checks.jointly_gaussian(cosines, mutant) < ALPHA, name


def test_dependent_neighbours_are_rejected():
    samples = noise("gaussian", 3_000_000, seed=414).astype(np.float64)
    for lag in LAGS:
        assert checks.independent_at_lag(0.005 * np.roll(samples, lag) + samples, lag) < ALPHA, lag
        same_size = samples * (1.0 + 0.01 * np.abs(np.roll(samples, lag)))  # uncorrelated, yet dependent
        assert checks.independent_at_lag(same_size, lag) < ALPHA, lag
