"""Files that hushvec writes: whole or not at all, for those who may read them, and never through a link."""

import os
import re
import stat
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec._util import publish
from hushvec._util.publish import (
    PRIVATE,
    SHARED,
    mode_of,
    private_file,
    private_opener,
    published,
    published_bytes,
    published_folder,
    published_text,
)

PACKAGE = Path(hv.__file__).parent


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(("asked", "umask", "expected"), [(PRIVATE, 0, 0o600), (SHARED, 0o022, 0o644), (0o660, 0o027, 0o640)])
@pytest.mark.parametrize("writer", [published_bytes, published_text])
def test_modes(tmp_path, asked, umask, expected, writer):
    os.umask(umask)
    with writer(tmp_path / "out", mode=asked) as file:
        (unfinished,) = tmp_path.iterdir()
        assert mode(unfinished) == 0o600  # whatever it is to become, until it is whole
        file.write("text" if writer is published_text else b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (mode(tmp_path / "out"), (tmp_path / "out").read_bytes()) == (expected, b"text")


def test_files_are_private_unless_said_otherwise(tmp_path):
    os.umask(0)
    for writer, content in ((published_bytes, b""), (published_text, "")):
        with writer(tmp_path / writer.__name__) as file:
            file.write(content)
    assert {mode(path) for path in tmp_path.iterdir()} == {0o600}


def test_a_stricter_target_stays_strict(tmp_path):
    for there, expected in ((0o600, 0o600), (0o640, 0o640), (0o666, 0o644)):
        (tmp_path / "out").touch()
        (tmp_path / "out").chmod(there)
        with published_text(tmp_path / "out", mode=SHARED) as file:
            file.write("new")
        assert mode(tmp_path / "out") == expected
        (tmp_path / "out").unlink()


def test_the_output_of_a_private_input_is_private(tmp_path):
    (tmp_path / "in").touch()
    for given, expected in ((0o600, 0o600), (0o640, 0o640), (0o777, 0o666)):
        (tmp_path / "in").chmod(given)
        assert mode_of(tmp_path / "in") == expected
    with published(tmp_path / "out", mode=0o600) as (values, receipt):
        values.write(b"values")
        receipt.write(b"receipt")
    assert {mode(tmp_path / name) for name in ("out", "out.receipt.json")} == {0o600}


def test_names_cannot_be_guessed_and_links_are_not_followed(tmp_path, monkeypatch):
    """Whoever guessed the name could lay a link there, and have the content written where it points to."""
    names = set()
    for _ in range(2):
        with published_bytes(tmp_path / "out"):
            names |= {path.name for path in tmp_path.iterdir()} - {"out"}
    assert len(names) == 2 and all(re.fullmatch(rf"\.out\.[0-9a-f]{{16}}\.{os.getpid()}\.partial", name) for name in names)
    monkeypatch.setattr(publish.secrets, "token_hex", lambda size: "known")
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / f".out.known.{os.getpid()}.partial").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError), published_bytes(tmp_path / "out") as file:
        file.write(b"content")
    assert (tmp_path / "elsewhere").read_text() == "untouched"


def test_files_at_their_place_are_not_behind_links(tmp_path):
    (tmp_path / "elsewhere").write_text("untouched")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        os.close(private_opener(tmp_path / "link", os.O_WRONLY))
    with pytest.raises(FileExistsError):
        private_file(tmp_path / "link")
    with open(tmp_path / "new", "a", opener=private_opener) as file:
        file.write("new")
    assert mode(tmp_path / "new") == 0o600


def test_a_folder_and_all_in_it_are_private(tmp_path):
    with published_folder(tmp_path / "new" / "folder") as beside:
        (beside / "deep").mkdir()
        (beside / "deep" / "rows.npy").write_bytes(b"")
    folder = tmp_path / "new" / "folder"
    assert [mode(path) for path in (folder, folder / "deep", folder / "deep" / "rows.npy")] == [0o700, 0o700, 0o600]
    assert [path.name for path in folder.parent.iterdir()] == ["folder"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt])
