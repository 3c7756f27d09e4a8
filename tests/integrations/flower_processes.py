"""Flower's processes on loopback: a SuperLink, two SuperNodes, `flwr run`, and what is left when one of them is killed.

    python flower_processes.py FOLDER [page|spent|client|server]...

Takes minutes: Flower starts a process for every message. `make newest` runs it.
"""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import hushvec as hv
from hushvec.receipts import receipt_from_json

APP = Path(__file__).with_name("flower_app")
PAGE = Path(__file__).parents[2] / "docs/federated_server.md"
BIN = Path(sys.executable).parent
ROUNDS = 10


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Federation:
    """Processes that end with the block. What the app writes is read from FOLDER/server and FOLDER/client-NUMBER."""

    def __init__(self, folder, **terms):
        self.folder, self.port, self.running = folder, free_port(), {}
        (folder / "home").mkdir(parents=True)
        terms = {"folder": str(folder), "nodes": 2, "client": None, "server": None, **terms}
        self.environment = {
            **os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "FLWR_HOME": str(folder / "home"),
            "HUSHVEC_APP": json.dumps(terms), "FLWR_TELEMETRY_ENABLED": "0",
        }  # fmt: skip
        address = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        (folder / "home/config.toml").write_text(address)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for name in [*self.running]:
            self.kill(name)

    def start(self, name, *command):
        with open(self.folder / f"{name}.log", "ab") as log:
            self.running[name] = subprocess.Popen(
                [BIN / command[0], *command[1:]], env=self.environment, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )

    def start_link(self):
        self.start("link", "flower-superlink", "--insecure", "--port", str(self.port), "--disable-runtime-dependency-installation")
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            time.sleep(0.2)

    def start_node(self, number):
        node = ["--insecure", "--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
        self.start(f"node-{number}", "flower-supernode", *node, "--node-config", f"partition-id={number}")

    def run_app(self, config=f"rounds={ROUNDS}", app=APP):
        self.start("run", "flwr", "run", str(app), "--run-config", config, "--stream")

    def kill(self, name):
        """SIGKILL to the process and those that it started."""
        process = self.running.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def lines(self, name):
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]
        return []

    def told(self, kind):
        return [what for told, *what in self.lines("server") if told == kind]

    def wait(self, done, seconds=1200):
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise TimeoutError(f"{self.folder}: {[(path.name, path.read_text()[-2000:]) for path in self.folder.glob('*.log')]}")
            time.sleep(0.2)


def fallen(losses):
    assert losses[-1] < 0.9 * losses[0], losses
    return [round(loss, 3) for loss in losses]


