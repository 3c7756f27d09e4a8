"""Services for tests: a policy in few words, the application in this process, or a server of its own."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import yaml
from starlette.testclient import TestClient

from hushvec.serve.app import create_app
from hushvec.serve.keys import hash_of
from hushvec.serve.policy import policy_of

TESTS = Path(__file__).parents[1]
_TOYS = ("words", "broken", "not_finite", "of_changing_width")
MODELS = {name: {"kind": "python", "object": f"serve.toy_models:{name}"} for name in _TOYS}
STARTS_WITHIN = 120.0



def policy_fields(store, *, key=None, epsilon=1.0, limit=1000.0, **tenant):
    """One tenant `alpha`, with a key if one is given."""
    keys = [] if key is None else [hash_of(key)]
    fields = {"keys": keys, "models": list(MODELS), "epsilon": epsilon, "budget": {"epsilon": limit}, **tenant}
    return {"version": 1, "store": str(store), "models": MODELS, "tenants": {"alpha": fields}}


def client_of(fields):
    """A client of the application in this process."""
    return TestClient(create_app(policy_of(fields, "policy")), base_url="http://localhost", raise_server_exceptions=False)


@contextlib.contextmanager
def server(policy_file, port, *, log, workers=1):
    """A server process; yields it once it is ready."""
    process = start(policy_file, port, log=log, workers=workers)
    try:
        wait_until_ready(process, port)
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(60)


def start(policy_file, port, *, log, workers=1):
    # Threads of a model that wait for each other by turning round take minutes where others compute.
    own = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    environment = {**os.environ, **own}
    command = [sys.executable, "-m", "hushvec", "serve", "--policy", str(policy_file), "--port", str(port), "--workers", str(workers)]
    with open(log, "ab") as file:
        return subprocess.Popen(command, env=environment, stdout=file, stderr=file)


def wait_until_ready(process, port):
    until = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < until:
        assert process.poll() is None, "the server ended"
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the server did not become ready")


def free_port():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def write_policy(path, fields):
    path.write_text(yaml.safe_dump(fields))
    return path


def charges(store):
    """What all ledgers of a store were charged."""
    from hushvec.budget import PrivacyBudget, budget_keys

    found = []
    for key in budget_keys(store):
        with PrivacyBudget.reopen(key, store=store) as budget:
            assert budget.verify().holds
            rows = budget.export()["rows"]
            found += [row for row in rows if row["kind"] == "charge"]
    return found
