"""The service is killed under 16 clients with retries: never overspent, one release for a key, a charge behind every answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.reference.sizes import scaled
from postgres_server import PostgresServer, why_not

PROGRAM = Path(__file__).with_name("crash_rounds.py")
ROUNDS = scaled(2, 200)
REACHED = scaled(10.0, 500.0)   # a limit in the middle of all rounds
NEVER_REACHED = 1e6
FAULTS = ("overspent", "different", "unpaid", "repeated")


def rounds(store, folder, limit):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROGRAM.parents[1]), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, PROGRAM, store, folder, "--rounds", str(ROUNDS), "--limit", str(limit)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


CASES = [
    ("sqlite", REACHED),
    pytest.param("sqlite", NEVER_REACHED, marks=pytest.mark.full),
    pytest.param("postgresql", REACHED, marks=pytest.mark.full),
    pytest.param("postgresql", NEVER_REACHED, marks=pytest.mark.full),
]


@pytest.mark.parametrize("kind, limit", CASES)
def test_rounds(kind, limit, tmp_path):
    if kind == "sqlite":
        found = rounds(tmp_path / "budget.sqlite", tmp_path, limit)
    else:
        if reason := why_not():
            pytest.skip(reason)
        with PostgresServer() as server:
            found = rounds(server.url, tmp_path, limit)
    assert dict.fromkeys(FAULTS, 0) == {fault: found[fault] for fault in FAULTS}, found
    assert found["answered"] > 10 and found["answered"] <= found["rows"]
    if limit == REACHED:
        assert found["epsilon"] <= limit and "402" in found["statuses"]
