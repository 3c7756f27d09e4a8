"""PublicInverter: Bayes under each mechanism's law against brute force, wrong laws rejected, and what the decoder must never need."""

import math
import sys

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from hushvec.mechanisms import (
    EmpiricalGaussian,
    Gaussian,
    L2Laplace,
    Laplacian,
    MetricEpsilon,
    MetricLaplace,
    PrivUnit,
    PublicProjection,
)
from hushvec.text.inverters.decoding import ReleaseDecoder, as_taken_in, chosen_parts
from hushvec.text.inverters.posterior import CandidateLaw, nearest_cosine, softmax
from hushvec.text.inverters.protocol import Inverter, LawInverter
from hushvec.text.inverters.public import DIMENSIONS, PublicInverter, best_space, on_grid
from text.public_texts import clustered, corpus_of, numbers_of

pytestmark = pytest.mark.ranks

MECHANISMS = {
    "gaussian": lambda d, clip_norm=1.0: Gaussian(epsilon=6.0, delta=1e-3, dimension=d, clip_norm=clip_norm),
    "empirical": lambda d, clip_norm=1.0: EmpiricalGaussian(chosen_sigma=0.4, dimension=d, clip_norm=clip_norm),
    "laplacian": lambda d, clip_norm=1.0: Laplacian(epsilon=12.0, dimension=d, clip_norm=clip_norm),
    "l2_laplace": lambda d, clip_norm=1.0: L2Laplace(epsilon=12.0, dimension=d, clip_norm=clip_norm),
    "privunit": lambda d, clip_norm=1.0: PrivUnit(epsilon=6.0, dimension=d, clip_norm=clip_norm),
}


def released(mechanism, rows, seed=0):
    out = np.empty_like(rows)
    mechanism.apply(rows, out, hv.Generator.unsafe_seeded(seed))
    return out


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


# ---- the likelihood, against densities written down anew ----


def density_given(mechanism, x, y):
    """Density of the released y given the clean row x, up to a factor: one pair, in float64, from the definitions."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    if isinstance(mechanism, PrivUnit):
        w, t, p = y / mechanism.sigma, mechanism.threshold, mechanism.cap_probability
        inside = w @ x / mechanism.clip_norm >= t
        return p / stats.norm.sf(t) if inside else (1 - p) / stats.norm.cdf(t)
    if isinstance(mechanism, Laplacian):
        return math.exp(-np.abs(y - x).sum() / mechanism.scale)
    if isinstance(mechanism, L2Laplace):
        return math.exp(-np.linalg.norm(y - x) / mechanism.scale)
    return math.exp(-np.sum((y - x) ** 2) / (2 * mechanism.sigma**2))


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("clip_norm", [1.0, 1.5])
def test_without_smoothing_the_posterior_is_that_of_the_definition(name, clip_norm):
    mechanism = MECHANISMS[name](6, clip_norm)
    rows = unit(clustered(12, 6)) * np.float32(clip_norm)
    noisy = released(mechanism, rows)
    brute = np.array([[density_given(mechanism, x, y) for x in rows] for y in noisy])
    brute /= brute.sum(axis=1, keepdims=True)
    law = CandidateLaw(mechanism, rows, 1.0)
    np.testing.assert_allclose(law.weights(noisy), brute, rtol=2e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["gaussian", "empirical", "privunit"])
def test_smoothing_is_the_mean_over_the_prior(name):
    """Weights and posterior mean by 200,000 draws of private rows from the prior; tolerances are several standard errors."""
    dimension, rho, draws = 5, 0.8, 200_000
    mechanism = MECHANISMS[name](dimension)
    rows = unit(clustered(4, dimension))
    noisy = released(mechanism, rows[:3], 1)
    law = CandidateLaw(mechanism, rows, rho)
    rng = np.random.default_rng(0)
    tau = math.sqrt((1 - rho**2) / dimension)
    brute, means = np.empty((3, 4)), np.empty((3, 4, dimension))
    for i, c in enumerate(rows.astype(np.float64)):
        x = rho * c + tau * rng.standard_normal((draws, dimension))
        for j, y in enumerate(noisy.astype(np.float64)):
            if name == "privunit":
                p, t = mechanism.cap_probability, mechanism.threshold
                density = np.where(x @ (y / mechanism.sigma) >= t, p / stats.norm.sf(t), (1 - p) / stats.norm.cdf(t))
            else:
                density = np.exp(-((y - x) ** 2).sum(axis=1) / (2 * mechanism.sigma**2))
            brute[j, i], means[j, i] = density.mean(), (density[:, None] * x).mean(axis=0)
    weights = brute / brute.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(law.weights(noisy), weights, rtol=0.03, atol=2e-4)
    if name != "privunit":  # whose gain is the best linear one, not the posterior mean within a candidate's neighbourhood
        centre = law.weights(noisy) @ law.centres
        expected = means.sum(axis=1) / brute.sum(axis=1)[:, None]
        np.testing.assert_allclose(centre + law.beyond(noisy, centre), expected, atol=0.02)


class Wrong:
    """A mechanism with some of its law's numbers replaced."""

    def __new__(cls, mechanism, **numbers):
        twin = object.__new__(type("Mutant", (type(mechanism),), dict(numbers)))
        twin.__dict__.update({key: value for key, value in mechanism.__dict__.items() if key not in numbers})
        return twin


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        *((name, lambda law: {"sigma": 1.5 * law.sigma}) for name in ("gaussian", "empirical", "privunit")),
        *((name, lambda law: {"sigma": law.sigma / 1.5}) for name in ("gaussian", "empirical", "privunit")),
        *((name, lambda law: {"scale": 1.5 * law.scale}) for name in ("laplacian", "l2_laplace")),
        *((name, lambda law: {"scale": law.scale / 1.5}) for name in ("laplacian", "l2_laplace")),
        ("privunit", lambda law: {"cap_probability": 1 - law.cap_probability}),  # inside and outside swapped
        ("privunit", lambda law: {"threshold": law.threshold - 1}),
    ],
)
def test_a_wrong_law_scores_worse(name, mutant):
    """20,000 releases of 40 known candidates. The log score is proper: the right law beats a mutant by more than 5 standard errors."""
    mechanism = MECHANISMS[name](8)
    rows = unit(np.random.default_rng(0).standard_normal((40, 8)))
    truth = np.tile(np.arange(40), 500)
    noisy = released(mechanism, np.ascontiguousarray(rows[truth]))

    def scores(law):
        return np.log(law.weights(noisy)[np.arange(len(noisy)), truth].astype(np.float64))

    difference = scores(CandidateLaw(mechanism, rows, 1.0)) - scores(CandidateLaw(Wrong(mechanism, **mutant(mechanism)), rows, 1.0))
    assert difference.mean() > 5 * difference.std() / math.sqrt(len(difference))


