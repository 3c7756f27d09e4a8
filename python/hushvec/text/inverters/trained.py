"""TrainedInverter: texts from embeddings by a decoder that `hushvec study train-inverter` wrote to a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import lines, validate
from hushvec.embedders.checkpoints import CONFIG_FILE, chosen_device
from hushvec.mechanisms import Mechanism, PublicProjection
from hushvec.text.corpus import checked_rows
from hushvec.text.inverters.protocol import Inverter, Lifted
from hushvec.text.inverters.vec2text.loading import Checkpoint, load_inversion

ROWS_AT_ONCE = 64

RUN_FILE = "run.json"  # what the run is: its settings, and digests of the corpus and of the projection
PROJECTION_FILE = "projection.npz"  # the public map, if the mechanism has one before it
RUN_FORMAT = 1


def read_run(folder: Path) -> dict[str, Any]:
    """The content of run.json."""
    return lines.manifest(folder, RUN_FILE, "a training run", RUN_FORMAT)


class TrainedInverter:
    """A custom decoder. Made by `from_folder`.

    It decodes best the embedder and mechanism that its folder names. Decoding is post-processing.
    """

    def __init__(
        self, checkpoint: Checkpoint, *, mechanism: str | None = None, projection: PublicProjection | None = None, beams: int = 1
    ) -> None:
        self._model, self._tokens = checkpoint.model, checkpoint.tokens
        self._mechanism, self._projection = mechanism, projection
        self._beams = validate.whole_number("beams", beams, at_least=1)

    @classmethod
    def from_folder(cls, path: str | os.PathLike[str], device: str | None = None, beams: int = 1) -> TrainedInverter:
        """Load what `hushvec study train-inverter` wrote.

        Args:
            path: the folder. If the run in it has not ended, this is the best decoder so far.
            device, beams: of torch, None for CUDA if there is one; of the search for the likeliest text, 1 is greedy.

        Raises:
            ValueError: not a folder of a run, one without a decoder yet, or files that do not fit together.
        """
        source = Path(path)
        run = read_run(source)
        if not (source / CONFIG_FILE).exists():
            raise ValueError(f"{source} has no decoder yet: the run in it ended before its first validation; resume it")
        return cls(
            load_inversion(source, device=chosen_device(device)), mechanism=_name_of(run["mechanism"]),
            projection=None if run["projection"] is None else PublicProjection.load(source / PROJECTION_FILE),
            beams=beams,
        )

    @staticmethod
    def is_run(path: str | os.PathLike[str]) -> bool:
        """Whether the folder is a run of `hushvec study train-inverter`."""
        return (Path(path) / RUN_FILE).is_file()

    @staticmethod
    def mechanism_of_run(path: str | os.PathLike[str]) -> str | None:
        """The mechanism whose noise a decoder in this folder was trained with; None without noise. The decoder is not loaded."""
        return _name_of(read_run(Path(path))["mechanism"])

    @property
    def mechanism(self) -> str | None:
        """The mechanism whose noise it was trained with; None without noise."""
        return self._mechanism

    @property
    def dimension(self) -> int:
        """Elements of the embeddings that it reads."""
        return int(self._model.config.embedding_dim)

    @property
    def embedder_name(self) -> str:
        """The embedder whose embeddings it was trained on."""
        return str(self._model.config.embedder_model_name)

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """One text for each row of a float array [n, d], clean or released; an empty one where the decoder ends at once."""
        import torch

        rows = checked_rows(embeddings, self.dimension)
        texts: list[str] = []
        for first in range(0, len(rows), ROWS_AT_ONCE):
            part = torch.from_numpy(rows[first : first + ROWS_AT_ONCE]).to(next(self._model.parameters()).device)
            longest = self._model.config.max_seq_length + 1  # the decoder's start token counts
            found = self._model.generate(part, max_length=longest, num_beams=self._beams)
            texts += (text.strip() for text in self._tokens.texts(found.tolist()))
        return texts

    def for_release(self, mechanism: Mechanism, projection: PublicProjection | None) -> Inverter:
        """The inverter of rows as this mechanism released them, behind the map if there is one: they are lifted back first."""
        return self if projection is None else Lifted(self, projection)

    def projection_for(self, mechanism: str, epsilon: float) -> PublicProjection | None:
        """The map it was trained behind, if the mechanism is the one it was trained with; else None."""
        return self._projection if mechanism == self.mechanism else None


def _name_of(noise: Mapping[str, Any] | None) -> str | None:
    return None if noise is None else str(noise["name"])
