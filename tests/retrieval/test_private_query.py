"""Private questions to a public index: what leaves, what it costs, what comes back, and that nothing leaves twice."""

import json
import math
import os
import stat

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PrivUnit, PublicCodebook, PublicProjection
from hushvec.mechanisms.codebook import Tried
from hushvec.retrieval import Candidates, PrivateIndex, PrivateQuery, Question, ScoreNoise, VectorNoise
from hushvec.retrieval.queries.choice import Simulation, best_of
from retrieval.index_cases import Counting, some_rows, unit

pytest.importorskip("faiss")

DIMENSION = 16


def topics(count, *, seed, around=40, spread=0.25, dimension=DIMENSION):
    """Unit rows around the same `around` directions, whatever the seed."""
    centers = unit(some_rows(around, dimension, seed=99))
    rng = np.random.default_rng(seed)
    return unit(centers[rng.integers(around, size=count)] + spread * some_rows(count, dimension, seed=seed)).astype(np.float32)


@pytest.fixture(scope="module")
def documents():
    return topics(600, seed=0)


@pytest.fixture(scope="module")
def index(documents):
    index = PrivateIndex(DIMENSION, store="numpy")
    index.add(documents)
    return index


@pytest.fixture(scope="module")
def codebook(documents):
    return PublicCodebook.fit(documents, codes=32)


class Holder:
    """Documents somewhere else, and every row that reached them."""

    def __init__(self, rows, fail=0):
        self.rows, self.seen, self.fail = rows, [], fail

    def __call__(self, row, count):
        self.seen.append(row)
        if self.fail:
            self.fail -= 1
            raise ConnectionError("no answer")
        best = np.argsort(-(self.rows @ row), kind="stable")[:count]
        return best, self.rows[best]


# ---- what leaves, and what comes back ----


@pytest.mark.ranks
def test_the_answer_is_the_clean_order_of_what_was_fetched(documents, index, codebook):
    asker = PrivateQuery(codebook, epsilon=8.0, fetch=40)
    for query in topics(20, seed=1):
        answer = asker.search(query, index, k=10)
        fetched = index.search(answer.released.row, 40).ids[0]
        clean = index.search(query, len(index))
        wanted = [one for one in clean.ids[0] if one in set(fetched)][:10]
        assert answer.ids.tolist() == wanted
        assert np.allclose(answer.scores, np.sort(documents[fetched] @ query)[::-1][:10], atol=1e-6)


def test_what_leaves_is_a_row_of_a_public_table(codebook):
    asker = PrivateQuery(codebook, epsilon=4.0, fetch=7)
    table = codebook.decode(np.arange(len(codebook)), 4.0)
    for query in topics(50, seed=2):
        question = asker.ask(query)
        assert question.fetch == 7
        assert np.abs(table - question.row).max(axis=1).min() < 1e-6
        assert set(json.loads(question.to_json())) == {"hushvec_question", "fetch", "row"}


def test_released_rows_have_the_law_of_randomized_response():
    """n = 6,000 questions of one cell, k = 4 codes, epsilon = 1. Statistic: how many release that cell's row; alpha = 1e-6, two-sided
    normal. The law of k - 1 codes and that of epsilon = 1.25 are rejected."""
    n, codes = 6000, np.eye(4, dtype=np.float32)
    asker = PrivateQuery(PublicCodebook.of(codes), epsilon=1.0, fetch=1, generator=hv.Generator.unsafe_seeded(1))
    queries = np.abs(some_rows(n, 4, seed=3)) * 0.1 + codes[0] * 2
    own = codes[0] @ asker.codebook.decode([0], 1.0)[0]
    kept = sum(abs(asker.ask(query).row @ codes[0] - own) < 1e-6 for query in queries)

    def deviations(epsilon, k):
        p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
        return abs(kept - n * p) / math.sqrt(n * p * (1 - p))

    assert deviations(1.0, 4) < 4.9
    assert deviations(1.0, 3) > 4.9 and deviations(1.25, 4) > 4.9


@pytest.mark.ranks
def test_two_machines(documents, index, codebook):
    """Asker and holder share nothing but two texts."""
    asker, query = PrivateQuery(codebook, epsilon=8.0, fetch=20), topics(1, seed=4)[0]
    sent = asker.ask(query).to_json()
    returned = PrivateQuery.answer_for(Question.from_json(sent), index).to_json()
    answer = asker.rank(query, Candidates.from_json(returned), k=5)
    fetched = np.array(json.loads(returned)["ids"])
    assert answer.ids.tolist() == fetched[np.argsort(-(documents[fetched] @ query), kind="stable")][:5].tolist()
    assert Question.from_json(sent) == answer.released


