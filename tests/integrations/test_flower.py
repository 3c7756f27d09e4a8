"""Flower: the mod in its own messages and records, and in the chain of a ClientApp."""

import json
import os
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
from flwr.serverapp.strategy import FedAdam, FedAvg  # noqa: E402
from flwr.supercore.task_identity import TaskIdentity  # noqa: E402

from hushvec.federated import AdaptiveClip, PrivateAverage  # noqa: E402
from hushvec.integrations.flower import PrivateStrategy, PrivateUpdates  # noqa: E402

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


def simulated(folder, **terms):
    """Ten rounds of flower_app with Flower's own server and Ray workers; what its server told, by kind."""
    pytest.importorskip("ray")
    terms = {"folder": str(folder), "nodes": 4, "model": "logistic", "client": None, "server": None, **terms}
    program = Path(__file__).with_name("flower_app") / "simulate.py"
    environment = {**os.environ, "HUSHVEC_APP": json.dumps(terms), "FLWR_TELEMETRY_ENABLED": "0"}
    done = subprocess.run([sys.executable, program], env=environment, cwd=folder, capture_output=True, text=True, timeout=600)
    lines = [json.loads(line) for line in (folder / "server").read_text().splitlines()]
    return lambda kind: [what for told, *what in lines if told == kind], done.stderr


@pytest.mark.full
def test_a_simulation_stops_where_the_ledgers_are_spent(tmp_path):
    """Every client sends five updates, each paid for, then errors without content."""
    terms = {"clip_norm": 1.0, "epsilon": 50.0, "delta": 1e-5, "rounds": 5, "store": str(tmp_path / "ledgers.sqlite")}
    told, errors = simulated(tmp_path, client=terms)
    replies = told("reply")
    nodes = {node for _, node, _, _ in replies}
    assert len(nodes) == 4 and len(replies) == 40, errors[-2000:]
    for node in nodes:
        sent = [(number, receipt["charge"]["sequence"]) for number, one, _, receipt in replies if one == node and receipt]
        assert sent == [(number, number + 1) for number in range(1, 6)]
    assert not any(content for number, _, content, _ in replies if number > 5)


@pytest.mark.full
@pytest.mark.parametrize(("model", "clip_norm"), [("logistic", 0.25), ("adapter", 1.0)])
def test_a_simulated_server_learns_and_stops_where_its_rounds_are_spent(tmp_path, model, clip_norm):
    """24 clients, epsilon 100 for six rounds: the loss falls, and nobody is asked in the seventh."""
    terms = {"clip_norm": clip_norm, "clients": 24, "epsilon": 100.0, "delta": 1e-5, "rounds": 6, "journal": str(tmp_path / "journal")}
    told, errors = simulated(tmp_path, server=terms, nodes=24, model=model)
    rounds = told("round")
    losses, receipts = [loss for _, loss, _ in rounds], [receipt for *_, receipt in rounds if receipt]
    assert [receipt["steps"] for receipt in receipts] == [1, 2, 3, 4, 5, 6] and losses[-1] < 0.97 * losses[0], (losses, errors[-2000:])
    assert hv.verify_receipt(receipt_from_json(json.dumps(receipts[-1]))).status == "holds"
    assert "PrivacyBudgetExhaustedError: all 6 rounds are released" in errors and not told("done")
    for number in range(24):
        assert len((tmp_path / f"client-{number}").read_text().splitlines()) == 6


def test_terms_are_checked_before_the_first_round():
    with pytest.raises(TypeError, match="epsilon or noise_multiplier must be given, got both"):
        PrivateUpdates(**{**TERMS, "noise_multiplier": 1.0})


# ---- on the server


