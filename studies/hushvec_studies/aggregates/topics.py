"""What topics of public texts tell about many people's texts at epsilon 1, by `hushvec.aggregates.private_topics`.

    python -m hushvec_studies.aggregates.topics -o folder --data DATA

The collections are two of `hushvec study evaluation`, which DATA holds. Train rows are as many people's, some test rows the public
pool. Writes topics.json into the folder and prints its tables. The noise is seeded: measurements, no private releases.

total variation  half of the sum of differences between released and exact shares, mean over draws
NMI              of the people's topics with their labels (nearest topics, and with uncovered rows as one more), over that of k-means
                 (scikit-learn, three starts) of their own rows into as many clusters
uncovered        shares of people below the threshold that is this quantile of the pool: with all labels in the pool, and with a tenth
                 of them taken out, of people whose label is not there and of all others; mean over draws of labels
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from sklearn.cluster import KMeans
from sklearn.metrics import normalized_mutual_info_score as nmi

from hushvec.aggregates import PublicTopics, private_topics
from hushvec.mechanisms import nearest_codes
from hushvec_studies.aggregates.measure import Labelled, banking, newsgroups
from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS
from hushvec_studies.evaluation.contenders import generators
from hushvec_studies.harness import settings as harness
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.outputs import surroundings, write_study
from hushvec_studies.harness.settings import Distinct, Positive, Seed, Share, as_json, parsed
from hushvec_studies.harness.tables import markdown_table

COLLECTIONS = {BANKING.name: banking, NEWSGROUPS.name: newsgroups}
_UNCOVERED = ("all labels", "label missing", "others")
_TITLES = ("collection", "people", "pool", "topics", "total variation", "NMI kept", "NMI kept, with uncovered", "k-means")


class Settings(harness.Settings):
    """The study's arguments."""

    epsilon: Positive = Field(default=1.0, description="of one person")
    delta: Share = Field(default=1e-5, description="of one person")
    pool: Annotated[int, Field(ge=100)] = Field(default=1000, description="public rows")
    quantiles: Distinct[Share] = Field(default=(0.01, 0.05, 0.1, 0.2), description="of the pool, for the threshold")
    draws: Annotated[int, Field(ge=1)] = Field(default=20, description="releases, and a fourth as many choices of labels")
    seed: Seed = Field(default=2026, description="of the pool, the noise and the choice of labels")


def measure(data: Labelled, settings: Settings) -> dict[str, Any]:
    """The figures of a collection."""
    chosen = np.random.default_rng(settings.seed).permutation(len(data.test))[: settings.pool]
    pool, labels = data.test[chosen], data.test_classes[chosen]
    topics = PublicTopics.fit(pool)
    votes, count = topics.votes(data.rows), len(topics.centers)
    exact = np.bincount(votes, minlength=count + 1) / len(votes)
    given: dict[str, Any] = {"pool": topics, "epsilon": settings.epsilon, "delta": settings.delta}
    released = [private_topics(data.rows, generator=one, **given) for one in generators(settings.seed, settings.draws)]
    own = (KMeans(count, n_init=1, random_state=start).fit_predict(data.rows) for start in range(3))
    clean = float(np.mean([nmi(data.classes, one) for one in own]))
    nearest = nearest_codes(data.rows, topics.centers)
    return {
        "collection": data.name,
        "people": len(data.rows),
        "pool": len(pool),
        "topics": count,
        "total_variation": float(np.mean([np.abs(one.shares - exact).sum() / 2 for one in released])),
        "nmi": {"k-means": clean, "nearest": nmi(data.classes, nearest) / clean, "votes": nmi(data.classes, votes) / clean},
        "uncovered": {quantile: uncovered(data, pool, labels, quantile, settings) for quantile in settings.quantiles},
    }


def uncovered(data: Labelled, pool: Any, labels: Any, quantile: float, settings: Settings) -> dict[str, float]:
    """Shares of people below the threshold: with the whole pool, and of those with and without a label that it lacks."""
    best, near, known = data.rows @ pool.T, pool @ pool.T, np.unique(data.classes)
    np.fill_diagonal(near, -1)

    def below(kept: Any) -> Any:
        return best[:, kept].max(axis=1) < np.quantile(near[np.ix_(kept, kept)].max(axis=1), quantile)

    found: dict[str, list[float]] = {name: [] for name in _UNCOVERED}
    found["all labels"].append(below(np.ones(len(pool), np.bool_)).mean())
    for draw in range(-(-settings.draws // 4)):
        out = np.random.default_rng(settings.seed + draw).permutation(known)[: max(1, round(len(known) / 10))]
        missing, is_below = np.isin(data.classes, out), below(~np.isin(labels, out))
        found["label missing"].append(is_below[missing].mean())
        found["others"].append(is_below[~missing].mean())
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def tables(rows: list[dict[str, Any]]) -> str:
    """What the page has."""
    first, second = [], []
    for one in rows:
        kept = (f"{100 * one['nmi'][name]:.1f} %" for name in ("nearest", "votes"))
        sizes = (one["collection"], f"{one['people']:,}", f"{one['pool']:,}", one["topics"])
        first.append([*sizes, f"{one['total_variation']:.4f}", *kept, f"{one['nmi']['k-means']:.3f}"])
        for quantile, found in one["uncovered"].items():
            second.append([one["collection"], f"{float(quantile):g}", *(f"{100 * found[name]:.1f} %" for name in _UNCOVERED)])
    return f"{markdown_table(_TITLES, first)}\n\n{markdown_table(('collection', 'quantile', *_UNCOVERED), second)}"


class Arguments(Settings):
    """Of the command line."""

    output: Path = Field(description="folder of the study")
    data: Path = Field(description="folder with the files of the collections")


def main() -> None:
    settings = parsed(__doc__ or "", Arguments)
    cache = EmbeddingCache(settings.output / "embeddings", embedder("all-MiniLM-L6-v2"))
    rows = [measure(load(settings.data, cache.embed), settings) for load in COLLECTIONS.values()]
    write_study(settings.output / "topics.json", {"settings": as_json(settings), "surroundings": surroundings(), "rows": rows})
    print(tables(rows))


if __name__ == "__main__":
    main()
