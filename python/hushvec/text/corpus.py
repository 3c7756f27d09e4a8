"""Public texts and their embeddings, used to turn noisy vectors into text; checks and blocks of rows.

The corpus is embedded once, by the embedder whose vectors are released; a saved file names it and is refused with any other.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.display import Progress
from hushvec._util.lines import SHIPPED_SENTENCES, distinct_texts, shipped_texts, texts_of_file
from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import SourceModel, as_embedding_model, model_id_of
from hushvec.mechanisms import load_npz, save_npz

FORMAT = 1
DEFAULT_KEY = "text"

_FIELDS = ("model_id", "utf8", "lengths", "embeddings")
_BATCH = 256  # texts embedded between two advances of the progress bar


@dataclass(frozen=True, eq=False)
class PublicCorpus:
    """Public texts, one embedding each, and the name of the model that made them.

    Made by `from_texts`, `from_file`, `shipped` or `load`.

    Args:
        texts: all different, none empty.
        embeddings: float32 [n, d], finite, no row of zeros. A read-only copy is kept.
        model_id: of the embedder; None if it has no name.

    Edge cases:
        Two corpora are equal if their digests are.

    Example:
        >>> import numpy as np
        >>> from hushvec.text.corpus import PublicCorpus
        >>> class Letters:
        ...     model_id = "letters"
        ...     def embed(self, texts):
        ...         return np.array([[text.count("a") + 1.0, text.count("o")] for text in texts], np.float32)
        >>> corpus = PublicCorpus.from_texts(["a banana", " ", "too good", "a banana"], Letters())
        >>> corpus.texts, corpus.dimension, corpus.model_id
        (('a banana', 'too good'), 2, 'letters')
    """

    texts: tuple[str, ...]
    embeddings: NDArray[np.float32]
    model_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", _checked_texts(self.texts))
        validate.instance("model_id", self.model_id, str | None, "a str or None")
        object.__setattr__(self, "embeddings", _checked_rows(self.embeddings, self.texts))

    @classmethod
    def from_texts(cls, texts: Iterable[str], embedder: Any) -> PublicCorpus:
        """Embed public texts.

        Args:
            texts: strings. Spaces around them are removed; what is empty then, and what came before, is left out.
            embedder: as for `hushvec.wrap_embedding_model`.
        """
        kept = tuple(distinct_texts(texts))
        if not kept:
            raise ValueError("texts must hold at least one that is not empty, got none")
        model = as_embedding_model(embedder)
        return cls(kept, _embedded(kept, model), model.model_id)

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], embedder: Any, text_key: str | None = None) -> PublicCorpus:
        """Embed the texts of a UTF-8 file: one per line, or one JSON object per line.

        Args:
            path: read as JSONL if it ends in .jsonl or text_key is given, and otherwise as lines of text.
            embedder: as in `from_texts`.
            text_key: the field of each object that holds the text; "text" if None.

        Raises:
            ValueError: it is not UTF-8; a line (which is named) is no JSON object with that field; there is no text.
        """
        source = Path(path)
        if text_key is None and source.suffix == ".jsonl":
            text_key = DEFAULT_KEY
        texts = [text for _, text in texts_of_file(source, text_key)]
        if not any(text.strip() for text in texts):
            raise ValueError(f"{source} must hold at least one text, got none")
        return cls.from_texts(texts, embedder)

    @classmethod
    def shipped(cls, embedder: Any) -> PublicCorpus:
        """The 320 sentences that come with the package, embedded: eight everyday topics, short, made for this purpose."""
        return cls.from_texts(shipped_texts(SHIPPED_SENTENCES), embedder)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def dimension(self) -> int:
        """d of the embeddings."""
        return int(self.embeddings.shape[1])

    @cached_property
    def directions(self) -> NDArray[np.float32]:
        """The embeddings as unit rows."""
        return unit_rows(self.embeddings)

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hexadecimal, of format, model, texts and every float32 of the embeddings, little-endian."""
        content = hashlib.sha256(f"hushvec public corpus {FORMAT}\n".encode())
        stored = self._stored()
        for name in _FIELDS:
            content.update(f"{name} {stored[name].shape}\n".encode())
            content.update(stored[name].tobytes())
        return content.hexdigest()

    def __eq__(self, other: object) -> bool:
        return self.digest == other.digest if isinstance(other, PublicCorpus) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"PublicCorpus({len(self):,} texts, dimension {self.dimension}, model {self.model_id!r}, digest {self.digest[:12]})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the corpus as an .npz file: beside `path` first, then in one step onto it."""
        save_npz(path, FORMAT, self.digest, self._stored())

    @classmethod
    def load(cls, path: str | os.PathLike[str], embedder: Any = None) -> PublicCorpus:
        """The corpus that `save` wrote. Nothing is embedded and nothing unpickled.

        Args:
            path, embedder: of the file; if given, its `model_id` and `dimension` must be those of the file.

        Raises:
            ValueError: it is not such a file, or not what was saved (its digest is another), or of another model or dimension.
        """

        def made(stored: dict[str, Any]) -> PublicCorpus:
            texts = _split(stored["utf8"], stored["lengths"])
            return cls(texts, stored["embeddings"], stored["model_id"].tobytes().decode() or None)

        corpus = load_npz(path, "public corpus", FORMAT, _FIELDS, made)
        if embedder is not None:
            corpus.require_model(embedder, os.fspath(path))
        return corpus

    def require_model(self, embedder: Any, name: str = "corpus") -> None:
        """Refuse an embedder of another `model_id` or `dimension`, as far as it says them: such vectors are not comparable."""
        model_id, dimension = model_id_of(embedder), getattr(embedder, "dimension", None)
        if model_id is not None and model_id != self.model_id:
            raise ValueError(f"{name} must be embedded by {model_id!r}, got {self.model_id!r}")
        if dimension is not None and dimension != self.dimension:
            raise ValueError(f"{name} must have dimension {dimension}, got {self.dimension}")

    def _stored(self) -> dict[str, NDArray[Any]]:
        encoded = [text.encode() for text in self.texts]
        return {
            "model_id": np.frombuffer((self.model_id or "").encode(), np.uint8),
            "utf8": np.frombuffer(b"".join(encoded), np.uint8),
            "lengths": np.array([len(part) for part in encoded], "<i8"),
            "embeddings": np.ascontiguousarray(self.embeddings, "<f4"),
        }


