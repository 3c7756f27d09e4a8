"""The two networks of vec2text: a T5 that reads an embedding, and a T5 that reads a hypothesis beside how far off it embeds.

Parameter names are those of vec2text's checkpoints. Reference: Morris et al. 2023, "Text Embeddings Reveal (Almost) As Much As
Text", sections 3 and 4.

This module needs torch and transformers and is imported where one of them is built or loaded.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig

from hushvec.text.inverters.vec2text.beams import Found, beam_search
from hushvec.text.inverters.vec2text.config import CORRECTOR, INVERSION, Vec2TextConfig

MAX_LENGTH = 128   # tokens of a text, as vec2text generates


class InversionModel(nn.Module):
    """Text from an embedding: two linear maps turn it into n encoder positions, T5 decodes from them.

    Args:
        config: its shape. Weights are random until a state dict is loaded.

    Example:
        >>> import torch
        >>> t5 = dict(vocab_size=20, d_model=8, d_kv=4, d_ff=16, num_layers=1, num_heads=2)
        >>> model = InversionModel(Vec2TextConfig(t5=t5, embedding_dim=6, num_repeat_tokens=3)).eval()
        >>> model.generate(torch.zeros(2, 6), max_length=5).shape[0]
        2
        >>> model(torch.zeros(2, 6), labels=torch.tensor([[4, 5, 1], [6, 1, -100]])).ndim
        0
    """

    kind = INVERSION

    def __init__(self, config: Vec2TextConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder_decoder = _t5(config)
        self.embedding_transform = _transform(config, dropout=self.encoder_decoder.config.dropout_rate)

    def encoder_input(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """What the T5 encoder reads for [n, embedding_dim]: [n, num_repeat_tokens, d_model] and its attention mask."""
        positions = _positions(self.embedding_transform, embeddings, self.config)
        return positions, torch.ones(positions.shape[:2], dtype=torch.long, device=positions.device)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of a token, for embeddings [n, embedding_dim] and labels [n, length], -100 behind the end token."""
        positions, mask = self.encoder_input(embeddings)
        loss: Tensor = self.encoder_decoder(inputs_embeds=positions, attention_mask=mask, labels=labels).loss
        return loss

    @torch.no_grad()
    def generate(self, embeddings: Tensor, *, max_length: int = MAX_LENGTH, num_beams: int = 1) -> Tensor:
        """The likeliest tokens that greedy (one beam) or beam search finds.

        Args:
            embeddings: [n, embedding_dim], on the model's device.
            max_length: tokens at most, the decoder's start token included.
            num_beams: beams of the token search.

        Returns:
            int64 [n, longest], each row the decoder's start token, the text, then eos and pads where it is shorter than the longest.
        """
        positions, mask = self.encoder_input(embeddings)
        sequences: Tensor = generated(self, positions, mask, max_length=max_length, num_beams=num_beams).sequences
        return sequences


