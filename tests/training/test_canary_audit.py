"""The one-run audit of training: runs with DP stay under their epsilon, runs without it and broken ones do not.

A linear model with a canary for each of its directions: what each canary does to the weights is seen without the others, which is
nearly the worst case. 400 canaries, confidence 1 - 1e-6 for runs that must not be flagged, 0.999 for those that must be.
"""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hushvec import Generator  # noqa: E402
from hushvec.training import audit_training  # noqa: E402
from hushvec.training.ghost import GhostClipping  # noqa: E402

CANARIES = 400
DELTA = 1e-10
STEPS, PROBABILITY = 8, 0.5
CLIP_NORM = 1.0
NOISE_MULTIPLIER = 8.0
TARGET = 1000.0  # far from what a step can reach, so that gradients keep their signs


def examples(included):
    """The canaries that are in, with targets that a model at zero is far from."""
    rows = np.flatnonzero(included)
    inputs = torch.zeros(len(rows), CANARIES)
    inputs[torch.arange(len(rows)), torch.from_numpy(rows)] = 1.0
    return inputs


def run(step_of):
    """What audit_training calls: trains, and returns the weights."""

    def train(included):
        inputs = examples(included)
        model = torch.nn.Linear(CANARIES, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        step = step_of(model)
        sampled = np.random.default_rng(int(included[:30].dot(1 << np.arange(30))))
        for _ in range(STEPS):
            kept = torch.from_numpy(sampled.random(len(inputs)) < PROBABILITY)
            step(inputs[kept])
        return model.weight.detach()[0]

    return train


def losses_of(model, inputs):
    return (TARGET - model(inputs)[:, 0]).square()


def private(noise_multiplier, seed=5):
    """DP-SGD with ghost clipping and our optimizer."""
    from hushvec.training import Account, DPOptimizer

    def step_of(model):
        expected = CANARIES * PROBABILITY
        optimizer = DPOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0),
            clip_norm=CLIP_NORM,
            noise_multiplier=noise_multiplier,
            expected_batch_size=expected,
            sampling_probability=PROBABILITY,
            account=Account(generator=Generator.unsafe_seeded(seed)),
            delta=DELTA,
        )
        ghost = GhostClipping(model, CLIP_NORM, check=False)

        def step(inputs):
            optimizer.zero_grad()
            ghost.backward(losses_of(model, inputs))
            optimizer.step()

        return step

    return step_of


def ordinary(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(inputs):
        optimizer.zero_grad()
        losses_of(model, inputs).mean().backward()
        optimizer.step()

    return step


def batch_level(noise_multiplier):
    """Clips the mean gradient of the batch, adds the noise that clipped examples would need, and posts it as DP-SGD."""

    def step_of(model):
        noise = torch.Generator().manual_seed(1)

        def step(inputs):
            model.zero_grad()
            losses_of(model, inputs).mean().backward()
            gradient = model.weight.grad
            gradient *= min(1.0, CLIP_NORM / float(gradient.norm()))
            sigma = noise_multiplier * CLIP_NORM / (CANARIES * PROBABILITY)
            with torch.no_grad():
                model.weight -= gradient + sigma * torch.randn(gradient.shape, generator=noise)

        return step

    return step_of


def audited(step_of, epsilon, *, confidence, coins=3):
    return audit_training(
        run(step_of),
        lambda weights: weights.double().numpy(),
        canaries=CANARIES,
        epsilon=epsilon,
        delta=DELTA,
        confidence=confidence,
        coins=np.random.default_rng(coins),
    )


@pytest.fixture(scope="module")
def epsilon():
    """What the schedule costs: about 1."""
    from hushvec.training import StepSchedule

    return StepSchedule(noise_multiplier=NOISE_MULTIPLIER, sampling_probability=PROBABILITY).epsilon(STEPS, DELTA)


def test_dp_stays_under_its_epsilon(epsilon):
    result = audited(private(NOISE_MULTIPLIER), epsilon, confidence=1 - 1e-6)
    assert result.could_flag and not result.flagged
    assert result.epsilon_lower <= epsilon < 2


def test_without_dp_it_is_exceeded(epsilon):
    result = audited(ordinary, epsilon, confidence=0.999)
    assert result.flagged and result.epsilon_lower > 2 * epsilon


def test_batch_level_clipping_that_poses_as_per_example_is_caught(epsilon):
    result = audited(batch_level(NOISE_MULTIPLIER), epsilon, confidence=0.999)
    assert result.flagged and result.epsilon_lower > 1.5 * epsilon


def test_noise_of_a_tenth_is_caught(epsilon):
    """The same code as the run that is not flagged, with less noise than it claims."""
    assert audited(private(NOISE_MULTIPLIER / 10), epsilon, confidence=0.999).flagged


def test_false_alarms_are_as_rare_as_stated():
    """Scores that randomise each coin at exactly epsilon, which the bound is tight for: 60 audits at confidence 0.9.

    Each is a false alarm with probability at most 0.1; more than 20 of 60 are with probability below 1e-6.
    """
    drawn = np.random.default_rng(11)
    keep = math.e / (1 + math.e)

    def alarms(keep):
        return sum(
            audit_training(
                lambda given: given ^ (drawn.random(len(given)) > keep),
                lambda model: model + 1e-3 * drawn.random(len(model)),
                canaries=100,
                epsilon=1.0,
                delta=0.0,
                confidence=0.9,
                coins=drawn,
            ).flagged
            for _ in range(60)
        )

    assert alarms(keep) <= 20
    assert alarms(1 - (1 - keep) / 2) > 20  # twice as few lies: a law of another epsilon


def leaks(given):
    return given.astype(float)


BAD = [
    (dict(canaries=31), ValueError, "canaries must be >= 32, got 31"),
    (dict(canaries=True), TypeError, "canaries must be a whole number"),
    (dict(epsilon=-1.0), ValueError, "epsilon must be >= 0"),
    (dict(epsilon=float("nan")), ValueError, "epsilon must be finite"),
    (dict(delta=1.0), ValueError, "delta must be > 0 and < 1"),
    (dict(confidence=1.0), ValueError, "confidence must be"),
    (dict(score=lambda model: model[:-1]), ValueError, "scores must be one for each of 64 canaries, got shape"),
    (dict(score=lambda model: model * float("inf")), ValueError, "scores must be finite"),
    (dict(score=lambda model: ["a"] * 64), TypeError, "scores must be numbers"),
    (dict(train=3), TypeError, "train must be callable, got int"),
]


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("change, error, said", BAD)
def test_bad_input(change, error, said):
    given = dict(train=leaks, score=lambda model: model, canaries=64, epsilon=1.0, delta=0.0) | change
    with pytest.raises(error, match=said):
        audit_training(given.pop("train"), given.pop("score"), **given)


def test_a_run_without_a_claim():
    result = audit_training(leaks, lambda model: model, canaries=64, epsilon=math.inf, delta=0.0)
    assert result.epsilon_lower > 0 and not result.flagged and not result.could_flag
    assert result.details["tried"][1] == {**result.details["tried"][1], "guesses": 32, "right": 32}


def test_training_cannot_change_the_coins():
    """It gets a copy of them."""

    def train(given):
        kept = given.copy()
        given[:] = True
        return kept

    assert audit_training(train, lambda model: model, canaries=64, epsilon=1.0, delta=0.0).details["tried"][1]["right"] == 32
