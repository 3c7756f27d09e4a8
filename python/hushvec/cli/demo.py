"""`hushvec demo`: texts as public sentences, by randomized response and by noisy vectors, with receipts and utility."""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native._core import Generator
from hushvec._util.lines import SHIPPED_NOTES, SHIPPED_SENTENCES, shipped_texts
from hushvec._util.progress import Progress
from hushvec.cli._arguments import Subparsers, add_command, add_release_arguments, make_generator
from hushvec.cli._documents import lines_of_source
from hushvec.cli._nearest import cosines, nearest
from hushvec.cli._output import facts, print_json, receipt_lines, table
from hushvec.cli._printable import say
from hushvec.embedders.minilm import BATCH, MiniLMEmbedder
from hushvec.mechanisms import EmpiricalGaussian, Gaussian
from hushvec.receipts.labels import LabelReceipt
from hushvec.receipts.vectors import Receipt
from hushvec.release.vectors import Release, privatize
from hushvec.text.corpus import PublicCorpus
from hushvec.text.public_choice import PublicChoice

DEFAULT_EPSILON = 50.0
CHOICE_EPSILON = 8.0
SWEEP_EPSILONS = (1.0, 10.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
DEFAULT_SHOWN = 6

NOTE_PRIVATE = "Only the receipts and the released sentences are protected. Do not publish the other lines: they show the texts."
NOTE_TWO = "Both releases are about the same texts: if both are published, their epsilons add up."

# Shares of the texts that still match: below the first nothing useful survives, from the second on most of the meaning does.
LITTLE = 0.05
MOST = 0.5


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "demo",
        run,
        help="embed texts, add noise, decode, and compare",
        description=(
            "Embed texts with all-MiniLM-L6-v2 on the CPU and release each as one of 320 public sentences: first its nearest one\n"
            "by randomized response, which keeps most, then by a noisy vector, decoded to the nearest sentence. With --mechanism,\n"
            "only the noisy vector. Every line of the input is one text.\n\n"
            "Texts of PATH, and the sentences nearest to them, are printed only with --show-original.\n\n"
            f"epsilon is {CHOICE_EPSILON:.0f} for randomized response if not given, and {DEFAULT_EPSILON:.0f} for vectors: "
            "enough to see something,\nfar too much for strong privacy.\n"
            "The table over epsilon repeats the release; do not publish it: the losses would add up."
        ),
    )
    parser.add_argument("source", nargs="?", metavar="PATH", help="file, folder (.txt, .md) or - (default: shipped notes)")
    parser.add_argument("--epsilon", type=float, help=f"default {CHOICE_EPSILON:.0f}, and {DEFAULT_EPSILON:.0f} for vectors")
    add_release_arguments(parser)
    parser.set_defaults(mechanism=None)  # which one was asked for, if any
    parser.add_argument("--show", type=int, default=DEFAULT_SHOWN, metavar="N", help=f"texts to print (default {DEFAULT_SHOWN})")
    parser.add_argument("--show-original", action="store_true", help="print the texts of PATH and how they decode before the noise")
    parser.add_argument("--no-sweep", action="store_true", help="leave out the table over epsilon")


def run(options: argparse.Namespace) -> int:
    if options.show < 0:
        raise ValueError(f"show must be >= 0, got {options.show}")
    arguments = _release_arguments(options)
    _check_before_the_model_loads(arguments)
    texts = shipped_texts(SHIPPED_NOTES) if options.source is None else lines_of_source(options.source)
    corpus = shipped_texts(SHIPPED_SENTENCES)

    watch = _Stopwatch()
    embedder = MiniLMEmbedder()
    watch.lap("load model")
    clean = _embed(embedder, texts)
    watch.lap("embed texts")
    public = embedder.embed(corpus)
    watch.lap("embed public corpus")
    release = privatize(clean, **arguments)
    watch.lap("noise")
    decoded = nearest(release.values, public)
    watch.lap("decode")
    clean_decoded = nearest(clean, public)
    choice = None
    if options.mechanism is None:
        choice = _chosen(clean, PublicCorpus(tuple(corpus), public), clean_decoded, options, arguments["generator"])
        watch.lap("choose public sentences")

    outcome = _Outcome(texts, corpus, clean, public, clean_decoded, release, decoded, choice)
    sweep = [] if options.no_sweep or options.mechanism == EmpiricalGaussian.name else _sweep(outcome, arguments)
    private = options.show_original or options.source is None  # the bundled notes are about nobody
    if options.json:
        print_json(_as_json(outcome, sweep, watch.seconds, private=private))
    else:
        _print(outcome, sweep, watch.seconds, options.show, private=private)
    return 0


