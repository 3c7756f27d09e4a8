"""The solver for noise: granted by the full composition, refused a little below; brackets of costs of many shapes."""

import math

import pytest

from hushvec.training import StepSchedule, noise_multiplier_for
from hushvec.training.noise_multiplier import Bracket, NoCrossingError, closed_in, crossing

pytest.importorskip("dp_accounting")


@pytest.mark.parametrize("clipped, adjacency", [
    ("example", "add-remove"), ("example", "replace-one"), ("batch", "add-remove"), ("batch", "replace-one"),
])
@pytest.mark.parametrize("epsilon, delta, probability, steps", [
    (0.05, 1e-5, 0.1, 20),
    (8.0, 1e-5, 1.0, 10),
    (2.0, 1e-5, 0.05, 100),
    (3.0, 1e-6, 0.3, 1),
    (0.5, 1e-6, 0.004, 30_000),
])
def test_the_answer_is_granted_and_a_little_less_noise_is_not(epsilon, delta, probability, steps, adjacency, clipped):
    found = noise_multiplier_for(epsilon, delta, probability, steps, adjacency, clipped=clipped)

    def cost(multiplier):
        return StepSchedule(
            noise_multiplier=multiplier, sampling_probability=probability, adjacency=adjacency, clipped=clipped
        ).as_stated.epsilon(steps, delta)

    assert cost(found) <= epsilon < cost(found / 1.0001001)


@pytest.mark.parametrize("epsilon", [1e-6, 20.0])
def test_targets_far_from_any_guess_have_an_answer(epsilon):
    """Hardly any privacy lost, where noise is 10^5 clip norms, and hardly any left."""
    found = noise_multiplier_for(epsilon, 1e-5, 0.5, 3)
    schedule = StepSchedule(noise_multiplier=found, sampling_probability=0.5)
    assert schedule.epsilon(3, 1e-5) <= epsilon


def test_a_delta_below_what_grids_leave_out_is_solved_by_other_theorems():
    """Renyi divergences have an answer there, grids none."""
    found = noise_multiplier_for(1e-3, 1e-30, 1e-3, 50)
    schedules = [StepSchedule(noise_multiplier=one, sampling_probability=1e-3) for one in (found, found / 1.0001001)]
    cost = [schedule.as_stated.epsilon(50, 1e-30) for schedule in schedules]
    assert cost[0] <= 1e-3 < cost[1]


@pytest.mark.parametrize("epsilon, delta", [(1e-15, 1e-30), (1e-300, 1e-300)])
def test_a_target_that_takes_too_much_noise_is_said(epsilon, delta):
    with pytest.raises(ValueError, match=rf"epsilon must be large enough for a noise multiplier below 2\^40, got {epsilon}"):
        noise_multiplier_for(epsilon, delta, 0.5, 3)


def test_a_delta_above_the_chance_of_being_sampled_is_refused():
    """Ten steps of 1e-7: 1e-6 is paid for by who is in no batch at all. Just below it there is a smallest noise."""
    with pytest.raises(ValueError, match=r"delta must be < 9.99999550.*e-07, the probability that an example is in any batch"):
        noise_multiplier_for(5.0, 1e-6, 1e-7, 10)
    found = noise_multiplier_for(5.0, 5e-7, 1e-7, 10)
    assert StepSchedule(noise_multiplier=found, sampling_probability=1e-7).epsilon(10, 5e-7) <= 5.0


def test_few_compositions_are_made(monkeypatch):
    """Two at the answer if the guess is good. Each is most of the time that a solution takes."""
    seen = []
    epsilon = StepSchedule.epsilon
    monkeypatch.setattr(StepSchedule, "epsilon", lambda *call: seen.append(call) or epsilon(*call))
    for arguments in ((2.0, 1e-5, 0.02, 300), (1.0, 1e-5, 0.1, 50, "replace-one"), (4.0, 1e-6, 0.005, 1000)):
        seen.clear()
        noise_multiplier_for(*arguments)
        assert len(seen) <= 4


COSTS = {
    "power": lambda x: 3.0 / x**1.5,
    "steep": lambda x: math.expm1(min(1 / x**2, 700.0)),
    "steps": lambda x: 2.0 ** -math.floor(4 * math.log2(x)),
    "infinite below": lambda x: math.inf if x < 0.9 else 1 / (x - 0.8),
    "nothing above": lambda x: 0.0 if x > 1.1 else 5.0,
    "a little rough": lambda x: (1 + 1e-9 * math.sin(1e12 * x)) / x,
}


@pytest.mark.parametrize("guess", [1e-6, 0.9, 1.0, 1e5])
@pytest.mark.parametrize("name", COSTS)
def test_brackets_close_around_the_crossing(name, guess):
    seen = []

    def cost(argument):
        seen.append(argument)
        return COSTS[name](argument)

    bracket = closed_in(cost, 1.7, guess=guess, slope=1.0, tolerance=1e-4, largest=2.0**40)
    assert COSTS[name](bracket.high) <= 1.7 < COSTS[name](bracket.low)
    assert bracket.low < bracket.high <= bracket.low * (1 + 1e-4)
    assert bracket.low in seen and bracket.high in seen and len(seen) < 60


@pytest.mark.parametrize("off", [-2e-5, 2e-5])
def test_a_good_guess_takes_two_trials(off):
    exact, seen = (3.0 / 1.7) ** (1 / 1.5), []
    closed_in(
        lambda x: seen.append(x) or COSTS["power"](x), 1.7, guess=exact * (1 + off), slope=1.5, tolerance=1e-4, largest=2.0**40
    )
    assert len(seen) == 2


def test_a_crossing_that_is_too_far_is_said():
    with pytest.raises(NoCrossingError, match=r"no argument up to 1099511627776.0 costs at most 1e-30"):
        closed_in(lambda x: 1.0, 1e-30, guess=1.0, slope=1.0, tolerance=1e-4, largest=2.0**40)


def test_the_line_through_the_ends():
    assert crossing(Bracket(1.0, 4.0, 4.0, 1.0), 2.0) == pytest.approx(2.0)
    assert crossing(Bracket(1.0, math.inf, 4.0, 1.0), 2.0) == pytest.approx(2.0)
    assert Bracket().slope is None and not Bracket().is_closed

BAD = {
    "epsilon": ((0.0, 1e-5, 0.1, 10), ValueError, "epsilon must be > 0"),
    "delta": ((1.0, 0.0, 0.1, 10), ValueError, "delta must be > 0"),
    "probability": ((1.0, 1e-5, 1.1, 10), ValueError, "sampling_probability must be > 0 and <= 1"),
    "steps": ((1.0, 1e-5, 0.1, 0), ValueError, "steps must be >= 1"),
    "steps kind": ((1.0, 1e-5, 0.1, 2.5), TypeError, "steps must be a whole number"),
    "adjacency": ((1.0, 1e-5, 0.1, 10, "both"), ValueError, "adjacency must be one of"),
    "nan": ((math.nan, 1e-5, 0.1, 10), ValueError, "epsilon must be finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    arguments, kind, text = BAD[case]
    with pytest.raises(kind, match=text):
        noise_multiplier_for(*arguments)
