"""The walk of a row from `privatize` to the kernel and back: each room of the package is entered at most twice on the way."""

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PublicProjection

PACKAGE = Path(hv.__file__).parent
ROWS, DIMENSION = 7, 11


def room_of(frame):
    """The folder below the package that a frame's code is in; None for other code."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(PACKAGE).parts[0] if path.is_relative_to(PACKAGE) else None


def holds_rows(value):
    """Whether a value is rows, or a tuple or an object that carries them."""
    if isinstance(value, tuple):
        return any(map(holds_rows, value))
    return isinstance(value, np.ndarray) and value.shape == (ROWS, DIMENSION)


def entries(call):
    """How often each room is called with rows from another room, and how often rows are looked at for NaN and Inf in Python."""
    entered, scans = Counter(), 0

    def watch(frame, event, argument):
        nonlocal scans
        if event != "call" or room_of(frame) is None or not any(map(holds_rows, frame.f_locals.values())):
            return
        scans += frame.f_code.co_name == "first_nonfinite_row"
        caller = frame.f_back
        while caller is not None and room_of(caller) is None and caller.f_code is not call.__code__:
            caller = caller.f_back
        if room_of(caller) != room_of(frame):
            entered[room_of(frame)] += 1

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered, scans


def privatize(**settings):
    x = np.random.default_rng(0).standard_normal((ROWS, DIMENSION)).astype(settings.pop("dtype", "float32"))
    return lambda: hv.privatize(x, epsilon=2.0, **settings)


WALKS = {
    "gaussian": (privatize(), 0),
    "float64": (privatize(dtype="float64"), 0),
    "laplacian": (privatize(mechanism="laplacian"), 0),
    "privunit": (privatize(mechanism="privunit"), 0),
    "one person": (privatize(per="release"), 0),
    "with a budget": (privatize(budget=hv.PrivacyBudget(1e6)), 1),
}


@pytest.mark.parametrize("name", WALKS)
def test_each_room_is_entered_at_most_twice(name):
    call, scans = WALKS[name]
    call()  # what is imported and calibrated at first use
    entered, scanned = entries(call)
    assert set(entered) == {"release", "mechanisms", "_native"}
    assert max(entered.values()) <= 2, entered
    assert scanned == scans


@pytest.mark.parametrize("normalize", [False, True])
def test_rows_are_looked_at_for_nan_once(normalize):
    """Before the charge; the kernel finds what another thread puts there later, in the same reading as its norm."""
    _, scans = entries(privatize(budget=hv.PrivacyBudget(1e6), normalize=normalize, renormalize=True))
    assert scans == 1


def test_a_map_looks_at_its_own_rows():
    """Once before it and once behind it, where float32 may overflow; not again for the charge."""
    projection = PublicProjection(np.full(DIMENSION, 0.5, np.float32), None, None)
    _, scans = entries(privatize(budget=hv.PrivacyBudget(1e6), projection=projection))
    assert scans == 2


def test_the_counter_counts():
    x = np.zeros((ROWS, DIMENSION), np.float32)

    def call():
        for _ in range(3):
            hv.clip(x, 1.0)

    entered, scans = entries(call)
    assert entered["noise"] == 3 and entered["_native"] >= 6 and scans == 0
