"""The bits do not depend on the floating-point modes that other code has set: `exact/modes.py` makes every call in each of them."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import hushvec as hv
from evidence.exact import modes
from hushvec._util import validate
from hushvec.accounting import GaussianDP, compose

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sets the modes through glibc's fenv_t")


def test_every_kernel_in_every_mode(backend):
    tests = str(Path(__file__).parents[2])
    environment = dict(os.environ, HUSHVEC_BACKEND=backend, PYTHONPATH=os.pathsep.join([tests, os.environ.get("PYTHONPATH", "")]))
    finished = subprocess.run(
        [sys.executable, "-m", "evidence.exact.modes"], capture_output=True, env=environment, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr.decode()[-2000:]
    found = json.loads(finished.stdout)
    for mode in modes.MODES:
        assert found[mode] == found["plain"], mode


def in_mode(mode, call):
    """What the call returned or raised, in a separate thread in this mode."""
    outcome = []

    def run():
        modes.set_mode(mode)
        try:
            outcome.append(call())
        except RuntimeError as refusal:
            outcome.append(refusal)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return outcome[0]


@pytest.mark.parametrize("mode", modes.ROUNDINGS)
def test_bounds_of_python_are_refused_where_it_rounds_otherwise(mode):
    receipt = hv.privatize(modes._rows("float32", (2, 8)), epsilon=1.0).receipt
    for call in (
        validate.rounding_to_nearest,
        lambda: hv.privatize(modes._rows("float32", (2, 8)), epsilon=1.0),
        lambda: hv.verify_receipt(receipt),
        lambda: compose([GaussianDP(noise_multiplier=4.0)] * 4, delta=1e-5),
    ):
        refusal = in_mode(mode, call)
        assert isinstance(refusal, RuntimeError) and "rounded to nearest" in str(refusal), mode


@pytest.mark.parametrize("mode", ("plain", "flush to zero"))
def test_to_nearest_passes(mode):
    assert in_mode(mode, validate.rounding_to_nearest) is None
