"""OpenAI-style services: their clients as models, and private embeddings as their responses. The package openai is not needed."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Sequence
from typing import Any

from hushvec._util import validate
from hushvec.embedders.protocol import Kind
from hushvec.integrations._source import at_unit_length
from hushvec.middleware import Embeddings


class OpenAIEmbeddings:
    """A model behind an OpenAI-style client, for `wrap_embedding_model`.

    Args:
        client: an object with `client.embeddings.create(model=, input=)`: OpenAI(), AsyncOpenAI() or one that looks like them. An
            asynchronous one serves `aembed` only.
        model: the model's name.
        options: further arguments of `create`, such as dimensions=256.

    `embed` returns the service's response as it is; its usage and model name stay with the private rows. There is no guarantee:
    the service sees the texts, and redaction and noise come from the middleware around this model. The client's own retries
    happen before anything is charged.

    Example:
        >>> import hushvec as hv
        >>> from types import SimpleNamespace
        >>> from hushvec.integrations.openai import OpenAIEmbeddings, embeddings_response
        >>> def create(model, input):
        ...     data = [{"index": number, "embedding": [1.0, 0.0]} for number in range(len(input))]
        ...     return {"data": data, "model": model, "usage": {"total_tokens": 7}}
        >>> client = SimpleNamespace(embeddings=SimpleNamespace(create=create))
        >>> model = OpenAIEmbeddings(client, model="text-embedding-3-small")
        >>> private = hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=8.0))
        >>> response = embeddings_response(private.embed(["a"]))
        >>> response["usage"], response["receipts"][0]["epsilon"]
        ({'total_tokens': 7}, 8.0)
    """

    def __init__(self, client: Any, *, model: str, **options: Any) -> None:
        if not callable(getattr(getattr(client, "embeddings", None), "create", None)):
            raise TypeError(f"client must have embeddings.create(model=, input=), got {validate.kind(client)}")
        if not isinstance(model, str) or not model:
            raise TypeError(f"model must be a non-empty str, got {model!r:.40}")
        self.client = client
        self.model_id = model
        self.options = options
        self._is_async = inspect.iscoroutinefunction(inspect.unwrap(client.embeddings.create))

    def embed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        """Return the service's response for texts."""
        if self._is_async:
            raise TypeError("client must be a synchronous one for embed, got an asynchronous one: use aembed")
        return self._create(texts)

    async def aembed(self, texts: Sequence[str], kind: Kind = "document") -> Any:
        """`embed` as a coroutine; a synchronous client works in a thread."""
        return await (self._create(texts) if self._is_async else asyncio.to_thread(self._create, texts))

    def _create(self, texts: Sequence[str]) -> Any:
        return self.client.embeddings.create(model=self.model_id, input=list(texts), **self.options)


def embeddings_response(embeddings: Embeddings, *, model: str | None = None, unit_rows: bool = True) -> dict[str, Any]:
    """Return private rows of a wrapped model as the JSON of an OpenAI-style embeddings endpoint.

    Args:
        embeddings: rows of a wrapped model.
        model: None is what the model reported.
        unit_rows: as for `hushvec.integrations`; OpenAI's own rows have unit length, and clients rank by any distance.

    Returns:
        A dict of plain numbers, strings, lists and dicts: object, data (object, index and embedding of each row), model, usage as the
        model reported it, which is not private, and receipts: `Receipt.from_dict(response["receipts"][0])`.
    """
    if not isinstance(embeddings, Embeddings):
        raise TypeError(f"embeddings must be Embeddings of a wrapped model, got {validate.kind(embeddings)}")
    if validate.flag("unit_rows", unit_rows):
        embeddings = at_unit_length(embeddings)
    rows = embeddings.values.tolist()
    return {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": model if model is not None else embeddings.metadata.get("model"),
        "usage": dict(embeddings.usage),
        "receipts": [receipt.to_dict() for receipt in embeddings.receipts],
    }
