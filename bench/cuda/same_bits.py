"""CPU and GPU bits on large random rows, over dtypes, laws, dimensions and numbers of rounds. Exits 1 if any differ.

L2-Laplace noise is summed in floating point: its rows may differ in their last places, and count where they differ by more. The portable
instruction set rounds the products of codes twice, so there the codes are not compared.

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
MOST_ROWS = 1 << 20  # of laws that draw something for each row, which takes long where rows are short
CODES, FEWER_ROWS = 256, 16  # products take longer on a CPU than noise: a sixteenth of the rows
LABELS = 1000
# Largest distance of an element, relative to the largest of its row.
LAST_PLACES = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}
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


def privunit_calls(d: int) -> Iterator[tuple[str, Call]]:
    privunit = mechanisms.PrivUnit(epsilon=10.0, dimension=d)
    for rounds in (20, 12, 8):
        yield f"privunit, {rounds} rounds", lambda x, out, rounds=rounds: privunit.apply(x, out, hv.Generator.unsafe_seeded(d, rounds=rounds))


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


def far_apart(x: torch.Tensor, device: str) -> int:
    """Elements of an L2-Laplace release that differ by more than their last places, NaN among them."""
    law = mechanisms.L2Laplace(epsilon=100.0, dimension=x.shape[1])
    on_host, on_device = poisoned(x), poisoned(x.to(device))
    law.apply(x, on_host, hv.Generator.unsafe_seeded(1))
    law.apply(x.to(device), on_device, hv.Generator.unsafe_seeded(1))
    expected = on_host.to(device).double()
    close = (on_device.double() - expected).abs() <= LAST_PLACES[x.dtype] * expected.abs().amax(1, keepdim=True)
    return int((~close).sum())


def other_codes(x: torch.Tensor, device: str) -> int:
    """Rows whose nearest code is another one on the device."""
    book = mechanisms.PublicCodebook.of(rows_of(CODES, x.shape[1], torch.float32, "cpu"))
    on_device = torch.as_tensor(book.encode(x.to(device))).cpu()
    return int((on_device != torch.as_tensor(book.encode(x))).sum())


def other_answers(dtype: torch.dtype, rounds: int, count: int, device: str) -> int:
    """Answers of randomized response that are others on the device."""
    labels = min(LABELS, torch.iinfo(dtype).max + 1)
    codes = torch.randint(labels, (count,)).to(dtype)
    answers = [
        hv.randomized_response(given, range(labels), 2.0, generator=hv.Generator.unsafe_seeded(1, rounds=rounds)).cpu()
        for given in (codes, codes.to(device))
    ]
    return int((answers[0] != answers[1]).sum())


def of_rows(x: torch.Tensor, device: str) -> Iterator[tuple[str, int, int]]:
    """What was compared, how many results, and how many differ."""
    for name, call in calls(x.shape[1]):
        yield name, x.numel(), differing(x, call, device)
    fewer = x[:MOST_ROWS]
    for name, call in privunit_calls(x.shape[1]):
        yield name, fewer.numel(), differing(fewer, call, device)
    yield "l2_laplace", fewer.numel(), far_apart(fewer, device)
    if x.dtype != torch.float64 and hv.backends()["active"] != "portable":  # float64 rows become float32 by another rule there
        some = x[: max(8, len(x) // FEWER_ROWS)]
        yield "nearest codes", len(some), other_codes(some, device)


def of_labels(count: int, device: str) -> Iterator[tuple[str, int, int]]:
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        for rounds in (20, 12, 8):
            yield f"randomized response, {dtype}, {rounds} rounds", count, other_answers(dtype, rounds, count, device)


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

    def count(where: str, found: Iterator[tuple[str, int, int]]) -> None:
        nonlocal compared, wrong
        for name, results, different in found:
            compared += results
            wrong += different
            if different:
                print(f"{name}{where}: {different} of {results} differ", flush=True)

    count("", of_labels(samples, device))
    for dtype in DTYPES:
        for d in DIMENSIONS:
            count(f", {dtype}, d = {d}", of_rows(rows_of(max(8, samples // d), d, dtype, device).cpu(), device))
        print(f"{dtype}: {compared} results compared so far", flush=True)
    print(f"{compared} results compared, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
