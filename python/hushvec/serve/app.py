"""The application: routes, and what holds for all of them: one shape of errors, headers, a log without contents."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hushvec._native._core import __version__
from hushvec._util.os_files import allow_open_files
from hushvec.errors import HushvecError
from hushvec.serve.failures import ServiceError
from hushvec.serve.metrics import request_span, start_exporting
from hushvec.serve.policy import Policy, local_policy, read_policy
from hushvec.serve.reloading import kept_policy, watch
from hushvec.serve.routes import accounts, aggregates, embeddings, explore, page, released, texts
from hushvec.serve.service import Service

_log = logging.getLogger("hushvec.serve")

SECONDS_TO_END = 5.0   # after the time for requests at hand

POLICY_VARIABLE = "HUSHVEC_SERVE_POLICY"
STORE_VARIABLE = "HUSHVEC_SERVE_STORE"
HOST_VARIABLE = "HUSHVEC_SERVE_HOST"
KEPT_VARIABLE = "HUSHVEC_SERVE_KEPT"

# After so long, a thread that computes in Python lets another one go on. A request takes the interpreter's lock many times, and with
# the usual 5 ms it waits each time while somebody's large body is parsed.
_SECONDS_OF_A_THREAD = 0.0001

_SECONDS_BETWEEN_SWEEPS = 600.0

_OPEN_FILES = 16_384  # a thousand connections, and three for each ledger in SQLite

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
# FastAPI's own spans and logs hold addresses as sent and messages of exceptions; ours are in `metrics`.
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
_METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_LOOPBACK_NAMES = frozenset({"127.0.0.1", "::1", "[::1]", "localhost"})


def create_app(
    policy: Policy | None = None, *, path: str | os.PathLike[str] | None = None, host: str | None = None,
    kept: str | os.PathLike[str] | None = None,
) -> FastAPI:
    """Return the service as an ASGI application.

    Args:
        policy: what is served; that of the file, or one local tenant, if None.
        path: the policy's file, which is read again when it changes.
        host: where it listens. A policy without keys is refused where that is not loopback; None: the caller sees to that.
        kept: the file by which workers of one service share the policy in force.
    """
    file = None if path is None else Path(path)
    if policy is None:
        policy = local_policy() if file is None else read_policy(file)
    service = Service(policy, file, host, None if kept is None else Path(kept))

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        stop_exporting = start_exporting()
        await service.work.run(service.open_models)
        chores = [asyncio.create_task(_sweep(service))]
        if file is not None:
            chores.append(asyncio.create_task(watch(file, service.reload)))
        try:
            yield
        finally:
            if app.state.owns_process:
                _end_within(SECONDS_TO_END)
            for chore in chores:
                chore.cancel()
            service.close()
            await asyncio.to_thread(stop_exporting)

    # A redirect of FastAPI's leads to the host that the client named.
    pages: Any = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = FastAPI(title="hushvec", version=__version__, lifespan=lifespan, telemetry=_NO_TELEMETRY, **pages)
    app.state.service = service
    app.state.owns_process = False
    app.add_middleware(_Around, service=service)
    app.add_exception_handler(ServiceError, _service_error)
    app.add_exception_handler(HTTPException, _http_error)
    for module in (embeddings, aggregates, texts, released, accounts, explore, page):
        app.include_router(module.router)
    return app


def app_of_environment() -> FastAPI:
    """Return the application of a worker process, which knows the environment only."""
    path, kept = os.environ.get(POLICY_VARIABLE), os.environ.get(KEPT_VARIABLE)
    host = os.environ.get(HOST_VARIABLE, "an unknown one")
    try:
        if not path:
            policy = local_policy(os.environ.get(STORE_VARIABLE) or None)
        elif kept:
            policy = kept_policy(Path(kept))
        else:
            policy = read_policy(path)
        app = create_app(policy, path=path or None, host=host, kept=kept or None)
        if not kept and not app.state.service.open_models():
            raise ServiceError(503, "model_unavailable", "no model of the policy can be opened")
    except (ValueError, OSError, HushvecError) as error:
        if not kept:
            raise
        raise SystemExit(f"hushvec serve: {error}") from None
    app.state.owns_process = True
    if (master := parent_process()) is not None:
        threading.Thread(target=_end_after, args=(master,), daemon=True).start()
    allow_open_files(_OPEN_FILES)
    sys.setswitchinterval(_SECONDS_OF_A_THREAD)
    return app


def _end_after(master: Any) -> None:
    """End a worker whose master is gone: nobody would stop it, or replace it."""
    master.join()
    _log.error("the master process is gone: this worker ends")
    os.kill(os.getpid(), signal.SIGTERM)


def _end_within(seconds: float) -> None:
    """End the process even while a thread computes, which nothing can stop. What it charged is in the ledger, as after a crash."""
    timer = threading.Timer(seconds, os._exit, [128 + signal.SIGTERM])
    timer.daemon = True
    timer.start()


class _Around:
    """Refuses foreign hosts where no key is needed, catches what nobody expected, adds headers, counts, logs and traces."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        request = Request(scope)
        method = request.method if request.method in _METHODS else "OTHER"  # a client may send any word as one
        with request_span(method, request.headers.get("traceparent", "")) as finish_span:
            try:
                host = request.headers.get("host", "")
                name = host if host.endswith("]") else host.rpartition(":")[0] or host
                if not self._service.policy.needs_keys and name not in _LOOPBACK_NAMES:
                    raise ServiceError(421, "wrong_host", "without keys, the service answers to loopback names only")
                await self._app(scope, receive, send_with_headers)
            except Exception as error:
                if status:  # the answer has begun: only its end can be missing
                    raise
                if not isinstance(error, ServiceError):
                    _log.error("%s %s failed: %s", method, _route_of(request), _where(error))
                    error = ServiceError(500, "internal_error", "the service failed; its log says where")
                response = await _service_error(request, error)
                await response(scope, receive, send_with_headers)
            finally:
                seconds = time.perf_counter() - began
                route, tenant = _route_of(request), getattr(request.state, "tenant", "")
                self._service.metrics.requests.labels(route, str(status), tenant).inc()
                self._service.metrics.seconds.labels(route).observe(seconds)
                _log.info("%s %s %d %.1f ms %s", method, route, status, 1e3 * seconds, tenant or "-")
                finish_span(route, status, tenant)


def _route_of(request: Request) -> str:
    """Return the template of the address: what stands in the address itself is the client's."""
    return getattr(request.scope.get("route"), "path", "unknown")


def _where(error: BaseException) -> str:
    """Return the kind of an error and its place. Its message may hold what a client sent."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"


async def _service_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return JSONResponse(error.body(), error.status, headers=error.headers())


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = {404: ("not_found", "there is no such address"), 405: ("method_not_allowed", "the address does not take this method")}
    code, message = known.get(error.status_code, ("http_error", "the request cannot be answered"))
    return await _service_error(request, ServiceError(error.status_code, code, message))


async def _sweep(service: Service) -> None:
    while True:
        with contextlib.suppress(Exception):
            await asyncio.to_thread(service.releases.answers.forget_old)
        await asyncio.sleep(_SECONDS_BETWEEN_SWEEPS)
