"""Secure aggregation: 100 clients, masks that cancel, and a server that learns the noisy mean and nothing else."""

import numpy as np

import hushvec as hv
from hushvec.secagg import Encoder

CLIENTS, DIMENSION = 100, 1000
encoder = Encoder(dimension=DIMENSION, clip_norm=1.0, bits=16, clients=CLIENTS, epsilon=2.0, delta=1e-5, dropouts=3)
print(encoder.guarantee)

rng = np.random.default_rng(0)
vectors = rng.standard_normal((CLIENTS, DIMENSION)) / DIMENSION**0.5 + 0.01
vectors /= np.maximum(1, np.linalg.norm(vectors, axis=1, keepdims=True))

# Each pair of clients shares a mask: one adds it, the other takes it off. The server sees uniform numbers.
sent = [encoder.encode(vector).astype(np.int64) for vector in vectors]
for first in range(CLIENTS):
    for second in range(first):
        mask = rng.integers(0, 2**16, encoder.length)
        sent[first] += mask
        sent[second] -= mask
mean = encoder.decode(np.sum(sent, axis=0) % 2**16)

error = np.mean((mean - vectors.mean(axis=0)) ** 2)
trusted = (hv.gaussian_sigma(2.0, 1e-5, 1.0) / CLIENTS) ** 2
print(f"mean squared error {error:.2e}; of a server that is trusted with the vectors {trusted:.2e}")
