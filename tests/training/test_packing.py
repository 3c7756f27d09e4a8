"""Rows in which texts of several people are packed: each person's tokens as a row, and why a packed row itself cannot be clipped."""

import pytest
import torch

from hushvec.training import Account, DPOptimizer, GhostClipping, PoissonSampler, per_example_gradients, unpack_people
from training.small_runs import clipped_sum, seeded

NOBODY, WORDS, LENGTHS = -1, 20, (5, 2, 7, 3, 6, 4)


class Attention(torch.nn.Module):
    """One causal attention over a row of tokens: within each person's tokens alone if `apart`, else over the whole row."""

    def __init__(self, apart):
        super().__init__()
        torch.manual_seed(0)
        self.apart = apart
        self.words, self.asks, self.answers, self.out = (
            torch.nn.Embedding(WORDS, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, WORDS)
        )  # fmt: skip
        self.double()

    def forward(self, tokens, people):
        seen = self.words(tokens)
        allowed = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).tril()
        if self.apart:
            allowed = allowed & (people[:, :, None] == people[:, None, :])
        weights = (self.asks(seen) @ seen.mT).masked_fill(~allowed, -1e9).softmax(2)
        return self.out(weights @ self.answers(seen))


def texts(seed=0, lengths=LENGTHS):
    source = torch.Generator().manual_seed(seed)
    return [torch.randint(WORDS, (length,), generator=source) for length in lengths]


def packed(every):
    """All texts in one row, the last token nobody's; the labels are the tokens to come, none at the end of a text."""
    tokens = torch.cat([*every, torch.zeros(1, dtype=torch.long)])[None]
    people = torch.tensor([person for person, text in enumerate(every) for _ in text] + [NOBODY])[None]
    labels = torch.cat([*(torch.cat([text[1:], torch.tensor([-100])]) for text in every), torch.tensor([-100])])[None]
    return {"tokens": tokens, "labels": labels, "people": people}


def token_losses(predict, row):
    logits = predict(row["tokens"], row["people"])
    return torch.nn.functional.cross_entropy(logits.mT, row["labels"], ignore_index=-100, reduction="none")


def taken(model):
    parts = [parameter.grad_sample for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.grad_sample = None
    return parts


def by_weights(model, row):
    """What is not offered: the gradient of each person's share of the losses of a packed row, by weights of its tokens."""
    mine = (row["people"] == torch.arange(int(row["people"].max()) + 1)[:, None]).double()
    per_example_gradients(model, lambda predict, weights: (token_losses(predict, row) * weights).sum(), mine)
    return taken(model)


def apart(row, drawn=None):
    drawn = range(int(row["people"].max()) + 1) if drawn is None else drawn
    return unpack_people(row, row["people"], list(drawn), padding={"labels": -100, "people": NOBODY})


def by_rows(model, row):
    per_example_gradients(model, lambda predict, one: token_losses(predict, one).sum(), apart(row))
    return taken(model)


@pytest.mark.parametrize("separate", [False, True])
def test_gradients_of_people_are_those_of_their_texts_alone(separate):
    """Whatever the attention of the model is: a row has the tokens of one person. Compared with a pass over each text, unpadded."""
    model = Attention(separate)
    found = by_rows(model, packed(texts()))
    for person, text in enumerate(texts()):
        alone = packed([text])
        losses = token_losses(model, {name: part[:, :-1] for name, part in alone.items()})
        expected = torch.autograd.grad(losses.sum(), list(model.parameters()))
        for part, whole in zip(found, expected):
            torch.testing.assert_close(part[person], whole, rtol=1e-9, atol=1e-12)


def test_weights_of_tokens_separate_people_where_attention_does():
    model, row = Attention(True), packed(texts())
    for weighted, alone in zip(by_weights(model, row), by_rows(model, row)):
        torch.testing.assert_close(weighted, alone, rtol=1e-9, atol=1e-12)


def without_the_first(row):
    """The packed row with the first person's tokens gone."""
    kept = row["people"][0] != 0
    return {name: part[:, kept] for name, part in row.items()}


def moved(gradients, before, after, clip_norm):
    """How far the sum of clipped gradients moves when a person leaves."""
    sums = [clipped_sum(gradients(row), clip_norm) for row in (before, after)]
    return float(torch.cat([(a - b).reshape(-1) for a, b in zip(*sums)]).norm())


def test_weights_of_tokens_bleed_where_attention_goes_over_the_row():
    """One person of 16 who leaves turns the gradients of those behind: the sum moves by 2.45 clip norms, and noise for one protects
    less than the account says. Rows of people move it by at most one."""
    full, clip_norm, before = Attention(False), 1e-3, packed(texts(lengths=(12, *[2] * 15)))
    after = without_the_first(before)
    assert moved(lambda row: by_weights(full, row), before, after, clip_norm) > 2.4 * clip_norm
    for model in (full, Attention(True)):
        assert moved(lambda row, model=model: by_rows(model, row), before, after, clip_norm) <= clip_norm * (1 + 1e-9)
    assert moved(lambda row: by_weights(Attention(True), row), before, after, clip_norm) <= clip_norm * (1 + 1e-9)


def test_a_row_says_nothing_of_others():
    """Other texts of the same lengths around it, and each bit of a person's gradient is the same."""
    other = [text if person == 3 else changed for person, (text, changed) in enumerate(zip(texts(), texts(seed=1)))]
    model = Attention(False)
    for first, second in zip(by_rows(model, packed(texts())), by_rows(model, packed(other))):
        assert torch.equal(first[3], second[3]) and not torch.equal(first[2], second[2])


def trained(rows_of):
    model = Attention(False)
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), clip_norm=0.1, noise_multiplier=1.0, expected_batch_size=3.0,
        sampling_probability=0.5, delta=1e-5, account=Account(generator=seeded()), model=model,
    )  # fmt: skip
    for sample in PoissonSampler(len(LENGTHS), 0.5, steps=8, generator=seeded(1)):
        rows = rows_of([int(person) for person in sample])
        per_example_gradients(model, lambda predict, one: token_losses(predict, one).sum(), rows)
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def test_training_on_packed_samples_is_training_on_people():
    every = texts()

    def from_rows(drawn):
        """Packed by two rows, one person's text cut over both, some in the order in which they were not drawn."""
        row = packed([every[person] for person in reversed(drawn)])
        named = torch.tensor([*reversed(drawn), NOBODY])[row["people"]]
        halves = {name: part.reshape(-1) for name, part in {**row, "people": named}.items()}
        width = -(-len(halves["tokens"]) // 2)
        fills = {"tokens": 0, "labels": -100, "people": NOBODY}
        cut = {name: torch.nn.functional.pad(part, (0, 2 * width - len(part)), value=fills[name]) for name, part in halves.items()}
        return apart({name: part.reshape(2, width) for name, part in cut.items()}, drawn)

    def from_texts(drawn):
        rows = [packed([every[person]]) for person in drawn]
        width = max([1, *(len(every[person]) for person in drawn)])
        fills = {"tokens": 0, "labels": -100, "people": NOBODY}
        out = {name: torch.full((len(drawn), width), fill) for name, fill in fills.items()}
        for place, (person, row) in enumerate(zip(drawn, rows)):
            for name in fills:
                out[name][place, : len(every[person])] = row[name][0, :-1] if name != "people" else person
        return out

    assert all(torch.equal(one, two) for one, two in zip(trained(from_rows), trained(from_texts)))


def test_ghost_clipping_takes_the_rows():
    model, row = Attention(False), apart(packed(texts()))
    with GhostClipping(model, clip_norm=1.0) as ghost:
        ghost.backward(token_losses(model, row).sum(1))
    expected = clipped_sum(by_rows(model, packed(texts())), 1.0)
    for parameter, part in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.clipped_sum, part, rtol=1e-5, atol=1e-7)


