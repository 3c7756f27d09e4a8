"""Every sort of file of vectors in every command that reads one: the same rows, said aloud; and what is no coordinate never enters."""

import csv
import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec.cli.vectors import open_source, rows_and_fields
from hushvec.cli.vectors.source import Columns

N, D = 7, 5
X = np.random.default_rng(5).standard_normal((N, D)).astype(np.float32)
X /= np.linalg.norm(X, axis=1, keepdims=True)
IDS = [f"note {row}" for row in range(N)]
LISTS = X.tolist()


def lines(records):
    return "".join(json.dumps(one) + "\n" for one in records)


def write_csv(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([*([header] if header else []), *rows])


def arrow_file(path):
    import pyarrow as pa

    table = pa.table({"id": IDS, "embedding": pa.array(LISTS, pa.list_(pa.float32()))})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, 3)


def arrow_stream(path):
    import pyarrow as pa

    table = pa.table({"id": IDS, "embedding": pa.array(LISTS, pa.list_(pa.float32()))})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, 3)


def parquet(path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"id": IDS, "embedding": pa.array(LISTS, pa.list_(pa.float32()))}), path)


def saved(path):
    datasets = pytest.importorskip("datasets")
    vectors = datasets.List(datasets.Value("float32"))
    data = datasets.Dataset.from_dict({"id": IDS, "embedding": LISTS}).cast_column("embedding", vectors)
    data.save_to_disk(str(path), num_shards=3)


OPENAI = [
    {"custom_id": one, "response": {"status_code": 200, "body": {"data": [{"index": 0, "embedding": row}]}}}
    for one, row in zip(IDS, LISTS)
]
# An answer to several texts: every one of them is a row.
ANSWER = {"object": "list", "model": "m", "data": [{"index": row, "id": IDS[row], "embedding": LISTS[row]} for row in range(N)]}
WEAVIATE = [{"id": one, "class": "Note", "vectors": {"default": row}, "properties": {"body": "a"}} for one, row in zip(IDS, LISTS)]
CHROMA = {"ids": IDS, "embeddings": LISTS, "metadatas": None, "documents": ["a"] * N}
NAMES = [f"d{place}" for place in range(D)]

# name -> (file, how it is written, --column, what --keep names the ids by)
FILES = {
    "npy": ("in.npy", lambda path: np.save(path, X), None, None),
    "npz of one array": ("in.npz", lambda path: np.savez(path, anything=X), None, None),
    "npz": ("in.npz", lambda path: np.savez_compressed(path, id=np.array(IDS), embedding=X), None, "id"),
    "npz, named": ("in.npz", lambda path: np.savez(path, id=np.array(IDS), v=X), "v", "id"),
    "parquet": ("in.parquet", parquet, None, "id"),
    "arrow file": ("in.arrow", arrow_file, None, "id"),
    "arrow stream": ("in.arrow", arrow_stream, None, "id"),
    "feather": ("in.feather", arrow_file, None, "id"),
    "save_to_disk": ("saved", saved, None, "id"),
    "jsonl": ("in.jsonl", lambda path: path.write_text(lines({"id": i, "embedding": r} for i, r in zip(IDS, LISTS))), None, "id"),
    "ndjson": ("in.ndjson", lambda path: path.write_text(lines({"id": i, "v": r} for i, r in zip(IDS, LISTS))), "v", "id"),
    "a dot in a key": ("in.jsonl", lambda path: path.write_text(lines({"id": i, "a.b": r} for i, r in zip(IDS, LISTS))), "a.b", "id"),
    "OpenAI batch": ("in.jsonl", lambda path: path.write_text(lines(OPENAI)), "response.body.data.embedding", "custom_id"),
    "OpenAI answer": ("in.json", lambda path: path.write_text(json.dumps(ANSWER, indent=1)), "data.embedding", "data.id"),
    "Weaviate": ("in.jsonl", lambda path: path.write_text(lines(WEAVIATE)), "vectors.default", "id"),
    "Weaviate array": ("in.json", lambda path: path.write_text(json.dumps(WEAVIATE)), "vectors.default", "id"),
    "Chroma get": ("in.json", lambda path: path.write_text(json.dumps(CHROMA)), "embeddings", "ids"),
    "csv": ("in.csv", lambda path: write_csv(path, NAMES, LISTS), None, None),
    "csv and ids": ("in.csv", lambda path: write_csv(path, ["id", *NAMES], [[i, *r] for i, r in zip(IDS, LISTS)]), None, "id"),
    "csv without names": ("in.csv", lambda path: write_csv(path, None, LISTS), None, None),
    "csv of pandas": ("in.csv", lambda path: write_csv(path, ["", *range(D)], [[n, *r] for n, r in enumerate(LISTS)]), None, None),
    "csv of pandas, twice": (
        *("in.csv", lambda path: write_csv(path, ["Unnamed: 0", *NAMES], [[n, *r] for n, r in enumerate(LISTS)]), None, None),
    ),
    "csv with numbers as names": ("in.csv", lambda path: write_csv(path, range(D), LISTS), None, None),
    "csv with numbers from 1": ("in.csv", lambda path: write_csv(path, range(1, D + 1), LISTS), None, None),
    "csv, columns named": (
        *("in.csv", lambda path: write_csv(path, ["id", "year", *NAMES], [[i, 1990, *r] for i, r in zip(IDS, LISTS)])),
        *("d0..d4", "id"),
    ),
    "csv, some columns": ("in.csv", lambda path: write_csv(path, [*NAMES, "year"], [[*r, 1990] for r in LISTS]), "d0,d1,d2..d4", None),
    "csv of lists": (
        *("in.csv", lambda path: write_csv(path, ["id", "embedding"], [[i, json.dumps(r)] for i, r in zip(IDS, LISTS)]), None, "id"),
    ),
}


