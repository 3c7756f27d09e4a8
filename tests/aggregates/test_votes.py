"""`PrivateVotes`: a document's votes end when its budget does, whoever asks, and the answers are those of the noisy counts."""

import os
import shutil
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec.aggregates import PrivateVotes
from hushvec.receipts.aggregates import squared_mu

TERMS = {"epsilon_per_document": 2.0, "delta": 1e-5}
TOPICS = np.arange(600) % 3
ROWS = (4 * np.eye(6)[TOPICS] + np.random.default_rng(0).normal(size=(600, 6)) * 0.5).astype(np.float32)
TEA, MILK, RUM = np.eye(6, dtype=np.float32)[:3]


def votes(**settings):
    given = {"labels": ["tea", "milk", "rum"], "threshold": 0.8, **TERMS, **settings}
    return PrivateVotes(given.pop("rows", ROWS), [["tea", "milk", "rum"][topic] for topic in TOPICS], **given)


def test_near_documents_answer_and_the_others_keep_their_votes():
    asked = votes(votes_per_document=3)
    assert asked.ask(TEA) == "tea" and asked.ask(MILK.tolist()) == "milk"
    near = ROWS @ TEA / np.linalg.norm(ROWS, axis=1) >= 0.8
    assert (asked.remaining()[near] == 2).all() and (asked.remaining()[TOPICS == 2] == 3).all()
    assert asked.ask(np.ones(6)) is None  # nobody is near


def test_documents_drop_out():
    asked = votes(votes_per_document=2)
    assert asked.ask_all([TEA] * 4) == ["tea", "tea", None, None]
    assert asked.remaining().min() == 0 and asked.ask(RUM) == "rum"


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_a_document_pays_for_its_votes_alone(adjacency):
    """Over adaptive questions the squared distances of two inputs add up to no more than the receipt's mu^2."""
    asked = votes(votes_per_document=5, adjacency=adjacency)
    bound = squared_mu(asked.receipt.statistics, adjacency, 1)
    assert bound == Fraction(2 if adjacency == "replace-one" else 1) * 5 / Fraction(asked.noise) ** 2
    rng = np.random.default_rng(1)
    mine = 0
    for _ in range(40):
        before = asked.remaining()[0]
        asked.ask(TEA + rng.normal(size=6) * 0.3)
        mine += before - asked.remaining()[0]
    assert mine == 5 and hv.verify_receipt(asked.receipt).status == "holds"


def test_the_noise_decides_the_votes():
    asked = votes(noise=20.0)
    one = float(hv.gaussian_sigma(2.0, 1e-5, 1.0))
    assert asked.votes_per_document == int((20 / one) ** 2) and asked.noise <= 20 * (1 + 1e-6)
    assert votes(votes_per_document=asked.votes_per_document + 1).noise > 20


def test_counts_have_their_noise():
    """n = 5,000 questions that nobody is near: as many answers as the largest of 3 normals gives; alpha = 1e-6."""
    asked = PrivateVotes(ROWS, TOPICS, labels=3, threshold=0.99, generator=hv.Generator.unsafe_seeded(1), **TERMS)
    answers = asked.ask_all(np.tile(-np.ones(6, np.float32), (5_000, 1)))
    largest = np.random.default_rng(2).normal(size=(1_000_000, 3)).max(axis=1) * asked.noise
    expected = (largest >= asked.least_votes).mean()
    got = sum(answer is not None for answer in answers) / 5_000
    assert abs(got - expected) < 5 * np.sqrt(expected / 5_000) and expected > 0
    assert hv.verify_receipt(asked.receipt).status == "not a DP claim"


def test_a_journal_goes_on_where_it_was(tmp_path):
    budget, journal = hv.PrivacyBudget(2.5, 1e-4), tmp_path / "votes.npz"
    first = votes(votes_per_document=2, journal=journal, budget=budget)
    first.ask(TEA)
    remaining = first.remaining()
    with pytest.raises(ValueError, match="journal must be in use by one PrivateVotes, got one that is in use already"):
        votes(votes_per_document=2, journal=journal)
    del first
    again = votes(votes_per_document=2, journal=journal, budget=budget)  # is not charged again
    assert (again.remaining() == remaining).all() and remaining.min() == 1 and budget.consumed() == 2.0
    del again
    for other in ({"votes_per_document": 3}, {"rows": ROWS[::-1].copy(), "votes_per_document": 2}, {"threshold": 0.7}):
        with pytest.raises(ValueError, match="journal must be of these documents, labels and terms, got another one"):
            votes(journal=journal, **other)
    journal.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="journal must be a file of PrivateVotes"):
        votes(votes_per_document=2, journal=journal)