def test_a_candidate_without_direction_says_nothing():
    mechanism = PrivUnit(epsilon=6.0, dimension=4)
    rows = np.zeros((2, 4), np.float32)
    rows[1, 0] = 1
    density = CandidateLaw(mechanism, rows, 0.8).log_likelihood(np.array([[5.0, 0, 0, 0]], np.float32))
    assert density[0, 0] == 0 < density[0, 1]


def test_softmax_of_far_apart_numbers():
    weights = softmax(np.array([[-1e6, 0.0], [1e4, 1e4]], np.float32))
    np.testing.assert_array_equal(weights, [[0, 1], [0.5, 0.5]])


def test_nearest_cosine_is_of_others():
    rows = np.array([[1, 0], [1, 0], [0, 1]], np.float32)
    assert nearest_cosine(rows) == pytest.approx(2 / 3)
    assert nearest_cosine(rows[:1]) == nearest_cosine(rows[:2]) == 0.999


# ---- the decision ----


def test_the_choice_maximises_the_expected_cosine():
    """Against the definition: argmax over s of sum_i p_i <x_i, s>, by loops, on what a projection leaves of the noise."""
    rows = clustered(60, 10)
    projection = PublicProjection.fit(rows, components=4)
    mechanism = PrivUnit(epsilon=5.0, dimension=4)
    noisy = released(mechanism, unit(projection.transform(clustered(20, 10, seed=5))))
    decoder = ReleaseDecoder(rows, mechanism, projection)
    weights, law = decoder.law.weights(noisy), decoder.law
    chosen = chosen_parts(decoder.posterior_mean(noisy), rows, 1)[:, 0]
    # to the candidates' mean comes the remainder gain (y - E rho c), in the units of an embedding, along the components
    unit_length = np.linalg.norm(projection.transform(rows), axis=1).mean()
    beyond = law.gain * (noisy - weights @ law.centres) * unit_length @ projection.components
    np.testing.assert_allclose(decoder.posterior_mean(noisy), weights @ rows + beyond, atol=1e-5)
    assert np.abs(beyond).max() > 0.01
    for row, number in enumerate(chosen):
        expected = [sum(weights[row, i] * float(rows[i] @ text) for i in range(60)) + float(beyond[row] @ text) for text in rows]
        assert expected[number] >= max(expected) - 1e-4


