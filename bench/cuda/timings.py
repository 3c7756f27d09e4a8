"""Times hushvec and its peers on the device, and compares CPU and GPU bits; prints one JSON object as its last line.

Runs as a process of its own, with the package under test on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import torch
from table import summary

import hushvec as hv
from hushvec import _cuda_backend

CLIP_NORM, SIGMA = 1.0, 0.6
DIMENSIONS = (384, 768, 1024, 1536)
ROUNDS = (20, 12, 8)
BUFFERS = 2  # each far larger than the second-level cache, so that a call finds nothing of the one before
WARM_UP = 3


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Clock:
    """CUDA events around each call, after a warm-up."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def time(self, calls: list[Callable[[], Any]]) -> dict[str, float]:
        """The calls in turn: they do the same to different buffers."""
        for i in range(WARM_UP):
            calls[i % len(calls)]()
        marks = []
        for i in range(self._repeats):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            calls[i % len(calls)]()
            stop.record()
            marks.append((start, stop))
        torch.cuda.synchronize()
        return summary([start.elapsed_time(stop) for start, stop in marks])


def rows_of(size: int, d: int, dtype: torch.dtype) -> torch.Tensor:
    """About `size` bytes of random rows with norms on both sides of CLIP_NORM."""
    rows = -(-size // (d * dtype.itemsize))
    x = torch.empty(rows, d, dtype=dtype, device="cuda")
    for first in range(0, rows, 1 << 16):  # in pieces: float32 scratch of the whole would not be needed for 16-bit rows
        piece = torch.randn(min(1 << 16, rows - first), d, device="cuda")
        norm = torch.empty(len(piece), 1, device="cuda").uniform_(-1.6, 1.6).exp_()
        x[first : first + len(piece)] = (piece * (norm / piece.norm(dim=1, keepdim=True))).to(dtype)
    return x


def eager(x: torch.Tensor) -> torch.Tensor:
    """Clip and noise as one writes it in torch; neither secure nor exact."""
    scale = (CLIP_NORM / x.float().norm(dim=1, keepdim=True)).clamp(max=1.0).to(x.dtype)
    return x * scale + SIGMA * torch.randn_like(x)


def bits_equal(quick: bool) -> list[str]:
    """Names of the exact calls whose CPU and GPU bits differ."""
    wrong = []
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for d in (1, 100, 384, 768, 1001, 1536):
            rows = max(8, (1 << (18 if quick else 21)) // d)
            x = rows_of(rows * d * dtype.itemsize, d, dtype)
            for mechanism in ("gaussian", "laplacian"):
                host, device = (
                    hv.privatize(where, epsilon=8.0, mechanism=mechanism, generator=hv.Generator.unsafe_seeded(d)).values
                    for where in (x.cpu(), x)
                )
                if not torch.equal(host.view(torch.uint8), device.cpu().view(torch.uint8)):
                    wrong.append(f"{mechanism} {dtype} d = {d}")
    return wrong


def ceilings(timings: dict[str, Any], clock: Clock, size: int) -> None:
    a = [torch.randn(size // 4, device="cuda") for _ in range(BUFFERS)]
    b = [torch.empty_like(t) for t in a]
    timings["device copy"] = {
        **clock.time([lambda f=f, t=t: t.copy_(f) for f, t in zip(a, b)]), "bytes": 2 * size, "samples": size // 4
    }  # fmt: skip
    timings["plain fill"] = {**clock.time([lambda t=t: t.fill_(1.0) for t in b]), "bytes": size, "samples": size // 4}


def fills(timings: dict[str, Any], clock: Clock, size: int) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        outs = [torch.empty(size // dtype.itemsize, dtype=dtype, device="cuda") for _ in range(BUFFERS)]
        facts = {"bytes": size, "samples": outs[0].numel(), "ceiling": "plain fill"}
        short = str(dtype).removeprefix("torch.")
        for rounds in ROUNDS:
            generator = hv.Generator(rounds=rounds)
            for name, fill in (("gaussian", hv.gaussian_noise), ("laplace", hv.laplacian_noise)):
                calls = [lambda t=t, fill=fill: fill(t.shape, SIGMA, out=t, generator=generator) for t in outs]
                timings[f"{name} fill, {short}, {rounds} rounds"] = {**clock.time(calls), **facts}
        timings[f"torch normal_, {short}"] = {**clock.time([lambda t=t: t.normal_() for t in outs]), **facts}
    cupy_fills(timings, clock, size)


def cupy_fills(timings: dict[str, Any], clock: Clock, size: int) -> None:
    try:
        import cupy
    except ImportError as error:
        say(f"cupy left out: {error}")
        return
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    for bits in (cupy.random.XORWOW, cupy.random.Philox4x3210):
        generator = cupy.random.Generator(bits(1))
        out = cupy.empty(size // 4, cupy.float32)

        def fill(generator: Any = generator, out: Any = out) -> None:
            with stream:
                generator.standard_normal(dtype=cupy.float32, out=out)

        timings[f"cupy {bits.__name__}, float32"] = {
            **clock.time([fill]), "bytes": size, "samples": size // 4, "ceiling": "plain fill"
        }  # fmt: skip


def fused(timings: dict[str, Any], clock: Clock, size: int) -> None:
    compiled = torch.compile(eager)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        short = str(dtype).removeprefix("torch.")
        for d in DIMENSIONS if dtype == torch.float32 else (768,):
            say(f"clip and noise, {short}, d = {d}")
            xs = [rows_of(size, d, dtype) for _ in range(BUFFERS)]
            outs = [torch.empty_like(x) for x in xs]
            facts = {"bytes": 2 * xs[0].numel() * dtype.itemsize, "samples": xs[0].numel(), "ceiling": "device copy"}
            for rounds in ROUNDS:
                generator = hv.Generator(rounds=rounds)
                for exact in (True, False):
                    calls = [
                        lambda x=x, out=out, exact=exact: hv.clip_and_noise(
                            x, CLIP_NORM, SIGMA, exact=exact, out=out, generator=generator
                        )
                        for x, out in zip(xs, outs)
                    ]
                    name = f"{'exact' if exact else 'float'} clip and noise, {short}, d = {d}, {rounds} rounds"
                    timings[name] = {**clock.time(calls), **facts}
            if d == 768:
                calls = [lambda x=x: hv.clip_and_noise(x, CLIP_NORM, SIGMA) for x in xs]
                timings[f"exact clip and noise, {short}, d = {d}, 20 rounds, new array"] = {**clock.time(calls), **facts}
                timings[f"torch eager, {short}, d = {d}"] = {**clock.time([lambda x=x: eager(x) for x in xs]), **facts}
                timings[f"torch.compile, {short}, d = {d}"] = {**clock.time([lambda x=x: compiled(x) for x in xs]), **facts}
            del xs, outs
    small = torch.randn(8, 768, device="cuda")
    timings["exact clip and noise, float32, 8 x 768"] = {
        **clock.time([lambda: hv.clip_and_noise(small, CLIP_NORM, SIGMA)]), "bytes": 2 * 8 * 768 * 4, "samples": 8 * 768
    }  # fmt: skip


def sums(timings: dict[str, Any], clock: Clock, quick: bool) -> None:
    rows, columns = 256, (1 << 18) if quick else (1 << 22)
    x = torch.randn(rows, columns, device="cuda")
    out = torch.empty(columns, device="cuda")
    generator = hv.Generator(rounds=12)
    timings[f"clip, sum and noise of [{rows}, {columns}], float32"] = {
        **clock.time([lambda: _cuda_backend.clip_sum_and_noise(x, CLIP_NORM, SIGMA, out, generator)]),
        "bytes": rows * columns * 4, "samples": rows * columns,
    }  # fmt: skip


def machine() -> dict[str, Any]:
    device = torch.cuda.get_device_properties(0)
    return {
        "device": device.name,
        "multiprocessors": device.multi_processor_count,
        "memory_bytes": device.total_memory,
        "l2_bytes": getattr(device, "L2_cache_size", None),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "hushvec": hv.__version__,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    size = 1 << (26 if quick else 30)
    clock = Clock(5 if quick else 20)
    result: dict[str, Any] = {"machine": machine(), "different_bits": bits_equal(quick), "timings": {}, "left_out": {}}
    steps: list[tuple[str, Callable[[], None]]] = [
        ("ceilings", lambda: ceilings(result["timings"], clock, size)),
        ("fills", lambda: fills(result["timings"], clock, size)),
        ("fused", lambda: fused(result["timings"], clock, size)),
        ("sums", lambda: sums(result["timings"], clock, quick)),
    ]
    for name, step in steps:
        say(name)
        try:
            step()
        except Exception as error:  # a step that fails must not take the others' figures with it
            result["left_out"][name] = f"{type(error).__name__}: {error}"
        torch.cuda.empty_cache()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
