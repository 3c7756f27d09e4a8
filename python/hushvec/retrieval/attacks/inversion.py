"""`embedding_inversion`: which vector was behind a released row?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products, product
from hushvec._util.display import Sheet, at_least, confidence_of, shown
from hushvec._util.statistics import Estimate
from hushvec.audit.bootstrap import bootstrap
from hushvec.audit.results import THIS_ATTACK, as_json
from hushvec.extend import RowReceipt
from hushvec.mechanisms import PublicCodebook
from hushvec.receipts import Receipt
from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec.retrieval.attacks.features import require_vectors, unit
from hushvec.retrieval.attacks.row_laws import Law, law_of, log_densities
from hushvec.retrieval.measures import cosines

Rows = NDArray[np.float32]
Columns = dict[str, NDArray[np.float64]]

# Rows compared with the candidates at once: 500 x 10,000 log densities are 40 MB.
_ROWS_AT_ONCE = 500
_TOPS = (1, 10)


@shown
@dataclass(frozen=True, kw_only=True)
class InversionResult:
    """How much of the clean vectors an adversary gets back from released rows. `print` shows the shares and the cosines.

    Args:
        identified: {1: ..., 10: ...}, share of rows whose true vector is among so many best candidates of the list, if in it.
        identified_bound: what (epsilon, delta) of the receipt allows for 1, whatever the adversary does; 1 without a receipt.
        cosines: mean cosine with the true vector of "released", "linear", "best candidate" and "posterior mean".
        reconstruction: the name with the largest of them.
        confidence: of every interval.
    """

    identified: Mapping[int, Estimate]
    identified_bound: float
    cosines: Mapping[str, Estimate]
    reconstruction: str
    rows: int  # how many
    candidates: int
    confidence: float
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def cosine(self) -> Estimate:
        """The cosine of the best reconstruction."""
        return self.cosines[self.reconstruction]

    def _sheet(self) -> Sheet:
        facts = []
        for top, found in self.identified.items():
            allowed = f"; the receipt allows {at_least(self.identified_bound)}" if top == 1 and self.identified_bound < 1 else ""
            facts.append((f"identified in top {top}", f"{found} of the rows; chance {top / self.candidates:.3g}{allowed}"))
        facts += [(f"cosine of {name}", str(cosine)) for name, cosine in self.cosines.items()]
        facts.append(("sample", f"{self.rows:,} rows, {self.candidates:,} candidates, {confidence_of(self.confidence)} intervals"))
        return Sheet("Inversion attack on released rows", tuple(facts), (THIS_ATTACK,))

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return dict(as_json(self))


def embedding_inversion(
    released: Any, clean: Any, candidates: Any = None, *, places: Any = None, receipt: RowReceipt | None = None,
    codebook: PublicCodebook | None = None, confidence: float = 0.95, resamples: int = 1000, seed: int = 2025,
) -> InversionResult:
    """Attack released rows: find their vectors in a list, and reconstruct them.

    Args:
        released: float array [n, d].
        clean: float array [n, d], the truth; compared as directions.
        candidates: float array [c, d], the adversary's list, c >= 2, for public vectors of the same kind. None: the true vectors
            themselves, in which row i looks for vector i.
        places: int array [n], which of the candidates is the true vector of each row, where the list has them. None: it has none of
            them, and nothing is identified.
        receipt: its law gives likelihoods and the bound. None: inner products, with the noise's size estimated from lengths.
        codebook: whose answers the rows are; needed with their receipt, which has its digest alone.
        confidence, resamples, seed: of the bootstrap over rows.

    Guarantees:
        `identified_bound` holds for the expected share where the list has the truth, for rows of different people with independent
        noise.
        The cosines of these four adversaries bound nothing.

    Edge cases:
        Candidates of equal likelihood (duplicates; the two values of PrivUnitG's law) count as ordered at random: expected shares.

    Reference:
        Song and Raghunathan, "Information leakage in embedding models" (2020); Duchi, Wainwright, "Distance-based and continuum Fano
        inequalities" (2013), for bounds of this kind.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from hushvec.retrieval import embedding_inversion
        >>> clean = np.random.default_rng(1).standard_normal((300, 32)).astype(np.float32)
        >>> release = hv.privatize(clean, epsilon=1.0, mechanism="privunit", generator=hv.Generator.unsafe_seeded(1))
        >>> result = embedding_inversion(release.values, clean, receipt=release.receipt)
        >>> result.identified[1].low < result.identified_bound < 0.01
        True
    """
    rows, truth = require_vectors("released", released, 2), require_vectors("clean", clean, 2)
    if rows.shape != truth.shape or len(rows) < 2:
        raise ValueError(f"released and clean must have one shape [n, d] with n >= 2, got {rows.shape} and {truth.shape}")
    listed = truth if candidates is None else require_vectors("candidates", candidates, 2)
    if listed.shape[1:] != truth.shape[1:] or len(listed) < 2:
        raise ValueError(f"candidates must be [c, {truth.shape[1]}] with c >= 2, got {listed.shape}")
    own = _places(places, len(rows), None if candidates is None else len(listed))
    law = law_of(receipt, codebook)
    truth, listed = unit(truth), unit(listed)
    scale = receipt.clip_norm if isinstance(receipt, Receipt) else 1.0
    found, guessed = _by_list(rows, truth, listed * np.float32(scale), law, own)
    columns = {"released": cosines(rows, truth), "linear": cosines(_linear(rows, listed * np.float32(scale)), truth), **guessed}
    setting: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    measured = bootstrap(columns, **setting, limits=(-1.0, 1.0))
    shares = bootstrap(found, **setting, limits=(0.0, 1.0))
    claimed = receipt is not None and own is not None
    return InversionResult(
        identified={top: shares[str(top)] for top in _TOPS} if own is not None else {},
        identified_bound=identification_bound(receipt.epsilon, receipt.delta, len(listed)) if receipt and claimed else 1.0,
        cosines=measured, reconstruction=max(measured, key=lambda name: measured[name].value), rows=len(rows),
        candidates=len(listed), confidence=confidence,
    )


def _places(places: Any, rows: int, candidates: int | None) -> NDArray[np.intp] | None:
    """Which candidate is each row's own; `candidates` None: row i's is candidate i."""
    if candidates is None or places is None:
        if places is not None:
            raise TypeError("places must be left out without candidates: row i looks for vector i")
        return np.arange(rows) if candidates is None else None
    own = np.asarray(places)
    if own.dtype.kind not in "iu" or own.shape != (rows,) or own.min() < 0 or own.max() >= candidates:
        raise ValueError(f"places must be {rows} whole numbers from 0 to {candidates - 1}, one for each row, got {places!r:.60}")
    return own.astype(np.intp)


def _by_list(rows: Rows, truth: Rows, listed: Rows, receipt: Law, places: NDArray[np.intp] | None) -> tuple[Columns, Columns]:
    """({top: chance that a row's truth is among so many best, equals in random order}, cosines of what the list gives)."""
    above, equal = np.zeros(len(rows), np.intp), np.ones(len(rows), np.intp)
    best, mean = np.empty_like(rows), np.empty_like(rows)
    for first in range(0, len(rows), _ROWS_AT_ONCE):
        part = slice(first, first + _ROWS_AT_ONCE)
        if receipt is None:
            table = inner_products(unit(rows[part]), listed).astype(np.float64) * math.sqrt(rows.shape[1])
        else:
            table = log_densities(rows[part], listed, receipt)
        if places is not None:
            own = table[np.arange(len(table)), places[part]][:, None]
            above[part], equal[part] = (table > own).sum(axis=1), (table == own).sum(axis=1)
        best[part] = listed[np.argmax(table, axis=1)]
        weights = np.exp(table - table.max(axis=1, keepdims=True)).astype(np.float32)
        mean[part] = product(weights, listed)
    found = {str(top): np.clip((top - above) / equal, 0.0, 1.0) for top in _TOPS}
    return found, {"best candidate": cosines(best, truth), "posterior mean": cosines(mean, truth)}


def _linear(rows: Rows, listed: Rows) -> Rows:
    """mean + S (S + s^2)^-1 (row - mean), S the list's covariance; s^2 is what lengths of rows have beyond the list's."""
    center = listed.mean(axis=0, dtype=np.float64)
    values, axes = np.linalg.eigh(np.cov((listed - center).T.astype(np.float64)))
    values = np.maximum(values, 0.0)
    excess = float(np.square(rows, dtype=np.float64).sum(axis=1).mean() - np.square(listed, dtype=np.float64).sum(axis=1).mean())
    noise = max(excess / rows.shape[1], 1e-12)
    shrunk = inner_products(product(rows - center, axes) * (values / (values + noise)), axes)
    return np.asarray((center + shrunk).astype(np.float32))
