"""Stand-ins and snapshots: what one person moves in all rounds and parts, what a model is given, one charge and one receipt.

Statistics, with seeds fixed: canaries, 250 releases with and without a person, advantage of the best test of one count within 5
deviations of a binomial.
"""

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import hushvec as hv
from hushvec.aggregates import LinearClassifier, PrivateTopics, private_snapshot, private_stand_ins
from hushvec.aggregates.spending import Spending
from hushvec.receipts.aggregates import squared_mu
from scripts.test_loop_scripts import script

TERMS = {"epsilon": 2.0, "delta": 1e-5}
DIMENSION, KINDS = 8, 4
RNG = np.random.default_rng(1)
POOL = np.eye(DIMENSION)[np.arange(40) % 5] + 0.1 * RNG.normal(size=(40, DIMENSION))   # of the fifth kind nobody writes
TEXTS = [f"text {row} of kind {row % 5}" for row in range(40)]
CODES = RNG.choice(KINDS, 3000, p=[0.4, 0.3, 0.2, 0.1])
ROWS = (np.eye(DIMENSION)[CODES] + 0.1 * RNG.normal(size=(3000, DIMENSION))).astype(np.float32)
PUBLIC = {"pool": POOL, "texts": TEXTS}


def seeded(seed=5):
    return hv.Generator.unsafe_seeded(seed)


def embed(texts):
    """Vectors by the kind that a text names, nearer to people's than those of the pool."""
    return np.eye(DIMENSION)[[int(text.split()[-1]) for text in texts]]


def variants(texts):
    return [f"more of {text}" for text in texts] + texts[:1]


ROUNDS = {"variants": variants, "embed": embed, "rounds": 3}


def made(function=private_stand_ins, rows=ROWS, groups=None, **terms):
    public = {**PUBLIC, **({"components": 3} if function is private_snapshot else {})}
    return function(rows, groups, generator=terms.pop("generator", seeded()), **{**public, **TERMS, **terms})


CALLS = {
    "plain": lambda rows, groups, **terms: made(rows=rows, **terms),
    "rounds": lambda rows, groups, **terms: made(rows=rows, **ROUNDS, **terms),
    "labels": lambda rows, groups, **terms: made(rows=rows, groups=groups, labels=KINDS, **terms),
    "snapshot": lambda rows, groups, **terms: made(private_snapshot, rows, groups, labels=KINDS, **terms),
    "snapshot without labels": lambda rows, groups, **terms: made(private_snapshot, rows, **terms),
}


# ---- what they are


