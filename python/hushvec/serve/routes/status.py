"""Health, readiness, metrics and models."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from hushvec._native._core import __version__
from hushvec.serve.answering import identified
from hushvec.serve.failures import ServiceError
from hushvec.serve.service import service_of

router = APIRouter(tags=["status"])


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
