"""hushvec privatize: every kind of file there and back, streaming, atomic output, one clear line for every bad file."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here

ROWS, DIMENSION = 300, 64


def vectors(rows=ROWS, dimension=DIMENSION, dtype="float32"):
    return np.random.default_rng(0).standard_normal((rows, dimension)).astype(dtype)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def read_receipt(output):
    return hv.Receipt.from_json((output.parent / (output.name + ".receipt.json")).read_text())


def assert_released(before, after, receipt):
    """The rows are those of a release with the receipt's sigma: noise of that size around the clipped rows."""
    assert after.shape == before.shape
    z = after.astype(np.float64) - hv.clip(np.ascontiguousarray(before), receipt.clip_norm).astype(np.float64)
    assert np.sqrt(np.mean(z**2)) == pytest.approx(receipt.sigma, rel=6 / np.sqrt(2 * z.size))
    assert hv.verify_receipt(receipt).status == "holds"
    rows = 1 if before.ndim == 1 else len(before)
    assert (receipt.rows, receipt.dimension, receipt.dtype) == (rows, before.shape[-1], before.dtype.name)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy(tmp_path, dtype, order):
    x = np.asarray(vectors(dtype=dtype), order=order)
    np.save(tmp_path / "in.npy", x)
    finished = hushvec_here("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", 8, "--json")
    assert finished.code == 0, finished.err
    assert finished.err == ""
    y = np.load(tmp_path / "out.npy")
    receipt = read_receipt(tmp_path / "out.npy")
    assert y.dtype == dtype
    assert_released(x, y, receipt)
    assert json.loads(finished.out)["receipt"] == receipt.to_dict()
    assert names(tmp_path) == ["in.npy", "out.npy", "out.npy.receipt.json"]


def test_npy_of_one_row_no_rows_and_foreign_byte_order(tmp_path):
    for name, x in (("one", vectors()[0]), ("none", vectors(0)), ("swapped", vectors().astype(">f4"))):
        np.save(tmp_path / f"{name}.npy", x)
        finished = hushvec_here("privatize", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}-out.npy", "--epsilon", 8)
        assert finished.code == 0, finished.err
        y = np.load(tmp_path / f"{name}-out.npy")
        assert y.shape == x.shape
        assert y.dtype == x.dtype.newbyteorder("=")
        if name == "swapped":
            assert_released(x.astype("=f4"), y, read_receipt(tmp_path / f"{name}-out.npy"))


@pytest.mark.parametrize("dtype", ["int8", "uint16", ">i4", "int64"])
def test_integers_are_released_as_the_function_releases_them(tmp_path, dtype):
    whole = np.random.default_rng(3).integers(0, 100, (ROWS, DIMENSION)).astype(dtype)
    outputs = []
    for name, x in (("whole", whole), ("floats", whole.astype(np.float32))):
        np.save(tmp_path / f"{name}.npy", x)
        command = ("privatize", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}-out.npy", "--epsilon", 8, "--unsafe-seed", 5)
        finished = hushvec_here(*command)
        assert finished.code == 0, finished.err
        outputs.append(np.load(tmp_path / f"{name}-out.npy"))
    assert outputs[0].dtype == hv.privatize(whole, epsilon=8.0).values.dtype == np.float32
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert read_receipt(tmp_path / "whole-out.npy").dtype == "float32"


def test_integers_that_float32_lacks_are_not_charged(tmp_path):
    np.save(tmp_path / "in.npy", np.array([[1, 2], [3, 2**24 + 1]]))
    hv.PrivacyBudget(10.0, persist_key="notes", store=tmp_path / "ledger.db").close()
    finished = hushvec_here(
        *("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", 8),
        *("--budget", "notes", "--budget-store", tmp_path / "ledger.db"),
    )
    assert_one_line(finished, "in.npy: the array must hold whole numbers of at most 2^24 in size", "got 16777217")
    with hv.PrivacyBudget.reopen("notes", store=tmp_path / "ledger.db") as budget:
        assert budget.consumed() == 0
    assert not (tmp_path / "out.npy").exists()


