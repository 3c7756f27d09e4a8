"""CPU and GPU bits on large random rows, over dtypes, laws, dimensions and numbers of rounds. Exits 1 if any differ.

    python bench/cuda/same_bits.py [--quick] [--device cpu]        with the package under test on PYTHONPATH

--device cpu is a rehearsal: it compares the CPU with itself.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator

import torch
from cases import REHEARSAL
from random_rows import rows_of

import hushvec as hv
from hushvec import mechanisms

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
DIMENSIONS = (1, 100, 384, 768, 1001, 1536, 30_001)  # by tiles and by two passes, rows of whole groups and others
SAMPLES, QUICK_SAMPLES, REHEARSAL_SAMPLES = 1 << 24, 1 << 18, 1 << 12
CLIP_NORM = 1.0
BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}

Call = Callable[[torch.Tensor, torch.Tensor], object]


def calls(d: int) -> Iterator[tuple[str, Call]]:
    """Names and calls (x, out); a call draws the same noise every time."""
    yield "clip", lambda x, out: hv.clip(x, CLIP_NORM, out=out)
    for rounds, sigma in ((20, 0.6), (12, 0.011), (8, 37.0)):
        yield f"gaussian, {rounds} rounds, sigma {sigma}", lambda x, out, rounds=rounds, sigma=sigma: hv.clip_and_noise(
            x, CLIP_NORM, sigma, out=out, generator=hv.Generator.unsafe_seeded(d, rounds=rounds)
        )
    laplacian = mechanisms.Laplacian(epsilon=50.0, dimension=d)
    yield "laplacian", lambda x, out: laplacian.apply(x, out, hv.Generator.unsafe_seeded(d))


def poisoned(x: torch.Tensor) -> torch.Tensor:
    """Room for a result, all ones: a NaN wherever nothing is written."""
    out = torch.empty_like(x)
    out.view(torch.uint8).fill_(0xFF)
    return out


def differing(x: torch.Tensor, call: Call, device: str) -> int:
    """Elements whose bits differ between a call on the CPU and one on the device."""
    on_host, on_device = poisoned(x), poisoned(x.to(device))
    call(x, on_host)
    call(x.to(device), on_device)
    bits = BITS[x.dtype.itemsize]
    return int((on_host.to(device).view(bits) != on_device.view(bits)).sum())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    device, samples = arguments.device, QUICK_SAMPLES if arguments.quick else SAMPLES
    if device == "cpu":
        print(REHEARSAL)
        samples = REHEARSAL_SAMPLES
    compared = wrong = 0
    for dtype in DTYPES:
        for d in DIMENSIONS:
            x = rows_of(max(8, samples // d), d, dtype, device).cpu()
            for name, call in calls(d):
                different = differing(x, call, device)
                compared += x.numel()
                wrong += different
                if different:
                    print(f"{name}, {dtype}, d = {d}: {different} of {x.numel()} differ", flush=True)
        print(f"{dtype}: {compared} samples compared so far", flush=True)
    print(f"{compared} samples compared, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
