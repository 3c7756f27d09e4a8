"""`rewrite`: one text, in one call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hushvec._native._core import Generator
from hushvec._util.validate import also_called
from hushvec.mechanisms import PublicProjection
from hushvec.release.charging import Budget
from hushvec.text.pii.redactor import Redactor
from hushvec.text.rewriting.results import Rewriting
from hushvec.text.rewriting.rewriter import Rewriter, seed_as_generator


@seed_as_generator
@also_called(max_len="max_length", clip_radius="clip_norm", whitelist_categories="allow_categories")
def rewrite(
    text: str,
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
    mechanism: str = "auto",
    level: str | None = None,
    projection: PublicProjection | str | None = "auto",
    redactor: Redactor | None = None,
    budget: Budget | None = None,
) -> Rewriting:
    """Rewrite a text with differential privacy: redact, split, embed, clip, add noise, invert, join.

    Args:
        text: any string with a character in it; at most 2,000,000 characters.
        epsilon: > 0, for the whole document. `math.inf`: no noise and no guarantee, to see what embedding and inversion do alone.
        delta: in (0, 1), for the whole document, for "gaussian" alone.
        clip_norm: C, the L2 norm that embeddings are clipped to. None: the bound on the norms of the embedder's rows if one is known
            (1.0 for unit vectors such as MiniLM's), else 1.5, which suits GTR; the receipt says which. No influence on "privunit"
            and "randomized_response".
        num_steps: rounds of correction, for vec2text checkpoints with a corrector.
        allow_categories: categories of personal data that are not redacted: their text is rewritten like any other.
        max_length: tokens in a chunk, special tokens counted; longer stretches are cut. Not for level "document".
        device: "cpu", "cuda", ... for MiniLM and models of a path or a hub id; None: CUDA if there is one.
        generator: key stream of the noise; None: that of the process. A seeded one gives reproducible noise and NO privacy; the result
            says so.
        embedder: None: all-MiniLM-L6-v2 from its wheel, or the one that the inverter was made for. A folder or hub id (T5 encoders
            such as GTR are mean-pooled and not normalized), or an object with `embed(texts)`, or a model of a known library.
        inverter: None: the public sentences that ship with hushvec, by their posterior. A file: the same with its lines, JSON lines or
            saved corpus (.npz) as public texts. A folder or hub id: a vec2text checkpoint or a decoder of `hushvec
            train-inverter`. Or an object with `invert(embeddings) -> texts`.
        composition: for "gaussian". "joint": all chunks are one Gaussian release, the exact bound. "basic": epsilon/K and delta/K for
            each chunk, as older receipts have it; more noise.
        max_chunks: a public number of chunks: shorter texts are filled up to it, neighboring chunks of longer ones are joined (their
            row is the mean), and placeholders come behind all chunks, so that neither K nor the places of placeholders say anything
            about the text.
        mechanism: "auto": what keeps most of a text at this price: "randomized_response" where the inverter has public texts, else
            "privunit" or what a trained decoder was trained for, and the receipt says so. "randomized_response": the nearest of the
            inverter's public texts, or another by chance, pure epsilon. "privunit": directions only, pure epsilon, the most that a
            noisy vector can keep. "gaussian", "laplacian", "l2_laplace": additive noise, of which little of a text survives;
            "gaussian" is the published chain.
        level: "chunk": each stretch between placeholders is rewritten by itself. "document": the redacted text is one vector and the
            output is what that inverts to, nothing else. None: "document" for "privunit" and "randomized_response", else "chunk".
        projection: "auto": the public map that the inverter asks for, if it does. A PublicProjection, or None. No influence on
            "randomized_response".
        redactor: of hushvec.text; None: all rules.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged before the release, once for the document.

    Returns:
        A `Rewriting`: output, spans, noise, epsilon and delta per chunk and in total, number of chunks, receipt.

    Raises:
        TypeError, ValueError: a value of the wrong kind or out of its range; an empty text; an embedder that
            answers NaN or other than one row per chunk. Nothing is charged or released then.
        OSError: a checkpoint, a corpus file or a hub id cannot be read.
        MissingExtraError: the packages of the extra "text" are not installed.
        PrivacyBudgetExhaustedError, BudgetError: the budget refuses; nothing was released.

    Guarantees:
        Level "document": the output is a function of one released row and public data, so it is (epsilon, delta)-DP for this text
        against every other text. Level "chunk": so are all rewritten chunks together, against every text with the same number of
        chunks (or with max_chunks, every text). Placeholders, their order, their number and without max_chunks
        their places among the chunks are set by rules and NOT covered: the whole output is (epsilon, delta)-DP only against texts
        with the same ones. What the rules miss is protected by the noise alone. Nothing of a chunk is ever copied.
        Epsilon is that of local differential privacy for the whole document, not of a metric: clipping bounds the distance of any
        two texts by 2 C. The receipt repeats all numbers, and says what does not hold for a seeded generator or for the float
        grade.

    Edge cases:
        A text of personal data alone has no chunk: placeholders are the output, nothing is released or charged (level "chunk"
        without max_chunks). Parts without a letter or digit are dropped. Chunks that fill up to max_chunks are zero rows, rewritten
        behind the others.

    Reference:
        Morris, Kuleshov, Shmatikov, Rush (2023), "Text embeddings reveal (almost) as much as text"; Balle and Wang (2018), theorem 8;
        Dong, Roth, Su (2022), corollary 3.3, for "joint"; docs/rewriting.md.

    Example:
        >>> from hushvec.text import rewrite
        >>> rewrite("The invoice is overdue.").dp_line  # doctest: +SKIP
        '[DP] eps_total=16.0 delta_total=0.0 K=1 eps/chunk=16.0000 texts=320 clip=1.0 mechanism=randomized_response'
        >>> result = rewrite("Contact Jane Doe at jane@example.com.", mechanism="gaussian", composition="basic")  # doctest: +SKIP
        >>> print(result.dp_line)  # doctest: +SKIP
        [DP] eps_total=16.0 delta_total=0.001 K=2 eps/chunk=8.0000 sigma=0.9995 clip=1.0
    """
    return Rewriter(
        epsilon=epsilon,
        delta=delta,
        clip_norm=clip_norm,
        num_steps=num_steps,
        allow_categories=allow_categories,
        max_length=max_length,
        device=device,
        generator=generator,
        embedder=embedder,
        inverter=inverter,
        composition=composition,
        max_chunks=max_chunks,
        mechanism=mechanism,
        level=level,
        projection=projection,
        redactor=redactor,
    ).rewrite(text, budget=budget)
