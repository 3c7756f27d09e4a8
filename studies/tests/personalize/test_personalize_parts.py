"""Parts of the study of personalisation that need no model: notes, tokens, measures of entities, tables."""

import numpy as np
import pytest

from hushvec_studies.personalize.coding import Coded, coding_of, fitted_tokenizer
from hushvec_studies.personalize.measures import F1, _counts, _entities, _told, f1_of, words_of, worth
from hushvec_studies.personalize.report import sentences, summary
from hushvec_studies.personalize.texts import ENTITIES, Note, Span, draw_notes, shipped_texts


@pytest.mark.parametrize("style", ["public", "private"])
def test_drawn_notes(style):
    notes = draw_notes(200, style, seed=4)
    assert notes == draw_notes(200, style, seed=4) != draw_notes(200, style, seed=5)
    assert {span.entity for note in notes for span in note.spans} == set(ENTITIES)
    for note in notes:
        assert not set("{}") & set(note.text)
        ends = [0]
        for start, end, _ in note.spans:
            assert ends[-1] <= start < end and note.text[start:end] == note.text[start:end].strip()
            ends.append(end)
        doses = [note.text[start:end] for start, end, entity in note.spans if entity == "DOSE"]
        assert all(dose.endswith(" mg") for dose in doses)


def test_private_notes_are_news_to_a_public_reader():
    words = {style: {word for note in draw_notes(300, style, 1) for word in note.text.split()} for style in ("public", "private")}
    assert len(words["private"] - words["public"]) > len(words["private"]) / 2


def test_shipped_texts():
    texts = shipped_texts(30, 10, seed=1)
    assert (len(texts.train), len(texts.test), texts.entities) == (30, 10, ENTITIES)
    many = shipped_texts(2000, 200, seed=1)
    assert len(many.test) == 200 == len(set(many.test)) and not set(many.test) & set(many.train)
    assert texts.key == shipped_texts(30, 10, seed=1).key != shipped_texts(30, 10, seed=2).key


@pytest.fixture(scope="module")
def coding():
    tokenizer = fitted_tokenizer((note.text for note in draw_notes(300, "public", 1)), ENTITIES, 400)
    return coding_of(tokenizer, ENTITIES)


def test_tokens_of_a_note(coding):
    note = Note("pt Ann Bark took iron", (Span(3, 11, "PERSON"), Span(17, 21, "DRUG")))
    coded = coding.code(note, 99)
    person, drug = coding.tags[ENTITIES.index("PERSON")], coding.tags[ENTITIES.index("DRUG")]
    assert coded.ids[0] == coding.begin and coded.ids[-1] == coding.end
    assert coded.word_tags == (0, 1 + ENTITIES.index("PERSON"), 1 + ENTITIES.index("PERSON"), 0, 1 + ENTITIES.index("DRUG"))
    assert [coded.ids[place + 1] for place, tag in zip(coded.word_ends, coded.word_tags) if tag] == [person, person, drug]
    assert coded.ids.count(person) == 2 and coded.ids.count(drug) == 1


def test_a_note_is_cut_between_words(coding):
    note = draw_notes(1, "private", 3)[0]
    whole = coding.code(note, 99)
    for context in range(4, len(whole.ids) + 1):
        coded = coding.code(note, context)
        assert len(coded.ids) <= context and coded.ids[:-1] == whole.ids[: len(coded.ids) - 1] and coded.ids[-1] == coding.end
        assert coded.word_ends == whole.word_ends[: len(coded.word_ends)]
    assert coding.code(note, len(whole.ids)) == whole


def test_batches(coding):
    notes = [coding.code(note, 30) for note in draw_notes(4, "public", 2)]
    batch = coding.batch(notes)
    for row, note in enumerate(notes):
        length = len(note.ids)
        assert batch.ids[row, :length].tolist() == list(note.ids) == batch.labels[row, :length].tolist()
        assert (batch.labels[row, length:] == -100).all() and batch.mask[row].sum() == length


def test_entities_are_runs_of_one_kind():
    assert _entities([0, 1, 1, 0, 2, 1]) == {(0, 1, 3), (1, 4, 5), (0, 5, 6)}
    assert _entities([]) == _entities([0, 0]) == set()


def test_entities_are_counted_from_what_is_likeliest():
    """Two words of kind 1 and one of kind 2; the model sees the first entity whole, and nothing of the second."""
    note = Coded((9, 5, 3, 6, 3, 7, 4, 8), (1, 3, 5), (1, 1, 2))
    chances = np.zeros((7, 2))
    chances[1], chances[3], chances[5] = (0.6, 0.1), (0.5, 0.2), (0.2, 0.3)  # the last: no mark is likelier
    told = _told(note, chances)
    assert told == [1, 1, 0]
    assert _counts([note], [told], 2).tolist() == [[[1, 0], [1, 1], [1, 0]]]


def test_words_are_found_among_marks():
    note = Coded((9, 5, 6, 3, 7, 2, 8), (2, 4, 5), (1, 0, 0))   # a word of two tokens with its mark, and two words
    assert words_of(note) == [((5, 6), slice(1, 3)), ((7,), slice(4, 5)), ((2,), slice(5, 6))]


