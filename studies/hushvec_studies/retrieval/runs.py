"""One run: an index with this noise, what it finds, and what the attacks find out about it; and doing the runs of a study."""

from __future__ import annotations

import math
import resource
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property, lru_cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec._util import validate
from hushvec.audit.bootstrap import bootstrap
from hushvec.mechanisms import PrivUnit, PublicProjection
from hushvec.retrieval import Estimate, PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.attacks.membership import MembershipResult, judge
from hushvec.retrieval.attacks.shadows import Game, play
from hushvec.retrieval.attacks.statistics import observe
from hushvec.retrieval.evaluation import Evaluation, evaluate
from hushvec_studies.harness.embeddings import embedder
from hushvec_studies.harness.logs import stage
from hushvec_studies.harness.measurements import Measurement, measured
from hushvec_studies.harness.outputs import commit_of
from hushvec_studies.harness.paired import paired_test
from hushvec_studies.retrieval.columns import FALSE_POSITIVE_RATES, RECALL_DEPTHS, Row, attack_column, empty_row
from hushvec_studies.retrieval.configuration import Configuration
from hushvec_studies.retrieval.inputs import AllInputs, Inputs, drawn
from hushvec_studies.retrieval.plan import Run
from hushvec_studies.retrieval.prepared import Prepared
from hushvec_studies.retrieval.records import RESULTS, Record, StudyFolder

# Names of runs as UUIDs of the fifth kind, below a name space of this package.
_NAME_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "hushvec study")
_CATEGORY_DEPTH = 10
_EPSILON_COLUMNS = {"document": "epsilon_doc", "query": "epsilon_query", "score": "epsilon_score"}
_NOISE_COLUMNS = {"document": "noise_doc", "query": "noise_query", "score": "noise_score"}


