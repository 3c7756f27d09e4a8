"""Private embeddings in Chroma: `PrivateEmbeddingFunction`, the `embedding_function` of a collection."""

from __future__ import annotations

from typing import Any, NoReturn

from hushvec._util.lazy import needs_extra
from hushvec.integrations._source import Adapter, ReleasedList, rows_as_arrays

with needs_extra("hushvec.integrations.chroma", "chroma"):
    from chromadb.api.types import Documents, EmbeddingFunction, Space
    from chromadb.utils.embedding_functions import register_embedding_function

NAME = "hushvec_private"


class _Remembered(EmbeddingFunction[Documents]):  # type: ignore[misc]
    """The part of a function that a collection writes down: a name, and no way to make the function from it."""

    def __init__(self) -> None:
        pass

    @staticmethod
    def name() -> str:
        return NAME

    def is_legacy(self) -> bool:
        """False: Chroma would forget the name of a function that is, and put its own in the place."""
        return False

    def default_space(self) -> Space:
        """Cosine, for a collection that names no distance."""
        return "cosine"

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> EmbeddingFunction[Documents]:
        """Return what refuses to embed: neither a model nor its budget can be made from what a collection remembers."""
        return _NotOpened(config)


class _NotOpened(_Remembered):
    """In the place of a private function that was not given when the collection was opened."""

    def __init__(self, config: dict[str, Any]) -> None:
        self._config = dict(config)

    def __call__(self, input: Documents) -> NoReturn:
        raise TypeError(
            f"embedding_function must be given to open a private collection (model {self._config.get('model')!r}): "
            "client.get_collection(name, embedding_function=PrivateEmbeddingFunction(model, middleware))"
        )

    def get_config(self) -> dict[str, Any]:
        return self._config


@register_embedding_function
class PrivateEmbeddingFunction(Adapter, _Remembered):
    """A Chroma embedding function whose rows of documents, queries or both are private releases.

    See `hushvec.integrations`. A call returns a list of rows, numpy arrays [d], with `receipt`.

    Edge cases:
        A collection stores documents and metadata as they are: give it ids and embeddings only where the texts must not be kept.
        It remembers by name that it is private, not the model. Opened again without a function it refuses to embed, and with a
        function of another name to open: a text would be stored without noise.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.integrations.chroma import PrivateEmbeddingFunction
        >>> private = PrivateEmbeddingFunction(lambda texts: [[1.0, 0.0]] * len(texts), hv.dp_embedding_middleware(epsilon=8.0))
        >>> rows = private(["a", "b"])
        >>> len(rows), rows[0].shape, rows.receipt.epsilon
        (2, (2,), 8.0)
    """

    def __call__(self, input: Documents) -> ReleasedList[Any]:
        """Return rows for documents that are stored."""
        return rows_as_arrays(self._source.embed(input, "document"))

    def embed_query(self, input: Documents) -> ReleasedList[Any]:
        """Return rows for texts that are searched with."""
        return rows_as_arrays(self._source.embed(input, "query"))

    def supported_spaces(self) -> list[Space]:
        """Return the distances that find what cosine finds: all with unit rows. Chroma warns of a collection with another one."""
        return ["cosine", "l2", "ip"] if self._source.unit_rows else ["cosine"]

    def get_config(self) -> dict[str, Any]:
        """Return the model's name, which a collection remembers too, as a hint for anyone who opens it."""
        return {"model": self._source.wrapped.model_id}


# Chroma puts a check around the method, which refuses an answer without rows. No texts have no rows.
_checked = PrivateEmbeddingFunction.__call__


def _call(self: PrivateEmbeddingFunction, input: Documents) -> ReleasedList[Any]:
    """Return rows for documents that are stored."""
    rows: ReleasedList[Any] = _checked(self, input) if not isinstance(input, list) or input else ReleasedList()
    return rows


PrivateEmbeddingFunction.__call__ = _call  # type: ignore[method-assign]
