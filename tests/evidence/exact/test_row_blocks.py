"""A new output goes through in blocks of rows, one of the caller in two passes: the same bits, and the same first bad row."""

import numpy as np
import pytest

import hushvec as hv
from evidence.exact.rows import around_the_ball
from hushvec._native import _core

SEED = 4711
LAWS = ("gaussian", "laplacian", "l2_laplace")
# Several blocks each, the last one cut short; rows of 257 align with groups of 256 samples every 256 rows only.
SHAPES = ((400_001, 1), (1_601, 257), (1_203, 768), (9, 100_000))


def noised(x, law, *, fresh, exact=True):
    out = np.full_like(x, np.nan)
    generator = hv.Generator.unsafe_seeded(SEED, rounds=8)
    _core.clip_and_noise(x, 1.0, 0.3, out, generator, law, exact and law != "l2_laplace", out_is_fresh=fresh)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_same_bits_with_and_without_blocks(threads, shape, dtype):
    x = around_the_ball(np.random.default_rng(1), *shape, 1.0, dtype).astype(dtype)
    for law in LAWS:
        np.testing.assert_array_equal(noised(x, law, fresh=True), noised(x, law, fresh=False), err_msg=law)
    np.testing.assert_array_equal(
        noised(x, "gaussian", fresh=True, exact=False), noised(x, "gaussian", fresh=False, exact=False)
    )
    np.testing.assert_array_equal(hv.clip(x, 1.0), hv.clip(x, 1.0, out=np.empty_like(x)))


@pytest.mark.parametrize("bad", ((0,), (1_202,), (700, 650), (1_000, 300, 44)))
def test_the_first_bad_row_is_named(threads, bad):
    x = np.ones((1_203, 768), dtype=np.float32)
    x[list(bad), 5] = np.inf
    message = f"x must be finite, got inf in row {min(bad)}$"
    with pytest.raises(ValueError, match=message):
        hv.clip_and_noise(x, 1.0, 0.3)
    with pytest.raises(ValueError, match=message):
        hv.clip(x, 1.0)
    with pytest.raises(ValueError, match=message):
        hv.privatize(x, epsilon=1.0)
    out = np.zeros_like(x)
    with pytest.raises(ValueError, match=message):
        hv.clip_and_noise(x, 1.0, 0.3, out=out)
    assert not out.any()


@pytest.mark.parametrize("columns", (393_216, 400_031))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_a_row_for_all_threads_has_the_bits_that_one_thread_makes(columns, dtype):
    """The norm in two halves, a new output as the stage, the last group apart; norms at the border, and one whose square overflows."""
    unit = np.random.default_rng(2).standard_normal(columns)
    unit /= np.linalg.norm(unit)
    large = [1e200] if dtype == "float64" else []
    found = {}
    try:
        for threads in (1, 2, 3):
            hv.set_num_threads(threads)
            for scale in [1.0, 1.0 + 2**-20, *large]:
                x = (scale * unit).astype(dtype)
                for out, given in ((np.empty_like(x), x), 2 * [x.copy()]):
                    _core.clip(given, 1.0, out, out_is_fresh=True)
                    assert found.setdefault((scale, "clip"), out.tobytes()) == out.tobytes()
                for law, exact in (("gaussian", True), ("gaussian", False)):
                    for out, given in ((np.empty_like(x), x), 2 * [x.copy()]):
                        source = hv.Generator.unsafe_seeded(SEED, rounds=8)
                        _core.clip_and_noise(given, 1.0, 0.3, out, source, law, exact, out_is_fresh=True)
                        assert found.setdefault((scale, law, exact), out.tobytes()) == out.tobytes()
    finally:
        hv.set_num_threads(0)
