"""The guarantees of an index: two bounds hold for documents, so the smaller one is stated."""

from __future__ import annotations

import math

from hushvec._util import validate
from hushvec._util.rounding import product_up
from hushvec.retrieval.index.content import Content
from hushvec.retrieval.noise import ScoreNoise

# For scores that need no delta, one is stated only if it makes epsilon smaller by this factor.
_WORTH_A_DELTA = 0.99


Guarantee = tuple[float, float]


def document_guarantee(content: Content, queries: int) -> Guarantee | None:
    """See `PrivateIndex.document_guarantee`."""
    count = validate.whole_number("queries", queries, at_least=1)
    noise = content.settings.scores
    bounds = [_row_guarantee(content), None if noise is None else cost_of_queries(noise, count)]
    return min((bound for bound in bounds if bound is not None), default=None)


def query_guarantee(content: Content, queries: int) -> Guarantee | None:
    """See `PrivateIndex.query_guarantee`."""
    noise, count = content.settings.queries, validate.whole_number("queries", queries, at_least=1)
    return None if noise is None else noise.cost(content.settings.columns, rows=count)


def _row_guarantee(content: Content) -> Guarantee | None:
    """The cost of a released row. With per="release" the largest cost of the releases so far, or that of one row before the first."""
    documents = content.settings.documents
    if documents is None:
        return None
    costs: list[Guarantee] = [documents.cost(content.settings.columns)]
    if documents.per == "release":
        costs += [(receipt.epsilon, receipt.delta) for receipt in content.receipts]
    return max(costs)


def cost_of_queries(noise: ScoreNoise, queries: int) -> tuple[float, float]:
    """(epsilon, delta) that so many adaptively chosen queries cost every document, over any number of searches.

    The smallest epsilon that hushvec.accounting proves from any of the noise's losses, at its delta; without a delta the sum.
    """
    from hushvec.accounting import compose

    count = validate.whole_number("queries", queries, at_least=1)
    if count == 1:
        return noise.cost()
    pure = noise.mechanism != "gaussian"
    together = (product_up(count, float(noise.epsilon)), 0.0) if pure else (math.inf, noise.delta)
    if noise.delta == 0:
        return together
    best = min(compose([(loss, count)], delta=noise.delta).epsilon for loss in noise.losses)
    return (best, noise.delta) if best < _WORTH_A_DELTA * together[0] else together
