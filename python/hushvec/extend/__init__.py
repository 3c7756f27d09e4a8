"""What a mechanism, a store or a release of your own is made of, and checks of what they promise: docs/extend.md is the guide.

`check_mechanism`, `check_store` and `check_release` try them. For a mechanism here are its base and the register, for a store the
interface of ledgers (that of an index's rows is in `hushvec.retrieval.stores`), for a release its steps: plan, charge, release.
`hushvec.extend.helpers` has what programs around them use. Everything is imported at first use.
"""

from hushvec._util.lazy import at_first_use

_MOVED = ("hushvec.extend.helpers", "hushvec.receipts", "hushvec.mechanisms", "hushvec.budget", "hushvec.accounting")

with at_first_use(globals(), moved=_MOVED):
    from hushvec._native.kernels import require_generator
    from hushvec.budget.rows import Row
    from hushvec.budget.store import Store, StoreFailure
    from hushvec.extend.checking import check_mechanism, float32_at_least, uniform_integers
    from hushvec.extend.checking_releases import check_release
    from hushvec.extend.checking_stores import check_store
    from hushvec.mechanisms import VectorMechanism, known_mechanisms, register, registered
    from hushvec.mechanisms.base import result_of
    from hushvec.receipts.base import ReceiptFields, key_fields, release_sheet, rows_per_person
    from hushvec.receipts.labels import RowReceipt, released_rows
    from hushvec.release.charging import (  # isort: skip
        Budget, ChargeOnce, NotCopied, entry_of_charge, require_budget, require_people, require_secret_key,
    )
    from hushvec.release.labels import LabelPlan, plan_labels
    from hushvec.release.vectors import ReleasePlan, charge, plan_release, release_planned, require_chargeable, require_projection

__all__ = [
    "Budget", "ChargeOnce", "LabelPlan", "NotCopied", "ReceiptFields", "ReleasePlan", "Row", "RowReceipt", "Store",
    "StoreFailure", "VectorMechanism", "charge", "check_mechanism", "check_release", "check_store", "entry_of_charge",
    "float32_at_least", "key_fields", "known_mechanisms", "plan_labels", "plan_release", "register", "registered",
    "release_planned", "release_sheet", "released_rows", "require_budget", "require_chargeable", "require_generator",
    "require_people", "require_projection", "require_secret_key", "result_of", "rows_per_person", "uniform_integers",
]
