"""Shared base of the adapters: a wrapped model whose receipts are reported, rows as lists, methods as coroutines."""

from __future__ import annotations

import asyncio
import functools
import warnings
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar

import numpy as np

from hushvec._native import rowwise
from hushvec._util import validate
from hushvec.embedders.protocol import KINDS, Kind, Released
from hushvec.errors import UtilityWarning
from hushvec.extend import RowReceipt
from hushvec.middleware import EmbeddingMiddleware, Embeddings, WrappedEmbeddingModel, wrap_embedding_model
from hushvec.receipts import Receipt

Item = TypeVar("Item")
Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")
OnReceipt = Callable[[RowReceipt], Any]
Steps = EmbeddingMiddleware | Sequence[EmbeddingMiddleware]
NoiseOn = Literal["documents", "queries", "both"]
NOTE_UNIT_ROWS = "rows were brought to unit length after the release (post-processing)"
_NOISED: dict[str, tuple[Kind, ...]] = {"documents": ("document",), "queries": ("query",), "both": KINDS}


class ReleasedList(Released, list[Item]):
    """A list of rows, or one row as a list of numbers, with the receipts of its release. What is cut from it is a plain list; a
    host that rebuilds lists as `type(rows)(rows)` gets no receipts."""

    def __init__(self, items: Iterable[Item] = (), source: Embeddings | None = None) -> None:
        super().__init__(items)
        self.receipts = () if source is None else source.receipts
        self.usage = {} if source is None else dict(source.usage)
        self.metadata = {} if source is None else dict(source.metadata)


def rows_as_lists(embeddings: Embeddings) -> ReleasedList[ReleasedList[float]]:
    """Return all rows [n, d], as Python floats."""
    return ReleasedList((ReleasedList(row, embeddings) for row in embeddings.values.tolist()), embeddings)


def rows_as_arrays(embeddings: Embeddings) -> ReleasedList[Any]:
    """Return all rows [n, d], as numpy arrays [d] in the embeddings' own memory."""
    return ReleasedList(list(embeddings.values), embeddings)


def at_unit_length(embeddings: Embeddings, *, clean: bool = False) -> Embeddings:
    """Bring released rows to unit length, which is post-processing: their receipt says so. With `clean` rows without noise too."""
    last = embeddings.receipt
    if (last is None and not clean) or (isinstance(last, Receipt) and last.renormalize):
        return embeddings
    values = embeddings.values
    if last is None or isinstance(last, Receipt):  # codes of a codebook have unit length
        values = rowwise.unit_rows(values, np.empty_like(values))
    receipts = embeddings.receipts
    if isinstance(last, Receipt):
        said = {"notes": (*last.notes, NOTE_UNIT_ROWS)} if last.dtype.startswith("int") else {"renormalize": True}
        receipts = (*receipts[:-1], replace(last, **said))
    return embeddings.with_values(values, receipts)


def in_thread(method: Callable[Arguments, Answer]) -> Callable[Arguments, Coroutine[Any, Any, Answer]]:
    """Make a coroutine that runs a method in a thread: the one of that name that the object has, which may be a subclass's."""

    @functools.wraps(method)
    async def coroutine(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        own: Callable[..., Answer] = getattr(args[0], method.__name__)
        return await asyncio.to_thread(own, *args[1:], **kwargs)

    coroutine.__doc__ = f"`{method.__name__}` as a coroutine, in a thread."
    return coroutine


class PrivateSource:
    """Private rows for texts, as an adapter hands them on: arguments and errors are those of `hushvec.integrations`.

    `on_receipt` is called before the rows of a release are handed on; what it raises goes to the caller, and the release stays
    charged. Clean rows go through everything else that the middleware does. `distances`: what a host's stores rank by, for the
    warning that comes with unit_rows=False.
    """

    def __init__(
        self, model: Any, middleware: Steps | None, on_receipt: OnReceipt | None = None, noise_on: NoiseOn = "documents",
        unit_rows: bool = False, distances: str | None = None,
    ) -> None:
        noised = _NOISED[validate.choice("noise_on", noise_on, _NOISED)]
        self.wrapped = model if middleware is None else wrap_embedding_model(model, middleware)
        if not isinstance(self.wrapped, WrappedEmbeddingModel):
            raise TypeError(
                f"model must be a wrapped model (hushvec.wrap_embedding_model) or come with middleware, got {validate.kind(model)}"
            )
        self.on_receipt = require_on_receipt(on_receipt)
        if not self.wrapped.adds_noise:
            raise ValueError(
                "middleware must have a step that adds noise, such as hushvec.dp_embedding_middleware, got none "
                "(a step of your own says so by adds_noise)"
            )
        self.unit_rows = validate.flag("unit_rows", unit_rows)
        if distances is not None and not unit_rows:
            warnings.warn(
                f"unit_rows=False leaves released rows at the length that their noise has, by which distances rank them: {distances}",
                UtilityWarning, stacklevel=3,
            )
        self._sides = {kind: self.wrapped if kind in noised else self.wrapped.without_noise() for kind in KINDS}

    def side(self, kind: Kind) -> WrappedEmbeddingModel:
        """Return the wrapped model for texts of this kind, with or without its noise."""
        validate.choice("kind", kind, KINDS)
        return self._sides[kind]

    def embed(self, texts: Sequence[str], kind: Kind, people: Any = None) -> Embeddings:
        return self.reported(self.side(kind).embed(texts, kind, people=people))

    async def aembed(self, texts: Sequence[str], kind: Kind, people: Any = None) -> Embeddings:
        return self.reported(await self.side(kind).aembed(texts, kind, people=people))

    def rows(self, texts: Sequence[str], kind: Kind) -> ReleasedList[ReleasedList[float]]:
        return rows_as_lists(self.embed(texts, kind))

    async def arows(self, texts: Sequence[str], kind: Kind) -> ReleasedList[ReleasedList[float]]:
        return rows_as_lists(await self.aembed(texts, kind))

    def reported(self, embeddings: Embeddings) -> Embeddings:
        """Return the same embeddings, at unit length if so asked for, after on_receipt has seen their receipts."""
        if self.unit_rows:
            embeddings = at_unit_length(embeddings)
        if self.on_receipt is not None:
            for receipt in embeddings.receipts:
                self.on_receipt(receipt)
        return embeddings


class Adapter:
    """The constructor that adapters share; `_distances` is what unit_rows=False is warned of."""

    _distances: ClassVar[str | None] = None

    def __init__(
        self, model: Any, middleware: Steps | None = None, on_receipt: OnReceipt | None = None, noise_on: NoiseOn = "documents",
        unit_rows: bool = True,
    ) -> None:
        self._source = PrivateSource(model, middleware, on_receipt, noise_on, unit_rows, self._distances)


def require_on_receipt(value: Any) -> OnReceipt | None:
    if value is not None and not callable(value):
        raise TypeError(f"on_receipt must be a function of a receipt or None, got {validate.kind(value)}")
    return value  # type: ignore[no-any-return]
