"""Answers of a model's `embed`, brought into one form: a finite float array [n, d] for n texts, with usage and metadata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec.embedders.protocol import EmbeddingModel, EmbeddingResult, on_host
from hushvec.receipts.labels import RowReceipt

# The names that models give to their vectors, in the order in which they are looked for.
_VECTOR_NAMES = ("embeddings", "values", "data", "results")


def read_answer(answer: Any, texts: int, *, first_row: int = 0) -> EmbeddingResult:
    """The result in a model's answer.

    Args:
        answer: an array or tensor [n, d]; a sequence or an iterator of rows; an EmbeddingResult or Embeddings; a mapping or object
            with `embeddings`, `values`, `results` or (as OpenAI-style services answer) `data`, and perhaps `usage` and others. The
            rows of the last two may be objects with an `embedding`, and an `index` that orders them.
        texts: n, how many rows there must be.
        first_row: number of the first row, for errors.

    Raises:
        TypeError, ValueError: no vectors in it, not n of them, not of one length, NaN or Inf (the row is named).
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
    """The rows of texts in the memory of the CPU, one for each text; errors as `read_answer`, also beyond the range of float32."""
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
    """The receipts of an answer that is private already, one for each release; equal receipts may be those of two releases."""
    if hasattr(answer, "receipts"):
        return tuple(answer.receipts)
    rows = answer if isinstance(answer, list) else ()
    return tuple({id(receipt): receipt for row in rows for receipt in getattr(row, "receipts", ())}.values())


def _reported_by(answer: Any, vectors: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    usage = _plain(_get(answer, "usage")) if _has(answer, "usage") else {}
    if isinstance(answer, Mapping):
        metadata = {key: value for key, value in answer.items() if key not in (*vectors, "usage", "metadata")}
    else:
        metadata = {"model": answer.model} if isinstance(getattr(answer, "model", None), str) else {}
    if _has(answer, "metadata"):
        metadata |= _plain(_get(answer, "metadata"))
    return {"usage": usage, "metadata": metadata}


def _vectors(found: Any) -> Any:
    """Rows themselves, or the items of `data` and `results`: objects with an `embedding` and the `index` of its text."""
    if _is_array(found):
        return found
    items = list(found)
    if not items or not _has(items[0], "embedding"):
        return items
    if all(_has(item, "index") for item in items):
        items.sort(key=lambda item: _get(item, "index"))
    return [_get(item, "embedding") for item in items]


def _as_rows(values: Any) -> Any:
    """A float array as it is; anything else as numpy rows, float32 unless its own rows are float arrays of another dtype."""
    if _is_array(values):
        plain = values.view(np.ndarray) if isinstance(values, np.ndarray) and type(values) is not np.ma.MaskedArray else values
        return as_array("model output", plain)
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TypeError(f"model output must be rows of numbers, got {validate.kind(values)}")
    return as_array("model output", [row.detach().cpu().numpy() if arrays.is_torch(row) else row for row in values])


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or arrays.is_torch(value) or arrays.is_cupy(value)


def _has(answer: Any, name: str) -> bool:
    if isinstance(answer, Mapping):
        return name in answer
    value = getattr(answer, name, None)
    return value is not None and not callable(value)


def _get(answer: Any, name: str) -> Any:
    return answer[name] if isinstance(answer, Mapping) else getattr(answer, name)


def _plain(reported: Any) -> dict[str, Any]:
    if reported is None:
        return {}
    if isinstance(reported, Mapping):
        return dict(reported)
    return dict(reported.model_dump() if hasattr(reported, "model_dump") else vars(reported))
