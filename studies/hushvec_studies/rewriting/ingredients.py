"""What each part of decoding to public texts adds, on held-out 20 Newsgroups posts.

    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz folder
    python -m hushvec_studies.rewriting.ingredients --posts 20newsgroups_8.jsonl.xz --embeddings folder

990 posts of the newer half of the by-date split are private, 1,000 or all 4,576 of the older half public. Each private post is
one vector, released once per draw; what it is decoded to is a public text (or several joined), and the figure is the cosine of
the MiniLM embeddings of the private text and of the output text. Standard errors are over posts, of their means over the draws.
The number of dimensions and the number of representatives are chosen on public posts; the private ones are for measuring only.
Writes ingredients.json and ingredients.csv into results/. No text of a post is written.
"""

from pathlib import Path

import numpy as np
from pydantic import Field

import hushvec as hv
from hushvec.mechanisms import MECHANISMS, PrivUnit, PublicProjection
from hushvec.text import MiniLMEmbedder
from hushvec.text.corpus import PublicCorpus, blocks, unit_rows
from hushvec.text.inverters.decoding import ReleaseDecoder, as_taken_in, chosen_parts
from hushvec.text.inverters.public import PublicInverter
from hushvec.text.public_choice import PublicChoice
from hushvec_studies.harness.settings import Seed
from hushvec_studies.rewriting import documents, options

EPSILONS = (4.0, 8.0, 16.0, 32.0, 64.0)
DELTA = 1e-3
FIRST_COMPONENTS = 40
PRIVATE, FEW_PUBLIC, RE_EMBEDDED = 990, 1000, 330
COLUMNS = ("ingredient", "mechanism", "epsilon", "public", "similarity", "standard_error")
EXCERPT = 320  # characters of a post's body: three of them fit into what MiniLM reads


class Study:
    """The private and public rows, and the table that grows."""

    def __init__(self, embeddings, splits, draws, seed, private=PRIVATE, public=None):
        self.seed = seed
        rng = np.random.default_rng(seed)
        older, newer = np.flatnonzero(splits == "train")[:public], np.flatnonzero(splits == "test")
        self.private_posts = rng.permutation(newer)[:private]
        self.private = embeddings[self.private_posts]
        few = rng.permutation(older)[:FEW_PUBLIC]
        self.public_posts = {"1,000": few, f"{len(older):,}": older}
        self.public = {name: embeddings[chosen] for name, chosen in self.public_posts.items()}
        self.all = f"{len(older):,}"
        self.draws = draws
        self.rows = []

    def record(self, name, mechanism, epsilon, delta, public, cosines, **more):
        """cosines: [draws, posts]."""
        per_post = np.mean(np.atleast_2d(cosines), axis=0)
        error = per_post.std(ddof=1) / np.sqrt(len(per_post))
        setting = {"ingredient": name, "mechanism": mechanism, "epsilon": epsilon, "delta": delta, "public": public}
        figures = {"similarity": round(float(per_post.mean()), 4), "standard_error": round(float(error), 4), "posts": len(per_post)}
        self.rows.append({**setting, **figures, **more})
        options.stage(str(self.rows[-1]))

    def decoded(self, name, mechanism, epsilon, delta, public, found, **more):
        """found: [draws, posts], numbers of public texts."""
        rows = self.public[public]
        self.record(name, mechanism, epsilon, delta, public, [cosines_of(self.private, rows, numbers) for numbers in found], **more)

    def released(self, mechanism, projection, private=None, draws=None):
        """One array of released rows a draw: normalised behind a map, as they are without one."""
        rows = self.private if private is None else private
        mapped = rows if projection is None else projection.transform(rows)
        clean = as_taken_in(mapped, mechanism, projection is not None)
        for draw in range(draws or self.draws):
            out = np.empty_like(clean)
            mechanism.apply(clean, out, hv.Generator.unsafe_seeded(1000 * self.seed + draw))
            yield out


def cosines_of(private, public, numbers):
    return np.einsum("ij,ij->i", private, public[numbers])