def test_parts_are_the_greedy_ones():
    rows, targets = clustered(30, 6), clustered(8, 6, seed=4)
    for target, numbers in zip(targets, chosen_parts(targets, rows, 3), strict=True):
        together, taken, reached = np.zeros(6), [], -1.0
        for number in numbers[numbers >= 0]:
            sums = together + rows
            cosines = sums @ target / np.linalg.norm(sums, axis=1) / np.linalg.norm(target)
            cosines[taken] = -1
            assert cosines[number] == pytest.approx(cosines.max(), abs=1e-5) and cosines[number] > reached
            together, reached = together + rows[number], cosines[number]
            taken.append(number)
        assert len(set(taken)) == len(taken)


def test_no_part_is_added_that_does_not_help():
    corpus = corpus_of(np.eye(3, dtype=np.float32))
    inverter = PublicInverter(corpus, parts=3, separator=" / ")
    texts = inverter.invert(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1]], np.float32))
    assert texts == ["text 0", "text 0 / text 1", "text 0 / text 1 / text 2"]


@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.parametrize("mapped", [False, True])
def test_with_hardly_any_noise_the_nearest_text_is_returned(name, mapped):
    rows = clustered(100, 16)
    projection = PublicProjection.fit(rows, components=15) if mapped else None
    dimension = 15 if mapped else 16
    mechanism = {
        "gaussian": lambda: Gaussian(epsilon=1e6, delta=1e-3, dimension=dimension),
        "empirical": lambda: EmpiricalGaussian(chosen_sigma=1e-3, delta=1e-3, dimension=dimension),
        "laplacian": lambda: Laplacian(epsilon=1e6, dimension=dimension),
        "l2_laplace": lambda: L2Laplace(epsilon=1e6, dimension=dimension),
        "privunit": lambda: PrivUnit(epsilon=4096.0, dimension=dimension),
    }[name]()
    clean = rows if projection is None else unit(projection.transform(rows))
    texts = PublicInverter(corpus_of(rows)).for_release(mechanism, projection).invert(released(mechanism, clean))
    assert (numbers_of(texts) == np.arange(100)).mean() > (0.9 if name == "privunit" else 0.99)


def test_without_a_law_the_nearest_text_is_returned():
    rows, others = clustered(50, 8), clustered(20, 8, seed=3)
    found = numbers_of(PublicInverter(corpus_of(rows)).invert(others * np.float32(7)))
    np.testing.assert_array_equal(found, (others @ rows.T).argmax(axis=1))


@pytest.mark.parametrize("name", MECHANISMS)
def test_knowing_the_law_helps(name):
    """The posterior's texts are nearer to the private rows than those nearest to the noisy row: 10,000 rows, 5 standard errors."""
    rows, private = clustered(400, 24), clustered(10_000, 24, seed=8)
    mechanism = MECHANISMS[name](24)
    noisy = released(mechanism, private)
    inverter = PublicInverter(corpus_of(rows))
    plain, informed = (numbers_of(way.invert(noisy)) for way in (inverter, inverter.for_release(mechanism, None)))
    gain = np.einsum("ij,ij->i", private, rows[informed] - rows[plain])
    assert gain.mean() > 5 * gain.std() / math.sqrt(len(gain))


def test_rows_of_other_lengths_are_clipped_or_normalised():
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], np.float32)
    mechanism = Gaussian(epsilon=1.0, dimension=2, clip_norm=2.0)
    np.testing.assert_allclose(np.linalg.norm(as_taken_in(rows, mechanism, False), axis=1), [2, 0.5, 0], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(as_taken_in(rows, mechanism, True), axis=1), [2, 2, 0], rtol=1e-6)
    privunit = PrivUnit(epsilon=1.0, dimension=2)
    np.testing.assert_allclose(np.linalg.norm(as_taken_in(rows, privunit, False), axis=1), [1, 1, 0], rtol=1e-6)


# ---- the same answer every time, in any blocks ----


