"""Privacy profiles by numerical integration and enumeration: what the library's answers are held against. Shares no code with it."""

import csv
import itertools
import math
from pathlib import Path

import numpy as np
from scipy import integrate, stats

VECTORS = Path(__file__).parents[1] / "evidence" / "vectors"


def vectors(name):
    with open(VECTORS / name, newline="") as file:
        return list(csv.DictReader(file))


def hockey_stick(upper, lower, epsilon, points):
    """Integral of max(0, upper - e^epsilon lower) over a line, for densities whose difference is smooth between `points`."""
    total = 0.0
    for start, end in itertools.pairwise(points):
        difference = lambda x: max(0.0, upper(x) - math.exp(epsilon) * lower(x))
        total += integrate.quad(difference, start, end, limit=400, epsabs=1e-13, epsrel=1e-11)[0]
    return total


def renyi(upper, lower, order, points):
    """Renyi divergence of two densities on a line."""
    moment = 0.0
    for start, end in itertools.pairwise(points):
        moment += integrate.quad(
            lambda x: lower(x) * (upper(x) / lower(x)) ** order if lower(x) > 0 else 0.0, start, end, limit=400, epsabs=0
        )[0]
    return math.log(moment) / (order - 1)


def normal(mean, deviation):
    return lambda x: math.exp(-((x - mean) ** 2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))


def mixture(probability, one, other):
    return lambda x: probability * one(x) + (1 - probability) * other(x)


def laplace(mean, scale):
    return lambda x: math.exp(-abs(x - mean) / scale) / (2 * scale)


def plane_hockey_stick(probability, first, second, deviation, epsilon, cells=700):
    """Replace-one neighbours in the plane: a person whose vector is `first` is replaced by one whose vector is `second`."""
    edge = np.linspace(-8 * deviation - 1.5, 8 * deviation + 1.5, cells)
    x, y = np.meshgrid(edge, edge)
    density = lambda mean: np.exp(-((x - mean[0]) ** 2 + (y - mean[1]) ** 2) / (2 * deviation**2)) / (2 * np.pi * deviation**2)
    upper = (1 - probability) * density((0, 0)) + probability * density(first)
    lower = (1 - probability) * density((0, 0)) + probability * density(second)
    return float(np.maximum(0, upper - math.exp(epsilon) * lower).sum() * (edge[1] - edge[0]) ** 2)


def twice_hockey_stick(upper, lower, epsilon, low, high, cells=1500):
    """Hockey stick of two independent draws: the midpoint rule in the plane, for densities on arrays."""
    x = low + (np.arange(cells) + 0.5) * (high - low) / cells
    p, q = np.multiply.outer(upper(x), upper(x)), np.multiply.outer(lower(x), lower(x))
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum() * ((high - low) / cells) ** 2)


def two_point_delta(p, q, epsilon):
    """Hockey stick of two laws on finitely many points."""
    return math.fsum(max(0.0, a - math.exp(epsilon) * b) for a, b in zip(p, q))


def gaussian_delta(epsilon, multiplier):
    half = 1 / (2 * multiplier)
    return stats.norm.cdf(half - epsilon * multiplier) - math.exp(epsilon) * stats.norm.cdf(-half - epsilon * multiplier)
