"""`hushvec serve`: private embeddings for every language, over HTTP; `hushvec ui`: its page in the browser, on this machine alone."""

from __future__ import annotations

import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from hushvec._util.lazy import needs_extra
from hushvec.cli._output import answered
from hushvec.cli._parser import Command, option
from hushvec.cli._style import printable
from hushvec.serve.keys import hash_of, new_key

if TYPE_CHECKING:
    from hushvec.serve.policy import Policy

_HERE = "127.0.0.1"
_DEFAULT_PORT = 8321
_LEVELS = ("debug", "info", "warning", "error")


class _OfPolicy(Command):
    policy: Path | None = option("YAML file with tenants, models and budgets", metavar="FILE")
    store: str | None = option("without --policy: where ledgers are kept, a path or postgresql://...", metavar="STORE")

    def read(self) -> Policy:
        """Return the policy of the file, or the local one."""
        if self.store is not None and self.policy is not None:
            raise ValueError("--store must be left out with --policy, which names a store")
        with needs_extra(self.prog, "serve"):
            from hushvec.serve import server  # noqa: F401  # which imports everything of the extra
            from hushvec.serve.policy import local_policy, read_policy
        return local_policy(self.store) if self.policy is None else read_policy(self.policy)


class Serve(_OfPolicy, name="serve", examples=(
    ("try it", "hushvec serve"),
    ("a new API key, and its hash for the policy", "hushvec serve --new-key"),
    ("is the policy right?", "hushvec serve --policy policy.yaml --check"),
)):
    """Serve private embeddings in the shape of OpenAI's endpoint, and releases of vectors and texts. Each request is charged
    to its tenant's budget before anything is released, and answered with a receipt.

    Without --policy there is one tenant with MiniLM and epsilon 8 for each request, for programs on this machine only. A
    policy names tenants, keys, models, mechanisms and budgets; it is read again when the file changes."""

    check: bool = option("read the policy, say what it means, and stop")
    new_key: bool = option("print a new API key and its hash, and stop")
    host: str = option(f"address to listen on (default {_HERE}); others need a policy with keys", _HERE)
    port: int = option("port to listen on", _DEFAULT_PORT)
    workers: int = option("processes that answer requests", 1)
    certificate: str | None = option("TLS certificate; with --private-key", metavar="FILE")
    private_key: str | None = option("its private key", metavar="FILE")
    log_level: str = option("what is logged; never what requests contain (default info)", "info", choices=_LEVELS)

    def run(self) -> int:
        if self.new_key:
            key = new_key()
            lines = f"key for the client, shown only now:  {key}", f"hash for the policy's keys:          {hash_of(key)}"
            return answered(self, {"key": key, "hash": hash_of(key)}, *lines)
        if self.check and self.policy is None:
            raise ValueError("--check must come with --policy")
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("--certificate and --private-key must be given together")
        policy = self.read()
        from hushvec.serve import server
        from hushvec.serve.reloading import require_usable

        listening = server.Listening(
            host=self.host, port=self.port, workers=self.workers, certificate=self.certificate, private_key=self.private_key
        )
        server.require_tls(listening)
        require_usable(policy, self.host)
        summary = _summary(policy)
        if self.check:
            tenants = {name: len(tenant.keys) for name, tenant in policy.tenants.items()}
            found = {"tenants": tenants, "operators": _operator_keys(policy), "models": sorted(policy.models)}
            return answered(self, found, *map(printable, summary))
        print("\n".join(summary), file=sys.stderr)
        server.run(policy, self.policy, listening, log_level=self.log_level)
        return 0


class Page(_OfPolicy, name="ui", examples=(
    ("open the page", "hushvec ui"),
    ("with your own tenants and budgets", "hushvec ui --policy policy.yaml"),
    ("print the address only", "hushvec ui --no-browser"),
)):
    """Open a page to redact and rewrite documents, to see what an attacker reads from released vectors, and to read the
    ledger.

    Starts the service of `hushvec serve` on a free port of this machine and opens the browser. Rewritings are real
    releases, charged to the budget. Ctrl-C stops it."""

    port: int = option("port to listen on (default: a free one)", 0)
    no_browser: bool = option("print the address and open nothing")

    def run(self) -> int:
        policy = self.read()
        from hushvec.serve import server

        print("starting; loading the models takes a moment", file=sys.stderr)
        server.run_here(policy, self.policy, server.Listening(host=_HERE, port=self.port), ready=self._ready)
        return 0

    def _ready(self, port: int) -> None:
        address = f"http://{_HERE}:{port}/"
        answered(self, {"address": address}, address)
        sys.stdout.flush()
        if not self.no_browser:  # in a thread: some browsers keep the call until they are closed
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _summary(policy: Policy) -> list[str]:
    """Return a line for each tenant: what a request costs, and how many there are in a period."""
    lines = []
    for name, tenant in policy.tenants.items():
        terms = tenant.budget
        requests = int(terms.epsilon / tenant.epsilon * (1 + 1e-12))
        when = {"daily": "a day", "monthly": "a month", "never": "in all"}[terms.renews]
        access = f"{len(tenant.keys)} keys" if tenant.keys else "no keys, loopback only"
        lines.append(
            f"tenant {name}: {tenant.mechanism}, epsilon {tenant.epsilon:g} per request, {requests} requests {when}; "
            f"models {', '.join(tenant.models)}; {access}"
        )
    if operators := _operator_keys(policy):
        lines.append(f"operators: {operators} keys, read every budget and release nothing")
    return lines


def _operator_keys(policy: Policy) -> int:
    return 0 if policy.operators is None else len(policy.operators.keys)
