"""Random mutants of the core, each against the quick tests of its own room; those that survive are listed with their difference.

    python scripts/mutants.py                     # 300 mutants, chosen by today's date
    python scripts/mutants.py --seed 2026-01-31   # those of another day
    python scripts/mutants.py --count 20 --rooms budget noise

A mutant is one change of a source by an operator of cosmic-ray: a number plus or minus one, another comparison, `or` for `and`, a
loop that is not run. It is written into the working tree while its tests run, and taken back. First come the tests that ran the
changed statement without a mutant, in a process forked from this one, which has imported what takes long. A survivor is a line
that no quick test of its room checks, or a change that makes no difference; which of the two, somebody must judge. Exit code 1
where the tests fail without a mutant.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import difflib
import importlib.util
import os
import random
import signal
import sys
import tempfile
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python/hushvec"
ROOMS = ("_util", "_native", "noise", "accounting", "budget", "mechanisms", "receipts", "release")
QUICK = "not hosts and not site and not device_code and not slow and not alone and not full and not gpu"
# A mutant may wait forever: that is killed, too.
MOST_SECONDS = 600
# These change what a program is rarely able to notice: names, decorators, and exceptions that are caught.
LEFT_OUT = ("VariableReplacer", "VariableInserter", "RemoveDecorator", "ExceptionReplacer")


def kinds_of_operators() -> dict[str, list[str]]:
    """Kind -> names of its operators: a kind is as likely as another, however many operators it has."""
    kinds: dict[str, list[str]] = defaultdict(list)
    for name in sorted(operator_names()):
        kind = name.partition("/")[2].split("_")[0]
        if kind not in LEFT_OUT:
            kinds[kind].append(name)
    return kinds


@cache
def nodes_of(path: Path) -> list[Any]:
    return list(ast_nodes(get_ast(path.read_text(encoding="utf-8"))))


def without_annotations(source: str) -> str:
    """The program, without what it only says to type checkers: changes of that are no mutants."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test, node.body = ast.Constant(False), [ast.Pass()]
    return ast.dump(tree)


def mutant_of(path: Path, operator: str, chance: random.Random) -> str | None:
    """A source with one change by the operator, or None where it finds nothing to change."""
    made = get_operator(operator)()
    places = sum(len(list(made.mutation_positions(node))) for node in nodes_of(path))
    if not places:
        return None
    source = path.read_text(encoding="utf-8")
    changed = mutate_code(source, made, chance.randrange(places))
    try:
        return changed if changed and without_annotations(changed) != without_annotations(source) else None
    except SyntaxError:
        return None


def chosen(count: int, rooms: list[str], seed: str) -> list[tuple[Path, str]]:
    """(file, its mutated source) of each mutant; a file's chance is its size."""
    chance = random.Random(seed)
    kinds = kinds_of_operators()
    paths = [path for room in rooms for path in sorted((PACKAGE / room).glob("*.py"))]
    sizes = [path.stat().st_size for path in paths]
    found: dict[tuple[Path, str], None] = {}
    while len(found) < count:
        (path,) = chance.choices(paths, sizes)
        operator = chance.choice(kinds[chance.choice(sorted(kinds))])
        if changed := mutant_of(path, operator, chance):
            found[path, changed] = None
    return list(found)


# ---- tests


