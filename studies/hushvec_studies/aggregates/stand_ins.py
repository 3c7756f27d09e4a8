"""What stand-ins, snapshots and reports of many periods keep of many people's texts, by `hushvec.aggregates`.

    python -m hushvec_studies.aggregates.stand_ins -o folder --data DATA --wordnet FILE

Train rows are as many people's, some test rows with their texts the public pool; accuracy is on the other test rows. Shares and
thresholds were chosen on Banking77, and nothing on WordNet: definitions of nouns, labelled by lexicographer file (animals, food,
times ...); FILE is data.noun of WordNet 3.0. Writes stand_ins.json into the folder and prints its tables, of means and deviations
over draws. The noise is seeded: measurements, no private releases.

stand-ins  accuracy of logistic regression (C = 10) and search (the label of the nearest row) that learn from these rows, and of
           the classifier that labels stand-ins
snapshots  total variation: half of the sum of differences from exact shares; probe: logistic regression of people's rows, seen
           through 64 principal components of what the line is from; stand-ins: what logistic regression learns from them
rounds     from sentences about anything; variants are first words of a text and the last ones of a text of the pool, from a word of
           both: for want of a language model that knows the field. Cosine: with the nearest stand-in. Posts are too long for it
periods    of Banking77 as all below; root mean square error, over that of independent reports with the same guarantee: by the law
           of the noise, and in one run
topics     with sentences about anything as the pool, as in hushvec_studies.aggregates.topics
growth     shares of pairs of periods in which the topic that grows by 1.5 points comes first, and has p < 0.05
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field
from sklearn.decomposition import PCA

from hushvec.aggregates import PublicTopics, TopicPeriods, private_snapshot, private_stand_ins, private_topics
from hushvec.aggregates.topics import UNLIKE, tally
from hushvec.data import public_sentences
from hushvec.mechanisms import nearest_codes
from hushvec.noise import gaussian_sigma
from hushvec_studies.aggregates import topics as of_topics
from hushvec_studies.aggregates.measure import CLEAN, Labelled, labelled
from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS, paths_of
from hushvec_studies.evaluation.contenders import generators
from hushvec_studies.evaluation.vectors import Embed, questions
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.outputs import surroundings, write_study
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.settings import Distinct, Positive, as_json, parsed
from hushvec_studies.harness.tables import markdown_table
from hushvec_studies.retrieval.corpora import load_corpus

WORDNET, _GLOSSES, _TESTED = "wordnet nouns", 13_000, 3_000
_COMPONENTS, _PERIODS, _LENGTHS = 64, 52, (1, 4, 13, 52)
_LONGEST = 40  # words of a text of which others are made
_PEOPLE, _GROWTH = 4000, 0.015  # of each period, and of the share of the topic that grows
LINEAR = "logistic regression"
_Row = dict[str, Any]


class Settings(of_topics.Settings):
    """The study's arguments; `epsilon` is that of periods, topics and growth."""

    epsilons: Distinct[Positive] = Field(default=(1.0, 2.0, 4.0), description="of stand-ins and snapshots")
    draws: Annotated[int, Field(ge=2)] = Field(default=5, description="releases; half as many of several rounds")
    rounds: Annotated[int, Field(ge=2)] = Field(default=4, description="of votes, at most")
    variants: Annotated[int, Field(ge=1)] = Field(default=1000, description="texts that are made in a round")
    pairs: Annotated[int, Field(ge=1)] = Field(default=100, description="of periods")


class Collection(NamedTuple):
    """People's rows, and test rows that are not in the pool; rows, classes and texts of the pool."""

    data: Labelled
    pool: Any
    classes: Any
    texts: list[str]


def collection(name: str, texts: Sequence[str], labels: Any, parts: Any, embed: Embed, settings: Settings) -> Collection:
    whole = labelled(name, embed(texts), labels, parts)
    tested = [text for text, part in zip(texts, parts) if part == "test"]
    chosen, rest = np.split(np.random.default_rng(settings.seed).permutation(len(tested)), [settings.pool])
    data = replace(whole, test=whole.test[rest], test_classes=whole.test_classes[rest])
    return Collection(data, whole.test[chosen], whole.test_classes[chosen], [tested[place] for place in chosen])


