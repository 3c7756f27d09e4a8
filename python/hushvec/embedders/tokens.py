"""Between texts and token ids, by the tokenizers library alone: the same in every release of transformers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.embedders.checkpoints import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, CheckpointError, read_json, require_file

# What English tokenizers put a space before and a reader does not, in the order in which it is replaced.
_SPACED = [
    *((f" {mark}", mark) for mark in ".?!,"),
    (" ' ", "'"),
    *((f" {ending}", ending) for ending in ("n't", "'m", "'s", "'ve", "'re")),
]
_TIDY = "clean_up_tokenization_spaces"


class Tokens:
    """A tokenizer.

    Args:
        tokenizer: a tokenizers.Tokenizer.
        tidy: whether texts are made without the space before a full stop and the like.
    """

    def __init__(self, tokenizer: Any, *, tidy: bool = True) -> None:
        self.tokenizer = tokenizer
        self.tidy = tidy
        tokenizer.no_padding()
        tokenizer.no_truncation()

    @classmethod
    def read(cls, folder: Path) -> Tokens:
        """The tokenizer of a folder: tokenizer.json, and what tokenizer_config.json says of spaces if it is there."""
        with needs_extra("reading a tokenizer", "text"):
            from tokenizers import Tokenizer
        path = require_file(folder, TOKENIZER_FILE, "the tokenizer; `save_pretrained` of transformers' fast tokenizers writes one")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises Exception itself
            raise CheckpointError(f"{path} cannot be read as a tokenizer: {error}") from None
        config = folder / TOKENIZER_CONFIG_FILE
        # Silent configurations are those of older releases of transformers, which tidied.
        tidy = read_json(config).get(_TIDY, True) if config.is_file() else True
        return cls(tokenizer, tidy=bool(tidy))

    def files(self) -> dict[str, str]:
        """What `read` reads, by file name."""
        return {
            TOKENIZER_FILE: self.tokenizer.to_str(),
            TOKENIZER_CONFIG_FILE: f'{{"{_TIDY}": {str(self.tidy).lower()}, "tokenizer_class": "PreTrainedTokenizerFast"}}\n',
        }

    @property
    def size(self) -> int:
        """Ids are below this."""
        return int(max(self.tokenizer.get_vocab().values(), default=-1)) + 1

    def ids(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        """Token ids of texts, special tokens included, at most max_length of them each."""
        self.tokenizer.enable_truncation(max_length)
        try:
            return [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        finally:
            self.tokenizer.no_truncation()

    def texts(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Texts of token ids, without special tokens; ids that the tokenizer does not have are left out."""
        texts = self.tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)
        return [_tidied(text) for text in texts] if self.tidy else list(texts)


def _tidied(text: str) -> str:
    for spaced, tidy in _SPACED:
        text = text.replace(spaced, tidy)
    return text
