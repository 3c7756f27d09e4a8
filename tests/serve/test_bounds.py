"""What one tenant can make grow is bounded for it, and the others keep theirs: answers, what is made and kept, turns, epsilon."""

import threading
import time

import pytest

from hushvec.serve import releases
from hushvec.serve.answers import AnswerStore
from hushvec.serve.keys import hash_of, new_key
from hushvec.serve.models import Kept
from hushvec.serve.policy import BudgetTerms, Limits
from hushvec.serve.releases import Asked, Ledgers, Payload, Releases
from hushvec.serve.routes import texts
from hushvec.serve.service import THREADS
from serve.services import client_of, policy_fields

BODY = {"input": "a"}
KEYS = {name: [new_key(), new_key()] for name in ("alpha", "beta")}


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def two_tenants(tmp_path, **limits):
    fields = policy_fields(tmp_path / "budget.sqlite", limits=limits)
    alpha = fields["tenants"]["alpha"]
    fields["tenants"] = {name: {**alpha, "keys": [hash_of(key) for key in keys]} for name, keys in KEYS.items()}
    return client_of(fields)


def asking(client, name, key, number=0, **body):
    headers = {"Authorization": f"Bearer {KEYS[name][number]}", "Idempotency-Key": key}
    return client.post("/v1/embeddings", json={**BODY, **body}, headers=headers)


# ---- answers ----


@pytest.mark.parametrize("limits", [{"answers": 6}, {"answer_bytes": 6000}])
def test_answers_of_a_tenant_are_bounded(tmp_path, limits):
    """146 MB in six seconds cost epsilon 0.0001. Those that are kept are repeated, the others are refused before their charge."""
    with two_tenants(tmp_path, **limits) as client:
        threads, answers = [], []
        for worker in range(THREADS):
            ask = lambda worker=worker: answers.extend(asking(client, "alpha", f"{worker}-{number}") for number in range(6))
            threads.append(threading.Thread(target=ask))
            threads[-1].start()
        for thread in threads:
            thread.join()
        paid = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert len(paid) + len(refused) == 6 * THREADS and refused
        count, size = client.app.state.service.releases.answers.held_for("alpha")
        assert 1 <= count == len(paid) <= limits.get("answers", 6000)
        assert size == sum(len(answer.content) for answer in paid)
        assert size <= limits.get("answer_bytes", 10**9) + len(paid) * 2000, "what is promised, and the receipts"
        error = refused[0].json()["error"]
        assert (error["code"], error["param"]) == ("too_many_answers", "Idempotency-Key") and "retry-after" in refused[0].headers
        key = {"Authorization": f"Bearer {KEYS['alpha'][0]}"}
        assert client.get("/v1/budgets", headers=key).json()["charges"] == len(paid)
        assert client.post("/v1/embeddings", json=BODY, headers=key).status_code == 200
        assert asking(client, "beta", "0-0").status_code == 200


def test_requests_that_are_refused_leave_no_claim(tmp_path):
    """They cost nothing, and would fill the place of the tenant's answers."""
    with two_tenants(tmp_path) as client:
        headers = {"Authorization": f"Bearer {KEYS['alpha'][0]}", "Idempotency-Key": "k"}
        nan = {"content": b'{"vectors": [[1e400]]}', "headers": {**headers, "Content-Type": "application/json"}}
        assert [client.post("/v1/privatize", **nan).status_code for _ in range(2)] == [400, 400]
        assert client.app.state.service.releases.answers.held_for("alpha") == (0, 0)
        assert asking(client, "alpha", "k").status_code == 200


