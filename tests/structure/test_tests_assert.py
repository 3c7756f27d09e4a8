"""Every test can fail: it asserts, expects an error or a warning, or calls a helper that does."""

import ast
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = [ROOT / "tests", ROOT / "studies" / "tests"]   # helpers are imported from both
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("test_*.py"))
# Calls that fail by themselves: of pytest, torch and hypothesis, a check that is a parameter of the test; and assert_... of numpy.
CHECKS = {"raises", "warns", "fail", "opcheck", "runTest", "run_state_machine_as_test", "check"}


@cache
def tree_of(path):
    return ast.parse(path.read_text())


class Function(NamedTuple):
    name: str
    checks: bool   # fails by itself: an assertion that is not about one thing twice, or a subprocess that must succeed
    raises: bool
    calls: frozenset   # names of what it calls

    def can_fail(self, helpers):
        return self.checks or not self.calls.isdisjoint(helpers)


@cache
def functions_of(path):
    return [summary(node) for node in ast.walk(tree_of(path)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def summary(function):
    checks, raises, calls = False, False, set()
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            sides = [node.test.left, *node.test.comparators] if isinstance(node.test, ast.Compare) else []
            checks |= len(sides) != 2 or ast.dump(sides[0]) != ast.dump(sides[1])
        elif isinstance(node, ast.Raise):
            raises = True
        elif isinstance(node, ast.Call):
            name = str(node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None))
            calls.add(name)
            must_succeed = any(keyword.arg == "check" and getattr(keyword.value, "value", None) is True for keyword in node.keywords)
            checks |= name in CHECKS or name.startswith("assert_") or must_succeed
    return Function(function.name, checks, raises, frozenset(calls))


def modules_in_reach(path):
    """The file itself, and those in tests/ that it imports helpers from."""
    found = {path, path.with_name("conftest.py"), *(folder / "conftest.py" for folder in FOLDERS)}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for module in (folder.joinpath(*node.module.split(".")) for folder in FOLDERS):
                found |= {module.with_suffix(".py"), *(module / f"{alias.name}.py" for alias in node.names)}
    return [one for one in found if one.exists()]


@cache
def helpers_of(path):
    """Names of functions that can fail, through each other as well, and are no tests: in the file or in what it imports."""
    functions = [one for module in modules_in_reach(path) for one in functions_of(module) if not one.name.startswith("test_")]
    found = {one.name for one in functions if one.raises}
    while more := {one.name for one in functions if one.can_fail(found)} - found:
        found |= more
    return found


def without_assertions(path):
    helpers = helpers_of(path)
    return [one.name for one in functions_of(path) if one.name.startswith("test_") and not one.can_fail(helpers)]


def test_no_test_is_without_an_assertion():
    found = {str(path.relative_to(ROOT)): without_assertions(path) for path in FILES}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_test_without_assertions_is_found(tmp_path):
    path = tmp_path / "test_some.py"
    path.write_text(
        "def require(value):\n    assert value\n"
        "def test_runs():\n    compute()\n"
        "def test_compares_nothing():\n    assert compute() == compute()\n"
        "def test_compares():\n    assert compute() == 1\n"
        "def test_raises():\n    with pytest.raises(ValueError):\n        compute()\n"
        "def test_asks_a_helper():\n    require(compute())\n"
    )
    assert without_assertions(path) == ["test_runs", "test_compares_nothing"]
