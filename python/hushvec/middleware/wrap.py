"""Middleware around embedding models: texts are transformed, for example redacted, on the way in, rows on the way out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from hushvec._util import validate
from hushvec._util.keywords import explained
from hushvec.embedders.protocol import KINDS, EmbeddingRequest, EmbeddingResult, Embeddings, Kind, read_answer
from hushvec.embedders.sources import SourceModel, as_embedding_model
from hushvec.text.pii.redactor import Redactor

# A model reads the first few hundred tokens of a text; one far longer than that is a mistake, and costs a long tokenization.
MOST_CHARACTERS = 100_000

Item = TypeVar("Item")


async def each(batches: Iterable[Item] | AsyncIterable[Item]) -> AsyncIterator[Item]:
    """The items of an iterable or of an asynchronous one."""
    if isinstance(batches, AsyncIterable):
        async for batch in batches:
            yield batch
    else:
        for batch in batches:
            yield batch


def require_length(name: str, text: str, position: int, max_characters: int) -> None:
    if len(text) > max_characters:
        raise ValueError(
            f"{name} must have at most {max_characters} characters each, got {len(text)} at position {position} "
            "(a model reads only the beginning: split the text, or raise max_characters)"
        )


class EmbeddingMiddleware:
    """One step around an embedding model. A subclass overrides what it needs, safe to call from several threads."""

    def transform(self, request: EmbeddingRequest) -> EmbeddingRequest:
        """Change texts before they reach the model. Their number must stay the same."""
        return request

    def wrap(self, result: EmbeddingResult, model: SourceModel) -> EmbeddingResult:
        """Change rows after they leave the model. Their number must stay the same."""
        return result

    def output_dimension(self, dimension: int) -> int:
        """Columns that `wrap` makes of rows with this many."""
        return dimension

    @property
    def adds_noise(self) -> bool:
        """Whether the step adds noise, which `without_noise` leaves out. A custom step that adds noise overrides both."""
        return False

    def without_noise(self) -> EmbeddingMiddleware:
        """A step that does everything this one does except add noise, so that its rows can be compared with noisy ones."""
        return self


class ComposedMiddleware(EmbeddingMiddleware):
    """Several steps as one: each takes what the one before it in the list left, on the way in and on the way out."""

    def __init__(self, steps: Sequence[EmbeddingMiddleware]) -> None:
        self.steps = tuple(steps)

    def transform(self, request: EmbeddingRequest) -> EmbeddingRequest:
        return reduce(lambda request, step: step.transform(request), self.steps, request)

    def wrap(self, result: EmbeddingResult, model: SourceModel) -> EmbeddingResult:
        return reduce(lambda result, step: step.wrap(result, model), self.steps, result)

    def output_dimension(self, dimension: int) -> int:
        return reduce(lambda dimension, step: step.output_dimension(dimension), self.steps, dimension)

    @property
    def adds_noise(self) -> bool:
        return any(step.adds_noise for step in self.steps)

    def without_noise(self) -> EmbeddingMiddleware:
        return ComposedMiddleware([step.without_noise() for step in self.steps])


class WrappedEmbeddingModel:
    """An embedding model with middleware around it: an embedding model itself. Made by `wrap_embedding_model`.

    Invalid texts are refused before the model runs, invalid rows of the model before a budget is charged. An interrupted call may
    stay charged.
    """

    def __init__(self, model: SourceModel, middleware: EmbeddingMiddleware, max_characters: int) -> None:
        self.model = model
        self.middleware = middleware
        self.max_characters = max_characters
        self._model_dimension = model.dimension

    def __repr__(self) -> str:
        return f"WrappedEmbeddingModel(model_id={self.model_id!r}, dimension={self.dimension})"

    @property
    def model_id(self) -> str | None:
        return self.model.model_id

    @property
    def norm_bound(self) -> None:
        """No bound: steps may change the norms of rows."""
        return

    @property
    def dimension(self) -> int | None:
        """Columns of the released rows; None until the model states or shows how many it makes."""
        return None if self._model_dimension is None else self.middleware.output_dimension(self._model_dimension)

    @property
    def adds_noise(self) -> bool:
        """Whether a step of this model, or of one that it wraps, adds noise."""
        inner = self.model.model
        return self.middleware.adds_noise or (isinstance(inner, WrappedEmbeddingModel) and inner.adds_noise)

    def without_noise(self) -> WrappedEmbeddingModel:
        """The same model without its noise, for rows that are seen only by people who may see the texts. All other steps stay, such as
        redaction or a public projection. Nothing is charged, and there is no receipt."""
        inner = self.model.model
        source = self.model
        if isinstance(inner, WrappedEmbeddingModel):
            source = as_embedding_model(inner.without_noise())
            source.model_id = self.model_id
        return WrappedEmbeddingModel(source, self.middleware.without_noise(), self.max_characters)

    def embed(self, texts: Sequence[str], kind: Kind = "document", *, people: Any = None) -> Embeddings:
        """Rows for texts (a sequence or column of strings of at most `max_characters`), through the middleware.

        `people`: whom each text is about, as for `hushvec.privatize`, for a step with noise whose budget counts by person. No texts
        have no rows: neither model nor middleware is asked, nothing is charged, and there is no receipt.

        Returns:
            Embeddings [n, d]: a numpy array with `receipts`, `receipt` (the last of them), `usage` and `metadata`.

        Raises:
            TypeError, ValueError: bad texts; rows of the model that are not finite, not as many as texts, or of another dimension than
                before; what a step refuses. Nothing is charged then.
        """
        return Embeddings(self.run(texts, kind, people=people))

    def run(self, texts: Sequence[str], kind: Kind = "document", *, people: Any = None) -> EmbeddingResult:
        """`embed` with values of the model's own kind: a torch tensor stays one, on its device."""
        request = self._request(texts, kind, people)
        if not request.texts:
            return self._nothing()
        return self._result(self.model.embed(request.texts, request.kind), len(request.texts), people)

    def _nothing(self) -> EmbeddingResult:
        """The answer to no texts: no rows, no release, no charge."""
        return EmbeddingResult(np.empty((0, self.dimension or 0), np.float32))

    async def aembed(self, texts: Sequence[str], kind: Kind = "document", *, people: Any = None) -> Embeddings:
        """`embed` as a coroutine. Middleware, which may wait for a disk or a database, works in a thread."""
        return Embeddings(await self.arun(texts, kind, people=people))

    async def arun(self, texts: Sequence[str], kind: Kind = "document", *, people: Any = None) -> EmbeddingResult:
        """`run` as a coroutine."""
        if not self.model.has_coroutine:
            return await asyncio.to_thread(self.run, texts, kind, people=people)
        request = await asyncio.to_thread(self._request, texts, kind, people)
        if not request.texts:
            return self._nothing()
        answer = await self.model.aembed(request.texts, request.kind)
        return await asyncio.to_thread(self._result, answer, len(request.texts), people)

    def embed_batches(self, batches: Iterable[Sequence[str]], kind: Kind = "document") -> Iterator[Embeddings]:
        """`embed` for one batch of texts after the other. Each is a separate release with its own receipt and charge."""
        return (self.embed(texts, kind) for texts in batches)

    async def aembed_batches(
        self, batches: Iterable[Sequence[str]] | AsyncIterable[Sequence[str]], kind: Kind = "document"
    ) -> AsyncIterator[Embeddings]:
        """`aembed` for one batch after the other, from an iterable or an asynchronous one."""
        async for texts in each(batches):
            yield await self.aembed(texts, kind)

    def _request(self, texts: Any, kind: Any, people: Any) -> EmbeddingRequest:
        validate.choice("kind", kind, KINDS)
        if people is not None and not self.middleware.adds_noise:
            raise ValueError("people must be None for a model none of whose own steps adds noise: nobody is charged")
        request = EmbeddingRequest(_texts(texts, self.max_characters), kind)
        if not request.texts:
            return request
        transformed = self.middleware.transform(request)
        if len(transformed.texts) != len(request.texts):
            raise ValueError(f"middleware must keep {len(request.texts)} texts, got {len(transformed.texts)} from transform")
        return transformed

    def _result(self, answer: Any, texts: int, people: Any) -> EmbeddingResult:
        result = replace(read_answer(answer, texts), people=people)
        dimension = int(result.values.shape[1])
        if self._model_dimension not in (None, dimension):
            raise ValueError(f"model output must have {self._model_dimension} columns, got {dimension}")
        wrapped = self.middleware.wrap(result, self.model)
        if int(wrapped.values.shape[0]) != texts:
            raise ValueError(f"middleware must keep {texts} rows, got {int(wrapped.values.shape[0])} from wrap")
        self._model_dimension = dimension  # only now: rows that a step refuses say nothing about later ones
        return wrapped


