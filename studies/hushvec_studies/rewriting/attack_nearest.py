"""The adversary with a list: who released this noisy vector?

    python -m hushvec_studies.rewriting.attack_nearest --embeddings FOLDER

The adversary holds a list of candidate texts, the private one among them, embeds them and orders them by how likely they make
the vector that was released (releases.py: the best possible score). Three lists:

    posts       2,000 posts of 20 Newsgroups, of the newer half
    sentences   the synthetic sentences whose template_id is odd
    names       the same sentence with 50 different names of persons in it, for 100 sentences: what the vector still says about a name
                that the rules missed

Measured: how often the right one is first, and among the first ten; beside it what guessing gives, what the clean vector gives,
and the most that (epsilon, delta) allows any adversary. "public map": the vector is released behind the first 40 principal
directions of public posts (for posts) or public sentences (the rest: those whose template_id is even).
"""

import math

import numpy as np
from pydantic import Field

import hushvec as hv
from hushvec.extend.helpers import Progress
from hushvec.mechanisms import PublicProjection
from hushvec_studies.harness.charts import INK, Panel, Series
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.rewriting import documents, figures, judges, metrics, options, releases

EPSILONS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, math.inf)
MECHANISMS = ("privunit", "privunit, public map", "gaussian", "laplacian", "l2_laplace")
DIRECTIONS = 40
NAMES = 50
GUESSES = (1, 10)
COLUMNS = ("data", "mechanism", "epsilon", "top_1", "top_10", "guessing_1", "most_allowed_1")


class OneList:
    """Released rows that are all looked up in one list, which is the rows themselves."""

    def __init__(self, name, listed, public):
        self.name, self.listed, self.size = name, listed, listed.shape[-2]
        self.map = PublicProjection.fit(public, components=min(DIRECTIONS, public.shape[1] // 2))

    @property
    def rows(self):
        return self.listed

    def clean(self, projection):
        if projection is None:
            return self.listed
        flat = self.listed.reshape(-1, self.listed.shape[-1])
        return unit(projection.transform(flat)).reshape(*self.listed.shape[:-1], -1)

    def scores(self, mechanism, released, clean):
        """Of every candidate behind each released row, and the place of the right one."""
        return releases.scores(mechanism, released, clean), np.arange(len(clean))


class ListOfEach(OneList):
    """Each released row has a list of its own; the private text stands first in it."""

    @property
    def rows(self):
        return self.listed[:, 0]

    def scores(self, mechanism, released, clean):
        return releases.scores_of_own(mechanism, released, clean), np.zeros(len(clean), int)


def attacked(candidates, label, epsilon, draws, generator):
    """One row of results: the shares of right guesses over `draws` releases of every private text."""
    mechanism = label.split(",")[0]
    projection = candidates.map if "map" in label else None
    clean = candidates.clean(projection)
    repeats = 1 if epsilon == math.inf else draws
    drawn = []
    for _ in range(repeats):
        released = releases.released(candidates.rows, mechanism, epsilon, projection, generator)
        scored, own = candidates.scores(mechanism, released, clean)
        drawn.append([releases.found_within(scored, own, guesses) for guesses in GUESSES])
    found = np.mean(drawn, axis=0)
    delta = releases.delta_of(mechanism)
    row = {
        "data": candidates.name,
        "mechanism": label,
        "epsilon": float(epsilon),
        "delta": delta,
        "candidates": candidates.size,
        "draws": repeats,
    }
    for guesses, shares in zip(GUESSES, found, strict=True):
        row |= metrics.named(f"top_{guesses}", metrics.mean(shares))
        row[f"guessing_{guesses}"] = min(1.0, guesses / candidates.size)
    return row | {"most_allowed_1": releases.most_allowed(epsilon, delta, candidates.size)}


def lists(arguments):
    """The three lists of candidates, embedded."""
    posts = documents.read_posts(arguments.posts)
    model = judges.remembering_minilm(arguments.embeddings, posts)
    size, sentences, with_names = (40, 80, 5) if arguments.quick else (2000, None, 100)
    private = documents.private_posts(posts, size, arguments.seed)
    public = documents.public_posts(posts, 60 if arguments.quick else None, arguments.seed)
    options.stage(f"embedding {len(private)} private and {len(public)} public posts")
    yield OneList("posts", model.embed([one.text for one in private]), model.embed(public))
    odd, even = (documents.records(arguments.sentences, sentences, arguments.seed, parity=parity) for parity in (1, 0))
    options.stage(f"embedding {len(odd)} private and {len(even)} public sentences, and {with_names} times {NAMES} names")
    public = model.embed([record["full_text"] for record in even])
    yield OneList("sentences", model.embed(sorted({record["full_text"] for record in odd})), public)
    persons = documents.values_of(documents.every_record(arguments.sentences))["PERSON"]
    chosen = documents.with_other_names(odd, persons, with_names, NAMES, arguments.seed)
    yield ListOfEach("names", np.stack([model.embed(one) for one in chosen]), public)


def measured(arguments, draws):
    generator = hv.Generator.unsafe_seeded(arguments.seed)
    for candidates in lists(arguments):
        options.stage(f"{candidates.name}: {len(MECHANISMS)} mechanisms at {len(EPSILONS)} epsilons, {draws} releases each")
        with Progress(candidates.name, len(MECHANISMS) * len(EPSILONS)) as progress:
            for label in MECHANISMS:
                for epsilon in EPSILONS:
                    yield attacked(candidates, label, epsilon, draws, generator)
                    progress.advance(1)


def draw(study, folder):
    rows = study["rows"]
    panels = []
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        lines = []
        for label in dict.fromkeys(row["mechanism"] for row in own):
            line = [row for row in own if row["mechanism"] == label]
            lines.append(figures.line(label, line, "top_1"))
        fine = np.geomspace(min(EPSILONS), max(filter(math.isfinite, EPSILONS)), 200)
        allowed = [releases.most_allowed(epsilon, 0.0, own[0]["candidates"]) for epsilon in fine]
        bound = Series(
            "most that epsilon allows (delta = 0)", tuple(map(Estimate, fine)), tuple(map(Estimate, allowed)), INK, kind="theory"
        )
        title = f"{name}: {own[0]['candidates']} candidates, {own[0]['top_1_n']} secrets"
        panels.append(Panel(title, (*lines, bound), (("guessing", Estimate(own[0]["guessing_1"])),)))
    figures.curves(
        folder / "attack_nearest.svg",
        panels,
        title="Who released a noisy vector: the right one at the first guess",
        y_label="right at the first guess (share)",
        x_label="epsilon (log scale)",
        y_range=(0.0, 1.0),
    )


class Settings(options.Settings):
    draws: options.Count = Field(default=3, description="releases of every private text")


def studied(settings):
    draws = 1 if settings.quick else settings.draws
    return dict(delta=releases.DELTA, directions=DIRECTIONS, draws=draws), list(measured(settings, draws))


def main():
    options.run(__doc__, "attack_nearest", Settings, studied, draw, COLUMNS, (8, 16, 32, math.inf))


if __name__ == "__main__":
    main()
