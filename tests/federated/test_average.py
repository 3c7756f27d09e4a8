"""`PrivateAverage`: sums of clipped updates, the account of a run, restarts, refusals."""

import json

import numpy as np
import pytest
import torch

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.federated import PrivateAverage, aggregate_updates
from hushvec.training import PoissonSampler, StepSchedule, clip_and_noise_gradients
from receipts.forgeries import SCRIPT, module_of
from training.small_runs import seeded

TERMS = {"clip_norm": 1.0, "clients": 8.0, "epsilon": 4.0, "delta": 1e-5}


def checked(receipt):
    """By the program that shares no code with the library."""
    return module_of(SCRIPT.read_text()).check_receipt(json.loads(receipt.to_json()))[0]


def updates_of(count, scale=1.0):
    source = np.random.default_rng(1)
    return [
        {name: (scale * source.standard_normal(shape)).astype(np.float32) for name, shape in (("w", (6, 3)), ("b", (6,)), ("s", ()))}
        for _ in range(count)
    ]


@pytest.mark.parametrize("scale", [0.01, 5.0])
def test_the_bits_are_those_of_one_noisy_sum_of_clipped_updates(scale):
    """One norm over all arrays of a client, noise once, in any order and from a generator."""
    updates = updates_of(9, scale)
    average = PrivateAverage(generator=seeded(2), **TERMS)
    values, receipt = average.aggregate(one for one in reversed(updates))
    stacked = {name: np.stack([one[name] for one in updates]) for name in updates[0]}
    expected = clip_and_noise_gradients(stacked, 1.0, receipt.noise_multiplier, divisor=8.0, generator=seeded(2))
    assert list(values) == ["w", "b", "s"]
    assert all(values[name].tobytes() == expected[name].tobytes() for name in values)


def test_torch_updates_give_torch_values():
    updates = [[torch.ones(3, dtype=torch.bfloat16), torch.nn.Parameter(torch.ones(2))] for _ in range(4)]
    values, _ = aggregate_updates(updates, **TERMS)
    assert [(type(part), part.dtype, tuple(part.shape)) for part in values] == [
        (torch.Tensor, torch.float32, (3,)), (torch.Tensor, torch.float32, (2,))
    ]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("probability", [1.0, 0.25])
def test_the_receipt_is_of_all_rounds_so_far(adjacency, probability):
    average = PrivateAverage(rounds=3, adjacency=adjacency, sampling_probability=probability, **TERMS)
    for number in (1, 2, 3):
        receipt = average.aggregate(updates_of(2)).receipt
        schedule = StepSchedule(
            noise_multiplier=receipt.noise_multiplier, sampling_probability=probability, adjacency=adjacency
        )
        assert receipt.steps == average.rounds_released == number
        assert receipt.epsilon == schedule.epsilon(number, 1e-5)
        assert hv.verify_receipt(receipt).status == "holds"
        assert probability < 1 or checked(receipt) == "holds"   # which takes 8 s a receipt of sampled rounds
    assert 4.0 * (1 - 1e-3) < receipt.epsilon <= 4.0 and receipt.planned_steps == 3
    assert receipt.sensitivity == (1.0 if adjacency == "add-remove" else 2.0)
    with pytest.raises(PrivacyBudgetExhaustedError):
        average.aggregate(updates_of(2))


def test_clients_of_the_sampler_are_in_the_receipt():
    average = PrivateAverage(rounds=3, sampling_probability=0.25, **TERMS)
    updates = updates_of(32)
    for chosen in PoissonSampler(32, 0.25, steps=3):
        receipt = average.aggregate([updates[place] for place in chosen], like=updates[0]).receipt
    assert receipt.samples is not None and sum(one.last - one.first + 1 for one in receipt.samples) == 3


def test_a_round_without_clients_is_noise():
    like = updates_of(1)[0]
    values, receipt = PrivateAverage(sampling_probability=0.5, **TERMS).aggregate([], like=like)
    assert {name: part.shape for name, part in values.items()} == {name: part.shape for name, part in like.items()}
    assert all(part.any() for part in values.values()) and receipt.steps == 1
    with pytest.raises(ValueError, match="updates must hold at least 1 update, or like be given, got none"):
        PrivateAverage(**TERMS).aggregate([])


def test_a_restarted_server_goes_on_and_pays_once(tmp_path):
    budget = hv.PrivacyBudget(max_epsilon=5.0)

    def server():
        return PrivateAverage(rounds=3, budget=budget, journal=tmp_path / "rounds", **TERMS)

    first = server()
    first.aggregate(updates_of(2))
    assert budget.consumed() == pytest.approx(4.0, rel=1e-3)
    second = server()
    assert second.rounds_released == 1
    second.aggregate(updates_of(2))
    receipt = second.aggregate(updates_of(2)).receipt
    assert receipt.steps == 3 and budget.state().rows == 2 and hv.verify_charges([receipt], budget.export()).status == "holds"
    for spent in (second, server()):
        with pytest.raises(PrivacyBudgetExhaustedError):
            spent.aggregate(updates_of(2))


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        ({"b": np.full(6, np.nan, np.float32)}, ValueError, r"updates\[1\]\['b'\] must be finite, got nan in row 0"),
        ({"b": np.zeros(5, np.float32)}, ValueError, r"updates\[1\] must have the names and shapes .*\('b', 6\).*, got .*\('b', 5\)"),
        ({"c": np.zeros(5, np.float32)}, ValueError, r"updates\[1\] must have the names and shapes .*\('s',\)\], got .*\('c', 5\)"),
        ({"b": np.zeros(6, np.int32)}, TypeError, r"updates\[1\]\['b'\] must be float32 or .*, got int32"),
    ],
)
def test_an_update_that_is_refused_costs_nothing(changed, kind, text):
    budget = hv.PrivacyBudget(max_epsilon=5.0)
    average = PrivateAverage(budget=budget, **TERMS)
    good = updates_of(2)
    with pytest.raises(kind, match=text):
        average.aggregate([good[0], {**good[1], **changed}])
    assert budget.consumed() == 0.0 and average.rounds_released == 0
    average.aggregate(good)


@pytest.mark.parametrize(
    ("changed", "kind", "text"),
    [
        ({"epsilon": None}, TypeError, "epsilon or noise_multiplier must be given, got neither"),
        ({"clients": 0}, ValueError, "clients must be > 0, got 0"),
        ({"sampling_probability": 2.0}, ValueError, "sampling_probability must be"),
        ({"adjacency": "local"}, ValueError, "adjacency must be"),
        ({"clip_norm": 2.0**21}, ValueError, r"clip_norm must be <= 2\^20"),
        ({"rounds": 0}, ValueError, "rounds must be >= 1, got 0"),
    ],
)
def test_terms_that_are_refused(changed, kind, text):
    with pytest.raises(kind, match=text):
        PrivateAverage(**{**TERMS, **changed})
