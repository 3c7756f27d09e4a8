"""`PrivateAverage`: sums of clipped updates, the account of a run, restarts, refusals."""

import json

import numpy as np
import pytest
import torch

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.federated import AdaptiveClip, PrivateAverage, aggregate_updates
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
        assert receipt.epsilon == schedule.as_stated.epsilon(number, 1e-5)
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


# ---- a clip norm that adapts

ADAPTIVE = {"clip_norm": 0.5, "clients": 8.0, "noise_multiplier": 1.0, "delta": 1e-5, "adaptive": AdaptiveClip(count_sigma=2.0)}


def raised_multiplier(z, count_sigma):
    """Of the averages: theorem 1 of Andrew et al. (2021)."""
    return (z**-2 - (2 * count_sigma) ** -2) ** -0.5


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_an_adaptive_round_is_one_noisy_sum_of_rows_with_a_coordinate_beside(kind):
    """Updates cut to C = 0.5 and +-h C beside them, h = 1 / sqrt(15): clipped again, exactly, and noisy as rows of C sqrt(1 + h^2)."""
    updates = [{name: part.astype(kind) for name, part in one.items()} for one in updates_of(9)]
    for place in (0, 4, 5):
        updates[place] = {name: part * kind(0.01) for name, part in updates[place].items()}
    average = PrivateAverage(generator=seeded(2), **ADAPTIVE)
    values, receipt = average.aggregate(updates)
    norms = [np.sqrt(sum((part.astype("float64") ** 2).sum() for part in one.values())) for one in updates]
    assert sum(norm <= 0.5 for norm in norms) == 3
    rows = {name: np.stack([one[name].astype("float64") * min(1, 0.5 / norm) for one, norm in zip(updates, norms)]) for name in values}
    rows["beside"] = np.array([[0.5 * (1 if norm <= 0.5 else -1) / np.sqrt(15)] for norm in norms])
    row_norm = 0.5 * np.sqrt(16 / 15)
    expected = clip_and_noise_gradients(rows, receipt.clip_norm, 1.0, divisor=8.0, generator=seeded(2), clipping="exact")
    assert receipt.clip_norm == pytest.approx(row_norm, rel=1e-12) and receipt.sensitivity == receipt.clip_norm
    assert receipt.sigma == pytest.approx(0.5 * raised_multiplier(1.0, 2.0), rel=1e-12)
    for name, part in values.items():
        assert np.abs(part - expected[name]).max() < 1e-6   # the cut to C is made in another order
    share = 0.5 + float(expected["beside"][0]) * 8 / (2 * 0.5 / np.sqrt(15)) / 8
    assert average.clip_norm == pytest.approx(0.5 * np.exp(-0.2 * (min(max(share, 0), 1) - 0.5)), rel=1e-5)


def test_the_noise_beside_an_adaptive_clip_is_that_of_theorem_1():
    """n = 200,000, sum of squares over (z_delta C / clients)^2, chi-squared; alpha = 1e-6 (4.9 deviations, 1.55 %). z is refused."""
    n = 200_000
    terms = {**ADAPTIVE, "adaptive": AdaptiveClip(count_sigma=1.0)}
    values = PrivateAverage(generator=seeded(5), **terms).aggregate([[np.zeros(n, np.float32)]] * 8).values
    for multiplier, fits in ((raised_multiplier(1.0, 1.0), True), (1.0, False)):
        statistic = float((values[0].astype("float64") ** 2).sum()) / (0.5 * multiplier / 8) ** 2
        assert (abs(statistic - n) <= 4.9 * np.sqrt(2 * n)) == fits


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.8])
def test_the_clip_norm_settles_at_the_quantile(quantile):
    """Norms of 1 to 3, 100 clients, noise of 5 on their number: the mean norm of rounds 51 to 60 is within 0.25 of the quantile's."""
    source = np.random.default_rng(3)
    updates = [[(direction / np.linalg.norm(direction)).astype("float32")] for direction in source.normal(size=(100, 10))]
    updates = [[one * np.float32(1 + 2 * place / 100)] for place, (one,) in enumerate(updates)]
    average = PrivateAverage(
        clip_norm=0.5, clients=100, noise_multiplier=1.0, delta=1e-5, rounds=60, adaptive=AdaptiveClip(quantile=quantile),
        generator=seeded(6),
    )  # fmt: skip
    norms = []
    for _ in range(60):
        receipt = average.aggregate(updates).receipt
        norms.append(average.clip_norm)
    assert abs(np.mean(norms[50:]) - (1 + 2 * quantile)) < 0.25
    assert receipt.epsilon == StepSchedule(noise_multiplier=1.0, sampling_probability=1.0).epsilon(60, 1e-5)


def test_a_restarted_server_keeps_its_adapted_clip(tmp_path):
    def server():
        return PrivateAverage(rounds=4, journal=tmp_path / "rounds", **ADAPTIVE)

    first = server()
    receipt = first.aggregate(updates_of(8, 9.0)).receipt
    assert checked(receipt) == hv.verify_receipt(receipt).status == "holds" and any("follows" in note for note in receipt.notes)
    assert server().clip_norm == first.clip_norm != 0.5 and server().left == 3
    (tmp_path / "rounds.clip").unlink()   # killed before it was written
    again = server()
    assert again.clip_norm == pytest.approx(0.5) and again.left == 3
    (tmp_path / "rounds.clip").write_text("nan")
    with pytest.raises(ValueError, match=r"rounds\.clip: must hold a clip norm: clip_norm must be finite, got nan"):
        server()


def test_torch_updates_and_an_empty_round_with_an_adaptive_clip():
    average = PrivateAverage(rounds=2, adjacency="replace-one", **ADAPTIVE)
    values, receipt = average.aggregate([[torch.ones(3, dtype=torch.bfloat16), torch.ones(2)]] * 4)
    assert [(part.dtype, tuple(part.shape)) for part in values] == [(torch.float32, (3,)), (torch.float32, (2,))]
    assert receipt.sensitivity == 2 * receipt.clip_norm and hv.verify_receipt(receipt).status == "holds"
    assert len(average.aggregate([], like=[torch.ones(3)]).values) == 1


@pytest.mark.parametrize(
    ("terms", "kind", "text"),
    [
        ({"quantile": 1.0}, ValueError, "quantile must be > 0 and < 1, got 1.0"),
        ({"learning_rate": 0}, ValueError, "learning_rate must be > 0, got 0"),
        ({"count_sigma": 0.5}, ValueError, r"count_sigma must be > noise_multiplier / 2 = 0\.5, got 0\.5"),
        (None, TypeError, "adaptive must be a hushvec.training.AdaptiveClip or None, got str"),
    ],
)
def test_adaptive_terms_that_are_refused(terms, kind, text):
    with pytest.raises(kind, match=text):
        PrivateAverage(**{**ADAPTIVE, "adaptive": "yes" if terms is None else AdaptiveClip(**terms)})


def test_an_adaptive_norm_stays_in_range():
    """Updates that are all longer, or all shorter, than any clip norm: it ends where sums can still be made."""
    for size, end in ((1e30, 2.0**20), (0.0, 2.0**-90)):
        terms = {**ADAPTIVE, "adaptive": AdaptiveClip(learning_rate=20.0, count_sigma=0.5), "noise_multiplier": 0.01}
        average = PrivateAverage(rounds=20, **terms)
        for _ in range(20):
            receipt = average.aggregate([[np.full(3, size, np.float32)]] * 8).receipt
        assert receipt.clip_norm == end
