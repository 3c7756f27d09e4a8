"""The speed that hushvec claims, as a list, and whether one run bears each line out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

import peers
from hushvec_cases import SIGMA_NAME, clip_name, forced_name, noise_name, privunit_name
from rounds import Outcome

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NOT_MEASURED = "not measured"
NOT_JUDGED = "not judged here"

AVX512 = "avx512"
VAES512 = "vaes512"

# As /proc/cpuinfo spells them.
AMD = "AuthenticAMD"
INTEL = "GenuineIntel"
VENDOR_NAMES = {AMD: "AMD", INTEL: "Intel"}


@dataclass(frozen=True)
class Host:
    """What decides which claims a run can judge.

    Attributes:
        vendor: of the CPU, as /proc/cpuinfo spells it; "" where unknown.
        backend: the instruction set that hushvec uses in this process, or None without hushvec.
        aes: the same for AES-256.
    """

    vendor: str
    backend: str | None
    aes: str | None

    @property
    def name(self) -> str:
        return VENDOR_NAMES.get(self.vendor, self.vendor or "unknown")


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
        aes: the active AES-256 it is stated for; None where that plays no part.
        vendor: of the CPUs that it is stated for; None for all.
    """

    text: str
    workload: str
    above: str
    below: str | None
    bound: float
    at_most: bool = False
    backend: str | None = AVX512
    aes: str | None = None
    vendor: str | None = None

    @property
    def stated_for(self) -> str:
        return "any" if self.vendor is None else VENDOR_NAMES[self.vendor]


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    measured: float | None
    word: str
    reason: str = ""


def _for_each_vendor(
    text: str, workload: str, above: str, below: str, amd: float, intel: float,
    *, at_most: bool = False, backend: str | None = AVX512, aes: str | None = VAES512,
) -> list[Claim]:
    return [
        Claim(text, workload, above, below, bound, at_most, backend, aes, vendor)
        for vendor, bound in ((AMD, amd), (INTEL, intel))
    ]


def _aes_claims() -> list[Claim]:
    """AES-256 with AVX-512 and VAES; bounds for AMD (Zen 4 or later), then Intel (Ice Lake or later)."""
    fill, chacha20 = noise_name("aes256"), noise_name("chacha20")
    exact, exact_chacha20 = clip_name(True, "aes256"), clip_name(True, "chacha20")
    forced = [forced_name(fill, aes=aes) for aes in ("vaes256", "aesni")]
    rows = "Exact clip-and-noise, aes256, 10,000 x 768"
    return [
        *_for_each_vendor(f"Gaussian fill to memory, aes256, over {peers.MKL}",
                          "gaussian_fill", peers.MKL, fill, 4.0, 1.4),
        *_for_each_vendor("Gaussian fill to memory, aes256, over chacha20",
                          "gaussian_fill", chacha20, fill, 2.5, 1.7),
        *_for_each_vendor("Gaussian fill in cache, aes256, over chacha20",
                          "gaussian_fill_cached", chacha20, fill, 2.5, 1.7),
        *_for_each_vendor("Exact clip-and-noise in cache, aes256, over chacha20",
                          "clip_and_noise_cached", exact_chacha20, exact, 2.7, 1.7),
        *_for_each_vendor(f"{rows}, over chacha20", "clip_and_noise", exact_chacha20, exact, 2.2, 1.5),
        *_for_each_vendor(f"{rows}, over {peers.BLOCKS_MKL}",
                          "clip_and_noise", peers.BLOCKS_MKL, exact, 4.2, 2.2),
        *_for_each_vendor(f"{rows}, over {peers.TORCH_IN_PLACE}",
                          "clip_and_noise", peers.TORCH_IN_PLACE, exact, 7.0, 5.5),
        *_for_each_vendor(f"{rows}, cost over memcpy of the same arrays",
                          "clip_and_noise", exact, peers.MEMCPY, 2.8, 3.0, at_most=True),
        *_for_each_vendor(f"Gaussian fill to memory, aes256, AVX2 and VAES on ymm forced, over {peers.MKL}",
                          "gaussian_fill", peers.MKL, forced[0], 1.3, 1.0, backend=None, aes=None),
        *_for_each_vendor(f"Gaussian fill to memory, aes256, AVX2 and AES-NI forced, over {peers.MKL}",
                          "gaussian_fill", peers.MKL, forced[1], 1.0, 1.0, backend=None, aes=None),
        *_for_each_vendor(f"{rows}, cost over float grade",
                          "clip_and_noise", exact, clip_name(False, "aes256"), 1.20, 1.20, at_most=True),
        *_for_each_vendor("PrivUnitG, aes256, 10,000 x 384, cost over exact Gaussian",
                          "clip_and_noise_384", privunit_name("aes256"), exact, 1.6, 1.6, at_most=True),
        Claim(f"{rows}, two threads over one",
              "clip_and_noise", exact, clip_name(True, "aes256", threads=2), 1.85, aes=VAES512),
    ]


