"""Attacks on aggregates: membership by likelihood ratio, canary people replayed through every function, and mutants, each caught.

*Trials*: a release of many groups is as many independent experiments, each with its own canary person. *Replay*: a function runs on
one input and on its neighbor with the same noisy answers, so what one person moves is seen in exact fractions, step by step, and
whatever else differs was decided by the data (evidence/attacks/test_recordplay_2026.py does this to other releases).
"""

import contextlib
import math
from fractions import Fraction
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.attacks.evidence import epsilon_shown
from evidence.reference.sizes import scaled
from hushvec.aggregates import (
    PublicTopics,
    RowsInParts,
    TopicPeriods,
    class_centroids,
    moments,
    private_classifier,
    private_covariance,
    private_histogram,
    private_mean,
    private_norm_quantiles,
    private_pca,
    private_snapshot,
    private_stand_ins,
    private_sums,
    private_topics,
    spending,
    totals,
)
from hushvec.aggregates.spending import People, Spending
from hushvec.mechanisms import PublicProjection
from hushvec.noise.fills import clip

ALPHA = 1e-5
TERMS = {"epsilon": 1.0, "delta": 1e-5}


def seeded(seed):
    return hv.Generator.unsafe_seeded(seed)


# ---- trials: a canary person in each of many groups ----

TRIALS = scaled(20_000, 200_000)
CANARY = np.array([9.0, -12.0], np.float32)  # clipped to (0.6, -0.8)
ALONG = np.array([0.6, -0.8])


class Trials(NamedTuple):
    """ln of the likelihood ratio under the stated noise, of groups with their canary and without (or before and after its change)."""

    present: np.ndarray
    absent: np.ndarray
    receipt: object

    @property
    def mu(self):
        """The distance of the two, in units of the noise, that the receipt claims."""
        return 1 / self.receipt.noise_multiplier

    @property
    def advantage(self):
        """Right guesses less false alarms of the best test, which knows everything but whether the canary is there."""
        return (self.present > 0).mean() - (self.absent > 0).mean()

    def agrees(self):
        """Both scores follow the claimed Gaussian curve, N(+-mu^2 / 2, mu^2): no less and no more is seen than is claimed.

        Kolmogorov-Smirnov of each, and the distance of their means, which is N(mu, 2 / n) in units of mu; alpha for each.
        """
        curves = ((self.present, self.mu**2 / 2), (self.absent, -(self.mu**2) / 2))
        found = [stats.kstest((scores - mean) / self.mu, "norm").pvalue for scores, mean in curves]
        distance = (self.present.mean() - self.absent.mean()) / self.mu
        return min(found) > ALPHA and abs(distance - self.mu) < -stats.norm.ppf(ALPHA / 2) * math.sqrt(2 / len(self.present))

    def shown(self):
        """The epsilon that the count of one event proves, chosen before: the scores above 2.2 deviations of an absent canary's."""
        limit = 2.2 * self.mu - self.mu**2 / 2
        return epsilon_shown([(self.present > limit).sum()], [(self.absent > limit).sum()], len(self.present), delta=TERMS["delta"])


def trials(seed, *, rows_given=1, with_ids=False, counts=True, **terms):
    """Add-remove: half of the groups have a canary, next to one row that the attacker knows."""
    canaries = np.repeat(np.arange(TRIALS), rows_given)
    rows = np.concatenate([np.tile(np.float32([0.25, 0.5]), (2 * TRIALS, 1)), np.tile(CANARY, (len(canaries), 1))])
    ids = np.concatenate([np.arange(2 * TRIALS), 2 * TRIALS + canaries]) if with_ids else None
    given = {**TERMS, "generator": seeded(seed), "labels": 2 * TRIALS, "people": ids, "counts": counts, **terms}
    released = private_sums(rows, np.concatenate([np.arange(2 * TRIALS), canaries]), **given)
    entered = released.receipt.rows_per_person  # what the attacker thinks that a person has
    sigma, count_sigma = released.noise
    square = entered**2 * (1 / sigma**2 + (1 / count_sigma**2 if counts else 0))
    scores = (released.sums - [0.25, 0.5]) @ ALONG * entered / sigma**2
    if counts:
        scores += (released.counts - 1) * entered / count_sigma**2
    scores -= square / 2
    return Trials(scores[:TRIALS], scores[TRIALS:], released.receipt)


