"""`PrivateRounds`: as many rounds as are paid for, over restarts and processes."""

import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec.accounting import compose
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.federated import PrivateRounds

TERMS = {"clip_norm": 1.0, "epsilon": 8.0, "delta": 1e-5, "persist_key": "client-7"}
UPDATE = {"weight": np.ones((3, 2), np.float32)}
CLIENT = """
import os, sys, numpy as np
from hushvec.federated import PrivateRounds
rounds = PrivateRounds(clip_norm=1.0, epsilon=8.0, delta=1e-5, rounds=4, persist_key="client-7", store=sys.argv[1])
for number in range(int(sys.argv[2])):
    print(rounds.release({"weight": np.ones((3, 2), np.float32)}).receipt.charge.sequence, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("rounds", [1, 3, 7, 1000])
def test_the_ledger_holds_the_rounds_and_not_one_more(rounds):
    private = PrivateRounds(rounds=rounds, store="memory", **TERMS)
    assert private.left == rounds
    receipts = [private.release(UPDATE).receipt for _ in range(min(rounds, 7))]
    if rounds > 7:
        assert private.left == rounds - 7
        return
    with pytest.raises(PrivacyBudgetExhaustedError):
        private.release(UPDATE)
    assert private.left == 0 and private.ledger.state().rows == 1 + rounds
    assert compose(receipts, delta=1e-5).epsilon <= 8.0
    assert hv.verify_charges(receipts, private.ledger.export()).status == "holds"


def test_a_killed_client_goes_on_where_it_was(tmp_path):
    """Three processes of one client, killed after 2, 1 and 1 rounds; the fourth may send nothing."""
    store, rows = tmp_path / "ledger.sqlite", []
    for count in (2, 1, 1):
        done = subprocess.run([sys.executable, "-c", CLIENT, str(store), str(count)], capture_output=True, text=True)
        assert done.returncode == -9, done.stderr
        rows += map(int, done.stdout.splitlines())
    assert rows == [2, 3, 4, 5]
    done = subprocess.run([sys.executable, "-c", CLIENT, str(store), "1"], capture_output=True, text=True)
    assert done.returncode == 1 and "PrivacyBudgetExhaustedError" in done.stderr and not done.stdout


@pytest.mark.parametrize("limits", [{"max_epsilon": 10.0}, {"max_rho": 10.0}])
def test_a_budget_pays_for_the_run_once(tmp_path, limits):
    budget = hv.PrivacyBudget(**limits)
    for _ in range(2):   # the client restarts
        private = PrivateRounds(rounds=4, store=tmp_path / "ledger.sqlite", budget=budget, **TERMS)
        private.release(UPDATE)
        assert budget.state().rows == 2
    spent = budget.state()
    assert private.left == 2 and 0 < budget.consumed() <= 8.0
    assert spent.consumed_epsilon in (None, 8.0) and spent.consumed_delta in (None, 1e-5)


def test_a_budget_that_is_too_small_refuses_the_first_round():
    private = PrivateRounds(rounds=4, store="memory", budget=hv.PrivacyBudget(max_epsilon=7.9), **TERMS)
    with pytest.raises(PrivacyBudgetExhaustedError):
        private.release(UPDATE)
    assert private.left == 4


def test_an_update_that_is_refused_costs_nothing():
    budget = hv.PrivacyBudget(max_epsilon=10.0)
    private = PrivateRounds(rounds=2, store="memory", budget=budget, **TERMS)
    with pytest.raises(ValueError, match=r"update\['weight'\] must be finite, got nan in row 0"):
        private.release({"weight": np.full(3, np.nan, np.float32)})
    assert private.left == 2 and budget.consumed() == 0.0


def test_a_ledger_of_another_run_is_refused(tmp_path):
    PrivateRounds(rounds=4, store=tmp_path / "ledger.sqlite", **TERMS)
    with pytest.raises(ValueError, match="max_rho"):
        PrivateRounds(rounds=5, store=tmp_path / "ledger.sqlite", **{**TERMS, "epsilon": 9.0})
