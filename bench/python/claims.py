"""The speed that hushvec claims, by generation of CPUs, and whether one run bears each line out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Sequence

import peers
from hushvec_cases import SIGMA_NAME, clip_name, forced_name, noise_name, privunit_name
from rounds import Outcome

HOLDS = "holds"
DOES_NOT_HOLD = "does not hold"
NO_BOUND = "no bound known here"
NOT_MEASURED = "not measured"

ZEN4, ZEN5, INTEL, AVX2, ARM = "AMD Zen 4", "AMD Zen 5", "Intel Ice Lake or later", "AVX2", "ARM"
# What one thread's ports allow, in cycles for 32 samples, and where the count is from. A claim has no bound where nobody counted.
GENERATIONS = {
    ZEN4: "fill 53 (chacha20: 76), exact pass 61 (chacha20: 84): one port pair takes one zmm operation a cycle; machine code, counted",
    ZEN5: "fill 26.5, exact pass 29: two pipes take one zmm operation each; machine code, counted",
    INTEL: "exact pass 46: one port has VAES on zmm; llvm-mca",
    AVX2: "not counted",
    ARM: "not counted",
}
AVX512 = (ZEN4, ZEN5, INTEL)


def generation_of(machine: Mapping[str, Any], backend: str | None, aes: str | None) -> str:
    """The key of GENERATIONS for a machine of `machine.facts` and the instructions in use; other words where it has none."""
    vendor, (family, model, _) = machine["vendor"], machine["family_model_stepping"]
    if (backend, aes) == ("avx512", "vaes512"):
        if vendor == "GenuineIntel":
            return INTEL
        if (vendor, family) == ("AuthenticAMD", "25"):
            return ZEN4
        if (vendor, family) == ("AuthenticAMD", "26") and int(model) // 16 in (0, 1, 4):  # others have units of half the width
            return ZEN5
    return {"avx2": AVX2, "neon": ARM}.get(str(backend), f"{vendor or 'unknown CPU'} with {backend} and AES by {aes}")


@dataclass(frozen=True)
class Claim:
    """`above` / `below`, both in ns per item, against a bound.

    Attributes:
        text: the claim in words, without its number.
        workload: name of the workload it is read from.
        above: contestant in the numerator.
        below: contestant in the denominator; None compares `above`'s ns with the bound.
        bounds: the least value, or the largest where `at_most`, by the generations of CPUs that it is stated for.
        at_most: which side of the bound is good.
    """

    text: str
    workload: str
    above: str
    below: str | None
    bounds: Mapping[str, float]
    at_most: bool = False


@dataclass(frozen=True)
class Verdict:
    claim: Claim
    bound: float | None
    measured: float | None
    word: str
    reason: str = ""


def _aes_claims() -> list[Claim]:
    """AES-256 with AVX-512 and VAES: bounds for Zen 4, Zen 5 and Intel.

    Of 53 slots AES-256 takes 28 and the transform 25, 33 in the exact pass; the count for chacha20 is 0.66 ns of a fill at 3.6 GHz.
    Bounds for Zen 4 are those for Zen 5 times the ratio of the two counts (29 to 61, and 26.5 to 53), and beside chacha20 the ratio of
    its count and that of AES-256, with 15 cycles for norms on both sides.
    """
    fill, chacha20 = noise_name("aes256"), noise_name("chacha20")
    exact, exact_chacha20 = clip_name(True, "aes256"), clip_name(True, "chacha20")
    forced = [forced_name(fill, aes=aes) for aes in ("vaes256", "aesni")]
    rows, to_memory = "Exact clip-and-noise, aes256, 10,000 x 768", "Gaussian fill to memory, aes256"
    return [
        Claim(text, workload, above, below, dict(zip(AVX512, bounds)), at_most)
        for text, workload, above, below, bounds, at_most in (
            (f"{to_memory}, over {peers.MKL}", "gaussian_fill", peers.MKL, fill, (2.0, 4.0, 1.4), False),
            (f"{to_memory}, over chacha20", "gaussian_fill", chacha20, fill, (1.4, 2.5, 1.7), False),
            ("Gaussian fill in cache, aes256, over chacha20", "gaussian_fill_cached", chacha20, fill, (1.4, 2.5, 1.7), False),
            ("Exact clip-and-noise in cache, aes256, over chacha20",
             "clip_and_noise_cached", exact_chacha20, exact, (1.3, 2.7, 1.7), False),
            (f"{rows}, over chacha20", "clip_and_noise", exact_chacha20, exact, (1.3, 2.2, 1.5), False),
            (f"{rows}, over {peers.BLOCKS_MKL}", "clip_and_noise", peers.BLOCKS_MKL, exact, (2.0, 4.2, 2.2), False),
            (f"{rows}, over {peers.TORCH_IN_PLACE}", "clip_and_noise", peers.TORCH_IN_PLACE, exact, (3.3, 7.0, 5.5), False),
            (f"{rows}, cost over memcpy of the same arrays", "clip_and_noise", exact, peers.MEMCPY, (5.9, 2.8, 3.0), True),
            (f"{to_memory}, AVX2 and VAES on ymm forced, over {peers.MKL}",
             "gaussian_fill", peers.MKL, forced[0], (1.3, 1.3, 1.0), False),
            (f"{to_memory}, AVX2 and AES-NI forced, over {peers.MKL}",
             "gaussian_fill", peers.MKL, forced[1], (1.0, 1.0, 1.0), False),
            (f"{rows}, cost over float grade", "clip_and_noise", exact, clip_name(False, "aes256"), (1.2, 1.2, 1.2), True),
            ("PrivUnitG, aes256, 10,000 x 384, cost over exact Gaussian",
             "clip_and_noise_384", privunit_name("aes256"), exact, (1.6, 1.6, 1.6), True),
            (f"{rows}, two threads over one",
             "clip_and_noise", exact, clip_name(True, "aes256", threads=2), (1.85, 1.85, 1.85), False),
        )
    ]


def _chacha_claims() -> list[Claim]:
    """ChaCha with AVX-512. On Intel MKL's generator takes what the ports allow for ChaCha20 alone; for Zen 5 nobody counted."""
    claims = []
    for workload, where in (("gaussian_fill", "to memory"), ("gaussian_fill_cached", "in cache")):
        text = f"Gaussian fill {where}, "
        for cipher, over_mkl, over_aes in (("chacha20", 1.4, 2.8), ("chacha12", 2.1, 4.0)):
            for peer, bound in ((peers.MKL, over_mkl), (peers.AES_RECIPE, over_aes)):
                claims.append(Claim(f"{text}{cipher}, over {peer}", workload, peer, noise_name(cipher), {ZEN4: bound}))
        claims.append(Claim(f"{text}chacha12, AVX2 forced, over {peers.MKL}",
                            workload, peers.MKL, forced_name(noise_name("chacha12")), {ZEN4: 1.0}))
    claims.append(Claim(f"Laplace fill, chacha20, over {peers.MKL}",
                        "laplace_fill", peers.MKL, noise_name("chacha20"), {ZEN4: 2.5}))
    workload, exact = "clip_and_noise", "Exact clip-and-noise, "
    blocks = (peers.BLOCKS_MKL, peers.BLOCKS_AES, peers.TORCH_IN_PLACE)
    for cipher, bounds, over_float in (("chacha20", (1.8, 3.0, 3.2), 1.14), ("chacha12", (2.3, 3.7, 4.0), 1.22)):
        ours = clip_name(True, cipher)
        claims += [Claim(f"{exact}{cipher}, over {peer}", workload, peer, ours, {ZEN4: bound}) for peer, bound in zip(blocks, bounds)]
        claims.append(Claim(f"{exact}{cipher}, cost over float grade",
                            workload, ours, clip_name(False, cipher), dict.fromkeys(AVX512, over_float), at_most=True))
    threads = clip_name(True, "chacha20"), clip_name(True, "chacha20", threads=2)
    return [*claims, Claim(f"{exact}chacha20, two threads over one", workload, *threads, dict.fromkeys(AVX512, 1.8))]


