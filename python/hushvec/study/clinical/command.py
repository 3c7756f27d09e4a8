"""`hushvec study clinical`: its arguments, and the study from measuring to the files of its folder."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.progress import Progress
from hushvec._util.publish import SHARED, published_text
from hushvec.audit.bootstrap import require_settings
from hushvec.audit.indexes.bounds import identification_bound
from hushvec.errors import MissingExtraError
from hushvec.study.clinical.agreement import agreements, measure_agreement
from hushvec.study.clinical.cell import measure
from hushvec.study.clinical.cohort import COHORTS, Recorded
from hushvec.study.clinical.figure import write_figure
from hushvec.study.clinical.findings import bought, classical, disagreements, reached, sentences
from hushvec.study.clinical.plan import MAIN_COHORT, MAIN_EPSILON, PARTS, Settings, planned
from hushvec.study.clinical.results import Measurement, measured
from hushvec.study.clinical.tables import write_csv, write_latex

NOTE = "noise comes from a seed: measurements, and no private releases"

DESCRIPTION = """\
Patients' vectors under local noise: top-1 and cosine of every mechanism, each at what it really costs.

Writes clinical.json, clinical.csv, agreement.csv, clinical.tex and clinical.svg into the folder, from one file for each
measurement in its folder "measured": what is there is not measured again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study, with the defaults of docs/clinical.md. `--json` is the caller's."""
    defaults = Settings()
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the study")
    parser.add_argument(
        "--parts", nargs="+", default=list(defaults.parts), metavar="PART", help=f"of {', '.join(PARTS)} (default: all)"
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="an .npy file of embeddings instead of drawn patients")
    parser.add_argument(
        "--public", type=Path, metavar="FILE", help="an .npy file of public embeddings for --rows (default: rows left over)"
    )
    parser.add_argument("--patients", type=int, default=defaults.patients, metavar="N", help="how many (default %(default)s)")
    parser.add_argument(
        "--dimension", type=int, default=defaults.dimension, metavar="D", help="of drawn patients (default %(default)s)"
    )
    parser.add_argument(
        "--cohorts", nargs="+", default=list(defaults.cohorts), metavar="NAME", help=f"of {', '.join(COHORTS)} (default: all)"
    )
    parser.add_argument(
        "--public-rows", type=int, default=defaults.public_rows, metavar="N", help="of drawn cohorts (default %(default)s)"
    )
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(defaults.epsilons), metavar="E")
    parser.add_argument("--sigmas", type=float, nargs="+", default=list(defaults.sigmas), metavar="S")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=list(defaults.sizes), metavar="N", help="further numbers of patients"
    )
    parser.add_argument("--delta", type=float, default=defaults.delta, help="of the Gaussian kinds (default %(default)s)")
    parser.add_argument(
        "--draws", type=int, default=defaults.draws, metavar="N", help="releases of each patient (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="of patients, noise and resampling (default %(default)s)")
    parser.add_argument("--confidence", type=float, default=defaults.confidence, help="of the intervals (default %(default)s)")
    parser.add_argument("--resamples", type=int, default=defaults.resamples, help="of the bootstrap (default %(default)s)")
    parser.add_argument("--no-figure", action="store_true", help="leave out clinical.svg, which needs matplotlib")


def run_clinical(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print the findings or, with options.json, all of it.

    Raises:
        TypeError, ValueError: options that are out of range; nothing is measured then.
        OSError: a file cannot be read or written.
        MissingExtraError: matplotlib is not installed and a figure is wanted.
    """
    settings = settings_of(options)
    if not options.no_figure and find_spec("matplotlib") is None:
        raise MissingExtraError("the figure of the study", "study")
    study = clinical_study(settings, options.output)
    if not options.no_figure and study["rows"]:
        write_figure(options.output / "clinical.svg", study["rows"], *_shown(settings))
    if getattr(options, "json", False):
        print(json.dumps(study, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(study["findings"]["sentences"]))
    return 0


def settings_of(options: argparse.Namespace) -> Settings:
    """The options, every one checked."""
    for name, accepted in (("parts", PARTS), ("cohorts", COHORTS)):
        for one in getattr(options, name):
            validate.choice(name, one, accepted)
    confidence, resamples = require_settings(confidence=options.confidence, resamples=options.resamples, seed=options.seed)
    for size in (options.patients, options.public_rows, *options.sizes):
        validate.whole_number("patients, public_rows and sizes", size, at_least=2)
    if options.public is not None and options.rows is None:
        raise ValueError("--public must go with --rows: drawn patients have public rows of their own")
    recorded = None if options.rows is None else Recorded(options.rows, options.public)
    settings = Settings(
        parts=tuple(options.parts),
        cohorts=tuple(options.cohorts),
        patients=options.patients,
        dimension=recorded.dimension
        if recorded is not None
        else validate.whole_number("dimension", options.dimension, at_least=2),
        public_rows=options.public_rows,
        epsilons=tuple(validate.positive("epsilons", one) for one in options.epsilons),
        sigmas=tuple(validate.positive("sigmas", one) for one in options.sigmas),
        delta=validate.delta(options.delta),
        draws=validate.whole_number("draws", options.draws, at_least=1),
        seed=options.seed,
        confidence=confidence,
        resamples=resamples,
        recorded=recorded,
        sizes=tuple(options.sizes),
    )
    if recorded is not None:
        recorded.patients(settings.patients)  # refuses more patients than there are rows
    return settings


def clinical_study(settings: Settings, folder: Path) -> dict[str, Any]:
    """Measure what is not there yet, and write clinical.json, clinical.csv, clinical.tex, and agreement.csv if cosines are compared.

    Args:
        settings: of the study.
        folder: made if need be.

    Returns:
        What clinical.json holds: settings, rows, agreement, findings.
    """
    parts = planned(settings)
    compared = agreements(settings.delta, settings.seed) if "agreement" in settings.parts else []
    wanted: list[tuple[Measurement, Callable[[Any], dict[str, Any]]]] = [
        (cell, measure) for cells in parts.values() for cell in cells
    ]
    wanted += [(one, measure_agreement) for one in compared]
    with Progress("measuring", len({one.digest for one, _ in wanted})) as progress:
        made = measured(wanted, folder, progress)
    rows = _with_parts(parts, made)
    agreement = [made[one.digest] for one in compared]
    study = {
        "note": NOTE,
        "settings": _settings_as_json(settings),
        "surroundings": {"hushvec": _core.__version__, "python": platform.python_version(), "machine": platform.machine()},
        "findings": {
            "sentences": sentences(rows, agreement, MAIN_EPSILON),
            "reached": reached(rows),
            "bought": bought(rows),
            "classical": classical(rows),
            "agreement": disagreements(agreement),
        },
        "rows": rows,
        "agreement": agreement,
    }
    with published_text(folder / "clinical.json", mode=SHARED) as file:
        file.write(_json(study))
    write_csv(folder / "clinical.csv", rows)
    if agreement:
        write_csv(folder / "agreement.csv", agreement)
    write_latex(folder / "clinical.tex", rows, agreement)
    return study


def _with_parts(parts: Mapping[str, Sequence[Measurement]], made: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every cell once, with the parts that it belongs to."""
    belongs: dict[str, list[str]] = {}
    for part, cells in parts.items():
        for digest in dict.fromkeys(cell.digest for cell in cells):
            belongs.setdefault(digest, []).append(part)
    return [{"parts": " ".join(names), **_bounded(made[digest])} for digest, names in belongs.items()]


def _bounded(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the top-1 that no mechanism of its price exceeds."""
    return {**row, "top_1_bound": identification_bound(row["true_epsilon"], row["true_delta"], row["patients"])}


def _json(study: Mapping[str, Any]) -> str:
    """The study as JSON, one line for each row of a list."""
    parts = []
    for name, value in study.items():
        if isinstance(value, list):
            lines = ",\n  ".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in value)
            parts.append(f"{json.dumps(name)}: [\n  {lines}\n ]")
        else:
            parts.append(f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False, allow_nan=False)}")
    return "{\n " + ",\n ".join(parts) + "\n}\n"


def _settings_as_json(settings: Settings) -> dict[str, Any]:
    recorded = settings.recorded
    return {
        **asdict(replace(settings, recorded=None)),
        "recorded": None if recorded is None else {"name": recorded.name, **recorded.key},
    }


def _shown(settings: Settings) -> tuple[str, int]:
    """The cohort and the size that the figure is about."""
    return (MAIN_COHORT if settings.recorded is None else settings.recorded.name), settings.patients
