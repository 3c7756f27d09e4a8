"""Data and checks shared by the tests of noise jobs and of aggregates on Ray, Spark and Dask."""

import os
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import hushvec as hv
from hushvec.aggregates import PublicTopics, private_classifier, private_pca, private_sums, private_topics
from hushvec.jobs import NoiseJob, noise_batch

PART_ROWS = 10_000
AGGREGATE_DIMENSION = 16
TERMS = {"epsilon": 1.0, "delta": 1e-5, "rows_per_person": 4}


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


def check_aggregates(parts, rows, groups, people):
    """Sums, a classifier (which reads the rows four times), components and topics have the bits and the receipts of one process."""
    pool, beside = PublicTopics.fit(rows[::7], topics=5), {"people": people, **TERMS}
    calls = (
        (partial(private_sums, labels=4), {"groups": groups}, lambda found: (found.sums, found.counts)),
        (partial(private_classifier, labels=4, steps=2), {"groups": groups}, lambda found: (found.mean_, found.coef_)),
        (partial(private_pca, components=3), {}, lambda found: (found.variances,)),
        (partial(private_topics, pool=pool), {}, lambda found: (found.counts,)),
    )
    for call, named, arrays_of in calls:
        found = call(parts, generator=hv.Generator.unsafe_seeded(5), **TERMS)
        whole = call(rows, generator=hv.Generator.unsafe_seeded(5), **named, **beside)
        assert all(np.array_equal(one, other) for one, other in zip(arrays_of(found), arrays_of(whole)))
        assert found.receipt == whole.receipt