def perform(run: Run, data: Inputs, config_hash: str, commit: str | None) -> Record:
    """Do a run on these vectors; its name and the commit go into its rows.

    All its randomness comes from the run's settings: the same run has the same figures.

    Raises:
        ValueError, TypeError: the inputs do not fit the settings, as with k above the number of documents.
    """
    start = time.perf_counter()
    make_index = _maker(run, data)
    folder = run.configuration.retrieval.prepared
    prepared = None if folder is None else Prepared(Path(folder), run, data.digest)
    with stage("index", documents=len(data.documents)) as facts:
        index, build_seconds, facts["loaded"] = _index(run, data, make_index, prepared)
    with stage("search", queries=len(data.queries)):
        searched, evaluation = _evaluated(run, data, index)
    row = empty_row() | _about(run, data, config_hash, commit) | _utility(run, data, searched, evaluation)
    row["index_build_time_s"] = build_seconds
    row |= _epsilons(run, index, searched)
    row |= _difference(run, data, evaluation)
    attacked = _attacks(run, data, make_index, prepared)
    row["timestamp"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    row["run_seconds"] = time.perf_counter() - start
    return Record(
        rows=tuple(row | attacked.get(k, {}) | _recall_at(k, evaluation) for k in run.ks),
        ranks=ranks_of(data, searched.found),
        queries_of=tuple(np.unique(data.query_documents, return_counts=True)[1].tolist()),
    )


# The search without noise of one set of inputs: runs come in the order of the plan, set by set.
@lru_cache(maxsize=1)
def _without_noise(run: Run, data: Inputs) -> Evaluation:
    index = _maker(run, data)(_stream(run, "index"))
    index.add(data.documents)
    return _evaluated(run, data, index)[1]


def _stream(run: Run, purpose: str) -> hushvec.Generator:
    return hushvec.Generator.unsafe_seeded(run.seed(purpose))


# ---- the index ----

def _index(
    run: Run, data: Inputs, make_index: Callable[[hushvec.Generator], PrivateIndex], prepared: Prepared | None
) -> tuple[PrivateIndex, float, bool]:
    """The index with its documents, the seconds that it took to build, now or when it was kept, and whether it was loaded."""
    stream = _stream(run, "index")
    kept = None if prepared is None else prepared.index(stream)
    if kept is not None:
        return *kept, True
    index = make_index(stream)
    began = time.perf_counter()
    index.add(data.documents)
    seconds = time.perf_counter() - began
    if prepared is not None:
        prepared.keep_index(index, seconds)
    return index, seconds, False


def _maker(run: Run, data: Inputs) -> Callable[[hushvec.Generator], PrivateIndex]:
    """A function that makes the run's index, empty."""
    projection = _projection(run.projection, data)
    columns = data.documents.shape[1] if projection is None else projection.output_dimension
    noise: dict[str, Any] = {side: _noise(run, side, columns, len(data.documents)) for side in run.sides}

    def make(generator: hushvec.Generator) -> PrivateIndex:
        return PrivateIndex(
            data.documents.shape[1],
            documents=noise.get("document"),
            queries=noise.get("query"),
            scores=noise.get("score"),
            store=run.configuration.retrieval.store,
            projection=projection,
            generator=generator,
        )

    return make


@lru_cache(maxsize=1)
def _projection(name: str, data: Inputs) -> PublicProjection | None:
    kind, _, components = name.partition(":")
    own = {row.tobytes() for row in data.documents}
    public = data.public[[row.tobytes() not in own for row in data.public]]  # a text that both splits have is not public
    if kind == "none":
        return None
    if kind == "mean":
        return PublicProjection.mean_only(public)
    return PublicProjection.fit(public, components=int(components) if components else "all", whiten=kind == "whiten")


def _noise(run: Run, side: str, columns: int, documents: int) -> VectorNoise | ScoreNoise:
    family, privacy = run.noise, run.configuration.privacy
    assert family is not None
    if side == "score":
        assert run.epsilon is not None and family.scores is not None
        return ScoreNoise(epsilon=run.epsilon, delta=privacy.delta, mechanism=family.scores)
    if family.corpus_size:
        assert run.epsilon is not None
        mechanism = PrivUnit(epsilon=run.epsilon, dimension=columns, corpus_size=documents)
        return VectorNoise(mechanism=mechanism, renormalize=privacy.renormalize)
    assert family.vectors is not None
    return VectorNoise(
        epsilon=run.epsilon, delta=privacy.delta, mechanism=family.vectors, sigma=family.sigma, renormalize=privacy.renormalize
    )


# ---- utility ----

class _Watched:
    """An index that keeps what it found. The last queries of a search are asked one at a time, and timed."""

    def __init__(self, index: PrivateIndex, timed: int) -> None:
        self._index = index
        self._timed = timed
        self._times_ms: list[float] = []
        self.answers: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._index, name)

    def search(self, queries: Any, k: int = 10) -> Any:
        together = len(queries) - min(self._timed, max(len(queries) - 1, 1))
        self.answers = [self._index.search(queries[:together], k)] if together else []
        for row in range(together, len(queries)):
            start = time.perf_counter()
            self.answers.append(self._index.search(queries[row : row + 1], k))
            self._times_ms.append(1e3 * (time.perf_counter() - start))
        return SimpleNamespace(ids=self.found, query_receipt=self.answers[0].query_receipt)

    @property
    def found(self) -> NDArray[Any]:
        return np.concatenate([answer.ids for answer in self.answers])

    def latency(self) -> Row:
        """Times of single searches, and the largest memory of the process so far."""
        times = self._times_ms
        spread = float(np.std(times, ddof=1)) if len(times) > 1 else 0.0
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**30 if sys.platform == "darwin" else 2**20)
        mean, p99 = float(np.mean(times)), float(np.quantile(times, 0.99))
        return {"latency_mean_ms": mean, "latency_std_ms": spread, "latency_p99_ms": p99, "peak_memory_gb": peak}


def _evaluated(run: Run, data: Inputs, index: PrivateIndex) -> tuple[_Watched, Evaluation]:
    settings = run.configuration
    watched = _Watched(index, settings.retrieval.latency_queries)
    evaluation = evaluate(
        watched,
        data.queries,
        data.query_documents,
        k=_depths(run),
        **settings.statistics.model_dump(),
        seed=settings.seed,
        clean=data.documents,
        groups=data.query_documents,
    )
    return watched, evaluation


