"""What the figures of an evaluation say, in sentences. Nothing is said that an interval does not carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hushvec.extend.helpers import clopper_pearson_lower
from hushvec_studies.evaluation.attacks.inversion import EXACT, FOUND, NAMED, START
from hushvec_studies.evaluation.attacks.measure import AREA, FAILS, FPRS, PAIR, WORDS, exceeds, outcome, rate_name
from hushvec_studies.evaluation.cells import CENTROID, PROBE
from hushvec_studies.evaluation.contenders import NONE
from hushvec_studies.harness.tables import Estimate, interval_text, percent_text

Row = Mapping[str, Any]

TITLES = {
    "ndcg_at_10": "nDCG@10",
    "recall_at_10": "recall@10",
    "mrr": "MRR",
    PROBE: "accuracy of the linear probe",
    CENTROID: "accuracy of nearest centroid",
}
_LUCK = 1e-4
# Of the figure without noise: what people would still call usable.
_USABLE = 0.5


class TaskResult(NamedTuple):
    """A task's rows, the one without noise apart; `main` is the measure that stands for its use."""

    name: str
    main: str
    clean: Row
    rows: list[Row]


def task_results(rows: Sequence[Row]) -> list[TaskResult]:
    """Rows by task, in the order of first sight."""
    found = []
    for name in dict.fromkeys(row["task"] for row in rows):
        here = [row for row in rows if row["task"] == name]
        clean = next(row for row in here if row["mechanism"] == NONE)
        main = next(measure for measure in TITLES if measure in clean)
        found.append(TaskResult(name, main, clean, [row for row in here if row["mechanism"] != NONE]))
    return found


def estimate(row: Row, name: str) -> Estimate:
    return Estimate(*row[name])


def verdict(row: Row, success: float) -> str:
    """Whether the attack names at least a share `success` of rows more than a guess does."""
    return outcome({"value": row["attack"], "chance": 1 / row["candidates"]}, success)


def refutes(row: Row) -> bool:
    """Whether the attack recognized more rows than the claim allows. A page compares many settings, and an attack may well reach its
    bound: so this is said only where luck has a chance of 1 in 10,000, whatever the confidence of the intervals."""
    hits = round(row["attack"][0] * row["released"])
    return clopper_pearson_lower(hits, row["released"], _LUCK) > float(row["bound"])


def choice(result: TaskResult, success: float) -> str:
    """What the figures of a task mean for somebody who chooses epsilon."""
    title, useful = TITLES[result.main], useful_rows(result)
    told = []
    if useful:
        first = useful[0]
        told.append(
            f"To keep at least half of the {title} without noise, the smallest epsilon measured is {first['epsilon']:g}, "
            f"with {first['mechanism']}: {said(first, result.main)}. There the attack {verdict(first, success)}: it recognizes "
            f"{percent(first)} of the rows, where the claim allows {bound_text(first['bound'])}."
        )
    else:
        told.append(f"No mechanism kept at least half of the {title} without noise at any epsilon measured.")
    safe = [row for row in result.rows if verdict(row, success) == FAILS]
    if safe:
        best = max(safe, key=lambda row: row[result.main][0])
        kept = best[result.main][0] / result.clean[result.main][0]
        told.append(
            f"Where the attack fails, the most useful setting is {_named(best)}: {title} {said(best, result.main)}, "
            f"{100 * kept:.0f} % of the figure without noise. By the claim, any attack "
            f"recognizes {bound_text(best['bound'])} there on average."
        )
    else:
        told.append("At no setting measured does the attack fail.")
    both = [row for row in result.rows if row in useful and verdict(row, success) == FAILS]
    if both:
        told.append(f"Both hold at {_listed([_named(row) for row in both])}.")
    else:
        told.append(f"No setting keeps half of the {title} while the attack fails: choose which of the two matters more.")
    told += [
        f"The attack exceeds the bound of the claim: {_named(row)}, {percent(row)}. The claim is refuted."
        for row in result.rows
        if refutes(row)
    ]
    return " ".join(told)


def useful_rows(result: TaskResult) -> list[Row]:
    """The settings that keep at least half of the use without noise; the smallest epsilon first, then the weakest attack."""
    wanted = _USABLE * result.clean[result.main][0]
    useful = [row for row in result.rows if row[result.main][1] >= wanted]
    return sorted(useful, key=lambda row: (row["epsilon"], row["attack"][0]))


def said(row: Row, name: str) -> str:
    return interval_text(*row[name])


def percent(row: Row) -> str:
    return percent_text(*row["attack"])


def bound_text(bound: float | None) -> str:
    return "any share" if bound is None else f"at most {100 * bound:.3g} %"


def _named(row: Row) -> str:
    return f"{row['mechanism']} at epsilon {row['epsilon']:g}"


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


# ---- the other attacks ----

ATTACK_TITLES = {
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
    """The attacks on the rows of one task: figures without noise by name, and rows with the `figures` of every setting."""

    task: str
    clean: Mapping[str, Any]
    rows: list[Row]

    @property
    def names(self) -> list[str]:
        return list(self.clean)

    def having(self, name: str) -> list[Row]:
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
    if name in ATTACK_TITLES:
        return ATTACK_TITLES[name]
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


def attack_choice(result: AttackResult, use: TaskResult, success: float) -> str:
    """What the attacks mean for somebody who chooses epsilon: what they reach at the smallest epsilon that is useful, and the claims
    that they refute."""
    measured = {(row["mechanism"], row["epsilon"]): row for row in result.rows}
    useful = [row for row in useful_rows(use) if (row["mechanism"], row["epsilon"]) in measured]
    if useful:
        first, which = useful[0], "the smallest epsilon that keeps at least half of the use without noise"
    else:
        first = max(use.rows, key=lambda row: row[use.main][0])
        which = "the most useful setting, which keeps less than half of the use"
    figures = measured[first["mechanism"], first["epsilon"]]["figures"]
    said = [_reached(name, figures[name], success) for name in main_figures(result.names) if name in figures]
    refuted = [
        f" {title(name)} exceeds the bound of the claim at {_named(row)}: the claim is refuted."
        for name in result.names
        for row in result.having(name)
        if exceeds(row["figures"][name])
    ]
    return f"At {_named(first)}, {which}: {'; '.join(said)}.{''.join(refuted)}"


def _reached(name: str, figure: dict[str, Any], success: float) -> str:
    bound = f"{figure['bound']:.3g}"
    allowed = ", where the claim allows nearly all" if bound == "1" else f", where the claim allows {bound}"
    return f"{title(name)} {interval_text(*figure['value'])}{allowed} ({outcome(figure, success)})"

