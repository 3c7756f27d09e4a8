"""noise_batch: every kind of batch, the same kind back; everything odd refused with its row."""

import numpy as np
import pytest

from hushvec.jobs import NoiseJob
from jobs.named import noise_batch

pa = pytest.importorskip("pyarrow")

DIMENSION = 6


@pytest.fixture
def job():
    return NoiseJob.start(dimension=DIMENSION, epsilon=4.0)


def rows_of(count=5, dtype="float32"):
    return np.random.default_rng(1).standard_normal((count, DIMENSION)).astype(dtype)


def fixed(rows):
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])


def table_of(rows, vectors=None):
    columns = {"name": pa.array([f"n{i}" for i in range(len(rows))]), "embedding": fixed(rows) if vectors is None else vectors}
    return pa.table(columns | {"id": pa.array(np.arange(len(rows)) + 100)}).replace_schema_metadata({"made": "here"})


def vectors_in(batch, name="embedding"):
    column = batch.column(name)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.flatten().to_numpy().reshape(-1, DIMENSION)


def test_arrays(job):
    rows = rows_of()
    before = rows.copy()
    noisy = noise_batch(rows, job)
    assert type(noisy) is np.ndarray and noisy.shape == rows.shape and noisy.dtype == rows.dtype
    np.testing.assert_array_equal(rows, before)
    np.testing.assert_array_equal(noise_batch(rows[0], job), noisy[0])
    wide = np.zeros((5, 2 * DIMENSION), np.float32)
    wide[:, ::2] = rows
    np.testing.assert_array_equal(noise_batch(wide[:, ::2], job), noisy)
    rows.flags.writeable = False
    np.testing.assert_array_equal(noise_batch(rows, job), noisy)


@pytest.mark.parametrize("kind", ("fixed", "list", "large_list"))
@pytest.mark.parametrize("form", ("table", "batch", "chunks", "slice"))
def test_arrow(job, kind, form):
    rows = rows_of()
    expected = noise_batch(rows, job, ids=np.arange(5) + 100)
    lists = {"fixed": pa.list_(pa.float32(), DIMENSION), "list": pa.list_(pa.float32()), "large_list": pa.large_list(pa.float32())}
    table = table_of(rows, fixed(rows).cast(lists[kind]))
    batch = {
        "table": lambda: table,
        "batch": lambda: table.to_batches()[0],
        "chunks": lambda: pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2, 3)]),
        "slice": lambda: table.slice(1, 3),
    }[form]()
    noisy = noise_batch(batch, job, id_column="id")
    assert type(noisy) is type(batch)
    assert noisy.schema.names == ["name", "embedding", "id"] and noisy.schema.metadata == {b"made": b"here"}
    assert noisy.schema.field("embedding").type == pa.list_(pa.float32(), DIMENSION)
    assert noisy.select(["name", "id"]).equals(batch.select(["name", "id"]))
    np.testing.assert_array_equal(vectors_in(noisy), expected[1:4] if form == "slice" else expected)


@pytest.mark.parametrize("dtype", ("float64", "float16"))
def test_other_dtypes(dtype):
    job = NoiseJob.start(dimension=DIMENSION, epsilon=4.0, dtype=dtype)
    rows = rows_of(dtype=dtype)
    noisy = noise_batch(table_of(rows), job)
    assert vectors_in(noisy).dtype == dtype
    np.testing.assert_array_equal(vectors_in(noisy), noise_batch(rows, job))


def test_without_ids_partition_and_row_count(job):
    rows = rows_of()
    noisy = noise_batch(table_of(rows).slice(2, 3), job, partition=4, first_row=2)
    np.testing.assert_array_equal(vectors_in(noisy), noise_batch(rows, job, partition=4)[2:])


def test_dicts_of_arrays(job):
    rows, ids = rows_of(), np.arange(5) + 100
    batch = {"embedding": rows, "id": ids, "name": np.array(list("abcde"))}
    noisy = noise_batch(batch, job, id_column="id")
    assert list(noisy) == list(batch) and noisy["name"] is batch["name"]
    np.testing.assert_array_equal(noisy["embedding"], noise_batch(rows, job, ids=ids))
    np.testing.assert_array_equal(batch["embedding"], rows)
    nested = np.empty(5, object)
    nested[:] = list(rows)
    np.testing.assert_array_equal(noise_batch(batch | {"embedding": nested}, job, id_column="id")["embedding"], noisy["embedding"])
    empty = {"embedding": nested[:0], "id": ids[:0]}
    assert noise_batch(empty, job, id_column="id")["embedding"].shape == (0, DIMENSION)


