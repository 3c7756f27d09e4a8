"""Clipping the rows of an embedding matrix and adding noise."""

import pytest

from pytest_cases import contestants, time_and_check, workload


@pytest.fixture(scope="module")
def work():
    return workload("clip_and_noise")


@pytest.mark.parametrize("contestant", contestants("clip_and_noise"))
def test_bench_clip_and_noise(benchmark, contestant, work):
    time_and_check(benchmark, contestant, work)
