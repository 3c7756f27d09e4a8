"""All rows of a release belong to one person: per="release" accounts for them jointly."""

import numpy as np

import hushvec as hv

diary = np.random.default_rng(1).standard_normal((30, 384)).astype(np.float32)

for per in ("record", "release"):
    receipt = hv.privatize(diary, epsilon=20.0, delta=1e-5, normalize=True, per=per).receipt
    print(f"{per:8} sensitivity {receipt.sensitivity:.4f}  sigma {receipt.sigma:.4f}  notes {list(receipt.notes)}")
