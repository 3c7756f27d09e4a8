"""`PrivateIndex`: rows that are looked up by inner product, with noise at every side that asks for it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays
from hushvec._native.generators import require_generator
from hushvec._util import validate
from hushvec.errors import StoreError, UtilityWarning
from hushvec.receipts.labels import RowReceipt
from hushvec.release.charging import Budget
from hushvec.retrieval import saved
from hushvec.retrieval.answers import SearchResult
from hushvec.retrieval.documents import NOTE_BESIDE, Beside, Documents, StoredDocument
from hushvec.retrieval.filters import matcher
from hushvec.retrieval.guarantees import cost_of_queries, smaller
from hushvec.retrieval.kept import KeptReleases
from hushvec.retrieval.noise import ScoreNoise, VectorNoise
from hushvec.retrieval.prepared import Prepared, as_rows
from hushvec.retrieval.private_scores import ScoreSearch
from hushvec.retrieval.row_ids import RowIds
from hushvec.retrieval.saved import Content
from hushvec.retrieval.settings import NOTE_CELLS, SIDES, IndexSettings
from hushvec.retrieval.stores import BEHIND_AN_ADDRESS, MatrixStore, open_store
from hushvec.retrieval.subset import Chosen, best_of_some, rows_at

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection

# Releases of queries that are kept for another try. An asker who gave up leaves one.
_MOST_UNANSWERED = 256


class PrivateIndex:
    """An index of vectors with differential privacy for its documents, for its queries, or for both.

    Args:
        dimension: d, elements of the rows that are added and of queries.
        documents: noise on rows before they are stored.
        queries: noise on queries before they are searched.
        scores: noise on scores before the best are named; needs a store that looks at every row in memory ("flat", "numpy").
        store: "flat" (FAISS where it is installed, else numpy), "numpy", "hnsw", "ivf", "lancedb", "qdrant", "milvus" or "pgvector".
        store_options: of that store, by name; docs/retrieval.md lists them.
        path: folder of a store on disk ("lancedb", "qdrant", "milvus"); None keeps it in memory ("milvus": in a temporary folder).
            For "pgvector" the address of the database, postgresql://user@host/database; it is never saved, and errors hide its
            password.
        projection: a public map that documents and queries both go through first.
        normalize: unit rows on both sides, after the projection and before the noise: inner products are cosines then, up to the
            noise. A zero row stays zero.
        generator: key stream of all noise; the process-wide one if None. A seeded one gives no privacy: receipts say so, and
            together with a budget it is refused.

    Raises:
        TypeError, ValueError: arguments of the wrong kind, out of range, or that contradict each other.
        StoreError: what lies at `path` cannot be used.
        MissingExtraError: the store's package is not installed.

    Guarantees:
        Those of `VectorNoise` and `ScoreNoise`, in numbers from `document_guarantee` and `query_guarantee`; adjacency is
        replace-one of a row's vector, with ids, texts, metadata and the number of rows public. Ids are released as they are: which
        ids an index holds is known to whoever sees its answers. Texts and metadata are stored and returned without protection: a
        guarantee about vectors does not cover them, and anyone who can read a text does not need its vector. Deleting rows gives
        nothing back: what was released of them stays released, and paid for. Noise on queries protects who asks, and no document.
        Documents with noise on rows and scores have both guarantees: scores of released rows are post-processing, and each score
        still moves by no more than its range. With noise on documents, stores hold the released rows alone. A filter reads metadata
        alone, so it costs nothing and the guarantees hold for the rows that it leaves as for all.

    Edge cases:
        Bad input is refused before anything is charged or written: ids twice, another dimension, NaN, an empty index, k above the
        number of rows. If the store fails afterwards (a full disk, a lost connection), the charge stands and no row was added; the
        release is kept in memory, and the same call again stores it without a second charge. An index is not safe for use by several
        threads at once. Store "ivf" with so much noise on documents that its cells no longer hold what lies near gives a
        `UtilityWarning`: half of the answers are lost at epsilon 16.

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
        store: str = "flat",
        store_options: Mapping[str, Any] | None = None,
        path: str | os.PathLike[str] | None = None,
        projection: PublicProjection | None = None,
        normalize: bool = True,
        generator: _core.Generator | None = None,
    ) -> None:
        settings = IndexSettings(
            dimension=dimension,
            documents=documents,
            queries=queries,
            scores=scores,
            store=store,
            store_options=store_options,
            projection=projection,
            normalize=normalize,
        )
        source = require_generator(generator)
        settings.require_secret_key(source)
        rows = open_store(store, settings.columns, options=store_options, path=path)
        if len(rows):
            place = f"{settings.store!r} there"  # the path may be an address with a password
            raise ValueError(f"path must be new, or of an index that is loaded: {place} holds {len(rows)} rows")
        self._take(Content(settings, rows, RowIds(), (), Documents()), source)
        if settings.has_noise_in_cells:
            warnings.warn(NOTE_CELLS, UtilityWarning, stacklevel=2)

    def _take(self, content: Content, generator: _core.Generator) -> None:
        self._settings, self._store, self._ids = content.settings, content.store, content.ids
        self._receipts, self._documents = list(content.receipts), content.documents
        self._generator = generator
        self._unstored: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases()
        self._unanswered: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases(_MOST_UNANSWERED)

    # ---- what is in it ----

    @property
    def dimension(self) -> int:
        """d of the rows that go in."""
        return self._settings.dimension

    @property
    def columns(self) -> int:
        """Elements of the stored rows: d, or what the projection makes of it."""
        return self._settings.columns

    @property
    def projection(self) -> PublicProjection | None:
        """The public map that documents and queries go through first."""
        return self._settings.projection

    @property
    def is_seeded(self) -> bool:
        """Whether the noise comes from a user-given seed, so that nothing is claimed."""
        return self._generator.seeded

    @property
    def settings(self) -> IndexSettings:
        """What it was asked for."""
        return self._settings

    @property
    def ids(self) -> NDArray[Any]:
        """Ids in the order of the rows: int64, or object (str). A copy."""
        return self._ids.values.copy()

    @property
    def receipts(self) -> tuple[RowReceipt, ...]:
        """Of the documents, one for every `add` with noise, of rows deleted since too."""
        return tuple(self._receipts)

    def __len__(self) -> int:
        return len(self._ids)

    def __repr__(self) -> str:
        sides = [name for name in SIDES if getattr(self._settings, name) is not None]
        noise = ", ".join(sides) or "nothing"
        return f"PrivateIndex({self.dimension}, rows={len(self)}, store={self._settings.store!r}, noise on {noise})"

    def vectors(self, ids: Any = None) -> NDArray[np.float32]:
        """Stored rows, float32 [n, columns]: with noise on documents they are released, without it not.

        Args:
            ids: of the rows, in any order; None for all rows in the order of `ids`.

        Raises:
            TypeError, ValueError: ids of another kind, or that are not there.
        """
        return self._store.vectors() if ids is None else rows_at(self._store, self._ids.found(ids))

    # ---- texts and metadata, which nothing protects ----

    def get(self, ids: Any = None) -> list[StoredDocument]:
        """Texts and metadata as they were added.

        Args:
            ids: of the rows, in any order; None for all rows in the order of `ids`.

        Raises:
            TypeError, ValueError: ids of another kind, or that are not there.
        """
        places = np.arange(len(self)) if ids is None else self._ids.found(ids)
        return [self._documents.document(one, place) for one, place in zip(self._ids.values[places].tolist(), places.tolist())]

    @property
    def documented(self) -> tuple[int, int]:
        """How many rows have a text, and how many have metadata."""
        return self._documents.counts

    def find(self, where: Mapping[str, Any]) -> NDArray[Any]:
        """The ids of the rows whose metadata a filter matches, in the order of the rows.

        Args:
            where: as in `search`.

        Raises:
            TypeError, ValueError: no such filter.
        """
        return self._ids.values[self._matching(where)]

    def has(self, ids: Any) -> NDArray[np.bool_]:
        """Whether each of some ids is in the index.

        Raises:
            TypeError: neither integers nor strings.
        """
        return self._ids.known(ids)

    def update(self, ids: Any, *, metadata: Any = None, texts: Any = None) -> None:
        """Other texts or metadata for rows that are there. Their vectors stay, so that nothing is released or charged.

        Args:
            ids: of rows that are there, each once.
            metadata, texts: as in `add`, in the order of the ids; None leaves what is there.

        Raises:
            TypeError, ValueError: as `add`, or an id that is not there, or twice. Nothing is changed then.
        """
        places = self._ids.found(ids, once=True)
        new = Beside.checked(texts, metadata, len(places))
        if texts is not None:
            self._documents.set_texts(places, new.texts)
        if metadata is not None:
            self._documents.set_metadata(places, new.metadata)

    # ---- rows in, rows out ----

    def add(
        self, vectors: Any, ids: Any = None, metadata: Any = None, texts: Any = None, *, replace: bool = False
    ) -> RowReceipt | None:
        """Store rows, with noise first where documents have it.

        Args:
            vectors: float array [n, d], or [d] for one row; numpy or torch. Not changed.
            ids: n unique integers or n unique strings, new to the index; None for the next whole numbers, which begin at 0. An id of
                a deleted row may come back: the row is then a new release, and costs what every release does.
            metadata: n mappings of strings to JSON values (str, int, float, bool, None, lists of these), for filters. Stored and
                returned without protection.
            texts: n strings. Stored and returned without protection: anyone who can read them does not need the vectors.
            replace: rows with known ids replace the old ones, which are deleted after the charge. Each is a new release with a new
                charge; the charge for the old one stands.

        Returns:
            The receipt of the release, which is about the vectors alone and says so where there are texts or metadata; None without
            noise on documents.

        Raises:
            TypeError, ValueError: as `hushvec.privatize`; no rows, another dimension, ids twice, known already or of another kind;
                texts or metadata of the wrong kind or number. Nothing is charged or stored then.
            PrivacyBudgetExhaustedError: the budget has not enough left. Nothing was stored or replaced.
            StoreError: the store failed; no row was added. What was charged stays charged, and the same call again, with equal rows
                and ids, stores the rows that were released for it, without another charge. With `replace` the old rows are gone
                until then.
        """
        x = self._checked("vectors", vectors)
        rows = arrays.rows_and_dimension(x)[0]
        new = self._ids.checked(ids, rows, replace=validate.flag("replace", replace))
        beside = Beside.checked(texts, metadata, rows)
        self._store.require_room(rows)
        notes = () if beside.is_nothing else (NOTE_BESIDE,)
        call = x, None if ids is None else new, notes
        kept = self._unstored.find(*call)
        released, receipt = kept or self._prepared("vectors", x, self._settings.documents, notes).release()
        try:
            if replace:
                self.delete(new[self._ids.known(new)])
            self._store.add(released)
        except BaseException as error:
            if receipt is not None:
                self._unstored.keep((released, receipt), *call)
            if not isinstance(error, Exception):
                raise
            raise _store_error("no row was added", error, receipt) from error
        self._unstored.drop(*call)
        self._ids.append(new)
        self._documents.append(beside)
        if receipt is not None:
            self._receipts.append(receipt)
        return receipt

    def delete(self, ids: Any) -> int:
        """Forget rows, with their texts and metadata. What was released of them stays released: no budget gets anything back.

        Args:
            ids: of rows that are there, each once.

        Returns:
            How many rows were deleted.

        Raises:
            TypeError: ids of another kind.
            ValueError: an id that is not there, or twice. Nothing is deleted then.
            StoreError: the store failed. The rows count as there until the same call succeeds.
        """
        places = self._ids.places(ids)
        if len(places):
            try:
                self._store.delete(places)
            except Exception as error:
                raise _store_error("the rows count as there until the same call succeeds", error, None) from error
            self._ids.remove(places)
            self._documents.remove(places)
        return len(places)

    def search(self, queries: Any, k: int = 10, *, where: Mapping[str, Any] | None = None, among: Any = None) -> SearchResult:
        """The k rows with the largest inner products, for every query.

        Args:
            queries: float array [m, d], or [d] for one query; numpy or torch. Not changed.
            k: how many ids a query gets; at most the number of rows, if neither `where` nor `among` is given.
            where: only rows whose metadata this filter matches: `{"year": 2020}`, `{"year": {"$gte": 2020}, "tag": "a"}`, with $eq
                $ne $gt $gte $lt $lte $in $nin $and $or $not as in MongoDB; docs/retrieval.md has the rules. Metadata is public, so
                this costs nothing.
            among: only rows with these ids; both together: rows that are in both.

        Returns:
            A SearchResult: ids [m, k], and scores float32 [m, k], None with noise on scores by "gumbel". If `where` and `among` leave
            fewer rows than k, the shape is [m, that number], which only ids and metadata determine. If they leave none, nothing is
            charged.

        Raises:
            TypeError, ValueError: wrong kinds; no queries, another dimension, NaN or Inf, an empty index, k above the number of rows.
                An operator that filters do not have; ids that are not there. Nothing is charged then.
            PrivacyBudgetExhaustedError: a budget has not enough left; nothing is answered. Both are charged for all queries of the
                call (that of the queries for one of them with per="record", where each is another person's). The scores' budget is
                charged before the queries': with two, the first charge stands if the second is refused.
            StoreError: the store failed. The same search again uses what was released of its queries, without another charge.
        """
        x = self._checked("queries", queries)
        most = validate.whole_number("k", k, at_least=1)
        if not len(self):
            raise ValueError("the index is empty: add vectors before searching it")
        places = self._candidates(where, among)
        if places is None and most > len(self):
            raise ValueError(f"k must be at most the {len(self)} rows of the index, got {most}")
        arrays.require_finite("queries", x)
        prepared = self._prepared("queries", x, self._settings.queries)
        if places is not None:
            most = min(most, len(places))
            if not most:
                return self._no_answer(len(x))
        private = self._score_search(len(x), most, len(self) if places is None else len(places))
        score_receipt = None if private is None else private.charge()
        asked, query_receipt = self._unanswered.find(x) or prepared.release()
        found: NDArray[np.int64]
        values: NDArray[np.float32] | None
        if private is None:
            try:
                found, values = self._best(asked, most, places)
            except Exception as error:
                if query_receipt is not None:
                    self._unanswered.keep((asked, query_receipt), x)
                raise _store_error("nothing was answered", error, query_receipt) from error
            self._unanswered.drop(x)
        else:
            found, values = self._noisy_best(private, asked, places)
        return SearchResult(self._ids.values[found], values, query_receipt, score_receipt)

    # ---- what it promises ----

    def document_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """(epsilon, delta) for a document against whoever sees the answers to so many queries; None without any noise on documents.

        Args:
            queries: how many are answered in all, over any number of searches, chosen in view of earlier answers.

        Returns:
            The smaller of what holds: the cost of the released row, whatever the number of queries, and the cost of that many noisy
            answers. The second covers answers only, not `vectors()`. The first is for one release: a row that was added again, or
            replaced by an equal one, costs it each time against whoever saw both.
            For a seeded generator or a mechanism of the float grade the numbers are those of real-number noise with a secret key, and
            nothing is claimed.
        """
        count = validate.whole_number("queries", queries, at_least=1)
        scores = None if self._settings.scores is None else cost_of_queries(self._settings.scores, count)
        return smaller(self._row_guarantee(), scores)

    def query_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """(epsilon, delta) of one search for each person who asks; None without noise on queries.

        Args:
            queries: of the search. They add up with per="query", the default: one person asks them all. With per="record" each is
                another person's, and with per="release" the price is that of a search, whatever their number.
        """
        noise, count = self._settings.queries, validate.whole_number("queries", queries, at_least=1)
        return None if noise is None else noise.cost(self.columns, rows=count)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what every side costs and protects."""
        from hushvec.retrieval.description import describe

        return describe(self)

    def fresh(self, generator: _core.Generator | None = None) -> PrivateIndex:
        """An empty index with the same settings and no budgets, in memory: for shadow models and studies.

        A store behind an address becomes "flat".

        Args:
            generator: its key stream; the process-wide one if None.
        """
        settings = self._settings.with_budgets({})
        if settings.store in BEHIND_AN_ADDRESS:
            settings = replace(settings, store="flat", store_options=None)
        store = open_store(settings.store, settings.columns, options=settings.store_options)
        index = PrivateIndex.__new__(PrivateIndex)
        index._take(Content(settings, store, RowIds(), (), Documents()), require_generator(generator))
        return index

    # ---- in a folder ----

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write rows, ids, texts, metadata, receipts and settings into a folder.

        In one step: what was saved there before stays until all is written.

        Budgets and the generator are not saved. A store on disk keeps its rows where they are; what is saved is which of them belong
        to the index, so what was added after the last save is not in it. Only the owner may read the files (mode 600), and they hold
        what `vectors` and `get` return: texts and metadata as they are.

        Args:
            folder: new, empty, or with an index that is replaced.

        Raises:
            ValueError: it is a file, or holds something else.
            OSError: it cannot be written. What was there before is still there then.
        """
        saved.save(Path(folder), Content(self._settings, self._store, self._ids, tuple(self._receipts), self._documents))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        document_budget: Budget | None = None,
        query_budget: Budget | None = None,
        score_budget: Budget | None = None,
        without_budgets: bool = False,
        path: str | os.PathLike[str] | None = None,
        generator: _core.Generator | None = None,
    ) -> PrivateIndex:
        """The index that `save` wrote.

        Args:
            folder: as given to `save`.
            document_budget, query_budget, score_budget: of the sides, as in their noise. A side that had one when it was saved needs
                one again.
            without_budgets: go on without the budgets that the index had.
            path: where a store on disk lies, if it was moved; the address of a database, always.
            generator: as for a new index.

        Raises:
            ValueError: no index, or not what was saved (lengths and SHA-256 of all files are checked); a budget missing, or given for
                a side without noise.
            OSError: a file cannot be read.
            MissingExtraError: the store's package is not installed.
        """
        source = require_generator(generator)
        content, budgeted = saved.load(Path(folder), store_path=path)
        given = {
            "documents": ("document_budget", document_budget),
            "queries": ("query_budget", query_budget),
            "scores": ("score_budget", score_budget),
        }
        for side, (name, budget) in given.items():
            if budget is not None and getattr(content.settings, side) is None:
                raise ValueError(f"{name} must be None: the index has no noise on {side}")
            if budget is None and side in budgeted and not validate.flag("without_budgets", without_budgets):
                raise ValueError(f"{name} must be given: the index was saved with one (without_budgets=True goes on without)")
        settings = content.settings.with_budgets({side: budget for side, (_, budget) in given.items()})
        settings.require_secret_key(source)
        index = cls.__new__(cls)
        index._take(content._replace(settings=settings), source)
        return index

    # ---- parts ----

    def _checked(self, name: str, x: Any) -> Any:
        """Rows [n, d] of at least one row."""
        arrays.require_array(name, x)
        rows, dimension = arrays.rows_and_dimension(x)
        if dimension != self.dimension:
            raise ValueError(f"{name} must have {self.dimension} columns, got {dimension}")
        if rows == 0:
            raise ValueError(f"{name} must have at least 1 row, got 0")
        return x.reshape(rows, dimension)

    def _candidates(self, where: Mapping[str, Any] | None, among: Any) -> NDArray[np.int64] | None:
        """Places of the rows that a search is to look at, ascending; None for all of them."""
        if where is None and among is None:
            return None
        places = np.arange(len(self)) if among is None else np.unique(self._ids.found(among))
        return places if where is None else np.intersect1d(places, self._matching(where), assume_unique=True)

    def _matching(self, where: Mapping[str, Any]) -> NDArray[np.int64]:
        matches = matcher(where)
        return np.flatnonzero(np.fromiter(map(matches, self._documents.metadata()), np.bool_, len(self)))

    def _no_answer(self, queries: int) -> SearchResult:
        """That of a search among no rows: nothing was computed, released or charged."""
        scores = self._settings.scores
        ids = self._ids.values[np.empty((queries, 0), np.int64)]
        return SearchResult(ids, None if scores is not None and scores.mechanism == "gumbel" else np.empty((queries, 0), np.float32))

    def _best(
        self, asked: NDArray[np.float32], k: int, places: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        return self._store.search(asked, k) if places is None else best_of_some(self._store, asked, k, places)

    def _noisy_best(
        self, private: ScoreSearch, asked: NDArray[np.float32], places: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        assert isinstance(self._store, MatrixStore)
        matrix = self._store.matrix()
        if places is None:
            return private.answer(matrix, asked)
        found, values = private.answer(Chosen(matrix, places), asked)
        return places[found], values

    def _prepared(self, name: str, x: Any, noise: VectorNoise | None, notes: tuple[str, ...] = ()) -> Prepared:
        """Rows through the projection, and everything about their release checked."""
        projection, normalize = self._settings.projection, self._settings.normalize
        if projection is not None:
            arrays.require_finite(name, x)
            x = projection.transform(x)
        if noise is not None:
            plan = noise.plan(
                rows=len(x),
                dimension=self.columns,
                dtype=arrays.dtype_name(x),
                normalize=normalize and not noise.is_of_directions,
                generator=self._generator,
            )
            return Prepared(x, plan, noise.budget, projection, (*noise.notes(plan), *notes))
        arrays.require_finite(name, x)
        if normalize:
            unit = arrays.empty_like(x)
            arrays.unit_rows(x, unit)
            return Prepared(as_rows(unit))
        rows = as_rows(x)
        arrays.require_finite(f"{name} in the range of float32", rows)
        return Prepared(rows)

    def _score_search(self, queries: int, k: int, documents: int) -> ScoreSearch | None:
        if self._settings.scores is None:
            return None
        return ScoreSearch(noise=self._settings.scores, documents=documents, queries=queries, k=k, generator=self._generator)

    def _row_guarantee(self) -> tuple[float, float] | None:
        """Of a released row. With per="release" the largest of what the releases so far cost, or one row before the first."""
        documents = self._settings.documents
        if documents is None:
            return None
        costs: list[tuple[float, float]] = [documents.cost(self.columns)]
        if documents.per == "release":
            costs += [(receipt.epsilon, receipt.delta) for receipt in self._receipts]
        return max(costs)


def _store_error(outcome: str, error: Exception, receipt: RowReceipt | None) -> StoreError:
    """The store's own words, and what to do."""
    kept = "" if receipt is None else "; the charge stands and its release is kept: the same call again costs nothing"
    return StoreError(f"{str(error) or type(error).__name__}; {outcome}{kept}")
