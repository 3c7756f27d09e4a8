"""Releases of codes of a public codebook, for audits: two rows, and which published code came out for each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.audit.targets import Release, Rows, Scores
from hushvec.mechanisms import CodebookResponse

# Rows that are in no published table count as labels too, k and above: as many as their digests are told apart.
_FOREIGN_BYTES = 2

Answer = Callable[[Rows, _core.Generator], Any]


class CodebookTarget:
    """A release of rows by a public codebook, judged by the codes of the codebook that was published.

    Args:
        mechanism: of `PublicCodebook.mechanism`, with the codebook that the receipt names.
        answer: takes rows [n, d], each another person's, and the Generator to draw from; returns the released rows. The mechanism
            itself if None. What prepares the release belongs inside: a procedure that fits its codebook on the rows that it
            releases fits it here.
        pair: the two neighboring rows; two codes of the codebook if None.
        new_generator: opens a key stream; Generator, keyed by the operating system, is what users get.

    Raises:
        TypeError: wrong kinds.
        ValueError: rows of another length, NaN or Inf; a codebook whose codes are all the same.

    Guarantees:
        A released row that the published codebook cannot give is a label of its own. Under the claim it never comes, so that a
        codebook that moves with the data is refuted by the first rows that it releases.

    Edge cases:
        With several rows per person, one of them is audited, at its share of epsilon. Codes that are released as the same row count as
        one label.

    Reference:
        docs/audit.md; docs/proofs/codebook.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.audit import CodebookTarget, audit_pair
        >>> from hushvec.mechanisms import PublicCodebook
        >>> codebook = PublicCodebook.of(np.eye(8, dtype=np.float32))
        >>> audit_pair(CodebookTarget(codebook.mechanism(2.0)), samples=20_000).flagged
        False
    """

    categorical = True
    delta = 0.0
    name = "codebook"

    def __init__(
        self,
        mechanism: CodebookResponse,
        answer: Answer | None = None,
        *,
        pair: tuple[Rows, Rows] | None = None,
        new_generator: Callable[[], _core.Generator] = _core.Generator,
    ) -> None:
        if not isinstance(mechanism, CodebookResponse):
            raise TypeError(f"mechanism must be a hushvec.mechanisms.CodebookResponse, got {validate.kind(mechanism)}")
        self.mechanism = mechanism
        self.epsilon = mechanism.response.epsilon
        self._answer = self._released if answer is None else answer
        self._new_generator = new_generator
        self._label_of = _labels(mechanism.table)
        self.pair = _far_codes(mechanism) if pair is None else _checked(pair, mechanism.dimension)
        self._truths = [self._label_of[mechanism.table[code].tobytes()] for code in mechanism.codebook.encode(np.stack(self.pair))]

    @property
    def collision(self) -> float:
        """The sum of the squared probabilities is at most the largest: that of the truth, or of several codes in one label."""
        most = len(self.mechanism.table) - len(self._label_of) + 1
        law = self.mechanism.response
        return min(1.0, law.probability_of_truth + (most - 1) * law.probability_of_each_other)

    def stream(self) -> Release:
        generator = self._new_generator()

        def release(inputs: Rows) -> Rows:
            rows = np.ascontiguousarray(self._answer(inputs, generator), np.float32)
            return np.array([self._label(row) for row in rows], np.intp).reshape(-1, 1)

        return release

    def log_ratio(self, outputs: Rows) -> Scores:
        first, second = (np.equal(outputs[:, 0], label) for label in self._truths)
        ratio: Scores = self.epsilon * (first.astype(np.float64) - second)
        return ratio

    def _released(self, rows: Rows, generator: _core.Generator) -> Rows:
        values = np.empty_like(rows)
        self.mechanism.apply(rows, values, generator)
        return values

    def _label(self, row: NDArray[np.float32]) -> int:
        content = row.tobytes()
        known = self._label_of.get(content)
        if known is not None:
            return known
        digest = hashlib.blake2b(content, digest_size=_FOREIGN_BYTES).digest()
        return len(self.mechanism.table) + int.from_bytes(digest, "little")


def _labels(table: NDArray[np.float32]) -> dict[bytes, int]:
    """The first code that is released as a row, by the row's bytes."""
    found: dict[bytes, int] = {}
    for code, row in enumerate(table):
        found.setdefault(row.tobytes(), code)
    return found


def _far_codes(mechanism: CodebookResponse) -> tuple[Rows, Rows]:
    """The first code, and the last one that is released as another row."""
    table, codes = mechanism.table, mechanism.codebook.codes
    other = np.flatnonzero((table != table[0]).any(axis=1))
    if not len(other):
        raise ValueError(f"mechanism must release at least two different rows, got one for all {len(table)} codes")
    return codes[0].copy(), codes[other[-1]].copy()


def _checked(pair: Any, dimension: int) -> tuple[Rows, Rows]:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise TypeError(f"pair must be a tuple of two rows, got {validate.kind(pair)}")
    first, second = (np.asarray(row, np.float32) for row in pair)
    for row in (first, second):
        if row.shape != (dimension,):
            raise ValueError(f"pair must hold two rows of {dimension} elements, got shape {row.shape}")
        if not np.isfinite(row).all():
            raise ValueError("pair must be finite, got NaN or Inf")
    return first, second
