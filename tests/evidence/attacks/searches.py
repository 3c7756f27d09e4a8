"""What searches for violations have in common: pairs of neighbours to release, and a linear classifier that learns to tell them apart.

A case releases either of two neighbouring inputs n times, as rows of numbers in which labels are one-hot.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import hushvec as hv
from audit.samplers import L2LaplaceForC, numpy_generator
from evidence.attacks import naive
from hushvec.collect import BloomFilter, Vocabulary
from hushvec.mechanisms import Gaussian
from hushvec.mechanisms.top_k import GumbelTopK
from hushvec.retrieval import PrivateIndex, ScoreNoise
from hushvec.training import clip_and_noise_gradients


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mechanism, or what claims to be one.

    Args:
        epsilon, delta: claimed.
        of: takes 0 or 1 (which of the two inputs), n and a key stream; returns [n, w] float64.
        mu: sensitivity / sigma for Gaussian noise, whose whole curve delta(epsilon) is claimed; None for the pure mechanisms.
    """

    epsilon: float
    of: Callable[[int, int, Any], np.ndarray]
    delta: float = 0.0
    mu: float | None = None

    def claimed_delta(self, epsilon):
        """The largest delta that the claim allows at this epsilon: for pure epsilon that of randomized response."""
        if self.mu is not None:
            return float(hv.gaussian_delta(epsilon, 1 / self.mu))
        return max(0.0, (math.exp(self.epsilon) - math.exp(epsilon)) / (math.exp(self.epsilon) + 1))


def learned(first, second):
    """A score for rows: squares and signs weighted by Fisher's linear discriminant, which is trained on these rows only."""

    def features(rows):
        return np.hstack([rows, np.abs(rows), np.sign(rows)])

    one, other = features(first), features(second)
    scatter = np.cov(np.concatenate([one - one.mean(0), other - other.mean(0)]), rowvar=False)
    width = scatter.shape[0]
    weights = np.linalg.solve(scatter + 1e-6 * max(np.trace(scatter), 1e-9) / width * np.eye(width), one.mean(0) - other.mean(0))
    # one addition after the other, in one order for all rows: equal rows have equal scores, whatever block a product puts them in
    return lambda rows: sum(weight * column for weight, column in zip(weights, features(rows).T))


def one_hot(codes, cells):
    return np.eye(cells)[np.asarray(codes)]


DELTA = 1e-5
D = 8


def opposite(side, n, dimension=D):
    """Neighbours as far apart as rows can be, too long so that the clip matters."""
    return np.full((n, dimension), (8.0, -8.0)[side])


def privatized(mechanism, epsilon, dimension=D, **rest):
    def of(side, n, stream):
        x = opposite(side, n, dimension)
        return hv.privatize(x, epsilon=epsilon, delta=DELTA, mechanism=mechanism, generator=stream, **rest).values

    return of


def gaussian(epsilon, of):
    return Case(epsilon=epsilon, delta=DELTA, mu=2 / hv.gaussian_sigma(epsilon, DELTA, 2.0), of=of)


def clipped_and_noised(epsilon, factor=1.0):
    sigma = factor * hv.gaussian_sigma(epsilon, DELTA, 2.0)
    return lambda side, n, stream: hv.clip_and_noise(opposite(side, n), 1.0, sigma, generator=stream)


def rows_of_one_person(epsilon, rows, counted):
    """One person's rows, with noise for as many as are counted."""
    mechanism = Gaussian(epsilon=epsilon, delta=DELTA, dimension=2, rows_per_person=counted)

    def of(side, n, stream):
        x = opposite(side, n * rows, 2)
        values = np.empty_like(x)
        mechanism.apply(x, values, stream)
        return values.reshape(n, 2 * rows)

    return of


def selection(epsilon, k=2, candidates=5):
    def of(side, n, stream):
        mechanism = GumbelTopK(k=k, epsilon=epsilon, sensitivity=1.0)
        chosen = mechanism.select(np.tile(gumbel_scores(side, candidates, up=k), (n, 1)), generator=stream)
        return one_hot(chosen[:, 0] * candidates + chosen[:, 1], candidates**2)

    return of


def gumbel_scores(side, candidates, up=1):
    """Between the two inputs the first `up` scores fall by the sensitivity, and all others rise by it."""
    scores = np.zeros(candidates)
    scores[slice(0, up) if side == 0 else slice(up, None)] = 1.0
    return scores


def naive_selection(epsilon, factor, candidates=5):
    def of(side, n, stream):
        scores = np.tile(gumbel_scores(side, candidates), (n, 1))
        return one_hot(naive.gumbel_top_1(scores, epsilon, 1.0, numpy_generator(stream), factor), candidates)

    return of


def response(epsilon, labels=10):
    def of(side, n, stream):
        truth = np.full(n, (0, labels - 1)[side])
        return one_hot(hv.randomized_response(truth, range(labels), epsilon, generator=stream), labels)

    return of


def dictionary_response(epsilon, labels=10):
    """The truth with probability e^epsilon / (1 + e^epsilon), else any word: really ln(1 + labels e^epsilon)."""

    def of(side, n, stream):
        rng = numpy_generator(stream)
        honest = rng.random(n) < 1 / (1 + math.exp(-epsilon))
        return one_hot(np.where(honest, (0, labels - 1)[side], rng.integers(0, labels, n)), labels)

    return of


