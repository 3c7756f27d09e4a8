"""`hushvec study personalize`: its arguments, and the study from training to the files of its folder."""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable
from dataclasses import fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.progress import Progress
from hushvec._util.publish import SHARED, published_text
from hushvec.errors import MissingExtraError
from hushvec.study.clinical.results import Measurement, measured
from hushvec.study.clinical.tables import write_csv
from hushvec.study.personalize.base import SHAPES, Base
from hushvec.study.personalize.cell import measure, measure_audit
from hushvec.study.personalize.findings import sentences, summary
from hushvec.study.personalize.notes import ENTITIES
from hushvec.study.personalize.outputs import write_figure, write_latex
from hushvec.study.personalize.plan import Settings, folder_base, planned, shipped_base
from hushvec.study.personalize.texts import SHIPPED, Texts, notes_of_file, shipped_texts, texts_of_file

NOTE = "noise and samples come from a seed: measurements, and no private releases"
SHIPPED_SEED = 2025

DESCRIPTION = """\
A small language model learns private notes through a LoRA adapter, without DP and with DP-SGD at several epsilons: perplexity,
entity F1 and next-token accuracy before and after, with the accounting of every run.

Writes personalize.json, personalize.csv, personalize.tex and figures into the folder, audits.csv with --canaries, and one file
for each run in its folder "measured": what is there is not done again. The base model is kept in "models"."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study, with the defaults of docs/lora.md. `--json` is the caller's."""
    chosen: dict[str, Any] = {field.name: field.default for field in fields(Settings)}
    parser.add_argument("-o", "--output", type=Path, default=Path("study-personalize"), metavar="DIR", help="folder of the study")
    parser.add_argument(
        "--data",
        default=SHIPPED,
        metavar="FILE",
        help="private texts, .jsonl, .jsonl.xz or .jsonl.gz with text and spans (default: drawn notes)",
    )
    parser.add_argument("--public", type=Path, metavar="FILE", help="public texts for the base model (default: drawn public notes)")
    parser.add_argument(
        "--entities", nargs="*", metavar="KIND", help=f"kinds of spans that are marked (default: {', '.join(ENTITIES)})"
    )
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--model", type=Path, metavar="FOLDER", help="base model: a folder of transformers with its tokenizer")
    base.add_argument("--config", choices=tuple(SHAPES), default="small", help="base model that is made here (default %(default)s)")
    parser.add_argument("--context", type=int, default=64, metavar="N", help="tokens of a text with --model (default %(default)s)")
    parser.add_argument("--notes", type=int, default=4000, metavar="N", help="private notes to learn from (default %(default)s)")
    parser.add_argument("--epsilons", type=_epsilon, nargs="+", default=list(chosen["epsilons"]), metavar="E", help="inf: no DP")
    parser.add_argument("--delta", type=float, default=chosen["delta"], help="of every epsilon (default %(default)s)")
    parser.add_argument(
        "--batch", type=int, default=chosen["batch"], metavar="N", help="expected examples of a step (default %(default)s)"
    )
    parser.add_argument("--steps", type=int, default=chosen["steps"], metavar="N", help="of the optimizer (default %(default)s)")
    parser.add_argument("--clip-norm", type=float, default=chosen["clip_norm"], metavar="C", help="(default %(default)s)")
    parser.add_argument("--learning-rate", type=float, default=chosen["learning_rate"], metavar="R", help="(default %(default)s)")
    parser.add_argument("--rank", type=int, default=chosen["rank"], metavar="R", help="of the adapter (default %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(chosen["seeds"]), metavar="S", help="runs at each epsilon")
    parser.add_argument("--canaries", type=int, default=0, metavar="N", help="audit a run at each epsilon with so many (default: 0)")
    parser.add_argument(
        "--audit-notes", type=int, default=chosen["audit_notes"], metavar="N", help="texts of an audited run (default %(default)s)"
    )
    parser.add_argument("--audit-delta", type=float, default=chosen["audit_delta"], metavar="D", help="(default %(default)s)")
    parser.add_argument("--confidence", type=float, default=chosen["confidence"], help="of the audits (default %(default)s)")
    parser.add_argument("--no-figure", action="store_true", help="leave out the figures, which need matplotlib")


def run_personalize(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print the findings or, with options.json, all of it.

    Raises:
        TypeError, ValueError: options that are out of range; nothing is trained then.
        OSError: a file cannot be read or written.
        MissingExtraError: PEFT, transformers or matplotlib is not installed.
    """
    for package, extra in (("peft", "peft"), ("transformers", "peft"), *([] if options.no_figure else [("matplotlib", "study")])):
        if find_spec(package) is None:
            raise MissingExtraError("the study of personalisation", extra)
    study = personalize_study(settings_of(options), options.output, figure=not options.no_figure)
    if getattr(options, "json", False):
        print(json.dumps(study, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(study["sentences"]))
    return 0


def settings_of(options: argparse.Namespace) -> Settings:
    """The options, every one checked."""
    for name in ("batch", "steps", "rank", "notes", "context", "audit_notes"):
        validate.whole_number(name, getattr(options, name), at_least=1)
    for seed in options.seeds:
        validate.whole_number("seeds", seed, at_least=0)
    validate.whole_number("canaries", options.canaries, at_least=0)
    if 0 < options.canaries < 32:
        raise ValueError(f"canaries must be 0 or >= 32, got {options.canaries}")
    texts = _texts(options)
    batch = options.batch
    if batch > len(texts.train):
        raise ValueError(f"batch must be <= the {len(texts.train)} texts to learn from, got {batch}")
    if options.canaries and batch > options.audit_notes:
        raise ValueError(f"audit_notes must be >= batch = {batch}, got {options.audit_notes}")
    return Settings(
        texts=texts,
        base=_base(options, texts),
        epsilons=tuple(options.epsilons),
        delta=validate.delta(options.delta),
        batch=batch,
        steps=options.steps,
        clip_norm=validate.clip_norm(options.clip_norm),
        learning_rate=validate.positive("learning_rate", options.learning_rate),
        rank=options.rank,
        seeds=tuple(dict.fromkeys(options.seeds)),
        canaries=options.canaries,
        audit_notes=options.audit_notes,
        audit_delta=validate.delta(options.audit_delta),
        confidence=validate.probability("confidence", options.confidence),
    )


def personalize_study(settings: Settings, folder: Path, *, figure: bool = True) -> dict[str, Any]:
    """Do the runs that are not there yet, and write the study's files.

    Args:
        settings: of the study.
        folder: made if need be.
        figure: whether the figures are drawn.

    Returns:
        What personalize.json holds: note, settings, surroundings, sentences, summary, rows, audits.
    """
    runs, audits = planned(settings, folder)
    wanted: list[tuple[Measurement, Callable[[Any], dict[str, Any]]]] = [(cell, measure) for cell in runs]
    wanted += [(cell, measure_audit) for cell in audits]
    with Progress("training", len(wanted)) as progress:
        made = measured(wanted, folder, progress)
    rows, audited = ([made[cell.digest] for cell in cells] for cells in (runs, audits))
    lines = summary(rows)
    study = {
        "note": NOTE,
        "settings": _settings_as_json(settings),
        "surroundings": {"hushvec": _core.__version__, "python": platform.python_version(), "machine": platform.machine()},
        "sentences": sentences(rows, audited),
        "summary": lines,
        "rows": rows,
        "audits": audited,
    }
    with published_text(folder / "personalize.json", mode=SHARED) as file:
        json.dump(study, file, indent=1, ensure_ascii=False, allow_nan=False)
        file.write("\n")
    write_csv(folder / "personalize.csv", rows)
    if audited:
        write_csv(folder / "audits.csv", audited)
    write_latex(folder / "personalize.tex", lines, audited)
    if figure:
        write_figure(folder / "personalize.svg", lines, settings.texts.name)
    return study


def _epsilon(said: str) -> float:
    try:
        value = float(said)
    except ValueError:
        value = math.nan
    if not value > 0:
        raise argparse.ArgumentTypeError(f"must be > 0 or inf, got {said}")
    return value


def _texts(options: argparse.Namespace) -> Texts:
    if options.data == SHIPPED:
        if options.entities is not None:
            raise ValueError("--entities must go with --data: drawn notes have kinds of their own")
        return shipped_texts(options.notes, max(1, options.notes // 8), SHIPPED_SEED)
    return texts_of_file(Path(options.data), tuple(options.entities or ()), options.notes)


def _base(options: argparse.Namespace, texts: Texts) -> Base:
    if options.model is not None:
        if options.public is not None:
            raise ValueError("--public must go without --model: a model that is given reads no more")
        if not options.model.is_dir():
            raise ValueError(f"{options.model}: must be the folder of a model")
        return folder_base(options.model, options.context)
    base = shipped_base(options.config, texts.entities, options.notes, SHIPPED_SEED)
    if options.public is None:
        return base
    return replace(base, public=tuple(notes_of_file(options.public, texts.entities)), name=f"{options.config}, {options.public.name}")


def _settings_as_json(settings: Settings) -> dict[str, Any]:
    base = settings.base
    return {
        "texts": settings.texts.key,
        "base": base.key,
        **{
            name: getattr(settings, name)
            for name in ("delta", "batch", "steps", "clip_norm", "learning_rate", "rank")
            + ("canaries", "audit_notes", "audit_delta", "confidence")
        },
        "epsilons": [None if math.isinf(epsilon) else epsilon for epsilon in settings.epsilons],
        "seeds": list(settings.seeds),
    }