def nearest(targets, directions):
    return np.concatenate([np.argmax(targets[block] @ directions.T, axis=1) for block in blocks(len(targets), len(directions))])


def by_posterior(decoder, noisy, directions, decide):
    return np.concatenate([decide(decoder, noisy[block], directions) for block in blocks(len(noisy), len(directions))])


def likeliest(decoder, noisy, directions):
    return decoder.law.log_likelihood(noisy).argmax(axis=1)


def mean_of_candidates(decoder, noisy, directions):
    return ((decoder.law.weights(noisy) @ directions) @ directions.T).argmax(axis=1)


def whole(decoder, noisy, directions):
    return chosen_parts(decoder.posterior_mean(noisy), directions, 1)[:, 0]


def ladder(study, epsilon):
    """PrivUnit, one ingredient more in every step."""
    few = study.public["1,000"]
    first = PublicProjection.fit(few, components=FIRST_COMPONENTS)
    mechanism = PrivUnit(epsilon=epsilon, dimension=FIRST_COMPONENTS)
    noisy = list(study.released(mechanism, first))
    mapped = unit_rows(first.transform(few))
    at_40 = ("privunit", epsilon, 0, "1,000")
    found = [nearest(rows, mapped) for rows in noisy]
    study.decoded("nearest public text in 40 dimensions", *at_40, found, components=FIRST_COMPONENTS)
    decoder = ReleaseDecoder(few, mechanism, first)
    for name, decide in (
        ("+ likeliest text instead of nearest", likeliest),
        ("+ largest expected cosine, in all 384 dimensions", mean_of_candidates),
        ("+ what the row says beyond the candidates", whole),
    ):
        found = [by_posterior(decoder, rows, few, decide) for rows in noisy]
        study.decoded(name, *at_40, found, components=FIRST_COMPONENTS)
    pipeline(study, "+ dimensions chosen by epsilon", "privunit", epsilon, "1,000")
    pipeline(study, "+ all public posts", "privunit", epsilon, study.all)


def names(rows):
    return tuple(f"text {number}" for number in range(len(rows)))


def numbers_of(texts):
    return [int(text.split()[1]) for text in texts]


def mechanism_of(name, epsilon, dimension):
    delta = {"delta": DELTA} if name == "gaussian" else {}
    return MECHANISMS[name](epsilon=epsilon, dimension=dimension, **delta)


def pipeline(study, title, name, epsilon, which):
    """The library's own way from end to end: map, release, decode."""
    public = study.public[which]
    inverter = PublicInverter(PublicCorpus(names(public), public), delta=DELTA)
    projection = inverter.projection_for(name, epsilon)
    mechanism = mechanism_of(name, epsilon, study.private.shape[1] if projection is None else projection.output_dimension)
    way = inverter.for_release(mechanism, projection)
    found = [numbers_of(way.invert(noisy)) for noisy in study.released(mechanism, projection)]
    study.decoded(title, name, epsilon, mechanism.cost[1], which, found, components=mechanism.dimension)


def other_mechanisms(study, epsilon):
    few = study.public["1,000"]
    first = PublicProjection.fit(few, components=FIRST_COMPONENTS)
    mapped = unit_rows(first.transform(few))
    for name in ("gaussian", "laplacian", "l2_laplace"):
        mechanism = mechanism_of(name, epsilon, FIRST_COMPONENTS)
        found = [nearest(rows, mapped) for rows in study.released(mechanism, first)]
        at_40 = (name, epsilon, mechanism.cost[1], "1,000")
        study.decoded("nearest public text in 40 dimensions", *at_40, found, components=FIRST_COMPONENTS)
        pipeline(study, "the whole pipeline", name, epsilon, study.all)


