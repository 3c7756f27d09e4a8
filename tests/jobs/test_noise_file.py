"""noise_file: Parquet and Arrow in and out, the same bits however it runs, both files or none."""

import io
import json

import numpy as np
import pytest

import hushvec as hv
from hushvec.jobs import NoiseJob, batch, noise_file, tables
from jobs.named import named, noise_batch

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

DIMENSION = 12
ROWS = 1000


@pytest.fixture
def job():
    return NoiseJob.start(dimension=DIMENSION, epsilon=4.0)


@pytest.fixture
def rows():
    return np.random.default_rng(1).standard_normal((ROWS, DIMENSION)).astype(np.float32)


def table_of(rows):
    lists = pa.array(rows.tolist(), pa.list_(pa.float32()))
    return pa.table({"id": np.arange(len(rows)) * 3, "name": [f"n{i}" for i in range(len(rows))], "embedding": lists})


def write(path, table):
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=300)
    else:
        with pa.ipc.new_file(path, table.schema) as sink:
            sink.write_table(table, max_chunksize=130)
    return path


def read(path):
    return pq.read_table(path) if path.suffix == ".parquet" else pa.ipc.open_file(path).read_all()


def vectors_in(table):
    return table["embedding"].combine_chunks().flatten().to_numpy().reshape(-1, DIMENSION)


@pytest.mark.parametrize("source", ("in.parquet", "in.arrow", "in.feather"))
@pytest.mark.parametrize("target", ("out.parquet", "out.arrow", "out.feather"))
@pytest.mark.parametrize("id_column", (None, "id", "name"))
def test_every_kind_of_file(tmp_path, monkeypatch, job, rows, source, target, id_column):
    monkeypatch.setattr(batch, "PART_ELEMENTS", 70 * DIMENSION)
    write(tmp_path / source, table_of(rows))
    of_file = named(job, {None: "partitions", "id": "integer-ids", "name": "text-ids"}[id_column])
    receipt = noise_file(tmp_path / source, tmp_path / target, of_file, id_column=id_column, partition=2)
    noisy = read(tmp_path / target)
    assert noisy.schema.names == ([] if id_column is None else [id_column]) + ["embedding"]
    assert noisy.schema.field("embedding").type == pa.list_(pa.float32(), DIMENSION)
    ids = {"id": np.arange(ROWS) * 3, "name": [f"n{i}" for i in range(ROWS)]}.get(id_column)
    expected = noise_batch(rows, job, ids=ids, partition=2)
    np.testing.assert_array_equal(vectors_in(noisy), expected)
    assert hv.Receipt.from_json((tmp_path / f"{target}.receipt.json").read_text()) == receipt
    assert receipt.rows == ROWS and hv.verify_receipt(receipt).status == "holds"
    assert {path.name for path in tmp_path.iterdir()} == {source, target, f"{target}.receipt.json"}


def test_what_is_kept_is_named_in_the_receipt(tmp_path, job, rows):
    source = write(tmp_path / "in.parquet", table_of(rows))
    receipt = noise_file(source, tmp_path / "out.parquet", named(job, "integer-ids"), id_column="id", keep=["name"])
    assert "copied without protection: id, name" in receipt.notes
    noisy = pq.read_table(tmp_path / "out.parquet")
    assert noisy.schema.names == ["id", "name", "embedding"]
    assert noisy["name"].to_pylist() == [f"n{i}" for i in range(ROWS)]


def test_a_run_that_was_cut_off_is_repeated_with_the_same_bits(tmp_path, monkeypatch, rows):
    monkeypatch.setattr(batch, "PART_ELEMENTS", 100 * DIMENSION)
    source, target = write(tmp_path / "in.parquet", table_of(rows)), tmp_path / "out.parquet"
    seen = []

    def cut_off(done, total):
        seen.append((done, total))
        if done == 600:
            raise KeyboardInterrupt

    def start():
        return NoiseJob.start(dimension=DIMENSION, epsilon=4.0, path=tmp_path / "job.json")

    with pytest.raises(KeyboardInterrupt):
        noise_file(source, target, start(), progress=cut_off)
    assert seen == [(100 * i, ROWS) for i in range(1, 7)]
    assert {path.name for path in tmp_path.iterdir()} == {"in.parquet", "job.json"}
    noise_file(source, target, start())
    first = vectors_in(pq.read_table(target))
    noise_file(source, target, start())
    np.testing.assert_array_equal(vectors_in(pq.read_table(target)), first)