def test_empty_batches(job):
    assert noise_batch(rows_of(0), job).shape == (0, DIMENSION)
    for batch in (table_of(rows_of(0)), table_of(rows_of()).slice(0, 0), table_of(rows_of()).to_batches()[0].slice(5)):
        noisy = noise_batch(batch, job, id_column="id")
        assert noisy.num_rows == 0 and noisy.schema.field("embedding").type == pa.list_(pa.float32(), DIMENSION)
    assert noise_batch({"embedding": rows_of(0), "id": np.arange(0)}, job, id_column="id")["embedding"].shape == (0, DIMENSION)
    assert noise_batch(rows_of(0), job, ids=[]).shape == (0, DIMENSION)


def spoiled(value, row=3):
    rows = rows_of()
    rows[row, 2] = value
    return rows


def lists_of(*rows):
    return pa.table({"embedding": pa.array(list(rows), pa.list_(pa.float32())), "id": pa.array(np.arange(len(rows)))})


def nested_of(*rows):
    nested = np.empty(len(rows), object)
    nested[:] = rows
    return nested


NUMBERS = [0.5] * DIMENSION


@pytest.mark.parametrize("value, shown", ((np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")))
def test_rows_that_are_not_finite(value, shown):
    for setting in (dict(), dict(normalize=True), dict(mechanism="privunit"), dict(mechanism="laplacian")):
        job = NoiseJob.start(dimension=DIMENSION, epsilon=4.0, **setting)
        rows = spoiled(value)
        with pytest.raises(ValueError, match=rf"^batch must be finite, got {shown} in row 1003$"):
            noise_batch(rows, job, first_row=1000)
        with pytest.raises(ValueError, match=rf"^embedding must be finite, got {shown} in the row with id 103$"):
            noise_batch(table_of(rows), job, id_column="id")
        with pytest.raises(ValueError, match=rf"^embedding must be finite, got {shown} in the row with name 'n3'$"):
            noise_batch(table_of(rows), job, id_column="name")


@pytest.mark.parametrize(
    "batch, options, error, message",
    (
        ([[1.0]], {}, TypeError, "batch must be a numpy array, a pyarrow RecordBatch or Table, or a dict of arrays, got list"),
        (None, {}, TypeError, "batch must be a numpy array, a pyarrow RecordBatch or Table, or a dict of arrays, got NoneType"),
        (rows_of(dtype="float64"), {}, TypeError, "batch must be float32 like the job, got float64"),
        (rows_of().astype(">f4"), {}, TypeError, "batch must be float32 like the job, got >f4"),
        (rows_of().astype(int), {}, TypeError, "batch must be float32 like the job, got int64"),
        (np.ma.masked_array(rows_of()), {}, TypeError, "batch must be a plain numpy array, got MaskedArray (its mask would be lost)"),
        (rows_of()[:, 1:], {}, ValueError, "batch must have 6 columns like the job, got 5"),
        (rows_of()[None], {}, ValueError, "batch must have 1 or 2 dimensions, got 3"),
        (rows_of(), dict(ids=[1, 2]), ValueError, "ids must have 5 values, one per row, got 2"),
        (rows_of(), dict(ids=[1, 2, 3, 2, 4]), ValueError, "ids must be unique, got 2 twice"),
        (rows_of(), dict(ids=list("abcbd")), ValueError, "ids must be unique, got 'b' twice"),
        (rows_of(), dict(ids=[1, 2, 3, None, 4]), TypeError, "ids must hold whole numbers or strings, got int in row 0"),
        (rows_of(), dict(ids=["a", None, "c", "d", "e"]), TypeError, "ids must hold whole numbers or strings, got NoneType in row 1"),
        (rows_of(), dict(ids=[0, 1, 2, 3, True]), TypeError, "ids must hold whole numbers or strings, got int in row 0"),
        (rows_of(), dict(ids=[0, 1, 2, 3, 2**64]), ValueError, "ids must fit into 64 bits, got 0 to 18446744073709551616"),
        (rows_of(), dict(ids=np.ones(5)), TypeError, "ids must hold whole numbers or strings in one dimension, got float64[1-D]"),
        (rows_of(), dict(ids="abcde"), TypeError, "ids must be an array or a sequence of ids, got str"),
        (rows_of(), dict(id_column="id"), TypeError, "id_column must be None for an array, which has no columns; give ids"),
        (rows_of(), dict(partition=-1), ValueError, "partition must be >= 0, got -1"),
        (rows_of(), dict(partition=2**64), ValueError, "partition must be < 2^64, got 18446744073709551616"),
        (rows_of(), dict(first_row=1.0), TypeError, "first_row must be a whole number, got float"),
        (
            rows_of(), dict(first_row=2**64 - 4),
            ValueError, "first_row must leave room for 5 rows below 2^64, got 18446744073709551612",
        ),
        (table_of(rows_of()), dict(ids=[1]), TypeError, "ids must be None for a batch with columns; name an id_column"),
        (table_of(rows_of()), dict(column="vec"), ValueError, "batch must have one column 'vec', got 'name', 'embedding', 'id'"),
        (table_of(rows_of()), dict(id_column="key"), ValueError, "batch must have one column 'key', got 'name', 'embedding', 'id'"),
        (table_of(rows_of()), dict(column="id"), TypeError, "id must hold lists of float32, got int64"),
        (
            table_of(rows_of(dtype="float64")), {},
            TypeError, "embedding must hold lists of float32, got fixed_size_list<item: double>[6]",
        ),
        (lists_of(NUMBERS, NUMBERS[1:]), {}, ValueError, "embedding must hold 6 numbers, got 5 numbers in row 1"),
        (lists_of(NUMBERS, None), dict(id_column="id"), ValueError, "embedding must hold 6 numbers, got null in the row with id 1"),
        (lists_of(NUMBERS, [None, *NUMBERS[1:]]), {}, ValueError, "embedding must hold numbers, got null in row 1"),
        (
            pa.table({"embedding": fixed(rows_of()), "id": pa.array([1, 2, None, 4, 5])}), dict(id_column="id"),
            ValueError, "id must hold no null, got one in row 2",
        ),
        (
            pa.table({"embedding": fixed(rows_of()), "id": pa.array([1, 2, 3, 2, 5])}), dict(id_column="id"),
            ValueError, "id must be unique, got 2 twice",
        ),
        (
            pa.table({"embedding": fixed(rows_of()), "id": pa.array([1.0, 2, 3, 2, 5])}), dict(id_column="id"),
            TypeError, "id must hold whole numbers or strings, got double",
        ),
        ({"id": np.arange(3)}, {}, ValueError, "batch must have a column 'embedding', got 'id'"),
        ({"embedding": [NUMBERS]}, {}, TypeError, "embedding must be a numpy array with 2 dimensions, got list"),
        (
            {"embedding": nested_of(rows_of()[0], rows_of()[0, 1:])}, {},
            ValueError, "embedding must hold 6 numbers, got 5 numbers in row 1",
        ),
        ({"embedding": nested_of(rows_of()[0], None)}, {}, TypeError, "embedding must hold arrays of float32, got NoneType in row 1"),
        ({"embedding": nested_of(np.ones(6))}, {}, TypeError, "embedding must hold arrays of float32, got float64 in row 0"),
        ({"embedding": rows_of()}, dict(id_column="id"), ValueError, "batch must have a column 'id', got 'embedding'"),
    ),
    ids=lambda value: str(value)[:40] if isinstance(value, str) else "",
)  # fmt: skip
def test_bad_input(job, batch, options, error, message):
    with pytest.raises(error) as refused:
        noise_batch(batch, job, **options)
    assert str(refused.value) == message


def test_a_column_twice(job):
    table = pa.Table.from_arrays([fixed(rows_of()), fixed(rows_of())], ["embedding", "embedding"])
    with pytest.raises(ValueError, match="batch must have one column 'embedding', got 'embedding', 'embedding'"):
        noise_batch(table, job)


def test_no_job():
    with pytest.raises(TypeError, match=r"job must be a hushvec.jobs.NoiseJob, got dict"):
        noise_batch(rows_of(), {})


def test_the_core_refuses_what_python_would_not_let_through(core):
    rows, places, key = rows_of(), np.zeros((5, 40), np.uint8), bytes(32)
    with pytest.raises(ValueError, match="key must have 32 bytes, got 31"):
        core.clip_and_noise_keyed(rows, 1.0, 1.0, np.empty_like(rows), key[1:], places, "aes256", "gaussian")
    with pytest.raises(ValueError, match=r"places must have shape \(5, 40\)"):
        core.clip_and_noise_keyed(rows, 1.0, 1.0, np.empty_like(rows), key, places[1:], "aes256", "gaussian")
    with pytest.raises(ValueError, match="law must be gaussian or laplacian, got l2_laplace"):
        core.clip_and_noise_keyed(rows, 1.0, 1.0, np.empty_like(rows), key, places, "aes256", "l2_laplace")
    with pytest.raises(ValueError, match="out must not be x itself"):
        core.clip_and_noise_keyed(rows, 1.0, 1.0, rows, key, places, "aes256", "gaussian")
    with pytest.raises(ValueError, match="cipher must be aes256, chacha20, chacha12 or chacha8, got 'aes128'"):
        core.clip_and_noise_keyed(rows, 1.0, 1.0, np.empty_like(rows), key, places, "aes128", "gaussian")
    with pytest.raises(TypeError, match="cipher must be a string, got int"):
        core.privunit_keyed(rows, 0.75, 1.5, 1.0, np.empty_like(rows), key, places, 256)
