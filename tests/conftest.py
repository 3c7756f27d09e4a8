"""Shared by every test folder: the core, and backends as a parameter.

A test that takes `backend` runs once for each backend that this machine has.
"""

import gc
import os
import re
import subprocess
import sys

import pytest

from evidence.reference.sizes import SCALE
from groups import sort_and_mark


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Imports make millions of objects that stay: the collector of garbage waits until they are there, and then leaves them alone."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(items):
    sort_and_mark(items, pytest.mark)
    if SCALE != "full":
        for item in items:
            if item.get_closest_marker("full"):
                item.add_marker(pytest.mark.skip(reason="takes long: HUSHVEC_TEST_SCALE=full runs it"))


def pytest_generate_tests(metafunc):
    if "backend" in metafunc.fixturenames:
        from hushvec._native import _core

        metafunc.parametrize("backend", list(_core.backends()["available"]))


INSTALL_TEST = "pip install -c constraints.txt . --group test-all"
INSTALL = {"cupy": "pip install '.[cuda12]' or '.[cuda13]'"}   # everything else is in the group `test-all`


def _with_what_to_install(report):
    """In the reason of a skip by pytest.importorskip."""
    if report.skipped and isinstance(report.longrepr, tuple):
        path, line, reason = report.longrepr
        if found := re.match(r"Skipped: could not import '(?!hushvec)(\w+)", reason):
            report.longrepr = path, line, f"Skipped: {found[1]} is not installed: {INSTALL.get(found[1], INSTALL_TEST)}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    return _with_what_to_install((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return _with_what_to_install((yield))


@pytest.fixture(scope="session")
def core():
    """hushvec._native._core."""
    from hushvec._native import _core

    return _core


@pytest.fixture(scope="session")
def hooks(core):
    """The test hooks of the core."""
    return core._testing


@pytest.fixture(scope="session")
def digests():
    """digests(calls, backend, threads): what a script of calls prints, run as a process with that backend and as many threads."""

    def printed(calls, backend, threads):
        environment = dict(os.environ, HUSHVEC_BACKEND=backend, HUSHVEC_NUM_THREADS=str(threads))
        return subprocess.run([sys.executable, str(calls)], env=environment, capture_output=True, text=True, check=True).stdout.split()

    return printed


@pytest.fixture(params=(1, 2))
def threads(request, core):
    """The number of threads that calls in this test use."""
    before = core.get_num_threads()
    core.set_num_threads(request.param)
    yield request.param
    core.set_num_threads(before)
