"""Counts of bits and codes in the core: every instruction set, sizes at their boundaries, refusals that change nothing."""

import numpy as np
import pytest

from hushvec._native import _core


def random_rows(rows, bits, seed=0, share=0.5):
    """(packed reports, 0/1 matrix)."""
    ones = (np.random.default_rng(seed).random((rows, bits)) < share).astype(np.uint8)
    padded = np.zeros((rows, -(-bits // 32) * 32), np.uint8)
    padded[:, :bits] = ones
    return np.packbits(padded, axis=1, bitorder="little").view(np.uint32), ones


@pytest.mark.parametrize("bits", [1, 31, 32, 33, 511, 512, 513, 1024, 1500])
def test_ones_are_counted(backend, bits):
    for rows in (0, 1, 15, 16, 17, 100):
        reports, ones = random_rows(rows, bits, seed=bits)
        assert (_core._testing.count_bits(backend, reports, bits) == ones.sum(axis=0)).all(), rows


@pytest.mark.parametrize("rows", [65_519, 65_520, 65_521, 131_041])
def test_more_rows_than_the_planes_hold(backend, rows):
    """Every bit set: the bit-sliced counters reach their largest value just before they are emptied."""
    reports = np.full((rows, 2), 0xFFFFFFFF, np.uint32)
    assert (_core._testing.count_bits(backend, reports, 64) == rows).all()


def test_counts_are_added_to_what_is_there():
    reports, ones = random_rows(50, 70)
    counts = np.arange(70)
    _core.count_bits(reports, 70, counts)
    assert (counts == np.arange(70) + ones.sum(axis=0)).all()


@pytest.mark.parametrize("bits", [5, 64, 600])
def test_ones_by_group(bits):
    reports, ones = random_rows(3000, bits, seed=1)
    groups = np.random.default_rng(2).integers(0, 7, 3000).astype(np.uint32)
    groups[groups == 3] = 4  # nobody in group 3
    counts = np.zeros((7, bits), np.int64)
    _core.count_bits_by_group(reports, bits, groups, counts)
    for group in range(7):
        assert (counts[group] == ones[groups == group].sum(axis=0)).all()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_codes_are_counted(dtype):
    codes = np.random.default_rng(5).integers(0, 100, 5000).astype(dtype)
    counts = np.zeros(100, np.int64)
    _core.count_codes(codes, counts)
    assert (counts == np.bincount(codes.astype(int), minlength=100)).all()


ROWS = np.zeros((4, 2), np.uint32)
BEYOND = np.array([[0, 0], [0, 0], [0, 1 << 8]], np.uint32)
REFUSED = [
    (lambda c: _core.count_bits(BEYOND, 40, c), "reports must have zeros past bit 39, got a one in report 2"),
    (lambda c: _core.count_bits(ROWS, 65, c), r"reports must have shape \(n, 3\) for 65 bits"),
    (lambda c: _core.count_bits(ROWS[0], 40, c), r"reports must have shape \(n, 2\) for 40 bits"),
    (lambda c: _core.count_bits(ROWS, 0, c), r"bits must be in \[1, 2\^24\], got 0"),
    (lambda c: _core.count_bits(ROWS, 41, c), "counts must have 41 elements, got 40"),
    (lambda c: _core.count_codes(np.array([0, 40]), c), r"codes must be in \[0, 40\), got 40 at position 1"),
    (lambda c: _core.count_codes(np.array([-1]), c), r"codes must be in \[0, 40\), got -1 at position 0"),
    (
        lambda c: _core.count_bits_by_group(BEYOND, 40, np.zeros(3, np.uint32), c[None]),
        "reports must have zeros past bit 39",
    ),
    (lambda c: _core.count_bits_by_group(ROWS, 40, np.ones(4, np.uint32), c[None]), r"codes must be in \[0, 1\), got 1"),
    (lambda c: _core.count_bits_by_group(ROWS, 40, np.ones(3, np.uint32), c[None]), "groups must have 4 elements, got 3"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals_leave_the_counts_alone(call, message):
    counts = np.arange(40)
    with pytest.raises(ValueError, match=message):
        call(counts)
    assert (counts == np.arange(40)).all()


@pytest.mark.parametrize(
    "call",
    [
        lambda: _core.count_bits(ROWS.astype(np.int32), 40, np.zeros(40, np.int64)),
        lambda: _core.count_bits(ROWS, 40, np.zeros(40)),
        lambda: _core.count_bits(np.zeros((4, 4), np.uint32)[:, ::2], 40, np.zeros(40, np.int64)),
        lambda: _core.count_codes(np.zeros(3), np.zeros(40, np.int64)),
    ],
)
def test_other_kinds_are_refused(call):
    with pytest.raises(TypeError, match="must be a C-contiguous"):
        call()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([5]), 5, (1 << 63, 1)), r"codes must be in \[0, 5\)"),
        ((np.array([0]), 0, (1 << 63, 1)), "bits must be in"),
        ((np.array([0]), 5, (1 << 63, 0)), "law must be of two whole numbers > 0"),
    ],
)
def test_bit_reports_refuse_before_drawing(arguments, message):
    import hushvec as hv

    generator = hv.Generator.unsafe_seeded(1)
    with pytest.raises(ValueError, match=message):
        _core.bit_reports(*arguments, generator)
    assert _core._state_words(generator._reserve())[4] == 0


@pytest.mark.parametrize(
    ("words", "blocks", "order", "law"),
    [
        (3, 3, 4, _core.response_law(1.0, 6)),
        (3, 1, 1, _core.response_law(1.0, 2)),
        (4, 1, 4, _core.response_law(1.0, 2)),
        (3, 1, 4, _core.response_law(1.0, 4)),
        (3, 0, 4, _core.response_law(1.0, 2)),
    ],
)
def test_hadamard_reports_refuse_what_is_no_law(words, blocks, order, law):
    with pytest.raises(ValueError, match="must be"):
        _core.hadamard_reports(np.array([0]), words, blocks, order, law, _core.default_generator())