def collections(settings: Arguments, embed: Embed) -> Iterator[Collection]:
    kept, _ = questions(settings.data)
    texts, labels, parts = ([one[name] for one in kept] for name in ("text", "label", "split"))
    yield collection(BANKING.name, texts, labels, np.array(parts), embed, settings)
    posts = load_corpus(paths_of(NEWSGROUPS, settings.data)[0], min_tokens=1, splits="given")
    yield collection(NEWSGROUPS.name, posts.texts, posts.categories, np.array(posts.splits), embed, settings)
    if settings.wordnet is not None:
        lines = settings.wordnet.read_text("latin-1").splitlines()
        entries = (line.split(" | ", 1) for line in lines if not line.startswith("  "))  # others are the license
        files = {said.split('; "')[0].strip(): head.split()[1] for head, said in entries}  # without quotations
        glosses = np.random.default_rng(settings.seed).permutation(sorted(files))[:_GLOSSES].tolist()
        split = np.where(np.arange(len(glosses)) < _TESTED, "test", "train")
        yield collection(WORDNET, glosses, [files[gloss] for gloss in glosses], split, embed, settings)


def spread(measured: Callable[..., _Row], settings: Settings, epsilon: float) -> _Row:
    """Mean and deviation over draws of what a function of the terms of a release measures."""
    terms = {"epsilon": epsilon, "delta": settings.delta}
    found = [measured(**terms, generator=key) for key in generators(settings.seed, settings.draws)]
    return {name: [float(of([one[name] for one in found])) for of in (np.mean, np.std)] for name in found[0]}


def learned(data: Labelled, rows: Any, classes: Any, seen: Callable[[Any], Any] = np.asarray) -> _Row:
    """Accuracy on test rows of what learns from rows with these classes, of all of them as they are seen."""
    test, rows = unit(seen(data.test)), unit(seen(rows))
    answers = CLEAN[LINEAR]().fit(rows, classes).predict(test), np.asarray(classes)[nearest_codes(test, rows)]
    return {name: float(np.mean(answer == data.test_classes)) for name, answer in zip((LINEAR, "search"), answers)}


def _without_privacy(one: Collection) -> list[tuple[str, Any, Any]]:
    return [("people's rows", one.data.rows, one.data.classes), ("pool, true labels", one.pool, one.classes)]


def stand_ins(one: Collection, settings: Settings) -> Iterator[_Row]:
    """Accuracy by what is learned from."""
    data, count = one.data, int(one.data.classes.max()) + 1

    def measured(**terms: Any) -> _Row:
        made = private_stand_ins(data.rows, data.classes, labels=count, pool=one.pool, texts=one.texts, **terms)
        own = made.classifier.score(data.test, data.test_classes) if made.classifier else np.nan
        return {**learned(data, made.vectors, made.labels), "classifier": own, "texts": len(made.texts)}

    for title, rows, classes in _without_privacy(one):
        yield {"collection": data.name, "from": title, "epsilon": "", **learned(data, rows, classes)}
    for epsilon in settings.epsilons:
        yield {"collection": data.name, "from": "stand-ins", "epsilon": epsilon, **spread(measured, settings, epsilon)}


