"""The release of a sum: the law of its noise, its bits, results of every kind, rows on a device."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import clip, half
from evidence.reference import clipped_sum as reference
from evidence.reference.checks import cells, dithered_uniforms, uniformity
from hushvec._native import _core
from hushvec.training import clipped_sums
from hushvec.training.clipped_sums import ClippedSum

torch = pytest.importorskip("torch")

ALPHA = 1e-6
SAMPLES = 2**18


def grid_of(sigma, clip_norm, version):
    return clip.grid(sigma, clip_norm, half.GRID_BITS if version == 3 else clip.GRID_BITS)


def noise_in_grids(clip_norm, sigma, value, version):
    """n of a release of SAMPLES equal sums, and the sum in grids: n = round(sum + s Z)."""
    total = ClippedSum([(SAMPLES,)], clip_norm=clip_norm, sigma=sigma)
    total.add([np.full((3, SAMPLES), value, np.float32)])
    grid = grid_of(sigma, clip_norm, version)[1]
    x = total._units()[0][0] * reference.unit(clip_norm) / grid
    return total.release(hv.Generator.unsafe_seeded(20, format_version=version))[0].astype(np.float64) / grid, x


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(("clip_norm", "sigma", "value"), [(1.0, 0.7, 0.0), (3.0, 1.0, 1.0), (1.0, 2000.0, 5.0)])
def test_the_noise_is_an_exactly_rounded_gaussian(clip_norm, sigma, value, version):
    """Chi-square on the cells of round(x + s Z), n = 2^18; noise 5 % narrower, and a sum s / 20 off, are rejected."""
    n, x = noise_in_grids(clip_norm, sigma, value, version)
    s = grid_of(sigma, clip_norm, version)[0] / grid_of(sigma, clip_norm, version)[1]
    assert np.array_equal(n, np.rint(n))

    def p_value(x, s):
        return cells(n, x, s, stats.norm.cdf, stats.norm.sf)

    assert p_value(x, s) > ALPHA
    assert p_value(x, 0.95 * s) < ALPHA
    assert p_value(x, 1.05 * s) < ALPHA
    assert p_value(x, 2 * s) < ALPHA  # the noise of 2 C
    assert p_value(x + s / 20, s) < ALPHA


@pytest.mark.parametrize("rows", [1, 300])  # sums in int32, and in float64
def test_every_part_of_a_sum_is_emptied(rows):
    """Rows of the sum before are in no part of an empty one, whatever a part's length."""
    shapes = [(17,), (0,), (1000,), (1,), (64,)]
    total = ClippedSum(shapes, clip_norm=1.0, sigma=0.0)
    total.add([np.ones((rows, *shape), np.float32) for shape in shapes])
    assert all(part.all() for part in total.release())
    assert not any(part.any() for part in total.release())
    noisy = [ClippedSum(shapes, clip_norm=1.0, sigma=0.5) for _ in range(2)]
    noisy[0].add([np.ones((rows, *shape), np.float32) for shape in shapes])
    noisy[0].reset()
    for ours, new in zip(*(one.release(hv.Generator.unsafe_seeded(3)) for one in noisy)):
        assert np.array_equal(ours, new)


def test_an_empty_sum_is_pure_noise():
    """Kolmogorov-Smirnov, n = 2^16, by the law of rounded noise."""
    n = ClippedSum([(2**16,)], clip_norm=1.0, sigma=3.0).release()[0] / grid_of(3.0, 1.0, 3)[1]

    def p_value(s):
        return uniformity(dithered_uniforms(n, 0.0, s, stats.norm.cdf, np.random.default_rng(6)))

    assert p_value(12.0) > ALPHA
    assert p_value(12.6) < ALPHA


@pytest.mark.parametrize("cipher", ["aes256", "chacha20"])
@pytest.mark.parametrize("version", [None, 3])
def test_release_is_privatising_the_sum(version, cipher):
    """Beside a ball that holds it, a float64 row of the sum gets the same bits from clip_and_noise."""
    rng = np.random.default_rng(1)
    total = ClippedSum([(1000,)], clip_norm=1.0, sigma=0.5)
    total.add([rng.standard_normal((5, 1000)).astype(np.float32)])
    exact = total._units()[0] * reference.unit(1.0)
    sources = [hv.Generator.unsafe_seeded(3, cipher=cipher, format_version=version) for _ in range(2)]
    released = total.release(sources[0])[0]
    expected = np.empty(1000)
    _core.clip_and_noise(exact, 64.0, 0.5, expected, sources[1], "gaussian", True)
    assert grid_of(0.5, 64.0, version) == grid_of(0.5, 1.0, version)
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
    assert exact[0] / grid_of(sigma, 1.0, 3)[1] > 2**21
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
from hushvec.training.clipped_sums import ClippedSum
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


# ---- rows in CUDA memory, with the device's calls replaced ----


@pytest.fixture
def device(monkeypatch):
    """Tensors of the CPU count as CUDA ones; the calls of the backend are made of the CPU's sum."""

    class Backend:
        most = 2**27

        def most_rows_of_sum(self, x, clip_norm, sigma):
            return self.most

        def sum_scales(self, parts, clip_norm):
            norms = torch.sqrt(sum((part.double() ** 2).sum(1) for part in parts))
            bad = torch.nonzero(~norms.isfinite())
            scales = torch.where(norms > clip_norm, clip_norm * (1 - 2.0**-20) / norms, torch.ones_like(norms))
            return scales / reference.unit(clip_norm), int(bad[0]) if len(bad) else None

        def add_to_sum(self, part, scales, sums):
            assert part.is_contiguous() and sums.dtype == torch.float64
            sums += (part.double() * scales[:, None]).trunc().sum(0)

        def release_sums(self, sums, clip_norm, sigma, out, source):
            for part, target in zip(sums, out, strict=True):
                noise = hv.gaussian_noise(len(part), sigma=sigma, generator=source)
                target[...] = torch.from_numpy(noise) + part * reference.unit(clip_norm)

    backend = Backend()
    monkeypatch.setattr(clipped_sums, "cuda", backend)
    monkeypatch.setattr(clipped_sums, "on_cuda", lambda x: True)
    return backend


