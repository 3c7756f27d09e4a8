"""Membership attacks: above chance without noise, below the bound with it. Seeds are fixed; every test names its n.

Intervals are over candidates of all target models together.
"""

import json
import os

import numpy as np
import pytest

from hushvec.retrieval.attacks.bounds import membership_bound
from hushvec.retrieval.attacks.membership import ATTACKS, judge, membership_inference
from hushvec.retrieval.attacks.shadows import play
from retrieval.attacks.small_indexes import OnDocuments, OnQueries, OnScores, Plain, directions, near, signs

pytestmark = pytest.mark.ranks

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"
FPRS = (0.001, 0.01, 0.05)
POOL = directions(600, 16)


def attacked(make_index, pool, queries=None, attacks=ATTACKS, **setting):
    game = play(make_index, pool, queries, **setting)
    return [judge(game, attack=attack, fprs=FPRS, confidence=0.99, resamples=100) for attack in attacks]


@pytest.mark.parametrize("queries", [None, near(POOL, 3, 0.8)], ids=["own vector", "three queries"])
def test_without_noise_members_are_found(queries):
    """n = 300 members and 300 others. A blind attack has an area above 0.62 with probability below 1e-6."""
    results = attacked(Plain, POOL, queries, k=10, shadow_models=8)
    for result in results:
        assert result.exceeds_chance and result.auc.low > 0.9
        assert result.tpr[0.05].low > 0.5
        assert result.epsilon_lower > 3.0  # of at most about 4.2 for 300 pairs at confidence 0.99
        assert result.details["epsilon_from_rates"] > 2.0
        assert result.epsilon_claimed is None and not result.exposed
        assert result.bound == {"auc": 1.0, **dict.fromkeys(FPRS, 1.0)}
    # the stronger adversaries are stronger
    assert results[1].tpr[0.001].value >= results[0].tpr[0.001].value
    assert results[1].auc.value > 0.999 and results[2].auc.value > 0.999


def test_a_blind_index_gives_chance():
    """n = 300 + 300: an index that answers by a random row order; |AUC - 1/2| < 0.12 except with probability 1e-6."""

    class Blind(Plain):
        def noisy(self, scores):
            return np.random.default_rng(len(scores)).random(scores.shape).astype(np.float32)

        def vectors(self):
            return np.zeros_like(self.rows)

    for result in attacked(Blind, POOL, near(POOL, 2, 0.8), k=10, shadow_models=8):
        assert not result.exceeds_chance and abs(result.auc.value - 0.5) < 0.12
        assert result.epsilon_lower < 0.5


NOISES = {
    "documents gaussian": lambda epsilon: lambda generator: OnDocuments(generator, epsilon=epsilon),
    "documents privunit": lambda epsilon: lambda generator: OnDocuments(generator, epsilon=epsilon, mechanism="privunit"),
    "scores laplacian": lambda epsilon: lambda generator: OnScores(generator, epsilon),
    "scores gaussian": lambda epsilon: lambda generator: OnScores(generator, epsilon, "gaussian"),
}
# Target models of 500 candidates: 1,500 members and as many others, at the full scale 50,000.
SMALL = directions(500, 4, seed=9)
TARGETS = 200 if FULL else 6


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.5])
@pytest.mark.parametrize("noise", NOISES)
def test_with_noise_intervals_stay_below_the_bound(noise, epsilon):
    """n = 1,500 + 1,500, own vector as query, confidence 0.99.

    A blind attack's interval ends near 0.527 (area), 0.07 (at an fpr of 0.05) and 0.022 (0.01); the bounds at epsilon = 0.5 are 0.62,
    0.082 and 0.0165. So n tells the last from chance at epsilon 1 and above. The full scale (50,000 + 50,000) tells it at 0.5 too,
    and the rate at 0.001 (bounds 0.0016, 0.0027, 0.012; a blind attack ends near 0.002) at 1 and above.
    """
    attacks = ("logistic", "likelihood") if noise.startswith("scores") else ATTACKS
    for result in attacked(NOISES[noise](epsilon), SMALL, attacks=attacks, k=5, shadow_models=4, target_models=TARGETS):
        assert result.epsilon_claimed == pytest.approx(epsilon)
        assert result.auc.high < result.bound["auc"] < 1
        assert result.tpr[0.05].high < result.bound[0.05] < 1
        assert result.tpr[0.01].high < result.bound[0.01] or (epsilon < 1 and not FULL)
        assert result.tpr[0.001].high < result.bound[0.001] or epsilon < 1 or not FULL
        for rates in result.fixed.values():
            assert rates.tpr.low <= membership_bound(epsilon, result.delta, rates.fpr.high)
        assert not result.exposed and result.epsilon_lower <= epsilon
        assert result.details["epsilon_from_rates"] <= epsilon


