"""Every test that tests/groups.txt gives to a target is there, and the targets together run every file."""

import ast
from functools import cache
from types import SimpleNamespace

import pytest

from groups import GROUPS, ROOT, SENTINELS, files_of, group_of, listed, sort_and_mark


@cache
def defined(file):
    path = ROOT / file
    nodes = ast.walk(ast.parse(path.read_text())) if path.is_file() else ()
    return {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}


def exists(name):
    file, *functions = name.split("[")[0].split("::")
    return (ROOT / file).is_file() and set(functions) <= defined(file)


def test_what_is_listed_exists():
    assert [name for name in listed() if not exists(name)] == []   # scripts/group_tests.py makes the list anew
    assert {group for group, _ in listed().values()} <= set(GROUPS)
    assert not exists("tests/structure/test_groups.py::test_gone") and not exists("tests/test_gone.py")


def test_every_family_of_kernels_has_a_test_in_the_quick_run():
    assert [name for name in SENTINELS if not exists(name) or group_of(name)] == []


def test_the_targets_run_every_file():
    paths = [path for folder in ("tests", "studies/tests") for path in (ROOT / folder).rglob("test_*.py")]
    everything = {path.relative_to(ROOT).as_posix() for path in paths}
    assert {*files_of(["quick"]), *files_of(GROUPS)} == everything
    with pytest.raises(SystemExit, match="GROUPS must be among hosts, site, device_code, slow, got lazy"):
        files_of(["lazy"])


def test_the_longest_file_comes_first_and_each_test_has_its_mark():
    marks = []
    longest = max(listed(), key=lambda name: listed()[name][1] if "::" not in name else 0)
    names = ["tests/zoo/test_b.py::test_a", "tests/zoo/test_a.py::test_b", f"{longest}::test_c[0]"]
    items = [SimpleNamespace(nodeid=name, add_marker=marks.append) for name in names]
    sort_and_mark(items, SimpleNamespace(**{group: group for group in GROUPS}))
    assert [item.nodeid for item in items] == [names[2], names[0], names[1]]
    assert marks == [listed()[longest][0]]
