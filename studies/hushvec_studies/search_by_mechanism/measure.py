"""What search keeps at a price: every mechanism at epsilon 4, 8, 10 and 16, for private questions and for private documents.

    python -m hushvec_studies.embeddings.scifact scifact_corpus.jsonl.xz scifact_claims.jsonl.xz scifact
    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz posts
    python -m hushvec_studies.search_by_mechanism.measure scifact posts -o \
        studies/hushvec_studies/search_by_mechanism/results/search_by_mechanism.json
    python -m hushvec_studies.search_by_mechanism.measure --table \
        studies/hushvec_studies/search_by_mechanism/results/search_by_mechanism.json

questions   SciFact: the 300 validation claims are private, the 5,183 abstracts public. Three codebooks by three seeds.
documents   SciFact: half of the abstracts is public, the other half is released; clean claims search it. Three splits.
topics      20 Newsgroups by date: train posts are public, test posts are released; each clean test post looks for others of its group.

Numbers of codes, and of components of the whitening map, are chosen on public rows alone. Intervals: percentile bootstrap over
claims or posts, 95 %. The mechanisms draw fresh noise, so another run gives slightly different figures.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hushvec as hv
from hushvec.audit.bootstrap import bootstrap
from hushvec.extend import found_share
from hushvec.mechanisms import PrivUnit, PublicCodebook, PublicProjection
from hushvec.retrieval import PrivateIndex, PrivateQuery
from hushvec.retrieval.measures import judgements, per_query
from hushvec_studies.harness.outputs import write_json
from hushvec_studies.harness.rows import index_of, others_of, unit
from hushvec_studies.harness.tables import markdown_table

EPSILONS = (4.0, 8.0, 10.0, 16.0)
DELTA = 1e-5
COMPONENTS = (20, 40, 80, 160, 320)
FETCHES = (10, 50, 200)
DRAWS, SPLITS = 3, 3
K = 10


def read_scifact(folder):
    """(unit rows of the abstracts, of the claims, the places of the abstracts relevant to each claim, the claims for validation)."""
    documents, claims, ids = (np.load(folder / f"{name}.npy") for name in ("documents", "claims", "ids"))
    place = {int(one): number for number, one in enumerate(ids)}
    asked_for = json.loads((folder / "claims.json").read_text())
    relevant = [[place[one] for one in claim["relevant"] if one in place] for claim in asked_for]
    validation = np.flatnonzero([claim["split"] != "train" for claim in asked_for])
    return unit(documents), unit(claims), relevant, validation


def searched(index: PrivateIndex, rows: Any) -> Any:
    return index.search(rows, K).ids


def measures(ids: Any, relevant: Any) -> dict[str, Any]:
    """Of one run: [m] for each measure."""
    return per_query(judgements(ids, relevant), (K,))


class Results:
    def __init__(self):
        self.rows = []

    def add(self, task, noise, epsilon, runs, groups, chosen=None):
        """`runs`: measures of draws or splits; `groups`: for each the claims or posts that its values belong to."""
        columns = {name: np.concatenate([run[name] for run in runs]) for name in runs[0]}
        estimates = bootstrap(columns, groups=np.concatenate(groups))
        row = {"task": task, "noise": noise, "epsilon": epsilon, "chosen": chosen}
        self.rows.append({**row, **{name: [one.value, one.low, one.high] for name, one in estimates.items()}})
        print(task, noise, epsilon, chosen, *(f"{name} {one}" for name, one in estimates.items()), flush=True)


# ---- private questions ----


def questions(results, documents, claims, relevant):
    index, groups = index_of(documents), [np.arange(len(claims))] * DRAWS

    def add(noise, epsilon, answer, chosen=None):
        runs = [measures(answer(), relevant) for _ in range(1 if epsilon is None else DRAWS)]
        results.add("questions", noise, epsilon, runs, groups[: len(runs)], chosen)

    add("none", None, lambda: searched(index, claims))
    for epsilon in EPSILONS:
        add("gaussian", epsilon, lambda: searched(index, hv.privatize(claims, epsilon=epsilon, delta=DELTA).values))
        add("privunit", epsilon, lambda: searched(index, hv.privatize(claims, epsilon=epsilon, mechanism="privunit").values))
        best = max(COMPONENTS, key=lambda components: share_behind_map(documents, components, epsilon, "questions"))
        whitening = PublicProjection.fit(documents, components=best, whiten=True)
        mapped, mechanism = index_of(whitening.transform(documents)), whitened_privunit(epsilon, whitening, len(documents))
        add(
            "whitened privunit",
            epsilon,
            lambda: searched(mapped, hv.privatize(unit(whitening.transform(claims)), mechanism=mechanism).values),
            best,
        )
        codebooks = [PublicCodebook.fit(documents, epsilon=epsilon, purpose="search", seed=seed) for seed in range(DRAWS)]
        results.add(
            "questions",
            "codebook",
            epsilon,
            [coded(codebook, epsilon, index, claims, relevant) for codebook in codebooks],
            groups,
            [len(codebook) for codebook in codebooks],
        )
        for fetch in FETCHES:
            askers = [PrivateQuery(documents, epsilon=epsilon, fetch=fetch, seed=seed) for seed in range(DRAWS)]
            runs = [measures(np.array([asker.search(claim, index, k=K).ids for claim in claims]), relevant) for asker in askers]
            results.add("questions", f"codebook, fetch {fetch}", epsilon, runs, groups, [len(asker.codebook) for asker in askers])


def coded(codebook, epsilon, index, claims, relevant):
    return measures(searched(index, hv.privatize(claims, mechanism=codebook.mechanism(epsilon)).values), relevant)


def whitened_privunit(epsilon: float, whitening: PublicProjection, rows: int) -> PrivUnit:
    return PrivUnit(epsilon=epsilon, dimension=whitening.output_dimension, corpus_size=rows)


def share_behind_map(
    public: Any,
    components: int,
    epsilon: float,
    released_side: str,
    mechanism_for: Callable[[float, PublicProjection, int], Any] = whitened_privunit,
    generator: hv.Generator | None = None,
) -> float:
    """On public halves: how much of a row's neighborhood is found where one side of the search is released behind the map.

    `mechanism_for(epsilon, whitening, rows)` makes the mechanism behind a map; `generator` is the noise's.
    """
    seen, held_out = public[::2], public[1::2]
    whitening = PublicProjection.fit(seen, components=components, whiten=True)
    mapped = unit(whitening.transform(held_out))
    released = hv.privatize(mapped, mechanism=mechanism_for(epsilon, whitening, len(mapped)), generator=generator).values
    return found_share(held_out, *((released, mapped) if released_side == "questions" else (mapped, unit(released))))


# ---- private documents ----


def releases(public, private, epsilon, purpose):
    """(name, what was chosen, function that brings queries beside the released rows, released rows) of each mechanism."""
    yield "gaussian", None, unit, hv.privatize(private, epsilon=epsilon, delta=DELTA).values
    yield "privunit", None, unit, hv.privatize(private, epsilon=epsilon, mechanism="privunit").values
    best = max(COMPONENTS, key=lambda components: share_behind_map(public, components, epsilon, "documents"))
    whitening = PublicProjection.fit(public, components=best, whiten=True)
    mapped = unit(whitening.transform(private))
    released = hv.privatize(mapped, mechanism=whitened_privunit(epsilon, whitening, len(private))).values
    yield "whitened privunit", best, lambda rows: unit(whitening.transform(rows)), released
    codebook = PublicCodebook.fit(public, epsilon=epsilon, purpose=purpose).for_any_row()
    yield "codebook", len(codebook), unit, hv.privatize(private, mechanism=codebook.mechanism(epsilon)).values


def halves(
    count: int, relevant: Sequence[Mapping[int, float]], splits: int = SPLITS
) -> Iterator[tuple[Any, Any, Any, list[Any]]]:
    """For each split: places of the public half of so many documents and of the private one, the queries that a private document
    answers, and the grades of those documents by their place in the private half."""
    for split in range(splits):
        order = np.random.default_rng(split).permutation(count)
        public, private = order[: count // 2], order[count // 2 :]
        place = {int(document): number for number, document in enumerate(private)}
        here = [{place[one]: grade for one, grade in wanted.items() if one in place} for wanted in relevant]
        asking = np.flatnonzero([bool(wanted) for wanted in here])
        yield public, private, asking, [here[query] for query in asking]


def documents_by_halves(results, documents, claims, relevant):
    graded = [dict.fromkeys(wanted, 1.0) for wanted in relevant]
    for epsilon in (None, *EPSILONS):
        runs, groups, chosen = {}, [], {}
        for public, private, asking, wanted in halves(len(documents), graded):
            groups.append(asking)
            kinds = (
                [("none", None, unit, documents[private])]
                if epsilon is None
                else releases(documents[public], documents[private], epsilon, "search")
            )
            for name, choice, beside, released in kinds:
                runs.setdefault(name, []).append(measures(searched(index_of(released), beside(claims[asking])), wanted))
                chosen.setdefault(name, []).append(choice)
        for name, measured in runs.items():
            results.add("documents", name, epsilon, measured, groups, chosen[name])


def topics(results, posts, splits, categories):
    order = np.random.default_rng(0).permutation(np.flatnonzero(splits == "test"))  # equal releases come in order of arrival
    public, private, groups = posts[splits == "train"], posts[order], categories[order]
    for epsilon in (None, *EPSILONS):
        kinds = [("none", None, unit, private)] if epsilon is None else releases(public, private, epsilon, "cosine")
        for name, choice, beside, released in kinds:
            found = groups[others_of(index_of(released).search(beside(private), K + 1).ids)]
            run = {"precision_at_10": (found == groups[:, None]).mean(axis=1)}
            results.add("topics", name, epsilon, [run], [np.arange(len(found))], choice)


# ---- the table ----

MEASURES = {
    "questions": ("ndcg_at_10", "recall_at_10", "mrr"),
    "documents": ("ndcg_at_10", "recall_at_10", "mrr"),
    "topics": ("precision_at_10",),
}


def table(rows):
    for task, names in MEASURES.items():
        here = [row for row in rows if row["task"] == task]
        clean = next(row for row in here if row["noise"] == "none")
        for name in names:
            print(f"\n{task}, {name}; without privacy {interval(clean[name])}\n")
            noises = dict.fromkeys(row["noise"] for row in here if row["noise"] != "none")
            lines = [[noise, *(interval(row[name]) for row in here if row["noise"] == noise)] for noise in noises]
            print(markdown_table(["noise", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], lines))


def interval(estimate):
    value, low, high = (f"{number:.3f}".removeprefix("0") for number in estimate)
    return f"{value} [{low}, {high}]"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="*", help="of SciFact and of the posts")
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--table", type=Path, help="print the tables of a results file")
    arguments = parser.parse_args()
    if arguments.table is not None:
        table(json.loads(arguments.table.read_text()))
        return
    scifact, posts = arguments.folders
    documents, claims, relevant, validation = read_scifact(scifact)
    results = Results()
    topics(results, *(np.load(posts / f"{name}.npy") for name in ("embeddings", "splits", "categories")))
    documents_by_halves(results, documents, claims, relevant)
    questions(results, documents, claims[validation], [relevant[claim] for claim in validation])
    write_json(arguments.output, results.rows)


if __name__ == "__main__":
    main()
