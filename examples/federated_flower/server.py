"""The server: FedAvg, which gets noisy averages in place of the clients' models. `flwr run . --stream` prints the receipt."""

import numpy as np
from client import rows_of
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

import hushvec as hv
from hushvec.integrations.flower import PrivateStrategy

app = ServerApp()
ROWS, LABELS = rows_of(1000)   # rows that no client has: evaluation on the clients would not be private


def evaluate(server_round, arrays):
    return MetricRecord({"accuracy": float(((ROWS @ arrays["weights"].numpy() > 0) == LABELS).mean())})


@app.main()
def main(grid, context):
    clients, rounds = context.run_config["clients"], context.run_config["rounds"]
    everybody = FedAvg(fraction_evaluate=0.0, min_train_nodes=clients, min_available_nodes=clients)
    strategy = PrivateStrategy(everybody, clip_norm=0.5, clients=clients, epsilon=8.0, delta=1e-5, rounds=rounds)
    start = ArrayRecord({"weights": Array(np.zeros(20, np.float32))})
    result = strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds, evaluate_fn=evaluate)
    print(strategy.receipt)
    print("accuracy", evaluate(rounds, result.arrays)["accuracy"], "receipt", hv.verify_receipt(strategy.receipt).status)
