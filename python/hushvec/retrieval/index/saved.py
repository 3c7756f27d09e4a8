"""An index in a folder, saved atomically.

    index.json              settings, and the names, lengths and SHA-256 of the other files: what is not named there does not count
    rows-TAG.npy / .faiss   the stored rows; no such file for a store that has them on disk itself
    keys-TAG.npy            for such a store: which of its rows belong to the index
    ids-TAG.json            ids in the order of the rows
    receipts-TAG.json       of the documents
    documents-TAG.jsonl     texts and metadata in the order of the rows, as they are, if a row has any
    projection-TAG.npz      the public map, if there is one
    SIDE_codebook-TAG.npz   the public codebook of documents or queries, if there is one

New files are written first, under unused names; then index.json is replaced; then the files of the previous save are removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hushvec import mechanisms
from hushvec._native import _core
from hushvec._util import lines, validate
from hushvec._util.os_files import sync
from hushvec._util.publish import private_file, private_folder, published_bytes, sync_folder
from hushvec.extend import Budget
from hushvec.receipts import row_receipt
from hushvec.retrieval.index.content import Content, Documents, RowIds
from hushvec.retrieval.index.settings import SIDES, IndexSettings
from hushvec.retrieval.stores import ON_DISK, OWN, KeyedStore, Store, open_store, shown

INDEX_FORMAT = 1
MANIFEST = "index.json"
_OURS = re.compile(
    r"(rows|keys|ids|receipts|documents|projection|documents_codebook|queries_codebook)-[0-9a-f]{16}\.(npy|faiss|jsonl?|npz)"
)
_HASHED_AT_ONCE = 1 << 22


def save(folder: Path, content: Content) -> None:
    """Write an index; the previous one stays until this one is complete."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: must be a folder or not exist")
    if folder.is_dir() and not (folder / MANIFEST).exists():
        foreign = [path.name for path in folder.iterdir() if not _is_ours(path.name)]
        if foreign:
            raise ValueError(f"{folder}: must be empty, hold an index or not exist, got {foreign[0]!r} in it")
    private_folder(folder)
    tag = secrets.token_hex(8)
    files: dict[str, dict[str, Any]] = {}
    for kind, (suffix, write) in _parts(content).items():
        name = f"{kind}-{tag}{suffix}"
        private_file(folder / name)  # which its writer then only fills
        write(folder / name)
        with (folder / name).open("rb+") as file:
            sync(file.fileno())
        files[kind] = {"name": name, "bytes": (folder / name).stat().st_size, "sha256": _digest(folder / name)}
    place = content.store.folder
    manifest = {
        "index_format": INDEX_FORMAT,
        "library_version": _core.__version__,
        "settings": content.settings.to_dict(),
        "rows": len(content.ids),
        "store_path": None if place is None else str(place.resolve()),
        "files": files,
    }
    sync_folder(folder)
    with published_bytes(folder / MANIFEST) as file:
        file.write((json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())
    sync_folder(folder)
    named = {MANIFEST, *(entry["name"] for entry in files.values())}
    for path in folder.iterdir():
        if path.name not in named and _is_ours(path.name):
            path.unlink(missing_ok=True)


def load(
    folder: Path, *, store_path: str | os.PathLike[str] | None, own: Store | None,
    budgets: Mapping[str, tuple[str, Budget | None]], without_budgets: bool,
) -> Content:
    """Read an index, as `PrivateIndex.load`; budgets are by side, each with the name of its argument."""
    manifest = lines.manifest(folder, MANIFEST, "an index", INDEX_FORMAT)
    try:
        parts = {kind: _verified(folder, entry) for kind, entry in manifest["files"].items()}
        projection = None if "projection" not in parts else mechanisms.PublicProjection.load(parts["projection"])
        books = {side: parts.get(f"{side}_codebook") for side in SIDES}
        codebooks = {side: mechanisms.PublicCodebook.load(path) for side, path in books.items() if path is not None}
        settings = IndexSettings.from_dict(manifest["settings"], projection, codebooks)
        budgeted = {name for name in SIDES if (manifest["settings"][name] or {}).get("budget")}
        stored = json.loads(parts["ids"].read_text(encoding="utf-8"))
        ids = RowIds.restored(stored["ids"], stored["next_default"])
        receipts = list(map(row_receipt, json.loads(parts["receipts"].read_text(encoding="utf-8"))))
        written = parts.get("documents")
        documents = Documents.checked(None, None, len(ids)) if written is None else Documents.read(written)
        if len(documents) != len(ids):
            raise ValueError(f"{written} must have one line for each of the {len(ids)} rows, got {len(documents)}")
    except (KeyError, TypeError, AttributeError) as mistake:
        raise ValueError(f"{folder / MANIFEST} does not describe an index: {mistake!r}") from None
    path = store_path if store_path is not None or settings.store == OWN else manifest["store_path"]
    if path is not None and settings.store in ON_DISK and not Path(path).is_dir():
        raise ValueError(f"path must be the folder where the rows of {folder} lie, got {shown(path)}, which is no folder")
    store = open_store(settings.store, settings.columns, options=settings.store_options, path=path, own=own)
    if "rows" in parts:
        store.read(parts["rows"])
    else:
        _take_up(store, np.load(parts["keys"], allow_pickle=False), ids, documents)
    if not len(store) == len(ids):
        raise ValueError(f"{folder} must have as many rows as ids, got {len(store)} and {len(ids)}")
    for side, (name, budget) in budgets.items():
        if budget is not None and getattr(settings, side) is None:
            raise ValueError(f"{name} must be None: the index has no noise on {side}")
        if budget is None and side in budgeted and not validate.flag("without_budgets", without_budgets):
            raise ValueError(f"{name} must be given: the index was saved with one (without_budgets=True goes on without)")
    settings = settings.with_budgets({side: budget for side, (_, budget) in budgets.items()})
    return Content(settings, store, ids, receipts, documents)


def _parts(content: Content) -> dict[str, tuple[str, Callable[[Path], None]]]:
    listed = {
        "ids": {"next_default": content.ids.next_default, "ids": content.ids.values.tolist()},
        "receipts": [receipt.to_dict() for receipt in content.receipts],
    }
    parts: dict[str, tuple[str, Callable[[Path], None]]] = {
        kind: (".json", partial(_write_text, json.dumps(values, ensure_ascii=False, allow_nan=False)))
        for kind, values in listed.items()
    }
    if any(content.documents.counts):
        parts["documents"] = (".jsonl", partial(_write_text, content.documents.lines()))
    store = content.store
    if isinstance(store, KeyedStore) and store.outlives:
        parts["keys"] = (".npy", partial(np.save, arr=store.keys.values))
    else:
        parts["rows"] = (store.suffix, store.write)
    if content.settings.projection is not None:
        parts["projection"] = (".npz", content.settings.projection.save)
    for side, codebook in content.settings.codebooks.items():
        parts[f"{side}_codebook"] = (".npz", codebook.save)
    return parts


def _take_up(store: Any, saved: Any, ids: RowIds, documents: Documents) -> None:
    """Make a store on disk agree with the ids: drop rows added after the save, delete rows deleted after it."""
    added = np.flatnonzero(~np.isin(store.keys.values, saved))
    if len(added):
        store.delete(added)
    gone = np.flatnonzero(~np.isin(saved, store.keys.values))
    if len(gone):
        warnings.warn(f"{len(gone)} rows of the saved index are no longer in its store: they count as deleted", stacklevel=4)
        ids.remove(gone)
        documents.remove(gone)


def _is_ours(name: str) -> bool:
    beside = (f".{MANIFEST}.", ".projection-", ".documents_codebook-", ".queries_codebook-")
    return bool(_OURS.fullmatch(name)) or name == MANIFEST or name.startswith(beside)


def _verified(folder: Path, entry: Mapping[str, Any]) -> Path:
    path = folder / Path(entry["name"]).name
    if not path.is_file():
        raise ValueError(f"{folder} is incomplete: {path.name} is missing")
    if path.stat().st_size != entry["bytes"] or _digest(path) != entry["sha256"]:
        raise ValueError(f"{path} is not what was saved: its SHA-256 is another")
    return path


def _write_text(text: str, path: Path) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        content = hashlib.sha256()
        while part := file.read(_HASHED_AT_ONCE):
            content.update(part)
        return content.hexdigest()
