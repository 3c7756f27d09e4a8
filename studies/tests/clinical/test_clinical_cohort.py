"""Drawn patients are as alike as their strengths say; recorded ones are those of the file."""

import numpy as np
import pytest

from hushvec_studies.clinical import contenders
from hushvec_studies.clinical.cohort import COHORTS, Population, Recorded, Strengths

D = 256


def population(dimension=D, seed=3, **strengths):
    return Population(name="ward", strengths=Strengths(**strengths), dimension=dimension, seed=seed)


def cosines_of(rows):
    """All cosines of two different rows."""
    products = rows.astype(np.float64) @ rows.T
    return products[np.triu_indices(len(rows), 1)]


@pytest.mark.parametrize("name", COHORTS)
def test_rows_have_unit_length_and_the_same_ones_come_again(name):
    drawn = Population(name=name, strengths=COHORTS[name], dimension=512)
    rows = drawn.patients(50)
    assert rows.dtype == np.float32 and rows.shape == (50, 512)
    assert np.linalg.norm(rows.astype(np.float64), axis=1) == pytest.approx(1.0, abs=1e-6)
    assert np.array_equal(rows, Population(name=name, strengths=COHORTS[name], dimension=512).patients(50))
    assert not np.array_equal(rows, Population(name=name, strengths=COHORTS[name], dimension=512, seed=1).patients(50))


@pytest.mark.parametrize("mean, diagnosis", [(0.0, 0.0), (0.5, 0.0), (0.5, 0.2), (0.7, 0.2)])
def test_cosines_are_made_of_the_shares(mean, diagnosis):
    """400 rows: most pairs have a cosine of about `mean`; with two diagnoses half of them have `mean + diagnosis`."""
    rows = population(mean=mean, diagnosis=diagnosis, diagnoses=2).patients(400)
    cosines = cosines_of(rows)
    assert cosines.mean() == pytest.approx(mean + diagnosis / 2, abs=0.03)
    low, high = np.quantile(cosines, [0.25, 0.75])
    assert low == pytest.approx(mean, abs=0.07) and high == pytest.approx(mean + diagnosis, abs=0.07)


def test_the_public_are_other_people_of_the_same_population():
    drawn = population(mean=0.6)
    patients, public = drawn.patients(300), drawn.public(300, 300)
    assert cosines_of(np.vstack((patients, public))).max() < 0.95
    own, others = patients.mean(axis=0), public.mean(axis=0)
    assert own @ others / np.linalg.norm(own) / np.linalg.norm(others) > 0.99
    elsewhere = drawn.elsewhere(300).mean(axis=0)
    assert own @ elsewhere / np.linalg.norm(own) / np.linalg.norm(elsewhere) == pytest.approx(0.8, abs=0.02)


def test_own_parts_lie_in_as_many_directions_as_asked_for():
    rows = population(own_dimension=7).patients(60)
    assert np.linalg.matrix_rank(rows.astype(np.float64), tol=1e-4) == 7


@pytest.mark.parametrize("count", [200, 201])
def test_twins_have_the_cosine_that_was_asked_for(count):
    rows = population(twin=0.8).patients(count).astype(np.float64)
    pairs = (rows[0:200:2] * rows[1:200:2]).sum(axis=1)
    assert pairs.mean() == pytest.approx(0.8, abs=0.03)
    assert abs((rows[0:198:2] * rows[3:200:2]).sum(axis=1).mean()) < 0.05


def test_own_parts_need_as_many_directions():
    with pytest.raises(ValueError, match="own_dimension must be at most 256, the dimension, got 257"):
        population(own_dimension=D + 1)


# ---- rows of a file ----


def saved(folder, rows, name="rows.npy"):
    np.save(folder / name, rows)
    return folder / name


def test_patients_lie_evenly_over_the_file_and_the_rest_is_public(tmp_path):
    rows = np.eye(10, dtype=np.float64) * np.arange(1, 11)[:, None]
    recorded = Recorded(saved(tmp_path, rows))
    assert recorded.patients(4).argmax(axis=1).tolist() == [0, 2, 5, 7]
    assert recorded.public(99, 4).argmax(axis=1).tolist() == [1, 3, 4, 6, 8, 9]
    assert np.linalg.norm(recorded.patients(4), axis=1).tolist() == [1.0] * 4
    assert len(recorded) == 10 and len(recorded.public(99, 10)) == 0


@pytest.mark.parametrize("name", ["mean", "whitened"])
def test_no_patient_helps_to_fit_the_map(tmp_path, name):
    """Patients replaced by others, the map stays the same one; a public row replaced, it does not."""
    rows = np.random.default_rng(6).standard_normal((90, 8))
    digests = []
    for replaced in (None, 0, 1):
        changed = rows.copy()
        if replaced is not None:
            changed[replaced] += 1
        recorded = Recorded(saved(tmp_path, changed))
        digests.append(contenders.fitted(name, recorded, 50, 30).digest)
    assert digests[0] == digests[1] != digests[2]  # of three rows the first is a patient


@pytest.mark.parametrize(
    "rows, text",
    [
        (np.ones(4), "must hold a float array of at least two rows and two columns"),
        (np.ones((1, 4)), "must hold a float array of at least two rows"),
        (np.ones((3, 4), int), "must hold a float array"),
        (np.array([[1.0, 2.0], [np.nan, 1.0]]), "row 1 must be finite"),
        (np.array([[1.0, 2.0], [1.0, 1.0], [0.0, 0.0]]), "row 2 must not be zero"),
        (np.array([[{}, 1.0], [2.0, 1.0]], object), "is not an .npy file"),
    ],
)
def test_bad_files(tmp_path, rows, text):
    with pytest.raises(ValueError, match=text):
        Recorded(saved(tmp_path, rows))


def test_other_bad_files(tmp_path):
    (tmp_path / "text.npy").write_text("no array")
    with pytest.raises(ValueError, match="is not an"):
        Recorded(tmp_path / "text.npy")
    with pytest.raises(FileNotFoundError):
        Recorded(tmp_path / "nothing.npy")
    with pytest.raises(ValueError, match=r"patients must be at most 4, the rows of rows.npy, got 5"):
        Recorded(saved(tmp_path, np.eye(4))).patients(5)
