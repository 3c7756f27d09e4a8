"""The worker that holds a forced backend: it refuses what it cannot force, times what it can."""

import pytest

from hushvec_cases import BackendWorker, ForcedBackend, HushvecNoise, active_backend
from workloads import Workload, workload_from_spec

WORK = Workload("small", "small", "gaussian", (1 << 14,))


@pytest.fixture
def forced():
    """Builds a forced case for a backend, and ends its process after the test."""
    cases = []

    def build(backend):
        cases.append(ForcedBackend(HushvecNoise(12), BackendWorker(backend), backend))
        return cases[-1]

    yield build
    for case in cases:
        case.close()


def test_workload_survives_the_way_to_the_worker():
    assert workload_from_spec(WORK.spec()) == WORK


def test_backend_that_does_not_exist_is_refused_with_a_reason(forced):
    available, reason = forced("no-such-backend").available()
    assert not available
    assert reason


def test_worker_that_ended_is_a_reason_not_a_hang(forced):
    case = forced("avx2")
    case._worker.start()
    case._worker._process.kill()
    case._worker._process.wait()
    available, reason = case.available()
    assert not available
    assert "ended" in reason


def test_active_backend_can_be_forced_checked_and_timed(forced):
    pytest.importorskip("hushvec")
    case = forced(active_backend())
    assert case.available() == (True, "")
    assert case.complaint(WORK) == ""
    assert case.measure(WORK, 3) > 0
