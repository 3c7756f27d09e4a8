"""What an index costs and whom it protects, in lines for a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hushvec.mechanisms.top_1 import top_1_sentence
from hushvec.retrieval.noise import PER_QUERY
from hushvec.retrieval.settings import NOTE_CELLS

if TYPE_CHECKING:
    from hushvec.retrieval.private_index import PrivateIndex

_QUERIES = (1, 10, 100)
_UNITS = {
    PER_QUERY: "query",
    "record": "query, each of which is another person's: two of one person cost it twice",
    "release": "search, all queries of which are about one person",
}


def describe(index: PrivateIndex) -> tuple[str, ...]:
    return (repr(index), *_documents(index), *_scores(index), *_queries(index), *_beside(index), *_caveats(index))


def _documents(index: PrivateIndex) -> Iterator[str]:
    noise = index.settings.documents
    if noise is None:
        yield "documents: stored without noise"
        return
    epsilon, delta = noise.cost(index.columns)
    unit = "row" if noise.per == "record" else "add, all rows of which are about one person"
    yield (
        f"documents: {_mechanism(noise.mechanism)}, epsilon = {epsilon!r}, delta = {delta!r} for each {unit}; "
        "searches and `vectors` cost nothing more"
    )
    if noise.per == "record" and delta == 0 and len(index) > 1:
        bound = top_1_sentence(epsilon, len(index), noise_on="documents")
        yield f"{bound}, by a search for their clean versions (the right one at rank 1)"


def _scores(index: PrivateIndex) -> Iterator[str]:
    noise = index.settings.scores
    if noise is None:
        return
    costs = "; ".join(f"{queries}: {_cost(index.document_guarantee(queries))}" for queries in _QUERIES)
    yield f"scores: {noise.mechanism}, clamped to [{noise.low:g}, {noise.high:g}], epsilon = {float(noise.epsilon)!r} a query"
    yield f"a document costs, by the number of queries answered in all: {costs}"


def _queries(index: PrivateIndex) -> Iterator[str]:
    noise = index.settings.queries
    if noise is None:
        return
    epsilon, delta = noise.cost(index.columns)
    yield f"queries: {_mechanism(noise.mechanism)}, epsilon = {epsilon!r}, delta = {delta!r} for each {_UNITS[str(noise.per)]}"
    if noise.per == PER_QUERY:
        costs = "; ".join(f"{queries}: {_cost(index.query_guarantee(queries))}" for queries in _QUERIES)
        yield f"whoever asks is charged, by the number of queries in a search: {costs}"
    yield "noise on queries protects who asks, if it is added at the asker's side; no document gains from it"


def _beside(index: PrivateIndex) -> Iterator[str]:
    texts, metadata = index.documented
    if texts or metadata:
        yield (
            f"{texts} texts and the metadata of {metadata} rows are stored as they are: nothing protects them, "
            "and whoever reads a text needs no vector"
        )


def _caveats(index: PrivateIndex) -> Iterator[str]:
    settings = index.settings
    if settings.documents is None and settings.scores is None:
        yield "documents have no protection: answers show who is in the index"
    elif settings.documents is None:
        yield "only answers are protected: `vectors` and saved files hold the documents themselves"
    if settings.has_noise_in_cells:
        yield NOTE_CELLS
    if index.is_seeded:
        yield "key from a user-given seed: NOT a DP claim"
    if any(noise is not None and noise.grade(index.columns) == "float" for noise in (settings.documents, settings.queries)):
        yield "grade float: not protected against floating-point attacks, NOT a DP claim"


def _mechanism(mechanism: object) -> str:
    return mechanism if isinstance(mechanism, str) else str(getattr(mechanism, "name", mechanism))


def _cost(guarantee: tuple[float, float] | None) -> str:
    assert guarantee is not None
    return f"({guarantee[0]:.6g}, {guarantee[1]:.6g})"