@pytest.fixture(autouse=True)
def a_run(monkeypatch):
    """Of this process, as in a ServerApp: messages are made in one."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


class Nodes:
    """A grid of connected nodes, all that strategies ask of one."""

    def __init__(self, count):
        self.nodes = [100 + number for number in range(count)]

    def get_node_ids(self):
        return self.nodes


SERVER = {"clip_norm": 1.0, "clients": 6, "noise_multiplier": 1e-4, "delta": 1e-5, "rounds": 3}
FLOATS = {name: array for name, array in MODEL.items() if name != "batches"}
ALL = {"fraction_evaluate": 0.0}


def reply_of(asked, arrays=None, **others):
    """What the node that was asked sends back: the model plus 10, cut by nobody, unless arrays are given."""
    return trained(arrays, **others)(asked, None)


def asked_by(strategy, grid, arrays=MODEL, number=1):
    return list(strategy.configure_train(number, record(arrays), ConfigRecord(), grid))


def as_dict(arrays):
    return {name: array.numpy() for name, array in arrays.items()}


def test_the_server_releases_the_noisy_average_of_clipped_updates_and_nothing_else():
    strategy = PrivateStrategy(FedAvg(**ALL), generator=hv.Generator.unsafe_seeded(7), **SERVER)
    asked = asked_by(strategy, Nodes(6))
    assert len(asked) == 6
    arrays, metrics = strategy.aggregate_train(1, [reply_of(one) for one in asked[:5]])   # the sixth does not answer
    found = as_dict(arrays)
    expected, receipt = PrivateAverage(generator=hv.Generator.unsafe_seeded(7), **SERVER).aggregate(
        [{name: np.full_like(np.asarray(array), 10) for name, array in FLOATS.items()}] * 5
    )
    for name, array in FLOATS.items():
        assert np.array_equal(found[name], (array + expected[name]).astype(array.dtype)) and found[name].dtype == array.dtype
        assert np.abs(found[name] - array - 5 / 6 / np.sqrt(17)).max() < 2e-3
    assert found["batches"] == 3 and list(found) == list(MODEL) and dict(metrics) == {}
    assert strategy.receipt.steps == 1 and strategy.receipt.to_dict() == receipt.to_dict()
    assert list(strategy.configure_evaluate(1, arrays, ConfigRecord(), Nodes(6))) == []
    assert strategy.aggregate_evaluate(1, [reply_of(one) for one in asked]) is None


def test_the_inner_strategy_optimizes():
    """FedAdam steps along the sign of the average: eta in the first round, up to its bias correction."""
    strategy = PrivateStrategy(FedAdam(eta=0.01, **ALL), **SERVER)
    asked = asked_by(strategy, Nodes(6), FLOATS)
    arrays, _ = strategy.aggregate_train(1, [reply_of(one, {name: array - 10 for name, array in FLOATS.items()}) for one in asked])
    moves = [as_dict(arrays)[name].astype("float64") - array for name, array in FLOATS.items()]
    assert all((move < 0).all() for move in moves) and np.ptp(np.concatenate([move.ravel() for move in moves])) < 1e-3


@pytest.mark.parametrize(
    "fault",
    [
        lambda one: Message(Error(code=0, reason="no data"), reply_to=one),
        lambda one: reply_of(one, {**MODEL, "half": np.ones(5, np.float16)}),
        lambda one: reply_of(one, {**MODEL, "weight": np.full((4, 3), np.nan, np.float32)}),
        lambda one: reply_of(one, {**MODEL, "half": np.full(4, 65504, np.float16), "scale": np.float64(np.inf)}),
        lambda one: reply_of(one, {name: MODEL[name] for name in list(MODEL)[1:]}),
        lambda one: reply_of(one, more=record(MODEL)),
        lambda one: Message(RecordDict({"a": ArrayRecord({"b": Array("float32", (2,), "numpy.ndarray", b"?")})}), reply_to=one),
        lambda one: reply_of(message_of()),   # of a node that was not asked
    ],
)
def test_a_reply_that_cannot_be_used_counts_as_none(fault):
    outcomes = []
    for bad in (True, False):
        strategy = PrivateStrategy(FedAvg(**ALL), generator=hv.Generator.unsafe_seeded(7), **SERVER)
        asked = asked_by(strategy, Nodes(3))
        replies = [reply_of(asked[0]), *([fault(asked[1]), reply_of(asked[0])] if bad else []), reply_of(asked[2])]
        outcomes.append(as_dict(strategy.aggregate_train(1, replies)[0]))
    assert all(np.array_equal(outcomes[0][name], outcomes[1][name]) for name in MODEL)


def test_sampled_messages():
    """40 nodes, probability 1/4, 300 rounds: each node's count is binomial, within 5.5 deviations (40 nodes, alpha = 2e-6)."""
    pytest.importorskip("dp_accounting")
    terms = {**SERVER, "noise_multiplier": 10.0, "rounds": 300, "generator": hv.Generator.unsafe_seeded(3)}
    strategy = PrivateStrategy(FedAvg(**ALL), sampling_probability=0.25, **terms)
    counts, grid = dict.fromkeys(Nodes(40).nodes, 0), Nodes(40)
    for _ in range(300):
        for one in asked_by(strategy, grid, {"a": np.zeros(1)}):
            counts[one.metadata.dst_node_id] += 1
    assert all(abs(count - 75) <= 5.5 * np.sqrt(300 * 0.25 * 0.75) for count in counts.values())
    assert not all(abs(count - 100) <= 5.5 * np.sqrt(300 * 0.25 * 0.75) for count in counts.values())   # a third is refused


def test_a_sampled_run_says_so_in_its_receipt():
    pytest.importorskip("dp_accounting")
    strategy = PrivateStrategy(FedAvg(**ALL), sampling_probability=0.25, **{**SERVER, "noise_multiplier": 1.0})
    for number in (1, 2):
        strategy.aggregate_train(number, [reply_of(one) for one in asked_by(strategy, Nodes(20), number=number)])
    assert strategy.receipt.sampling_probability == 0.25 and strategy.receipt.samples and strategy.receipt.steps == 2
    assert hv.verify_receipt(strategy.receipt).status == "holds"


def test_a_restarted_server_goes_on_and_asks_nobody_once_rounds_are_spent(tmp_path):
    budget = hv.PrivacyBudget(max_rho=1e9, persist_key="run", store=tmp_path / "budget.db")
    terms = {**SERVER, "budget": budget, "journal": tmp_path / "rounds", "adaptive": AdaptiveClip(count_sigma=1.0)}
    for rounds in (2, 1):
        strategy = PrivateStrategy(FedAvg(**ALL), **terms)
        for _ in range(rounds):
            strategy.aggregate_train(1, [reply_of(one) for one in asked_by(strategy, Nodes(4))])
    assert strategy.receipt.steps == 3 and budget.state().rows == 2
    for spent in (strategy, PrivateStrategy(FedAvg(**ALL), **terms)):
        with pytest.raises(PrivacyBudgetExhaustedError, match="all 3 rounds are released"):
            asked_by(spent, Nodes(4))


def test_a_budget_that_is_too_small_releases_nothing():
    strategy = PrivateStrategy(FedAvg(**ALL), budget=hv.PrivacyBudget(max_rho=1e-3), **SERVER)
    with pytest.raises(PrivacyBudgetExhaustedError):
        strategy.aggregate_train(1, [reply_of(one) for one in asked_by(strategy, Nodes(4))])
    assert strategy.receipt is None
