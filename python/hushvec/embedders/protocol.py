"""The protocol of an embedding model, and what goes into it and comes out: request, result, and the array that users get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from hushvec._native import arrays
from hushvec.receipts.labels import RowReceipt

Kind = Literal["document", "query"]
KINDS: tuple[Kind, ...] = ("document", "query")


@runtime_checkable
class EmbeddingModel(Protocol):
    """The methods of a wrapped model, and of the one that it wraps.

    `embed` answers texts [n] with rows [n, d]: an array, or anything that hushvec.embedders.answers reads. It may leave `kind` out.
    Optional attributes: `model_id` (str), `dimension` (int), `norm_bound` (float: no row is longer, in L2; None if there is no such
    bound), `aembed` (the same as `embed`, a coroutine).
    """

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        """Rows for texts."""


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
    """

    values: Any
    receipts: tuple[RowReceipt, ...] = ()
    usage: Mapping[str, Any] = field(default_factory=_nothing)
    metadata: Mapping[str, Any] = field(default_factory=_nothing)


class Embeddings(np.ndarray[Any, Any]):
    """The rows that a wrapped model returns: a numpy array [n, d] that knows its receipts.

    What is computed from it, slices included, is a plain array or has no receipts: a receipt is about a release as a whole.

    Args:
        result: with values of any of its kinds. bfloat16, which numpy does not have, becomes float32; other values keep their dtype.
    """

    receipts: tuple[RowReceipt, ...]
    usage: Mapping[str, Any]
    metadata: Mapping[str, Any]

    def __new__(cls, result: EmbeddingResult) -> Embeddings:
        array: Embeddings = on_host(result.values).view(cls)
        array.receipts, array.usage, array.metadata = result.receipts, result.usage, result.metadata
        return array

    def __array_finalize__(self, source: Any) -> None:
        self.receipts, self.usage, self.metadata = (), _nothing(), _nothing()

    def __getitem__(self, key: Any) -> Any:
        return self.view(np.ndarray)[key]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        return array[()] if return_scalar else array.view(np.ndarray)

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.view(np.ndarray), self.receipts, dict(self.usage), dict(self.metadata))
        return _rebuilt, parts

    @property
    def receipt(self) -> RowReceipt | None:
        """The receipt of the last private release, None if the values went through none."""
        return self.receipts[-1] if self.receipts else None

    @property
    def values(self) -> Any:
        """The rows as a plain numpy array, the same memory."""
        return self.view(np.ndarray)


def _rebuilt(values: Any, receipts: tuple[RowReceipt, ...], usage: dict[str, Any], metadata: dict[str, Any]) -> Embeddings:
    return Embeddings(EmbeddingResult(values, receipts, usage, metadata))


def on_host(values: Any) -> Any:
    if arrays.is_torch(values):
        values = values.detach().cpu()
        return (values.float() if arrays.dtype_name(values) == "bfloat16" else values).numpy()
    return values.get() if arrays.is_cupy(values) else np.asarray(values)
