"""The model for a size, and its weights as a checkpoint in the format of vec2text.

The model learns on embeddings divided by their root mean square, whatever lengths the mechanism gives them; in the published
weights that division is part of the first linear map, so that they read embeddings as they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hushvec._util.lazy import needs_extra
from hushvec.text.inverters.trained.settings import Settings
from hushvec.text.inverters.trained.vocabulary import END_ID, PAD_ID
from hushvec.text.inverters.vec2text.config import Vec2TextConfig

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import InversionModel

# Standard deviations of the tables' first elements.
_READ_STD, _WRITTEN_STD = 0.05, 0.02

_FIRST_MAP = "embedding_transform.0.weight"


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
    """The model with random weights, from torch's generator.

    Tokens are read and written by separate tables, with smaller initial elements than T5's: its table has elements of size 1,
    which Adam moves too slowly. On 16,000 sentences (`tiny`, 160 steps, learning rate 4e-3) the held-out loss was 6.64 with T5's
    way, 6.18 with two tables, and 6.00 with two small ones.
    """
    with needs_extra("a trained decoder", "text"):
        from hushvec.text.inverters.vec2text.model import InversionModel
    from torch import nn

    model = InversionModel(config)
    nn.init.normal_(model.encoder_decoder.shared.weight, std=_READ_STD)
    nn.init.normal_(model.encoder_decoder.lm_head.weight, std=_WRITTEN_STD)
    return model


def published_weights(network: InversionModel, scale: float) -> bytes:
    """model.safetensors for embeddings as they are, from a network that learned on embeddings divided by `scale`."""
    import safetensors.torch

    tensors: dict[str, Any] = {}
    seen: set[int] = set()
    for name, tensor in network.state_dict().items():
        # The table that tokens are read by is shared by encoder and decoder: it is stored once, under its first name.
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            tensors[name] = tensor.detach().cpu().contiguous()
    tensors[_FIRST_MAP] = tensors[_FIRST_MAP] / scale
    content: bytes = safetensors.torch.save(tensors, metadata={"format": "pt"})
    return content


def parameter_count(network: InversionModel) -> int:
    return sum(parameter.numel() for parameter in network.parameters())
