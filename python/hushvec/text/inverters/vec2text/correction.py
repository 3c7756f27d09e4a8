"""How the corrector improves hypotheses, step by step.

One step: the corrector writes candidates from the goal, the last hypothesis and how far off that embeds; with more than one
candidate for a goal the best are kept.

    beams            beams of the token search in every step
    sequence_beams   hypotheses of each goal that are kept between steps, ranked by the cosine between goal and embedding.
                     0: one, ranked by the mean log-probability of its tokens, as a plain beam search does

A step searches with max(beams, sequence_beams) beams and gets as many candidates of each hypothesis. The last step keeps one.
Every step is taken: nothing stops early.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec.embedders.tokens import Tokens

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import Corrector

Embed = Callable[[list[str]], NDArray[np.float32]]


@dataclass(frozen=True)
class Search:
    """Settings of a correction."""

    num_steps: int
    beams: int
    sequence_beams: int
    max_length: int

    @property
    def width(self) -> int:
        """Candidates of each hypothesis."""
        return max(self.beams, self.sequence_beams)


def corrected(corrector: Corrector, tokens: Tokens, embed: Embed, goals: Any, hypotheses: Any, search: Search) -> Any:
    """Token ids [n, longest] after search.num_steps >= 1 steps, from hypotheses [n, length] for goals [n, embedding_dim]."""
    n, dimension = goals.shape
    embeddings = _embedded(hypotheses, tokens, embed, goals)
    kept = 1   # hypotheses of each goal
    for step in range(search.num_steps):
        repeated = goals.repeat_interleave(kept, dim=0)
        found = corrector.generate(
            repeated,
            embeddings,
            hypotheses,
            hypotheses != corrector.config.token("pad_token_id"),
            max_length=search.max_length,
            num_beams=search.width,
            num_return_sequences=search.width,
        )
        candidates = found.sequences
        embeddings = _embedded(candidates, tokens, embed, goals)
        hypotheses = candidates
        if search.width == 1:
            continue
        closest = bool(search.sequence_beams)
        scores = _closeness(embeddings.reshape(n, -1, dimension), goals) if closest else found.likelihoods.reshape(n, -1)
        last = step == search.num_steps - 1
        kept = 1 if last else max(1, search.sequence_beams)
        chosen = _best(scores, candidates.reshape(n, scores.shape[1], -1), kept)
        hypotheses, embeddings = candidates[chosen], embeddings[chosen]
    return hypotheses


def _embedded(ids: Any, tokens: Tokens, embed: Embed, like: Any) -> Any:
    import torch

    rows = torch.as_tensor(embed(tokens.texts(ids.tolist())), dtype=like.dtype, device=like.device)
    if rows.shape != (len(ids), like.shape[1]):
        raise ValueError(f"embedder must give rows of shape {(len(ids), like.shape[1])} for this checkpoint, got {tuple(rows.shape)}")
    return rows


def _closeness(embeddings: Any, goals: Any) -> Any:
    import torch

    return torch.nn.functional.cosine_similarity(embeddings, goals[:, None, :], dim=2)


def _best(scores: Any, candidates: Any, kept: int) -> Any:
    """Rows of the candidates (flat over goals) that are kept, `kept` different ones of each goal, best first."""
    import torch

    per_goal = scores.shape[1]
    if kept == 1:
        return scores.argmax(dim=1) + torch.arange(len(scores), device=scores.device) * per_goal
    rows: list[int] = []
    for goal, order in enumerate(scores.topk(per_goal, dim=1).indices.tolist()):
        different: dict[tuple[int, ...], int] = {}
        for place in order:
            different.setdefault(tuple(candidates[goal, place].tolist()), place)
            if len(different) == kept:
                break
        rows.extend(goal * per_goal + place for place in different.values())
    return torch.tensor(rows, device=scores.device)
