"""What rounds of correction buy: vec2text checkpoints with num_steps 0 to 50, with noise and without.

    python -m hushvec_studies.rewriting.steps_sweep --inverter FOLDER_OR_ID [--embedder FOLDER_OR_ID] [--texts held_out.jsonl]

It needs checkpoints in the format of vec2text: --inverter jxm/gtr__nq__32 (with its corrector, jxm/gtr__nq__32__correct) and
for --embedder sentence-transformers/gtr-t5-base, from the hub or as folders that were downloaded before: FOLDER with
config.json, model.safetensors and tokenizer.json, the corrector's beside it in FOLDER__correct. None comes with hushvec, so
there is no default; train_pair.py trains a small pair, whose held-out sentences --texts takes.

Private are the documents of --texts, or synthetic sentences whose template_id is odd, rewritten in chunks of 32 tokens, clip_norm
1.5, delta = 1e-3, epsilons composed jointly. The vectors that are noised are GTR's: both judges, MiniLM and WordLlama, are other
embedders; for a pair of train_pair.py they are MiniLM's, and WordLlama alone is independent. A decoder of `hushvec study
train-inverter` works too, but has no corrector: all steps are the same then.
"""

import math
import time
from pathlib import Path

from pydantic import Field

from hushvec import Generator
from hushvec.extend.helpers import Progress
from hushvec.text import Chunking, MiniLMEmbedder, Rewriter
from hushvec_studies.rewriting import documents, judges, metrics, options, pair_texts, rewriters

STEPS = (0, 1, 5, 10, 20, 50)
EPSILONS = (16.0, 1000.0, math.inf)
CLIP_NORM = 1.5
COLUMNS = ("steps", "epsilon", "leak", options.SIMILARITY, "length_ratio", "seconds")


def rewriter(arguments, epsilon, steps):
    return Rewriter(
        epsilon=epsilon,
        delta=rewriters.DELTA,
        clip_norm=CLIP_NORM,
        num_steps=steps,
        chunking=Chunking(max_length=rewriters.TOKENS),
        device=arguments.device,
        generator=Generator.unsafe_seeded(arguments.seed),
        embedder=pair_texts.embedder_of(pair_texts.trained_on(arguments.inverter), arguments.embedder),
        inverter=arguments.inverter,
        mechanism="gaussian",
    )


def swept(private, arguments, opinions, steps, epsilons):
    """A row for each number of steps and epsilon."""
    texts = [one.text for one in private]
    with Progress("steps and epsilons", len(steps) * len(epsilons)) as progress:
        for count in steps:
            for epsilon in epsilons:
                options.stage(f"{count} steps, epsilon {epsilon:g}")
                made = rewriter(arguments, epsilon, count)
                start = time.perf_counter()
                outputs = [one.output for one in made.rewrite_all(texts)]
                seconds = (time.perf_counter() - start) / len(texts)
                row = {"steps": count, "epsilon": epsilon, "delta": rewriters.DELTA if epsilon < math.inf else 0.0}
                yield row | metrics.columns(private, outputs, opinions, arguments.seed) | {"seconds": seconds}
                progress.advance(1)


class Settings(pair_texts.Settings):
    device: str | None = Field(default=None, description="that models are on")
    texts: Path | None = Field(default=None, description="private texts, one JSON object per line: text, and gold if known")
    documents: options.Count = Field(default=50, description="at most")
    judges: options.Judges = Field(default=("wordllama",), description="beside minilm")


def studied(settings):
    count = 4 if settings.quick else settings.documents
    if settings.texts is None:
        private = documents.sentences(settings.sentences, count, settings.seed)
    else:
        private = pair_texts.read_documents(settings.texts)[:count]
    opinions = judges.judges(MiniLMEmbedder(), settings.judges)
    steps, epsilons = (STEPS[:2], EPSILONS[::2]) if settings.quick else (STEPS, EPSILONS)
    found = list(swept(private, settings, opinions, steps, epsilons))
    texts = "sentences" if settings.texts is None else settings.texts.name
    return dict(texts=texts, documents=len(private), delta=rewriters.DELTA, clip_norm=CLIP_NORM), found


def main():
    options.run(__doc__, "steps_sweep", Settings, studied, lambda study, folder: None, COLUMNS)


if __name__ == "__main__":
    main()
