"""Private embeddings behind sentence-transformers' own methods: `PrivateSentenceTransformer`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from hushvec._util import validate
from hushvec.embedders.protocol import Kind
from hushvec.embedders.sources import SourceModel
from hushvec.errors import MissingExtraError
from hushvec.integrations._source import Adapter, ReleasedList, at_unit_length
from hushvec.middleware import Embeddings, WrappedEmbeddingModel

if find_spec("sentence_transformers") is None:
    raise MissingExtraError("hushvec.integrations.sentence_transformers", "text")

# Arguments of `encode` that have one value here, and what to do instead of another.
_FIXED = {
    "output_value": ("sentence_embedding", "the guarantee is about one vector for each text"),
    "precision": ("float32", "quantize the private rows afterwards, which costs no privacy"),
    "truncate_dim": (None, "set truncate_dim on the model"),
    "pool": (None, "wrap a model that runs the pool itself"),
    "chunk_size": (None, "wrap a model that runs the pool itself"),
}


class PrivateSentenceTransformer(Adapter):
    """A SentenceTransformer's main methods, with rows of documents, queries or both that are private releases.

    See `hushvec.integrations`. Each call of a method is one release, whatever its batch_size. Texts of `encode` count as
    documents. Nothing else of the model is reachable: tokens and modules would show what the noise hides.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer
        >>> model = PrivateSentenceTransformer(lambda texts: [[1.0, 0.0]] * len(texts), hv.dp_embedding_middleware(epsilon=8.0))
        >>> row = model.encode("a", normalize_embeddings=True)
        >>> row.shape, row.receipt.epsilon
        ((2,), 8.0)
    """

    def encode(self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any) -> Any:
        """Return rows for texts that are stored, or of which nothing is known.

        Args:
            inputs: one text, or a list of them.
            prompt_name, prompt: as for the SentenceTransformer; only with one.
            options: batch_size, show_progress_bar and device for the model; normalize_embeddings: unit rows also where
                there is no noise, or with unit_rows=False; convert_to_numpy, convert_to_tensor: as for the SentenceTransformer.
                Others are refused.

        Returns:
            Embeddings [n, d], [d] for one text: numpy arrays with `receipt`. With convert_to_tensor a tensor, with
            convert_to_numpy=False a list of tensors; both have `receipt` as well.
        """
        return self._encode("encode", "document", inputs, prompt_name=prompt_name, prompt=prompt, **options)

    def encode_query(
        self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any
    ) -> Any:
        """`encode` for texts that are searched with."""
        return self._encode("encode_query", "query", inputs, prompt_name=prompt_name, prompt=prompt, **options)

    def encode_document(
        self, inputs: str | Sequence[str], prompt_name: str | None = None, prompt: str | None = None, **options: Any
    ) -> Any:
        """`encode` for texts that are stored."""
        return self._encode("encode_document", "document", inputs, prompt_name=prompt_name, prompt=prompt, **options)

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the model's own similarity of all rows with all others; cosine for a model that has none."""
        from sentence_transformers.util import cos_sim

        return getattr(self._model, "similarity", cos_sim)(_plain(embeddings1), _plain(embeddings2))

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return the model's own similarity of rows with the rows beside them; cosine for a model that has none."""
        from sentence_transformers.util import pairwise_cos_sim

        return getattr(self._model, "similarity_pairwise", pairwise_cos_sim)(_plain(embeddings1), _plain(embeddings2))

    def get_embedding_dimension(self) -> int | None:
        """Return how many columns the rows have; None as long as the model has not shown it."""
        return self._source.wrapped.dimension

    @property
    def _model(self) -> Any:
        return self._source.wrapped.model.model

    def _encode(
        self, method: str, kind: Kind, inputs: Any, normalize_embeddings: bool = False, convert_to_numpy: bool = True,
        convert_to_tensor: bool = False, batch_size: int = 32, show_progress_bar: bool | None = None, **options: Any,
    ) -> Any:
        unit_rows = validate.flag("normalize_embeddings", normalize_embeddings)
        as_tensor = validate.flag("convert_to_tensor", convert_to_tensor)
        as_tensors = not (as_tensor or validate.flag("convert_to_numpy", convert_to_numpy))
        given = {name: value for name, value in _model_options(options).items() if value is not None}
        batch_size = validate.whole_number("batch_size", batch_size, at_least=1)
        wrapped = self._source.side(kind)
        if hasattr(self._model, "encode"):
            wrapped = _called_by(wrapped, method, {"batch_size": batch_size, "show_progress_bar": show_progress_bar, **given})
        elif given:
            raise ValueError(f"{', '.join(given)} must be left out for a model that is no SentenceTransformer")
        is_one = isinstance(inputs, str)
        embeddings = wrapped.embed([inputs] if is_one else inputs, kind)
        embeddings = self._source.reported(at_unit_length(embeddings, clean=True) if unit_rows else embeddings)
        rows = embeddings.with_values(embeddings.values[0], embeddings.receipts) if is_one else embeddings
        return _as_tensor(rows) if as_tensor else _as_tensors(rows) if as_tensors else rows


def _model_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the model gets; others are refused, or have only one value."""
    for name, (value, reason) in _FIXED.items():
        if options.pop(name, value) != value:
            raise ValueError(f"{name} must be {value!r} for private embeddings: {reason}")
    unknown = sorted(options.keys() - {"prompt", "prompt_name", "device"})
    if unknown:
        raise TypeError(f"encode has no argument {', '.join(map(repr, unknown))} for private embeddings")
    return options


def _called_by(wrapped: WrappedEmbeddingModel, method: str, options: dict[str, Any]) -> WrappedEmbeddingModel:
    """Return the same wrapped model, calling one of the SentenceTransformer's methods with these options."""
    source = wrapped.model
    encode = getattr(source.model, method, source.model.encode)
    called = SourceModel(source.model, lambda texts, kind: encode(list(texts), **options))
    called.model_id = source.model_id
    return WrappedEmbeddingModel(called, wrapped.middleware, wrapped.max_characters)


def _as_tensor(embeddings: Embeddings) -> Any:
    import torch

    tensor = torch.from_numpy(embeddings.values)
    tensor.receipts, tensor.receipt = embeddings.receipts, embeddings.receipt  # type: ignore[attr-defined]
    return tensor


def _as_tensors(embeddings: Embeddings) -> Any:
    tensor = _as_tensor(embeddings)
    return ReleasedList(list(tensor), embeddings) if tensor.ndim > 1 else tensor


def _plain(rows: Any) -> Any:
    """Return arrays without receipts, which torch takes without a copy."""
    return rows.values if isinstance(rows, Embeddings) else rows