def test_ids_that_are_strings(documents, codebook):
    index = PrivateIndex(DIMENSION, store="numpy")
    index.add(documents, [f"paper {i}" for i in range(len(documents))])
    asker, query = PrivateQuery(codebook, epsilon=8.0, fetch=20), topics(1, seed=5)[0]
    found = Candidates.from_json(PrivateQuery.answer_for(asker.ask(query), index).to_json())
    assert all(isinstance(one, str) for one in asker.rank(query, found).ids)


def test_a_holder_with_few_documents(codebook):
    asker = PrivateQuery(codebook, epsilon=8.0, fetch=50)
    assert len(asker.search(topics(1, seed=6)[0], Holder(topics(3, seed=7)), k=10).ids) == 3


# ---- what it costs ----


def test_every_new_question_is_charged_and_no_question_twice(documents, codebook):
    budget, holder = hv.PrivacyBudget(max_epsilon=20.0), Holder(documents)
    asker = PrivateQuery(codebook, epsilon=8.0, budget=budget, fetch=20)
    first, second, third = topics(3, seed=8)
    answer = asker.search(first, holder)
    again = asker.search(first, holder, k=5)
    assert budget.consumed() == 8.0 and len(holder.seen) == 1
    assert again.ids.tolist() == answer.ids.tolist()[:5] and again.receipt == answer.receipt
    asker.search(second, holder)
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        asker.search(third, holder)
    assert budget.consumed() == 16.0 and len(holder.seen) == 2
    assert asker.search(first, holder).ids.tolist() == answer.ids.tolist()  # an exhausted budget does not take answers away
    assert answer.receipt.charge is not None and hv.verify_receipt(answer.receipt).status == "holds"


def test_a_lost_answer_is_asked_for_with_the_same_row(documents, codebook):
    budget, holder = Counting(), Holder(documents, fail=2)
    asker, query = PrivateQuery(codebook, epsilon=2.0, budget=budget, fetch=20), topics(1, seed=9)[0]
    for _ in range(2):
        with pytest.raises(ConnectionError):
            asker.search(query, holder)
    asker.search(query, holder)
    assert budget.charges == [(2.0, 0.0)]
    assert all((row == holder.seen[0]).all() for row in holder.seen) and len(holder.seen) == 3


def test_a_memo_outlives_the_process(documents, codebook, tmp_path):
    path, holder, query = tmp_path / "asked.json", Holder(documents), topics(1, seed=10)[0]
    lost = topics(1, seed=11)[0]
    first = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)
    answer, question = first.search(query, holder), first.ask(lost)
    budget = Counting()
    later = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path, budget=budget)
    assert later.search(query, holder).ids.tolist() == answer.ids.tolist()
    assert later.search(query, holder).receipt == answer.receipt
    assert later.ask(lost) == question and later.answered(lost) is None
    assert len(holder.seen) == 1 and budget.charges == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_of_two_askers_who_make_one_memo_neither_loses_its_questions(codebook, tmp_path, monkeypatch):
    path = tmp_path / "memo.json"
    first, second = (PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path) for _ in range(2))
    other = PrivateQuery(codebook, epsilon=4.0, fetch=20, memo=path)
    queries = topics(3, seed=12)
    first.ask(queries[0])
    monkeypatch.setattr(type(path), "exists", lambda path: False)  # as each of them saw it a moment ago
    second.ask(queries[1])
    with pytest.raises(ValueError, match="memo must be of this codebook, epsilon and fetch"):
        other.ask(queries[2])
    monkeypatch.undo()
    budget = hv.PrivacyBudget(3.0)
    later = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path, budget=budget)
    for query in queries[:2]:
        later.ask(query)
    assert budget.consumed() == 0.0 and len(path.read_bytes().splitlines()) == 3


def test_memos_of_others_and_damaged_ones(codebook, tmp_path):
    path = tmp_path / "asked.json"
    PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path).ask(topics(1, seed=12)[0])
    with pytest.raises(ValueError, match="memo must be of this codebook, epsilon and fetch"):
        PrivateQuery(codebook, epsilon=4.0, fetch=20, memo=path)
    path.write_bytes(path.read_bytes()[:-9] + b"\n")
    with pytest.raises(ValueError, match=r"memo must be a file of asked questions, version 2; .* is damaged or of another kind"):
        PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)


