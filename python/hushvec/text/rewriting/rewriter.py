"""`Rewriter`: from texts to noisy vectors and back, one at a time or in bulk."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from hushvec.text.rewriting.plans import (  # isort: skip
    AUTO, CHOICE, NOTE_NO_PUBLIC_TEXTS, DocumentTerms, Plan, Planner, is_of_documents, rewriting_mechanisms,
)
from hushvec._native._core import Generator
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.keywords import moved
from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import DEFAULT_CLIP_NORM, default_clip_norm
from hushvec.extend import Budget, require_budget, require_projection
from hushvec.mechanisms import Gaussian, PublicProjection
from hushvec.receipts import LabelReceipt, Receipt
from hushvec.text.pii.redactor import Redactor, with_other_names
from hushvec.text.rewriting.choices import best_mechanism, choose
from hushvec.text.rewriting.chunks import Chunking, Part, TokenPieces, cut, joined
from hushvec.text.rewriting.results import Rewriting, RewrittenSpan

if TYPE_CHECKING:
    from typing_extensions import Unpack

DOCUMENTS_AT_ONCE = 256

# A much longer text is probably a mistake, and would run for minutes.
MOST_CHARACTERS = 2_000_000

_TRIAL_DIMENSION = 8
_NO_CHUNK = "."

NOTE_NORM_BOUND = "clip_norm is {clip_norm:g}, the stated bound on the norms of the embedder's rows, which are clipped to it"
NOTE_NO_NORM_BOUND = "clip_norm is {clip_norm:g}, the default: no bound on the norms of the embedder's rows is known"
NOTE_CHUNKS = "covers the rewritten chunks; placeholders, their number and their places are set by rules and not covered"
NOTE_PADDED_CHUNKS = "covers the rewritten chunks; placeholders, their order and their number are set by rules and not covered"
NOTE_DOCUMENT = "the whole output follows from this one row and public data"
NOTE_OWN_TEXT = "rows are taken to depend on their own document only"
NOTE_PADDED = "the number of rows is max_chunks, whatever the text, and placeholders stand behind all chunks"


def _seeded(seed: Any) -> Generator:
    return Generator.unsafe_seeded(validate.whole_number("seed", seed, at_least=0))


# Where arguments are that `Rewriter` had by themselves.
_PLACES = {name: f"chunking=Chunking({name}=...)" for name in Chunking.__dataclass_fields__}
_PLACES["allow_categories"] = "redactor=Redactor(allow_categories=...)"


class Rewriter:
    """Embedder, inverter, redactor and terms, set up once and used for many texts. Arguments and errors as for `rewrite`.

    Example:
        >>> from hushvec.text import Rewriter
        >>> rewriter = Rewriter(inverter="public.txt")  # doctest: +SKIP
        >>> [one.output for one in rewriter.rewrite_all(["The invoice is overdue.", "It rains."])]  # doctest: +SKIP
        ['...', '...']
    """

    @with_other_names(
        clip_radius=("clip_norm", lambda radius: radius),
        max_len=("chunking", lambda tokens: Chunking(max_length=tokens)),
        whitelist_categories=("redactor", lambda names: Redactor(allow_categories=names)),
        seed=("generator", _seeded),
    )
    @moved(_PLACES)
    def __init__(
        self,
        *,
        epsilon: float = 16.0,
        delta: float = 1e-3,
        clip_norm: float | None = None,
        num_steps: int = 5,
        chunking: Chunking | None = None,
        device: str | None = None,
        generator: Generator | None = None,
        embedder: Any = None,
        inverter: Any = None,
        mechanism: str = AUTO,
        projection: PublicProjection | str | None = AUTO,
        redactor: Redactor | None = None,
    ) -> None:
        is_public_map = not (projection is None or (isinstance(projection, str) and projection == AUTO))
        chosen = require_projection(projection) if is_public_map else projection
        is_auto = validate.choice("mechanism", mechanism, (AUTO, *rewriting_mechanisms())) == AUTO
        name = best_mechanism(inverter) if is_auto else mechanism
        validate.instance("chunking", chunking, Chunking | None, "a hushvec.text.Chunking or None")
        cuts = chunking or Chunking()
        composition = cuts.composition
        # What mechanism "auto" would ignore is refused.
        if is_auto and composition != "joint" and name != Gaussian.name:
            raise ValueError(f"composition must be 'joint' with mechanism 'auto', got {composition!r}: it is of mechanism 'gaussian'")
        if is_auto and is_public_map and name == CHOICE:
            raise ValueError("projection must be 'auto' or None with mechanism 'auto' and public texts: no row is released")
        self._terms = DocumentTerms(epsilon, delta, DEFAULT_CLIP_NORM if clip_norm is None else clip_norm, name, composition)
        by_mechanism = "document" if is_of_documents(name) else "chunk"
        self._level, self._max_chunks = cuts.level or by_mechanism, cuts.max_chunks
        if self._max_chunks is not None and self._level == "document":
            raise ValueError(
                f"max_chunks must be None for level 'document', where there is always one, got {self._max_chunks}: give level='chunk'"
            )
        validate.whole_number("num_steps", num_steps, at_least=0)
        self._generator = require_generator(generator)
        validate.instance("redactor", redactor, Redactor | None, "a hushvec.text.Redactor or None")
        self._redactor = Redactor() if redactor is None else redactor
        self._require_noise_in_range()  # before the models load
        self._embedder, own = choose(embedder, inverter, max_length=cuts.max_length, num_steps=num_steps, device=device)
        most = getattr(self._embedder.model, "max_length", None)
        if isinstance(most, int) and cuts.max_length > most:
            raise ValueError(f"max_length must be <= {most}, the tokens that the embedder reads, got {cuts.max_length}")
        chosen_notes: list[str] = []
        if is_auto and name != CHOICE:
            chosen_notes.append(NOTE_NO_PUBLIC_TEXTS.format(mechanism=name))
        if clip_norm is None:
            bound = self._embedder.norm_bound
            self._terms = replace(self._terms, clip_norm=default_clip_norm(bound))
            self._require_noise_in_range()
            if not is_of_documents(name):
                note = NOTE_NO_NORM_BOUND if bound is None else NOTE_NORM_BOUND
                chosen_notes.append(note.format(clip_norm=self._terms.clip_norm))
        self._pieces = TokenPieces(cuts.max_length, getattr(self._embedder.model, "tokenizer", None))
        notes: tuple[str, ...] = (NOTE_DOCUMENT, NOTE_OWN_TEXT) if self._level == "document" else (NOTE_CHUNKS, NOTE_OWN_TEXT)
        if self._max_chunks is not None:
            notes = (NOTE_PADDED_CHUNKS, NOTE_OWN_TEXT, NOTE_PADDED)
        self._planner = Planner(self._terms, own, chosen, self._generator, (*notes, *chosen_notes))

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
            A Rewriting for each text, in their order. An error names the position of its text, and ends the stream after everything
            that was released before it.
        """
        validate.instance("texts", texts, Iterable, "a list of strings", but=(str, bytes))
        if budget is not None:
            require_budget(budget)
            if not self._terms.has_noise:
                raise ValueError("budget must be None for an infinite epsilon: a text without noise has no privacy to account for")
            if self._generator.seeded:
                raise ValueError("budget must be None with a seeded generator: such a release has no privacy to account for")
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

    def _require_noise_in_range(self) -> None:
        if self._terms.has_noise and not self._terms.is_choice:
            self._terms.mechanism_for(self._max_chunks or 1, _TRIAL_DIMENSION)

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
            n_chunks=len(texts), clip_norm=float(self._terms.clip_norm), mechanism=self._terms.mechanism,
            composition=self._terms.composition, level=self._level, receipt=one.receipt,
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