def _depths(run: Run) -> tuple[int, ...]:
    """Depths that recall is measured at: those of the columns, as far as one search reaches, and the run's own."""
    gumbel = "score" in run.sides and run.noise is not None and run.noise.scores == "gumbel"
    deepest = max(run.ks) if gumbel else max(*run.ks, *RECALL_DEPTHS)
    return tuple(sorted({*run.ks, *(depth for depth in RECALL_DEPTHS if depth <= deepest)}))


def _utility(run: Run, data: Inputs, searched: _Watched, evaluation: Evaluation) -> Row:
    row: Row = {}
    for depth in RECALL_DEPTHS:
        _put(row, f"recall_at_{depth}", evaluation.metrics.get(f"recall_at_{depth}"))
    for name in ("mrr", "ndcg_at_10", "mean_cosine"):
        _put(row, name, evaluation.metrics.get(name))
    row["theoretical_cosine"] = evaluation.theoretical_cosine
    row.update(searched.latency())
    if searched.found.shape[1] >= _CATEGORY_DEPTH:
        _put(row, "category_precision_at_10", _category_precision(run.configuration, data, searched.found))
    return row


def _category_precision(settings: Configuration, data: Inputs, found: NDArray[Any]) -> Estimate:
    nearest = data.categories[found[:, :_CATEGORY_DEPTH].astype(np.int64)]
    shares = (nearest == data.categories[data.query_documents][:, None]).mean(axis=1)
    of = settings.statistics.model_dump()
    return bootstrap({"precision": shares}, groups=data.query_documents, seed=settings.seed, limits=(0.0, 1.0), **of)["precision"]


def ranks_of(data: Inputs, found: NDArray[Any]) -> tuple[int, ...]:
    """The place of the document that answers each query, from 1; 0 where it was not returned."""
    hits = found == data.query_documents[:, None]
    return tuple(np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0).tolist())


def _recall_at(k: int, evaluation: Evaluation) -> Row:
    row: Row = {"k": k}
    _put(row, "recall_at_k", evaluation.metrics[f"recall_at_{k}"])
    return row


def _difference(run: Run, data: Inputs, evaluation: Evaluation) -> Row:
    """Paired with the same searches without noise."""
    if run.noise is None or "recall_at_1" not in evaluation.metrics:
        return {}
    clean = _without_noise(Run(run.configuration, "none", (), None, math.inf, run.projection, _depths(run)), data)
    values = (one.per_query["recall_at_1"] for one in (evaluation, clean))
    settings = run.configuration
    of = {"seed": settings.seed, **settings.statistics.model_dump()}
    test = paired_test(*values, groups=data.query_documents, limits=(-1.0, 1.0), **of)
    row: Row = {"recall_at_1_p_value": test.p_value, "recall_at_1_cohens_d": _number(test.cohens_d)}
    _put(row, "recall_at_1_difference", test.difference)
    return row


# ---- attacks ----

def _attacks(
    run: Run, data: Inputs, make_index: Callable[[hushvec.Generator], PrivateIndex], prepared: Prepared | None
) -> dict[int, Row]:
    """Columns of the attacks for each k. All of them see the same game."""
    attacks = _attacks_on(run)
    if not attacks:
        return {}
    kept = None if prepared is None else prepared.attack()
    with stage("attack models", shadow_models=run.configuration.attack.shadow_models, loaded=kept is not None):
        game, classifiers = (_played(run, data, make_index), {}) if kept is None else kept
    rows: dict[int, Row] = {}
    with stage("attacks", attacks=len(attacks), ks=len(run.ks)):
        of_rows = {attack: _judged(run, game, attack) for attack in attacks if attack == "released"}
        for k in run.ks:
            cut = game.at(k)
            if prepared is not None:
                classifiers[k] = observe(cut, classifiers.get(k)).classifier
            rows[k] = _attack_row(
                game, {attack: of_rows[attack] if attack in of_rows else _judged(run, cut, attack) for attack in attacks}
            )
    if prepared is not None and kept is None:
        prepared.keep_attack(game, classifiers)
    return rows


