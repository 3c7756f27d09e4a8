"""`hushvec study personalize`: its arguments, and the study from training to the files of its folder."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec_studies.harness.measurements import Measure, Measurement, measured
from hushvec_studies.harness.outputs import show, surroundings, write_csv, write_study
from hushvec_studies.harness.settings import add_options, checked, given
from hushvec_studies.personalize.base import SHAPES, Base
from hushvec_studies.personalize.plan import Settings, folder_base, measure, measure_audit, planned, shipped_base
from hushvec_studies.personalize.report import sentences, summary, write_figure
from hushvec_studies.personalize.texts import ENTITIES, SHIPPED, Texts, notes_of_file, shipped_texts, texts_of_file

NOTE = "noise and samples come from a seed: measurements, and no private releases"
SHIPPED_SEED = 2025

DESCRIPTION = """\
A small language model learns private notes through a LoRA adapter, without DP and with DP-SGD at several epsilons: perplexity,
entity F1 and next-token accuracy before and after, with the accounting of every run.

Writes personalize.json, personalize.csv and figures into the folder, audits.csv with --canaries, and one file for each run in its
folder "measured": what is there is not done again. The base model is kept in "models"."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study, with the defaults of docs/lora.md. `--json` is the caller's."""
    parser.add_argument("-o", "--output", type=Path, default=Path("study-personalize"), metavar="DIR", help="folder of the study")
    parser.add_argument(
        "--data",
        default=SHIPPED,
        metavar="FILE",
        help="private texts, .jsonl, .jsonl.xz or .jsonl.gz with text and spans (default: drawn notes)",
    )
    parser.add_argument(
        "--public", type=Path, metavar="FILE", help="public texts for the base model (default: drawn public notes)"
    )
    parser.add_argument(
        "--entities", nargs="*", metavar="KIND", help=f"kinds of spans that are marked (default: {', '.join(ENTITIES)})"
    )
    base = parser.add_mutually_exclusive_group()
    base.add_argument("--model", type=Path, metavar="FOLDER", help="base model: a folder of transformers with its tokenizer")
    base.add_argument(
        "--config", choices=tuple(SHAPES), default="small", help="base model that is made here (default %(default)s)"
    )
    parser.add_argument(
        "--context", type=int, default=64, metavar="N", help="tokens of a text with --model (default %(default)s)"
    )
    parser.add_argument("--notes", type=int, default=4000, metavar="N", help="private notes to learn from (default %(default)s)")
    add_options(parser, Settings)
    parser.add_argument("--no-figure", action="store_true", help="leave out the figures, which need matplotlib")


def run_personalize(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print the findings or, with options.json, all of it.

    Raises:
        ImportError: PEFT is not installed.
    """
    if find_spec("peft") is None:
        raise ImportError("the study of personalization needs more packages: pip install 'hushvec[peft]'")
    study = personalize_study(settings_of(options), options.output, figure=not options.no_figure)
    return show(options, study, study["sentences"])


def settings_of(options: argparse.Namespace) -> Settings:
    """The options, every one checked."""
    for name in ("notes", "context"):
        validate.whole_number(name, getattr(options, name), at_least=1)
    texts = _texts(options)
    return checked(Settings, {"texts": texts, "base": _base(options, texts), **given(options, Settings)})


def personalize_study(settings: Settings, folder: Path, *, figure: bool = True) -> dict[str, Any]:
    """Do the runs that are not there yet, and write the study's files.

    Returns what personalize.json holds: note, settings, surroundings, sentences, summary, rows, audits.
    """
    runs, audits = planned(settings, folder)
    wanted: list[tuple[Measurement, Measure]] = [(cell, measure) for cell in runs]
    wanted += [(cell, measure_audit) for cell in audits]
    made = measured(wanted, folder, "training").rows
    rows, audited = ([made[cell.digest] for cell in cells] for cells in (runs, audits))
    lines = summary(rows)
    study = {
        "note": NOTE,
        "settings": _settings_as_json(settings),
        "surroundings": surroundings(),
        "sentences": sentences(rows, audited),
        "summary": lines,
        "rows": rows,
        "audits": audited,
    }
    write_study(folder / "personalize.json", study)
    write_csv(folder / "personalize.csv", rows)
    if audited:
        write_csv(folder / "audits.csv", audited)
    if figure:
        write_figure(folder / "personalize.svg", lines, settings.texts.name)
    return study


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
    return replace(
        base, public=tuple(notes_of_file(options.public, texts.entities)), name=f"{options.config}, {options.public.name}"
    )


def _settings_as_json(settings: Settings) -> dict[str, Any]:
    values = settings.model_dump(mode="json", exclude={"texts", "base"})
    values["epsilons"] = [None if math.isinf(epsilon) else epsilon for epsilon in settings.epsilons]
    return {"texts": settings.texts.key, "base": settings.base.key, **values}
