"""A verdict follows the figures: it turns when they do, and needs all of them."""

import pytest

from claims import (
    ARM, AVX2, AVX512, CLAIMS, DOES_NOT_HOLD, GENERATIONS, HOLDS, INTEL, NO_BOUND, NOT_MEASURED, ZEN4, ZEN5, Claim, generation_of,
    judge, summary,
)
from contestant import Contestant
from hushvec_cases import all_cases
from peers import all_peers
from report import claims_table
from rounds import Outcome, Series
from workloads import standard_workloads

WORK = standard_workloads()[0]
FASTER = Claim("faster", WORK.name, "peer", "ours", {ZEN4: 2.0, ZEN5: 4.0})
COST = Claim("cost", WORK.name, "peer", "ours", {ZEN4: 2.0}, at_most=True)
NANOSECONDS = Claim("time", WORK.name, "ours", None, {ZEN4: 10.0}, at_most=True)
FOR_INTEL = Claim("faster on Intel", WORK.name, "peer", "ours", {INTEL: 2.0})


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
    verdict = judge(claim, outcomes(peer, ours), ZEN4)
    assert (verdict.word, verdict.measured) == (word, measured)


def test_missing_contestant_is_not_measured_and_says_why():
    measured = outcomes([20], [10])
    del measured[WORK.name].series["ours"]
    measured[WORK.name].not_run["ours"] = "not installed"
    verdict = judge(FASTER, measured, ZEN4)
    assert (verdict.word, verdict.measured) == (NOT_MEASURED, None)
    assert "not installed" in verdict.reason


def test_missing_workload_is_not_measured():
    assert judge(FASTER, {}, ZEN4).word == NOT_MEASURED


@pytest.mark.parametrize("generation", [ZEN4, ZEN5, AVX2, "HygonGenuine with avx512 and AES by vaes512"])
@pytest.mark.parametrize("ours", [10, 11])
def test_claim_without_a_bound_here_is_a_figure_whatever_was_measured(generation, ours):
    verdict = judge(FOR_INTEL, outcomes([20], [ours]), generation)
    assert (verdict.word, verdict.bound, verdict.measured) == (NO_BOUND, None, 20 / ours)


@pytest.mark.parametrize(("generation", "ours", "word"), [(ZEN4, 10, HOLDS), (ZEN4, 11, DOES_NOT_HOLD), (ZEN5, 10, DOES_NOT_HOLD)])
def test_claim_is_judged_by_the_bound_of_this_generation(generation, ours, word):
    assert judge(FASTER, outcomes([20], [ours]), generation).word == word


FULL = ("avx512", "vaes512")


@pytest.mark.parametrize(
    ("vendor", "family", "model", "in_use", "generation"),
    [
        ("AuthenticAMD", "25", "17", FULL, ZEN4),
        ("AuthenticAMD", "26", "2", FULL, ZEN5),
        ("AuthenticAMD", "26", "36", FULL, "AuthenticAMD with avx512 and AES by vaes512"),
        ("GenuineIntel", "6", "143", FULL, INTEL),
        ("GenuineIntel", "6", "85", ("avx512", "aesni"), "GenuineIntel with avx512 and AES by aesni"),
        ("AuthenticAMD", "25", "17", ("avx2", "vaes256"), AVX2),
        ("", "", "", ("neon", "neon"), ARM),
        ("", "", "", (None, None), "unknown CPU with None and AES by None"),
    ],
)
def test_generation_follows_from_the_cpu_and_the_instructions_in_use(vendor, family, model, in_use, generation):
    assert generation_of({"vendor": vendor, "family_model_stepping": [family, model, "1"]}, *in_use) == generation


def test_failing_claim_is_printed_as_failing_and_counted():
    verdicts = [judge(claim, outcomes([19], [10]), ZEN4) for claim in (FASTER, COST, FOR_INTEL)]
    lines = [" ".join(line.split()) for line in claims_table(verdicts).splitlines()[2:]]
    assert lines == [
        "faster >= 2.00x 1.90x does not hold",
        "cost <= 2.00x 1.90x holds",
        "faster on Intel - 1.90x no bound known here",
    ]
    assert summary(verdicts) == "1 of the 2 claims with a bound for this CPU hold; 1 have none.\n  does not hold: faster"


def test_bounds_are_those_of_generations_whose_ports_were_counted():
    for claim in CLAIMS:
        assert set(claim.bounds) <= (set(AVX512) if claim.below else set(GENERATIONS))


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
