"""Gaussian noise into a float32 array."""

import pytest

from pytest_cases import contestants, time_and_check, workload


@pytest.fixture(scope="module")
def work():
    return workload("gaussian_fill")


@pytest.mark.parametrize("contestant", contestants("gaussian"))
def test_bench_gaussian_fill(benchmark, contestant, work):
    time_and_check(benchmark, contestant, work)
