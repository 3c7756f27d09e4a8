"""The service itself: `/` and `/page/...`, the page, from files that ship with the package, which loads nothing from elsewhere and
runs no inline code; health, readiness, metrics and models."""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import PurePath
from typing import Any

from fastapi import APIRouter, Request, Response

from hushvec._native._core import __version__
from hushvec.serve.failures import ServiceError
from hushvec.serve.routes import identified
from hushvec.serve.service import service_of

router = APIRouter(tags=["status"])

INDEX = "index.html"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
_FOLDER = resources.files("hushvec").joinpath("serve", "page")
# Everything that is served. What a client sends is looked up here and never becomes part of a path.
FILES = {file.name: _TYPES[suffix] for file in _FOLDER.iterdir() if (suffix := PurePath(file.name).suffix) in _TYPES}

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


@router.get("/", include_in_schema=False)
async def index() -> Response:
    """The page."""
    return _file(INDEX)


@router.get("/page/{name}", include_in_schema=False)
async def file(name: str) -> Response:
    """A file of the page."""
    if name not in FILES:
        raise ServiceError(404, "not_found", "there is no such address")
    return _file(name)


def _file(name: str) -> Response:
    return Response(_content(name), headers={**_HEADERS, "Content-Type": FILES[name]})


@cache
def _content(name: str) -> bytes:
    return _FOLDER.joinpath(name).read_bytes()


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok", "version": __version__}


@router.get("/readyz")
async def readyz(request: Request) -> dict[str, str]:
    """Models are loaded and the ledgers can be read."""
    service = service_of(request)
    if not await service.work.run(service.is_ready):
        raise ServiceError(503, "not_ready", "models or ledgers are not available", retry_after=1)
    return {"status": "ready"}


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counters for Prometheus. Names of tenants are in them: keep the address inside."""
    service = service_of(request)
    return Response(service.metrics.text(), media_type=service.metrics.media_type)


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The caller's models, in OpenAI's shape."""
    caller = identified(request)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "hushvec"} for name in caller.tenant.models]
    return {"object": "list", "data": data}
