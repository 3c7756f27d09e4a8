"""Beam search for the tokens of a text, by a fixed rule, because the rule of transformers has changed between releases.

The rule is that of transformers 4.44 with early_stopping=False and length_penalty=1: a text's score is the mean log-probability of its
tokens, the end token included; a row is done when it has as many texts as beams and its best open beam, at its present length, is no
better than the worst of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Of beams that do not exist yet: at the first token there is one.
_NONE = -1e9


@dataclass(frozen=True)
class Found:
    """The texts found by a search: sequences int64 [n * kept, longest], best first, and the mean log-probability of each one's tokens.

    A token whose probability rounds to 1 does not count as one in that mean.
    """

    sequences: Tensor
    likelihoods: Tensor


@dataclass(frozen=True)
class _Text:
    score: float
    tokens: list[int]
    total: float
    uncertain: int

    @property
    def likelihood(self) -> float:
        return self.total / self.uncertain if self.uncertain else 0.0


@dataclass
class _Row:
    """The finished texts of a row."""

    beams: int
    texts: list[_Text] = field(default_factory=list)
    done: bool = False

    def add(self, text: _Text) -> None:
        if len(self.texts) == self.beams:
            worst = min(self.texts, key=_score)
            if text.score <= worst.score:
                return
            self.texts.remove(worst)
        self.texts.append(text)

    def is_complete(self, best_open: float) -> bool:
        return len(self.texts) == self.beams and min(map(_score, self.texts)) >= best_open

    def best(self, kept: int) -> list[_Text]:
        """Of equal ones, the latest first."""
        return sorted(self.texts, key=_score)[::-1][:kept]


def _score(text: _Text) -> float:
    return text.score


def beam_search(
    t5: Any, positions: Tensor, mask: Tensor, *, beams: int, kept: int, max_length: int, start: int, pad: int, end: int
) -> Found:
    """The best texts of each row.

    Args:
        t5: transformers.T5ForConditionalGeneration in evaluation mode.
        positions: [n, length, d_model], what its encoder reads, and `mask` [n, length].
        beams: of the search, at least 2.
        kept: texts of each row that are returned, at most `beams`.
        max_length: tokens at most, the start token included.
        start, pad, end: special tokens.
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
        logits, cache = _next(t5, states, attended, tokens[:, -1:], cache)
        steps = torch.log_softmax(logits, dim=-1)
        size = steps.shape[-1]
        scores, places = (steps + totals.reshape(-1, 1)).reshape(n, -1).topk(2 * beams, dim=1)
        parents, chosen = places // size, places % size
        counts = uncertain.gather(1, parents) + (steps.reshape(n, -1).gather(1, places) < 0)
        ends = chosen == end
        _finish(rows, tokens, scores, counts, (first_of + parents), ends, length)
        # The best of the others continue: at most one of two candidates per beam is an end.
        on = torch.sort(ends.to(torch.uint8), dim=1, stable=True).indices[:, :beams]
        totals, uncertain = scores.gather(1, on), counts.gather(1, on)
        source = (first_of + parents.gather(1, on)).reshape(-1)
        tokens = torch.cat([tokens[source], chosen.gather(1, on).reshape(-1, 1)], dim=1)
        cache = _reordered(cache, source)
        for row, best in zip(rows, scores[:, 0].tolist()):
            row.done = row.done or row.is_complete(best / length)
        if all(row.done for row in rows):
            break
    _finish_open(rows, tokens, totals, uncertain)
    texts = [text for row in rows for text in row.best(kept)]
    longest = min(max(len(text.tokens) for text in texts) + 1, max_length)
    padded = [(text.tokens + [end] + [pad] * longest)[:longest] for text in texts]
    likelihoods = torch.tensor([text.likelihood for text in texts], device=device)
    return Found(torch.tensor(padded, device=device), likelihoods)


def _next(t5: Any, states: Tensor, attended: Tensor, tokens: Tensor, cache: Any) -> tuple[Tensor, Any]:
    from transformers.modeling_outputs import BaseModelOutput

    answer = t5(
        encoder_outputs=BaseModelOutput(last_hidden_state=states),
        attention_mask=attended,
        decoder_input_ids=tokens,
        past_key_values=cache,
        use_cache=True,
    )
    return answer.logits[:, -1, :].float(), answer.past_key_values


def _reordered(cache: Any, source: Tensor) -> Any:
    if hasattr(cache, "reorder_cache"):
        cache.reorder_cache(source)
        return cache
    return tuple(tuple(tensor.index_select(0, source) for tensor in layer) for layer in cache)


def _finish(
    rows: list[_Row], tokens: Tensor, scores: Tensor, counts: Tensor, sources: Tensor, ends: Tensor, length: int
) -> None:
    """Record the texts that end here; only those among the best `beams` candidates count."""
    for place, rank in (ends[:, : rows[0].beams]).nonzero().tolist():
        if not rows[place].done:
            total = float(scores[place, rank])
            rows[place].add(_Text(total / length, tokens[sources[place, rank]].tolist(), total, int(counts[place, rank])))


def _finish_open(rows: list[_Row], tokens: Tensor, totals: Tensor, uncertain: Tensor) -> None:
    """The beams of rows that are not done are texts too, without an end."""
    length = tokens.shape[1] - 1
    for place, row in enumerate(rows):
        if not row.done:
            for beam, (total, count) in enumerate(zip(totals[place].tolist(), uncertain[place].tolist())):
                row.add(_Text(total / length, tokens[place * row.beams + beam].tolist(), total, count))
