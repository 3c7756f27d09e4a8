"""`hushvec.extend.check_mechanism`: every mechanism of the library passes, and each kind of mistake is found and named."""

import math
from functools import cached_property

import numpy as np
import pytest

import hushvec as hv
from hushvec.extend import check_mechanism, float32_at_least, uniform_integers
from hushvec.mechanisms import MECHANISMS, Gaussian, Laplacian, PrivUnit


@pytest.mark.parametrize("kind", [MECHANISMS[name] for name in ("gaussian", "laplacian", "l2_laplace", "empirical", "privunit")])
def test_the_mechanisms_of_the_library_pass(kind):
    found = check_mechanism(kind)
    assert found[0] == "its receipt has the numbers of its law, and a mechanism can be made of them" and len(found) == 11


class TooLittleNoise(Laplacian):
    """2C written as C: the price is not kept, and receipts show it."""

    name = "too_little"

    @cached_property
    def scale(self):
        return float32_at_least(0.5 * super().scale)


class WrongDensity(Laplacian):
    name = "wrong_density"

    def _log_densities(self, rows, centers):
        return 0.7 * super()._log_densities(rows, centers)


class CheaperThanItIs(Gaussian):
    name = "cheaper"

    def claim_faults(self):
        return []


class FixedNoise(Laplacian):
    name = "fixed_noise"

    def _release(self, x, out, source, out_is_fresh):
        return super()._release(x, out, hv.Generator.unsafe_seeded(7), out_is_fresh)


class OtherDtype(Laplacian):
    name = "other_dtype"

    def _release(self, x, out, source, out_is_fresh):
        return super()._release(np.asarray(x, np.float64), None, source, out_is_fresh)


class NoClip(Laplacian):
    name = "no_clip"

    def clipped(self, x):
        return x


class LetsNaNThrough(Laplacian):
    name = "lets_nan"

    def _release(self, x, out, source, out_is_fresh):
        return super()._release(np.nan_to_num(x), out, source, out_is_fresh)


class FixedScale(Laplacian):
    """A property, which the numbers of a receipt cannot replace: forged receipts would hold."""

    name = "fixed_scale"

    @property
    def scale(self):
        return 100.0


class QuietNorm(Laplacian):
    name = "quiet_norm"

    @property
    def noise_norm(self):
        return 0.5 * super().noise_norm


class LikelierCap(PrivUnit):
    """The p of a larger epsilon at the same threshold."""

    name = "likelier_cap"

    @cached_property
    def _split(self):
        p, threshold = super()._split
        return (1 + p) / 2, threshold


class SmallerSensitivity(Laplacian):
    name = "smaller_sensitivity"

    @classmethod
    def _squared_sensitivity(cls, one_row, rows, dimension):
        return (one_row * rows) ** 2


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (TooLittleNoise, "its receipts hold, come back from JSON, and do not hold with a smaller price or noise: a receipt must be"),
        (TooLittleNoise, "no output tells two rows apart by more than its cost: the privacy loss must be at most 0.5"),
        (WrongDensity, "its density is that of its releases, and of those of a job: the mean of the likelihood ratio must be 1"),
        (CheaperThanItIs, "its receipts hold, come back from JSON, and do not hold with a smaller price or noise: a receipt with"),
        (FixedNoise, "a seed gives the same bits, another seed others, and x stays as it was: another seed gave the same values"),
        (OtherDtype, "values have the shape and dtype of x, and are finite multiples of its grid: (5, 3) float32 became"),
        (NoClip, "no two rows are farther apart after the clip than its sensitivity: sensitivity must be >="),
        (LetsNaNThrough, "NaN and Inf are refused, and nothing of them is written: nan was released"),
        (FixedScale, "its receipt has the numbers of its law, and a mechanism can be made of them: scale must be a functools.cached"),
        (QuietNorm, "its noise has the norm that it states: noise_norm must be about"),
        (LikelierCap, "its receipts hold, come back from JSON, and do not hold with a smaller price or noise: a receipt must be"),
        (SmallerSensitivity, "no two rows are farther apart after the clip than its sensitivity: sensitivity must be >="),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_mistake_is_named(kind, words):
    with pytest.raises(AssertionError) as failure:
        check_mechanism(kind)
    assert any(line.startswith(f"{kind.name}: {words}") for line in str(failure.value).splitlines()), str(failure.value)
    assert kind.name not in MECHANISMS


def test_whole_numbers_are_uniform():
    """100,000 numbers of 3 bits: chi-square with 7 degrees of freedom below 60 (alpha 1e-10)."""
    values = uniform_integers((1000, 100), 3, generator=hv.Generator.unsafe_seeded(1))
    counts = np.bincount(values.ravel(), minlength=8)
    assert values.shape == (1000, 100) and len(counts) == 8
    assert ((counts - 12_500.0) ** 2 / 12_500).sum() < 60
    with pytest.raises(ValueError, match="bits must be"):
        uniform_integers((2,), 25)


def test_a_float32_at_least():
    assert float32_at_least(0.5) == 0.5
    assert 0.1 <= float32_at_least(0.1) == float(np.float32(0.1)) < math.nextafter(0.1, 1) + 1e-8
