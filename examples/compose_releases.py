"""The cost of a year of releases: the smallest valid epsilon, the theorem behind it, and an accountant that survives a restart."""

import json

from hushvec.accounting import Accountant, BoundedRangeDP, GaussianDP, PureDP, compose, gaussian_sigma_for

DELTA = 1e-5

# Twelve monthly embeddings of the same people, five yes-or-no questions, thirty private picks.
embeddings = GaussianDP(noise_multiplier=8.0)
year = [(embeddings, 12), (PureDP(epsilon=0.1), 5), (BoundedRangeDP(epsilon=0.2), 30)]
print(compose(year, delta=DELTA))

print("\nTwelve Gaussian releases under epsilon = 2: sigma per release, at L2 sensitivity 2")
for composition in ("joint", "basic"):
    print(f"  {composition:6} {gaussian_sigma_for(12, 2.0, DELTA, 2.0, composition=composition):7.2f}")

accountant = Accountant()
print("\nEpsilon so far, month by month:")
for month in range(1, 13):
    accountant.add(embeddings)
    stored = json.dumps(accountant.to_dict())
    accountant = Accountant.from_dict(json.loads(stored))   # as after a restart
    print(f"  {month:2}  {accountant.epsilon(DELTA):.4f}")
