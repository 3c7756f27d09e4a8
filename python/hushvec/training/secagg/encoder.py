"""`Encoder`: the distributed discrete Gaussian mechanism, for sums by secure aggregation, that of Flower included."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, number, plural, shown
from hushvec._util.rounding import up
from hushvec.accounting import ADJACENCIES, ZeroConcentratedDP
from hushvec.extend import Budget, entry_of_charge, require_budget, require_secret_key
from hushvec.noise import clip, discrete_gaussian, gaussian_sigma
from hushvec.training.secagg import bounds

MOST_BITS = 32
_MOST_DIMENSION, _MOST_CLIENTS = 2**30, 2**24
_MOST_SQUARE = 2**60  # of a rounded vector: its square is an exact int64
_STEPS = 32  # scales tried in an octave

NOTES = (
    "secure aggregation is assumed: the server and the other clients see nothing of a client but the sum modulo 2^bits of all that "
    "answered, once in a round",
    "clients follow the protocol; those that share what they know with the server know their own noise: count them as missing",
    "the noise of missing clients is missing: the claim is for at least clients - dropouts answers, which is to be the threshold of "
    "the secure aggregation",
)


@shown
@dataclass(frozen=True, kw_only=True)
class SumGuarantee:
    """What an `Encoder` claims, and under which conditions. `print` shows it in words.

    Args:
        epsilon, delta, adjacency: for all rounds together, with as many clients missing as `dropouts` says.
        epsilon_of_missing: the same with 0, 1, ... dropouts of them missing.
        rho: of one round in zero-concentrated DP, with dropouts missing.
        rounds, clients, dropouts, dimension, clip_norm, bits: as given.
        scale: whole numbers of an encoding to one unit of the vector.
        square_norm: the largest squared L2 norm of a client's whole numbers before the noise.
        sigma: of one client's share of the noise, in whole numbers.
        tau: of the theorem, with dropouts missing.
        max_sum_norm: of the sum of all clipped vectors; the two numbers below are for sums that are not longer.
        wrap_probability: at least the probability that the sum of a round leaves the modulus.
        error_ratio: mean squared error of the mean over that of a trusted server's Gaussian with the same epsilon and delta, with
            what wrapping adds at most.
        notes: conditions, one sentence each.
    """

    epsilon: float
    delta: float
    adjacency: str
    epsilon_of_missing: tuple[float, ...]
    rho: float
    rounds: int
    clients: int
    dropouts: int
    dimension: int
    clip_norm: float
    bits: int
    scale: float
    square_norm: int
    sigma: float
    tau: float
    max_sum_norm: float
    wrap_probability: float
    error_ratio: float
    notes: tuple[str, ...] = NOTES

    @property
    def loss(self) -> ZeroConcentratedDP:
        """The privacy loss of one round, for `hushvec.accounting.compose`."""
        return ZeroConcentratedDP(rho=self.rho, adjacency=self.adjacency)

    def as_dict(self) -> dict[str, Any]:
        """The fields, in types that strict JSON has."""
        return {**asdict(self), "epsilon_of_missing": list(self.epsilon_of_missing), "notes": list(self.notes)}

    def _sheet(self) -> Sheet:
        claim = f"({at_least(self.epsilon)}, {at_least(self.delta)})-DP, {self.adjacency}"
        facts = (
            ("claim", f"{claim}, for {plural(self.rounds, 'round')}, with up to {self.dropouts} of {self.clients} clients missing"),
            ("if all answer", f"epsilon {at_least(self.epsilon_of_missing[0])}"),
            ("vector", f"{plural(self.dimension, 'element')}, clipped to length {number(self.clip_norm)} (L2)"),
            ("whole numbers", f"modulo 2^{self.bits}, {number(self.scale)} to one unit"),
            ("noise", f"sigma {number(self.sigma)} of each client, in whole numbers"),
            ("sum wraps", f"with probability {at_least(self.wrap_probability)} at most, in a round"),
            ("sums planned for", f"up to length {number(self.max_sum_norm)} (L2), before the noise"),
            ("error", f"{self.error_ratio:.4f} times that of a trusted server, mean squared"),
        )
        return Sheet("Guarantee of a secure sum", (*facts, *(("note", note) for note in self.notes)))


class _Plan(NamedTuple):
    scale: float
    square_norm: int
    sigma: float  # infinite where nothing fits


class Encoder:
    """Vectors as whole numbers modulo 2^bits, with noise, for a sum by secure aggregation. Made alike on all clients and the server.

    Args:
        dimension: length of a vector, at most 2^30. An encoding has the next power of two.
        clip_norm: C in [2^-100, 2^100], the largest L2 norm of a vector; longer ones are scaled down to it.
        bits: of the modulus, in [3, 32]. With them comes the scale: about the one of the smallest `error_ratio`.
        clients: n, how many encode in a round.
        epsilon, delta: > 0 and in (0, 1), for all rounds together.
        rounds: how many sums are released with this noise, at most.
        dropouts: m < n, how many may be missing, or share what they know with the server. The noise is enough without theirs.
        adjacency: "add-remove": a client sends its vector or a vector of zeros, with its noise. "replace-one": any other vector.
        max_wrap_probability: in (0, 1), of a round: the scale is the largest one that keeps to it. None: the scale of the smallest
            error, in which wrapped sums are counted.
        max_sum_norm: the largest L2 norm of the sum of all clipped vectors that the scale makes room for; None: clients clip_norm,
            which no sum exceeds. A public guess, as of vectors that point in many directions: it needs fewer bits. Sums that are
            longer wrap more often.
        public_seed: >= 0 and below 2^64, chooses the signs of the rotation; chosen without looking at the vectors.

    Raises:
        TypeError, ValueError: an argument of the wrong kind or out of its range; too few bits for these clients.

    Guarantees:
        Whoever sees nothing but the sums modulo 2^bits of all clients that answer, n - m at least in each round, sees an (epsilon,
        delta)-DP release under this adjacency. It rests on the whole numbers alone, whose norm is checked exactly, and on the exact
        law of the noise: floating point, the scale, wrapped sums, a wrong max_sum_norm and the seed cannot weaken it.

    Edge cases:
        A wrapped sum is wrong by a multiple of 2^bits in a coordinate of the rotated vector. How long an encoding takes depends a
        little on the vector, and is not covered.

    Reference:
        Kairouz, Liu, Steinke (2021), "The distributed discrete Gaussian mechanism for federated learning with secure aggregation",
        theorem 1 and algorithms 1 and 2; docs/proofs/secagg.md says what differs.

    Example:
        >>> import numpy as np
        >>> from hushvec.secagg import Encoder
        >>> encoder = Encoder(dimension=100, clip_norm=1.0, bits=16, clients=10, epsilon=2.0, delta=1e-5)
        >>> total = sum(encoder.encode(np.full(100, 0.1)).astype(np.int64) for _ in range(10)) % 2**16
        >>> encoder.decode(total).shape, encoder.guarantee.error_ratio < 1.01
        ((100,), True)
    """

    def __init__(
        self, *, dimension: int, clip_norm: float, bits: int, clients: int, epsilon: float, delta: float, rounds: int = 1,
        dropouts: int = 0, adjacency: str = "add-remove", max_wrap_probability: float | None = None,
        max_sum_norm: float | None = None, public_seed: int = 0,
    ) -> None:
        self.dimension = validate.whole_number("dimension", dimension, at_least=1, at_most=_MOST_DIMENSION)
        self.clip_norm, self.delta = validate.clip_norm(clip_norm), validate.delta(delta)
        self.bits = validate.whole_number("bits", bits, at_least=3, at_most=MOST_BITS)
        self.clients = validate.whole_number("clients", clients, at_least=1, at_most=_MOST_CLIENTS)
        self.rounds = validate.whole_number("rounds", rounds, at_least=1)
        self.dropouts = validate.whole_number("dropouts", dropouts, at_least=0, at_most=self.clients - 1)
        self.adjacency = validate.choice("adjacency", adjacency, ADJACENCIES)
        target, wraps = validate.positive("epsilon", epsilon), max_wrap_probability
        if wraps is not None:
            wraps = validate.probability("max_wrap_probability", wraps)
        most = self.clients * self.clip_norm
        self.max_sum_norm = most if max_sum_norm is None else min(most, validate.positive("max_sum_norm", max_sum_norm))
        seed = validate.whole_number("public_seed", public_seed, at_least=0, at_most=2**64 - 1)
        validate.rounding_to_nearest()
        self.length = 1 << (self.dimension - 1).bit_length()
        self._times = 4 if self.adjacency == "replace-one" else 1
        self.scale, self.square_norm, self.sigma = self._best_plan(target, wraps)
        self._central = float(gaussian_sigma(target, self.delta, 1.0))
        digits = hashlib.shake_256(b"hushvec.secagg signs" + seed.to_bytes(8, "big")).digest(-(-self.dimension // 8))
        self._signs = 1 - 2 * np.unpackbits(np.frombuffer(digits, np.uint8), count=self.dimension).astype(np.int8)

    @classmethod
    def choose(cls, *, max_error_ratio: float = 1.1, **terms: Any) -> Encoder:
        """The encoder with the fewest bits whose mean squared error is at most so many times that of a trusted server's Gaussian.

        Args:
            max_error_ratio: > 1.
            terms: arguments of `Encoder` without bits.

        Raises:
            ValueError: 32 bits are too few; whatever `Encoder` refuses.

        Example:
            >>> from hushvec.secagg import Encoder
            >>> Encoder.choose(dimension=1000, clip_norm=1.0, clients=100, epsilon=2.0, delta=1e-5).bits
            12
        """
        ratio = validate.number("max_error_ratio", max_error_ratio)
        if ratio <= 1:
            raise ValueError(f"max_error_ratio must be > 1, got {ratio!r}")
        found, low = cls(bits=MOST_BITS, **terms), 2
        if found.error_ratio > ratio:
            raise ValueError(f"max_error_ratio must be >= {found.error_ratio:.6g} with these clients, got {ratio!r}")
        while found.bits - low > 1:
            middle = (found.bits + low) // 2
            try:   # what 32 bits accept is refused for their number alone
                tried = cls(bits=middle, **terms)
                low, found = (low, tried) if tried.error_ratio <= ratio else (middle, found)
            except ValueError:
                low = middle
        return found

    @property
    def error_ratio(self) -> float:
        """As in `SumGuarantee`, with all clients answering, and rounding and wrapping at their worst."""
        error = sum(self._errors(self.scale, self.sigma)) / self.scale**2
        return error / (self._times * self.rounds * (self.clip_norm * self._central) ** 2)

    @property
    def wrap_probability(self) -> float:
        """As in `SumGuarantee`."""
        return self._sum(self.scale, self.sigma).wrap_probability

    @property
    def guarantee(self) -> SumGuarantee:
        """The claim, what it follows from, and its conditions."""
        by_missing = tuple(self.epsilon_with(missing) for missing in range(self.dropouts + 1))
        known = {*vars(self), "error_ratio", "wrap_probability"}
        given = {name: getattr(self, name) for name in SumGuarantee.__dataclass_fields__ if name in known}
        shares = self.clients - self.dropouts
        return SumGuarantee(
            **given, epsilon=max(by_missing), epsilon_of_missing=by_missing,
            rho=bounds.rho(self._times * self.square_norm, self.sigma, shares, self.length), tau=bounds.tau(self.sigma, shares),
        )

    def epsilon_with(self, missing: int, *, rounds: int | None = None) -> float:
        """The epsilon of all rounds, or of so many, when this many clients' noise is missing or known: at most n - 1.

        Beyond `dropouts` it is larger than what was asked for.
        """
        shares = self.clients - validate.whole_number("missing", missing, at_least=0, at_most=self.clients - 1)
        count = self.rounds if rounds is None else validate.whole_number("rounds", rounds, at_least=1)
        return bounds.epsilon(self.delta, self._times * self.square_norm, self.sigma, shares, self.length, count)

    def encode(self, vector: Any, *, budget: Budget | None = None, generator: _core.Generator | None = None) -> NDArray[np.uint32]:
        """One client's vector in one round, as whole numbers in [0, 2^bits).

        Args:
            vector: what numpy makes a vector of `dimension` finite numbers of.
            budget, generator: as for `hushvec.federated.clip_and_noise_update`; the budget is this client's, and pays for one round.

        Returns:
            A new array of uint32, of a power of two of elements. Alone it is no private release: give it to the secure aggregation
            of one round and nothing else.

        Raises:
            ValueError: another shape, NaN or Inf: nothing is charged.
            PrivacyBudgetExhaustedError: too little of the budget is left.
        """
        source, row = require_generator(generator), np.asarray(vector)
        if row.dtype.kind not in "fiu":
            raise TypeError(f"vector must be numbers, got {row.dtype}")
        if row.shape != (self.dimension,):
            raise ValueError(f"vector must have shape ({self.dimension},), got {row.shape}")
        rotated = np.zeros(self.length)
        rotated[: self.dimension] = clip(row.astype(np.float64), self.clip_norm) * self._signs
        if budget is not None:
            require_budget(budget)
            require_secret_key(source)
            self._charge(budget)
        _core.hadamard_transform(rotated)
        whole = self._rounded(rotated * (self.scale / math.sqrt(self.length)), source)
        whole += discrete_gaussian(self.length, self.sigma, generator=source)
        encoding: NDArray[np.uint32] = (whole & (2**self.bits - 1)).astype(np.uint32)
        return encoding

    def decode(self, total: Any, *, clients: int | None = None) -> NDArray[np.float64]:
        """The mean of the vectors of all clients that answered, with noise.

        Args:
            total: the sum of their encodings, whole numbers of any integer dtype, modulo 2^bits or not.
            clients: how many answered, in [n - dropouts, n]; n if None.

        Raises:
            TypeError, ValueError: what is no vector of whole numbers of the length of an encoding; too few clients.
        """
        answered = self.clients if clients is None else clients
        answered = validate.whole_number("clients", answered, at_least=self.clients - self.dropouts, at_most=self.clients)
        sums = np.asarray(total)
        if sums.dtype.kind not in "iu":
            raise TypeError(f"total must be whole numbers, got {sums.dtype}")
        if sums.shape != (self.length,):
            raise ValueError(f"total must have shape ({self.length},), got {sums.shape}")
        half = 2 ** (self.bits - 1)
        centered = (((sums.astype(np.int64) + half) & (2 * half - 1)) - half).astype(np.float64)
        _core.hadamard_transform(centered)
        mean: NDArray[np.float64] = centered[: self.dimension] * self._signs / (self.scale * math.sqrt(self.length) * answered)
        return mean

    def _best_plan(self, target: float, wraps: float | None) -> _Plan:
        """That of the largest scale that wraps seldom enough, or of the one of the smallest error."""
        most_rho = bounds.rho_for(target, self.delta)

        def plan(step: int) -> _Plan:
            return self._plan(math.ldexp(_STEPS + step % _STEPS, step // _STEPS - 5), target, most_rho)

        def wraps_seldom(one: _Plan) -> bool:
            if wraps is not None:
                return self._sum(one.scale, one.sigma).wrap_probability <= wraps
            noise, wrapping = self._errors(one.scale, one.sigma)
            return wrapping <= noise < math.inf

        first = _STEPS * (math.frexp(self.clip_norm)[1] * -1 - 20)
        low, high, best = first, first + _STEPS * 50, None
        while low < high:
            middle = (low + high) // 2
            tried = plan(middle)
            best, low, high = (tried, middle + 1, high) if wraps_seldom(tried) else (best, low, middle)
        if best is None:
            raise ValueError(f"bits must be larger for {plural(self.clients, 'client')} and this epsilon, got {self.bits}")
        if wraps is None:   # the smallest error is a little below the scale that wraps as much as it rounds and adds noise
            below = [best, *(plan(low - 1 - step) for step in range(2, _STEPS, 2))]
            best = min(below, key=lambda one: sum(self._errors(one.scale, one.sigma)) / one.scale**2)
        return best

    def _plan(self, scale: float, target: float, most_rho: float) -> _Plan:
        square = bounds.square_after_rounding(self._norm(self.clip_norm * scale), self.length, self.clients)
        if square >= _MOST_SQUARE:
            return _Plan(scale, square, math.inf)
        shares = self.clients - self.dropouts
        sigma = bounds.sigma_for(target, self.delta, self._times * square, shares, self.length, self.rounds, most_rho)
        return _Plan(scale, square, sigma)

    def _norm(self, scaled: float) -> float:
        return up(scaled * (1 + bounds.SLACK))

    def _sum(self, scale: float, sigma: float) -> bounds.ModularSum:
        norm, total = self._norm(self.clip_norm * scale), self._norm(self.max_sum_norm * scale)
        return bounds.ModularSum(self.bits, norm=norm, total=total, sigma=sigma, clients=self.clients, dimension=self.length)

    def _errors(self, scale: float, sigma: float) -> tuple[float, float]:
        """Mean squared errors of a coordinate of the sum, in whole numbers: of noise and rounding, and what wrapping adds at most."""
        return self.clients * (sigma**2 + 0.25), self._sum(scale, sigma).wrap_error

    def _charge(self, budget: Budget) -> None:
        shares = self.clients - self.dropouts
        cost = bounds.rho(self._times * self.square_norm, self.sigma, shares, self.length)
        entry_of_charge(budget, self.epsilon_with(self.dropouts, rounds=1), self.delta, cost, "secure aggregation, one round")

    def _rounded(self, scaled: NDArray[np.float64], source: _core.Generator) -> NDArray[np.int64]:
        """Whole numbers beside the scaled ones, unbiased, drawn again until their squared norm is within the bound, exactly."""
        # Their randomness is for the error alone: no claim of privacy rests on it.
        draws = np.random.default_rng(np.abs(discrete_gaussian(4, bounds.MOST_SIGMA, generator=source)))
        below = np.floor(scaled)
        above = scaled - below
        for _ in range(1000):   # each is accepted with a probability of at least n/(n + 1)
            near = below + (draws.random(len(scaled)) < above)
            if near @ near < 2.0 * _MOST_SQUARE:   # so that int64 holds the square
                whole = near.astype(np.int64)
                if int(whole @ whole) <= self.square_norm:
                    return whole
        raise RuntimeError("rounded vector must be within its norm bound, got 1000 that are not")


# ---- encodings through Flower's `SecAggPlusWorkflow` and `secaggplus_mod`, whose own quantization is then the identity ----

_MOST_FLOWER_BITS = 31  # the mod quantizes to int32


def workflow_arguments(encoder: Encoder) -> dict[str, Any]:
    """max_weight, clipping_range, quantization_range and modulus_range of Flower's `SecAggPlusWorkflow` for these encodings.

    Every client answers with num_examples = 1. docs/federated.md has both sides.

    Raises:
        ValueError: an encoder of 32 bits, which the mod's int32 cannot hold.

    Example:
        >>> from hushvec.secagg import Encoder, workflow_arguments
        >>> encoder = Encoder(dimension=100, clip_norm=1.0, bits=16, clients=10, epsilon=2.0, delta=1e-5)
        >>> workflow_arguments(encoder)["modulus_range"]
        65536
    """
    if encoder.bits > _MOST_FLOWER_BITS:
        raise ValueError(f"bits must be <= {_MOST_FLOWER_BITS} for Flower, got {encoder.bits}")
    most = 2**encoder.bits - 1
    return {"max_weight": 1.0, "clipping_range": most / 2, "quantization_range": most, "modulus_range": most + 1}


def to_parameters(encoder: Encoder, encoding: NDArray[np.uint32]) -> list[NDArray[np.float64]]:
    """The parameters that a client returns for its encoding."""
    return [encoding - workflow_arguments(encoder)["clipping_range"]]


def from_parameters(encoder: Encoder, parameters: list[NDArray[np.float64]], *, clients: int) -> NDArray[np.int64]:
    """The sum modulo 2^bits, for `Encoder.decode`, of what the workflow gives to `aggregate_fit` for this many clients.

    Raises:
        ValueError: what is no such sum of so many clients.
    """
    terms = workflow_arguments(encoder)
    weight = terms["modulus_range"] - clients   # that of all clients, as the workflow sees it: modulo 2^bits too
    sums = np.asarray(parameters[0]) * (weight / terms["quantization_range"]) + clients * terms["clipping_range"]
    whole = np.rint(sums)
    if not (np.abs(sums - whole) < min(0.25, clients**2 * 2.0 ** (encoder.bits - 48))).all():   # what averaging of floats may err by
        raise ValueError(f"parameters must be a sum of {clients} encodings, got other numbers")
    total: NDArray[np.int64] = whole.astype(np.int64) % int(terms["modulus_range"])
    return total
