"""A verdict follows the figures: it turns when they do, and needs all of them."""

import pytest

from claims import (
    AMD, CLAIMS, DOES_NOT_HOLD, HOLDS, INTEL, NOT_JUDGED, NOT_MEASURED, Claim, Host, judge, summary,
)
from contestant import Contestant
from hushvec_cases import all_cases
from peers import all_peers
from report import claims_table
from rounds import Outcome, Series
from workloads import standard_workloads

WORK = standard_workloads()[0]
FASTER = Claim("faster", WORK.name, "peer", "ours", 2.0)
COST = Claim("cost", WORK.name, "peer", "ours", 2.0, at_most=True)
NANOSECONDS = Claim("time", WORK.name, "ours", None, 10.0, at_most=True)
FOR_INTEL = Claim("faster on Intel", WORK.name, "peer", "ours", 2.0, vendor=INTEL)
WITH_VAES = Claim("faster with VAES", WORK.name, "peer", "ours", 2.0, aes="vaes512")
HERE = Host(AMD, "avx512", "vaes512")


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
    verdict = judge(claim, outcomes(peer, ours), HERE)
    assert (verdict.word, verdict.measured) == (word, measured)


def test_missing_contestant_is_not_measured_and_says_why():
    measured = outcomes([20], [10])
    del measured[WORK.name].series["ours"]
    measured[WORK.name].not_run["ours"] = "not installed"
    verdict = judge(FASTER, measured, HERE)
    assert (verdict.word, verdict.measured) == (NOT_MEASURED, None)
    assert "not installed" in verdict.reason


def test_missing_workload_is_not_measured():
    assert judge(FASTER, {}, HERE).word == NOT_MEASURED


@pytest.mark.parametrize("active", ["avx2", "portable", None])
def test_claim_for_another_instruction_set_is_not_measured(active):
    verdict = judge(FASTER, outcomes([20], [10]), Host(AMD, active, "vaes512"))
    assert verdict.word == NOT_MEASURED
    assert verdict.reason == f"stated for avx512, in use: {active}"


@pytest.mark.parametrize("active", ["vaes256", "aesni", "portable", None])
def test_claim_for_another_aes_is_not_measured(active):
    verdict = judge(WITH_VAES, outcomes([20], [10]), Host(AMD, "avx512", active))
    assert verdict.word == NOT_MEASURED
    assert verdict.reason == f"stated for vaes512, in use: {active}"


@pytest.mark.parametrize(("vendor", "name"), [(AMD, "AMD"), ("HygonGenuine", "HygonGenuine"), ("", "unknown")])
@pytest.mark.parametrize("ours", [10, 11])
def test_claim_for_another_vendor_is_not_judged_whatever_was_measured(vendor, name, ours):
    verdict = judge(FOR_INTEL, outcomes([20], [ours]), Host(vendor, "avx512", "vaes512"))
    assert (verdict.word, verdict.measured) == (NOT_JUDGED, None)
    assert verdict.reason == f"stated for Intel, this CPU: {name}"


@pytest.mark.parametrize(("ours", "word"), [(10, HOLDS), (11, DOES_NOT_HOLD)])
def test_claim_for_this_vendor_is_judged(ours, word):
    assert judge(FOR_INTEL, outcomes([20], [ours]), Host(INTEL, "avx512", None)).word == word


def test_failing_claim_is_printed_as_failing_and_counted():
    verdicts = [judge(claim, outcomes([19], [10]), HERE) for claim in (FASTER, COST, FOR_INTEL)]
    lines = [" ".join(line.split()) for line in claims_table(verdicts).splitlines()[2:]]
    assert lines == [
        "faster any >= 2.00x 1.90x does not hold",
        "cost any <= 2.00x 1.90x holds",
        "faster on Intel Intel >= 2.00x - not judged here (stated for Intel, this CPU: AMD)",
    ]
    assert summary(verdicts) == "1 of the 2 claims judged here hold.\n  does not hold: faster"


def test_every_claim_of_one_vendor_has_its_like_for_the_other():
    stated = {vendor: {(claim.text, claim.workload) for claim in CLAIMS if claim.vendor == vendor} for vendor in (AMD, INTEL)}
    assert stated[AMD] == stated[INTEL]
    assert stated[AMD]


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
def test_every_ratio_column_names_a_contestant(quick):
    for work in standard_workloads(quick):
        offered = {one.name for one in (*all_cases(), *all_peers()) if one.offers(work.operation)}
        assert set(work.references) <= offered
