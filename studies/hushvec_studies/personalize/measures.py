"""What a model is worth on notes: perplexity, the share of next tokens it guesses, and F1 of the entities it marks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hushvec.training.ghost.losses import IGNORED
from hushvec_studies.personalize.coding import Coded, Coding

_AT_ONCE = 128


class Worth(NamedTuple):
    """On test notes.

    Args:
        perplexity: e to the mean loss of a token, the tokens of entities among them.
        accuracy: share of tokens that are the likeliest one.
        f1: of entities, exact ones (kind, first and last word), the mean over the kinds that the notes have; None if they have none.
            Each word is judged with the right marks of the words before it.
    """

    perplexity: float
    accuracy: float
    f1: float | None


def worth(model: Any, coding: Coding, notes: Sequence[Coded]) -> Worth:
    """Measure a model on notes. Dropout and the like are off meanwhile."""
    import torch

    training = model.training
    model.eval()
    lost = guessed = counted = 0.0
    right, wanted, given = (np.zeros(len(coding.entities)) for _ in range(3))
    try:
        with torch.no_grad():
            for start in range(0, len(notes), _AT_ONCE):
                some = notes[start : start + _AT_ONCE]
                ids, labels, mask = map(torch.from_numpy, coding.batch(some))
                logits = model(input_ids=ids, attention_mask=mask).logits.float()
                logs = torch.log_softmax(logits[:, :-1], -1)
                targets = labels[:, 1:]
                there = targets != IGNORED
                lost -= float(logs.gather(2, targets.clamp(min=0)[:, :, None])[:, :, 0][there].double().sum())
                guessed += float((logs.argmax(2) == targets)[there].sum())
                counted += float(there.sum())
                if coding.entities:
                    chances = logs[:, :, list(coding.tags)].exp().numpy()
                    for note, chance in zip(some, chances):
                        _count(note, chance, right, wanted, given)
    finally:
        model.train(training)
    asked = wanted > 0
    f1 = float(np.mean(2 * right[asked] / (wanted + given)[asked])) if asked.any() else None
    return Worth(float(np.exp(lost / counted)), guessed / counted, f1)


def _count(note: Coded, chances: Any, right: Any, wanted: Any, given: Any) -> None:
    """Add a note's entities to the counts by kind."""
    told = []
    for place in note.word_ends:
        each = chances[place]
        likeliest = int(each.argmax())
        told.append(1 + likeliest if each[likeliest] > 1 - each.sum() else 0)
    true, found = _entities(note.word_tags), _entities(told)
    for kind, _, _ in true:
        wanted[kind] += 1
    for entity in found:
        given[entity[0]] += 1
        right[entity[0]] += entity in true


def _entities(tags: Sequence[int]) -> set[tuple[int, int, int]]:
    """(kind, first word, word after the last one) of every run of words with one tag."""
    found, start = set(), 0
    for place in range(1, len(tags) + 1):
        if place == len(tags) or tags[place] != tags[start]:
            if tags[start]:
                found.add((tags[start] - 1, start, place))
            start = place
    return found
