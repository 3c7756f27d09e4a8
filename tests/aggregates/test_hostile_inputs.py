"""Inputs and uses that somebody tries: what is refused costs nothing, what is accepted is released like any other."""

import os
import sys
import threading

import numpy as np
import pytest

import hushvec as hv
from hushvec.aggregates import (
    SumsOfRows,
    class_centroids,
    classifiers,
    private_classifier,
    private_covariance,
    private_histogram,
    private_mean,
    private_norm_quantiles,
    private_pca,
    private_sums,
    totals,
)
from hushvec.aggregates.spending import Spending
from hushvec.errors import PrivacyBudgetExhaustedError

TERMS = {"epsilon": 1.0, "delta": 1e-5}
NEARLY_CLEAN = {"epsilon": 1e5, "delta": 1e-5}
ROWS = (np.random.default_rng(0).normal(size=(30, 4)) * 0.4).astype(np.float32)
TOPICS = np.arange(30) % 3


def topics(rows):
    return TOPICS if rows is None else TOPICS[: len(rows)]


OF_ROWS = {
    "sums": lambda rows, **terms: private_sums(rows, topics(rows), labels=3, **terms),
    "mean": private_mean,
    "centroids": lambda rows, **terms: class_centroids(rows, topics(rows), labels=3, **terms),
    "classifier": lambda rows, **terms: private_classifier(rows, topics(rows), labels=3, steps=1, **terms),
    "covariance": private_covariance,
    "pca": lambda rows, **terms: private_pca(rows, components=1, **terms),
    "quantiles": private_norm_quantiles,
}


class Purse:
    """A custom budget: counts charges, and what had been drawn before each."""

    def __init__(self, refuses=False):
        self.charges, self.draws, self.refuses = 0, 0, refuses

    def consume(self, epsilon, delta):
        assert self.draws == 0 and (epsilon, delta) == (TERMS["epsilon"], TERMS["delta"])
        self.charges += 1
        if self.refuses:
            raise OSError("the purse is shut")


@pytest.fixture
def purse(monkeypatch):
    """Sees every draw."""
    found, original = Purse(), Spending.noisy

    def noisy(*arguments):
        found.draws += 1
        return original(*arguments)

    monkeypatch.setattr(Spending, "noisy", noisy)
    return found


def refused(purse, message, call, *arguments, **settings):
    with pytest.raises((ValueError, TypeError), match=message):
        call(*arguments, budget=purse, **TERMS, **settings)
    assert (purse.charges, purse.draws) == (0, 0)


def torch_rows(**settings):
    torch = pytest.importorskip("torch")
    return torch.tensor(ROWS).requires_grad_(**settings)


def last_is(value, at=-1):
    rows = ROWS.copy()
    rows[at, -1] = value
    return rows


BAD_ROWS = {
    "nan in the last row": (lambda: last_is(np.nan), "rows must be finite, got nan in row 29"),
    "masked": (lambda: np.ma.array(ROWS, mask=ROWS > 0), "rows must be a plain numpy array, got MaskedArray"),
    "gradient": (torch_rows, "rows must not require grad, got requires_grad=True"),
    "byte order": (lambda: ROWS.astype(">f4"), "rows must be in native byte order, got >f4"),
    "three dimensions": (lambda: ROWS[None], "rows must have 1 or 2 dimensions, got 3"),
    "nothing": (lambda: None, "rows must be a numpy array, a torch tensor or a CuPy array, got NoneType"),
}


