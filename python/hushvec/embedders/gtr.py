"""GTR as vec2text was trained on it: the T5 encoder, mean-pooled over tokens, with no dense layer and no normalization."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.embedders.checkpoints import (  # isort: skip
    CONFIG_FILE, TOKENIZER_FILE, WEIGHTS, Tokens, chosen_device, fill, find_folder, read_t5, read_weights,
)
from hushvec._util import validate
from hushvec._util.display import Progress, announced
from hushvec._util.lazy import needs_extra

GTR_BASE = "sentence-transformers/gtr-t5-base"
MAX_LENGTH = 32
BATCH = 64
EXPECTED = f"{CONFIG_FILE}, {TOKENIZER_FILE} and {WEIGHTS}"

_ENCODER = "encoder."
_TABLES = ("shared.weight", "encoder.embed_tokens.weight")


class GTREmbedder:
    """The embeddings that the published vec2text checkpoints invert.

    They are not those of the sentence-transformers model of this name, which adds a dense layer and unit length.

    Args:
        path_or_id: a folder with config.json, tokenizer.json and weights, or a hub id.
        max_length, batch_size: tokens of a text that are read, the end token included; texts that are embedded at once. With
            batch_size=1 the bits of a row depend on its own text alone; in larger batches the other texts move them by rounding.
        device: a torch device; None for CUDA if there is one, else the CPU.
        model_id: its name in receipts; None for path_or_id.

    Example:
        >>> from hushvec.embedders.gtr import GTREmbedder
        >>> GTREmbedder("models/gtr-t5-base").embed(["The invoice is overdue."]).shape  # doctest: +SKIP
        (1, 768)
    """

    norm_bound: float | None = None  # rows are about as long as 1, some longer

    def __init__(
        self, path_or_id: str | os.PathLike[str] = GTR_BASE, *, max_length: int = MAX_LENGTH, device: Any = None,
        batch_size: int = BATCH, model_id: str | None = None,
    ) -> None:
        max_length = validate.whole_number("max_length", max_length, at_least=1)
        with announced("loading the embedding model"):
            folder = find_folder(path_or_id, expected=EXPECTED)
            weights = read_weights(folder, wanted=lambda name: name.startswith(_ENCODER) or name in _TABLES)
            self._set_up(read_t5(folder), weights, Tokens.read(folder), str(folder), max_length, device, batch_size)
        self.model_id = os.fspath(path_or_id) if model_id is None else model_id

    @classmethod
    def from_parts(
        cls, t5: dict[str, Any], weights: dict[str, Any], tokens: Tokens, *, where: str, max_length: int, device: Any
    ) -> GTREmbedder:
        """Return the same from a T5's fields, the weights of its encoder by name, and its tokenizer; `where` they come from."""
        embedder = cls.__new__(cls)
        embedder._set_up(t5, weights, tokens, where, max_length, device, BATCH)
        embedder.model_id = GTR_BASE
        return embedder

    def _set_up(
        self, t5: dict[str, Any], weights: dict[str, Any], tokens: Tokens, where: str, max_length: int, device: Any, batch_size: int
    ) -> None:
        self.max_length = max_length
        self.batch_size = validate.whole_number("batch_size", batch_size, at_least=1)
        self.dimension = int(t5["d_model"])
        self._tokens = tokens
        self._pad = int(t5["pad_token_id"])
        self._device = chosen_device(device)
        with needs_extra("embedding texts with GTR", "text"):
            from transformers import T5Config, T5EncoderModel
        self._encoder: Any = T5EncoderModel(T5Config(**t5))
        fill(self._encoder, weights, shared=(_TABLES,), where=where)
        self._encoder.to(self._device).eval()

    @property
    def tokenizer(self) -> Any:
        """Its tokenizers.Tokenizer, without padding or truncation."""
        return self._tokens.tokenizer

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32[len(texts), dimension]: the mean of the encoder's output over the first max_length tokens of each text."""
        texts = validate.strings("texts", texts)
        vectors = np.empty((len(texts), self.dimension), np.float32)
        ids = self._tokens.ids(texts, self.max_length)
        # Texts of about one length together: a batch is as wide as its longest.
        order = sorted(range(len(ids)), key=lambda place: len(ids[place]))
        with Progress("embedding", len(order)) as progress:
            for start in range(0, len(order), self.batch_size):
                places = order[start : start + self.batch_size]
                vectors[places] = self._pooled([ids[place] for place in places])
                progress.advance(len(places))
        return vectors

    def _pooled(self, rows: list[list[int]]) -> NDArray[np.float32]:
        import torch

        width = max(1, *map(len, rows))
        padded = [row + [self._pad] * (width - len(row)) for row in rows]
        attended = [[1] * len(row) + [0] * (width - len(row)) for row in rows]
        with torch.inference_mode():
            mask = torch.tensor(attended, device=self._device)
            states = self._encoder(input_ids=torch.tensor(padded, device=self._device), attention_mask=mask).last_hidden_state
            summed = (states * mask[:, :, None]).sum(dim=1)
            return np.asarray((summed / mask.sum(dim=1, keepdim=True).clamp(min=1)).cpu().numpy())
