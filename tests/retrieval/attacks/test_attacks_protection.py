"""Planted weak protections are found weak by each attack that should find them, and sound ones are not.

Rows: 400 to 1,200 of 16 numbers, skewed and in clusters. Statistic: exact binomial tests of rows named and labels right, and the
lower bound on epsilon of the membership guesses, together at alpha.
"""

import numpy as np
import pytest

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec import audit
from hushvec.retrieval import ProtectionResult, protection
from hushvec.retrieval.attacks.alignment import known_pairs, named, without_pairs
from hushvec.retrieval.attacks.features import unit
from hushvec.retrieval.attacks.inversion import embedding_inversion
from hushvec.retrieval.attacks.protection import ABOVE, BEYOND, CHANCE, WITHIN

pytestmark = pytest.mark.ranks

ALPHA = 1e-12


def collection(rows, seed=1, dimension=16, topics=6):
    """(rows, labels): topics of different sizes, and axes of different lengths and skewness."""
    random = np.random.default_rng(seed)
    labels = random.choice(topics, rows, p=np.arange(1, topics + 1) / (topics * (topics + 1) / 2))
    centers = np.random.default_rng(7).gamma(1.0, 2.0, (topics, dimension)) - 2
    within = (random.gamma(2.0, 1.0, (rows, dimension)) - 2) * np.linspace(1.5, 0.3, dimension)
    return (centers[labels] + within).astype(np.float32), labels


def rotated(rows):
    return rows @ np.linalg.qr(np.random.default_rng(3).standard_normal((rows.shape[1],) * 2))[0].astype(np.float32)


def hadamard(rows):
    """Keyed signs, a Walsh-Hadamard transform, a keyed order."""
    random, width = np.random.default_rng(4), rows.shape[1]
    matrix = np.ones((1, 1))
    while len(matrix) < width:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return (rows * random.choice([-1, 1], width) @ matrix / np.sqrt(width))[:, random.permutation(width)].astype(np.float32)


def in_a_ball(rows, radius, seed=5):
    """Noise of at most this length, for rows at unit length."""
    random = np.random.default_rng(seed)
    noise = unit(random.standard_normal(rows.shape).astype(np.float32)) * random.random((len(rows), 1)) ** (1 / rows.shape[1])
    return (unit(rows) + radius * noise).astype(np.float32)


def encrypted(rows):
    """Distance-comparison preserving: scaled by a secret number, with noise in a ball (Fuchsbauer et al., 2022)."""
    return 1234.5 * in_a_ball(rows, 0.1)


def signs(rows):
    return rotated(rows - rows.mean(axis=0)) > 0


WEAK = {
    "rotation": (rotated, 0.99, ("known pairs", "membership", "reading", "no pairs")),
    "Hadamard": (hadamard, 0.99, ("known pairs", "membership", "reading", "no pairs")),
    "bounded noise": (lambda rows: in_a_ball(rows, 0.1), 0.9, ("same space", "known pairs", "membership", "reading", "no pairs")),
    "encryption": (encrypted, 0.9, ("same space", "known pairs", "membership", "reading", "no pairs")),
    "signs of a rotation": (signs, 0.1, ("known pairs", "membership", "reading")),
}


@pytest.mark.parametrize("name", WEAK)
def test_planted_weak_protections_are_found_weak_by_each_attack_that_should(name):
    """300 judged rows among 1,200, alpha = 1e-12 for all findings together; a map from 150 pairs in 16 dimensions."""
    protect, least, attacks = WEAK[name]
    rows, labels = collection(1200)
    result = protection(rows, protect, labels=labels, pairs=(150,), alpha=ALPHA, resamples=100)
    assert result.weak and not result.refuted
    (pairs,) = result.of("known pairs")
    assert pairs.value.value >= least and pairs.chance == 1 / 1200 and pairs.rows == 300 and pairs.bound is None
    assert {attack for attack in attacks if not any(one.verdict == ABOVE for one in result.of(attack))} == set()
    if name in ("rotation", "Hadamard"):
        assert [one.verdict for one in result.of("same space")] == [CHANCE]
        assert result.half <= 16 and result.useful["first ten kept"][1].value > 0.999


def small_epsilon(rows):
    return hv.privatize(rows, epsilon=0.1, mechanism="privunit")


@pytest.mark.parametrize("kind", ["privatize", "constant", "independent"])
def test_sound_protections_are_not_found_weak(kind):
    """Runs of 400 rows, 100 of them judged; keys of the operating system. A run fails by chance with probability at most 1e-12: for
    `privatize` that is more than its receipt allows, for the others more than chance."""
    for seed in range(scaled(8, 100)):
        rows, labels = collection(400, seed)
        receipt = None
        if kind == "privatize":
            release = small_epsilon(rows)
            hidden, receipt = release.values, release.receipt
        else:
            hidden = np.ones_like(rows) if kind == "constant" else np.random.default_rng().standard_normal(rows.shape)
        result = protection(rows, hidden, labels=labels, receipt=receipt, pairs=(100,), alpha=ALPHA, resamples=10, seed=seed)
        assert not result.weak and not result.refuted and result.half is None, (seed, str(result))
        assert {one.verdict for one in result.findings} <= {CHANCE, WITHIN}