def _played(run: Run, data: Inputs, make_index: Callable[[hushvec.Generator], PrivateIndex]) -> Game:
    settings = run.configuration.attack
    candidates, queries = data.asked
    if settings.own_vector:
        queries = np.concatenate([queries, data.documents[candidates][:, None, :]], axis=1)
    places = drawn(len(candidates), settings.candidates, run.configuration.seed)
    return play(
        make_index,
        data.documents[candidates[places]],
        queries[places],
        k=max(run.ks),
        shadow_models=settings.shadow_models,
        target_models=settings.target_models,
        seed=run.seed("game"),
    )


def _attacks_on(run: Run) -> tuple[str, ...]:
    """Those asked for, where they say something: released rows tell what their noise leaves, plain ones tell everything.

    With noise on scores too, the claim that stands in a run's row may be that of the scores, which does not cover rows.
    """
    with_rows = "document" in run.sides and "score" not in run.sides
    return tuple(attack for attack in run.configuration.attack.attacks if attack != "released" or with_rows)


def _judged(run: Run, game: Game, attack: str) -> MembershipResult:
    return judge(game, attack=attack, fprs=FALSE_POSITIVE_RATES, claim="index", **run.configuration.statistics.model_dump())


def _attack_row(game: Game, results: Mapping[str, MembershipResult]) -> Row:
    row: Row = {
        "num_candidates": len(game.documents),
        "attack_queries": game.queries.shape[1],
        "shadow_models": len(game.shadows),
        "target_models": len(game.targets),
        "exposed": any(result.exposed for result in results.values()),
    }
    for attack, result in results.items():
        _put(row, attack_column(attack, "auc"), result.auc)
        for fpr in FALSE_POSITIVE_RATES:
            _put(row, attack_column(attack, f"tpr_{fpr:g}_fpr"), result.tpr[fpr])
        row[attack_column(attack, "epsilon_lower")] = result.epsilon_lower
    some = next(iter(results.values()))
    claimed = some.epsilon_claimed is not None
    row["epsilon_claimed"], row["delta_claimed"] = (some.epsilon_claimed, some.delta) if claimed else (math.inf, None)
    for fpr in FALSE_POSITIVE_RATES:
        row[f"tpr_{fpr:g}_fpr_bound"] = some.bound[fpr]
    row["auc_bound"] = some.bound["auc"]
    if "logistic" in results:
        row["avg_membership_score"] = results["logistic"].avg_membership_score
    return row


# ---- what a row says of the run itself ----

def _about(run: Run, data: Inputs, config_hash: str, commit: str | None) -> Row:
    settings = run.configuration
    return {
        "run_id": str(uuid.uuid5(_NAME_SPACE, config_hash)),
        "git_commit": commit,
        "config_hash": config_hash,
        **_facts_of(run),
        "embedding_model": settings.embedding.model,
        "dataset_split": settings.data.split,
        "num_documents": len(data.documents),
        "num_queries": len(data.queries),
        "study": settings.name,
        "delta": settings.privacy.delta,
        "queries_per_document": settings.queries.per_document,
        "hushvec_version": hushvec.__version__,
    }


def _epsilons(run: Run, index: PrivateIndex, searched: _Watched) -> Row:
    """Epsilon and mechanism of each side; a noise of given sigma has the epsilon that it buys."""
    row: Row = dict.fromkeys(_EPSILON_COLUMNS.values(), math.inf) | dict.fromkeys(_NOISE_COLUMNS.values(), "none")
    for side in run.sides:
        assert run.noise is not None
        row[_EPSILON_COLUMNS[side]] = run.epsilon if run.epsilon is not None else _receipt(index, searched, side).epsilon
        row[_NOISE_COLUMNS[side]] = run.noise.scores if side == "score" else run.noise.vectors
    return row


def _receipt(index: PrivateIndex, searched: _Watched, side: str) -> Any:
    if side == "document":
        return index.receipts[-1]
    return getattr(searched.answers[0], f"{side}_receipt")


def _put(row: Row, name: str, estimate: Estimate | None) -> None:
    if estimate is not None:
        row[name], row[f"{name}_ci_lower"], row[f"{name}_ci_upper"] = estimate.value, estimate.low, estimate.high


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


