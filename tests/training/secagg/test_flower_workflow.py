"""Encodings through Flower's own SecAgg+: both sides of its protocol with its keys, shares and masks, in one process."""

from copy import deepcopy

import numpy as np
import pytest

import hushvec as hv
from hushvec.training.secagg import Encoder, from_parameters, to_parameters, workflow_arguments

CLIENTS = 7
TERMS = {"dimension": 100, "clip_norm": 1.0, "clients": CLIENTS, "epsilon": 4.0, "delta": 1e-5, "dropouts": 2}


def summed(monkeypatch, parameters, lost, arguments):
    """What Flower's workflow gives to its strategy; clients of `lost` vanish before they send their parameters."""
    from flwr.app import ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
    from flwr.client.mod import secaggplus_mod
    from flwr.common import Code, FitIns, FitRes, Status, ndarrays_to_parameters, parameters_to_ndarrays
    from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key, Stage
    from flwr.compat.common import recorddict_compat as compat
    from flwr.server.compat.legacy_context import LegacyContext
    from flwr.server.strategy import FedAvg
    from flwr.server.workflow import SecAggPlusWorkflow
    from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    contexts = [Context(run_id=1, node_id=node, node_config={}, state=RecordDict(), run_config={}) for node in range(len(parameters))]

    class Proxy:
        def __init__(self, node):
            self.node_id = node

    class Strategy(FedAvg):
        def configure_fit(self, server_round, parameters, client_manager):
            return [(Proxy(node), FitIns(ndarrays_to_parameters([]), {})) for node in range(len(contexts))]

        def aggregate_fit(self, server_round, results, failures):
            assert len(results) == len(contexts) - len(lost)
            self.given = results[0][1].parameters
            self.averaged, metrics = super().aggregate_fit(server_round, results, failures)
            return self.averaged, metrics

    def train(message, context):
        reply = FitRes(Status(Code.OK, ""), ndarrays_to_parameters(parameters[context.node_id]), 1, {})
        return Message(compat.fitres_to_recorddict(reply, keep_input=False), reply_to=message)

    class Grid:
        def send_and_receive(self, messages, timeout=None):
            return [self.answer(deepcopy(message)) for message in messages]   # as over a network

        def answer(self, message):
            node, stage = message.metadata.dst_node_id, message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE]
            if node in lost and stage in (Stage.COLLECT_MASKED_VECTORS, Stage.UNMASK):
                return Message(Error(code=0, reason="lost"), reply_to=message)
            return secaggplus_mod(message, contexts[node], train)

    context, strategy = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}), Strategy()
    legacy = LegacyContext(context, strategy=strategy)
    legacy.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({"current_round": 1})
    legacy.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord()
    SecAggPlusWorkflow(num_shares=1.0, reconstruction_threshold=0.5, **arguments)(Grid(), legacy)
    return parameters_to_ndarrays(strategy.given), parameters_to_ndarrays(strategy.averaged)


@pytest.mark.parametrize("lost", [set(), {2}, {0, 5}], ids=len)
@pytest.mark.parametrize("bits", [10, 16, 31])
def test_the_sum_passes_flower_bit_for_bit(monkeypatch, bits, lost):
    pytest.importorskip("flwr")
    encoder = Encoder(bits=bits, **TERMS)
    vectors = np.random.default_rng(1).standard_normal((CLIENTS, encoder.dimension))
    encodings = [encoder.encode(vector, generator=hv.Generator.unsafe_seeded(number)) for number, vector in enumerate(vectors)]
    sent = [to_parameters(encoder, encoding) for encoding in encodings]
    answered = CLIENTS - len(lost)
    expected = sum(one.astype(np.int64) for number, one in enumerate(encodings) if number not in lost) % 2**bits
    for parameters in summed(monkeypatch, sent, lost, workflow_arguments(encoder)):
        total = from_parameters(encoder, parameters, clients=answered)
        assert total.tolist() == expected.tolist()
        assert encoder.decode(total, clients=answered).tobytes() == encoder.decode(expected, clients=answered).tobytes()
    with pytest.raises(ValueError, match=f"^parameters must be a sum of {answered - 1} encodings, got other numbers$"):
        from_parameters(encoder, parameters, clients=answered - 1)
