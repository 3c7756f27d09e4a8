"""The server of the app: FedAvg, in PrivateStrategy where HUSHVEC_APP has terms for it as server. FOLDER/server tells what came."""

import json
import os
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg
from models import MODELS

from hushvec import PrivacyBudget
from hushvec.federated import AdaptiveClip
from hushvec.integrations.flower import PrivateStrategy

terms = json.loads(os.environ["HUSHVEC_APP"])
folder = Path(terms["folder"])
app = ServerApp()


def tell(kind, *what):
    with open(folder / "server", "a") as file:
        print(json.dumps([kind, *what]), file=file)


class Watched(FedAvg):
    def aggregate_train(self, server_round, replies):
        replies = list(replies)
        for reply in replies:
            records = {} if reply.has_error() else reply.content.config_records
            receipt = json.loads(records["hushvec"]["receipt"]) if "hushvec" in records else None
            tell("reply", server_round, reply.metadata.src_node_id, not reply.has_error(), receipt)
        return super().aggregate_train(server_round, replies)


@app.main()
def main(grid, context):
    model, known = MODELS[terms["model"]], folder / "model.npz"
    start, _ = model()
    arrays = dict(np.load(known)) if known.exists() else start   # a restarted server goes on where it was
    rounds, nodes = context.run_config.get("rounds", 10), terms["nodes"]
    strategy = Watched(fraction_evaluate=0.0, min_train_nodes=nodes, min_available_nodes=nodes)
    if terms["server"]:
        chosen = dict(terms["server"])
        for name, kind in (("adaptive", AdaptiveClip), ("budget", PrivacyBudget)):
            chosen.update({name: kind(**chosen[name])} if name in chosen else {})
        strategy = PrivateStrategy(strategy, **chosen)
        tell("left", strategy.average.left)

    def evaluate(server_round, record):
        now = {name: array.numpy() for name, array in record.items()}
        np.savez(folder / "unfinished.npz", **now)
        os.replace(folder / "unfinished.npz", known)
        loss = float(np.mean([model(1000 + one)[1](now)[1] for one in range(3)]))
        tell("round", server_round, loss, json.loads(strategy.receipt.to_json()) if getattr(strategy, "receipt", None) else None)
        return MetricRecord({"loss": loss})

    initial = ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})
    strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds, evaluate_fn=evaluate, timeout=terms.get("timeout", 600))
    tell("done")