def test_many_parts_are_one_release(tmp_path):
    """More elements than one part holds; every part has a nonce of its own."""
    from hushvec.cli.vectors.source import rows_per_part

    dimension = 4096
    rows = 2 * rows_per_part(dimension) + 3
    x = np.zeros((rows, dimension), np.float32)
    np.save(tmp_path / "in.npy", x)
    finished = hushvec("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", 8)
    assert finished.code == 0, finished.err
    y = np.load(tmp_path / "out.npy")
    assert_released(x, y, read_receipt(tmp_path / "out.npy"))
    parts = [y[: rows_per_part(dimension)], y[rows_per_part(dimension) : 2 * rows_per_part(dimension)]]
    assert (parts[0] == parts[1]).mean() < 0.2


def write_table(table, path, rows):
    """As the suffix says, so many rows in a group or batch."""
    if path.suffix == ".parquet":
        from pyarrow import parquet

        parquet.write_table(table, path, row_group_size=rows)
    else:
        from pyarrow import feather

        feather.write_feather(table, path, chunksize=rows)


def read_table(path):
    if path.suffix == ".parquet":
        from pyarrow import parquet

        return parquet.read_table(path)
    from pyarrow import feather

    return feather.read_table(path)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".feather"])
@pytest.mark.parametrize("kind", ["list float", "list double", "large_list halffloat", "fixed float", "fixed double"])
def test_tables(tmp_path, kind, suffix):
    arrow = pytest.importorskip("pyarrow")
    source, target = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    shape, element = kind.split()
    inner = {"float": arrow.float32(), "double": arrow.float64(), "halffloat": arrow.float16()}[element]
    column = {"list": arrow.list_(inner), "large_list": arrow.large_list(inner), "fixed": arrow.list_(inner, DIMENSION)}[shape]
    x = vectors(dtype=np.dtype(inner.to_pandas_dtype()).name)
    table = arrow.table(
        {
            "id": list(range(ROWS)),
            "vector": arrow.array(list(x), column),
            "secret": ["John has measles"] * ROWS,
            "lang": ["en"] * ROWS,
        }
    )
    write_table(table, source, 70)
    finished = hushvec_here("privatize", source, "-o", target, "--epsilon", 8, "--column", "vector", "--keep", "id,lang")
    assert finished.code == 0, finished.err
    written = read_table(target)
    assert written.column_names == ["id", "lang", "vector"]
    assert written.column("id").to_pylist() == list(range(ROWS))
    assert written.schema.field("vector").type.value_type == inner
    assert type(written.schema.field("vector").type) is type(column)
    y = np.array(written.column("vector").to_pylist(), x.dtype)
    receipt = read_receipt(target)
    assert_released(x, y, receipt)
    assert receipt.notes == ("copied without protection: id, lang",)
    assert b"measles" not in target.read_bytes()


