"""Does an inverter need the length of the vectors it was trained on? Rows as they are and rows of unit length, with 0 and 20 steps.

    python -m hushvec_studies.rewriting.normalization --inverter FOLDER_OR_ID --texts held_out.jsonl

It needs a checkpoint in the format of vec2text: one that train_pair.py trained, with its held-out sentences, or a published one such
as jxm/gtr__nq__32 with texts of your own (one JSON object per line with "text"). There is no noise here: this is about the inverter.

bleu              BLEU of the output, mean over texts, 0 to 100
token_f1          words in common, as a bag, upper and lower case alike
exact_match       share of outputs that are the text
similarity_minilm cosine of output and text by MiniLM; for a pair of train_pair.py not an independent judge
"""

from pathlib import Path

import numpy as np
from pydantic import Field

from hushvec.embedders.protocol import embedded_rows
from hushvec.embedders.sources import open_embedding_model
from hushvec.text import MiniLMEmbedder
from hushvec.text.inverters import Vec2TextInverter
from hushvec_studies.harness.rows import unit
from hushvec_studies.rewriting import judges, metrics, options, pair_texts

STEPS = (0, 20)
COLUMNS = ("input", "steps", "bleu", "token_f1", "exact_match", options.SIMILARITY)
INPUTS = {"as they are": lambda rows: rows, "unit length": unit}


class Settings(pair_texts.Settings):
    texts: Path = Field(description="texts to read back, JSON lines, such as the held_out.jsonl that train_pair.py writes")
    documents: options.Count = Field(default=500, description="at most")
    judges: options.Judges = Field(default=(), description="beside minilm")


def inverters(settings, steps):
    """(an inverter for each number of steps, the embedder that they read)."""
    given = pair_texts.embedder_of(pair_texts.trained_on(settings.inverter), settings.embedder)
    model = open_embedding_model(given, max_length=32, device=None) if isinstance(given, str) else given
    made = {count: Vec2TextInverter.from_pretrained(settings.inverter, num_steps=count, embedder=model) for count in steps}
    return made, made[steps[0]].embedder


def rows_of(private, made, embedder, opinions, seed):
    """A row for each input and number of steps, each with its control: the outputs compared with other texts."""
    from hushvec.embedders.sources import as_embedding_model

    texts = [one.text for one in private]
    rows = np.asarray(embedded_rows(as_embedding_model(embedder), texts), np.float32)
    for name, prepared in INPUTS.items():
        for steps, inverter in made.items():
            options.stage(f"{name}, {steps} steps")
            outputs = inverter.invert(np.ascontiguousarray(prepared(rows), np.float32))
            row = {"input": name, "steps": steps}
            yield row | described(texts, outputs, opinions)
            yield row | {"input": f"{name}: another text's"} | described(texts, metrics.strangers(outputs, seed), opinions)


def described(texts, outputs, opinions):
    pairs = list(zip(texts, outputs, strict=True))
    row = {"n": len(texts)}
    for name, measure in (("bleu", metrics.bleu), ("token_f1", metrics.token_f1), ("exact_match", metrics.is_exact)):
        row |= metrics.named(name, metrics.mean([measure(text, output) for text, output in pairs]))
    for judge in opinions:
        alike = metrics.cosines(judge([output or " " for output in outputs]), judge(texts))
        row |= metrics.named(f"similarity_{judge.name}", metrics.mean(alike))
    return row


def studied(settings):
    private = pair_texts.read_documents(settings.texts)[: 4 if settings.quick else settings.documents]
    made, embedder = inverters(settings, STEPS)
    opinions = judges.judges(MiniLMEmbedder(), settings.judges)
    found = list(rows_of(private, made, embedder, opinions, settings.seed))
    return dict(texts=settings.texts.name, documents=len(private)), found


def main():
    options.run(__doc__, "normalization", Settings, studied, lambda study, folder: None, COLUMNS)


if __name__ == "__main__":
    main()