# One thread and float32 unless a line says otherwise.
CLAIMS: tuple[Claim, ...] = (
    *_aes_claims(),
    *_chacha_claims(),
    Claim("gaussian_sigma, ns per pair in an array",
          "calibrate", SIGMA_NAME, None, dict.fromkeys(GENERATIONS, 1_000.0), at_most=True),
)


def judge(claim: Claim, outcomes: Mapping[str, Outcome], generation: str) -> Verdict:
    """What this run says about one claim, on a CPU of this generation."""
    bound = claim.bounds.get(generation)
    outcome = outcomes.get(claim.workload)
    if outcome is None:
        return Verdict(claim, bound, None, NOT_MEASURED, "workload not part of this run")
    for name in (claim.above, claim.below):
        if name is not None and name not in outcome.series:
            return Verdict(claim, bound, None, NOT_MEASURED, f"{name}: {outcome.reason(name)}")
    if claim.below is None:
        measured = outcome.series[claim.above].median
    else:
        measured = outcome.ratio(claim.above, claim.below)
    if bound is None:
        return Verdict(claim, None, measured, NO_BOUND)
    holds = measured <= bound if claim.at_most else measured >= bound
    return Verdict(claim, bound, measured, HOLDS if holds else DOES_NOT_HOLD)


def summary(verdicts: Sequence[Verdict]) -> str:
    """How many of the claims that have a bound here hold, and the texts of those that do not."""
    judged = [verdict for verdict in verdicts if verdict.word in (HOLDS, DOES_NOT_HOLD)]
    failing = [verdict.claim.text for verdict in judged if verdict.word == DOES_NOT_HOLD]
    figures = sum(verdict.word == NO_BOUND for verdict in verdicts)
    lines = [f"{len(judged) - len(failing)} of the {len(judged)} claims with a bound for this CPU hold; {figures} have none."]
    return "\n".join(lines + [f"  does not hold: {text}" for text in failing])