def write_lines(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_jsonl(tmp_path):
    x = vectors()
    write_lines(tmp_path / "in.jsonl", ({"id": i, "secret": "measles", "embedding": row.tolist()} for i, row in enumerate(x)))
    finished = hushvec_here("privatize", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--epsilon", 8, "--keep", "id")
    assert finished.code == 0, finished.err
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [record["id"] for record in records] == list(range(ROWS))
    assert all(record.keys() == {"id", "embedding"} for record in records)
    assert_released(x, np.array([record["embedding"] for record in records], np.float32), read_receipt(tmp_path / "out.jsonl"))


def test_jsonl_texts(tmp_path):
    pytest.importorskip("sentence_transformers")
    write_lines(
        tmp_path / "in.jsonl", [{"id": 1, "note": "The biopsy came back benign."}, {"id": 2, "note": "Überweisung in die Türkei"}]
    )
    finished = hushvec_here(
        "privatize",
        tmp_path / "in.jsonl",
        "-o",
        tmp_path / "out.jsonl",
        "--epsilon",
        50,
        "--text-key",
        "note",
        "--column",
        "v",
        "--keep",
        "id",
    )
    assert finished.code == 0, finished.err
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [len(record["v"]) for record in records] == [384, 384]
    assert "biopsy" not in (tmp_path / "out.jsonl").read_text()
    receipt = read_receipt(tmp_path / "out.jsonl")
    assert hv.verify_receipt(receipt).status == "holds"
    assert "all-MiniLM-L6-v2" in receipt.notes[0]


@pytest.mark.parametrize(
    ("arguments", "checks"),
    [
        (["--mechanism", "laplacian", "--epsilon", "8"], {"mechanism": "laplacian", "delta": 0.0, "sensitivity_norm": "l1"}),
        (["--mechanism", "l2_laplace", "--epsilon", "8"], {"mechanism": "l2_laplace", "grade": "float", "is_dp_claim": False}),
        (["--mechanism", "empirical", "--sigma", "0.25"], {"mechanism": "empirical", "sigma": 0.25, "is_dp_claim": True}),
        (["--epsilon", "8", "--per", "release"], {"per": "release", "sensitivity": 2 * ROWS**0.5}),
        (["--epsilon", "8", "--normalize", "--renormalize"], {"normalize": True, "renormalize": True, "clip_norm": 1.0}),
        (["--epsilon", "8", "--clip-norm", "0.5", "--rounds", "12"], {"clip_norm": 0.5, "cipher": "chacha12"}),
        (["--epsilon", "8", "--unsafe-seed", "5"], {"key_source": "seed", "cipher": "chacha20", "is_dp_claim": False}),
        (["--epsilon", "8", "--cipher", "aes256"], {"cipher": "aes256", "rounds": 14, "format_version": 3}),
        (["--epsilon", "8", "--unsafe-seed", "5", "--cipher", "aes256"], {"key_source": "seed", "cipher": "aes256"}),
        (["--epsilon", "2", "--delta", "1e-9"], {"epsilon": 2.0, "delta": 1e-9}),
    ],
)
@pytest.mark.parametrize("kind", ["npy", "jsonl"])
def test_settings_reach_the_receipt(tmp_path, arguments, checks, kind):
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    if kind == "npy":
        np.save(source, vectors())
    else:
        write_lines(source, ({"embedding": row.tolist()} for row in vectors()))
    finished = hushvec_here("privatize", source, "-o", output, *arguments)
    assert finished.code == 0, finished.err
    receipt = read_receipt(output)
    for name, value in checks.items():
        assert getattr(receipt, name) == pytest.approx(value) if isinstance(value, float) else getattr(receipt, name) == value
    assert hv.verify_receipt(receipt).status == ("holds" if receipt.is_dp_claim else "not a DP claim")
    if receipt.renormalize and kind == "npy":
        np.testing.assert_allclose(np.linalg.norm(np.load(output), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["--cipher", "aes256"], "AES-256, key from the operating system"),
        (["--rounds", "8"], "ChaCha8, key from the operating system"),
        (["--unsafe-seed", "5"], "ChaCha20, KEY FROM A USER-GIVEN SEED"),
    ],
)
def test_the_text_names_the_cipher(tmp_path, arguments, key):
    np.save(tmp_path / "in.npy", vectors(3))
    finished = hushvec_here("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", "8", *arguments)
    assert [line.split(maxsplit=1)[1] for line in finished.out.splitlines() if line.split()[:1] == ["noise"]] == [key]


def spoiled(rows=ROWS, row=211, value=np.nan):
    x = vectors(rows)
    x[row, 5] = value
    return x


def npy_bytes(x):
    from io import BytesIO

    buffer = BytesIO()
    np.save(buffer, x, allow_pickle=True)
    return buffer.getvalue()


BAD_FILES = [
    ("npy", npy_bytes(spoiled()), "got nan in row 211"),
    ("npy", npy_bytes(spoiled(value=-np.inf)), "got -inf in row 211"),
    ("npy", npy_bytes(vectors())[:5000], "the file is cut short: 76928 bytes expected, got 5000"),
    ("npy", npy_bytes(vectors())[:60], "not a .npy file of numbers"),
    ("npy", b"", "not a .npy file of numbers"),
    ("npy", b"\x93NUMPY\x02\x00\x00\x00\x00\x80{", "its header must have at most 10000 bytes, says 2147483648"),
    ("npy", b"PK\x03\x04 not numpy at all", "not a .npy file of numbers"),
    ("npy", npy_bytes(np.array([{}, None])), "got object"),
    ("npy", npy_bytes(np.ones((3, 4), bool)), "the array must be float32 or float64 or float16, got bool"),
    (
        "npy",
        npy_bytes(np.array([[1, 2], [3, 2**24 + 1]])),
        "the array must hold whole numbers of at most 2^24 in size, which float32 holds exactly, got 16777217 (pass a float64 array)",
    ),
    ("npy", npy_bytes(np.zeros((2, 3, 4))), "the array must have 1 or 2 dimensions, got 3"),
    ("npy", npy_bytes(np.zeros((3, 0))), "the array must have at least 1 column, got 0"),
    ("jsonl", b"", "the file must hold at least one line"),
    ("jsonl", b'{"embedding": [1, 2]}\n{"embedding": [1, 2', "line 2: not JSON"),
    ("jsonl", b'{"embedding": [1, 2]}\n\n[1, 2]\n', "line 3: must be an object, got list"),
    ("jsonl", b'{"vector": [1, 2]}\n', "line 1: has no key 'embedding'"),
    (
        "jsonl",
        b'{"embedding": [1, 2]}\n{"embedding": [1]}\n',
        "line 2: 'embedding' must have 2 numbers like the first line, got 1",
    ),
    ("jsonl", b'{"embedding": [1, "2"]}\n', "line 1: 'embedding' must be a list of numbers"),
    ("jsonl", b'{"embedding": [true, 2]}\n', "line 1: 'embedding' must be a list of numbers"),
    ("jsonl", b'{"embedding": []}\n', "the file must hold at least one line, and one row"),
    ("jsonl", b'{"embedding": 3}\n', "line 1: 'embedding' must be a list of numbers"),
    ("jsonl", b'{"embedding": [1, NaN]}\n', "got nan in row 0"),
    ("jsonl", b'{"embedding": [1, 2]}\n{"embedding": [1, 1e300]}\n', "got inf in row 1"),
    ("jsonl", b'{"embedding": [1, ' + b"9" * 400 + b"]}\n", "line 1: 'embedding' holds a number beyond float64"),
    ("jsonl", b"\xff\xfe\x00", "must be UTF-8 text, got byte 0xff at 0"),
    ("jsonl", b"[" * 100_000 + b"\n", "line 1: not JSON"),
    ("txt", b"hello", "the name must end in .npy, .npz, .parquet, .arrow, .feather, .jsonl, .ndjson, .json, .csv, got '.txt'"),
]


@pytest.mark.parametrize(("kind", "content", "text"), BAD_FILES, ids=[f"{kind} {text}"[:60] for kind, _, text in BAD_FILES])
def test_bad_files(tmp_path, kind, content, text):
    source, output = tmp_path / f"in.{kind}", tmp_path / f"out.{kind}"
    source.write_bytes(content)
    output.write_bytes(b"what was there")
    assert_one_line(hushvec_here("privatize", source, "-o", output, "--epsilon", 8, "--force"), f"in.{kind}", text)
    assert names(tmp_path) == [f"in.{kind}", f"out.{kind}"]
    assert output.read_bytes() == b"what was there"


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_bad_tables(tmp_path, suffix):
    arrow = pytest.importorskip("pyarrow")
    good = arrow.array(list(vectors(20)), arrow.list_(arrow.float32()))

    def with_row(row, value):
        rows = vectors(20).tolist()
        rows[row] = value
        return arrow.array(rows, arrow.list_(arrow.float32()))

    write_table(arrow.table({"embedding": good}), tmp_path / f"whole{suffix}", 20)
    whole = (tmp_path / f"whole{suffix}").read_bytes()
    cases = [
        (whole[: len(whole) // 2], f"not a {suffix} file"),
        (b"", f"not a {suffix} file"),
        (arrow.table({"vector": good}), "must have one column 'embedding', got 'vector'"),
        (arrow.table({"embedding": list(range(20))}), "must hold lists of floats, got int64"),
        (arrow.table({"embedding": [["a"]] * 20}), "must hold lists of floats"),
        (arrow.table({"embedding": with_row(7, None)}), f"must hold {DIMENSION} numbers, got null in row 7"),
        (arrow.table({"embedding": with_row(7, [1.0])}), f"must hold {DIMENSION} numbers, got 1 numbers in row 7"),
        (arrow.table({"embedding": with_row(7, [None] * DIMENSION)}), "must hold numbers, got null in row 7"),
        (arrow.table({"embedding": with_row(7, [float("nan")] * DIMENSION)}), "got nan in row 7"),
        (arrow.table({"embedding": good.slice(0, 0)}), "must hold at least one row of known length"),
    ]
    source, output = tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    for content, text in cases:
        if isinstance(content, bytes):
            source.write_bytes(content)
        else:
            write_table(content, source, 5)
        assert_one_line(hushvec_here("privatize", source, "-o", output, "--epsilon", 8), source.name, text)
        assert names(tmp_path) == [source.name, f"whole{suffix}"]


def test_lists_of_an_arrow_file_that_lie_outside_of_it_are_refused(tmp_path):
    """Nothing checks the offsets of lists but whoever follows them."""
    arrow = pytest.importorskip("pyarrow")
    source = tmp_path / "in.arrow"
    batch = arrow.record_batch({"embedding": arrow.array([[0.5] * 777] * 2, arrow.list_(arrow.float32()))})
    with source.open("wb") as file, arrow.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch)
    offsets = np.array([0, 777, 1554], np.int32).tobytes()
    assert source.read_bytes().count(offsets) == 1
    source.write_bytes(source.read_bytes().replace(offsets, np.array([0, 777, 1 << 28], np.int32).tobytes()))
    assert_one_line(hushvec_here("privatize", source, "-o", tmp_path / "out.arrow", "--epsilon", 8), "in.arrow", "damaged")


def test_parquet_without_pyarrow(tmp_path):
    """A module of that name that cannot be imported stands for a missing one."""
    (tmp_path / "pyarrow.py").write_text("raise ImportError('absent')")
    (tmp_path / "in.parquet").write_bytes(b"PAR1")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    finished = hushvec(
        "privatize", tmp_path / "in.parquet", "-o", tmp_path / "o.parquet", "--epsilon", 8, environment={"PYTHONPATH": path}
    )
    assert_one_line(finished, "pip install 'hushvec[cli]'")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["in.npy", "-o", "out.npy"], "epsilon must be given for mechanism 'gaussian'"),
        (["in.npy", "-o", "out.npy", "--epsilon", "-8"], "epsilon must be > 0, got -8.0"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--delta", "0"], "delta must be > 0 and < 1, got 0.0"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--clip-norm", "nan"], "--clip-norm: must be finite, got nan"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--mechanism", "magic"], "invalid choice: 'magic'"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--sigma", "1"], "sigma must be None for mechanism 'gaussian'"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--rounds", "7"], "rounds must be 20, 12 or 8, got 7"),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--cipher", "rc4"], "invalid choice: 'rc4'"),
        (
            ["in.npy", "-o", "out.npy", "--epsilon", "8", "--rounds", "20", "--cipher", "aes256"],
            "rounds must not be given with cipher, got rounds 20 and cipher 'aes256'",
        ),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--unsafe-seed", "-1"], "seed must be in [0, 2^256), got -1"),
        (
            ["in.npy", "-o", "out.npy", "--epsilon", "8", "--normalize", "--clip-norm", "2"],
            "clip_norm must be 1.0 with normalize",
        ),
        (["in.npy", "-o", "out.npy", "--epsilon", "8", "--keep", "id"], "a .npy file has no columns or keys to name"),
        (["in.npy", "-o", "out.jsonl", "--epsilon", "8"], "out.jsonl: must end in .npy like the input"),
        (["in.npy", "-o", "absent/out.npy", "--epsilon", "8"], "the folder absent must exist"),
        (["in.npy", "-o", "folder.npy", "--epsilon", "8"], "must be a plain file"),
        (["in.npy", "--epsilon", "8"], "required: -o/--output"),
        (["absent.npy", "-o", "out.npy", "--epsilon", "8"], "absent.npy: No such file or directory"),
        (["in.jsonl", "-o", "out.jsonl", "--epsilon", "8", "--keep", "embedding"], "keep must not name 'embedding'"),
        (["in.jsonl", "-o", "out.jsonl", "--epsilon", "8", "--keep", "id"], "line 1: has no key 'id'"),
        (["in.jsonl", "-o", "out.jsonl", "--epsilon", "8", "--text-key", "t", "--keep", "t"], "keep must not name 't'"),
    ],
)
def test_bad_arguments(tmp_path, arguments, text):
    np.save(tmp_path / "in.npy", vectors(3))
    write_lines(tmp_path / "in.jsonl", [{"embedding": [1.0, 2.0], "t": "text"}])
    (tmp_path / "folder.npy").mkdir()
    before = names(tmp_path)
    assert_one_line(hushvec_here("privatize", *arguments, cwd=tmp_path), text)
    assert names(tmp_path) == before