def test_the_budget_is_charged_once_and_only_for_a_good_file(tmp_path, monkeypatch, job, rows):
    monkeypatch.setattr(batch, "PART_ELEMENTS", 100 * DIMENSION)
    bad = rows.copy()
    bad[777, 3] = np.nan
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ValueError, match=r"^embedding must be finite, got nan in row 777$"):
        noise_file(write(tmp_path / "bad.parquet", table_of(bad)), tmp_path / "out.parquet", job, budget=budget)
    assert budget.consumed() == 0.0 and not (tmp_path / "out.parquet").exists()
    source = write(tmp_path / "in.parquet", table_of(rows))
    for _ in range(2):
        receipt = noise_file(source, tmp_path / "out.parquet", job, budget=budget)
        assert budget.consumed() == 4.0
    assert receipt.charge.charge_id == job.charge_id
    assert hv.verify_charges([receipt], budget.export()).status == "holds"


def test_an_empty_file(tmp_path, job, rows):
    source = write(tmp_path / "in.parquet", table_of(rows[:0]))
    assert noise_file(source, tmp_path / "out.arrow", job).rows == 0
    assert read(tmp_path / "out.arrow").num_rows == 0


def test_a_bar_for_a_person_at_a_terminal(tmp_path, monkeypatch, job, rows):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr("hushvec._util.display.SHOW_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("hushvec._util.display.REDRAW_SECONDS", 0.0)
    monkeypatch.setattr(batch, "PART_ELEMENTS", 500 * DIMENSION)
    source = write(tmp_path / "in.parquet", table_of(rows))
    for terminal, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", terminal)
        noise_file(source, tmp_path / "out.parquet", job)
        assert ("1000/1000" in terminal.getvalue()) is shown
    monkeypatch.setattr("sys.stderr", Terminal())
    noise_file(source, tmp_path / "out.parquet", job, progress=lambda done, total: None)
    assert "1000" not in __import__("sys").stderr.getvalue()


def test_a_file_that_changes_while_it_is_read(tmp_path, monkeypatch, job, rows):
    source = write(tmp_path / "in.parquet", table_of(rows))
    honest = tables._ParquetFile.batches
    monkeypatch.setattr(tables._ParquetFile, "batches", lambda *args: list(honest(*args))[:-1])
    monkeypatch.setattr(batch, "PART_ELEMENTS", 100 * DIMENSION)
    with pytest.raises(ValueError, match=r"must not change while it is read: 1000 rows were counted, got 900"):
        noise_file(source, tmp_path / "out.parquet", job)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    "source, target, options, message",
    (
        ("in.parquet", "out.csv", {}, "target must end in .parquet, .arrow, .feather, got "),
        ("in.csv", "out.parquet", {}, "source must end in .parquet, .arrow, .feather, got "),
        ("in.parquet", "folder.parquet", {}, "target must be a plain file, got "),
        ("in.parquet", "out.parquet", dict(column="vec"), "must have one column 'vec', got 'id', 'name', 'embedding'"),
        ("in.parquet", "out.parquet", dict(id_column="key"), "rows must be named by numbers in this job, got ids: under other names"),
        ("in.parquet", "out.parquet", dict(keep=["key"]), "must have one column 'key', got 'id', 'name', 'embedding'"),
        ("in.parquet", "out.parquet", dict(keep=["embedding"]), "must not name 'embedding': it is what the noise protects"),
        ("text.parquet", "out.parquet", {}, "not a .parquet file: "),
        ("text.arrow", "out.parquet", {}, "not a .arrow file: "),
    ),
)
def test_bad_files(tmp_path, job, rows, source, target, options, message):
    write(tmp_path / "in.parquet", table_of(rows))
    (tmp_path / "in.csv").write_text("1,2")
    for name in ("text.parquet", "text.arrow"):
        (tmp_path / name).write_text(json.dumps("no file of vectors"))
    (tmp_path / "folder.parquet").mkdir()
    with pytest.raises(ValueError) as refused:
        noise_file(tmp_path / source, tmp_path / target, job, **options)
    assert message in str(refused.value)
    assert not list(tmp_path.glob("out*")) and not list(tmp_path.glob(".*"))


