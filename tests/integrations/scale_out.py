"""Data and checks shared by the tests of noise jobs and of sums on Ray, Spark and Dask."""

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hushvec as hv
from hushvec.aggregates import SumsOfRows, private_sums
from hushvec.jobs import NoiseJob, noise_batch

PART_ROWS = 10_000
SUMS_DIMENSION = 16
SUMS = {"epsilon": 1.0, "delta": 1e-5, "labels": 4, "rows_per_person": 4}


def write_parts(folder, rows, dimension, parts):
    """`parts` Parquet files of unit float32 rows with ids that are not in order; returns the folder."""
    Path(folder).mkdir(exist_ok=True)
    each = rows // parts
    for part in range(parts):
        random = np.random.default_rng(part)
        with pq.ParquetWriter(f"{folder}/part-{part:03}.parquet", schema(dimension)) as writer:
            for first in range(0, each, PART_ROWS):
                count = min(PART_ROWS, each - first)
                vectors = random.standard_normal((count, dimension), dtype=np.float32)
                vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
                writer.write_batch(batch_of(ids_from(part * each + first, count), vectors))
    return folder


def ids_from(first, count):
    """Distinct ids, not consecutive."""
    return (np.arange(first, first + count, dtype=np.int64) * 1_000_003) % (1 << 40)


def schema(dimension):
    return pa.schema([("id", pa.int64()), ("embedding", pa.list_(pa.float32(), dimension))])


def batch_of(ids, vectors):
    lists = pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), vectors.shape[1])
    return pa.RecordBatch.from_arrays([pa.array(ids), lists], schema=schema(vectors.shape[1]))


def vectors_of(column, dimension):
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    return column.flatten().to_numpy(zero_copy_only=False).reshape(-1, dimension)


def check_against_single_process(source, target, job_path, rows):
    """Every id once, and the bits of one process that reads the source a batch at a time. Returns the number of rows compared."""
    job = NoiseJob.load(job_path)
    single = np.empty((rows, job.dimension), np.float32)
    place_of = {}
    done = 0
    for path in sorted(Path(source).glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=3777):
            noisy = noise_batch(batch, job, id_column="id")
            single[done : done + len(noisy)] = vectors_of(noisy["embedding"], job.dimension)
            place_of.update(zip(noisy["id"].to_pylist(), range(done, done + len(noisy))))
            done += len(noisy)
    assert done == rows == len(place_of)
    seen = np.zeros(rows, np.int64)
    for path in sorted(Path(target).rglob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(batch_size=PART_ROWS):
            places = np.array([place_of[i] for i in batch["id"].to_pylist()], np.int64)
            np.add.at(seen, places, 1)
            vectors = vectors_of(batch["embedding"], job.dimension)
            assert (vectors == single[places]).all()
    assert (seen == 1).all(), f"{(seen == 0).sum()} rows missing, {(seen > 1).sum()} more than once"
    return rows


def kill_this_worker_once(marker, kill):
    """In one task of all: calls `kill`, once; `marker` is a file that remembers."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    kill()
    time.sleep(60)  # not reached by the killed process


def people_and_groups(rows):
    """Of rows in order: 3 or 4 in a run for each person, and one of 4 groups."""
    return np.arange(rows) * 10 // 35, np.arange(rows) * 7 % 4


def summed_in_one_process(rows, groups, people):
    return private_sums(rows, groups, people=people, generator=hv.Generator.unsafe_seeded(5), **SUMS)


def sums_to_fill():
    return SumsOfRows(SUMS_DIMENSION, with_people=True, generator=hv.Generator.unsafe_seeded(5), **SUMS)


def check_sums(found, whole):
    assert np.array_equal(found.sums, whole.sums) and np.array_equal(found.counts, whole.counts) and found.receipt == whole.receipt
