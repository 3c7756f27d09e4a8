"""`Rewriter`: from texts to noisy vectors and back, one at a time or in bulk."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native._core import Generator
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.validate import also_called
from hushvec.embedders.answers import embedded_rows
from hushvec.embedders.norms import DEFAULT_CLIP_NORM, default_clip_norm
from hushvec.mechanisms import PublicProjection
from hushvec.receipts.labels import LabelReceipt
from hushvec.receipts.vectors import Receipt
from hushvec.release.charging import Budget, require_budget
from hushvec.release.vectors import require_projection
from hushvec.text.pii.redactor import Redactor
from hushvec.text.rewriting.choices import best_mechanism, choose
from hushvec.text.rewriting.chunks import Part, cut, joined
from hushvec.text.rewriting.pieces import TokenPieces
from hushvec.text.rewriting.plans import Plan, Planner
from hushvec.text.rewriting.results import Rewriting, RewrittenSpan
from hushvec.text.rewriting.terms import (
    AUTO,
    CHOICE,
    DOCUMENT_MECHANISMS,
    LEVELS,
    NOTE_NO_PUBLIC_TEXTS,
    REWRITING_MECHANISMS,
    Terms,
    clip_norm_notes,
    require_of_use,
)

Function = TypeVar("Function", bound=Callable[..., Any])

DOCUMENTS_AT_ONCE = 256

# A much longer text is probably a mistake, and would run for minutes.
MOST_CHARACTERS = 2_000_000

_TRIAL_DIMENSION = 8
_NO_CHUNK = "."

NOTE_CHUNKS = "covers the rewritten chunks; placeholders, their number and their places are set by rules and not covered"
NOTE_PADDED_CHUNKS = "covers the rewritten chunks; placeholders, their order and their number are set by rules and not covered"
NOTE_DOCUMENT = "the whole output follows from this one row and public data"
NOTE_OWN_TEXT = "rows are taken to depend on their own document only"
NOTE_PADDED = "the number of rows is max_chunks, whatever the text, and placeholders stand behind all chunks"


def seed_as_generator(function: Function) -> Function:
    """Decorator: an argument `seed` is passed on as a seeded `generator`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if "seed" in kwargs:
            seed = kwargs.pop("seed")
            if "generator" in kwargs:
                raise TypeError("generator must be given once, got seed as well, which means the same")
            if seed is not None:
                kwargs["generator"] = Generator.unsafe_seeded(validate.whole_number("seed", seed, at_least=0))
        return function(*args, **kwargs)

    return call  # type: ignore[return-value]


