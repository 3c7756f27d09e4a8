"""Mechanisms to audit that the package has not, or has not wrong: plain samplers, mutants, and key streams with known seeds."""

import itertools
import math

import numpy as np
from scipy import special

import hushvec as hv
from hushvec.audit import LabelTarget, MechanismTarget
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian

# Every audit of the suite has this confidence, unless its test says otherwise.
CONFIDENCE = 1 - 1e-6


def seeds(first):
    """Opens key streams that differ from each other and are the same on every run."""
    numbers = itertools.count(1000 * first)
    return lambda: hv.Generator.unsafe_seeded(next(numbers))


def reused(seed):
    """Opens the same key stream again and again: a copied or restarted generator."""
    return lambda: hv.Generator.unsafe_seeded(seed)


def numpy_generator(generator):
    """numpy's generator, keyed by the next call's worth of a hushvec stream."""
    return np.random.default_rng(hv.gaussian_noise(8, generator=generator).view(np.uint32))


class PlainPrivUnit:
    """PrivUnitG as in the paper, a few lines of numpy: (1 - p, p) on the two sides of a cap, a standard normal row otherwise."""

    name = "privunit"
    grade = "float"
    noise_parameter = 0.25

    def __init__(self, *, epsilon, dimension, cap_probability, threshold):
        self.cost = (epsilon, 0.0)
        self.dimension = dimension
        self.cap_probability = cap_probability
        self.threshold = threshold

    def apply(self, x, out, generator):
        rng = numpy_generator(generator)
        unit = x / np.linalg.norm(x, axis=1, keepdims=True)
        in_cap = rng.random(len(x)) < self.cap_probability
        below = special.ndtr(self.threshold)
        level = np.where(in_cap, below + (1 - below) * rng.random(len(x)), below * rng.random(len(x)))
        along = special.ndtri(level)
        z = rng.standard_normal(x.shape)
        out[:] = self.noise_parameter * (z + (along - np.einsum("ij,ij->i", z, unit))[:, None] * unit)


def privunit(epsilon, dimension):
    """The split of equal halves: p / (1 - p) = q / (1 - q) = e^(epsilon / 2)."""
    p = special.expit(epsilon / 2)
    return PlainPrivUnit(epsilon=epsilon, dimension=dimension, cap_probability=p, threshold=special.ndtri(p))


def response(truth, generator, *, labels, truth_probability):
    """The truth with this probability, else one of the other labels."""
    rng = numpy_generator(generator)
    other = rng.integers(0, labels - 1, len(truth))
    other += other >= truth
    return np.where(rng.random(len(truth)) < truth_probability, truth, other)


def randomized_response(epsilon, labels, new_generator):
    truth_probability = 1 / (1 + (labels - 1) * math.exp(-epsilon))
    answer = lambda truth, generator: response(truth, generator, labels=labels, truth_probability=truth_probability)
    return LabelTarget(answer, labels=labels, epsilon=epsilon, new_generator=new_generator)


# ---- mutants ----


class GaussianForC(Gaussian):
    """2C written as C."""

    @property
    def sensitivity(self):
        return super().sensitivity / 2


class GaussianTenPercentLow(Gaussian):
    """0.9 of the noise."""

    @property
    def noise_parameter(self):
        return 0.9 * super().noise_parameter


class L2LaplaceForC(L2Laplace):
    """2C written as C."""

    @property
    def sensitivity(self):
        return super().sensitivity / 2


class LaplacianWithoutRoot(Laplacian):
    """sqrt(d) dropped."""

    @property
    def sensitivity(self):
        return 2 * self.clip_norm


class GaussianWithoutClip(Gaussian):
    """Rows keep their length."""

    def apply(self, x, out, generator):
        out[:] = x + hv.gaussian_noise(x.shape, self.sigma, generator=generator)


class GaussianWithAHole(Gaussian):
    """One coordinate gets no noise."""

    def apply(self, x, out, generator):
        super().apply(x, out, generator)
        out[:, -1] = hv.clip(x, self.clip_norm)[:, -1]


class GaussianClassical(Gaussian):
    """sqrt(2 ln(1.25/delta)) / epsilon where it is not proved."""

    @property
    def noise_parameter(self):
        return hv.gaussian_sigma(self.epsilon, self.delta, self.sensitivity, method="classical", allow_unproven=True)


class OneNoiseForAllRows(Gaussian):
    """One noise vector, added to every row."""

    def apply(self, x, out, generator):
        out[:] = hv.clip(x, self.clip_norm) + hv.gaussian_noise(x.shape[1], self.sigma, generator=generator)


def privunit_with_p_of_more(epsilon, dimension):
    """The threshold of one epsilon, the p of a larger one."""
    right = privunit(epsilon, dimension)
    right.cap_probability = special.expit(0.5 * (1.3 * epsilon))
    return right


def dictionary_response(epsilon, labels, new_generator):
    """Truth with e^epsilon / (e^epsilon + 1), else a uniform word of the dictionary: really ln(1 + k e^epsilon)."""

    def answer(truth, generator):
        rng = numpy_generator(generator)
        return np.where(rng.random(len(truth)) < special.expit(epsilon), truth, rng.integers(0, labels, len(truth)))

    return LabelTarget(answer, labels=labels, epsilon=epsilon, new_generator=new_generator)


# ---- correct ones, by name ----


def correct(seed):
    """(name, target) of every mechanism that keeps its claim, at several epsilons and dimensions."""
    vectors = [
        *(Gaussian(epsilon=epsilon, dimension=d) for epsilon in (0.5, 1.0, 4.0) for d in (1, 8)),
        Gaussian(epsilon=1.0, delta=1e-2, dimension=4, clip_norm=0.3),
        Gaussian(epsilon=2.0, dimension=3, rows_per_person=4),
        EmpiricalGaussian(chosen_sigma=2.0, dimension=8),
        *(Laplacian(epsilon=epsilon, dimension=d, clip_norm=1.7) for epsilon in (0.5, 2.0, 4.0) for d in (1, 2, 8)),
        Laplacian(epsilon=2.0, dimension=2, rows_per_person=3),
        *(L2Laplace(epsilon=epsilon, dimension=d) for epsilon in (0.5, 2.0, 4.0) for d in (1, 2, 8)),
        *(privunit(epsilon, d) for epsilon in (0.5, 2.0, 4.0) for d in (2, 16)),
    ]
    for mechanism in vectors:
        epsilon = mechanism.cost[0]
        yield f"{mechanism.name} {epsilon:.3g} d={mechanism.dimension}", MechanismTarget(mechanism, seeds(seed))
    for epsilon, labels in ((0.5, 2), (2.0, 2), (1.0, 10), (4.0, 1000)):
        yield f"response {epsilon:.3g} k={labels}", randomized_response(epsilon, labels, seeds(seed))