def test_membership_is_the_gaussian_curve():
    """n = 20,000 with and as many without a canary; alpha = 1e-5. The advantage is the claimed one, no more and no less."""
    found = trials(1)
    assert found.agrees() and found.shown() <= 1
    claimed = 2 * stats.norm.cdf(found.mu / 2) - 1
    width = -stats.norm.ppf(ALPHA / 2) * math.sqrt(0.5 / TRIALS)
    assert abs(found.advantage - claimed) < width < claimed / 4  # so half and twice the claim are rejected
    assert not found._replace(present=found.present + found.mu**2 / 4).agrees()


def test_sums_without_counts():
    """n = 20,000; alpha = 1e-5: counts are part of what is paid for, so without them the sums have less noise."""
    assert trials(2, counts=False).agrees()


@pytest.mark.parametrize("with_ids", [False, True])
def test_three_equal_rows(with_ids):
    """n = 20,000; alpha = 1e-5 and, for what is shown, 1e-6. With ids a fourth row is dropped."""
    found = trials(3, rows_given=4 if with_ids else 3, rows_per_person=3, with_ids=with_ids)
    assert found.agrees() and found.shown() <= 1 and found.receipt.rows_bound == ("people" if with_ids else "promised")


def test_a_broken_promise_is_caught_and_dropped_rows_keep_it():
    """n = 20,000; alpha = 1e-6: three rows where one was promised give more than the claimed epsilon. The receipt had said so."""
    broken = trials(4, rows_given=3)
    assert broken.shown() > 1 and not broken.agrees()
    assert broken.receipt.rows_bound == "promised" and "ONLY PROMISED" in str(broken.receipt)
    kept = trials(4, rows_given=3, with_ids=True)
    assert kept.agrees() and kept.shown() <= 1 and kept.receipt.rows_bound == "people"


def replaced(seed, *, moves, **terms):
    """Replace-one: in each pair of groups a person whose row is turned around, or who changes the group."""
    first = 2 * np.arange(2 * TRIALS)
    there = np.arange(2 * TRIALS) < TRIALS
    rows = np.where(there[:, None] | moves, CANARY, -CANARY).astype(np.float32)
    groups = np.where(there | (not moves), first, first + 1)
    released = private_sums(rows, groups, labels=4 * TRIALS, adjacency="replace-one", generator=seeded(seed), **{**TERMS, **terms})
    sigma, count_sigma = released.noise
    sums, counts = (released.sums @ ALONG).reshape(-1, 2), released.counts.reshape(-1, 2)
    if moves:
        scores = (sums[:, 0] - sums[:, 1]) / sigma**2 + (counts[:, 0] - counts[:, 1]) / count_sigma**2
    else:
        scores = 2 * sums[:, 0] / sigma**2
    return Trials(scores[:TRIALS], scores[TRIALS:], released.receipt)


@pytest.mark.parametrize("moves", [False, True])
def test_replaced_people_are_the_gaussian_curve(moves):
    """n = 20,000; alpha = 1e-5. Who changes the group is as visible as who turns around: both cost all that was claimed."""
    found = replaced(5, moves=moves)
    assert found.agrees() and found.shown() <= 1


# ---- replay: what one person moves, in exact fractions ----


class Step(NamedTuple):
    whole: np.ndarray
    unit: float
    sigma: float
    answer: np.ndarray


class Data(NamedTuple):
    rows: np.ndarray
    topics: np.ndarray
    people: np.ndarray


@contextlib.contextmanager
def recording(steps, answers=None):
    """Keep every noisy statistic; with `answers`, give those in place of new ones."""
    original = Spending.noisy

    def noisy(self, sums, unit, sigma):
        place = len(steps)
        given = original(self, sums, unit, sigma) if answers is None else answers[place].answer
        steps.append(Step(np.array(sums), unit, sigma, given))
        return given.copy()

    Spending.noisy = noisy
    try:
        yield
    finally:
        Spending.noisy = original


def contents(result):
    """Everything that a caller gets, in a form that can be compared."""
    plain = {np.ndarray: lambda array: array.tobytes(), PublicProjection: lambda projection: projection.digest}
    if type(result) in plain:
        return plain[type(result)](result)
    return {name: contents(value) for name, value in vars(result).items()} if hasattr(result, "__dict__") else result


class Leak(Exception):
    """Something else than a noisy statistic differs between neighbors."""


