"""Metric differential privacy: a type that cannot be mistaken for an epsilon, and a mechanism whose loss grows with distance.

Statistics, alpha = 1e-6 each: Kolmogorov-Smirnov of the noise radius against Gamma(d, 1/epsilon), n = 20,000 rows; Clopper-Pearson
lower bounds of the privacy loss on half spaces, n = 200,000 releases of each of two inputs.
"""

import copy
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from scipy import special, stats

import hushvec as hv
from evidence.reference import checks
from hushvec.mechanisms import L2Laplace, MetricEpsilon, MetricLaplace

ALPHA = 1e-6


# ---- the type ----


OTHERS = [1.0, 1, True, np.float64(1.0), np.float32(1.0), np.ones(2), np.ones(0), (1.0, 1e-5), (1.0,), "1", None]


@pytest.mark.parametrize("other", OTHERS)
def test_nothing_else_can_be_added_or_compared(other):
    loss = MetricEpsilon(1.0)
    for operation in (
        lambda: loss + other,
        lambda: other + loss,
        lambda: loss == other,
        lambda: other == loss,
        lambda: loss != other,
        lambda: loss < other,
        lambda: loss <= other,
        lambda: loss > other,
        lambda: loss >= other,
        lambda: other < loss,
    ):
        with pytest.raises(TypeError, match=r"a metric epsilon \(unit 1/distance\) cannot be (added to|compared with)"):
            operation()


def test_the_error_says_what_the_other_was():
    loss = MetricEpsilon(1.0)
    for other, told in [((1.0, 1e-5), "a pair \\(epsilon, delta\\)"), (2.0, "a plain number, 2.0"), ("x", "of type str")]:
        with pytest.raises(TypeError, match=told):
            loss + other
    with pytest.raises(TypeError, match="cannot be added"):
        sum([loss, loss])
    with pytest.raises(TypeError):
        float(loss)
    with pytest.raises(TypeError):
        loss * 2


def test_it_is_no_epsilon_for_anything_else():
    loss = MetricEpsilon(8.0)
    with pytest.raises(TypeError, match="epsilon must be a number, got MetricEpsilon"):
        L2Laplace(epsilon=loss, dimension=4)
    with pytest.raises(TypeError, match="epsilon must be a number, got MetricEpsilon"):
        hv.privatize(np.ones(4), epsilon=loss, mechanism="laplacian")


def test_a_privacy_loss_is_refused_too():
    from hushvec import accounting

    loss = MetricEpsilon(1.0)
    with pytest.raises(TypeError, match="cannot be compared with an object of type PureDP"):
        loss == accounting.PureDP(epsilon=1.0)  # noqa: B015
    with pytest.raises(TypeError):
        accounting.compose([loss, accounting.PureDP(epsilon=1.0)], delta=1e-5)


def test_metric_epsilons_go_together():
    one, two = MetricEpsilon(1.0), MetricEpsilon(2.0)
    assert one + one == two and one != two and one < two and one <= two and two > one and two >= one
    assert MetricEpsilon.compose([one, two, one]) == MetricEpsilon(4.0)
    assert len({one, MetricEpsilon(1), two}) == 2
    assert hash(one) != hash(1.0)


@pytest.mark.parametrize("values", [[0.1] * 10, [1e16, 1.0, 1.0], [1e-300, 1.0], [3.0, 1 / 3]])
def test_sums_are_never_too_small(values):
    exact = sum(map(Fraction, values))
    found = MetricEpsilon.compose(map(MetricEpsilon, values)).value
    assert Fraction(math.nextafter(found, 0)) < exact <= Fraction(found)
    chained = MetricEpsilon(values[0])
    for value in values[1:]:
        chained = chained + MetricEpsilon(value)
    assert Fraction(chained.value) >= exact


@pytest.mark.parametrize(("value", "diameter"), [(4.0, 2.0), (0.1, 3.0), (1 / 3, 0.1), (1e-200, 1e-150)])
def test_a_diameter_turns_it_into_local_privacy(value, diameter):
    epsilon, delta = MetricEpsilon(value).on_diameter(diameter)
    exact = Fraction(value) * Fraction(diameter)
    assert delta == 0.0 and Fraction(math.nextafter(epsilon, 0)) < exact <= Fraction(epsilon)