def test_the_choice_is_reproducible_and_rows_are_independent(monkeypatch):
    rows = clustered(200, 12)
    mechanism = PrivUnit(epsilon=8.0, dimension=12)
    noisy = released(mechanism, clustered(50, 12, seed=2))
    texts = PublicInverter(corpus_of(rows), parts=2).for_release(mechanism, None).invert(noisy)
    monkeypatch.setattr("hushvec.text.corpus._ELEMENTS", 7 * 200)
    again = PublicInverter(corpus_of(rows), parts=2).for_release(mechanism, None)
    assert again.invert(noisy) == texts
    assert [again.invert(noisy[i : i + 1])[0] for i in range(5)] == texts[:5]


def test_no_rows_give_no_texts():
    inverter = PublicInverter(corpus_of(clustered(5, 4)))
    assert inverter.invert(np.empty((0, 4), np.float32)) == []
    assert inverter.for_release(PrivUnit(epsilon=1.0, dimension=4), None).invert(np.empty((0, 4), np.float32)) == []


def test_one_text_is_always_the_answer():
    inverter = PublicInverter(corpus_of(clustered(1, 4)))
    assert inverter.projection_for("privunit", 4.0) is None
    assert inverter.for_release(PrivUnit(epsilon=1.0, dimension=4), None).invert(clustered(3, 4, seed=1)) == ["text 0"] * 3


def test_it_is_what_the_rewriter_asks_for():
    inverter = PublicInverter(corpus_of(clustered(5, 4)))
    assert isinstance(inverter, LawInverter)
    assert isinstance(inverter.for_release(Laplacian(epsilon=1.0, dimension=4), None), Inverter)


# ---- large corpora ----


@pytest.mark.parametrize("faiss", [True, False])
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_large_corpus_is_decoded_like_a_small_one(name, faiss, monkeypatch):
    """Shortlist, sample and index against all 6,000 texts: what is lost in cosine is at most 0.01 on average over 300 rows."""
    if faiss:
        pytest.importorskip("faiss")
    else:
        monkeypatch.setitem(sys.modules, "faiss", None)
    corpus, private = corpus_of(clustered(6000, 24, topics=200)), clustered(300, 24, topics=200, seed=3)
    mechanism = MECHANISMS[name](24)
    noisy = released(mechanism, private)
    exact = numbers_of(PublicInverter(corpus).for_release(mechanism, None).invert(noisy))
    monkeypatch.setattr("hushvec.text.inverters.decoding.MOST_TOGETHER", 1000)
    monkeypatch.setattr("hushvec.text.inverters.public.MOST_TOGETHER", 1000)
    monkeypatch.setattr("hushvec.text.inverters.decoding._SAMPLE", 1500)
    large = PublicInverter(corpus).for_release(mechanism, None)
    found = numbers_of(large.invert(noisy))
    lost = np.einsum("ij,ij->i", private, corpus.embeddings[exact] - corpus.embeddings[found])
    assert lost.mean() < 0.01
    assert large.invert(noisy) == large.invert(noisy)


def test_a_sample_as_large_as_the_corpus_gives_the_exact_mean(monkeypatch):
    """Each text counts once, whether it is on the shortlist, in the sample or in both."""
    rows, private = clustered(1500, 12), clustered(40, 12, seed=3)
    mechanism = PrivUnit(epsilon=6.0, dimension=12)
    noisy = released(mechanism, private)
    exact = ReleaseDecoder(rows, mechanism, None).posterior_mean(noisy)
    monkeypatch.setattr("hushvec.text.inverters.decoding.MOST_TOGETHER", 100)
    monkeypatch.setattr("hushvec.text.inverters.decoding._SAMPLE", 1500)
    np.testing.assert_allclose(ReleaseDecoder(rows, mechanism, None).posterior_mean(noisy), exact, atol=1e-5)


# ---- the space ----


def test_more_epsilon_keeps_more_dimensions():
    corpus = corpus_of(clustered(1200, 64, topics=60))
    sizes = [PublicInverter(corpus).projection_for("privunit", epsilon) for epsilon in (2.0, 64.0)]
    dimensions = [64 if space is None else space.output_dimension for space in sizes]
    assert dimensions[0] < dimensions[1]
    assert dimensions[0] in DIMENSIONS


def test_the_space_is_the_same_every_time_and_of_the_whole_corpus():
    corpus = corpus_of(clustered(300, 32))
    space = best_space(corpus, "privunit", 6.0)
    assert space is not None and space == best_space(corpus, "privunit", 6.0)
    assert space == PublicProjection.fit(corpus.embeddings, components=space.output_dimension)
    inverter = PublicInverter(corpus)
    assert inverter.projection_for("privunit", 6.0) is inverter.projection_for("privunit", 6.0)