def test_other_mistakes(tmp_path, job, rows):
    source = write(tmp_path / "in.parquet", table_of(rows))
    with pytest.raises(TypeError, match=r"keep must be a sequence of column names, got the str 'name'"):
        noise_file(source, tmp_path / "out.parquet", job, keep="name")
    with pytest.raises(FileNotFoundError):
        noise_file(tmp_path / "absent.parquet", tmp_path / "out.parquet", job)
    with pytest.raises(TypeError, match=r"embedding must hold lists of float64, got list"):
        noise_file(source, tmp_path / "out.parquet", NoiseJob.start(dimension=DIMENSION, epsilon=4.0, dtype="float64"))
    with pytest.raises(ValueError, match=r"embedding must hold 13 numbers, got 12 numbers in row 0"):
        noise_file(source, tmp_path / "out.parquet", NoiseJob.start(dimension=13, epsilon=4.0))


def test_another_job_s_release_is_not_replaced(tmp_path, job, rows):
    """The same job writes the same again; another job's release beside a first one is a second one, and is not charged by accident."""
    source, target = write(tmp_path / "in.parquet", table_of(rows)), tmp_path / "out.parquet"
    first = noise_file(source, target, job)
    before = target.read_bytes()
    assert noise_file(source, target, job) == first
    other, budget = NoiseJob.start(dimension=DIMENSION, epsilon=4.0), hv.PrivacyBudget(10.0)
    with pytest.raises(FileExistsError, match=r"out\.parquet must not exist: a release there counts beside a new one"):
        noise_file(source, target, other, budget=budget)
    assert (target.read_bytes(), budget.consumed()) == (before, 0.0)
    noise_file(source, target, other, budget=budget, overwrite=True)
    assert target.read_bytes() != before
    assert budget.consumed() == 4.0
    target.unlink()
    with pytest.raises(FileExistsError, match=r"out\.parquet\.receipt\.json must not exist"):
        noise_file(source, target, job)


def test_a_column_that_cannot_be_written_is_refused_before_the_charge(tmp_path, job, rows):
    """A column that is said to have no nulls, with one: readers take it, writers do not."""
    table = table_of(rows)
    holed = pa.array([None, *range(ROWS - 1)], pa.int64())
    schema = pa.schema([pa.field("n", pa.int64(), nullable=False), pa.field("embedding", table.schema.field("embedding").type)])
    source = tmp_path / "in.arrow"
    with pa.ipc.new_file(source, schema) as sink:
        sink.write_batch(pa.RecordBatch.from_arrays([holed, table["embedding"].combine_chunks()], schema=schema))
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ValueError, match=r"target must take all columns that are copied: .*non-nullable"):
        noise_file(source, tmp_path / "out.parquet", job, keep=["n"], budget=budget)
    assert budget.consumed() == 0.0
    assert [path.name for path in tmp_path.iterdir()] == ["in.arrow"]


def test_who_may_read_the_source_may_read_the_target(tmp_path, job, rows):
    source = write(tmp_path / "in.parquet", table_of(rows))
    source.chmod(0o600)
    noise_file(source, tmp_path / "out.parquet", job)
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_damaged_source_is_named(tmp_path, job, rows):
    source = write(tmp_path / "in.arrow", pa.table({"embedding": pa.array(rows[:2].tolist(), pa.list_(pa.float32()))}))
    offsets = np.array([0, DIMENSION, 2 * DIMENSION], np.int32).tobytes()
    assert source.read_bytes().count(offsets) == 1
    source.write_bytes(source.read_bytes().replace(offsets, np.array([0, DIMENSION, 1 << 28], np.int32).tobytes()))
    with pytest.raises(ValueError, match=r"in\.arrow: the file is damaged"):
        noise_file(source, tmp_path / "out.arrow", job)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.arrow"]
