"""One-shot Gumbel top-k: k exponential mechanisms one after the other, in one draw (docs/proofs/gumbel_top_k.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.rounding import fraction_up, product_up, quotient_down
from hushvec.accounting import BoundedRangeDP

# docs/format.md section 9.
_HIGH_DOMAIN, _LOW_DOMAIN, _EXTENSION_DOMAIN = 22, 23, 24
_STEP_INDEX_BITS = 16
_WORD_BITS = 32
_GROUP_SAMPLES, _LANES = 256, 16
# Further bits of a sample have 2^16 steps, and AES-256 has 2^54 blocks for them: docs/format.md sections 9 and 13.
_MOST_SAMPLES = {"aes256": 2**38, "chacha20": 2**40, "chacha12": 2**40, "chacha8": 2**40}

# First step and what each further one adds: docs/format.md section 9.
FIRST_BITS = 64
STEP_BITS = 512
LAST_STEP = 2**16

_GUARD_DIGITS = 30

# Whole numbers up to here are float64.
_LARGEST_WHOLE = 2**53


@dataclass(frozen=True, kw_only=True)
class GumbelTopK:
    """The k candidates with the largest noisy scores, epsilon_per_pick * score / (2 * sensitivity) + Gumbel noise.

    Args:
        k: how many candidates are named, >= 1.
        sensitivity: D, the most that any one score moves between neighboring inputs; in [2^-100, 2^100].
        epsilon: of the whole selection; epsilon_per_pick is then epsilon / k, rounded down. Or else:
        epsilon_per_pick: eps0, of one of the k picks; in [2^-100, 2^100]. epsilon is then k eps0, rounded up.

    Guarantees:
        For one row of scores, under the adjacency that `sensitivity` is stated for: (k eps0, 0)-DP, and rho-zCDP with rho = k
        eps0^2 / 8, as each pick is eps0-bounded-range. What is released is the ordered list of k candidates. It is exact: the
        selection is that of Gumbel noise over the reals, on scores taken as the exact numbers that their doubles are. The scores
        themselves are **not** covered: releasing anything that depends on them costs extra. The number of candidates is public.

    Reference:
        Durfee and Rogers, "Practical differentially private top-k selection with pay-what-you-get composition" (2019), sections
        4.1 and 4.2; Cesar and Rogers, "Bounding, concentrating, and truncating" (2021), for rho.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.mechanisms.top_k import GumbelTopK
        >>> mechanism = GumbelTopK(k=2, epsilon=2.0, sensitivity=1.0)
        >>> print("\\n".join(mechanism.describe()))
        Gumbel top-k, k = 2, sensitivity of a score 1, epsilon a pick 1
        one selection costs epsilon = 2, delta = 0, or rho = 0.25
        the noise has the standard deviation 2.57 in units of a score
        >>> mechanism.select([0.0, 90.0, 3.0, 70.0], generator=hv.Generator.unsafe_seeded(1)).tolist()
        [1, 3]
    """

    k: int
    sensitivity: float
    epsilon: float | None = None
    epsilon_per_pick: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", validate.whole_number("k", self.k, at_least=1))
        object.__setattr__(self, "sensitivity", _in_range("sensitivity", self.sensitivity))
        if (self.epsilon is None) == (self.epsilon_per_pick is None):
            raise TypeError("give either epsilon, of the whole selection, or epsilon_per_pick")
        if self.epsilon is not None:
            total = validate.positive("epsilon", self.epsilon)
            per_pick = quotient_down(total, self.k)
        else:
            per_pick = validate.positive("epsilon_per_pick", self.epsilon_per_pick)
            total = product_up(per_pick, self.k)
        object.__setattr__(self, "epsilon", total)
        object.__setattr__(self, "epsilon_per_pick", _in_range("epsilon_per_pick", per_pick))

    @property
    def cost(self) -> tuple[float, float]:
        """(epsilon, delta) of one selection."""
        assert self.epsilon is not None
        return self.epsilon, 0.0

    @property
    def per_pick(self) -> float:
        """eps0, what one of the k picks costs, however the price was given."""
        return float(self._eps0)

    @property
    def rho(self) -> float:
        """The cost of one selection in zero-concentrated DP, k eps0^2 / 8, rounded up."""
        return fraction_up(self.k * self._eps0**2 / 8)

    @property
    def loss(self) -> tuple[BoundedRangeDP, ...]:
        """One selection for `hushvec.accounting.compose`: its k picks, each of bounded range eps0."""
        return (BoundedRangeDP(epsilon=self.per_pick),) * self.k

    @property
    def noise_deviation(self) -> float:
        """Standard deviation of the noise in units of a score: pi / sqrt(6) * 2 sensitivity / eps0."""
        return math.pi / math.sqrt(6) / float(self._factor)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a selection costs and how much noise decides it."""
        return (
            f"Gumbel top-k, k = {self.k:,}, sensitivity of a score {self.sensitivity:g}, epsilon a pick {float(self._eps0):g}",
            f"one selection costs epsilon = {self.cost[0]:g}, delta = 0, or rho = {self.rho:g}",
            f"the noise has the standard deviation {self.noise_deviation:.3g} in units of a score",
        )

    def select(self, scores: Any, *, generator: _core.Generator | None = None) -> NDArray[np.int64]:
        """The indices of the k selected candidates, the largest noisy score first: int64 (k,), or (rows, k) for rows.

        Args:
            scores: one score a candidate, or rows of them: an array of float64, float32 or float16, taken as exact numbers, or of
                integers up to 2^53; at most 2^40 (2^38 with AES-256). Each row is a selection of its own and costs `cost`; a person
                who moves scores in several rows pays for each.
            generator: a `Generator`; None for the one of the process.

        Guarantees:
            Those of the class for each row; the same key stream selects the same on every backend and any number of threads.
        """
        source = require_generator(generator)
        given = np.asarray(scores)
        if given.ndim not in (1, 2):
            raise ValueError(f"scores must have one or two dimensions, got {given.ndim}")
        most = _MOST_SAMPLES[source.cipher]
        if given.size > most:
            raise ValueError(f"scores must be at most 2^{most.bit_length() - 1} for {source.cipher}, got {given.size}")
        rows = _copied_as_floats(np.atleast_2d(given))
        indices, undecided, stream = _core.gumbel_top_k(rows, self.k, float(self._eps0), self.sensitivity, source)
        for row, candidates in undecided:
            indices[row] = self._settled(rows, row, candidates, stream)
        return indices if given.ndim == 2 else indices[0]

    def _settled(self, rows: NDArray[Any], row: int, candidates: list[int], stream: object) -> list[int]:
        signals = {candidate: self._factor * Fraction(float(rows[row, candidate])) for candidate in candidates}
        first = row * rows.shape[1]
        return best(signals, self.k, lambda candidate, step: _known_bits(stream, first + candidate, step))

    @property
    def _eps0(self) -> Fraction:
        assert self.epsilon_per_pick is not None
        return Fraction(self.epsilon_per_pick)

    @property
    def _factor(self) -> Fraction:
        return self._eps0 / (2 * Fraction(self.sensitivity))


