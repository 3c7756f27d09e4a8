"""Privacy budgets: a ledger that is charged before anything is released, with a filter that refuses what does not fit.

    budget = PrivacyBudget(max_epsilon=10.0, persist_key="notes")
    release = hv.privatize(x, epsilon=1.0, budget=budget)

docs/budget.md is the guide and describes the rows and the export field by field; docs/proofs/budget_filter.md proves the
filter's guarantee.
"""

from hushvec.budget.chain import ChainReport, Head, export_head, verify_export
from hushvec.budget.charge import BudgetState, Charge
from hushvec.budget.ledger import PrivacyBudget, budget_keys, verify_ledger
from hushvec.budget.rows import implied_epsilon

__all__ = [
    "BudgetState",
    "ChainReport",
    "Charge",
    "Head",
    "PrivacyBudget",
    "budget_keys",
    "export_head",
    "implied_epsilon",
    "verify_export",
    "verify_ledger",
]
