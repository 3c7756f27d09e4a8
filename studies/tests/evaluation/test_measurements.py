"""What search and classification measure, on rows whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest
from evaluation.invented import class_rows

from hushvec_studies.evaluation.cells import (
    CENTROID,
    PROBE,
    Cell,
    measure_labels,
    measure_search,
    nearest_centroid,
)
from hushvec_studies.evaluation.vectors import Labelled, Posts, Searched

ROWS, CLASSES = class_rows(400, 8, seed=1)
TEST_ROWS, TEST_CLASSES = class_rows(80, 8, seed=2)
LABELLED = Labelled("classes", ROWS[:200], ROWS[200:], CLASSES[200:], TEST_ROWS, TEST_CLASSES)
POSTS = Posts("posts", ROWS[:200], TEST_ROWS, TEST_CLASSES)
SEARCHED = Searched("notes", ROWS, ROWS[:40], [{place: 1.0} for place in range(40)])


def cell(data, side, mechanism="none", epsilon=None, draws=2):
    return Cell(
        task="a task",
        side=side,
        data=data,
        mechanism=mechanism,
        epsilon=epsilon,
        delta=1e-5,
        draws=draws,
        seed=1,
        confidence=0.95,
        resamples=50,
    )


@pytest.mark.parametrize("side", ["training", "test"])
def test_classes_are_found_without_noise_and_lost_in_it(side):
    clean = measure_labels(cell(LABELLED, side))
    assert clean[PROBE][0] > 0.95 and clean[CENTROID][0] > 0.95
    assert (clean["attack"][0], clean["bound"], clean["delta"]) == (1.0, None, None)
    assert clean["candidates"] == (200 if side == "training" else 80)
    noisy = measure_labels(cell(LABELLED, side, "gaussian", 0.3))
    assert noisy[PROBE][0] < 0.6 and noisy[CENTROID][0] < 0.6
    assert noisy["delta"] == 1e-5 and noisy["attack"][0] < 0.2


def test_a_codebook_is_chosen():
    row = measure_labels(cell(LABELLED, "training", "public codebook", 12.0))
    assert (row["delta"], len(row["chosen"])) == (0.0, 2)


def test_nearest_centroid_goes_by_angle():
    rows = np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], np.float32)
    assert nearest_centroid(rows, np.array([3, 3, 7]), np.array([[1.0, 0.2], [0.1, 1.0]], np.float32)).tolist() == [3, 7]


def test_documents_are_found_by_themselves():
    """A query finds itself at rank one where its document is private: in one half or the other."""
    row = measure_search(cell(SEARCHED, "documents"))
    assert row["ndcg_at_10"][0] == row["mrr"][0] == 1.0
    assert 0 < row["queries"] <= 40 and row["candidates"] == 200 and row["released"] == 400
    noisy = measure_search(cell(SEARCHED, "documents", "privunit", 0.5))
    assert noisy["ndcg_at_10"][0] < 0.4
    assert noisy["bound"] == pytest.approx(np.exp(0.5) / (np.exp(0.5) + 199))


def test_private_questions():
    """Ranked by the clean question, fifty documents answer better than the ten that a released code finds."""
    clean = measure_search(cell(SEARCHED, "questions"))
    assert (clean["mrr"][0], clean["queries"], clean["candidates"]) == (1.0, 40, 40)
    asked = measure_search(cell(SEARCHED, "questions", "private query", 4.0))
    sent = measure_search(cell(SEARCHED, "questions", "public codebook", 4.0))
    assert asked["ndcg_at_10"][0] > sent["ndcg_at_10"][0]


def test_posts_look_for_their_group_without_themselves():
    """Eight groups of ten: nine others are relevant, and a post is not its own answer."""
    row = measure_search(cell(POSTS, "documents"))
    assert row["ndcg_at_10"][0] > 0.95
    shuffled = replace(POSTS, groups=np.random.default_rng(0).permutation(POSTS.groups))
    assert measure_search(cell(shuffled, "documents"))["recall_at_10"][0] < 0.3


def test_the_same_cell_gives_the_same_row_and_another_seed_does_not():
    one = cell(POSTS, "documents", "privunit", 8.0)
    assert measure_search(one) == measure_search(one)
    assert measure_search(replace(one, seed=2)) != measure_search(one)
    assert one.digest != replace(one, data=replace(POSTS, private=ROWS[:80])).digest
