"""`POST /v1/topics`: what many people's rows are about, by votes for topics of a public pool, with one charge; and what grew."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest

from docs.blocks import python_blocks
from hushvec import verify_receipt
from hushvec.aggregates import PrivateTopics, PublicTopics
from hushvec.embedders.protocol import NOTE_OWN_TEXT
from hushvec.receipts import AggregateReceipt
from serve import toy_models
from serve.services import client_of, policy_fields

CANARY = "canary-7f3a"
ROWS, POOL, DIMENSION = 600, 90, 8
KINDS = ("a card that is late", "a lost PIN", "a fee abroad")
KEY = {"Idempotency-Key": "order-17"}


def client_with(tmp_path, **tenant):
    return client_of(policy_fields(tmp_path / "budget.sqlite", **{"aggregates": True, **tenant}))


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with client_with(tmp_path, epsilon=2000.0, limit=1e6) as made:   # hardly any noise
        yield made


def around(codes, seed):
    rng = np.random.default_rng(seed)
    return np.float32(np.eye(DIMENSION)[codes] + 0.1 * rng.standard_normal((len(codes), DIMENSION)))


def pool_fields():
    return {"pool": around(np.arange(POOL) % 3, 1).tolist(), "pool_texts": [KINDS[row % 3] for row in range(POOL)], "topics": 3}


def body(shares=(0.5, 0.3, 0.1, 0.1), **fields):
    """Rows of three topics of the pool and of a fourth one that it lacks."""
    codes = np.repeat(np.arange(4), np.round(np.array(shares) * ROWS).astype(int))
    return {"vectors": around(codes, 2).tolist(), **pool_fields(), **fields}


def charges(client):
    return client.get("/v1/budgets").json()["charges"]


def test_votes_are_those_of_the_library_and_the_release_reads_as_its_own(client):
    asked = body()
    answer = client.post("/v1/topics", json=asked)
    found = answer.json()
    assert answer.status_code == 200, found
    release = PrivateTopics.from_json(json.dumps(found["release"]))
    public = PublicTopics.fit(np.float32(asked["pool"]), texts=asked["pool_texts"], topics=3)
    exact = np.bincount(public.votes(np.float32(asked["vectors"])), minlength=4)
    assert release.sigma < 0.1 and np.abs(release.counts - exact).max() < 8 * release.sigma
    assert (release.pool, release.threshold, release.examples) == (public.digest, public.threshold, public.examples)
    assert tuple(found["names"]) == release.names and sorted(found["names"]) == sorted([*KINDS, "uncovered"])
    assert found["shares"] == release.shares.tolist() and found["intervals"] == release.intervals().tolist()
    assert found["growth"] is None and charges(client) == 1
    receipt = AggregateReceipt.from_dict(found["receipt"])
    assert verify_receipt(receipt).status == "holds" and receipt.is_dp_claim and receipt.rows is None and receipt.notes == ()
    assert (receipt.epsilon, receipt.delta, receipt.charge.sequence) == (2000.0, 1e-5, 2) and receipt == release.receipt
    assert json.loads(answer.headers["hushvec-receipt"]) == found["receipt"]


def test_what_grew_since_an_earlier_answer(client):
    first = client.post("/v1/topics", json=body()).json()
    second = client.post("/v1/topics", json=body((0.3, 0.5, 0.1, 0.1), before=first["release"])).json()
    assert second["release"]["pool"] == first["release"]["pool"]
    before, after = (PrivateTopics.from_json(json.dumps(one["release"])) for one in (first, second))
    expected, growth = after.growth(before), second["growth"]
    assert growth["difference"] == expected.difference.tolist() and growth["order"] == expected.order.tolist()
    assert growth["standard_error"] == expected.standard_error.tolist() and growth["p_values"] == expected.p_values.tolist()
    assert second["names"][growth["order"][0]] == "a lost PIN" and second["names"][growth["order"][-1]] == "a card that is late"
    assert max(growth["p_values"][growth["order"][end]] for end in (0, -1)) < 1e-6


def test_another_pool_or_other_topics_are_refused_and_not_charged(client):
    first = client.post("/v1/topics", json=body()).json()["release"]
    other = {**pool_fields(), "pool": around(np.arange(POOL) % 3, 5).tolist()}
    for fields in (other, {"topics": 4}, {"pool_texts": [CANARY] * POOL}):
        answer = client.post("/v1/topics", json={**body(before=first), **fields})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (422, "another_pool", "before")
        assert error["message"].startswith("before must have the topics of this request, ") and CANARY not in answer.text
    assert charges(client) == 1


WRONG_BEFORE = {
    "nothing": lambda release: {},
    "another format": lambda release: {**release, "format": CANARY},
    "the whole answer": lambda release: {"release": release, "names": []},
    "no noise": lambda release: {**release, "sigma": 0},
    "noise in words": lambda release: {**release, "sigma": CANARY},
    "noise beyond float64's squares": lambda release: {**release, "sigma": 1e300},
    "counts in words": lambda release: {**release, "counts": [CANARY] * 4},
    "a receipt of nothing": lambda release: {**release, "receipt": {}},
    "too few counts": lambda release: {**release, "counts": release["counts"][1:]},
    "rows of a person in words": lambda release: {**release, "receipt": {**release["receipt"], "rows_per_person": CANARY}},
}


@pytest.mark.parametrize("case", WRONG_BEFORE)
def test_a_wrong_earlier_release_is_found_before_the_charge(client, case):
    first = client.post("/v1/topics", json=body()).json()["release"]
    answer = client.post("/v1/topics", json=body(before=WRONG_BEFORE[case](first)))
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, "before"), error
    assert error["message"] == "before must be release of an earlier answer, or a file of hushvec topics"
    assert CANARY not in answer.text and charges(client) == 1


def test_an_earlier_release_with_another_number_of_topics_is_another_pool(client):
    first = client.post("/v1/topics", json=body()).json()["release"]
    cut = {**first, "counts": first["counts"][1:], "examples": first["examples"][1:]}
    assert client.post("/v1/topics", json=body(before=cut)).status_code == 422 and charges(client) == 1


def texts_body(**fields):
    notes = [KINDS[row] for row in (0, 0, 0, 1, 1, 2)] * 50
    return {"texts": notes, "pool_texts": [*KINDS, "something else entirely"], "topics": 4, **fields}


def test_texts_are_embedded_by_the_tenant_s_model(client):
    answer = client.post("/v1/topics", json=texts_body())
    found = answer.json()
    assert answer.status_code == 200, found
    shares = dict(zip(found["names"], found["shares"]))
    assert [round(shares[kind], 2) for kind in KINDS] == [0.5, 0.33, 0.17] and round(shares["uncovered"], 2) == 0
    assert found["receipt"]["notes"] == [NOTE_OWN_TEXT] and charges(client) == 1
    again = client.post("/v1/topics", json=texts_body(before=found["release"])).json()
    assert again["release"]["pool"] == found["release"]["pool"] and np.abs(again["growth"]["difference"]).max() < 0.01


def test_the_example_of_the_guide(tmp_path, monkeypatch):
    block, = (block for block in python_blocks("docs/serve.md") if "/v1/topics" in block.code)
    monkeypatch.setattr(httpx, "post", lambda url, json, timeout: client.post(url.removeprefix("http://localhost:8321"), json=json))
    names = {}
    with client_with(tmp_path, epsilon=8.0) as client:
        exec(compile(block.code, str(block), "exec"), names)
        assert charges(client) == 2
    monday, friday = names["monday"], names["friday"]
    assert {*monday["names"]} == {*names["public"], "uncovered"} and sum(monday["shares"]) == pytest.approx(1)
    assert friday["growth"]["difference"] == pytest.approx(np.subtract(friday["shares"], monday["shares"]))


def test_vectors_of_the_model_and_texts_of_a_pool_go_together(client):
    rows = toy_models.words([*KINDS] * 20).tolist()
    asked = {"vectors": rows, "pool_texts": texts_body()["pool_texts"], "topics": 4}
    found = client.post("/v1/topics", json=asked).json()
    shares = dict(zip(found["names"], found["shares"]))
    assert [round(shares[kind], 2) for kind in KINDS] == [0.33] * 3 and found["receipt"]["notes"] == []


def test_redaction_comes_before_the_model_and_names_are_the_public_texts(tmp_path):
    with client_with(tmp_path, redact=True, epsilon=100.0, limit=1e6) as client:
        toy_models.seen.clear()
        notes = [f"Mrs. Edith Varga, {kind}" for kind in KINDS] * 30
        pool = [f"Write to someone@example.org about {kind}" for kind in KINDS]
        found = client.post("/v1/topics", json={"texts": notes, "pool_texts": pool, "topics": 3}).json()
        assert {*found["names"]} == {*pool, "uncovered"}
        assert toy_models.seen and not any("Varga" in text or "example.org" in text for text in toy_models.seen)


def test_a_model_that_fails_charges_nothing(client):
    answer = client.post("/v1/topics", json=texts_body(model="broken"))
    assert answer.status_code == 502 and charges(client) == 0


def test_rows_of_a_person_beyond_the_bound_are_dropped(client):
    people = (np.arange(ROWS) % 60).tolist()
    found = client.post("/v1/topics", json=body(people=people, rows_per_person=2)).json()
    assert (found["receipt"]["rows_bound"], found["receipt"]["rows_per_person"]) == ("people", 2)
    assert round(sum(found["release"]["counts"])) == 120


def test_a_repeated_request_gets_the_same_release(client):
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.post("/v1/topics", json=body(), headers=KEY), range(8)))
    assert {answer.status_code for answer in answers} <= {200, 409} and charges(client) == 1
    assert len({answer.content for answer in answers if answer.status_code == 200}) == 1
    repeated = client.post("/v1/topics", json=body(), headers=KEY)
    assert repeated.headers["idempotent-replayed"] == "true" and charges(client) == 1
    assert client.post("/v1/topics", json=body()).content != repeated.content and charges(client) == 2


def test_requests_at_once_get_no_more_than_the_budget(tmp_path):
    with client_with(tmp_path, epsilon=1.0, limit=3.0) as client, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: client.post("/v1/topics", json=body()), range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 3 + [402] * 5 and charges(client) == 3
        assert all("names" not in answer.json() for answer in answers if answer.status_code == 402)


def test_metrics_do_not_tell_how_many_rows_were_sent(client):
    client.post("/v1/topics", json=body(epsilon=2.0))
    lines = client.get("/metrics").text.splitlines()
    assert 'hushvec_released_rows_total{tenant="alpha"} 4.0' in lines and 'hushvec_charged_epsilon_total{tenant="alpha"} 2.0' in lines


def test_it_is_off_unless_the_policy_says_so(tmp_path):
    with client_with(tmp_path, aggregates=False) as client:
        answer = client.post("/v1/topics", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_in_policy") and charges(client) == 0
        assert client.get("/v1/budgets").json()["aggregates"] is None


WRONG = {
    "no rows": ({"vectors": None}, "vectors"),
    "rows twice": ({"texts": [CANARY]}, "vectors"),
    "no pool": ({"pool": None, "pool_texts": None}, "pool"),
    "a pool of two": ({"pool": [[1.0, 0], [0, 1.0]], "pool_texts": None}, None),
    "a pool of one row": ({"pool": [[1.0] * DIMENSION] * POOL}, None),
    "a pool in words": ({"pool": [[CANARY]]}, "pool"),
    "a pool of other columns": ({"pool": [[1.0, 0], [0, 1.0], [1.0, 1.0]], "pool_texts": None}, None),
    "a pool beyond float32": ({"pool": [[1e300] * DIMENSION] * POOL}, None),
    "too few texts of the pool": ({"pool_texts": [CANARY]}, "pool_texts"),
    "an empty text of the pool": ({"pool_texts": [CANARY] * (POOL - 1) + [" "]}, "pool_texts"),
    "no texts": ({"vectors": None, "texts": []}, "texts"),
    "an empty text": ({"vectors": None, "texts": [CANARY, ""]}, "texts"),
    "too long a text": ({"vectors": None, "texts": [CANARY * 20_000]}, "texts"),
    "texts of another width": ({"vectors": None, "texts": [CANARY]}, None),
    "one topic": ({"topics": 1}, "topics"),
    "too many topics": ({"topics": POOL + 1}, None),
    "too few people": ({"people": [CANARY]}, "people"),
    "no rows of a person": ({"rows_per_person": 0}, "rows_per_person"),
    "more epsilon": ({"epsilon": 2001}, "epsilon"),
    "a number beyond float32": ({"vectors": [[1.0] * DIMENSION] * (ROWS - 1) + [[1e300] * DIMENSION]}, None),
    "an earlier release in words": ({"before": CANARY}, "before"),
    "a field too many": ({CANARY: 1}, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_not_charged(client, case):
    fields, param = WRONG[case]
    answer = client.post("/v1/topics", json={**body(), **fields})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == param, error
    assert CANARY not in answer.text and len(error["message"]) < 200 and charges(client) == 0


def test_an_unknown_model(client):
    answer = client.post("/v1/topics", json=texts_body(model=CANARY))
    assert answer.status_code == 404 and CANARY not in answer.text and charges(client) == 0


def test_limits(tmp_path):
    limits = {"rows": ROWS - 1, "texts": 100, "body_bytes": 16 * (POOL - 1) ** 2}
    for limit, fields, said in (
        ("rows", body(), "vectors must have at most 599 rows, got 600"),
        ("texts", texts_body(), "texts must hold at most 100 texts, got 300"),
        ("body_bytes", {"texts": ["a"], "pool_texts": [*map(str, range(POOL))]}, "pool_texts must have at most 89 elements, got 90"),
    ):
        with client_with(tmp_path, limits={limit: limits[limit]}) as client:
            answer = client.post("/v1/topics", json=fields)
            assert answer.status_code == 400 and answer.json()["error"]["message"] == said and charges(client) == 0