class Seen(NamedTuple):
    spent: Fraction  # squared distance of the two inputs in units of the noise, as a share of what is claimed
    steps: list
    other: list
    result: object


def compared(call, one, other):
    """Run on two neighbors with the same answers. Units, noise, results and receipts must be equal."""
    steps, again = [], []
    with recording(steps):
        result = call(one)
    with recording(again, steps):
        replayed = call(other)
    public = [[(step.unit, step.sigma, step.whole.shape) for step in part] for part in (steps, again)]
    if public[0] != public[1] or contents(result) != contents(replayed):
        raise Leak("units, noise, results or receipts were decided by the rows")
    square = Fraction(0)
    for first, second in zip(steps, again):
        moved = sum(int(step) ** 2 for step in (first.whole - second.whole).ravel().tolist())
        square += moved * (Fraction(first.unit) / Fraction(first.sigma)) ** 2
    return Seen(square * Fraction(result.receipt.noise_multiplier) ** 2, steps, again, result)


POOL = np.concatenate([np.eye(3), np.eye(3) + 0.1])
TOPICS = PublicTopics.fit(POOL, topics=3)
TEXTS = {"pool": POOL, "texts": list("abcdef")}
ROUNDS = {
    "rounds": 2,
    "variants": lambda texts: [text * 2 for text in texts],
    "embed": lambda texts: POOL[[ord(text[0]) - ord("a") for text in texts]],
}


def in_parts(function, data, people=None, by_group=False, **terms):
    """Of an engine that holds two parts, each in blocks of two rows."""
    def run(worker):
        blocks = [(data.rows[one : one + 2], data.topics[one : one + 2], None if people is None else people[one : one + 2])
                  for one in range(0, len(data.rows), 2)]  # fmt: skip
        return [worker(blocks[:3]), worker(blocks[3:])]

    return function(RowsInParts(run, 3, by_group, people is not None), **terms)


def three_periods(data, people=None, **terms):
    weeks = TopicPeriods(TOPICS, 3, with_people=people is not None, **terms)
    for week in range(3):
        weeks.report(data.rows[week::3], None if people is None else people[week::3])
    return SimpleNamespace(receipt=weeks.receipt, counts=weeks._drawn)


# name: the function, of Data; and the least share of the claim that the canaries below must reach, under both adjacencies
CALLS = {
    "sums": (lambda data, **terms: private_sums(data.rows, data.topics, labels=3, **terms), 0.999, 0.999),
    "mean": (lambda data, **terms: private_mean(data.rows, **terms), 0.999, 0.999),
    "centroids": (lambda data, **terms: class_centroids(data.rows, data.topics, labels=3, **terms), 0.999, 0.9),
    "classifier": (lambda data, **terms: private_classifier(data.rows, data.topics, labels=3, steps=2, **terms), 0.999, 0.6),
    "covariance": (lambda data, **terms: private_covariance(data.rows, **terms), 0.999, 0.7),
    "pca": (lambda data, **terms: private_pca(data.rows, components=2, **terms), 0.999, 0.9),
    "histogram": (lambda data, **terms: private_histogram(data.topics, 3, **terms), 0.999, 0.999),
    "quantiles": (lambda data, **terms: private_norm_quantiles(data.rows, **terms), 0.999, 0.999),
    "topics": (lambda data, **terms: private_topics(data.rows, pool=TOPICS, **terms), 0.999, 0.999),
    "mean in parts": (partial(in_parts, private_mean), 0.999, 0.999),
    "classifier in parts": (partial(in_parts, private_classifier, by_group=True, labels=3, steps=2), 0.999, 0.6),
    "stand-ins": (lambda data, **terms: private_stand_ins(data.rows, **TEXTS, **ROUNDS, **terms), 0.999, 0.999),
    "snapshot": (lambda data, **terms: private_snapshot(data.rows, data.topics, labels=3, components=2, **TEXTS, **terms), 0.9, 0.6),
    "periods": (three_periods, 0.5, 0.5),   # three rows in different ones
}
U, V = np.eye(3, dtype=np.float32)[:2]
# what a person has: rows, all equal, and their class; class 2 is otherwise empty
CANARIES = [(30 * U, 2), (-30 * U, 2), (30 * V, 0), (0.001 * U, 2), (-30 * V, 0), (0 * U, 1)]


