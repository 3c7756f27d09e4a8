"""A client of the app: HUSHVEC_APP is a JSON object with model, folder, and what PrivateUpdates gets, or null, as client."""

import json
import os
import time

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from models import MODELS

from hushvec.integrations.flower import PrivateUpdates

terms = json.loads(os.environ["HUSHVEC_APP"])


def name_of(context):
    return f"client-{context.node_config['partition-id']}"


app = ClientApp(mods=[PrivateUpdates(persist_key=name_of, **terms["client"])] if terms["client"] else [])


@app.train()
def train(message, context):
    ((key, record),) = message.content.array_records.items()
    _, trained = MODELS[terms["model"]](context.node_config["partition-id"])
    arrays, loss = trained({name: array.numpy() for name, array in record.items()})
    with open(f"{terms['folder']}/{name_of(context)}", "a") as file:
        print(json.dumps([message.content.config_records["config"]["server-round"], os.getpid(), float(loss)]), file=file)
    time.sleep(terms.get("seconds", 0))
    content = {key: ArrayRecord({name: Array(np.asarray(array)) for name, array in arrays.items()})}
    return Message(RecordDict({**content, "metrics": MetricRecord({"num-examples": 100, "loss": loss})}), reply_to=message)
