"""When a build compiles the CUDA backend, and for what: configured, not built. A stand-in for ldconfig says whether the loader has a driver."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DRIVER = "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libcuda.so.1"
NO_COMPILER = "/bin/false"
here = Path("/proc/driver/nvidia/version").exists()


def configured(folder, *options, driver=False, compiler=None):
    """The exit code of cmake, and what it says of the CUDA backend."""
    if shutil.which("cmake") is None:
        pytest.skip("cmake is not installed: make dev installs it")
    ldconfig = folder / "ldconfig"
    ldconfig.write_text(f"#!/bin/sh\necho '{DRIVER if driver else ''}'\n")
    ldconfig.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", **({"CUDACXX": compiler} if compiler else {})}
    command = ["cmake", "-S", ROOT, "-B", folder / "build", "-DHUSHVEC_BUILD_PYTHON=OFF", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return done.returncode, [line for line in (done.stdout + done.stderr).splitlines() if "CUDA backend" in line or "HUSHVEC_CUDA" in line]


@pytest.mark.skipif(here, reason="this machine has an NVIDIA driver")
def test_without_a_driver_nothing_is_compiled_for_devices(tmp_path):
    said = "-- CUDA backend: not built (no NVIDIA driver found; HUSHVEC_CUDA=ON builds it without one)"
    assert configured(tmp_path) == (0, [said])


def test_without_a_compiler(tmp_path):
    code, said = configured(tmp_path, driver=True, compiler=NO_COMPILER)
    assert (code, said) == (0, ["-- CUDA backend: not built (no CUDA compiler found; put nvcc on PATH or set CUDACXX to build it)"])
    code, said = configured(tmp_path, "-DHUSHVEC_CUDA=ON", compiler=NO_COMPILER)
    assert code == 1 and said[0].startswith("  HUSHVEC_CUDA=ON needs a CUDA compiler, and none was found")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on PATH")
def test_it_is_built_where_there_is_a_driver(tmp_path):
    code, said = configured(tmp_path, driver=True)
    assert code == 0 and len(said) == 1 and said[0].startswith("-- CUDA backend: built with nvcc ")
    assert said[0].count("-real") > 1, "for every architecture of a wheel"


@pytest.mark.skipif(shutil.which("nvcc") is None or here, reason="needs nvcc on PATH and no device")
def test_it_is_built_where_it_is_asked_for_and_in_development_as_the_tests_read_it(tmp_path):
    code, said = configured(tmp_path, "-DHUSHVEC_CUDA=ON", "-DHUSHVEC_CUDA_HERE=ON")
    assert code == 0 and said[0].endswith(" for 90-real")
