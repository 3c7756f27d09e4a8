"""One charge pays for at most one release, whatever is copied, saved, forked, threaded, retried or interrupted in between."""

import copy
import itertools
import os
import pickle
import shutil
import threading
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec._util.publish import Unfinished
from hushvec.aggregates import PrivateVotes, SumsOfRows
from hushvec.aggregates.spending import Spending
from hushvec.collect import Memo, Vocabulary
from hushvec.errors import AlreadyChargedError, BudgetError
from hushvec.federated import PrivateAverage, PrivateRounds
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.release.charging import ChargeOnce
from hushvec.release.vectors import ReleasePlan
from hushvec.training.clipped_sums import ClippedSum

ROWS = np.ones((6, 3), np.float32)
TERMS = {"epsilon": 1.0, "delta": 1e-5}
WORDS = Vocabulary([f"word{i}" for i in range(40)], epsilon=1.0)
numbers = itertools.count()


class Sums:
    """How an object is made, made again from its file, and releases. A charge pays for `worth` releases."""

    worth, draw = 1, (Spending, "noisy")

    def __init__(self, folder, budget):
        self.file, self.budget = folder / "sums.npz", budget

    def make(self):
        made = SumsOfRows(3, budget=self.budget, **TERMS)
        made.add(ROWS)
        made.save(self.file)
        return made

    def again(self):
        if self.budget is None:
            raise ValueError("nothing else than the ledger prevents a second release of a file, as its documentation says")
        return SumsOfRows.load(self.file, budget=self.budget)

    def release(self, held):
        return [held.release().sums.tobytes()]

    def most(self, released):
        """How many releases are paid for; without a budget those of one object."""
        return self.worth * (1 if self.budget is None else charges(self.budget))


class CountedVotes(PrivateVotes):
    """Answers with how often the first document has voted."""

    def _answer(self, direction):
        before = self._cast[0]
        super()._answer(direction)
        return self._cast[0] - before


class Votes(Sums):
    """A vote of the first document is a release."""

    worth, draw = 2, (Spending, "noisy_counts")

    def make(self):
        return self._of(self.file)

    def again(self):
        """From the journal, or from a copy of it, which has fewer votes in it."""
        copied = self.file.with_name("copy.npz")
        shutil.copy(self.file, copied)
        try:
            return self._of(copied)
        except ValueError:
            return self._of(self.file)

    def _of(self, file):
        terms = {"epsilon_per_document": 1.0, "delta": 1e-5, "votes_per_document": 2}
        return CountedVotes(ROWS, [0] * 6, labels=2, threshold=0.5, journal=file, budget=self.budget, **terms)

    def release(self, held):
        return [(os.getpid(), next(numbers)) for _ in range(held.ask(ROWS[0]))]


class Average(Sums):
    draw = (ClippedSum, "release")

    def make(self):
        return PrivateAverage(clip_norm=1.0, clients=2, rounds=1, budget=self.budget, journal=self.file, **TERMS)

    again = make

    def release(self, held):
        return [held.aggregate([[ROWS[0]]]).values[0].tobytes()]


class Rounds(Sums):
    """The ledger of the run, of two rounds, is in a file too."""

    worth, draw = 2, (ReleasePlan, "run")

    def make(self):
        run = {"persist_key": "run", "store": self.file.with_suffix(".db")}
        return PrivateRounds(clip_norm=1.0, rounds=2, budget=self.budget, **run, **TERMS)

    again = make

    def release(self, held):
        return [held.release([ROWS[0]]).values[0].tobytes()]


class Job(Sums):
    """Every release of a row is the same one, which is paid for once."""

    draw = (NoiseJob, "_run")

    def make(self):
        return NoiseJob.start(dimension=3, epsilon=1.0, path=self.file, budget=self.budget)

    again = make

    def release(self, held):
        return [noise_batch(ROWS[:1], held).tobytes()]


class OneWord(Sums):
    """A memo admits one word, of all that a person would like to report."""

    draw = (Vocabulary, "_drawn_from_memo")

    def make(self):
        return Memo()

    def again(self):
        return Memo.open(self.file)

    def release(self, held):
        word = f"word{next(numbers) % 40}"
        WORDS.report(word, per="release", memo=held, budget=self.budget)
        return [(held._secret, word)]

    def most(self, released):
        return len({secret for secret, _ in released})


KINDS = [Sums, Votes, Average, Rounds, Job, OneWord]
CHARGE, WRITE = (hv.PrivacyBudget, "consume"), (Unfinished, "take_place")


class Counter:
    """A budget that is none of the library's, and knows no charge again."""

    def __init__(self):
        self.charges = 0

    def consume(self, epsilon, delta):
        self.charges += 1


def charges(budget):
    if isinstance(budget, Counter):
        return budget.charges
    return sum(row["kind"] == "charge" for row in budget.export()["rows"])


