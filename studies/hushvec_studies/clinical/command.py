"""`hushvec study clinical`: its arguments, and the study from measuring to the files of its folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.clinical.agreement import agreements, measure_agreement
from hushvec_studies.clinical.cell import measure
from hushvec_studies.clinical.cohort import Recorded
from hushvec_studies.clinical.findings import bought, classical, disagreements, sentences
from hushvec_studies.clinical.plan import MAIN_COHORT, MAIN_EPSILON, Settings, planned
from hushvec_studies.clinical.report import write_figure
from hushvec_studies.harness.measurements import Measure, Measurement, measured
from hushvec_studies.harness.outputs import show, surroundings, write_csv, write_study
from hushvec_studies.harness.settings import add_options, checked, given

NOTE = "noise comes from a seed: measurements, and no private releases"

DESCRIPTION = """\
Patients' vectors under local noise: top-1 and cosine of every mechanism, each at what it really costs.

Writes clinical.json, clinical.csv, agreement.csv and clinical.svg into the folder, from one file for each measurement in its
folder "measured": what is there is not measured again.

Columns of clinical.csv: parts; the cohort and its strengths, patients, draws; public_map, dimension behind it, components it keeps;
mechanism, epsilon or sigma as asked; grade; noise_parameter as used; true_epsilon, true_delta; delta_at_epsilon (Gaussian kinds);
true_epsilon_at_0.001, true_epsilon_at_1e-08; top_1, top_10, mrr, cosine, each with _low and _high; by theory cosine_theory,
top_1_theory, top_1_distinct (if patients had nothing in common); top_1_bound."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study. `--json` is the caller's."""
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the study")
    parser.add_argument("--rows", type=Path, metavar="FILE", help="an .npy file of embeddings instead of drawn patients")
    add_options(parser, Settings)


def run_clinical(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print the findings or, with options.json, all of it."""
    settings = settings_of(options)
    study = clinical_study(settings, options.output)
    if study["rows"]:
        cohort = MAIN_COHORT if settings.recorded is None else settings.recorded.name
        write_figure(options.output / "clinical.svg", study["rows"], cohort, settings.patients)
    return show(options, study, study["findings"]["sentences"])


def settings_of(options: argparse.Namespace) -> Settings:
    settings = checked(Settings, given(options, Settings))
    if options.rows is None:
        return settings
    recorded = Recorded(options.rows)
    recorded.patients(settings.patients)  # refuses more patients than there are rows
    return settings.model_copy(update={"recorded": recorded, "dimension": recorded.dimension})


def clinical_study(settings: Settings, folder: Path) -> dict[str, Any]:
    """Measure what is not there yet, and write clinical.json, clinical.csv, and agreement.csv if cosines are compared.

    Returns what clinical.json holds: settings, rows, agreement, findings.
    """
    parts = planned(settings)
    compared = agreements(settings.delta, settings.seed) if "agreement" in settings.parts else []
    wanted: list[tuple[Measurement, Measure]] = [(cell, measure) for cells in parts.values() for cell in cells]
    wanted += [(one, measure_agreement) for one in compared]
    made = measured(wanted, folder, "measuring").rows
    rows = _with_parts(parts, made)
    agreement = [made[one.digest] for one in compared]
    study = {
        "note": NOTE,
        "settings": _settings_as_json(settings),
        "surroundings": surroundings(),
        "findings": {
            "sentences": sentences(rows, agreement, MAIN_EPSILON),
            "bought": bought(rows),
            "classical": classical(rows),
            "agreement": disagreements(agreement),
        },
        "rows": rows,
        "agreement": agreement,
    }
    write_study(folder / "clinical.json", study)
    write_csv(folder / "clinical.csv", rows)
    if agreement:
        write_csv(folder / "agreement.csv", agreement)
    return study


def _with_parts(parts: Mapping[str, Sequence[Measurement]], made: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every cell once, with the parts that it belongs to."""
    belongs: dict[str, list[str]] = {}
    for part, cells in parts.items():
        for digest in dict.fromkeys(cell.digest for cell in cells):
            belongs.setdefault(digest, []).append(part)
    rows = [{"parts": " ".join(names), **made[digest]} for digest, names in belongs.items()]
    for row in rows:
        # the top-1 that no mechanism of its price exceeds
        row["top_1_bound"] = identification_bound(row["true_epsilon"], row["true_delta"], row["patients"])
    return rows


def _settings_as_json(settings: Settings) -> dict[str, Any]:
    recorded = settings.recorded
    return {
        **settings.model_dump(mode="json", exclude={"recorded"}),
        "recorded": None if recorded is None else {"name": recorded.name, **recorded.key},
    }
