"""Tests marked `gpu` need a CUDA device, torch that sees it, and a build with the CUDA backend; elsewhere they are skipped, and say why."""

import importlib.util

import pytest


WITHOUT_CUDA = "hushvec was built without its CUDA backend: put nvcc on PATH and run make dev, or set HUSHVEC_CUDA=ON"


def why_no_gpu():
    if importlib.util.find_spec("hushvec._native._cuda") is None:
        return WITHOUT_CUDA
    try:
        import torch
    except ImportError:
        return "torch is not installed: pip install '.[torch]'"
    return None if torch.cuda.is_available() else "torch sees no CUDA device: run on a machine with a GPU, with torch for CUDA"


def pytest_collection_modifyitems(items):
    marked = [item for item in items if item.get_closest_marker("gpu")]
    reason = why_no_gpu() if marked else None
    for item in marked:
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def cuda():
    """hushvec._native._cuda, which needs no device to be imported."""
    if importlib.util.find_spec("hushvec._native._cuda") is None:
        pytest.skip(WITHOUT_CUDA)
    import hushvec._native._cuda

    return hushvec._native._cuda
