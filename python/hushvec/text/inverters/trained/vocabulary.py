"""A vocabulary of byte pairs learned from the corpus: no file from elsewhere, and no word that the corpus does not have."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hushvec.errors import MissingExtraError
from hushvec.text.tokens import Tokens

PAD, END = "<pad>", "</s>"
PAD_ID, END_ID = 0, 1  # as T5 numbers them


def learned_tokens(texts: Sequence[str], vocabulary: int) -> Tokens:
    """A byte-level tokenizer of at most `vocabulary` tokens that ends every text with </s>. Decoding gives every text back."""
    try:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    except ImportError:
        raise MissingExtraError("training a decoder", "text") from None
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    return Tokens(tokenizer, tidy=False)


def portable(tokenizer_json: str) -> str:
    """The same vocabulary in the words of older releases, which newer ones read, too: a merge is "a b", and not ["a", "b"].

    Byte-level tokens have no spaces in them, so nothing is lost.
    """
    content = json.loads(tokenizer_json)
    content["model"]["merges"] = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    return json.dumps(content, ensure_ascii=False) + "\n"
