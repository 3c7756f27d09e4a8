"""scripts/mutants.py: which mutants it chooses, and that a source is as it was when its tests have run."""

import ast
import random

import pytest

from scripts.test_loop_scripts import script

pytest.importorskip("cosmic_ray")
mutants = script("mutants")

SOURCE = "from __future__ import annotations\n\n\ndef f(a: int | None) -> int | str:\n    return 2\n"


def test_a_seed_chooses_the_same_mutants_again():
    chosen = mutants.chosen(3, ["noise"], "a")
    assert chosen == mutants.chosen(3, ["noise"], "a") != mutants.chosen(3, ["noise"], "b")
    for path, changed in chosen:
        assert path.parent.name == "noise" and changed != path.read_text(encoding="utf-8")
        assert ast.parse(changed)


def test_what_only_type_checkers_read_is_left_alone(tmp_path):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    number, union = "core/NumberReplacer", "core/ReplaceBinaryOperator_BitOr_Add"
    found = {mutants.mutant_of(path, number, random.Random(seed)) for seed in range(20)}
    assert found == {SOURCE.replace("return 2", "return 3"), SOURCE.replace("return 2", "return 1")}
    assert mutants.mutant_of(path, union, random.Random(0)) is None


def test_tests_that_name_the_module_come_first():
    first, then = mutants.near_and_others(mutants.PACKAGE / "budget" / "amounts.py")
    assert "tests/budget/test_amounts.py" in first and then and not set(first) & set(then)
    assert all(name.startswith("tests/budget/") for name in (*first, *then))


class Ran:
    """Which test ran which line, as coverage knows it."""

    def __init__(self, lines):
        self.lines = lines

    def contexts_by_lineno(self, _):
        return self.lines


def test_the_tests_of_a_changed_statement_are_those_that_ran_it(tmp_path):
    path = tmp_path / "module.py"
    source = "LIMIT = 1\n\n\ndef f(a):\n    b = (\n        a +\n        1\n    )\n    if b:\n        return 2\n    return 3\n"
    path.write_text(source)
    ran = Ran({1: ["", "x|run"], 4: ["x|run"], 5: ["a|run", "b|run"], 9: ["a|run", "b|run"], 10: ["a|run"], 11: ["b|run"]})

    def tests(old, new):
        return mutants.tests_of_lines(path, source.replace(old, new), ran)

    assert tests("LIMIT = 1", "LIMIT = 2") == [], "what stands outside of functions is run once"
    assert tests("        1\n", "        2\n") == ["a", "b"], "the statement begins two lines above"
    assert tests("if b", "if not b") == ["a", "b"]
    assert tests("return 2", "return 1") == ["a"]


@pytest.mark.parametrize("first", [[], ["test"]], ids=["no test ran it", "a test ran it"])
@pytest.mark.parametrize("passed", [True, False])
def test_the_source_is_put_back(tmp_path, monkeypatch, passed, first):
    path = tmp_path / "module.py"
    path.write_text(SOURCE)
    before, seen = path.stat().st_mtime_ns, []
    monkeypatch.setattr(mutants, "tests_of_lines", lambda *_: first)
    monkeypatch.setattr(mutants, "near_and_others", lambda path: [["a"], ["b"]])
    monkeypatch.setattr(mutants, "passes", lambda tests, folder: seen.append((tests, path.read_text())) or passed)
    assert mutants.survives(path, "changed = 1\n", Ran({}), tmp_path) is passed
    groups = [*([first] if first else []), ["a"], ["b"]]
    assert seen == [(tests, "changed = 1\n") for tests in (groups if passed else groups[:1])]
    assert path.read_text() == SOURCE and path.stat().st_mtime_ns == before