def test_people_without_tokens_and_batches_without_people():
    people = torch.tensor([[4, NOBODY, 4], [1, 4, NOBODY]])
    tokens = {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "ages": torch.arange(12.0).reshape(2, 3, 2)}
    found = unpack_people(tokens, people, [7, 4, 1], padding={"ids": 9})
    assert found["ids"].tolist() == [[9, 9, 9], [1, 3, 5], [4, 9, 9]]
    assert found["ages"].shape == (3, 3, 2) and found["ages"][1, 2].tolist() == [8.0, 9.0] and found["ages"].dtype == torch.float32
    nobody = torch.full((2, 3), NOBODY)
    assert unpack_people(tokens, nobody, [])["ids"].shape == (0, 1)
    assert unpack_people(tokens["ids"], nobody, [3], padding=8).tolist() == [[8]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"drawn": [0]}, "people must be among those drawn, or -1, got 1"),
        ({"people": torch.tensor([[0, 1, -2]])}, "people must be among those drawn, or -1, got -2"),
        ({"drawn": [0, 1, 0]}, "drawn must have each person once, by numbers >= 0, got [0, 1, 0]"),
        ({"drawn": [0, 1, -1]}, "drawn must have each person once, by numbers >= 0, got [0, 1, -1]"),
        ({"people": torch.tensor([[0, 1, 1]], dtype=torch.int32)}, "people must be int64 [rows, tokens], got torch.int32 [1, 3]"),
        ({"people": torch.tensor([0, 1, 1])}, "people must be int64 [rows, tokens], got torch.int64 [3]"),
        ({"batch": torch.zeros(1, 2)}, "batch must be a tensor [1, 3] or with more axes, like people, got [1, 2]"),
        ({"batch": {"cu_seqlens": torch.zeros(3)}}, "cu_seqlens must be a tensor [1, 3] or with more axes, like people, got [3]"),
        ({"batch": {"texts": ["a"]}}, "texts must be a tensor [1, 3] or with more axes, like people, got []"),
    ],
)
def test_refused(changed, message):
    given = {"batch": torch.zeros(1, 3), "people": torch.tensor([[0, 1, 1]]), "drawn": [0, 1], **changed}
    with pytest.raises(ValueError) as error:
        unpack_people(given["batch"], given["people"], given["drawn"])
    assert str(error.value) == message
