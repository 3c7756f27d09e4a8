"""The picker: what it prefers, what it leaves out, what it says, and that its figures are what happens.

Statistics, alpha = 1e-6 each: a binomial test of how often a release finds its row (4,000 releases); chi-square of the variance of
estimated frequencies (2,000 polls of 1,000 answers) and of means (200 of 400 rows); a normal test of the variance of Gumbel noise
(100,000 samples).
"""

import math

import numpy as np
import pytest
from scipy import stats

from hushvec.mechanisms import MECHANISMS, Gaussian, L2Laplace, Laplacian
from hushvec.mechanisms.recommend import PublicData, recommend
from hushvec.mechanisms.top_1 import top_1_sentence
from mechanisms.stand_ins import StandIn

ALPHA = 1e-6


@pytest.fixture(autouse=True)
def stand_ins(monkeypatch):
    """Known figures in place of PrivUnit's."""
    monkeypatch.setitem(MECHANISMS, "privunit", StandIn)


def option(recommendation, name):
    return next(option for option in recommendation.options if option.name == name)


# ---- what it prefers ----


def test_the_largest_cosine_wins():
    found = recommend(384, 8.0, 1e-5)
    assert isinstance(found.mechanism, StandIn) and found.mechanism.arguments == (8.0, 384, 1.0, 1)
    assert [one.name for one in found.options] == ["privunit", "gaussian", "laplacian", "l2_laplace"]
    gaussian = Gaussian(epsilon=8.0, delta=1e-5, dimension=384)
    assert option(found, "gaussian").figures["expected cosine"] == gaussian.expected_cosine()
    assert "expected cosine 0.2 at epsilon = 8, delta = 0" in found.why
    assert f"against expected cosine {gaussian.expected_cosine():.3g} with gaussian" in found.why


def test_a_worse_stand_in_loses(monkeypatch):
    monkeypatch.setattr(StandIn, "cosine", 0.001)
    monkeypatch.setattr(StandIn, "norm", 1000.0)
    for task in ("retrieval", "release"):
        assert isinstance(recommend(384, 8.0, task=task).mechanism, Gaussian)
    assert isinstance(recommend(384, 8.0, 0.0).mechanism, Laplacian)


def test_a_claim_comes_before_a_figure(monkeypatch):
    monkeypatch.setattr(StandIn, "grade", "float")
    found = recommend(384, 8.0)
    assert isinstance(found.mechanism, Gaussian)
    assert "privunit would give expected cosine 0.2, but is computed in floating point and carries no claim" in found.why
    assert option(found, "privunit").remark == "no claim: computed in floating point"
    assert [one.claims_privacy for one in found.options] == [True, True, False, False]


def test_l2_laplace_is_never_chosen_over_a_claim():
    found = recommend(64, 20.0, 0.0, task="release", unit_rows=False)
    assert isinstance(found.mechanism, Laplacian)
    better = L2Laplace(epsilon=20.0, dimension=64)
    assert better.noise_norm < found.mechanism.noise_norm
    assert f"l2_laplace would give noise norm {better.noise_norm:.3g}, but is computed in floating point" in found.why


def test_where_nothing_has_a_claim_it_says_so(monkeypatch):
    monkeypatch.setattr(StandIn, "grade", "float")
    monkeypatch.setattr(Laplacian, "grade", "float")
    found = recommend(384, 8.0, 0.0)
    assert isinstance(found.mechanism, StandIn) and "No option carries a claim" in found.why


def test_with_n_it_asks_for_public_rows_to_whiten_with():
    """The two belong together; a private sample would void the guarantee, so it asks for a public one."""
    told = recommend(384, 8.0, n=2000).why
    assert "Are there public rows of the same kind? Then whiten first" in told and "codebook" not in told
    assert "whiten=True" in told and "PrivUnit(epsilon=8.0, dimension=m, corpus_size=2000)" in told
    for other in (recommend(384, 8.0), recommend(384, 8.0, task="mean", n=2000)):
        assert "whiten" not in other.why


# ---- what it leaves out ----