def with_person(canary, rows_given):
    """Some people, and one with this many of the canary's rows; None: without that person."""
    rng = np.random.default_rng(0)
    rows, topics, people = (rng.normal(size=(9, 3)) * 0.4).astype(np.float32), np.arange(9) % 2, np.arange(9)
    if canary is None:
        return Data(rows, topics, people)
    row, topic = canary
    more = (np.tile(row, (rows_given, 1)), np.full(rows_given, topic), np.full(rows_given, 99))
    return Data(*(np.concatenate([part, added]) for part, added in zip((rows, topics, people), more)))


def neighbors(adjacency, rows_given):
    people = [with_person(canary, rows_given) for canary in CANARIES]
    if adjacency == "add-remove":
        return [(with_person(None, 0), one) for one in people]
    return [(people[first], people[second]) for first, second in ((0, 1), (0, 2), (3, 4), (4, 2), (0, 3))]


def spent(name, adjacency, rows_per_person=1, rows_given=None, with_ids=False, **terms):
    """The largest share of the claim over the canaries."""
    call = CALLS[name][0]
    settings = {**TERMS, "adjacency": adjacency, "rows_per_person": rows_per_person, **terms}

    def with_terms(data):
        return call(data, **settings, people=data.people if with_ids else None, generator=seeded(7))

    return max(compared(with_terms, *pair).spent for pair in neighbors(adjacency, rows_given or rows_per_person))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", CALLS)
def test_a_canary_moves_everything_by_what_is_claimed(name, adjacency):
    """Exact, n = 1 key for each pair: no canary gets beyond the claim, and the strongest gets close to it."""
    for rows_per_person in (1, 3):
        found = spent(name, adjacency, rows_per_person)
        assert found <= 1
        assert found > CALLS[name][1 if adjacency == "add-remove" else 2]


@pytest.mark.parametrize("name", CALLS)
def test_rows_beyond_those_of_a_person_are_not_seen(name):
    """With ids: of five rows one enters. Without, the claim is broken: 25 times mu^2."""
    assert spent(name, "add-remove", rows_given=5, with_ids=True) <= 1 < spent(name, "add-remove", rows_given=5)


@pytest.mark.parametrize("name", CALLS)
def test_how_many_rows_were_dropped_is_in_no_receipt(name):
    """Replace-one with ids and one row each: the rows that enter are as many as people, those that were given are private."""
    one, other = with_person(CANARIES[0], 1), with_person(CANARIES[0], 6)
    call = lambda data: CALLS[name][0](data, **TERMS, adjacency="replace-one", people=data.people, generator=seeded(8))
    seen = compared(call, one, other)
    assert seen.spent == 0 and seen.result.receipt.rows == (None if name == "periods" else 10)


class Asked:
    """A budget that keeps what was asked, or refuses."""

    def __init__(self, events, refuses=False):
        self.events, self.refuses = events, refuses

    def consume(self, epsilon, delta):
        if self.refuses:
            raise hv.PrivacyBudgetExhaustedError("nothing is left")
        self.events.append((epsilon, delta))


def charges_and_draws(name, refuses=False):
    """In order: what the budget was asked for, and "draw" for every noisy statistic."""
    events = []

    def drawn(self, sums, unit, sigma, original=Spending.noisy):
        events.append("draw")
        return original(self, sums, unit, sigma)

    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(hv.PrivacyBudgetExhaustedError):
        patch.setattr(Spending, "noisy", drawn)
        CALLS[name][0](with_person(CANARIES[0], 1), budget=Asked(events, refuses), **TERMS)
    return events


@pytest.mark.parametrize("name", CALLS)
def test_everything_is_charged_once_before_the_first_draw(name):
    charge, *draws = charges_and_draws(name)
    assert charge == (TERMS["epsilon"], TERMS["delta"]) and set(draws) == {"draw"}
    assert charges_and_draws(name, refuses=True) == []