class _Choice(NamedTuple):
    """The nearest public sentence of each text by randomized response."""

    texts: list[str]
    receipt: LabelReceipt
    agreement: float
    corpus_size: int

    @property
    def verdict(self) -> str:
        kept = round(self.agreement * len(self.texts))
        return (
            f"Randomized response over {self.receipt.label_count} of the {self.corpus_size} public sentences, "
            f"epsilon {self.receipt.epsilon:g}, delta 0: {kept} of {len(self.texts)} texts get the sentence nearest to them."
        )


def _chosen(
    clean: NDArray[np.float32],
    corpus: PublicCorpus,
    clean_decoded: NDArray[np.intp],
    options: argparse.Namespace,
    generator: Generator | None,
) -> _Choice:
    choice = PublicChoice(corpus, CHOICE_EPSILON if options.epsilon is None else options.epsilon)
    texts, receipt = choice.release(clean, per=options.per, generator=generator)
    kept = [text == corpus.texts[number] for text, number in zip(texts, clean_decoded.tolist())]
    return _Choice(texts, receipt, sum(kept) / len(kept), len(corpus.texts))


@dataclass
class _Outcome:
    texts: list[str]
    corpus: list[str]
    clean: NDArray[np.float32]
    public: NDArray[np.float32]
    clean_decoded: NDArray[np.intp]
    release: Release
    decoded: NDArray[np.intp]
    choice: _Choice | None

    @property
    def agreement(self) -> float:
        """Share of texts whose noisy vector decodes to the sentence that the clean vector decodes to."""
        return float((self.decoded == self.clean_decoded).mean())

    @property
    def mean_cosine(self) -> float:
        """Of a noisy vector with its own clean one."""
        return float(cosines(self.release.values, self.clean).mean())

    @property
    def verdict(self) -> str:
        kept = round(self.agreement * len(self.texts))
        count = f"{kept} of {len(self.texts)} texts still match the sentence they get without noise"
        guessing = f"chance: {100 / len(self.corpus):.1f} %"
        if self.agreement < LITTLE:
            return f"Nothing useful survives: {count}; {guessing}."
        if self.agreement < MOST:
            return f"Little survives: {count}; {guessing}."
        return f"Most of the meaning survives, for readers and attackers alike: {count}."


class _Stopwatch:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name] = now - self._last
        self._last = now


def _release_arguments(options: argparse.Namespace) -> dict[str, Any]:
    epsilon = options.epsilon
    if epsilon is None and options.mechanism != EmpiricalGaussian.name:
        epsilon = DEFAULT_EPSILON
    return {
        "epsilon": epsilon,
        "delta": options.delta,
        "clip_norm": options.clip_norm,
        "mechanism": options.mechanism or Gaussian.name,
        "sigma": options.sigma,
        "per": options.per,
        "generator": make_generator(options),
    }


def _check_before_the_model_loads(arguments: dict[str, Any]) -> None:
    """A release of no rows: refuses what the real one would refuse, seconds earlier."""
    privatize(np.empty((0, MiniLMEmbedder.dimension), np.float32), **arguments)


def _embed(embedder: MiniLMEmbedder, texts: list[str]) -> NDArray[np.float32]:
    runs = []
    with Progress("embedding", len(texts)) as progress:
        for first in range(0, len(texts), BATCH):
            runs.append(embedder.embed(texts[first : first + BATCH]))
            progress.advance(len(runs[-1]))
    return np.concatenate(runs)


def _sweep(outcome: _Outcome, arguments: dict[str, Any]) -> list[dict[str, float]]:
    lines = []
    for epsilon in SWEEP_EPSILONS:
        values, receipt = privatize(outcome.clean, **{**arguments, "epsilon": epsilon})
        assert isinstance(receipt, Receipt)
        noise = receipt.sigma if receipt.sigma is not None else receipt.scale
        assert noise is not None
        lines.append(
            {
                "epsilon": epsilon,
                "sigma_or_scale": noise,
                "mean_cosine": float(cosines(values, outcome.clean).mean()),
                "same_sentence": float((nearest(values, outcome.public) == outcome.clean_decoded).mean()),
            }
        )
    return lines


