"""docs/cpp.md: its table of operations is what the sources say, and it names every header of the library."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "scripts" / "operations_table.py"
HEADERS = ROOT / "cpp" / "include" / "hushvec"


@pytest.fixture
def program():
    if not HEADERS.is_dir():
        pytest.skip("the sources of the core are not here")
    spec = importlib.util.spec_from_file_location("operations_table", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_that_of_the_sources(program, capsys):
    assert (program.main(["--check"]), capsys.readouterr().err) == (0, "")


def test_a_kernel_in_no_row_is_named(program, monkeypatch):
    monkeypatch.delitem(program.OPERATIONS, "a key for each row")
    with pytest.raises(ValueError, match=r"must name every kernel and launcher and no other, differs in row_keys$"):
        program.table()


def test_an_instruction_set_and_a_dtype_come_from_the_sources(program):
    assert program.backends() == {"portable": 4, "avx2": 8, "avx512": 16, "neon": 4}
    found = program.kernels()
    assert found["exact_gaussian"] == ["float32", "float64"] and found["add_whole"] == ["int64", "int32"]
    assert program.launchers()["discrete_noise"] == ["int64", "int32"]


def test_every_header_is_on_the_page(program):
    page = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"`(\w+\.hpp)`", page.partition("\n## Headers\n")[2]))
    assert {path.name for path in HEADERS.glob("*.hpp")} == listed


def test_every_function_of_the_page_is_in_its_header(program):
    page = (ROOT / "docs" / "cpp.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| [^|]+ \| (`[^|]+`) \| `(\w+\.hpp)` \|$", page, re.MULTILINE)
    assert len(rows) == 10
    for calls, header in rows:
        text = (HEADERS / header).read_text(encoding="utf-8")
        names = set(re.findall(r"\b([a-z_]\w+)\(", calls)) - {"sum"}
        assert names and {name for name in names if not re.search(rf"\b{name}\(", text)} == set(), header
