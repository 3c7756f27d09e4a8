"""What the attacks beside re-identification say, in sentences. Nothing is said that an interval does not carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hushvec_studies.evaluation.attacks.figures import exceeds, outcome
from hushvec_studies.evaluation.attacks.measure import AREA, FPRS, PAIR, WORDS, rate_name
from hushvec_studies.evaluation.attacks.measure_inversion import EXACT, FOUND, NAMED, START
from hushvec_studies.evaluation.contenders import NONE
from hushvec_studies.evaluation.findings import Row, TaskResult, by_outcome, dominators, settings_text, useful_rows
from hushvec_studies.harness.tables import Estimate

TITLES = {
    PAIR: "one of two rows told apart",
    **{rate_name(PAIR, fpr): f"a guessed row confirmed at {100 * fpr:g} % false alarms" for fpr in FPRS},
    AREA: "membership, AUC",
    **{rate_name("membership", fpr): f"members found at {100 * fpr:g} % false alarms" for fpr in FPRS},
    WORDS: "words read by a trained decoder, AUC",
    START: "words of the nearest public text, F1",
    FOUND: "words of the text that the search ends with, F1",
    EXACT: "texts recovered word for word",
    NAMED: "rows named by the text that the search ends with",
}


class AttackResult(NamedTuple):
    """The attacks on the rows of one task.

    Args:
        task: its name.
        clean: the figures without noise, by name.
        rows: mechanism, epsilon, delta and `figures` of every setting.
    """

    task: str
    clean: Mapping[str, Any]
    rows: list[Row]

    @property
    def names(self) -> list[str]:
        """Of all figures."""
        return list(self.clean)

    def having(self, name: str) -> list[Row]:
        """The settings that a figure was measured at."""
        return [row for row in self.rows if name in row["figures"]]


def attack_results(rows: Sequence[Row]) -> list[AttackResult]:
    """Rows by task; those of one setting are put together."""
    found = []
    for task in dict.fromkeys(row["task"] for row in rows):
        settings: dict[tuple[str, float | None], dict[str, Any]] = {}
        for row in rows:
            if row["task"] == task:
                place = (row["mechanism"], row["epsilon"])
                before = settings.get(place, {"figures": {}})
                settings[place] = {**row, "figures": {**before["figures"], **row["figures"]}}
        clean = settings.pop((NONE, None))["figures"]
        found.append(AttackResult(task, clean, list(settings.values())))
    return found


def title(name: str) -> str:
    """A figure as people read it: `alignment wordllama 100` is named by stranger and pairs."""
    if name in TITLES:
        return TITLES[name]
    _, stranger, pairs = name.split(" ")
    return f"named through {stranger} from {int(pairs):,} pairs"


def main_figures(names: Sequence[str]) -> list[str]:
    """One or two of each attack: of each stranger the one with most pairs."""
    most = {name.rpartition(" ")[0]: name for name in names if name.startswith("alignment")}
    return [name for name in (PAIR, rate_name(PAIR, FPRS[0]), AREA, WORDS) if name in names] + [
        *most.values(),
        *(name for name in (START, FOUND, NAMED) if name in names),
    ]


def estimate_of(figure: Mapping[str, Any]) -> Estimate:
    return Estimate(*figure["value"])


def attack_sentences(result: AttackResult, use: TaskResult, success: float) -> list[str]:
    """For each attack: what it reaches without noise, where it fails or succeeds, and which settings are dominated by it."""
    told = [f"An attack succeeds if it is at least {success:g} better than chance; shares and areas go from 0 to 1."]
    for name in result.names:
        clean = result.clean[name]
        outcomes = by_outcome(result.having(name), lambda row: outcome(row["figures"][name], success))
        value, low, high = clean["value"]
        reached = f"{value:.3f} [{low:.3f}, {high:.3f}] without noise, {clean['chance']:.2g} by chance"
        said = f"{_capital(title(name))}: {reached}. {outcomes}"
        told.append(f"{said} {dominated}" if (dominated := _dominated(result, use, name)) else said)
    told += [
        f"{_capital(title(name))} exceeds the bound of the claim at {settings_text([row], [row])}. The claim is refuted."
        for name in result.names
        for row in result.having(name)
        if exceeds(row["figures"][name])
    ]
    return told


def attack_choice(result: AttackResult, use: TaskResult, success: float) -> str:
    """What the attacks mean for somebody who chooses epsilon: what they reach at the smallest epsilon that is useful."""
    measured = {(row["mechanism"], row["epsilon"]): row for row in result.rows}
    useful = [row for row in useful_rows(use) if (row["mechanism"], row["epsilon"]) in measured]
    if useful:
        first, which = useful[0], "the smallest epsilon that keeps at least half of the use without noise"
    else:
        first = max(use.rows, key=lambda row: row[use.main][0])
        which = "the most useful setting, which keeps less than half of the use"
    figures = measured[first["mechanism"], first["epsilon"]]["figures"]
    said = [_reached(name, figures[name], success) for name in main_figures(result.names) if name in figures]
    return f"At {first['mechanism']} at epsilon {first['epsilon']:g}, {which}: {'; '.join(said)}."


def _reached(name: str, figure: dict[str, Any], success: float) -> str:
    value, low, high = figure["value"]
    bound = f"{figure['bound']:.3g}"
    allowed = ", where the claim allows nearly all" if bound == "1" else f", where the claim allows {bound}"
    return f"{title(name)} {value:.3f} [{low:.3f}, {high:.3f}]{allowed} ({outcome(figure, success)})"


def _dominated(result: AttackResult, use: TaskResult, name: str) -> str:
    """Which settings are no better in use and in this attack than another mechanism's of no larger epsilon."""
    values = {(row["mechanism"], row["epsilon"]): row["figures"][name]["value"] for row in result.having(name)}
    rows: list[Row] = [
        {**row, name: values[place]} for row in use.rows if (place := (row["mechanism"], row["epsilon"])) in values
    ]
    joined = use._replace(rows=rows)
    beaten = [row for row in rows if dominators(joined, row, name)]
    return f"In use against this attack, dominated: {settings_text(beaten, rows)}." if beaten else ""


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
