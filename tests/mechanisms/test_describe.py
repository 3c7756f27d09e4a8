"""What a mechanism says of itself: its loss for the accountant, and lines to read before anything is spent."""

import math
import re
from fractions import Fraction

import pytest

import hushvec as hv
from hushvec import accounting
from hushvec._util.rounding import quotient_down
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, PrivUnit

SETTINGS = [
    {"dimension": 384},
    {"dimension": 3, "clip_norm": 0.3, "rows_per_person": 7},
]
MECHANISMS = [
    *(Gaussian(epsilon=epsilon, delta=1e-5, **setting) for setting in SETTINGS for epsilon in (0.1, 1.0, 16.0)),
    *(EmpiricalGaussian(chosen_sigma=sigma, delta=1e-6, **setting) for setting in SETTINGS for sigma in (0.2, 3.0)),
    *(Laplacian(epsilon=epsilon, **setting) for setting in SETTINGS for epsilon in (0.1, 16.0)),
    *(L2Laplace(epsilon=epsilon, **setting) for setting in SETTINGS for epsilon in (0.1, 16.0)),
]
IDS = [f"{mechanism.name} {mechanism.cost[0]:.3g}, {mechanism.rows_per_person} rows" for mechanism in MECHANISMS]


@pytest.mark.parametrize("numerator", [1.0, 0.1, 3.7306318283081055, 2.0**-90, 1e20])
@pytest.mark.parametrize("denominator", [3.0, 0.7, 2.0, math.sqrt(7), 1e-10])
def test_quotients_are_rounded_down(numerator, denominator):
    found, exact = quotient_down(numerator, denominator), Fraction(numerator) / Fraction(denominator)
    assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_the_loss_is_the_cost(mechanism):
    loss, (epsilon, delta) = mechanism.loss, mechanism.cost
    assert loss.adjacency == mechanism.adjacency
    if mechanism.law == "gaussian":
        assert isinstance(loss, accounting.GaussianDP)
        exact = Fraction(mechanism.sigma) / Fraction(mechanism.sensitivity)
        assert Fraction(loss.noise_multiplier) <= exact < Fraction(math.nextafter(loss.noise_multiplier, math.inf))
        assert loss.delta(epsilon) == pytest.approx(delta, rel=1e-3) and loss.epsilon(delta) == pytest.approx(epsilon, rel=1e-4)
        assert hv.gaussian_delta(epsilon, mechanism.sigma, mechanism.sensitivity) <= delta
    else:
        assert delta == 0 and loss.epsilon(0.0) <= epsilon * (1 + 1e-6)
        assert loss.delta(0.0) <= accounting.PureDP(epsilon=epsilon).delta(0.0)
        of_one_number = mechanism.law == "laplacian" and mechanism.dimension * mechanism.rows_per_person == 1
        assert isinstance(loss, accounting.LaplaceDP if of_one_number else accounting.PureDP)
        assert of_one_number or loss.pure_epsilon == epsilon


def test_a_wrong_loss_is_noticed():
    """sigma for sigma / sensitivity, and one row for seven, would both state a smaller cost than is paid."""
    mechanism = Gaussian(epsilon=2.0, delta=1e-5, dimension=3, rows_per_person=7)
    right = mechanism.loss.epsilon(1e-5)
    for multiplier in (mechanism.sigma, mechanism.sigma / (2 * mechanism.clip_norm)):
        assert accounting.GaussianDP(noise_multiplier=multiplier).epsilon(1e-5) < 0.5 * right


def test_what_follows_from_a_cost_alone():
    """A mechanism with a delta and no profile of its own gets no more than its cost says."""
    from hushvec.mechanisms import Mechanism

    class Other(Laplacian):
        cost = (2.0, 1e-6)

    assert Mechanism.loss.fget(Other(epsilon=2.0, dimension=3)) == accounting.ApproximateDP(epsilon=2.0, delta=1e-6)


def test_losses_compose():
    releases = [Gaussian(epsilon=1.0, delta=1e-6, dimension=8).loss, Laplacian(epsilon=0.5, dimension=8).loss]
    together = accounting.compose(releases, delta=1e-5)
    assert 1.0 < together.epsilon <= 1.5 + 1e-9


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_describe_says_everything(mechanism):
    lines = mechanism.describe()
    text = "\n".join(lines)
    assert isinstance(lines, tuple) and all(isinstance(line, str) and "\n" not in line for line in lines)
    assert lines[0].startswith(f"{mechanism.name}, dimension {mechanism.dimension}, clip norm {mechanism.clip_norm:g}")
    assert ("rows per person" in lines[0]) == (mechanism.rows_per_person > 1)
    assert f"sensitivity {mechanism.sensitivity:.6g} ({mechanism.sensitivity_norm.upper()}, replace-one)" in text
    assert f"{mechanism.noise_parameter:.6g}" in text
    epsilon, delta = mechanism.cost
    assert f"epsilon = {epsilon!r}, delta = {delta!r}" in text
    assert f"noise norm {mechanism.noise_norm:.4g}" in text
    assert f"expected cosine {mechanism.expected_cosine():.4f}" in text
    assert (lines[-1] == "grade exact: the released bits carry the claim") == (mechanism.grade == "exact")
    assert ("no claim is made" in text) == (mechanism.grade == "float")


@pytest.mark.parametrize("settings", [{}, {"rows_per_person": 3, "clip_norm": 0.5}, {"corpus_size": 1000}])
def test_privunit_describes_itself(settings):
    mechanism = PrivUnit(epsilon=9.0, dimension=64, **settings)
    text = "\n".join(mechanism.describe())
    variation = -math.expm1(-mechanism.epsilon_per_row) * mechanism.cap_probability * mechanism.rows_per_person
    assert mechanism.loss == accounting.PureDP(epsilon=9.0, total_variation=mechanism.loss.total_variation)
    assert mechanism.loss.total_variation == pytest.approx(min(variation, math.tanh(4.5)), rel=1e-12)
    for told in ("cap probability", "threshold", "whatever the sensitivity", f"sigma {mechanism.sigma:.6g}", "grade exact"):
        assert told in text
    assert f"noise norm {mechanism.noise_norm:.4g}" in text and "epsilon = 9.0, delta = 0.0" in text and "scale" not in text


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=IDS)
def test_printed_costs_are_never_smaller_than_they_are(mechanism):
    text = "\n".join(mechanism.describe())
    printed = re.search(r"rho = (\S+) \(.*Renyi DP (\S+) \(order 2\), (\S+) \(order 8\), (\S+) \(order 32\)", text).groups()
    exact = [mechanism.loss.rho, *(mechanism.loss.rdp(order) for order in (2, 8, 32))]
    for shown, value in zip(map(float, printed), exact):
        assert value <= shown <= value * 1.002


def test_describe_spends_nothing(monkeypatch):
    from hushvec._native import kernels

    def draw(*arguments, **settings):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(kernels, "clip_and_noise", draw)
    for mechanism in MECHANISMS:
        assert mechanism.describe()
