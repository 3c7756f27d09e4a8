"""Running the service: where it may listen, workers, and a shutdown that finishes what was charged."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec._util.os_files import mounts
from hushvec._util.publish import plain_bytes, private_folder
from hushvec.serve.app import HOST_VARIABLE, KEPT_VARIABLE, POLICY_VARIABLE, STORE_VARIABLE
from hushvec.serve.metrics import SHARED_FOLDER
from hushvec.serve.policy import MOST_BYTES, Policy, require_keys_beyond_loopback
from hushvec.serve.reloading import keep_policy
from hushvec.serve.service import opened_stores

_log = logging.getLogger("hushvec.serve")

DEFAULT_PORT = 8321
SECONDS_TO_FINISH = 30

# Longer than clients and balancers keep a connection that is idle, so that none of them sends a request into one that is being closed.
SECONDS_TO_KEEP_ALIVE = 75


@dataclass(frozen=True, kw_only=True)
class Listening:

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT  # 0: a free one
    workers: int = 1  # processes
    certificate: str | None = None  # file for TLS, as the next
    private_key: str | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port must be 0 to 65535, got {self.port}")
        if self.workers < 1:
            raise ValueError(f"workers must be at least 1, got {self.workers}")


def run(policy: Policy, path: Path | None, listening: Listening, *, log_level: str = "info") -> None:
    """Serve until SIGINT or SIGTERM; requests at hand are answered first. Without keys, on loopback only."""
    with needs_extra("serving", "serve"):
        import uvicorn
    require_keys_beyond_loopback(policy, listening.host)
    require_tls(listening)
    opened_stores(policy).close()  # made before workers could make them at the same time
    # Workers are new processes: they know the environment only.
    os.environ[HOST_VARIABLE] = listening.host
    if path is not None:
        os.environ[POLICY_VARIABLE] = str(path.absolute())  # with its links, which an update of a mounted secret leads elsewhere
        if is_mount(path):
            _log.warning("policy: the file is a mount of its own, so one that takes its place is not seen: mount its folder")
    elif policy.store is not None:
        os.environ[STORE_VARIABLE] = policy.store
    with _shared_by_workers(policy, listening.workers):
        uvicorn.run(
            "hushvec.serve.app:app_of_environment", factory=True, host=listening.host, port=listening.port,
            workers=listening.workers, **_settings(log_level), ssl_certfile=listening.certificate,
            ssl_keyfile=listening.private_key,
        )


def is_mount(path: Path) -> bool:
    """Return whether a file is mounted alone, as far as the system says."""
    real = str(path.resolve())
    with contextlib.suppress(OSError):
        return any(point == real for point, _ in mounts(real))
    return False


def require_tls(listening: Listening) -> None:
    """Say in one sentence what is wrong with a certificate."""
    if listening.certificate is not None:
        for file in filter(None, (listening.certificate, listening.private_key)):
            plain_bytes(Path(file), MOST_BYTES)
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(listening.certificate, listening.private_key)
        except OSError as error:  # ssl.SSLError is one
            files = f"{listening.certificate} and {listening.private_key}"
            raise ValueError(f"certificate and private_key must be PEM files that belong together, got {files}: {error}") from None


def _bounds_of_connections() -> dict[str, Any]:
    """Return settings of uvicorn for connections. There are no websockets."""
    try:
        from hushvec.serve.connections import Connection
    except ImportError as error:  # of a release of uvicorn that has no such class
        _log.warning("without uvicorn's httptools protocol, heads of requests have a limit of size and none of time: %s", error)
        return {"http": "h11", "ws": "none"}
    return {"http": Connection, "ws": "none"}


@contextlib.contextmanager
def _shared_by_workers(policy: Policy, workers: int) -> Iterator[None]:
    """Keep a folder for what workers share: the policy in force, and counts unless the environment names a place."""
    if workers == 1:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="hushvec-serve-") as folder:
        kept = Path(folder, "policy.json")
        keep_policy(policy, kept)
        own = {KEPT_VARIABLE: str(kept)}
        if not os.environ.get(SHARED_FOLDER):
            own[SHARED_FOLDER] = str(Path(folder, "metrics"))
            private_folder(Path(folder, "metrics"))
        os.environ.update(own)
        try:
            yield
        finally:
            for name in own:
                del os.environ[name]


def run_here(policy: Policy, path: Path | None, listening: Listening, *, ready: Callable[[int], None]) -> None:
    """`run` from this process alone, with the first rewriting prepared in the background; `ready` gets the port once requests are
    answered."""
    with needs_extra("serving", "serve"):
        import uvicorn

        from hushvec.serve.app import create_app
        from hushvec.serve.routes.texts import rewriter_for
    require_keys_beyond_loopback(policy, listening.host)
    app = create_app(policy, path=path, host=listening.host)

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
        Server(uvicorn.Config(app, **_settings("warning"))).run(sockets=[bound])


def _settings(log_level: str) -> dict[str, Any]:
    """Return settings of uvicorn. It logs lines on standard error: time, level, message; `app` logs requests, without contents."""
    logger = {"handlers": ["stderr"], "level": log_level.upper(), "propagate": False}
    log_config = {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "loggers": {"hushvec.serve": logger, "uvicorn": logger},
    }
    return {
        "log_config": log_config,
        "access_log": False,
        "server_header": False,
        "timeout_graceful_shutdown": SECONDS_TO_FINISH,
        "timeout_keep_alive": SECONDS_TO_KEEP_ALIVE,
        **_bounds_of_connections(),
    }
