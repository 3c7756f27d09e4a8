"""OpenAI-style services: clients as models, and responses that carry receipts. With the real package where it is installed."""

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import hushvec as hv
from hushvec.integrations.openai import OpenAIEmbeddings, embeddings_response
from integrations.adapter_cases import EPSILON, LIMIT, Client, ToyModel, faint, is_near, private, run, unit_row


class AsyncClient(Client):
    async def create(self, *, model, input):
        return super().create(model=model, input=input)


def test_rows_come_in_the_order_of_the_texts_with_usage_and_model():
    wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(Client(ToyModel()), model="small"), faint())
    for rows in (wrapped.embed(list("abc")), run(wrapped.aembed(list("abc")))):
        assert all(is_near(row, text) for row, text in zip(rows, "abc"))
        assert rows.usage == {"prompt_tokens": 7, "total_tokens": 7} and rows.metadata == {"object": "list", "model": "small"}
    assert wrapped.model_id == "small"


def test_an_asynchronous_client():
    wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(AsyncClient(ToyModel()), model="small"), faint())
    assert is_near(run(wrapped.aembed(["a"]))[0], "a")
    with pytest.raises(TypeError, match="use aembed"):
        wrapped.embed(["a"])


def test_options_reach_the_service():
    asked = []

    class Recorder(Client):
        def create(self, *, dimensions, **arguments):
            asked.append(dimensions)
            return super().create(**arguments)

    hv.wrap_embedding_model(OpenAIEmbeddings(Recorder(ToyModel()), model="small", dimensions=16), faint()).embed(["a"])
    assert asked == [16]


@pytest.mark.parametrize("client", [None, object(), {"embeddings": 1}], ids=["None", "object", "mapping"])
def test_what_is_no_client_is_refused(client):
    with pytest.raises(TypeError, match=r"client must have embeddings\.create"):
        OpenAIEmbeddings(client, model="small")


@pytest.mark.parametrize("model", ["", None, 3])
def test_what_is_no_name_is_refused(model):
    with pytest.raises(TypeError, match="model must be a non-empty str"):
        OpenAIEmbeddings(Client(ToyModel()), model=model)


def test_a_response_is_plain_json_and_its_receipt_comes_back():
    rows = hv.wrap_embedding_model(OpenAIEmbeddings(Client(ToyModel()), model="small"), private()).embed(["a", "b"])
    response = json.loads(json.dumps(embeddings_response(rows)))
    assert [response["object"], response["model"], response["usage"]] == ["list", "small", {"prompt_tokens": 7, "total_tokens": 7}]
    assert [item["index"] for item in response["data"]] == [0, 1] and {item["object"] for item in response["data"]} == {"embedding"}
    plain = embeddings_response(rows, model="other", unit_rows=False)
    assert plain["model"] == "other" and hv.Receipt.from_dict(plain["receipts"][0]) == rows.receipt
    np.testing.assert_array_equal(np.array([item["embedding"] for item in plain["data"]], np.float32), rows.values)
    unit = np.array([item["embedding"] for item in response["data"]], np.float32)
    np.testing.assert_allclose(unit, rows.values / np.linalg.norm(rows.values, axis=1, keepdims=True), rtol=1e-6)
    receipt = hv.Receipt.from_dict(response["receipts"][0])
    assert receipt == replace(rows.receipt, renormalize=True) and hv.verify_receipt(receipt).status == "holds"


def test_a_response_of_a_model_that_reports_nothing():
    response = embeddings_response(hv.wrap_embedding_model(ToyModel(), private()).embed(["a"]))
    assert response["usage"] == {} and response["model"] is None


@pytest.mark.parametrize("rows", [np.eye(2), [[1.0]], None])
def test_a_response_needs_rows_of_a_wrapped_model(rows):
    with pytest.raises(TypeError, match="embeddings must be Embeddings"):
        embeddings_response(rows)


class Service(BaseHTTPRequestHandler):
    """The embeddings endpoint of an OpenAI-style service. Its first answer to a text "retry" is an error."""

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(asked["input"])
        if self.server.failures:
            self.server.failures -= 1
            return self._answer(500, {"error": {"message": "busy"}})
        rows = [unit_row(text).tolist() for text in asked["input"]]
        data = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]
        usage = {"prompt_tokens": 3, "total_tokens": 3}
        return self._answer(200, {"object": "list", "data": data, "model": asked["model"], "usage": usage})

    def _answer(self, status, body):
        encoded = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def service():
    server = HTTPServer(("127.0.0.1", 0), Service)
    server.asked, server.failures = [], 0
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_real_client(service):
    openai = pytest.importorskip("openai")
    address = f"http://127.0.0.1:{service.server_port}"
    budget = hv.PrivacyBudget(LIMIT)
    with openai.OpenAI(api_key="none", base_url=address) as client:
        wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(client, model="text-embedding-3-small"), private(budget))
        rows = wrapped.embed(["a", "b"])
        assert rows.usage == {"prompt_tokens": 3, "total_tokens": 3} and rows.metadata["model"] == "text-embedding-3-small"
        assert "text-embedding-3-small" in rows.receipt.notes[-1]
        near = hv.wrap_embedding_model(OpenAIEmbeddings(client, model="any"), faint()).embed(["a", "b"])
        assert is_near(near[0], "a") and is_near(near[1], "b")
        service.failures = 1
        wrapped.embed(["c"])
    assert service.asked == [["a", "b"], ["a", "b"], ["c"], ["c"]] and budget.consumed() == 2 * EPSILON


def test_the_real_asynchronous_client(service):
    openai = pytest.importorskip("openai")

    async def embed():
        async with openai.AsyncOpenAI(api_key="none", base_url=f"http://127.0.0.1:{service.server_port}") as client:
            wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(client, model="any"), faint())
            with pytest.raises(TypeError, match="use aembed"):
                wrapped.embed(["a"])
            return await wrapped.aembed(["a"])

    assert is_near(run(embed())[0], "a")


def test_a_service_that_fails_costs_nothing(service):
    openai = pytest.importorskip("openai")
    budget = hv.PrivacyBudget(LIMIT)
    service.failures = 1
    with openai.OpenAI(api_key="none", base_url=f"http://127.0.0.1:{service.server_port}", max_retries=0) as client:
        wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(client, model="any"), private(budget))
        with pytest.raises(openai.InternalServerError):
            wrapped.embed(["a"])
    assert budget.consumed() == 0
