"""Rows that clients released: what the policy asks of their receipts, what is kept, and what a search of them finds."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.data import private_note_vectors, public_sentence_vectors
from hushvec.mechanisms import PublicCodebook
from hushvec.serve.keys import hash_of, new_key
from postgres_server import PostgresServer, why_not
from serve.services import charges, client_of, policy_fields

ROOT = Path(__file__).parents[2]
TERMS = {"epsilon": 16.0, "delta": 1e-5}


def fields_of(folder, **releases):
    return policy_fields(folder / "budget.sqlite", releases={**TERMS, **releases})


@pytest.fixture
def client(tmp_path):
    with client_of(fields_of(tmp_path)) as found:
        yield found


def body_of(release, ids=None):
    values = np.asarray(release.values, np.float64)
    ids = [f"note {number}" for number in range(len(values))] if ids is None else ids
    return {"ids": ids, "vectors": values.tolist(), "receipt": release.receipt.to_dict()}


def released(rows=8, epsilon=16.0, mechanism="privunit", **options):
    return hv.privatize(private_note_vectors()[:rows], epsilon=epsilon, mechanism=mechanism, **options)


@pytest.mark.parametrize("mechanism", ["privunit", "gaussian", "laplacian"])
@pytest.mark.parametrize("renormalize", [False, True])
def test_released_rows_are_stored_and_found(client, tmp_path, mechanism, renormalize):
    release = released(mechanism=mechanism, renormalize=renormalize)
    assert client.post("/v1/released", json=body_of(release)).json() == {"stored": 8, "rows": 8}
    question = released(rows=1, mechanism=mechanism, renormalize=renormalize)
    asked = {"vector": question.values[0].tolist(), "receipt": question.receipt.to_dict(), "k": 3}
    found = client.post("/v1/released/search", json=asked).json()
    cosines = release.values @ question.values[0] / np.linalg.norm(release.values, axis=1) / np.linalg.norm(question.values[0])
    best = np.argsort(-cosines)[:3]
    assert found["ids"] == [f"note {number}" for number in best]
    assert found["scores"] == pytest.approx(cosines[best], abs=1e-6)
    assert charges(tmp_path / "budget.sqlite") == []   # the client has paid


def test_codes_of_a_codebook_are_stored_and_found(client):
    book = PublicCodebook.of(public_sentence_vectors())
    release = hv.privatize(private_note_vectors(), mechanism=book.mechanism(8.0))
    assert client.post("/v1/released", json=body_of(release)).json() == {"stored": 80, "rows": 80}
    asked = {"vector": release.values[3].tolist(), "receipt": {**release.receipt.to_dict(), "answers": 1}, "k": 1}
    found = client.post("/v1/released/search", json=asked).json()
    assert (release.values[int(found["ids"][0].removeprefix("note "))] == release.values[3]).all()
    assert "it is of 80 rows, the vectors are 79" in refused(client, {**body_of(release), "vectors": release.values[1:].tolist(),
                                                                     "ids": [str(number) for number in range(79)]}, kept=80)


def refused(client, body, kept=0):
    answer = client.post("/v1/released", json=body)
    assert answer.status_code == 422, answer.text
    error = answer.json()["error"]
    assert error["code"] == "receipt_refused" and error["param"] == "receipt"
    assert len(client.post("/v1/released/search", json={**question(client), "k": 100}).json()["ids"]) == kept
    return error["message"]


def question(client):
    release = released(rows=1)
    return {"vector": release.values[0].tolist(), "receipt": release.receipt.to_dict()}


def test_a_receipt_that_does_not_hold_is_refused(client):
    body = body_of(released())
    assert "does not hold" in refused(client, {**body, "receipt": {**body["receipt"], "epsilon": 1.0}})
    assert "not a DP claim" in refused(client, body_of(released(generator=hv.Generator.unsafe_seeded(1))))
    assert "not a DP claim" in refused(client, body_of(released(mechanism="l2_laplace")))
    assert "must" in refused(client, {**body, "receipt": {}})


def test_a_receipt_beyond_the_policy_is_refused(client):
    assert "epsilon and delta must be at most 16 and 1e-05, got 17 and 0" in refused(client, body_of(released(epsilon=17.0)))
    assert "got 4 and 0.001" in refused(client, body_of(released(epsilon=4.0, mechanism="gaussian", delta=1e-3)))


def test_a_receipt_of_other_rows_is_refused(client):
    body = body_of(released())
    fewer = {"ids": body["ids"][1:], "vectors": body["vectors"][1:]}
    assert "it is of 8 rows, the vectors are 7" in refused(client, {**body, **fewer})
    cut = [row[:-1] for row in body["vectors"]]
    assert "it is of rows of 384, the vectors have 383" in refused(client, {**body, "vectors": cut})
    answers = hv.privatize_labels(["a"] * 8, labels=["a", "b"], epsilon=8.0)
    assert "it must be of released vectors" in refused(client, {**body, "receipt": answers.receipt.to_dict()})


@pytest.mark.parametrize("mechanism", ["privunit", "gaussian", "laplacian"])
def test_rows_without_noise_are_refused(client, mechanism):
    """Of 8 rows of 384 clean numbers all lie on a grid of 2^-20 or coarser with chance below 2^-3000."""
    release = released(mechanism=mechanism)
    assert release.receipt.grid >= 2**-20
    clean = {**body_of(release), "vectors": private_note_vectors()[:8].tolist()}
    assert "not on its grid" in refused(client, clean)
    one = {**body_of(release)}
    one["vectors"][5] = private_note_vectors()[5].tolist()
    assert "not on its grid" in refused(client, one)


def test_bad_input_is_named(client):
    body = body_of(released())
    for changed, said in (
        ({"ids": body["ids"][:7]}, "ids must name each of the 8 rows once, got 7"),
        ({"ids": ["a"] * 8}, "ids must name each of the 8 rows once, got 1"),
        ({"ids": ["", *body["ids"][1:]]}, "ids"),
        ({"vectors": [[1e300] * 384] * 8}, "vectors"),
    ):
        answer = client.post("/v1/released", json={**body, **changed})
        assert answer.status_code == 400 and said in answer.json()["error"]["message"], answer.text


def test_a_row_replaces_the_one_with_its_id(client):
    first, second = body_of(released(rows=2), ["a", "b"]), body_of(released(rows=2), ["b", "c"])
    assert client.post("/v1/released", json=first).json() == {"stored": 2, "rows": 2}
    assert client.post("/v1/released", json=second).json() == {"stored": 2, "rows": 3}
    asked = {"vector": second["vectors"][0], "receipt": {**second["receipt"], "rows": 1}, "k": 1}
    found = client.post("/v1/released/search", json=asked).json()
    assert found["ids"] == ["b"] and found["scores"] == pytest.approx([1.0], abs=1e-6)


def test_rows_survive_a_restart_and_have_a_limit(tmp_path):
    fields = fields_of(tmp_path, rows=3)
    with client_of(fields) as client:
        assert client.post("/v1/released", json=body_of(released(rows=3))).status_code == 200
        answer = client.post("/v1/released", json=body_of(released(rows=1), ["more"]))
        assert answer.status_code == 413 and "at most 3 released rows" in answer.json()["error"]["message"]
    with client_of(fields) as client:
        found = client.post("/v1/released/search", json=question(client)).json()["ids"]
        assert sorted(found) == ["note 0", "note 1", "note 2"]


@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_rows_are_kept_in_postgresql(tmp_path):
    with PostgresServer() as database:
        fields = {**fields_of(tmp_path), "store": database.url}
        first, second = body_of(released(rows=2), ["a", "b"]), body_of(released(rows=2), ["b", "c"])
        with client_of(fields) as client:
            assert client.post("/v1/released", json=first).json() == {"stored": 2, "rows": 2}
            assert client.post("/v1/released", json=second).json() == {"stored": 2, "rows": 3}
        with client_of(fields) as client:
            asked = {"vector": second["vectors"][0], "receipt": {**second["receipt"], "rows": 1}, "k": 1}
            assert client.post("/v1/released/search", json=asked).json()["ids"] == ["b"]


def test_a_tenant_finds_its_own_rows_alone(tmp_path):
    keys = [new_key(), new_key()]
    fields = fields_of(tmp_path)
    fields["tenants"]["alpha"]["keys"] = [hash_of(keys[0])]
    fields["tenants"]["beta"] = {**fields["tenants"]["alpha"], "keys": [hash_of(keys[1])]}
    with client_of(fields) as client:
        first, second = ({"Authorization": f"Bearer {key}"} for key in keys)
        assert client.post("/v1/released", json=body_of(released()), headers=first).status_code == 200
        assert len(client.post("/v1/released/search", json=question(client), headers=first).json()["ids"]) == 8
        assert client.post("/v1/released/search", json=question(client), headers=second).json()["ids"] == []
        assert client.post("/v1/released/search", json=question(client)).status_code == 401


NODE = shutil.which("node")
MODULE = ROOT / "js/src/hushvec.wasm"
RELEASED_BY_NODE = """
import { privatize, receiptToJson } from './js/src/index.js';
const rows = JSON.parse(process.argv[1]);
for (const mechanism of ['gaussian', 'laplacian', 'privunit']) for (const renormalize of [false, true]) {
  const { values, receipt } = await privatize(rows, { epsilon: 16, mechanism, renormalize });
  console.log(JSON.stringify({ vectors: values.map((row) => [...row]), receipt: JSON.parse(receiptToJson(receipt)) }));
}"""


@pytest.mark.skipif(NODE is None or not MODULE.exists(), reason="no Node, or hushvec.wasm is not built: make web")
def test_rows_that_node_released_are_stored_and_both_verifiers_hold(client, tmp_path):
    """float32 numbers pass through JSON whole, so the rows are still on their grid."""
    rows = json.dumps(private_note_vectors()[:4].astype(float).tolist())
    command = [NODE, "--input-type=module", "-e", RELEASED_BY_NODE, rows]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    releases = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(releases) == 6
    for number, release in enumerate(releases):
        body = {"ids": [f"{number} {place}" for place in range(4)], **release}
        assert client.post("/v1/released", json=body).json() == {"stored": 4, "rows": 4 * (number + 1)}
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(release["receipt"]))
        for verifier in ([sys.executable, "-m", "hushvec", "verify"], [sys.executable, str(ROOT / "scripts/check_receipt.py")]):
            found = subprocess.run([*verifier, str(file)], capture_output=True, text=True)
            assert found.returncode == 0, found.stdout + found.stderr


def test_a_policy_that_takes_none_refuses(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as client:
        answer = client.post("/v1/released", json=body_of(released()))
        assert answer.status_code == 403 and answer.json()["error"]["code"] == "not_in_policy"
