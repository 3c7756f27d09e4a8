"""A budget that survives its process: the second session sees what the first one spent."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hushvec as hv


def open_budget():
    """The ledger "user-vectors" of the store that HUSHVEC_BUDGET_STORE names, or of the user's own."""
    return hv.PrivacyBudget(max_epsilon=10.0, persist_key="user-vectors")


def first_session():
    with open_budget() as budget:
        budget.consume(3.0)
        print("session 1 consumed", budget.consumed())
        sys.stdout.flush()
        os._exit(0)   # as if the power went: nothing is closed, nothing is written later


def second_session():
    with open_budget() as budget:
        print("session 2 finds consumed", budget.consumed(), "remaining", budget.remaining())


def main():
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HUSHVEC_BUDGET_STORE": str(Path(folder) / "budget.sqlite")}
        for session in ("first_session", "second_session"):
            subprocess.run([sys.executable, __file__, session], env=environment, check=True)


if __name__ == "__main__":
    {"first_session": first_session, "second_session": second_session}.get(sys.argv[1] if sys.argv[1:] else "", main)()
