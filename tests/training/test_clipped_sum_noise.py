"""The release of a sum: the law of its noise, its bits, results of every kind, rows on a device."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import clip
from evidence.reference import clipped_sum as reference
from evidence.reference.checks import cells
from hushvec._native import _core, clipped_sums
from hushvec._native.clipped_sums import ClippedSum

torch = pytest.importorskip("torch")

ALPHA = 1e-6
SAMPLES = 2**18


def noise_in_grids(clip_norm, sigma, value):
    """n of a release of SAMPLES equal sums, and the sum in grids: n = round(sum + s Z)."""
    total = ClippedSum([(SAMPLES,)], clip_norm=clip_norm, sigma=sigma)
    total.add([np.full((3, SAMPLES), value, np.float32)])
    grid = clip.grid(sigma, clip_norm)[1]
    x = total._units()[0][0] * reference.unit(clip_norm) / grid
    return total.release(hv.Generator.unsafe_seeded(20))[0].astype(np.float64) / grid, x


@pytest.mark.parametrize(("clip_norm", "sigma", "value"), [(1.0, 0.7, 0.0), (3.0, 1.0, 1.0), (1.0, 2000.0, 5.0)])
def test_the_noise_is_an_exactly_rounded_gaussian(clip_norm, sigma, value):
    """Chi-square on the cells of round(x + s Z), n = 2^18; noise 3 % narrower, and a sum half a grid off, are rejected."""
    n, x = noise_in_grids(clip_norm, sigma, value)
    s = clip.grid(sigma, clip_norm)[0] / clip.grid(sigma, clip_norm)[1]
    assert np.array_equal(n, np.rint(n))

    def p_value(x, s):
        return cells(n, x, s, stats.norm.cdf, stats.norm.sf)

    assert p_value(x, s) > ALPHA
    assert p_value(x, 0.95 * s) < ALPHA
    assert p_value(x, 1.05 * s) < ALPHA
    assert p_value(x, 2 * s) < ALPHA  # the noise of 2 C
    assert p_value(x + s / 20, s) < ALPHA


def test_an_empty_sum_is_pure_noise():
    """Kolmogorov-Smirnov, n = 2^16; the grid of sigma / 64 moves its statistic by less than 0.004."""
    drawn = ClippedSum([(2**16,)], clip_norm=1.0, sigma=3.0).release()[0]
    assert stats.kstest(drawn / 3.0, "norm").pvalue > ALPHA
    assert stats.kstest(drawn / 3.15, "norm").pvalue < ALPHA


def test_release_is_privatising_the_sum():
    """Beside a ball that holds it, a float64 row of the sum gets the same bits from clip_and_noise."""
    rng = np.random.default_rng(1)
    total = ClippedSum([(1000,)], clip_norm=1.0, sigma=0.5)
    total.add([rng.standard_normal((5, 1000)).astype(np.float32)])
    exact = total._units()[0] * reference.unit(1.0)
    released = total.release(hv.Generator.unsafe_seeded(3))[0]
    expected = np.empty(1000)
    _core.clip_and_noise(exact, 64.0, 0.5, expected, hv.Generator.unsafe_seeded(3), "gaussian", True)
    assert clip.grid(0.5, 64.0) == clip.grid(0.5, 1.0)
    assert np.array_equal(released, expected.astype(np.float32))


def test_sums_beyond_exact_rounding_keep_their_noise():
    """Rows that all point one way under little noise: the sum is above 2^21 grids."""
    rows, dimension, sigma = 5000, 300, 2.0**-12
    total = ClippedSum([(dimension,)], clip_norm=1.0, sigma=sigma)
    x = np.zeros((rows, dimension), np.float32)
    x[:, 0] = 2.0
    total.add([x])
    exact = total._units()[0] * reference.unit(1.0)
    released = total.release()[0]
    assert exact[0] / clip.grid(sigma, 1.0)[1] > 2**21
    assert abs(released[0] - exact[0]) < 8 * sigma
    assert 0 < np.abs(released[1:]).max() < 8 * sigma


def test_each_part_draws_from_its_own_nonce():
    total = ClippedSum([(500,), (500,)], clip_norm=1.0, sigma=1.0)
    first, second = total.release(hv.Generator.unsafe_seeded(4))
    assert not np.array_equal(first, second)
    generator = hv.Generator.unsafe_seeded(4)
    alone = ClippedSum([(500,)], clip_norm=1.0, sigma=1.0)
    assert np.array_equal(alone.release(generator)[0], first)
    assert np.array_equal(alone.release(generator)[0], second)


def test_results_are_of_the_library_of_the_rows():
    total = ClippedSum([(2, 3), ()], clip_norm=1.0, sigma=1.0)
    assert [part.shape for part in total.release()] == [(2, 3), ()]
    assert all(isinstance(part, np.ndarray) and part.dtype == np.float32 for part in total.release())
    total.add([torch.ones(4, 2, 3, dtype=torch.bfloat16), torch.ones(4, dtype=torch.bfloat16)])
    released = total.release()
    assert all(torch.is_tensor(part) and part.dtype == torch.float32 for part in released)
    assert total.rows == 0
    strided = torch.zeros(3, 2).t()
    out = [strided, torch.zeros(())]
    total.release(hv.Generator.unsafe_seeded(1), out)
    again = total.release(hv.Generator.unsafe_seeded(1))
    assert torch.equal(out[0], again[0]) and torch.equal(out[1], again[1]) and out[0].all()


BITS = """
import hashlib, numpy as np, hushvec as hv
from hushvec._native.clipped_sums import ClippedSum
digest = hashlib.sha256()
rng = np.random.default_rng(5)
x = (rng.standard_normal((5, 600_003)) * 0.05).astype(np.float32)
x[3] = 0
x[3, 12345] = 9
for clipping in ("exact", "estimated"):
    for sigma in (0.0, 0.3):
        total = ClippedSum([(600_003,)], clip_norm=0.8, sigma=sigma, clipping=clipping)
        total.add([x])
        digest.update(total.release(hv.Generator.unsafe_seeded(9))[0].tobytes())