def test_a_memo_grows_by_lines(documents, codebook, tmp_path):
    path, holder = tmp_path / "asked.json", Holder(documents)
    asker = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)
    sizes, starts = [], []
    for query in topics(4, seed=20):
        before = path.read_bytes() if path.exists() else b""
        asker.search(query, holder)
        after = path.read_bytes()
        starts.append(after.startswith(before))
        sizes.append(len(after) - len(before))
    assert all(starts) and max(sizes) < 1.5 * min(sizes)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["asked.json"]


def test_a_memo_behind_a_link_takes_the_place_of_the_link(documents, codebook, tmp_path):
    link, there, holder = tmp_path / "asked.json", tmp_path / "there.json", Holder(documents)
    first, second = topics(2, seed=24)
    PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=there).search(first, holder)
    before = there.read_bytes()
    link.symlink_to(there)
    PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=link).search(second, holder)
    later = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=link)
    assert later.answered(first) is not None and later.answered(second) is not None
    assert not link.is_symlink() and there.read_bytes() == before


def test_an_unfinished_line_is_dropped(documents, codebook, tmp_path):
    path, holder = tmp_path / "asked.json", Holder(documents)
    answered, killed = topics(2, seed=21)
    asker = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)
    asker.search(answered, holder)
    asker.ask(killed)
    path.write_bytes(path.read_bytes()[:-9])
    budget = Counting()
    with pytest.warns(UserWarning, match="ends with an unfinished line, which is dropped: its question will be released anew"):
        later = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path, budget=budget)
    later.search(answered, holder)
    assert len(holder.seen) == 1 and budget.charges == []
    later.search(killed, holder)
    assert len(holder.seen) == 2 and budget.charges == [(3.0, 0.0)]
    again = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)
    assert again.answered(killed) is not None and again.answered(answered) is not None


def test_a_full_disk_forgets_nothing(documents, codebook, tmp_path, monkeypatch):
    path, holder, budget = tmp_path / "asked.json", Holder(documents), Counting()
    first, second = topics(2, seed=23)
    asker = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path, budget=budget)
    asker.search(first, holder)
    saved, write = path.read_bytes(), os.write
    room = [100]

    def full(handle, content):
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(handle, content[: room[0]])
        room[0] -= written
        return written

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        asker.search(second, holder)
    monkeypatch.undo()
    assert path.read_bytes() == saved and len(holder.seen) == 1
    released = asker.ask(second)
    asker.search(second, holder)
    assert holder.seen[1].tolist() == released.row.tolist() and budget.charges == [(3.0, 0.0)] * 2
    later = PrivateQuery(codebook, epsilon=3.0, fetch=20, memo=path)
    assert later.answered(first) is not None and later.answered(second) is not None


def test_a_seed_is_no_secret(documents, codebook):
    seeded = hv.Generator.unsafe_seeded(1)
    answer = PrivateQuery(codebook, epsilon=3.0, generator=seeded).search(topics(1, seed=13)[0], Holder(documents))
    assert not answer.receipt.is_dp_claim
    with pytest.raises(ValueError, match="seed"):
        PrivateQuery(codebook, epsilon=3.0, generator=seeded, budget=Counting()).ask(topics(1, seed=13)[0])


# ---- how many codes ----


def sampled_share(simulation, codebook, epsilon, draws, seed):
    """`Simulation.share` by releasing every simulated question so many times."""
    shares = []
    for draw in range(draws):
        rows = hv.privatize(
            simulation.asked, mechanism=codebook.mechanism(epsilon), generator=hv.Generator.unsafe_seeded(seed + draw)
        ).values
        scores = rows @ simulation.documents.T
        lists = np.argsort(-scores, axis=1, kind="stable")[:, : simulation._fetch]
        hit = (simulation._wanted[:, :, None] == lists[:, None, :]).any(axis=2)
        shares.append((hit * simulation._gains).sum(axis=1).mean())
    return np.mean(shares), np.std(shares, ddof=1) / math.sqrt(draws)


@pytest.mark.ranks
def test_the_expected_share_is_that_of_releases(documents):
    """n = 40 releases of 300 questions each; statistic: the mean share; alpha = 1e-4 (4 standard errors). The share without noise and
    that at another epsilon are rejected."""
    simulation = Simulation(documents, None, epsilon=4.0, fetch=20, seed=0)
    codebook = PublicCodebook.fit(simulation.seen, codes=32)
    mean, error = sampled_share(simulation, codebook, 4.0, 40, seed=100)
    assert abs(simulation.share(codebook) - mean) < 4 * error
    for wrong in (3.8, 30.0):
        assert abs(Simulation(documents, None, epsilon=wrong, fetch=20, seed=0).share(codebook) - mean) > 4 * error


