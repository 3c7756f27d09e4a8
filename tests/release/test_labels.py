"""privatize_labels: what comes back, what is refused, and that only releases are charged."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from hushvec.release.labels import LabelRelease, plan_labels, privatize_labels

LABELS = ["a", "b", "c"]
ALPHA = 1e-6


class Counting:
    """A budget that only counts."""

    def __init__(self):
        self.charges = []

    def consume(self, epsilon, delta):
        self.charges.append((epsilon, delta))


def test_kinds_in_and_out():
    release = privatize_labels(["a", "b"], LABELS, epsilon=50.0)
    assert isinstance(release, LabelRelease)
    assert release.values == ["a", "b"]
    assert privatize_labels(("a", "b"), LABELS, epsilon=50.0).values == ["a", "b"]
    array = privatize_labels(np.array([["a", "b"], ["c", "c"]]), LABELS, epsilon=50.0)
    assert array.values.tolist() == [["a", "b"], ["c", "c"]]
    assert (array.values.dtype, array.receipt.answers) == (np.dtype("<U1"), 4)
    codes = privatize_labels(np.arange(5, dtype=np.int8), range(5), epsilon=50.0)
    assert codes.values.tolist() == [0, 1, 2, 3, 4]


def test_the_given_generator_is_the_one_in_use():
    """The same answers as hv.randomized_response from the same seed, and not those of the operating system's key."""
    true = ["a", "b", "c"] * 20
    release, again, bare = (
        draw(true, LABELS, epsilon=1.0, generator=hv.Generator.unsafe_seeded(9))
        for draw in (privatize_labels, privatize_labels, hv.randomized_response)
    )
    assert release.values == again.values == bare
    assert release.receipt.key_source == "seed"
    assert privatize_labels(true, LABELS, epsilon=1.0).values != bare  # equal with a probability below 1e-20
    assert privatize_labels(true, LABELS, epsilon=1.0, generator=hv.Generator(rounds=8)).receipt.cipher == "chacha8"


def test_a_plan_is_fixed_and_knows_whether_it_makes_a_claim():
    def plan(generator=None, **scores):
        return plan_labels(LABELS, epsilon=1.0, budget=None, per="record", generator=generator, **scores)

    assert plan().is_dp_claim
    assert not plan(scores="source").is_dp_claim
    assert not plan(hv.Generator.unsafe_seeded(1)).is_dp_claim
    with pytest.raises(FrozenInstanceError):
        plan().generator = hv.Generator()


def test_values_are_the_public_objects():
    """1.0 and 1 are equal: an answer must not tell by its type whether it is the caller's own."""
    values = privatize_labels([1.0, 2.0] * 50, [1, 2], epsilon=1.0).values
    assert {type(value) for value in values} == {int}


def law_fits(answers, epsilon):
    """Chi-squared test of 30,000 answers to the truth "a" against the law of k = 3 labels at epsilon."""
    p = np.exp(epsilon) / (np.exp(epsilon) + 2)
    expected = len(answers) * np.array([p, (1 - p) / 2, (1 - p) / 2])
    observed = [answers.count(label) for label in LABELS]
    return stats.chisquare(observed, expected).pvalue > ALPHA


@pytest.mark.parametrize(("epsilon", "per", "of_one"), [(1.0, "record", 1), (2.0, "record", 1), (3e4, "release", 30_000)])
def test_the_law_of_answers(epsilon, per, of_one):
    generator = hv.Generator.unsafe_seeded(41)
    answers = privatize_labels(["a"] * 30_000, LABELS, epsilon=epsilon, per=per, generator=generator).values
    assert law_fits(answers, epsilon / of_one)
    assert not law_fits(answers, 1.1 * epsilon / of_one)
    assert not law_fits(answers, 0.9 * epsilon / of_one)


def test_answers_of_one_call_are_independent():
    """30,000 pairs of neighbouring answers at epsilon = 1: both true as often as independent answers are, alpha 1e-6."""
    generator = hv.Generator.unsafe_seeded(42)
    values = privatize_labels(["a"] * 60_000, LABELS, epsilon=1.0, generator=generator).values
    true = np.array([value == "a" for value in values]).reshape(-1, 2)
    p = np.e / (np.e + 2)
    both = int((true[:, 0] & true[:, 1]).sum())
    assert stats.binomtest(both, len(true), p * p).pvalue > ALPHA
    assert stats.binomtest(int((true[:, 0] & true[:, 0]).sum()), len(true), p * p).pvalue < ALPHA


def test_no_labels_are_no_release():
    budget = Counting()
    for empty in ([], (), np.array([], dtype="<U1"), np.zeros((0, 4), dtype="<U1")):
        release = privatize_labels(empty, LABELS, epsilon=1.0, budget=budget, per="release")
        assert len(release.values) == release.receipt.answers == 0
        assert hv.verify_receipt(release.receipt).status == "holds"
    assert budget.charges == []


def test_one_answer_is_called_one():
    budget = hv.PrivacyBudget(3.0)
    receipt = privatize_labels(LABELS[:1], LABELS, epsilon=2.0, budget=budget, per="release").receipt
    assert budget.export()["rows"][1]["purpose"] == "randomized_response, 1 answer of 3 labels, per release"
    assert "one answer (one person)" in str(receipt) and " 1 answers" not in str(receipt)
    assert "behind one answer follows" in hv.verify_receipt(receipt).reasons[0]