def _known_bits(stream: object, sample: int, step: int) -> int:
    """The first 64 + 512 step bits of a sample's uniform, as a whole number."""
    lane = sample // _GROUP_SAMPLES * _LANES + sample % _LANES
    word = sample % _GROUP_SAMPLES // _LANES
    bits = 0
    for domain in (_HIGH_DOMAIN, _LOW_DOMAIN):
        bits = bits << _WORD_BITS | _core.lane_block(stream, domain, lane)[word]
    for earlier in range(step):
        for extension in _core.stream_block(stream, _EXTENSION_DOMAIN, (sample << _STEP_INDEX_BITS) + earlier):
            bits = bits << _WORD_BITS | extension
    return bits


def _copied_as_floats(scores: NDArray[Any]) -> NDArray[Any]:
    """The same numbers in a C-contiguous float array of their own: scores are read several times, and the caller's may change."""
    kind, size = scores.dtype.kind, scores.dtype.itemsize
    if kind == "f" and size <= 8:
        return np.array(scores, dtype=np.float64 if size == 8 else np.float32, order="C")
    if kind in "iu":
        own = np.array(scores, order="C")
        if own.size and max(int(own.max()), -int(own.min())) > _LARGEST_WHOLE:
            raise ValueError("scores of an integer dtype must be at most 2^53 in magnitude: they would round in float64")
        return own.astype(np.float64)
    raise TypeError(f"scores must be floats of at most 64 bits or integers, got {scores.dtype}")


