"""Times hushvec and its peers on the device, after every group of cases writing what is known so far.

    python bench/cuda/timings.py FILE.json [--quick] [--device cpu]        with the package under test on PYTHONPATH

What fails is left out by name and takes nothing else with it. What the aims are about comes first. --device cpu is a rehearsal on
small arrays, by the host's clock; its file says so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import cases
import torch
from random_rows import rows_of
from table import summary

import hushvec as hv
from hushvec import mechanisms
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise

CLIP_NORM, SIGMA = 1.0, 0.6
BUFFERS = 2  # each far larger than the second-level cache, so that a call finds nothing of the one before
WARM_UP = 4
SMALL_CALLS = 200


@dataclass(frozen=True)
class Sizes:
    """How much is timed. Bytes of an array: torch's kernels index up to 2 GiB in 32 bits."""

    array: int
    sum_shape: tuple[int, int]
    repeats: int


FULL = Sizes(2 << 30, (256, 1 << 22), 40)
QUICK = Sizes(64 << 20, (256, 1 << 16), 5)
REHEARSAL = Sizes(1 << 16, (8, 1 << 12), 2)


def say(text: str) -> None:
    print(text, flush=True)


class Events:
    """CUDA events around each call, after a warm-up. A call that waits for its result is timed with its waiting."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def wait(self) -> None:
        torch.cuda.synchronize()

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


class HostClock:
    """The host's clock around each call, for a rehearsal."""

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats

    def wait(self) -> None:
        pass

    def time(self, calls: Sequence[Callable[[], Any]]) -> dict[str, float]:
        for i in range(WARM_UP):
            calls[i % len(calls)]()
        times = []
        for i in range(self._repeats):
            start = time.perf_counter()
            calls[i % len(calls)]()
            times.append((time.perf_counter() - start) * 1e3)
        return summary(times)


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

    def __init__(self, device: str, sizes: Sizes) -> None:
        self._device, self._sizes = device, sizes
        self._clock = Events(sizes.repeats) if device == "cuda" else HostClock(sizes.repeats)
        self._replays = device == "cuda"   # there are no graphs of calls on a CPU
        self.timings: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, str] = {}
        self.overheads: dict[str, float] = {}

    @contextmanager
    def leaving_out(self, name: str) -> Iterator[None]:
        """What fails is left out, with the reason, and takes nothing else with it."""
        try:
            yield
        except Exception as error:
            self.left_out[name] = f"{type(error).__name__}: {error}"
            say(f"  left out: {self.left_out[name]}")

    def add(self, name: str, calls: Sequence[Callable[[], Any]], **facts: Any) -> None:
        say(f"  {name}")
        with self.leaving_out(name):
            self.timings[name] = {**self._clock.time(calls), **facts}

    def ceilings(self) -> None:
        count = self._sizes.array // 4
        a = [torch.randn(count, device=self._device) for _ in range(BUFFERS)]
        b = [torch.empty_like(t) for t in a]
        self.add(cases.COPY, [lambda f=f, t=t: t.copy_(f) for f, t in zip(a, b)], bytes=2 * self._sizes.array, samples=count)
        self.add(cases.FILL, [lambda t=t: t.fill_(1.0) for t in b], bytes=self._sizes.array, samples=count)

    def fills(self, dtype: str) -> None:
        kind = getattr(torch, dtype)
        outs = [torch.empty(self._sizes.array // kind.itemsize, dtype=kind, device=self._device) for _ in range(BUFFERS)]
        facts = {"bytes": self._sizes.array, "samples": outs[0].numel(), "ceiling": cases.FILL}
        for law, fill in (("gaussian", hv.gaussian_noise), ("laplacian", hv.laplacian_noise)):
            for rounds in cases.ROUNDS:
                generator = hv.Generator(rounds=rounds)
                calls = [lambda t=t, fill=fill, g=generator: fill(t.shape, SIGMA, out=t, generator=g) for t in outs]
                self.add(cases.fill(law, dtype, rounds), calls, work=f"{law} fill, {dtype}", **facts)
        peer = [lambda t=t: torch.randn(t.shape, out=t) for t in outs]
        self.add(cases.torch_fill(dtype), peer, work=f"gaussian fill, {dtype}", peer=True, **facts)

    def cupy_fills(self) -> None:
        if self._device != "cuda":
            raise RuntimeError("CuPy needs a CUDA device")
        import cupy

        count = self._sizes.array // 4
        stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
        outs = [cupy.empty(count, cupy.float32) for _ in range(BUFFERS)]
        for name in cases.CUPY_GENERATORS:
            generator = cupy.random.Generator(getattr(cupy.random, name)(1))

            def fill(out: Any, generator: Any = generator) -> None:
                with stream:
                    generator.standard_normal(dtype=cupy.float32, out=out)

            calls = [lambda out=out, fill=fill: fill(out) for out in outs]
            self.add(cases.cupy_fill(name), calls, bytes=self._sizes.array, samples=count, ceiling=cases.FILL,
                     work="gaussian fill, float32", peer=True)  # fmt: skip

    def fused(self, dtype: str, d: int) -> None:
        kind = getattr(torch, dtype)
        xs = [rows_of(self._sizes.array // (d * kind.itemsize), d, kind, self._device) for _ in range(BUFFERS)]
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
                if not self._replays:
                    continue
                name = cases.fused("exact", dtype, d, rounds, cases.REPLAYED)
                with self.leaving_out(name):
                    self.add(name, [replay_of(lambda x=x, out=out, f=noised: f(x, out, True)) for x, out in zip(xs, outs)], **facts)

    def released(self, dtype: str, d: int) -> None:
        """Rows by PrivUnitG and with L2-Laplace noise, and the codes of rows, whose bytes are those of the input."""
        kind = getattr(torch, dtype)
        xs = [rows_of(self._sizes.array // (d * kind.itemsize), d, kind, self._device) for _ in range(BUFFERS)]
        outs = [torch.empty_like(x) for x in xs]
        size, samples = xs[0].numel() * kind.itemsize, xs[0].numel()
        laws = {
            cases.privunit: mechanisms.PrivUnit(epsilon=cases.EPSILON, dimension=d),
            cases.l2_laplace: mechanisms.L2Laplace(epsilon=cases.EPSILON, dimension=d),
        }
        for name, law in laws.items():
            for rounds in cases.ROUNDS:
                generator = hv.Generator(rounds=rounds)
                calls = [lambda x=x, out=out, law=law, g=generator: law.apply(x, out, g) for x, out in zip(xs, outs)]
                self.add(name(dtype, d, rounds), calls, bytes=2 * size, samples=samples, ceiling=cases.COPY)
        book = mechanisms.PublicCodebook.of(rows_of(cases.CODES, d, torch.float32, "cpu"))
        calls = [lambda x=x: book.encode(x) for x in xs]
        self.add(cases.nearest(dtype, d), calls, bytes=size, samples=samples, ceiling=cases.COPY)

    def responses(self) -> None:
        """Answers in a new array, which is what the call makes."""
        count = self._sizes.array // 8
        labels = [torch.randint(cases.LABELS, (count,), device=self._device) for _ in range(BUFFERS)]
        for rounds in cases.ROUNDS:
            generator = hv.Generator(rounds=rounds)
            calls = [lambda x=x, g=generator: hv.randomized_response(x, range(cases.LABELS), cases.EPSILON, generator=g) for x in labels]
            self.add(cases.response(rounds), calls, bytes=2 * self._sizes.array, samples=count, ceiling=cases.COPY)

    def torch_fused(self, dtype: str, peer: str) -> None:
        kind, d = getattr(torch, dtype), cases.PEER_DIMENSION
        xs = [rows_of(self._sizes.array // (d * kind.itemsize), d, kind, self._device) for _ in range(BUFFERS)]
        outs = [torch.empty_like(x) for x in xs]
        call: Callable[[torch.Tensor, torch.Tensor], Any] = lambda x, out: torch_eager(x)
        if peer == "torch in place":
            call = torch_in_place
        elif peer == "torch.compile":
            # Without code for the CPU, whose compiler takes longer than a rehearsal should.
            backend = "inductor" if self._device == "cuda" else "aot_eager"
            compiled = torch.compile(torch_eager, dynamic=False, backend=backend)
            call = lambda x, out: compiled(x)
        self.add(
            cases.torch_fused(peer, dtype), [lambda x=x, out=out: call(x, out) for x, out in zip(xs, outs)],
            bytes=2 * xs[0].numel() * kind.itemsize, samples=xs[0].numel(), ceiling=cases.COPY,
            work=f"clip and noise, {dtype}, d = {d}", peer=True,
        )  # fmt: skip

    def sums(self) -> None:
        """A gradient a row: bytes are those of the input, read once."""
        x = torch.randn(self._sizes.sum_shape, device=self._device)
        out = torch.empty(x.shape[1], device=self._device)
        generator, total = hv.Generator(rounds=12), ClippedSum([(x.shape[1],)], clip_norm=CLIP_NORM, sigma=SIGMA, clipping="exact")

        def added_and_released() -> None:
            total.add([x])
            total.release(generator, [out])

        self.add(cases.SUM, [added_and_released],
                 bytes=x.numel() * 4, samples=x.numel(), ceiling=cases.COPY)  # fmt: skip
        for bands in cases.BANDS:
            earlier = EarlierNoise([1.0] + [-0.5 / max(1, bands - 1)] * (bands - 1))
            for _ in range(bands):
                total.release(generator, [out], earlier)
            self.add(cases.correlated(bands), [partial(total.release, generator, [out], earlier)],
                     bytes=out.numel() * 12, samples=out.numel(), ceiling=cases.COPY)  # fmt: skip

    def launches(self) -> None:
        """Microseconds a call on a small array, by the host's clock: the time is the host's and the launch's, not the work's."""
        x = torch.randn(cases.SMALL, device=self._device)
        out = torch.empty_like(x)
        generator = hv.Generator()
        calls = {
            "clip_and_noise": lambda: hv.clip_and_noise(x, CLIP_NORM, SIGMA, out=out, generator=generator),
            "gaussian_noise": lambda: hv.gaussian_noise(x.shape, SIGMA, out=out, generator=generator),
            "torch eager": lambda: torch_eager(x),
            "torch.randn": lambda: torch.randn(x.shape, out=out),
        }
        if self._replays:
            with self.leaving_out("clip_and_noise, graph replay"):
                calls["clip_and_noise, graph replay"] = replay_of(calls["clip_and_noise"])
        for name, call in calls.items():
            for _ in range(WARM_UP):
                call()
            self._clock.wait()
            start = time.perf_counter()
            for _ in range(SMALL_CALLS):
                call()
            self._clock.wait()
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


def machine(device: str) -> dict[str, Any]:
    versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "hushvec": hv.__version__}
    if device != "cuda":
        return {"device": "none: a rehearsal on the CPU", **versions}
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
        **versions,
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


SLOW_TO_COMPILE = tuple(f"torch.compile, {dtype}" for dtype in cases.FUSED_DTYPES[1:])


def groups(bench: Bench) -> dict[str, Callable[[], None]]:
    """In the order of what the aims need: time may run out."""
    fills = {dtype: (f"fills, {dtype}", lambda dtype=dtype: bench.fills(dtype)) for dtype in cases.FILL_DTYPES}
    fused = {
        (dtype, d): (f"clip and noise, {dtype}, d = {d}", lambda dtype=dtype, d=d: bench.fused(dtype, d))
        for dtype in cases.FUSED_DTYPES
        for d in cases.DIMENSIONS
    }
    peers = {
        (dtype, peer): (f"{peer}, {dtype}", lambda dtype=dtype, peer=peer: bench.torch_fused(dtype, peer))
        for dtype in cases.FUSED_DTYPES
        for peer in cases.TORCH_FUSED
    }
    released = {
        (dtype, d): (f"other releases, {dtype}, d = {d}", lambda dtype=dtype, d=d: bench.released(dtype, d))
        for dtype in cases.RELEASED_DTYPES
        for d in cases.RELEASED_DIMENSIONS
    }
    d = cases.PEER_DIMENSION
    first = [
        ("ceilings", bench.ceilings), fused["float32", d], fused["bfloat16", d], fills["float32"],
        peers["float32", "torch eager"], peers["float32", "torch.compile"], *released.values(), ("randomized response", bench.responses),
    ]  # fmt: skip
    rest = [("sums", bench.sums), ("launches", bench.launches), ("cupy fills", bench.cupy_fills), *fills.values(), *peers.values(), *fused.values()]
    return dict([*first, *rest])


def write(file: Path, result: dict[str, Any]) -> None:
    """Beside its name and then renamed: whoever stops this program finds a whole file."""
    beside = file.with_name(f"{file.name}.part")
    beside.write_text(json.dumps(result))
    os.replace(beside, file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    device, rehearsal = arguments.device, arguments.device == "cpu"
    bench = Bench(device, REHEARSAL if rehearsal else (QUICK if arguments.quick else FULL))
    result: dict[str, Any] = {
        "rehearsal": rehearsal, "machine": machine(device), "card": {}, "timings": bench.timings, "overheads_us": bench.overheads,
        "left_out": bench.left_out,
    }  # fmt: skip
    if rehearsal:
        say(cases.REHEARSAL)
        bench.left_out["graph replay"] = "there are no graphs on a CPU"
    for name, group in groups(bench).items():
        if rehearsal and name in SLOW_TO_COMPILE:
            bench.left_out[name] = "one dtype is enough for a rehearsal"
            continue
        say(name)
        with bench.leaving_out(name):
            group()
        if not rehearsal:
            torch.cuda.synchronize()
            result["card"][name] = card()
            torch.cuda.empty_cache()
        write(arguments.file, result)


if __name__ == "__main__":
    sys.exit(main())