class Rewriter:
    """Embedder, inverter, redactor and terms, set up once and used for many texts.

    Args: as for `rewrite`, but `text` and `budget`.

    Raises: as for `rewrite`.

    Example:
        >>> from hushvec.text import Rewriter
        >>> rewriter = Rewriter(inverter="public.txt")  # doctest: +SKIP
        >>> [one.output for one in rewriter.rewrite_all(["The invoice is overdue.", "It rains."])]  # doctest: +SKIP
        ['...', '...']
    """

    @seed_as_generator
    @also_called(max_len="max_length", clip_radius="clip_norm", whitelist_categories="allow_categories")
    def __init__(
        self,
        *,
        epsilon: float = 16.0,
        delta: float = 1e-3,
        clip_norm: float | None = None,
        num_steps: int = 5,
        allow_categories: Iterable[str] | None = None,
        max_length: int = 32,
        device: str | None = None,
        generator: Generator | None = None,
        embedder: Any = None,
        inverter: Any = None,
        composition: str = "joint",
        max_chunks: int | None = None,
        mechanism: str = AUTO,
        level: str | None = None,
        projection: PublicProjection | str | None = AUTO,
        redactor: Redactor | None = None,
    ) -> None:
        chosen = _projection(projection)
        is_auto = validate.choice("mechanism", mechanism, (AUTO, *REWRITING_MECHANISMS)) == AUTO
        name = best_mechanism(inverter) if is_auto else mechanism
        if is_auto:
            require_of_use(name, composition=composition, has_projection=isinstance(chosen, PublicProjection))
        auto_notes = (NOTE_NO_PUBLIC_TEXTS.format(mechanism=name),) if is_auto and name != CHOICE else ()
        self._terms = Terms(epsilon, delta, DEFAULT_CLIP_NORM if clip_norm is None else clip_norm, name, composition)
        self._level = _level(level, name)
        self._max_chunks = None if max_chunks is None else validate.whole_number("max_chunks", max_chunks, at_least=1)
        if self._max_chunks is not None and self._level == "document":
            raise ValueError(
                f"max_chunks must be None for level 'document', where there is always one, got {max_chunks}: give level='chunk'"
            )
        validate.whole_number("num_steps", num_steps, at_least=0)
        validate.whole_number("max_length", max_length, at_least=1)
        self._generator = require_generator(generator)
        self._redactor = _redactor(redactor, allow_categories)
        self._require_noise_in_range()  # before the models load
        self._embedder, own = choose(embedder, inverter, max_length=max_length, num_steps=num_steps, device=device)
        _require_read("max_length", max_length, self._embedder.model)
        if clip_norm is None:
            self._terms = replace(self._terms, clip_norm=default_clip_norm(self._embedder.norm_bound))
            self._require_noise_in_range()
        self._chosen_notes = (*auto_notes, *clip_norm_notes(self._terms, clip_norm, self._embedder.norm_bound))
        self._pieces = TokenPieces(max_length, getattr(self._embedder.model, "tokenizer", None))
        self._planner = Planner(self._terms, own, chosen, self._generator, self._notes())

    @property
    def mechanism(self) -> str:
        """The mechanism of the releases; if "auto" was given, the one chosen."""
        return self._terms.mechanism

    def rewrite(self, text: str, *, budget: Budget | None = None) -> Rewriting:
        """Rewrite one text; see `hushvec.text.rewrite`."""
        return next(self.rewrite_all([text], budget=budget))

    def rewrite_all(self, texts: Iterable[str], *, budget: Budget | None = None) -> Iterator[Rewriting]:
        """Rewrite many texts, each a separate document with its receipt and charge.

        Args:
            texts: strings; read and rewritten some hundred at a time.
            budget: charged for each document, before it is released.

        Yields:
            A Rewriting for each text, in their order. An error ends the stream after everything that was released before it.

        Raises:
            Exception: as `hushvec.text.rewrite`; an error about a text names its position.
        """
        if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
            raise TypeError(f"texts must be a list of strings, got {validate.kind(texts)}")
        self._require_chargeable(budget)
        return self._stream(iter(texts), budget)

    def _stream(self, texts: Iterator[str], budget: Budget | None) -> Iterator[Rewriting]:
        done = 0
        while batch := list(itertools.islice(texts, DOCUMENTS_AT_ONCE)):
            drafts = [self._draft(text, done + position) for position, text in enumerate(batch)]
            rows = self._embedded(drafts)
            releases: list[_Released] = []
            failure: Exception | None = None
            try:
                for draft, own in zip(drafts, rows, strict=True):
                    releases.append(self._release(draft, own, budget))
            except Exception as error:  # what is paid for goes out first
                failure = error
            yield from self._inverted(releases)
            if failure is not None:
                raise failure
            done += len(batch)

    def _notes(self) -> tuple[str, ...]:
        """Notes for receipts about the level and about automatic choices."""
        if self._level == "document":
            return NOTE_DOCUMENT, NOTE_OWN_TEXT, *self._chosen_notes
        padded = (NOTE_PADDED_CHUNKS, NOTE_OWN_TEXT, NOTE_PADDED)
        return (*((NOTE_CHUNKS, NOTE_OWN_TEXT) if self._max_chunks is None else padded), *self._chosen_notes)

    def _require_noise_in_range(self) -> None:
        if self._terms.has_noise and not self._terms.is_choice:
            self._terms.mechanism_for(self._max_chunks or 1, _TRIAL_DIMENSION)

    def _require_chargeable(self, budget: Budget | None) -> None:
        if budget is None:
            return
        require_budget(budget)
        if not self._terms.has_noise:
            raise ValueError("budget must be None for an infinite epsilon: a text without noise has no privacy to account for")
        if self._generator.seeded:
            raise ValueError("budget must be None with a seeded generator: such a release has no privacy to account for")

    def _draft(self, text: Any, position: int) -> _Draft:
        """Redact and split a text, and refuse what cannot be rewritten."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a string, got {validate.kind(text)} at position {position}")
        if not text.strip():
            raise ValueError(f"text must not be empty, got {len(text)} blank characters at position {position}")
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"text must have at most {MOST_CHARACTERS} characters, got {len(text)} at position {position}")
        if self._level == "document":
            return _Draft(text, (Part(text, None, 0),), (self._redactor.redact(text).text,))
        parts = cut(text, self._redactor.detect(text), self._pieces)
        chunks = tuple(part.text for part in parts if part.chunk is not None)
        return _Draft(text, parts if self._max_chunks is None else joined(parts, self._max_chunks), chunks)

    def _embedded(self, drafts: Sequence[_Draft]) -> list[NDArray[np.float32]]:
        """The rows of each draft: all texts of a batch in one call, so that the model can sort them by length."""
        texts = [chunk.strip() for draft in drafts for chunk in draft.chunks]
        asked = texts or [_NO_CHUNK]  # the dimension is needed where chunks are filled up to max_chunks
        rows = embedded_rows(self._embedder, asked)[: len(texts)]
        ends = list(itertools.accumulate(len(draft.chunks) for draft in drafts))
        return [_mean_rows(own, draft.row_of_chunk) for own, draft in zip(np.split(rows, ends[:-1]), drafts)]

    def _release(self, draft: _Draft, rows: NDArray[np.float32], budget: Budget | None) -> _Released:
        """Charge, and add the noise: from here on the document's rows are public."""
        chunks = self._max_chunks or len(rows)
        if chunks == 0:
            return _Released(draft, None, rows, None)
        plan = self._planner.plan(chunks, rows.shape[1])
        return _Released(draft, plan, *plan.release(rows, budget))

    def _inverted(self, releases: Sequence[_Released]) -> Iterator[Rewriting]:
        """Texts for released rows, those of one plan in one call."""
        texts: dict[int, list[str]] = {}
        for plan in {id(one.plan): one.plan for one in releases if one.plan is not None}.values():
            group = [number for number, one in enumerate(releases) if one.plan is plan]
            answers = iter(plan.texts(np.concatenate([releases[number].values for number in group])))
            for number in group:
                texts[number] = list(itertools.islice(answers, len(releases[number].values)))
        for number, one in enumerate(releases):
            yield self._rewriting(one, texts.get(number, []))

    def _rewriting(self, one: _Released, texts: list[str]) -> Rewriting:
        filled = (Part("", None, number) for number in range(len(set(one.draft.row_of_chunk)), len(texts)))
        spans = tuple(_spans((*one.draft.parts, *filled), texts))
        # Where a placeholder stands among the chunks tells where the clean text had it, so with max_chunks all chunks come first.
        shown = spans if self._max_chunks is None else sorted(spans, key=lambda span: span.chunk_idx is None)
        plan = one.plan
        return Rewriting(
            original=one.draft.text,
            output=" ".join(words for span in shown if (words := (span.rewritten or span.placeholder or "").strip())),
            spans=spans,
            epsilon_total=0.0 if plan is None else float(self._terms.epsilon),
            delta_total=0.0 if one.receipt is None else self._terms.total_delta,
            epsilon_per_chunk=0.0 if plan is None else plan.shares.epsilon,
            delta_per_chunk=0.0 if plan is None else plan.shares.delta,
            noise_sigma=0.0 if plan is None else plan.sigma,
            scale=None if plan is None else plan.scale,
            n_chunks=len(texts),
            clip_norm=float(self._terms.clip_norm),
            mechanism=self._terms.mechanism,
            composition=self._terms.composition,
            level=self._level,
            receipt=one.receipt,
        )


