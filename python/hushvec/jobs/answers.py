"""Codes of a job: randomized response with a separate key stream for every row (docs/format.md, section 10).

The stream is keyed by the row's place, its bytes **and its code**. A code is computed in floating point, so two machines might give
one row two codes; with a key that ignored the code both answers would be shifted alike, and their difference would reveal that of
the codes. With this key, the second answer is a separate release.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.jobs import derivation
from hushvec.mechanisms import CodebookResponse


def answered(
    mechanism: CodebookResponse, rows: NDArray[Any], key: bytes, places: derivation.Places, cipher: str
) -> NDArray[Any]:
    """The released rows, of the dtype of `rows` [n, d], which is read once, so that key and code come from one read.

    Raises:
        ValueError: NaN or Inf; the rows are those that the codebook was made from.
    """
    content = rows.copy()
    mechanism.codebook.require_other_rows(content)
    codes: NDArray[np.int32] = mechanism.codebook.encode(content)
    answers = np.empty_like(codes)
    one = np.empty(1, np.int32)
    law, count = mechanism.response.law, len(mechanism.codebook)
    for place, row in enumerate(content):
        one[0] = codes[place]
        stream = derivation.row_key(key, places[place].tobytes(), row.tobytes() + one.astype("<i4").tobytes())
        # nonce 0: the key belongs to one row, and is not a seed
        source = _core.Generator.unsafe_seeded(int.from_bytes(stream, "little"), cipher=cipher)
        answers[place] = _core.randomized_response(one, count, law, source)[0]
    return mechanism.table[answers].astype(rows.dtype)
