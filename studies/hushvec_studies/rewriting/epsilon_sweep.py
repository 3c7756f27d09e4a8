"""What is left of a text, and what leaks, from epsilon 4 to 1000 and without noise: mechanisms, levels, compositions.

    python -m hushvec_studies.rewriting.epsilon_sweep --embeddings FOLDER

sentences   decoded to the sentences that ship with hushvec
posts       documents: decoded to posts of the older half; chunks: to pieces of them

Measures as in comparison.py. delta = 1e-3 for the Gaussian mechanism and 0 for the others; MiniLM's vectors have length 1, and
clip_norm is 1. Beside the curves: the outputs without noise, each given to the wrong document ("another document's"), and for
whole documents the public text nearest to the private one by MiniLM ("best choice": for that judge no other is better).
"""

import math

from pydantic import Field

from hushvec.extend import Progress
from hushvec_studies.harness.charts import Panel
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.rewriting import documents, figures, judges, measured, models, options, rewriters
from hushvec_studies.rewriting.rewriters import Setting

EPSILONS = (4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 200.0, 400.0, 1000.0, math.inf)
QUICK_EPSILONS = (16.0, math.inf)
MECHANISMS = {
    "chunk": (
        ("gaussian", "joint"),
        ("gaussian", "basic"),
        ("privunit", "joint"),
        ("randomized_response", "joint"),
        ("laplacian", "joint"),
        ("l2_laplace", "joint"),
    ),
    "document": (
        ("gaussian", "joint"),
        ("privunit", "joint"),
        ("randomized_response", "joint"),
        ("laplacian", "joint"),
        ("l2_laplace", "joint"),
    ),
}
PIECED_POSTS = 100


def swept(name, level, private, inverter, embedder, opinions, epsilons, seed):
    """Rows of one kind of documents at one level."""
    texts = [one.text for one in private]
    settings = [
        Setting(mechanism, level, epsilon, composition) for mechanism, composition in MECHANISMS[level] for epsilon in epsilons
    ]
    options.stage(f"{name}, level {level}: {len(settings)} settings of {len(private)} documents")
    with Progress(f"{name}, {level}", len(settings)) as progress:
        for number, setting in enumerate(settings):
            outputs, chunks = rewriters.rewritten(texts, setting, embedder, inverter, seed + number)
            row = {
                "data": name,
                "level": level,
                "mechanism": setting.label,
                "epsilon": setting.epsilon,
                "delta": setting.delta,
                "chunks": chunks,
            }
            yield row | measured.columns(private, outputs, opinions, seed)
            progress.advance(1)


def levels(name, level, private, inverter, embedder, opinions, seed):
    """{measure: {line: value}}: what chance gives, and what no choice among the public texts can exceed."""
    texts = [one.text for one in private]
    outputs, _ = rewriters.rewritten(texts, Setting("gaussian", level, math.inf), embedder, inverter, seed)
    row = {"data": name, "level": level, "mechanism": "another document's", "epsilon": math.inf}
    yield row | measured.columns(private, measured.strangers(outputs, seed), opinions, seed)
    if level == "document":  # chunks would need a best choice for every combination
        best = measured.best_choices(private, inverter.corpus.texts, opinions[0])
        yield row | {"mechanism": "best choice by minilm"} | measured.columns(private, best, opinions, seed)


def kinds(arguments, posts, embedder):
    """(name, level, private documents, inverter); public texts are embedded here."""
    sizes = (12, 12, 4) if arguments.quick else (arguments.sentence_count, arguments.post_count, arguments.chunked_posts)
    sentences = documents.sentences(arguments.sentences, sizes[0], arguments.seed)
    shipped = rewriters.shipped(embedder)
    yield "sentences", "document", sentences, shipped
    public = documents.public_posts(posts, 50 if arguments.quick else None, arguments.seed)
    private = documents.private_posts(posts, sizes[1], arguments.seed)
    options.stage("embedding public posts and pieces of them")
    yield "posts", "document", private, rewriters.whole(public, embedder)
    yield "sentences", "chunk", sentences, shipped
    yield "posts", "chunk", private[: sizes[2]], rewriters.pieces(public[:PIECED_POSTS], embedder)


def draw(study, folder):
    rows = study["rows"]
    judged = [key[len("similarity_") :] for key in rows[0] if key.startswith("similarity_") and key.count("_") == 1]
    for judge in judged:
        what = f"similarity of input and output\n(cosine, {judge})"
        figures.curves(
            folder / f"epsilon_similarity_{judge}.svg",
            [_panel(rows, *kind, f"similarity_{judge}", judge) for kind in _kinds(rows)],
            title=f"Similarity by {judge} and epsilon",
            y_label=what,
            columns=2,
        )
    figures.curves(
        folder / "epsilon_leak.svg",
        [_panel(rows, *kind, "leak", None) for kind in _kinds(rows)],
        title="Leak by epsilon",
        y_label="leak (share of gold strings)",
        columns=2,
    )


def _kinds(rows):
    return list(dict.fromkeys((row["data"], row["level"]) for row in rows))


def _panel(rows, name, level, measure, judge):
    own = [row for row in rows if (row["data"], row["level"]) == (name, level) and row.get(measure) is not None]
    swept_names = [
        label for label in dict.fromkeys(row["mechanism"] for row in own) if "another" not in label and "best" not in label
    ]
    lines = [figures.line(label, [row for row in own if row["mechanism"] == label], measure) for label in swept_names]
    marks = [
        ("another document's output (chance)", Estimate(row[measure])) for row in own if row["mechanism"] == "another document's"
    ]
    if judge is not None:
        marks += [
            ("best choice of a public text by MiniLM", Estimate(row[measure]))
            for row in own
            if row["mechanism"] == "best choice by minilm"
        ]
    counted = next(row for row in own if row["mechanism"] in swept_names)
    chunks = f", {counted['chunks']:.1f} chunks each" if level == "chunk" else ""
    return Panel(f"{name}, level {level}: {counted['n']} texts{chunks}", tuple(lines), tuple(marks))


class Settings(options.Settings):
    judges: options.Judges = Field(default=("wordllama",), description="beside minilm")
    sentence_count: options.Count = Field(default=300, description="synthetic sentences at most")
    post_count: options.Count = Field(default=990, description="posts at most")
    chunked_posts: options.Count = Field(default=30, description="posts that are rewritten by chunks")


def studied(settings):
    posts = documents.read_posts(settings.posts)
    embedder = models.minilm(settings.embeddings, posts)
    opinions = judges.judges(embedder, settings.judges)
    others = dict(judges=list(settings.judges), delta=rewriters.DELTA, clip_norm=rewriters.CLIP_NORM, max_len=rewriters.TOKENS)
    found = []
    for kind in kinds(settings, posts, embedder):
        found += swept(*kind, embedder, opinions, QUICK_EPSILONS if settings.quick else EPSILONS, settings.seed)
        found += levels(*kind, embedder, opinions, settings.seed)
        options.write("epsilon_sweep", settings, others, found)
    return others, found


def table(rows, settings):
    shown = [row for row in rows if row["epsilon"] in (8, 16, 32, 100, 400, math.inf)]
    named = [f"similarity_{name}" for name in ("minilm", *settings.judges)]
    return shown, ["data", "level", "mechanism", "epsilon", "leak", *named, "length_ratio"]


def main():
    options.run(__doc__, "epsilon_sweep", Settings, studied, draw, table)


if __name__ == "__main__":
    main()
