"""The search for a text whose embedding explains a release."""

import numpy as np
import pytest

from hushvec_studies.evaluation.attacks.inversion import EXACT, FOUND, NAMED, START, Search, measure_inversion, words_of
from hushvec_studies.evaluation.attacks.measure import sought
from hushvec_studies.evaluation.cells import Cell
from hushvec_studies.evaluation.vectors import Labelled
from hushvec_studies.harness.embeddings import HashedWords

WORDS = ["my", "card", "was", "stolen", "lost", "where", "is", "new", "pin", "money", "top", "up", "abroad", "refund"]
MODEL = HashedWords()


def texts(count, seed):
    rng = np.random.default_rng(seed)
    return list(dict.fromkeys(" ".join(rng.choice(WORDS, 4, replace=False)) for _ in range(count)))


def test_the_search_finds_texts_without_noise_and_not_in_noise():
    """Four words in any order: the model sees no order, so the words are what can be found."""
    public, private = texts(60, 1), [text for text in texts(40, 2) if text not in texts(60, 1)][:12]
    search = Search(MODEL.embed, public, MODEL.embed(public))

    def same_words(released):
        starts, found = search.found(released, np.random.default_rng(0))
        return [np.mean([set(one.split()) == set(text.split()) for one, text in zip(made, private)]) for made in (starts, found)]

    clean = MODEL.embed(private)
    before, after = same_words(clean)
    assert after > 0.8 and after > before + 0.3
    noisy = clean + 10 * np.random.default_rng(3).standard_normal(clean.shape).astype(np.float32)
    assert same_words(noisy)[1] < 0.3


def test_words_of_a_text():
    assert words_of("Where's my NEW card?") == ("where's", "my", "new", "card")
    assert words_of("?!") == ("?!",)


@pytest.fixture(scope="module")
def data():
    public, private = texts(80, 1), texts(50, 5)
    rows, classes = MODEL.embed(private), np.arange(len(private)) % 2
    return Labelled("questions", MODEL.embed(public), rows, classes, rows, classes, texts=(public, private))


def row(data, mechanism="none", epsilon=None):
    target = sought(data, "hashed-words", 10, 7)
    return measure_inversion(
        Cell(
            task="a task",
            side="training",
            data=target,
            mechanism=mechanism,
            epsilon=epsilon,
            delta=1e-5,
            draws=3,
            seed=1,
            confidence=0.95,
            resamples=50,
        )
    )


def test_the_figures_of_inversion(data):
    clean = row(data)["figures"]
    assert set(clean) == {START, FOUND, EXACT, NAMED}
    assert clean[FOUND]["value"][0] > clean[START]["value"][0] > clean[START]["chance"]
    noisy = row(data, "gaussian", 0.5)["figures"]
    assert noisy[FOUND]["value"][0] < clean[FOUND]["value"][0] - 0.2
    # e^0.5 times the words in common with other texts
    assert noisy[FOUND]["chance"] < noisy[FOUND]["bound"] < 1
    assert noisy[NAMED]["bound"] < 0.05


def test_texts_that_are_looked_for_are_drawn_by_the_seed(data):
    first, second = (sought(data, "hashed-words", 10, seed).sought.tolist() for seed in (7, 8))
    assert first != second and len(set(first)) == 10
    assert sought(data, "hashed-words", 10, 7).digest == sought(data, "hashed-words", 10, 7).digest
