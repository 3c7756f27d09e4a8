"""The compiled code as a whole: which folder includes which, and that an instruction set's objects hold nothing that others link."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "cpp/src"

# Lower numbers are included by higher ones, never the other way round; folders on one floor do not include each other.
LAYERS = {
    "os": 0,
    "lanes": 0,
    "memory": 1,
    "parallel": 1,
    "dispatch": 1,    # which table is in use, and what a table has
    "rng": 2,
    "array": 2,
    "calibrate": 2,
    "noise": 3,
    "clip": 4,
    "products": 4,
    "discrete": 4,
    "privunit": 5,
    "collect": 5,
    "tables": 6,    # what each instruction set puts into its table
}
# With an extension: every standard header has none. These are the processors' headers, the same on every system, and other libraries'.
NO_SYSTEM = {"arm_neon.h", "cpuid.h", "immintrin.h", "wmmintrin.h", "xmmintrin.h", "cuda.h", "cuda_runtime_api.h"}
NO_SYSTEM_PATHS = ("pybind11/",)
# Defined in every object that catches exceptions: data without instructions.
HARMLESS = {"DW.ref.__gxx_personality_v0"}
SETS = {
    "table_avx2": "Avx2",
    "table_avx512": "Avx512",
    "table_neon": "Neon",
    "aes_ni": "AesNi",
    "aes_vaes256": "Vaes256",
    "aes_vaes512": "Vaes512",
    "aes_neon": "AesNeon",
}


def folders(folder=SOURCES):
    return sorted(path.name for path in folder.iterdir() if path.is_dir())


def includes(path):
    return re.findall(r'^#include "(\w+)/[^"]+"$', path.read_text(), re.MULTILINE)


def upward(sources, layers):
    for path in sorted(sources.rglob("*.[hc]pp")):
        here = path.relative_to(sources).parts[0]
        for other in includes(path):
            if other in layers and other != here and layers[other] >= layers[here]:
                yield f"{path.relative_to(sources)} includes {other}"


def test_every_folder_has_its_floor():
    assert folders() == sorted(LAYERS)


def test_no_include_runs_upward():
    assert list(upward(SOURCES, LAYERS)) == []


def test_an_include_that_runs_upward_is_found(tmp_path):
    for name, text in (("a/one.hpp", '#include "b/two.hpp"\n'), ("b/two.cpp", '#include "a/one.hpp"\n#include <a>\n')):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    assert list(upward(tmp_path, {"a": 0, "b": 1})) == ["a/one.hpp includes b"]


def headers_of_a_system(*roots):
    """Includes of what only some operating systems have, and conditions on the system, which stand for such includes."""
    for path in sorted(path for root in roots for path in root.rglob("*.[hc]pp")):
        text = path.read_text()
        for header in re.findall(r"^#\s*include <([^>]+)>", text, re.MULTILINE):
            if header.endswith(".h") and header not in NO_SYSTEM and not header.startswith(NO_SYSTEM_PATHS):
                yield path, header
        for system in re.findall(r"__linux__|__APPLE__|_WIN32|__unix__", text):
            yield path, system


def test_only_one_folder_knows_the_operating_system():
    roots = [SOURCES, ROOT / "cpp/include", ROOT / "python/bindings"]
    assert [found for found in headers_of_a_system(*roots) if found[0].parent != SOURCES / "os"] == []


def test_a_header_of_a_system_is_found(tmp_path):
    text = "#include <vector>\n#include <immintrin.h>\n#include <pybind11/stl.h>\n#if defined(_WIN32)\n#include <sys/mman.h>\n#endif\n"
    (tmp_path / "a.cpp").write_text(text)
    assert [what for _, what in headers_of_a_system(tmp_path)] == ["sys/mman.h", "_WIN32"]


def weak_symbols(file):
    """Names of functions that the linker may take from this object for all others."""
    lines = subprocess.run(["nm", "--defined-only", file], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[2] for line in lines if line.split()[1] in "WVu"} - HARMLESS


@pytest.mark.parametrize("name", SETS)
def test_weak_symbols_of_an_instruction_set_name_its_lanes(name):
    """A function without a lane type, compiled with these instructions, could be the one that a machine without them runs."""
    objects = sorted((ROOT / "build/dev").glob(f"**/tables/{name}.cpp.o"))
    if not objects or shutil.which("nm") is None:
        pytest.skip(f"build/dev has no {name}.cpp.o, or nm is missing: make dev")
    symbols = weak_symbols(objects[0])
    assert symbols, "nothing was found that could be wrong"
    assert [symbol for symbol in symbols if SETS[name] not in symbol] == []
