"""Noise jobs on Dask arrays: same bits as one process for any blocks, everything odd refused."""

import numpy as np
import pytest

from hushvec.jobs import NoiseJob
from jobs.named import named, noise_batch

dask_array = pytest.importorskip("dask.array")

from hushvec.integrations import dask as on_dask  # noqa: E402

DIMENSION = 24


@pytest.fixture
def job():
    return NoiseJob.start(dimension=DIMENSION, epsilon=6.0)


@pytest.fixture
def rows():
    return np.random.default_rng(1).standard_normal((500, DIMENSION)).astype(np.float32)


@pytest.mark.parametrize("scheduler", ("synchronous", "threads", "processes"))
def test_blocks_change_no_bit(job, rows, scheduler):
    expected = noise_batch(rows, job, partition=3)
    for length in (500, 170, (1, 99, 0, 400)):
        array = dask_array.from_array(rows, chunks=(length, DIMENSION))
        noisy = on_dask.noise_array(array, named(job, "partitions"), partition=3)
        assert noisy.dtype == rows.dtype and noisy.chunks == array.chunks
        np.testing.assert_array_equal(noisy.compute(scheduler=scheduler, num_workers=2), expected)
        if scheduler == "processes":
            break


def test_a_repeated_computation_has_the_same_bits(job, rows):
    noisy = on_dask.noise_array(dask_array.from_array(rows, chunks=(100, -1)), job)
    np.testing.assert_array_equal(noisy.compute(), noisy.compute())


def test_a_slice_keeps_the_rows_numbers(job, rows):
    noisy = on_dask.noise_array(dask_array.from_array(rows, chunks=(100, -1)), job)
    np.testing.assert_array_equal(noisy[130:140].compute(), noise_batch(rows, job)[130:140])


def test_bad_arrays(job, rows):
    with pytest.raises(ValueError, match="rows must be named by numbers in this job, got partitions"):
        on_dask.noise_array(rows, job, partition=1)
    with pytest.raises(TypeError, match=r"array must be a dask.array.Array, got ndarray"):
        on_dask.noise_array(rows, job)
    array = dask_array.from_array(rows, chunks=(100, DIMENSION))
    with pytest.raises(ValueError, match=r"array must be in blocks of whole rows, got 2 blocks per row"):
        on_dask.noise_array(array.rechunk((100, 12)), job)
    with pytest.raises(ValueError, match=r"array must have shape \(n, 24\) like the job, got \(500, 23\)"):
        on_dask.noise_array(array[:, 1:], job)
    with pytest.raises(TypeError, match=r"array must be float32 like the job, got float64"):
        on_dask.noise_array(array.astype("float64"), job)
    with pytest.raises(ValueError, match=r"blocks of known sizes"):
        on_dask.noise_array(array[array[:, 0] > 0], job)
    spoiled = rows.copy()
    spoiled[321, 5] = np.nan
    noisy = on_dask.noise_array(dask_array.from_array(spoiled, chunks=(100, DIMENSION)), job)
    with pytest.raises(ValueError, match=r"batch must be finite, got nan in row 321"):
        noisy.compute(scheduler="synchronous")
    with pytest.raises(ValueError, match=r"block_info must be given"):
        on_dask.noise_block(rows, job)