# a snapshot is in test_stand_ins.py
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("snapshot", "classifier in parts")])
def test_the_whole_release_is_as_telling_as_claimed(name):
    """n = 40 releases of each of two neighbors, epsilon = 8: the likelihood ratio of all that was drawn is N(+-mu^2 / 2, mu^2).

    Kolmogorov-Smirnov, alpha = 1e-5; noise that is a half too large or too small is rejected by all functions together.
    """
    releases, scores = scaled(40, 1000), []
    call = lambda data: CALLS[name][0](data, epsilon=8.0, delta=1e-5, generator=generator)
    pair, generator = [with_person(None, 0), with_person(CANARIES[0], 1)], seeded(9)
    for side in (1, -1):
        for _ in range(releases):
            seen = compared(call, *pair[::side])
            ratio, square = 0.0, 0.0
            for step, other in zip(seen.steps, seen.other):
                shift = (other.whole - step.whole) * (step.unit / step.sigma)
                ratio -= float(((step.answer - step.whole * step.unit) / step.sigma * shift).sum())
                square += float((shift**2).sum())
            scores.append(ratio / math.sqrt(square))
            assert square <= 1 / seen.result.receipt.noise_multiplier**2
    assert stats.kstest(scores, "norm").pvalue > ALPHA
    total = (np.array(scores) ** 2).sum()  # chi squared
    inside = stats.chi2(len(scores)).ppf([ALPHA / 2, 1 - ALPHA / 2])
    assert inside[0] < total < inside[1] and not inside[0] < total * 2.25 < inside[1]


def test_the_bin_of_a_length_depends_on_its_row_alone():
    """In any order of memory: numpy adds the squares of one row in Fortran order otherwise than those of two."""
    from hushvec.aggregates.histograms import _norms

    rows = np.random.default_rng(0).normal(size=(300, 64))
    alone = np.array([_norms(row[None])[0] for row in rows])
    for row, length in zip(rows, alone):
        assert (_norms(np.asfortranarray([row, row])) == length).all() and (_norms(np.asfortranarray(row[None])) == length).all()
    assert (_norms(np.asfortranarray(rows)) == alone).all()


# ---- mutants: what each attack is for ----


def noise_for_c(patch):
    """C where two people who turn around are 2 C apart."""
    patch.setattr(Spending, "replaces", False)
    original = spending.squared_mu
    patch.setattr(spending, "squared_mu", lambda statistics, adjacency, rows: original(statistics, "add-remove", rows))


def clean_counts(patch):
    patch.setattr(Spending, "noisy_counts", lambda self, counts, sigma: counts.astype(np.float64))


def clip_after_the_sum(patch):
    class ClippedLate(totals.GroupTotals):
        def add(self, rows, codes, name="rows"):
            super().add(rows, codes, name)
            summed = self.__dict__.setdefault("summed", np.zeros((self.groups, self.dimension)))
            np.add.at(summed, 0 if codes is None else codes, rows.sum(axis=0) if codes is None else rows.astype(np.float64))

        def sums(self):
            return np.rint(clip(self.summed, self.clip_norm) / self.unit).astype(np.int64)

    for module in ("sums", "rows", "classifiers"):
        patch.setattr(f"hushvec.aggregates.{module}.GroupTotals", ClippedLate)


def nobody_dropped(patch):
    patch.setattr(People, "kept", lambda self, people, rows: np.ones(rows, np.bool_))


def less_noise_on_the_diagonal(patch):
    def everywhere_alike(given, total, clip_norm, sigma):
        unit, less = totals.moment_unit(clip_norm) ** 2, moments.beside_diagonal(sigma)
        upper = np.triu(given.noisy(np.triu(total), unit, less))
        return upper + np.triu(upper, 1).T

    patch.setattr(moments, "noisy_moments", everywhere_alike)


def shares_of_everything(patch):
    """What was spent before is forgotten."""
    patch.setattr(spending, "squared_mu", lambda *_: Fraction(0))


def residuals_not_clipped(patch):
    patch.setattr(totals, "clip", lambda rows, clip_norm: rows)


def clip_norm_of_the_rows(patch):
    original = totals.GroupTotals.__init__

    def largest(self, groups, dimension, clip_norm):
        original(self, groups, dimension, clip_norm)

        def add(rows, codes, name="rows"):
            self.unit = totals._core.sum_unit(float(np.linalg.norm(rows, axis=1).max()))
            totals.GroupTotals.add(self, rows, codes, name)

        self.add = add

    patch.setattr(totals.GroupTotals, "__init__", largest)


def a_part_that_stays(patch):
    """What a part may spend is not taken off what is left."""
    def part(self, share, original=Spending.part):
        left = self._left
        found = original(self, share)
        self._left = left
        return found

    patch.setattr(Spending, "part", part)


