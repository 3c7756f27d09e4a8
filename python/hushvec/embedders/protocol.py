"""The protocol of an embedding model, and what goes into it and comes out: request, result, and the array that users get.

Whatever a model answers becomes a finite float array [n, d] for n texts, with usage and metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec.extend import RowReceipt

Kind = Literal["document", "query"]
KINDS: tuple[Kind, ...] = ("document", "query")
NOTE_OWN_TEXT = "each row is taken to depend on its own text only"  # in receipts of what a model makes of texts


@runtime_checkable
class EmbeddingModel(Protocol):
    """The methods of a wrapped model, and of the one that it wraps.

    `embed` answers texts [n] with rows [n, d]: an array, or anything that `read_answer` reads. It may leave `kind` out.
    Optional attributes: `model_id` (str), `dimension` (int), `norm_bound` (float: no row is longer, in L2; None if there is no such
    bound), `aembed` (the same as `embed`, a coroutine).
    """

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        """Return rows for texts."""


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True)
class EmbeddingRequest:
    """Texts on their way to a model. The kind is "document" for stored texts, "query" for searches; many models ignore it."""

    texts: tuple[str, ...]
    kind: Kind = "document"


@dataclass(frozen=True)
class EmbeddingResult:
    """Embeddings on their way back.

    Args:
        values: float array [n, d], one row per text: numpy, torch or CuPy.
        receipts: one for each private release that the values went through, in order.
        usage: what the model reported about its work (tokens), unchanged; empty if it reported nothing. Not private: a number of
            tokens is a fact about the text.
        metadata: what else the model answered (its name, say), unchanged and not private either.
        people: whom each text is about, for a budget that counts by person; a step that adds noise charges them.
    """

    values: Any
    receipts: tuple[RowReceipt, ...] = ()
    usage: Mapping[str, Any] = field(default_factory=_nothing)
    metadata: Mapping[str, Any] = field(default_factory=_nothing)
    people: Sequence[Any] | None = None


class Released:
    """What rows that a model answered carry: the receipts of their releases, and what the model reported beside them."""

    receipts: tuple[RowReceipt, ...]
    usage: Mapping[str, Any]
    metadata: Mapping[str, Any]

    @property
    def receipt(self) -> RowReceipt | None:
        """The receipt of the last private release, None if the values went through none."""
        return self.receipts[-1] if self.receipts else None


class Embeddings(Released, np.ndarray[Any, Any]):
    """The rows that a wrapped model returns: a numpy array [n, d] that knows its receipts.

    What is computed from it, slices included, is a plain array or has no receipts: a receipt is about a release as a whole.

    Args:
        result: with values of any of its kinds. bfloat16, which numpy does not have, becomes float32; other values keep their dtype.
    """

    def __new__(cls, result: EmbeddingResult) -> Embeddings:
        array: Embeddings = on_host(result.values).view(cls)
        array.receipts, array.usage, array.metadata = result.receipts, result.usage, result.metadata
        return array

    def with_values(self, values: Any, receipts: tuple[RowReceipt, ...]) -> Embeddings:
        """Return other rows of the same answer."""
        return Embeddings(EmbeddingResult(values, receipts, self.usage, self.metadata))

    def __array_finalize__(self, source: Any) -> None:
        self.receipts, self.usage, self.metadata = (), _nothing(), _nothing()

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce__(self) -> tuple[Any, ...]:
        return Embeddings, (EmbeddingResult(self.values, self.receipts, dict(self.usage), dict(self.metadata)),)

    @property
    def values(self) -> Any:
        """The rows as a plain numpy array, the same memory."""
        return self.view(np.ndarray)


def on_host(values: Any) -> Any:
    if arrays.is_torch(values):
        values = values.detach().cpu()
        return (values.float() if arrays.dtype_name(values) == "bfloat16" else values).numpy()
    return values.get() if arrays.is_cupy(values) else np.asarray(values)


# ---- answers of a model, brought into one form ----

# The names that models give to their vectors, in the order in which they are looked for.
_VECTOR_NAMES = ("embeddings", "values", "data", "results", "dense_vecs")  # the last of FlagEmbedding's BGE-M3
# The kinds of vectors beside each other in an answer of Cohere's version 2, and those of them that are numbers as they were computed.
_FLOATS, _CODES = ("float_", "float"), ("int8", "uint8", "binary", "ubinary", "base64")


def read_answer(answer: Any, texts: int, *, first_row: int = 0) -> EmbeddingResult:
    """Return the result in a model's answer.

    Args:
        answer: an array or tensor [n, d]; a sequence or an iterator of rows; an EmbeddingResult or Embeddings; a mapping or object
            with `embeddings`, `values`, `results`, `dense_vecs` or (as OpenAI-style services answer) `data`, and perhaps `usage` and
            others. Rows may be objects with an `embedding` or `values`, and an `index` that orders them; of kinds of vectors beside
            each other, as Cohere answers, the floats are taken.
        texts: n, how many rows there must be.
        first_row: number of the first row, for errors.
    """
    result = answer if isinstance(answer, EmbeddingResult) else _result_of(answer)
    values = _as_rows(result.values)
    if values.ndim != 2:
        raise ValueError(f"model output must be {texts} rows, one for each text, got an array of shape {tuple(values.shape)}")
    rows, dimension = tuple(values.shape)
    if rows != texts:
        raise ValueError(f"model output must have {texts} rows, one for each text, got {rows}")
    if dimension < 1:
        raise ValueError("model output must have at least 1 column, got 0")
    arrays.require_array("model output", values)
    rowwise.require_finite("model output", values, first_row=first_row)
    return EmbeddingResult(values, result.receipts, result.usage, result.metadata)


def embedded_rows(model: EmbeddingModel, texts: Sequence[str], *, first_row: int = 0) -> NDArray[np.float32]:
    """Embed texts into rows in the memory of the CPU; errors as `read_answer`, also beyond the range of float32."""
    values = on_host(read_answer(model.embed(texts), len(texts), first_row=first_row).values)
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(values, np.float32)
    if values.dtype.itemsize > rows.itemsize:
        rowwise.require_finite("model output in the range of float32", rows, first_row=first_row)
    return rows


def _result_of(answer: Any) -> EmbeddingResult:
    if answer is None:
        raise TypeError("model output must be rows of numbers, got None")
    if _is_array(answer):
        return EmbeddingResult(answer, _receipts_of(answer), **_reported_by(answer, ()))
    name = next((name for name in _VECTOR_NAMES if _has(answer, name)), None)
    if name is None:
        return EmbeddingResult(answer, _receipts_of(answer))
    vectors = _vectors(_get(answer, name))
    return EmbeddingResult(vectors, _receipts_of(answer) or _receipts_of(vectors), **_reported_by(answer, _VECTOR_NAMES))


def _receipts_of(answer: Any) -> tuple[RowReceipt, ...]:
    """Return the receipts of an answer that is private already: its own, or those of rows that were released one by one.

    Rows of one release share one object. Equal receipts may be those of two releases: a charge alone tells them apart.
    """
    if hasattr(answer, "receipts"):
        return tuple(answer.receipts)
    rows = answer if isinstance(answer, list) else ()
    return tuple({id(receipt): receipt for row in rows for receipt in getattr(row, "receipts", ())}.values())


def _reported_by(answer: Any, vectors: Sequence[str]) -> dict[str, Any]:
    """usage and metadata of an answer; what is neither is metadata."""
    usage = _plain(_get(answer, "usage")) if _has(answer, "usage") else {}
    if isinstance(answer, Mapping):
        metadata = {key: value for key, value in answer.items() if key not in (*vectors, "usage", "metadata")}
    else:
        metadata = {"model": answer.model} if isinstance(getattr(answer, "model", None), str) else {}
    if _has(answer, "metadata"):
        metadata |= _plain(_get(answer, "metadata"))
    return {"usage": usage, "metadata": metadata}


def _vectors(found: Any) -> Any:
    """Rows themselves, or objects with an `embedding` or `values` and perhaps the `index` of its text, or the floats among kinds."""
    if _is_array(found):
        return found
    if floats := [name for name in _FLOATS if _has(found, name) and _get(found, name) is not None]:
        return _get(found, floats[0])
    if codes := [name for name in _CODES if _has(found, name)]:
        got = ", ".join(codes)
        raise TypeError(f"model output must have floats among its embeddings, got {got} (ask for embedding_types=['float'])")
    items = list(found)
    name = next((name for name in ("embedding", "values") if items and _has(items[0], name)), None)
    if name is None:
        return items
    if all(_has(item, "index") for item in items):
        items.sort(key=lambda item: _get(item, "index"))
    return [_get(item, name) for item in items]


def _as_rows(values: Any) -> Any:
    """Return a float array as it is, else numpy rows: float32 unless its own rows are float arrays of another dtype."""
    if _is_array(values):
        plain = values.view(np.ndarray) if isinstance(values, np.ndarray) and type(values) is not np.ma.MaskedArray else values
        return as_array("model output", plain)
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"model output must be rows of numbers, got {validate.kind(values)}")
    return as_array("model output", [row.detach().cpu().numpy() if arrays.is_torch(row) else row for row in values])


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or arrays.is_torch(value) or arrays.is_cupy(value) or arrays.is_exported(value)


def _has(answer: Any, name: str) -> bool:
    if isinstance(answer, Mapping):
        return name in answer
    value = getattr(answer, name, None)
    return value is not None and not callable(value)


def _get(answer: Any, name: str) -> Any:
    return answer[name] if isinstance(answer, Mapping) else getattr(answer, name)


def _plain(reported: Any) -> dict[str, Any]:
    """Return a mapping, or an object's own fields as one."""
    if reported is None:
        return {}
    if isinstance(reported, Mapping):
        return dict(reported)
    return dict(reported.model_dump() if hasattr(reported, "model_dump") else vars(reported))