def test_a_pure_price_leaves_out_the_gaussian():
    found = recommend(384, 8.0, 0.0)
    out = option(found, "gaussian")
    assert out.mechanism is None and out.remark == "needs delta > 0" and out.grade == "" and not out.claims_privacy
    assert found.options[-1] is out
    assert all(one.mechanism.cost == (8.0, 0.0) for one in found.options[:-1])


@pytest.mark.parametrize(("task", "is_out"), [("retrieval", False), ("release", True), ("mean", True)])
def test_lengths_that_matter_leave_out_directions(task, is_out):
    n = 10 if task == "mean" else None
    assert (option(recommend(384, 8.0, task=task, unit_rows=False, n=n), "privunit").mechanism is None) == is_out
    assert option(recommend(384, 8.0, task=task, unit_rows=True, n=n), "privunit").mechanism is not None


def test_a_refusal_becomes_a_remark():
    found = recommend(384, 1e-29, 0.0, clip_norm=2.0**-2)
    assert "must be in [2^-100, 2^100]" in recommend(384, 1e-32, 0.0).options[-2].remark
    assert found.mechanism is not None


def test_no_mechanism_at_all(monkeypatch):
    def refuse(**arguments):
        raise ValueError("epsilon must be at most 1")

    monkeypatch.setattr(StandIn, "for_price", refuse)
    with pytest.raises(ValueError, match=r"no mechanism for task 'retrieval' at epsilon = 1e-32, delta = 0.0: privunit: epsilon must"):
        recommend(384, 1e-32, 0.0)


def test_the_bound_is_that_of_one_row_of_a_person():
    """Three rows of a person share epsilon = 24: one of them is found as with epsilon = 8, not with 24 or 72."""
    told = recommend(384, 24.0, n=2000, rows_per_person=3).why
    assert "Of 2,001 independent rows, at most 37.9 % can be found on average, with any mechanism of epsilon = 8 and delta = 0" in told


# ---- what the price is for ----


def test_every_option_is_within_the_price():
    for delta in (0.0, 1e-9, 0.1):
        for task, extra in (("retrieval", {}), ("release", {}), ("mean", {"n": 5}), ("labels", {"labels": 4}), ("top_k", {"k": 3})):
            found = recommend(16, 2.5, delta, task=task, **extra)
            for one in found.options:
                if one.mechanism is not None:
                    assert one.mechanism.cost[0] <= 2.5 and one.mechanism.cost[1] <= delta
            assert found.mechanism is found.options[0].mechanism and found.task == task


def test_setting_reaches_the_mechanism():
    found = recommend(100, 8.0, 1e-6, clip_norm=0.5, rows_per_person=3)
    assert found.mechanism.arguments == (8.0, 100, 0.5, 3)
    gaussian = option(found, "gaussian").mechanism
    assert gaussian == Gaussian(epsilon=8.0, delta=1e-6, dimension=100, clip_norm=0.5, rows_per_person=3)


def test_a_corpus_changes_what_ranks():
    """The figure is a closed form for the stand-in's law: others below the score, alpha above 3 with probability 0.9."""
    found = recommend(384, 8.0, n=2000)
    assert found.mechanism.corpus_size == 2000 and recommend(384, 8.0).mechanism.corpus_size is None
    above = np.linspace(3.0, 12.0, 200_001)
    beaten = np.exp(2000 * stats.norm.logcdf(above) + stats.norm.logpdf(above))
    expected = 0.9 * np.sum((beaten[1:] + beaten[:-1]) / 2) * (above[1] - above[0]) / stats.norm.sf(3.0)
    assert found.options[0].figures["ideal top-1"] == pytest.approx(expected, rel=0.01)
    assert found.why.startswith(f"privunit: ideal top-1 {found.options[0].figures['ideal top-1']:.3g} at epsilon")
    assert found.table[0][4:7] == ("ideal top-1", "expected cosine", "noise norm")
    tops = [one.figures["ideal top-1"] for one in found.options]
    assert tops[0] > tops[1] > tops[2]   # the claimed ones, the best first


def test_the_bound_of_a_search_is_that_of_one_of_a_persons_rows():
    bound = top_1_sentence(2.0, 2001)
    assert f" {bound[0].upper()}{bound[1:]}." in recommend(384, 8.0, n=2000, rows_per_person=4).why


