"""hushvec finds its CUDA backend in the wheels hushvec-cuda12 and hushvec-cuda13, and refuses one of another version."""

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import hushvec as hv
from hushvec._native import cuda as calls

ROOT = Path(__file__).resolve().parents[3]
OURS = hv.__version__


class Array:
    """What an error says of an array on a device; nothing else is asked before the backend is found."""

    device = "cuda:0"


def backend(version=OURS, driver=True):
    def check_driver():
        if not driver:
            raise RuntimeError("no driver")

    return types.SimpleNamespace(__version__=version, check_driver=check_driver)


@pytest.fixture
def installed(monkeypatch):
    """Makes modules of these names, and no others, the compiled backend: {name: version}."""
    monkeypatch.setattr(calls, "device_of", lambda x: x.device)

    def install(versions, driver=True):
        for name in calls._PLACES:
            module = None
            if name in versions:
                module = backend(versions[name], driver)
                module.__name__ = name
            monkeypatch.setitem(sys.modules, name, module)

    return install


@pytest.mark.parametrize("name", list(calls._PLACES))
def test_each_place_is_found(installed, name):
    installed({name: OURS})
    assert calls.backend("x", Array()).__name__ == name
    assert hv.backends()["cuda"] == "available"
    installed({name: OURS}, driver=False)
    assert hv.backends()["cuda"] == "built"


def test_a_build_with_nvcc_comes_before_wheels_and_13_before_12(installed):
    names = list(calls._PLACES)
    assert names == ["hushvec._native._cuda", "hushvec_cuda13._cuda", "hushvec_cuda12._cuda"]
    for first in range(len(names)):
        installed(dict.fromkeys(names[first:], OURS))
        assert calls.backend("x", Array()).__name__ == names[first]


def test_without_any_the_error_says_what_to_install(installed):
    installed({})
    assert hv.backends()["cuda"] == "not built"
    with pytest.raises(RuntimeError) as caught:
        calls.backend("x", Array())
    assert str(caught.value) == (
        f"x is on cuda:0, but this build of hushvec has no CUDA backend: pip install hushvec-cuda12=={OURS} or hushvec-cuda13=={OURS} "
        "(nvidia-smi shows the CUDA version), build it where nvcc is found (HUSHVEC_CUDA=ON), or move x to the CPU"
    )


@pytest.mark.parametrize(
    ("name", "package"),
    [("hushvec._native._cuda", "hushvec"), ("hushvec_cuda13._cuda", "hushvec-cuda13"), ("hushvec_cuda12._cuda", "hushvec-cuda12")],
)
def test_another_version_is_refused(installed, name, package):
    installed({name: "9.9.9"})
    assert hv.backends()["cuda"] == "of another version"
    with pytest.raises(RuntimeError) as caught:
        calls.backend("x", Array())
    assert str(caught.value) == f"the CUDA backend must be of hushvec's version, {OURS}, got 9.9.9: pip install {package}=={OURS}"


def test_the_compiled_module_works_as_a_package_of_its_own(cuda, tmp_path):
    """The files as the wheel has them: the same module in a package, and none in hushvec itself."""
    package = tmp_path / "hushvec_cuda13"
    package.mkdir()
    shutil.copy(ROOT / "packaging/cuda_package.py", package / "__init__.py")
    shutil.copy(cuda.__file__, package)
    code = (
        "import sys; sys.modules['hushvec._native._cuda'] = None\n"
        "import hushvec as hv; from hushvec._native import cuda\n"
        "assert 'hushvec_cuda13' not in sys.modules\n"
        "print(hv.backends()['cuda'], cuda._installed().__name__)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert run.stderr == ""
    state, name = run.stdout.split()
    assert state in ("built", "available") and name == "hushvec_cuda13._cuda"