def choices(study, epsilon):
    """Randomized response over representative public texts instead of a noisy vector."""
    for which, public in study.public.items():
        choice = PublicChoice(PublicCorpus(names(public), public), epsilon)
        found = []
        for draw in range(study.draws):
            texts, _ = choice.release(study.private, generator=hv.Generator.unsafe_seeded(1000 * study.seed + draw))
            found.append(numbers_of(texts))
        more = {"texts": len(choice.numbers), "truth": round(choice.mechanism.probability_of_truth, 4)}
        study.decoded("public choice", "randomized response", epsilon, 0, which, found, **more)


def bounds(study):
    for which, public in study.public.items():
        cosines = study.private @ public.T
        study.record("bound: random pair", "none", 0, 0, which, cosines.mean(axis=1))
        study.record("bound: best possible choice", "none", float("inf"), 0, which, cosines.max(axis=1))


def excerpt(text):
    """The beginning of a post's body, of the length that lets three of them be read together."""
    body = text.partition("\n\n")[2].strip() or text
    return " ".join(body.split())[:EXCERPT]


def joined_excerpts(study, posts, embedder):
    """Excerpts of public posts, up to three joined; what is measured is the joined text, embedded anew."""
    corpus = PublicCorpus.from_texts([excerpt(posts[number]) for number in study.public_posts[study.all]], embedder)
    private = study.private[:RE_EMBEDDED]
    study.record(
        "bound: best possible choice, excerpts", "none", float("inf"), 0, "excerpts", (private @ corpus.directions.T).max(axis=1)
    )
    for parts in (1, 2, 3):
        inverter = PublicInverter(corpus, parts=parts)
        for epsilon in EPSILONS:
            projection = inverter.projection_for("privunit", epsilon)
            mechanism = mechanism_of("privunit", epsilon, projection.output_dimension if projection else study.private.shape[1])
            (noisy,) = study.released(mechanism, projection, private, draws=1)
            texts = inverter.for_release(mechanism, projection).invert(noisy)
            cosines = np.einsum("ij,ij->i", private, unit_rows(embedder.embed(texts)))
            study.record(
                f"excerpts, up to {parts} joined", "privunit", epsilon, 0, "excerpts", cosines, components=mechanism.dimension
            )


class Settings(options.Settings):
    seed: Seed = Field(default=20, description="of noise and of the choice of posts")
    embeddings: Path = Field(description="folder that hushvec_studies.embeddings.posts wrote")
    draws: options.Count = Field(default=5, description="releases of every post")
    without_joining: bool = Field(default=False, description="leave out what needs MiniLM")


def studied(settings):
    load = {name: np.load(settings.embeddings / f"{name}.npy", allow_pickle=False) for name in ("embeddings", "splits")}
    draws, *sizes = (1, 40, 1200) if settings.quick else (settings.draws, PRIVATE, None)
    study = Study(load["embeddings"], load["splits"], draws, settings.seed, *sizes)
    bounds(study)
    for epsilon in EPSILONS[:1] if settings.quick else EPSILONS:
        ladder(study, epsilon)
        other_mechanisms(study, epsilon)
        choices(study, epsilon)
    if not settings.without_joining:
        posts = [post["text"] for post in documents.read_posts(settings.posts)]
        joined_excerpts(study, posts, embedder_of(posts, study, load["embeddings"], settings))
    said = {
        "private posts": len(study.private), "draws": draws, "delta of gaussian": DELTA,
        "embedder": "sentence-transformers/all-MiniLM-L6-v2", "similarity": "cosine of MiniLM embeddings of private and output text",
    }  # fmt: skip
    return said, study.rows


def embedder_of(posts, study, embeddings, settings):
    """MiniLM, which must be what the embeddings were made with."""
    embedder, check = MiniLMEmbedder(), study.private_posts[:8]
    again = unit_rows(embedder.embed([posts[number] for number in check]))
    if np.abs(again - embeddings[check]).max() > 1e-3:
        raise SystemExit(f"{settings.embeddings} does not hold MiniLM embeddings of {settings.posts}")
    return embedder


def main():
    options.run(__doc__, "ingredients", Settings, studied, lambda study, folder: None, COLUMNS)


if __name__ == "__main__":
    main()
