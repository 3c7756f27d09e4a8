"""`/` and `/page/...`: the page, from files that ship with the package. It loads nothing from elsewhere and runs no inline code."""

from __future__ import annotations

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

from hushvec.serve.failures import ServiceError

router = APIRouter(tags=["page"], include_in_schema=False)

_HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_JAVASCRIPT = "text/javascript; charset=utf-8"
_SVG = "image/svg+xml"
_JSON = "application/json"

INDEX = "index.html"

# Everything that is served. What a client sends is looked up here and never becomes part of a path.
FILES = {
    "index.html": _HTML,
    "page.css": _CSS,
    "page.js": _JAVASCRIPT,
    "bounds.js": _JAVASCRIPT,
    "budget.js": _JAVASCRIPT,
    "curves.js": _JAVASCRIPT,
    "dom.js": _JAVASCRIPT,
    "explorer.js": _JAVASCRIPT,
    "ledger.js": _JAVASCRIPT,
    "mechanisms.js": _JAVASCRIPT,
    "reader.js": _JAVASCRIPT,
    "receipts.js": _JAVASCRIPT,
    "redactor.js": _JAVASCRIPT,
    "requests.js": _JAVASCRIPT,
    "tabs.js": _JAVASCRIPT,
    "icon.svg": _SVG,
    "study.json": _JSON,
}

_HEADERS = {
    "Cache-Control": "no-cache",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}


@router.get("/")
async def index() -> Response:
    """The page."""
    return _file(INDEX)


@router.get("/page/{name}")
async def file(name: str) -> Response:
    """A file of the page."""
    if name not in FILES:
        raise ServiceError(404, "not_found", "there is no such address")
    return _file(name)


def _file(name: str) -> Response:
    return Response(_content(name), headers={**_HEADERS, "Content-Type": FILES[name]})


@cache
def _content(name: str) -> bytes:
    return resources.files("hushvec").joinpath("serve", "page", name).read_bytes()