@pytest.mark.ranks
def test_the_number_of_codes_follows_epsilon_and_fetch(documents):
    def codes(epsilon, fetch):
        return len(PrivateQuery(documents, epsilon=epsilon, fetch=fetch).codebook)

    assert codes(3.0, 30) < codes(8.0, 10) <= len(documents)
    assert codes(5.0, 200) < codes(5.0, 10)


@pytest.mark.ranks
def test_what_was_chosen_is_the_best_that_was_tried(documents):
    mechanism, tried = best_of(documents, None, epsilon=6.0, fetch=30, seed=0)
    assert tried[0].codes == 0 and [one.codes for one in tried] == sorted(one.codes for one in tried)
    best = max(tried, key=lambda one: one.share)
    assert len(mechanism.codebook) == best.codes and best.share > 1.5 * tried[0].share


@pytest.mark.ranks
def test_where_a_direction_says_more_than_a_code():
    """Directions without any structure, and an epsilon at which PrivUnit has little noise left."""
    documents = unit(some_rows(1000, 8))
    asker = PrivateQuery(documents, epsilon=400.0, fetch=10, questions=unit(some_rows(200, 8, seed=1)))
    assert isinstance(asker.mechanism, PrivUnit) and asker.codebook is None
    answer = asker.search(documents[0], Holder(documents))
    assert answer.receipt.mechanism == "privunit" and np.isclose(np.linalg.norm(answer.released.row), 1)
    assert "PrivUnit" in asker.describe()[1] and "PrivUnit" in repr(asker)


def test_equal_documents():
    rows = np.repeat(topics(8, seed=14), 8, axis=0)
    assert PrivateQuery(rows, epsilon=8.0, fetch=10).search(rows[0], Holder(rows), k=3).scores[0] > 0.99


# ---- bad input ----


@pytest.mark.parametrize(
    "arguments, error, says",
    [
        (dict(epsilon=0.0), ValueError, "epsilon"),
        (dict(fetch=0), ValueError, "fetch"),
        (dict(fetch=2.5), TypeError, "fetch"),
        (dict(questions=np.ones((5, DIMENSION + 1))), ValueError, "questions must have 16 columns"),
        (dict(questions=np.zeros((5, DIMENSION))), ValueError, "questions must have no row of zeros"),
        (dict(questions="titles"), TypeError, "questions"),
        (dict(seed=-1), ValueError, "seed"),
        (dict(public=np.ones((5, DIMENSION))), ValueError, "public must have at least 32 rows, got 5"),
        (dict(public=np.full((50, DIMENSION), np.nan)), ValueError, "public"),
        (dict(public=[1.0]), ValueError, "public must have at least two rows"),
        (dict(public=["a", "b"]), TypeError, "public"),
    ],
)
def test_askers_that_cannot_be(documents, arguments, error, says):
    with pytest.raises(error, match=says):
        PrivateQuery(**{"public": documents, **arguments})


def test_questions_for_a_codebook(codebook):
    with pytest.raises(ValueError, match="questions must be None with a codebook"):
        PrivateQuery(codebook, questions=topics(5, seed=0))


@pytest.mark.parametrize(
    "query, error, says",
    [
        (np.ones(DIMENSION + 1), ValueError, "query must have 16 columns, got 17"),
        (np.ones((2, DIMENSION)), ValueError, "query must be one row, got 2"),
        (np.full(DIMENSION, np.inf), ValueError, "query"),
        (np.full(DIMENSION, 1e300), ValueError, "query in the range of float32"),
        ("chest pain", TypeError, "query"),
    ],
)
def test_questions_that_cannot_be_asked(codebook, query, error, says):
    budget = Counting()
    with pytest.raises(error, match=says):
        PrivateQuery(codebook, budget=budget).ask(query)
    assert budget.charges == []


def test_nothing_is_charged_for_a_k_that_cannot_be(documents, codebook):
    budget, holder = Counting(), Holder(documents)
    with pytest.raises(ValueError, match="k must be at most 20, the documents that are fetched, got 21"):
        PrivateQuery(codebook, budget=budget, fetch=20).search(documents[0], holder, k=21)
    assert budget.charges == [] and holder.seen == []


