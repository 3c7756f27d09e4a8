"""Embedding models that a configuration may name, and a cache on disk, so that a text is embedded once."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from hushvec.extend.helpers import private_folder, published_bytes

# ---- models ----

MINILM = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
HASHED_WORDS = "hashed-words"


def embedder(name: str) -> Any:
    """A model by name: "all-MiniLM-L6-v2" of hushvec; "hashed-words", which needs no model; else by sentence-transformers.

    Raises:
        OSError, ValueError: sentence-transformers, which may download it, does not know or find it.
    """
    if name in MINILM:
        from hushvec.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder(device=None, batch_size=64)
    return HashedWords() if name == HASHED_WORDS else _SentenceTransformer(name)


class HashedWords:
    """Counts of words in 256 cells with random signs: no language model, but enough to try a study with.

    Reference:
        Weinberger, Dasgupta, Langford, Smola, Attenberg, "Feature hashing for large scale multitask learning" (2009).

    Example:
        >>> rows = HashedWords().embed(["red apples", "apples red", "blue"])
        >>> rows.shape, bool((rows[0] == rows[1]).all()), bool(abs(rows[0] @ rows[2]) < 0.9)
        ((3, 256), True, True)
    """

    model_id = HASHED_WORDS
    dimension = 256

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, 256]: unit rows, zeros for a text without a word."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.sha256(word.encode()).digest()
                row[digest[0]] += 1 if digest[1] % 2 else -1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows


class _SentenceTransformer:
    def __init__(self, name: str) -> None:
        from sentence_transformers import SentenceTransformer

        self.model_id = name
        self._model = SentenceTransformer(name)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(list(texts), convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


# ---- cache ----

FORMAT = "hushvec embeddings 1"
# Texts that are embedded, and kept, at a time: what an interrupted run repeats at most.
SHARD = 512

_KEY_BYTES = 32
_SUFFIX = ".safetensors"


class DamagedShardWarning(UserWarning):
    """A file of the cache is torn or was changed. It was removed, and its texts are embedded again."""


class _Shard(NamedTuple):
    keys: NDArray[np.uint8]
    rows: NDArray[np.float32]


class EmbeddingCache:
    """An embedding model whose answers are kept in a folder, each model's in one of its own.

    Args:
        folder: of the cache; made at the first use.
        model: anything with `embed(texts) -> [n, d]` and a `model_id`. Two models with one `model_id` share their rows: the name must
            change when the model does.

    Guarantees:
        A row comes back exactly as the model gave it (float32). A file appears whole or not at all, so several processes may use one
        folder. Every file carries SHA-256 of its content: one that is torn or was changed is reported (DamagedShardWarning),
        removed, and made again; one that belongs to another model is refused.
        Texts are not stored, but the folder is as private as they are: one that can be guessed is recognised by its hash, and an
        embedding gives much of its text away.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rows = EmbeddingCache(folder, HashedWords()).embed(["a", "bcd", "a"])
        >>> rows.shape
        (3, 256)
    """

    def __init__(self, folder: str | os.PathLike[str], model: Any) -> None:
        self._model = model
        self.model_id: str = model.model_id
        self._folder = Path(folder) / _folder_name(self.model_id)
        self._rows: dict[bytes, NDArray[np.float32]] = {}
        self._read: set[str] = set()

    def embed(self, texts: Sequence[str], progress: Callable[[int], object] | None = None) -> NDArray[np.float32]:
        """float32[n, d], writable: the rows of one text or more; those that are not in the cache come from the model, and are kept.

        Args:
            progress: called with how many of the texts have their rows now, once for those of the cache and then after every file.

        Raises:
            ValueError: a text that UTF-8 cannot hold; an answer of the model that has the wrong shape, another d than before, NaN or
                Inf; a file of another model in the folder.
        """
        keys = [_key(text) for text in texts]
        self._load()
        wanted = {key: text for key, text in zip(keys, texts) if key not in self._rows}
        missing = list(wanted)
        _report(progress, sum(key not in wanted for key in keys))
        for start in range(0, len(missing), SHARD):
            batch = missing[start : start + SHARD]
            made = set(batch)
            rows = self._checked(self._model.embed([wanted[key] for key in batch]), len(batch))
            shard = _Shard(np.frombuffer(b"".join(batch), np.uint8).reshape(-1, _KEY_BYTES), rows)
            self._keep(shard, self._write(shard))
            _report(progress, sum(key in made for key in keys))
        return np.stack([self._rows[key] for key in keys])

    def _load(self) -> None:
        """Read what is in the folder and was not read before."""
        for path in sorted(self._folder.glob(f"*{_SUFFIX}")):
            if path.name in self._read:
                continue
            try:
                shard = _read_shard(path, self.model_id)
            except FileNotFoundError:
                continue  # another process found it damaged first
            if shard is None:
                warnings.warn(f"{path}: damaged; its texts are embedded again", DamagedShardWarning, stacklevel=3)
                path.unlink(missing_ok=True)
            else:
                self._keep(shard, path.name)

    def _write(self, shard: _Shard) -> str:
        digest = _digest(shard)
        stored = safetensors.numpy.save(
            {"keys": shard.keys, "rows": shard.rows}, {"format": FORMAT, "model": self.model_id, "sha256": digest}
        )
        private_folder(self._folder)
        path = self._folder / f"{digest[:32]}{_SUFFIX}"
        with published_bytes(path) as file:
            file.write(stored)
        return path.name

    def _keep(self, shard: _Shard, name: str) -> None:
        self._rows.update(zip(map(bytes, shard.keys), shard.rows))
        self._read.add(name)

    def _checked(self, rows: Any, count: int) -> NDArray[np.float32]:
        answer = np.array(rows, np.float32, order="C")
        known = next(iter(self._rows.values()), None)
        if answer.ndim != 2 or len(answer) != count or answer.shape[1] == 0:
            raise ValueError(f"model must answer {count} texts with as many rows, got shape {answer.shape}")
        if known is not None and answer.shape[1] != len(known):
            raise ValueError(f"model must answer with rows of {len(known)} elements as before, got {answer.shape[1]}")
        if not np.isfinite(answer).all():
            wrong = int(np.flatnonzero(~np.isfinite(answer).all(axis=1))[0])
            raise ValueError(f"model must answer with finite rows, got NaN or Inf for text {wrong}")
        return answer


def _read_shard(path: Path, model_id: str) -> _Shard | None:
    """Keys and rows of a file; None if it is damaged.

    Raises:
        ValueError: a whole file, but not of this cache.
    """
    try:
        with safetensors.safe_open(path, framework="numpy") as file:
            said = file.metadata() or {}
            if said.get("format") != FORMAT:
                raise ValueError(f"{path}: must be a file of an embedding cache ({FORMAT}), got {said.get('format')!r}")
            if said.get("model") != model_id:
                raise ValueError(f"{path}: must hold embeddings by {model_id!r}, got {said.get('model')!r}")
            shard = _Shard(file.get_tensor("keys"), file.get_tensor("rows"))
    except safetensors.SafetensorError:
        return None
    fits = shard.keys.dtype == np.uint8 and shard.rows.dtype == np.float32 and shard.rows.ndim == shard.keys.ndim == 2
    if not fits or shard.keys.shape != (len(shard.rows), _KEY_BYTES) or _digest(shard) != said.get("sha256"):
        return None
    return shard


def _digest(shard: _Shard) -> str:
    content = hashlib.sha256(f"{FORMAT} {shard.rows.shape}\n".encode())
    content.update(shard.keys.tobytes())
    content.update(np.ascontiguousarray(shard.rows, "<f4").tobytes())
    return content.hexdigest()


def _key(text: str) -> bytes:
    try:
        return hashlib.sha256(text.encode()).digest()
    except UnicodeEncodeError:
        raise ValueError("texts must be text that UTF-8 can hold, got half of a surrogate pair") from None


def _folder_name(model_id: str) -> str:
    """Readable, and different for every model on every file system."""
    readable = re.sub(r"[^A-Za-z0-9.\-]+", "_", model_id).strip("._")[-60:]
    return f"{readable}-{hashlib.sha256(model_id.encode()).hexdigest()[:12]}"


def _report(progress: Callable[[int], object] | None, count: int) -> None:
    if progress is not None and count:
        progress(count)