def test_an_output_may_replace_its_input_by_force(tmp_path):
    x = vectors()
    np.save(tmp_path / "x.npy", x)
    command = ("privatize", tmp_path / "x.npy", "-o", tmp_path / "x.npy", "--epsilon", 8)
    assert_one_line(hushvec_here(*command), "x.npy: must not exist")
    assert hushvec_here(*command, "--force").code == 0
    assert_released(x, np.load(tmp_path / "x.npy"), read_receipt(tmp_path / "x.npy"))


@pytest.mark.parametrize("there", ["out.npy", "out.npy.receipt.json"])
def test_a_release_is_not_replaced_without_force(tmp_path, there):
    """Two releases cost two; the first receipt must not vanish unnoticed, and nothing may be charged for the refused one."""
    store = tmp_path / "budgets.sqlite"
    hv.PrivacyBudget(20.0, persist_key="notes", store=str(store)).close()
    np.save(tmp_path / "in.npy", vectors())
    command = ("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", 8, "--budget", "notes")
    command += ("--budget-store", store, "--json")
    assert hushvec_here(*command).code == 0
    for name in {"out.npy", "out.npy.receipt.json"} - {there}:
        (tmp_path / name).unlink()
    before = (tmp_path / there).read_bytes()
    assert_one_line(hushvec_here(*command), f"{there}: must not exist: a release there counts beside a new one", "--force")
    assert (tmp_path / there).read_bytes() == before
    with hv.PrivacyBudget.reopen("notes", store=str(store)) as budget:
        assert budget.consumed() == 8.0
        finished = hushvec_here(*command, "--force")
        assert finished.code == 0, finished.err
        assert "if a release was there before, both count: their losses add up" in json.loads(finished.out)["receipt"]["notes"]
        assert budget.consumed() == 16.0


