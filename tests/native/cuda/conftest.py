"""Tests marked `gpu` need a CUDA device, torch that sees it, and a build with the CUDA backend; elsewhere they are skipped, and say
why. `pytest -m gpu --emulated-device tests/native/cuda` runs them on the emulated device (ptx/README.md).
"""

import importlib.util

import pytest


WITHOUT_CUDA = "hushvec was built without its CUDA backend: put nvcc on PATH and run make dev CUDA=ON"


def pytest_addoption(parser):
    parser.addoption("--emulated-device", action="store_true", help="run the tests marked gpu on the emulated device")


def is_emulated(config):
    return config.getoption("--emulated-device", default=False)   # not an option where this file is found after the start


def pytest_configure(config):
    if is_emulated(config):
        from native.cuda import emulated_backend

        emulated_backend.install()
        from native.cuda import emulated_torch

        emulated_torch.install()


def why_no_gpu():
    if importlib.util.find_spec("hushvec._native._cuda") is None:
        return WITHOUT_CUDA
    try:
        import torch
    except ImportError:
        return "torch is not installed: pip install '.[torch]'"
    return None if torch.cuda.is_available() else "torch sees no CUDA device: run on a machine with a GPU, with torch for CUDA"


def pytest_collection_modifyitems(config, items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if marked else None
    for item in marked:
        why = reason or (is_emulated(config) and why_not_emulated(item))
        if why:
            item.add_marker(pytest.mark.skip(reason=why))


def why_not_emulated(item):
    from native.cuda.emulated_torch import NOT_ON_THE_EMULATED_DEVICE

    return NOT_ON_THE_EMULATED_DEVICE.get(item.originalname)


@pytest.fixture(autouse=True)
def no_faults(request):
    """What the emulated device found wrong in a test: accesses out of bounds, races, ... (ptx/README.md)."""
    if not is_emulated(request.config):
        yield
        return
    from native.cuda.emulated_backend import counts, wait

    before = counts().faults
    yield
    wait()
    assert counts().faults == before, "the emulated device reported faults: see standard error"


@pytest.fixture(scope="session")
def cuda():
    """hushvec._native._cuda, which needs no device to be imported."""
    if importlib.util.find_spec("hushvec._native._cuda") is None:
        pytest.skip(WITHOUT_CUDA)
    import hushvec._native._cuda

    return hushvec._native._cuda
