"""`PrivateIndex`: rows that are looked up by inner product, with noise at every side that asks for it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hushvec import _arrays, _core, _validate
from hushvec.errors import UtilityWarning
from hushvec.label_receipt import RowReceipt
from hushvec.release import Budget
from hushvec.retrieval import saved
from hushvec.retrieval.answers import SearchResult
from hushvec.retrieval.guarantees import cost_of_queries, smaller
from hushvec.retrieval.noise import ScoreNoise, VectorNoise
from hushvec.retrieval.prepared import Prepared, as_rows
from hushvec.retrieval.private_scores import ScoreSearch
from hushvec.retrieval.row_ids import RowIds
from hushvec.retrieval.saved import Content
from hushvec.retrieval.settings import NOTE_CELLS, SIDES, IndexSettings
from hushvec.retrieval.stores import MatrixStore, open_store

if TYPE_CHECKING:
    from hushvec.mechanisms import PublicProjection


class PrivateIndex:
    """An index of vectors with differential privacy for its documents, for its queries, or for both.

    Args:
        dimension: d, elements of the rows that are added and of queries.
        documents: noise on rows before they are stored.
        queries: noise on queries before they are searched.
        scores: noise on scores before the best are named; needs a store that looks at every row in memory ("flat", "numpy").
        store: "flat" (FAISS where it is installed, else numpy), "numpy", "hnsw", "ivf", "lancedb" or "qdrant".
        store_options: of that store, by name; docs/retrieval.md lists them.
        path: folder of a store on disk ("lancedb", "qdrant"); None keeps it in memory.
        projection: a public map that documents and queries both go through first.
        normalize: unit rows on both sides, after the projection and before the noise: inner products are cosines then, up to the
            noise. A zero row stays zero.
        generator: key stream of all noise; the process-wide one if None. A seeded one gives no privacy: receipts say so, and
            together with a budget it is refused.

    Raises:
        TypeError, ValueError: arguments of the wrong kind, out of range, or that contradict each other.
        MissingExtraError: the store's package is not installed.

    Guarantees:
        Those of `VectorNoise` and `ScoreNoise`, in numbers from `document_guarantee` and `query_guarantee`; adjacency is replace-one,
        ids and the number of rows being public. Ids are released as they are: which ids an index holds is known to whoever sees its
        answers. Deleting rows gives nothing back: what was released of them stays released, and paid for. Noise on queries protects
        who asks, and no document. Documents with noise on rows and scores have both guarantees: scores of released rows are
        post-processing, and each score still moves by no more than its range. Stores never hold more than the released rows.

    Edge cases:
        Bad input is refused before anything is charged or written: ids twice, another dimension, NaN, an empty index, k above the
        number of rows. If the store fails afterwards (a full disk), the charge stands and no row was added. An index is not safe for
        use by several threads at once. Store "ivf" with so much noise on documents that its cells no longer hold what lies near
        gives a `UtilityWarning`: half of the answers are lost at epsilon 16.

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
        source = _validate.generator(generator)
        settings.require_secret_key(source)
        rows = open_store(store, settings.columns, options=store_options, path=path)
        if len(rows):
            raise ValueError(f"path must be new, or of an index that is loaded: {path} holds {len(rows)} rows")
        self._take(Content(settings, rows, RowIds(), ()), source)
        if settings.has_noise_in_cells:
            warnings.warn(NOTE_CELLS, UtilityWarning, stacklevel=2)

    def _take(self, content: Content, generator: _core.Generator) -> None:
        self._settings, self._store, self._ids = content.settings, content.store, content.ids
        self._receipts = list(content.receipts)
        self._generator = generator

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

    def vectors(self) -> NDArray[np.float32]:
        """The stored rows, float32 [n, columns], in the order of `ids`: with noise on documents they are released, without it not."""
        return self._store.vectors()

    # ---- rows in, rows out ----

    def add(self, vectors: Any, ids: Any = None) -> RowReceipt | None:
        """Store rows, with noise first where documents have it.

        Args:
            vectors: float array [n, d], or [d] for one row; numpy or torch. Not changed.
            ids: n unique integers or n unique strings, new to the index; None for the next whole numbers, which begin at 0. An id of
                a deleted row may come back: the row is then a new release, and costs what every release does.

        Returns:
            The receipt of the release; None without noise on documents.

        Raises:
            TypeError, ValueError: as `hushvec.privatize`; no rows, another dimension, ids twice, known already or of another kind.
                Nothing is charged or stored then.
            PrivacyBudgetExhaustedError: the budget has not enough left. Nothing was stored.
        """
        x = self._checked("vectors", vectors)
        rows = _arrays.rows_and_dimension(x)[0]
        new = self._ids.checked(ids, rows)
        self._store.require_room(rows)
        released, receipt = self._prepared("vectors", x, self._settings.documents).release()
        self._store.add(released)
        self._ids.append(new)
        if receipt is not None:
            self._receipts.append(receipt)
        return receipt

    def delete(self, ids: Any) -> int:
        """Forget rows. What was released of them stays released: no budget gets anything back.

        Args:
            ids: of rows that are there, each once.

        Returns:
            How many rows were deleted.

        Raises:
            TypeError: ids of another kind.
            ValueError: an id that is not there, or twice. Nothing is deleted then.
        """
        places = self._ids.places(ids)
        if len(places):
            self._store.delete(places)
            self._ids.remove(places)
        return len(places)

    def search(self, queries: Any, k: int = 10) -> SearchResult:
        """The k rows with the largest inner products, for every query.

        Args:
            queries: float array [m, d], or [d] for one query; numpy or torch. Not changed.
            k: how many ids a query gets; at most the number of rows.

        Returns:
            A SearchResult, ids of shape [m, k].

        Raises:
            TypeError, ValueError: wrong kinds; no queries, another dimension, NaN or Inf, an empty index, k above the number of rows.
                Nothing is charged then.
            PrivacyBudgetExhaustedError: a budget has not enough left; nothing is answered. Both are charged for all queries of the
                call (that of the queries for one of them with per="record", where each is another person's). The scores' budget is
                charged before the queries': with two, the first charge stands if the second is refused.
        """
        x = self._checked("queries", queries)
        most = _validate.whole_number("k", k, at_least=1)
        if not len(self):
            raise ValueError("the index is empty: add vectors before searching it")
        if most > len(self):
            raise ValueError(f"k must be at most the {len(self)} rows of the index, got {most}")
        _arrays.require_finite("queries", x)
        prepared = self._prepared("queries", x, self._settings.queries)
        private = self._score_search(len(x), most)
        score_receipt = None if private is None else private.charge()
        asked, query_receipt = prepared.release()
        places: NDArray[np.int64]
        values: NDArray[np.float32] | None
        if private is None:
            places, values = self._store.search(asked, most)
        else:
            assert isinstance(self._store, MatrixStore)
            places, values = private.answer(self._store.matrix(), asked)
        return SearchResult(self._ids.values[places], values, query_receipt, score_receipt)

    # ---- what it promises ----

    def document_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """(epsilon, delta) for a document against whoever sees the answers to so many queries; None without any noise on documents.

        Args:
            queries: how many are answered in all, over any number of searches, chosen in view of earlier answers.

        Returns:
            The smaller of what holds: the cost of the released row, whatever the number of queries, and the cost of that many noisy
            answers. The second covers answers only, not `vectors()`. For a seeded generator or a mechanism of the float grade the
            numbers are those of real-number noise with a secret key, and nothing is claimed.
        """
        count = _validate.whole_number("queries", queries, at_least=1)
        scores = None if self._settings.scores is None else cost_of_queries(self._settings.scores, count)
        return smaller(self._row_guarantee(), scores)

    def query_guarantee(self, queries: int = 1) -> tuple[float, float] | None:
        """(epsilon, delta) of one search for each person who asks; None without noise on queries.

        Args:
            queries: of the search. They add up with per="query", the default: one person asks them all. With per="record" each is
                another person's, and with per="release" the price is that of a search, whatever their number.
        """
        noise, count = self._settings.queries, _validate.whole_number("queries", queries, at_least=1)
        return None if noise is None else noise.cost(self.columns, rows=count)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what every side costs and protects."""
        from hushvec.retrieval.description import describe

        return describe(self)

    def fresh(self, generator: _core.Generator | None = None) -> PrivateIndex:
        """An empty index with the same settings and no budgets, in memory: for shadow models and studies.

        Args:
            generator: its key stream; the process-wide one if None.
        """
        settings = self._settings.with_budgets({})
        store = open_store(settings.store, settings.columns, options=settings.store_options)
        index = PrivateIndex.__new__(PrivateIndex)
        index._take(Content(settings, store, RowIds(), ()), _validate.generator(generator))
        return index

    # ---- in a folder ----

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write rows, ids, receipts and settings into a folder, in one step: what was saved there before stays until all is written.

        Budgets and the generator are not saved. A store on disk keeps its rows where they are; what is saved is which of them belong
        to the index, so what was added after the last save is not in it. Only the owner may read the files (mode 600), and they hold
        what `vectors` returns.

        Args:
            folder: new, empty, or with an index that is replaced.

        Raises:
            ValueError: it is a file, or holds something else.
            OSError: it cannot be written. What was there before is still there then.
        """
        saved.save(Path(folder), Content(self._settings, self._store, self._ids, tuple(self._receipts)))

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
            path: where a store on disk lies, if it was moved.
            generator: as for a new index.

        Raises:
            ValueError: no index, or not what was saved (lengths and SHA-256 of all files are checked); a budget missing, or given for
                a side without noise.
            OSError: a file cannot be read.
            MissingExtraError: the store's package is not installed.
        """
        source = _validate.generator(generator)
        content, budgeted = saved.load(Path(folder), store_path=path)
        given = {
            "documents": ("document_budget", document_budget),
            "queries": ("query_budget", query_budget),
            "scores": ("score_budget", score_budget),
        }
        for side, (name, budget) in given.items():
            if budget is not None and getattr(content.settings, side) is None:
                raise ValueError(f"{name} must be None: the index has no noise on {side}")
            if budget is None and side in budgeted and not _validate.flag("without_budgets", without_budgets):
                raise ValueError(f"{name} must be given: the index was saved with one (without_budgets=True goes on without)")
        settings = content.settings.with_budgets({side: budget for side, (_, budget) in given.items()})
        settings.require_secret_key(source)
        index = cls.__new__(cls)
        index._take(content._replace(settings=settings), source)
        return index

    # ---- parts ----

    def _checked(self, name: str, x: Any) -> Any:
        """Rows [n, d] of at least one row."""
        _arrays.require_array(name, x)
        rows, dimension = _arrays.rows_and_dimension(x)
        if dimension != self.dimension:
            raise ValueError(f"{name} must have {self.dimension} columns, got {dimension}")
        if rows == 0:
            raise ValueError(f"{name} must have at least 1 row, got 0")
        return x.reshape(rows, dimension)

    def _prepared(self, name: str, x: Any, noise: VectorNoise | None) -> Prepared:
        """Rows through the projection, and everything about their release checked."""
        projection, normalize = self._settings.projection, self._settings.normalize
        if projection is not None:
            _arrays.require_finite(name, x)
            x = projection.transform(x)
        if noise is not None:
            plan = noise.plan(
                rows=len(x),
                dimension=self.columns,
                dtype=_arrays.dtype_name(x),
                normalize=normalize and not noise.is_of_directions,
                generator=self._generator,
            )
            return Prepared(x, plan, noise.budget, projection, noise.notes(plan))
        _arrays.require_finite(name, x)
        if normalize:
            unit = _arrays.empty_like(x)
            _arrays.unit_rows(x, unit)
            return Prepared(as_rows(unit))
        rows = as_rows(x)
        _arrays.require_finite(f"{name} in the range of float32", rows)
        return Prepared(rows)

    def _score_search(self, queries: int, k: int) -> ScoreSearch | None:
        if self._settings.scores is None:
            return None
        return ScoreSearch(noise=self._settings.scores, documents=len(self), queries=queries, k=k, generator=self._generator)

    def _row_guarantee(self) -> tuple[float, float] | None:
        """Of a released row. With per="release" the largest of what the releases so far cost, or one row before the first."""
        documents = self._settings.documents
        if documents is None:
            return None
        costs: list[tuple[float, float]] = [documents.cost(self.columns)]
        if documents.per == "release":
            costs += [(receipt.epsilon, receipt.delta) for receipt in self._receipts]
        return max(costs)