def test_a_release_within_its_receipt_is_not_called_weak_and_one_beyond_it_is_refuted():
    """At epsilon 12 rows are found, as the receipt allows; the rows themselves with that receipt of epsilon 0.1 are refuted."""
    rows, labels = collection(800)
    release = hv.privatize(rows, epsilon=12.0, mechanism="privunit")
    result = protection(rows, release.values, labels=labels, receipt=release.receipt, pairs=(100,), alpha=ALPHA, resamples=10)
    same = result.of("same space")[0]
    assert same.verdict == WITHIN and same.chance < same.value.value <= same.bound and not result.weak
    forged = small_epsilon(rows).receipt
    result = protection(rows, unit(rows), labels=labels, receipt=forged, pairs=(100,), alpha=ALPHA, resamples=10)
    assert result.refuted and result.weak and result.epsilon == 0.1
    assert {one.attack for one in result.findings if one.verdict == BEYOND} >= {"same space", "known pairs", "membership", "reading"}


def test_without_a_claim_there_is_no_bound():
    rows, _ = collection(200)
    seeded = hv.privatize(rows, epsilon=1.0, generator=hv.Generator.unsafe_seeded(1))
    for receipt, words in ((None, "there is no receipt"), (seeded.receipt, "the receipt is no claim that holds")):
        result = protection(rows, seeded.values, receipt=receipt, pairs=(50,), resamples=10)
        assert words in result.no_bound and all(one.bound is None for one in result.findings)
        assert "no bound" in str(result)


def test_half_is_the_number_of_pairs_that_names_half():
    """Of a rotation in 16 dimensions: rows vary in all of them, so that few pairs name few rows and 16 name all."""
    rows, _ = collection(800)
    result = protection(rows, rotated, pairs=(4, 64), resamples=10)
    few, many = result.of("known pairs")
    assert few.value.value < 0.5 < many.value.value and 4 < result.half <= 16


def test_the_map_of_known_pairs_is_the_rotation():
    rows, _ = collection(300)
    clean, hidden = unit(rows), rotated(unit(rows))
    reader = known_pairs(hidden[:60], clean[:60], clean[60:])
    np.testing.assert_allclose(unit(reader.read(hidden[60:])), clean[60:], atol=0.02)
    assert named(reader.read(hidden[60:]), clean[60:]) == 1.0


def test_two_halves_of_one_distribution_give_the_rotation_without_pairs():
    rows, _ = collection(4000)
    clean = unit(rows)
    away = clean[2000:] - clean[:2000].mean(axis=0)
    reader = without_pairs(rotated(clean[2000:]), clean[:2000])
    read = reader.read(rotated(clean[2000:])) - clean[:2000].mean(axis=0)
    assert np.einsum("ij,ij->i", unit(read), unit(away)).mean() > 0.6


def test_rows_are_looked_for_at_their_places():
    rows, _ = collection(120)
    found = embedding_inversion(rows[:20], rows[:20], np.concatenate([rows[60:], rows[:20]]), places=np.arange(60, 80), resamples=10)
    assert found.identified[1].value == 1.0 and found.candidates == 80
    for places, error in ((np.arange(19), ValueError), (np.full(20, 80), ValueError), (np.zeros(20), ValueError)):
        with pytest.raises(error, match="places must be 20 whole numbers from 0 to 79, one for each row, got"):
            embedding_inversion(rows[:20], rows[:20], rows[:80], places=places)
    with pytest.raises(TypeError, match="places must be left out without candidates"):
        embedding_inversion(rows[:20], rows[:20], places=np.arange(20))


def test_it_is_reached_from_both_rooms_and_repeats():
    rows, labels = collection(200)
    names = list(map(str, labels))
    first, second = (one(rows, rotated(rows), labels=names, pairs=(50,), resamples=10) for one in (audit.protection, protection))
    assert isinstance(first, ProtectionResult) and first == second
    assert first.to_dict()["weak"] is True
    with pytest.raises(AttributeError, match=r"module 'hushvec.audit' has no attribute 'protections'"):
        audit.protections  # noqa: B018


@pytest.mark.parametrize(
    "change, words",
    [
        ({"clean": np.ones((99, 4), np.float32)}, "clean must have at least 100 rows, got 99"),
        ({"clean": np.ones((200, 4), int)}, "clean must be a float array, got int64"),
        ({"protected": np.ones((199, 4))}, "protected must have 200 rows, one for each of clean, and a column, got shape (199, 4)"),
        ({"protected": np.full((200, 4), np.nan)}, "protected must be finite, got NaN or Inf in row 0"),
        ({"labels": [0] * 199}, "labels must be one for each of 200 rows, got shape (199,)"),
        ({"labels": [0] * 200}, "labels must have at least two values, got [0]"),
        ({"labels": [0.5] * 200}, "labels must be whole numbers or strings, got float64"),
        ({"pairs": ()}, "pairs must have a number up to 75, half of the rows that are not judged, got []"),
        ({"pairs": (76,)}, "pairs must have a number up to 75, half of the rows that are not judged, got [76]"),
        ({"pairs": (1,)}, "pairs must be >= 2, got 1"),
        ({"alpha": 1.0}, "alpha must be > 0 and < 1, got 1.0"),
        ({"confidence": 0.0}, "confidence must be > 0 and < 1, got 0.0"),
        ({"receipt": "holds"}, "receipt must be one of released rows or None, got str"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
    ],
)
def test_bad_input(change, words):
    given = {"clean": np.ones((200, 4), np.float32), "protected": np.ones((200, 4)), **change}
    with pytest.raises((ValueError, TypeError)) as caught:
        protection(given.pop("clean"), given.pop("protected"), **given)
    assert str(caught.value) == words
