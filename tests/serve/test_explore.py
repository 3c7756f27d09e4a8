"""The Explorer's data: real releases of invented notes, an attacker who is really run, and nothing charged."""

import math

import numpy as np
import pytest

from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
from hushvec.serve.routes import explore
from serve.services import client_of, policy_fields


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with client_of(policy_fields(tmp_path_factory.mktemp("explore") / "budget.sqlite", limit=1.0)) as made:
        yield made


def explored(client, **asked):
    answer = client.get("/v1/explore", params=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_everything_is_there_and_nothing_is_charged(client):
    found = explored(client, note=3, epsilon=8)
    assert found["note"]["text"] == private_notes()[3] and found["notes"] == private_notes()
    assert [one["text"] for one in found["sentences"]] == public_sentences()
    assert len(found["releases"]) == explore.RELEASES and found["mechanism"] == "privunit" and found["epsilon"] == 8.0
    assert found["charged"] is False and "Nobody is in them" in found["about"]
    assert client.get("/v1/budgets").json()["charges"] == 0


def test_the_plane_is_the_one_in_which_sentences_vary_most(client):
    found = explored(client, note=3, epsilon=8)
    points = np.array([[one["x"], one["y"]] for one in found["sentences"]])
    rows = public_sentence_vectors().astype(float)
    centered = rows - rows.mean(0)
    largest = np.linalg.eigvalsh(centered.T @ centered)[::-1][:2]
    assert np.allclose((points**2).sum(0), largest, rtol=1e-3) and abs(points.mean(0)).max() < 1e-4
    assert math.isclose(found["explained"], largest.sum() / (centered**2).sum(), rel_tol=1e-4)
    distances = np.linalg.norm(points[:, None] - points[None], axis=2)
    assert (distances <= np.linalg.norm(rows[:, None] - rows[None], axis=2) + 1e-3).all()   # a projection


def test_shares_follow_from_the_releases(client):
    found = explored(client, note=5, epsilon=16)
    attack = found["attack"]
    assert [one["right"] for one in found["releases"]] == [one["note"] == 5 for one in found["releases"]]
    assert attack["right"] == sum(one["right"] for one in found["releases"])
    assert attack["share"] == attack["right"] / 60 and attack["chance"] == 1 / 80
    assert math.isclose(attack["bound"], math.exp(16) / (math.exp(16) + 79))


def test_more_epsilon_is_found_more_often(client):
    share_of = lambda note, epsilon: explored(client, note=note, epsilon=epsilon)["attack"]["share"]
    shares = [np.mean([share_of(note, epsilon) for note in range(4)]) for epsilon in (0.5, 8, 64)]
    assert shares[0] < 0.1 < 0.4 < shares[1] < shares[2] and shares[2] > 0.9
    assert explore.bound_among(80, 0.5) < 0.021


def test_the_attacker_takes_the_nearest_row(client):
    """At the largest epsilon the nearest sentence is nearly always one that is near the note itself."""
    found = explored(client, note=1, epsilon=64)
    near = np.argsort(-(public_sentence_vectors() @ private_note_vectors()[1]))[:10]
    assert np.isin([one["sentence"] for one in found["releases"]], near).mean() > 0.7


def test_answers_are_kept_for_a_note_and_a_rounded_epsilon(client):
    assert explored(client, note=2, epsilon=4) == explored(client, note=2, epsilon="4.0001")
    assert explored(client, note=2, epsilon=4)["releases"] != explored(client, note=2, epsilon=4.1)["releases"]
    assert explored(client)["note"]["number"] == 0 and explored(client)["epsilon"] == 8.0


WRONG = [
    *(("note", value) for value in ("80", "-1", "1.5", "canary", "", "٣", "9" * 5000)),
    *(("epsilon", value) for value in ("0.4", "65", "nan", "inf", "canary", "", "1" * 5000)),
]


@pytest.mark.parametrize("name, value", WRONG)
def test_what_is_out_of_range_is_refused_without_repeating_it(client, name, value):
    answer = client.get("/v1/explore", params={name: value})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == name and "canary" not in answer.text and len(answer.text) < 300


def test_what_is_kept_is_small():
    """A thousand answers as objects took 140 MB."""
    assert explore._explored.cache_info().maxsize * len(explore._explored(1, 8.0)) < 16_000_000
