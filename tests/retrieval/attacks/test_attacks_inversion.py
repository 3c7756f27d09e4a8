"""Vectors back from released rows: as many as the law allows, and no more than its bound."""

import json

import numpy as np
import pytest

import hushvec as hv
from hushvec.retrieval.attacks.inversion import embedding_inversion, identification_bound
from retrieval.attacks.small_indexes import directions, unit

pytestmark = pytest.mark.ranks

CLEAN = directions(400, 32)


def release(rows, seed=1, **setting):
    return hv.privatize(rows, generator=hv.Generator.unsafe_seeded(seed), **setting)


def low_rank(rows, dimension=32, rank=3, seed=5):
    """Directions near a plane of few dimensions, off the origin, as embeddings are."""
    random = np.random.default_rng(seed)
    axes = random.standard_normal((rank, dimension))
    return unit(1.0 + random.standard_normal((rows, rank)) @ axes + 0.05 * random.standard_normal((rows, dimension)))


@pytest.mark.parametrize("receipt", [True, False])
def test_without_noise_everything_comes_back(receipt):
    found = embedding_inversion(CLEAN, CLEAN)
    assert found.identified[1].value == 1.0 and found.identified[1].low > 0.98
    assert found.cosines["released"].value == pytest.approx(1.0, abs=1e-5)
    assert found.identified_bound == 1.0


@pytest.mark.parametrize("mechanism", ["gaussian", "privunit", "laplacian", "l2_laplace"])
@pytest.mark.parametrize("epsilon", [0.5, 2.5])
def test_identification_stays_below_its_bound(mechanism, epsilon):
    """n = 400 rows and as many candidates. Chance is 1/400; the bound 0.0041 and 0.03, to which 5 deviations of a share are added:
    an adversary that beats the bound threefold at epsilon = 2.5 (a third more epsilon than claimed) is seen.
    """
    released = release(CLEAN, epsilon=epsilon, mechanism=mechanism)
    found = embedding_inversion(released.values, CLEAN, receipt=released.receipt, resamples=200)
    bound = identification_bound(epsilon, released.receipt.delta, 400)
    assert found.identified_bound == bound
    assert found.identified[1].value <= bound + 5 * np.sqrt(bound / 400)


def test_a_broken_claim_is_seen():
    """Noise for epsilon = 16 with the receipt of 2: far above the bound of 0.02."""
    from dataclasses import replace

    released = release(CLEAN, epsilon=16.0, mechanism="privunit")
    found = embedding_inversion(released.values, CLEAN, receipt=replace(released.receipt, epsilon=2.0), resamples=200)
    assert found.identified[1].low > 0.5 > found.identified_bound


def test_the_law_identifies_more_than_the_inner_product():
    """PrivUnitG's law has two values and orders worse than the inner product; the Gaussian's orders equally for unit vectors."""
    released = release(CLEAN, epsilon=40.0)
    by_law = embedding_inversion(released.values, CLEAN, receipt=released.receipt, resamples=50)
    by_product = embedding_inversion(released.values, CLEAN, resamples=50)
    assert by_law.identified[1].value == by_product.identified[1].value > 0.2


def test_reconstruction_uses_what_is_public():
    """n = 400 rows near 3 dimensions of 32, noise of cosine about 0.2: the linear estimate and the posterior are far nearer."""
    clean = low_rank(800)
    truth, public = clean[:400], clean[400:]
    released = release(truth, epsilon=8.0)
    found = embedding_inversion(released.values, truth, public, receipt=released.receipt, resamples=200)
    raw = found.cosines["released"]
    assert found.cosines["linear"].low > raw.high + 0.2
    assert found.cosines["posterior mean"].low > raw.high + 0.2
    assert found.cosine.value == max(cosine.value for cosine in found.cosines.values())
    assert found.identified == {} and found.identified_bound == 1.0
    # what anybody knows without looking at a row: the mean of public vectors
    blind = unit(truth) @ unit(public.mean(axis=0))
    assert found.cosine.low > blind.mean()


def test_theory_of_the_raw_cosine():
    """1 / sqrt(1 + d sigma^2) within 3 %: n = 400, d = 32."""
    released = release(CLEAN, mechanism="empirical", sigma=0.2)
    found = embedding_inversion(released.values, CLEAN)
    assert found.cosines["released"].value == pytest.approx(1 / np.sqrt(1 + 32 * 0.04), rel=0.03)


def test_ties_are_shared():
    """Each vector twice in the list: half of them are named."""
    found = embedding_inversion(np.tile(CLEAN[:50], (2, 1)), np.tile(CLEAN[:50], (2, 1)), resamples=20)
    assert found.identified[1].value == pytest.approx(0.5)
    assert found.identified[10].value == 1.0


def test_results_are_ready_for_json():
    released = release(CLEAN, epsilon=2.0)
    found = embedding_inversion(released.values, CLEAN, receipt=released.receipt, resamples=20)
    again = json.loads(json.dumps(found.to_dict()))
    assert again["identified"]["1"]["value"] == found.identified[1].value
    assert again["rows"] == again["candidates"] == 400


@pytest.mark.parametrize(
    "change,words",
    [
        (dict(released=CLEAN[:3]), "released and clean must have one shape [n, d] with n >= 2, got (3, 32) and (400, 32)"),
        (dict(candidates=CLEAN[:, :5]), "candidates must be [c, 32] with c >= 2, got (400, 5)"),
        (dict(candidates=CLEAN[:1]), "candidates must be [c, 32] with c >= 2, got (1, 32)"),
        (dict(released=CLEAN * np.inf), "released must be finite, got NaN or Inf in row 0"),
        (dict(confidence=0.0), "confidence must be > 0 and < 1, got 0.0"),
    ],
)
def test_bad_values(change, words):
    with pytest.raises(ValueError) as caught:
        embedding_inversion(**({"released": CLEAN, "clean": CLEAN} | change))
    assert str(caught.value) == words


def test_bad_kinds():
    with pytest.raises(TypeError, match="receipt must be one of released rows or None, got dict"):
        embedding_inversion(CLEAN, CLEAN, receipt={})