@pytest.mark.parametrize("per", ["record", "release"])
def test_one_charge_a_release_before_anything_is_drawn(per):
    budget = hv.PrivacyBudget(3.0)
    receipt = privatize_labels(LABELS, LABELS, epsilon=2.0, budget=budget, per=per).receipt
    assert budget.consumed() == 2.0
    row = budget.export()["rows"][1]
    assert (row["purpose"], row["delta"]) == (f"randomized_response, 3 answers of 3 labels, per {per}", "0")
    assert (receipt.charge.sequence, receipt.charge.entry_hash) == (2, row["entry_hash"])
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        privatize_labels(LABELS, LABELS, epsilon=2.0, budget=budget, per=per)
    assert budget.consumed() == 2.0
    own = Counting()
    assert privatize_labels(LABELS, LABELS, epsilon=2.0, budget=own, per=per).receipt.charge is None
    assert own.charges == [(2.0, 0.0)]


BAD = [
    (dict(true_labels=["a", "x"]), ValueError, "true_labels must be among the 3 labels ['a', 'b', 'c'], got 'x' at position 1"),
    (dict(true_labels=["a", None]), ValueError, "got None at position 1"),
    (dict(true_labels=["a", ["b"]]), TypeError, "true_labels must be hashable, got list"),
    (dict(true_labels=None), TypeError, "true_labels must be a label, or a list, tuple or numpy array of them, got NoneType"),
    (dict(true_labels={"a"}), TypeError, "true_labels must be a label, or a list, tuple or numpy array of them, got set"),
    (dict(true_labels=b"a"), TypeError, "true_labels must be a label, or a list, tuple or numpy array of them, got bytes"),
    (
        dict(true_labels=[True], labels=[0, 1]),
        ValueError,
        "true_labels must be among the 2 labels [0, 1], got True at position 0",
    ),
    (dict(true_labels=np.array([True]), labels=[0, 1]), ValueError, "got True at position 0"),
    (dict(true_labels=[float("nan")], labels=[0.5, 1.5]), ValueError, "got nan at position 0"),
    (
        dict(true_labels=[-1], labels=range(4)),
        ValueError,
        "true_labels must be among the 4 labels [0, 1, 2, 3], got -1 at position 0",
    ),
    (dict(true_labels=[99], labels=range(20)), ValueError, "the 20 labels [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...], got 99"),
    (dict(labels=["a"]), ValueError, "labels must be at least 2, got 1"),
    (dict(labels=["a", "a"]), ValueError, "labels must be all different, got 'a' twice"),
    (dict(labels="ab"), TypeError, "labels must be a sequence of labels, got str"),
    (dict(labels=None), TypeError, "labels must be a sequence of labels, got NoneType"),
    (dict(labels=["a", None]), TypeError, "labels must be str, int, float or bool where a receipt names them, got NoneType"),
    (dict(labels=["a", ("b",)]), TypeError, "labels must be str, int, float or bool where a receipt names them, got tuple"),
    (dict(labels=["a", float("inf")]), ValueError, "labels must be finite, got inf"),
    (dict(epsilon=0.0), ValueError, "epsilon must be > 0, got 0.0"),
    (dict(epsilon=-1.0), ValueError, "epsilon must be > 0, got -1.0"),
    (dict(epsilon=float("nan")), ValueError, "epsilon must be finite, got nan"),
    (dict(epsilon=True), TypeError, "epsilon must be a number, got bool"),
    (dict(epsilon="1"), TypeError, "epsilon must be a number, got str"),
    (dict(epsilon=1e-30), ValueError, "epsilon must be"),
    (dict(epsilon=1e-30, labels=["a", "b"]), ValueError, "epsilon must be large enough to prefer the truth among 2 labels"),
    (
        dict(true_labels=["a"] * 1000, epsilon=1e-18, per="release"),
        ValueError,
        "epsilon must be larger for 1000 answers about one",
    ),
    (dict(per="row"), ValueError, "per must be one of 'record', 'release', got 'row'"),
    (dict(generator=7), TypeError, "generator must be a hushvec.Generator or None, got int"),
]


@pytest.mark.parametrize(("changes", "kind", "text"), BAD, ids=lambda value: str(value)[:40])
def test_bad_input_charges_nothing(changes, kind, text):
    budget = Counting()
    arguments = {"true_labels": ["a"], "labels": LABELS, "epsilon": 1.0, "budget": budget, **changes}
    with pytest.raises(kind) as caught:
        privatize_labels(arguments.pop("true_labels"), arguments.pop("labels"), **arguments)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 300
    assert budget.charges == []


def test_budgets_that_cannot_be():
    with pytest.raises(TypeError, match="budget must have a method consume"):
        privatize_labels(["a"], LABELS, epsilon=1.0, budget=3.0)
    budget = Counting()
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        privatize_labels(["a"], LABELS, epsilon=1.0, budget=budget, generator=hv.Generator.unsafe_seeded(1))
    assert budget.charges == []


def test_long_labels_do_not_flood_an_error():
    with pytest.raises(ValueError) as caught:
        privatize_labels(["x" * 10_000], ["a" * 10_000, "b" * 10_000], epsilon=1.0)
    assert len(str(caught.value)) < 300


ONE = [("a", "abc"), (1, range(3)), (True, [False, True]), (np.int64(2), range(3)), (0.5, [0.5, 1.5])]


@pytest.mark.parametrize(("label", "labels"), ONE)
def test_one_label_is_as_a_list_of_one(label, labels):
    """At an epsilon where a lie has chance below 1e-17."""
    release = privatize_labels(label, list(labels), epsilon=40.0)
    assert release.values == [label] and release.receipt.answers == 1 and hv.verify_receipt(release.receipt).status == "holds"


def test_one_unknown_label_is_refused():
    budget = hv.PrivacyBudget(1.0)
    with pytest.raises(ValueError, match="true_labels"):
        privatize_labels("d", ["a", "b"], epsilon=1.0, budget=budget)
    assert budget.consumed() == 0
