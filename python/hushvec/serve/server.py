"""Running the service: where it may listen, workers, and a shutdown that finishes what was charged."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec._util.extras import needs_extra
from hushvec.serve.app import POLICY_VARIABLE, STORE_VARIABLE
from hushvec.serve.metrics import SHARED_FOLDER
from hushvec.serve.policy import Policy

_log = logging.getLogger("hushvec.serve")

DEFAULT_PORT = 8321
SECONDS_TO_FINISH = 30


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a service listens.

    Args:
        host: an address or a name.
        port: 0 for a free one.
        workers: processes.
        certificate, private_key: files for TLS.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    workers: int = 1
    certificate: str | None = None
    private_key: str | None = None


def run(policy: Policy, path: Path | None, listening: Listening, *, log_level: str = "info") -> None:
    """Serve until SIGINT or SIGTERM; requests at hand are answered first.

    Raises:
        ValueError: without keys, the service may listen on loopback only.
        MissingExtraError: packages of the extra "serve" are not installed.
    """
    with needs_extra("serving", "serve"):
        import uvicorn
    require_keys_beyond_loopback(policy, listening.host)
    # Workers are new processes: they read the policy themselves.
    if path is not None:
        os.environ[POLICY_VARIABLE] = str(path.resolve())
    elif policy.store is not None:
        os.environ[STORE_VARIABLE] = policy.store
    with _shared_metrics(listening.workers):
        uvicorn.run(
            "hushvec.serve.app:app_of_environment",
            factory=True,
            host=listening.host,
            port=listening.port,
            workers=listening.workers,
            log_config=log_config(log_level),
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
            **_bounds_of_connections(),
            ssl_certfile=listening.certificate,
            ssl_keyfile=listening.private_key,
        )


def _bounds_of_connections() -> dict[str, Any]:
    """What uvicorn is told about connections. There are no websockets."""
    try:
        from hushvec.serve.connections import Connection
    except ImportError as error:  # of a release of uvicorn that has no such class
        _log.warning("without uvicorn's httptools protocol, heads of requests have a limit of size and none of time: %s", error)
        return {"http": "h11", "ws": "none"}
    return {"http": Connection, "ws": "none"}


@contextlib.contextmanager
def _shared_metrics(workers: int) -> Iterator[None]:
    """A folder in which several workers count together, gone when they have ended; one that the environment names is left alone."""
    if workers == 1 or os.environ.get(SHARED_FOLDER):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hushvec-metrics-") as folder:
        os.environ[SHARED_FOLDER] = folder
        try:
            yield
        finally:
            del os.environ[SHARED_FOLDER]


def run_here(policy: Policy, path: Path | None, listening: Listening, *, ready: Callable[[int], None]) -> None:
    """Serve from this process alone, and prepare the first rewriting in the background.

    Args:
        policy, path: as for `run`.
        listening: an address; `workers` is ignored.
        ready: called with the port once requests are answered.

    Raises:
        OSError: the port is taken.
        ValueError, MissingExtraError: as for `run`.
    """
    with needs_extra("serving", "serve"):
        import uvicorn

        from hushvec.serve.app import create_app
        from hushvec.serve.rewriters import rewriter_for
    require_keys_beyond_loopback(policy, listening.host)
    app = create_app(policy, path=path)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started and sockets:
                ready(sockets[0].getsockname()[1])
                threading.Thread(target=prepare, daemon=True).start()

    def prepare() -> None:
        with contextlib.suppress(Exception):  # the request that needs it says what is wrong
            rewriter_for(next(iter(policy.tenants.values())).epsilon)

    with socket.create_server((listening.host, listening.port)) as bound:
        config = uvicorn.Config(
            app,
            log_config=log_config("warning"),
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=SECONDS_TO_FINISH,
            **_bounds_of_connections(),
        )
        Server(config).run(sockets=[bound])


def require_keys_beyond_loopback(policy: Policy, host: str) -> None:
    """Refuse to let others in without keys."""
    if is_loopback(host):
        if policy.needs_keys and (missing := policy.tenants_without_keys()):
            raise ValueError(f"tenants.{missing[0]}.keys must not be empty: with several tenants, each needs a key")
        return
    if missing := policy.tenants_without_keys():
        raise ValueError(f"host must be a loopback address while tenants.{missing[0]} has no keys, got {host!r}")


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def log_config(level: str) -> dict[str, object]:
    """Lines on standard error: time, level, message. Requests are logged by `app`, without their contents."""
    logger = {"handlers": ["stderr"], "level": level.upper(), "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {"hushvec.serve": logger, "uvicorn": logger},
    }