def _chacha_fill_claims(workload: str, where: str) -> list[Claim]:
    lines = (
        ("chacha20", peers.MKL, 1.4),
        ("chacha20", peers.AES_RECIPE, 2.8),
        ("chacha12", peers.MKL, 2.1),
        ("chacha12", peers.AES_RECIPE, 4.0),
    )
    return [
        Claim(f"Gaussian fill {where}, {cipher}, over {peer}",
              workload, peer, noise_name(cipher), bound)
        for cipher, peer, bound in lines
    ] + [
        Claim(f"Gaussian fill {where}, chacha12, AVX2 forced, over {peers.MKL}",
              workload, peers.MKL, forced_name(noise_name("chacha12")), 1.0, backend=None)
    ]


def _chacha_clip_claims(workload: str) -> list[Claim]:
    over_peers = [
        Claim(f"Exact clip-and-noise, {cipher}, over {peer}",
              workload, peer, clip_name(True, cipher), bound)
        for cipher, peer, bound in (
            ("chacha20", peers.BLOCKS_MKL, 1.8),
            ("chacha20", peers.BLOCKS_AES, 3.0),
            ("chacha20", peers.TORCH_IN_PLACE, 3.2),
            ("chacha12", peers.BLOCKS_MKL, 2.3),
            ("chacha12", peers.BLOCKS_AES, 3.7),
            ("chacha12", peers.TORCH_IN_PLACE, 4.0),
        )
    ]
    cost_of_exact = [
        Claim(f"Exact clip-and-noise, {cipher}, cost over float grade",
              workload, clip_name(True, cipher), clip_name(False, cipher), bound, at_most=True)
        for cipher, bound in (("chacha20", 1.14), ("chacha12", 1.22))
    ]
    threads = Claim("Exact clip-and-noise, chacha20, two threads over one",
                    workload, clip_name(True, "chacha20"), clip_name(True, "chacha20", threads=2), 1.8)
    return [*over_peers, *cost_of_exact, threads]


# One thread and float32 unless a line says otherwise.
CLAIMS: tuple[Claim, ...] = (
    *_aes_claims(),
    *_chacha_fill_claims("gaussian_fill", "to memory"),
    *_chacha_fill_claims("gaussian_fill_cached", "in cache"),
    Claim(f"Laplace fill, chacha20, over {peers.MKL}",
          "laplace_fill", peers.MKL, noise_name("chacha20"), 2.5),
    *_chacha_clip_claims("clip_and_noise"),
    Claim("gaussian_sigma, ns per pair in an array",
          "calibrate", SIGMA_NAME, None, 1_000.0, at_most=True, backend=None),
)


def judge(claim: Claim, outcomes: Mapping[str, Outcome], host: Host) -> Verdict:
    """What this run says about one claim, on `host`."""
    if claim.vendor not in (None, host.vendor):
        return Verdict(claim, None, NOT_JUDGED, f"stated for {claim.stated_for}, this CPU: {host.name}")
    outcome = outcomes.get(claim.workload)
    if outcome is None:
        return Verdict(claim, None, NOT_MEASURED, "workload not part of this run")
    for name in (claim.above, claim.below):
        if name is not None and name not in outcome.series:
            return Verdict(claim, None, NOT_MEASURED, f"{name}: {outcome.reason(name)}")
    for stated, used in ((claim.backend, host.backend), (claim.aes, host.aes)):
        if stated not in (None, used):
            return Verdict(claim, None, NOT_MEASURED, f"stated for {stated}, in use: {used}")
    if claim.below is None:
        measured = outcome.series[claim.above].median
    else:
        measured = outcome.ratio(claim.above, claim.below)
    holds = measured <= claim.bound if claim.at_most else measured >= claim.bound
    return Verdict(claim, measured, HOLDS if holds else DOES_NOT_HOLD)


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many of the claims that this run could judge hold, and the texts of those that do not."""
    judged = [verdict for verdict in verdicts if verdict.word in (HOLDS, DOES_NOT_HOLD)]
    failing = [verdict.claim.text for verdict in judged if verdict.word == DOES_NOT_HOLD]
    lines = [f"{len(judged) - len(failing)} of the {len(judged)} claims judged here hold."]
    return "\n".join(lines + [f"  does not hold: {text}" for text in failing])
