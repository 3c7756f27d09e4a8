"""The worker that holds a forced backend: it refuses what it cannot force, times what it can."""

import pytest

import hushvec_cases
from hushvec_cases import BackendWorker, ForcedBackend, HushvecClip, HushvecJobs, HushvecNoise, HushvecPrivUnit, in_use
from workloads import Workload, workload_from_spec

WORK = Workload("small", "small", "gaussian", (1 << 14,))


@pytest.fixture
def forced():
    """Builds a forced case for a backend and an AES-256, and ends its process after the test."""
    cases = []

    def build(backend, aes="portable"):
        cases.append(ForcedBackend(HushvecNoise("chacha12"), BackendWorker(backend, aes), backend))
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


def test_aes_that_does_not_exist_is_refused_with_a_reason(forced):
    available, reason = forced("portable", "no-such-aes").available()
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
    case = forced(*in_use())
    assert case.available() == (True, "")
    assert case.complaint(WORK) == ""
    assert case.measure(WORK, 3) > 0


SMALL_ROWS = Workload("small rows", "small rows", "clip_and_noise", (512, 64))


@pytest.mark.parametrize("kind", [HushvecPrivUnit, HushvecJobs])
def test_case_with_its_own_check_follows_its_law(kind):
    pytest.importorskip("hushvec")
    case = kind("chacha12") if kind is HushvecPrivUnit else kind()
    assert case.available() == (True, "")
    assert case.complaint(SMALL_ROWS) == ""


def test_privunit_of_another_scale_is_refused():
    pytest.importorskip("hushvec")
    case = HushvecPrivUnit("chacha12")
    assert case.available() == (True, "")
    exact = case._kernel
    case._kernel = lambda x, p, threshold, sigma, *rest, **options: exact(x, p, threshold, 1.1 * sigma, *rest, **options)
    assert " must be 1" in case.complaint(SMALL_ROWS)


def test_clip_and_noise_is_not_privunit():
    pytest.importorskip("hushvec")
    case, gaussian = HushvecPrivUnit("chacha12"), HushvecClip(True, "chacha12")
    assert case.available() == gaussian.available() == (True, "")
    law = case._law(64)
    case._kernel = lambda x, p, threshold, sigma, out, source, **options: gaussian.clip_and_noise(x, 1.0, law.sigma, out)
    assert "inner product must be 1, got 0." in case.complaint(SMALL_ROWS)


def test_aes_comes_first_and_each_forced_case_has_a_name_of_its_own():
    names = [case.name for case in hushvec_cases.all_cases((1, 2))]
    assert names[0] == "hushvec aes256"
    assert len(set(names)) == len(names)
    assert {"hushvec aes256, avx2 and vaes256 forced", "hushvec aes256, avx2 and aesni forced",
            "hushvec chacha20, avx2 forced", "hushvec exact aes256, 2 threads"} <= set(names)