def the_whole_for_every_round(patch):
    def counts(self, purpose, groups, share, original=Spending.counts, **more):
        self._left = self._whole
        return original(self, purpose, groups, None, **more)

    patch.setattr(Spending, "counts", counts)


def noise_without_the_norm_of_the_mixing(patch):
    """As if a row were in one draw alone."""
    original = TopicPeriods.__init__

    def made(self, *given, **terms):
        original(self, *given, **terms)
        self._sigma *= self._mixing[0] / math.hypot(*self._mixing)

    patch.setattr(TopicPeriods, "__init__", made)


def people_of_before_forgotten(patch):
    patch.setattr(People, "commit", lambda self: None)


def charged_late(patch):
    """When the receipt is written."""
    original, receipt = Spending.charge, Spending.receipt
    patch.setattr(Spending, "charge", lambda self, charge_id=None: None)
    patch.setattr(Spending, "receipt", lambda self, rows: original(self) or receipt(self, rows))


TOO_FAR, DIFFERS, LIVES = "a person moves more than is claimed", "what is public differs", "not caught"

MUTANTS = [
    (noise_for_c, "sums", {"adjacency": "replace-one"}, TOO_FAR),
    (noise_for_c, "mean", {"adjacency": "replace-one"}, TOO_FAR),
    (noise_for_c, "histogram", {"adjacency": "replace-one"}, TOO_FAR),
    (clean_counts, "sums", {}, DIFFERS),
    (clean_counts, "histogram", {}, DIFFERS),
    (clean_counts, "mean", {}, DIFFERS),
    (clip_after_the_sum, "sums", {}, TOO_FAR),
    (clip_after_the_sum, "mean", {}, TOO_FAR),
    (nobody_dropped, "sums", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (nobody_dropped, "pca", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (nobody_dropped, "quantiles", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (less_noise_on_the_diagonal, "covariance", {}, TOO_FAR),
    (less_noise_on_the_diagonal, "pca", {}, TOO_FAR),
    (shares_of_everything, "centroids", {}, TOO_FAR),
    (shares_of_everything, "classifier", {}, TOO_FAR),
    (shares_of_everything, "covariance", {}, TOO_FAR),
    (residuals_not_clipped, "classifier", {}, TOO_FAR),
    (residuals_not_clipped, "covariance", {}, TOO_FAR),
    (clip_norm_of_the_rows, "sums", {}, DIFFERS),
    (nobody_dropped, "mean in parts", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (people_of_before_forgotten, "mean in parts", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (people_of_before_forgotten, "periods", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (nobody_dropped, "periods", {"with_ids": True, "rows_given": 5}, TOO_FAR),
    (noise_without_the_norm_of_the_mixing, "periods", {}, TOO_FAR),
    (a_part_that_stays, "snapshot", {}, TOO_FAR),
    (the_whole_for_every_round, "stand-ins", {}, TOO_FAR),
    (shares_of_everything, "stand-ins", {}, TOO_FAR),
]


def verdict(name, **settings):
    try:
        return LIVES if spent(name, **settings) <= 1 else TOO_FAR
    except Leak:
        return DIFFERS


@pytest.mark.parametrize(("mutant", "name", "settings", "how"), MUTANTS, ids=lambda part: getattr(part, "__name__", None))
def test_mutants_are_caught(mutant, name, settings, how, monkeypatch):
    given = {"adjacency": "add-remove", **settings}
    assert verdict(name, **given) == LIVES
    mutant(monkeypatch)
    assert verdict(name, **given) == how


@pytest.mark.parametrize("name", CALLS)
def test_a_late_charge_is_caught(name, monkeypatch):
    charged_late(monkeypatch)
    assert charges_and_draws(name)[0] == "draw" == charges_and_draws(name, refuses=True)[0]


def test_mutants_are_caught_by_the_likelihood_ratio_too(monkeypatch):
    """n = 20,000; alpha = 1e-5: where only what comes out is looked at, and not what goes in."""
    noise_for_c(monkeypatch)
    assert not replaced(5, moves=False).agrees()
    monkeypatch.undo()
    clean_counts(monkeypatch)
    assert not trials(1).agrees()
    monkeypatch.undo()
    original = spending._deviation
    monkeypatch.setattr(spending, "_deviation", lambda square: original(square * Fraction(3, 4)))
    shares_of_everything(monkeypatch)
    assert not trials(1).agrees()
