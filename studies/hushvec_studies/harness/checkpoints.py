"""What training writes in the format that the library reads: tokenizers, and folders of vec2text checkpoints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushvec.embedders.checkpoints import CONFIG_FILE, TIDY, TOKENIZER_CONFIG_FILE, TOKENIZER_FILE, WEIGHT_FILES, Tokens
from hushvec.extend.helpers import needs_extra
from hushvec.text.inverters.vec2text.config import Vec2TextConfig
from hushvec_studies.harness.outputs import write_bytes

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import Corrector, InversionModel


_FIRST_MAP = "embedding_transform.0.weight"


def learned_byte_pairs(texts: Iterable[str], size: int, special_tokens: Sequence[str], *, feature: str, extra: str) -> Any:
    """A tokenizers.Tokenizer learned from texts, of at most `size` tokens: the special ones from 0 on, the 256 bytes, pairs."""
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


def tokenizer_files(tokens: Tokens) -> dict[str, str]:
    """The contents that `Tokens.read` reads, by file name."""
    settings = {TIDY: tokens.tidy, "tokenizer_class": "PreTrainedTokenizerFast"}
    return {TOKENIZER_FILE: tokens.tokenizer.to_str(), TOKENIZER_CONFIG_FILE: json.dumps(settings) + "\n"}


def config_json(config: Vec2TextConfig, kind: str) -> bytes:
    """The content of config.json; the T5 stands in it, so that the folder needs nothing else."""
    fields = {
        "architectures": [kind],
        "encoder_decoder": dict(config.t5),
        "embedding_dim": config.embedding_dim,
        "bottleneck_dim": config.bottleneck,
        "num_repeat_tokens": config.num_repeat_tokens,
        "max_seq_length": config.max_seq_length,
        "embedder_model_name": config.embedder_model_name,
        "corrector_ignore_hypothesis_embedding": config.ignore_hypothesis_embedding,
    }
    return (json.dumps(fields, indent=2) + "\n").encode()


def weight_bytes(model: Any, scale: float = 1.0) -> bytes:
    """model.safetensors of a model that learned on embeddings divided by `scale`, for embeddings as they are. A tensor of several
    names, as the table that encoder and decoder read tokens by, is stored once, under the first of them."""
    from safetensors.torch import save

    first: dict[int, str] = {}
    weights = {
        name: tensor.detach().contiguous().cpu()
        for name, tensor in model.state_dict().items()
        if first.setdefault(tensor.data_ptr(), name) == name
    }
    if scale != 1.0:
        weights[_FIRST_MAP] = weights[_FIRST_MAP] / scale
    content: bytes = save(weights, metadata={"format": "pt"})
    return content


def save_checkpoint(folder: Path, model: InversionModel | Corrector, tokens: Tokens) -> None:
    """Write a self-contained folder for `load_inversion` or `load_corrector`, config.json last: without it, it is unfinished."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).unlink(missing_ok=True)
    files = {name: text.encode() for name, text in tokenizer_files(tokens).items()}
    files |= {WEIGHT_FILES[0]: weight_bytes(model), CONFIG_FILE: config_json(model.config, model.kind)}
    for name, content in files.items():
        write_bytes(folder / name, content)
