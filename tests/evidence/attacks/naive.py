"""Mechanisms as they are commonly written, and wrong in the way that one paper describes each: what the attacks must catch."""

import numpy as np


def uniforms(rng, shape):
    """Multiples of 2^-53 in (0, 1): what most languages call a random double, without its zero."""
    return rng.integers(1, 2**53, shape) * 2.0**-53


def laplace(x, scale, rng):
    """x + Laplace(scale) by the inverse of the distribution function, in float64."""
    noise = scale * np.log(uniforms(rng, x.shape))
    return x + np.where(rng.random(x.shape) < 0.5, noise, -noise)


def box_muller(u, v):
    """Two normal numbers from two uniforms, in float64."""
    radius = np.sqrt(-2 * np.log(u))
    return radius * np.cos(2 * np.pi * v), radius * np.sin(2 * np.pi * v)


def gaussian_pairs(x, sigma, rng):
    """Rows [n, 2] plus normal noise; each pair of numbers shares one pair of uniforms."""
    first, second = box_muller(uniforms(rng, len(x)), uniforms(rng, len(x)))
    return x + sigma * np.stack([first, second], axis=1)


def on_a_grid_of_the_input(x, scale, rng):
    """Laplace noise, then rounding to 2^-8 of the input's own binade: a grid that is not public."""
    grid = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 2.0**-20))) - 8)
    return np.rint((x + rng.laplace(0.0, scale, x.shape)) / grid) * grid


def clip_in_float32(x, clip_norm):
    """Rows scaled by a norm whose squares were added one after the other in float32."""
    norms = np.sqrt(np.add.accumulate(x.astype(np.float32) ** 2, axis=1, dtype=np.float32)[:, -1])
    return x * np.minimum(1.0, clip_norm / np.maximum(norms, 1e-30))[:, None]


def float_sum(rows, dtype=np.float32):
    """Rows added one after the other in floating point."""
    return np.add.accumulate(rows.astype(dtype), axis=0, dtype=dtype)[-1]


def counting_sum(rows, unit):
    """Rows added as whole multiples of a unit in int32, which wraps."""
    whole = np.rint(rows / unit).astype(np.int64)
    return ((whole.sum(0) + 2**31) % 2**32 - 2**31) * unit


def coin_by_coin_laplace(scale, rng):
    """A discrete Laplace number, one coin after the other: (noise, coins thrown)."""
    keep = np.exp(-1 / scale)
    coins = [0, 0]
    for side in (0, 1):
        while rng.random() < keep:
            coins[side] += 1
    return coins[0] - coins[1], sum(coins) + 2


def gumbel_top_1(scores, epsilon, sensitivity, rng, factor=1.0):
    """The exponential mechanism with noise of scale 2 sensitivity / epsilon; `factor` makes it wrong."""
    noise = -np.log(-np.log(uniforms(rng, scores.shape)))
    return np.argmax(factor * epsilon * scores / (2 * sensitivity) + noise, axis=1)
