"""Frequency oracles: how one word becomes a report, and what many reports say about each word.

Each is one file with the same interface (`Oracle`), so that vocabularies, sketches and estimates know none of them by name.
"""

from __future__ import annotations

from hushvec._util import validate
from hushvec.collect.oracles.hadamard import HadamardResponse
from hushvec.collect.oracles.k_rr import KaryResponse
from hushvec.collect.oracles.oracle import MOST_WORDS, Oracle
from hushvec.collect.oracles.unary import UnaryEncoding

# Variances within this factor count as equal, and then the shorter report is taken: 5 % of standard error against
# reports that may be a thousand times as long.
AS_GOOD = 1.1

_KINDS: dict[str, type[Oracle]] = {"k_rr": KaryResponse, "unary": UnaryEncoding, "hadamard": HadamardResponse}
MECHANISMS = tuple(_KINDS)


def oracle_for(mechanism: str, words: int, epsilon: float) -> Oracle:
    """The oracle of a name; "auto" takes the one of the smallest mean variance, the shortest report among those that are as good.

    Args:
        mechanism: "auto" or one of MECHANISMS.
        words: >= 2.
        epsilon: > 0, of one report.
    """
    if validate.choice("mechanism", mechanism, ("auto", *MECHANISMS)) != "auto":
        return _KINDS[mechanism](words=words, epsilon=epsilon)
    oracles = [kind(words=words, epsilon=epsilon) for kind in _KINDS.values()]
    best = min(oracle.mean_variance for oracle in oracles)
    as_good = [oracle for oracle in oracles if oracle.mean_variance <= AS_GOOD * best]
    return min(as_good, key=lambda oracle: (oracle.report_bytes, oracle.mean_variance))


__all__ = ["AS_GOOD", "MECHANISMS", "MOST_WORDS", "HadamardResponse", "KaryResponse", "Oracle", "UnaryEncoding", "oracle_for"]
