"""Embedding models of any library, or by their names, behind one protocol; and the bounds on the norms of their rows.

Other libraries' models are recognized by the methods they have; none of those libraries is imported at the top.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.display import announced
from hushvec._util.lazy import needs_extra
from hushvec.embedders.checkpoints import CONFIG_FILE, chosen_device
from hushvec.embedders.minilm import MiniLMEmbedder
from hushvec.embedders.protocol import Kind

# Models whose vectors have unit norm, by the last part of their names: their own last step normalizes, or their service says so.
# jina-embeddings-v2, mxbai-embed-large and snowflake-arctic-embed: fastembed 0.9.1 divides their rows by their norm. It does not do
# so for nomic-embed-text, and no package says that the model itself does: it is left out.
_UNIT_NORM_MODELS = """
    all-distilroberta-v1 all-minilm-l12-v2 all-minilm-l6-v2 all-mpnet-base-v2 bge-base-en-v1.5 bge-large-en-v1.5 bge-m3
    bge-small-en-v1.5 e5-base-v2 e5-large-v2 e5-small-v2 gte-base gte-large gte-small gtr-t5-base gtr-t5-large
    jina-embeddings-v2-base-code jina-embeddings-v2-base-de jina-embeddings-v2-base-en jina-embeddings-v2-base-es
    jina-embeddings-v2-base-zh jina-embeddings-v2-small-en multi-qa-minilm-l6-cos-v1 multi-qa-mpnet-base-cos-v1
    multilingual-e5-base multilingual-e5-large multilingual-e5-small mxbai-embed-large-v1 sentence-t5-base
    snowflake-arctic-embed-l snowflake-arctic-embed-m snowflake-arctic-embed-m-long snowflake-arctic-embed-s
    snowflake-arctic-embed-xs text-embedding-3-large text-embedding-3-small text-embedding-ada-002
    """
UNIT_NORM_MODELS = frozenset(_UNIT_NORM_MODELS.split())


def is_unit_norm_model(model_id: str | None) -> bool:
    validate.instance("model_id", model_id, str | None, "a str or None")
    return model_id is not None and model_id.rstrip("/").rsplit("/", 1)[-1].lower() in UNIT_NORM_MODELS


# The clip norm where no bound is known. It suits GTR, whose rows have norms of about 1.
DEFAULT_CLIP_NORM = 1.5


def default_clip_norm(norm_bound: float | None) -> float:
    """Return the bound itself, which leaves rows as they are and adds no more noise than they need."""
    return DEFAULT_CLIP_NORM if norm_bound is None else norm_bound


def norm_bound_of(model: Any, model_id: str | None) -> float | None:
    """Return the L2 norm that no row of the model exceeds, up to rounding; None if no such bound is known.

    A model's own `norm_bound` counts first. Else it is 1 for a sentence-transformers model whose last module normalizes, and for a
    model in the table of those that make unit vectors. It is the default of a clip norm, not a guarantee: rows are clipped anyway.
    """
    if hasattr(model, "norm_bound"):
        return None if model.norm_bound is None else validate.positive("norm_bound", model.norm_bound)
    is_module = callable(getattr(model, "encode", None)) and callable(getattr(model, "children", None))
    modules = list(model.children()) if is_module else []
    normalizes = bool(modules) and type(modules[-1]).__name__ == "Normalize"
    return 1.0 if normalizes or is_unit_norm_model(model_id) else None


Embed = Callable[[Sequence[str], Kind], Any]


class SourceModel:
    """A model of any library as an `EmbeddingModel`. `embed` takes (texts, kind); without `aembed` it runs in a thread."""

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

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process: the model, from which the calls are found again."""
        return _found_again, (self.model, {name: value for name, value in vars(self).items() if not name.startswith("_")})

    async def aembed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        if self._aembed is None:
            return await asyncio.to_thread(self._embed, texts, kind)
        return await self._aembed(texts, kind)


def _found_again(model: Any, facts: dict[str, Any]) -> SourceModel:
    source = as_embedding_model(model)
    vars(source).update(facts)
    return source