@pytest.mark.parametrize("bad", BAD_ROWS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_bad_rows_cost_nothing(name, bad, purse):
    make, message = BAD_ROWS[bad]
    rows = make()
    refused(purse, message, OF_ROWS[name], rows)


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_bad_row_has_its_number_in_the_input_also_where_others_are_dropped(name, purse):
    refused(purse, "got inf in row 2", OF_ROWS[name], last_is(np.inf, 2), people=[0, 0, *range(1, 29)])


@pytest.mark.parametrize("name", ["mean", "covariance", "centroids", "classifier", "sums"])
def test_rows_without_columns_cost_nothing(name, purse):
    refused(purse, "must (be >= 1|have at least 1 column), got 0", OF_ROWS[name], ROWS[:, :0])


GOOD_ROWS = {
    "as long as can be": np.full((30, 4), 3e38, np.float32),
    "longer than float32": np.full((30, 4), -1.7e308),
    "subnormal": np.full((30, 4), 1e-45, np.float32),
    "subnormal float64": np.full((30, 4), 5e-324),
    "zero": np.zeros((30, 4), np.float32),
    "one row": ROWS[:1],
    "no rows": ROWS[:0],
    "one column": ROWS[:, :1],
    "one person many times": np.tile(ROWS[:1], (30, 1)),
    "read-only": np.frombuffer(ROWS.tobytes(), np.float32).reshape(30, 4),
    "backwards": np.repeat(ROWS, 2, axis=0)[::-2, ::-1],
}


def arrays(released):
    return [value for value in vars(released).values() if isinstance(value, np.ndarray)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rows", GOOD_ROWS.values(), ids=GOOD_ROWS)
@pytest.mark.parametrize("name", OF_ROWS)
def test_odd_rows_are_released_like_any(name, rows, purse):
    """Charged once, before anything is drawn; numbers are finite; the receipt holds."""
    released = OF_ROWS[name](rows, budget=purse, **TERMS)
    assert purse.charges == 1 and hv.verify_receipt(released.receipt).status == "holds"
    assert all(np.isfinite(numbers).all() for numbers in arrays(released) if numbers.dtype.kind == "f")


def test_layouts_and_kinds_release_the_same():
    """Same key, same bits: by layout, library and blocks of memory."""
    torch = pytest.importorskip("torch")
    for call in OF_ROWS.values():
        first, *others = (
            call(rows, people=list(range(15)) * 2, generator=hv.Generator.unsafe_seeded(1), **TERMS)
            for rows in (ROWS, np.asfortranarray(ROWS), torch.tensor(ROWS), np.pad(ROWS, 3)[3:-3, 3:-3], ROWS.tolist())
        )
        for other in others:
            assert [one.tobytes() for one in arrays(other)] == [one.tobytes() for one in arrays(first)]


BAD_GROUPS = {
    "masked": (np.ma.array(TOPICS, mask=TOPICS == 1), 3, "must be a plain numpy array, got MaskedArray"),
    "a column": (TOPICS[:, None], 3, "must have 1 dimension, got 2"),
    "near 2^63": (np.where(TOPICS == 1, 2**63 - 1, TOPICS).astype(np.uint64), 3, "must be among the 3 labels, got 92233"),
    "beyond 2^63": (np.where(TOPICS == 1, 2**64 - 1, 0).astype(np.uint64), 300, "must be among the 300 labels, got 18446"),
    "negative int8": ((TOPICS - 1).astype(np.int8), 300, "must be among the 300 labels, got -1 at position 0"),
    "nan": (np.where(TOPICS == 1, np.nan, 0), 3, "must be among the 3 labels, got nan at position 1"),
    "unhashable": ([[0]] * 30, 3, r"must be among the 3 labels, got \[0\] at position 0"),
    "too many labels": (TOPICS, 10**10, r"labels must be at most 2\^22, got 10000000000"),
    "unhashable labels": (TOPICS, [[0], [1], [2]], "labels must be hashable, got list in them"),
    "equal labels": (TOPICS, [1, True, 0], "labels must be different from each other and at least 1, got 3, of which 2 differ"),
    "a string of labels": (TOPICS, "abc", "labels must be a whole number, got str"),
    "a flag for labels": (TOPICS, True, "labels must be a whole number, got bool"),
}


@pytest.mark.parametrize("bad", BAD_GROUPS)
def test_bad_groups_cost_nothing(bad, purse):
    groups, labels, message = BAD_GROUPS[bad]
    named = message if message.startswith("labels") else f"groups {message}"
    for call in (private_sums, private_classifier):
        refused(purse, named, call, ROWS, groups, labels=labels)
    refused(purse, named.replace("groups", "values"), private_histogram, groups, labels)


LABELS = {
    "flags": [False, True, None],
    "floats": [0.5, 1.5, 2.5],
    "text and numbers": ["a", 1, 2.5],
    "beyond int64": [2**63, -1, 0],
    "pairs": [("a", 1), ("b", 2), ("c", 3)],
    "unlike pairs": [("a",), ("b", 2), ()],
    "numpy": list(np.array(["x", "y", "z"])),
}


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
def test_labels_come_back_as_they_are(labels):
    rows = np.eye(3, dtype=np.float32)[np.arange(300) % 3] + 0.01
    groups = [labels[place % 3] for place in range(300)]
    fitted = class_centroids(rows, groups, labels=labels, **NEARLY_CLEAN)
    found = list(fitted.predict(rows[:3]))
    assert found == labels and [isinstance(one, str) for one in found] == [isinstance(one, str) for one in labels]
    assert fitted.classes_.shape == (3,) and private_histogram(groups, labels, **NEARLY_CLEAN).labels == tuple(labels)


@pytest.mark.parametrize(
    "groups", [TOPICS.astype(kind) for kind in ("int8", "uint8", "uint64", "float64", "object", ">i4")] + [iter_of := range(30)]
)
def test_kinds_of_groups(groups):
    labels = 30 if groups is iter_of else 3
    counts = private_sums(ROWS, groups, labels=labels, **NEARLY_CLEAN).counts
    assert np.abs(counts - (1 if groups is iter_of else 10)).max() < 0.02


def test_labels_that_can_be_read_once_and_labels_that_change():
    assert private_sums(ROWS, TOPICS, labels=iter(range(3)), **TERMS).sums.shape == (3, 4)
    labels = ["a", "b"]
    blocks = SumsOfRows(4, labels=labels, **NEARLY_CLEAN)
    labels.reverse()
    blocks.add(ROWS, ["a"] * 30)
    assert blocks.release().counts[0] == pytest.approx(30, abs=0.02)


def test_what_cannot_be_released_is_refused_before_the_charge(purse, monkeypatch):
    for name, value in (("counts", False), ("groups", TOPICS), ("labels", 3)):
        refused(purse, f"unexpected keyword argument '{name}'", private_mean, ROWS, **{name: value})
    refused(purse, "steps must be at most 62, got 63", private_classifier, ROWS, TOPICS, labels=3, steps=63)
    for clip_norm in (1e18, 1e-16):
        refused(purse, r"sigma must be a float32 in \[2\^-100, 2\^100\], got", private_covariance, ROWS, clip_norm=clip_norm)
    wide = np.zeros((4, 2**17 + 1), np.float32)
    for call in (class_centroids, private_classifier):
        refused(purse, r"rows must have at most 2\^17 columns, got 131073", call, wide, [0, 1, 0, 1], labels=2)
    monkeypatch.setattr(totals, "MOST_ROWS_OF_MOMENTS", 16)
    for name in ("classifier", "covariance", "pca"):
        refused(purse, r"rows must be at most 2\^4, got 0 \+ 30", OF_ROWS[name], ROWS)


@pytest.mark.parametrize("lengths", [{3.0: 600}, {1.1: 180, 5.0: 420}, {0.0: 300, 1e9: 300}])
def test_quantiles_of_few_different_lengths(lengths):
    """The end of the bin of the first length up to which the share lies. Bins are 2^(1/4) wide, from 2^-16 to 2^16."""
    rows = np.zeros((600, 4), np.float32)
    rows[:, 0] = np.repeat(list(lengths), list(lengths.values()))
    shares = [0.1, 0.25, 0.4, 0.6, 0.9]
    norms = private_norm_quantiles(rows, shares, **NEARLY_CLEAN).norms
    for share, norm in zip(shares, norms):
        length = np.clip(np.quantile(rows[:, 0], share, method="inverted_cdf"), 2.0**-16, 2.0**16)
        assert length <= norm < length * 2**0.25


def test_memory_does_not_grow_with_rows_times_labels(monkeypatch):
    seen, original = [], classifiers._residuals

    def residuals(turned, codes, weights, heat):
        seen.append(len(turned) * len(weights))
        return original(turned, codes, weights, heat)

    monkeypatch.setattr(classifiers, "_residuals", residuals)
    rows = np.ones((6000, 1), np.float32)
    private_classifier(rows, np.arange(6000) % 1000, labels=1000, steps=1, **TERMS)
    assert sum(seen) == 6_000_000 and max(seen) <= totals._ELEMENTS_AT_ONCE


@pytest.mark.parametrize("name", OF_ROWS)
def test_a_budget_that_refuses(name, purse):
    """Whatever it raises comes through; nothing is drawn."""
    purse.refuses = True
    with pytest.raises(OSError, match="the purse is shut"):
        OF_ROWS[name](ROWS, budget=purse, **TERMS)
    assert (purse.charges, purse.draws) == (1, 0)
    empty = hv.PrivacyBudget(0.5, 1e-4)
    with pytest.raises(PrivacyBudgetExhaustedError):
        OF_ROWS[name](ROWS, budget=empty, **TERMS)
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        OF_ROWS[name](ROWS, budget=empty, generator=hv.Generator.unsafe_seeded(1), **TERMS)
    with pytest.raises(TypeError, match=r"budget must have a method consume\(epsilon, delta\), got float"):
        OF_ROWS[name](ROWS, budget=1.0, **TERMS)
    assert empty.consumed() == 0 and purse.draws == 0


def test_ids_are_of_one_kind_in_all_blocks():
    """1 and "1" would be two people, who both enter."""
    blocks = SumsOfRows(4, with_people=True, **NEARLY_CLEAN)
    blocks.add(ROWS[:1], people=["1"])
    with pytest.raises(TypeError, match="people must be all str or all int, got int among them"):
        blocks.add(ROWS[:1], people=[1])
    assert blocks.release().counts[0] == pytest.approx(1, abs=0.02)


def used_by_two_threads():
    """(sums of 4,000 people whose rows both threads add, those of everybody's rows from both, errors)."""
    rows, ids, added, released, errors = np.full((4000, 64), 0.1, np.float32), list(range(4000)), threading.Barrier(2), [], []
    once, twice = SumsOfRows(64, with_people=True, **NEARLY_CLEAN), SumsOfRows(64, **NEARLY_CLEAN)

    def use():
        once.add(rows, people=ids)
        for first in range(0, 4000, 500):
            twice.add(rows[first : first + 500])
        added.wait()
        try:
            released.append(once.release())
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return released, twice.release(), errors


def test_two_threads_at_once():
    """Nobody enters twice, no row is lost, and there is one release."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(5):
            released, everybody, errors = used_by_two_threads()
            assert len(released) == 1 and errors == ["release must be called once: a second draw would be a second release"]
            assert released[0].counts[0] == pytest.approx(4000, abs=0.1)
            assert everybody.sums[0] == pytest.approx(np.full(64, 800.0), abs=0.1)
    finally:
        sys.setswitchinterval(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_process_draws_its_own_noise():
    """A fork copies the rows and the generator: a release of its own shares no noise, and one of rows added before is refused."""
    blocks = SumsOfRows(4, **TERMS)
    blocks.add(ROWS)
    private_sums(ROWS, **TERMS)  # the process-wide stream is in use
    out, end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(RuntimeError, match="a fork would release more for one charge"):
                blocks.release()
            os.write(end, private_sums(ROWS, **TERMS).sums.tobytes())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(end)  # a child that wrote nothing is seen as such
    sums = np.frombuffer(os.read(out, 4096))
    os.close(out)
    assert sums.shape == (4,) and not (blocks.release().sums[0] == sums).all()  # one of them may be, on its grid