def _in_range(name: str, value: Any) -> float:
    converted = validate.positive(name, value)
    if not validate.SMALLEST_NORM <= converted <= validate.LARGEST_NORM:
        raise ValueError(f"{name} must be in [2^-100, 2^100], got {converted!r}")
    return converted


# The float64 brackets of the core decide nearly every row. This settles the rest exactly, with more bits of each uniform.


class Bracket(NamedTuple):
    """A noisy score lies in [low, high]; an end may be infinite."""

    low: Fraction | float
    high: Fraction | float


def noisy_bracket(signal: Fraction, prefix: int, bits: int) -> Bracket:
    """signal - ln(-ln u) for every u in [prefix, prefix + 1] / 2^bits.

    With P digits, e = -ln u is in [2^-bits, bits ln 2] and has a relative error of at most 10^(1-P); -ln e takes that over and rounds
    by 10^(1-P) of itself. Together (1.1 + bits ln 2) 10^(1-P), below bits 10^(1-P). u itself is exact: it has at most `bits` digits.
    """
    context = Context(prec=bits + _GUARD_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
    margin = Fraction(bits, 10 ** (context.prec - 1))

    def at(numerator: int) -> Fraction:
        u = context.divide(Decimal(numerator), Decimal(1 << bits))
        return signal - Fraction(context.ln(context.minus(context.ln(u))))

    low = at(prefix) - margin if prefix > 0 else -math.inf
    high = at(prefix + 1) + margin if prefix + 1 < 1 << bits else math.inf
    return Bracket(low, high)


def best(signals: Mapping[int, Fraction], picks: int, known_bits: Callable[[int, int], int]) -> list[int]:
    """The `picks` candidates with the largest signal + Gumbel noise, the largest first.

    known_bits(candidate, step) are the first 64 + 512 step bits of its uniform.
    """
    contest = dict(signals)
    for step in range(LAST_STEP + 1):
        bits = FIRST_BITS + STEP_BITS * step
        brackets = {candidate: noisy_bracket(signal, known_bits(candidate, step), bits) for candidate, signal in contest.items()}
        lowest_best = sorted((bracket.low for bracket in brackets.values()), reverse=True)[picks - 1]
        contest = {candidate: signal for candidate, signal in contest.items() if brackets[candidate].high >= lowest_best}
        ranked = sorted(contest, key=lambda candidate: brackets[candidate].low, reverse=True)
        if _is_decided([brackets[candidate] for candidate in ranked], picks):
            return ranked[:picks]
    raise RuntimeError("65,536 steps of 512 bits did not decide an order: the key stream repeats itself")


def _is_decided(ranked: list[Bracket], picks: int) -> bool:
    """Each of the first `picks` brackets lies above all that follow it."""
    highest_behind: Fraction | float = -math.inf
    for place in range(len(ranked) - 1, -1, -1):
        if place < picks and not (place == len(ranked) - 1 or ranked[place].low > highest_behind):
            return False
        highest_behind = max(highest_behind, ranked[place].high)
    return True
