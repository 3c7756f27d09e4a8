"""Three ways to make a text safe to hand out: Presidio, the rules of hushvec.text alone, and rewriting. Leak, likeness, length, time.

    python -m hushvec_studies.rewriting.comparison --embeddings FOLDER
    python -m hushvec_studies.rewriting.comparison --data records        # no files needed

sentences   the synthetic sentences whose template_id is odd: the rules were not tuned on them. Gold: the labels of the data
posts       posts of 20 Newsgroups, of the newer half. Gold: address and name of the sender, as the From line gives them. Many
            senders wrote public posts of the older half, too; "identifying" are the strings that stand in none of those
records     the invented records that ship with hushvec, those of half of the people. Gold: the name of the person

--token-classifier FOLDER adds a token classification model of transformers, such as a privacy filter, as another redactor.

Rewriting decodes to the sentences that ship with hushvec ("shipped"), or to public texts of the same kind ("own file"):
sentences whose template_id is even, posts of the older half, records of the other people; pieces of them where chunks are rewritten.

leak               share of gold strings that stand in the output, as substrings, upper and lower case alike
leak_identifying   sentences: the same for names, addresses and numbers of at least five characters
similarity_JUDGE   cosine of input and output by that embedder (judges.py). minilm is the one whose vectors are noised
length_ratio       characters out per character in
seconds            of processor time for one document, all of them in one call: models loaded, public texts embedded before

Lines "another document's" are the controls: the outputs above them, each given to the wrong document.
"""

import math
import time
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hushvec.text import MiniLMEmbedder
from hushvec_studies.harness.settings import Several, one_of
from hushvec_studies.rewriting import documents, figures, judges, metrics, options, redactors, rewriters
from hushvec_studies.rewriting.rewriters import Setting

EPSILON = 16.0
SETTINGS = (
    ("gaussian, chunks", Setting("gaussian", "chunk", EPSILON)),
    ("gaussian, chunks, as published", Setting("gaussian", "chunk", EPSILON, "basic", 1.5)),
    ("gaussian, document", Setting("gaussian", "document", EPSILON)),
    ("privunit, document", Setting("privunit", "document", EPSILON)),
    ("randomized response, document", Setting("randomized_response", "document", EPSILON)),
    ("no noise, chunks", Setting("gaussian", "chunk", math.inf)),
    ("no noise, document", Setting("privunit", "document", math.inf)),
)
COLUMNS = ("data", "system", "corpus", "leak", "leak_identifying", options.SIMILARITY, "length_ratio", "seconds")
PIECED_POSTS = 100


def baselines(spacy_model, classifier=None):
    """(name, redactor); Presidio with a model, and a token classifier, only where there is one."""
    yield "nothing done", lambda text: text
    yield "Presidio, patterns", redactors.presidio_patterns()
    if spacy_model is not None:
        yield f"Presidio, {spacy_model}", redactors.presidio_model(spacy_model)
    if classifier is not None:
        yield f"token classifier, {classifier.name}", redactors.token_classifier(classifier)
    yield "rules alone", redactors.rules()


def timed(work, count):
    """(what work() returns, processor seconds for one document)."""
    start = time.process_time()
    done = work()
    return done, (time.process_time() - start) / count


def settings_rows(name, private, sources, embedder, opinions, seed):
    """Rows of the rewriting systems, each with its control.

    Args:
        sources: {corpus name: {level: inverter}}.
        embedder: MiniLM, which embeds everything anew: for the times.
    """
    texts = [one.text for one in private]
    for corpus, inverters in sources.items():
        for label, setting in SETTINGS:
            options.stage(f"{name}, {corpus}: {label}")
            inverter = inverters[setting.level]
            setting.rewriter(embedder, inverter, seed).rewrite(texts[0])  # what is computed once for a setting
            (outputs, chunks), seconds = timed(lambda: rewriters.rewritten(texts, setting, embedder, inverter, seed), len(texts))
            row = {
                "data": name,
                "system": label,
                "corpus": corpus,
                "epsilon": setting.epsilon,
                "delta": setting.delta,
                "chunks": chunks,
            }
            yield row | metrics.columns(private, outputs, opinions, seed) | {"seconds": seconds}
            control = metrics.columns(private, metrics.strangers(outputs, seed), opinions, seed)
            yield row | {"system": f"{label}: another document's"} | control


