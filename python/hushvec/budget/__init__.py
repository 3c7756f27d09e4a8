"""Privacy budgets: a ledger that is charged before anything is released, with a filter that refuses what does not fit.

    budget = PrivacyBudget(max_epsilon=10.0, persist_key="notes")
    release = hv.privatize(x, epsilon=1.0, budget=budget)

docs/budget.md is the guide and describes the rows and the export field by field; docs/proofs/budget_filter.md proves the
filter's guarantee.
"""

from hushvec.budget.arguments import MEMORY, default_file, default_store, file_of, open_store
from hushvec.budget.chain import ChainReport, Head, export_head, verify_export
from hushvec.budget.charge import BudgetState, Charge, budget_row
from hushvec.budget.ledger import PrivacyBudget, budget_keys, verify_ledger
from hushvec.budget.rows import POLICIES, implied_epsilon

__all__ = [
    "MEMORY", "POLICIES", "BudgetState", "ChainReport", "Charge", "Head", "PrivacyBudget", "budget_keys", "budget_row",
    "default_file", "default_store", "export_head", "file_of", "implied_epsilon", "open_store", "verify_export", "verify_ledger",
]
