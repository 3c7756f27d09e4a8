"""Our declarations of XLA's interface against the headers that jaxlib ships: sizes, offsets and values, by a compiler."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

jax = pytest.importorskip("jax")

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "python/bindings/xla_ffi.hpp"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler")


def compile_with(folder):
    """Of the comparison with the header in `folder`: the compiler's exit code and what it said."""
    includes = ["-I", str(folder), "-isystem", jax.ffi.include_dir()]
    command = [COMPILER, "-std=c++20", "-fsyntax-only", *includes, str(Path(__file__).with_name("xla_layout.cpp"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_declarations_are_those_of_jaxlib():
    assert compile_with(HEADER.parent) == (0, "")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("    std::int64_t rank;\n    std::int64_t* lengths;\n", "    std::int64_t* lengths;\n    std::int64_t rank;\n"),
        ("    Buffers arguments;\n    Buffers results;\n", "    Buffers results;\n    Buffers arguments;\n    int more;\n"),
        ("kFloat32 = 11", "kFloat32 = 10"),
        ("kMinorVersion = 3", "kMinorVersion = 1000"),
    ],
)
def test_a_drift_is_found(tmp_path, right, wrong):
    text = HEADER.read_text()
    assert right in text
    (tmp_path / HEADER.name).write_text(text.replace(right, wrong))
    code, said = compile_with(tmp_path)
    assert code != 0 and "static assertion failed" in said.replace("static_assert failed", "static assertion failed")
