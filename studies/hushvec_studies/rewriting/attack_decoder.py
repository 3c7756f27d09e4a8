"""The adversary with a decoder: what does a network read out of a noisy vector?

    python -m hushvec_studies.rewriting.attack_decoder --decoders FOLDER

Private are synthetic sentences whose template_id is odd. The adversary is strong: it knows their templates and lists of the
values in them, makes 40 other sentences of each template, and trains decoders (`hushvec study train-inverter`) on their embeddings.
The sentences are released whole, without redaction: this is about what the noise alone keeps back.

    decoder, clean       trained on embeddings as they are, given released ones
    decoder, noise       trained on embeddings as this mechanism releases them at this epsilon; only for those named by --trained
    nearest              no training: the adversary's own sentence with the largest likelihood (releases.py)
    ..., stranger's      the same outputs, each compared with another private sentence: what is right by chance

Epsilon inf is the clean vector: the most that these attackers can do. token_f1 and the similarities compare output and private
sentence; recovered is the share of gold strings (names, addresses, numbers of at least five characters) that stand in the
output. A decoder takes minutes to train; with --decoders it is kept, and a run that was stopped goes on.
"""

import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import AfterValidator, Field

import hushvec as hv
from hushvec.mechanisms import PublicProjection
from hushvec.text.inverters.trained import TrainedInverter
from hushvec_studies.harness.charts import Panel
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.settings import DistinctOrNone
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.inverters import DecoderSize, train_inverter
from hushvec_studies.rewriting import documents, figures, judges, metrics, options, releases