def wrap_embedding_model(
    model: Any, middleware: EmbeddingMiddleware | Sequence[EmbeddingMiddleware], *, model_id: str | None = None,
    max_characters: int = MOST_CHARACTERS,
) -> WrappedEmbeddingModel:
    """Put middleware around an embedding model.

    Args:
        model: anything with `embed(texts) -> rows [n, d]`; a sentence-transformers model; an embedder of LangChain, LlamaIndex,
            Haystack or Chroma; a function of a list of texts; or a wrapped model.
        middleware: a step, or a list of steps in the order of `compose_embedding_middleware`.
        model_id: the model's name, if the object does not have one.
        max_characters: >= 1; a longer text is refused. Models silently cut texts off after a few hundred tokens.

    Returns:
        WrappedEmbeddingModel: an embedding model again, and what the adapters of `hushvec.integrations` take.

    Raises:
        TypeError, ValueError: a model that cannot embed, something other than middleware.

    Guarantees:
        Those of the steps. Without a step that adds noise there is none: redaction is a heuristic.

    Edge cases:
        Usage and metadata of the model pass through unchanged and are not private.

    Reference:
        docs/middleware.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> def model(texts):
        ...     return np.eye(8, dtype=np.float32)[[len(text) % 8 for text in texts]]
        >>> private = hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=4.0, mechanism="privunit"))
        >>> rows = private.embed(["a sensitive medical record"])
        >>> rows.shape, rows.receipt.epsilon <= 4.0
        ((1, 8), True)
    """
    source = as_embedding_model(model)
    if model_id is not None:
        if not isinstance(model_id, str) or not model_id:
            raise TypeError(f"model_id must be a non-empty str or None, got {model_id!r:.40}")
        source.model_id = model_id
    limit = validate.whole_number("max_characters", max_characters, at_least=1)
    step = middleware if isinstance(middleware, EmbeddingMiddleware) else compose_embedding_middleware(middleware)
    return WrappedEmbeddingModel(source, step, limit)


