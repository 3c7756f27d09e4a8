"""Version 3 of the release format: who draws by it, and that it changes exact noise on rows and on sums of them alone."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.collect import Vocabulary
from hushvec.mechanisms import GumbelTopK

ROWS = (np.random.default_rng(5).standard_normal((40, 384)) / 20).astype(np.float32)
CIPHERS = {"aes256": 2, "chacha20": 1, "chacha12": 1, "chacha8": 1}


def seeded(cipher, version=None):
    return hv.Generator.unsafe_seeded(11, cipher=cipher, format_version=version)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_a_generator_states_its_version(cipher):
    assert hv.Generator(cipher=cipher).format_version == 3
    assert seeded(cipher).format_version == seeded(cipher, CIPHERS[cipher]).format_version == CIPHERS[cipher]
    assert seeded(cipher, 3).format_version == 3


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("version", [0, 4, -1, 2**70])
def test_other_versions_are_refused(cipher, version):
    with pytest.raises(ValueError) as refused:
        seeded(cipher, version)
    assert str(refused.value) == f"format_version must be 3 or {CIPHERS[cipher]} for {cipher}, got {version}"
    with pytest.raises(ValueError, match="format_version must be 3 or"):
        seeded(cipher, 3 - CIPHERS[cipher])


@pytest.mark.parametrize("version", [3.0, True, "3"])
def test_a_version_is_a_whole_number(version):
    with pytest.raises(TypeError, match="format_version must be a whole number, got"):
        seeded("aes256", version)


def _summed(core, generator):
    total = core.ClippedSum([384], 1.0, 0.5, 40, "exact")
    total.add([ROWS])
    out = np.empty(384, np.float32)
    total.release([out], generator)
    return out


def _correlated(core, generator):
    total = core.ClippedSum([384], 1.0, 0.5, 40, "exact")
    total.add([ROWS])
    out = np.empty(384, np.float32)
    total.release_correlated([out], [generator._reserve() for _ in range(3)], [1.0, -0.5, 0.25])
    return out


WORDS = Vocabulary(map(str, range(30)), epsilon=2.0, mechanism="unary")
OTHERS = {
    "gaussian fill": lambda core, generator: hv.gaussian_noise(1000, generator=generator),
    "float64 fill": lambda core, generator: hv.laplacian_noise(1000, dtype="float64", generator=generator),
    "float grade": lambda core, generator: hv.clip_and_noise(ROWS, 1.0, 0.5, exact=False, generator=generator),
    "l2_laplace": lambda core, generator: hv.privatize(ROWS, epsilon=8.0, mechanism="l2_laplace", generator=generator).values,
    "privunit": lambda core, generator: hv.privatize(ROWS, epsilon=8.0, mechanism="privunit", generator=generator).values,
    "discrete": lambda core, generator: hv.discrete_gaussian(1000, sigma=40.0, generator=generator),
    "correlated sum": _correlated,
    "whole sums": lambda core, generator: core.release_whole_sums(np.arange(500), 2.0**-12, 3.0, generator),
    "labels": lambda core, generator: hv.privatize_labels([1] * 50, range(5), epsilon=1.0, generator=generator).values,
    "top k": lambda core, generator: GumbelTopK(epsilon=1.0, k=2, sensitivity=1.0).select(ROWS, generator=generator),
    "reports": lambda core, generator: WORDS.release("3", generator=generator).reports,
}


@pytest.mark.parametrize("call", OTHERS)
@pytest.mark.parametrize("cipher", ["aes256", "chacha20"])
def test_everything_else_has_the_bits_of_the_versions_before(core, cipher, call):
    old, new = (np.asarray(OTHERS[call](core, seeded(cipher, version))) for version in (None, 3))
    np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("cipher", ["aes256", "chacha20"])
def test_sums_of_rows_have_other_bits_and_the_grid_of_their_version(core, cipher):
    old, new = (_summed(core, seeded(cipher, version)) for version in (None, 3))
    for values, half_words in ((old, False), (new, True)):
        steps = values / core.exact_grid(0.5, 1.0, half_words)[1]
        assert (steps == np.rint(steps)).all()
    assert (old == new).mean() < 0.05


@pytest.mark.parametrize("cipher", ["aes256", "chacha20"])
@pytest.mark.parametrize("mechanism", ["gaussian", "laplacian"])
def test_rows_have_other_bits_and_the_grid_of_their_version(cipher, mechanism):
    old, new = (hv.privatize(ROWS, epsilon=8.0, mechanism=mechanism, generator=seeded(cipher, version)) for version in (None, 3))
    assert (old.receipt.format_version, new.receipt.format_version) == (CIPHERS[cipher], 3)
    assert new.receipt.grid == 8 * old.receipt.grid
    for release in (old, new):
        steps = release.values / release.receipt.grid
        assert (steps == np.rint(steps)).all()
    assert (old.values == new.values).mean() < 0.05


def test_the_coarser_grid_does_not_move_cosines():
    """Mean cosine of rows and their releases, n = 4,000 each: at most 5 standard errors apart. A tenth more noise is 15 apart."""
    rows = np.random.default_rng(3).standard_normal((4000, 384)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)

    def cosines(version, factor=1.0):
        noisy = hv.clip_and_noise(rows, clip_norm=1.0, sigma=0.05 * factor, generator=seeded("aes256", version))
        return (noisy * rows).sum(1) / np.linalg.norm(noisy, axis=1)

    old, new, worse = cosines(None), cosines(3), cosines(3, 1.1)
    error = np.sqrt((old.var() + new.var()) / len(rows))
    assert abs(old.mean() - new.mean()) < 5 * error
    assert abs(old.mean() - worse.mean()) > 15 * error
