"""Prints a digest of reports and counts: run in a process of its own, with one backend and one number of threads."""

import hashlib

import numpy as np

import hushvec as hv
from hushvec._native import _core


def digests():
    rng = np.random.default_rng(1)
    generator = hv.Generator.unsafe_seeded(99)
    law = _core.response_law(1.5, 2)
    reports = _core.bit_reports(rng.integers(0, 2100, 700), 2100, (1 << 63, law[1]), generator)
    yield reports
    yield _core.perturb_bits(reports, 2100, law, generator)
    yield _core.hadamard_reports(rng.integers(0, 3000, 300_001), 3000, 4, 1024, _core.response_law(1.5, 8), generator)
    counts = np.zeros(2100, np.int64)
    _core.count_bits(np.tile(reports, (20, 1)), 2100, counts)
    yield counts
    by_group = np.zeros((5, 2100), np.int64)
    _core.count_bits_by_group(np.tile(reports, (20, 1)), 2100, rng.integers(0, 5, 14_000).astype(np.uint32), by_group)
    yield by_group


if __name__ == "__main__":
    for array in digests():
        print(hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
