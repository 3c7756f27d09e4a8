"""Differential privacy for embedding vectors: exact noise at memory speed, with a receipt for every release.

    import hushvec as hv
    values, receipt = hv.privatize(embeddings, epsilon=8.0, delta=1e-5, clip_norm=1.0)

`import hushvec` loads the compiled core, nothing else; numpy comes with the first function that is used. Packages below it are
imported when they are first used: `hushvec.text`, `hushvec.retrieval`, `hushvec.training` and the others need no import of their own.
"""

from hushvec._native._core import Generator as _Generator
from hushvec._native._core import __version__ as __version__
from hushvec._util.lazy import at_first_use

# Numpy, too, is imported at first use: a command line that prints its version needs none of it.
with at_first_use(globals()):
    from hushvec import (  # isort: skip
        accounting as accounting, aggregates as aggregates, audit as audit, budget as budget, collect as collect,
        data as data, embedders as embedders, extend as extend, federated as federated, integrations as integrations,
        jobs as jobs, mechanisms as mechanisms, middleware as middleware, noise as noise, receipts as receipts,
        release as release, retrieval as retrieval, secagg as secagg, secure_memory as secure_memory, serve as serve,
        text as text, training as training,
    )
    from hushvec._native._core import Generator
    from hushvec._native.kernels import backends, set_num_threads
    from hushvec.budget import PrivacyBudget
    from hushvec.errors import BudgetError, HushvecError, MissingExtraError, PrivacyBudgetExhaustedError, ReceiptError
    from hushvec.mechanisms.randomized_response import randomized_response
    from hushvec.mechanisms.recommend import PublicData, Recommendation, recommend
    from hushvec.middleware import (  # isort: skip
        calibrate_sensitivity, compose_embedding_middleware, dp_classification_middleware, dp_embedding_middleware,
        get_sensitivity, lookup_sensitivity, pii_redaction_middleware, wrap_classification_model, wrap_embedding_model,
    )
    from hushvec.noise import add_noise, discrete_gaussian, discrete_laplacian, gaussian_noise, l2_laplace_noise, laplacian_noise
    from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon, gaussian_sigma, laplace_scale
    from hushvec.noise.fills import clip, clip_and_noise
    from hushvec.receipts import LedgerEntry, Receipt, Verification, verify_charges, verify_receipt
    from hushvec.receipts.labels import LabelReceipt
    from hushvec.release.labels import LabelRelease, privatize_labels
    from hushvec.release.vectors import Release, privatize

__all__ = [
    "BudgetError", "Generator", "HushvecError", "LabelReceipt", "LabelRelease", "LedgerEntry", "MissingExtraError",
    "PrivacyBudget", "PrivacyBudgetExhaustedError", "PublicData", "Receipt", "ReceiptError", "Recommendation", "Release",
    "Verification", "add_noise", "backends", "calibrate_sensitivity", "clip", "clip_and_noise", "compose_embedding_middleware",
    "discrete_gaussian", "discrete_laplacian", "dp_classification_middleware", "dp_embedding_middleware", "gaussian_delta",
    "gaussian_epsilon", "gaussian_noise", "gaussian_sigma", "get_sensitivity", "l2_laplace_noise", "laplace_scale",
    "laplacian_noise", "lookup_sensitivity", "pii_redaction_middleware", "privatize", "privatize_labels", "randomized_response",
    "recommend", "set_num_threads", "verify_charges", "verify_receipt", "wrap_classification_model", "wrap_embedding_model",
]

_Generator.__module__ = "hushvec"  # where users find it, in help() and in errors