def test_it_cannot_be_changed():
    loss = MetricEpsilon(1.0)
    for change in (lambda: setattr(loss, "value", 2.0), lambda: setattr(loss, "_value", 2.0), lambda: delattr(loss, "_value")):
        with pytest.raises(AttributeError):
            change()
    assert loss.value == 1.0
    assert copy.deepcopy(loss) == loss == pickle.loads(pickle.dumps(loss))
    assert repr(loss) == "MetricEpsilon(1.0)" and str(loss) == "1 per unit distance"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: MetricEpsilon(0.0), ValueError, "metric epsilon must be > 0, got 0.0"),
        (lambda: MetricEpsilon(-1.0), ValueError, "metric epsilon must be > 0"),
        (lambda: MetricEpsilon(math.nan), ValueError, "metric epsilon must be finite"),
        (lambda: MetricEpsilon(True), TypeError, "metric epsilon must be a number, got bool"),
        (lambda: MetricEpsilon((1.0, 1e-5)), TypeError, "metric epsilon must be a number, got tuple"),
        (lambda: MetricEpsilon(1.0).on_diameter(0.0), ValueError, "diameter must be > 0"),
        (lambda: MetricEpsilon(1e300).on_diameter(1e300), ValueError, "must be finite in float64"),
        (lambda: MetricEpsilon.compose([]), ValueError, "at least one metric epsilon"),
        (lambda: MetricEpsilon.compose([MetricEpsilon(1.0), 1.0]), TypeError, "cannot be added to a plain number"),
        (lambda: MetricLaplace(epsilon=-1.0, dimension=3), ValueError, "epsilon must be > 0, got -1.0"),
        (lambda: MetricLaplace(epsilon=(1.0, 1e-5), dimension=3), TypeError, "epsilon must be a number, got tuple"),
        (lambda: MetricLaplace(epsilon=1e300, dimension=3), ValueError, r"epsilon must be in \[2\^-100, 2\^100\]"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=0), ValueError, "dimension must be >= 1"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=3.5), TypeError, "dimension must be a whole number"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=3).release(np.ones(4)), ValueError, "x must have 3 columns, got 4"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=3).release(["1.0"] * 3), TypeError, "x must hold numbers, got str in it"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=2).release(np.array([[1, 2], [3, math.inf]])), ValueError, "inf in row 1"),
        (lambda: MetricLaplace(epsilon=1.0, dimension=2).release(np.ones(2), generator=3), TypeError, "generator must be"),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


# ---- the mechanism ----


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 100.0, 1e20])
def test_the_scale_is_the_next_float32(epsilon):
    mechanism = MetricLaplace(epsilon=MetricEpsilon(epsilon), dimension=8)
    assert float(np.float32(mechanism.scale)) == mechanism.scale
    below = float(np.nextafter(np.float32(mechanism.scale), np.float32(0)))
    assert Fraction(below) * Fraction(epsilon) < 1 <= Fraction(mechanism.scale) * Fraction(epsilon)
    assert mechanism.cost == MetricEpsilon(epsilon) and not isinstance(mechanism.cost, tuple | float)


def radius_p_value(noise, epsilon):
    return checks.uniformity(special.gammainc(noise.shape[1], np.linalg.norm(noise, axis=1) * epsilon))


@pytest.mark.parametrize("dimension", [1, 3, 48])
@pytest.mark.parametrize("length", [0.0, 1.0, 50.0])
def test_rows_of_any_length_get_noise_of_that_scale(dimension, length):
    epsilon = 4.0
    x = np.zeros((20_000, dimension))
    x[:, 0] = length
    noise = MetricLaplace(epsilon=epsilon, dimension=dimension).release(x, generator=hv.Generator.unsafe_seeded(11)) - x
    assert radius_p_value(noise, epsilon) > ALPHA
    assert radius_p_value(noise, 2 * epsilon) < ALPHA   # the scale of a row clipped to norm 1, 2 / epsilon
    assert radius_p_value(noise * 1.05, epsilon) < ALPHA
    assert radius_p_value(noise * 0.95, epsilon) < ALPHA


