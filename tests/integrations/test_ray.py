"""Noise jobs on Ray Data: same bits as one process, each row once, whoever is killed.

HUSHVEC_TEST_SCALE=full: 1,000,000 x 384 with two workers, one of which is killed half way.
"""

import os
import signal
import sys
import time

import numpy as np
import pyarrow as pa
import pytest

from evidence.reference.sizes import scaled
from hushvec.jobs import NoiseJob, noise_batch
from integrations.scale_out import (
    AGGREGATE_DIMENSION,
    batch_of,
    check_against_single_process,
    check_aggregates,
    ids_from,
    kill_this_worker_once,
    people_and_groups,
    vectors_of,
    write_parts,
)

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")

from hushvec.integrations import ray as on_ray  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DIMENSION = 384
ROWS = scaled(4_000, 1_000_000)
PARTS = scaled(4, 20)
OBJECT_STORE_BYTES = scaled(1 << 27, 1 << 30)


def start(attempts=3):
    """Ray waits half a minute for its own processes, which a busy machine does not always keep."""
    try:
        ray.init(
            num_cpus=2, object_store_memory=OBJECT_STORE_BYTES, include_dashboard=False, log_to_driver=False, logging_level="error",
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}},
        )  # fmt: skip
    except Exception:
        ray.shutdown()
        if attempts == 1:
            raise
        start(attempts - 1)


@pytest.fixture(scope="module")
def cluster():
    on_termination = signal.getsignal(signal.SIGTERM)
    start()
    signal.signal(signal.SIGTERM, on_termination)  # forked children of later tests would have Ray's
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


@pytest.mark.full
def test_a_killed_worker_leaves_every_row_once(cluster, tmp_path, record_property):
    """The worker kills itself by SIGKILL in the middle of a task, after half of the parts were read."""
    source = write_parts(tmp_path / "in", ROWS, DIMENSION, PARTS)
    job = NoiseJob.start(dimension=DIMENSION, epsilon=8.0, path=tmp_path / "job.json", rows_by="integer-ids")
    function = on_ray.noise_function(job, id_column="id")
    half = set(ids_from(ROWS // 2, 1000).tolist())
    marker = str(tmp_path / "killed")

    def noise(batch):
        noisy = function(batch)
        if not half.isdisjoint(batch["id"].to_pylist()):
            kill_this_worker_once(marker, lambda: os.kill(os.getpid(), signal.SIGKILL))
        return noisy

    start = time.perf_counter()
    data = ray.data.read_parquet(str(source))
    data.map_batches(noise, batch_format="pyarrow", batch_size=5_000).write_parquet(str(tmp_path / "out"))
    seconds = time.perf_counter() - start
    assert os.path.exists(marker), "no worker was killed"
    rows = check_against_single_process(source, tmp_path / "out", tmp_path / "job.json", ROWS)
    record_property("seconds", seconds)
    print(f"Ray: {rows} x {DIMENSION}, 2 workers, one killed: {seconds:.1f} s, each row once, bits as in one process")


@pytest.mark.parametrize(
    "stored, batch_format, batch_size",
    [
        ("lists", "pyarrow", 7), ("tensors", "numpy", 1000),
        *(pytest.param(*others, marks=pytest.mark.full) for others in (("lists", "numpy", 1000), ("tensors", "pyarrow", 7))),
    ],
)  # fmt: skip
def test_both_batch_formats(cluster, stored, batch_format, batch_size):
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="integer-ids")
    vectors = np.random.default_rng(1).standard_normal((90, 16)).astype(np.float32)
    ids = ids_from(0, 90)
    data = ray.data.from_arrow(pa.Table.from_batches([batch_of(ids, vectors)]))
    if stored == "tensors":
        data = ray.data.from_numpy(vectors).zip(ray.data.from_arrow(pa.table({"id": ids}))).rename_columns({"data": "embedding"})
    noisy = on_ray.noise_dataset(data, job, id_column="id", batch_format=batch_format, batch_size=batch_size)
    expected = dict(zip(ids.tolist(), noise_batch(vectors, job, ids=ids)))
    seen = 0
    for batch in noisy.iter_batches(batch_format="pyarrow", batch_size=50):
        for i, row in zip(batch["id"].to_pylist(), vectors_of(batch["embedding"], 16)):
            np.testing.assert_array_equal(row, expected[i])
            seen += 1
    assert seen == 90


def test_an_id_column_is_needed():
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="integer-ids")
    with pytest.raises(TypeError, match=r"id_column must be the name of a column: Ray gives rows no numbers; got NoneType"):
        on_ray.noise_function(job, id_column=None)
    with pytest.raises(ValueError, match="rows must be named by numbers in this job, got ids"):
        on_ray.noise_function(NoiseJob.start(dimension=16, epsilon=8.0), id_column="id")


def test_a_bad_row_is_named(cluster):
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="integer-ids")
    vectors = np.ones((9, 16), np.float32)
    vectors[4, 4] = np.inf
    data = ray.data.from_arrow(pa.Table.from_batches([batch_of(np.arange(9) + 100, vectors)]))
    with pytest.raises(Exception, match=r"embedding must be finite, got inf in the row with id 104"):
        on_ray.noise_dataset(data, job, id_column="id").materialize()


def test_aggregates_have_the_bits_of_one_process(cluster):
    rows = np.random.default_rng(2).standard_normal((350, AGGREGATE_DIMENSION)).astype(np.float32)
    people, groups = people_and_groups(350)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), AGGREGATE_DIMENSION)
    dataset = ray.data.from_arrow(pa.table({"embedding": vectors, "topic": groups, "person": people}))
    names = {"groups": "topic", "people": "person"}
    check_aggregates(on_ray.rows_of(dataset, batch_size=35, **names), rows, groups, people)
    with pytest.raises(ValueError, match="people must have all their rows in one part"):
        check_aggregates(on_ray.rows_of(dataset, batch_size=36, **names), rows, groups, people)
