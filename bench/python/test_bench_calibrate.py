"""Sigma of the Gaussian mechanism for an array of (epsilon, delta) pairs."""

import pytest

from pytest_cases import contestants, time_and_check, workload


@pytest.fixture(scope="module")
def work():
    return workload("calibrate")


@pytest.mark.parametrize("contestant", contestants("calibrate"))
def test_bench_calibrate(benchmark, contestant, work):
    time_and_check(benchmark, contestant, work)