def test_answers_that_cannot_be_kept_displace_none_of_another_tenant(tmp_path, monkeypatch):
    monkeypatch.setattr(releases, "MOST_UNKEPT_BYTES", 1000)
    from sqlalchemy.exc import OperationalError

    made = Releases(Ledgers(str(tmp_path / "b.sqlite")), AnswerStore(str(tmp_path / "b.sqlite")))
    monkeypatch.setattr(AnswerStore, "keep", lambda *_: (_ for _ in ()).throw(OperationalError("", {}, Exception())))
    terms = BudgetTerms(epsilon=5)
    ask = lambda tenant, key: Asked(tenant, terms, Limits(), ("s",), "/", b"", key)
    send = lambda tenant, key: made.run(ask(tenant, key), lambda budget: Payload(bytes(300), "x", {}))
    send("beta", "first")
    for number in range(20):
        send("alpha", str(number))
    assert made.find(ask("beta", "first")).headers["Idempotent-Replayed"] == "true"
    assert made.find(ask("alpha", "19")) is not None and made.find(ask("alpha", "5")) is None
    assert sum(len(one.body) for _, one in made._unkept.values()) <= 1000
    made.close()


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0)])
def test_a_second_key_of_a_tenant_repeats_its_requests(tmp_path, numbers):
    with two_tenants(tmp_path) as client:
        first, second = (asking(client, "alpha", "k", number) for number in numbers)
        assert first.status_code == second.status_code == 200 and first.content == second.content
        assert asking(client, "alpha", "k", input="b").status_code == 422
        assert asking(client, "beta", "k").content != first.content


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_secret_that_was_emptied_is_refused(tmp_path, caplog, content):
    """With it, a reader of the store could try out texts."""
    with client_of(policy_fields(tmp_path / "budget.sqlite")) as client:
        folder = tmp_path / "state" / "hushvec"
        folder.mkdir(parents=True)
        (folder / releases.KEY_FILE).write_bytes(content)
        answer = client.post("/v1/embeddings", json=BODY, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 503 and client.get("/v1/budgets").json()["charges"] == 0
        assert "serve.key: must be the 32 bytes that a service wrote: restore it, or remove it for new ones" in caplog.text


# ---- epsilon: how many rows a ledger may get, and how many trials there are ----


@pytest.mark.parametrize("epsilon, status", [(0.999e-3, 400), (1e-3, 200), (1.0, 200), (1.001, 400), (1e-300, 400)])
def test_a_request_may_ask_for_a_thousandth_of_the_epsilon(tmp_path, epsilon, status):
    with client_of(policy_fields(tmp_path / "b.sqlite")) as client:
        answer = client.post("/v1/privatize", json={"vectors": [[1.0, 2.0]], "epsilon": epsilon})
        assert answer.status_code == status
        if status == 400:
            assert answer.json()["error"]["message"] == "epsilon must be from 0.001 to 1, the policy's"


# ---- what is made and kept ----


def test_what_is_kept_of_a_tenant_is_not_displaced_by_another():
    made = []
    kept = Kept(lambda *settings: made.append(settings) or object(), 8)
    mine = [kept("beta", number) for number in range(3)]
    for number in range(100):
        kept("alpha", number)
    assert [kept("beta", number) for number in range(3)] == mine and len(kept._made) == 8
    assert [number in range(95, 100) for _, number in kept._made] == [False] * 3 + [True] * 5


def test_what_is_kept_is_read_while_something_is_made():
    gate, began = threading.Event(), threading.Event()

    def make(what):
        if what == "slow":
            began.set()
            gate.wait(20)
        return what

    kept = Kept(make, 8)
    kept("beta", "quick")
    slow = [threading.Thread(target=kept, args=("alpha", "slow")) for _ in range(5)]
    for thread in slow:
        thread.start()
    assert began.wait(5) and kept("beta", "quick") == "quick"
    gate.set()
    for thread in slow:
        thread.join()
    assert kept("alpha", "slow") == "slow"


class Slow:
    """In the place of a rewriter."""

    def __init__(self, **settings):
        self.epsilon = settings["epsilon"]

    def rewrite(self, text, budget=None):
        SEEN.append(self.epsilon)
        assert OPEN.wait(60)
        return self

    output = "a"


SEEN, OPEN = [], threading.Event()


@pytest.fixture
def slow(monkeypatch):
    SEEN.clear()
    OPEN.set()
    monkeypatch.setattr(texts, "Rewriter", Slow)
    for name in ("_trials", "_trying"):
        monkeypatch.setattr(texts, name, {})
    monkeypatch.setattr(texts, "_turns", texts.Turns())
    monkeypatch.setattr(texts, "kept_rewriter", Kept(texts._rewriter, 64))


def test_trials_of_one_tenant_hold_up_no_other(slow):
    """They were made under the lock that every rewriting took: ever new epsilons stopped everybody."""
    texts.trial_for(8.0, "privunit", 0.0, "beta")
    SEEN.clear()
    OPEN.clear()
    asks = [threading.Thread(target=texts.trial_for, args=(2.0**-number, "privunit", 0.0, "alpha")) for number in range(4)]
    try:
        for thread in asks:
            thread.start()
        while not SEEN:  # one of them rewrites, and will until the others may
            time.sleep(0.001)
        rewriter, trial = texts.rewriter_for(8.0, tenant="beta"), texts.trial_for(8.0, "privunit", 0.0, "beta")

        def rewrite():
            with texts._turns.of("beta"):
                rewriter.rewrite("")

        asks.append(threading.Thread(target=rewrite))
        asks[-1].start()
        while "beta" not in texts._turns._waiting:
            time.sleep(0.001)
    finally:
        OPEN.set()
        for thread in asks:
            thread.join()
    assert trial["trial"]["epsilon"] == 8.0
    assert SEEN.index(8.0) == 1 and len(SEEN) == 4 * texts.TRIAL_RELEASES + 1


def test_a_trial_is_made_once(slow):
    """Whoever asks, and for whatever epsilon near it."""
    asks = [(1.0 + place / 100, name) for place in range(8) for name in ("alpha", "beta")]
    threads = [threading.Thread(target=texts.trial_for, args=(epsilon, "privunit", 0.0, name)) for epsilon, name in asks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SEEN) == texts.TRIAL_RELEASES and set(SEEN) == {1.0}