@pytest.mark.parametrize(("kind", "epsilon"), [("gaussian", 20.0), ("gaussian", 40.0), ("laplacian", 80.0), ("laplacian", 120.0)])
def test_ideal_top_1_is_what_happens(kind, epsilon):
    """4,000 releases of a row among 200 others, orthogonal in a random basis: a binomial test. A wrong corpus or noise is noticed."""
    import hushvec as hv

    found = option(recommend(201, epsilon, 1e-5, n=200), kind)
    basis = np.linalg.qr(np.random.default_rng(25).standard_normal((201, 201)))[0].astype(np.float32)
    x = np.tile(basis[0], (4000, 1))
    y = np.empty_like(x)
    found.mechanism.apply(x, y, hv.Generator.unsafe_seeded(24))
    hits = int(((y @ basis.T).argmax(axis=1) == 0).sum())
    assert 0.05 < hits / 4000 < 0.95
    assert stats.binomtest(hits, 4000, found.figures["ideal top-1"]).pvalue > ALPHA
    for wrong in (option(recommend(201, epsilon, 1e-5, n=20), kind), option(recommend(201, 1.3 * epsilon, 1e-5, n=200), kind)):
        assert stats.binomtest(hits, 4000, wrong.figures["ideal top-1"]).pvalue < ALPHA


def test_a_mean_gains_with_people():
    one, hundred = (recommend(384, 8.0, task="mean", n=n) for n in (1, 100))
    for name in ("privunit", "gaussian"):
        alone, together = (option(found, name).figures for found in (one, hundred))
        assert alone["standard error"] == alone["noise norm"] == together["noise norm"]
        assert together["standard error"] == pytest.approx(alone["standard error"] / 10)


def test_the_standard_error_of_a_mean_is_what_happens():
    """The L2 error of a mean of 400 released rows; root mean square over 200 such means of 8 elements, chi-square."""
    import hushvec as hv

    found = recommend(8, 8.0, 1e-5, task="mean", n=400, unit_rows=False)
    x = np.zeros((400 * 200, 8), np.float32)
    y = np.empty_like(x)
    found.mechanism.apply(x, y, hv.Generator.unsafe_seeded(21))
    errors = y.reshape(200, 400, 8).mean(axis=1, dtype=np.float64)
    stated = found.options[0].figures["standard error"]
    for value, holds in ((stated, True), (stated * 20, False), (stated / math.sqrt(8), False), (stated * math.sqrt(2), False)):
        statistic = np.square(errors).sum() / (value**2 / 8)
        p_value = 2 * min(stats.chi2.cdf(statistic, 1600), stats.chi2.sf(statistic, 1600))
        assert (p_value > ALPHA) == holds


@pytest.mark.parametrize("labels", [2, 10])
def test_the_standard_error_of_a_frequency_is_what_happens(labels):
    epsilon, n, polls = 1.5, 1000, 2000
    figures = recommend(1, epsilon, task="labels", labels=labels, n=n).options[0].figures
    p = math.exp(epsilon) / (math.exp(epsilon) + labels - 1)
    q = (1 - p) / (labels - 1)
    assert figures["truth"] == pytest.approx(p)
    rng = np.random.default_rng(22)
    truth = np.zeros(n, int)   # everybody holds label 0; the last label is what nobody holds
    estimates = []
    for _ in range(polls):
        other = rng.integers(1, labels, n)
        answers = np.where(rng.random(n) < p, truth, other)
        estimates.append((np.mean(answers == labels - 1) - q) / (p - q))
    for value, holds in ((figures["standard error"], True), (figures["standard error"] * 1.2, False), (math.sqrt(q / n), False)):
        statistic = np.var(estimates, ddof=1) * (polls - 1) / value**2
        p_value = 2 * min(stats.chi2.cdf(statistic, polls - 1), stats.chi2.sf(statistic, polls - 1))
        assert (p_value > ALPHA) == holds
    assert abs(np.mean(estimates)) < 5 * figures["standard error"] / math.sqrt(polls)


