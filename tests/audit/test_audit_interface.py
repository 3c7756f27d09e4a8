"""What goes in and what comes out: refusals, results, targets of one's own, progress."""

import json
import math

import numpy as np
import pytest

import hushvec as hv
from audit import samplers
from audit.samplers import seeds
from hushvec.audit import (
    METHODS,
    AuditTarget,
    LabelTarget,
    MechanismTarget,
    audit_mechanism,
    audit_one_run,
    audit_pair,
    audit_repeats,
)
from hushvec.audit.targets import trained, untrained
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian

MECHANISM = Laplacian(epsilon=1.0, dimension=2)


@pytest.mark.parametrize("audit", [audit_pair, audit_one_run, audit_repeats, audit_mechanism])
@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (dict(samples=999), ValueError, "samples must be >= 1000, got 999"),
        (dict(samples=-1), ValueError, "samples must be >= 1000, got -1"),
        (dict(samples=2000.0), TypeError, "samples must be a whole number, got float"),
        (dict(samples=True), TypeError, "samples must be a whole number, got bool"),
        (dict(confidence=0.0), ValueError, "confidence must be > 0 and < 1, got 0.0"),
        (dict(confidence=1.0), ValueError, "confidence must be > 0 and < 1, got 1.0"),
        (dict(confidence=math.nan), ValueError, "confidence must be finite, got nan"),
        (dict(confidence="0.9"), TypeError, "confidence must be a number, got str"),
        (dict(confidence=True), TypeError, "confidence must be a number, got bool"),
    ],
)
def test_bad_arguments(audit, arguments, kind, text):
    with pytest.raises(kind) as refused:
        audit(MECHANISM, **arguments)
    assert str(refused.value) == text


def test_unknown_method():
    with pytest.raises(ValueError, match="method must be one of 'pair', 'one-run', 'repeats', 'all', got 'two'"):
        audit_mechanism(MECHANISM, method="two")


@pytest.mark.parametrize("audit", [audit_pair, audit_one_run, audit_repeats, audit_mechanism])
def test_what_is_no_mechanism(audit):
    with pytest.raises(TypeError, match="mechanism must have apply, cost, name, dimension, got str"):
        audit("gaussian")


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        (dict(labels=1, epsilon=1.0), ValueError, "labels must be >= 2, got 1"),
        (dict(labels=2.5, epsilon=1.0), TypeError, "labels must be a whole number, got float"),
        (dict(labels=3, epsilon=0.0), ValueError, "epsilon must be > 0, got 0.0"),
        (dict(labels=3, epsilon=math.nan), ValueError, "epsilon must be finite, got nan"),
    ],
)
def test_bad_label_targets(arguments, kind, text):
    with pytest.raises(kind) as refused:
        LabelTarget(lambda truth, generator: truth, **arguments)
    assert str(refused.value) == text


def test_results_are_json():
    found = audit_mechanism(MECHANISM, samples=5000).to_dict()
    read = json.loads(json.dumps(found, allow_nan=False))
    assert read["flagged"] is False
    assert [result["method"] for result in read["results"]] == list(METHODS[:3])
    pair = read["results"][0]
    assert pair["mechanism"] == "laplacian"
    assert (pair["epsilon_claimed"], pair["delta"]) == (1.0, 0.0)
    assert pair["could_flag"] is True
    assert set(pair["details"]["statistics"]) == {"log ratio", "projection", "norm", "classifier"}
    assert max(tried["epsilon_lower"] for tried in pair["details"]["statistics"].values()) == pair["epsilon_lower"]


def test_one_method_alone_gets_all_the_confidence():
    (alone,) = audit_mechanism(MECHANISM, samples=5000, confidence=0.9, method="pair").results
    assert alone.confidence == pytest.approx(0.9)
    assert {result.confidence for result in audit_mechanism(MECHANISM, samples=5000, confidence=0.7).results} == {0.9}


def test_the_bound_of_a_transparent_mechanism_is_the_ceiling():
    """Outputs that give the input away: nothing better can be seen with this many samples."""
    target = LabelTarget(lambda truth, generator: truth, labels=2, epsilon=1.0)
    for audit in (audit_pair, audit_one_run):
        found = audit(target, samples=10_000)
        assert found.flagged
        assert found.epsilon_lower == found.epsilon_ceiling


def test_few_samples_cannot_refute_a_large_epsilon():
    found = audit_pair(Laplacian(epsilon=20.0, dimension=1), samples=2000)
    assert not found.could_flag
    assert found.epsilon_ceiling < math.log(2000)


