"""A program: a call of the CUDA backend takes a key, and what lies in the memory of this process is counted: the key while its capsule holds
it, the key after, and one that a numpy array holds. A small process, as it reads all of its memory.

The call has no rows, so it ends where it would ask for a device.
"""

import os

import numpy as np
from native.cuda.fake_arrays import OnDevice, workspace
from secure_memory.memory_scan import Scanner

import hushvec as hv
from hushvec._native import _core, _cuda


def turned(words):
    """All bits of a key turned, so that a scan finds no copy of it here. The words become zeros."""
    inverse = np.invert(words)
    words[:] = 0
    return inverse


def times_in_memory(turned_key):
    return Scanner(turned=turned_key.tobytes()).in_process(os.getpid())


def call(key):
    _cuda.privunit(OnDevice((0, 8)), 0.9, 0.1, 1.0, OnDevice((0, 8)), key, workspace(), 0)


def far_down(key, depth=100):
    """Calls where the scan, which runs in the frames above, overwrites nothing."""
    call(key) if depth == 0 else list(map(far_down, [key], [depth - 1]))


key = hv.Generator()._reserve_for_device()
turned_key = turned(_core._state_words(key)[:4])
far_down(key)
print(times_in_memory(turned_key))
del key
print(times_in_memory(turned_key))
held = np.invert(turned_key)
print(times_in_memory(turned_key))
