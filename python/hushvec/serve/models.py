"""The models behind the service: opened once, called one batch at a time, and their failures as the service's."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import SourceModel, as_embedding_model, open_embedding_model
from hushvec.serve.failures import ServiceError
from hushvec.serve.metrics import span
from hushvec.serve.policy import AnyModel, CustomModel, OpenAIModel, SentenceTransformersModel

Made = TypeVar("Made")

_log = logging.getLogger("hushvec.serve")

NOBODY = ""   # for what no tenant asked: whether the service is ready

_MOST_TOKENS = 512
_TEXTS_PER_TURN = 8   # long ones take MiniLM about a second


class ServedModel:

    def __init__(self, name: str, settings: AnyModel) -> None:
        self.name = name
        self.settings = settings
        self.is_remote = isinstance(settings, OpenAIModel)
        self._source = _open(settings)
        self.dimension: int | None = self._source.dimension  # columns of its rows; None until it has answered once, if it does not say
        # Local models share the processors: two batches at once take longer than one after the other.
        self._turns = None if self.is_remote else Turns()

    def embed(self, texts: Sequence[str], tenant: str = NOBODY) -> NDArray[np.float32]:
        """Embed texts as float32 rows [n, d], finite. Tenants take turns at a local model; what a failing one said is not repeated."""
        with span("embed", texts=len(texts)):
            if self._turns is None:
                return self._rows(texts)
            parts = [texts[start : start + _TEXTS_PER_TURN] for start in range(0, len(texts), _TEXTS_PER_TURN)]
            return np.concatenate([self._rows(part, self._turns.of(tenant)) for part in parts])

    def _rows(self, texts: Sequence[str], turn: AbstractContextManager[Any] | None = None) -> NDArray[np.float32]:
        try:
            with turn or contextlib.nullcontext():
                rows = embedded_rows(self._source, texts)
        except ServiceError:
            raise
        except (Exception, SystemExit) as error:  # sys.exit(text) would end the server, which logs the text
            _log.error("model %s failed: %s", self.name, type(error).__name__)
            raise _failed(self.name) from None
        if self.dimension is None:
            self.dimension = rows.shape[1]
        if rows.shape != (len(texts), self.dimension):
            _log.error("model %s answered %s rows of %s", self.name, *rows.shape)
            raise _failed(self.name)
        return rows

    def close(self) -> None:
        close = getattr(self._source.model, "close", None)
        if self.is_remote and callable(close):
            close()


def _open(settings: AnyModel) -> SourceModel:
    if isinstance(settings, OpenAIModel):
        return as_embedding_model(RemoteModel(settings))
    if isinstance(settings, SentenceTransformersModel):
        return open_embedding_model(settings.path, max_length=_MOST_TOKENS, device=settings.device)
    if isinstance(settings, CustomModel):
        module, _, attribute = settings.object.partition(":")
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return as_embedding_model(found)
    from hushvec.embedders.minilm import MiniLMEmbedder

    return as_embedding_model(MiniLMEmbedder())


class RemoteModel:
    """Another service that embeds texts in the OpenAI shape."""

    def __init__(self, settings: OpenAIModel) -> None:
        with needs_extra("models of kind openai", "serve"):
            import httpx
        self.model_id = settings.model
        key = None
        if settings.api_key_env is not None:
            key = os.environ.get(settings.api_key_env)
            if not key:
                raise ValueError(f"the environment variable {settings.api_key_env} must hold the key of {settings.base_url}")
            if not (key.isascii() and key.isprintable()):
                raise ValueError(f"the environment variable {settings.api_key_env} must hold a key of printable ASCII")
        self._httpx = httpx
        self._client = httpx.Client(
            base_url=settings.base_url.rstrip("/") + "/", timeout=settings.timeout,
            headers={} if key is None else {"Authorization": f"Bearer {key}"},
        )

    def embed(self, texts: Sequence[str]) -> Any:
        try:
            answer = self._client.post("embeddings", json={"model": self.model_id, "input": list(texts), "encoding_format": "float"})
        except self._httpx.TimeoutException:
            raise ServiceError(504, "upstream_timeout", "the embedding model did not answer in time", retry_after=1) from None
        except self._httpx.HTTPError:
            raise ServiceError(502, "upstream_unreachable", "the embedding model cannot be reached", retry_after=1) from None
        if answer.status_code == 429:
            raise ServiceError(503, "upstream_busy", "the embedding model takes no more requests now", retry_after=1)
        if answer.status_code != 200:
            raise ServiceError(502, "upstream_failed", f"the embedding model answered with status {answer.status_code}")
        return {"data": answer.json()["data"]}

    def close(self) -> None:
        self._client.close()


def _failed(name: str) -> ServiceError:
    return ServiceError(502, "upstream_failed", f"model {name} gave no usable vectors; nothing was charged or released")


class Turns:
    """A lock whose next holder is the tenant that has not had it for longest, whatever the number of threads that wait for each."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: dict[str, deque[threading.Lock]] = {}
        self._left: dict[str, float] = {}   # when each tenant had it last

    @contextlib.contextmanager
    def of(self, tenant: str) -> Iterator[None]:
        mine = threading.Lock()
        with self._guard:
            if self._taken:
                mine.acquire()
                self._waiting.setdefault(tenant, deque()).append(mine)
            self._taken = True
        mine.acquire()
        try:
            yield
        finally:
            with self._guard:
                self._left[tenant], self._taken = time.monotonic(), bool(self._waiting)
                if self._waiting:
                    following = min(self._waiting, key=lambda one: self._left.get(one, 0.0))
                    self._waiting[following].popleft().release()
                    if not self._waiting[following]:
                        del self._waiting[following]


class Kept(Generic[Made]):
    """What is made for tenants and kept, `most` of it in all: above that, the tenant that has the most loses its oldest. It is made in
    the tenants' turns; what is kept is read without waiting."""

    def __init__(self, make: Callable[..., Made], most: int) -> None:
        self._make, self._most = make, most
        self._turns = Turns()
        self._made: dict[tuple[Any, ...], Made] = {}

    def __call__(self, tenant: str, *settings: Any) -> Made:
        key = (tenant, *settings)
        if key not in self._made:
            with self._turns.of(tenant):
                if key not in self._made:
                    self._made[key] = self._make(*settings)
                made = self._made[key]
                owners = [owner for owner, *_ in self._made]
                if len(owners) > self._most:
                    del self._made[list(self._made)[owners.index(max(set(owners), key=owners.count))]]
                return made
        return self._made.get(key) or self(*key)  # let go since the look