EPSILONS = (4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
MECHANISMS = ("privunit", "gaussian")
DIRECTIONS = 40
COLUMNS = ("mechanism", "epsilon", "attack", "token_f1", options.SIMILARITY, "recovered")
QUICK_SIZE = DecoderSize(width=32, layers=1, heads=2, feed_forward=64, positions=2, bottleneck=32)


@dataclass(frozen=True)
class Training:
    """How decoders are trained, and where they are kept."""

    folder: Path
    size: str | DecoderSize
    epochs: int
    seed: int

    def decoder(self, name, texts, model, **law):
        """The decoder of that name; trained, or trained to its end, if it is not yet."""
        self.folder.mkdir(parents=True, exist_ok=True)
        folder = self.folder / name
        train_inverter(
            texts,
            folder,
            embedder=model,
            size=self.size,
            epochs=self.epochs,
            seed=self.seed,
            device="cpu",
            resume=folder.exists(),
            **law,
        )
        return TrainedInverter.from_folder(folder, device="cpu")


class Adversary:
    """Sentences of the adversary's own, their embeddings, and what attacks are made of them.

    Args:
        texts: of its own.
        model: the embedder, which is public.
        training: of its decoders.
        noise_aware: (mechanism, epsilon) that a decoder of their own is trained for.
    """

    def __init__(self, texts, model, training, noise_aware):
        self.texts, self.model, self.rows = texts, model, model.embed(texts)
        self.training, self.noise_aware = training, noise_aware
        self.map = PublicProjection.fit(self.rows, components=min(DIRECTIONS, self.rows.shape[1] // 2))
        self.clean = training.decoder("none", texts, model)

    def projection(self, mechanism, epsilon):
        """PrivUnit is released behind the adversary's map, which is public; the others as they are."""
        return self.map if mechanism == "privunit" and epsilon < math.inf else None

    def attacks(self, mechanism, epsilon, released):
        """(name, outputs): what each attack makes of the released rows."""
        projection = self.projection(mechanism, epsilon)
        lifted = released if projection is None else np.asarray(projection.lift(released), np.float32)
        yield "nearest", self._nearest(mechanism, released, projection)
        yield "decoder, clean", self.clean.invert(unit(lifted))
        if (mechanism, epsilon) in self.noise_aware:
            law = {
                "mechanism": mechanism,
                "epsilon": epsilon,
                "delta": releases.DELTA,
                "clip_norm": 1.0,
                "projection": projection,
            }
            decoder = self.training.decoder(f"{mechanism}-{epsilon:g}", self.texts, self.model, **law)
            yield "decoder, noise", decoder.invert(lifted)

    def _nearest(self, mechanism, released, projection):
        clean = self.rows if projection is None else unit(projection.transform(self.rows))
        return [self.texts[best] for best in releases.scores(mechanism, released, clean).argmax(axis=1)]


def row_of(private, outputs, opinions, seed):
    row = {"n": len(private)} | metrics.named(
        "token_f1", metrics.mean([metrics.token_f1(one.text, output) for one, output in zip(private, outputs, strict=True)])
    )
    for judge in opinions:
        alike = metrics.cosines(judge([output or " " for output in outputs]), judge([one.text for one in private]))
        row |= metrics.named(f"similarity_{judge.name}", metrics.mean(alike))
    hits = [metrics.leaked(output, one.identifying) for one, output in zip(private, outputs, strict=True)]
    return row | metrics.named("recovered", metrics.share(hits, [len(one.identifying) for one in private], seed))


def attacked(private, adversary, opinions, mechanism, epsilon, seed):
    """Rows of every attack on one release of every private sentence, with their controls."""
    options.stage(f"{mechanism}, epsilon {epsilon:g}")
    projection = adversary.projection(mechanism, epsilon)
    rows = adversary.model.embed([one.text for one in private])
    noisy = releases.released(rows, mechanism, epsilon, projection, hv.Generator.unsafe_seeded(seed))
    for name, outputs in adversary.attacks(mechanism, epsilon, noisy):
        row = {
            "mechanism": mechanism,
            "epsilon": epsilon,
            "delta": releases.delta_of(mechanism) if epsilon < math.inf else 0.0,
            "attack": name,
        }
        yield row | row_of(private, outputs, opinions, seed)
        yield row | {"attack": f"{name}, stranger's"} | row_of(private, metrics.strangers(outputs, seed), opinions, seed)


def draw(study, folder):
    panels = []
    for measure, title in (("token_f1", "words (token F1)"), ("recovered", "gold strings recovered (share)")):
        lines = []
        for attack in ("nearest", "decoder, clean", "decoder, noise"):
            for mechanism in MECHANISMS:
                own = [row for row in study["rows"] if row["attack"] == attack and row["mechanism"] in (mechanism, "none")]
                if own:
                    own = sorted(own, key=lambda row: row["epsilon"])
                    lines.append(figures.line(f"{mechanism}: {attack}", own, measure, style=len(lines)))
        chance = [row[measure] for row in study["rows"] if row["attack"].endswith("stranger's")]
        level = ("a stranger's vector (mean of all)", Estimate(float(np.mean(chance))))
        panels.append(Panel(f"{title}: {study['rows'][0]['n']} sentences", tuple(lines), (level,)))
    figures.curves(
        folder / "attack_decoder.svg",
        panels,
        title="What a decoder reads out of a noisy vector",
        y_label="of the private sentence\nin the attacker's text",
        x_label="epsilon (log scale)",
    )


def _known(pair):
    """(mechanism, epsilon) of "MECHANISM:EPSILON"."""
    mechanism, _, epsilon = pair.partition(":")
    if mechanism not in MECHANISMS or not re.fullmatch(r"\d+(\.\d*)?", epsilon):
        raise ValueError(f"must be MECHANISM:EPSILON with one of {', '.join(MECHANISMS)}, got {pair!r}")
    return pair


class Settings(options.Settings):
    documents: options.Count = Field(default=300, description="synthetic sentences at most")
    variants: options.Count = Field(default=40, description="sentences that the adversary makes of a template")
    epochs: options.Count = Field(default=20, description="of the decoders")
    size: str = Field(default="tiny", description="of the decoders, as for train-inverter")
    trained: DistinctOrNone[Annotated[str, AfterValidator(_known)]] = Field(
        default=("privunit:16",), description="MECHANISM:EPSILON of decoders that know the noise"
    )
    decoders: Path | None = Field(default=None, description="folder that keeps the decoders; without it they are thrown away")
    judges: options.Judges = Field(default=("wordllama",), description="beside minilm")


def studied(settings):
    with tempfile.TemporaryDirectory() as folder:
        return _studied(settings, settings.decoders or Path(folder))


def _studied(settings, folder):
    model = judges.remembering_minilm(None, [])
    records = documents.records(settings.sentences, 20 if settings.quick else settings.documents, settings.seed)
    values = documents.values_of(documents.every_record(settings.sentences))
    own = documents.varied(records, values, 3 if settings.quick else settings.variants, settings.seed)
    options.stage(f"embedding {len(own)} sentences of the adversary's, training a decoder on them")
    trained = [(mechanism, float(epsilon)) for mechanism, epsilon in (pair.split(":") for pair in settings.trained)]
    size, epochs = (QUICK_SIZE, 1) if settings.quick else (settings.size, settings.epochs)
    adversary = Adversary(own, model, Training(folder, size, epochs, settings.seed), trained)
    opinions = judges.judges(model, settings.judges)
    private = [documents.sentence(record) for record in records]
    found = [row | {"mechanism": "none"} for row in attacked(private, adversary, opinions, "gaussian", math.inf, settings.seed)]
    for mechanism in MECHANISMS:
        for epsilon in EPSILONS:
            found += attacked(private, adversary, opinions, mechanism, epsilon, settings.seed)
    others = dict(
        delta=releases.DELTA,
        directions=DIRECTIONS,
        sentences_of_adversary=len(own),
        epochs=epochs,
        size=settings.size,
        trained=list(settings.trained),
    )
    return others, found


def main():
    options.run(__doc__, "attack_decoder", Settings, studied, draw, COLUMNS)


if __name__ == "__main__":
    main()
