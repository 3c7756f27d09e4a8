"""Noise jobs on Spark: same bits as one process, each row once, whoever is killed.

HUSHVEC_TEST_SCALE=full: 1,000,000 x 384 on two executors, one of which is killed half way.
"""

import os
import shutil
import signal
import sys
import time
from itertools import pairwise

import numpy as np
import pytest

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

pyspark = pytest.importorskip("pyspark")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java: install one (apt install default-jre-headless) or set JAVA_HOME", allow_module_level=True)

from hushvec.integrations import spark as on_spark  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:pyspark.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

DIMENSION = 384
ROWS, PARTS = 1_000_000, 20  # of the one test that needs the full scale
FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"
# Executors of their own, one of which can be killed, take a minute to start and to talk to.
MASTER = "local-cluster[2,1,1024]" if FULL else "local[2]"


def session_of(master, folder):
    from pyspark.sql import SparkSession

    path = os.pathsep.join(p for p in sys.path if p)
    builder = SparkSession.builder.master(master).appName("hushvec tests")
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.executorEnv.PYTHONPATH": path,
        "spark.sql.execution.arrow.maxRecordsPerBatch": "3000",
        "spark.sql.files.maxPartitionBytes": "48m",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.pyspark.python": sys.executable,
        "spark.log.level": "OFF",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    os.environ["PYTHONPATH"] = path
    os.environ["PYSPARK_PYTHON"] = sys.executable  # of this environment, whose editable installation others do not see
    return builder.getOrCreate()


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    session = session_of(MASTER, tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.mark.skipif(not FULL, reason="a minute: HUSHVEC_TEST_SCALE=full")
def test_a_killed_executor_leaves_every_row_once(spark, tmp_path, record_property):
    """The executor's Java process is killed by SIGKILL in the middle of a task, after half of the parts were read."""
    source = write_parts(tmp_path / "in", ROWS, DIMENSION, PARTS)
    job = NoiseJob.start(dimension=DIMENSION, epsilon=8.0, path=tmp_path / "job.json", rows_by="integer-ids")
    half = set(ids_from(ROWS // 2, 1000).tolist())
    marker = str(tmp_path / "killed")
    function = on_spark.noise_function(job, id_column="id")

    def noise(batches):
        for noisy in function(batches):
            if not half.isdisjoint(noisy["id"].to_pylist()):
                kill_this_worker_once(marker, kill_executor)
            yield noisy

    start = time.perf_counter()
    frame = spark.read.parquet(str(source))
    frame.mapInArrow(noise, schema=frame.schema).write.parquet(str(tmp_path / "out"))
    seconds = time.perf_counter() - start
    assert os.path.exists(marker), "no executor was killed"
    rows = check_against_single_process(source, tmp_path / "out", tmp_path / "job.json", ROWS)
    record_property("seconds", seconds)
    print(f"Spark: {rows} x {DIMENSION}, 2 executors, one killed: {seconds:.1f} s, each row once, bits as in one process")


def kill_executor():
    """Of the Python worker's ancestors, the first that is Java: the executor, of which the test started two."""
    process = os.getpid()
    while True:
        with open(f"/proc/{process}/stat") as file:
            process = int(file.read().rpartition(")")[2].split()[1])
        with open(f"/proc/{process}/cmdline", "rb") as file:
            words = file.read().split(b"\0")
        if words[0].endswith(b"java"):
            assert b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words
            os.kill(process, signal.SIGKILL)
            return


def collected(frame, dimension):
    rows = frame.collect()
    return {row["id"]: np.array(row["embedding"], np.float32) for row in rows}, len(rows)


def test_ids_decide_whatever_the_partitions(spark, tmp_path):
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="integer-ids")
    vectors = np.random.default_rng(1).standard_normal((90, 16)).astype(np.float32)
    ids = ids_from(0, 90)
    expected = dict(zip(ids.tolist(), noise_batch(vectors, job, ids=ids)))
    frame = spark.createDataFrame(
        [(int(i), row.tolist()) for i, row in zip(ids, vectors)], schema="id long, embedding array<float>"
    )
    for parts in (1, 3):
        noisy = on_spark.noise_dataframe(frame.repartition(parts), job, id_column="id")
        assert noisy.schema == frame.schema
        got, count = collected(noisy, 16)
        assert count == 90 and got.keys() == expected.keys()
        for i, row in expected.items():
            np.testing.assert_array_equal(got[i], row)


def test_without_ids_partition_and_row_decide(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="partitions")
    vectors = np.random.default_rng(1).standard_normal((7000, 16)).astype(np.float32)
    ids = np.arange(7000)
    pq.write_table(pa.Table.from_batches([batch_of(ids, vectors)]), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet")).coalesce(1)
    got, count = collected(on_spark.noise_dataframe(frame, job), 16)
    assert count == 7000
    np.testing.assert_array_equal(np.stack([got[i] for i in ids]), noise_batch(vectors, job, partition=0))
    again, _ = collected(on_spark.noise_dataframe(frame, job), 16)
    assert all((again[i] == got[i]).all() for i in ids)


def test_a_bad_row_is_named(spark):
    from pyspark.errors import PySparkException

    job = NoiseJob.start(dimension=2, epsilon=8.0, rows_by="integer-ids")
    rows = [(1, [1.0, 2.0]), (2, [1.0]), (3, [0.0, 0.0])]
    frame = spark.createDataFrame(rows, schema="id long, embedding array<float>").coalesce(1)
    with pytest.raises(PySparkException, match=r"embedding must hold 2 numbers, got 1 numbers in the row with id 2"):
        on_spark.noise_dataframe(frame, job, id_column="id").collect()
    frame = spark.createDataFrame([(1, [1.0, None])], schema="id long, embedding array<float>")
    with pytest.raises(PySparkException, match=r"embedding must hold numbers, got null in the row with id 1"):
        on_spark.noise_dataframe(frame, job, id_column="id").collect()


def test_outside_of_spark_it_says_so():
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="partitions")
    with pytest.raises(RuntimeError, match=r"the function of a noise job must run in a Spark task"):
        list(on_spark.noise_function(job)(iter([batch_of(np.arange(1), np.ones((1, 16), np.float32))])))
    with pytest.raises(ValueError, match="rows must be named by partitions in this job, got ids"):
        on_spark.noise_function(job, id_column="id")


@pytest.mark.parametrize("id_column", (None, "id"))
def test_the_function_follows_the_partition_of_its_task(monkeypatch, id_column):
    """Without Spark's JVM: a stand-in says that the task has partition 5."""

    class Task:
        @staticmethod
        def get():
            return Task

        @staticmethod
        def partitionId():  # noqa: N802
            return 5

    monkeypatch.setattr(pyspark, "TaskContext", Task)
    job = NoiseJob.start(dimension=16, epsilon=8.0, rows_by="integer-ids" if id_column else "partitions")
    vectors, ids = np.random.default_rng(1).standard_normal((90, 16)).astype(np.float32), ids_from(0, 90)
    named = dict(ids=ids) if id_column else dict(partition=5)
    function = on_spark.noise_function(job, id_column=id_column)
    for cuts in ([0, 90], [0, 1, 40, 40, 90]):
        batches = [batch_of(ids[a:b], vectors[a:b]) for a, b in pairwise(cuts)]
        noisy = list(function(iter(batches)))
        assert all(str(batch.schema.field("embedding").type) == "list<element: float>" for batch in noisy)
        got = np.concatenate([vectors_of(batch["embedding"], 16) for batch in noisy])
        np.testing.assert_array_equal(got, noise_batch(vectors, job, **named))


def test_vectors_of_reads_what_was_written():
    batch = batch_of(np.arange(3), np.arange(6, dtype=np.float32).reshape(3, 2))
    np.testing.assert_array_equal(vectors_of(batch["embedding"], 2), [[0, 1], [2, 3], [4, 5]])


def test_aggregates_have_the_bits_of_one_process(spark):
    rows = np.random.default_rng(2).standard_normal((350, AGGREGATE_DIMENSION)).astype(np.float32)
    people, groups = people_and_groups(350)
    table = [(row.tolist(), int(group), int(person)) for row, group, person in zip(rows, groups, people)]
    frame = spark.createDataFrame(table, "embedding array<float>, topic int, person int")
    names = {"groups": "topic", "people": "person"}
    # repartition keeps no order: of each person any row may come first, and all enter
    check_aggregates(on_spark.rows_of(frame.repartition(5, "person"), **names), rows, groups, people)
    with pytest.raises(ValueError, match="people must have all their rows in one part"):
        check_aggregates(on_spark.rows_of(frame.repartition(5), **names), rows, groups, people)
