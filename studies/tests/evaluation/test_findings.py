"""Sentences say what intervals carry, and no more."""

import pytest

from hushvec_studies.evaluation.attacks.measure import FAILS, OPEN, SUCCEEDS
from hushvec_studies.evaluation.findings import choice, refutes, task_results, verdict


def row(mechanism, epsilon, use, attack, bound=1.0, delta=0.0):
    return {
        "task": "notes, private documents",
        "mechanism": mechanism,
        "epsilon": epsilon,
        "delta": delta,
        "candidates": 1000,
        "released": 3000,
        "ndcg_at_10": use,
        "attack": attack,
        "bound": bound,
    }


CLEAN = row("none", None, [0.8, 0.78, 0.82], [1.0, 0.99, 1.0], None)


@pytest.mark.parametrize(
    ("attack", "said"),
    [
        ([0.005, 0.003, 0.0109], FAILS),
        ([0.005, 0.003, 0.0111], OPEN),
        ([0.02, 0.0109, 0.03], OPEN),
        ([0.02, 0.0111, 0.03], SUCCEEDS),
    ],
)
def test_a_verdict_needs_the_whole_interval(attack, said):
    """Success is one in a hundred more than a guess among 1,000: 0.011."""
    assert verdict(row("privunit", 4.0, [0.1, 0.0, 0.2], attack), 0.01) == said


def test_what_is_said():
    rows = [
        CLEAN,
        row("gaussian", 4.0, [0.1, 0.05, 0.15], [0.005, 0.002, 0.008]),
        row("gaussian", 8.0, [0.3, 0.25, 0.35], [0.1, 0.08, 0.12]),
        row("codebook", 4.0, [0.5, 0.45, 0.55], [0.004, 0.002, 0.007]),
        row("codebook", 8.0, [0.6, 0.55, 0.65], [0.02, 0.005, 0.04], bound=0.004),
    ]
    (result,) = task_results(rows)
    advice = choice(result, 0.01)
    assert "the smallest epsilon measured is 4, with codebook: 0.500 [0.450, 0.550]" in advice
    assert advice.endswith(
        "Both hold at codebook at epsilon 4. "
        "The attack exceeds the bound of the claim: codebook at epsilon 8, 2 % [0.5 %, 4 %]. The claim is refuted."
    )


def test_nothing_useful_and_nothing_safe():
    (result,) = task_results([CLEAN, row("privunit", 8.0, [0.3, 0.25, 0.35], [0.1, 0.08, 0.12])])
    assert choice(result, 0.01) == (
        "No mechanism kept at least half of the nDCG@10 without noise at any epsilon measured. At no setting measured does the attack "
        "fail. No setting keeps half of the nDCG@10 while the attack fails: choose which of the two matters more."
    )


def test_a_claim_is_refuted_by_more_than_luck():
    """3,000 releases and a bound of 1 %: 30 are expected at most. 40 may be luck in a page of many settings, 55 may not."""
    assert not refutes(row("privunit", 4.0, [0.1, 0.0, 0.2], [40 / 3000, 0.0102, 0.02], bound=0.01))
    assert refutes(row("privunit", 4.0, [0.1, 0.0, 0.2], [55 / 3000, 0.015, 0.022], bound=0.01))