# ---- doing the runs of a study ----

EMBEDDINGS = "embeddings"


Perform = Callable[[Run, Inputs, str, str | None], Record]


@dataclass(frozen=True)
class RunOnInputs(Measurement):
    """What one file of the folder is of: a run on vectors, and the commit for its rows."""

    run: Run
    data: Inputs
    commit: str | None

    @cached_property
    def key(self) -> dict[str, Any]:
        return self.run.key(self.data.digest, hushvec.__version__)

    @cached_property
    def digest(self) -> str:
        return self.run.fingerprint(self.data.digest, hushvec.__version__)

    @property
    def label(self) -> str:
        return self.run.label


@dataclass(frozen=True, kw_only=True)
class Done:
    """What `do_runs` did.

    Args:
        runs: how many the command asked for.
        before: how many of them were there already.
        rows: all rows of the study, those of other commands among them.
        left_out: why documents of the source are not in the study, and how many for each reason.
    """

    folder: Path
    runs: int
    before: int
    rows: list[Row]
    left_out: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "results": str(self.folder / RESULTS),
            "runs": self.runs,
            "runs_before": self.before,
            "rows": len(self.rows),
            "left_out": dict(self.left_out),
        }


def do_runs(
    configuration: Configuration,
    runs: Sequence[Run],
    folder: Path,
    *,
    workers: int = 1,
    embedder: Callable[[str], Any] = embedder,
    perform: Perform = perform,
    progress: bool = True,
) -> Done:
    """Do runs, leave out those that the folder has, and write results.csv.

    Args:
        runs: of hushvec_studies.retrieval.plan, for this configuration.
        folder: of the study; new, or one that was begun with this configuration.
        workers: processes, one thread each. 0: in this process, with as many threads as its libraries use, which may change the last
            bits of figures behind a public map that is fitted.
        embedder: model name -> model; used in this process only.
        perform: does a run; a function of a module, which a new process can import.

    Raises:
        ValueError, TypeError: bad arguments; texts that cannot be used; a folder of another study.
        ChildProcessError: a worker died.

    Guarantees:
        Every run that ends is in the folder before the next one of its worker begins. Stop the study at any moment, by whatever
        signal, and the same call does the runs that are missing and no others; the figures are those of a study that was not stopped,
        for any number of workers (all but those of the clock and the machine: `OF_THE_MOMENT` of the columns).
        Several processes may work in one folder: at worst they do a run twice, and its file is there once.
    """
    validate.whole_number("workers", workers, at_least=0)
    place = StudyFolder(folder)
    place.open_for(configuration)
    cache = Path(configuration.embedding.cache or folder / EMBEDDINGS)
    inputs = AllInputs(cache, embedder, progress)
    commit = commit_of(Path.cwd())
    with stage("inputs", model=configuration.embedding.model) as facts:
        wanted = [(RunOnInputs(run, inputs.of(run), commit), partial(row_of, perform=perform)) for run in runs]
        facts["left_out"] = sum(count for _, count in inputs.left_out)
    with stage("runs", runs=len(runs), workers=workers) as facts:
        made = measured(wanted, folder, "runs", workers=workers, progress=progress)
        facts["before"] = made.before
    with stage("results") as facts:
        rows = place.write_results()
        facts["rows"] = len(rows)
    return Done(folder=folder, runs=len(made.rows), before=made.before, rows=rows, left_out=inputs.left_out)


def row_of(one: RunOnInputs, perform: Perform) -> dict[str, Any]:
    """Do a run; its record, ready for JSON. Errors about settings that do not fit the texts begin with the run."""
    try:
        with stage("run", config_hash=one.digest, epsilon=one.run.epsilon, **_facts_of(one.run)):
            return perform(one.run, one.data, one.digest, one.commit).to_dict()
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"run {one.label!r}: {error}") from error


def _facts_of(run: Run) -> dict[str, Any]:
    """What a row and a log say of the run."""
    return {
        "mechanism": run.mechanism,
        "sides": "+".join(run.sides) or "none",
        "noise": "none" if run.noise is None else run.noise.name,
        "projection": run.projection,
        "seed": run.configuration.seed,
    }