def _embedded(texts: Sequence[str], model: SourceModel) -> NDArray[np.float32]:
    rows = []
    with Progress("embedding public texts", len(texts)) as progress:
        for start in range(0, len(texts), _BATCH):
            batch = list(texts[start : start + _BATCH])
            rows.append(embedded_rows(model, batch, first_row=start))
            progress.advance(len(batch))
    return np.concatenate(rows)


def _checked_texts(texts: Any) -> tuple[str, ...]:
    validate.instance("texts", texts, Sequence, "a sequence of strings", but=str)
    if len(texts) == 0:
        raise ValueError("texts must hold at least one, got none")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts must be a sequence of strings, got {validate.kind(text)} in it")
        if not text.strip():
            raise ValueError(f"texts must not be empty, got {text!r} at {number}")
    if len(set(texts)) < len(texts):
        raise ValueError("texts must be all different, got one twice")
    return tuple(texts)


def _checked_rows(embeddings: Any, texts: tuple[str, ...]) -> NDArray[np.float32]:
    if not isinstance(embeddings, np.ndarray) or embeddings.dtype != np.float32:
        raise TypeError(f"embeddings must be a float32 numpy array, got {getattr(embeddings, 'dtype', validate.kind(embeddings))}")
    if embeddings.ndim != 2 or embeddings.shape[0] != len(texts) or embeddings.shape[1] == 0:
        raise ValueError(f"embeddings must have shape ({len(texts)}, d), got {embeddings.shape}")
    wrong = np.flatnonzero(~np.isfinite(embeddings).all(axis=1))
    if len(wrong):
        raise ValueError(f"embeddings must be finite, got {embeddings[wrong[0]]!r:.80} for text {wrong[0]}")
    still = np.flatnonzero(~embeddings.any(axis=1))
    if len(still):
        raise ValueError(f"embeddings must have a direction, got zeros for text {still[0]}")
    copy: NDArray[np.float32] = np.array(embeddings, np.float32, order="C")
    copy.flags.writeable = False
    return copy


def _split(utf8: NDArray[Any], lengths: NDArray[Any]) -> tuple[str, ...]:
    content, ends = utf8.tobytes(), np.cumsum(lengths)
    if len(lengths) == 0 or int(lengths.min()) < 1 or int(ends[-1]) != len(content):
        raise ValueError("lengths must add up to the texts")
    return tuple(content[end - length : end].decode() for end, length in zip(ends.tolist(), lengths.tolist(), strict=True))


Rows = NDArray[np.float32]


def checked_rows(embeddings: Any, dimension: int) -> Rows:
    """Finite float rows [n, dimension] as float32; anything else raises TypeError or ValueError."""
    if not isinstance(embeddings, np.ndarray) or embeddings.dtype.kind != "f":
        raise TypeError(f"embeddings must be a numpy array of floats, got {getattr(embeddings, 'dtype', validate.kind(embeddings))}")
    if embeddings.ndim != 2 or embeddings.shape[1] != dimension:
        raise ValueError(f"embeddings must have shape (n, {dimension}), got {embeddings.shape}")
    with np.errstate(over="ignore"):  # becomes Inf, and is refused with the rest
        rows = np.ascontiguousarray(embeddings, np.float32)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(wrong):
        raise ValueError(f"embeddings must be finite in float32, got NaN or Inf in row {wrong[0]}")
    return rows


_ELEMENTS = 2**22  # of one [queries, rows] array: 16 MB


def blocks(rows: int, columns: int) -> Iterator[slice]:
    """Slices of rows of which [rows, columns] floats fit into a few megabytes."""
    step = max(1, _ELEMENTS // columns)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def spread_evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most this many of 0, ..., count - 1, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.int64))


def row_lengths(rows: Rows) -> NDArray[np.float64]:
    """Euclidean lengths [n, 1], summed in float64."""
    squares: NDArray[np.float64] = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return np.asarray(np.sqrt(squares)[:, None])


def unit_rows(rows: Rows) -> Rows:
    """Each row divided by its length; zeros stay zeros."""
    lengths = row_lengths(rows)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1.0).astype(np.float32), np.float32)
