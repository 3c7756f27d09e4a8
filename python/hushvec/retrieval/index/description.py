"""`PrivateIndex.describe`: what an index costs and whom it protects."""

from __future__ import annotations

from collections.abc import Iterator

from hushvec._util.display import Sheet, plural
from hushvec.mechanisms.top_1 import top_1_sentence
from hushvec.retrieval.index.content import Content
from hushvec.retrieval.index.guarantees import document_guarantee, query_guarantee
from hushvec.retrieval.index.settings import NOTE_CELLS, SIDES
from hushvec.retrieval.noise import PER_QUERY

_LABELS = tuple(f"{side}: " for side in SIDES)
_QUERIES = (1, 10, 100)
_UNITS = {
    PER_QUERY: "query",
    "record": "query, each of which is another person's: two of one person cost it twice",
    "release": "search, all queries of which are about one person",
}


def title(content: Content) -> str:
    settings = content.settings
    noise = ", ".join(name for name in SIDES if getattr(settings, name) is not None) or "nothing"
    return f"PrivateIndex({settings.dimension}, rows={len(content)}, store={settings.store!r}, noise on {noise})"


def describe(content: Content, *, is_seeded: bool) -> tuple[str, ...]:
    return (title(content), *_facts(content), *_caveats(content, is_seeded))


def sheet(content: Content, *, is_seeded: bool) -> Sheet:
    """What `print` and notebooks show: the lines of `describe`, with what they are about as a label."""
    labeled = (line.partition(": ") if line.startswith(_LABELS) else ("", "", line) for line in _facts(content))
    return Sheet(title(content), tuple((label, text) for label, _, text in labeled), tuple(_caveats(content, is_seeded)))


def _facts(content: Content) -> Iterator[str]:
    for part in (_documents, _scores, _queries, _beside):
        yield from part(content)


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


def _scores(content: Content) -> Iterator[str]:
    noise = content.settings.scores
    if noise is None:
        return
    costs = "; ".join(f"{queries}: {_cost(document_guarantee(content, queries))}" for queries in _QUERIES)
    yield f"scores: {noise.mechanism}, clamped to [{noise.low:g}, {noise.high:g}], epsilon = {float(noise.epsilon)!r} a query"
    yield f"a document costs, by the number of queries answered in all: {costs}"


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


def _beside(content: Content) -> Iterator[str]:
    texts, metadata = content.documents.counts
    if texts or metadata:
        yield (
            f"{plural(texts, 'text')} and the metadata of {plural(metadata, 'row')} are stored as they are: nothing protects them, "
            "and anyone who reads a text needs no vector"
        )


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
