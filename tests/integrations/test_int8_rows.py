"""int8 releases in vector stores, as docs/retrieval.md shows it: FAISS bytes, LanceDB columns, Qdrant points."""

import numpy as np
import pytest

import hushvec as hv

DIMENSION = 384


@pytest.fixture(scope="module")
def release():
    rows = np.random.default_rng(0).standard_normal((500, DIMENSION)).astype(np.float32)
    return hv.privatize(rows, epsilon=64.0, dtype="int8", generator=hv.Generator.unsafe_seeded(1))


@pytest.fixture(scope="module")
def questions():
    """Rounded to int8, in float32: every inner product with int8 rows is a whole number that float32 holds."""
    rows = np.random.default_rng(1).standard_normal((5, DIMENSION))
    return np.rint(rows * (127 / np.abs(rows).max(axis=1, keepdims=True))).astype(np.float32)


def best(questions, values, k=10):
    scores = questions @ values.T.astype(np.float32)
    return np.argsort(-scores, axis=1, kind="stable")[:, :k], -np.sort(-scores, axis=1)[:, :k]


def test_faiss_takes_the_bytes(release, questions):
    faiss = pytest.importorskip("faiss")
    index = faiss.IndexScalarQuantizer(DIMENSION, faiss.ScalarQuantizer.QT_8bit_direct_signed, faiss.METRIC_INNER_PRODUCT)
    index.add_sa_codes(release.values.view(np.uint8) ^ 0x80)
    assert index.sa_code_size() == DIMENSION
    np.testing.assert_array_equal(index.reconstruct_n(0, index.ntotal), release.values)
    scores, ids = index.search(questions, 10)
    expected_ids, expected = best(questions, release.values)
    np.testing.assert_array_equal(scores, expected)
    assert (ids == expected_ids).mean() > 0.95  # equal scores come in any order


def test_lancedb_keeps_int8_and_searches_float16(release, questions):
    lancedb = pytest.importorskip("lancedb")
    import pyarrow as pa

    database = lancedb.connect("memory://")
    values = release.values
    for name, column in (("bytes", values), ("halves", values.astype(np.float16))):
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(column.ravel()), DIMENSION)
        database.create_table(name, pa.table({"key": pa.array(np.arange(len(values))), "vector": vectors}))
    stored = database.open_table("bytes").to_arrow()["vector"].combine_chunks()
    assert stored.type.value_type == pa.int8()
    np.testing.assert_array_equal(stored.flatten().to_numpy().reshape(values.shape), values)
    found = database.open_table("halves").search(questions[0]).distance_type("dot").limit(10).to_arrow()
    assert (np.sort(found["key"].to_numpy()) == np.sort(best(questions, values)[0][0])).mean() > 0.8


def test_qdrant_takes_the_rows(release, questions):
    qdrant_client = pytest.importorskip("qdrant_client")
    models = qdrant_client.models
    client = qdrant_client.QdrantClient(":memory:")
    size = models.VectorParams(size=DIMENSION, distance=models.Distance.DOT, datatype=models.Datatype.FLOAT16)
    client.create_collection("rows", vectors_config=size)
    client.upsert("rows", models.Batch(ids=list(range(len(release.values))), vectors=release.values.tolist()))
    (point,) = client.retrieve("rows", [7], with_vectors=True)
    np.testing.assert_array_equal(point.vector, release.values[7])
    found = client.query_points("rows", query=questions[0].tolist(), limit=10).points
    expected = best(questions, release.values)[1][0]
    np.testing.assert_allclose([point.score for point in found], expected, rtol=1e-6)
