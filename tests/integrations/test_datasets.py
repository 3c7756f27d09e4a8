"""Noise jobs on data sets of Hugging Face: the same bits however often and by how many processes, and no key in any file."""

import base64
import pickle

import numpy as np
import pytest

import hushvec as hv
from hushvec.integrations.datasets import noise_dataset, noise_function
from hushvec.jobs import NoiseJob
from jobs.named import named, noise_batch

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")

ROWS = np.random.default_rng(0).standard_normal((60, 4)).astype(np.float32)
IDS = [f"row {place}" for place in range(60)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A data set that lies in files, and whose results are cached beside it."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    datasets.Dataset.from_dict({"id": IDS, "embedding": ROWS.tolist()}).save_to_disk(tmp_path / "data")
    datasets.disable_progress_bars()
    yield tmp_path / "data"
    datasets.enable_progress_bars()


def vectors(data):
    return np.array(data.with_format(None)["embedding"][:], np.float32)


def files(folder):
    return {path: path.read_bytes() for path in folder.parent.rglob("*") if path.is_file()}


def test_every_way_to_compute_it_gives_the_same_bits(folder, tmp_path):
    data = datasets.load_from_disk(str(folder))
    budget = hv.PrivacyBudget(10.0)
    job = NoiseJob.start(dimension=4, epsilon=4.0, mechanism="laplacian", budget=budget, path=tmp_path.parent / f"{tmp_path.name}.job")
    expected = noise_batch(ROWS, job)
    released = noise_dataset(data, job, batch_size=7)
    np.testing.assert_array_equal(vectors(released), expected)
    assert released.features == {"id": datasets.Value("string"), "embedding": datasets.List(datasets.Value("float32"), length=4)}
    assert released.with_format(None)["id"][:] == IDS and released.format == data.format

    cached = set(files(folder))
    again = noise_dataset(datasets.load_from_disk(str(folder)), NoiseJob.load(tmp_path.parent / f"{tmp_path.name}.job"))
    np.testing.assert_array_equal(vectors(again), expected)
    assert set(files(folder)) == cached and again._fingerprint == released._fingerprint  # read, not computed

    two = noise_dataset(data, job, num_proc=2, load_from_cache_file=False)
    np.testing.assert_array_equal(vectors(two), expected)
    other = noise_dataset(data, NoiseJob.start(dimension=4, epsilon=4.0, mechanism="laplacian"))
    assert (vectors(other) == expected).mean() < 0.2  # values lie on a grid: 1 in 32 is equal

    found = files(folder)
    assert len(found) > len(cached) >= 4
    for text in found.values():
        for secret in (job._key, job._key.hex().encode(), base64.b64encode(job._key), job._rows_key):
            assert secret not in text
    assert [row["kind"] for row in budget.export()["rows"]].count("charge") == 1 and budget.consumed() == 4.0


def test_ids_survive_shuffles_and_filters(folder):
    data = datasets.load_from_disk(str(folder))
    job = NoiseJob.start(dimension=4, epsilon=4.0)
    expected = noise_batch(ROWS, job, ids=IDS)
    np.testing.assert_array_equal(vectors(noise_dataset(data, named(job, "text-ids"), id_column="id", batch_size=9)), expected)
    chosen = [50, 3, 17]
    by_ids = noise_dataset(data.select(chosen), named(job, "text-ids"), id_column="id")
    np.testing.assert_array_equal(vectors(by_ids), expected[chosen])
    by_number = noise_dataset(data.select(chosen), job)
    np.testing.assert_array_equal(vectors(by_number), noise_batch(ROWS[chosen], job))
    of_part = noise_dataset(data, named(job, "partitions"), partition=3)
    np.testing.assert_array_equal(vectors(of_part), noise_batch(ROWS, job, partition=3))


@pytest.mark.parametrize("kind", (None, "numpy", "arrow"))
def test_the_function_in_a_map_of_ones_own(kind, folder):
    """Formats differ in what a batch is; a plain one keeps the column's own type."""
    data = datasets.load_from_disk(str(folder)).with_format(kind)
    job = NoiseJob.start(dimension=4, epsilon=4.0)
    options = {"batched": True, "batch_size": 16, "keep_in_memory": True}
    released = data.map(noise_function(job), with_indices=True, **options)
    np.testing.assert_array_equal(vectors(released), noise_batch(ROWS, job))
    by_ids = data.map(noise_function(named(job, "text-ids"), id_column="id"), **options)
    np.testing.assert_array_equal(vectors(by_ids), noise_batch(ROWS, job, ids=IDS))


def test_the_function_survives_a_pickle():
    job = NoiseJob.start(dimension=4, epsilon=4.0)
    function = noise_function(named(job, "partitions"), partition=2)
    batch = pa.table({"embedding": ROWS.tolist()})
    again = pickle.loads(pickle.dumps(function))
    assert again(batch, [*range(60)]).equals(function(batch, [*range(60)]))
    assert job._key.hex() not in repr(function)


def test_what_is_refused(folder):
    data = datasets.load_from_disk(str(folder))
    job = NoiseJob.start(dimension=4, epsilon=4.0)
    batch = {"embedding": ROWS.tolist(), "id": IDS}
    function, by_ids = noise_function(job), noise_function(named(job, "text-ids"), id_column="id")
    spoiled = ROWS.tolist()
    spoiled[41] = [1.0, float("nan"), 0.0, 0.0]
    bad = datasets.Dataset.from_dict({"embedding": spoiled})
    for call, error, message in (
        (lambda: noise_dataset({"embedding": ROWS}, job), TypeError, "dataset must be a datasets.Dataset, got dict"),
        (lambda: noise_dataset(data, "job"), TypeError, "job must be a hushvec.jobs.NoiseJob, got str"),
        (lambda: noise_dataset(data, job, column="v"), ValueError, "dataset must have a column 'v', got 'id', 'embedding'"),
        (lambda: noise_dataset(data, named(job, "text-ids"), id_column="key"), ValueError, "dataset must have a column 'key'"),
        (lambda: noise_dataset(data, job, remove_columns=["id"]), ValueError, "options must be among .* got 'remove_columns'"),
        (lambda: noise_dataset(data, named(job, "partitions"), partition=-1), ValueError, "partition must be >= 0"),
        (lambda: noise_dataset(data, job, column="id"), TypeError, "id must hold lists of floats, got string"),
        (lambda: noise_dataset(bad, job, batch_size=16), ValueError, "embedding must be finite, got nan in row 41"),
        (lambda: noise_dataset(data, NoiseJob.start(dimension=5, epsilon=1.0)), ValueError, "must have 5 columns like the job, got 4"),
        (lambda: noise_dataset(data, job, id_column="id"), ValueError, "rows must be named by numbers in this job, got ids"),
        (lambda: noise_function(job, partition=1), ValueError, "rows must be named by numbers in this job, got partitions"),
        (lambda: function(batch), ValueError, "map must have with_indices=True"),
        (lambda: function(batch, [*range(0, 120, 2)]), ValueError, "batches must have consecutive rows"),
        (lambda: function(ROWS, [*range(60)]), TypeError, "batch must be a dict or a pyarrow Table"),
        (lambda: by_ids({**batch, "id": ["a"] * 60}), ValueError, "must be unique, got 'a' twice"),
    ):
        with pytest.raises(error, match=message):
            call()
