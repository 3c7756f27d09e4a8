"""Noise that comes back: two releases of the same rows from one stretch of a key stream. Both tests are exact.

"agreement": a number of every row is compared with its release's median; independent yes/no columns follow Fisher's exact test.
"equality": equal outputs among n disjoint pairs are at most Binomial(n, c), c being the claimed law's collision probability.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hushvec._native.products import product
from hushvec._util import validate
from hushvec._util.statistics import binom_p_value, fisher_p_value
from hushvec.audit.results import RepeatsResult
from hushvec.audit.targets import CHUNK_NUMBERS, FEWEST_SAMPLES, AuditTarget, Progress, Rows, Scores, as_target

# The direction that rows are measured along is the same in every audit, and has nothing to do with the inputs.
_DIRECTION_SEED = 1


def audit_repeats(
    audited: Any, *, samples: int = 100_000, confidence: float = 0.999, progress: Progress | None = None
) -> RepeatsResult:
    """Look for noise of one release in another one, and in the other rows of the same release; `details` has all p-values.

    Args:
        audited, confidence, progress: as for `audit_mechanism`.
        samples: rows of each of four releases, at least 1000; no more than fit 8 MB are used.

    Guarantees:
        If the rows of all releases are independent and follow the claimed law, noise is said to repeat with probability at
        most 1 - confidence. For the agreement tests independence is enough. Noise that comes back in another order, or in
        a few rows of a million, is not found.

    Reference:
        Fisher, "The logic of inductive inference" (1935), for the agreement tests.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.audit import MechanismTarget, audit_repeats
        >>> from hushvec.mechanisms import Gaussian
        >>> reused = MechanismTarget(Gaussian(epsilon=1.0, dimension=4), lambda: hv.Generator.unsafe_seeded(7))
        >>> audit_repeats(reused, samples=1000).flagged
        True
    """
    target = as_target(audited)
    samples = validate.whole_number("samples", samples, at_least=FEWEST_SAMPLES)
    confidence = validate.probability("confidence", confidence)
    width = len(target.pair[0])
    rows = min(samples, max(FEWEST_SAMPLES, CHUNK_NUMBERS // width))
    one, other = (np.tile(x, (rows, 1)) for x in target.pair)
    same_stream = target.stream()
    releases = []
    for stream, inputs in ((same_stream, one), (same_stream, one), (target.stream(), one), (target.stream(), other)):
        releases.append(stream(inputs))
        if progress is not None:
            progress(rows)

    columns = [_column(target, outputs) for outputs in releases]
    half = rows // 2
    found = {
        "agreement, same stream": _agreement(columns[0], columns[1]),
        "agreement, new stream": _agreement(columns[0], columns[2]),
        "agreement, new stream, other input": _agreement(columns[0], columns[3]),
        "agreement within a release": _agreement(columns[0][:half], columns[0][half : 2 * half]),
    }
    if target.collision is not None:
        found |= {
            "equality, same stream": _equality(releases[0], releases[1], target.collision),
            "equality, new stream": _equality(releases[0], releases[2], target.collision),
            "equality within a release": _equality(releases[0][: 2 * half : 2], releases[0][1 : 2 * half : 2], target.collision),
        }
    smallest = min(found, key=lambda name: found[name])
    return RepeatsResult(
        mechanism=target.name, p_value=min(1.0, len(found) * found[smallest]), confidence=confidence, samples=rows,
        statistic=smallest, details={"p_values": found},
    )


def _column(target: AuditTarget, outputs: Rows) -> Scores:
    if target.categorical:
        return outputs[:, 0].astype(np.float64)
    direction = np.random.default_rng(_DIRECTION_SEED).standard_normal((outputs.shape[1],))
    return product(np.asarray(outputs, np.float64), direction)


def _agreement(first: Scores, second: Scores) -> float:
    yes = []
    for column in (first, second):  # a yes for about half of the rows, for as many as ties allow
        median = np.median(column)
        yes.append(min(column > median, column >= median, key=lambda found: abs(found.mean() - 0.5)))
    both = int(np.count_nonzero(yes[0] & yes[1]))
    return fisher_p_value(both, int(yes[0].sum()), int(yes[1].sum()), len(first))


def _equality(first: Rows, second: Rows, collision: float) -> float:
    equal = int(np.count_nonzero((first == second).all(axis=1)))
    return binom_p_value(equal, len(first), collision)