def loss_lower_bound(release, x, other):
    """What is proved, at confidence 1 - ALPHA, about the loss ln P(y in S | x) / P(y in S | other), S a half space beside x."""
    count = 200_000
    direction = (x - other) / np.linalg.norm(x - other)
    inside = [int(((release(np.tile(row, (count, 1))) - x) @ direction >= 0).sum()) for row in (x, other)]
    low = stats.beta.ppf(ALPHA / 2, inside[0], count - inside[0] + 1)
    high = stats.beta.ppf(1 - ALPHA / 2, inside[1] + 1, count - inside[1])
    return math.log(low / high)


@pytest.mark.parametrize("distance", [0.25, 1.0, 3.0])
def test_the_loss_grows_with_the_distance_and_no_faster(distance):
    """In one dimension a half space attains exp(epsilon distance), so a scale 10 % short is noticed."""
    epsilon, generator = 2.0, hv.Generator.unsafe_seeded(12)
    x, other = np.array([5.0]), np.array([5.0 - distance])
    correct = MetricLaplace(epsilon=epsilon, dimension=1)
    found = loss_lower_bound(lambda rows: correct.release(rows, generator=generator), x, other)
    assert 0.8 * epsilon * distance < found <= epsilon * distance
    mutant = MetricLaplace(epsilon=1.2 * epsilon, dimension=1)
    assert loss_lower_bound(lambda rows: mutant.release(rows, generator=generator), x, other) > epsilon * distance


def test_in_more_dimensions_it_stays_below():
    generator, mechanism = hv.Generator.unsafe_seeded(13), MetricLaplace(epsilon=2.0, dimension=3)
    x, other = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 3.5])
    found = loss_lower_bound(lambda rows: mechanism.release(rows, generator=generator), x, other)
    assert 0 < found <= 2.0 * np.linalg.norm(x - other)


@pytest.mark.parametrize("seed", range(20))
def test_density_ratios_are_within_the_promise(seed):
    """ln f(y | x) - ln f(y | x') = (|y - x'| - |y - x|) / scale, for outputs of the mechanism and anywhere else."""
    rng = np.random.default_rng(seed)
    mechanism = MetricLaplace(epsilon=float(rng.uniform(0.1, 30)), dimension=5)
    x, other = rng.standard_normal((2, 5)) * rng.uniform(0.01, 100)
    y = np.concatenate([mechanism.release(np.tile(x, (100, 1))), rng.standard_normal((100, 5)) * 10, [x, other]])
    loss = (np.linalg.norm(y - other, axis=1) - np.linalg.norm(y - x, axis=1)) / mechanism.scale
    promised = mechanism.cost.on_diameter(float(np.linalg.norm(x - other)))[0]
    assert loss.max() <= promised * (1 + 1e-12)
    assert loss.max() > promised * (1 - 1e-6)   # attained at y = x


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_the_result_is_like_the_input(dtype):
    x = np.ones((3, 8), dtype)
    y = MetricLaplace(epsilon=10.0, dimension=8).release(x)
    assert y.dtype == x.dtype and y.shape == x.shape and (x == 1).all() and not np.array_equal(x, y)
    assert MetricLaplace(epsilon=10.0, dimension=8).release(x[0]).shape == (8,)


def test_torch_in_torch_out():
    torch = pytest.importorskip("torch")
    mechanism, x = MetricLaplace(epsilon=10.0, dimension=8), torch.ones((3, 8), dtype=torch.bfloat16)
    y = mechanism.release(x)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype and bool((x == 1).all())


def test_describe_makes_no_claim():
    text = "\n".join(MetricLaplace(epsilon=3.0, dimension=16).describe())
    assert "no claim" in text and "not an (epsilon, delta)" in text and "epsilon = 6, delta = 0" in text