def test_many_labels_get_a_remark():
    epsilon = 2.0
    most = math.floor(3 * math.exp(epsilon) + 2)
    assert option(recommend(1, epsilon, task="labels", labels=most), "randomized_response").remark == ""
    found = recommend(1, epsilon, task="labels", labels=most + 1)
    assert "unary encoding would have a smaller error" in found.options[0].remark and "Unary" not in found.why
    assert found.why.endswith("unary encoding would have a smaller error.")
    assert recommend(1, epsilon, task="labels", labels=[f"label {i}" for i in range(most + 1)]).why == found.why
    names = recommend(1, epsilon, task="labels", labels=["a", "b", "c"])
    assert names.mechanism.k == 3


def test_the_remark_about_labels_is_where_the_errors_cross():
    """Optimised unary encoding: variance 4 e^epsilon / (n (e^epsilon - 1)^2) of a frequency near 0."""
    for epsilon in (0.5, 1.0, 3.0):
        unary = math.sqrt(4 * math.exp(epsilon)) / (math.exp(epsilon) - 1)
        crossing = 3 * math.exp(epsilon) + 2
        for labels in (math.floor(crossing), math.floor(crossing) + 1):
            found = recommend(1, epsilon, task="labels", labels=labels).options[0]
            assert (found.figures["standard error"] > unary) == bool(found.remark)


def test_top_k_noise_is_that_of_a_gumbel_variate():
    found = recommend(1, 4.0, task="top_k", k=3, sensitivity=0.5)
    factor = 2 * 0.5 / (4.0 / 3)   # of a score: 2 D / (epsilon per pick)
    samples = factor * np.random.default_rng(23).gumbel(size=100_000)
    # the fourth central moment of a Gumbel variate is 5.4 times its squared variance
    z = (np.var(samples) / found.options[0].figures["score noise"] ** 2 - 1) / math.sqrt((5.4 - 1) / 100_000)
    assert 2 * stats.norm.sf(abs(z)) > ALPHA
    assert 2 * stats.norm.sf(abs((1.0 / 3 * 4 - 1) / math.sqrt((5.4 - 1) / 100_000))) < ALPHA   # 2 D dropped is noticed
    assert found.mechanism.sensitivity == 0.5
    assert recommend(1, 4.0, task="top_k", k=3, clip_norm=1.5).mechanism.sensitivity == 3.0


@pytest.mark.parametrize(
    ("task", "function", "settings"),
    [
        ("retrieval", "private_classifier", {}),
        ("retrieval", "private_classifier", {"n": 100}),
        ("release", "private_mean", {}),
        ("mean", "private_mean", {"n": 100}),
        ("labels", "private_histogram", {"labels": 3}),
        ("top_k", None, {"k": 3}),
    ],
)
def test_at_a_small_epsilon_many_people_together_come_first(task, function, settings):
    from hushvec import aggregates

    small, larger = (recommend(384, epsilon, task=task, **settings).why for epsilon in (4.0, 4.5))
    assert "aggregates" not in larger
    if function is None:
        assert "aggregates" not in small
        return
    assert callable(getattr(aggregates, function))
    assert small.startswith("Is the question about many people together") and f"hushvec.aggregates.{function}" in small
    assert "docs/aggregates.md" in small.partition(f". {recommend(384, 4.0, task=task, **settings).options[0].name}: ")[0]


# ---- what it shows ----


def test_the_table_is_complete():
    found = recommend(384, 8.0, 0.0)
    header, *rows = found.table
    assert header == ("mechanism", "epsilon", "delta", "grade", "expected cosine", "noise norm", "remark")
    assert [row[0] for row in rows] == ["privunit", "laplacian", "l2_laplace", "gaussian"]
    assert all(len(row) == len(header) for row in rows)
    assert rows[0][1:4] == ("8", "0", "exact") and rows[-1][1:4] == ("", "", "")
    lines = str(found).splitlines()
    assert all(words[0] == row[0] for words, row in zip(map(str.split, lines[2:6]), rows, strict=True))
    assert " ".join(" ".join(lines).split()).endswith(f"gaussian needs delta > 0 why {found.why}")
    assert all(line == line.rstrip() for line in lines)


def test_a_price_is_printed_with_all_its_digits():
    found = recommend(384, 7.123456789012, 1.23456789e-7)
    assert found.table[2][1:3] == ("7.123456789012", "1.23456789e-07") and "epsilon = 7.123456789012" in found.why