def test_alike_votes_are_charged_each():
    budget = hv.PrivacyBudget(9.0, 1e-3)
    assert len({votes(budget=budget).receipt.charge.charge_id for _ in range(2)}) == 2 and budget.consumed() == 4.0


def test_a_resumed_journal_asks_the_budget(tmp_path):
    """Begun without one too; the row of the ledger is in the receipt, whoever resumes it."""
    settings = {"votes_per_document": 2, "journal": tmp_path / "votes.npz"}
    asked = votes(**settings)
    assert asked.receipt.charge is None
    del asked
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        votes(budget=hv.PrivacyBudget(0.5, 1e-5), **settings)
    budget = hv.PrivacyBudget(9.0, 1e-4)
    for _ in range(2):
        resumed = votes(budget=budget, **settings)
        assert budget.consumed() == 2.0 and hv.verify_charges([resumed.receipt], budget.export()).status == "holds"
        paid = resumed.receipt.charge
        del resumed
    assert votes(**settings).receipt.charge == paid
    other = hv.PrivacyBudget(9.0, 1e-4)  # has not paid for it
    assert votes(budget=other, **settings).receipt.charge.ledger == other.export()["ledger"] and other.consumed() == 2.0


class Harm:
    """When it is unpickled."""

    def __reduce__(self):
        return pytest.fail, ("a journal was unpickled",)


def test_a_journal_is_not_unpickled(tmp_path):
    np.savez(tmp_path / "votes.npz", cast=np.array([Harm()], object))
    with pytest.raises(ValueError, match=r"journal must be a file of PrivateVotes, got .*allow_pickle=False"):
        votes(votes_per_document=2, journal=tmp_path / "votes.npz")


def test_a_copied_journal_is_refused(tmp_path):
    journal = tmp_path / "votes.npz"
    votes(votes_per_document=2, journal=journal)
    copied = shutil.copy(journal, tmp_path / "copy.npz")
    with pytest.raises(ValueError, match="journal must be the file that was written, got a copy, in which answers may be missing"):
        votes(votes_per_document=2, journal=copied)
    assert votes(votes_per_document=2, journal=journal.rename(tmp_path / "moved.npz")).remaining().min() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_copy_is_refused():
    asked, (reader, writer) = votes(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asked.ask(TEA)
        except RuntimeError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert (
        os.read(reader, 200) == b"PrivateVotes must be used in the process that made it: a fork would release more for one charge"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"threshold": 1.0}, "threshold must be > -1 and < 1, got 1.0"),
        ({"noise": 0.5}, "noise must be at least 1.99.* for one vote at this epsilon and delta, got 0.5"),
        ({"noise": 5.0, "votes_per_document": 3}, "votes_per_document and noise must not both be given"),
        ({"votes_per_document": 0}, "votes_per_document must be >= 1, got 0"),
        ({"labels": ["tea", "milk"]}, "groups must be among the 2 labels, got 'rum' at position 2"),
        ({"rows": np.full((600, 6), np.nan, np.float32)}, "rows must be finite, got nan in row 0"),
    ],
)
def test_refusals(settings, message):
    budget = hv.PrivacyBudget(5.0, 1e-4)
    with pytest.raises((ValueError, TypeError), match=message):
        votes(budget=budget, **settings)
    assert budget.consumed() == 0
    asked = votes()
    for question, wrong in (
        (np.full(6, np.inf), "questions must be finite"),
        (np.ones(5), "questions must have 6 columns, got 5"),
    ):
        with pytest.raises(ValueError, match=wrong):
            asked.ask(question)
    assert (asked.remaining() == asked.votes_per_document).all()
