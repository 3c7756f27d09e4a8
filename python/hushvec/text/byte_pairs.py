"""A byte-pair vocabulary learned from given texts alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hushvec._util.lazy import needs_extra


def learned_byte_pairs(texts: Iterable[str], size: int, special_tokens: Sequence[str], *, feature: str, extra: str) -> Any:
    """A tokenizers.Tokenizer of at most `size` tokens, the special ones first. Decoding gives every text back.

    Args:
        texts: what it learns from.
        size: tokens at most; never fewer than the special ones and the 256 bytes.
        special_tokens: numbered from 0 in this order.
        feature, extra: what an error says where the package is missing.
    """
    with needs_extra(feature, extra):
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=list(special_tokens),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
