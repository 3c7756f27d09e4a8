"""`hushvec study train-inverter`: a decoder from embeddings to text, trained on public texts."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

from hushvec.cli._output import answered, facts
from hushvec.cli._parser import Command, option
from hushvec.cli._style import printable
from hushvec.mechanisms import PublicProjection
from hushvec.text.inverters.trained import PROJECTION_FILE, read_run
from hushvec_studies.inverters.loop import CURVE_FILE
from hushvec_studies.inverters.network import LAWS
from hushvec_studies.inverters.settings import SIZES, DecoderSize
from hushvec_studies.inverters.training import TrainingSummary, train_inverter

# Exit codes of a run that was stopped, as of any command.
_STOPPED_EXIT = 128


class TrainInverter(
    Command,
    name="study train-inverter",
    help="a decoder from vectors to text, from public texts",
    examples=(
        ("learn from public texts", "hushvec study train-inverter --corpus public.txt -o decoder"),
        ("go on after Ctrl-C", "hushvec study train-inverter --corpus public.txt -o decoder --resume"),
        (
            "learn from noisy vectors, as an adversary would",
            "hushvec study train-inverter --corpus public.txt -o decoder --mechanism privunit --epsilon 8",
        ),
    ),
):
    """Train a small T5 that turns MiniLM embeddings back into text, and save it in FOLDER.

    The corpus must be PUBLIC: a decoder reproduces its training texts, and this is not differential privacy.
    With --mechanism it learns from embeddings as that mechanism releases them, with fresh noise in every step: such a
    decoder reads released vectors best, to rewrite texts or as the adversary who attacks them.

    Ctrl-C ends the run with a checkpoint; --resume continues it, and needs only --corpus again."""

    corpus: str = option("public UTF-8 texts, one per line", metavar="FILE", required=True)
    output: Path = option("folder of the decoder: new or empty", metavar="FOLDER", required=True)
    text_key: str | None = option("the corpus is JSON lines, each with a text under this key", metavar="KEY")
    resume: bool = option("continue the run in FOLDER")
    device: str | None = option("device of torch (default: CUDA if there is one, else the CPU)")
    # Of these only those that are given go on: a resumed run keeps its original settings.
    size: str | None = option("size of the decoder (default small)", choices=tuple(SIZES))
    vocabulary: int | None = option("tokens at most, learned from the corpus (default 4096)")
    max_tokens: int | None = option("tokens of a text; longer ones are cut (default 48)")
    epochs: int | None = option("passes over the texts (default 20)")
    batch_size: int | None = option("texts in a step (default 64)")
    learning_rate: float | None = option("of AdamW at its highest (default 1/2 over the width, 0.002 for small)")
    dropout: float | None = option("share of elements left out in training (default 0.1)")
    validation: float | None = option("share of the texts that are held out (default 0.05)")
    checkpoint_every: int | None = option("steps between validations with a checkpoint (default 500)", metavar="STEPS")
    seed: int | None = option("of weights, order, dropout and noise (default 0); public, like the corpus")
    mechanism: str | None = option("law of the noise on the embeddings (default: no noise)", choices=LAWS)
    epsilon: float | None = option("of one vector, for --mechanism")
    delta: float | None = option("for the Gaussian kinds (default 1e-3)")
    clip_norm: float | None = option("L2 norm that vectors are clipped to (default 1.0, that of MiniLM's)")
    projection: int | None = option("principal components of the corpus that vectors go through first (default: none)", metavar="M")

    def run(self) -> int:
        arguments = {name: value for name in _ARGUMENTS if (value := getattr(self, name)) is not None}
        if self.resume:
            arguments = {**_arguments_of(self.output), **arguments}
        summary = train_inverter(
            self.corpus, self.output, text_key=self.text_key, device=self.device, resume=self.resume, **arguments
        )
        answered(self, summary.to_dict(), printable(str(self.output)), facts(_facts(summary)))
        if summary.stopped_by is None or summary.finished:
            return 0
        print(f"{self.prog}: stopped after step {summary.step} of {summary.steps}; --resume continues it", file=sys.stderr)
        return _STOPPED_EXIT + int(signal.Signals(summary.stopped_by))


# What is in run.json.
_SETTINGS = ("vocabulary", "max_tokens", "epochs", "batch_size", "learning_rate", "dropout", "validation", "checkpoint_every", "seed")
_ARGUMENTS = ("size", *_SETTINGS, "mechanism", "epsilon", "delta", "clip_norm", "projection")


def _arguments_of(folder: Path) -> dict[str, Any]:
    """The original settings of the run in a folder, as arguments of `train_inverter`."""
    said = read_run(folder)
    settings, mechanism = said["settings"], said["mechanism"]
    arguments = {"size": DecoderSize(**settings["size"]), **{name: settings[name] for name in _SETTINGS}}
    if mechanism is not None:
        arguments["mechanism"] = mechanism["name"]
        arguments["clip_norm"] = mechanism["clip_norm"]
        arguments |= {name: mechanism[name] for name in ("epsilon", "delta") if name in mechanism}
        named = said["projection"]
        # A digest names a map that was given as one: it is in the folder.
        arguments["projection"] = PublicProjection.load(folder / PROJECTION_FILE) if isinstance(named, str) else named
    return arguments


def _facts(summary: TrainingSummary) -> list[tuple[str, str]]:
    """The main facts of a run, for people."""
    loss = "not measured yet"
    if summary.validation_loss is not None:
        loss = f"{summary.validation_loss:.4f} nats per token after step {summary.best_step:,}, the one that is kept"
    rate = f", {summary.step / summary.seconds:.3g} per second" if summary.seconds > 0 else ""
    return [
        ("decoder", f"{summary.parameters:,} parameters, {summary.vocabulary:,} tokens"),
        ("texts", f"{summary.training_texts:,}, and {summary.held_out_texts:,} held out"),
        ("steps", f"{summary.step:,} of {summary.steps:,} in {summary.seconds:.1f} s{rate}, on {summary.device}"),
        ("held-out loss", loss),
        ("curve", CURVE_FILE),
    ]
