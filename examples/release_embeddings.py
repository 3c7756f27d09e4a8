"""Release a batch of embeddings, keep the receipt, check it."""

import numpy as np

import hushvec as hv

embeddings = np.random.default_rng(0).standard_normal((1000, 384)).astype(np.float32)

values, receipt = hv.privatize(embeddings, epsilon=16.0, delta=1e-5, normalize=True)

print(values.shape, values.dtype)
print(receipt.to_json())

status, reasons = hv.verify_receipt(receipt)
print(status, *reasons, sep="\n  ")
