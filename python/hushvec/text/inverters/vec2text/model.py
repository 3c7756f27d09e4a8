"""The two networks of vec2text: a T5 that reads an embedding, and a T5 that reads a hypothesis beside how far off it embeds.

Parameter names are those of vec2text's checkpoints (Morris et al. 2023, "Text Embeddings Reveal (Almost) As Much As Text").
"""

from __future__ import annotations

from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration
from transformers.modeling_outputs import BaseModelOutput

from hushvec.text.inverters.vec2text.config import CORRECTOR, INVERSION, Vec2TextConfig

# Of beams that do not exist yet: at the first token there is one.
_NONE = -1e9


@dataclass(frozen=True)
class Found:
    """The texts found by a search: sequences int64 [n * kept, longest], best first, and the mean log-probability of each one's tokens.

    A token whose probability rounds to 1 does not count as one in that mean.
    """

    sequences: Tensor
    likelihoods: Tensor


class _Text(NamedTuple):
    score: float
    tokens: list[int]
    likelihood: float


_score = itemgetter(0)


@dataclass
class _Row:
    beams: int
    texts: list[_Text] = field(default_factory=list)
    done: bool = False

    def add(self, tokens: Tensor, length: int, total: float, uncertain: int) -> None:
        text = _Text(total / length, tokens.tolist(), total / uncertain if uncertain else 0.0)
        if len(self.texts) == self.beams:
            worst = min(self.texts, key=_score)
            if text.score <= worst.score:
                return
            self.texts.remove(worst)
        self.texts.append(text)


def beam_search(
    t5: Any, positions: Tensor, mask: Tensor, *, beams: int, kept: int, max_length: int, start: int, pad: int, end: int
) -> Found:
    """The best texts of each row.

    Args:
        t5: transformers.T5ForConditionalGeneration in evaluation mode.
        positions: [n, length, d_model], what its encoder reads, and `mask` [n, length].
        beams, kept: of the search, at least 2; texts of each row that are returned.
        max_length, start, pad, end: tokens at most, the start token included; special tokens.
    """
    n, device = len(positions), positions.device
    states = t5.encoder(inputs_embeds=positions, attention_mask=mask).last_hidden_state.repeat_interleave(beams, dim=0)
    attended = mask.repeat_interleave(beams, dim=0)
    tokens = torch.full((n * beams, 1), start, dtype=torch.long, device=device)
    totals = torch.full((n, beams), _NONE, device=device)
    totals[:, 0] = 0.0
    uncertain = torch.zeros((n, beams), dtype=torch.long, device=device)
    first_of = torch.arange(n, device=device)[:, None] * beams
    rows = [_Row(beams) for _ in range(n)]
    cache = None
    for length in range(1, max_length):
        answer = t5(
            encoder_outputs=BaseModelOutput(last_hidden_state=states), attention_mask=attended, decoder_input_ids=tokens[:, -1:],
            past_key_values=cache, use_cache=True,
        )
        cache = answer.past_key_values
        steps = torch.log_softmax(answer.logits[:, -1, :].float(), dim=-1)
        size = steps.shape[-1]
        scores, places = (steps + totals.reshape(-1, 1)).reshape(n, -1).topk(2 * beams, dim=1)
        parents, chosen = places // size, places % size
        counts = uncertain.gather(1, parents) + (steps.reshape(n, -1).gather(1, places) < 0)
        ends = chosen == end
        for place, rank in ends[:, :beams].nonzero().tolist():  # only those among the best candidates count
            if not rows[place].done:
                ended = tokens[place * beams + int(parents[place, rank])]
                rows[place].add(ended, length, float(scores[place, rank]), int(counts[place, rank]))
        # The best of the others continue: at most one of two candidates per beam is an end.
        on = torch.sort(ends.to(torch.uint8), dim=1, stable=True).indices[:, :beams]
        totals, uncertain = scores.gather(1, on), counts.gather(1, on)
        source = (first_of + parents.gather(1, on)).reshape(-1)
        tokens = torch.cat([tokens[source], chosen.gather(1, on).reshape(-1, 1)], dim=1)
        if hasattr(cache, "reorder_cache"):
            cache.reorder_cache(source)
        else:
            cache = tuple(tuple(tensor.index_select(0, source) for tensor in layer) for layer in cache)
        for row, best in zip(rows, scores[:, 0].tolist()):
            row.done = row.done or (len(row.texts) == beams and min(map(_score, row.texts)) >= best / length)
        if all(row.done for row in rows):
            break
    for place, row in enumerate(rows):
        if not row.done:  # its beams are texts too, without an end
            for beam, (total, count) in enumerate(zip(totals[place].tolist(), uncertain[place].tolist())):
                row.add(tokens[place * beams + beam], tokens.shape[1] - 1, total, count)
    # The best first; the latest of equal ones.
    texts = [text for row in rows for text in sorted(row.texts, key=_score)[::-1][:kept]]
    longest = min(max(len(text.tokens) for text in texts) + 1, max_length)
    padded = [(text.tokens + [end] + [pad] * longest)[:longest] for text in texts]
    likelihoods = torch.tensor([text.likelihood for text in texts], device=device)
    return Found(torch.tensor(padded, device=device), likelihoods)


MAX_LENGTH = 128   # tokens of a text, as vec2text generates