def test_stand_ins_are_of_the_kinds_that_people_write_about():
    found = made(groups=CODES, labels=KINDS, epsilon=4.0)
    kinds = np.array([int(text.split()[-1]) for text in found.texts])
    shares = np.bincount(kinds, found.weights, minlength=5)
    assert np.abs(shares - np.append(np.bincount(CODES) / 3000, 0)).max() < 0.03
    own = kinds < KINDS
    assert (np.array(found.labels)[own] == kinds[own]).all() and found.weights.sum() == pytest.approx(1)
    assert (np.diff(found.weights) <= 0).all() and np.linalg.norm(found.vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert found.texts[0] in str(found) and f"{len(found.texts)} texts" in found._repr_html_()


def test_rounds_go_on_with_variants_of_what_has_votes():
    given_texts = []

    def recorded(texts):
        given_texts.append(texts)
        return variants(texts)

    found = made(**{**ROUNDS, "variants": recorded}, epsilon=8.0, most=6)
    assert len(given_texts) == 2 and all(len(texts) <= 6 for texts in given_texts) and len(found.texts) <= 6
    assert set(given_texts[0]) <= set(TEXTS) and any(text.startswith("more of") for text in given_texts[1] + list(found.texts))
    assert found.receipt.statistics[2].purpose == "votes for stand-ins, round 3 of 3" and len(found.receipt.statistics) == 3


@pytest.mark.parametrize("new", [[], ["more of kind 1"], ["text 0 of kind 0", "more of kind 1", "more of kind 1"]])
def test_a_round_may_have_one_new_text_or_none(new):
    """All that it had before go on, and of equal texts one: what was charged for is not lost because a model returns few."""
    asked = []
    found = made(**{**ROUNDS, "rounds": 2, "variants": lambda texts: asked.append(texts) or [texts[0], *new]}, epsilon=8.0)
    assert len(set(found.texts)) == len(found.texts) and set(found.texts) <= {*asked[0], *new}
    assert found.receipt.statistics[1].groups == len({*asked[0], *new})


def test_equal_texts_of_the_pool_stay_apart_in_later_rounds():
    """Each with its vector and its votes."""
    twice = [f"kind {row % 5 // 2}" for row in range(40)]
    found = made(**{**ROUNDS, "rounds": 2, "texts": twice, "variants": lambda texts: ["of kind 3"]}, epsilon=1e4)
    place = found.texts.index("of kind 3")
    assert len(found.texts) == len(found.vectors) and (found.vectors[place] == np.eye(DIMENSION, dtype=np.float32)[3]).all()


def test_what_a_model_is_given_is_a_function_of_released_counts(monkeypatch):
    """Of other rows with the same released counts, the same texts: nothing else of the rows reaches it."""
    released = iter(2 * [np.arange(40.0), np.arange(80.0)[:66], np.arange(120.0)[:108]])
    monkeypatch.setattr(Spending, "noisy_counts", lambda self, counts, sigma: np.resize(next(released), len(counts)))
    seen = []
    for rows in (ROWS, -ROWS[::-1][:100]):
        asked = []
        found = made(rows=rows, **{**ROUNDS, "variants": lambda texts, asked=asked: asked.append(list(texts)) or variants(texts)})
        seen.append((asked, found.texts, found.weights.tolist()))
    assert seen[0] == seen[1]


def test_only_candidates_with_more_votes_than_noise_stay(monkeypatch):
    """From a deviation of the noise on; where none has so many, those with the most."""
    monkeypatch.setattr(Spending, "noisy_counts", lambda self, counts, sigma: sigma * released)
    released = np.array([3.0, -9.0, 1.001, 0.999, 1.5] + [0.0] * 35)
    found = made()
    assert found.texts == tuple(TEXTS[place] for place in (0, 4, 2))
    assert found.weights == pytest.approx(np.array([3, 1.5, 1]) / 5.5, abs=2e-3)
    released = np.array([-3.0, -2.0, -2.0] + [-4.0] * 37)
    assert made().texts == tuple(TEXTS[1:3])


def test_votes_of_rows_do_not_depend_on_their_lengths():
    """Also beyond the range of float32."""
    lengths = 10.0 ** np.random.default_rng(2).integers(-250, 250, 3000)
    one, other = made(), made(rows=ROWS.astype(np.float64) * lengths[:, None])
    assert one.texts == other.texts and (one.weights == other.weights).all()


def test_all_parts_of_a_snapshot_have_its_receipt(tmp_path):
    budget = hv.PrivacyBudget(3.0, 1e-4)
    found = made(private_snapshot, groups=CODES, labels=KINDS, budget=budget, generator=None)
    parts = (found.topics, found.components, found.stand_ins, found.classifier, found.stand_ins.classifier)
    assert all(one.receipt == found.receipt for one in parts) and budget.consumed() == 2.0 and found.receipt.charge is not None
    assert found.classifier.score(ROWS, CODES) > 0.95 and len(found.components.variances) == 3
    assert found.topics.shares.sum() == pytest.approx(1) and "topics" in str(found) and "StandIns" in repr(found)
    for _ in range(2):   # in place of the first
        found.save(tmp_path / "out")
    assert {one.name for one in (tmp_path / "out").iterdir()} == {
        "topics.json", "receipt.json", "components.npz", "stand_ins.jsonl", "classifier.npz"}  # fmt: skip
    assert LinearClassifier.load(tmp_path / "out/classifier.npz").receipt == found.receipt
    assert PrivateTopics.from_json((tmp_path / "out/topics.json").read_text()).receipt == found.receipt
    lines = [json.loads(line) for line in (tmp_path / "out/stand_ins.jsonl").read_text().splitlines()]
    assert [one["text"] for one in lines] == list(found.stand_ins.texts) and lines[0]["label"] == found.stand_ins.labels[0]


# ---- what one person moves


@pytest.mark.parametrize("name", CALLS)
@settings(deadline=None, max_examples=100)
@given(place=st.integers(0, 49), kind=st.integers(0, 7), size=st.sampled_from([1e-30, 1.0, 1e30]), label=st.integers(0, 3),
       adjacency=st.sampled_from(["add-remove", "replace-one"]), bound=st.integers(1, 3), given_rows=st.integers(1, 4),
       seed=st.integers(0, 3))  # fmt: skip
def test_a_person_moves_everything_together_by_no_more_than_the_receipt_says(
    name, place, kind, size, label, adjacency, bound, given_rows, seed
):
    """Every later step is that of the released values before, which the neighbor is given too; canaries are outliers, copies and
    people in every row."""
    mine = np.tile(size * np.eye(DIMENSION, dtype=np.float32)[kind], (given_rows, 1))
    others, codes, ids = ROWS[:50], CODES[:50], list(range(50))
    other = (ROWS[place][None], CODES[place : place + 1], [99]) if adjacency == "replace-one" else (ROWS[:0], CODES[:0], [])
    inputs = [
        (np.concatenate([others, mine]), np.append(codes, [label] * given_rows), [*ids, *[99] * given_rows]),
        (np.concatenate([others, other[0]]), np.append(codes, other[1]), [*ids, *other[2]]),
    ]
    steps, answers, original = [[], []], [], Spending.noisy

    with pytest.MonkeyPatch.context() as patch:
        def recorded(self, sums, unit, sigma):
            steps[side].append((sums.ravel().astype(object), Fraction(unit) / Fraction(sigma)))
            if side == 0:
                answers.append(original(self, sums, unit, sigma))
            return answers[len(steps[side]) - 1].copy()

        patch.setattr(Spending, "noisy", recorded)
        for side in (0, 1):
            rows, groups, people = inputs[side]
            terms = {"adjacency": adjacency, "rows_per_person": bound, "people": people, "generator": seeded(seed)}
            found = CALLS[name](rows, groups, **terms)
    assert len(steps[0]) == len(steps[1]) == len(answers)
    square = Fraction(0)
    for (one, scale), (another, same) in zip(*steps):
        assert scale == same
        # beside the diagonal of moments the noise is smaller by sqrt(2), and each element is there twice
        square += sum(int(step) ** 2 for step in one - another) * scale**2
    claimed = squared_mu(found.receipt.statistics, adjacency, bound)
    assert square <= claimed <= 1 / Fraction(found.receipt.noise_multiplier) ** 2


TRIALS = 250
CANARIES = {"in every row": (0, 30), "one kind": (3, 1), "an outlier": (7, 1)}


@pytest.mark.parametrize("canary", CANARIES)
def test_a_canary_is_seen_no_better_than_claimed(canary, monkeypatch):
    """The best test of somebody who knows everybody else, of all of a snapshot: the log-likelihood ratio of what was drawn, for
    250 releases with the person and without; right guesses less false alarms are at most 2 Phi(mu / 2) - 1."""
    axis, given_rows = CANARIES[canary]
    person = np.tile(np.eye(DIMENSION, dtype=np.float32)[axis], (given_rows, 1))
    sides = {True: (np.concatenate([ROWS[:40], person]), np.append(CODES[:40], [1] * given_rows), [*range(40), *[99] * given_rows]),
             False: (ROWS[:40], CODES[:40], list(range(40)))}  # fmt: skip
    original, source, told = Spending.noisy, seeded(9), {True: [], False: []}
    for side in (True, False):
        for _ in range(TRIALS):
            drawn, wholes = [], {True: [], False: []}

            def release(here, side=side, drawn=drawn, wholes=wholes):
                def recorded(self, sums, unit, sigma):
                    wholes[here].append(sums.ravel() * (unit / sigma))
                    if here == side:
                        drawn.append(original(self, sums, unit, sigma))
                    return drawn[len(wholes[here]) - 1].copy()

                monkeypatch.setattr(Spending, "noisy", recorded)
                rows, groups, people = sides[here]
                return made(private_snapshot, rows, groups, labels=KINDS, people=people, generator=source)

            release(side)
            found = release(not side)
            ratio = 0.0
            for answer, with_it, without, deviation in zip(drawn, wholes[True], wholes[False], sigmas_of(found.receipt)):
                shift = with_it - without
                ratio += float(((answer.ravel() / deviation - without) * shift - shift**2 / 2).sum())
            told[side].append(ratio > 0)
    advantage = np.mean(told[True]) - np.mean(told[False])
    claimed = 2 * stats.norm.cdf(1 / (2 * found.receipt.noise_multiplier)) - 1
    assert advantage < claimed + 5 * np.sqrt(2 * 0.25 / TRIALS)
    assert advantage > 0.1


def sigmas_of(receipt):
    """Of each draw of a snapshot in order."""
    from hushvec.aggregates.moments import beside_diagonal

    for one in receipt.statistics:
        if one.statistic == "moments":
            yield from (beside_diagonal(one.sigma), one.sigma)
        else:
            yield from (sigma for sigma in (one.sigma, one.count_sigma) if sigma is not None)


# ---- receipts and refusals


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_both_verifiers_accept_the_receipt(name, adjacency):
    receipt = CALLS[name](ROWS, CODES, adjacency=adjacency, rows_per_person=2, generator=None).receipt
    assert hv.verify_receipt(receipt).status == "holds" and (receipt.epsilon, receipt.delta) == (2.0, 1e-5)
    assert script("check_receipt").check_receipt(json.loads(receipt.to_json()))[0] == "holds"


def shares_of(receipt):
    """Of each statistic, of mu^2."""
    return [float(squared_mu([one], "add-remove", 1)) * receipt.noise_multiplier**2 for one in receipt.statistics]


def test_shares_are_those_that_are_documented():
    """Equal ones in rounds; of labelled stand-ins a fifth is for votes; of a snapshot 5 % for topics, and a tenth each for
    components and stand-ins, without labels 20 and 40 %; little is left."""
    assert shares_of(made(**ROUNDS).receipt) == pytest.approx([1 / 3] * 3, rel=1e-5)
    labelled = shares_of(made(groups=CODES, labels=KINDS).receipt)
    assert labelled[0] == pytest.approx(0.2, rel=1e-5) and sum(labelled) == pytest.approx(1, rel=1e-5)
    with_labels = shares_of(made(private_snapshot, groups=CODES, labels=KINDS).receipt)
    assert [with_labels[0], sum(with_labels[1:3]), with_labels[3]] == pytest.approx([0.05, 0.1, 0.1], rel=1e-5)
    alone = shares_of(made(private_snapshot).receipt)
    assert [alone[0], sum(alone[1:3]), alone[3]] == pytest.approx([0.2, 0.4, 0.4], rel=1e-5)
    assert sum(with_labels) == pytest.approx(1, rel=1e-5)


WRONG = {
    "texts": ({"texts": ["a"]}, ValueError, "texts must have 40 elements, one for each row of pool, got 1"),
    "zeros": ({"pool": np.zeros((40, 8))}, ValueError, "pool must have no row of zeros"),
    "columns": ({"rows": ROWS[:, :5]}, ValueError, "rows must have 8 columns, those of pool, got 5"),
    "NaN": ({"rows": np.full((3, 8), np.nan)}, ValueError, "rows must be finite"),
    "groups alone": ({"groups": CODES}, ValueError, "labels must be given with groups"),
    "labels alone": ({"labels": 4}, ValueError, "groups and labels must be given together"),
    "one label": ({"groups": CODES * 0, "labels": 1}, ValueError, "labels must be at least 2, got 1"),
    "epsilon": ({"epsilon": 0.0}, ValueError, "epsilon must be > 0"),
    "people": ({"people": [1]}, ValueError, "people must have 3000 elements"),
}
WRONG_ROUNDS = {
    "variants alone": ({"variants": variants}, ValueError, "variants, embed and rounds >= 2 must be given together, got rounds = 1"),
    "variants without embed": (
        {"variants": variants, "rounds": 2}, ValueError, "variants, embed and rounds >= 2 must be given together, got rounds = 2"),
    "embed alone": ({"embed": embed}, ValueError, "variants, embed and rounds >= 2 must be given together, got rounds = 1"),
    "rounds alone": ({"rounds": 2}, ValueError, "variants, embed and rounds >= 2 must be given together, got rounds = 2"),
    "many rounds": ({**ROUNDS, "rounds": 33}, ValueError, "rounds must be <= 32"),
    "none": ({"most": 0}, ValueError, "most must be >= 1"),
}


@pytest.mark.parametrize("function", [private_stand_ins, private_snapshot])
@pytest.mark.parametrize("case", WRONG | WRONG_ROUNDS)
def test_bad_input_is_named_and_charges_nothing(function, case):
    change, error, said = (WRONG | WRONG_ROUNDS)[case]
    if case in WRONG_ROUNDS and function is private_snapshot:
        pytest.skip("a snapshot has one round")
    budget = hv.PrivacyBudget(9.0, 1e-3)
    with pytest.raises(error, match=said):
        made(function, **{"budget": budget, "generator": None, **change})
    assert budget.consumed() == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"variants": lambda texts: "text"}, r"variants\(texts\) must be a sequence of strings, got str"),
        ({"embed": lambda texts: np.ones((0, 8))}, r"embed\(texts\) must have at least one row and one column, got shape \(0, 8\)"),
        ({"embed": lambda texts: np.ones((len(texts), 3))}, r"embed\(texts\) must have shape \(\d+, 8\), got"),
    ],
)
def test_what_a_model_returns_is_checked(change, said):
    with pytest.raises((TypeError, ValueError), match=said):
        made(**{**ROUNDS, **change})


def test_more_components_than_columns_are_refused_before_the_charge():
    budget = hv.PrivacyBudget(9.0, 1e-3)
    with pytest.raises(ValueError, match="components must be at most 8"):
        private_snapshot(ROWS, components=9, budget=budget, **PUBLIC, **TERMS)
    assert budget.consumed() == 0
