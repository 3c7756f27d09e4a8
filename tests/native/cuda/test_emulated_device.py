"""Device code as nvcc compiled it, run on the CPU: every launcher against the core, every kernel at least once (ptx/README.md)."""

import os
import re
import subprocess

import pytest
from native.cuda.ptx import build

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"


@pytest.fixture(scope="module")
def launchers():
    """test_launchers, linked with the emulated device."""
    try:
        return build.program(build.Settings())
    except build.NotBuilt as reason:
        pytest.skip(str(reason))


def run(program, *words, **environment):
    done = subprocess.run([program, *words], capture_output=True, text=True, env={**os.environ, **environment})
    summary = re.search(r"emulated device: (\d+) of (\d+) kernels, .* (\d+) faults$", done.stderr, re.MULTILINE)
    assert summary, done.stderr[-2000:]
    return done, [int(number) for number in summary.groups()]


def test_every_launcher_gives_the_bits_of_the_core(launchers):
    done, (executed, kernels, faults) = run(launchers, HUSHVEC_EMULATED_TABLE="1")
    table = sorted(re.findall(r"^ *(\d+) launches of (\S+)$", done.stderr, re.MULTILINE), key=lambda row: int(row[0]))
    print("\n".join(f"{launches:>6}  {name}" for launches, name in table))
    print(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.fullmatch(r"\d{4,} passed, 0 failed", done.stdout.splitlines()[-1])
    assert faults == 0, done.stderr[-3000:]
    assert [name for launches, name in table if launches == "0"] == [] and executed == kernels == len(table) > 90


@pytest.mark.full
@pytest.mark.parametrize(
    "environment",
    [
        {"HUSHVEC_EMULATED_ORDER": "reverse"},
        {"HUSHVEC_EMULATED_ORDER": "17"},
        {"HUSHVEC_EMULATED_ORDER": "4242"},
        {"HUSHVEC_EMULATED_ERROR": "1"},
    ],
    ids=lambda environment: "-".join(environment.values()),
)
def test_in_any_order_of_threads_and_with_the_errors_of_special_functions(launchers, environment):
    done, (executed, kernels, faults) = run(launchers, **environment)
    assert done.returncode == 0 and faults == 0 and executed == kernels, done.stdout[-3000:] + done.stderr[-3000:]
