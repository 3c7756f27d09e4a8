"""Random mutants of the core, each against the quick tests of its own room; those that survive are listed with their difference.

    python scripts/mutants.py                     # 300 mutants, chosen by today's date
    python scripts/mutants.py --seed 2026-01-31   # those of another day
    python scripts/mutants.py --count 20 --rooms budget noise

A mutant is one change of a source by an operator of cosmic-ray: a number plus or minus one, another comparison, `or` for `and`, a
loop that is not run. It is written into the working tree while its tests run, and taken back. A survivor is a line that no quick test
of its room checks, or a change that makes no difference; which of the two, somebody must judge. Exit code 1 where the tests fail
without a mutant.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import difflib
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

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


def tests_for(path: Path) -> list[list[str]]:
    """The test files to run, in order: those that name the module, as `make quick` chooses them, then the others of the room."""
    room = ROOT / "tests" / path.relative_to(PACKAGE).parts[0]
    near = {test for test in quick_script().tests_of_module(PACKAGE, ROOT / "tests", path) if room in test.parents}
    others = set(room.rglob("test_*.py")) - near
    return [sorted(str(test.relative_to(ROOT)) for test in group) for group in (near, others) if group]


def passes(tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout", "120", "-m", QUICK, *tests]
    # A mutant's bytecode would be taken for the source's where both are written within a second.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        code = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=MOST_SECONDS
        ).returncode
    except subprocess.TimeoutExpired:
        return False
    return code in (0, 5)  # 5: all of these tests belong to another target


def survives(path: Path, changed: str) -> bool:
    source, times = path.read_bytes(), path.stat()
    try:
        path.write_text(changed, encoding="utf-8")
        return all(passes(tests) for tests in tests_for(path))
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
    if not arguments.list:
        for room in sorted({path.relative_to(PACKAGE).parts[0] for path, _ in mutants}):
            if not passes([f"tests/{room}"]):
                print(f"the quick tests of {room} fail without a mutant")
                return 1
    survivors = []
    for number, (path, changed) in enumerate(mutants, 1):
        where, what = path.relative_to(ROOT).as_posix(), difference(path, changed)
        if arguments.list:
            print(f"{where}\n{what}")
            continue
        began = time.monotonic()
        if survives(path, changed):
            survivors.append(where)
            print(f"{number}/{len(mutants)} survived: {where}\n{what}", flush=True)
        else:
            print(f"{number}/{len(mutants)} killed in {time.monotonic() - began:.0f} s: {where} {what.splitlines()[0]}", flush=True)
    if not arguments.list:
        killed = len(mutants) - len(survivors)
        print(f"seed {arguments.seed}: {killed} of {len(mutants)} killed ({killed / len(mutants):.1%}), {len(survivors)} survived")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