def failing(target, *, after):
    """The function raises; `after` it has done its work."""
    true = getattr(*target)

    def fail(*arguments, **named):
        if after:
            true(*arguments, **named)
        raise BudgetError("the line was cut", "id", True) if target == CHARGE else OSError("the disk is full")

    return mock.patch.object(*target, fail)


def in_fork(work):
    """What it returns in a child process."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, pickle.dumps(refusable(work)))
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, "rb") as pipe:
        got = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    return got


def in_threads(work):
    got = []
    threads = [threading.Thread(target=lambda: got.extend(refusable(work))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got


def refusable(work):
    """What was released: nothing if it was refused, in whichever words."""
    try:
        return work()
    except (TypeError, ValueError, RuntimeError, OSError, hv.errors.HushvecError):
        return []


COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda held: pickle.loads(pickle.dumps(held))}
FAULTS = [f"{place} fails{when}" for place in ("charge", "draw", "write") for when in ("", " afterwards")]
STEPS = [*COPIES, *["again"] * 2, "drop", *["release"] * 6, "fork", "threads", *FAULTS]


def run(kind, steps):
    """Everything that got out."""
    held, released = [kind.make()], []
    for step, place in steps:
        one = held[place % len(held)] if held else None
        if step == "again":
            held.extend(refusable(lambda: [kind.again()]))
        elif step == "drop":  # as a process that is killed
            held.clear()
        elif one is None:
            continue
        elif step in COPIES:
            held.extend(refusable(lambda one=one, copied=COPIES[step]: [copied(one)]))
        elif step in FAULTS:
            target = {"charge": CHARGE, "draw": kind.draw, "write": WRITE}[step.split()[0]]
            with failing(target, after=step.endswith("afterwards")):
                released += refusable(lambda one=one: kind.release(one))
        else:
            how = {"release": refusable, "fork": in_fork, "threads": in_threads}[step]
            released += how(lambda one=one: kind.release(one))
    return released


PROGRAMS = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), min_size=3, max_size=10)
LIKE_THE_REST = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


BUDGETS = {"ledger": lambda: hv.PrivacyBudget(1e3, 0.5), "counter": Counter, "none": lambda: None}
CASES = [(kind, name) for kind in KINDS for name in BUDGETS if (kind, name) != (Job, "counter")]  # which takes ledgers alone


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize(("kind", "budget"), CASES)
@settings(max_examples=scaled(30, 1000), **LIKE_THE_REST)
@given(steps=PROGRAMS)
def test_a_charge_pays_for_at_most_one_release(kind, budget, steps, tmp_path_factory):
    of_kind = kind(tmp_path_factory.mktemp("one"), BUDGETS[budget]())
    released = run(of_kind, steps)
    assert len(set(released)) <= of_kind.most(released)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=scaled(10, 400), **LIKE_THE_REST)
@given(steps=PROGRAMS)
def test_so_does_one_in_a_ledger_that_forks_share(kind, steps, tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    with hv.PrivacyBudget(1e3, 0.5, persist_key="ledger", store=folder / "ledger.db") as budget:
        of_kind = kind(folder, budget)
        released = run(of_kind, steps)
        assert len(set(released)) <= of_kind.most(released)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_paid_for_is_released(kind, tmp_path):
    """The search above could not fail if nothing were ever released."""
    budget = hv.PrivacyBudget(1e3, 0.5)
    released = run(kind(tmp_path, budget), [("release", 0)] * 3)
    assert len(set(released)) == kind.worth and charges(budget) == 1


def test_a_refused_copy_of_sums_is_refused_again(tmp_path):
    budget = hv.PrivacyBudget(10.0, 1e-3)
    kind = Sums(tmp_path, budget)
    kind.make().release()
    copied = kind.again()
    for _ in range(3):
        with pytest.raises(AlreadyChargedError, match="was made before: its release was lost"):
            copied.release()
    assert budget.consumed() == 1.0
    with pytest.raises(ValueError, match=r"budget must be given for .*, whose sums were begun with one, got None"):
        SumsOfRows.load(kind.file)


@pytest.mark.parametrize("made", [SumsOfRows(3, **TERMS), Memo()], ids=["sums", "memo"])
@pytest.mark.parametrize("how", COPIES.values(), ids=COPIES)
def test_a_copy_is_refused(made, how):
    with pytest.raises(TypeError, match=f"^{type(made).__name__} must not be copied or pickled: a copy would release more"):
        how(made)


def test_the_first_charge_of_a_call_has_the_calls_id():
    budget = hv.PrivacyBudget(10.0)
    call = ChargeOnce(budget, "call")
    for _ in range(3):
        call.consume(1.0)
    assert [row["charge_id"] for row in budget.export()["rows"][1:]] == ["call", "call/2", "call/3"]
