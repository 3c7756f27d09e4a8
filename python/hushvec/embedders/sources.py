"""Embedding models of any library behind one protocol: `as_embedding_model`.

Other libraries' models are recognized by the methods they have; none of those libraries is imported here.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from hushvec._util import validate
from hushvec.embedders.norms import norm_bound_of
from hushvec.embedders.protocol import Kind

Embed = Callable[[Sequence[str], Kind], Any]


class SourceModel:
    """A model of any library as an `EmbeddingModel`.

    Args:
        model: the library's own object.
        embed: rows for (texts, kind).
        aembed: the same as a coroutine; None: `embed` in a thread.
    """

    def __init__(self, model: Any, embed: Embed, aembed: Callable[[Sequence[str], Kind], Awaitable[Any]] | None = None) -> None:
        self.model = model
        self.model_id = model_id_of(model)
        self.dimension = _dimension_of(model)
        self.norm_bound = norm_bound_of(model, self.model_id)
        self._embed = embed
        self._aembed = aembed

    @property
    def has_coroutine(self) -> bool:
        """Whether `aembed` is the model's own and needs no thread."""
        return self._aembed is not None

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        return self._embed(texts, kind)

    async def aembed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        if self._aembed is None:
            return await asyncio.to_thread(self._embed, texts, kind)
        return await self._aembed(texts, kind)


def as_embedding_model(model: Any) -> SourceModel:
    """The model behind the one protocol.

    Args:
        model: an object with `embed(texts)` or `embed(texts, kind)`; a sentence-transformers model; an embedder of LangChain,
            LlamaIndex, Haystack or Chroma; or a function of a list of texts.

    Raises:
        TypeError: it has no method that embeds texts.
    """
    if isinstance(model, SourceModel):
        return model
    # A class has the methods too, and nothing to call them on; a string has an `encode` of its own.
    if not isinstance(model, type | str):
        for method, adapt in _ADAPTERS.items():
            if callable(getattr(model, method, None)):
                return adapt(model)
        if callable(model):
            return SourceModel(model, lambda texts, kind: model(list(texts)))
    raise _no_model(model)


def _no_model(model: Any) -> TypeError:
    return TypeError(
        "model must have embed(texts) -> rows, or be an embedder of sentence-transformers, LangChain, LlamaIndex, Haystack or "
        f"Chroma, got {validate.kind(model)}"
    )


def model_id_of(model: Any) -> str | None:
    """The name that a model goes by, if it says one."""
    for name in ("model_id", "model_name", "name_or_path", "model"):
        value = getattr(model, name, None)
        if isinstance(value, str) and value:
            return value
    card = getattr(model, "model_card_data", None)
    named = getattr(card, "base_model", None)
    return named if isinstance(named, str) and named else None


def _dimension_of(model: Any) -> int | None:
    value = getattr(model, "dimension", None)
    for method in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
        if value is None and callable(getattr(model, method, None)):
            value = getattr(model, method)()
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _own(model: Any) -> SourceModel:
    """An object with `embed`, and perhaps `aembed`."""
    takes_kind = _takes_kind(model.embed)

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        return model.embed(list(texts), kind=kind) if takes_kind else model.embed(list(texts))

    if not inspect.iscoroutinefunction(getattr(model, "aembed", None)):
        return SourceModel(model, embed)
    takes_kind_too = _takes_kind(model.aembed)

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        return await (model.aembed(list(texts), kind=kind) if takes_kind_too else model.aembed(list(texts)))

    return SourceModel(model, embed, aembed)


def _takes_kind(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(parameter.name == "kind" for parameter in parameters)


def _langchain(model: Any) -> SourceModel:
    def embed(texts: Sequence[str], kind: Kind) -> Any:
        return model.embed_documents(list(texts)) if kind == "document" else [model.embed_query(text) for text in texts]

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        if kind == "document":
            return await model.aembed_documents(list(texts))
        return [await model.aembed_query(text) for text in texts]

    return SourceModel(model, embed, aembed if hasattr(model, "aembed_documents") else None)


def _llama_index(model: Any) -> SourceModel:
    def embed(texts: Sequence[str], kind: Kind) -> Any:
        if kind == "document":
            return model.get_text_embedding_batch(list(texts))
        return [model.get_query_embedding(text) for text in texts]

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        if kind == "document":
            return await model.aget_text_embedding_batch(list(texts))
        return [await model.aget_query_embedding(text) for text in texts]

    return SourceModel(model, embed, aembed)


def _chroma(model: Any) -> SourceModel:
    def embed(texts: Sequence[str], kind: Kind) -> Any:
        return model(list(texts)) if kind == "document" else model.embed_query(list(texts))

    return SourceModel(model, embed)


def _sentence_transformers(model: Any) -> SourceModel:
    by_kind = {
        "document": getattr(model, "encode_document", model.encode),
        "query": getattr(model, "encode_query", model.encode),
    }

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        return by_kind[kind](list(texts), show_progress_bar=False)

    return SourceModel(model, embed)


def _haystack(model: Any) -> SourceModel:
    """A text embedder (`run(text=)`) or a document embedder (`run(documents=)`); each embeds texts of both kinds."""
    parameters = inspect.signature(model.run).parameters
    if "documents" in parameters:
        return _haystack_documents(model)
    if "text" not in parameters:
        raise _no_model(model)

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        _warm_up(model)
        return _of_texts([model.run(text=text) for text in texts])

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        await asyncio.to_thread(_warm_up, model)
        return _of_texts([await model.run_async(text=text) for text in texts])

    return SourceModel(model, embed, aembed if hasattr(model, "run_async") else None)


def _haystack_documents(model: Any) -> SourceModel:
    def documents(texts: Sequence[str]) -> Any:
        from haystack import Document

        return [Document(id=str(number), content=text) for number, text in enumerate(texts)]

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        _warm_up(model)
        return _of_documents(model.run(documents=documents(texts)))

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        await asyncio.to_thread(_warm_up, model)
        return _of_documents(await model.run_async(documents=documents(texts)))

    return SourceModel(model, embed, aembed if hasattr(model, "run_async") else None)


def _warm_up(model: Any) -> None:
    """Components load their models by it, and do nothing when it is called again."""
    if callable(getattr(model, "warm_up", None)):
        model.warm_up()


def _of_texts(answers: Sequence[Any]) -> dict[str, Any]:
    """One answer of the many that a text embedder gives: its numbers of tokens are added up."""
    metas = [dict(answer.get("meta") or {}) for answer in answers]
    usage: dict[str, Any] = {}
    for meta in metas:
        for name, value in (meta.pop("usage", None) or {}).items():
            usage[name] = usage[name] + value if name in usage and isinstance(value, (int, float)) else value
    return {"embeddings": [answer.get("embedding") for answer in answers], "usage": usage, "metadata": metas[-1]}


def _of_documents(answer: Any) -> dict[str, Any]:
    """Rows in the order of the texts, whatever order the documents come back in."""
    meta = dict(answer.get("meta") or {})
    documents = sorted(answer["documents"], key=lambda document: int(document.id))
    return {"embeddings": [document.embedding for document in documents], "usage": meta.pop("usage", None), "metadata": meta}


# The method by which a library's model is known, in the order in which they are looked for.
_ADAPTERS: dict[str, Callable[[Any], SourceModel]] = {
    "embed": _own,
    "embed_documents": _langchain,
    "get_text_embedding_batch": _llama_index,
    "embed_query": _chroma,
    "encode": _sentence_transformers,
    "run": _haystack,
}
