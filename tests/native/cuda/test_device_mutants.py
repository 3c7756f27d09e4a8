"""Faults of device code, each put into one module: the launchers' comparison or a check of the emulated device must find it."""

import re
import subprocess

import pytest

from native.cuda.ptx import build

# name: the module that is compiled anew, the file and the text that change, the cases of test_launchers, what must be said.
MUTANTS = {
    "a nonce is taken twice": (
        "take", "cuda/src/device/source.hpp", "*nonce = atomic_add(&state->nonce, std::uint64_t{1});", "*nonce = state->nonce;",
        "streams", r"FAILED: 64 calls on 8 streams, as many noises",
    ),
    "an index off by one in a last group": (
        "randomized_response", "cuda/src/device/response_body.hpp", "if (i >= count) continue;", "if (i > count) continue;",
        "responses", r"out of bounds: a read of \d bytes of global memory in \S*response_kernel",
    ),
    "a bit count that nvcc compiles to 0": (
        "l2_laplace", "cpp/src/noise/float64_functions.hpp",
        "128 - __builtin_clzll(high) : 64 - __builtin_clzll(static_cast<std::uint64_t>(integer));",
        "64 + int(std::bit_width(high)) : int(std::bit_width(static_cast<std::uint64_t>(integer)));",
        "l2_laplace", r"FAILED: L2-Laplace",
    ),
    "a team of the wrong width": (
        "row_scales", "cuda/src/device/team.hpp", "h > 0; h /= 2) sum +=", "h > 1; h /= 2) sum +=",
        "clips", r"FAILED: clip, 70 x 15",
    ),
    "a barrier is missing": (
        "clip", "cuda/src/device/team.hpp", "phase(threadIdx.x);\n        __syncthreads();", "phase(threadIdx.x);",
        "clips", r"a race of two threads: a \w+ of \d+ bytes of shared memory in \S*rows_kernel",
    ),
    "copies are read before they have arrived": (
        "clip", "cuda/src/device/rows_body.hpp", "wait_for_copies();", "",
        "clips", r"shared memory that nobody wrote: a read of \d+ bytes of shared memory in \S*rows_kernel",
    ),
    "the scales of missing rows are not written": (
        "float_laplace", "cuda/src/device/rows_body.hpp", "clear(memory.scales, edge + rows, shape.scales(), thread);", "",
        "rows", r"shared memory that nobody wrote: a read of 4 bytes of shared memory in \S*rows_kernel",
    ),
    "the ladder draws the words of the step before": (
        "correlated_sum", "cuda/src/device/combination_body.hpp",
        "const GaussianWord word = word_of(term.stream, pair, sine);",
        "const GaussianWord word = word_of(terms.list[number == 0 ? 0 : number - 1].stream, pair, sine);",
        "correlated_sums", r"FAILED: correlated release, part 0, 2 streams",
    ),
}  # fmt: skip
EVERY_TIME = {"a nonce is taken twice", "an index off by one in a last group"}   # the others take half a minute each


@pytest.mark.parametrize("name", [pytest.param(name, marks=() if name in EVERY_TIME else pytest.mark.full) for name in MUTANTS])
def test_the_fault_is_found(name, tmp_path):
    module, header, old, new, case, complaint = MUTANTS[name]
    try:
        program = build.mutant(build.Settings(), tmp_path, module, header, old, new)
    except build.NotBuilt as reason:
        pytest.skip(str(reason))
    done = subprocess.run([program, case], capture_output=True, text=True)
    assert re.search(complaint, done.stdout + done.stderr), done.stdout[-2000:] + done.stderr[-2000:]
