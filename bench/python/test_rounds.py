"""Round-robin order, ratios by round, and what becomes of a contestant that is wrong."""

import numpy as np
import pytest

from contestant import Contestant
from rounds import MAX_CALLS, TURN_NS, Outcome, Series, calls_per_turn, run_rounds
from workloads import Workload

WORK = Workload("small", "small", "gaussian", (1 << 14,))


class Logged(Contestant):
    """A true Gaussian that writes down when it was measured."""

    def __init__(self, name, log, scale=1.0):
        self.name = name
        self._log = log
        self._scale = scale
        self._rng = np.random.Generator(np.random.PCG64(11))

    def gaussian(self, out, sigma):
        out[:] = self._rng.normal(0.0, self._scale * sigma, out.shape)
        return out

    def measure(self, workload, calls):
        self._log.append(self.name)
        return super().measure(workload, calls)


class Frozen(Logged):
    """The same noise at every call."""

    def gaussian(self, out, sigma):
        self._rng = np.random.Generator(np.random.PCG64(11))
        return super().gaussian(out, sigma)


class Broken(Logged):
    def gaussian(self, out, sigma):
        raise RuntimeError("no noise today")


def series(name, turns, items=1):
    contestant = Contestant()
    contestant.name = name
    return Series(contestant, items, bytes_per_item=4, turns_ns=turns)


def test_rounds_are_interleaved():
    log = []
    run_rounds(WORK, [Logged("a", log), Logged("b", log)], 3, lambda text: None)
    warm_up, timed = log[:2], log[2:]
    assert warm_up == ["a", "b"]
    assert timed == ["a", "b"] * 3


@pytest.mark.parametrize(
    ("kind", "scale", "words"),
    [(Logged, 1.1, "second moment"), (Frozen, 1.0, "same noise"), (Broken, 1.0, "no noise today")],
)
def test_wrong_contestant_is_named_and_not_timed(kind, scale, words):
    log = []
    good, bad = Logged("good", log), kind("bad", log, scale)
    outcome = run_rounds(WORK, [bad, good], 2, lambda text: None)
    assert set(outcome.series) == {"good"}
    assert words in outcome.wrong["bad"]
    assert "bad" not in log


def test_operation_that_is_not_offered_is_left_out():
    work = Workload("small", "small", "laplace", (1 << 14,))
    assert run_rounds(work, [Logged("a", [])], 1, lambda text: None).series == {}


def test_ratio_is_the_median_of_the_rounds_not_of_the_times():
    # The machine slows tenfold in the middle round; each round says 2, 3, 2.
    outcome = Outcome(WORK, {"peer": series("peer", [20, 300, 24]),
                             "ours": series("ours", [10, 100, 12])})
    assert outcome.ratio("peer", "ours") == 2.0


def test_ratio_is_per_item_and_absent_when_one_side_is():
    outcome = Outcome(WORK, {"peer": series("peer", [40], items=2),
                             "ours": series("ours", [10], items=1)})
    assert outcome.ratio("peer", "ours") == 2.0
    assert outcome.ratio("peer", "nobody") is None


@pytest.mark.parametrize(
    ("one_call_ns", "calls"),
    [(0, MAX_CALLS), (1, MAX_CALLS), (TURN_NS - 1, 2), (TURN_NS, 1), (10 * TURN_NS, 1)],
)
def test_calls_per_turn(one_call_ns, calls):
    assert calls_per_turn(one_call_ns) == calls
