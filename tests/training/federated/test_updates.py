"""`clip_and_noise_update`: what goes in and comes out, one norm over all arrays, the noise, rounds, budgets, refusals."""

import json
import math

import numpy as np
import pytest
import torch

import hushvec as hv
from hushvec.accounting import compose
from hushvec.errors import AlreadyChargedError, PrivacyBudgetExhaustedError
from hushvec.federated import clip_and_noise_update
from hushvec.release.charging import ChargeOnce
from receipts.forgeries import SCRIPT, module_of
from training.small_runs import seeded

TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5}


def checked(receipt):
    """By the program that shares no code with the library."""
    return module_of(SCRIPT.read_text()).check_receipt(json.loads(receipt.to_json()))[0]


def update_of(scale=1.0, dtype=np.float32):
    source = np.random.default_rng(0)
    shapes = {"weight": (20, 3), "empty": (0, 4), "bias": (20,), "scale": ()}
    return {name: (scale * source.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}


def flat(update):
    return np.concatenate([np.asarray(part).reshape(-1) for part in update.values()])


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("structure", [dict, list, tuple, "array"])
def test_names_shapes_and_dtypes_come_back_and_nothing_is_changed_in_place(structure, dtype):
    given = {name: torch.from_numpy(np.asarray(part)).to(getattr(torch, dtype)) for name, part in update_of().items()}
    given["weight"] = torch.nn.Parameter(given["weight"])
    update = {dict: given, "array": given["bias"]}.get(structure) if structure in (dict, "array") else structure(given.values())
    before = {name: part.clone() for name, part in given.items()}
    values, receipt = clip_and_noise_update(update, **TERMS)
    found = {dict: lambda: list(values.values()), "array": lambda: [values]}.get(structure, lambda: list(values))()
    expected = [given["bias"]] if structure == "array" else list(given.values())
    assert type(values) is type(update) and (structure is not dict or list(values) == list(given))
    assert [(part.shape, part.dtype) for part in found] == [(part.shape, part.dtype) for part in expected]
    assert all(torch.equal(part, before[name]) for name, part in given.items())
    assert receipt.dtype == dtype and receipt.dimension == sum(part.numel() for part in expected)


@pytest.mark.parametrize("scale", [0.01, 5.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_one_norm_over_all_arrays(dtype, scale):
    """The bits are those of `clip_and_noise` of all elements as one row."""
    update = update_of(scale, dtype)
    values, receipt = clip_and_noise_update(update, generator=seeded(3), **TERMS)
    expected = hv.clip_and_noise(flat(update), 1.0, receipt.sigma, generator=seeded(3))
    assert flat(values).tobytes() == expected.tobytes() and receipt.sensitivity == 2.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_parts_of_any_lengths_and_strides_are_one_row(dtype):
    """More than one thread takes: odd lengths, none, every other element, a transposed matrix, a scalar."""
    source = torch.from_numpy(np.random.default_rng(1).standard_normal(700_001)).to(getattr(torch, dtype))
    parts = [source[:1], source[:0], source[1:300_002], source[::2], source[:299_997].reshape(3, -1).t(), source[5], source[7:84]]
    joined = torch.cat([part.reshape(-1) for part in parts])
    values, receipt = clip_and_noise_update(parts, generator=seeded(3), **TERMS)
    expected = hv.clip_and_noise(joined, 1.0, receipt.sigma, generator=seeded(3))
    assert torch.equal(torch.cat([part.reshape(-1) for part in values]), expected)


def test_mixed_dtypes_are_drawn_in_one_that_holds_them_all():
    update = {"a": np.full(4, 3, np.float16), "b": np.full(5, 2, np.float32)}
    values, receipt = clip_and_noise_update(update, generator=seeded(1), **TERMS)
    joined = flat({name: part.astype(np.float32) for name, part in update.items()})
    expected = hv.clip_and_noise(joined, 1.0, receipt.sigma, generator=seeded(1))
    assert receipt.dtype == "float32" and values["a"].dtype == np.float16 and values["b"].dtype == np.float32
    assert values["a"].tobytes() == expected[:4].astype(np.float16).tobytes() and values["b"].tobytes() == expected[4:].tobytes()
    wide = clip_and_noise_update({**update, "c": np.ones(2)}, **TERMS)
    assert wide.receipt.dtype == "float64" and wide.values["c"].dtype == np.float64


def test_float16_among_others_saturates():
    update = {"half": np.zeros(1000, np.float16), "rest": np.zeros(2, np.float32)}
    values = clip_and_noise_update(update, clip_norm=1e5, noise_multiplier=10.0, delta=1e-5).values
    assert np.isfinite(values["half"]).all() and np.abs(values["half"]).max() == 65504


@pytest.mark.parametrize("wrong", [1.0, 0.99, 1.01])
def test_the_noise_has_the_sigma_of_the_receipt(wrong):
    """n = 10^6 elements, the sum of squares over sigma^2, chi-squared with standard deviation 1.4e-3 relative; alpha = 1e-6 (4.9
    standard deviations). One per cent of sigma is 14 of them."""
    n = 10**6
    values, receipt = clip_and_noise_update({"a": np.zeros(n // 2), "b": np.zeros(n // 2)}, generator=seeded(7), **TERMS)
    statistic = float(sum((part**2).sum() for part in values.values())) / (wrong * receipt.sigma) ** 2
    assert (abs(statistic - n) <= 4.9 * math.sqrt(2 * n)) == (wrong == 1.0)


@pytest.mark.parametrize("rounds", [1, 2, 10, 1000])
def test_epsilon_is_that_of_all_rounds_together(rounds):
    receipt = clip_and_noise_update(update_of(), rounds=rounds, **TERMS).receipt
    assert hv.verify_receipt(receipt).status == checked(receipt) == "holds" and receipt.is_dp_claim
    together = compose([(receipt.loss, rounds)], delta=1e-5).epsilon
    assert 8.0 * (1 - 1e-3) < together <= 8.0 < compose([(receipt.loss, rounds + 1)], delta=1e-5).epsilon
    assert compose([receipt] * min(rounds, 10), delta=1e-5).epsilon <= 8.0


def test_a_noise_multiplier_in_place_of_epsilon():
    receipt = clip_and_noise_update(update_of(), clip_norm=0.5, noise_multiplier=3.0, delta=1e-5, rounds=4).receipt
    assert receipt.sigma == 1.5 and receipt.sensitivity == 1.0
    assert receipt.epsilon == pytest.approx(float(hv.gaussian_epsilon(1e-5, 1.5, 1.0)), rel=1e-9)
    together = compose([(receipt.loss, 4)], delta=1e-5).epsilon
    assert f"one of 4 rounds with this noise, which are ({together!r}, 1e-05)-DP together" in receipt.notes


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("noise", [{"epsilon": 8.0}, {"noise_multiplier": 3.0}])
def test_what_the_notes_say(noise, rounds):
    """Of how many rounds it is one, if there are several, and that the caller chose sigma, if no epsilon did."""
    receipt = clip_and_noise_update({"a": np.ones(2), "b": np.ones(1)}, clip_norm=1.0, delta=1e-5, rounds=rounds, **noise).receipt
    together = 8.0 if "epsilon" in noise else compose([(receipt.loss, rounds)], delta=1e-5).epsilon
    assert receipt.notes == (
        *["sigma was chosen by the caller; epsilon is what it buys at this delta"] * ("epsilon" not in noise),
        "the row is the whole update of one client, clipped by one norm over its 2 arrays, in this order",
        *[f"one of 2 rounds with this noise, which are ({together!r}, 1e-05)-DP together"] * (rounds == 2),
    )


def test_a_budget_in_rho_pays_for_as_many_rounds():
    one = clip_and_noise_update(update_of(), rounds=5, **TERMS).receipt
    budget = hv.PrivacyBudget(max_rho=5 * one.rho * (1 + 1e-12))
    receipts = [clip_and_noise_update(update_of(), rounds=5, budget=budget, **TERMS).receipt for _ in range(5)]
    assert hv.verify_charges(receipts, budget.export()).status == "holds"
    before = budget.consumed()
    with pytest.raises(PrivacyBudgetExhaustedError):
        clip_and_noise_update(update_of(), rounds=5, budget=budget, **TERMS)
    assert budget.consumed() == before and budget.state().rows == 6


def test_a_round_that_was_charged_is_not_drawn_again():
    budget = hv.PrivacyBudget(max_rho=10.0)
    clip_and_noise_update(update_of(), rounds=5, budget=ChargeOnce(budget, "run 1, round 3"), **TERMS)
    with pytest.raises(AlreadyChargedError):
        clip_and_noise_update(update_of(), rounds=5, budget=ChargeOnce(budget, "run 1, round 3"), **TERMS)


class TestRefused:
    """Before anything is charged or drawn."""

    @pytest.mark.parametrize("charged", [False, True])
    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_values_that_are_not_finite(self, value, charged):
        budget = hv.PrivacyBudget(max_epsilon=100.0) if charged else None
        update = update_of()
        update["bias"][7] = value
        with pytest.raises(ValueError, match=r"update\['bias'\] must be finite, got .* in row 0"):
            clip_and_noise_update(update, budget=budget, **TERMS)
        assert budget is None or budget.consumed() == 0.0

    @pytest.mark.parametrize(
        ("update", "kind", "text"),
        [
            ({}, ValueError, "update must hold at least 1 array, got none"),
            ({"a": np.zeros((0, 3))}, ValueError, "update must have at least 1 element, got 0"),
            ({"a": np.zeros(3, np.int64)}, TypeError, r"update\['a'\] must be float32 or .*, got int64"),
            ([np.zeros(3), torch.zeros(3)], TypeError, r"update\[1\] must be of the kind of update\[0\]"),
            ([[1.0, 2.0]], TypeError, r"update\[0\] must be a numpy array or a torch tensor, got list"),
        ],
    )
    def test_other_updates(self, update, kind, text):
        with pytest.raises(kind, match=text):
            clip_and_noise_update(update, **TERMS)

    @pytest.mark.parametrize(
        ("changed", "kind", "text"),
        [
            ({"epsilon": None}, TypeError, "epsilon or noise_multiplier must be given, got neither"),
            ({"noise_multiplier": 1.0}, TypeError, "epsilon or noise_multiplier must be given, got both"),
            ({"epsilon": 0.0}, ValueError, "epsilon must be > 0, got 0.0"),
            ({"delta": 0.0}, ValueError, "delta must be > 0 and < 1, got 0.0"),
            ({"clip_norm": 0.0}, ValueError, "clip_norm must be"),
            ({"rounds": 0}, ValueError, "rounds must be >= 1, got 0"),
            ({"epsilon": None, "noise_multiplier": 0.0}, ValueError, "noise_multiplier must be > 0, got 0.0"),
        ],
    )
    def test_other_terms(self, changed, kind, text):
        budget = hv.PrivacyBudget(max_epsilon=100.0)
        with pytest.raises(kind, match=text):
            clip_and_noise_update(update_of(), budget=budget, **{**TERMS, **changed})
        assert budget.consumed() == 0.0

    def test_a_seeded_key_with_a_budget(self):
        with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
            clip_and_noise_update(update_of(), budget=hv.PrivacyBudget(max_epsilon=100.0), generator=seeded(), **TERMS)
        assert not clip_and_noise_update(update_of(), generator=seeded(), **TERMS).receipt.is_dp_claim