def snapshots(one: Collection, settings: Settings) -> Iterator[_Row]:
    """What the parts of a snapshot keep."""
    data, topics, count = one.data, PublicTopics.fit(one.pool), int(one.data.classes.max()) + 1
    exact = tally(data.rows, None, pool=topics) / len(data.rows)
    clean, kept = learned(data, data.rows, data.classes)[LINEAR], min(_COMPONENTS, data.rows.shape[1])

    def figures(score: float, shares: Any, seen: Callable[[Any], Any]) -> _Row:
        probe = learned(data, data.rows, data.classes, seen)[LINEAR]
        found = {"classifier": score, "kept": score / clean, "total variation": float(np.abs(shares - exact).sum() / 2)}
        return {**found, "probe": probe}

    def measured(**terms: Any) -> _Row:
        given = {"labels": count, "pool": one.pool, "texts": one.texts, "components": kept, **terms}
        made = private_snapshot(data.rows, data.classes, **given)
        score = made.classifier.score(data.test, data.test_classes) if made.classifier else np.nan
        found = figures(score, made.topics.shares, made.components.projection.transform)
        return {**found, "stand-ins": learned(data, made.stand_ins.vectors, made.stand_ins.labels)[LINEAR]}

    for title, rows, classes in _without_privacy(one):
        shares, axes = tally(rows, None, pool=topics) / len(rows), PCA(kept, svd_solver="full").fit(rows)
        found = figures(learned(data, rows, classes)[LINEAR], shares, axes.transform)
        yield {"collection": data.name, "from": title, "epsilon": "", **found}
    for epsilon in settings.epsilons:
        yield {"collection": data.name, "from": "snapshots", "epsilon": epsilon, **spread(measured, settings, epsilon)}


