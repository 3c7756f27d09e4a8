"""Wherever rows enter, `people` are charged, each for their own rows; one who is exhausted is refused by name, and nothing is done."""

import asyncio

import numpy as np
import pytest

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.jobs import NoiseJob
from hushvec.retrieval import PrivateIndex, VectorNoise

ROWS = np.eye(3, 8, dtype=np.float32)
TEXTS = ["one", "two", "three"]


def release(budget, people, tmp_path):
    return hv.privatize(ROWS, epsilon=1.0, budget=budget, people=people).receipt


def add(budget, people, tmp_path):
    index = PrivateIndex(8, documents=VectorNoise(epsilon=1.0, budget=budget))
    try:
        return index.add(ROWS, people=people)
    except BaseException:
        assert (len(index), index.receipts) == (0, ())
        raise


def model(budget):
    return hv.wrap_embedding_model(lambda texts: ROWS[: len(texts)], hv.dp_embedding_middleware(epsilon=1.0, budget=budget))


def embed(budget, people, tmp_path):
    return model(budget).embed(TEXTS, people=people).receipt


def aembed(budget, people, tmp_path):
    return asyncio.run(model(budget).aembed(TEXTS, people=people)).receipt


def job(budget, people, tmp_path):
    started = NoiseJob.start(dimension=8, epsilon=1.0, budget=budget, people=people, path=tmp_path / "job")
    again = NoiseJob.start(dimension=8, epsilon=1.0, budget=budget, people=people, path=tmp_path / "job")
    assert again.entry == started.entry  # charged once
    return started.receipt(3)


ENTRIES = [release, add, embed, aembed, job]
entries = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)


@entries
def test_people_are_charged_for_their_own_rows(entry, tmp_path):
    budget = hv.PrivacyBudget(9.0, per_person=True)
    receipt = entry(budget, np.array([7, 8, 7]), tmp_path)
    assert [budget.consumed(one) for one in ("7", 8, "new")] == [2.0, 1.0, 0.0]
    assert hv.verify_charges([receipt], budget.export()).status == "holds"


@entries
def test_without_people_everyone_is_charged(entry, tmp_path):
    budget = hv.PrivacyBudget(9.0, per_person=True)
    receipt = entry(budget, None, tmp_path)
    assert budget.consumed("anyone") == 1.0
    assert hv.verify_charges([receipt], budget.export()).status == "holds"


@entries
def test_one_who_is_exhausted_is_refused_by_name_and_nothing_is_done(entry, tmp_path):
    budget = hv.PrivacyBudget(2.0, per_person=True)
    budget.consume(1.5, people=["ben"])
    before = budget.export()
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        entry(budget, ["anna", "ben", "cleo"], tmp_path)
    assert (caught.value.people, caught.value.refused) == (("ben",), (1,))
    assert budget.export() == before
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        entry(budget, ["anna"] * 3, tmp_path)  # two fit, three do not
    assert caught.value.people == ("anna",)
    assert budget.export() == before


@entries
def test_people_need_a_budget_that_counts_by_person(entry, tmp_path):
    budget = hv.PrivacyBudget(9.0)
    with pytest.raises(ValueError, match=r"^people must be None for a ledger that does not count by person"):
        entry(budget, ["anna", "ben", "cleo"], tmp_path)
    assert budget.state().rows == 1
    with pytest.raises(ValueError, match=r"^people must be None without a "):
        entry(None, ["anna", "ben", "cleo"], tmp_path)


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one is not job], ids=lambda entry: entry.__name__)
def test_there_is_one_person_for_each_row(entry, tmp_path):
    budget = hv.PrivacyBudget(9.0, per_person=True)
    with pytest.raises(ValueError, match=r"^people must be 3, one for each row, got 2$"):
        entry(budget, ["anna", "ben"], tmp_path)
    assert budget.state().rows == 1


def test_a_release_about_one_person_is_charged_to_that_one():
    budget = hv.PrivacyBudget(9.0, per_person=True)
    with pytest.raises(ValueError, match=r"^people must be 1, whom all rows are about, got 3$"):
        hv.privatize(ROWS, epsilon=1.0, per="release", budget=budget, people=["anna"] * 3)
    hv.privatize(ROWS, epsilon=1.0, per="release", budget=budget, people=["anna"])
    assert budget.consumed("anna") == 1.0


def test_a_job_that_was_charged_keeps_its_people(tmp_path):
    budget = hv.PrivacyBudget(9.0, per_person=True)
    job(budget, ["anna", "ben"], tmp_path)
    with pytest.raises(ValueError, match=r"must keep its people: it was charged to others$"):
        job(budget, ["anna", "cleo"], tmp_path)
    assert [budget.consumed(one) for one in ("anna", "ben", "cleo")] == [1.0, 1.0, 0.0]


def test_a_custom_budget_is_not_asked_about_people():
    class Counting:
        def consume(self, epsilon, delta):
            raise AssertionError("charged")

    with pytest.raises(ValueError, match=r"^people must be None without a PrivacyBudget that counts by person, got Counting$"):
        hv.privatize(ROWS, epsilon=1.0, budget=Counting(), people=["anna", "ben", "cleo"])


def test_people_of_a_model_without_noise_are_refused():
    clean = model(hv.PrivacyBudget(9.0, per_person=True)).without_noise()
    with pytest.raises(ValueError, match=r"^people must be None for a model none of whose own steps adds noise: nobody is charged$"):
        clean.embed(TEXTS, people=["anna", "ben", "cleo"])
