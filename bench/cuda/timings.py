"""Times hushvec and its peers on the device, after every group of cases writing what is known so far.

    python bench/cuda/timings.py FILE.json [--quick]        with the package under test on PYTHONPATH

A group that fails is left out by name and takes no other group with it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cases
import torch
from random_rows import rows_of
from table import summary

import hushvec as hv
from hushvec._native.clipped_sums import ClippedSum

DEVICE = "cuda"
CLIP_NORM, SIGMA = 1.0, 0.6
BUFFERS = 2  # each far larger than the second-level cache, so that a call finds nothing of the one before
WARM_UP, REPEATS, QUICK_REPEATS = 4, 40, 5
SIZE, QUICK_SIZE = 2 << 30, 64 << 20  # bytes of an array; torch's kernels index up to 2 GiB in 32 bits
SUM_SHAPE, QUICK_SUM_SHAPE = (256, 1 << 22), (256, 1 << 16)
SMALL_CALLS = 200


def say(text: str) -> None:
    print(text, flush=True)


class Events:
    """CUDA events around each call, after a warm-up. A call that waits for its result is timed with its waiting."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def time(self, calls: Sequence[Callable[[], Any]]) -> dict[str, float]:
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


def replay_of(call: Callable[[], Any]) -> Callable[[], Any]:
    """The call's kernels as a captured graph: what the device does, without the host."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


class Bench:
    """What is measured, by name."""

    def __init__(self, clock: Any, size: int, sum_shape: tuple[int, int]) -> None:
        self._clock, self._size, self._sum_shape = clock, size, sum_shape
        self.timings: dict[str, dict[str, Any]] = {}
        self.overheads: dict[str, float] = {}

    def add(self, name: str, calls: Sequence[Callable[[], Any]], **facts: Any) -> None:
        say(f"  {name}")
        self.timings[name] = {**self._clock.time(calls), **facts}

    def ceilings(self) -> None:
        count = self._size // 4
        a = [torch.randn(count, device=DEVICE) for _ in range(BUFFERS)]
        b = [torch.empty_like(t) for t in a]
        self.add(cases.COPY, [lambda f=f, t=t: t.copy_(f) for f, t in zip(a, b)], bytes=2 * self._size, samples=count)
        self.add(cases.FILL, [lambda t=t: t.fill_(1.0) for t in b], bytes=self._size, samples=count)

    def fills(self, dtype: str) -> None:
        kind = getattr(torch, dtype)
        outs = [torch.empty(self._size // kind.itemsize, dtype=kind, device=DEVICE) for _ in range(BUFFERS)]
        facts = {"bytes": self._size, "samples": outs[0].numel(), "ceiling": cases.FILL}
        for law, fill in (("gaussian", hv.gaussian_noise), ("laplacian", hv.laplacian_noise)):
            for rounds in cases.ROUNDS:
                generator = hv.Generator(rounds=rounds)
                calls = [lambda t=t, fill=fill, g=generator: fill(t.shape, SIGMA, out=t, generator=g) for t in outs]
                self.add(cases.fill(law, dtype, rounds), calls, work=f"{law} fill, {dtype}", **facts)
        peer = [lambda t=t: torch.randn(t.shape, out=t) for t in outs]
        self.add(cases.torch_fill(dtype), peer, work=f"gaussian fill, {dtype}", peer=True, **facts)

    def cupy_fills(self) -> None:
        import cupy

        count = self._size // 4
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        outs = [cupy.empty(count, cupy.float32) for _ in range(BUFFERS)]
        for name in cases.CUPY_GENERATORS:
            generator = cupy.random.Generator(getattr(cupy.random, name)(1))

            def fill(out: Any, generator: Any = generator) -> None:
                with stream:
                    generator.standard_normal(dtype=cupy.float32, out=out)

            calls = [lambda out=out, fill=fill: fill(out) for out in outs]
            self.add(cases.cupy_fill(name), calls, bytes=self._size, samples=count, ceiling=cases.FILL,
                     work="gaussian fill, float32", peer=True)  # fmt: skip

    def fused(self, dtype: str, d: int) -> None:
        kind = getattr(torch, dtype)
        xs = [rows_of(self._size // (d * kind.itemsize), d, kind, DEVICE) for _ in range(BUFFERS)]
        outs = [torch.empty_like(x) for x in xs]
        facts = {
            "bytes": 2 * xs[0].numel() * kind.itemsize, "samples": xs[0].numel(), "ceiling": cases.COPY,
            "work": f"clip and noise, {dtype}, d = {d}",
        }  # fmt: skip
        for rounds in cases.ROUNDS:
            generator = hv.Generator(rounds=rounds)

            def noised(x: torch.Tensor, out: torch.Tensor | None, exact: bool, generator: hv.Generator = generator) -> torch.Tensor:
                return hv.clip_and_noise(x, CLIP_NORM, SIGMA, exact=exact, out=out, generator=generator)

            for grade in ("exact", "float"):
                calls = [lambda x=x, out=out, f=noised, e=grade == "exact": f(x, out, e) for x, out in zip(xs, outs)]
                self.add(cases.fused(grade, dtype, d, rounds), calls, **facts)
            if d == cases.PEER_DIMENSION:
                new = [lambda x=x, f=noised: f(x, None, True) for x in xs]
                self.add(cases.fused("exact", dtype, d, rounds, cases.NEW_ARRAY), new, **facts)
                replays = [replay_of(lambda x=x, out=out, f=noised: f(x, out, True)) for x, out in zip(xs, outs)]
                self.add(cases.fused("exact", dtype, d, rounds, cases.REPLAYED), replays, **facts)

    def torch_fused(self, dtype: str) -> None:
        kind, d = getattr(torch, dtype), cases.PEER_DIMENSION
        xs = [rows_of(self._size // (d * kind.itemsize), d, kind, DEVICE) for _ in range(BUFFERS)]
        outs = [torch.empty_like(x) for x in xs]
        facts = {
            "bytes": 2 * xs[0].numel() * kind.itemsize, "samples": xs[0].numel(), "ceiling": cases.COPY,
            "work": f"clip and noise, {dtype}, d = {d}", "peer": True,
        }  # fmt: skip
        compiled = torch.compile(torch_eager, dynamic=False)
        peers = {
            "torch eager": [lambda x=x: torch_eager(x) for x in xs],
            "torch in place": [lambda x=x, out=out: torch_in_place(x, out) for x, out in zip(xs, outs)],
            "torch.compile": [lambda x=x: compiled(x) for x in xs],
        }
        for peer, calls in peers.items():
            self.add(cases.torch_fused(peer, dtype), calls, **facts)

    def sums(self) -> None:
        """A gradient a row: bytes are those of the input, read once."""
        x = torch.randn(self._sum_shape, device=DEVICE)
        out = torch.empty(x.shape[1], device=DEVICE)
        generator, total = hv.Generator(rounds=12), ClippedSum([(x.shape[1],)], clip_norm=CLIP_NORM, sigma=SIGMA, clipping="exact")

        def added_and_released() -> None:
            total.add([x])
            total.release(generator, [out])

        self.add(cases.SUM, [added_and_released],
                 bytes=x.numel() * 4, samples=x.numel(), ceiling=cases.COPY)  # fmt: skip

    def launches(self) -> None:
        """Microseconds a call on a small array, by the host's clock: the time is the host's and the launch's, not the work's."""
        x = torch.randn(cases.SMALL, device=DEVICE)
        out = torch.empty_like(x)
        generator = hv.Generator()
        calls = {
            "clip_and_noise": lambda: hv.clip_and_noise(x, CLIP_NORM, SIGMA, out=out, generator=generator),
            "gaussian_noise": lambda: hv.gaussian_noise(x.shape, SIGMA, out=out, generator=generator),
            "torch eager": lambda: torch_eager(x),
            "torch.randn": lambda: torch.randn(x.shape, out=out),
        }
        calls["clip_and_noise, graph replay"] = replay_of(calls["clip_and_noise"])
        for name, call in calls.items():
            for _ in range(WARM_UP):
                call()
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(SMALL_CALLS):
                call()
            torch.cuda.synchronize()
            self.overheads[name] = (time.perf_counter() - start) / SMALL_CALLS * 1e6


def torch_eager(x: torch.Tensor) -> torch.Tensor:
    """Clip and noise as one writes it in torch; neither secure nor exact."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32)
    scale = (CLIP_NORM / norm).clamp(max=1.0).to(x.dtype)
    return x * scale + SIGMA * torch.randn_like(x)


