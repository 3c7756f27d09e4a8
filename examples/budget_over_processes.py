"""One budget for several processes: they release until it is spent."""

import multiprocessing
import tempfile
from pathlib import Path

import numpy as np

import hushvec as hv
from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError

EPSILON = 1.5


def release_until_spent(budget):
    """Number of releases that this process could charge to the budget."""
    embeddings = np.random.default_rng().standard_normal((10, 384)).astype(np.float32)
    released = 0
    with budget:
        while True:
            try:
                hv.privatize(embeddings, epsilon=EPSILON, delta=1e-6, normalize=True, budget=budget)
            except PrivacyBudgetExhaustedError:
                return released
            released += 1


def main():
    with tempfile.TemporaryDirectory() as folder:
        budget = PrivacyBudget(max_epsilon=12.0, persist_key="notes", store=Path(folder) / "budget.sqlite")
        with multiprocessing.get_context("spawn").Pool(3) as pool:
            released = pool.map(release_until_spent, [budget] * 3)

        print(f"releases by process: {released}, together {sum(released)} of epsilon {EPSILON}")
        print(f"consumed {budget.consumed()}, remaining {budget.remaining()}, delta {budget.consumed_delta()}")
        report = budget.verify()
        print(f"chain holds: {report.holds}, {report.rows} rows, the last with hash {report.head.entry_hash[:16]}...")
        budget.close()


if __name__ == "__main__":
    main()