def _closeness(outcome: _Outcome, decoded: NDArray[np.intp]) -> NDArray[np.float64]:
    """Cosine of each text with the public sentence it was decoded to."""
    return cosines(outcome.clean, outcome.public[decoded])


def _as_json(
    outcome: _Outcome, sweep: list[dict[str, float]], seconds: dict[str, float], *, private: bool
) -> dict[str, Any]:
    texts: list[dict[str, Any]] = [{"nearest_after": outcome.corpus[number]} for number in outcome.decoded]
    if private:
        before, after = _closeness(outcome, outcome.clean_decoded), _closeness(outcome, outcome.decoded)
        kept = cosines(outcome.release.values, outcome.clean)
        for row, text in enumerate(outcome.texts):
            texts[row] |= {
                "text": text,
                "nearest_before": outcome.corpus[outcome.clean_decoded[row]],
                "cosine_before": float(before[row]),
                "cosine_after": float(after[row]),
                "cosine_noisy_clean": float(kept[row]),
            }
    choice = outcome.choice
    if choice is not None:
        for row, chosen in enumerate(choice.texts):
            texts[row]["public_choice"] = chosen
    return {
        "texts": texts,
        "mean_cosine": outcome.mean_cosine,
        "same_sentence": outcome.agreement,
        "verdict": outcome.verdict,
        "public_choice": None
        if choice is None
        else {"same_sentence": choice.agreement, "verdict": choice.verdict, "receipt": choice.receipt.to_dict()},
        "sweep": sweep,
        "seconds": seconds,
        "receipt": outcome.release.receipt.to_dict(),
        "note": NOTE_PRIVATE,
    }


def _print(outcome: _Outcome, sweep: list[dict[str, float]], seconds: dict[str, float], shown: int, *, private: bool) -> None:
    rows = np.linspace(0, len(outcome.texts) - 1, min(shown, len(outcome.texts)), dtype=int)
    if private:
        _print_texts(outcome, rows)
    else:
        for row in rows:
            _print_released(outcome, row)
        print("\n--show-original prints the texts beside them.\n")
    if outcome.choice is not None:
        print(f"{outcome.choice.verdict}\n")
        print(f"Noisy vectors, {outcome.release.receipt.mechanism}, epsilon {outcome.release.receipt.epsilon:g}:")
    print(outcome.verdict)
    print(f"Cosine of a noisy vector with its clean one: {outcome.mean_cosine:.3f} on average, 1 before the noise.\n")
    if sweep:
        print("The same vectors with noise of other epsilons (not released):\n")
        print(table(("epsilon", "sigma or scale", "cosine", "same sentence"), [_sweep_cells(line) for line in sweep]))
        print()
    if outcome.choice is not None:
        print("Receipt of the public sentences\n" + receipt_lines(outcome.choice.receipt) + "\n")
    heading = "Receipt" if outcome.choice is None else "Receipt of the noisy vectors"
    print(f"{heading}\n" + receipt_lines(outcome.release.receipt) + "\n")
    print(f"{NOTE_PRIVATE}\n" + ("" if outcome.choice is None else f"{NOTE_TWO}\n"))
    print("Seconds\n" + facts([(name, f"{value:.4f}") for name, value in seconds.items()]))


def _print_texts(outcome: _Outcome, rows: NDArray[Any]) -> None:
    before, after = _closeness(outcome, outcome.clean_decoded), _closeness(outcome, outcome.decoded)
    for row in rows:
        say(f"text          {outcome.texts[row]}")
        say(f"nearest       {outcome.corpus[outcome.clean_decoded[row]]}  (cosine with the text {before[row]:.2f})")
        _print_released(outcome, row, f"  (cosine with the text {after[row]:.2f})")
        print()


def _print_released(outcome: _Outcome, row: int, closeness: str = "") -> None:
    if outcome.choice is not None:
        say(f"randomized    {outcome.choice.texts[row]}")
    say(f"noisy vector  {outcome.corpus[outcome.decoded[row]]}{closeness}")


def _sweep_cells(line: dict[str, float]) -> tuple[str, ...]:
    return (f"{line['epsilon']:g}", f"{line['sigma_or_scale']:.4g}", f"{line['mean_cosine']:.3f}", f"{line['same_sentence']:.0%}")
