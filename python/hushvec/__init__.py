"""Differential privacy for embedding vectors: exact noise at memory speed, with a receipt for every release.

    import hushvec as hv
    values, receipt = hv.privatize(embeddings, epsilon=8.0, delta=1e-5, clip_norm=1.0)

`import hushvec` loads the compiled core, nothing else; numpy comes with the first function that is used. Packages below it are
imported when they are first used: `hushvec.text`, `hushvec.retrieval`, `hushvec.training` and the others need no import of their own.
"""

from typing import TYPE_CHECKING

from hushvec._native._core import Generator as _Generator
from hushvec._native._core import __version__ as __version__
from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec import accounting as accounting
    from hushvec import aggregates as aggregates
    from hushvec import audit as audit
    from hushvec import budget as budget
    from hushvec import collect as collect
    from hushvec import data as data
    from hushvec import embedders as embedders
    from hushvec import extend as extend
    from hushvec import federated as federated
    from hushvec import integrations as integrations
    from hushvec import jobs as jobs
    from hushvec import mechanisms as mechanisms
    from hushvec import middleware as middleware
    from hushvec import noise as noise
    from hushvec import receipts as receipts
    from hushvec import release as release
    from hushvec import retrieval as retrieval
    from hushvec import secagg as secagg
    from hushvec import secure_memory as secure_memory
    from hushvec import serve as serve
    from hushvec import text as text
    from hushvec import training as training
    from hushvec._native._core import Generator as Generator
    from hushvec._native.kernels import backends as backends
    from hushvec._native.kernels import set_num_threads as set_num_threads
    from hushvec.budget import PrivacyBudget as PrivacyBudget
    from hushvec.errors import BudgetError as BudgetError
    from hushvec.errors import HushvecError as HushvecError
    from hushvec.errors import MissingExtraError as MissingExtraError
    from hushvec.errors import PrivacyBudgetExhaustedError as PrivacyBudgetExhaustedError
    from hushvec.errors import ReceiptError as ReceiptError
    from hushvec.mechanisms.randomized_response import randomized_response as randomized_response
    from hushvec.mechanisms.recommend import PublicData as PublicData
    from hushvec.mechanisms.recommend import Recommendation as Recommendation
    from hushvec.mechanisms.recommend import recommend as recommend
    from hushvec.middleware import calibrate_sensitivity as calibrate_sensitivity
    from hushvec.middleware import compose_embedding_middleware as compose_embedding_middleware
    from hushvec.middleware import dp_classification_middleware as dp_classification_middleware
    from hushvec.middleware import dp_embedding_middleware as dp_embedding_middleware
    from hushvec.middleware import get_sensitivity as get_sensitivity
    from hushvec.middleware import lookup_sensitivity as lookup_sensitivity
    from hushvec.middleware import pii_redaction_middleware as pii_redaction_middleware
    from hushvec.middleware import wrap_classification_model as wrap_classification_model
    from hushvec.middleware import wrap_embedding_model as wrap_embedding_model
    from hushvec.noise import add_noise as add_noise
    from hushvec.noise import discrete_gaussian as discrete_gaussian
    from hushvec.noise import discrete_laplacian as discrete_laplacian
    from hushvec.noise import gaussian_noise as gaussian_noise
    from hushvec.noise import l2_laplace_noise as l2_laplace_noise
    from hushvec.noise import laplacian_noise as laplacian_noise
    from hushvec.noise.calibration import gaussian_delta as gaussian_delta
    from hushvec.noise.calibration import gaussian_epsilon as gaussian_epsilon
    from hushvec.noise.calibration import gaussian_sigma as gaussian_sigma
    from hushvec.noise.calibration import laplace_scale as laplace_scale
    from hushvec.noise.fills import clip as clip
    from hushvec.noise.fills import clip_and_noise as clip_and_noise
    from hushvec.receipts import LedgerEntry as LedgerEntry
    from hushvec.receipts import Receipt as Receipt
    from hushvec.receipts import Verification as Verification
    from hushvec.receipts import verify_charges as verify_charges
    from hushvec.receipts import verify_receipt as verify_receipt
    from hushvec.receipts.labels import LabelReceipt as LabelReceipt
    from hushvec.release.labels import LabelRelease as LabelRelease
    from hushvec.release.labels import privatize_labels as privatize_labels
    from hushvec.release.vectors import Release as Release
    from hushvec.release.vectors import privatize as privatize

_Generator.__module__ = "hushvec"  # where users find it, in help() and in errors

# Every public name with its module. Imported at first use, numpy among them: a command line that prints its version needs none of it.
__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "_native._core": "Generator",
        "_native.kernels": "backends set_num_threads",
        "budget": "PrivacyBudget",
        "errors": "BudgetError HushvecError MissingExtraError PrivacyBudgetExhaustedError ReceiptError",
        "mechanisms.randomized_response": "randomized_response",
        "mechanisms.recommend": "PublicData Recommendation recommend",
        "middleware": (
            "calibrate_sensitivity compose_embedding_middleware dp_classification_middleware dp_embedding_middleware "
            "get_sensitivity lookup_sensitivity pii_redaction_middleware wrap_classification_model wrap_embedding_model"
        ),
        "noise": "add_noise discrete_gaussian discrete_laplacian gaussian_noise l2_laplace_noise laplacian_noise",
        "noise.calibration": "gaussian_delta gaussian_epsilon gaussian_sigma laplace_scale",
        "noise.fills": "clip clip_and_noise",
        "receipts": "LedgerEntry Receipt Verification verify_charges verify_receipt",
        "receipts.labels": "LabelReceipt",
        "release.labels": "LabelRelease privatize_labels",
        "release.vectors": "Release privatize",
    },
    below=(
        "accounting", "aggregates", "audit", "budget", "collect", "data", "embedders", "extend", "federated", "integrations", "jobs",
        "mechanisms", "middleware", "noise", "receipts", "release", "retrieval",
        "secagg", "secure_memory", "serve", "text", "training",
    ),
)
