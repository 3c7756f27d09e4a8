"""A retry with the same data repeats the noise; one with other data has unrelated noise. With a mutant that forgets the data.

Seeds are fixed: a test always passes or never does.
"""

import numpy as np
import pytest
from scipy import stats

from hushvec.jobs import NoiseJob, derivation, job
from jobs.named import noise_batch

ALPHA = 1e-6
DIMENSION = 256
ROWS = 200
CIPHERS = ("aes256", "chacha20")


def noise_of(rows, a_job):
    """Released minus given: rows are inside the ball."""
    return noise_batch(rows, a_job).astype(np.float64) - rows


def pair_of_attempts(cipher):
    """The noise of two attempts at the same places, the second with rows that differ in the last bit of one element."""
    a_job = NoiseJob.unsafe_seeded(1, dimension=DIMENSION, epsilon=4.0, cipher=cipher)
    rows = (np.random.default_rng(2).standard_normal((ROWS, DIMENSION)) / 40).astype(np.float32)
    changed = rows.copy()
    changed[:, 0] = np.nextafter(changed[:, 0], np.float32(1))
    sigma = a_job.mechanism.noise_parameter
    return noise_of(rows, a_job) / sigma, noise_of(changed, a_job) / sigma


def check_unrelated(first, second):
    """Pearson's correlation of 51,200 pairs, two-sided; and the difference has the law N(0, 2), Kolmogorov and Smirnov."""
    assert stats.pearsonr(first.ravel(), second.ravel()).pvalue > ALPHA
    assert stats.kstest((first - second).ravel() / np.sqrt(2), "norm").pvalue > ALPHA
    assert ((first != second).mean(axis=1) > 0.5).all()


@pytest.mark.parametrize("cipher", CIPHERS)
def test_other_data_has_unrelated_noise(cipher):
    check_unrelated(*pair_of_attempts(cipher))


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_derivation_without_the_data_is_caught(cipher, monkeypatch):
    """The mutant keys every row by its place alone."""
    honest = job.NoiseJob._run

    def without_data(self, source, out, places):
        blank = np.full_like(source, np.float32(0.001))
        honest(self, blank, out, places)
        out += source - blank

    monkeypatch.setattr(job.NoiseJob, "_run", without_data)
    with pytest.raises(AssertionError):
        check_unrelated(*pair_of_attempts(cipher))


def test_the_same_data_has_the_same_noise():
    a_job = NoiseJob.start(dimension=DIMENSION, epsilon=4.0)
    rows = np.random.default_rng(3).standard_normal((20, DIMENSION)).astype(np.float32)
    np.testing.assert_array_equal(noise_batch(rows, a_job), noise_batch(rows.copy(), a_job))


@pytest.mark.parametrize("changed", ("partition", "row", "key", "id", "kind of id"))
def test_other_places_and_keys_have_unrelated_noise(changed):
    a_job, other_job = (NoiseJob.unsafe_seeded(seed, dimension=DIMENSION, epsilon=4.0) for seed in (2, 3))
    rows = np.full((ROWS, DIMENSION), 0.01, np.float32)
    numbers = np.arange(ROWS)
    pairs = {
        "partition": (noise_batch(rows, a_job), noise_batch(rows, a_job, partition=1)),
        "row": (noise_batch(rows, a_job), noise_batch(rows, a_job, first_row=ROWS)),
        "key": (noise_batch(rows, a_job), noise_batch(rows, other_job)),
        "id": (noise_batch(rows, a_job, ids=numbers), noise_batch(rows, a_job, ids=numbers + ROWS)),
        "kind of id": (noise_batch(rows, a_job, ids=numbers), noise_batch(rows, a_job, ids=[str(n) for n in numbers])),
    }
    first, second = pairs[changed]
    sigma = a_job.mechanism.noise_parameter
    check_unrelated((first - rows) / sigma, (second - rows) / sigma)


@pytest.mark.parametrize("mechanism, law", (("gaussian", stats.norm()), ("laplacian", stats.laplace())))
def test_the_noise_has_its_law(mechanism, law):
    """400,000 samples over 1600 keys, Kolmogorov and Smirnov; a scale 5 % off and a shift of 0.03 are rejected."""
    a_job = NoiseJob.unsafe_seeded(4, dimension=250, epsilon=4.0, mechanism=mechanism)
    z = noise_of(np.zeros((1600, 250), np.float32), a_job).ravel() / a_job.mechanism.noise_parameter
    z += np.random.default_rng(1).uniform(-0.5, 0.5, z.size) * a_job.mechanism.grid / a_job.mechanism.noise_parameter
    assert stats.kstest(z, law.cdf).pvalue > ALPHA
    assert stats.kstest(z * 1.05, law.cdf).pvalue < ALPHA
    assert stats.kstest(z + 0.03, law.cdf).pvalue < ALPHA


def test_rows_and_columns_are_independent():
    """Products of neighbours, in a row and between rows: 10^5 of each, normal by the central limit theorem."""
    a_job = NoiseJob.unsafe_seeded(5, dimension=250, epsilon=4.0)
    z = noise_of(np.zeros((400, 250), np.float32), a_job) / a_job.mechanism.noise_parameter
    for products in (z[:, 1:] * z[:, :-1], z[1:] * z[:-1], z[:, ::2] * z[:, 1::2]):
        statistic = products.sum() / np.sqrt(products.size)
        assert 2 * stats.norm.sf(abs(statistic)) > ALPHA


def test_places_of_different_kinds_never_agree():
    kinds = [
        derivation.positions(0, 0, 4),
        derivation.positions(1, 0, 4),
        derivation.numbers(np.arange(4)),
        derivation.numbers(-1 - np.arange(4)),
        derivation.texts(["0", "1", "2", "3"]),
    ]
    places = np.concatenate(kinds)
    assert len({place.tobytes() for place in places}) == len(places)
