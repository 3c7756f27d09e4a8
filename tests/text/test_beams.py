"""The token search of Vec2TextInverter against every text that there is, on a model that is a table of logits."""

from itertools import product

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import numpy as np
import torch

from hushvec.text.inverters.vec2text.model import beam_search

torch.set_num_threads(1)  # networks so small only wait for each other's threads

START, END, SIZE = 0, 1, 4
MAX_LENGTH = 4


class Cache:
    """The tokens so far, which is all that the table needs."""

    def __init__(self, prefixes):
        self.prefixes = prefixes

    def reorder_cache(self, rows):
        self.prefixes = [self.prefixes[row] for row in rows.tolist()]


class Table:
    """Logits of the next token from a row's number and all tokens before; `length` calls were made."""

    def __init__(self):
        self.calls = 0

    def encoder(self, inputs_embeds, attention_mask):
        return type("Output", (), {"last_hidden_state": inputs_embeds})

    @staticmethod
    def logits(row, prefix):
        return np.random.Generator(np.random.PCG64([row, len(prefix), *prefix])).standard_normal(SIZE).astype(np.float32) * 2

    def __call__(self, *, encoder_outputs, attention_mask, decoder_input_ids, past_key_values, use_cache):
        self.calls += 1
        rows = encoder_outputs.last_hidden_state[:, 0, 0].long().tolist()
        before = [()] * len(rows) if past_key_values is None else past_key_values.prefixes
        prefixes = [(*prefix, token) for prefix, (token,) in zip(before, decoder_input_ids.tolist(), strict=True)]
        logits = torch.tensor(np.array([self.logits(row, prefix) for row, prefix in zip(rows, prefixes, strict=True)]))
        return type("Output", (), {"logits": logits[:, None, :], "past_key_values": Cache(prefixes)})


def all_texts(row):
    """(mean log-probability, tokens) of every text: ended, or cut at MAX_LENGTH; the best first."""
    found = []
    inner = [token for token in range(SIZE) if token != END]
    for length in range(1, MAX_LENGTH):
        for tokens in product(inner, repeat=length - 1):
            last = [END] if length < MAX_LENGTH - 1 else range(SIZE)
            for token in last:
                text, total = (START,), 0.0
                for step in (*tokens, token):
                    total += float(torch.log_softmax(torch.tensor(Table.logits(row, text)), dim=0)[step])
                    text = (*text, step)
                found.append((total / length, text))
    return sorted(found, reverse=True)


def search(rows, **settings):
    positions = torch.tensor(rows, dtype=torch.float32)[:, None, None]
    table = Table()
    ends = {"start": START, "pad": 0, "end": END}
    return beam_search(table, positions, torch.ones(len(rows), 1), max_length=MAX_LENGTH, **ends, **settings), table


def test_as_many_beams_as_texts_find_the_best_of_all():
    """27 beams hold every prefix, so the search is complete."""
    rows, kept = [0, 1, 2, 3], 6
    found, _ = search(rows, beams=27, kept=kept)
    assert found.sequences.shape == (len(rows) * kept, MAX_LENGTH)
    for place, row in enumerate(rows):
        best = all_texts(row)[:kept]
        part = slice(place * kept, (place + 1) * kept)
        assert found.sequences[part].tolist() == [[*text, *[0] * (MAX_LENGTH - len(text))] for _, text in best]
        np.testing.assert_allclose(found.likelihoods[part].numpy(), [score for score, _ in best], rtol=1e-5)


def test_rows_do_not_disturb_each_other():
    together, _ = search([0, 1, 2], beams=2, kept=2)
    for row in range(3):
        alone, _ = search([row], beams=2, kept=2)
        width = alone.sequences.shape[1]
        assert together.sequences[2 * row : 2 * row + 2, :width].tolist() == alone.sequences.tolist()


def test_a_search_ends_when_nothing_open_can_be_better():
    class Certain(Table):
        @staticmethod
        def logits(row, prefix):
            return np.array([0.0, 40.0, 20.0, -20.0], np.float32)

    table = Certain()
    found = beam_search(
        table, torch.zeros(1, 1, 1), torch.ones(1, 1), beams=2, kept=2, max_length=50, start=START, pad=0, end=END
    )
    assert table.calls == 2
    assert found.sequences.tolist() == [[START, END, 0], [START, 2, END]]
