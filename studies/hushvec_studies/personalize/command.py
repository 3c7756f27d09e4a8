"""`hushvec study personalize`: its arguments, and the study from training to the files of its folder."""

from __future__ import annotations

import argparse
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec_studies.harness.measurements import measured
from hushvec_studies.harness.outputs import show, surroundings, write_csv, write_study
from hushvec_studies.harness.settings import add_options, checked, given
from hushvec_studies.personalize.base import SHAPES
from hushvec_studies.personalize.plan import Settings, measure, planned, shipped_base
from hushvec_studies.personalize.report import sentences, summary
from hushvec_studies.personalize.texts import shipped_texts

NOTE = "noise and samples come from a seed: measurements, and no private releases"
SHIPPED_SEED = 2025

DESCRIPTION = """\
A small language model learns private notes through a LoRA adapter, without DP and with DP-SGD at several epsilons: perplexity,
entity F1 and next-token accuracy before and after, with the accounting of every run.

Writes personalize.json and personalize.csv into the folder, and one file for each run in its folder "measured": what is there is not
done again. The base model is kept in "models"."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study, with the defaults of docs/lora.md. `--json` is the caller's."""
    parser.add_argument("-o", "--output", type=Path, default=Path("study-personalize"), metavar="DIR", help="folder of the study")
    parser.add_argument("--config", choices=tuple(SHAPES), default="small", help="base model (default %(default)s)")
    parser.add_argument("--notes", type=int, default=4000, metavar="N", help="private notes to learn from (default %(default)s)")
    add_options(parser, Settings)


def run_personalize(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print the findings or, with options.json, all of it.

    Raises:
        ImportError: PEFT is not installed.
    """
    if find_spec("peft") is None:
        raise ImportError("the study of personalization needs more packages: pip install 'hushvec[peft]'")
    study = personalize_study(settings_of(options), options.output)
    return show(options, study, study["sentences"])


def settings_of(options: argparse.Namespace) -> Settings:
    """The options, every one checked."""
    notes = validate.whole_number("notes", options.notes, at_least=1)
    texts = shipped_texts(notes, max(1, notes // 8), SHIPPED_SEED)
    base = shipped_base(options.config, texts.entities, notes, SHIPPED_SEED)
    return checked(Settings, {"texts": texts, "base": base, **given(options, Settings)})


def personalize_study(settings: Settings, folder: Path) -> dict[str, Any]:
    """Do the runs that are not there yet, and write the study's files.

    Returns what personalize.json holds: note, settings, surroundings, sentences, summary, rows.
    """
    runs, _ = planned(settings, folder)
    made = measured([(cell, measure) for cell in runs], folder, "training").rows
    rows = [made[cell.digest] for cell in runs]
    study = {
        "note": NOTE,
        "settings": _settings_as_json(settings),
        "surroundings": surroundings(),
        "sentences": sentences(rows),
        "summary": summary(rows),
        "rows": rows,
    }
    write_study(folder / "personalize.json", study)
    write_csv(folder / "personalize.csv", rows)
    return study


def _settings_as_json(settings: Settings) -> dict[str, Any]:
    values = settings.model_dump(mode="json", exclude={"texts", "base"})
    values["epsilons"] = [None if math.isinf(epsilon) else epsilon for epsilon in settings.epsilons]
    return {"texts": settings.texts.key, "base": settings.base.key, **values}