@dataclass(frozen=True)
class _Draft:
    """A redacted and split text: `chunks` are embedded, and those that are joined make one row."""

    text: str
    parts: tuple[Part, ...]
    chunks: tuple[str, ...]

    @property
    def row_of_chunk(self) -> list[int]:
        return [part.chunk for part in self.parts if part.chunk is not None]


@dataclass(frozen=True)
class _Released:
    """Rows that went through their plan. Without rows there is no plan."""

    draft: _Draft
    plan: Plan | None
    values: NDArray[Any]
    receipt: Receipt | LabelReceipt | None


def _level(level: Any, mechanism: str) -> str:
    if level is None:
        return "document" if mechanism in DOCUMENT_MECHANISMS else "chunk"
    return validate.choice("level", level, LEVELS)


def _require_read(name: str, tokens: int, embedder: Any) -> None:
    """Refuse chunks that the embedder would truncate."""
    most = getattr(embedder, "max_length", None)
    if isinstance(most, int) and tokens > most:
        raise ValueError(f"{name} must be <= {most}, the tokens that the embedder reads, got {tokens}")


def _projection(projection: Any) -> PublicProjection | str | None:
    if projection is None or (isinstance(projection, str) and projection == AUTO):
        return projection
    return require_projection(projection)


def _redactor(redactor: Any, allow_categories: Iterable[str] | None) -> Redactor:
    if redactor is None:
        return Redactor(allow_categories=allow_categories)
    if allow_categories is not None:
        raise ValueError("allow_categories must be None with a redactor, which has its own")
    if not isinstance(redactor, Redactor):
        raise TypeError(f"redactor must be a hushvec.text.Redactor or None, got {validate.kind(redactor)}")
    return redactor


def _mean_rows(rows: NDArray[np.float32], numbers: Sequence[int]) -> NDArray[np.float32]:
    """The mean of the rows that have one number, for each number from 0. So every word of joined chunks counts; a model that read them
    as one text would stop at what it reads."""
    if len(set(numbers)) == len(rows):
        return rows
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    counts = np.diff(starts, append=len(rows))
    sums: NDArray[np.float64] = np.add.reduceat(rows, starts, axis=0, dtype=np.float64)
    return (sums / counts[:, None]).astype(np.float32)


def _spans(parts: Sequence[Part], texts: Sequence[str]) -> Iterator[RewrittenSpan]:
    """The parts with what became of them; the text of joined chunks stands at the first of them."""
    shown = -1
    for part in parts:
        found = part.span
        is_first = part.chunk is not None and part.chunk > shown
        shown = part.chunk if part.chunk is not None else shown
        yield RewrittenSpan(
            text=part.text,
            is_pii=found is not None,
            category=None if found is None else found.category,
            placeholder=None if found is None else found.placeholder,
            rewritten=texts[shown] if is_first else None,
            chunk_idx=part.chunk,
        )
