"""What is timed, by name, and what is aimed at: no imports but the standard library's, so that a plan needs no device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

ROUNDS = (20, 12, 8)
DIMENSIONS = (384, 768, 1024, 1536)
FILL_DTYPES = ("float32", "bfloat16")
FUSED_DTYPES = ("float32", "bfloat16", "float16")
RELEASED_DTYPES, RELEASED_DIMENSIONS = ("float32", "bfloat16"), (384, 768)  # of the laws without a peer
EPSILON, LABELS, CODES = 10.0, 1000, 256
# The cases of test_launchers. The last settles millions of samples, one thread each: under compute-sanitizer it takes longer than a call.
LAUNCHERS = ("rows", "half_words", "clips", "privunit", "l2_laplace", "fills", "bad_rows", "streams", "sums", "correlated_sums", "codes", "responses", "int8", "open_samples")
SANITIZED = LAUNCHERS[:-1]
PEER_DIMENSION = 768  # where torch, new arrays and graph replays are timed too
SMALL = (8, 768)

COPY, FILL = "device copy", "plain fill"
REHEARSAL = "a rehearsal on the CPU: it shows that the programs run, and no number in it is a figure"
CUPY_GENERATORS = ("XORWOW", "Philox4x3210")
TORCH_FUSED = ("torch eager", "torch in place", "torch.compile")


def fill(law: str, dtype: str, rounds: int) -> str:
    return f"{law} fill, {dtype}, {rounds} rounds"


def torch_fill(dtype: str) -> str:
    return f"torch.randn, {dtype}"


def cupy_fill(generator: str) -> str:
    return f"cupy {generator}, float32"


def fused(grade: str, dtype: str, d: int, rounds: int, how: str = "") -> str:
    return f"{grade} clip and noise, {dtype}, d = {d}, {rounds} rounds{how and ', ' + how}"


def torch_fused(peer: str, dtype: str) -> str:
    return f"{peer}, {dtype}, d = {PEER_DIMENSION}"


def privunit(dtype: str, d: int, rounds: int) -> str:
    return f"PrivUnitG, {dtype}, d = {d}, {rounds} rounds"


def l2_laplace(dtype: str, d: int, rounds: int) -> str:
    return f"clip and L2-Laplace noise, {dtype}, d = {d}, {rounds} rounds"


def response(rounds: int) -> str:
    return f"randomized response, int64, {rounds} rounds"


def nearest(dtype: str, d: int) -> str:
    return f"nearest of {CODES} codes, {dtype}, d = {d}"


NEW_ARRAY, REPLAYED = "new array", "graph replay"
SUM = "clip, sum and noise, float32, 12 rounds"
BANDS = (1, 4, 8)


def correlated(bands: int) -> str:
    return f"release of a sum, noise of {bands} step{'s' * (bands > 1)}, 12 rounds"


def all_names() -> list[str]:
    """Every timing of a full run, in order."""
    names = [COPY, FILL]
    for dtype in FILL_DTYPES:
        names += [fill(law, dtype, rounds) for law in ("gaussian", "laplacian") for rounds in ROUNDS]
        names.append(torch_fill(dtype))
    for dtype in FUSED_DTYPES:
        for d in DIMENSIONS:
            for rounds in ROUNDS:
                names += [fused(grade, dtype, d, rounds) for grade in ("exact", "float")]
                if d == PEER_DIMENSION:
                    names += [fused("exact", dtype, d, rounds, how) for how in (NEW_ARRAY, REPLAYED)]
    for dtype in RELEASED_DTYPES:
        for d in RELEASED_DIMENSIONS:
            names += [name(dtype, d, rounds) for name in (privunit, l2_laplace) for rounds in ROUNDS]
            names.append(nearest(dtype, d))
    names += [response(rounds) for rounds in ROUNDS]
    names += [SUM, *map(correlated, BANDS), *(cupy_fill(generator) for generator in CUPY_GENERATORS)]
    return names + [torch_fused(peer, dtype) for dtype in FUSED_DTYPES for peer in TORCH_FUSED]


@dataclass(frozen=True)
class Aim:
    """Time per byte of `above` over that of `below`, against a bound: at least, or at most, so much.

    Bytes are the user's, each read and written once: a share of a ceiling, a speed-up over a peer, the cost of the exact grade
    and the number of reads of the input are all ratios of this kind.
    """

    text: str
    above: str
    below: str
    bound: float | None  # None: no aim for this device
    at_most: bool = False


@dataclass(frozen=True)
class Verdict:
    aim: Aim
    measured: float | None

    @property
    def word(self) -> str:
        if self.aim.bound is None:
            return "no aim"
        if self.measured is None:
            return "not measured"
        reached = self.measured <= self.aim.bound if self.aim.at_most else self.measured >= self.aim.bound
        return "reached" if reached else "not reached"


# Shares of the device copy, and of the plain fill, that the counts of instructions predict: the lower end of each range. Of the copy
# for float32 at 12 and 20 rounds and bfloat16 at 12, of the fill for float32 at 12.
PREDICTED = {"H100": (0.90, 0.62, 0.42, 0.46), "H200": (0.62, 0.43, 0.29, 0.32)}


def aims(device: str) -> list[Aim]:
    """Those of the device of that name; for another one the same ratios without a bound."""
    shares = next((shares for name, shares in PREDICTED.items() if re.search(rf"\b{name}\b", device)), None)
    if shares is None:
        return [replace(aim, bound=None) for aim in aims("H200")]
    of_12, of_20, of_bfloat16, of_fill = shares
    exact = {d: {rounds: fused("exact", "float32", d, rounds) for rounds in ROUNDS} for d in DIMENSIONS}
    d = PEER_DIMENSION
    return [
        *(Aim(f"share of the copy, float32, d = {d}, {rounds} rounds", COPY, exact[d][rounds], bound) for rounds, bound in ((12, of_12), (20, of_20))),
        Aim(f"share of the copy, bfloat16, d = {d}, 12 rounds", COPY, fused("exact", "bfloat16", d, 12), of_bfloat16),
        Aim("share of the plain fill, float32, 12 rounds", FILL, fill("gaussian", "float32", 12), of_fill),
        *(Aim(f"clip and noise over {peer}, {rounds} rounds", torch_fused(peer, "float32"), exact[d][rounds], bound)
          for peer, bound in (("torch eager", 3.0), ("torch.compile", 1.2)) for rounds in (20, 12)),
        *(Aim(f"exact over float grade, d = {d}, {rounds} rounds", exact[d][rounds], fused("float", "float32", d, rounds), 1.2, at_most=True)
          for rounds in ROUNDS),
        Aim("clip, sum and noise, in reads of its input", SUM, COPY, 2.2, at_most=True),
    ]  # fmt: skip


def kernel_aims(device: str) -> list[Aim]:
    """Those that time_kernels can judge: it knows neither torch nor sums."""
    return [aim for aim in aims(device) if aim.above != SUM and not aim.above.startswith("torch")]


def judge(aim: Aim, timings: Mapping[str, Mapping[str, Any]]) -> Verdict:
    if aim.above not in timings or aim.below not in timings:
        return Verdict(aim, None)
    per_byte = [timings[name]["median_ms"] / timings[name]["bytes"] for name in (aim.above, aim.below)]
    return Verdict(aim, per_byte[0] / per_byte[1])
