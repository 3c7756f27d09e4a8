"""`POST /v1/aggregate`: means and classifiers of many people's rows, only where the policy allows it, one charge each.

Statistics: the means of 400 rows at epsilon 1 lie within 8 deviations of their noise.
"""

import json

import numpy as np
import pytest

from hushvec import verify_receipt
from hushvec.aggregates import LinearClassifier
from hushvec.receipts import AggregateReceipt
from hushvec.serve.policy import policy_of
from serve.services import client_of, policy_fields

CANARY = "canary-7f3a"
ROWS, DIMENSION = 400, 4
KEY = {"Idempotency-Key": "order-17"}


def client_with(tmp_path, **tenant):
    return client_of(policy_fields(tmp_path / "budget.sqlite", **{"aggregates": True, **tenant}))


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with client_with(tmp_path, epsilon=2.0) as made:
        yield made


def body(kind="classifier", **fields):
    """Rows of two labels that the first element tells apart."""
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 2, ROWS)
    rows = rng.standard_normal((ROWS, DIMENSION)) + 6 * np.eye(2, DIMENSION)[codes]
    labeled = {} if kind == "mean" else {"labels": ["milk", "tea"], "groups": [("milk", "tea")[code] for code in codes]}
    return {"kind": kind, "vectors": np.float32(rows).tolist(), **labeled, **fields}


def charges(client):
    return client.get("/v1/budgets").json()["charges"]


@pytest.mark.parametrize("kind", ["classifier", "centroids"])
def test_a_classifier_can_be_made_from_the_answer(client, kind):
    asked = body(kind)
    answer = client.post("/v1/aggregate", json=asked)
    found = answer.json()
    assert answer.status_code == 200 and (found["kind"], found["labels"]) == (kind, ["milk", "tea"])
    receipt = AggregateReceipt.from_dict(found["receipt"])
    assert verify_receipt(receipt).status == "holds" and receipt.is_dp_claim and receipt.rows is None
    assert (receipt.epsilon, receipt.delta, receipt.charge.sequence) == (2.0, 1e-5, 2)
    assert json.loads(answer.headers["hushvec-receipt"]) == found["receipt"]
    classifier = LinearClassifier(found["labels"], found["mean"], found["coef"], receipt, heat=found["heat"])
    assert classifier.score(np.array(asked["vectors"]), asked["groups"]) > 0.9
    assert charges(client) == 1


def test_a_mean_of_the_clipped_rows(client):
    found = client.post("/v1/aggregate", json=body("mean", epsilon=1.0)).json()
    rows = np.array(body("mean")["vectors"])
    clipped = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
    assert found["receipt"]["epsilon"] == 1.0 and abs(found["count"] - ROWS) < 8 * found["receipt"]["statistics"][0]["count_sigma"]
    assert np.abs(found["mean"] - clipped.mean(0)).max() < 8 * found["standard_error"] < 0.3


def test_rows_of_a_person_beyond_the_bound_are_dropped(client):
    people = np.repeat(np.arange(4), ROWS // 4).tolist()
    found = client.post("/v1/aggregate", json=body("mean", people=people, rows_per_person=2)).json()
    assert (found["receipt"]["rows_bound"], found["receipt"]["rows_per_person"]) == ("people", 2)
    assert found["count"] < 8 + 8 * found["receipt"]["statistics"][0]["count_sigma"] < ROWS / 2


def test_a_repeated_request_gets_the_same_release(client):
    first, second = (client.post("/v1/aggregate", json=body(), headers=KEY) for _ in range(2))
    assert first.status_code == 200 and first.content == second.content and charges(client) == 1
    assert client.post("/v1/aggregate", json=body()).content != first.content and charges(client) == 2


def test_metrics_do_not_tell_how_many_rows_were_sent(client):
    client.post("/v1/aggregate", json=body())
    lines = client.get("/metrics").text.splitlines()
    assert 'hushvec_released_rows_total{tenant="alpha"} 2.0' in lines and 'hushvec_charged_epsilon_total{tenant="alpha"} 2.0' in lines


def test_it_is_off_unless_the_policy_says_so(tmp_path):
    with client_with(tmp_path, aggregates=False) as client:
        answer = client.post("/v1/aggregate", json=body())
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "not_in_policy") and charges(client) == 0


def test_an_exhausted_budget_releases_nothing(tmp_path):
    with client_with(tmp_path, epsilon=1.0, limit=1.5) as client:
        answers = [client.post("/v1/aggregate", json=body("mean")) for _ in range(2)]
        assert [answer.status_code for answer in answers] == [200, 402] and "mean" not in answers[1].json()
        assert answers[1].json()["error"]["remaining"]["epsilon"] == 0.5 and charges(client) == 1


WRONG = {
    "another kind": ({"kind": "sum"}, "kind"),
    "more epsilon": ({"epsilon": 2.5}, "epsilon"),
    "no labels": ({"labels": None}, "labels"),
    "no groups": ({"groups": None}, "labels"),
    "one label": ({"labels": ["milk"]}, "labels"),
    "a label twice": ({"labels": ["milk", "tea", CANARY, CANARY]}, "labels"),
    "a group that is no label": ({"groups": ["milk"] * (ROWS - 1) + [CANARY]}, "groups"),
    "too few groups": ({"groups": ["milk"]}, "groups"),
    "too few people": ({"people": [CANARY]}, "people"),
    "no rows of a person": ({"rows_per_person": 0}, "rows_per_person"),
    "labels of a mean": ({"kind": "mean"}, "groups"),
    "a number beyond float32": ({"vectors": [[1.0] * DIMENSION] * (ROWS - 1) + [[1e300] * DIMENSION]}, None),
    "too many labels": ({"labels": ["milk", "tea", *map(str, range(10_000))]}, "labels"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_requests_are_not_charged(client, case):
    fields, param = WRONG[case]
    answer = client.post("/v1/aggregate", json={**body(), **fields})
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == param, error
    assert CANARY not in answer.text and len(error["message"]) < 200 and charges(client) == 0


def test_limits_of_rows(tmp_path):
    with client_with(tmp_path, limits={"rows": ROWS - 1}) as client:
        assert client.post("/v1/aggregate", json=body()).json()["error"]["param"] == "vectors"


@pytest.mark.parametrize("more", [{"per": "release"}, {"budget": {"epsilon": 1.0, "delta": 0}}])
def test_policies_that_cannot_pay_for_many_people(tmp_path, more):
    with pytest.raises(ValueError, match="aggregates must come with per record and a budget"):
        policy_of(policy_fields(tmp_path, aggregates=True, **more), "policy")
    policy_of(policy_fields(tmp_path, **more), "policy")