class Corrector(nn.Module):
    """A better text from an embedding e, a hypothesis and the embedding h that the hypothesis has.

    The encoder reads LN([sep, T1(e), sep, T3(h), sep, T2(e - h), sep, tokens of the hypothesis]), sep being the eos token.
    """

    kind = CORRECTOR

    def __init__(self, config: Vec2TextConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder_decoder = _t5(config)
        self.embedding_transform_1 = _transform(config, dropout=0.0)
        self.embedding_transform_2 = _transform(config, dropout=0.0)
        self.embedding_transform_3 = _transform(config, dropout=0.0)
        self.layernorm = nn.LayerNorm(config.t5["d_model"])

    def encoder_input(
        self, embeddings: Tensor, hypothesis_embeddings: Tensor, hypotheses: Tensor, attended: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What the T5 encoder reads, and its attention mask; arguments as for `generate`."""
        if self.config.ignore_hypothesis_embedding:
            hypothesis_embeddings = embeddings
        look_up = self.encoder_decoder.get_input_embeddings()
        separators = torch.full((len(embeddings), 1), self.config.token("eos_token_id"), device=embeddings.device)
        separator = look_up(separators)
        parts = [
            separator,
            _positions(self.embedding_transform_1, embeddings, self.config),
            separator,
            _positions(self.embedding_transform_3, hypothesis_embeddings, self.config),
            separator,
            _positions(self.embedding_transform_2, embeddings - hypothesis_embeddings, self.config),
            separator,
        ]
        before = torch.cat(parts, dim=1)
        positions = self.layernorm(torch.cat([before, look_up(hypotheses)], dim=1))
        mask = torch.cat([torch.ones(before.shape[:2], dtype=torch.long, device=attended.device), attended.long()], dim=1)
        return positions, mask

    def forward(
        self, embeddings: Tensor, hypothesis_embeddings: Tensor, hypotheses: Tensor, attended: Tensor, labels: Tensor
    ) -> Tensor:
        """Mean cross-entropy of a token; arguments as for `generate`, labels as for `InversionModel`."""
        positions, mask = self.encoder_input(embeddings, hypothesis_embeddings, hypotheses, attended)
        loss: Tensor = self.encoder_decoder(inputs_embeds=positions, attention_mask=mask, labels=labels).loss
        return loss

    @torch.no_grad()
    def generate(
        self,
        embeddings: Tensor,
        hypothesis_embeddings: Tensor,
        hypotheses: Tensor,
        attended: Tensor,
        *,
        max_length: int = MAX_LENGTH,
        num_beams: int = 1,
        num_return_sequences: int = 1,
    ) -> Found:
        """Corrected token ids.

        Args:
            embeddings: [n, embedding_dim], the goal.
            hypothesis_embeddings: [n, embedding_dim], what the hypotheses embed to.
            hypotheses: int64 [n, length], token ids.
            attended: [n, length], 1 where a token counts.
            max_length: tokens at most, the decoder's start token included.
            num_beams: beams of the token search.
            num_return_sequences: beams of each row that are returned, best first.
        """
        positions, mask = self.encoder_input(embeddings, hypothesis_embeddings, hypotheses, attended)
        return generated(
            self, positions, mask, max_length=max_length, num_beams=num_beams, num_return_sequences=num_return_sequences
        )


def generated(
    model: InversionModel | Corrector,
    positions: Tensor,
    mask: Tensor,
    *,
    max_length: int,
    num_beams: int,
    num_return_sequences: int = 1,
) -> Found:
    """T5's search for tokens: greedy for one beam, with zeros as likelihoods."""
    start, pad, end = (model.config.token(f"{name}_token_id") for name in ("decoder_start", "pad", "eos"))
    if num_beams > 1:
        return beam_search(
            model.encoder_decoder,
            positions,
            mask,
            beams=num_beams,
            kept=num_return_sequences,
            max_length=max_length,
            start=start,
            pad=pad,
            end=end,
        )
    # Every setting is explicit: defaults differ between versions of transformers and checkpoints.
    settings = GenerationConfig(
        max_length=max_length,
        num_beams=1,
        do_sample=False,
        no_repeat_ngram_size=0,
        decoder_start_token_id=start,
        pad_token_id=pad,
        eos_token_id=end,
    )
    sequences = model.encoder_decoder.generate(inputs_embeds=positions, attention_mask=mask, generation_config=settings)
    return Found(sequences, torch.zeros(len(sequences), device=sequences.device))


def _t5(config: Vec2TextConfig) -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    t5 = T5ForConditionalGeneration(T5Config(**config.t5))
    if config.separate_head:
        # Newer releases of transformers tie the two regardless of the configuration.
        t5.lm_head.weight = nn.Parameter(t5.lm_head.weight.detach().clone())
    return t5


def _transform(config: Vec2TextConfig, dropout: float) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(config.embedding_dim, config.bottleneck),
        nn.Dropout(dropout),
        nn.GELU(),
        nn.Linear(config.bottleneck, config.t5["d_model"] * config.num_repeat_tokens),
    )


def _positions(transform: nn.Sequential, embeddings: Tensor, config: Vec2TextConfig) -> Tensor:
    positions: Tensor = transform(embeddings)
    return positions.reshape(len(embeddings), config.num_repeat_tokens, config.t5["d_model"])
