"""The guarantees of an index, and `PrivateIndex.describe`: its costs, and whom it protects."""

from __future__ import annotations

import math
from collections.abc import Iterator

from hushvec._util import validate
from hushvec._util.display import Sheet, plural
from hushvec._util.rounding import product_up
from hushvec.mechanisms.top_1 import top_1_sentence
from hushvec.retrieval.index.content import Content
from hushvec.retrieval.index.settings import NOTE_CELLS, SIDES
from hushvec.retrieval.noise import PER_QUERY, ScoreNoise

# For scores that need no delta, one is stated only if it makes epsilon smaller by this factor.
_WORTH_A_DELTA = 0.99


Guarantee = tuple[float, float]
_LABELS = tuple(f"{side}: " for side in SIDES)
_QUERIES = (1, 10, 100)
_UNITS = {
    PER_QUERY: "query",
    "record": "query, each of which is another person's: two of one person cost it twice",
    "release": "search, all queries of which are about one person",
}


def document_guarantee(content: Content, queries: int) -> Guarantee | None:
    """See `PrivateIndex.document_guarantee`.

    A released row costs, with per="release", the largest cost of the releases so far, or that of one row before the first.
    """
    count = validate.whole_number("queries", queries, at_least=1)
    documents, scores = content.settings.documents, content.settings.scores
    bounds: list[Guarantee] = []
    if documents is not None:
        costs = [documents.cost(content.settings.columns)]
        if documents.per == "release":
            costs += [(receipt.epsilon, receipt.delta) for receipt in content.receipts]
        bounds.append(max(costs))
    if scores is not None:
        bounds.append(cost_of_queries(scores, count))
    return min(bounds, default=None)


def query_guarantee(content: Content, queries: int) -> Guarantee | None:
    """See `PrivateIndex.query_guarantee`."""
    noise, count = content.settings.queries, validate.whole_number("queries", queries, at_least=1)
    return None if noise is None else noise.cost(content.settings.columns, rows=count)


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


def title(content: Content) -> str:
    settings = content.settings
    noise = ", ".join(name for name in SIDES if getattr(settings, name) is not None) or "nothing"
    return f"PrivateIndex({settings.dimension}, rows={len(content)}, store={settings.store!r}, noise on {noise})"


def describe(content: Content, *, is_seeded: bool) -> tuple[str, ...]:
    return (title(content), *_facts(content), *_caveats(content, is_seeded))


def sheet(content: Content, *, is_seeded: bool) -> Sheet:
    """Lines of `describe` for `print` and notebooks, with what they are about as a label."""
    labeled = (line.partition(": ") if line.startswith(_LABELS) else ("", "", line) for line in _facts(content))
    return Sheet(title(content), tuple((label, text) for label, _, text in labeled), tuple(_caveats(content, is_seeded)))


def _facts(content: Content) -> Iterator[str]:
    yield from _documents(content)
    scores = content.settings.scores
    if scores is not None:
        costs = "; ".join(f"{queries}: {_cost(document_guarantee(content, queries))}" for queries in _QUERIES)
        yield f"scores: {scores.mechanism}, clamped to [{scores.low:g}, {scores.high:g}], epsilon = {float(scores.epsilon)!r} a query"
        yield f"a document costs, by the number of queries answered in all: {costs}"
    yield from _queries(content)
    texts, metadata = content.documents.counts
    if texts or metadata:
        yield (
            f"{plural(texts, 'text')} and the metadata of {plural(metadata, 'row')} are stored as they are: nothing protects them, "
            "and anyone who reads a text needs no vector"
        )


def _documents(content: Content) -> Iterator[str]:
    noise = content.settings.documents
    if noise is None:
        yield "documents: stored without noise"
        return
    epsilon, delta = noise.cost(content.settings.columns)
    unit = "row" if noise.per == "record" else "add, all rows of which are about one person"
    yield (
        f"documents: {_mechanism(noise.mechanism)}, epsilon = {epsilon!r}, delta = {delta!r} for each {unit}; "
        "searches and `vectors` cost nothing more"
    )
    if noise.per == "record" and delta == 0 and len(content) > 1:
        bound = top_1_sentence(epsilon, len(content), noise_on="documents")
        yield f"{bound}, by a search for their clean versions (the right one at rank 1)"


def _queries(content: Content) -> Iterator[str]:
    noise = content.settings.queries
    if noise is None:
        return
    epsilon, delta = noise.cost(content.settings.columns)
    yield f"queries: {_mechanism(noise.mechanism)}, epsilon = {epsilon!r}, delta = {delta!r} for each {_UNITS[str(noise.per)]}"
    if noise.per == PER_QUERY:
        costs = "; ".join(f"{queries}: {_cost(query_guarantee(content, queries))}" for queries in _QUERIES)
        yield f"the asker is charged, by the number of queries in a search: {costs}"
    yield "noise on queries protects the asker, if it is added at the asker's side; no document gains from it"


def _caveats(content: Content, is_seeded: bool) -> Iterator[str]:
    settings = content.settings
    if settings.documents is None and settings.scores is None:
        yield "documents have no protection: answers show who is in the index"
    elif settings.documents is None:
        yield "only answers are protected: `vectors` and saved files hold the documents themselves"
    if settings.has_noise_in_cells:
        yield NOTE_CELLS
    if is_seeded:
        yield "key from a user-given seed: NOT a DP claim"
    if any(noise is not None and noise.grade(content.settings.columns) == "float" for noise in (settings.documents, settings.queries)):
        yield "grade float: not protected against floating-point attacks, NOT a DP claim"


def _mechanism(mechanism: object) -> str:
    return mechanism if isinstance(mechanism, str) else str(getattr(mechanism, "name", mechanism))


def _cost(guarantee: tuple[float, float] | None) -> str:
    assert guarantee is not None
    return f"({guarantee[0]:.6g}, {guarantee[1]:.6g})"
