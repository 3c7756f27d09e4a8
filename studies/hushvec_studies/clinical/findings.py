"""What the rows of a study say, by rules that are written here: nothing is typed in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, PRIVUNIT, PRIVUNIT_CORPUS
from hushvec_studies.clinical.plan import STRICT_EPSILON
from hushvec_studies.harness.tables import interval_text

Row = Mapping[str, Any]

# What is asked of top-1: the share of patients whose release finds their own row first.
WANTED_TOP_1 = 0.95
WITHIN = 0.01


def smallest_epsilon(rows: Iterable[Row], wanted: float) -> float | None:
    """The smallest true epsilon that was measured with top-1 of at least `wanted`; None if there is none."""
    reached = [row["true_epsilon"] for row in rows if row["top_1"] >= wanted]
    return min(reached) if reached else None


def bought(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each empirical sigma: what it really costs, and the smallest measured epsilon (delta 0) at which PrivUnit finds as many
    patients on the same cohort behind the same map, None if there is none."""
    found = []
    for row in rows:
        if row["mechanism"] != EMPIRICAL:
            continue
        alike = [
            other
            for other in rows
            if other["mechanism"] in (PRIVUNIT, PRIVUNIT_CORPUS)
            and all(other[name] == row[name] for name in ("cohort", "patients", "public_map"))
        ]
        found.append(
            {
                **{name: row[name] for name in ("cohort", "patients", "public_map", "sigma", "top_1", "top_1_low", "top_1_high")},
                **{name: row[name] for name in row if name.startswith("true_")},
                "cosine": row["cosine"],
                "cosine_theory": row["cosine_theory"],
                "privunit_epsilon": smallest_epsilon(alike, row["top_1"]),
            }
        )
    return found


def classical(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """For each epsilon of the classical formula: sigma, the delta it really gives at that epsilon, and the epsilon it really costs."""
    seen = {}
    for row in rows:
        if row["mechanism"] == CLASSICAL:
            seen[row["epsilon"]] = {
                "epsilon": row["epsilon"],
                "sigma": row["noise_parameter"],
                "delta_at_epsilon": row["delta_at_epsilon"],
                "true_epsilon": row["true_epsilon"],
                "true_delta": row["true_delta"],
                "enough": row["delta_at_epsilon"] <= row["true_delta"],
            }
    return [seen[epsilon] for epsilon in sorted(seen)]


def disagreements(rows: Sequence[Row]) -> dict[str, Any]:
    """The largest relative difference of theory and measurement, and how many comparisons there were."""
    differences = [abs(row["difference"]) for row in rows]
    return {
        "comparisons": len(rows),
        "largest_difference": max(differences, default=None),
        "within": WITHIN,
        "outside": sum(difference > WITHIN for difference in differences),
    }


def sentences(rows: Sequence[Row], agreement: Sequence[Row], epsilon: float) -> list[str]:
    told = [*_strict(rows), *_at(rows, epsilon), *_prices(rows), *_formula(rows)]
    if agreement:
        outcome = disagreements(agreement)
        told.append(
            f"Cosine: theory and measurement differ by at most {outcome['largest_difference']:.2%} "
            f"in {outcome['comparisons']} comparisons; "
            f"{outcome['outside']} of them by more than {WITHIN:.0%}."
        )
    return told


def _strict(rows: Sequence[Row]) -> list[str]:
    """The best of each mechanism within the strict epsilon, whatever the map."""
    told = []
    for (cohort, patients), some in _by(rows, "cohort", "patients"):
        within = [row for row in some if row["true_epsilon"] <= STRICT_EPSILON and row["mechanism"] in LDP]
        best = {
            name: max((row for row in within if row["mechanism"] == name), key=lambda row: row["top_1"], default=None)
            for name in LDP
        }
        shown = "; ".join(f"{name} {share(row)}" for name, row in best.items() if row is not None)
        if shown:
            bound = identification_bound(STRICT_EPSILON, 0.0, patients)
            told.append(
                f"{cohort}, {patients:,} patients, best top-1 at a true epsilon of at most {STRICT_EPSILON:g}: {shown}. "
                f"No mechanism with delta 0 exceeds {bound:.3f}."
            )
    return told


def _at(rows: Sequence[Row], epsilon: float) -> list[str]:
    """The best of all mechanisms that carry a claim, at one epsilon."""
    told = []
    for (cohort, patients), some in _by(rows, "cohort", "patients"):
        there = [row for row in some if row["true_epsilon"] == epsilon and row["mechanism"] in LDP and row["grade"] == "exact"]
        if not there:
            continue
        best = max(there, key=lambda row: row["top_1"])
        verdict = "reaches" if best["top_1"] >= WANTED_TOP_1 else "does not reach"
        told.append(
            f"{cohort}, {patients:,} patients, epsilon {epsilon:g}: {best['mechanism']} behind map {best['public_map']!r} {verdict} "
            f"{WANTED_TOP_1}: {share(best)}."
        )
    return told


def _prices(rows: Sequence[Row]) -> list[str]:
    told = []
    for one in bought(rows):
        other = one["privunit_epsilon"]
        instead = "PrivUnit at no measured epsilon" if other is None else f"PrivUnit at epsilon {other:g}, delta 0"
        told.append(
            f"{one['cohort']}, map {one['public_map']!r}: sigma {one['sigma']:g} finds {share(one)} and costs "
            f"epsilon {one['true_epsilon']:.4g} at delta {one['true_delta']:g}; as many are found by {instead}."
        )
    return told


def _formula(rows: Sequence[Row]) -> list[str]:
    short = [one for one in classical(rows) if not one["enough"]]
    if not short:
        return []
    shown = "; ".join(
        f"epsilon {one['epsilon']:g} has sigma {one['sigma']:.3g}, whose true epsilon is {one['true_epsilon']:.4g} "
        f"(delta at {one['epsilon']:g}: {one['delta_at_epsilon']:.2g})"
        for one in short
    )
    return [f"The classical formula gives too little noise: {shown}."]


def share(row: Row) -> str:
    """Top-1 and its interval: 0.952 [0.940, 0.963]."""
    return interval_text(row["top_1"], row["top_1_low"], row["top_1_high"])


def _by(rows: Sequence[Row], *names: str) -> list[tuple[tuple[Any, ...], list[Row]]]:
    """Rows in groups of equal fields, in the order of first sight."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return list(groups.items())
