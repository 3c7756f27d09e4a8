"""What every adapter is built on: a wrapped model, whose receipts are reported."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from hushvec._util import validate
from hushvec.embedders.protocol import KINDS, Kind
from hushvec.integrations._rows import ReleasedList, rows_as_lists
from hushvec.middleware import EmbeddingMiddleware, Embeddings, WrappedEmbeddingModel, wrap_embedding_model
from hushvec.receipts.labels import RowReceipt

OnReceipt = Callable[[RowReceipt], Any]
NoiseOn = Literal["documents", "queries", "both"]

_NOISED: dict[str, tuple[Kind, ...]] = {"documents": ("document",), "queries": ("query",), "both": KINDS}


class PrivateSource:
    """Private rows for texts, as an adapter hands them on.

    Arguments and errors are those of `hushvec.integrations`. `on_receipt` is called before the rows of a release are handed on;
    what it raises goes to the caller, and the release stays charged. Clean rows go through everything else that the middleware
    does. A text of unknown kind is a document.
    """

    def __init__(
        self,
        model: Any,
        middleware: EmbeddingMiddleware | Sequence[EmbeddingMiddleware] | None = None,
        on_receipt: OnReceipt | None = None,
        noise_on: NoiseOn = "documents",
    ) -> None:
        noised = _NOISED[validate.choice("noise_on", noise_on, _NOISED)]
        self.wrapped = wrapped_model(model, middleware)
        self.on_receipt = require_on_receipt(on_receipt)
        if not self.wrapped.adds_noise:
            raise ValueError(
                "middleware must have a step that adds noise, such as hushvec.dp_embedding_middleware, got none "
                "(a step of your own says so by adds_noise)"
            )
        self._sides = {kind: self.wrapped if kind in noised else self.wrapped.without_noise() for kind in KINDS}

    def side(self, kind: Kind) -> WrappedEmbeddingModel:
        """The wrapped model for texts of this kind, with or without its noise."""
        validate.choice("kind", kind, KINDS)
        return self._sides[kind]

    def embed(self, texts: Sequence[str], kind: Kind) -> Embeddings:
        return self.reported(self.side(kind).embed(texts, kind))

    async def aembed(self, texts: Sequence[str], kind: Kind) -> Embeddings:
        return self.reported(await self.side(kind).aembed(texts, kind))

    def rows(self, texts: Sequence[str], kind: Kind) -> ReleasedList[ReleasedList[float]]:
        return rows_as_lists(self.embed(texts, kind))

    async def arows(self, texts: Sequence[str], kind: Kind) -> ReleasedList[ReleasedList[float]]:
        return rows_as_lists(await self.aembed(texts, kind))

    def row(self, text: str, kind: Kind) -> ReleasedList[float]:
        return self.rows([text], kind)[0]

    async def arow(self, text: str, kind: Kind) -> ReleasedList[float]:
        return (await self.arows([text], kind))[0]

    def reported(self, embeddings: Embeddings) -> Embeddings:
        """The same embeddings, after on_receipt has seen their receipts."""
        if self.on_receipt is not None:
            for receipt in embeddings.receipts:
                self.on_receipt(receipt)
        return embeddings


def wrapped_model(model: Any, middleware: EmbeddingMiddleware | Sequence[EmbeddingMiddleware] | None) -> WrappedEmbeddingModel:
    """The wrapped model, or the model with the middleware around it."""
    if middleware is not None:
        return wrap_embedding_model(model, middleware)
    if not isinstance(model, WrappedEmbeddingModel):
        raise TypeError(
            f"model must be a wrapped model (hushvec.wrap_embedding_model) or come with middleware, got {validate.kind(model)}"
        )
    return model


def require_on_receipt(value: Any) -> OnReceipt | None:
    if value is not None and not callable(value):
        raise TypeError(f"on_receipt must be a function of a receipt or None, got {validate.kind(value)}")
    return value  # type: ignore[no-any-return]
