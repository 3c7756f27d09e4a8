"""`PrivateIndex`: vectors that are looked up by inner product, with noise on documents, queries or scores."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, rowwise
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec.extend import Budget, RowReceipt
from hushvec.mechanisms import PublicProjection, top_1_sentence
from hushvec.retrieval.index import saved
from hushvec.retrieval.index.content import NOTE_BESIDE, Content, Documents, StoredDocument, store_error
from hushvec.retrieval.index.prepared import KeptReleases, prepare, require_rows
from hushvec.retrieval.index.searching import Chosen, ScoreSearch, SearchResult, best_of_some
from hushvec.retrieval.index.settings import SIDES, IndexSettings
from hushvec.retrieval.noise import PER_QUERY, ScoreNoise, VectorNoise, cost_of_queries
from hushvec.retrieval.stores import BEHIND_AN_ADDRESS, OWN, Store, open_store
from hushvec.retrieval.stores.numpy_flat import NumpyStore

_LABELS = tuple(f"{side}: " for side in SIDES)
_QUERIES = (1, 10, 100)
_UNITS = {
    PER_QUERY: "query",
    "record": "query, each of which is another person's: two of one person cost it twice",
    "release": "search, all queries of which are about one person",
}

# Releases of queries kept for another try. Every abandoned search leaves one.
_MOST_UNANSWERED = 256


@shown
class PrivateIndex:
    """An index of vectors with differential privacy for its documents, for its queries, or for both.

    Args:
        dimension: d, elements of the rows that are added and of queries.
        documents: noise on rows before they are stored.
        queries: noise on queries before they are searched.
        scores: noise on scores before the best are named; needs a store that looks at every row in memory ("flat", "numpy").
        store: "flat" (also "numpy"), "hnsw", "lancedb", "qdrant" or "pgvector"; or a new, empty store of your own: docs/extend.md.
        store_options: of that store, by name; docs/retrieval.md lists them.
        path: folder of a store on disk; None keeps it in memory. For "pgvector" the address of the database, never saved;
            errors hide its password.
        projection: a public map that is applied to documents and queries first.
        normalize: bring rows of both sides to unit length, after the projection and before the noise; a zero row stays zero.
        generator: key stream of all noise; the process-wide one if None. A seeded one gives no privacy: receipts say so, and
            together with a budget it is refused.

    Guarantees:
        Those of `VectorNoise` and `ScoreNoise`; `document_guarantee` and `query_guarantee` give the numbers. Adjacency: replace the
        vector of one row; ids, texts, metadata and the number of rows are public, stored and returned without protection. Anyone
        who can read a text does not need its vector. Deleting a row refunds nothing: its release stays released. Noise on queries
        protects the client, not the documents. With noise on documents, stores hold only released rows, and scores of released rows
        are post-processing, so that noise on scores adds a second guarantee. A filter reads metadata alone and costs nothing.

    Edge cases:
        Bad input is refused before anything is charged or written. If the store fails afterwards (a full disk, a lost connection),
        the charge stands and no row is added; the release is kept in memory, and the same call again stores it without a second
        charge. Not safe for use by several threads at once.

    Reference:
        docs/retrieval.md; docs/proofs/private_scores.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.retrieval import PrivateIndex, VectorNoise
        >>> rows = np.random.default_rng(0).standard_normal((100, 384)).astype(np.float32)
        >>> index = PrivateIndex(384, documents=VectorNoise(epsilon=50.0), store="numpy")
        >>> index.add(rows).mechanism, len(index), index.document_guarantee()
        ('privunit', 100, (50.0, 0.0))
        >>> index.search(rows[:3], k=10).ids.shape
        (3, 10)
    """

    def __init__(
        self,
        dimension: int,
        *,
        documents: VectorNoise | None = None,
        queries: VectorNoise | None = None,
        scores: ScoreNoise | None = None,
        store: str | Store = "flat",
        store_options: Mapping[str, Any] | None = None,
        path: str | os.PathLike[str] | None = None,
        projection: PublicProjection | None = None,
        normalize: bool = True,
        generator: _core.Generator | None = None,
    ) -> None:
        own = store if isinstance(store, Store) and not isinstance(store, type) else None
        name: Any = store if own is None else OWN
        settings = IndexSettings(
            dimension, documents, queries, scores, store=name, store_options=store_options, projection=projection, normalize=normalize
        )
        source = require_generator(generator)
        settings.require_secret_key(source)
        rows = open_store(name, settings.columns, options=store_options, path=path, own=own)
        if len(rows):  # the path is not shown: it may be an address with a password
            raise ValueError(f"path must be new, or of an index that is loaded: {name!r} there holds {len(rows)} rows")
        self._take(Content(settings, rows), source)

    @classmethod
    def _of(cls, content: Content, generator: _core.Generator) -> PrivateIndex:
        index = cls.__new__(cls)
        index._take(content, generator)
        return index

    def _take(self, content: Content, generator: _core.Generator) -> None:
        self._content, self._generator = content, generator
        self._unstored: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases()
        self._unanswered: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases(_MOST_UNANSWERED)

    # ---- what is in it ----

    @property
    def dimension(self) -> int:
        """d of the added rows."""
        return self.settings.dimension

    @property
    def columns(self) -> int:
        """Elements of the stored rows: d, or the projection's output dimension."""
        return self.settings.columns

    @property
    def projection(self) -> PublicProjection | None:
        """The public map that is applied to documents and queries first."""
        return self.settings.projection

    @property
    def is_seeded(self) -> bool:
        """Whether the noise comes from a user-given seed, so that no DP claim is made."""
        return self._generator.seeded

    @property
    def settings(self) -> IndexSettings:
        """The arguments of the constructor."""
        return self._content.settings

    @property
    def ids(self) -> NDArray[Any]:
        """Ids in row order: int64, or object (str). A copy."""
        return self._content.ids.values.copy()

    @property
    def receipts(self) -> tuple[RowReceipt, ...]:
        """The documents' receipts, one for every `add` with noise, including rows deleted since."""
        return tuple(self._content.receipts)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        settings = self.settings
        noise = ", ".join(name for name in SIDES if getattr(settings, name) is not None) or "nothing"
        return f"PrivateIndex({settings.dimension}, rows={len(self)}, store={settings.store!r}, noise on {noise})"

    def _sheet(self) -> Sheet:
        labeled = (line.partition(": ") if line.startswith(_LABELS) else ("", "", line) for line in self._facts())
        return Sheet(repr(self), tuple((label, text) for label, _, text in labeled), tuple(self._caveats()))

    def vectors(self, ids: Any = None) -> NDArray[np.float32]:
        """Stored rows, float32 [n, columns], of some ids in any order, or of all: released rows if documents have noise."""
        content = self._content
        return content.store.vectors() if ids is None else content.store.rows(content.ids.found(ids))

    # ---- texts and metadata: not protected ----

    def get(self, ids: Any = None) -> list[StoredDocument]:
        """Texts and metadata as they were added, for `ids` as in `vectors`."""
        content = self._content
        places = np.arange(len(self)) if ids is None else content.ids.found(ids)
        return [content.documents.document(one, place) for one, place in zip(content.ids.values[places].tolist(), places.tolist())]

    @property
    def documented(self) -> tuple[int, int]:
        """How many rows have a text, and how many have metadata."""
        return self._content.documents.counts

    def find(self, where: Mapping[str, Any]) -> NDArray[Any]:
        """The ids of the rows whose metadata a filter matches, in the order of the rows; `where` as in `search`."""
        return self._content.ids.values[self._content.matching(where)]

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """Whether each of some ids is in the index."""
        return self._content.ids.known(ids)

    def update(self, ids: Any, *, metadata: Any = None, texts: Any = None) -> None:
        """Replace texts or metadata of rows, each id once; None leaves what is there. Nothing is released or charged."""
        self._content.documents.update(self._content.ids.found(ids, once=True), metadata, texts)

    # ---- rows in, rows out ----

    def add(
        self, vectors: Any, ids: Any = None, metadata: Any = None, texts: Any = None, *, replace: bool = False, people: Any = None
    ) -> RowReceipt | None:
        """Store rows, after adding noise if documents have it.

        Args:
            vectors: float array [n, d], or [d] for one row; numpy or torch, or a list, as in `hushvec.privatize`. Not changed.
            ids: n unique integers or n unique strings, new to the index; None for the next whole numbers, which begin at 0. An id of
                a deleted row may be used again, at the price of a new release.
            metadata: n mappings of strings to JSON values, for filters. Not protected.
            texts: n strings. Not protected.
            replace: rows with known ids replace the old ones, after the charge. Each is a new release with a new charge.
            people: whom each row is about, as for `hushvec.privatize`, for documents whose budget counts by person.

        Returns:
            The receipt of the release, which covers the vectors alone; None without noise on documents.

        Raises:
            TypeError, ValueError, PrivacyBudgetExhaustedError: as `hushvec.privatize`; ids twice, known already or of another kind.
                Nothing is charged, stored or replaced then.
            StoreError: no row was added, and the charge stands. The same call again stores what was released at no charge; until
                then rows to be replaced are gone.
        """
        content, settings = self._content, self._content.settings
        x = require_rows("vectors", vectors, settings.dimension)
        new = content.ids.checked(ids, len(x), replace=validate.flag("replace", replace))
        beside = Documents.checked(texts, metadata, len(x))
        notes = (NOTE_BESIDE,) if any(beside.counts) else ()
        people = None if people is None else validate.listed("people", people)
        call = x, None if ids is None else new, notes, people
        kept = self._unstored.find(*call)
        released, receipt = kept or prepare("vectors", x, settings.documents, settings, self._generator, notes).release(people)
        try:
            if replace:
                self.delete(new[content.ids.known(new)])
            content.store.add(released)
        except BaseException as error:
            if receipt is not None:
                self._unstored.keep((released, receipt), *call)
            if not isinstance(error, Exception):
                raise
            raise store_error("no row was added", error, receipt) from error
        self._unstored.drop(*call)
        content.ids.append(new)
        content.documents.append(beside)
        if receipt is not None:
            content.receipts.append(receipt)
        return receipt

    def delete(self, ids: Any) -> int:
        """Delete rows, with their texts and metadata; returns how many. A release cannot be undone, so no budget is refunded.

        After a StoreError the rows stay in the index until the same call succeeds.
        """
        content = self._content
        places = np.sort(content.ids.found(ids, once=True))
        if len(places):
            try:
                content.store.delete(places)
            except Exception as error:
                raise store_error("the rows count as there until the same call succeeds", error, None) from error
            content.ids.remove(places)
            content.documents.remove(places)
        return len(places)

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None, among: Any = None) -> SearchResult:
        """The k rows with the largest inner products, for every query.

        Args:
            queries: float array [m, d], or [d] for one query; numpy or torch, or a list, as in `hushvec.privatize`. Not changed.
            k: how many ids a query gets; all rows that there are, if they are fewer.
            where: only rows whose public metadata this filter matches, `{"year": {"$gte": 2020}, "tag": "a"}`: docs/retrieval.md.
            among: only rows with these ids; both together: rows that are in both.

        Returns:
            A SearchResult: ids [m, k], and scores float32 [m, k], None with noise on scores by "gumbel". If the index, or
            `where` and `among`, have fewer rows than k, the shape is [m, that number], which only ids and metadata determine. If they
            leave none, nothing is charged.

        Raises:
            TypeError, ValueError: nothing is charged.
            PrivacyBudgetExhaustedError: nothing is answered. The scores' budget is charged first, and its charge stands if the
                other refuses; with per="record" that of the queries is charged for one of them.
            StoreError: the store failed. The same search again uses what was released of its queries, without another charge.
        """
        content, settings = self._content, self._content.settings
        x = require_rows("queries", queries, settings.dimension)
        most = validate.whole_number("k", k, at_least=1)
        if not len(content):
            raise ValueError("the index is empty: add vectors before searching it")
        places = content.candidates(where, among)
        most = min(most, len(content))
        rowwise.require_finite("queries", x)
        prepared = prepare("queries", x, settings.queries, settings, self._generator)
        if places is not None:
            most = min(most, len(places))
            if not most:  # nothing is computed, released or charged
                no_scores = settings.scores is not None and not settings.scores.releases_scores
                none = np.empty((len(x), 0), np.int64)
                return SearchResult(content.ids.values[none], None if no_scores else none.astype(np.float32))
        private = None
        if settings.scores is not None:
            documents = len(content) if places is None else len(places)
            private = ScoreSearch(settings.scores, documents, len(x), most, self._generator)
        score_receipt = None if private is None else private.charge()
        asked, query_receipt = self._unanswered.find(x) or prepared.release()
        values: NDArray[np.float32] | None
        if private is None:
            try:
                store = content.store
                found, values = store.search(asked, most) if places is None else best_of_some(store, asked, most, places)
            except Exception as error:
                if query_receipt is not None:
                    self._unanswered.keep((asked, query_receipt), x)
                raise store_error("nothing was answered", error, query_receipt) from error
            self._unanswered.drop(x)
        else:
            assert isinstance(content.store, NumpyStore)
            matrix = content.store.matrix()
            found, values = private.answer(matrix if places is None else Chosen(matrix, places), asked)
            found = found if places is None else places[found]
        return SearchResult(content.ids.values[found], values, query_receipt, score_receipt)

    # ---- guarantees ----

    def document_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """Return (epsilon, delta) for a document against anyone who sees the answers to so many queries in all, over any number of
        searches, chosen in view of earlier answers; None without any noise on documents.

        The smaller of two bounds: the cost of the released row, for any number of queries, and the cost of that many noisy answers,
        which covers answers only, not `vectors()`. The first is for one release: a row that was added again, or replaced by an equal
        one, costs it each time. With a seeded generator or a mechanism of the float grade nothing is claimed.
        """
        count = validate.whole_number("queries", queries, at_least=1)
        documents, scores = self.settings.documents, self.settings.scores
        bounds: list[tuple[float, float]] = []
        if documents is not None:
            costs = [documents.cost(self.columns)]
            if documents.per == "release":  # the largest cost of the releases so far, or that of one row before the first
                costs += [(receipt.epsilon, receipt.delta) for receipt in self._content.receipts]
            bounds.append(max(costs))
        if scores is not None:
            bounds.append(cost_of_queries(scores, count))
        return min(bounds, default=None)

    def query_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """(epsilon, delta) of one search of so many queries for each person who asks; None without noise on queries.

        Queries add up with per="query", the default: one person asks them all. With per="record" each is another person's; with
        per="release" a search has one price.
        """
        noise, count = self.settings.queries, validate.whole_number("queries", queries, at_least=1)
        return None if noise is None else noise.cost(self.columns, rows=count)

    def describe(self) -> tuple[str, ...]:
        """Lines on what each side costs and protects."""
        return (repr(self), *self._facts(), *self._caveats())

    def _facts(self) -> Iterator[str]:
        settings = self.settings
        yield from self._document_facts()
        if settings.scores is not None:
            scores = settings.scores
            clamped = f"clamped to [{scores.low:g}, {scores.high:g}]"
            yield f"scores: {scores.mechanism}, {clamped}, epsilon = {float(scores.epsilon)!r} a query"
            yield f"a document costs, by the number of queries answered in all: {_costs(self.document_guarantee)}"
        if settings.queries is not None:
            noise, unit = settings.queries, _UNITS[str(settings.queries.per)]
            yield f"queries: {self._price(noise)} for each {unit}"
            if noise.per == PER_QUERY:
                yield f"the asker is charged, by the number of queries in a search: {_costs(self.query_guarantee)}"
            yield "noise on queries protects the asker, if it is added at the asker's side; no document gains from it"
        texts, metadata = self.documented
        if texts or metadata:
            yield (
                f"{plural(texts, 'text')} and the metadata of {plural(metadata, 'row')} are stored as they are: nothing protects "
                "them, and anyone who reads a text needs no vector"
            )

    def _document_facts(self) -> Iterator[str]:
        noise = self.settings.documents
        if noise is None:
            yield "documents: stored without noise"
            return
        unit = "row" if noise.per == "record" else "add, all rows of which are about one person"
        yield f"documents: {self._price(noise)} for each {unit}; searches and `vectors` cost nothing more"
        epsilon, delta = noise.cost(self.columns)
        if noise.per == "record" and delta == 0 and len(self) > 1:
            bound = top_1_sentence(epsilon, len(self), noise_on="documents")
            yield f"{bound}, by a search for their clean versions (the right one at rank 1)"

    def _price(self, noise: VectorNoise) -> str:
        epsilon, delta = noise.cost(self.columns)
        return f"{getattr(noise.mechanism, 'name', noise.mechanism)}, epsilon = {epsilon!r}, delta = {delta!r}"

    def _caveats(self) -> Iterator[str]:
        settings = self.settings
        if settings.documents is None and settings.scores is None:
            yield "documents have no protection: answers show who is in the index"
        elif settings.documents is None:
            yield "only answers are protected: `vectors` and saved files hold the documents themselves"
        if self.is_seeded:
            yield "key from a user-given seed: NOT a DP claim"
        if any(noise is not None and noise.grade(self.columns) == "float" for noise in (settings.documents, settings.queries)):
            yield "grade float: not protected against floating-point attacks, NOT a DP claim"

    def fresh(self, generator: _core.Generator | None = None) -> PrivateIndex:
        """An empty index in memory with the same settings, its own key stream, no budgets ("flat" instead of an address or an own
        store)."""
        settings = self.settings.with_budgets({})
        if settings.store in (*BEHIND_AN_ADDRESS, OWN):
            settings = dataclasses.replace(settings, store="flat", store_options=None)
        store = open_store(settings.store, settings.columns, options=settings.store_options)
        return PrivateIndex._of(Content(settings, store), require_generator(generator))

    # ---- in a folder ----

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write rows, ids, texts, metadata, receipts and settings into a new, empty or replaced folder, atomically.

        Budgets and the generator are not saved. A store on disk keeps its rows; the folder says which of them belong to the
        index. Only the owner may read the files (mode 600).
        """
        saved.save(Path(folder), self._content)

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, document_budget: Budget | None = None, query_budget: Budget | None = None,
        score_budget: Budget | None = None, without_budgets: bool = False, path: str | os.PathLike[str] | None = None,
        store: Store | None = None, generator: _core.Generator | None = None,
    ) -> PrivateIndex:
        """The index that `save` wrote.

        Args:
            document_budget, query_budget, score_budget: of the sides; a side that had one when it was saved needs one again.
            without_budgets: continue without the budgets that the index had.
            path: where a store on disk lies, if it was moved; the address of a database, always.
            store: for an index with a store of your own: one without rows, or what `outlives`, with its rows.
            generator: as for a new index.

        ValueError for no index, or not what was saved; for a budget that is missing, or given for a side without noise.
        """
        source = require_generator(generator)
        budgets = {
            "documents": ("document_budget", document_budget),
            "queries": ("query_budget", query_budget),
            "scores": ("score_budget", score_budget),
        }
        content = saved.load(Path(folder), store_path=path, own=store, budgets=budgets, without_budgets=without_budgets)
        content.settings.require_secret_key(source)
        return cls._of(content, source)


def _costs(guarantee: Callable[[int], tuple[float, float] | None]) -> str:
    costs = ((queries, guarantee(queries)) for queries in _QUERIES)
    return "; ".join(f"{queries}: ({cost[0]:.6g}, {cost[1]:.6g})" for queries, cost in costs if cost is not None)
