"""The speed that hushvec claims, as a list, and whether one run bears each line out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping

import peers
from hushvec_cases import SIGMA_NAME, clip_name, forced_name, noise_name
from rounds import Outcome

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_MEASURED = "not measured"

AVX512 = "avx512"


@dataclass(frozen=True)
class Claim:
    """`above` / `below`, both in ns per item, against a bound.

    Attributes:
        text: the claim in words, without its number.
        workload: name of the workload it is read from.
        above: contestant in the numerator.
        below: contestant in the denominator; None compares `above`'s ns with the bound.
        bound: the least value, or the largest where `at_most`.
        at_most: which side of the bound is good.
        backend: the active backend it is stated for; None where that plays no part.
    """

    text: str
    workload: str
    above: str
    below: str | None
    bound: float
    at_most: bool = False
    backend: str | None = AVX512


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    measured: float | None
    word: str
    reason: str = ""


def _fill_claims(workload: str, where: str) -> list[Claim]:
    lines = (
        (20, peers.MKL, 1.4),
        (20, peers.AES_RECIPE, 2.8),
        (12, peers.MKL, 2.1),
        (12, peers.AES_RECIPE, 4.0),
    )
    return [
        Claim(f"Gaussian fill {where}, {rounds} rounds, over {peer}",
              workload, peer, noise_name(rounds), bound)
        for rounds, peer, bound in lines
    ] + [
        Claim(f"Gaussian fill {where}, 12 rounds, AVX2 forced, over {peers.MKL}",
              workload, peers.MKL, forced_name(noise_name(12)), 1.0, backend=None)
    ]


def _clip_claims(workload: str) -> list[Claim]:
    over_peers = [
        Claim(f"Exact clip-and-noise, {rounds} rounds, over {peer}",
              workload, peer, clip_name(True, rounds), bound)
        for rounds, peer, bound in (
            (20, peers.BLOCKS_MKL, 1.8),
            (20, peers.BLOCKS_AES, 3.0),
            (20, peers.TORCH_IN_PLACE, 3.2),
            (12, peers.BLOCKS_MKL, 2.3),
            (12, peers.BLOCKS_AES, 3.7),
            (12, peers.TORCH_IN_PLACE, 4.0),
        )
    ]
    cost_of_exact = [
        Claim(f"Exact over float grade, {rounds} rounds",
              workload, clip_name(True, rounds), clip_name(False, rounds), bound, at_most=True)
        for rounds, bound in ((20, 1.14), (12, 1.22))
    ]
    threads = Claim("Exact clip-and-noise, 20 rounds, two threads over one",
                    workload, clip_name(True, 20), clip_name(True, 20, threads=2), 1.8)
    return [*over_peers, *cost_of_exact, threads]


# One thread, float32 and AVX-512 unless a line says otherwise.
CLAIMS: tuple[Claim, ...] = (
    *_fill_claims("gaussian_fill", "to memory"),
    *_fill_claims("gaussian_fill_cached", "in cache"),
    Claim(f"Laplace fill, 20 rounds, over {peers.MKL}",
          "laplace_fill", peers.MKL, noise_name(20), 2.5),
    *_clip_claims("clip_and_noise"),
    Claim("gaussian_sigma, ns per pair in an array",
          "calibrate", SIGMA_NAME, None, 1_000.0, at_most=True, backend=None),
)


def judge(claim: Claim, outcomes: Mapping[str, Outcome], active_backend: str | None) -> Verdict:
    """What this run says about one claim, with `active_backend` in use by our own process."""
    outcome = outcomes.get(claim.workload)
    if outcome is None:
        return Verdict(claim, None, NOT_MEASURED, "workload not part of this run")
    for name in (claim.above, claim.below):
        if name is not None and name not in outcome.series:
            return Verdict(claim, None, NOT_MEASURED, f"{name}: {outcome.reason(name)}")
    if claim.backend not in (None, active_backend):
        reason = f"stated for {claim.backend}, in use: {active_backend}"
        return Verdict(claim, None, NOT_MEASURED, reason)
    if claim.below is None:
        measured = outcome.series[claim.above].median
    else:
        measured = outcome.ratio(claim.above, claim.below)
    holds = measured <= claim.bound if claim.at_most else measured >= claim.bound
    return Verdict(claim, measured, HOLDS if holds else DOES_NOT_HOLD)