def reported(mechanism, epsilon):
    words = ["a", "b", "c", "d"]

    def of(side, n, stream):
        vocabulary = Vocabulary(words, epsilon, mechanism=mechanism)
        reports = np.asarray(vocabulary.report([words[side]] * n, generator=stream))
        if mechanism == "unary":
            return (
                np.unpackbits(np.ascontiguousarray(reports).view(np.uint8).reshape(n, -1), axis=1, bitorder="little")[:, :4] * 1.0
            )
        return one_hot(reports.reshape(-1).astype(int), int(reports.max()) + 1 if mechanism == "hadamard" else 4)

    return of


def bloom(epsilon):
    filter_ = BloomFilter(32, 2, epsilon=epsilon, cohorts=1, p=0, q=1)

    def of(side, n, stream):
        reports = filter_.report(["one", "other"][side : side + 1] * n, generator=stream)
        bits = np.ascontiguousarray(reports.bits)
        return np.unpackbits(bits.view(np.uint8).reshape(n, -1), axis=1, bitorder="little") * 1.0

    return of


def scored(epsilon, mechanism):
    """What an answer says of the document that differs: its place and noisy score, or whether it is named first."""

    def of(side, n, stream):
        scores = ScoreNoise(epsilon=epsilon, delta=DELTA, mechanism=mechanism)
        index = PrivateIndex(2, scores=scores, store="numpy", generator=stream)
        index.add(np.array([[(1.0, -1.0)[side], 0.0], [0.0, 1.0], [0.0, -1.0]], np.float32))
        found = index.search(np.tile(np.float32([1.0, 0.0]), (n, 1)), k=1 if mechanism == "gumbel" else 3)
        if found.scores is None:
            return one_hot(found.ids[:, 0], 3)
        place = np.argmax(found.ids == 0, axis=1)
        return np.hstack([one_hot(place, 3), np.take_along_axis(found.scores, place[:, None], axis=1).astype(np.float64)])

    return of


def summed(multiplier, of_claimed=1.0):
    """Gradient sums of a batch of 4, with and without one more example; one call is one release."""
    rows = np.array([[0.5, 0.5], [3.0, -4.0], [0.0, 0.0], [-1.0, 0.0], [9.0, 12.0]], np.float32)

    def of(side, n, stream):
        batch = rows[: 4 + side]
        return np.array(
            [clip_and_noise_gradients(batch, 1.0, of_claimed * multiplier, generator=stream) for _ in range(n)], float
        )

    return of


CORRECT = {
    "privatize gaussian 1": gaussian(1.0, privatized("gaussian", 1.0)),
    "privatize gaussian 8": gaussian(8.0, privatized("gaussian", 8.0)),
    "privatize laplacian": Case(epsilon=1.0, of=privatized("laplacian", 1.0, 2)),
    "privatize l2_laplace": Case(epsilon=1.0, of=privatized("l2_laplace", 1.0, 1)),
    "privatize privunit": Case(epsilon=2.0, of=privatized("privunit", 2.0)),
    "clip_and_noise": gaussian(2.0, clipped_and_noised(2.0)),
    "four rows of one person": gaussian(2.0, rows_of_one_person(2.0, 4, 4)),
    "GumbelTopK": Case(epsilon=2.0, of=selection(2.0)),
    "randomized_response": Case(epsilon=1.0, of=response(1.0)),
    "Vocabulary k_rr": Case(epsilon=1.0, of=reported("k_rr", 1.0)),
    "Vocabulary unary": Case(epsilon=1.0, of=reported("unary", 1.0)),
    "Vocabulary hadamard": Case(epsilon=1.0, of=reported("hadamard", 1.0)),
    "BloomFilter": Case(epsilon=2.0, of=bloom(2.0)),
    "PrivateIndex laplacian": Case(epsilon=1.0, of=scored(1.0, "laplacian")),
    "PrivateIndex gumbel": Case(epsilon=1.0, of=scored(1.0, "gumbel")),
}

# One call is one release: fewer of them.
CORRECT_CALLS = {"clip_and_noise_gradients": Case(epsilon=6.0, delta=DELTA, mu=1 / 0.7, of=summed(0.7))}


def applied(mechanism, dimension):
    def of(side, n, stream):
        x = opposite(side, n, dimension)
        values = np.empty_like(x)
        mechanism.apply(x, values, stream)
        return values

    return of


MUTANTS = {
    "sensitivity 1 for 2": gaussian(2.0, clipped_and_noised(2.0, factor=0.5)),
    "sensitivity 1 for 2, l2_laplace": Case(epsilon=1.0, of=applied(L2LaplaceForC(epsilon=1.0, dimension=1), 1)),
    "Gumbel scale halved": Case(epsilon=2.0, of=naive_selection(2.0, factor=2.0)),
    "a dictionary's response": Case(epsilon=1.0, of=dictionary_response(1.0)),
}

# What only the whole curve shows: too little excess for one event at one delta.
SLIGHT_MUTANTS = {
    "sigma 10 % low at epsilon 8": gaussian(8.0, clipped_and_noised(8.0, factor=0.9)),
    "noise for half of the rows": gaussian(2.0, rows_of_one_person(2.0, 4, 2)),
    "sigma 10 % low at epsilon 2": gaussian(2.0, clipped_and_noised(2.0, factor=0.9)),
}
