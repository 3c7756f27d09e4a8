"""Differential privacy for embedding vectors: exact noise at memory speed, with a receipt for every release.

    import hushvec as hv
    values, receipt = hv.privatize(embeddings, epsilon=8.0, delta=1e-5, clip_norm=1.0)

`import hushvec` loads numpy and the compiled core, nothing else.
"""

from hushvec._backends import backends, set_num_threads
from hushvec._core import Generator
from hushvec._core import __version__ as __version__
from hushvec.calibrate import gaussian_delta, gaussian_epsilon, gaussian_sigma, laplace_scale
from hushvec.clip import clip, clip_and_noise
from hushvec.discrete import randomized_response
from hushvec.errors import MissingExtraError, ReceiptError
from hushvec.noise import add_noise, gaussian_noise, l2_laplace_noise, laplacian_noise
from hushvec.receipts import LedgerEntry, Receipt, Verification, verify_charges, verify_receipt
from hushvec.release import Release, privatize

__all__ = [
    "Generator",
    "LedgerEntry",
    "MissingExtraError",
    "Receipt",
    "ReceiptError",
    "Release",
    "Verification",
    "add_noise",
    "backends",
    "clip",
    "clip_and_noise",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise",
    "gaussian_sigma",
    "l2_laplace_noise",
    "laplace_scale",
    "laplacian_noise",
    "privatize",
    "randomized_response",
    "set_num_threads",
    "verify_charges",
    "verify_receipt",
]