@pytest.mark.parametrize("name", ["gaussian", "empirical", "laplacian", "l2_laplace", "privunit"])
@pytest.mark.parametrize("count", [8, 30])
def test_a_small_corpus_has_a_space_of_fewer_dimensions_than_texts(name, count):
    space = best_space(corpus_of(clustered(count, 48)), name, 8.0)
    assert space is not None
    assert 2 <= space.output_dimension < count


@pytest.mark.parametrize("name", ["gaussian", "empirical", "laplacian", "l2_laplace", "privunit"])
def test_fewer_than_eight_texts_have_no_space(name):
    assert best_space(corpus_of(clustered(7, 48)), name, 8.0) is None


def test_texts_of_one_direction_have_no_space():
    rows = np.tile(np.eye(1, 6, dtype=np.float32), (20, 1)) * np.linspace(1, 2, 20, dtype=np.float32)[:, None]
    assert best_space(corpus_of(rows), "privunit", 8.0) is None


# ---- bad input ----


@pytest.mark.parametrize(
    ("rows", "kind", "words"),
    [
        (np.ones((2, 5), np.float32), ValueError, r"shape \(n, 4\), got \(2, 5\)"),
        (np.ones(4, np.float32), ValueError, "shape"),
        (np.array([[0, 1, 2, 3], [np.nan] * 4], np.float32), ValueError, "row 1"),
        (np.full((1, 4), np.inf), ValueError, "row 0"),
        (np.full((1, 4), 1e300), ValueError, "row 0"),
        (np.ones((2, 4), np.int64), TypeError, "floats, got int64"),
        ([[1.0] * 4], TypeError, "got list"),
    ],
)
def test_rows_that_are_refused(rows, kind, words):
    inverter = PublicInverter(corpus_of(clustered(5, 4)))
    for way in (inverter, inverter.for_release(Laplacian(epsilon=1.0, dimension=4), None)):
        with pytest.raises(kind, match=words):
            way.invert(rows)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda c: PublicInverter("corpus"), TypeError, "must be a PublicCorpus, got str"),
        (lambda c: PublicInverter(c, parts=0), ValueError, "parts must be >= 1"),
        (lambda c: PublicInverter(c, parts=17), ValueError, "parts must be <= 16"),
        (lambda c: PublicInverter(c, separator=1), TypeError, "separator must be a str"),
        (lambda c: PublicInverter(c, delta=0.0), ValueError, "delta must be > 0"),
        (lambda c: PublicInverter(c).projection_for("laplace", 1.0), ValueError, "mechanism must be one of"),
        (lambda c: PublicInverter(c).projection_for("privunit", 0.0), ValueError, "epsilon must be > 0"),
        (lambda c: PublicInverter(c).projection_for("privunit", 1e9), ValueError, "epsilon must be in"),
        (lambda c: PublicInverter(c).for_release(Laplacian(epsilon=1.0, dimension=5), None), ValueError, "dimension 4, got 5"),
        (lambda c: PublicInverter(c).for_release("privunit", None), TypeError, "must be a mechanism"),
        (lambda c: PublicInverter(c).for_release(Laplacian(epsilon=1.0, dimension=4), 3), TypeError, "PublicProjection or None"),
        (
            lambda c: PublicInverter(c).for_release(Laplacian(epsilon=1.0, dimension=4), PublicProjection(np.zeros(5, np.float32))),
            ValueError,
            "projection must take 4 columns",
        ),
        (
            lambda c: PublicInverter(c).for_release(MetricLaplace(epsilon=MetricEpsilon(1.0), dimension=4), None),
            TypeError,
            "must be",
        ),
        (lambda c: CandidateLaw(Laplacian(epsilon=1.0, dimension=4), c.embeddings, 0.0), ValueError, "rho"),
        (lambda c: CandidateLaw(Laplacian(epsilon=1.0, dimension=3), c.embeddings, 0.5), ValueError, "candidates"),
    ],
)
def test_arguments_that_are_refused(make, kind, words):
    with pytest.raises(kind, match=words):
        make(corpus_of(clustered(9, 4)))


@pytest.mark.parametrize("epsilon, near", [(16.0, 16.0), (13.0, 2**3.5), (14.0, 16.0), (1.0, 1.0), (0.72, 2**-0.5)])
def test_what_is_found_out_once_serves_epsilons_nearby(epsilon, near):
    assert on_grid(epsilon) == near
