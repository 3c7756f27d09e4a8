"""Private embeddings in Haystack: components for the places of its text and document embedders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.embedders.sources import warm_up
from hushvec.integrations._source import Adapter, NoiseOn, OnReceipt, Steps, rows_as_lists
from hushvec.middleware import Embeddings

with needs_extra("hushvec.integrations.haystack", "haystack"):
    from haystack import Document, component

class _Embedder(Adapter):
    """What both components share. Call it by name: `@component` makes classes anew, which an empty super() does not find."""

    _distances = (
        "InMemoryDocumentStore takes inner products by default, other stores L2 distances; embedding_similarity_function='cosine' "
        "keeps the search"
    )

    def warm_up(self) -> None:
        """Load the wrapped model, if it loads itself by a method of this name."""
        warm_up(self._source.wrapped.model.model)

    def to_dict(self) -> NoReturn:
        """Refused with TypeError: a pipeline with this component cannot be written to a file."""
        raise TypeError(
            f"{validate.kind(self)} cannot be serialized: it holds a model and perhaps a budget, which no file can bring back; "
            "add it to the pipeline in Python"
        )


@component
class PrivateTextEmbedder(_Embedder):
    """A Haystack text embedder, for queries. Its embedding is a private release if noise_on says so.

    See `hushvec.integrations`; a pipeline puts errors as the cause into its PipelineRuntimeError.
    `run` returns "embedding", a list of floats with `receipt`, and "meta" with "receipts" beside what the model reported.

    Example:
        >>> import hushvec as hv
        >>> from haystack.components.embedders import MockTextEmbedder
        >>> from hushvec.integrations.haystack import PrivateTextEmbedder
        >>> noise = hv.dp_embedding_middleware(epsilon=8.0)
        >>> private = PrivateTextEmbedder(MockTextEmbedder(dimension=8), noise, noise_on="queries")
        >>> answer = private.run("a")
        >>> len(answer["embedding"]), answer["meta"]["receipts"][0].epsilon
        (8, 8.0)
    """

    @component.output_types(embedding=list[float], meta=dict[str, Any])  # type: ignore[untyped-decorator]
    def run(self, text: str) -> dict[str, Any]:
        """Return a private embedding of one text."""
        return _text_answer(self._source.embed([text], "query"))

    @component.output_types(embedding=list[float], meta=dict[str, Any])  # type: ignore[untyped-decorator]
    async def run_async(self, text: str) -> dict[str, Any]:
        """`run` as a coroutine."""
        return _text_answer(await self._source.aembed([text], "query"))


@component
class PrivateDocumentEmbedder(_Embedder):
    """A Haystack document embedder whose embeddings are one private release.

    Args:
        model, middleware, on_receipt, noise_on, unit_rows: see `hushvec.integrations`, and PrivateTextEmbedder.
        meta_fields_to_embed: fields of a document's meta that are put before its content.
        embedding_separator: between them.
        person_key: the field of a document's meta that says whom it is about, for a middleware whose budget counts by person.

    `run` takes a list of one or more documents with text content. It returns "documents", copies with embeddings (lists of floats
    with `receipt`) whose content and meta are as they were, and "meta" with "receipts" beside what the model reported.

    Example:
        >>> import hushvec as hv
        >>> from haystack import Document
        >>> from haystack.components.embedders import MockDocumentEmbedder
        >>> from hushvec.integrations.haystack import PrivateDocumentEmbedder
        >>> private = PrivateDocumentEmbedder(MockDocumentEmbedder(dimension=8), hv.dp_embedding_middleware(epsilon=8.0))
        >>> answer = private.run([Document(content="a"), Document(content="b")])
        >>> [len(document.embedding) for document in answer["documents"]], answer["meta"]["receipts"][0].rows
        ([8, 8], 2)
    """

    def __init__(
        self, model: Any, middleware: Steps | None = None, on_receipt: OnReceipt | None = None,
        meta_fields_to_embed: Sequence[str] = (), embedding_separator: str = "\n", noise_on: NoiseOn = "documents",
        unit_rows: bool = True, person_key: str | None = None,
    ) -> None:
        _Embedder.__init__(self, model, middleware, on_receipt, noise_on, unit_rows)
        self.person_key = person_key
        self.meta_fields_to_embed = tuple(meta_fields_to_embed)
        self.embedding_separator = embedding_separator

    @component.output_types(documents=list[Document], meta=dict[str, Any])  # type: ignore[untyped-decorator]
    def run(self, documents: list[Document]) -> dict[str, Any]:
        """Return the documents with private embeddings."""
        texts = self._texts(documents)
        return _document_answer(documents, self._source.embed(texts, "document", self._people(documents)))

    @component.output_types(documents=list[Document], meta=dict[str, Any])  # type: ignore[untyped-decorator]
    async def run_async(self, documents: list[Document]) -> dict[str, Any]:
        """`run` as a coroutine."""
        texts = self._texts(documents)
        return _document_answer(documents, await self._source.aembed(texts, "document", self._people(documents)))

    def _people(self, documents: list[Document]) -> list[Any] | None:
        return None if self.person_key is None else [document.meta.get(self.person_key) for document in documents]

    def _texts(self, documents: Any) -> list[str]:
        if not isinstance(documents, list):
            raise TypeError(f"documents must be a list of Document objects, got {validate.kind(documents)}")
        texts = []
        for number, document in enumerate(documents):
            if not isinstance(document, Document):
                raise TypeError(f"documents must be Document objects, got {validate.kind(document)} at position {number}")
            if not isinstance(document.content, str):
                raise TypeError(f"documents must have text content, got {validate.kind(document.content)} at position {number}")
            fields = [str(document.meta[name]) for name in self.meta_fields_to_embed if document.meta.get(name) is not None]
            texts.append(self.embedding_separator.join([*fields, document.content]))
        return texts


def _text_answer(embeddings: Embeddings) -> dict[str, Any]:
    return {"embedding": rows_as_lists(embeddings)[0], "meta": _meta(embeddings)}


def _document_answer(documents: list[Document], embeddings: Embeddings) -> dict[str, Any]:
    answered = [replace(document, embedding=row) for document, row in zip(documents, rows_as_lists(embeddings))]
    return {"documents": answered, "meta": _meta(embeddings)}


def _meta(embeddings: Embeddings) -> dict[str, Any]:
    usage = {"usage": dict(embeddings.usage)} if embeddings.usage else {}
    return {**embeddings.metadata, **usage, "receipts": embeddings.receipts}
