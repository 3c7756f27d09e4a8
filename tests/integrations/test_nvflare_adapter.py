"""NVFlare's filter: only noisy updates leave, in its own classes and in its simulator."""

import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")

import psutil
from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import make_reply

import hushvec as hv
from hushvec.integrations.nvflare import RECEIPT, PrivateUpdates
from hushvec.receipts.verify import receipt_from_json

TERMS = {"clip_norm": 1.0, "delta": 1e-5, "rounds": 3, "epsilon": 8.0}


def private(**terms):
    return PrivateUpdates(**{**TERMS, "persist_key": "site", "store": "memory", **terms})


def update(value=0.25, kind=DataKind.WEIGHT_DIFF, **meta):
    return DXO(kind, {"w": np.full((3, 4), value, np.float32), "b": np.zeros(4, np.float64)}, meta).to_shareable()


def test_an_update_leaves_noisy_and_alone():
    result = update(NUM_STEPS_CURRENT_ROUND=17, loss=0.3)
    result["secret"] = "John has measles"
    result.set_header("examples", 17)
    sent = private().process(result, FLContext())
    dxo = from_shareable(sent)
    assert (dxo.data["w"].shape, dxo.data["w"].dtype, dxo.data["b"].dtype) == ((3, 4), np.float32, np.float64)
    assert (dxo.data["w"] != 0.25).sum() > 6 and dxo.data["b"].any()
    assert sorted(dxo.meta) == ["filter_history", RECEIPT]
    assert "measles" not in str(sent) and sent.get_header("examples") is None
    receipt = receipt_from_json(dxo.meta[RECEIPT])
    assert hv.verify_receipt(receipt).status == "holds" and receipt.sensitivity == 2.0 and receipt.is_dp_claim


def test_rounds_beyond_the_ledger_are_refused():
    chosen = private(rounds=2)
    for _ in range(2):
        chosen.process(update(), FLContext())
    with pytest.raises(hv.errors.PrivacyBudgetExhaustedError):
        chosen.process(update(), FLContext())


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (update(kind=DataKind.WEIGHTS), "data_kind must be WEIGHT_DIFF: send differences of weights, got WEIGHTS"),
        (DXO(DataKind.METRICS, {"accuracy": 0.9}).to_shareable(), "data_kind must be WEIGHT_DIFF"),
        (DXO(DataKind.COLLECTION, {"one": DXO(DataKind.WEIGHT_DIFF, {"w": np.ones(2)})}).to_shareable(), "data_kind must be"),
        (DXO(DataKind.WEIGHT_DIFF, {}, {"loss": 0.3}).to_shareable(), "update must hold at least 1 array, got none"),
        (DXO(DataKind.WEIGHT_DIFF, {"w": np.array([np.nan])}).to_shareable(), r"update\['w'\] must be finite"),
        (make_reply(ReturnCode.OK), "not a valid DXO"),
    ],
)
def test_what_is_not_an_update_goes_nowhere(result, message):
    chosen = private(rounds=1)
    with pytest.raises(ValueError, match=message):
        chosen.process(result, FLContext())
    chosen.process(update(), FLContext())  # nothing was charged


def test_a_failed_task_says_its_code_alone():
    failed = update()
    failed.set_return_code(ReturnCode.EXECUTION_EXCEPTION)
    sent = private().process(failed, FLContext())
    assert sent.get_return_code() == ReturnCode.EXECUTION_EXCEPTION and "DXO" not in sent


@pytest.mark.parametrize(
    ("terms", "error", "message"),
    [
        ({"clip_norm": 0.0}, ValueError, "clip_norm must be"),
        ({"rounds": 0}, ValueError, "rounds must be"),
        ({"noise_multiplier": 1.0}, TypeError, "epsilon or noise_multiplier must be given, got both"),
        ({"epsilon": None}, TypeError, "epsilon or noise_multiplier must be given, got neither"),
    ],
)
def test_bad_terms_are_refused_when_the_job_is_made(terms, error, message):
    with pytest.raises(error, match=message):
        PrivateUpdates(**{**TERMS, **terms})


def test_a_site_without_a_name_needs_a_ledgers_name():
    with pytest.raises(ValueError, match="persist_key must be given where the site has no name"):
        private(persist_key=None).process(update(), FLContext())


def simulated(*arguments):
    """The simulator with job.py, in a process of its own."""
    program = Path(__file__).parent / "nvflare_job/job.py"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(program), *map(str, arguments)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def kill(process):
    """It and what it started: sites are processes, in sessions of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for one in [*psutil.Process(process.pid).children(recursive=True), process]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()


def end_of(process):
    """What it said. Nothing of it outlives the call."""
    try:
        return process.communicate(timeout=300)[0]
    finally:
        kill(process)


def rounds_of(folder, site):
    """(process, loss before) of each of the site's trainings."""
    path = folder / site
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.full
@pytest.mark.parametrize("model", ["logistic", "adapter"])
def test_ten_rounds_with_ledgers_for_five_and_a_simulator_killed_in_the_third(tmp_path, model):
    """The second simulator goes on with the model and the ledgers: five updates of each site in all, and none after."""
    first = simulated(tmp_path, model)
    while first.poll() is None and len(rounds_of(tmp_path, "site-1")) < 3:
        time.sleep(0.05)
    kill(first)
    end_of(first)
    assert "PrivacyBudgetExhaustedError" in end_of(simulated(tmp_path, model))
    for site in ("site-1", "site-2"):
        trained = rounds_of(tmp_path, site)
        before = [process for process, _ in trained].count(trained[0][0])
        assert 2 <= before <= 4 and len({process for process, _ in trained}) == 2 and trained[-1][1] < 0.95 * trained[0][1]
        with hv.PrivacyBudget.reopen(f"nvflare/{site}", store=f"sqlite:///{tmp_path}/ledgers.db") as ledger:
            assert sum(row["kind"] == "charge" for row in ledger.export()["rows"]) == 5
            assert ledger.remaining() < 1e-6 * ledger.consumed()


def test_the_simulator(tmp_path):
    """Two sites, four rounds, ledgers for two: the third round brings nothing, and the job's files hold no update without noise."""
    said = end_of(simulated(tmp_path))
    assert "PrivacyBudgetExhaustedError" in said
    job = json.loads((tmp_path / "job.json").read_text())
    assert job["args"] == {**TERMS, "rounds": 2, "store": f"sqlite:///{tmp_path}/ledgers.db"}
    model = np.load(tmp_path / "work/server/simulate_job/models/server.npy", allow_pickle=True)
    assert np.isfinite(model).all() and len(np.unique(model - np.floor(model))) > 5
    for site in ("site-1", "site-2"):
        with hv.PrivacyBudget.reopen(f"nvflare/{site}", store=f"sqlite:///{tmp_path}/ledgers.db") as ledger:
            assert ledger.remaining() < 1e-6
