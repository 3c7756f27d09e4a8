"""The real clients against a running service, unchanged but for their base_url."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hushvec.serve.keys import new_key
from serve.services import free_port, policy_fields, server, write_policy
from serve.toy_models import DIMENSION

openai = pytest.importorskip("openai")

KEY = new_key()

NODE = """
import OpenAI from "openai";
const client = new OpenAI({baseURL: process.argv[2], apiKey: process.argv[3]});
const made = await client.embeddings.create({model: "words", input: ["a", "b"]});
let status = 0, code = "";
try { await client.embeddings.create({model: "words", input: []}); } catch (error) { status = error.status; code = error.code; }
console.log(JSON.stringify({rows: made.data.map(one => one.embedding), receipt: made.hushvec.receipt, status, code}));
"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    fields = policy_fields(folder / "budget.sqlite", key=KEY, limit=9.0, limits={"body_bytes": 4_000_000})
    port = free_port()
    with server(write_policy(folder / "policy.yaml", fields), port, log=folder / "log"):
        yield f"http://127.0.0.1:{port}/v1"


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=address, api_key=KEY) as made:
        yield made


def test_python(client, address):
    made = client.embeddings.create(model="words", input=["a", "b c"])
    assert [len(one.embedding) for one in made.data] == [DIMENSION] * 2 and made.model == "words"
    assert made.model_extra["hushvec"]["receipt"]["rows"] == 2
    assert next(iter(client.models.list())).id == "words"
    floats = client.embeddings.create(model="words", input="a", encoding_format="float", dimensions=8)
    assert len(floats.data[0].embedding) == 8


def test_errors_are_the_client_s_own(client, address):
    with pytest.raises(openai.BadRequestError) as bad:
        client.embeddings.create(model="words", input=[1, 2])
    assert bad.value.code == "invalid_request" and bad.value.param == "input"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="gpt", input="a")
    with openai.OpenAI(base_url=address, api_key="hv_wrong") as other, pytest.raises(openai.AuthenticationError):
        other.embeddings.create(model="words", input="a")
    # 502: the client tries again twice, and nothing is charged for it.
    with pytest.raises(openai.InternalServerError):
        client.embeddings.create(model="broken", input="a")


def test_a_retry_with_a_key_is_one_release(client):
    headers = {"Idempotency-Key": "k"}
    first, second = (client.embeddings.create(model="words", input="a", extra_headers=headers) for _ in range(2))
    assert first.data[0].embedding == second.data[0].embedding


def test_langchain(address):
    langchain = pytest.importorskip("langchain_openai")
    model = langchain.OpenAIEmbeddings(base_url=address, api_key=KEY, model="words", check_embedding_ctx_length=False)
    assert np.shape(model.embed_documents(["a", "b"])) == (2, DIMENSION)


def test_llama_index(address):
    llama_index = pytest.importorskip("llama_index.embeddings.openai")
    model = llama_index.OpenAIEmbedding(api_base=address, api_key=KEY, model_name="words")
    assert np.shape(model.get_text_embedding_batch(["a", "b"])) == (2, DIMENSION)


def test_javascript(address, tmp_path):
    """Where node and the package openai are installed: npm install openai, NODE_PATH=.../node_modules."""
    modules = Path(__import__("os").environ.get("NODE_PATH", "node_modules"))
    if shutil.which("node") is None or not (modules / "openai").is_dir():
        pytest.skip("no node, or no package openai in NODE_PATH")
    (tmp_path / "node_modules").symlink_to(modules.resolve())
    (tmp_path / "client.mjs").write_text(NODE)
    done = subprocess.run(["node", tmp_path / "client.mjs", address, KEY], capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert np.shape(found["rows"]) == (2, DIMENSION) and np.isfinite(found["rows"]).all()
    assert found["receipt"]["rows"] == 2 and (found["status"], found["code"]) == (400, "invalid_request")


def test_an_exhausted_budget(client):
    """Runs last: it spends what is left."""
    with pytest.raises(openai.APIStatusError) as error:
        [client.embeddings.create(model="words", input="a") for _ in range(12)]
    assert error.value.status_code == 402 and error.value.code == "PRIVACY_BUDGET_EXHAUSTED"
    assert error.value.body["remaining"]["epsilon"] == 0.0
