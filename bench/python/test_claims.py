"""A verdict follows the figures: it turns when they do, and needs all of them."""

import pytest

from claims import CLAIMS, DOES_NOT_HOLD, HOLDS, NOT_MEASURED, Claim, judge
from contestant import Contestant
from hushvec_cases import all_cases
from peers import all_peers
from rounds import Outcome, Series
from workloads import standard_workloads

WORK = standard_workloads()[0]
FASTER = Claim("faster", WORK.name, "peer", "ours", 2.0)
COST = Claim("cost", WORK.name, "peer", "ours", 2.0, at_most=True)
NANOSECONDS = Claim("time", WORK.name, "ours", None, 10.0, at_most=True)


def outcomes(peer, ours):
    outcome = Outcome(WORK)
    for name, turns in (("peer", peer), ("ours", ours)):
        outcome.series[name] = Series(Contestant(), 1, 4, turns_ns=turns)
    return {WORK.name: outcome}


@pytest.mark.parametrize(
    ("claim", "peer", "ours", "word", "measured"),
    [
        (FASTER, [20], [10], HOLDS, 2.0),
        (FASTER, [19], [10], DOES_NOT_HOLD, 1.9),
        (COST, [20], [10], HOLDS, 2.0),
        (COST, [21], [10], DOES_NOT_HOLD, 2.1),
        (NANOSECONDS, [1], [10], HOLDS, 10.0),
        (NANOSECONDS, [1], [11], DOES_NOT_HOLD, 11.0),
    ],
)
def test_verdict_follows_the_figures(claim, peer, ours, word, measured):
    verdict = judge(claim, outcomes(peer, ours), "avx512")
    assert (verdict.word, verdict.measured) == (word, measured)


def test_missing_contestant_is_not_measured_and_says_why():
    measured = outcomes([20], [10])
    del measured[WORK.name].series["ours"]
    measured[WORK.name].not_run["ours"] = "not installed"
    verdict = judge(FASTER, measured, "avx512")
    assert (verdict.word, verdict.measured) == (NOT_MEASURED, None)
    assert "not installed" in verdict.reason


def test_missing_workload_is_not_measured():
    assert judge(FASTER, {}, "avx512").word == NOT_MEASURED


@pytest.mark.parametrize("active", ["avx2", "portable", None])
def test_claim_for_another_instruction_set_is_not_measured(active):
    verdict = judge(FASTER, outcomes([20], [10]), active)
    assert verdict.word == NOT_MEASURED
    assert "avx512" in verdict.reason


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.text)
def test_every_claim_names_contestants_that_exist(claim):
    operations = {work.name: work.operation for work in standard_workloads()}
    offered = {
        contestant.name
        for contestant in (*all_cases((1, 2)), *all_peers((1, 2)))
        if contestant.offers(operations[claim.workload])
    }
    assert {claim.above, claim.below} - {None} <= offered


@pytest.mark.parametrize("quick", [False, True])
def test_every_ratio_column_names_a_case_of_ours(quick):
    for work in standard_workloads(quick):
        offered = {case.name for case in all_cases() if case.offers(work.operation)}
        assert set(work.references) <= offered