def test_the_bound_is_nearly_reached_where_the_adversary_is_the_one_of_the_definition():
    """Documents 1 and -1, Laplace noise on scores, all scores returned: the claim is tight, and 5,000 pairs show 0.6 of it."""
    make_index = lambda generator: OnScores(generator, 1.0)
    setting = dict(k=100, shadow_models=2, target_models=50)
    result = attacked(make_index, signs(200), attacks=["logistic"], **setting)[0]
    assert 0.6 < result.epsilon_lower < 1.0


def test_more_queries_cost_more_and_the_claim_says_so():
    one, three = (
        attacked(lambda generator: OnScores(generator, 0.5), POOL, queries, attacks=["logistic"], k=5, shadow_models=2)[0]
        for queries in (near(POOL, 1, 0.8), near(POOL, 3, 0.8))
    )
    assert (one.epsilon_claimed, three.epsilon_claimed) == (0.5, 1.5)
    assert one.bound["auc"] < three.bound["auc"]
    # a guess about a pair asks about its first document only, since the claim grows with the queries
    assert (one.epsilon.queries, three.epsilon.queries) == (1, 3)


def test_noise_on_documents_covers_any_number_of_queries():
    result = attacked(
        lambda generator: OnDocuments(generator, epsilon=2.0, mechanism="privunit"),
        POOL, near(POOL, 3, 0.8), attacks=["logistic"], k=5, shadow_models=2,
    )[0]  # fmt: skip
    assert result.epsilon_claimed == 2.0 and result.epsilon.queries == 6


def test_noise_on_queries_protects_no_document():
    """The asker is the adversary: no claim, whatever the noise, and rows are as readable as without."""
    results = attacked(OnQueries, POOL, k=10, shadow_models=4)
    for result in results:
        assert result.epsilon_claimed is None and result.bound["auc"] == 1.0 and not result.could_expose
    assert results[2].auc.low > 0.9


def test_noise_on_scores_does_not_protect_rows():
    """`released` reads the rows: their claim is that of their receipts, and there are none."""
    result = attacked(lambda generator: OnScores(generator, 0.5), POOL, attacks=["released"], k=1, shadow_models=2)[0]
    assert result.epsilon_claimed is None and result.auc.low > 0.9


def test_an_index_without_scores():
    """Only ids come back: hits and ranks are left. n = 300 + 300, three queries."""

    class Ids(Plain):
        def search(self, queries, k):
            answer = super().search(queries, k)
            answer.scores = None
            return answer

    logistic, likelihood = attacked(Ids, POOL, near(POOL, 3, 0.8), attacks=["logistic", "likelihood"], k=10, shadow_models=8)
    assert logistic.auc.low > 0.6 and likelihood.auc.low > 0.6
    assert logistic.epsilon_lower > 2.0


