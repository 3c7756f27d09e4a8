"""Device code as nvcc compiled it, run on the CPU: every launcher against the core, every kernel at least once (ptx/README.md)."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from native.cuda.ptx import build

ARCHITECTURES = ["compute_75", "compute_80", "compute_100", "compute_120"]
# What scripts/cuda12_toolchain.sh made, for the nightly run.
NVCC_12 = Path(os.environ.get("HUSHVEC_CUDA12", build.ROOT / "build/cuda12")) / "bin/nvcc"


def launchers(**settings):
    """test_launchers, linked with the emulated device."""
    try:
        return build.program(build.Settings(**settings))
    except build.NotBuilt as reason:
        pytest.skip(str(reason))


def run(program, *words, **environment):
    done = subprocess.run([program, *words], capture_output=True, text=True, env={**os.environ, **environment})
    summary = re.search(r"emulated device: (\d+) of (\d+) kernels, .* (\d+) faults$", done.stderr, re.MULTILINE)
    assert summary, done.stdout[-1000:] + done.stderr[-2000:]
    executed, kernels, faults = (int(number) for number in summary.groups())
    print(done.stdout.splitlines()[-1], summary[0], sep="\n")
    assert done.returncode == 0 and faults == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert re.search(r"^[1-9]\d* passed, 0 failed$", done.stdout.splitlines()[-1])
    return done, executed, kernels


def every_kernel_gives_the_bits_of_the_core(program, **environment):
    done, executed, kernels = run(program, HUSHVEC_EMULATED_TABLE="1", **environment)
    table = sorted((int(launches), name) for launches, name in re.findall(r"^ *(\d+) launches of (\S+)$", done.stderr, re.MULTILINE))
    print("\n".join(f"{launches:>6}  {name}" for launches, name in table))
    assert [name for launches, name in table if launches == 0] == []
    assert executed == kernels == len(table) > 90


def test_every_kernel_gives_the_bits_of_the_core():
    every_kernel_gives_the_bits_of_the_core(launchers())


def test_on_a_small_device():
    run(launchers(), "codes", "responses", "fills", HUSHVEC_EMULATED_MULTIPROCESSORS="1")


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_of_every_architecture(arch):
    every_kernel_gives_the_bits_of_the_core(launchers(arch=arch))


@pytest.mark.full
def test_of_nvcc_12():
    if not NVCC_12.exists():
        pytest.skip(f"{NVCC_12} is missing: scripts/cuda12_toolchain.sh makes it")
    every_kernel_gives_the_bits_of_the_core(launchers(nvcc=str(NVCC_12), work=build.ROOT / "build/ptx-cuda12"))


@pytest.mark.full
@pytest.mark.parametrize(
    "environment",
    [
        {"HUSHVEC_EMULATED_ORDER": "reverse"},
        {"HUSHVEC_EMULATED_ORDER": "17"},
        {"HUSHVEC_EMULATED_ORDER": "4242"},
        {"HUSHVEC_EMULATED_ERROR": "1"},
        {"HUSHVEC_EMULATED_MULTIPROCESSORS": "1"},
    ],
    ids=lambda environment: "-".join([*environment, *environment.values()]),
)
def test_in_any_order_with_any_error_and_on_a_small_device(environment):
    every_kernel_gives_the_bits_of_the_core(launchers(), **environment)
