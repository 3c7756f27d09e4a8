"""A column of vectors in a table: what comes back, what is refused, what is charged."""

import io

import numpy as np
import pytest

import hushvec as hv
from hushvec.integrations.tables import privatize_column

pa = pytest.importorskip("pyarrow")

ROWS = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
IDS = [*"abcdef"]
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(ROWS.ravel()), 4)


def pandas():
    return pytest.importorskip("pandas")


def polars():
    return pytest.importorskip("polars")


def datasets():
    return pytest.importorskip("datasets")



def stacked(table):
    """The vectors of any table, [n, d]."""
    name = type(table).__module__.split(".")[0]
    if name == "pyarrow":
        return np.array(table.column("embedding").to_pylist(), np.float32)
    if name == "datasets":
        return np.array(table.with_format(None)["embedding"][:], np.float32)
    return np.array(list(map(list, table["embedding"])), np.float32)


TABLES = {
    "arrow lists": lambda: pa.table({"id": IDS, "embedding": ROWS.tolist()}),
    "arrow large lists": lambda: pa.table({"id": IDS, "embedding": pa.array(ROWS.tolist(), pa.large_list(pa.float32()))}),
    "arrow halves": lambda: pa.table({"id": IDS, "embedding": pa.array([*ROWS.astype(np.float16)], pa.list_(pa.float16()))}),
    "arrow fixed": lambda: pa.table({"id": IDS, "embedding": FIXED}),
    "arrow chunks": lambda: pa.concat_tables(
        [pa.table({"id": IDS[:2], "embedding": FIXED[:2]}), pa.table({"id": IDS[2:], "embedding": FIXED[2:]})]
    ),
    "arrow slice": lambda: pa.table({"id": ["x", *IDS, "y"], "embedding": [[9.0] * 4, *ROWS.tolist(), [9.0] * 4]}).slice(1, 6),
    "arrow batch": lambda: pa.record_batch({"id": IDS, "embedding": FIXED}),
    "pandas arrays": lambda: pandas().DataFrame({"embedding": [*ROWS], "id": IDS}),
    "pandas lists": lambda: pandas().DataFrame({"embedding": ROWS.tolist(), "id": IDS}, index=[5, 3, 4, 4, 0, 1]),
    "pandas of arrow": lambda: pandas().DataFrame(
        {"id": IDS, "embedding": pandas().Series(ROWS.tolist(), dtype=pandas().ArrowDtype(pa.list_(pa.float32())))}
    ),
    "polars lists": lambda: polars().DataFrame({"embedding": ROWS.tolist(), "id": IDS}),
    "polars arrays": lambda: polars().DataFrame({"id": IDS, "embedding": ROWS}),
    "datasets": lambda: datasets().Dataset.from_dict({"id": IDS, "embedding": ROWS.tolist()}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_the_column_is_that_of_privatize_and_the_rest_is_as_it_was(kind):
    table = TABLES[kind]()
    before = stacked(table)
    generator = hv.Generator.unsafe_seeded(3)
    released, receipt = privatize_column(table, epsilon=5.0, mechanism="privunit", generator=generator)
    expected = hv.privatize(before, epsilon=5.0, mechanism="privunit", generator=hv.Generator.unsafe_seeded(3))
    assert type(released) is type(table)
    np.testing.assert_array_equal(stacked(released), expected.values)
    assert (receipt.rows, receipt.dimension, receipt.dtype, receipt.epsilon) == (6, 4, "float32", 5.0)
    copied = "copied without protection: id" + (", the index" if kind == "pandas lists" else "")
    assert copied in receipt.notes
    np.testing.assert_array_equal(stacked(table), before)  # not changed


def test_types_of_the_column_that_comes_back():
    fixed = pa.list_(pa.float32(), 4)
    assert privatize_column(TABLES["arrow lists"](), epsilon=1.0).table.schema.field("embedding").type == fixed
    assert privatize_column(TABLES["arrow batch"](), epsilon=1.0).table.schema.names == ["id", "embedding"]
    frame = privatize_column(TABLES["pandas lists"](), epsilon=1.0).table
    assert frame.index.tolist() == [5, 3, 4, 4, 0, 1] and [*frame.columns] == ["embedding", "id"]
    assert frame["embedding"].dtype == object and frame["embedding"].iloc[0].dtype == np.float32
    assert privatize_column(TABLES["pandas of arrow"](), epsilon=1.0).table["embedding"].dtype == pandas().ArrowDtype(fixed)
    for kind in ("polars lists", "polars arrays"):
        frame = privatize_column(TABLES[kind](), epsilon=1.0).table
        assert frame.schema["embedding"] == polars().Array(polars().Float32, 4) and frame.columns == TABLES[kind]().columns
    kinds = datasets()
    source = TABLES["datasets"]().with_format("numpy", columns=["embedding"])
    data = privatize_column(source, epsilon=1.0).table
    assert data.features == {"id": kinds.Value("string"), "embedding": kinds.List(kinds.Value("float32"), length=4)}
    assert data.format == source.format and data[0]["embedding"].dtype == np.float32 and data.with_format(None)["id"][:] == IDS


def test_budget_projection_and_notes_come_through():
    budget = hv.PrivacyBudget(10.0)
    projection = hv.mechanisms.PublicProjection.johnson_lindenstrauss(4, 2, seed=1)
    table = TABLES["arrow fixed"]()
    released, receipt = privatize_column(
        table, epsilon=2.0, mechanism="laplacian", budget=budget, projection=projection, notes=["mine"]
    )
    assert budget.consumed() == 2.0 and receipt.charge.sequence == 2 and receipt.projection == projection.digest
    assert receipt.notes[-2:] == ("copied without protection: id", "mine")
    assert released.schema.field("embedding").type == pa.list_(pa.float32(), 2)


def test_a_table_without_rows_or_other_columns():
    for table in (pa.table({"embedding": FIXED[:0]}), polars().DataFrame({"embedding": ROWS}).head(0)):
        released, receipt = privatize_column(table, epsilon=1.0)
        assert len(released) == 0 and receipt.rows == 0 and receipt.notes == ()


WRONG = [
    ([[1.0, 2.0], [1.0]], ValueError, "embedding must hold 2 numbers, got 1 numbers in row 1"),
    ([[1.0, 2.0], [1.0, 2.0], None], ValueError, "embedding must hold 2 numbers, got null in row 2"),
    ([None, [1.0, 2.0]], ValueError, "embedding must hold 2 numbers, got null in row 0"),
    ([[1.0, 2.0], [1.0, None]], ValueError, "embedding must hold numbers, got null in row 1"),
    ([[1.0, 2.0], [np.nan, 1.0]], ValueError, "embedding must (be finite, got nan|hold numbers, got null) in row 1"),
    ([[1.0, 2.0], [1.0, np.inf]], ValueError, "embedding must be finite, got inf in row 1"),
    ([[1.0, 2.0], [1.0, 1e300]], ValueError, "embedding in the range of float32 must be finite, got inf in row 1"),
    ([[1, 2], [3, 4]], TypeError, "embedding must hold lists of floats, got (large_)?list<.*int64>"),
    ([1.0, 2.0], TypeError, "embedding must hold lists of floats, got (double|Float64)"),
    (["a", "b"], TypeError, "embedding must hold lists of floats, got .*[sS]tring"),
    ([[[1.0]], [[2.0]]], TypeError, "embedding must hold lists of floats"),
    ([None, None], TypeError, "embedding must hold lists of floats, got [nN]ull"),
    ([], (TypeError, ValueError), "embedding must"),
]
MAKERS = {
    "arrow": lambda values: pa.table({"embedding": values}),
    "pandas": lambda values: pandas().DataFrame({"embedding": pandas().Series(values, dtype=object)}),
    "polars": lambda values: polars().DataFrame({"embedding": values}),
    "datasets": lambda values: datasets().Dataset.from_dict({"embedding": values}),
}


@pytest.mark.parametrize(("values", "error", "message"), WRONG)
@pytest.mark.parametrize("kind", MAKERS)
def test_columns_that_are_refused_cost_nothing(kind, values, error, message):
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(error, match=message):
        privatize_column(MAKERS[kind](values), epsilon=1.0, budget=budget)
    assert budget.consumed() == 0


TABLE = "privatize_column"
# What people have -> what the error tells them to pass, as an expression of x or the name of the function for whole tables.
WAYS = {
    "DataFrame of pandas": (lambda: pandas().DataFrame(ROWS), "x.to_numpy()", TABLE),
    "Series of pandas": (lambda: pandas().Series([*ROWS]), "numpy.stack(x)", TABLE),
    "DataFrame of polars": (lambda: polars().DataFrame(ROWS), "x.to_numpy()", TABLE),
    "LazyFrame": (lambda: polars().DataFrame(ROWS).lazy(), "x.collect().to_numpy()", TABLE),
    "Series of polars, lists": (lambda: polars().Series(ROWS.tolist()), "numpy.stack(x.to_list())", TABLE),
    "Series of polars, arrays": (lambda: polars().Series(ROWS), "numpy.stack(x.to_list())", TABLE),
    "lists of Arrow": (lambda: pa.array(ROWS.tolist()), "numpy.stack(x.to_pylist())", TABLE),
    "large lists of Arrow": (lambda: pa.array(ROWS.tolist(), pa.large_list(pa.float32())), "numpy.stack(x.to_pylist())", TABLE),
    "fixed lists of Arrow": (lambda: FIXED, "numpy.stack(x.to_pylist())", TABLE),
    "column of Arrow": (lambda: pa.table({"v": FIXED})["v"], "numpy.stack(x.to_pylist())", TABLE),
    "Table": (lambda: pa.table({"v": FIXED}), None, TABLE),
    "RecordBatch": (lambda: pa.record_batch({"v": FIXED}), None, TABLE),
    "Dataset of datasets": (lambda: datasets().Dataset.from_dict({"v": ROWS.tolist()}), None, TABLE),
    "Dataset of h5py": (lambda: hdf5()["v"], "x[:]", None),
    "File of h5py": (lambda: hdf5(), "x['embeddings'][:]", None),
    "sparse matrix": (lambda: pytest.importorskip("scipy.sparse").csr_matrix(ROWS), "x.toarray()", None),
    "sparse array": (lambda: pytest.importorskip("scipy.sparse").csr_array(ROWS), "x.toarray()", None),
}


def hdf5():
    file = pytest.importorskip("h5py").File(io.BytesIO(), "w")
    file["v"] = file["embeddings"] = ROWS
    return file


@pytest.mark.parametrize("kind", WAYS)
def test_an_object_that_holds_vectors_is_refused_with_what_to_pass(kind):
    """What the error offers is taken, and released as the rows themselves are."""
    make, way, function = WAYS[kind]
    x, budget = make(), hv.PrivacyBudget(10.0)
    with pytest.raises(TypeError, match=r"^x must be a numpy array, a torch tensor or a CuPy array, got .* \(pass .*\)$") as refused:
        hv.privatize(x, epsilon=1.0, budget=budget)
    assert budget.consumed() == 0
    for offered in filter(None, (way, function)):
        assert offered in str(refused.value)
    if way is not None:
        rows = eval(way, {"x": x, "numpy": np})
        np.testing.assert_array_equal(np.asarray(rows, np.float32), ROWS)
        assert hv.privatize(rows, epsilon=1.0, budget=budget).receipt.rows == 6
    elif function:
        assert privatize_column(x, "v", epsilon=1.0, budget=budget).receipt.rows == 6
    if "Frame" not in kind and kind not in ("Table", "RecordBatch", "Dataset of datasets"):
        with pytest.raises(TypeError, match=r"^table must be .*, got .* \(hushvec.privatize takes an array of vectors\)$"):
            privatize_column(x, "v", epsilon=1.0)


def test_tables_and_arguments_that_are_refused():
    budget = hv.PrivacyBudget(10.0)
    good = TABLES["arrow fixed"]()
    mixed = pandas().DataFrame({"embedding": [[1.0], 2.0, "x"]})
    twice = pandas().DataFrame(np.ones((2, 2)), columns=["embedding", "embedding"])
    lazy = TABLES["polars lists"]().lazy()
    for table, column, error, message in (
        (good, "vectors", ValueError, "table must have one column 'vectors', got 'id', 'embedding'"),
        (pa.table([FIXED, FIXED], names=["embedding"] * 2), "embedding", ValueError, "table must have one column 'embedding'"),
        (twice, "embedding", ValueError, "table must have one column 'embedding'"),
        (twice, "the index", ValueError, "table must have one column 'the index'"),
        (mixed, "embedding", TypeError, "embedding must hold lists of floats or arrays of one dimension"),
        (lazy, "embedding", TypeError, r"table must be a pyarrow Table .*, got LazyFrame \(call its collect\(\)\)"),
        (ROWS, "embedding", TypeError, "table must be a pyarrow Table"),
        ({"embedding": ROWS}, "embedding", TypeError, "table must be a pyarrow Table"),
    ):
        with pytest.raises(error, match=message):
            privatize_column(table, column, epsilon=1.0, budget=budget)
    with pytest.raises(TypeError, match="notes must be a sequence of strings"):
        privatize_column(good, epsilon=1.0, budget=budget, notes="mine")
    with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
        privatize_column(good, noise=1.0, budget=budget)
    assert budget.consumed() == 0