def as_embedding_model(model: Any) -> SourceModel:
    """Return the model behind the one protocol.

    Args:
        model: an object with `embed(texts)` or `embed(texts, kind)`; a sentence-transformers model; an embedder of LangChain,
            LlamaIndex, Haystack or Chroma; or a function of a list of texts.
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
    said = [getattr(model, name, None) for name in ("model_id", "model_name", "name_or_path", "model")]
    said.append(getattr(getattr(model, "model_card_data", None), "base_model", None))
    return next((value for value in said if isinstance(value, str) and value), None)


def _dimension_of(model: Any) -> int | None:
    value = getattr(model, "dimension", None)
    for method in ("get_embedding_dimension", "get_sentence_embedding_dimension"):
        if value is None and callable(getattr(model, method, None)):
            value = getattr(model, method)()
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _own(model: Any) -> SourceModel:
    aembed = getattr(model, "aembed", None)
    return SourceModel(model, _with_kind(model.embed), _with_kind(aembed) if inspect.iscoroutinefunction(aembed) else None)


def _parameters(function: Callable[..., Any]) -> Collection[str]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()


def _with_kind(function: Callable[..., Any]) -> Embed:
    """Return the function, which gets the kind of texts if it takes one."""
    takes_kind = "kind" in _parameters(function)
    return lambda texts, kind: function(list(texts), kind=kind) if takes_kind else function(list(texts))


def _in_pairs(documents: str, query: str) -> Callable[[Any], SourceModel]:
    """For methods that embed documents in one call and queries one by one, and coroutines whose names have an "a" before them."""

    def adapt(model: Any) -> SourceModel:
        def embed(texts: Sequence[str], kind: Kind) -> Any:
            if kind == "document":
                return getattr(model, documents)(list(texts))
            return [getattr(model, query)(text) for text in texts]

        async def aembed(texts: Sequence[str], kind: Kind) -> Any:
            if kind == "document":
                return await getattr(model, f"a{documents}")(list(texts))
            return [await getattr(model, f"a{query}")(text) for text in texts]

        return SourceModel(model, embed, aembed if hasattr(model, f"a{documents}") else None)

    return adapt


def _sentence_transformers(model: Any) -> SourceModel:
    """`encode` of sentence-transformers, or of another library that has no argument for a progress bar (FlagEmbedding)."""

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        encode = getattr(model, f"encode_{kind}", model.encode)
        quiet = {"show_progress_bar": False} if "show_progress_bar" in _parameters(encode) else {}
        return encode(list(texts), **quiet)

    return SourceModel(model, embed)


def _haystack(model: Any) -> SourceModel:
    """Adapt a text embedder (`run(text=)`) or a document embedder (`run(documents=)`); each embeds texts of both kinds."""
    parameters = inspect.signature(model.run).parameters
    if not {"documents", "text"} & parameters.keys():
        raise _no_model(model)
    of_answers = _of_documents if "documents" in parameters else _of_texts

    def runs(texts: Sequence[str]) -> list[dict[str, Any]]:
        if "documents" not in parameters:
            return [{"text": text} for text in texts]
        from haystack import Document

        return [{"documents": [Document(id=str(number), content=text) for number, text in enumerate(texts)]}]

    def embed(texts: Sequence[str], kind: Kind) -> Any:
        warm_up(model)
        return of_answers([model.run(**one) for one in runs(texts)])

    async def aembed(texts: Sequence[str], kind: Kind) -> Any:
        await asyncio.to_thread(warm_up, model)
        return of_answers([await model.run_async(**one) for one in runs(texts)])

    return SourceModel(model, embed, aembed if hasattr(model, "run_async") else None)


def warm_up(model: Any) -> None:
    """Let a component of Haystack load its model; it does nothing when it is called again."""
    if callable(getattr(model, "warm_up", None)):
        model.warm_up()


def _of_texts(answers: Sequence[Any]) -> dict[str, Any]:
    """Return one answer of the many that a text embedder gives: its numbers of tokens are added up."""
    metas = [dict(answer.get("meta") or {}) for answer in answers]
    usage: dict[str, Any] = {}
    for meta in metas:
        for name, value in (meta.pop("usage", None) or {}).items():
            usage[name] = usage[name] + value if name in usage and isinstance(value, (int, float)) else value
    return {"embeddings": [answer.get("embedding") for answer in answers], "usage": usage, "metadata": metas[-1]}


def _of_documents(answers: Sequence[Any]) -> dict[str, Any]:
    """Return rows in the order of the texts, whatever order the documents come back in."""
    (answer,) = answers
    meta = dict(answer.get("meta") or {})
    documents = sorted(answer["documents"], key=lambda document: int(document.id))
    return {"embeddings": [document.embedding for document in documents], "usage": meta.pop("usage", None), "metadata": meta}


# The method by which a library's model is known, in the order in which they are looked for.
_ADAPTERS: dict[str, Callable[[Any], SourceModel]] = {
    "embed": _own,
    "embed_documents": _in_pairs("embed_documents", "embed_query"),  # LangChain
    "get_text_embedding_batch": _in_pairs("get_text_embedding_batch", "get_query_embedding"),  # LlamaIndex
    "embed_query": lambda model: SourceModel(  # Chroma
        model, lambda texts, kind: (model if kind == "document" else model.embed_query)(list(texts))
    ),
    "encode": _sentence_transformers,
    "run": _haystack,
}


def open_embedding_model(model: Any, *, max_length: int, device: str | None) -> SourceModel:
    """Return a model by its name, or any that `as_embedding_model` takes.

    Args:
        model: a folder or hub id: of a T5, which is read as GTR is, or of a sentence-transformers model. Or a model.
        max_length: tokens of a text that a T5 reads.
        device: of torch; None: CUDA if there is one, else the CPU. For a name alone.
    """
    if not isinstance(model, str | os.PathLike):
        return as_embedding_model(model)
    name = os.fspath(model)
    try:
        config = json.loads((Path(name) / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = None
    is_t5 = isinstance(config, dict) and config.get("model_type") == "t5"
    if is_t5 or (not Path(name).is_dir() and "gtr-t5" in name):
        from hushvec.embedders.gtr import GTREmbedder

        return as_embedding_model(GTREmbedder(name, max_length=max_length, device=device))
    with announced("loading the embedding model"):
        with needs_extra("embedding texts", "text"):
            from sentence_transformers import SentenceTransformer
        return as_embedding_model(SentenceTransformer(name, device=str(chosen_device(device))))


def default_embedding_model(device: str | None) -> SourceModel:
    """MiniLM, loaded once for each device."""
    return as_embedding_model(_minilm(str(chosen_device(device))))


_minilm = cache(MiniLMEmbedder)
