"""A browser for tests of pages: what goes wrong on a page, whether it is wider than the screen, and what axe finds.

Needs Debian's chromium, or another one named by CHROMIUM, and the package playwright. AXE names axe.min.js of axe-core, for
its checks.
"""

import contextlib
import os
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("chromium is not installed: apt-get install chromium, or name one by CHROMIUM", allow_module_level=True)

AXE = os.environ.get("AXE")
MILLISECONDS = 30_000
api.expect.set_options(timeout=MILLISECONDS)


@contextlib.contextmanager
def launched():
    """A browser without a window."""
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])
        yield found
        found.close()


@contextlib.contextmanager
def opened(browser, address, *, is_quiet=True, **settings):
    """A page; afterwards: no errors on its console, no request to anybody else."""
    context = browser.new_context(accept_downloads=True, **settings)
    page = context.new_page()
    page.set_default_timeout(MILLISECONDS)
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address)
    try:
        yield page
        assert {urlsplit(url).netloc for url in asked if not url.startswith("blob:")} == {urlsplit(address).netloc}
        assert not is_quiet or said == []
    finally:
        context.close()


def is_wide(page):
    return page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")


def violations(page):
    if AXE is None:
        return []
    if not page.evaluate("'axe' in window"):
        page.evaluate(Path(AXE).read_text())
    found = page.evaluate("axe.run().then((found) => found.violations)")
    return [(one["id"], [node["target"] for node in one["nodes"]][:5]) for one in found]
