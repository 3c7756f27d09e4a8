"""What a model is worth on notes: perplexity, the next tokens and words that it guesses, and F1 of the entities it marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec.training.ghost import IGNORED
from hushvec_studies.personalize.coding import Coded, Coding

_AT_ONCE = 128
# A word is frequent if the texts for training have it more often than this.
FREQUENT = 10
# Of F1: draws of notes for its interval, of which the middle 95 % count, and orders of marks for what chance gives.
_RESAMPLES, _ORDERS = 1000, 50
_ENDS = (0.025, 0.975)


class F1(NamedTuple):
    """F1 of entities, exact ones (kind, first and last word), the mean over the kinds that the notes have; None where they have
    none.

    Args:
        least, most: ends of its 95 % interval, by resampling notes.
        chance: mean F1 of the same marks in random order over all words of the notes.
    """

    value: float | None = None
    least: float | None = None
    most: float | None = None
    chance: float | None = None


class Worth(NamedTuple):
    """On test notes.

    Args:
        perplexity: e to the mean loss of a token, the tokens of entities among them.
        accuracy: share of tokens that are the likeliest one.
        accuracy_frequent, accuracy_rare: share of words, all of whose tokens are the likeliest ones after the right words before them:
            of words that the notes for training have more than 10 times, and of all others. None where there is no such word.
        f1, f1_least, f1_most, f1_chance: as `F1`; each word is judged with the right marks of the words before it.
    """

    perplexity: float
    accuracy: float
    accuracy_frequent: float | None
    accuracy_rare: float | None
    f1: float | None
    f1_least: float | None
    f1_most: float | None
    f1_chance: float | None


def worth(model: Any, coding: Coding, notes: Sequence[Coded], train: Iterable[Coded] = ()) -> Worth:
    """Measure a model on notes. How often the notes for training have a word decides whether it is frequent."""
    import torch

    often = Counter(word for note in train for word, _ in words_of(note))
    training = model.training
    model.eval()
    lost = guessed = counted = 0.0
    told: list[list[int]] = []
    words: dict[bool, list[bool]] = {True: [], False: []}
    try:
        with torch.no_grad():
            for start in range(0, len(notes), _AT_ONCE):
                some = notes[start : start + _AT_ONCE]
                ids, labels, mask = map(torch.from_numpy, coding.batch(some))
                logits = model(input_ids=ids, attention_mask=mask).logits.float()
                logs = torch.log_softmax(logits[:, :-1], -1)
                targets = labels[:, 1:]
                there = targets != IGNORED
                right = logs.argmax(2) == targets
                lost -= float(logs.gather(2, targets.clamp(min=0)[:, :, None])[:, :, 0][there].double().sum())
                guessed += float(right[there].sum())
                counted += float(there.sum())
                for note, correct in zip(some, right.numpy()):
                    for word, places in words_of(note):
                        words[often[word] > FREQUENT].append(bool(correct[places.start - 1 : places.stop - 1].all()))
                if coding.entities:
                    chances = logs[:, :, list(coding.tags)].exp().numpy()
                    told += [_told(note, chance) for note, chance in zip(some, chances)]
    finally:
        model.train(training)
    frequent, rare = (float(np.mean(words[kind])) if words[kind] else None for kind in (True, False))
    return Worth(float(np.exp(lost / counted)), guessed / counted, frequent, rare, *f1_of(notes, told, len(coding.entities)))


def words_of(note: Coded) -> list[tuple[tuple[int, ...], slice]]:
    """The words of a note as their tokens, and the places of these."""
    found, start = [], 1
    for end, tag in zip(note.word_ends, note.word_tags):
        found.append((note.ids[start : end + 1], slice(start, end + 1)))
        start = end + 1 + (tag > 0)  # a mark stands behind the word
    return found


def f1_of(notes: Sequence[Coded], told: Sequence[Sequence[int]], kinds: int) -> F1:
    """F1 of the marks that a model gives to every word of every note, 0 for none."""
    if not any(tag for note in notes for tag in note.word_tags):
        return F1()
    counts = _counts(notes, told, kinds)
    drawn = np.random.default_rng(0)  # the same notes in every call, so that two models are compared on the same draws
    resampled = [_f1(counts[drawn.integers(len(notes), size=len(notes))].sum(0)) for _ in range(_RESAMPLES)]
    least, most = np.quantile(resampled, _ENDS).tolist()
    marks = np.concatenate([np.asarray(one, np.int64) for one in told])
    ends = np.cumsum([len(one) for one in told])[:-1]
    by_chance = [_f1(_counts(notes, np.split(drawn.permutation(marks), ends), kinds).sum(0)) for _ in range(_ORDERS)]
    return F1(_f1(counts.sum(0)), least, most, float(np.mean(by_chance)))


def _told(note: Coded, chances: Any) -> list[int]:
    """The likeliest mark of every word; 0 where none is likelier."""
    told = []
    for place in note.word_ends:
        each = chances[place]
        likeliest = int(each.argmax())
        told.append(1 + likeliest if each[likeliest] > 1 - each.sum() else 0)
    return told


def _f1(counts: NDArray[np.float64]) -> float:
    """Mean over the kinds that are wanted, of counts [3, kinds]: found rightly, there, found."""
    right, wanted, given = counts
    asked = wanted > 0
    return float(np.mean(2 * right[asked] / (wanted + given)[asked])) if asked.any() else 0.0


def _counts(notes: Sequence[Coded], told: Sequence[Any], kinds: int) -> NDArray[np.float64]:
    """Of every note [notes, 3, kinds]: entities found rightly, there, found."""
    counts = np.zeros((len(notes), 3, kinds))
    for (right, wanted, given), note, marks in zip(counts, notes, told):
        true, found = _entities(note.word_tags), _entities([int(mark) for mark in marks])
        for kind, _, _ in true:
            wanted[kind] += 1
        for entity in found:
            given[entity[0]] += 1
            right[entity[0]] += entity in true
    return counts


def _entities(tags: Sequence[int]) -> set[tuple[int, int, int]]:
    """(kind, first word, word after the last one) of every run of words with one tag."""
    found, start = set(), 0
    for place in range(1, len(tags) + 1):
        if place == len(tags) or tags[place] != tags[start]:
            if tags[start]:
                found.add((tags[start] - 1, start, place))
            start = place
    return found