def test_holders_that_cannot_answer(documents, codebook):
    asker = PrivateQuery(codebook, fetch=20)
    question = asker.ask(documents[0])
    for holder, error, says in (
        (lambda row, count: (range(30), documents[:30]), ValueError, "at most 20 documents, got 30"),
        (lambda row, count: ([1, 1], documents[:2]), ValueError, "ids must all be different"),
        (lambda row, count: ([1, 2], documents[:3]), ValueError, "ids must be 3"),
        (lambda row, count: ([1.5], documents[:1]), TypeError, "ids must be whole numbers or strings"),
        (lambda row, count: ([1], documents[:1] * np.nan), ValueError, "vectors must be finite"),
    ):
        with pytest.raises(error, match=says):
            PrivateQuery.answer_for(question, holder)


HOLDERS = {
    "noise on queries": (dict(queries=VectorNoise(epsilon=8.0)), "no noise on queries"),
    "rows that only noisy scores protect": (dict(scores=ScoreNoise(epsilon=8.0)), "no noise on scores"),
    "rows behind a map": (dict(projection=PublicProjection.johnson_lindenstrauss(DIMENSION, DIMENSION, seed=0)), "no projection"),
    "another dimension": (dict(dimension=8), "must have rows of 16 elements like the question, got 8"),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_nothing_is_charged_for_an_index_that_cannot_answer(codebook, name):
    settings, says = HOLDERS[name]
    index = PrivateIndex(**{"dimension": DIMENSION, "store": "numpy", **settings})
    index.add(some_rows(30, index.dimension, seed=5))
    refused_before_a_charge(codebook, index, ValueError, says)


def test_nothing_is_charged_for_what_is_no_holder(documents, codebook):
    refused_before_a_charge(codebook, PrivateIndex(DIMENSION, store="numpy"), ValueError, "holder is empty")
    refused_before_a_charge(codebook, documents, TypeError, "holder must be a PrivateIndex or a function")


def refused_before_a_charge(codebook, holder, error, says):
    budget = Counting()
    with pytest.raises(error, match=says):
        PrivateQuery(codebook, budget=budget, fetch=20).search(some_rows(1, DIMENSION, seed=6), holder)
    assert budget.charges == []
    with pytest.raises(error, match=says):
        PrivateQuery.answer_for(PrivateQuery(codebook, fetch=20).ask(some_rows(1, DIMENSION, seed=6)), holder)


def test_a_seeded_asker_says_so_and_charges_nobody(codebook):
    seeded = hv.Generator.unsafe_seeded(1)
    assert "key from a user-given seed: NOT a DP claim" in PrivateQuery(codebook, generator=seeded).describe()
    assert not any("seed" in line for line in PrivateQuery(codebook).describe())
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        PrivateQuery(codebook, generator=seeded, budget=Counting())


def test_answers_to_what_was_not_asked(documents, codebook):
    asker = PrivateQuery(codebook, fetch=20)
    found = PrivateQuery.answer_for(asker.ask(documents[0]), Holder(documents))
    with pytest.raises(ValueError, match="query must be a question that was asked"):
        asker.rank(documents[1], found)
    with pytest.raises(ValueError, match="found must have vectors of 16 columns, got 8"):
        asker.rank(documents[0], Candidates(found.ids, found.vectors[:, :8]))
    with pytest.raises(TypeError, match="found must be Candidates"):
        asker.rank(documents[0], found.ids)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"hushvec_question": 2, "fetch": 1, "row": [1.0]}', '{"hushvec_question": 1, "fetch": 0, "row": [1.0]}',
     '{"hushvec_question": 1, "fetch": 1, "row": [[1.0]]}', '{"hushvec_question": 1, "fetch": 1, "row": ["a"]}',
     '{"hushvec_question": 1, "fetch": 1, "row": [NaN]}', '{"hushvec_candidates": 1, "ids": [], "vectors": []}'],
)  # fmt: skip
def test_texts_that_are_no_questions(text):
    with pytest.raises((ValueError, TypeError)):
        Question.from_json(text)


def test_what_is_said_about_it(codebook, documents):
    asker = PrivateQuery(documents, epsilon=8.0, fetch=50)
    text = "\n".join(asker.describe())
    assert "epsilon = 8" in text and "public rows" in text and "not covered" in text
    assert isinstance(asker.tried[0], Tried)
    assert repr(PrivateQuery(codebook, fetch=5)) == "PrivateQuery(32 codes, dimension 16, epsilon=8, fetch=5)"
