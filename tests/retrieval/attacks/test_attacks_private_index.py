"""The attacks on `PrivateIndex` itself: what each side claims is what they compare with."""

import pytest

from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise, membership_inference
from hushvec.retrieval.attacks.membership import judge
from hushvec.retrieval.attacks.shadows import play
from retrieval.attacks.small_indexes import directions, near

POOL = directions(400, 16)
PHRASES = near(POOL, 2, 0.8)

# side -> (settings, epsilon claimed of two queries about a document)
SIDES = {
    "none": ({}, None),
    "documents": ({"documents": VectorNoise(epsilon=2.0)}, 2.0),
    "documents, renormalised": ({"documents": VectorNoise(epsilon=2.0, renormalize=True)}, 2.0),
    "documents, gaussian": ({"documents": VectorNoise(epsilon=2.0, mechanism="gaussian")}, 2.0),
    "queries": ({"queries": VectorNoise(epsilon=2.0)}, None),
    "scores": ({"scores": ScoreNoise(epsilon=0.5, delta=0.0)}, 1.0),
    "scores, gumbel": ({"scores": ScoreNoise(epsilon=0.5, delta=0.0, mechanism="gumbel")}, 1.0),
    "documents and queries": ({"documents": VectorNoise(epsilon=2.0), "queries": VectorNoise(epsilon=2.0)}, 2.0),
    "documents and scores": ({"documents": VectorNoise(epsilon=2.0), "scores": ScoreNoise(epsilon=0.5, delta=0.0)}, 1.0),
}


@pytest.mark.parametrize("side", SIDES)
def test_every_side(side):
    """n = 200 members and 200 others."""
    settings, claimed = SIDES[side]
    index = PrivateIndex(16, store="numpy", **settings)
    game = play(index.fresh, POOL, PHRASES, k=5, shadow_models=4)
    for attack in ("logistic", "likelihood"):
        result = judge(game, attack=attack, resamples=100)
        assert result.epsilon_claimed == claimed
        assert not result.exposed
        assert result.auc.high < result.bound["auc"] or claimed is None
    if claimed is None and side == "none":
        assert result.auc.low > 0.9


def test_rows_of_a_private_index():
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=2.0))
    result = membership_inference(index.fresh, POOL, attack="released", k=1, shadow_models=2, target_models=5, resamples=100)
    assert result.epsilon_claimed == 2.0 and 1.0 < result.epsilon_lower < 2.0


def test_a_claim_smaller_than_the_truth_is_exposed():
    """Rows of epsilon = 8 under a claim of 2, 200 pairs."""
    index = PrivateIndex(16, store="numpy", documents=VectorNoise(epsilon=8.0))
    result = membership_inference(index.fresh, POOL, attack="released", k=1, shadow_models=2, claim=(2.0, 0.0), resamples=100)
    assert result.exposed
