"""Flower: the mod in its own messages and records, and in the chain of a ClientApp."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.receipts import receipt_from_json

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, Metadata, MetricRecord, RecordDict  # noqa: E402
from flwr.clientapp import ClientApp  # noqa: E402

from hushvec.integrations.flower import PrivateUpdates  # noqa: E402

TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "rounds": 5, "persist_key": "client", "store": "memory"}
MODEL = {"weight": np.full((4, 3), 2.0, np.float32), "half": np.ones(4, np.float16), "batches": np.array(3), "scale": np.float64(1)}
FAINT = {"epsilon": None, "noise_multiplier": 1e-4}


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})


def message_of(kind="train", arrays=MODEL):
    content = RecordDict({"arrays": record(arrays), "config": ConfigRecord({"server-round": 1})})
    metadata = Metadata(
        run_id=1, message_id="m", src_node_id=1, dst_node_id=7, reply_to_message_id="", group_id="1", created_at=time.time(),
        ttl=100.0, message_type=kind,
    )
    return Message(metadata=metadata, content=content)


def context_of(node=7):
    return Context(run_id=1, node_id=node, node_config={"partition-id": node}, state=RecordDict(), run_config={})


def trained(arrays=None, **others):
    """A client that adds 10 to every element, and says too much."""
    arrays = {name: (array + 10).astype(np.asarray(array).dtype) for name, array in MODEL.items()} if arrays is None else arrays

    def train(message, context):
        metrics = {"metrics": MetricRecord({"loss": 0.25, "num-examples": 31}), "notes": ConfigRecord({"name": "Ann"})}
        return Message(content=RecordDict({"arrays": record(arrays), **metrics, **others}), reply_to=message)

    return train


def arrays_of(message):
    (record,) = message.content.array_records.values()
    return {name: array.numpy() for name, array in record.items()}


def test_the_reply_holds_the_noisy_update_and_nothing_else_of_the_app():
    reply = PrivateUpdates(**{**TERMS, **FAINT})(message_of(), context_of(), trained())
    found = arrays_of(reply)
    assert [(name, array.shape, array.dtype) for name, array in found.items()] == [
        (name, np.shape(array), np.asarray(array).dtype) for name, array in MODEL.items()
    ]
    length = np.sqrt(12 + 4 + 1)   # an update of 10 in 17 elements is clipped to norm 1
    for name in ("weight", "half", "scale"):
        assert np.abs(found[name] - MODEL[name] - 1 / length).max() < 2e-3
    assert found["batches"] == 3   # as it was received
    assert {name: dict(one) for name, one in reply.content.metric_records.items()} == {"metrics": {"num-examples": 1.0}}
    assert list(reply.content.config_records) == ["hushvec"] and list(reply.content) == ["arrays", "metrics", "hushvec"]
    receipt = receipt_from_json(reply.content.config_records["hushvec"]["receipt"])
    assert hv.verify_receipt(receipt).status == "holds" and receipt.dimension == 17 and receipt.charge.sequence == 2
    assert reply.metadata.dst_node_id == message_of().metadata.src_node_id


def test_the_noise_is_that_of_the_receipt():
    """n = 200,000, the sum of squares over sigma^2, chi-squared; alpha = 1e-6 (4.9 standard deviations of 3.2e-3 relative)."""
    n = 200_000
    zeros = {"a": np.zeros(n)}
    reply = PrivateUpdates(**TERMS)(message_of(arrays=zeros), context_of(), trained(zeros))
    sigma = json.loads(reply.content.config_records["hushvec"]["receipt"])["sigma"]
    for factor, fits in ((1.0, True), (1.02, False)):
        statistic = float((arrays_of(reply)["a"] ** 2).sum()) / (factor * sigma) ** 2
        assert (abs(statistic - n) <= 4.9 * np.sqrt(2 * n)) == fits


def test_a_spent_ledger_sends_nothing(tmp_path):
    """Two mods, as of a client that restarts: 5 rounds between them, and Flower's own app sends no sixth."""
    terms = {**TERMS, "store": tmp_path / "ledger.sqlite"}
    for count in (2, 3):
        app = ClientApp(mods=[PrivateUpdates(**terms)])
        app.train()(trained())
        for _ in range(count):
            assert app(message_of(), context_of()).content.array_records
    with pytest.raises(PrivacyBudgetExhaustedError):
        app(message_of(), context_of())


def test_one_program_of_many_clients_has_a_ledger_for_each():
    private = PrivateUpdates(**{**TERMS, "rounds": 1, "persist_key": lambda context: f"client-{context.node_config['partition-id']}"})
    for node in (1, 2, 3):
        private(message_of(), context_of(node), trained())
        with pytest.raises(PrivacyBudgetExhaustedError):
            private(message_of(), context_of(node), trained())


def test_other_messages():
    private = PrivateUpdates(**TERMS)

    def evaluated(message, context):
        return Message(content=RecordDict({"metrics": MetricRecord({"loss": 0.5})}), reply_to=message)

    reply = private(message_of("evaluate"), context_of(), evaluated)
    assert reply.content.metric_records["metrics"]["loss"] == 0.5
    with pytest.raises(ValueError, match="reply to 'evaluate' must hold no arrays"):
        private(message_of("evaluate"), context_of(), trained())
    assert private(message_of("train.lora"), context_of(), trained()).content.config_records["hushvec"]
    failed = private(message_of(), context_of(), lambda message, context: Message(Error(code=0, reason="no data"), reply_to=message))
    assert failed.has_error()


@pytest.mark.parametrize(
    ("train", "text"),
    [
        (trained({**MODEL, "more": np.ones(2)}), "reply must hold the received arrays: the same names in this order"),
        (trained({**MODEL, "half": np.ones(5, np.float16)}), "reply must hold the received arrays"),
        (trained(others=ArrayRecord()), "reply must hold exactly 1 ArrayRecord, got 2"),
        (trained({**MODEL, "weight": np.full((4, 3), np.nan, np.float32)}), r"update\['weight'\] must be finite, got nan in row 0"),
    ],
)
def test_replies_that_are_refused_cost_nothing(train, text, tmp_path):
    store = tmp_path / "ledger.sqlite"
    private = PrivateUpdates(**{**TERMS, "store": store})
    with pytest.raises(ValueError, match=text):
        private(message_of(), context_of(), train)
    with hv.PrivacyBudget.reopen("client", store=store) as ledger:
        assert ledger.consumed() == 0.0


@pytest.mark.full
def test_a_simulation_stops_where_the_ledgers_are_spent(tmp_path):
    """Flower's own server, strategy and Ray workers: every client sends five updates, each paid for, then errors without content."""
    pytest.importorskip("ray")
    program = Path(__file__).with_name("flower_simulation.py")
    done = subprocess.run([sys.executable, program, tmp_path / "ledger.sqlite"], capture_output=True, text=True, timeout=300)
    replies = [json.loads(line.removeprefix("reply ")) for line in done.stdout.splitlines() if line.startswith("reply ")]
    nodes = {node for _, node, _, _ in replies}
    assert len(nodes) == 4 and len(replies) == 28, done.stderr[-2000:]
    for node in nodes:
        sent = [(number, receipt["charge"]["sequence"]) for number, one, receipt, _ in replies if one == node and receipt]
        assert sent == [(number, number + 1) for number in range(1, 6)]
    assert not any(content for number, _, _, content in replies if number > 5)


def test_terms_are_checked_before_the_first_round():
    with pytest.raises(TypeError, match="epsilon or noise_multiplier must be given, got both"):
        PrivateUpdates(**{**TERMS, "noise_multiplier": 1.0})
