"""`hushvec serve`: private embeddings for every language, over HTTP."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hushvec._util.lazy import needs_extra
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import print_json
from hushvec.cli._printable import say

if TYPE_CHECKING:
    from hushvec.serve.policy import Policy
from hushvec.serve.keys import hash_of, new_key

_DEFAULT_PORT = 8321
_LEVELS = ("debug", "info", "warning", "error")


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "serve",
        run,
        description=(
            "Serve private embeddings in the shape of OpenAI's endpoint, and releases of vectors and texts. Each request is charged\n"
            "to its tenant's budget before anything is released, and answered with a receipt.\n\n"
            "Without --policy there is one tenant with MiniLM and epsilon 8 for each request, for programs on this machine only. A\n"
            "policy names tenants, keys, models, mechanisms and budgets; it is read again when the file changes."
        ),
        examples=(
            ("try it", "hushvec serve"),
            ("a new API key, and its hash for the policy", "hushvec serve --new-key"),
            ("is the policy right?", "hushvec serve --policy policy.yaml --check"),
        ),
    )
    parser.add_argument("--policy", metavar="FILE", type=Path, help="YAML file with tenants, models and budgets")
    parser.add_argument("--check", action="store_true", help="read the policy, say what it means, and stop")
    parser.add_argument("--new-key", action="store_true", help="print a new API key and its hash, and stop")
    parser.add_argument("--store", metavar="STORE", help="without --policy: where ledgers are kept, a path or postgresql://...")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1); others need a policy with keys")
    parser.add_argument("--port", type=int, default=_DEFAULT_PORT, help=f"port to listen on (default {_DEFAULT_PORT})")
    parser.add_argument("--workers", type=int, default=1, help="processes that answer requests (default 1)")
    parser.add_argument("--certificate", metavar="FILE", help="TLS certificate; with --private-key")
    parser.add_argument("--private-key", metavar="FILE", help="its private key")
    parser.add_argument("--log-level", choices=_LEVELS, default="info", help="what is logged; never what requests contain")


def run(options: argparse.Namespace) -> int:
    if options.new_key:
        return _new_key(as_json=options.json)
    if options.check and options.policy is None:
        raise ValueError("--check must come with --policy")
    if options.store is not None and options.policy is not None:
        raise ValueError("--store must be left out with --policy, which names a store")
    if (options.certificate is None) != (options.private_key is None):
        raise ValueError("--certificate and --private-key must be given together")
    with needs_extra("hushvec serve", "serve"):
        from hushvec.serve import server
        from hushvec.serve.policy import local_policy, read_policy
        from hushvec.serve.reloading import require_usable
    policy = local_policy(options.store) if options.policy is None else read_policy(options.policy)
    require_usable(policy, options.host)
    if options.check:
        return _check(policy, as_json=options.json)
    listening = server.Listening(
        host=options.host,
        port=options.port,
        workers=options.workers,
        certificate=options.certificate,
        private_key=options.private_key,
    )
    for line in _summary(policy):
        print(line, file=sys.stderr)
    server.run(policy, options.policy, listening, log_level=options.log_level)
    return 0


def _new_key(*, as_json: bool) -> int:
    key = new_key()
    if as_json:
        print_json({"key": key, "hash": hash_of(key)})
    else:
        say(f"key for the client, shown only now:  {key}")
        say(f"hash for the policy's keys:          {hash_of(key)}")
    return 0


def _check(policy: object, *, as_json: bool) -> int:
    from hushvec.serve.policy import Policy

    assert isinstance(policy, Policy)
    if as_json:
        tenants = {name: len(tenant.keys) for name, tenant in policy.tenants.items()}
        print_json({"tenants": tenants, "operators": _operator_keys(policy), "models": sorted(policy.models)})
    else:
        for line in _summary(policy):
            say(line)
    return 0


def _summary(policy: object) -> list[str]:
    """A line for each tenant: what a request costs, and how many there are in a period."""
    from hushvec.serve.policy import Policy

    assert isinstance(policy, Policy)
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
