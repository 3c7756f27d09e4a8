"""What a mechanism or a release of your own is made of, and what hushvec's own packages and its studies use of one another.

`check_mechanism` tries what a mechanism promises: docs/extend.md is the guide. For releases here are the steps (plan, charge,
release), the receipt, ledgers and where they are kept, and helpers: inner products whose bits depend on nothing but their own
rows, exact intervals, files that appear whole or not at all, the tables that `print` shows. Everything is imported at first use.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec._native.kernels import require_generator
    from hushvec._native.products import inner_products, product
    from hushvec._util.display import Progress, Sheet, number, plural, share, shown
    from hushvec._util.lazy import needs_extra
    from hushvec._util.lines import (
        SHIPPED_NOTES,
        SHIPPED_SENTENCES,
        decoded,
        distinct_texts,
        json_record,
        numbered_lines,
        require_utf8,
        shipped_texts,
        texts_of_file,
    )
    from hushvec._util.publish import (
        PRIVATE,
        SHARED,
        private_folder,
        private_opener,
        published_bytes,
        published_folder,
        published_text,
    )
    from hushvec._util.statistics import Estimate, clopper_pearson, clopper_pearson_lower
    from hushvec._util.validate import nearest, nearest_of
    from hushvec.accounting.closed_forms import zcdp_epsilon
    from hushvec.accounting.composition import COMPOSITIONS
    from hushvec.accounting.correlated import CorrelatedNoise
    from hushvec.accounting.pld import rough_epsilon
    from hushvec.accounting.releases import SampleRange
    from hushvec.budget.arguments import MEMORY, default_file, default_store, file_of, open_store
    from hushvec.budget.charge import budget_row
    from hushvec.budget.rows import POLICIES
    from hushvec.budget.store import Store, StoreFailure
    from hushvec.extend.checking import check_mechanism, float32_at_least, uniform_integers
    from hushvec.mechanisms import (
        VectorMechanism,
        answers_with_codes,
        known_mechanisms,
        priced_mechanisms,
        register,
        registered,
        releases_directions,
        takes_integers,
    )
    from hushvec.mechanisms.base import result_of
    from hushvec.mechanisms.codebook import found_share
    from hushvec.mechanisms.privunit import top_1_probability
    from hushvec.mechanisms.public_arrays import load_npz, nearest_codes, save_npz, unit_public_rows
    from hushvec.mechanisms.top_1 import top_1_sentence
    from hushvec.receipts.aggregates import squared_mu
    from hushvec.receipts.base import (
        DOES_NOT_HOLD,
        HALF_WORDS,
        HOLDS,
        NOT_A_CLAIM,
        NOTE_FLOAT,
        NOTE_SEED,
        PER,
        ROUNDS,
        ReceiptFields,
        cipher_fields,
        key_fields,
        release_sheet,
        rows_per_person,
        sheet_of,
    )
    from hushvec.receipts.labels import RowReceipt, released_rows, row_receipt
    from hushvec.receipts.reports import instantaneous_epsilon, permanent_epsilon
    from hushvec.receipts.training import CLIPPED, NOTE_CLIENTS, NOTE_NOISE_FREE, sensitivity_factor, step_loss
    from hushvec.receipts.vectors import INT8
    from hushvec.receipts.verify import units_differ
    from hushvec.release.charging import (
        Budget,
        ChargeOnce,
        NotCopied,
        entry_of_charge,
        require_budget,
        require_people,
        require_secret_key,
    )
    from hushvec.release.labels import LabelPlan, plan_labels
    from hushvec.release.vectors import ReleasePlan, charge, plan_release, release_planned, require_chargeable, require_projection

__all__ = [
    "CLIPPED", "COMPOSITIONS", "DOES_NOT_HOLD", "HALF_WORDS", "HOLDS", "INT8", "MEMORY", "NOTE_CLIENTS", "NOTE_FLOAT",
    "NOTE_NOISE_FREE", "NOTE_SEED", "NOT_A_CLAIM", "PER", "POLICIES", "PRIVATE", "ROUNDS", "SHARED", "SHIPPED_NOTES",
    "SHIPPED_SENTENCES", "Budget", "ChargeOnce", "CorrelatedNoise", "Estimate", "LabelPlan", "NotCopied", "Progress",
    "ReceiptFields", "ReleasePlan", "RowReceipt", "SampleRange", "Sheet", "Store", "StoreFailure", "VectorMechanism",
    "answers_with_codes", "budget_row", "charge", "check_mechanism", "cipher_fields", "clopper_pearson",
    "clopper_pearson_lower", "decoded", "default_file", "default_store", "distinct_texts", "entry_of_charge", "file_of",
    "float32_at_least", "found_share", "inner_products", "instantaneous_epsilon", "json_record", "key_fields",
    "known_mechanisms", "load_npz", "nearest", "nearest_codes", "nearest_of", "needs_extra", "number", "numbered_lines",
    "open_store", "permanent_epsilon", "plan_labels", "plan_release", "plural", "priced_mechanisms", "private_folder",
    "private_opener", "product", "published_bytes", "published_folder", "published_text", "register", "registered",
    "release_planned", "release_sheet", "released_rows", "releases_directions", "require_budget", "require_chargeable",
    "require_generator", "require_people", "require_projection", "require_secret_key", "require_utf8", "result_of",
    "rough_epsilon", "row_receipt", "rows_per_person", "save_npz", "sensitivity_factor", "share", "sheet_of",
    "shipped_texts", "shown", "squared_mu", "step_loss", "takes_integers", "texts_of_file", "top_1_probability",
    "top_1_sentence", "uniform_integers", "unit_public_rows", "units_differ", "zcdp_epsilon",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "hushvec._native.kernels": "require_generator",
        "hushvec._native.products": "inner_products product",
        "hushvec._util.display": "Progress Sheet number plural share shown",
        "hushvec._util.lazy": "needs_extra",
        "hushvec._util.lines": (
            "SHIPPED_NOTES SHIPPED_SENTENCES decoded distinct_texts json_record numbered_lines require_utf8 shipped_texts "
            "texts_of_file"
        ),
        "hushvec._util.publish": "PRIVATE SHARED private_folder private_opener published_bytes published_folder published_text",
        "hushvec._util.statistics": "Estimate clopper_pearson clopper_pearson_lower",
        "hushvec._util.validate": "nearest nearest_of",
        "hushvec.accounting.closed_forms": "zcdp_epsilon",
        "hushvec.accounting.composition": "COMPOSITIONS",
        "hushvec.accounting.correlated": "CorrelatedNoise",
        "hushvec.accounting.pld": "rough_epsilon",
        "hushvec.accounting.releases": "SampleRange",
        "hushvec.budget.arguments": "MEMORY default_file default_store file_of open_store",
        "hushvec.budget.charge": "budget_row",
        "hushvec.budget.rows": "POLICIES",
        "hushvec.budget.store": "Store StoreFailure",
        "hushvec.extend.checking": "check_mechanism float32_at_least uniform_integers",
        "hushvec.mechanisms": (
            "VectorMechanism answers_with_codes known_mechanisms priced_mechanisms register registered releases_directions "
            "takes_integers"
        ),
        "hushvec.mechanisms.base": "result_of",
        "hushvec.mechanisms.codebook": "found_share",
        "hushvec.mechanisms.privunit": "top_1_probability",
        "hushvec.mechanisms.public_arrays": "load_npz nearest_codes save_npz unit_public_rows",
        "hushvec.mechanisms.top_1": "top_1_sentence",
        "hushvec.receipts.aggregates": "squared_mu",
        "hushvec.receipts.base": (
            "DOES_NOT_HOLD HALF_WORDS HOLDS NOTE_FLOAT NOTE_SEED NOT_A_CLAIM PER ROUNDS ReceiptFields cipher_fields "
            "key_fields release_sheet rows_per_person sheet_of"
        ),
        "hushvec.receipts.labels": "RowReceipt released_rows row_receipt",
        "hushvec.receipts.reports": "instantaneous_epsilon permanent_epsilon",
        "hushvec.receipts.training": "CLIPPED NOTE_CLIENTS NOTE_NOISE_FREE sensitivity_factor step_loss",
        "hushvec.receipts.vectors": "INT8",
        "hushvec.receipts.verify": "units_differ",
        "hushvec.release.charging": (
            "Budget ChargeOnce NotCopied entry_of_charge require_budget require_people require_secret_key"
        ),
        "hushvec.release.labels": "LabelPlan plan_labels",
        "hushvec.release.vectors": "ReleasePlan charge plan_release release_planned require_chargeable require_projection",
    },
)
