"""What a request may take of memory, threads and time: bounded, and refused above it; the other tenants are served meanwhile."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import anyio
import httpx
import numpy as np
import orjson
import pyarrow as pa
import pytest

from hushvec.serve import bodies as arrow
from hushvec.serve import service
from hushvec.serve.bodies import json_fields
from hushvec.serve.failures import ServiceError
from hushvec.serve.keys import hash_of, new_key
from hushvec.serve.metrics import Metrics
from hushvec.serve.models import Turns
from hushvec.serve.releases import json_payload
from hushvec.serve.routes.accounts import VerifyRequest
from hushvec.serve.routes.embeddings import EmbeddingsRequest, PrivatizeRequest, RankRequest
from hushvec.serve.service import BODIES, THREADS, Work
from serve import toy_models
from serve.services import TESTS, client_of, free_port, policy_fields, server, wait_until_ready, write_policy

MB = 1_000_000


# ---- Arrow ----


def stream(column, *, codec=None, batches=1, version=None, name="vector"):
    schema = pa.schema([(name, column.type)])
    options = pa.ipc.IpcWriteOptions(compression=codec, metadata_version=version or pa.ipc.MetadataVersion.V5)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch([column], schema=schema))
    return sink.getvalue().to_pybytes()


def zeros(rows, dimension=250):
    return pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(rows * dimension, np.float32)), dimension)


@pytest.fixture
def pool():
    """A pool of memory that knows what pyarrow took at most since the test began."""
    before = pa.default_memory_pool()
    counting = pa.proxy_memory_pool(before)
    yield counting
    pa.set_memory_pool(before)


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
@pytest.mark.parametrize("batches", [1, 8])
def test_a_stream_that_unpacks_to_more_is_refused_before_it_does(pool, codec, batches):
    """31 KB of zstd became 3.1 GB."""
    body = stream(zeros(20_000), codec=codec, batches=batches)   # 20 MB in a batch
    assert len(body) < 1 * MB
    pa.set_memory_pool(pool)
    with pytest.raises(ServiceError) as error:
        arrow.read_vectors(body, 15 * MB)
    assert (error.value.status, error.value.message) == (413, "column vector must have at most 15,000,000 bytes, uncompressed")
    assert pool.max_memory() < 1 * MB


OTHER_STREAMS = {
    "a dictionary": stream(pa.array(np.zeros(2_000_000, np.float64)).dictionary_encode(), codec="zstd"),
    "a dictionary in the column's place": stream(pa.array(["a" * 10_000_000]).dictionary_encode(), codec="zstd"),
    "another column": stream(pa.array(["a" * 10_000_000]), codec="zstd", name="text"),
    "an old format": stream(zeros(20), version=pa.ipc.MetadataVersion.V4),
}


@pytest.mark.parametrize("case", OTHER_STREAMS)
def test_other_streams_are_refused_before_they_are_unpacked(pool, case):
    pa.set_memory_pool(pool)
    with pytest.raises(ServiceError) as error:
        arrow.read_vectors(OTHER_STREAMS[case], 60 * MB)
    assert error.value.status == 400 and pool.max_memory() < 1 * MB


@pytest.mark.parametrize("codec", [None, "zstd", "lz4"])
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("values", [np.zeros, np.random.default_rng(0).random])   # what does not shrink is kept as it is
def test_streams_within_the_limit(codec, batches, values):
    rows = values((500, 25)).astype(np.float32)
    column = pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), 25)
    found, epsilon = arrow.read_vectors(stream(column, codec=codec, batches=batches), 200_000)
    assert np.array_equal(found, np.tile(rows, (batches, 1))) and epsilon is None


def test_every_change_of_a_byte_is_a_stream_or_none():
    """The metadata says where sizes stand: what it says is checked."""
    body = stream(zeros(50), codec="zstd")
    for place in range(len(body)):
        for value in (0, 1, 127, 255):
            changed = bytearray(body)
            changed[place] = value
            with contextlib.suppress(ServiceError):   # and no other error
                assert arrow.read_vectors(changed, 100_000)[0].nbytes <= 100_000


# ---- JSON ----

SIZE = 4 * MB
NUMBERS = b'{"vectors":[['
BODIES_OF_JSON = {
    "short numbers": (PrivatizeRequest, NUMBERS + b"1," * (SIZE // 2 - 20) + b"1]]}"),
    "numbers": (PrivatizeRequest, NUMBERS + b"1.5," * (SIZE // 4 - 20) + b"1]]}"),
    "rows of one number": (PrivatizeRequest, b'{"vectors":[' + b"[1]," * (SIZE // 4 - 20) + b"[1]]}"),
    "empty rows": (PrivatizeRequest, b'{"vectors":[' + b"[]," * (SIZE // 3 - 20) + b"[]]}"),
    "ids": (RankRequest, b'{"ids":[' + b"1234," * (SIZE // 5 - 20) + b"1]}"),
    "empty objects": (VerifyRequest, b'{"receipt":{"a":[' + b"{}," * (SIZE // 3 - 20) + b"1]}}"),
    "keys": (VerifyRequest, b'{"receipt":{"a":0' + b"".join(b',"%d":0' % i for i in range(350_000)) + b"}}"),
    "one text": (EmbeddingsRequest, b'{"input":"' + b"a" * (SIZE - 20) + b'"}'),
    "wide characters": (EmbeddingsRequest, b'{"input":["a' + (b"a" * 9000 + "\U0001f600".encode()) * 400 + b'"]}'),
    "many wide texts": (EmbeddingsRequest, b'{"input":["a"' + (b',"' + b"a" * 9000 + "\U0001f600".encode() + b'"') * 400 + b"]}"),
    "what escapes make wide": (EmbeddingsRequest, b'{"input":["a"' + (b',"' + b"a" * 9000 + b'\\ud83d\\ude00"') * 400 + b"]}"),
    "space": (PrivatizeRequest, b" " * SIZE),
}


@pytest.mark.parametrize("case", BODIES_OF_JSON)
def test_what_json_holds_is_bounded(case):
    """8 MB became 574 MB. The body and its values have at most twice the limit, beside the 65 kB that are parsed at once."""
    model, body = BODIES_OF_JSON[case]
    assert SIZE * 0.8 < len(body) <= SIZE
    tracemalloc.start()
    try:
        with pytest.raises(ServiceError) as error:
            json_fields(body, model, SIZE)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.value.status in (400, 413) and len(error.value.message) < 200
    assert len(body) + peak < 2 * SIZE + 8 * MB

LARGE = 60 * MB
LARGE_BODIES = {
    "numbers": lambda: b'{"vectors":[' + b",".join([b"[" + b",".join([b"1.5"] * 780) + b"]"] * 5000) + b"]}",
    "too many numbers": lambda: NUMBERS + b"1.5," * (LARGE // 4) + b"1]]}",
    "rows of one number": lambda: b'{"vectors":[' + b"[1]," * (LARGE // 4) + b"[1]]}",
    "Arrow": lambda: stream(zeros(LARGE // 1000)),
    "Arrow in batches": lambda: stream(zeros(LARGE // 4000), batches=4),
    "Arrow that unpacks": lambda: stream(zeros(LARGE // 1000), codec="zstd"),
    "Arrow that unpacks to too much": lambda: stream(zeros(LARGE // 200), codec="zstd"),
}


@pytest.mark.full
@pytest.mark.parametrize("case", LARGE_BODIES)
def test_a_process_grows_by_twice_the_limit(tmp_path, case):
    """For a request of nearly `body_bytes` and its answer; allocators keep some 20 MB."""
    port, limit = free_port(), 64 * MB
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite", limits={"body_bytes": limit}))
    kind = arrow.ARROW if case.startswith("Arrow") else "application/json"
    ask = lambda body: httpx.post(f"http://127.0.0.1:{port}/v1/privatize", content=body, headers={"Content-Type": kind}, timeout=300)
    body = LARGE_BODIES[case]()
    with server(policy, port, log=tmp_path / "log") as process:
        memory = lambda name: int(re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[1]) * 1024
        assert ask(stream(zeros(4)) if kind == arrow.ARROW else b'{"vectors": [[1]]}').status_code == 200
        before = memory("VmRSS")
        assert ask(body).status_code == (413 if "too m" in case or "rows" in case else 200)
        assert memory("VmHWM") - before < 2 * limit + 20 * MB


def test_numbers_up_to_the_limit():
    rows = np.random.default_rng(0).normal(size=(1000, 300)).astype(np.float32)
    body = json.dumps({"vectors": rows.tolist(), "epsilon": 0.5}).encode()
    fields = json_fields(body, PrivatizeRequest, len(body))
    assert np.array_equal(fields.vectors, rows) and fields.vectors.dtype == np.float32 and fields.epsilon == 0.5


def test_texts_up_to_the_limit():
    texts = ["One sentence, and another. Ein Satz über Wörter."] * 2000 + ["\u4e2d\u6587" * 500, "\U0001f600", "\\ud800", 'a "b" \n']
    for ascii_only in (True, False):
        body = json.dumps({"input": texts}, ensure_ascii=ascii_only).encode()
        assert json_fields(body, EmbeddingsRequest, 3 * len(body)).input == texts


@pytest.mark.parametrize("text", [rb"\ud800", rb"\\\ud800x", rb"\udc00", rb"\ud800\ud800"])
def test_half_of_a_character(text):
    with pytest.raises(ServiceError):
        json_fields(b'{"input": "' + text + b'"}', EmbeddingsRequest, 1000)


# ---- what an error repeats ----


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as made:
        yield made


PATHS = ["embeddings", "privatize", "aggregate", "topics", "redact", "rewrite", "ask", "rank", "receipts/verify"]


@pytest.mark.parametrize("path", PATHS)
def test_names_of_fields_are_not_repeated(client, path):
    fields = {"canary-name": 1, "text": "a", "input": "a", "vectors": [[1]], "ids": [1], "receipt": {}, "kind": "mean"}
    answer = client.post(f"/v1/{path}", json=fields)
    error = answer.json()["error"]
    assert answer.status_code == 400 and "canary" not in answer.text
    assert error["message"].startswith("the body must hold no fields besides ")


@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**400])
def test_large_ids(client, number):
    body = f'{{"vector": [1], "ids": [{number}], "vectors": [[1]]}}'
    answer = client.post("/v1/rank", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == (200 if number < 2**63 and number > 0 else 400), answer.text


# ---- threads ----


@pytest.fixture
def two(tmp_path):
    """A client, and headers of two tenants, one of which waits for its model."""
    keys = {name: new_key() for name in ("alpha", "beta")}
    fields = policy_fields(tmp_path / "budget.sqlite", key=keys["alpha"])
    fields["models"] = {**fields["models"], "waits": {"kind": "python", "object": "serve.toy_models:waits"}}
    fields["tenants"]["alpha"]["models"] = ["waits", "words"]
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": [hash_of(keys["beta"])], "models": ["words"]}
    toy_models.gate.clear()
    with client_of(fields) as made:
        try:
            yield made, {name: {"Authorization": f"Bearer {key}"} for name, key in keys.items()}
        finally:
            toy_models.gate.set()


def test_a_tenant_whose_model_is_slow_delays_no_other(two):
    """16 threads were shared: 16 such requests stopped everybody, and /readyz."""
    client, headers = two
    answers = []
    ask = lambda: answers.append(client.post("/v1/embeddings", json={"input": "a"}, headers=headers["alpha"]).status_code)
    asking = [threading.Thread(target=ask) for _ in range(24)]
    for thread in asking:
        thread.start()
    try:
        while "hushvec_requests_inside 24.0" not in client.get("/metrics").text:
            time.sleep(0.02)
        began = time.monotonic()
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/budgets", headers=headers["beta"]).status_code == 200
        assert client.post("/v1/embeddings", json={"input": "a"}, headers=headers["beta"]).status_code == 200
        assert time.monotonic() - began < 5
    finally:
        toy_models.gate.set()
        for thread in asking:
            thread.join()
    assert answers == [200] * 24


async def test_calls_and_bodies_of_a_tenant_have_bounds():
    work = Work(Metrics().waiting, most_waiting=0)
    opened = threading.Event()
    with work.body("a", 100) as take, work.body("a", 100) as second, work.body("b", 100) as other:
        take(BODIES * 100 - 10)
        second(10)
        for size in (1, 100):
            with pytest.raises(ServiceError, match="it has 400 bytes of requests at hand"):
                second(size)
        other(BODIES * 100)
    async with anyio.create_task_group() as group:
        for _ in range(THREADS):
            group.start_soon(work.run, opened.wait, "a")
        await anyio.sleep(0)
        try:
            with work.body("a", 100) as take:
                take(BODIES * 100)
            with pytest.raises(ServiceError, match="too many requests wait"):
                await work.run(bool, "a")
            assert await work.run(bool, "b") is False
        finally:
            opened.set()


def test_tenants_take_turns():
    """However many threads of one tenant wait for a model, another tenant is next: it waited for one more."""
    turns, order, threads = Turns(), [], []

    def work(tenant):
        with turns.of(tenant):
            order.append(tenant)

    with turns.of("a"):
        for tenant in "aaaabbc":
            threads.append(threading.Thread(target=work, args=tenant))
            threads[-1].start()
            while sum(map(len, turns._waiting.values())) < len(threads):
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert order == list("bcabaaa")


async def test_long_work_rests_while_others_are_at_hand(monkeypatch):
    """A thread that parsed 6 MB took the interpreter's lock back at once, and a hundred locks of another request waited for it."""
    work, rests, opened = Work(Metrics().waiting), [], threading.Event()
    used = iter(range(100))
    monkeypatch.setattr(service, "time", SimpleNamespace(sleep=rests.append, thread_time=lambda: float(next(used))))
    with work.part("a"):
        pass
    async with anyio.create_task_group() as group:
        for tenant in "ab":
            group.start_soon(work.run, opened.wait, tenant)
            await anyio.sleep(0)
            with work.part("a"):
                pass
        opened.set()
    assert rests == [service.REST, service.REST, 2.0]