def torch_in_place(x: torch.Tensor, out: torch.Tensor) -> None:
    """The same without temporaries of x's size."""
    norm = torch.linalg.vector_norm(x, dim=1, keepdim=True, dtype=torch.float32)
    scale = (CLIP_NORM / norm).clamp(max=1.0).to(x.dtype)
    out.normal_(0.0, SIGMA).addcmul_(x, scale)


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


CARD = ("driver_version", "clocks.sm", "clocks.max.sm", "clocks.mem", "temperature.gpu", "power.draw")


def card() -> dict[str, str]:
    """Driver and clocks as they are at this moment; settings are left alone."""
    query = ["nvidia-smi", "--id=0", f"--query-gpu={','.join(CARD)}", "--format=csv,noheader"]
    try:
        values = subprocess.run(query, capture_output=True, text=True, check=True, timeout=10).stdout.strip().split(", ")
    except (OSError, subprocess.SubprocessError) as error:
        return {"unknown": f"{type(error).__name__}"}
    return dict(zip(CARD, values))


def groups(bench: Bench) -> dict[str, Callable[[], None]]:
    return {
        "ceilings": bench.ceilings,
        **{f"fills, {dtype}": lambda dtype=dtype: bench.fills(dtype) for dtype in cases.FILL_DTYPES},
        **{
            f"clip and noise, {dtype}, d = {d}": lambda dtype=dtype, d=d: bench.fused(dtype, d)
            for dtype in cases.FUSED_DTYPES
            for d in cases.DIMENSIONS
        },
        "sums": bench.sums,
        "launches": bench.launches,
        "cupy fills": bench.cupy_fills,
        **{f"torch, {dtype}": lambda dtype=dtype: bench.torch_fused(dtype) for dtype in cases.FUSED_DTYPES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    quick = arguments.quick
    bench = Bench(
        Events(QUICK_REPEATS if quick else REPEATS), QUICK_SIZE if quick else SIZE, QUICK_SUM_SHAPE if quick else SUM_SHAPE
    )
    result: dict[str, Any] = {
        "machine": machine(), "card": {}, "timings": bench.timings, "overheads_us": bench.overheads, "left_out": {}
    }  # fmt: skip
    for name, group in groups(bench).items():
        say(name)
        try:
            group()
        except Exception as error:
            result["left_out"][name] = f"{type(error).__name__}: {error}"
            say(f"  left out: {error}")
        torch.cuda.synchronize()
        result["card"][name] = card()
        torch.cuda.empty_cache()
        arguments.file.write_text(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