@pytest.fixture
def made(request, tmp_path):
    name, write, column, key = FILES[request.param]
    if "parquet" in name or "arrow" in name or "feather" in name:
        pytest.importorskip("pyarrow")
    write(tmp_path / name)
    return tmp_path / name, column, key


def of_column(column):
    return () if column is None else ("--column", column)


@pytest.mark.parametrize("made", FILES, indirect=True)
def test_rows_are_those_of_the_array_with_their_ids(made):
    path, column, key = made
    source = open_source(path, Columns(column, None, (key,) if key else ()))
    rows, beside = rows_and_fields(source)
    np.testing.assert_array_equal(rows, X)
    assert source.count() == N and beside == ({key: IDS} if key else {})
    assert source.taken(N).startswith(f"{N} rows x {D} columns of {path}, ")


@pytest.mark.parametrize("made", FILES, indirect=True)
def test_a_release_is_written_in_the_same_form_and_read_again(made, tmp_path):
    """At an epsilon of a million the noise is far below the rows."""
    path, column, key = made
    output = tmp_path / f"out{path.suffix or '.arrow'}"
    kept = ("--keep", key) if key else ()
    finished = hushvec_here("privatize", path, "-o", output, "--epsilon", 1e6, *of_column(column), *kept, "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["taken"][0].startswith(f"{N} rows x {D} columns of {path}, ")
    rows, beside = rows_and_fields(open_source(output, Columns(column, None, (key,) if key else ())))
    assert np.abs(rows - X).max() < 0.05 and (rows != X).any()
    assert beside == ({key: IDS} if key else {})
    receipt = hv.Receipt.from_json((tmp_path / f"{output.name}.receipt.json").read_text())
    assert (receipt.rows, receipt.dimension) == (N, D)


def test_a_saved_data_set_is_released_as_a_file_that_its_library_reads(tmp_path):
    datasets = pytest.importorskip("datasets")
    saved(tmp_path / "saved")
    finished = hushvec_here("privatize", tmp_path / "saved", "-o", tmp_path / "out.arrow", "--epsilon", 1e6, "--keep", "id")
    assert finished.code == 0, finished.err
    read = datasets.Dataset.from_file(str(tmp_path / "out.arrow"))
    assert read["id"][:] == IDS and np.abs(np.array(read["embedding"][:]) - X).max() < 0.05


@pytest.mark.parametrize("command", ["mean", "codebook", "retrieve", "recommend"])
def test_commands_say_what_they_took(command, tmp_path):
    write_csv(tmp_path / "in.csv", ["", *NAMES], [[n, *row] for n, row in enumerate(LISTS)])
    arguments = {
        "mean": ("aggregate", "mean", "in.csv", "-o", "mean.npy", "--epsilon", 1),
        "codebook": ("codebook", "in.csv", "-o", "book.npz", "--epsilon", 1, "--codes", "all"),
        "retrieve": ("retrieve", "build", "in.csv", "-o", "index"),
        "recommend": ("recommend", "--dimension", D, "--epsilon", 1, "--codebook", "given.npz", "--public-sample", "in.csv"),
    }[command]
    hv.mechanisms.PublicCodebook.of(np.concatenate([X + 0.01, X])).save(tmp_path / "given.npz")
    said = f"{N} rows x {D} columns of in.csv, columns 'd0' to 'd4' ({D}); left out: ''"
    finished = hushvec_here(*arguments, cwd=tmp_path)
    assert finished.code == 0 and f"took {said}\n" in finished.err
    again = [{"mean.npy": "again.npy", "book.npz": "again.npz", "index": "again"}.get(one, one) for one in arguments]
    assert json.loads(hushvec_here(*again, "--json", cwd=tmp_path).out)["taken"] == [said]


# Columns that are no coordinates, of every sort.
NO_COORDINATES = {
    "row numbers": lambda rng: list(range(40)),
    "numbers from 1000": lambda rng: list(range(1000, 1040)),
    "shuffled numbers": lambda rng: rng.permutation(range(1000, 1040)).tolist(),
    "random ids": lambda rng: rng.integers(0, 2**40, 40).tolist(),
    "ids as floats": lambda rng: rng.integers(10, 5000, 40).astype(float).tolist(),
    "years": lambda rng: rng.integers(1930, 2020, 40).tolist(),
    "labels": lambda rng: rng.integers(0, 2, 40).tolist(),
    "one value": lambda rng: [7] * 40,
}


@pytest.mark.parametrize("named", ["d0, d1, ...", "0, 1, ...", "other names", "none"])
@pytest.mark.parametrize("place", [0, 3, 8])
@pytest.mark.parametrize("kind", NO_COORDINATES)
def test_what_is_no_coordinate_never_enters_the_vector(tmp_path, kind, place, named):
    """Refused with the option that helps, or left out: never a ninth column. Seeds differ by case."""
    rng = np.random.default_rng([place, len(kind), len(named)])
    values, ids = rng.standard_normal((40, 8)).tolist(), NO_COORDINATES[kind](rng)
    rows = [[*row[:place], one, *row[place:]] for row, one in zip(values, ids)]
    counted = {"d0, d1, ...": [f"d{n}" for n in range(8)], "0, 1, ...": list(range(8))}
    names = {**counted, "other names": [*"abcdefgh"], "none": None}[named]
    header = names and [*names[:place], "key", *names[place:]]
    write_csv(tmp_path / "in.csv", header, rows)
    column = "key" if header else str(place)
    with pytest.raises(ValueError, match=rf"column '{column}' must be a coordinate, .* such as --column") as refused:
        open_source(tmp_path / "in.csv", Columns())
    if place == 0:  # what it says helps
        offered = str(refused.value).rpartition("--column ")[2]
        rows, _ = rows_and_fields(open_source(tmp_path / "in.csv", Columns(offered)))
        np.testing.assert_array_equal(rows, np.array(values, np.float32))
    if header:
        rows, beside = rows_and_fields(open_source(tmp_path / "in.csv", Columns(keep=("key",))))
        assert rows.shape == (40, 8) and beside["key"] == list(map(str, ids))


@pytest.mark.parametrize("header", [["", *NAMES], ["Unnamed: 0", *NAMES], ["", *map(str, range(D))], ["", *"abcde"]])
@pytest.mark.parametrize("kind", NO_COORDINATES)
def test_an_index_without_a_name_is_left_out(tmp_path, header, kind):
    ids = NO_COORDINATES[kind](np.random.default_rng(1))[:N]
    write_csv(tmp_path / "in.csv", header, [[one, *row] for one, row in zip(ids, LISTS)])
    source = open_source(tmp_path / "in.csv", Columns())
    np.testing.assert_array_equal(rows_and_fields(source)[0], X)
    assert f"left out: {header[0]!r}" in source.taken(N)


WHOLE = ([[3, 4]] * 9, np.eye(6).tolist(), np.eye(6, dtype=int).tolist(), [[0.5, 1.0], [0.25, 0.0]], [[1.0, 0.0]])


@pytest.mark.parametrize("values", WHOLE)
@pytest.mark.parametrize("named", [True, False])
def test_vectors_with_whole_numbers_are_taken(tmp_path, values, named):
    write_csv(tmp_path / "in.csv", [f"x{n}" for n in range(len(values[0]))] if named else None, values)
    np.testing.assert_array_equal(rows_and_fields(open_source(tmp_path / "in.csv", Columns()))[0], np.array(values, np.float32))


# name -> (file, content, arguments, words)
REFUSED = {
    "may be names or a row": (
        *("in.csv", "0,1,2\n3,4,5\n", ()),
        "line 1: must be a row or names, and 0,1,2 may be either",
    ),
    "a first value that is missing": (
        *("in.csv", ",0.5,0.25\n0.1,0.2,0.3\n", ()),
        "line 1: must have names or numbers alone, got the number 0.5 beside ''",
    ),
    "an id in front of a row": (
        *("in.csv", "a17,3,-4\na18,1,2\n", ()),
        "line 1: must have names or numbers alone, got the number 3 beside 'a17'",
    ),
    "no such column": ("in.csv", "a,b\n1.5,2\n", ("--column", "a..c"), "line 2: has no column 'c', got 'a', 'b'"),
    "numpy's print of a row": (
        *("in.csv", 'embedding\n"[0.5 0.25]"\n', ()),
        "'embedding' must be a list of numbers like [0.5, 0.25]",
    ),
    "a list among lists": (
        *("in.csv", 'embedding\n"[0.5, 0.25]"\n"[0.5]"\n', ()),
        "'embedding' must have 2 numbers like the first line, got 1",
    ),
    "kept and protected": (
        *("in.csv", "a,b\n0.5,0.25\n", ("--column", "a..b", "--keep", "a")),
        "keep must not name 'a': it is what the noise",
    ),
    "base64": (
        *("in.jsonl", '{"embedding": "AAAA"}\n', ()),
        "'embedding' must be a list of numbers, got a string (encoding_format='float'",
    ),
    "packed by name": (
        *("in.jsonl", '{"embeddings": {"ubinary": [1, 255]}}\n', ("--column", "embeddings.ubinary")),
        "looks like packed binary codes",
    ),
    "a failed line": (
        *("in.jsonl", '{"response": {"data": [{"embedding": [0.5]}]}}\n{"response": null}\n', ("--column", "response.data.embedding")),
        "line 2: has no key 'response.data.embedding'",
    ),
    "the whole above the vector": (
        *("in.jsonl", '{"data": {"embedding": [0.5], "id": 1}}\n', ("--column", "data.embedding", "--keep", "data")),
        "keep must not name 'data': it is what the noise protects",
    ),
    "below the vector": (
        *("in.jsonl", '{"data": {"embedding": [0.5]}}\n', ("--column", "data", "--keep", "data.embedding")),
        "keep must not name 'data.embedding': it is what the noise protects",
    ),
    "ids of another number": (
        *("in.json", '{"ids": ["a"], "embeddings": [[0.5], [0.25]]}', ("--column", "embeddings", "--keep", "ids")),
        "'ids' must have 2 values, one for each row, got 1",
    ),
    "many, then one": (
        *("in.jsonl", '{"v": [[0.5]]}\n{"v": {"a": 1}}\n', ("--column", "v")),
        "'v' must be a list like that of the first, got dict",
    ),
    "a bare array": ("in.json", "[[0.5], [0.25]]", (), "must be an object or a list of objects, got list in it"),
    "cut JSON": ("in.json", '{"a": [1', (), "not JSON"),
    "no objects": ("in.json", "[]", (), "the file must hold at least one line, and one row"),
    "no rows": ("in.json", '{"data": []}', ("--column", "data.embedding"), "the file must hold at least one line, and one row"),
    "no npz": ("in.npz", "hello", (), "not a .npz file"),
    "no suffix": ("vectors", "hello", (), "the name must end in .npy, .npz, .parquet"),
    "a stream without its end": ("in.arrow", "hello", (), "not a .arrow file"),
    "two dimensions of text": ("in.csv", "", (), "at least one line"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_files_that_are_refused_in_one_line(tmp_path, case):
    name, content, arguments, words = REFUSED[case]
    (tmp_path / name).write_text(content)
    if name.endswith(".arrow"):
        pytest.importorskip("pyarrow")
    finished = hushvec_here("privatize", name, "-o", f"out{(tmp_path / name).suffix}", "--epsilon", 1, *arguments, cwd=tmp_path)
    assert_one_line(finished, name, words)
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_arrays_that_are_refused(tmp_path):
    np.savez(tmp_path / "two.npz", a=X, b=X)
    np.savez(tmp_path / "short.npz", embedding=X, id=np.arange(N - 1))
    np.savez(tmp_path / "cube.npz", embedding=X[None])
    np.savez(tmp_path / "words.npz", embedding=np.array(["a", "b"]))
    for name, words in {
        "two.npz": "must have an array 'embedding', got 'a', 'b'",
        "short.npz": f"array 'id' must have {N} rows like 'embedding', got shape ({N - 1},)",
        "cube.npz": "array 'embedding' must have 1 or 2 dimensions, got 3",
        "words.npz": "array 'embedding' must be float32 or float64 or float16, got str32",
    }.items():
        keep = ("--keep", "id") if name == "short.npz" else ()
        assert_one_line(hushvec_here("privatize", name, "-o", "out.npz", "--epsilon", 1, *keep, cwd=tmp_path), f"{name}: {words}")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
@pytest.mark.parametrize("dimension", [256, 384, 1024])
def test_packed_codes_are_refused_and_quantized_numbers_are_not(tmp_path, dtype, dimension):
    """Codes as sentence-transformers packs them, and its int8, of rows whose coordinates differ in mean and spread."""
    rng = np.random.default_rng(dimension)
    rows = rng.standard_normal((300, dimension)) * rng.uniform(0.5, 2, dimension) + 0.5 * rng.standard_normal(dimension)
    packed = np.packbits(rows > 0, axis=1)
    np.save(tmp_path / "codes.npy", packed if dtype == "uint8" else (packed.astype(int) - 128).astype(np.int8))
    with pytest.raises(ValueError, match="the array must hold coordinates, and looks like packed binary codes"):
        open_source(tmp_path / "codes.npy", Columns())
    low, high = rows.min(0), rows.max(0)
    np.save(tmp_path / "numbers.npy", ((rows - low) / (high - low) * 255 - 128).astype(np.int8))
    assert open_source(tmp_path / "numbers.npy", Columns()).count() == 300


def test_a_stream_that_was_cut_short_is_refused(tmp_path):
    """Arrow takes the end of a file for the end of a stream, wherever it comes between two batches."""
    pytest.importorskip("pyarrow")
    arrow_stream(tmp_path / "in.arrow")
    whole = (tmp_path / "in.arrow").read_bytes()
    for length in (len(whole) - 8, len(whole) - 9, len(whole) // 2, 8, 3):
        (tmp_path / "cut.arrow").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"cut\.arrow: not a \.arrow file: "):
            open_source(tmp_path / "cut.arrow", Columns())


def test_folders_that_are_no_data_set(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "empty").mkdir()
    (tmp_path / "several").mkdir()
    (tmp_path / "several" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    refused = {"empty": "the folder must be one that save_to_disk", "several": "the folder must hold one data set: name one"}
    for name, words in refused.items():
        assert_one_line(hushvec_here("aggregate", "mean", name, "-o", "mean.npy", "--epsilon", 1, cwd=tmp_path), f"{name}: {words}")


def test_texts_of_a_csv_are_released_as_lists(tmp_path):
    pytest.importorskip("sentence_transformers")
    write_csv(tmp_path / "in.csv", ["id", "note"], [["1", "measles"], ["2", "the scan is clear"]])
    finished = hushvec_here("privatize", "in.csv", "-o", "out.csv", "--epsilon", 8, "--text-key", "note", "--keep", "id", cwd=tmp_path)
    assert finished.code == 0, finished.err
    assert "measles" not in (tmp_path / "out.csv").read_text()
    rows, beside = rows_and_fields(open_source(tmp_path / "out.csv", Columns(keep=("id",))))
    assert rows.shape == (2, 384) and beside["id"] == ["1", "2"]


@pytest.mark.parametrize("keys", [(), ("--column", "d0..d1"), ("--text-key", "text")], ids=["all columns", "named", "texts"])
@pytest.mark.parametrize(
    "content",
    ["d0{}d1\n0.5{}0.25\n", '"d0"{}"text"\n"0.5"{}"Hello, world"\n', "0.5{}0.25\n0.1{}0.2\n", "\n0,5{}0,25{}1\n"],
    ids=["names", "quoted", "numbers", "decimal commas"],
)
@pytest.mark.parametrize("delimiter", [";", "\t", "|"], ids=["semicolons", "tabs", "bars"])
def test_another_delimiter_than_a_comma_is_refused(tmp_path, delimiter, content, keys):
    (tmp_path / "in.csv").write_text(content.replace("{}", delimiter))
    assert_one_line(
        hushvec_here("privatize", "in.csv", "-o", "out.csv", "--epsilon", 1, *keys, cwd=tmp_path),
        f"in.csv: fields must be separated by commas, and the first line has {delimiter!r} between them",
        "write the file with commas (sep=',' of pandas)",
    )
    assert not (tmp_path / "out.csv").exists()


def test_other_characters_than_commas_may_be_in_a_csv(tmp_path):
    (tmp_path / "in.csv").write_text('"a;b",c|d\n0.5,0.25\n')
    np.testing.assert_array_equal(rows_and_fields(open_source(tmp_path / "in.csv", Columns()))[0], [[0.5, 0.25]])
