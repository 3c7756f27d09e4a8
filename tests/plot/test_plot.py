"""Pictures draw the numbers of the library: curves, points and intervals are read back from the axes and compared."""

import json
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec._util.statistics import Estimate
from hushvec.errors import MissingExtraError
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, PrivUnit, PublicCodebook
from hushvec.retrieval import PrivateIndex, VectorNoise, embedding_inversion, evaluate, membership_inference, tune_epsilon

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

ROWS = np.random.default_rng(5).standard_normal((400, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ax():
    return plt.subplots()[1]


def bars(ax):
    """(centers, low and high ends of the intervals in y) of the points with intervals."""
    container = ax.containers[0]
    segments = [np.array(lines.get_segments()) for lines in container[2]]
    return container[0].get_xydata(), segments


# ---- cosine over epsilon ----


@pytest.mark.parametrize(
    "name, make",
    [
        ("gaussian", lambda epsilon: Gaussian(epsilon=epsilon, delta=1e-6, dimension=24, clip_norm=0.5, rows_per_person=2)),
        ("laplacian", lambda epsilon: Laplacian(epsilon=epsilon, dimension=24, clip_norm=0.5, rows_per_person=2)),
        ("l2_laplace", lambda epsilon: L2Laplace(epsilon=epsilon, dimension=24, clip_norm=0.5, rows_per_person=2)),
        ("privunit", lambda epsilon: PrivUnit(epsilon=epsilon, dimension=24, clip_norm=0.5, rows_per_person=2)),
    ],
)
def test_curves_are_the_mechanisms_own(ax, name, make):
    drawn = hv.plot.cosine(24, [8, 2, 32], mechanisms=[name], delta=1e-6, clip_norm=0.5, rows_per_person=2, ax=ax)
    assert drawn is ax
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [2.0, 8.0, 32.0]
    assert line.get_ydata().tolist() == [make(epsilon).expected_cosine() for epsilon in (2.0, 8.0, 32.0)]
    assert ax.get_xlabel() == "epsilon for 2 rows of one person" and ax.get_ylabel() == "expected cosine with the clean row"
    assert ("float: no claim" in line.get_label()) == (make(1.0).grade == "float")


def test_codebooks_and_measurements(ax):
    book = PublicCodebook.fit(ROWS, epsilon=4.0)
    index = PrivateIndex(8, documents=VectorNoise(epsilon=32.0), store="numpy")
    index.add(ROWS)
    evaluation = evaluate(index, ROWS[:20], np.arange(20), k=1, clean=ROWS, resamples=50, latency_queries=0)
    measured = [(32.0, evaluation), (8, Estimate(0.5, 0.4, 0.7, 0.95)), (np.float32(2), 0.25)]
    hv.plot.cosine(8, [2, 4], mechanisms=["privunit", book], measured=measured, ax=ax)
    assert ax.lines[1].get_ydata().tolist() == [book.mechanism(epsilon=epsilon).expected_cosine() for epsilon in (2.0, 4.0)]
    assert ax.lines[1].get_label() == f"public codebook of {len(book)}"
    points, (segments,) = bars(ax)
    cosine = evaluation.metrics["mean_cosine"]
    assert points.tolist() == [[32.0, cosine.value], [8.0, 0.5], [2.0, 0.25]]
    np.testing.assert_allclose(segments[:, :, 1], [[cosine.low, cosine.high], [0.4, 0.7], [0.25, 0.25]])


def test_every_series_looks_different(ax):
    hv.plot.cosine(16, [1, 2], ax=ax)
    assert len({(line.get_color(), line.get_linestyle()) for line in ax.lines}) == 4
    assert len({line.get_color() for line in ax.lines}) == 4
    assert len({str(line.get_linestyle()) for line in ax.lines}) == 4


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda: hv.plot.cosine(0), ValueError, "dimension must be >= 1, got 0"),
        (lambda: hv.plot.cosine(8, [0.0]), ValueError, "epsilon must be > 0, got 0.0"),
        (
            lambda: hv.plot.cosine(8, mechanisms=["empirical"]),
            ValueError,
            "mechanisms must be one of 'gaussian', 'laplacian', 'l2_laplace', 'privunit', got 'empirical'",
        ),
        (lambda: hv.plot.cosine(8, measured=[(1.0, "x")]), TypeError, "measured must be a number, got str"),
        (
            lambda: hv.plot.cosine(9, mechanisms=[PublicCodebook.fit(ROWS, epsilon=4.0)]),
            ValueError,
            "mechanisms must be for 9 elements, got a codebook for 8",
        ),
        (lambda: hv.plot.cosine(8, ax=3), TypeError, "ax must be a matplotlib Axes or None, got int"),
        (
            lambda: hv.plot.utility_over_attack([]),
            ValueError,
            "results must have at least one point with a utility and an attack, got none",
        ),
        (
            lambda: hv.plot.utility_over_attack([3]),
            TypeError,
            "results must be a TunedEpsilon, rows, or triples (name, utility, attack), got int in them",
        ),
        (
            lambda: hv.plot.utility_over_attack([{"a": 1}]),
            ValueError,
            "results must have the column 'recall_at_10', got a row without it",
        ),
        (
            lambda: hv.plot.utility_over_attack([{"recall_at_10": "x", "auc": 1}]),
            ValueError,
            "recall_at_10 must be a finite number in every row, got 'x'",
        ),
        (lambda: hv.plot.utility_over_attack([("a", float("nan"), 1)]), ValueError, "utility must be finite, got nan"),
        (lambda: hv.plot.budget_over_time(3), TypeError, "budget must be a PrivacyBudget or its export, got int"),
        (
            lambda: hv.plot.budget_over_time(hv.PrivacyBudget(1.0), amount="rho"),
            ValueError,
            "amount must be one of 'epsilon', 'delta', got 'rho'",
        ),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == text
    assert not plt.get_fignums()


# ---- utility over attack ----


def test_triples_of_results(ax):
    def make(generator):
        return PrivateIndex(8, documents=VectorNoise(epsilon=8.0), generator=generator)

    index = make(hv.Generator())
    index.add(ROWS)
    evaluation = evaluate(index, ROWS[:30], np.arange(30), k=(1, 10), resamples=50, latency_queries=0)
    attack = membership_inference(make, ROWS, shadow_models=4, k=1, resamples=50, fprs=(0.01,))
    hv.plot.utility_over_attack([("8", evaluation, attack)], ax=ax)
    recall = evaluation.metrics["recall_at_10"]
    points, (across, along) = bars(ax)
    assert points.tolist() == [[attack.auc.value, recall.value]]
    np.testing.assert_allclose(across[0][:, 0], [attack.auc.low, attack.auc.high])
    np.testing.assert_allclose(along[0][:, 1], [recall.low, recall.high])
    assert ax.get_xlabel() == "attack: area under the ROC curve" and ax.get_ylabel() == "utility: recall_at_10"
    assert [text.get_text() for text in ax.texts] == ["8"]

    second = hv.plot.utility_over_attack([("8", evaluation, attack)], utility="mrr", attack=0.01)
    assert bars(second)[0].tolist() == [[attack.tpr[0.01].value, evaluation.metrics["mrr"].value]]
    assert second.get_xlabel() == "attack: share of members found at 1 % false positives"
    with pytest.raises(ValueError, match=r"^attack must be one of 'auc', 0\.01 for a membership attack, got 0\.5$"):
        hv.plot.utility_over_attack([("8", evaluation, attack)], attack=0.5)
    with pytest.raises(ValueError, match=r"^utility must be one of 'recall_at_1', .*, got 'recall_at_7'$"):
        hv.plot.utility_over_attack([("8", evaluation, attack)], utility="recall_at_7")

    release = hv.privatize(ROWS, epsilon=8.0, mechanism="privunit")
    inversion = embedding_inversion(release.values, ROWS, receipt=release.receipt, resamples=50)
    third = hv.plot.utility_over_attack([("8", 0.5, inversion)], attack="identified")
    assert bars(third)[0].tolist() == [[inversion.identified[1].value, 0.5]]


def test_a_tuned_epsilon(ax):
    def make(epsilon, generator):
        return PrivateIndex(8, documents=VectorNoise(epsilon=epsilon), generator=generator)

    tuned = tune_epsilon(
        make,
        public_documents=ROWS,
        target_tpr=0.3,
        fpr=0.05,
        steps=3,
        shadow_models=4,
        k=1,
        resamples=50,
        utility=lambda epsilon: epsilon / 64,
    )
    hv.plot.utility_over_attack(tuned, ax=ax)
    met = [trial for trial in tuned.trials if trial.utility is not None]
    assert bars(ax)[0].tolist() == [[trial.tpr.value, trial.utility] for trial in met]
    assert [line.get_xdata()[0] for line in ax.lines[-2:]] == [0.3, 0.05]
    assert ax.get_legend_handles_labels()[1] == ["limit 0.3", "guessing: 0.05"]


def test_rows_of_a_study(ax):
    rows = [
        {"epsilon_doc": "8", "noise": "privunit", "recall": ".5", "mia_auc": ".7", "recall_ci_lower": ".4", "recall_ci_upper": ".6"},
        {"epsilon_doc": 16, "noise": "gaussian", "recall": 0.25, "recall_ci_lower": "", "recall_ci_upper": None, "mia_auc": 0.6},
        {"epsilon_doc": 32, "noise": "gaussian", "recall": "", "mia_auc": 0.6},
    ]
    hv.plot.utility_over_attack(rows, utility="recall", attack="mia_auc", label="epsilon_doc", by="noise", ax=ax)
    points, (segments,) = bars(ax)
    assert points.tolist() == [[0.7, 0.5]]
    np.testing.assert_allclose(segments[0][:, 1], [0.4, 0.6])
    assert ax.containers[1][0].get_xydata().tolist() == [[0.6, 0.25]]
    assert ax.get_legend_handles_labels()[1] == ["guessing: 0.5", "privunit", "gaussian"]
    assert [text.get_text() for text in ax.texts] == ["epsilon_doc 8", "epsilon_doc 16"]


# ---- a budget over time ----


def test_steps_are_the_rows_of_the_ledger(ax):
    budget = hv.PrivacyBudget(10.0, 1e-3)
    for epsilon in (1.0, 0.5, 2.5):
        budget.consume(epsilon, 1e-5)
    budget.reset()
    budget.consume(3.0)
    hv.plot.budget_over_time(budget, ax=ax)
    steps, limit, reset = ax.lines
    assert steps.get_ydata().tolist() == [0.0, 1.0, 1.5, 4.0, 0.0, 3.0]
    assert steps.get_drawstyle() == "steps-post" and limit.get_ydata()[0] == 10.0
    rows = budget.export()["rows"]
    days = [row["time_us"] / 86_400e6 for row in rows]
    np.testing.assert_allclose(steps.get_xdata(), days, rtol=0, atol=1e-9)
    assert reset.get_xdata()[0] == steps.get_xdata()[4] and reset.get_label() == "reset: earlier losses still count"
    assert ax.get_title(loc="left") == "Budget 'default', 4 charges" and ax.get_xlabel() == "time (UTC)"

    delta = hv.plot.budget_over_time(json.loads(json.dumps(budget.export())), amount="delta")
    np.testing.assert_allclose(delta.lines[0].get_ydata(), [0, 1e-5, 2e-5, 3e-5, 0, 0])
    assert delta.get_ylabel() == "delta spent"


def test_ledgers_in_rho_and_those_that_only_count():
    budget = hv.PrivacyBudget(max_rho=0.5, on_exhausted="warn")
    budget.consume(rho=0.25)
    drawn = hv.plot.budget_over_time(budget)
    assert drawn.get_ylabel() == "rho spent" and drawn.lines[0].get_ydata().tolist() == [0.0, 0.25]
    assert drawn.lines[1].get_label() == "limit 0.5, which is not enforced (on_exhausted='warn')"


def test_a_ledger_that_does_not_hold_is_refused():
    budget = hv.PrivacyBudget(1.0)
    budget.consume(0.5)
    export = budget.export()
    export["rows"][1]["epsilon"] = "0.25"
    with pytest.raises(ValueError, match=r"^budget must hold, got row 2 of the ledger: entry_hash does not follow from the row$"):
        hv.plot.budget_over_time(export)


# ---- without matplotlib ----


def test_what_to_install_is_said_in_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for call in (
        lambda: hv.plot.cosine(8),
        lambda: hv.plot.utility_over_attack([("a", 1, 1)]),
        lambda: hv.plot.budget_over_time(hv.PrivacyBudget(1.0)),
    ):
        with pytest.raises(MissingExtraError) as caught:
            call()
        assert str(caught.value) == "hushvec.plot needs more packages: pip install 'hushvec[plot]'"


def test_the_package_itself_needs_no_matplotlib():
    code = (
        "import sys; sys.modules['matplotlib'] = None; import hushvec as hv; "
        "print(hv.plot.__all__, callable(hv.plot.cosine), callable(hv.plot.utility_over_attack), callable(hv.plot.budget_over_time))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['budget_over_time', 'cosine', 'utility_over_attack'] True True True\n"