def compose_embedding_middleware(middleware: Any) -> EmbeddingMiddleware:
    """Several middleware steps as one.

    Args:
        middleware: steps: in their order texts go through `transform` to the model, and rows through `wrap` to the caller.

    Returns:
        EmbeddingMiddleware.

    Raises:
        TypeError, ValueError: not a sequence of middleware, or an empty one.

    Guarantees:
        What comes after a step that adds noise sees only its output: post-processing, which costs no privacy.

    Edge cases:
        One step is that step. Two steps that add noise charge twice, and the rows carry two receipts.

    Reference:
        docs/middleware.md.

    Example:
        >>> import hushvec as hv
        >>> steps = [hv.pii_redaction_middleware(patterns=["email"]), hv.dp_embedding_middleware(epsilon=8.0)]
        >>> secure = hv.compose_embedding_middleware(steps)
    """
    validate.instance("middleware", middleware, Sequence, "middleware or a list of it", but=(str, bytes))
    if not middleware:
        raise ValueError("middleware must have at least 1 step, got 0")
    for step in middleware:
        validate.instance("middleware", step, EmbeddingMiddleware, "hushvec.middleware.EmbeddingMiddleware objects")
    return middleware[0] if len(middleware) == 1 else ComposedMiddleware(middleware)


def _texts(texts: Any, max_characters: int) -> tuple[str, ...]:
    texts = validate.column("texts", texts)
    validate.instance("texts", texts, Sequence, "a sequence of strings", but=(str, bytes))
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"texts must be strings, got {validate.kind(text)} at position {number}")
        require_length("texts", text, number, max_characters)
    return tuple(texts)


class PIIRedactionMiddleware(EmbeddingMiddleware):
    """The result of `pii_redaction_middleware`: `redactor` finds and replaces."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def transform(self, request: EmbeddingRequest) -> EmbeddingRequest:
        return replace(request, texts=tuple(redaction.text for redaction in self.redactor.redact_all(request.texts)))


@explained
def pii_redaction_middleware(
    *, patterns: Sequence[str] | None = None, replacement: str | None = None, replacements: Mapping[str, str] | None = None,
    custom_patterns: Mapping[str, str] | None = None, **options: Any,
) -> PIIRedactionMiddleware:
    """Return middleware that replaces personal data in texts by placeholders before they are embedded.

    Args:
        patterns, replacement, replacements, custom_patterns, options: arguments of `hushvec.text.Redactor`.

    Returns:
        Middleware for `wrap_embedding_model` and `compose_embedding_middleware`.

    Raises:
        TypeError, ValueError: what `hushvec.text.Redactor` refuses.

    Guarantees:
        None: rules miss things. What they miss is protected only by the noise of a `dp_embedding_middleware` beside it.

    Edge cases:
        A vector store keeps the texts and metadata that it is given: redact those before. Results do not mention what was found.

    Reference:
        docs/redaction.md.

    Example:
        >>> import hushvec as hv
        >>> seen = []
        >>> def model(texts):
        ...     seen.extend(texts)
        ...     return [[1.0, 0.0]] * len(texts)
        >>> rows = hv.wrap_embedding_model(model, hv.pii_redaction_middleware(patterns=["email"])).embed(["Write to jane@example.com"])
        >>> seen
        ['Write to [EMAIL]']
    """
    return PIIRedactionMiddleware(
        Redactor(patterns=patterns, replacement=replacement, replacements=replacements, custom_patterns=custom_patterns, **options)
    )