def page(folder):
    """The three files of docs/federated_server.md, as a reader copies them."""
    text = PAGE.read_text().partition("## With Flower")[2]
    project, client, server = re.findall(r"^```(?:toml|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[:3]
    with Federation(folder) as here:
        (folder / "app").mkdir()
        for name, text in (("pyproject.toml", project), ("client.py", client), ("server.py", server)):
            (folder / "app" / name).write_text(text)
        here.start_link()
        for number in (0, 1):
            here.start_node(number)
        here.run_app("clients=2 rounds=2", folder / "app")
        said = folder / "run.log"
        here.wait(lambda: "receipt holds" in said.read_text())
        return {"accuracy": float(re.search(r"accuracy ([\d.]+) receipt holds", said.read_text())[1])}


def spent(folder):
    """Ledgers of five rounds, a run of ten: five replies of each client, paid for, and nothing but errors from round 6 on."""
    terms = {"clip_norm": 1.0, "noise_multiplier": 0.002, "delta": 1e-5, "rounds": 5, "store": str(folder / "ledgers.db")}
    with Federation(folder, model="logistic", client=terms) as here:
        here.start_link()
        for number in (0, 1):
            here.start_node(number)
        here.run_app()
        here.wait(lambda: here.told("done"))
        replies, losses = here.told("reply"), [loss for _, loss, _ in here.told("round")]
    assert len(replies) == 2 * ROUNDS
    assert [bool(content) for number, _, content, _ in replies] == [number <= 5 for number, *_ in replies]
    for number in (0, 1):
        receipts_match(folder / "ledgers.db", f"client-{number}", [known for *_, known in replies if known])
    return {"loss": fallen(losses), "errors after round 5": sum(not content for _, _, content, _ in replies)}


def killed_client(folder):
    """A client killed while it trains in round 3 and started again: another process and another node, and the same ledger."""
    terms = {"clip_norm": 1.0, "noise_multiplier": 0.002, "delta": 1e-5, "rounds": 5, "store": str(folder / "ledgers.db")}
    with Federation(folder, model="adapter", client=terms, seconds=2, timeout=60) as here:
        here.start_link()
        for number in (0, 1):
            here.start_node(number)
        here.run_app()
        here.wait(lambda: len(here.lines("client-0")) == 3)
        here.kill("node-0")
        here.start_node(0)
        here.wait(lambda: here.told("done"))
        replies, trained = here.told("reply"), here.lines("client-0")
        losses = [loss for _, loss, _ in here.told("round")]
    paid = [known for *_, known in replies if known]
    for number in (0, 1):
        receipts_match(folder / "ledgers.db", f"client-{number}", paid)
    with hv.PrivacyBudget.reopen("client-0", store=folder / "ledgers.db") as ledger:
        of_killed = {row["entry_hash"] for row in charges_of(ledger)}
    sent = [number for number, *_, known in replies if known and known["charge"]["entry_hash"] in of_killed]
    assert len(of_killed) == 5 >= len(sent) and min(sent) < 3 < max(sent), (len(of_killed), sent)
    return {"loss": fallen(losses), "trained": [number for number, *_ in trained], "paid": len(of_killed), "sent": sent}


def killed_server(folder):
    """SuperLink and ServerApp killed while clients train in round 4, and started again: ten rounds together, paid for once."""
    server = {"clip_norm": 1.0, "clients": 2, "noise_multiplier": 0.05, "delta": 1e-5, "rounds": ROUNDS}
    server |= {"journal": str(folder / "journal"), "adaptive": {"count_sigma": 0.5}}
    server["budget"] = {"max_rho": 2100.0, "persist_key": "study", "store": str(folder / "study.db")}   # the run costs 2000
    with Federation(folder, model="adapter", server=server, seconds=2) as here:
        here.start_link()
        for number in (0, 1):
            here.start_node(number)
        here.run_app()
        here.wait(lambda: len(here.lines("client-0")) == 4)
        here.kill("link")
        for name in ("run", "node-0", "node-1"):
            here.kill(name)
        before = here.told("round")
        here.start_link()
        for number in (0, 1):
            here.start_node(number)
        here.run_app(f"rounds={ROUNDS + 1}")
        here.wait(lambda: "PrivacyBudgetExhaustedError" in (here.folder / "run.log").read_text())
        rounds, left, trained = here.told("round"), here.told("left"), here.lines("client-0")
    receipts = [known for _, _, known in rounds if known]
    assert [known["steps"] for known in receipts] == list(range(1, ROUNDS + 1))
    assert left == [[ROUNDS], [ROUNDS - 3]] and len(before) == 4 and trained[-1][0] == ROUNDS - 3   # nobody is asked after
    last = receipt_from_json(json.dumps(receipts[-1]))
    with hv.PrivacyBudget.reopen("study", store=folder / "study.db") as budget:
        assert len(charges_of(budget)) == 1 and hv.verify_charges([last], budget.export()).status == "holds"
    assert hv.verify_receipt(last).status == "holds"
    clips = [round(known["clip_norm"], 3) for known in receipts]
    return {"loss": fallen([loss for _, loss, _ in rounds]), "clip norms": clips, "trained": [number for number, *_ in trained]}


def charges_of(ledger):
    return [row for row in ledger.export()["rows"] if row["kind"] == "charge"]


def receipts_match(store, key, known):
    """Every receipt that arrived and is of this ledger matches a charge of it; the ledger is spent."""
    with hv.PrivacyBudget.reopen(key, store=store) as ledger:
        own = [receipt_from_json(json.dumps(one)) for one in known if one["charge"]["ledger"] == ledger.state().ledger]
        assert hv.verify_charges(own, ledger.export()).status == "holds", hv.verify_charges(own, ledger.export())
        assert ledger.remaining() < 1e-6 * ledger.consumed()


CASES = {"page": page, "spent": spent, "client": killed_client, "server": killed_server}


def main():
    for name in sys.argv[2:] or CASES:
        begin = time.monotonic()
        print(name, json.dumps(CASES[name](Path(sys.argv[1]).resolve() / name)), f"{time.monotonic() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
