"""Poisson batches: their law, empty ones, the loader."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy import stats

from hushvec.training import PoissonSampler, poisson_loader
from training.small_runs import seeded

ALPHA = 1e-6


def rejected(batches, size, probability):
    """Binomial test of the number kept, and chi-square tests that indices and batches are kept equally often; ALPHA together."""
    kept = np.zeros((len(batches), size), np.int64)
    for number, batch in enumerate(batches):
        kept[number, batch] = 1
    n = kept.size
    values = [stats.binomtest(int(kept.sum()), n, probability).pvalue]
    for axis in (0, 1):
        counts, trials = kept.sum(axis), kept.shape[axis]
        statistic = float(((counts - trials * probability) ** 2).sum()) / (trials * probability * (1 - probability))
        values.append(2 * min(stats.chi2.cdf(statistic, len(counts)), stats.chi2.sf(statistic, len(counts))))
    return min(values) < ALPHA / 3


def test_every_index_is_kept_independently_with_the_probability():
    """n = 300 batches of 400 indices at 0.05. Rejected: 10 % more, batches of a fixed size, and half of the indices in pairs."""
    size, probability, steps = 400, 0.05, 300
    batches = list(PoissonSampler(size, probability, steps=steps))
    assert not rejected(batches, size, probability)
    assert rejected(list(PoissonSampler(size, probability * 1.1, steps=steps)), size, probability)
    source = np.random.default_rng(1)
    assert rejected([source.choice(size, 20, replace=False) for _ in range(steps)], size, probability)
    together = [np.flatnonzero(np.repeat(source.random(size // 4) < probability, 4)) for _ in range(steps)]
    assert rejected(together, size, probability)


def test_batches_are_increasing_indices_and_new_every_time():
    sampler = PoissonSampler(1000, 0.1, steps=2)
    batches = list(sampler) + list(sampler)
    assert len({tuple(batch) for batch in batches}) == 4
    assert all(batch == sorted(set(batch)) and 0 <= batch[0] and batch[-1] < 1000 for batch in batches)
    assert all(type(index) is int for index in batches[0])


@pytest.mark.parametrize("probability", [0.1, 1 / 3, 1e-9, 1.0])
def test_the_probability_as_sampled_is_at_most_the_given_one(probability):
    true = PoissonSampler(10, probability, steps=1).true_probability
    assert Fraction(probability) - Fraction(1, 2**64) < true <= Fraction(probability)


def test_probability_one_keeps_all():
    assert list(PoissonSampler(5, 1.0)) == [[0, 1, 2, 3, 4]]


def test_a_seed_gives_the_same_batches_and_says_so():
    first, second = (PoissonSampler(100, 0.2, steps=3, generator=seeded(4)) for _ in range(2))
    assert first.seeded and list(first) == list(second)
    assert not PoissonSampler(100, 0.2).seeded


def test_an_epoch_is_one_over_the_probability():
    assert len(PoissonSampler(100, 0.125)) == 8 == len(list(PoissonSampler(100, 0.125)))
    assert len(PoissonSampler(100, 0.9)) == 1


class Mappings(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return {"ids": torch.full((4,), index), "text": f"number {index}", "pair": (torch.tensor(index), 1.5)}


def test_the_loader_delivers_empty_batches_of_the_same_structure():
    batches = list(poisson_loader(Mappings(), 1e-12, steps=2))
    assert len(batches) == 2
    for batch in batches:
        assert batch["ids"].shape == (0, 4) and batch["ids"].dtype == torch.int64
        assert batch["text"] == []
        assert batch["pair"][0].shape == (0,) and batch["pair"][1].shape == (0,) and batch["pair"][1].dtype == torch.float64


def test_the_loader_delivers_what_the_sampler_names():
    data = torch.utils.data.TensorDataset(torch.arange(50), torch.arange(50) * 2)
    first, second = (
        list(poisson_loader(data, 0.3, steps=4, generator=seeded(2))),
        list(PoissonSampler(50, 0.3, steps=4, generator=seeded(2))),
    )
    for (indices, doubled), expected in zip(first, second, strict=True):
        assert indices.tolist() == expected and doubled.tolist() == [2 * index for index in expected]


BAD = {
    "size": ((0, 0.5), {}, ValueError, "size must be >= 1, got 0"),
    "size kind": ((2.5, 0.5), {}, TypeError, "size must be a whole number"),
    "probability 0": ((5, 0.0), {}, ValueError, "sampling_probability must be > 0"),
    "probability 2": ((5, 2.0), {}, ValueError, "sampling_probability must be > 0 and <= 1, got 2.0"),
    "probability nan": ((5, math.nan), {}, ValueError, "sampling_probability must be finite"),
    "too small": ((5, 1e-30), {}, ValueError, r"sampling_probability must be >= 2\^-64"),
    "bool": ((5, True), {}, TypeError, "sampling_probability must be a number, got bool"),
    "steps": ((5, 0.5), {"steps": 0}, ValueError, "steps must be >= 1"),
    "generator": ((5, 0.5), {"generator": 1}, TypeError, "generator must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    arguments, named, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        PoissonSampler(*arguments, **named)


def test_the_loader_refuses_what_would_choose_batches():
    with pytest.raises(ValueError, match="shuffle must be left out"):
        poisson_loader(Mappings(), 0.5, shuffle=True)
    with pytest.raises(TypeError, match="dataset must have a length, got map"):
        poisson_loader(map(int, "12"), 0.5)
    with pytest.raises(TypeError, match="a batch must have tensors, arrays or lists with a row for each example, got object"):
        poisson_loader(Mappings(), 0.5, collate_fn=lambda examples: object())
    with pytest.raises(TypeError, match="a batch must be of tensors"):
        poisson_loader(Mappings(), 0.5, collate_fn=lambda examples: {"x": torch.ones(len(examples)), "y": object()})


ROWS = torch.utils.data.TensorDataset(torch.arange(24.0).reshape(8, 3), torch.arange(8))


def collated(rows):
    return torch.utils.data.default_collate(rows)


def positions(*rows):
    return lambda examples: {
        "input_ids": torch.ones(len(examples), 6),
        "position_ids": torch.tensor([rows[number % len(rows)] for number in range(len(examples))]),
    }


NO_ROWS = "a batch must have tensors, arrays or lists with a row for each example, got dict"
COLLATORS = {
    "packed": (lambda rows: [part.reshape(1, -1) for part in collated(rows)], "got 1 rows in part 0 of the batch for 3"),
    "two views": (lambda rows: [torch.cat([part, part]) for part in collated(rows)], "got 6 rows in part 0 of the batch for 3"),
    "two labels": (lambda rows: {"x": collated(rows)[0], "y": collated(rows)[1].repeat(2)}, "got 6 rows in 'y' for 3 examples"),
    "two texts": (lambda rows: {"text": ["a"] * 2 * len(rows)}, "got 6 rows in 'text' for 3 examples"),
    "no tensor": (lambda rows: {"count": len(rows)}, NO_ROWS),
    "which sequence": (lambda rows: dict(zip(("x", "seq_idx"), collated(rows))), r"got rows of joined sequences \(seq_idx\)"),
    "positions": (positions([0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 5]), r"got rows of joined sequences \(position_ids\)"),
}


@pytest.mark.parametrize("case", COLLATORS)
def test_a_collate_function_makes_one_row_of_each_example(case):
    made, said = COLLATORS[case]
    with pytest.raises((ValueError, TypeError), match=said):
        poisson_loader(ROWS, 0.5, collate_fn=made)


@pytest.mark.parametrize("collate", [
    list,
    lambda rows: {"x": collated(rows)[0], "ids": [str(int(label)) for _, label in rows], "width": 3},
    lambda rows: {"views": torch.stack([collated(rows)[0]] * 2, 1)},
    positions([0, 0, 0, 1, 2, 3], [1, 1, 1, 0, 1, 2], [0, 1, 2, 0, 0, 0]),     # padded on the left, with 0 and 1, and on the right
])
def test_these_make_one_row_of_each(collate):
    assert len(list(poisson_loader(ROWS, 0.5, steps=5, collate_fn=collate))) == 5
    empty = next(iter(poisson_loader(ROWS, 1e-12, steps=1, collate_fn=collate)))
    assert empty == [] or all(len(rows) == 0 for name, rows in empty.items() if name != "width")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch_that_is_wrong_later_is_refused_when_it_is_made(workers):
    def late(rows):
        return [part[:-1] if len(rows) == 8 else part for part in collated(rows)]

    with pytest.raises(ValueError, match="got 7 rows in part 0 of the batch for 8 examples"):
        list(poisson_loader(ROWS, 1.0, collate_fn=late, num_workers=workers))


def test_a_dataset_gives_one_example_for_each_index():
    class Twice(torch.utils.data.TensorDataset):
        def __getitems__(self, indices):
            return [self[index] for index in indices for _ in range(2)]

    with pytest.raises(ValueError, match="dataset must give one example for each index, got 6 for 3"):
        poisson_loader(Twice(torch.ones(5, 2)), 0.5)
