"""A Flower client: logistic regression on rows of its own. Nothing in it is about privacy."""

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


def rows_of(client):
    """200 invented rows and their labels; each client has others."""
    source = np.random.default_rng(client)
    rows = source.normal(size=(200, 20))
    return rows, (rows[:, :5].sum(1) + 0.5 * source.normal(size=200) > 0).astype(float)


@app.train()
def train(message, context):
    rows, labels = rows_of(context.node_config["partition-id"])
    weights = message.content["arrays"]["weights"].numpy()
    for _ in range(10):
        weights = weights - 0.1 * rows.T @ (1 / (1 + np.exp(-rows @ weights)) - labels) / 200
    arrays = ArrayRecord({"weights": Array(weights.astype("float32"))})
    return Message(RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 200})}), reply_to=message)
