"""From rho and Renyi curves to (epsilon, delta): tight for the bound that is used, never below what is true."""

import math

import mpmath as mp
import numpy as np
import pytest

import hushvec as hv
from hushvec.accounting import ZeroConcentratedDP
from hushvec.accounting.closed_forms import ORDERS, rdp_delta, rdp_epsilon, zcdp_delta, zcdp_epsilon

RHOS = [1e-6, 1e-3, 0.1, 1.0, 20.0, 1e4]
DELTAS = [1e-2, 1e-5, 1e-12, 1e-100]


def log_delta(order, rho, epsilon):
    """Corollary 13 of Canonne, Kamath, Steinke as it stands."""
    return (order - 1) * (rho * order - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_epsilon_is_the_infimum_over_orders(rho, delta):
    found = zcdp_epsilon(rho, delta)
    orders = 1 + np.geomspace(1e-8, 1e8, 200_001)
    every = rho * orders + np.log1p(-1 / orders) - np.log(orders * delta) / (orders - 1)
    best = max(0.0, float(every.min()))
    assert found == pytest.approx(best, rel=1e-6, abs=1e-9)
    assert zcdp_delta(rho, found) <= delta * (1 + 1e-9)
    assert ZeroConcentratedDP(rho=rho).delta(ZeroConcentratedDP(rho=rho).epsilon(delta)) <= delta


@pytest.mark.parametrize("rho", RHOS)
@pytest.mark.parametrize("delta", DELTAS)
def test_zcdp_is_below_the_usual_conversion(rho, delta):
    assert ZeroConcentratedDP(rho=rho).epsilon(delta) < rho + 2 * math.sqrt(rho * math.log(1 / delta))


@pytest.mark.parametrize("multiplier", [0.2, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
def test_zcdp_never_undercuts_the_gaussian_it_describes(multiplier, delta):
    exact = hv.gaussian_epsilon(delta, multiplier)
    assert exact <= zcdp_epsilon(1 / (2 * multiplier**2), delta) <= exact * 1.35 + 0.02


@pytest.mark.parametrize("rho", RHOS[1:5])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 5.0, 50.0])
def test_zcdp_delta_is_the_infimum_over_orders(rho, epsilon):
    orders = 1 + np.geomspace(1e-8, 1e6, 100_001)
    best = min(0.0, min(log_delta(order, rho, epsilon) for order in orders))
    found = zcdp_delta(rho, epsilon)
    if found > 1e-300:
        assert math.log(found) == pytest.approx(best, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("rho", RHOS[1:5])
@pytest.mark.parametrize("delta", DELTAS[:3])
def test_the_list_of_orders_is_dense_enough(rho, delta):
    found = rdp_epsilon(ORDERS, rho * ORDERS, delta)
    assert zcdp_epsilon(rho, delta) * (1 - 1e-12) <= found <= zcdp_epsilon(rho, delta) * 1.003
    epsilon = 3 * math.sqrt(rho) + rho
    assert math.log(rdp_delta(ORDERS, rho * ORDERS, epsilon)) == pytest.approx(math.log(zcdp_delta(rho, epsilon)), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("delta", DELTAS[:3])
def test_the_same_curve_gives_dp_accounting_the_same_epsilon(delta):
    rdp = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    orders = np.array([1.5, 2.0, 5.0, 16.0, 64.0])
    curve = 0.3 * orders
    theirs, _ = rdp.compute_epsilon(orders, curve, delta)
    assert rdp_epsilon(orders, curve, delta) == pytest.approx(theirs, rel=1e-12)


def test_orders_without_a_divergence_are_passed_over():
    assert rdp_epsilon(np.array([2.0, 3.0]), np.array([1.0, math.inf]), 1e-5) < math.inf
    assert rdp_epsilon(np.array([2.0]), np.array([math.inf]), 1e-5) == math.inf
    assert rdp_delta(np.array([2.0]), np.array([math.inf]), 1.0) == 1.0
    assert zcdp_epsilon(math.inf, 1e-5) == math.inf and zcdp_delta(math.inf, 1.0) == 1.0


def test_deltas_near_1_are_above_the_infimum():
    """At orders just above 1 the logarithm of 1 - 1/a needs a - 1, which 1/a has rounded away."""
    for rho in np.arange(18.0, 26.0, 0.5).tolist():
        with mp.workdps(40):
            a = 1 + mp.exp(4 - rho)  # about the best order for epsilon = 4
            infimum = mp.exp((a - 1) * (rho * a - 4) + a * mp.log((a - 1) / a) - mp.log(a - 1))
            assert infimum * (1 - mp.mpf(10) ** -12) <= zcdp_delta(rho, 4.0) < 1
