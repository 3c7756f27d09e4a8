"""`private_sums`, `SumsOfRows` and `private_mean`: what goes in, what comes out, what is refused before anything is charged."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.aggregates import PrivateSums, SumsOfRows, private_mean, private_sums
from hushvec.errors import AlreadyChargedError, PrivacyBudgetExhaustedError

TERMS = {"epsilon": 1.0, "delta": 1e-5}
NEARLY_CLEAN = {"epsilon": 1e5, "delta": 1e-5}  # noise of about 0.002
ROWS = (np.random.default_rng(0).normal(size=(200, 12)) * 0.2).astype(np.float32)
TOPICS = [("tea", "milk", "rum")[place % 3] for place in range(200)]
LABELS = ["rum", "tea", "milk"]


def clean(rows=ROWS, topics=TOPICS, kept=slice(None)):
    clipped = rows / np.maximum(np.linalg.norm(rows.astype(float), axis=1), 1)[:, None]
    return np.stack([clipped[kept][np.array(topics)[kept] == label].sum(axis=0) for label in LABELS])


def test_sums_counts_and_means_of_groups():
    released = private_sums(ROWS, TOPICS, labels=LABELS, **NEARLY_CLEAN)
    assert released.labels == tuple(LABELS) and released.sums.shape == (3, 12) and released.counts.shape == (3,)
    assert np.abs(released.sums - clean()).max() < 0.02
    assert np.abs(released.counts - [TOPICS.count(label) for label in LABELS]).max() < 0.02
    assert np.abs(released.means() - clean() / released.counts[:, None]).max() < 1e-3
    assert hv.verify_receipt(released.receipt).status == "holds" and released.receipt.rows is None


def test_the_standard_error_is_that_of_the_noise():
    """400 means under noise; their deviation from the clean mean is within 6 % of the stated one (6 standard deviations)."""
    rows = np.full((2000, 12), 0.25, np.float32)
    means = [private_mean(rows, generator=hv.Generator.unsafe_seeded(seed), **TERMS) for seed in range(400)]
    stated = np.mean([one.standard_error for one in means])
    assert np.std([one.mean for one in means]) == pytest.approx(stated, rel=0.06)
    assert np.mean([one.mean for one in means]) == pytest.approx(0.25, abs=6 * stated / np.sqrt(400))


@pytest.mark.parametrize("kind", ["float64", "float16", "torch", "bfloat16", "list", "fortran", "memmap"])
def test_kinds_of_rows(kind, tmp_path):
    rows = ROWS
    if kind in ("float64", "float16"):
        rows = ROWS.astype(kind)
    elif kind in ("torch", "bfloat16"):
        torch = pytest.importorskip("torch")
        rows = torch.tensor(ROWS).to(getattr(torch, "float32" if kind == "torch" else kind))
    elif kind == "list":
        rows = ROWS.tolist()
    elif kind == "fortran":
        rows = np.asfortranarray(ROWS)
    elif kind == "memmap":
        np.save(tmp_path / "rows.npy", ROWS)
        rows = np.load(tmp_path / "rows.npy", mmap_mode="r")
    released = private_sums(rows, TOPICS, labels=LABELS, **NEARLY_CLEAN)
    assert isinstance(released, PrivateSums) and np.abs(released.sums - clean()).max() < (0.5 if "16" in kind else 0.02)


def test_blocks_are_one_release():
    """The same integers, and from the same key the same bits."""
    whole = private_sums(ROWS, TOPICS, labels=LABELS, generator=hv.Generator.unsafe_seeded(7), **TERMS)
    blocks = SumsOfRows(12, labels=LABELS, generator=hv.Generator.unsafe_seeded(7), **TERMS)
    for first in range(0, 200, 33):
        blocks.add(ROWS[first : first + 33], TOPICS[first : first + 33])
    released = blocks.release()
    assert (released.sums == whole.sums).all() and (released.counts == whole.counts).all()
    for again in (blocks.release, lambda: blocks.add(ROWS, TOPICS)):
        with pytest.raises(ValueError, match="release must be called once: a second draw would be a second release"):
            again()


def test_sums_can_be_saved_and_are_released_once(tmp_path):
    budget, people = hv.PrivacyBudget(3e5, 1e-3), [place // 2 for place in range(200)]
    settings = {"labels": list(np.array(LABELS)), "with_people": True, "rows_per_person": 1, **NEARLY_CLEAN}
    first = SumsOfRows(12, budget=budget, **settings)
    first.add(ROWS[:101], TOPICS[:101], people[:101])
    first.save(tmp_path / "sums.npz")
    second = SumsOfRows.load(tmp_path / "sums.npz", budget=budget)
    second.add(ROWS[101:], TOPICS[101:], people[101:])
    assert np.abs(second.release().sums - clean(kept=np.arange(0, 200, 2))).max() < 0.02 and budget.consumed() == 1e5
    for copy in (first, SumsOfRows.load(tmp_path / "sums.npz", budget=budget)):
        with pytest.raises(AlreadyChargedError, match="was made before: its release was lost"):
            copy.release()
    with pytest.raises(TypeError, match="labels must be str or int to be saved, got float"):
        SumsOfRows(2, labels=[0.5, 1.5], **TERMS).save(tmp_path / "other.npz")


def test_rows_beyond_those_of_a_person_are_dropped():
    people = ["ann", "bob", "cem", "dee"] * 50
    for most in (1, 3):
        kept = np.arange(4 * most)
        whole = private_sums(ROWS, TOPICS, labels=LABELS, people=people, rows_per_person=most, **NEARLY_CLEAN)
        assert np.abs(whole.sums - clean(kept=kept)).max() < 0.02 * most and whole.receipt.rows_bound == "people"
        blocks = SumsOfRows(12, labels=LABELS, rows_per_person=most, with_people=True, **NEARLY_CLEAN)
        for first in range(0, 200, 2):
            block = slice(first, first + 2)
            blocks.add(ROWS[block], TOPICS[block], people[block])
        assert np.abs(blocks.release().sums - clean(kept=kept)).max() < 0.02 * most
    one = private_sums(ROWS, **TERMS)
    assert private_sums(ROWS, rows_per_person=4, **TERMS).noise.sigma == pytest.approx(4 * one.noise.sigma)


def test_a_refused_block_does_not_use_up_people():
    blocks = SumsOfRows(2, with_people=True, **NEARLY_CLEAN)
    with pytest.raises(ValueError, match="rows must be finite, got nan in row 0"):
        blocks.add(np.array([[np.nan, 0]], np.float32), people=[5])
    blocks.add(np.array([[1.0, 0]], np.float32), people=[5])
    assert blocks.release().counts[0] == pytest.approx(1, abs=0.02)


def test_the_number_of_rows_is_public_under_replace_one_alone():
    for rows_per_person, rows in ((1, 200), (2, None)):
        released = private_sums(ROWS, adjacency="replace-one", rows_per_person=rows_per_person, **TERMS)
        assert released.receipt.rows == rows and (released.counts[0] == 200) == (rows is not None)
    released = private_sums(ROWS, TOPICS, labels=LABELS, adjacency="replace-one", **TERMS)
    assert released.receipt.rows == 200 and not set(released.counts) & {66.0, 67.0}


def test_no_rows_are_released_like_any():
    released = private_sums(np.zeros((0, 5), np.float32), **TERMS)
    assert released.sums.std() > 0 and released.means().shape == (1, 5) and hv.verify_receipt(released.receipt).status == "holds"


def test_the_budget_is_charged_once_and_before_the_draw():
    budget = hv.PrivacyBudget(1.5, 1e-4)
    released = private_mean(ROWS, budget=budget, **TERMS)
    assert hv.verify_charges([released.receipt], budget.export()).status == "holds"
    with pytest.raises(PrivacyBudgetExhaustedError):
        private_mean(ROWS, budget=budget, **TERMS)
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        private_mean(ROWS, budget=budget, generator=hv.Generator.unsafe_seeded(1), **TERMS)
    seeded = private_mean(ROWS, generator=hv.Generator.unsafe_seeded(1), **TERMS).receipt
    assert hv.verify_receipt(seeded).status == "not a DP claim"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": np.array([[1, np.inf]], np.float32)}, "rows must be finite, got inf in row 0"),
        ({"rows": np.ones((2, 2, 2))}, "rows must have 1 or 2 dimensions, got 3"),
        ({"groups": ["tea"] * 3, "labels": LABELS}, "groups must have 200 elements, one for each row, got 3"),
        ({"groups": TOPICS}, "groups and labels must be given together"),
        ({"labels": LABELS}, "groups and labels must be given together"),
        ({"groups": ["gin", *TOPICS[1:]], "labels": LABELS}, "groups must be among the 3 labels, got 'gin' at position 0"),
        ({"groups": np.arange(200), "labels": 100}, "groups must be among the 100 labels, got 100 at position 100"),
        ({"groups": TOPICS, "labels": ["tea", "tea"]}, "labels must be different from each other and at least 1, got 2, of which 1"),
        ({"groups": TOPICS, "labels": 0}, "labels must be >= 1, got 0"),
        ({"people": ["ann"]}, "people must have 200 elements, one for each row, got 1"),
        ({"people": [1.5] * 200}, "people must be all str or all int, got float among them"),
        ({"people": ["1", 1] * 100}, "people must be all str or all int, got int among them"),
        ({"rows_per_person": 0}, "rows_per_person must be >= 1, got 0"),
        ({"adjacency": "add_remove"}, "adjacency must be one of 'replace-one', 'add-remove', got 'add_remove'"),
        ({"epsilon": 0.0}, "epsilon must be > 0, got 0.0"),
        ({"delta": 0.0}, "delta must be > 0 and < 1, got 0.0"),
        ({"clip_norm": -1.0}, "clip_norm must be > 0, got -1.0"),
        ({"epsilon": 1e13}, r"epsilon and delta must give a noise multiplier in \[2\^-16, 2\^16 / rows_per_person\], got"),
        ({"rows_per_person": 2**16}, r"epsilon and delta must give a noise multiplier in"),
    ],
)
def test_what_is_refused_is_not_charged(arguments, message):
    budget = hv.PrivacyBudget(1e14, 0.5)
    given = {"rows": ROWS, **TERMS, "budget": budget, **arguments}
    with pytest.raises((ValueError, TypeError), match=message):
        private_sums(given.pop("rows"), given.pop("groups", None), **given)
    assert budget.consumed() == 0
