"""|clip(x)| <= clip_norm in exact rational arithmetic, and the clipped row has the bits that the format fixes."""

from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest

from evidence.exact.calls import Call, once_for_all_layouts, outputs
from evidence.exact.rows import representable
from evidence.reference import clip
from evidence.reference.sizes import scaled

DIMENSIONS = (1, 2, 3, 15, 16, 17, 24, 31, 32, 33, 255, 256, 257, 768, 4096)
DTYPES = ("float16", "bfloat16", "float32", "float64")
CLIP_NORMS = {
    "float16": (1.0, 0.1, 37.5),
    "bfloat16": (1.0, 0.1, 1e10, 2.0**-100, 2.0**100),
    "float32": (1.0, 0.1, 3.7e-20, 1e10, 2.0**-100, 2.0**100),
    "float64": (1.0, 0.1, 3e-16, 3.7e-20, 1e10, 2.0**-100, 2.0**100),
}
ELEMENTS = scaled(3_000, 60_000)  # for each dimension, dtype and clip_norm


def _unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rows_of_every_kind(rng, dimension, clip_norm, dtype):
    """Random and adversarial: norms around the bound, wide dynamic range, denormals, single elements, constants."""
    count = max(2, min(40, ELEMENTS // dimension // 6))
    normal = rng.standard_normal((count, dimension))
    kinds = [
        clip_norm * _unit(normal) * 10.0 ** rng.uniform(-2, 4, (count, 1)),
        clip_norm * _unit(normal),
        clip_norm * _unit(normal) * (1.0 + rng.integers(-40, 41, (count, 1)) * 2.0**-24),
        clip_norm * (1.0 - 2.0**-20) * _unit(normal) * (1.0 + rng.integers(-40, 41, (count, 1)) * 2.0**-26),
        normal * 10.0 ** rng.uniform(-30, 30, (count, dimension)),
        rng.choice((-1.0, 1.0), (count, dimension)) * 10.0 ** rng.uniform(-45, -37, (count, dimension)),
        np.full((1, dimension), clip_norm / np.sqrt(dimension)),
        np.full((1, dimension), 1.7 * clip_norm),
    ]
    single = np.zeros((5, dimension))
    single[:, -1] = clip_norm * np.array([1.0, 1.0 - 2.0**-20, 1.0 + 2.0**-23, 1e4, -3.0])
    largest = np.full((2, dimension), 1e308 if dtype == "float64" else 3e38)
    largest[1, ::2] = 5e-324 if dtype == "float64" else 1e-45
    triangle = np.zeros((2, dimension))
    triangle[:, 0], triangle[:, -1] = 0.6 * clip_norm, 0.8 * clip_norm
    kinds += [single, largest, triangle, np.zeros((1, dimension))]
    return representable(np.concatenate(kinds), dtype)


@lru_cache(maxsize=1)
def calls():
    rng = np.random.default_rng(41)
    return [
        Call(rows_of_every_kind(rng, dimension, clip_norm, dtype), dtype, function="clip", clip_norm=clip_norm)
        for dtype in DTYPES
        for clip_norm in CLIP_NORMS[dtype]
        for dimension in DIMENSIONS
    ]


@once_for_all_layouts
def expected_of(call):
    clipped = clip.clipped_rows(call.rows, call.clip_norm)
    return clip.round_to_zero(clipped, call.dtype) if call.dtype in ("float16", "bfloat16") else clipped


def rows_above(values, clip_norm):
    """Indices of the rows whose real norm exceeds clip_norm."""
    limit = Fraction(clip_norm) ** 2
    return [k for k, row in enumerate(values) if clip.exact_square_norm(row) > limit]


def plain_float32_clipping(rows, clip_norm):
    """The usual way: float32 norm, float32 quotient, float32 products."""
    rows = rows.astype(np.float32)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        norms = np.sqrt(np.sum(rows * rows, axis=1, dtype=np.float32))[:, None]
        return np.where(norms > np.float32(clip_norm), rows * (np.float32(clip_norm) / norms), rows)


def test_the_reference_never_exceeds_the_bound():
    tested = 0
    for call in calls():
        assert rows_above(expected_of(call), call.clip_norm) == [], repr(call)
        tested += len(call.rows)
    assert tested > 3000


def test_clip_has_the_bits_of_the_format_and_never_exceeds_the_bound(backend):
    for call, got in zip(calls(), outputs(backend, calls()), strict=True):
        want = expected_of(call)
        if not np.array_equal(got, want):
            row = int(np.flatnonzero((got != want).any(axis=1))[0])
            column = int(np.flatnonzero(got[row] != want[row])[0])
            above = rows_above(got, call.clip_norm)
            pytest.fail(
                f"{call!r} row {row} column {column}: x={float(call.rows[row, column]).hex()} got "
                f"{float(got[row, column]).hex()} want {float(want[row, column]).hex()}; rows above clip_norm: {above}"
            )


def test_plain_float32_clipping_exceeds_it():
    """The check can fail: on the same rows, the usual code leaves many above clip_norm."""
    above = tested = 0
    for call in calls():
        if call.dtype == "float32":
            result = plain_float32_clipping(call.rows, call.clip_norm)
            finite = np.isfinite(result).all(axis=1)
            above += len(rows_above(result[finite], call.clip_norm))
            tested += int(finite.sum())
    print(f"plain float32 clipping: {above} of {tested} rows above clip_norm")
    assert above > tested // 10


def test_a_subnormal_scale_is_rounded_towards_zero(backend):
    """3e-16 / 1e308 lies between 0 and the smallest float64; rounding it to nearest gives a row of norm 4.9e-16."""
    rows = np.array([[1e308], [-1e308], [1.7e308]])
    for clip_norm in (3e-16, 2.7e-16, 7.5e-16, 1e-15):
        (got,) = outputs(backend, [Call(rows, "float64", function="clip", clip_norm=clip_norm)])
        assert rows_above(got, clip_norm) == [], (clip_norm, got)


def test_small_and_zero_rows_are_unchanged(backend):
    rng = np.random.default_rng(42)
    rows = representable(0.99 * _unit(rng.standard_normal((20, 100))), "float32")
    rows[3] = 0.0
    (got,) = outputs(backend, [Call(rows, function="clip")])
    np.testing.assert_array_equal(got, rows)