def test_parts_and_batches_are_added_on_the_device(device):
    total = ClippedSum([(2, 2), (), (0,)], clip_norm=64.0, sigma=0.0, most_rows=5)
    total.add([torch.arange(8.0).double().reshape(2, 2, 2).transpose(1, 2), torch.tensor([10.0, 20.0]), torch.empty(2, 0)])
    total.add([torch.ones(1, 2, 2), torch.ones(1), torch.empty(1, 0)])
    assert total.rows == 3
    matrix, scalar, empty = total.release()
    assert torch.equal(matrix, torch.tensor([[5.0, 9.0], [7.0, 11.0]])) and float(scalar) == 31.0 and empty.shape == (0,)
    assert total.rows == 0


def test_sums_of_two_processes_are_added_up_on_the_device(device):
    rows, sums = torch.full((5, 3), 0.25), [ClippedSum([(3,)], clip_norm=1.0, sigma=0.0, most_rows=5) for _ in range(3)]
    sums[0].add([rows[:2]])
    sums[1].add([rows[2:]])
    units = [total.units(rows)[0] for total in sums]  # of the third, an empty batch, zeros
    assert not units[2].any()
    sums[0].replace([units[0] + units[1] + units[2]], 5)
    assert sums[0].rows == 5 and sums[1].rows == 3
    with pytest.raises(ValueError, match="rows of the sum must be <= 5, got 6"):
        sums[0].replace([units[0]], 6)
    assert torch.equal(sums[0].release()[0], torch.full((3,), 1.25))


def test_each_part_on_a_device_has_a_nonce_of_its_own(device):
    first, second = ClippedSum([(500,), (500,)], clip_norm=1.0, sigma=1.0).release(
        hv.Generator.unsafe_seeded(4), [torch.empty(500), torch.empty(500)]
    )
    generator = hv.Generator.unsafe_seeded(4)
    for part in (first, second):
        assert np.array_equal(part.numpy(), hv.gaussian_noise(500, generator=generator))


def test_nonces_for_parts_on_a_device_are_those_of_as_many_calls(core):
    at_once, one_by_one = (hv.Generator.unsafe_seeded(4) for _ in range(2))
    first, after = (core._state_words(at_once._reserve_for_device(nonces)) for nonces in (3, 1))
    nonces = [core._state_words(one_by_one._reserve_for_device()) for _ in range(4)]
    assert np.array_equal(first, nonces[0]) and np.array_equal(after, nonces[3])


def test_an_empty_sum_is_noise_on_the_device(device, monkeypatch):
    """As an empty Poisson batch and ghost clipping release it: the core, which would refuse the memory, is not asked."""
    monkeypatch.setattr(ClippedSum, "_add_on_cpu", None)
    total = ClippedSum([(3, 2)], clip_norm=1.0, sigma=1.0)
    monkeypatch.setattr(total, "_sum", type("Core", (), {"rows": 0}))
    out = [torch.zeros(3, 2)]
    assert total.release(None, out)[0] is out[0] and out[0].all() and total.rows == 0


def test_what_a_device_cannot_do_is_refused_and_changes_nothing(device):
    rows = [torch.ones(2, 3)]
    total = ClippedSum([(3,)], clip_norm=1.0, sigma=1.0, most_rows=3)
    with pytest.raises(ValueError, match="got nan in row 1"):
        total.add([torch.tensor([[1.0, 1.0, 1.0], [1.0, np.nan, 1.0]])])
    assert total._on_device is None
    total.add(rows)
    with pytest.raises(ValueError, match=r"most_rows = 3, got 2 \+ 2"):
        total.add(rows)
    device.most = 2
    with pytest.raises(ValueError, match=r"the most on a CUDA device with this clip_norm and sigma = 2, got 2 \+ 1"):
        total.add([torch.ones(1, 3)])
    assert total.rows == 2


def test_rows_on_a_device_and_on_the_cpu_are_not_mixed(device, monkeypatch):
    total = ClippedSum([(3,)], clip_norm=1.0, sigma=1.0)
    total.add([torch.ones(2, 3)])
    total._on_device.device = "cuda:0"
    with pytest.raises(ValueError, match="out must be on cuda:0 like the rows, got cpu"):
        total.release(None, [torch.zeros(3)])
    monkeypatch.setattr(clipped_sums, "on_cuda", lambda x: False)
    with pytest.raises(ValueError, match="parts must be on cuda:0 like the rows added before, got cpu"):
        total.add([torch.ones(2, 3)])
    on_cpu = ClippedSum([(3,)], clip_norm=1.0, sigma=1.0)
    on_cpu.add([torch.ones(2, 3)])
    monkeypatch.setattr(clipped_sums, "on_cuda", lambda x: True)
    with pytest.raises(ValueError, match="parts must be on the CPU like the rows added before, got cpu"):
        on_cpu.add([torch.ones(2, 3)])
