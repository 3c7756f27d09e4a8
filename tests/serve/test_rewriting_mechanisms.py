"""The mechanisms of POST /v1/rewrite: what each costs and guarantees, when it is refused, and how often a text keeps its subject."""

import json
import re
from importlib import resources

import pytest

from hushvec.data import private_notes, public_sentences
from hushvec.serve.routes.texts import rewriter_for
from serve.services import client_of, policy_fields

TEXT = "The invoice for March is overdue. Please pay within ten days."
CANARY = "canary-7f3a"


@pytest.fixture
def client(tmp_path):
    with client_of(policy_fields(tmp_path / "budget.sqlite", epsilon=8.0, limit=100.0)) as made:
        yield made


def rewritten(client, **asked):
    return client.post("/v1/rewrite", json={"text": TEXT, **asked})


def consumed(client):
    return client.get("/v1/budgets").json()["consumed"]


COSTS = {"randomized_response": 0.0, "privunit": 0.0, "gaussian": 1e-5}


@pytest.mark.parametrize("mechanism", COSTS)
def test_a_text_by_each_mechanism(client, mechanism):
    answer = rewritten(client, mechanism=mechanism, epsilon=4.0)
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["output"] in public_sentences() and found["level"] == "document" and found["n_chunks"] == 1
    receipt = found["receipt"]
    assert (receipt["mechanism"], receipt["epsilon"], receipt["is_dp_claim"]) == (mechanism, 4.0, True)
    assert receipt["delta"] == COSTS[mechanism]
    assert consumed(client) == {"epsilon": 4.0, "delta": pytest.approx(COSTS[mechanism], rel=1e-9)}
    checked = client.post("/v1/receipts/verify", json={"receipt": receipt}).json()
    assert checked["status"] == "holds", checked


def test_an_answer_that_hardly_depends_on_the_text_says_so(client):
    """At epsilon 0.2 the best guess from any release is the same public text; at 8 each text has one of its own."""
    weak = rewritten(client, mechanism="privunit", epsilon=0.2).json()
    trial = weak["trial"]
    assert trial["releases"] == 60 and trial["most_common"] > 40 and trial["different"] < 10, trial
    same = f"{trial['most_common']} of 60 different public texts got the same answer at epsilon 0.177"
    assert weak["warning"] == f"{same}: the answer says little about the text"
    strong = rewritten(client, epsilon=8.0).json()
    assert strong["warning"] is None and strong["trial"]["different"] > 40 and strong["trial"]["epsilon"] == 8.0
    assert client.get("/v1/budgets").json()["charges"] == 2, "trials are made on public texts and cost nothing"


def test_the_default_is_randomized_response(client):
    assert rewritten(client).json()["mechanism"] == "randomized_response"
    assert client.get("/v1/budgets").json()["rewriting"] == [{"mechanism": name, "delta": delta} for name, delta in COSTS.items()]


@pytest.mark.parametrize("mechanism", [CANARY, "laplacian", "l2_laplace", "auto", "", "GAUSSIAN", 1, None, ["gaussian"]])
def test_others_are_refused_before_a_charge(client, mechanism, caplog):
    answer = rewritten(client, mechanism=mechanism)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "mechanism"
    assert error["message"] == "mechanism: Input should be 'randomized_response', 'privunit' or 'gaussian'"
    assert CANARY not in answer.text + caplog.text and client.get("/v1/budgets").json()["charges"] == 0


@pytest.mark.parametrize("limit", [0.0, 9e-6])
def test_gaussian_needs_a_budget_with_delta(tmp_path, limit):
    fields = policy_fields(tmp_path / "budget.sqlite", epsilon=8.0)
    fields["tenants"]["alpha"]["budget"] = {"epsilon": 100.0, "delta": limit}
    with client_of(fields) as client:
        answer = rewritten(client, mechanism="gaussian")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], error["param"]) == (403, "not_in_policy", "mechanism")
        assert error["message"] == f"mechanism gaussian costs delta 1e-05, and the whole budget has delta {limit:g}"
        assert client.get("/v1/budgets").json()["charges"] == 0
        assert [one["mechanism"] for one in client.get("/v1/budgets").json()["rewriting"]] == ["randomized_response", "privunit"]
        assert rewritten(client).status_code == 200


def test_delta_can_be_used_up(tmp_path):
    fields = policy_fields(tmp_path / "budget.sqlite", epsilon=1.0, delta=4e-6)
    fields["tenants"]["alpha"]["budget"] = {"epsilon": 100.0, "delta": 1e-5}
    with client_of(fields) as client:
        assert [rewritten(client, mechanism="gaussian").status_code for _ in range(3)] == [200, 200, 402]
        assert rewritten(client).status_code == 200
        assert consumed(client)["delta"] == pytest.approx(8e-6)


@pytest.mark.parametrize("mechanism, epsilon", [("privunit", 1e-12), ("randomized_response", 1e-300)])
def test_an_epsilon_without_noise_for_it_is_refused(tmp_path, mechanism, epsilon):
    with client_of(policy_fields(tmp_path / "budget.sqlite", epsilon=epsilon, limit=100.0)) as client:
        answer = rewritten(client, mechanism=mechanism)
        error = answer.json()["error"]
        assert (answer.status_code, error["param"]) == (400, "epsilon")
        assert error["message"] == f"epsilon must be in the range of mechanism {mechanism}"
        assert client.get("/v1/budgets").json()["charges"] == 0


# Of 80 texts: fewest and most that keep their subject, so that a test fails by chance once in 10,000 runs. They are around what the
# page says, the means of five such runs.
KEPT = {("randomized_response", 8): (56, 80), ("privunit", 8): (2, 29), ("gaussian", 8): (0, 10), ("randomized_response", 4): (2, 29)}
PAGE = resources.files("hushvec").joinpath("serve", "page", "mechanisms.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("mechanism, epsilon", KEPT)
def test_how_often_a_text_keeps_its_subject(mechanism, epsilon):
    """Public sentences 4 i to 4 i + 3 have the subject of note i, so 4 of 320 keep it by chance."""
    least, most = KEPT[mechanism, epsilon]
    subject = {sentence: number // 4 for number, sentence in enumerate(public_sentences())}
    rewriter = rewriter_for(float(epsilon), mechanism=mechanism, delta=COSTS[mechanism])
    outputs = [one.output for one in rewriter.rewrite_all(private_notes())]
    assert least <= sum(subject[output] == number for number, output in enumerate(outputs)) <= most
    shown = re.search(rf"{mechanism}: {{.*?kept: (\[.*?\])", PAGE, re.DOTALL)
    epsilons = re.search(r"EPSILONS = (\[.*?\])", PAGE)
    assert least <= 80 * json.loads(shown[1])[json.loads(epsilons[1]).index(epsilon)] <= most
