"""Seven rounds of Flower's simulation with four clients, whose ledgers hold five. Prints a line of JSON for every reply."""

import json
import sys

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from hushvec.integrations.flower import PrivateUpdates

private = PrivateUpdates(
    clip_norm=1.0, epsilon=50.0, delta=1e-5, rounds=5, persist_key=lambda context: f"client-{context.node_config['partition-id']}",
    store=sys.argv[1],
)
client, server = ClientApp(mods=[private]), ServerApp()


@client.train()
def train(message, context):
    weights = next(iter(message.content.array_records.values()))["weights"].numpy()
    rows = np.random.default_rng(context.node_config["partition-id"]).normal(size=(50, 8))
    moved = weights - 0.1 * rows.T @ (rows @ (weights - np.arange(8.0))) / 50
    metrics = MetricRecord({"num-examples": 50, "loss": 1.0})
    return Message(RecordDict({"arrays": ArrayRecord({"weights": Array(moved.astype(np.float32))}), "m": metrics}), reply_to=message)


class Watched(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        for reply in replies:
            known = None if reply.has_error() else json.loads(reply.content.config_records["hushvec"]["receipt"])
            print("reply", json.dumps([server_round, reply.metadata.src_node_id, known, reply.has_content()]), flush=True)
        return super().aggregate_train(server_round, replies)


@server.main()
def main(grid, context):
    strategy = Watched(fraction_evaluate=0.0, min_train_nodes=4, min_available_nodes=4)
    strategy.start(grid=grid, initial_arrays=ArrayRecord({"weights": Array(np.zeros(8, np.float32))}), num_rounds=7)


run_simulation(server_app=server, client_app=client, num_supernodes=4, backend_config={"client_resources": {"num_cpus": 1}})
