"""Two models of the size of real ones, in numpy: parameters, and one client's training, which says its loss before."""

import numpy as np

RANK, WIDTH, LAYERS, RATE = 4, 128, 4, 0.001


def logistic(client=None):
    """784 -> 10 on invented digits."""
    centers = np.random.default_rng(0).normal(size=(10, 784))
    parameters = {"weight": np.zeros((784, 10), np.float32), "bias": np.zeros(10, np.float32)}
    source = np.random.default_rng(client)
    labels = source.integers(0, 10, 100)
    rows = 0.05 * (centers[labels] + source.normal(size=(100, 784)))

    def train(now, steps=5):
        now, loss = {name: array.astype("float64") for name, array in now.items()}, None
        for _ in range(steps):
            scores = rows @ now["weight"] + now["bias"]
            shares = np.exp(scores - scores.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            loss = loss or -np.log(shares[range(100), labels]).mean()
            shares[range(100), labels] -= 1
            now["weight"] -= 0.1 * rows.T @ shares / 100
            now["bias"] -= 0.1 * shares.mean(0)
        return {name: array.astype("float32") for name, array in now.items()}, loss

    return parameters, train


def adapter(client=None):
    """Low-rank matrices beside the frozen ones of four layers, and the number of batches seen, as a whole number."""
    frozen = np.random.default_rng(0)
    inputs = np.random.default_rng(client).normal(size=(50, 16)) @ frozen.normal(size=(16, WIDTH)) / 16
    targets = [inputs @ (frozen.normal(size=(WIDTH, RANK)) @ frozen.normal(size=(RANK, WIDTH))) / RANK for _ in range(LAYERS)]
    parameters = {"batches": np.array(0)}
    for layer in range(LAYERS):
        parameters[f"layers.{layer}.lora_A"] = (frozen.normal(size=(RANK, WIDTH)) / WIDTH**0.5).astype("float32")
        parameters[f"layers.{layer}.lora_B"] = np.zeros((WIDTH, RANK), np.float32)

    def train(now, steps=5):
        now, loss = {**now, "batches": now["batches"] + steps}, 0.0
        for layer, target in enumerate(targets):
            down, up = (now[f"layers.{layer}.lora_{side}"].astype("float64") for side in "AB")
            for step in range(steps):
                missing = inputs @ down.T @ up.T - target
                loss += (missing**2).mean() * (step == 0)
                up, down = up - RATE * missing.T @ (inputs @ down.T), down - RATE * (missing @ up).T @ inputs
            now[f"layers.{layer}.lora_A"], now[f"layers.{layer}.lora_B"] = down.astype("float32"), up.astype("float32")
        return now, loss

    return parameters, train


MODELS = {"logistic": logistic, "adapter": adapter}
