"""An index in a folder: what comes back, what is refused, and a process that is killed at every step of a save."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PrivUnit, PublicProjection
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.stores import ON_DISK
from retrieval.index_cases import STORES, Counting, filled, loaded, made, released, some_rows, why_missing

ROWS = some_rows()


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("ids", (None, [f"row {place}" for place in range(60)]))
def test_an_index_comes_back(store, ids, tmp_path):
    index = filled(ROWS, ids=ids, store=store, documents=VectorNoise(epsilon=50.0, renormalize=True))
    index.delete(index.ids[[4, 17]])
    index.save(tmp_path / "index")
    again = loaded(tmp_path / "index")
    assert again.ids.tolist() == index.ids.tolist() and again.ids.dtype == index.ids.dtype
    np.testing.assert_array_equal(again.vectors(), index.vectors())
    np.testing.assert_array_equal(again.search(ROWS[:9], k=1).ids, index.search(ROWS[:9], k=1).ids)
    assert again.receipts == index.receipts and again.settings == index.settings
    again.add(ROWS[:2], None if ids is None else ["new", "newer"])
    assert len(again) == 60 and len(again.receipts) == 2
    if ids is None:
        assert again.ids[-2:].tolist() == [60, 61]


@pytest.mark.parametrize("store", STORES)
def test_an_empty_index_comes_back(store, tmp_path):
    made(16, store=store).save(tmp_path)
    again = loaded(tmp_path)
    assert len(again) == 0 and again.dimension == 16
    again.add(ROWS)
    assert len(again) == 60


def test_numbers_of_numpy_come_back(tmp_path):
    """JSON does not know them, and rows are charged for long before an index is saved."""
    eighth = np.float32(0.125)
    index = PrivateIndex(
        16,
        documents=VectorNoise(epsilon=np.float32(50.0), delta=eighth, clip_norm=np.float16(1.0), mechanism="gaussian"),
        scores=ScoreNoise(epsilon=np.float32(2.0), delta=eighth, score_range=(np.float32(-1), np.int64(1))),
    )
    index.add(ROWS)
    index.save(tmp_path / "index")
    assert PrivateIndex.load(tmp_path / "index").settings == index.settings


def test_settings_come_back(tmp_path):
    projection = PublicProjection.johnson_lindenstrauss(16, 8, seed=1)
    index = PrivateIndex(
        16,
        documents=VectorNoise(mechanism=PrivUnit(epsilon=9.0, dimension=8, corpus_size=60)),
        queries=VectorNoise(epsilon=3.0, mechanism="gaussian", delta=1e-7, per="release", renormalize=True),
        scores=ScoreNoise(epsilon=1.5, mechanism="gumbel", score_range=(-0.25, 1.0)),
        projection=projection,
    )
    index.add(ROWS)
    index.save(tmp_path)
    again = PrivateIndex.load(tmp_path)
    assert again.settings == index.settings and again.settings.projection == projection
    assert again.document_guarantee(3) == index.document_guarantee(3) and again.query_guarantee() == index.query_guarantee()
    index = PrivateIndex(4, store="hnsw", store_options={"neighbors": 8}, normalize=False) if "faiss" in sys.modules else None
    if index is not None:
        index.save(tmp_path)
        assert PrivateIndex.load(tmp_path).settings == index.settings


@pytest.mark.parametrize("per", (None, "record", "release"))
def test_whose_queries_are_comes_back(tmp_path, per):
    index = PrivateIndex(4, queries=VectorNoise(epsilon=1.0, per=per))
    index.save(tmp_path)
    again = PrivateIndex.load(tmp_path)
    assert again.settings == index.settings and again.query_guarantee(3) == index.query_guarantee(3)


def test_deleted_rows_do_not_reach_the_files(tmp_path):
    pytest.importorskip("faiss")
    for store in ("flat", "numpy", "hnsw"):
        index = filled(ROWS, store=store)
        gone = index.vectors()[5].tobytes()
        index.delete([5])
        index.save(tmp_path / store)
        assert not any(gone in path.read_bytes() for path in (tmp_path / store).iterdir()), store
        assert len(PrivateIndex.load(tmp_path / store)) == 59


def test_a_side_with_a_budget_needs_one_again(tmp_path):
    spent = Counting()
    index = filled(ROWS, store="numpy", documents=VectorNoise(epsilon=2.0, budget=spent), scores=ScoreNoise(epsilon=1.0))
    index.save(tmp_path)
    with pytest.raises(ValueError, match="document_budget must be given: the index was saved with one"):
        PrivateIndex.load(tmp_path, score_budget=Counting())
    with pytest.raises(ValueError, match="query_budget must be None: the index has no noise on queries"):
        PrivateIndex.load(tmp_path, document_budget=spent, query_budget=Counting())
    with pytest.raises(TypeError, match="budget must have a method consume"):
        PrivateIndex.load(tmp_path, document_budget=5.0)
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        PrivateIndex.load(tmp_path, document_budget=spent, generator=hv.Generator.unsafe_seeded(1))
    again = PrivateIndex.load(tmp_path, document_budget=spent)
    again.add(ROWS)
    assert spent.charges == [(2.0, 0.0), (2.0, 0.0)]
    free = PrivateIndex.load(tmp_path, without_budgets=True)
    free.add(ROWS)
    assert len(spent.charges) == 2


@pytest.mark.parametrize("store", ON_DISK)
def test_a_store_on_disk_keeps_its_rows_where_they_are(store, tmp_path):
    if reason := why_missing(store):
        pytest.skip(reason)
    index = PrivateIndex(16, store=store, path=tmp_path / "rows", documents=VectorNoise(epsilon=50.0))
    index.add(ROWS[:20])
    index.save(tmp_path / "index")
    saved = index.vectors()
    index.add(ROWS[20:25])  # after the save: not in the index that comes back
    assert not list((tmp_path / "index").glob("rows-*"))
    released(index)
    again = PrivateIndex.load(tmp_path / "index")
    assert again.ids.tolist() == list(range(20))
    np.testing.assert_array_equal(again.vectors(), saved)
    again.delete([3])
    released(again)
    os.rename(tmp_path / "rows", tmp_path / "moved")
    with pytest.raises(ValueError, match=r"path must be the folder where the rows of .* lie"):
        PrivateIndex.load(tmp_path / "index")
    assert not (tmp_path / "rows").exists()
    with pytest.warns(UserWarning, match="1 rows of the saved index are no longer in its store"):
        moved = PrivateIndex.load(tmp_path / "index", path=tmp_path / "moved")
    assert moved.ids.tolist() == [0, 1, 2, *range(4, 20)]
    np.testing.assert_array_equal(moved.vectors(), np.delete(saved, 3, axis=0))


def test_a_folder_that_is_no_index_is_left_alone(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"must be empty, hold an index or not exist, got 'letter.txt' in it"):
        filled(ROWS, store="numpy").save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    with pytest.raises(ValueError, match="must be a folder or not exist"):
        filled(ROWS, store="numpy").save(tmp_path / "letter.txt")
    with pytest.raises(ValueError, match=r"holds no index: index.json is missing"):
        PrivateIndex.load(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "index.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: (folder / "index.json").write_text('{"index_format": 2}'), "must be an index of format 1"),
        (lambda folder: (folder / "index.json").write_text("[" * 100_000), "cannot be read as JSON"),
        (lambda folder: (folder / "index.json").write_text('{"index_format": 1}'), "does not describe an index"),
        (lambda folder: next(folder.glob("rows-*")).unlink(), "is incomplete: rows-.* is missing"),
        (lambda folder: next(folder.glob("ids-*")).unlink(), "is incomplete: ids-.* is missing"),
        (lambda folder: flip_byte(next(folder.glob("rows-*")), 500), "is not what was saved"),
        (lambda folder: flip_byte(next(folder.glob("receipts-*")), 9), "is not what was saved"),
        (lambda folder: next(folder.glob("rows-*")).write_bytes(b""), "is not what was saved"),
    ],
)
def test_damage_is_found(spoil, message, tmp_path):
    filled(ROWS, store="numpy", documents=VectorNoise(epsilon=1.0)).save(tmp_path)
    spoil(tmp_path)
    with pytest.raises(ValueError, match=message):
        PrivateIndex.load(tmp_path)


def flip_byte(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_a_save_removes_what_the_last_one_left_and_nothing_else(tmp_path):
    index = filled(ROWS, store="numpy")
    index.save(tmp_path)
    first = {path.name for path in tmp_path.iterdir()}
    (tmp_path / "notes.md").write_text("mine")
    index.add(ROWS)
    index.save(tmp_path)
    second = {path.name for path in tmp_path.iterdir()}
    assert first & second == {"index.json"} and "notes.md" in second and len(second) == len(first) + 1
    assert json.loads((tmp_path / "index.json").read_text())["rows"] == 120


KILLED = '''
import os, sys
from pathlib import Path
import numpy as np
from hushvec.retrieval import PrivateIndex, VectorNoise

folder = Path(sys.argv[1])
rows = np.random.default_rng(0).standard_normal((60, 16)).astype(np.float32)
index = PrivateIndex(16, store="numpy")
index.add(rows[:30], texts=["a"] * 30)
index.save(folder)
index.add(rows[30:])

def killed_at(step):
    """Save in a child that is gone without a farewell at the given system call; whether it got that far."""
    child = os.fork()
    if child == 0:
        left = [step]
        def counted(call):
            def run(*arguments, **options):
                if left[0] == 0:
                    os._exit(9)
                left[0] -= 1
                return call(*arguments, **options)
            return run
        for name in ("open", "fsync", "replace", "unlink", "mkdir", "fdopen", "close"):
            setattr(os, name, counted(getattr(os, name)))
        np.save = counted(np.save)
        Path.write_text, Path.unlink = counted(Path.write_text), counted(Path.unlink)
        index.save(folder)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

step, sizes = 0, []
while killed_at(step):
    sizes.append(len(PrivateIndex.load(folder)))
    step += 1
sizes.append(len(PrivateIndex.load(folder)))
print(*sizes)
print(*sorted(path.name.split("-")[0] for path in folder.iterdir()))
'''


@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills a child process")
def test_a_killed_save_leaves_the_old_index_or_the_new_one(tmp_path):
    """Every system call of a save in turn: the index can be read after each, and the last save clears away what others left."""
    here = str(Path(hv.__file__).parents[1])
    finished = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "index")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": here, "OMP_NUM_THREADS": "1"},
    )
    assert finished.returncode == 0, finished.stderr
    sizes, names = finished.stdout.splitlines()
    sizes = list(map(int, sizes.split()))
    assert set(sizes) == {30, 60} and sizes == sorted(sizes) and sizes.count(30) > 8
    assert names.split() == ["documents", "ids", "index.json", "receipts", "rows"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"next_default": 2**63}, r"next_default must be in \[2, 9223372036854775807\] for these ids, got 9223372036854775808"),
        ({"next_default": 0}, r"next_default must be in \[2, 9223372036854775807\] for these ids, got 0"),
        ({"next_default": -(2**70)}, "next_default must be >= 0"),
        ({"next_default": "a"}, "next_default must be a whole number, got str"),
        ({"ids": [1, 2**65]}, "ids must fit into 64 bits with a sign"),
        ({"ids": [1, 1]}, "ids must be unique, got 1 twice"),
        ({"ids": [1.5, 2.5]}, "ids must be all integers or all strings"),
        ({"ids": [[1], [2]]}, "ids must be all integers or all strings"),
    ],
)
def test_forged_ids_are_refused(tmp_path, change, message):
    """With lengths and digests that fit: ids that wrap around, come twice or are none make no index."""
    index = PrivateIndex(4, store="numpy")
    index.add(np.eye(4, dtype=np.float32)[:2])
    index.save(tmp_path)
    manifest = json.loads((tmp_path / "index.json").read_text())
    ids = tmp_path / manifest["files"]["ids"]["name"]
    ids.write_text(json.dumps(json.loads(ids.read_text()) | change))
    manifest["files"]["ids"] |= {"bytes": ids.stat().st_size, "sha256": hashlib.sha256(ids.read_bytes()).hexdigest()}
    (tmp_path / "index.json").write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=message):
        PrivateIndex.load(tmp_path)