def test_nothing_is_drawn(monkeypatch):
    from hushvec._native import kernels

    def draw(*arguments, **settings):
        raise AssertionError("noise was drawn")

    for name in ("fill", "clip_and_noise"):
        monkeypatch.setattr(kernels, name, draw)
    assert recommend(384, 8.0).options
    assert recommend(384, 8.0, task="mean", n=10).options


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: recommend(0, 8.0), ValueError, "dimension must be >= 1, got 0"),
        (lambda: recommend(3.5, 8.0), TypeError, "dimension must be a whole number"),
        (lambda: recommend(3, 0.0), ValueError, "epsilon must be > 0, got 0.0"),
        (lambda: recommend(3, math.nan), ValueError, "epsilon must be finite"),
        (lambda: recommend(3, True), TypeError, "epsilon must be a number, got bool"),
        (lambda: recommend(3, 1.0, -1e-5), ValueError, "delta must be > 0 and < 1"),
        (lambda: recommend(3, 1.0, 1.0), ValueError, "delta must be > 0 and < 1"),
        (lambda: recommend(3, 1.0, task="search"), ValueError, "task must be one of 'retrieval', 'release', 'mean',"),
        (lambda: recommend(3, 1.0, task=None), TypeError, "task must be a str"),
        (lambda: recommend(3, 1.0, clip_norm=-1.0), ValueError, "clip_norm must be > 0, got -1.0"),
        (lambda: recommend(3, 1.0, unit_rows=1), TypeError, "unit_rows must be True or False"),
        (lambda: recommend(3, 1.0, rows_per_person=0), ValueError, "rows_per_person must be >= 1"),
        (lambda: recommend(3, 1.0, public=4), TypeError, "public must be a hushvec.PublicData or None, got int"),
        (lambda: recommend(3, 1.0, public_sample=1), TypeError, r"must be given as public=PublicData\(sample=\.\.\.\), got"),
        (lambda: recommend(3, 1.0, task="release", n=5), ValueError, "n must be None for task 'release', got 5"),
        (lambda: recommend(3, 1.0, task="mean"), TypeError, "n must be given for task 'mean'"),
        (lambda: recommend(3, 1.0, task="mean", n=0), ValueError, "n must be >= 1"),
        (lambda: recommend(3, 1.0, task="mean", n=5, k=1), ValueError, "k must be None for task 'mean', got 1"),
        (lambda: recommend(3, 1.0, task="labels"), TypeError, "labels must be given for task 'labels'"),
        (lambda: recommend(3, 1.0, task="labels", labels=1), ValueError, "labels must be >= 2, got 1"),
        (lambda: recommend(3, 1.0, task="labels", labels=True), TypeError, "labels must be a whole number, got bool"),
        (lambda: recommend(3, 1.0, task="labels", labels=2.5), TypeError, "labels must be a whole number or a sequence, got float"),
        (lambda: recommend(3, 1.0, task="labels", labels="yes"), TypeError, "labels must be a whole number or a sequence, got str"),
        (lambda: recommend(3, 1.0, task="labels", labels=["a", "a"]), ValueError, "labels must be all different"),
        (lambda: recommend(3, 1.0, task="top_k"), TypeError, "k must be given for task 'top_k'"),
        (lambda: recommend(3, 1.0, task="top_k", k=0), ValueError, "k must be >= 1"),
        (lambda: recommend(3, 1.0, task="top_k", k=1, sensitivity=0.0), ValueError, "sensitivity must be > 0"),
        (lambda: recommend(3, 1.0, task="top_k", k=1, labels=3), ValueError, "labels must be None for task 'top_k', got 3"),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize(("name", "kind"), [("codebook", "PublicCodebook"), ("projection", "PublicProjection")])
def test_public_data_is_what_its_name_says(name, kind):
    for value, got in ((np.eye(4, dtype=np.float32), "ndarray"), ("path.npz", "str")):
        with pytest.raises(TypeError) as error:
            PublicData(**{name: value})
        assert str(error.value) == f"{name} must be a hushvec.mechanisms.{kind} or None, got {got}"
