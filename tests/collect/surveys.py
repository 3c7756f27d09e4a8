"""Surveys with a known truth: Zipf words, everyone asked once."""

import numpy as np

import hushvec as hv
from hushvec.collect import Vocabulary


def zipf_counts(words, people, seed=0):
    """How many people have each word; the shares fall as 1 / rank."""
    shares = 1 / np.arange(1, words + 1)
    return np.random.default_rng(seed).multinomial(people, shares / shares.sum())


def vocabulary(k, epsilon, mechanism, **rest):
    return Vocabulary([f"word{i}" for i in range(k)], epsilon, mechanism=mechanism, **rest)


def surveyed(ours, counts, seed, at_once=50_000):
    """A sketch of everybody's report. In parts: a unary report over many words is long."""
    sketch, generator = ours.sketch(), hv.Generator.unsafe_seeded(seed)
    codes = np.repeat(np.arange(len(counts)), counts)
    for first in range(0, len(codes), at_once):
        sketch.add(ours.oracle.draw(codes[first : first + at_once], generator))
    return sketch