def _mean_rows(rows: NDArray[np.float32], numbers: Sequence[int]) -> NDArray[np.float32]:
    """The mean of the rows that have one number, so that every word of joined chunks counts."""
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
            text=part.text, is_pii=found is not None,
            category=None if found is None else found.category,
            placeholder=None if found is None else found.placeholder,
            rewritten=texts[shown] if is_first else None,
            chunk_idx=part.chunk,
        )


class RewriterSettings(TypedDict, total=False):
    """The arguments of `Rewriter`, whose defaults it has, for `rewrite`."""

    epsilon: float
    delta: float
    clip_norm: float | None
    num_steps: int
    chunking: Chunking | None
    device: str | None
    generator: Generator | None
    embedder: Any
    inverter: Any
    mechanism: str
    projection: PublicProjection | str | None
    redactor: Redactor | None


def rewrite(text: str, *, budget: Budget | None = None, **settings: Unpack[RewriterSettings]) -> Rewriting:
    """Rewrite a text with differential privacy: redact, split, embed, clip, add noise, invert, join.

    Args:
        text: any string with a character in it; at most 2,000,000 characters.
        epsilon: > 0, for the whole document. `math.inf`: no noise and no guarantee, to see what embedding and inversion do alone.
        delta: in (0, 1), for the whole document, for "gaussian" alone.
        clip_norm: C, the L2 norm that embeddings are clipped to. None: the bound on the norms of the embedder's rows if one is known
            (1.0 for unit vectors such as MiniLM's), else 1.5, which suits GTR; the receipt says which. No influence on "privunit"
            and "randomized_response".
        num_steps: rounds of correction, for vec2text checkpoints with a corrector.
        chunking: a `Chunking`: level, tokens in a chunk, a public number of chunks, and their composition.
        device: "cpu", "cuda", ... for MiniLM and models of a path or a hub id; None: CUDA if there is one.
        generator: key stream of the noise; None: that of the process. A seeded one gives reproducible noise and NO privacy.
        embedder: None: all-MiniLM-L6-v2 from its wheel, or the one that the inverter was made for. A folder or hub id (T5 encoders
            such as GTR are mean-pooled and not normalized), or an object with `embed(texts)`, or a model of a known library.
        inverter: None: the public sentences that ship with hushvec, by their posterior. A file: the same with its lines, JSON lines or
            saved corpus (.npz) as public texts. A folder or hub id: a vec2text checkpoint or a decoder of `hushvec study
            train-inverter`. Or an object with `invert(embeddings) -> texts`.
        mechanism: "auto": "randomized_response" (the nearest public text, or another by chance, pure epsilon) where the inverter
            has public texts, else what a decoder was trained for, else "privunit" (directions only, pure epsilon). "gaussian"
            (the published chain), "laplacian", "l2_laplace": additive noise, which leaves little.
        projection: "auto": the public map that the inverter asks for; a PublicProjection, or None. Not for "randomized_response".
        redactor: of hushvec.text; None: all rules. Categories that it allows are rewritten like any other text.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged before the release, once for the document.

    Returns:
        A `Rewriting`: output, spans, noise, epsilon and delta per chunk and in total, number of chunks, receipt.

    Raises:
        ValueError: a value out of its range; an empty text; wrong rows of an embedder. Nothing is charged or released then.
        PrivacyBudgetExhaustedError: the budget refuses; nothing was released.

    Guarantees:
        Level "document": the output is a function of one released row and public data, so it is (epsilon, delta)-DP for this text
        against every other text. Level "chunk": so are all rewritten chunks together, against every text with the same number of
        chunks (or with max_chunks, every text). Placeholders, their order, their number and without max_chunks
        their places among the chunks are set by rules and NOT covered: the whole output is (epsilon, delta)-DP only against texts
        with the same ones. What the rules miss is protected by the noise alone. Nothing of a chunk is ever copied.
        Epsilon is that of local differential privacy for the whole document, not of a metric. The receipt repeats all numbers,
        and says what does not hold for a seeded generator or for the float grade.

    Edge cases:
        At level "chunk" without max_chunks a text of personal data alone has no chunk: placeholders are the output, nothing is
        charged. Parts without a letter or digit are dropped. Chunks that fill up to max_chunks are zero rows behind the others.

    Reference:
        Morris, Kuleshov, Shmatikov, Rush (2023), "Text embeddings reveal (almost) as much as text"; Balle and Wang (2018), theorem 8;
        Dong, Roth, Su (2022), corollary 3.3, for "joint"; docs/rewriting.md.

    Example:
        >>> from hushvec.text import rewrite
        >>> rewrite("The invoice is overdue.").dp_line  # doctest: +SKIP
        '[DP] eps_total=16.0 delta_total=0.0 K=1 eps/chunk=16.0000 texts=320 clip=1.0 mechanism=randomized_response'
    """
    return Rewriter(**settings).rewrite(text, budget=budget)


_text, _budget, _ = signature(rewrite).parameters.values()
_settings = list(signature(Rewriter).parameters.values())
rewrite.__signature__ = signature(rewrite).replace(parameters=[_text, *_settings, _budget])  # type: ignore[attr-defined]
