"""`hushvec demo`: what stolen vectors give away, and what is left of them after noise, on shipped notes or on texts of one's own."""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

from hushvec.cli import _demo_attack as attack
from hushvec.cli._arguments import ReleaseOptions, make_generator
from hushvec.cli._demo_steps import Measured, headline, said, tell, verdict
from hushvec.cli._output import print_json
from hushvec.cli._parser import argument, option
from hushvec.cli._texts import lines_of_source
from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
from hushvec.mechanisms import MECHANISMS, EmpiricalGaussian, Gaussian, Laplacian, PrivUnit
from hushvec.release import privatize
from hushvec.text import MiniLMEmbedder
from hushvec.text.corpus import PublicCorpus

DEFAULT_EPSILON = 8.0

_VECTORS = (Gaussian.name, Laplacian.name, PrivUnit.name)
_IN_TABLE = (PrivUnit.name, attack.CHOICE)


class Demo(ReleaseOptions, name="demo", examples=(
    ("the 80 notes that come with the package", "hushvec demo"),
    ("your own texts, one per line; they are not printed", "hushvec demo notes.txt"),
    ("one mechanism, on six texts", "hushvec demo --mechanism privunit --epsilon 16 --show 6"),
    ("one sentence", "echo 'The biopsy came back benign.' | hushvec demo -"),
)):
    """Show in six steps what vectors of texts give away, what each mechanism leaves of one text, what a smaller epsilon
    changes, what survives in aggregate, and the receipt. All figures are measured or computed here; the noise is new
    each time. The vectors of the shipped notes are shipped too. Texts of PATH, one per line, are embedded with
    all-MiniLM-L6-v2 on the CPU, which needs the extra 'text'.

    Texts of PATH, and the sentences nearest to them, are printed only with --show-original. With --mechanism only
    that one is shown. The tables repeat the release: do not publish them, as the losses would add up."""

    source: str | None = argument("file, folder (.txt, .md) or - (default: shipped notes)", "PATH", nargs="?")
    epsilon: float | None = option(f"of each release (default {DEFAULT_EPSILON:g})")
    mechanism: str | None = option(  # type: ignore[assignment]
        "law of the noise (default: several, beside each other)", choices=MECHANISMS
    )
    show: int = option("texts to print", 1, metavar="N")
    show_original: bool = option("print the texts of PATH and how they decode before the noise")
    no_sweep: bool = option("leave out the table over epsilon")

    def run(self) -> int:
        if self.show < 0:
            raise ValueError(f"show must be >= 0, got {self.show}")
        arguments = {**self.named("epsilon", "delta", "clip_norm", "sigma", "per"), "generator": make_generator(self)}
        if self.epsilon is None and self.mechanism != EmpiricalGaussian.name:
            arguments["epsilon"] = DEFAULT_EPSILON
        shown = (*_VECTORS, attack.CHOICE) if self.mechanism is None else (self.mechanism,)
        for name in shown:  # releases of no rows refuse what the real ones would refuse, before the model loads
            if name != attack.CHOICE:
                privatize(np.empty((0, MiniLMEmbedder.dimension), np.float32), mechanism=name, **arguments)
        texts = None if self.source is None else lines_of_source(self.source)
        # At once for a person, whom loading the model keeps waiting; elsewhere not before it has worked.
        at_once = sys.stdout.isatty() and not self.json
        if at_once:
            print(headline(None if texts is None else len(texts)), flush=True)
        watch = _Stopwatch()
        stolen = _shipped(watch) if texts is None else _embedded(texts, watch)
        outcomes = [attack.releaser(stolen, name, arguments)() for name in shown]
        watch.lap("release and decode")
        others: dict[float, list[attack.Outcome]] = {}
        if not self.no_sweep and self.mechanism != EmpiricalGaussian.name:
            others = attack.sweep(stolen, _IN_TABLE if self.mechanism is None else shown, arguments)
            watch.lap("other epsilons")
        learned: attack.TopicAccuracy | attack.TooFewPeople | None = None
        if self.per != "release":
            topics = attack.NOTE_TOPICS if texts is None else attack.TOPIC_OF[stolen.clean_decoded]
            people = attack.AGGREGATE_PEOPLE if texts is None else len(texts)
            learned = attack.learned_topics(stolen, topics, people, self.delta, arguments["generator"])
            watch.lap("topics in aggregate")
        private = self.show_original or texts is None  # the shipped notes are about nobody
        measured = Measured(stolen, outcomes, others, learned, self.show, self.source, private)
        if self.json:
            print_json({**_as_json(measured), "seconds": watch.seconds, "note": said("private")})
            return 0
        if not at_once:
            print(headline(None if texts is None else len(texts)))
        tell(measured)
        return 0