def counted_parts():
    """How often a part of work was begun, and what counts it."""
    begun = []

    @contextlib.contextmanager
    def part():
        begun.append(1)
        yield

    return begun, part


def test_a_long_body_is_parsed_in_parts():
    body = json.dumps({"vectors": [[0.12] * 384] * 300}).encode()
    begun, part = counted_parts()
    assert json_fields(body, PrivatizeRequest, 16 * len(body), part).vectors.shape == (300, 384)
    assert len(begun) >= len(body) / 4096
    begun, part = counted_parts()
    json_fields(b'{"vectors": [[1]]}', PrivatizeRequest, 1000, part)
    assert not begun


@pytest.mark.parametrize("seed", range(20))
def test_an_answer_in_parts_is_the_answer_as_a_whole(seed):
    random = np.random.default_rng(seed)
    shape = (random.integers(1, 3000), random.integers(1, 30))
    values = {
        "matrix": random.normal(size=shape).astype(random.choice(["f4", "f8"])),
        "list": [{"row": row, "at": place} for place, row in enumerate(random.normal(size=(random.integers(0, 60), 3)))],
        "vector": random.normal(size=random.integers(0, 9)),
        "empty": [],
        "fields": {"a": [1, 2], "b": None, "c": "a" * 100},
    }
    fields = {name: values[name] for name in random.permutation(list(values)).tolist()[: random.integers(len(values) + 1)]}
    begun, part = counted_parts()
    body = json_payload(fields, part=part).body
    assert body == orjson.dumps(fields, option=orjson.OPT_SERIALIZE_NUMPY)
    assert len(begun) >= fields.get("matrix", np.empty(0)).size // 16_384


# ---- the end ----

START = """
import sys
from hushvec.serve import app, server
app.SECONDS_TO_END = server.SECONDS_TO_FINISH = 1
from hushvec.cli import main
main(sys.argv[1:])
"""


def test_a_model_that_goes_on_does_not_keep_the_process(tmp_path):
    """A thread cannot be stopped: the process waited for it, longer than its time."""
    fields = policy_fields(tmp_path / "budget.sqlite", models=["sleeps"])
    fields["models"] = {"sleeps": {"kind": "python", "object": "serve.toy_models:sleeps"}}
    policy, port = write_policy(tmp_path / "policy.yaml", fields), free_port()
    command = [sys.executable, "-c", START, "serve", "--policy", str(policy), "--port", str(port)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    with open(tmp_path / "log", "wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            wait_until_ready(process, port)
            with pytest.raises(httpx.ReadTimeout):
                httpx.post(f"http://127.0.0.1:{port}/v1/embeddings", json={"input": "a"}, timeout=0.5)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 128 + signal.SIGTERM
            assert time.monotonic() - began < 15
        finally:
            process.kill()
