"""Tiny checkpoints in the format of vec2text, the same bits wherever they are made: numpy and JSON alone, nothing of hushvec.

A T5 tokenizer of a few dozen pieces, an embedder (T5 encoder), an inversion model and a corrector, each weight drawn from its
name. They are scaled so that texts differ from embedding to embedding and from step to step, and mostly end by themselves.
"""

import json
import zlib
from pathlib import Path

import numpy as np

EMBEDDING_DIM = 768   # vec2text's correctors have no other for embedders of their own
REPEAT = 4
MAX_SEQ_LENGTH = 12
PAD, EOS, UNK = 0, 1, 2
EXTRA_IDS = 3

WORDS = (
    "the a of in to and was for on with at by from it is not he she they we one two red old new small large river house night"
    " light stone paper letter market garden window voice road winter summer water morning doctor teacher city"
)
PUNCTUATION = [".", ",", "?", "!", "'", "n't", "'s", "'m", "'ve", "'re"]
INNER = ["s", "ed", "ing", "ly", "er", "-"]
PIECES = [
    "<pad>", "</s>", "<unk>", "▁",
    *(f"▁{word}" for word in WORDS.split()),
    *(f"▁{mark}" for mark in PUNCTUATION),
    *PUNCTUATION[:4],
    *INNER,
    *(f"<extra_id_{i}>" for i in range(EXTRA_IDS)),
]   # fmt: skip
# Like T5's own table, larger than the tokenizer: some ids have no piece.
VOCABULARY = -(-(len(PIECES) + 2) // 8) * 8

T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 24,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 3,
    "relative_attention_num_buckets": 8,
    "relative_attention_max_distance": 20,
    "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "tie_word_embeddings": True,
    "pad_token_id": PAD,
    "eos_token_id": EOS,
    "decoder_start_token_id": PAD,
}
# As in T5 1.1: two inputs of the feed-forward layer, and an output table of its own.
GATED_T5 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
# Sizes that weights do not show are those of gtr-t5-base.
EMBEDDER_T5 = {
    **T5,
    "d_model": EMBEDDING_DIM,
    "d_ff": 16,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "relative_attention_max_distance": 128,
}

CONFIG = {
    "model_name_or_path": "t5",
    "embedder_model_name": "gtr_base",
    "embedder_model_api": None,
    "embedder_fake_with_zeros": False,
    "embedder_gaussian_noise_level": 0.0,
    "embedder_no_grad": True,
    "embedder_torch_dtype": "float32",
    "embedding_transform_strategy": "repeat",
    "embeddings_from_layer_n": None,
    "encoder_dropout_disabled": False,
    "decoder_dropout_disabled": False,
    "use_frozen_embeddings_as_input": True,
    "use_lora": False,
    "corrector_ignore_hypothesis_embedding": False,
    "max_seq_length": MAX_SEQ_LENGTH,
    "num_repeat_tokens": REPEAT,
}


def tokenizer_json():
    """A Unigram tokenizer that ends texts with </s>, as T5's does."""
    special = [*range(3), *range(len(PIECES) - EXTRA_IDS, len(PIECES))]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": PIECES[i],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in special
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}],
            "pair": [
                {"Sequence": {"id": "A", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
                {"Sequence": {"id": "B", "type_id": 0}},
                {"SpecialToken": {"id": "</s>", "type_id": 0}},
            ],
            "special_tokens": {"</s>": {"id": "</s>", "ids": [EOS], "tokens": ["</s>"]}},
        },
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {
            "type": "Unigram",
            "unk_id": UNK,
            "vocab": [[piece, 0.0 if i < 3 else -2.0 - 0.01 * i] for i, piece in enumerate(PIECES)],
            "byte_fallback": False,
        },
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "T5Tokenizer",
    "extra_ids": EXTRA_IDS,
    "additional_special_tokens": [f"<extra_id_{i}>" for i in range(EXTRA_IDS)],
    "pad_token": "<pad>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "model_max_length": 512,
}


# --- weights -----------------------------------------------------------------------------------------------------------


def drawn(name, shape, scale):
    """A float32 array from the name alone."""
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    return (generator.standard_normal(shape) * scale).astype(np.float32)


def t5_stack_shapes(prefix, t5, decoder):
    inner = t5["d_kv"] * t5["num_heads"]
    for layer in range(t5["num_decoder_layers" if decoder else "num_layers"]):
        block = f"{prefix}block.{layer}.layer."
        attentions = ["0.SelfAttention", "1.EncDecAttention"] if decoder else ["0.SelfAttention"]
        for attention in attentions:
            for part in "qkv":
                yield f"{block}{attention}.{part}.weight", (inner, t5["d_model"])
            yield f"{block}{attention}.o.weight", (t5["d_model"], inner)
        if layer == 0:
            shape = (t5["relative_attention_num_buckets"], t5["num_heads"])
            yield f"{block}0.SelfAttention.relative_attention_bias.weight", shape
        feed_forward = f"{block}{len(attentions)}.DenseReluDense"
        for part in ["wi_0", "wi_1"] if t5["feed_forward_proj"].startswith("gated") else ["wi"]:
            yield f"{feed_forward}.{part}.weight", (t5["d_ff"], t5["d_model"])
        yield f"{feed_forward}.wo.weight", (t5["d_model"], t5["d_ff"])
        for sublayer in range(len(attentions) + 1):
            yield f"{block}{sublayer}.layer_norm.weight", (t5["d_model"],)
    yield f"{prefix}final_layer_norm.weight", (t5["d_model"],)