def rows(name, private, sources, embedder, opinions, redacting, seed):
    """Rows of every system; `redacting` are the arguments of `baselines`."""
    for label, redact in baselines(*redacting):
        options.stage(f"{name}: {label}")
        redact(private[0].text)
        outputs, seconds = timed(lambda: [redact(one.text) for one in private], len(private))
        yield (
            {"data": name, "system": label, "corpus": None}
            | metrics.columns(private, outputs, opinions, seed)
            | {"seconds": seconds}
        )
    yield from settings_rows(name, private, sources, embedder, opinions, seed)
    for corpus, inverters in sources.items():
        yield {"data": name, "system": "best possible choice by minilm", "corpus": corpus} | metrics.columns(
            private, metrics.best_choices(private, inverters["document"].corpus.texts, opinions[0]), opinions, seed
        )


def with_sentences(settings, count, posts, model):
    even = documents.sentences(settings.sentences, 50 if settings.quick else None, settings.seed, parity=0)
    return documents.sentences(settings.sentences, count, settings.seed), {
        "shipped": both(rewriters.shipped(model)),
        "own file": pieced([one.text for one in even], model),
    }


def with_posts(settings, count, posts, model):
    older = documents.public_posts(posts, 50 if settings.quick else None, settings.seed)
    pieces = rewriters.pieces(older[:PIECED_POSTS], model)
    private = documents.private_posts(posts, count, settings.seed)
    return private, {"own file": {"chunk": pieces, "document": rewriters.whole(older, model)}}


def with_records(settings, count, posts, model):
    private, others = documents.shipped_records(count, settings.seed)
    others = others[: 50 if settings.quick else None]
    return private, {"shipped": both(rewriters.shipped(model)), "own file": pieced(others, model)}


def both(inverter):
    return {"chunk": inverter, "document": inverter}


def pieced(texts, model):
    """Whole texts for documents, pieces of them for chunks."""
    return {"chunk": rewriters.pieces(texts, model), "document": rewriters.whole(texts, model)}


# What --data can name: (settings, count, posts, model) -> (private documents, {corpus name: {level: inverter}}).
DATA = {"sentences": with_sentences, "posts": with_posts, "records": with_records}


class Settings(options.Settings):
    spacy_model: str | None = Field(default=redactors.installed_spacy_model(), description="for Presidio")
    judges: options.Judges = Field(default=tuple(judges.SECOND_OPINIONS), description="beside minilm")
    documents: options.Count = Field(default=500, description="at most, of each kind")
    data: Several[Annotated[str, one_of(DATA)]] = Field(default=("sentences", "posts"), description=f"of {', '.join(DATA)}")
    token_classifier: Path | None = Field(default=None, description="folder of a token classification model of transformers")


def studied(settings):
    count = 20 if settings.quick else settings.documents
    posts = documents.read_posts(settings.posts) if "posts" in settings.data else []
    embedder, kept = MiniLMEmbedder(), judges.remembering_minilm(settings.embeddings if posts else None, posts)
    opinions = judges.judges(kept, [] if settings.quick else settings.judges)
    redacting = settings.spacy_model, settings.token_classifier
    found = []
    for name in settings.data:
        options.stage(f"{name}: embedding the public texts")
        private, sources = DATA[name](settings, count, posts, kept)
        found += rows(name, private, sources, embedder, opinions, redacting, settings.seed)
    classifier = None if settings.token_classifier is None else settings.token_classifier.name
    others = dict(
        data=list(settings.data),
        documents=count,
        epsilon=EPSILON,
        spacy_model=settings.spacy_model,
        token_classifier=classifier,
        judges=list(settings.judges),
    )
    return others, found


def draw(study, folder):
    """Leak, likeness and length of every system."""
    rows = [row for row in study["rows"] if "another" not in row["system"] or row["system"].startswith("no noise")]
    groups = [
        (name, [(label(row), row) for row in rows if row["data"] == name]) for name in dict.fromkeys(row["data"] for row in rows)
    ]
    judged = {f"similarity_{name}": f"similarity\n(cosine, {name})" for name in ("minilm", *judges.SECOND_OPINIONS)}
    measures = {"leak": "leak\n(share of gold strings)"} | {
        key: text for key, text in judged.items() if any(key in row for row in rows)
    }
    measures["length_ratio"] = "length\n(characters out per in)"
    figures.dots(folder / "comparison.svg", groups, measures, title="Leak, likeness and length of every system")


def label(row):
    return row["system"] if row["corpus"] is None else f"{row['system']} [{row['corpus']}]"


def main():
    options.run(__doc__, "comparison", Settings, studied, draw, COLUMNS)


if __name__ == "__main__":
    main()
