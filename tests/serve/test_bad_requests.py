"""Bodies that are wrong in every way: one clear error each, nothing charged, nothing repeated, nothing logged."""

import json
import logging

import numpy as np
import pyarrow as pa
import pytest

from hushvec.serve.bodies import ARROW, write_vectors
from hushvec.serve.keys import new_key
from serve.services import client_of, policy_fields

CANARY = "canary-7f3a"
JSON = "application/json"


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite", limits={"rows": 4, "body_bytes": 100_000})) as made:
        yield made


BODIES = {
    "nothing": b"",
    "half of an object": b'{"vectors": [',
    "another kind": b"[]",
    "no fields": b"{}",
    "deep lists": b'{"vectors": ' + b"[" * 50 + b"]" * 50 + b"}",
    "very deep lists": b"[" * 90_000,
    "deep objects": b'{"a":' * 15_000 + b"1" + b"}" * 15_000,
    "not UTF-8": b'{"vectors": "\xff\xfe"}',
    "UTF-16": '{"vectors": [[1.0]]}'.encode("utf-16"),
    "NaN": b'{"vectors": [[NaN]]}',
    "Infinity": b'{"vectors": [[Infinity]]}',
    "more than float32": b'{"vectors": [[1e300]]}',
    "rows of other lengths": b'{"vectors": [[1.0], [1.0, 2.0]]}',
    "no rows": b'{"vectors": []}',
    "no columns": b'{"vectors": [[]]}',
    "too many rows": json.dumps({"vectors": [[1.0]] * 5}).encode(),
    "words": json.dumps({"vectors": [[CANARY]]}).encode(),
    "an unknown field": json.dumps({"vectors": [[1.0]], CANARY: 1}).encode(),
    "a number too long": b'{"vectors": [[1' + b"0" * 90_000 + b"]]}",
    "too long": b" " * 100_001,
}


@pytest.mark.parametrize("case", BODIES)
def test_json(client, case, caplog):
    with caplog.at_level(logging.DEBUG):
        answer = client.post("/v1/privatize", content=BODIES[case], headers={"Content-Type": JSON})
    error = answer.json()["error"]
    assert answer.status_code == (413 if case == "too long" else 400) and len(error["message"]) < 200
    assert CANARY not in answer.text + caplog.text
    assert client.get("/v1/budgets").json()["charges"] == 0


def stream(columns, **more):
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.with_metadata(more)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def lists(values, kind=None, size=2):
    return pa.array(values, pa.list_(kind or pa.float32(), size))


STREAMS = {
    "nothing": b"",
    "no stream": b"ARROW1" * 50,
    "a stream cut short": bytes(write_vectors(np.ones((3, 4), np.float32), {})[:-60]),
    "another name": stream({"row": lists([[1, 2]])}),
    "two columns": stream({"vector": lists([[1, 2]]), "name": [CANARY]}),
    "lists of any length": stream({"vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32()))}),
    "whole numbers": stream({"vector": lists([[1, 2]], pa.int32())}),
    "a missing row": stream({"vector": lists([[1, 2], None])}),
    "a missing number": stream({"vector": lists([[1, None]])}),
    "no rows": stream({"vector": lists([])}),
    "NaN": stream({"vector": lists([[1, float("nan")]])}),
    "too many rows": stream({"vector": lists([[1, 2]] * 5)}),
    "an epsilon that is no number": stream({"vector": lists([[1, 2]])}, **{"hushvec.epsilon": CANARY}),
    "too large an epsilon": stream({"vector": lists([[1, 2]])}, **{"hushvec.epsilon": "8"}),
}


@pytest.mark.parametrize("case", STREAMS)
def test_arrow(client, case):
    answer = client.post("/v1/privatize", content=STREAMS[case], headers={"Content-Type": ARROW})
    assert answer.status_code == 400 and answer.json()["error"]["message"] and CANARY not in answer.text
    assert client.get("/v1/budgets").json()["charges"] == 0


def test_a_stream_of_several_batches_is_one_release(client):
    schema = pa.schema([("vector", pa.list_(pa.float64(), 3))])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for rows in ([[1.0, 0, 0]], [[0, 1.0, 0], [0, 0, 1.0]]):
            writer.write_batch(pa.record_batch([pa.array(rows, schema.field(0).type)], schema=schema))
    answer = client.post("/v1/privatize", content=sink.getvalue().to_pybytes(), headers={"Content-Type": ARROW})
    table = pa.ipc.open_stream(answer.content).read_all()
    assert table.schema.field(0).type == schema.field(0).type and len(table) == 3
    receipt = json.loads(table.schema.metadata[b"Hushvec-Receipt"])
    assert receipt["rows"] == 3 and receipt == json.loads(answer.headers["hushvec-receipt"])
    assert client.get("/v1/budgets").json()["charges"] == 1


def test_keys_texts_and_vectors_reach_no_log_metric_or_error(tmp_path, caplog):
    key, number = new_key(), "0.7421386945"
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": CANARY, "User-Agent": CANARY}
    fields = policy_fields(tmp_path / "budget.sqlite", key=key)
    said = []
    with caplog.at_level(logging.DEBUG, logger="hushvec"), client_of(fields) as client:
        for path, body in (
            ("/v1/embeddings", {"input": CANARY}),
            ("/v1/embeddings", {"input": CANARY, "model": "broken"}),
            ("/v1/embeddings", {"input": CANARY, "encoding_format": CANARY}),
            ("/v1/embeddings", {"input": "a", CANARY: CANARY}),
            ("/v1/privatize", {"vectors": [[float(number)], [CANARY]]}),
            ("/v1/topics", {"texts": [CANARY], "pool_texts": [CANARY, "a", "b"], "before": {CANARY: CANARY}}),
            ("/v1/rewrite", {"text": CANARY, "epsilon": CANARY}),
            ("/v1/redact", {"text": CANARY, "allow_categories": [CANARY]}),
            ("/v1/receipts/verify", {"receipt": {CANARY: CANARY}}),
            (f"/v1/{CANARY}?q={CANARY}", {}),
        ):
            answer = client.post(path, json=body, headers=headers)
            if answer.status_code != 200:
                said.append(answer.text)
        said.append(client.get("/metrics").text)
    said.append(caplog.text)
    store = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    for secret in (CANARY, key, number):
        assert not any(secret in text for text in said), secret
        assert secret.encode() not in store, secret
    assert len(said) > 5 and "POST" in caplog.text