class _Stopwatch:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def _shipped(watch: _Stopwatch) -> attack.StolenVectors:
    corpus = PublicCorpus(tuple(public_sentences()), public_sentence_vectors())
    stolen = attack.StolenVectors(private_notes(), private_note_vectors(), corpus)
    watch.lap("read vectors")
    return stolen


def _embedded(texts: list[str], watch: _Stopwatch) -> attack.StolenVectors:
    embedder = MiniLMEmbedder()
    watch.lap("load model")
    clean = embedder.embed(texts)
    watch.lap("embed texts")
    sentences = public_sentences()
    corpus = PublicCorpus(tuple(sentences), embedder.embed(sentences))
    watch.lap("embed public corpus")
    return attack.StolenVectors(texts, clean, corpus)


# ---- JSON ----


def _as_json(measured: Measured) -> dict[str, Any]:
    """Return the figures. Those without a name are of the last mechanism for vectors; the public sentences are `public_choice`."""
    stolen, outcomes, learned = measured.stolen, measured.outcomes, measured.learned
    choice = next((outcome for outcome in outcomes if outcome.mechanism == attack.CHOICE), None)
    vectors = next(outcome for outcome in reversed(outcomes) if outcome.mechanism != attack.CHOICE)
    mechanisms = {outcome.mechanism: _outcome_as_json(stolen, outcome) for outcome in outcomes}
    sweeps: dict[str, list[dict[str, Any]]] = {name: [] for name in mechanisms}
    for epsilon, these in measured.sweep.items():
        for one in these:
            noise = {} if one.noise is None else {"sigma_or_scale": one.noise, "mean_cosine": one.mean_cosine}
            sweeps[one.mechanism].append({"epsilon": epsilon, **noise, **_shares(one)})
    return {
        "texts": [_text_as_json(measured, vectors, choice, row) for row in range(len(stolen.texts))],
        "candidates": len(stolen.candidates),
        "picked_without_noise": stolen.picked_clean(),
        **mechanisms[vectors.mechanism],
        "sweep": sweeps[vectors.mechanism],
        "public_choice": None if choice is None else {**mechanisms[attack.CHOICE], "sweep": sweeps[attack.CHOICE]},
        "mechanisms": mechanisms,
        "aggregate": _learned_as_json(learned, private=measured.private) if isinstance(learned, attack.TopicAccuracy) else None,
    }


def _text_as_json(measured: Measured, vectors: attack.Outcome, choice: attack.Outcome | None, row: int) -> dict[str, Any]:
    stolen, sentences = measured.stolen, measured.stolen.corpus.texts
    before, after = stolen.clean_decoded[row], vectors.decoded[row]
    shown: dict[str, Any] = {"nearest_after": sentences[after]}
    if choice is not None:
        shown["public_choice"] = sentences[choice.decoded[row]]
    if measured.private:
        assert vectors.cosines is not None
        shown |= {
            "text": stolen.texts[row], "nearest_before": sentences[before], "cosine_before": stolen.closeness(row, before),
            "cosine_after": stolen.closeness(row, after), "cosine_noisy_clean": float(vectors.cosines[row]),
        }
    return shown


def _outcome_as_json(stolen: attack.StolenVectors, outcome: attack.Outcome) -> dict[str, Any]:
    measured = {"mean_cosine": outcome.mean_cosine, **_shares(outcome)}
    return {**measured, "verdict": verdict(stolen, outcome), "receipt": outcome.receipt.to_dict()}


def _shares(outcome: attack.Outcome) -> dict[str, float | None]:
    return {name: getattr(outcome, name) for name in (*attack.SHARES, "right_one_of_two")}


def _learned_as_json(learned: attack.TopicAccuracy, *, private: bool) -> dict[str, Any]:
    return {
        "people": learned.people,
        **({"right_without_noise": learned.clean} if private else {}),
        "right": learned.centroids,
        "right_one_of_two": attack.one_of_two(learned.receipt),
        "rows": [{"epsilon": epsilon, "right": right, "right_one_of_two": bound} for epsilon, (right, bound) in learned.rows.items()],
        "receipt": learned.receipt.to_dict(),
    }
