"""`hushvec ui`: the service's page in the browser, on this machine alone."""

from __future__ import annotations

import argparse
import sys
import threading
import webbrowser
from pathlib import Path

from hushvec._util.lazy import needs_extra
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import print_json
from hushvec.cli._printable import say

_HOST = "127.0.0.1"


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "ui",
        run,
        description=(
            "Open a page to redact and rewrite documents, to see what an attacker reads from released vectors, and to read the\n"
            "ledger.\n\n"
            "Starts the service of `hushvec serve` on a free port of this machine and opens the browser. Rewritings are real\n"
            "releases, charged to the budget. Ctrl-C stops it."
        ),
        examples=(
            ("open the page", "hushvec ui"),
            ("with your own tenants and budgets", "hushvec ui --policy policy.yaml"),
            ("print the address only", "hushvec ui --no-browser"),
        ),
    )
    parser.add_argument("--policy", metavar="FILE", type=Path, help="YAML file with tenants, models and budgets")
    parser.add_argument("--store", metavar="STORE", help="without --policy: where ledgers are kept, a path or postgresql://...")
    parser.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="print the address and open nothing")


def run(options: argparse.Namespace) -> int:
    if options.store is not None and options.policy is not None:
        raise ValueError("--store must be left out with --policy, which names a store")
    with needs_extra("hushvec ui", "serve"):
        from hushvec.serve import server
        from hushvec.serve.policy import local_policy, read_policy
    policy = local_policy(options.store) if options.policy is None else read_policy(options.policy)
    listening = server.Listening(host=_HOST, port=options.port)

    def ready(port: int) -> None:
        _open(f"http://{_HOST}:{port}/", browser=not options.no_browser, as_json=options.json)

    print("starting; loading the models takes a moment", file=sys.stderr)
    server.run_here(policy, options.policy, listening, ready=ready)
    return 0


def _open(address: str, *, browser: bool, as_json: bool) -> None:
    if as_json:
        print_json({"address": address})
    else:
        say(address)
    sys.stdout.flush()
    if browser:  # in a thread: some browsers keep the call until they are closed
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
