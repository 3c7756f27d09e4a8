"""The laws of released rows, by their receipts: log densities less a term of the row, which cancels in every ratio.

Answers of a codebook have the law of its mechanism: a receipt has only the codebook's digest.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.extend import rows_per_person
from hushvec.mechanisms import MECHANISMS, CodebookResponse, Gaussian, PublicCodebook
from hushvec.receipts import LabelReceipt, Receipt
from hushvec.receipts.vectors import stated_mechanism

Rows = NDArray[np.float32]
Table = NDArray[np.float64]
Law = Receipt | CodebookResponse | None

# Without a receipt rows are taken to be plain vectors: noise of this deviation stands for rounding.
_PLAIN_SIGMA = 1e-3
# Rows of one square table of which only the diagonal is used.
_PAIRS = 64


def law_of(receipt: Any, codebook: Any = None) -> Law:
    """The law of rows with this receipt, and for answers of a codebook that codebook; None: rows without noise."""
    if isinstance(receipt, LabelReceipt) and receipt.codebook is not None:
        if not isinstance(codebook, PublicCodebook):
            got = validate.kind(codebook)
            raise TypeError(f"codebook must be the PublicCodebook with digest {receipt.codebook!r}, as the receipt says, got {got}")
        if codebook.digest != receipt.codebook:
            raise ValueError(f"codebook must have digest {receipt.codebook!r}, as the receipt says, got {codebook.digest!r}")
        return codebook.mechanism(receipt.epsilon, rows_per_person=rows_per_person(receipt.per, receipt.answers))
    if codebook is not None:
        raise TypeError("codebook must be left out without a receipt of its answers")
    law: Receipt | None = validate.instance("receipt", receipt, Receipt | None, "one of released rows or None")
    if law is not None and law.mechanism not in MECHANISMS:
        raise ValueError(f"receipt must be of rows of floats, got mechanism {law.mechanism!r}: its rows are whole numbers")
    return law


def log_densities(rows: Rows, centers: Rows, receipt: Law) -> Table:
    """[m, c]: ln of the density of each row [m, d] behind each clean center [c, d]; receipt None: rows without noise."""
    if isinstance(receipt, Receipt):
        return stated_mechanism(receipt).log_densities(rows, centers, unit_length=receipt.renormalize)
    law = Gaussian.stated({"sigma": _PLAIN_SIGMA}) if receipt is None else receipt
    return law.log_densities(rows, centers)


def log_ratios(rows: Rows, first: Rows, second: Rows, receipt: Law) -> Table:
    """For each row, ln of how much likelier it is with the first vector behind it than with the second. All are [m, d]."""
    ratios = np.empty(len(rows))
    for row in range(0, len(rows), _PAIRS):
        part = slice(row, row + _PAIRS)
        count = np.arange(len(rows[part]))
        ratios[part] = log_densities(rows[part], first[part], receipt)[count, count]
        ratios[part] -= log_densities(rows[part], second[part], receipt)[count, count]
    return ratios