def test_progress_counts_every_row():
    seen = []
    audit_mechanism(MECHANISM, samples=3000, progress=seen.append)
    assert sum(seen) == (2 + 1 + 4) * 3000


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(epsilon=1.0, dimension=3, clip_norm=1.5, rows_per_person=2),
        EmpiricalGaussian(chosen_sigma=0.7, dimension=3),
        Laplacian(epsilon=1.0, dimension=3, clip_norm=1.5, rows_per_person=2),
        L2Laplace(epsilon=1.0, dimension=3, clip_norm=1.5, rows_per_person=2),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_log_ratios_are_those_of_the_densities(mechanism):
    """Against densities written out, at outputs around both inputs."""
    target = MechanismTarget(mechanism, seeds(41))
    d, r = mechanism.dimension, mechanism.rows_per_person
    y = np.random.default_rng(41).normal(scale=2.0, size=(50, r * d))
    centre = np.full(r * d, mechanism.clip_norm / math.sqrt(d))

    def log_density(at):
        z = (y - at).reshape(50, r, d)
        if mechanism.law == "gaussian":
            return -(z**2).sum(axis=(1, 2)) / (2 * mechanism.noise_parameter**2)
        if mechanism.law == "laplacian":
            return -np.abs(z).sum(axis=(1, 2)) / mechanism.noise_parameter
        return -np.linalg.norm(z, axis=2).sum(axis=1) / mechanism.noise_parameter

    found = target.log_ratio(y)
    assert found == pytest.approx(log_density(centre) - log_density(-centre))
    if target.delta == 0:
        assert np.abs(found).max() <= target.epsilon * (1 + 1e-6)


def test_the_pair_is_clipped_to_the_farthest_points():
    """What the mechanism sees of the pair: norm C, distance 2C in L2 and 2C sqrt(d) in L1."""
    mechanism = Laplacian(epsilon=1.0, dimension=16, clip_norm=1.5)
    first, second = (hv.clip(x, 1.5) for x in MechanismTarget(mechanism).pair)
    assert np.linalg.norm(first) == pytest.approx(1.5, rel=1e-5)
    assert np.linalg.norm(first - second) == pytest.approx(3.0, rel=1e-5)
    assert np.abs(first - second).sum() == pytest.approx(mechanism.sensitivity, rel=1e-5)


def test_no_collision_probability_for_an_unknown_law():
    class Triangular(Laplacian):
        law = "triangular"

    assert MechanismTarget(Triangular(epsilon=1.0, dimension=1)).collision is None


def test_collision_probability_is_an_upper_bound():
    """Laplace in one dimension: 200,000 pairs of outputs, 5 standard errors; about 1 in 32 is equal."""
    target = MechanismTarget(Laplacian(epsilon=1.0, dimension=1), lambda: hv.Generator.unsafe_seeded(42, format_version=3))
    release, n = target.stream(), 200_000
    first, second = (release(np.tile(target.pair[0], (n, 1))) for _ in range(2))
    share = np.mean(first == second)
    assert 0.25 * target.collision < share < target.collision + 5 * math.sqrt(target.collision / n)


class CoinTarget:
    """A target without a law, a collision probability or a mechanism: one bit, told with probability 0.8."""

    name = "coin"
    epsilon = math.log(4)
    delta = 0.0
    categorical = False
    collision = None
    pair = (np.array([1.0], np.float32), np.array([-1.0], np.float32))

    def stream(self):
        generator = hv.Generator.unsafe_seeded(43)

        def release(inputs):
            return np.where(samplers.numpy_generator(generator).random(inputs.shape) < 0.8, inputs, -inputs)

        return release

    def log_ratio(self, outputs):
        return None


def test_a_target_of_ones_own():
    target = CoinTarget()
    assert isinstance(target, AuditTarget)
    for audit in (audit_pair, audit_one_run):
        found = audit(target, samples=50_000)
        assert 0.95 * target.epsilon < found.epsilon_lower <= target.epsilon
        assert found.statistic != "log ratio"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("audit", [audit_pair, audit_one_run])
def test_outputs_that_are_not_finite(audit, bad):
    class Overflowing(Laplacian):
        def apply(self, x, out, generator):
            super().apply(x, out, generator)
            out[-1, -1] = bad

    with pytest.raises(ValueError, match="outputs of laplacian must be finite, got NaN or Inf"):
        audit(Overflowing(epsilon=1.0, dimension=2), samples=1000)


def test_statistics_by_target():
    vectors = MechanismTarget(MECHANISM, seeds(44))
    rows = np.random.default_rng(44).normal(size=(200, 2))
    assert [statistic.name for statistic in untrained(vectors)] == ["log ratio", "projection"]
    assert [statistic.name for statistic in trained(vectors, rows, rows + 1)] == ["log ratio", "projection", "norm", "classifier"]
    labels = samplers.randomized_response(1.0, 3, seeds(44))
    outputs = np.random.default_rng(44).integers(0, 3, (200, 1))
    assert [statistic.name for statistic in trained(labels, outputs, outputs)] == ["log ratio", "label frequency"]


def test_labels_never_seen_in_training_have_no_weight():
    labels = samplers.randomized_response(1.0, 10, seeds(45))
    frequency = trained(labels, np.zeros((50, 1), int), np.ones((50, 1), int))[1]
    assert frequency.of(np.array([[0], [1], [7]])) == pytest.approx([math.log(50.5 / 0.5), -math.log(50.5 / 0.5), 0.0])


def test_repeats_of_a_target_without_collisions_known():
    found = audit_repeats(CoinTarget(), samples=1000)
    assert found.flagged  # it opens the same stream every time
    assert not any(name.startswith("equality") for name in found.details["p_values"])
