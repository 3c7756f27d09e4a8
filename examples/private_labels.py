"""A survey without a trusted party: each answer is randomized locally, and the shares are estimated with their errors."""

import numpy as np

import hushvec as hv
from hushvec.mechanisms.randomized_response import RandomizedResponse
from hushvec.mechanisms.top_k import GumbelTopK

moods = ["calm", "tired", "anxious", "cheerful"]
mechanism = RandomizedResponse(epsilon=1.5, labels=moods)
print(*mechanism.describe(), sep="\n")

truth = np.random.default_rng(0).choice(moods, size=20_000, p=[0.45, 0.3, 0.2, 0.05])
answers = mechanism.respond(truth)

estimate = mechanism.estimate_frequencies(mechanism.count(answers))
for mood, share, error in zip(moods, estimate.frequencies, estimate.standard_errors):
    print(f"{mood:9} {share:6.1%} +- {error:.1%}   (true {np.mean(truth == mood):.1%})")

# Naming the two most frequent of many topics, where one person moves each count by at most 1.
topics = np.random.default_rng(1).poisson(40, size=500)
topics[[17, 230]] += 60
selection = GumbelTopK(k=2, epsilon=1.0, sensitivity=1.0)
print(*selection.describe(), sep="\n")
print("selected topics:", selection.select(topics), "on", hv.backends()["active"])
