"""Embeddings to text with vec2text checkpoints, and how the corrector improves hypotheses, step by step.

One step: the corrector writes max(beams, sequence_beams) candidates from the goal, the last hypothesis and its error; the best
are kept, one at the last step. Nothing stops early.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.embedders.checkpoints import Tokens, chosen_device
from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import SourceModel, as_embedding_model
from hushvec.text.corpus import checked_rows
from hushvec.text.inverters.vec2text.loading import Checkpoint, default_embedder, find_pair, load_corrector, load_inversion

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
    import torch

    n, dimension = goals.shape
    embeddings = _embedded(hypotheses, tokens, embed, goals)
    kept = 1   # hypotheses of each goal
    for step in range(search.num_steps):
        repeated = goals.repeat_interleave(kept, dim=0)
        found = corrector.generate(
            repeated, embeddings, hypotheses, hypotheses != corrector.config.token("pad_token_id"), max_length=search.max_length,
            num_beams=search.width, num_return_sequences=search.width,
        )
        candidates = found.sequences
        embeddings = _embedded(candidates, tokens, embed, goals)
        hypotheses = candidates
        if search.width == 1:
            continue
        scores = found.likelihoods.reshape(n, -1)
        if search.sequence_beams:
            scores = torch.nn.functional.cosine_similarity(embeddings.reshape(n, -1, dimension), goals[:, None, :], dim=2)
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


NUM_STEPS = 5
MAX_LENGTH = 128   # tokens of a text, as vec2text generates
BATCH = 32


class Vec2TextInverter:
    """Inverts embeddings with an inversion model and, step by step, a corrector.

    The same rows give the same texts; a row's text does not depend on the rows beside it, up to float32 rounding.

    Args:
        inversion: a loaded inversion model.
        corrector: a loaded corrector, or None for the inversion model alone.
        num_steps: steps of the corrector; 0 is the inversion model alone. None: 5 with a corrector, 0 without.
        beams: beams of the token search (`num_beams` in vec2text's generation settings).
        sequence_beams: hypotheses that are kept between steps by how close they embed (`sequence_beam_width` in vec2text); 0 or 1
            keeps one: with 0 the likeliest, with 1 the closest.
        embedder: an object with `embed(texts)`, the one whose vectors are inverted. None for GTR, where the checkpoint was trained on
            it: the encoder that the checkpoint carries, else sentence-transformers/gtr-t5-base from the hub.
        device: a torch device; None for CUDA if there is one, else the CPU.
        batch_size, max_length: rows that are decoded at once; tokens of a text at most.

    Raises:
        CheckpointError: no embedder was given, and the checkpoint has none that is known here.

    Edge cases:
        vec2text's own num_steps=None is 0 here; its 0 takes one step.

    Reference:
        Morris et al. 2023, "Text Embeddings Reveal (Almost) As Much As Text", section 4.

    Example:
        >>> from hushvec.text.inverters import Vec2TextInverter
        >>> inverter = Vec2TextInverter.from_pretrained("jxm/gtr__nq__32", num_steps=20, sequence_beams=4)  # doctest: +SKIP
        >>> inverter.invert(released.values)  # doctest: +SKIP
        ['The invoice is overdue.']
    """

    def __init__(
        self, inversion: Checkpoint, corrector: Checkpoint | None = None, *, num_steps: int | None = None, beams: int = 1,
        sequence_beams: int = 0, embedder: Any = None, device: Any = None, batch_size: int = BATCH, max_length: int = MAX_LENGTH,
    ) -> None:
        self._search = Search(
            num_steps=_steps(num_steps, corrector is not None), beams=validate.whole_number("beams", beams, at_least=1),
            sequence_beams=validate.whole_number("sequence_beams", sequence_beams, at_least=0),
            max_length=validate.whole_number("max_length", max_length, at_least=2),
        )
        self._batch_size = validate.whole_number("batch_size", batch_size, at_least=1)
        self._device = chosen_device(device)
        self._inversion = inversion
        inversion.model.to(self._device).eval()
        self._embedder = None if embedder is None else _checked_embedder(embedder, self.dimension)
        self._corrector: Checkpoint | None = None
        if corrector is not None and self._search.num_steps:
            for name in ("embedding_dim", "vocab_size"):
                ours, its = ({**one.t5, **vars(one)}[name] for one in (inversion.model.config, corrector.model.config))
                if ours != its:
                    raise ValueError(f"the inversion model and the corrector must have one {name}, got {ours} and {its}")
            self._corrector = corrector
            corrector.model.to(self._device).eval()
            self.embedder  # noqa: B018 - if there is none, fail now and not at the first row

    @classmethod
    def from_pretrained(
        cls, path_or_id: str | os.PathLike[str], corrector: str | os.PathLike[str] | None = None, *, num_steps: int | None = None,
        beams: int = 1, sequence_beams: int = 0, embedder: Any = None, t5: str | os.PathLike[str] | None = None,
        device: Any = None, batch_size: int = BATCH, max_length: int = MAX_LENGTH,
    ) -> Vec2TextInverter:
        """Load checkpoints from folders or the Hugging Face hub.

        Args:
            path_or_id: an inversion model: a folder with config.json, weights and, unless the T5's own folder has it,
                tokenizer.json; or a hub id such as "jxm/gtr__nq__32". Or a corrector: its inversion model is the one that its
                config.json names (corrector_model_from_pretrained), else NAME for a corrector NAME__correct.
            corrector: the corrector's folder or hub id. None: NAME__correct beside a folder NAME, or of that name on the hub.
            num_steps, beams, sequence_beams, embedder, device, batch_size, max_length: as above; steps need a corrector.
            t5: folder or hub id of the T5 that was trained; None for what the checkpoint brings or names ("t5-base").

        Raises:
            CheckpointError: a folder, file or field is missing, or the parts do not fit.
        """
        options = {name: value for name, value in locals().items() if name not in ("cls", "path_or_id", "corrector", "t5")}
        if num_steps is not None:
            validate.whole_number("num_steps", num_steps, at_least=0)
        path_or_id, corrector = find_pair(path_or_id, corrector, num_steps)
        inversion = load_inversion(path_or_id, t5=t5, device=device)
        loaded = None
        if corrector is not None and num_steps != 0:
            loaded = load_corrector(corrector, t5=t5, device=device)
        return cls(inversion, loaded, **options)

    @property
    def dimension(self) -> int:
        """Elements of an embedding."""
        return int(self._inversion.model.config.embedding_dim)

    @property
    def embedder(self) -> Any:
        """The embedder whose vectors are inverted."""
        return self._embedding_model.model

    @property
    def _embedding_model(self) -> SourceModel:
        if self._embedder is None:
            of = self._inversion if self._corrector is None else self._corrector
            found = default_embedder(self._inversion, max_length=of.model.config.max_seq_length, device=self._device)
            self._embedder = _checked_embedder(found, self.dimension)
        return self._embedder

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """One text for each row of a float array [n, dimension]."""
        rows = checked_rows(embeddings, self.dimension)
        texts: list[str] = []
        for start in range(0, len(rows), self._batch_size):
            texts += self._inverted(rows[start : start + self._batch_size])
        return texts

    def _inverted(self, rows: NDArray[np.float32]) -> list[str]:
        import torch

        search, inversion, tokens = self._search, self._inversion.model, self._inversion.tokens
        with torch.inference_mode():
            goals = torch.as_tensor(rows, device=self._device)
            if self._corrector is None:
                ids = inversion.generate(goals, max_length=search.max_length, num_beams=search.beams)
            else:
                corrector = self._corrector.model
                embed = partial(embedded_rows, self._embedding_model)
                first = inversion.generate(goals, max_length=corrector.config.max_seq_length)
                ids = corrected(corrector, tokens, embed, goals, first, search)
        return tokens.texts(ids.tolist())


def _checked_embedder(embedder: Any, dimension: int) -> SourceModel:
    model = as_embedding_model(embedder)
    if model.dimension not in (None, dimension):
        raise ValueError(f"embedder must give {dimension} elements for this checkpoint, got {model.dimension}")
    return model


def _steps(num_steps: int | None, has_corrector: bool) -> int:
    if num_steps is None:
        return NUM_STEPS if has_corrector else 0
    steps = validate.whole_number("num_steps", num_steps, at_least=0)
    if steps and not has_corrector:
        raise ValueError(f"num_steps must be 0 without a corrector, got {steps}")
    return steps