def with_aliases(arrays):
    """The table of tokens by every name that it has in a checkpoint of vec2text, and the output table if it is the same."""
    table = arrays["encoder_decoder.shared.weight"]
    aliases = {f"encoder_decoder.{stack}.embed_tokens.weight": table for stack in ("encoder", "decoder")}
    return {"encoder_decoder.lm_head.weight": table, **aliases, **arrays}


def t5_shapes(prefix, t5):
    yield f"{prefix}shared.weight", (t5["vocab_size"], t5["d_model"])
    yield from t5_stack_shapes(f"{prefix}encoder.", t5, decoder=False)
    yield from t5_stack_shapes(f"{prefix}decoder.", t5, decoder=True)
    if not t5["tie_word_embeddings"]:
        yield f"{prefix}lm_head.weight", (t5["vocab_size"], t5["d_model"])


def transform_shapes(prefix):
    yield f"{prefix}0.weight", (EMBEDDING_DIM, EMBEDDING_DIM)
    yield f"{prefix}0.bias", (EMBEDDING_DIM,)
    yield f"{prefix}3.weight", (REPEAT * T5["d_model"], EMBEDDING_DIM)
    yield f"{prefix}3.bias", (REPEAT * T5["d_model"],)


def scale_of(name, shape):
    """What a sublayer adds outweighs the token that it reads, so that a text goes on to other tokens and ends."""
    if "relative_attention_bias" in name:
        return 5.0
    if name.endswith("bias"):
        return 0.3
    if len(shape) == 1:
        return 0.2
    if "shared" in name or "lm_head" in name:
        return 0.4
    fan_in = shape[1] ** 0.5
    if "embedding_transform" in name:
        return 3.0 / fan_in
    if ".q." in name or ".k." in name:
        return 0.9 / fan_in
    if ".o." in name or ".wo." in name:
        return 8.0 / fan_in
    return 2.5 / fan_in


def weights(shapes, seed):
    made = {}
    for name, shape in shapes:
        array = drawn(seed + name, shape, scale_of(name, shape))
        if "norm.weight" in name:
            array += np.float32(1)
        if "shared" in name or "lm_head" in name:
            array[EOS] *= np.float32(2.4)
        made[name] = array
    return made


def inversion_weights(t5=T5):
    return weights([*t5_shapes("encoder_decoder.", t5), *transform_shapes("embedding_transform.")], "inversion ")


def corrector_weights(t5=T5):
    shapes = list(t5_shapes("encoder_decoder.", t5))
    for i in (1, 2, 3):
        shapes += transform_shapes(f"embedding_transform_{i}.")
    shapes += [(f"layernorm.{part}", (T5["d_model"],)) for part in ("weight", "bias")]
    return weights(shapes, "corrector ")


def embedder_weights():
    """The encoder of a T5 by the names of its own folder."""
    shapes = [("shared.weight", (VOCABULARY, EMBEDDING_DIM)), *t5_stack_shapes("encoder.", EMBEDDER_T5, decoder=False)]
    return weights(shapes, "embedder ")


def carried_embedder():
    """The same encoder by the names that it has in an inversion checkpoint."""
    renamed = {name.replace("shared.", "encoder.embed_tokens."): array for name, array in embedder_weights().items()}
    return {f"embedder.{name.removeprefix('encoder.')}": array for name, array in renamed.items()}


def embeddings(n):
    """What is inverted: rows of about the length that the embedder's have, from a few centres with noise of their own."""
    centres = drawn("centres", (6, EMBEDDING_DIM), 0.6)
    return centres[np.arange(n) % 6] + drawn("embeddings", (n, EMBEDDING_DIM), 0.6)


# --- folders -----------------------------------------------------------------------------------------------------------

INVERSION, CORRECTOR = "tiny", "tiny__correct"


def write_json(path, content):
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")


def write_weights(folder, arrays):
    from safetensors.numpy import save_file

    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})


def write_t5_folder(folder, t5):
    """config.json and tokenizer of a T5's own folder; its weights are for the caller."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {"architectures": ["T5ForConditionalGeneration"], "model_type": "t5", **t5})
    write_json(folder / "tokenizer.json", tokenizer_json())
    write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)


def write_checkpoint(folder, kind, arrays, t5_folder, **fields):
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {"architectures": [kind], **CONFIG, "model_name_or_path": str(t5_folder), **fields})
    write_weights(folder, arrays)


def write_all(folder, t5=T5):
    """Below a folder: t5 (no weights), embedder, the inversion model, which carries the embedder, and the corrector."""
    folder = Path(folder)
    write_t5_folder(folder / "t5", t5)
    write_t5_folder(folder / "embedder", EMBEDDER_T5)
    write_weights(folder / "embedder", embedder_weights())
    inversion = {**with_aliases(inversion_weights(t5)), **carried_embedder()}
    write_checkpoint(folder / INVERSION, "InversionModel", inversion, folder / "t5")
    write_checkpoint(folder / CORRECTOR, "CorrectorEncoderModel", with_aliases(corrector_weights(t5)), folder / "t5")
    return folder