def spliced(public: Sequence[str], count: int, rng: np.random.Generator) -> Callable[[list[str]], list[str]]:
    """A function that makes so many texts of others: first words of one, then a public one from a word that both have."""
    tails = defaultdict(list)
    for words in (text.split()[:_LONGEST] for text in public):
        for place, word in enumerate(words):
            tails[word.lower()].append(words[place:])

    def variants(texts: list[str]) -> list[str]:
        found = []
        for words in [text.split()[:_LONGEST] for text in texts] * -(-count // len(texts)):
            cut = int(rng.integers(min(1, len(words) - 1), len(words)))
            if others := tails.get(words[cut].lower()):
                found.append(" ".join([*words[:cut], *others[rng.integers(len(others))]]))
        return found[:count]

    return variants


def rounds(one: Collection, settings: Settings, embed: Embed) -> Iterator[_Row]:
    """How near stand-ins come to people's rows, and what they teach, by their pool and rounds."""
    data, general, count = one.data, public_sentences(), int(one.data.classes.max()) + 1
    fewer = settings.model_copy(update={"draws": settings.draws // 2})

    def measured(pool: Any, texts: Any, many: int, **terms: Any) -> _Row:
        given = {"pool": pool, "texts": texts, **terms}
        if many > 1:
            made_up = spliced(one.texts, settings.variants, np.random.default_rng(settings.seed))
            given |= {"variants": made_up, "embed": embed, "rounds": many}
        near = (data.rows @ private_stand_ins(data.rows, **given).vectors.T).max(axis=1).mean()
        if many not in (1, settings.rounds):
            return {"cosine": near}
        made = private_stand_ins(data.rows, data.classes, labels=count, **given)
        return {"cosine": near, **learned(data, made.vectors, made.labels)}

    pools = [("general", unit(embed(general)), general, many) for many in range(1, settings.rounds + 1)]
    for name, pool, texts, many in [*pools, ("of the field", one.pool, one.texts, 1)]:
        for epsilon in sorted({min(settings.epsilons), max(settings.epsilons)}):
            found = spread(partial(measured, pool, texts, many), fewer, epsilon)
            yield {"collection": data.name, "pool": name, "rounds": many, "epsilon": epsilon, **found}


def periods(one: Collection, settings: Settings) -> Iterator[_Row]:
    """Errors of reports together, by how many."""
    topics, rows, (key,) = PublicTopics.fit(one.pool), one.data.rows, generators(settings.seed, 1)
    reports = TopicPeriods(topics, _PERIODS, epsilon=settings.epsilon, delta=settings.delta, generator=key)
    parts = np.array_split(np.random.default_rng(settings.seed).permutation(len(rows)), _PERIODS)
    exact = np.array([tally(rows[part], None, pool=topics) for part in parts])
    for part in parts:
        reports.report(rows[part])
    for length in _LENGTHS:
        ends = range(length, _PERIODS + 1)
        made = [reports.between(end - length + 1, end) for end in ends]
        errors = [found.counts - exact[end - length : end].sum(axis=0) for found, end in zip(made, ends)]
        alone = float(gaussian_sigma(settings.epsilon, settings.delta, 1.0)) * length**0.5
        found = {"by the law": [one.sigma for one in made], "in one run": errors}
        yield {"periods": length, **{name: float(np.mean(np.square(all_))) ** 0.5 / alone for name, all_ in found.items()}}


def general_topics(one: Collection, settings: Settings, embed: Embed) -> Iterator[_Row]:
    rows = unit(embed(public_sentences()))
    data = replace(one.data, test=rows, test_classes=np.full(len(rows), -1))  # of no label
    given = {**settings.model_dump(include=set(of_topics.Settings.model_fields)), "pool": len(rows), "quantiles": (UNLIKE,)}
    found = of_topics.measure(data, of_topics.Settings(**given))
    names = ("collection", "people", "pool", "topics", "total_variation")
    kept = {f"NMI kept, {name}": found["nmi"][name] for name in ("nearest", "votes")}
    yield {**{name: found[name] for name in names}, **kept, "uncovered": found["uncovered"][UNLIKE]["all labels"]}


def growth(one: Collection, settings: Settings) -> Iterator[_Row]:
    """How often the topic that grows is found, with noise and without."""
    (key,), rng = generators(settings.seed, 1), np.random.default_rng(settings.seed)
    pool = PublicTopics.fit(one.pool)
    released = private_topics(one.data.rows, pool=pool, epsilon=settings.epsilon, delta=settings.delta, generator=key)
    shares = tally(one.data.rows, None, pool=pool) / len(one.data.rows)
    for name, sigma in (("with noise", released.sigma), ("without", 1e-9)):
        found = []
        for topic in rng.integers(len(shares) - 1, size=settings.pairs):
            grown = shares * (1 - _GROWTH / (1 - shares[topic]))
            grown[topic] += _GROWTH / (1 - shares[topic])
            drawn = (rng.multinomial(_PEOPLE, law) + rng.normal(0, sigma, len(law)) for law in (shares, grown))
            before, after = (replace(released, counts=counts, sigma=sigma) for counts in drawn)
            made = after.growth(before)
            found.append((made.order[0] == topic, made.p_values[topic] < 0.05))
        yield {"counts": name, **dict(zip(("first", "p < 0.05"), np.mean(found, axis=0).tolist()))}


def table(rows: list[_Row]) -> str:
    """Figures as the page has them, with their deviation over draws."""

    def cell(value: Any) -> str:
        if isinstance(value, list):
            return f"{value[0]:.0f}" if value[0] > 10 else f"{value[0]:.3f} ± {value[1]:.3f}"
        return value if isinstance(value, str) else f"{value:,g}" if value % 1 == 0 else f"{value:.3f}"

    titles = list(dict.fromkeys(name for row in rows for name in row))
    return markdown_table(titles, [[cell(row.get(name, "")) for name in titles] for row in rows])


class Arguments(Settings):
    """Of the command line."""

    output: Path = Field(description="folder of the study")
    data: Path = Field(description="folder with the files of the collections")
    wordnet: Path | None = Field(default=None, description="data.noun of WordNet 3.0; without it the collection is left out")


def main() -> None:
    settings = parsed(__doc__ or "", Arguments)
    cache = EmbeddingCache(settings.output / "embeddings", embedder("all-MiniLM-L6-v2"))
    banking, *others = collections(settings, cache.embed)
    found = {
        "stand_ins": [row for one in (banking, *others) for row in stand_ins(one, settings)],
        "snapshots": [row for one in (banking, *others) for row in snapshots(one, settings)],
        "rounds": [row for one in (banking, *others[1:]) for row in rounds(one, settings, cache.embed)],
        "periods": list(periods(banking, settings)),
        "topics": list(general_topics(banking, settings, cache.embed)),
        "growth": list(growth(banking, settings)),
    }
    write_study(settings.output / "stand_ins.json", {"settings": as_json(settings), "surroundings": surroundings(), **found})
    print("\n\n".join(map(table, found.values())))


if __name__ == "__main__":
    main()
