"""The decoder's vocabulary: byte pairs learned from its corpus, with T5's special tokens."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hushvec.embedders.tokens import Tokens
from hushvec.text.byte_pairs import learned_byte_pairs

PAD, END = "<pad>", "</s>"
PAD_ID, END_ID = 0, 1  # as T5 numbers them


def learned_tokens(texts: Sequence[str], vocabulary: int) -> Tokens:
    """A byte-level tokenizer of at most `vocabulary` tokens that ends every text with </s>. Decoding gives every text back."""
    tokenizer = learned_byte_pairs(texts, vocabulary, [PAD, END], feature="training a decoder", extra="text")
    from tokenizers import processors

    tokenizer.post_processor = processors.TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    return Tokens(tokenizer, tidy=False)


def portable(tokenizer_json: str) -> str:
    """The same vocabulary in the format of older releases, which newer ones also read: a merge is "a b" instead of ["a", "b"].

    Byte-level tokens have no spaces in them, so nothing is lost.
    """
    content = json.loads(tokenizer_json)
    content["model"]["merges"] = [merge if isinstance(merge, str) else " ".join(merge) for merge in content["model"]["merges"]]
    return json.dumps(content, ensure_ascii=False) + "\n"
