"""`POST /v1/embeddings`: OpenAI's shape, releases with receipts, and one clear error for everything else."""

import base64

import numpy as np
import pytest

from hushvec import verify_receipt
from serve import toy_models
from serve.services import client_of, policy_fields


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as made:
        yield made


def test_answers_in_openai_s_shape_with_a_receipt(client):
    answer = client.post("/v1/embeddings", json={"input": ["a b", "c"], "model": "words"})
    fields = answer.json()
    assert answer.status_code == 200 and fields["object"] == "list" and fields["model"] == "words"
    assert [(one["object"], one["index"], len(one["embedding"])) for one in fields["data"]] == [
        ("embedding", 0, toy_models.DIMENSION),
        ("embedding", 1, toy_models.DIMENSION),
    ]
    receipt = fields["hushvec"]["receipt"]
    assert (receipt["rows"], receipt["epsilon"], receipt["mechanism"]) == (2, 1.0, "privunit")
    assert verify_receipt(receipt).status == "holds" and receipt["charge"]["sequence"] == 2


def test_the_header_has_the_receipt_of_the_body(client):
    import json

    answer = client.post("/v1/embeddings", json={"input": "a"})
    assert json.loads(answer.headers["hushvec-receipt"]) == answer.json()["hushvec"]["receipt"]


def test_equal_texts_get_different_rows(client):
    rows = [one["embedding"] for one in client.post("/v1/embeddings", json={"input": ["a", "a"]}).json()["data"]]
    again = client.post("/v1/embeddings", json={"input": "a"}).json()["data"][0]["embedding"]
    assert rows[0] != rows[1] and again not in rows


def test_base64_holds_float32(client):
    data = client.post("/v1/embeddings", json={"input": "a", "encoding_format": "base64"}).json()["data"]
    row = np.frombuffer(base64.b64decode(data[0]["embedding"]), "<f4")
    assert row.shape == (toy_models.DIMENSION,) and np.isfinite(row).all() and row.any()


def test_dimensions_are_a_public_projection_that_the_receipt_names(client):
    answer = client.post("/v1/embeddings", json={"input": "a", "dimensions": 8}).json()
    assert len(answer["data"][0]["embedding"]) == 8 and answer["hushvec"]["receipt"]["projection"] is not None
    whole = client.post("/v1/embeddings", json={"input": "a", "dimensions": toy_models.DIMENSION}).json()
    assert whole["hushvec"]["receipt"]["projection"] is None


def test_a_request_may_ask_for_less_epsilon_and_not_for_more(client):
    assert client.post("/v1/embeddings", json={"input": "a", "epsilon": 0.5}).json()["hushvec"]["receipt"]["epsilon"] == 0.5
    refused = client.post("/v1/embeddings", json={"input": "a", "epsilon": 1.5})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "epsilon"


WRONG = {
    "tokens": ({"input": [1, 2]}, 400, "input"),
    "lists of tokens": ({"input": [[1, 2]]}, 400, "input"),
    "no texts": ({"input": []}, 400, "input"),
    "an empty text": ({"input": ["a", " "]}, 400, "input"),
    "half of a character": ({"input": "\ud800"}, 400, None),
    "another model": ({"input": "a", "model": "gpt"}, 404, "model"),
    "another encoding": ({"input": "a", "encoding_format": "int8"}, 400, "encoding_format"),
    "too many dimensions": ({"input": "a", "dimensions": 33}, 400, "dimensions"),
    "no dimensions": ({"input": "a", "dimensions": 0}, 400, "dimensions"),
    "an unknown field": ({"input": "a", "seed": 1}, 400, None),
    "a model that fails": ({"input": "canary", "model": "broken"}, 502, None),
    "a model of NaN": ({"input": "a", "model": "not_finite"}, 502, None),
}


@pytest.mark.parametrize("case", WRONG)
def test_one_clear_error_and_no_charge(client, case):
    body, status, param = WRONG[case]
    answer = client.post("/v1/embeddings", content=__import__("json").dumps(body), headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param)
    assert error["message"] and error["code"] and "canary" not in answer.text
    assert client.get("/v1/budgets").json()["charges"] == 0


def test_a_model_that_changes_its_width_is_refused(client):
    assert client.post("/v1/embeddings", json={"input": "a", "model": "of_changing_width"}).status_code == 200
    assert client.post("/v1/embeddings", json={"input": ["a", "b"], "model": "of_changing_width"}).status_code == 502


def test_limits_of_the_policy(tmp_path):
    fields = policy_fields(tmp_path / "b.sqlite", limits={"texts": 2, "characters": 3, "body_bytes": 1000})
    with client_of(fields) as client:
        for texts, status in ((["a"] * 3, 400), ("abcd", 400), ("a" * 2000, 413), ("abc", 200)):
            assert client.post("/v1/embeddings", json={"input": texts}).status_code == status


def test_redaction_comes_before_the_model(tmp_path):
    fields = policy_fields(tmp_path / "b.sqlite", redact={"categories": ["email"]})
    with client_of(fields) as client:
        toy_models.seen.clear()
        assert client.post("/v1/embeddings", json={"input": "write to jane@example.com"}).status_code == 200
    assert toy_models.seen == ["write to [EMAIL]"]


def test_a_detector_of_the_policy_reads_before_the_model(tmp_path):
    nlp = pytest.importorskip("spacy").blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Thandiwe Mokoena"}])
    nlp.to_disk(tmp_path / "pipeline")
    redaction = {"categories": ["email"], "detectors": [f"spacy={tmp_path / 'pipeline'}"]}
    with client_of(policy_fields(tmp_path / "b.sqlite", redact=redaction)) as client:
        toy_models.seen.clear()
        assert client.post("/v1/embeddings", json={"input": "Thandiwe Mokoena, tm@example.org"}).status_code == 200
    assert toy_models.seen == ["[PERSON], [EMAIL]"]


@pytest.mark.parametrize("wrong", [{"detectors": ["spacy"]}, {"categories": ["no such category"]}])
def test_a_redaction_that_cannot_be_is_refused_at_the_start(tmp_path, wrong):
    with pytest.raises(ValueError, match=r"^tenants\.alpha\.redact: "):
        client_of(policy_fields(tmp_path / "b.sqlite", redact=wrong))
