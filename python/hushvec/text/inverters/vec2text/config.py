"""A checkpoint's config.json, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.embedders.checkpoints import CONFIG_FILE, CheckpointError, checked_t5, read_json, size_field

INVERSION = "InversionModel"
CORRECTOR = "CorrectorEncoderModel"
KINDS = {INVERSION: "an inversion model", CORRECTOR: "a corrector"}


@dataclass(frozen=True, kw_only=True)
class Vec2TextConfig:
    """The shape of an inversion model or a corrector.

    Args:
        t5: fields of transformers.T5Config. Needed: vocab_size, d_model, d_kv, d_ff, num_layers, num_heads.
        embedding_dim: elements of an embedding.
        num_repeat_tokens: encoder positions that an embedding becomes.
        max_seq_length: tokens of a first hypothesis, and of a hypothesis where it is embedded again.
        bottleneck_dim: width between the two linear maps of an embedding; None for embedding_dim.
        embedder_model_name: the embedder that the checkpoint was trained on, as the checkpoint names it.
        ignore_hypothesis_embedding: a corrector without feedback: it is told that its hypothesis embeds to the goal.
        separate_head: whether the output table is separate; None for what tie_word_embeddings of t5 says.
    """

    t5: Mapping[str, Any] = field(hash=False)
    embedding_dim: int
    num_repeat_tokens: int = 16
    max_seq_length: int = 32
    bottleneck_dim: int | None = None
    embedder_model_name: str = ""
    ignore_hypothesis_embedding: bool = False
    separate_head: bool | None = None

    def __post_init__(self) -> None:
        for name in ("embedding_dim", "num_repeat_tokens", "max_seq_length", "bottleneck"):
            validate.whole_number(name, getattr(self, name), at_least=1)
        validate.flag("ignore_hypothesis_embedding", self.ignore_hypothesis_embedding)
        object.__setattr__(self, "t5", checked_t5(self.t5, "t5"))
        separate = not self.t5["tie_word_embeddings"] if self.separate_head is None else self.separate_head
        validate.flag("separate_head", separate)
        object.__setattr__(self, "separate_head", separate)

    @property
    def bottleneck(self) -> int:
        """Width between the two linear maps of an embedding."""
        return self.embedding_dim if self.bottleneck_dim is None else self.bottleneck_dim

    def token(self, name: str) -> int:
        """A special token of T5: decoder_start_token_id, pad_token_id or eos_token_id."""
        return int(self.t5[name])


@dataclass(frozen=True)
class CheckpointFields:
    """config.json of a checkpoint as read: the T5 may stand in another folder, the embedding's size only in the weights."""

    source: str
    kind: str
    t5: Mapping[str, Any] | None
    t5_source: str | None
    sizes: Mapping[str, int]  # embedding_dim and bottleneck_dim, where they are given
    others: Mapping[str, Any]  # fields of Vec2TextConfig as they are
    inversion_source: str | None

    def complete(self, t5: Mapping[str, Any], embedding_dim: int, bottleneck_dim: int, separate_head: bool) -> Vec2TextConfig:
        """The configuration, completed from the weights and the T5's folder."""
        sizes = {"embedding_dim": embedding_dim, "bottleneck_dim": bottleneck_dim}
        for name, said in self.sizes.items():
            if said != sizes[name]:
                raise CheckpointError(f"{self.source}: {name} is {said} in {CONFIG_FILE}, but the weights have {sizes[name]}")
        return Vec2TextConfig(
            t5=t5, separate_head=separate_head, embedding_dim=embedding_dim, bottleneck_dim=bottleneck_dim, **self.others
        )


def read_fields(path: Path) -> CheckpointFields:
    """Read a checkpoint's config.json."""
    content = read_json(path)
    where = str(path)
    named = content.get("architectures")
    if not isinstance(named, list) or len(named) != 1 or named[0] not in KINDS:
        expected = " or ".join(f"['{kind}']" for kind in KINDS)
        raise CheckpointError(f"{where}: architectures must be {expected}, got {named!r}")
    for name, meaning in _REFUSED.items():
        if content.get(name) is not None and content[name] is not False:
            raise CheckpointError(f"{where}: {name} is {content[name]!r}: {meaning}")
    strategy = content.get("embedding_transform_strategy", "repeat")
    if strategy != "repeat":
        raise CheckpointError(f"{where}: embedding_transform_strategy must be 'repeat', got {strategy!r}")
    t5 = content.get("encoder_decoder")
    if t5 is not None and not isinstance(t5, dict):
        raise CheckpointError(f"{where}: encoder_decoder must be an object with the fields of a T5, got {validate.kind(t5)}")
    t5_source = _text(content, "model_name_or_path", where)
    if t5 is None and not t5_source:
        raise CheckpointError(f"{where} needs the field model_name_or_path (the T5 that was trained, such as 't5-base')")
    return CheckpointFields(
        source=where, kind=str(named[0]),
        t5=None if t5 is None else checked_t5(t5, f"{where}: encoder_decoder"),
        t5_source=t5_source,
        others={
            **{name: size_field(content, name, where) for name in ("num_repeat_tokens", "max_seq_length")},
            "embedder_model_name": _text(content, "embedder_model_api", where) or _text(content, "embedder_model_name", where) or "",
            "ignore_hypothesis_embedding": bool(content.get("corrector_ignore_hypothesis_embedding", False)),
        },
        sizes={name: size_field(content, name, where) for name in ("embedding_dim", "bottleneck_dim") if name in content},
        inversion_source=_text(content, "corrector_model_from_pretrained", where),
    )


# Variants of vec2text whose weights have another meaning than here.
_REFUSED = {
    "use_lora": "weights in 8 bits with adapters are not read here; merge and save them first",
    "embedder_fake_with_zeros": "this checkpoint was trained without embeddings",
    "embeddings_from_layer_n": "embeddings of a layer inside the embedder are not made here",
}


def _text(content: Mapping[str, Any], name: str, where: str) -> str | None:
    value = content.get(name)
    if value is not None and not isinstance(value, str):
        raise CheckpointError(f"{where}: {name} must be a string, got {value!r}")
    return value