class _Network(nn.Module):
    """What both networks have: a T5, and the search for what it writes."""

    def __init__(self, config: Vec2TextConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder_decoder: Any = T5ForConditionalGeneration(T5Config(**config.t5))
        if config.separate_head:
            # Newer releases of transformers tie the two regardless of the configuration.
            head = self.encoder_decoder.lm_head
            head.weight = nn.Parameter(head.weight.detach().clone())

    def _transform(self, dropout: float = 0.0) -> nn.Sequential:
        config = self.config
        return nn.Sequential(
            nn.Linear(config.embedding_dim, config.bottleneck), nn.Dropout(dropout), nn.GELU(),
            nn.Linear(config.bottleneck, config.t5["d_model"] * config.num_repeat_tokens),
        )

    def _positions(self, transform: nn.Sequential, embeddings: Tensor) -> Tensor:
        positions: Tensor = transform(embeddings)
        return positions.reshape(len(embeddings), self.config.num_repeat_tokens, self.config.t5["d_model"])

    def _loss(self, positions: Tensor, mask: Tensor, labels: Tensor) -> Tensor:
        loss: Tensor = self.encoder_decoder(inputs_embeds=positions, attention_mask=mask, labels=labels).loss
        return loss

    def _generated(self, positions: Tensor, mask: Tensor, max_length: int, num_beams: int, kept: int = 1) -> Found:
        """T5's search for tokens: greedy for one beam, with zeros as likelihoods."""
        t5 = self.encoder_decoder
        start, pad, end = (self.config.token(f"{name}_token_id") for name in ("decoder_start", "pad", "eos"))
        if num_beams > 1:
            ends = {"start": start, "pad": pad, "end": end}
            return beam_search(t5, positions, mask, beams=num_beams, kept=kept, max_length=max_length, **ends)
        # Every setting is explicit: defaults differ between versions of transformers and checkpoints.
        settings = GenerationConfig(
            max_length=max_length, num_beams=1, do_sample=False, no_repeat_ngram_size=0, decoder_start_token_id=start,
            pad_token_id=pad, eos_token_id=end,
        )
        sequences = t5.generate(inputs_embeds=positions, attention_mask=mask, generation_config=settings)
        return Found(sequences, torch.zeros(len(sequences), device=sequences.device))


class InversionModel(_Network):
    """Text from an embedding: two linear maps turn it into n encoder positions, T5 decodes from them.

    Args:
        config: its shape. Weights are random until a state dict is loaded.
    """

    kind = INVERSION

    def __init__(self, config: Vec2TextConfig) -> None:
        super().__init__(config)
        self.embedding_transform = self._transform(self.encoder_decoder.config.dropout_rate)

    def encoder_input(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """The input of the T5 encoder for [n, embedding_dim]: [n, num_repeat_tokens, d_model] and its attention mask."""
        positions = self._positions(self.embedding_transform, embeddings)
        return positions, torch.ones(positions.shape[:2], dtype=torch.long, device=positions.device)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Mean cross-entropy of a token, for embeddings [n, embedding_dim] and labels [n, length], -100 behind the end token."""
        return self._loss(*self.encoder_input(embeddings), labels)

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
        return self._generated(*self.encoder_input(embeddings), max_length, num_beams).sequences


class Corrector(_Network):
    """A better text from an embedding e, a hypothesis and the embedding h that the hypothesis has.

    The encoder reads LN([sep, T1(e), sep, T3(h), sep, T2(e - h), sep, tokens of the hypothesis]), sep being the eos token.
    """

    kind = CORRECTOR

    def __init__(self, config: Vec2TextConfig) -> None:
        super().__init__(config)
        self.embedding_transform_1 = self._transform()
        self.embedding_transform_2 = self._transform()
        self.embedding_transform_3 = self._transform()
        self.layernorm = nn.LayerNorm(config.t5["d_model"])

    def encoder_input(
        self, embeddings: Tensor, hypothesis_embeddings: Tensor, hypotheses: Tensor, attended: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The input of the T5 encoder, and its attention mask; arguments as for `generate`."""
        if self.config.ignore_hypothesis_embedding:
            hypothesis_embeddings = embeddings
        look_up = self.encoder_decoder.get_input_embeddings()
        separators = torch.full((len(embeddings), 1), self.config.token("eos_token_id"), device=embeddings.device)
        separator = look_up(separators)
        parts = [
            separator,
            self._positions(self.embedding_transform_1, embeddings),
            separator,
            self._positions(self.embedding_transform_3, hypothesis_embeddings),
            separator,
            self._positions(self.embedding_transform_2, embeddings - hypothesis_embeddings),
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
        return self._loss(*self.encoder_input(embeddings, hypothesis_embeddings, hypotheses, attended), labels)

    @torch.no_grad()
    def generate(
        self, embeddings: Tensor, hypothesis_embeddings: Tensor, hypotheses: Tensor, attended: Tensor, *, max_length: int,
        num_beams: int, num_return_sequences: int,
    ) -> Found:
        """Corrected token ids.

        Args:
            embeddings, hypothesis_embeddings: [n, embedding_dim], the goal, and what the hypotheses embed to.
            hypotheses, attended: int64 [n, length], token ids; 1 where a token counts.
            max_length, num_beams, num_return_sequences: as `max_length`, `beams` and `kept` of `beam_search`.
        """
        positions, mask = self.encoder_input(embeddings, hypothesis_embeddings, hypotheses, attended)
        return self._generated(positions, mask, max_length, num_beams, num_return_sequences)