def test_what_cannot_be_written_is_refused_before_the_charge(tmp_path):
    """Python reads more as JSON than JSON has; the writer found out when the budget was charged."""
    store = tmp_path / "budgets.sqlite"
    hv.PrivacyBudget(20.0, persist_key="notes", store=str(store)).close()
    good = '{"id": 1, "embedding": [1.0, 2.0], "text": "a"}'
    with hv.PrivacyBudget.reopen("notes", store=str(store)) as budget:
        for kept, text in (
            ("NaN", "'id' cannot be copied: JSON has no NaN or Infinity"),
            ('[{"deep": -Infinity}]', "'id' cannot be copied: JSON has no NaN or Infinity"),
('"half \\ud800"', "'id' cannot be copied: it has half of a surrogate pair"),
        ):
            line = good.replace("1,", f"{kept},", 1)
            (tmp_path / "in.jsonl").write_text(f"{good}\n{line}\n")
            command = ("privatize", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--epsilon", 8, "--keep", "id")
            assert_one_line(hushvec_here(*command, "--budget", "notes", "--budget-store", store), "in.jsonl: line 2", text)
        (tmp_path / "in.jsonl").write_text(good)
        command = ("privatize", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl", "--epsilon", 8, "--keep", "id,id")
        assert_one_line(hushvec_here(*command, "--budget", "notes", "--budget-store", store), "--keep must name 'id' once")
        assert budget.consumed() == 0.0
    assert names(tmp_path)[-1] == "in.jsonl"


@pytest.mark.parametrize(("mode", "expected"), [(0o600, 0o600), (0o640, 0o640), (0o666, 0o644)])
def test_who_may_read_the_input_may_read_the_output(tmp_path, mode, expected):
    np.save(tmp_path / "in.npy", vectors())
    (tmp_path / "in.npy").chmod(mode)
    (tmp_path / "strict.npy").touch(mode=0o600)
    before = os.umask(0o022)
    try:
        for name, wanted in (("out.npy", expected), ("strict.npy", 0o600)):
            command = ("privatize", tmp_path / "in.npy", "-o", tmp_path / name, "--epsilon", 8, "--force")
            assert hushvec_here(*command).code == 0
            assert (tmp_path / name).stat().st_mode & 0o777 == wanted
            assert (tmp_path / f"{name}.receipt.json").stat().st_mode & 0o777 == expected
    finally:
        os.umask(before)


def test_a_full_disk_leaves_nothing(tmp_path):
    """A file size limit stands for a full disk."""
    np.save(tmp_path / "in.npy", vectors(5000))
    code = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); "
        "from hushvec.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "privatize",
        str(tmp_path / "in.npy"),
        "-o",
        str(tmp_path / "out.npy"),
        "--epsilon",
        "8",
    ]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr.count("\n") == 1
    assert "Traceback" not in finished.stderr
    assert names(tmp_path) == ["in.npy"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_leaves_nothing(tmp_path, number, code):
    np.save(tmp_path / "in.npy", np.zeros((200_000, 384), np.float32))
    command = [sys.executable, "-m", "hushvec", "privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", "8"]
    # The slowest there is, a second or more: the signal must come before the end.
    command += ["--mechanism", "l2_laplace"]
    slow = {**os.environ, "HUSHVEC_BACKEND": "portable", "HUSHVEC_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [*map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=slow,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job inherits it ignored
    )
    deadline = time.monotonic() + 60
    while not any(name.endswith(".partial") for name in names(tmp_path)):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in err
    assert names(tmp_path) == ["in.npy"]


def test_a_budget_is_charged_and_named(tmp_path):
    store = tmp_path / "budgets.sqlite"
    hv.PrivacyBudget(10.0, persist_key="notes", store=str(store)).close()
    np.save(tmp_path / "in.npy", np.ones((5, 16), np.float32))

    def privatize(name, output, key, epsilon):
        budget = ("--budget", key, "--budget-store", store)
        return hushvec_here("privatize", tmp_path / name, "-o", tmp_path / output, *budget, "--epsilon", epsilon, "--json")

    finished = privatize("in.npy", "out.npy", "notes", 6)
    assert finished.code == 0, finished.err
    receipt = hv.Receipt.from_dict(json.loads(finished.out)["receipt"])
    with hv.PrivacyBudget.reopen("notes", store=str(store)) as budget:
        assert budget.consumed() == 6.0
        assert hv.verify_charges([receipt], budget.export()).status == "holds"

    np.save(tmp_path / "bad.npy", np.full((5, 16), np.nan, np.float32))
    assert_one_line(privatize("bad.npy", "out2.npy", "notes", 1), "x must be finite")
    assert_one_line(privatize("in.npy", "out2.npy", "notes", 6), "exhausted")
    assert_one_line(privatize("in.npy", "out2.npy", "none", 1), "none")
    assert not (tmp_path / "out2.npy").exists()
    with hv.PrivacyBudget.reopen("notes", store=str(store)) as budget:
        assert budget.consumed() == 6.0


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".jsonl"])
def test_int8(tmp_path, suffix):
    x, source, target = vectors(), tmp_path / f"in{suffix}", tmp_path / f"out{suffix}"
    if suffix == ".npy":
        np.save(source, x)
    elif suffix == ".jsonl":
        source.write_text("".join(json.dumps({"embedding": row}) + "\n" for row in x.tolist()))
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet as parquet

        parquet.write_table(pa.table({"embedding": pa.array(x.tolist(), pa.list_(pa.float32()))}), source)
    budget = tmp_path / "ledger"
    hv.PrivacyBudget(max_epsilon=20.0, persist_key="k", store=str(budget)).close()
    finished = hushvec_here(
        "privatize", source, "-o", target, "--epsilon", 8, "--dtype", "int8", "--budget", "k", "--budget-store", budget
    )
    assert finished.code == 0, finished.err
    receipt = read_receipt(target)
    assert (receipt.dtype, receipt.saturation, receipt.rows) == ("int8", (-127, 127), ROWS)
    assert hv.verify_receipt(receipt).status == "holds"
    if suffix == ".npy":
        values = np.load(target)
        assert values.dtype == np.int8
    elif suffix == ".jsonl":
        values = np.array([json.loads(line)["embedding"] for line in target.read_text().splitlines()])
        assert values.dtype == np.int64
    else:
        column = parquet.read_table(target)["embedding"]
        assert column.type.value_type == pa.int8()
        values = np.array(column.to_pylist())
    assert values.shape == x.shape
    noise = values * receipt.grid - hv.clip(x, 1.0).astype(np.float64)
    assert np.sqrt(np.mean(noise**2)) == pytest.approx(receipt.sigma, rel=6 / np.sqrt(2 * noise.size))


def test_other_dtypes_are_refused(tmp_path):
    np.save(tmp_path / "in.npy", vectors())
    finished = hushvec_here("privatize", tmp_path / "in.npy", "-o", tmp_path / "out.npy", "--epsilon", 8, "--dtype", "float16")
    assert finished.code == 2
    assert "argument --dtype: invalid choice: 'float16'" in finished.err
    assert names(tmp_path) == ["in.npy"]
