"""The model for a size, its weights as a checkpoint in the format of vec2text, and the noise on what it learns from.

The model learns on embeddings divided by their root mean square, whatever lengths the mechanism gives them; in the published
weights that division is part of the first linear map, so that they read embeddings as they are.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec import Generator
from hushvec._util import validate
from hushvec.extend.helpers import needs_extra
from hushvec.mechanisms import MECHANISMS, Mechanism, PublicProjection
from hushvec.text.inverters.protocol import behind
from hushvec.text.inverters.vec2text.config import Vec2TextConfig
from hushvec_studies.inverters.corpus import END_ID, PAD_ID
from hushvec_studies.inverters.settings import Settings

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import InversionModel

# Standard deviations of the tables' first elements.
_READ_STD, _WRITTEN_STD = 0.05, 0.02

def network_config(settings: Settings, vocabulary: int, dimension: int, embedder: str) -> Vec2TextConfig:
    """The shape of the model as its config.json states it."""
    size = settings.size
    t5 = {
        "vocab_size": vocabulary,
        "d_model": size.width,
        "d_kv": size.width // size.heads,
        "d_ff": size.feed_forward,
        "num_layers": size.layers,
        "num_decoder_layers": size.layers,
        "num_heads": size.heads,
        "dropout_rate": settings.dropout,
        "feed_forward_proj": "relu",
        "pad_token_id": PAD_ID,
        "eos_token_id": END_ID,
        "decoder_start_token_id": PAD_ID,
        "tie_word_embeddings": False,
    }
    return Vec2TextConfig(
        t5=t5,
        embedding_dim=dimension,
        num_repeat_tokens=size.positions,
        max_seq_length=settings.max_tokens,
        bottleneck_dim=size.bottleneck,
        embedder_model_name=embedder,
    )


def new_network(config: Vec2TextConfig) -> InversionModel:
    """The model with random weights, from torch's generator."""
    with needs_extra("a trained decoder", "text"):
        from hushvec.text.inverters.vec2text.model import InversionModel
    network: InversionModel = with_small_tables(InversionModel(config))
    return network


def with_small_tables(model: Any) -> Any:
    """Tokens are read and written by separate tables, with smaller initial elements than T5's: its table has elements of size 1,
    which Adam moves too slowly. On 16,000 sentences (`tiny`, 160 steps, learning rate 4e-3) the held-out loss was 6.64 with T5's
    way, 6.18 with two tables, and 6.00 with two small ones.
    """
    from torch import nn

    nn.init.normal_(model.encoder_decoder.shared.weight, std=_READ_STD)
    nn.init.normal_(model.encoder_decoder.lm_head.weight, std=_WRITTEN_STD)
    return model


@dataclass(frozen=True)
class ReleaseLaw:
    """A mechanism, behind a public map or not, whose noise on public texts protects nothing: nothing is released here."""

    mechanism: Mechanism
    projection: PublicProjection | None = None

    def released(self, rows: NDArray[np.float32], generator: Generator) -> NDArray[np.float32]:
        """Noisy rows in the embedder's space: through the map and to length clip_norm, through the mechanism, and lifted back."""
        inside = rows if self.projection is None else behind(self.projection, rows, self.mechanism.clip_norm)
        noisy = np.empty_like(inside)
        self.mechanism.apply(np.ascontiguousarray(inside), noisy, generator, out_is_fresh=True)
        return noisy if self.projection is None else np.asarray(self.projection.lift(noisy), np.float32)


def mechanism_as_json(mechanism: Mechanism) -> dict[str, Any]:
    """A mechanism's name and arguments."""
    return {"name": mechanism.name, **{field.name: getattr(mechanism, field.name) for field in fields(mechanism)}}


# What a decoder may learn from: noise that has an epsilon.
LAWS = tuple(name for name in MECHANISMS if name != "empirical")


def mechanism_of(mechanism: str | None, dimension: int, *, epsilon: Any, delta: Any, clip_norm: Any) -> Mechanism | None:
    """A mechanism for one row of `dimension` elements, by its name in `hushvec.privatize` with these arguments."""
    if mechanism is None:
        if epsilon is not None:
            raise ValueError(f"epsilon must be left out without the name of a mechanism, got {epsilon!r}")
        return None
    kind = MECHANISMS[validate.choice("mechanism", mechanism, LAWS)]
    if epsilon is None:
        raise TypeError(f"epsilon must be given for mechanism {mechanism!r}")
    given = {"epsilon": epsilon, "delta": delta, "dimension": dimension, "clip_norm": clip_norm}
    return kind(**{field.name: given[field.name] for field in fields(kind) if field.name in given})


def public_generator(seed: int, purpose: str, number: int) -> Generator:
    """The key stream of one step of a run, by its seed and number: the same every time, and different for every step."""
    key = hashlib.blake2b(f"hushvec training noise {purpose} {seed} {number}".encode(), digest_size=32).digest()
    return Generator.unsafe_seeded(int.from_bytes(key, "little"))
