"""`hushvec train-inverter`: a decoder from embeddings to text, trained on public texts."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from typing import Any

from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json
from hushvec.cli._printable import say
from hushvec.mechanisms import MECHANISMS, PublicProjection
from hushvec.text.inverters.trained.loop import CURVE_FILE
from hushvec.text.inverters.trained.settings import PROJECTION_FILE, SIZES, DecoderSize, read_run
from hushvec.text.inverters.trained.training import TrainingSummary, train_inverter

# Exit codes of a run that was stopped, as of any command.
_STOPPED_EXIT = 128

# Settings that a resumed run need not repeat: everything in run.json.
_SETTINGS = (
    "vocabulary",
    "max_tokens",
    "epochs",
    "batch_size",
    "learning_rate",
    "dropout",
    "validation",
    "checkpoint_every",
    "seed",
)


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "train-inverter",
        run,
        description=(
            "Train a small T5 that turns MiniLM embeddings back into text, and save it in FOLDER.\n\n"
            "The corpus must be PUBLIC: a decoder reproduces its training texts, and this is not differential privacy.\n"
            "With --mechanism it learns from embeddings as that mechanism releases them, with fresh noise in every step: such a\n"
            "decoder reads released vectors best, to rewrite texts or as the adversary who attacks them.\n\n"
            "Ctrl-C ends the run with a checkpoint; --resume continues it, and needs only --corpus again."
        ),
        examples=(
            ("learn from public texts", "hushvec train-inverter --corpus public.txt -o decoder"),
            ("go on after Ctrl-C", "hushvec train-inverter --corpus public.txt -o decoder --resume"),
            (
                "learn from noisy vectors, as an adversary would",
                "hushvec train-inverter --corpus public.txt -o decoder --mechanism privunit --epsilon 8",
            ),
        ),
    )
    add = _without_default(parser)
    parser.add_argument("--corpus", metavar="FILE", required=True, help="public UTF-8 texts, one per line")
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="folder of the decoder: new or empty")
    parser.add_argument("--text-key", metavar="KEY", help="the corpus is JSON lines, each with a text under this key")
    parser.add_argument("--resume", action="store_true", help="continue the run in FOLDER")
    parser.add_argument("--device", help="device of torch (default: CUDA if there is one, else the CPU)")
    add("--size", choices=tuple(SIZES), help="size of the decoder (default small)")
    add("--vocabulary", type=int, help="tokens at most, learned from the corpus (default 4096)")
    add("--max-tokens", type=int, help="tokens of a text; longer ones are cut (default 48)")
    add("--epochs", type=int, help="passes over the texts (default 20)")
    add("--batch-size", type=int, help="texts in a step (default 64)")
    add("--learning-rate", type=float, help="of AdamW at its highest (default 1/2 over the width, 0.002 for small)")
    add("--dropout", type=float, help="share of elements left out in training (default 0.1)")
    add("--validation", type=float, help="share of the texts that are held out (default 0.05)")
    add("--checkpoint-every", type=int, metavar="STEPS", help="steps between validations with a checkpoint (default 500)")
    add("--seed", type=int, help="of weights, order, dropout and noise (default 0); public, like the corpus")
    add("--mechanism", choices=tuple(MECHANISMS), help="law of the noise on the embeddings (default: no noise)")
    add("--epsilon", type=float, help="of one vector, for --mechanism")
    add("--delta", type=float, help="for the Gaussian kinds (default 1e-3)")
    add("--clip-norm", type=float, help="L2 norm that vectors are clipped to (default 1.0, that of MiniLM's)")
    add("--sigma", type=float, help="standard deviation for --mechanism empirical")
    add("--projection", type=int, metavar="M", help="principal components of the corpus that vectors go through first (default: none)")


def run(options: argparse.Namespace) -> int:
    arguments = {name: getattr(options, name) for name in _ARGUMENTS if hasattr(options, name)}
    if options.resume:
        arguments = {**_arguments_of(options.output), **arguments}
    summary = train_inverter(
        options.corpus, options.output, text_key=options.text_key, device=options.device, resume=options.resume, **arguments
    )
    if options.json:
        print_json(summary.to_dict())
    else:
        say(str(options.output))
        print(facts(_facts(summary)))
    if summary.stopped_by is None or summary.finished:
        return 0
    print(f"{options.prog}: stopped after step {summary.step} of {summary.steps}; --resume continues it", file=sys.stderr)
    return _STOPPED_EXIT + int(signal.Signals(summary.stopped_by))


def _without_default(parser: argparse.ArgumentParser) -> Any:
    """`add_argument` for an argument that is only there if it was given: a resumed run keeps its original settings."""
    return lambda *names, **rest: parser.add_argument(*names, default=argparse.SUPPRESS, **rest)


_ARGUMENTS = ("size", *_SETTINGS, "mechanism", "epsilon", "delta", "clip_norm", "sigma", "projection")


def _arguments_of(folder: Path) -> dict[str, Any]:
    """The original settings of the run in a folder, as arguments of `train_inverter`."""
    said = read_run(folder)
    settings, mechanism = said["settings"], said["mechanism"]
    arguments = {"size": DecoderSize(**settings["size"]), **{name: settings[name] for name in _SETTINGS}}
    if mechanism is not None:
        arguments["mechanism"] = mechanism["name"]
        arguments["clip_norm"] = mechanism["clip_norm"]
        arguments |= {name: mechanism[name] for name in ("epsilon", "delta") if name in mechanism}
        if "chosen_sigma" in mechanism:
            arguments["sigma"] = mechanism["chosen_sigma"]
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
        ("curve", CURVE_FILE + (", curve.png" if summary.figure else "")),
    ]