def test_what_fails_leaves_what_was_there(tmp_path, failure):
    (tmp_path / "out").write_text("old")
    with pytest.raises(failure), published(tmp_path / "out", mode=SHARED):
        raise failure
    with pytest.raises(failure), published_folder(tmp_path / "folder"):
        raise failure
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out", "old")]


# What writes in its own way, and why that is right.
WRITERS_OF_THEIR_OWN = {
    "cli/redact.py": "files in the folder of its own that `published_folder` has made",
    "cli/vectors/arrays.py": "entries of an archive that is open for writing",
    "retrieval/index/saved.py": "files of random names that `private_file` has made",
}


def test_every_other_file_is_written_by_the_helper():
    """A new `open(path, "w")` would have its own mode, its own unfinished name, and follow links."""
    writing = re.compile(
        r"""open\([^)\n]*["'](?:w|a|x|r\+)[bt+]*["'](?![^)\n]*opener=private_opener)|\.write_(?:text|bytes)\(|O_CREAT"""
        r"""|(?<!_)mkstemp|mkdtemp|NamedTemporaryFile|os\.(?:replace|rename)\("""
    )
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        code = re.sub(r'"""[\s\S]*?"""', "", path.read_text(encoding="utf-8"))
        if writing.search(code):
            found[path.relative_to(PACKAGE).as_posix()] = writing.findall(code)
    found.pop("_util/publish.py")
    found.pop("_util/os_files.py")
    assert set(found) == set(WRITERS_OF_THEIR_OWN), found


class TestIndexes:
    @pytest.fixture
    def index(self):
        from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise

        def make(store, **options):
            on_scores = store in ("numpy", "flat")
            noise = {"scores": ScoreNoise(epsilon=1.0)} if on_scores else {"queries": VectorNoise(epsilon=1.0)}
            index = PrivateIndex(8, store=store, **noise, **options)
            index.add(np.eye(8, dtype=np.float32))
            return index

        return make

    @pytest.mark.parametrize("store", ["numpy", "flat", "hnsw"])
    def test_clean_rows_are_private(self, tmp_path, index, store):
        """Noise on scores or queries alone leaves the rows as they came."""
        if store == "hnsw":
            pytest.importorskip("faiss")
        index(store).save(tmp_path / "index")
        assert mode(tmp_path / "index") == 0o700
        assert {mode(path) for path in (tmp_path / "index").iterdir()} == {0o600}

    @pytest.mark.parametrize("store", ["lancedb", "qdrant"])
    @pytest.mark.parametrize("is_there", [False, True])
    def test_stores_on_disk_are_private(self, tmp_path, index, store, is_there):
        """In a folder of our own, or below a folder that others may enter."""
        pytest.importorskip({"lancedb": "lancedb", "qdrant": "qdrant_client"}[store])
        folder = tmp_path / "rows"
        if is_there:
            folder.mkdir(mode=0o755)
        index(store, path=folder).save(tmp_path / "index")
        assert mode(folder) == (0o755 if is_there else 0o700)
        rows = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("meta.json", ".lock", "LOCK")]
        assert rows
        for path in rows:
            assert any(mode(parent) & 0o077 == 0 for parent in path.parents if parent.is_relative_to(folder)), path


def test_a_file_is_read_where_the_system_cannot_open_without_waiting(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"12345")
    monkeypatch.delattr(os, "O_NONBLOCK")
    assert publish.plain_bytes(tmp_path / "file", 5) == b"12345"
    with pytest.raises(ValueError, match=r"file: must be a plain file of at most 4 bytes$"):
        publish.plain_bytes(tmp_path / "file", 4)


def test_a_file_that_keeps_nothing_knows_how_much_it_got():
    file = publish.Discarded()
    assert (file.tell(), file.write(b"abc"), file.write(np.zeros(2)), file.tell()) == (0, 3, 16, 19)