def marked_notes(count=200):
    """Ten words each, one entity of kind 1 and one of kind 2 at other places in every note."""
    drawn = np.random.default_rng(3)
    notes = []
    for _ in range(count):
        tags = [0] * 10
        for kind, place in enumerate(drawn.choice(10, size=2, replace=False), start=1):
            tags[place] = kind
        notes.append(Coded(tuple(range(12)), tuple(range(1, 11)), tuple(tags)))
    return notes


def test_right_marks_are_above_chance_and_marks_in_any_order_are_not():
    """200 notes, two entities in ten words. Right marks have F1 1; the interval of other notes' marks has chance inside."""
    notes = marked_notes()
    right = f1_of(notes, [note.word_tags for note in notes], 2)
    assert right.value == right.least == right.most == 1.0 and right.chance < 0.2
    shifted = f1_of(notes, [notes[place - 1].word_tags for place in range(len(notes))], 2)
    assert shifted.least <= shifted.value <= shifted.most
    assert shifted.least < shifted.chance < shifted.most, "nothing is shown for them"
    nothing = f1_of(notes, [[0] * 10] * len(notes), 2)
    assert (nothing.value, nothing.most, nothing.chance) == (0, 0, 0)
    unmarked = [Coded((1, 2, 3), (1, 2), (0, 0))]
    assert f1_of(unmarked, [[1, 0]], 2) == F1()


def test_words_are_judged_by_how_often_the_notes_for_training_have_them(coding):
    """A model that always says the same token: right for one frequent word, wrong for all others."""
    import types

    import torch

    frequent, rare = coding.code(Note("insulin", ()), 30), coding.code(Note("zebra", ()), 30)
    assert len(words_of(frequent)) == len(words_of(rare)) == 1
    first = words_of(frequent)[0][0]

    class Says(torch.nn.Module):
        """Each token of the frequent word after the one before it."""

        def forward(self, input_ids, attention_mask):
            logits = torch.zeros(*input_ids.shape, 2000)
            for before, token in zip((coding.begin, *first), first):
                logits[..., token] += 5.0 * (input_ids == before)
            return types.SimpleNamespace(logits=logits)

    train = [frequent] * 11 + [rare] * 10
    found = worth(Says(), coding, [frequent, rare], train)
    assert (found.accuracy_frequent, found.accuracy_rare) == (1.0, 0.0)
    found = worth(Says(), coding, [frequent, rare], train[1:])
    assert found.accuracy_frequent is None and found.accuracy_rare == 0.5, "10 times are not more than 10"


def row(asked, seed, after):
    return {
        "texts": "made",
        "base": "tiny",
        "seed": seed,
        "epsilon_asked": asked,
        "epsilon": None if asked is None else asked - 0.001,
        "delta": 1e-5,
        "adjacency": "add-remove",
        "noise_multiplier": 0.0 if asked is None else 2 / asked,
        "sampling_probability": 0.05,
        "steps": 10,
        "grade": None if asked is None else "float",
        "perplexity_before": 90.0,
        "perplexity_after": after,
        "accuracy_before": 0.2,
        "accuracy_after": 0.4,
        "accuracy_frequent_before": 0.3,
        "accuracy_frequent_after": 0.5,
        "accuracy_rare_before": 0.0,
        "accuracy_rare_after": 0.1,
        "f1_before": 0.5,
        "f1_after": 0.8,
        "f1_least_before": 0.4,
        "f1_least_after": 0.7,
        "f1_most_before": 0.6,
        "f1_most_after": 0.9,
        "f1_chance_before": 0.1,
        "f1_chance_after": 0.1,
        "seconds": 2.0,
        "train_notes": 100,
        "test_notes": 10,
        "expected_batch": 5,
        "clip_norm": None if asked is None else 1.0,
        "learning_rate": 0.01,
        "rank": 4,
        "trainable": 10,
        "adapter_moved": 1.0,
    }


ROWS = [row(0.5, 1, 60.0), row(None, 1, 20.0), row(2.0, 1, 40.0), row(2.0, 2, 42.0)]


def test_a_summary_goes_from_no_dp_to_the_smallest_epsilon():
    lines = summary(ROWS)
    assert [line["epsilon_asked"] for line in lines] == [None, 2.0, 0.5]
    assert (lines[1]["perplexity_after"], lines[1]["perplexity_after_low"], lines[1]["perplexity_after_high"]) == (41.0, 40.0, 42.0)
    assert [line["seeds"] for line in lines] == [1, 2, 1]


def test_sentences_say_what_was_accounted():
    said = sentences(ROWS)
    assert said[0].startswith("no DP: perplexity 90.00 to 20.00") and "noise multiplier 0," in said[0]
    assert "frequent words 0.500, rare words 0.100" in said[0]
    assert "F1 of entities 0.500 to 0.800 (95 % interval 0.700 to 0.900, 0.100 by chance)" in said[0]
    assert "(mean of 2 runs, 0.100 by chance)" in said[1]
    low = sentences([{**ROWS[0], "f1_least_after": 0.05}])[0]
    assert "0.100 by chance, not shown to be above it" in low
    assert said[1].startswith("epsilon 1.999, delta 1e-05: perplexity 90.00 to 41.00")
