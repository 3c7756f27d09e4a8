"""The settings of a run, checked before anything is read, embedded or written; the sizes of decoders; the folder of a run.

    run.json                what the run is: every setting, and digests of the corpus and of the projection
    embeddings/             of the corpus, a cache
    projection.npz          the public map, if the mechanism has one before it
    tokenizer.json          the vocabulary, with tokenizer_config.json
    checkpoint.pt           the state of the last checkpoint: weights, optimizer, random numbers, step, curve
    curve.csv               the losses
    config.json, model.safetensors     with tokenizer.json: the best decoder so far
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, InstanceOf

from hushvec._util import validate
from hushvec.text.inverters.trained import RUN_FILE, read_run
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.measurements import dotted
from hushvec_studies.harness.settings import Positive, Share

# T5's relative positions end here.
LARGEST_MAX_TOKENS = 512

SMALLEST_VOCABULARY = 300  # 256 bytes, the special tokens, and something learned
LARGEST_SEED = 2**63 - 1

# The learning rate where none is given: 0.0039 for "tiny", the best of 2e-3, 4e-3 and 8e-3 after 160 steps on 16,000 sentences. Adam's
# steps change what a layer gives in proportion to its width, so wider ones take smaller steps.
RATE_TIMES_WIDTH = 0.5


@dataclass(frozen=True, kw_only=True)
class DecoderSize:
    """The shape of a T5 and of the map from an embedding to what its encoder reads.

    Args:
        width: d_model, elements of a token's vector.
        layers: of the encoder, and as many of the decoder.
        heads: of an attention; they share `width` among them.
        feed_forward: elements between the two maps of a layer.
        positions: encoder positions that an embedding becomes.
        bottleneck: elements between the two maps from the embedding to those positions.

    Example:
        >>> DecoderSize(width=64, layers=1, heads=2, feed_forward=128, positions=4, bottleneck=64).width
        64
    """

    width: int
    layers: int
    heads: int
    feed_forward: int
    positions: int
    bottleneck: int

    def __post_init__(self) -> None:
        for field in fields(self):
            validate.whole_number(field.name, getattr(self, field.name), at_least=1)
        if self.width % self.heads:
            raise ValueError(f"width must be a multiple of heads, got {self.width} and {self.heads}")


SIZES: Mapping[str, DecoderSize] = {
    "tiny": DecoderSize(width=128, layers=1, heads=4, feed_forward=512, positions=4, bottleneck=384),
    "small": DecoderSize(width=256, layers=2, heads=4, feed_forward=1024, positions=4, bottleneck=384),
    "base": DecoderSize(width=512, layers=6, heads=8, feed_forward=2048, positions=16, bottleneck=768),
}


Count = Annotated[int, Field(ge=1)]


class Settings(harness.Settings):
    """Every number that affects what a run computes. Arguments as for `train_inverter`."""

    size: InstanceOf[DecoderSize]
    vocabulary: Annotated[int, Field(ge=SMALLEST_VOCABULARY, le=2**20)]
    max_tokens: Annotated[int, Field(ge=2, le=LARGEST_MAX_TOKENS)]
    epochs: Count
    batch_size: Count
    learning_rate: Positive
    dropout: Annotated[float, Field(ge=0, lt=1)]
    validation: Share
    checkpoint_every: Count
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)]

    def as_json(self) -> dict[str, Any]:
        return {**dict(self), "size": asdict(self.size)}


CHECKPOINT_FILE, EMBEDDINGS = "checkpoint.pt", "embeddings"


def require_new(folder: Path) -> None:
    """Refuse a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: must be a folder or not exist")
    if (folder / RUN_FILE).exists():
        raise ValueError(f"{folder} holds a training run already: resume it, or choose another folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder}: must be empty or not exist, so that nothing in it is overwritten")


def require_same_run(folder: Path, asked: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings."""
    there, wanted = dict(dotted(read_run(folder))), dict(dotted(asked))
    different = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
    if different:
        shown = "; ".join(f"{name} is {there.get(name)!r}, asked for {wanted.get(name)!r}" for name in different)
        raise ValueError(f"{folder} holds a run of other settings: {shown}")
