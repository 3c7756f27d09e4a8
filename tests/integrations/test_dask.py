"""Noise jobs on Dask arrays: same bits as one process for any blocks, everything odd refused."""

import numpy as np
import pytest

from hushvec.aggregates import private_sums
from hushvec.jobs import NoiseJob
from integrations.scale_out import AGGREGATE_DIMENSION, TERMS, check_aggregates, people_and_groups
from jobs.named import named, noise_batch

dask_array = pytest.importorskip("dask.array")
dask = pytest.importorskip("dask")

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


# ---- aggregates


def test_aggregates_have_the_bits_of_one_process():
    rows = np.random.default_rng(2).standard_normal((350, AGGREGATE_DIMENSION)).astype(np.float32)
    people, groups = people_and_groups(350)
    for scheduler, lengths in (("processes", (70, 0, 210, 70)), ("threads", 350), ("synchronous", 35)):
        arrays = [dask_array.from_array(one, chunks=(lengths, -1)[: one.ndim]) for one in (rows, groups, people)]
        with dask.config.set(scheduler=scheduler, num_workers=2):
            check_aggregates(on_dask.rows_of(*arrays), rows, groups, people)


def test_bad_arrays_of_aggregates():
    rows = np.ones((100, AGGREGATE_DIMENSION), np.float32)
    array, people = dask_array.from_array(rows, chunks=(50, -1)), dask_array.arange(100, chunks=50)
    groups = people % 4
    for bad, said in (
        ((rows, groups, people), "array must be a dask.array.Array, got ndarray"),
        ((array, groups, list(range(100))), "people must be a dask.array.Array, got list"),
        ((array.rechunk((50, 8)), groups, people), "array must be in blocks of whole rows"),
        ((array, groups.rechunk(100), people), "groups must be in the 2 blocks of array, got 1"),
        ((array, groups, people * 0), "people must have all their rows in one part, got 1 who have some in two"),
        ((array * np.nan, groups, people), "must be finite"),
        ((array, groups + 4, people), "groups must be among the 4 labels"),
    ):
        with pytest.raises((TypeError, ValueError), match=said):
            private_sums(on_dask.rows_of(*bad), labels=4, **TERMS)
