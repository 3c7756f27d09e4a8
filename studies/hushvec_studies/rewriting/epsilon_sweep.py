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

from hushvec.extend.helpers import Progress
from hushvec_studies.harness.charts import Panel
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.rewriting import documents, figures, judges, metrics, options, rewriters
from hushvec_studies.rewriting.rewriters import Setting

EPSILONS = (4.0, 8.0, 16.0, 32.0, 64.0, 100.0, 200.0, 400.0, 1000.0, math.inf)
QUICK_EPSILONS = (16.0, math.inf)
OTHERS = tuple((name, "joint") for name in ("privunit", "randomized_response", "laplacian", "l2_laplace"))
# level -> mechanisms with their composition
MECHANISMS = {"chunk": (("gaussian", "joint"), ("gaussian", "basic"), *OTHERS), "document": (("gaussian", "joint"), *OTHERS)}
COLUMNS = ("data", "level", "mechanism", "epsilon", "leak", options.SIMILARITY, "length_ratio")
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
            yield row | metrics.columns(private, outputs, opinions, seed)
            progress.advance(1)


def levels(name, level, private, inverter, embedder, opinions, seed):
    """{measure: {line: value}}: what chance gives, and what no choice among the public texts can exceed."""
    texts = [one.text for one in private]
    outputs, _ = rewriters.rewritten(texts, Setting("gaussian", level, math.inf), embedder, inverter, seed)
    row = {"data": name, "level": level, "mechanism": "another document's", "epsilon": math.inf}
    yield row | metrics.columns(private, metrics.strangers(outputs, seed), opinions, seed)
    if level == "document":  # chunks would need a best choice for every combination
        best = metrics.best_choices(private, inverter.corpus.texts, opinions[0])
        yield row | {"mechanism": "best choice by minilm"} | metrics.columns(private, best, opinions, seed)


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
    drawn = [(name, f"Similarity by {judge} and epsilon", f"similarity of input and output\n(cosine, {judge})")
             for name in options.judged(rows) for judge in [name.removeprefix("similarity_")]]  # fmt: skip
    for measure, title, y_label in (*drawn, ("leak", "Leak by epsilon", "leak (share of gold strings)")):
        panels = [_panel(rows, *kind, measure) for kind in dict.fromkeys((row["data"], row["level"]) for row in rows)]
        figures.curves(folder / f"epsilon_{measure}.svg", panels, title=title, y_label=y_label, columns=2)


# Lines that are no mechanism, and what they are called in figures.
MARKS = {
    "another document's": "another document's output (chance)",
    "best choice by minilm": "best choice of a public text by MiniLM",
}


def _panel(rows, name, level, measure):
    own = [row for row in rows if (row["data"], row["level"]) == (name, level) and row.get(measure) is not None]
    swept_rows = [row for row in own if row["mechanism"] not in MARKS]
    labels = dict.fromkeys(row["mechanism"] for row in swept_rows)
    lines = [figures.line(label, [row for row in own if row["mechanism"] == label], measure) for label in labels]
    shown = [mark for mark in MARKS if measure != "leak" or mark.startswith("another")]
    marks = [(MARKS[mark], Estimate(row[measure])) for mark in shown for row in own if row["mechanism"] == mark]
    chunks = f", {swept_rows[0]['chunks']:.1f} chunks each" if level == "chunk" else ""
    return Panel(f"{name}, level {level}: {swept_rows[0]['n']} texts{chunks}", tuple(lines), tuple(marks))


class Settings(options.Settings):
    judges: options.Judges = Field(default=("wordllama",), description="beside minilm")
    sentence_count: options.Count = Field(default=300, description="synthetic sentences at most")
    post_count: options.Count = Field(default=990, description="posts at most")
    chunked_posts: options.Count = Field(default=30, description="posts that are rewritten by chunks")


def studied(settings):
    posts = documents.read_posts(settings.posts)
    embedder = judges.remembering_minilm(settings.embeddings, posts)
    opinions = judges.judges(embedder, settings.judges)
    others = dict(judges=list(settings.judges), delta=rewriters.DELTA, clip_norm=rewriters.CLIP_NORM, max_len=rewriters.TOKENS)
    found = []
    for kind in kinds(settings, posts, embedder):
        found += swept(*kind, embedder, opinions, QUICK_EPSILONS if settings.quick else EPSILONS, settings.seed)
        found += levels(*kind, embedder, opinions, settings.seed)
        options.write("epsilon_sweep", settings, others, found)
    return others, found


def main():
    options.run(__doc__, "epsilon_sweep", Settings, studied, draw, COLUMNS, (8, 16, 32, 100, 400, math.inf))


if __name__ == "__main__":
    main()
