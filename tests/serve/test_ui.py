"""`hushvec ui`: a free port, the page behind it, and a browser that is opened only if wanted."""

import os
import signal
import subprocess
import sys

import httpx
import pytest

from hushvec.cli import add_own
from hushvec.cli import serve as ui
from hushvec.cli._parser import CommandParser
from hushvec.serve.keys import new_key
from serve.services import TESTS, policy_fields, write_policy


def options(*words):
    parser = CommandParser(prog="hushvec")
    add_own(parser.add_subparsers(), "ui")
    return parser.parse_args(["ui", *words])


def test_it_serves_the_page_and_ends_when_told(tmp_path):
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "hushvec", "ui", "--policy", str(policy), "--no-browser"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = process.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:") and not address.startswith("http://127.0.0.1:0")
            assert "<title>hushvec</title>" in httpx.get(address).text
            assert httpx.get(address + "v1/budgets").json()["tenant"] == "alpha"
            assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 421
        finally:
            process.send_signal(signal.SIGINT)
            errors = process.communicate(timeout=120)[1]
    assert "Traceback" not in errors


def test_the_browser_is_opened_unless_told_not_to(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr(ui.webbrowser, "open", opened.append)
    monkeypatch.setattr("hushvec.serve.server.run_here", lambda policy, path, listening, ready: ready(4321))
    for words, shown in (((), ["http://127.0.0.1:4321/"]), (("--no-browser",), [])):
        opened.clear()
        asked = options(*words)
        assert asked.run(asked) == 0
        for thread in [one for one in ui.threading.enumerate() if one is not ui.threading.main_thread() and one.daemon]:
            thread.join(1)
        assert opened == shown and "http://127.0.0.1:4321/" in capsys.readouterr().out


def test_it_listens_on_loopback_with_keys_too(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr("hushvec.serve.server.run_here", lambda policy, path, listening, ready: seen.append(listening))
    policy = write_policy(tmp_path / "policy.yaml", policy_fields(tmp_path / "budget.sqlite", key=new_key()))
    asked = options("--policy", str(policy), "--port", "4321", "--no-browser")
    asked.run(asked)
    assert (seen[0].host, seen[0].port) == ("127.0.0.1", 4321)


def test_a_store_beside_a_policy_is_refused():
    asked = options("--policy", "p.yaml", "--store", "b.sqlite")
    with pytest.raises(ValueError, match="--store must be left out with --policy"):
        asked.run(asked)
