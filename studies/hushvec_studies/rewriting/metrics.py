"""What is measured of rewritten documents, as columns of a row of results: a mean over documents with its standard error."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

RESAMPLES = 1000

_WORD = re.compile(r"\w+")
# Runs of letters and digits, with points and commas inside numbers; every other mark alone.
_TOKEN = re.compile(r"\d+(?:[.,]\d+)+|[\w'-]+|[^\w\s]")


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error, over n documents."""

    value: float
    error: float
    n: int


def named(name, estimate):
    """The columns of an estimate."""
    return {name: estimate.value, f"{name}_error": estimate.error, f"{name}_n": estimate.n}


def leaked(output: str, strings: Sequence[str]) -> int:
    """How many of the strings stand in the output, as substrings, upper and lower case alike."""
    lowered = output.lower()
    return sum(string.lower() in lowered for string in strings)


def share(hits, totals, seed=0):
    """Pooled share of all strings, sum of hits / sum of totals (one of each for a document); its error by resampling
    documents."""
    hits, totals = np.asarray(hits, float), np.asarray(totals, float)
    if totals.sum() == 0:
        return Estimate(float("nan"), float("nan"), 0)
    weights = np.random.default_rng(seed).multinomial(len(hits), np.full(len(hits), 1 / len(hits)), size=RESAMPLES)
    below = weights @ totals
    kept = below > 0
    return Estimate(hits.sum() / totals.sum(), float(np.std((weights @ hits)[kept] / below[kept], ddof=1)), int(totals.sum()))


def mean(values):
    """Mean over documents, and the standard error of a mean of independent ones."""
    values = np.asarray(values, float)
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return Estimate(float(values.mean()), error, len(values))


def cosines(left, right):
    """Cosine of each row with its counterpart; 0 where one of them is zero."""
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    return np.einsum("ij,ij->i", left, right) / np.where(lengths > 0, lengths, 1)


def length_ratio(text: str, output: str) -> float:
    return len(output) / len(text)


def token_f1(text: str, output: str) -> float:
    """Harmonic mean of precision and recall of words, as a bag, upper and lower case alike; 0 where there is none in common."""
    wanted, given = (Counter(_WORD.findall(one.lower())) for one in (text, output))
    common = (wanted & given).total()
    return 2 * common / (wanted.total() + given.total()) if common else 0.0


def bleu(text, output):
    """BLEU of one output, 0 to 100, as sacrebleu's sentence BLEU: up to four words in a row, words and marks apart, case as it is;
    where no run of n words agrees the precisions of that length and beyond are 1/2, 1/4, ... of one run (smoothing "exp").

    Reference: Papineni et al. 2002; Chen and Cherry 2014, section 3, smoothing 3; Post 2018 (sacrebleu, tokenizer 13a, for ASCII).
    """
    wanted, given = _TOKEN.findall(text), _TOKEN.findall(output)
    longest = min(4, len(given))
    logs, halves = 0.0, 1.0
    for length in range(1, longest + 1):
        theirs, ours = _runs(wanted, length), _runs(given, length)
        hits = (theirs & ours).total()
        if hits == 0:
            halves *= 2
        logs += math.log(100 * hits / ours.total() if hits else 100 / (halves * ours.total()))
    if longest == 0 or halves == 2.0**longest:
        return 0.0
    brevity = min(0.0, 1 - len(wanted) / len(given))
    return min(100.0, math.exp(brevity + logs / longest))


def _runs(tokens, length):
    return Counter(tuple(tokens[start : start + length]) for start in range(len(tokens) - length + 1))


def is_exact(text, output):
    """Whether the output is the text, but for spaces around it."""
    return text.strip() == output.strip()


# ---- lists of outputs ----

def columns(documents, outputs, judges, seed):
    """Leak, similarity by each judge, and length."""
    row = {"n": len(documents)} | leak(documents, outputs, seed)
    for judge in judges:
        row |= named(f"similarity_{judge.name}", mean(cosines(judge(outputs), judge([one.text for one in documents]))))
    lengths = [length_ratio(one.text, output) for one, output in zip(documents, outputs, strict=True)]
    return row | named("length_ratio", mean(lengths))


def leak(documents, outputs, seed):
    row = {}
    for name in ("gold", "identifying"):
        strings = [getattr(one, name) for one in documents]
        hits = [leaked(output, own) for output, own in zip(outputs, strings, strict=True)]
        row |= named("leak" if name == "gold" else "leak_identifying", share(hits, [len(own) for own in strings], seed))
    return row


def strangers(outputs, seed):
    """The same outputs, each given to another document: what similarity and leak are by chance."""
    places = np.arange(len(outputs)) + np.random.default_rng(seed).integers(1, len(outputs))
    return [outputs[place % len(outputs)] for place in places]


def best_choices(documents, corpus_texts, judge):
    """For each document the public text that this judge finds most alike: no choice among them can do better by its measure."""
    return [corpus_texts[best] for best in (judge([one.text for one in documents]) @ judge(list(corpus_texts)).T).argmax(axis=1)]
