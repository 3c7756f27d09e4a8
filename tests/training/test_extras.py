"""What works without torch and Opacus, and what says which extra is missing."""

import subprocess
import sys

import pytest

from hushvec import training


def test_without_torch_numpy_is_enough_for_the_step_and_the_sampler():
    code = """
import sys
sys.modules["torch"] = None
import numpy as np
from hushvec.errors import MissingExtraError
from hushvec.training import PoissonSampler, StepJournal, StepSchedule, clip_and_noise_gradients, poisson_loader
assert clip_and_noise_gradients(np.ones((4, 3), np.float32), 1.0, 1.0).shape == (3,)
assert list(PoissonSampler(5, 1.0)) == [[0, 1, 2, 3, 4]]
import hushvec.training as training
for use in (lambda: training.DPOptimizer, lambda: training.secure_opacus, lambda: poisson_loader([1], 0.5)):
    try:
        use()
    except MissingExtraError as error:
        assert error.extra == "training"
    else:
        raise AssertionError("no error")
assert "scipy" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_names_are_sorted_and_documented():
    assert training.__all__ == sorted(training.__all__)
    for name in ("DPOptimizer", "PoissonSampler", "clip_and_noise_gradients", "per_example_gradients", "secure_opacus"):
        assert "Example:" in getattr(training, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = training.nothing