print(digest.hexdigest(), hv.backends()["active"])
"""


def test_every_instruction_set_gives_the_same_bits(core):
    seen = set()
    for backend in core.backends()["available"]:
        environment = os.environ | {"HUSHVEC_BACKEND": backend, "HUSHVEC_NUM_THREADS": "2"}
        run = subprocess.run([sys.executable, "-c", BITS], capture_output=True, text=True, env=environment, check=True)
        digest, active = run.stdout.split()
        assert active == backend
        seen.add(digest)
    assert len(seen) == 1


# ---- rows in CUDA memory, with the device's call replaced ----


@pytest.fixture
def device_calls(monkeypatch):
    calls = []

    def clip_sum_and_noise(x, clip_norm, sigma, out, source):
        calls.append((x, clip_norm, sigma))
        out[...] = x.float().sum(0)

    monkeypatch.setattr(clipped_sums.cuda, "clip_sum_and_noise", clip_sum_and_noise)
    monkeypatch.setattr(clipped_sums, "on_cuda", lambda x: True)
    return calls


def test_parts_and_calls_on_a_device_are_joined(device_calls):
    total = ClippedSum([(2, 2), ()], clip_norm=1.5, sigma=2.0, most_rows=5)
    total.add([torch.arange(8.0).reshape(2, 2, 2), torch.tensor([10.0, 20.0])])
    total.add([torch.ones(1, 2, 2), torch.ones(1)])
    assert total.rows == 3
    matrix, scalar = total.release()
    ((rows, clip_norm, sigma),) = device_calls
    assert rows.shape == (3, 5) and (clip_norm, sigma) == (1.5, 2.0)
    assert torch.equal(matrix, torch.tensor([[5.0, 7.0], [9.0, 11.0]])) and float(scalar) == 31.0
    assert total.rows == 0


def test_what_a_device_cannot_do_is_refused_by_name(device_calls):
    rows = [torch.ones(2, 3)]
    with pytest.raises(ValueError, match="sigma must be > 0 for rows on a CUDA device"):
        ClippedSum([(3,)], clip_norm=1.0, sigma=0.0).add(rows)
    total = ClippedSum([(3,)], clip_norm=1.0, sigma=1.0, most_rows=3)
    with pytest.raises(TypeError, match="float64"):
        total.add([rows[0].double()])
    with pytest.raises(ValueError, match="got nan in row 1"):
        total.add([torch.tensor([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0]])])
    total.add(rows)
    with pytest.raises(ValueError, match=r"most_rows = 3, got 2 \+ 2"):
        total.add(rows)
    assert total.rows == 2