def quick_script() -> Any:
    spec = importlib.util.spec_from_file_location("quick", ROOT / "scripts/quick.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def near_and_others(path: Path) -> list[list[str]]:
    """The test files of a room, in order: those that name the module, as `make quick` chooses them, then the others."""
    room = ROOT / "tests" / path.relative_to(PACKAGE).parts[0]
    near = {test for test in quick_script().tests_of_module(PACKAGE, ROOT / "tests", path) if room in test.parents}
    others = set(room.rglob("test_*.py")) - near
    return [sorted(str(test.relative_to(ROOT)) for test in group) for group in (near, others) if group]


def lines_of_statement(tree: ast.Module, line: int) -> range:
    """Lines of the statement of a function around a line, without its block; of the function's head, its block too. What stands
    outside of functions is run once, by whichever test imports it first: none."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)]
    if not any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in around):
        return range(0)
    least = min(around, key=lambda node: (node.end_lineno or 0) - node.lineno)
    end = least.end_lineno or line
    if isinstance(least, ast.If | ast.For | ast.While | ast.With | ast.Try):
        end = max(line, least.body[0].lineno - 1)
    return range(least.lineno, end + 1)


def tests_of_lines(path: Path, changed: str, ran: CoverageData) -> list[str]:
    """The tests that ran the changed statement without a mutant."""
    source = path.read_text(encoding="utf-8")
    tree, contexts = ast.parse(source), ran.contexts_by_lineno(str(path))
    blocks = difflib.SequenceMatcher(None, source.splitlines(), changed.splitlines(), autojunk=False).get_opcodes()
    lines = {line for kind, first, last, *_ in blocks if kind != "equal" for line in range(first + 1, max(first + 1, last) + 1)}
    near = {line for changed_line in lines for line in lines_of_statement(tree, changed_line)}
    return sorted({context.rpartition("|")[0] for line in near for context in contexts.get(line, ()) if context})


def ready() -> None:
    """Imports what takes long and has no mutants, once for all processes that are forked from this one."""
    for name in ("numpy", "scipy.stats", "scipy.optimize", "torch"):
        importlib.import_module(name)
    sys.dont_write_bytecode = True  # a mutant's would be taken for the source's where both are written within a second


def pytest_in_a_fork(arguments: list[str], output: Path) -> int:
    child = os.fork()
    if child == 0:
        os.setsid()
        with output.open("wb") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        os._exit(pytest.main(["-q", "-p", "no:cacheprovider", "-m", QUICK, *arguments]))
    return os.waitstatus_to_exitcode(waited(child))


def waited(child: int) -> int:
    end = time.monotonic() + MOST_SECONDS
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def passes(tests: list[str], folder: Path) -> bool:
    # 5: all of these tests belong to another target
    return pytest_in_a_fork(["-x", "--timeout", "60", *tests], folder / "tests.log") in (0, 5)


def without_a_mutant(room: str, folder: Path) -> CoverageData | None:
    """Which test of the room ran which line, or None where one fails."""
    data = folder / f"{room}.coverage"
    os.environ["COVERAGE_FILE"] = str(data)
    options = ["--cov", "hushvec", "--cov-context", "test", "--cov-report", ""]
    if pytest_in_a_fork([*options, f"tests/{room}"], folder / "tests.log"):
        print((folder / "tests.log").read_text(encoding="utf-8", errors="replace"))
        return None
    ran = CoverageData(str(data))
    ran.read()
    return ran


def survives(path: Path, changed: str, ran: CoverageData, folder: Path) -> bool:
    """Whether all quick tests of the room pass: first those that ran the line, in this process; then all, as some start processes."""
    first = tests_of_lines(path, changed, ran)
    source, times = path.read_bytes(), path.stat()
    try:
        path.write_text(changed, encoding="utf-8")
        return all(passes(tests, folder) for tests in ([first] if first else []) + near_and_others(path))
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def difference(path: Path, changed: str) -> str:
    name = path.relative_to(ROOT).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines(), changed.splitlines()
    return "\n".join(list(difflib.unified_diff(*lines, name, name, n=0, lineterm=""))[2:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", default=datetime.date.today().isoformat(), help="default: today")
    parser.add_argument("--rooms", nargs="+", choices=ROOMS, default=ROOMS, metavar="ROOM")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    arguments = parser.parse_args()
    mutants = chosen(arguments.count, list(arguments.rooms), arguments.seed)
    if arguments.list:
        for path, changed in mutants:
            print(f"{path.relative_to(ROOT).as_posix()}\n{difference(path, changed)}")
        return 0
    ready()
    with tempfile.TemporaryDirectory() as folder:
        return run_all(mutants, arguments.seed, Path(folder))


def run_all(mutants: list[tuple[Path, str]], seed: str, folder: Path) -> int:
    ran: dict[str, CoverageData] = {}
    for room in sorted({path.relative_to(PACKAGE).parts[0] for path, _ in mutants}):
        data = without_a_mutant(room, folder)
        if data is None:
            print(f"the quick tests of {room} fail without a mutant")
            return 1
        ran[room] = data
    survivors = 0
    for number, (path, changed) in enumerate(mutants, 1):
        where, what = path.relative_to(ROOT).as_posix(), difference(path, changed)
        began = time.monotonic()
        if survives(path, changed, ran[path.relative_to(PACKAGE).parts[0]], folder):
            survivors += 1
            print(f"{number}/{len(mutants)} survived: {where}\n{what}", flush=True)
        else:
            print(f"{number}/{len(mutants)} killed in {time.monotonic() - began:.0f} s: {where} {what.splitlines()[0]}", flush=True)
    killed = len(mutants) - survivors
    print(f"seed {seed}: {killed} of {len(mutants)} killed ({killed / len(mutants):.1%}), {survivors} survived")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
