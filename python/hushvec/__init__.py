"""Differential privacy for embedding vectors: exact noise at memory speed, with a receipt for every release.

    import hushvec as hv
    values, receipt = hv.privatize(embeddings, epsilon=8.0, delta=1e-5, clip_norm=1.0)

`import hushvec` loads the compiled core, nothing else; numpy comes with the first function that is used. Packages below it are
imported when they are first used: `hushvec.text`, `hushvec.retrieval`, `hushvec.training` and the others need no import of their own.
"""

from typing import TYPE_CHECKING

from hushvec._native import interpreter  # noqa: F401  # refuses subinterpreters, before the core is loaded

# isort: split
from hushvec._native._core import Generator
from hushvec._native._core import __version__ as __version__
from hushvec._util.lazy import at_first_use
from hushvec._util.moved import find_moved_modules, or_moved_module
from hushvec.errors import BudgetError, HushvecError, MissingExtraError, PrivacyBudgetExhaustedError, ReceiptError

if TYPE_CHECKING:
    from hushvec import accounting as accounting
    from hushvec import audit as audit
    from hushvec import budget as budget
    from hushvec import collect as collect
    from hushvec import data as data
    from hushvec import embedders as embedders
    from hushvec import integrations as integrations
    from hushvec import jobs as jobs
    from hushvec import mechanisms as mechanisms
    from hushvec import middleware as middleware
    from hushvec import noise as noise
    from hushvec import plot as plot
    from hushvec import receipts as receipts
    from hushvec import release as release
    from hushvec import retrieval as retrieval
    from hushvec import secure_memory as secure_memory
    from hushvec import serve as serve
    from hushvec import text as text
    from hushvec import training as training
    from hushvec._native.backends import backends, set_num_threads
    from hushvec.budget import PrivacyBudget
    from hushvec.mechanisms.labels import randomized_response
    from hushvec.mechanisms.recommend import Recommendation, recommend
    from hushvec.middleware import (
        calibrate_sensitivity,
        compose_embedding_middleware,
        dp_classification_middleware,
        dp_embedding_middleware,
        get_sensitivity,
        lookup_sensitivity,
        pii_redaction_middleware,
        wrap_classification_model,
        wrap_embedding_model,
    )
    from hushvec.noise import add_noise, gaussian_noise, l2_laplace_noise, laplacian_noise
    from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon, gaussian_sigma, laplace_scale
    from hushvec.noise.clipping import clip, clip_and_noise
    from hushvec.receipts import LedgerEntry, Receipt, Verification, verify_charges, verify_receipt
    from hushvec.receipts.labels import LabelReceipt
    from hushvec.release.labels import LabelRelease, privatize_labels
    from hushvec.release.vectors import Release, privatize

__all__ = [
    "BudgetError",
    "Generator",
    "HushvecError",
    "LabelReceipt",
    "LabelRelease",
    "LedgerEntry",
    "MissingExtraError",
    "PrivacyBudget",
    "PrivacyBudgetExhaustedError",
    "Receipt",
    "ReceiptError",
    "Recommendation",
    "Release",
    "Verification",
    "add_noise",
    "backends",
    "calibrate_sensitivity",
    "clip",
    "clip_and_noise",
    "compose_embedding_middleware",
    "dp_classification_middleware",
    "dp_embedding_middleware",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_noise",
    "gaussian_sigma",
    "get_sensitivity",
    "l2_laplace_noise",
    "laplace_scale",
    "laplacian_noise",
    "lookup_sensitivity",
    "pii_redaction_middleware",
    "privatize",
    "privatize_labels",
    "randomized_response",
    "recommend",
    "set_num_threads",
    "verify_charges",
    "verify_receipt",
    "wrap_classification_model",
    "wrap_embedding_model",
]

_PACKAGES = (
    "accounting",
    "audit",
    "budget",
    "collect",
    "data",
    "embedders",
    "integrations",
    "jobs",
    "mechanisms",
    "middleware",
    "noise",
    "plot",
    "receipts",
    "release",
    "retrieval",
    "secure_memory",
    "serve",
    "text",
    "training",
)

find_moved_modules()
Generator.__module__ = "hushvec"  # where users find it, in help() and in errors

# Imported at first use, numpy among them: a command line that prints its version needs none of it.
__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "LabelReceipt": "receipts.labels",
        "LabelRelease": "release.labels",
        "LedgerEntry": "receipts",
        "PrivacyBudget": "budget",
        "Receipt": "receipts",
        "Recommendation": "mechanisms.recommend",
        "Release": "release.vectors",
        "Verification": "receipts",
        "add_noise": "noise",
        "backends": "_native.backends",
        "calibrate_sensitivity": "middleware",
        "clip": "noise.clipping",
        "clip_and_noise": "noise.clipping",
        "compose_embedding_middleware": "middleware",
        "dp_classification_middleware": "middleware",
        "dp_embedding_middleware": "middleware",
        "gaussian_delta": "noise.calibration",
        "gaussian_epsilon": "noise.calibration",
        "gaussian_noise": "noise",
        "gaussian_sigma": "noise.calibration",
        "get_sensitivity": "middleware",
        "lookup_sensitivity": "middleware",
        "l2_laplace_noise": "noise",
        "laplace_scale": "noise.calibration",
        "laplacian_noise": "noise",
        "pii_redaction_middleware": "middleware",
        "privatize": "release.vectors",
        "privatize_labels": "release.labels",
        "randomized_response": "mechanisms.labels",
        "recommend": "mechanisms.recommend",
        "set_num_threads": "_native.backends",
        "verify_charges": "receipts",
        "verify_receipt": "receipts",
        "wrap_classification_model": "middleware",
        "wrap_embedding_model": "middleware",
    },
    below=_PACKAGES,
)
__getattr__ = or_moved_module(__getattr__)