def test_claims():
    game = play(lambda generator: OnDocuments(generator, epsilon=2.0, mechanism="privunit"), POOL, k=5, shadow_models=2)
    for claim, wanted in [
        ("index", (2.0, 0.0)),
        ((3.0, 1e-6), (3.0, 1e-6)),
        (lambda queries: (queries * 0.1, 0.0), (0.1, 0.0)),
        (lambda queries: (float("inf"), 0.0), (None, 0.0)),
        (None, (None, 0.0)),
    ]:
        result = judge(game, claim=claim, resamples=10)
        assert (result.epsilon_claimed, result.delta) == wanted
    assert judge(game, claim=(0.0, 0.0), resamples=10).bound["auc"] == pytest.approx(0.5)


def test_membership_inference_is_play_and_judge():
    setting = dict(k=5, shadow_models=4, target_models=2, seed=7)
    whole = membership_inference(Plain, POOL, attack="likelihood", fprs=(0.01,), resamples=50, **setting)
    parts = judge(play(Plain, POOL, **setting), attack="likelihood", fprs=(0.01,), resamples=50)
    assert whole.to_dict() == parts.to_dict()
    assert whole.candidates == 600 and whole.target_models == 2 and whole.shadow_models == 4 and whole.k == 5


def test_results_are_ready_for_json():
    found = membership_inference(Plain, POOL, k=5, shadow_models=2, resamples=20)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["auc"]["value"] == found.auc.value and again["tpr"]["0.01"]["high"] == found.tpr[0.01].high
    assert again["epsilon"]["guesses"] == found.epsilon.guesses and again["exposed"] is False
    assert "auc" in str(found) and "thresholds" not in str(found)


@pytest.mark.parametrize(
    "change,words",
    [
        (dict(attack="psychic"), "attack must be one of 'logistic', 'likelihood', 'released', got 'psychic'"),
        (dict(shadow_models=0), "shadow_models must be >= 2 for 'logistic', got 0"),
        (dict(attack="likelihood", shadow_models=2), "shadow_models must be >= 4 for 'likelihood', got 2"),
        (dict(fprs=()), "fprs must be different rates, at least one, got ()"),
        (dict(fprs=(0.1, 0.1)), "fprs must be different rates, at least one, got (0.1, 0.1)"),
        (dict(fprs=(1.0,)), "fprs must be > 0 and < 1, got 1.0"),
        (dict(confidence=1.0), "confidence must be > 0 and < 1, got 1.0"),
        (dict(resamples=0), "resamples must be >= 1, got 0"),
        (dict(claim="mine"), "claim must be 'index', (epsilon, delta), a function or None, got 'mine'"),
        (dict(claim=(-1.0, 0.0)), "epsilon must be >= 0, got -1.0"),
    ],
)
def test_bad_values(change, words):
    made = []

    def make_index(generator):
        made.append(generator)
        return Plain(generator)

    with pytest.raises(ValueError) as caught:
        membership_inference(make_index, POOL, **change)
    assert str(caught.value) == words
    assert not made  # refused before any model is built


def test_bad_kinds():
    with pytest.raises(TypeError, match="claim must be 'index', \\(epsilon, delta\\), a function or None, got float"):
        membership_inference(Plain, POOL, claim=1.0)
    with pytest.raises(TypeError, match="confidence must be a number, got bool"):
        membership_inference(Plain, POOL, confidence=True)


def test_rows_that_cannot_be_read():
    class Closed(Plain):
        vectors = None

    with pytest.raises(ValueError, match="the index must have vectors\\(\\) for attack='released'"):
        membership_inference(Closed, POOL, attack="released", shadow_models=2)


def test_rows_of_another_length():
    class Wider(Plain):
        def vectors(self):
            return np.zeros((len(self.rows), 17), np.float32)

    with pytest.raises(ValueError, match=r"vectors\(\) of the index must have 16 columns, got shape \(300, 17\)"):
        membership_inference(Wider, POOL, attack="released", shadow_models=2)


def test_the_earlier_path_leads_to_the_same_objects():
    from hushvec.audit.indexes.bounds import membership_bound as bound_of_the_earlier_path
    from hushvec.audit.indexes.membership import judge as judge_of_the_earlier_path

    assert judge_of_the_earlier_path is judge
    assert bound_of_the_earlier_path is membership_bound
