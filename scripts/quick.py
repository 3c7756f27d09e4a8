#!/usr/bin/env python3
"""Lint, types and the unit tests of what differs from main: `make quick`.

A test file is chosen if it changed, or if it lies in the folder of a changed module (tests mirror the package) and names the module or
something that the module defines; if none does, those that name the package it is in, or the whole folder. Test files anywhere that
quote a text which a changed module had in main, or a few words of it in a row, are chosen too: they assert its errors. A changed
document, example or script chooses the test files that name it. Changed C++ also runs the C++ tests.

    python scripts/quick.py [--list] [FILE ...]      FILE instead of what git says; --list prints the choice and runs nothing
"""

import argparse
import ast
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BASES = ("main", "origin/main", "HEAD")
CPP = (".cpp", ".hpp", ".cu", ".cuh")
# A package and its tests.
PACKAGES = {"python/hushvec/": "tests/", "studies/hushvec_studies/": "studies/tests/"}
LINTED = ("python", "tests", "examples", "scripts", "studies")
# What a change of any module of hushvec may break: layers, imports, names. The other tests of that file run every example.
WHOLE = ("public_names", "no_import_runs_upward", "nothing_optional_is_imported_at_the_top", "stubs_name_everything_compiled")
RUN = 4  # words in a row of a text by which a test quotes it, or all of a test's own text if that is shorter
STRUCTURE = ["tests/structure/test_structure.py", *(f"tests/structure/test_package.py::test_{name}" for name in WHOLE)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--list", action="store_true", help="print the chosen tests and run nothing")
    options = parser.parse_args()
    changed = options.files or changed_files()
    tests = sorted({*chosen_tests(ROOT, changed), *quoting(ROOT, changed_words(changed))})
    if options.list:
        print(*tests, sep="\n")
        return 0
    if not changed:
        print("quick: nothing differs from main")
        return 0
    return run_all(commands(changed, tests))


def changed_files():
    """What differs from where this branch left main, in commits, in the working tree and in files that git does not track yet."""
    return sorted({*git("diff", "--name-only", base()).split(), *git("ls-files", "--others", "--exclude-standard").split()})


def base():
    """The commit where this branch left main."""
    return next(git("merge-base", name, "HEAD").strip() for name in BASES if git("rev-parse", "--verify", "--quiet", name))


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout


def changed_words(changed):
    """Words in a row that the texts of the changed modules had in main and no longer have, as `runs` gives them."""
    modules = [name for name in changed if name.startswith(tuple(PACKAGES)) and name.endswith(".py")]
    start = base() if modules else ""
    gone = set()
    for name in modules:
        now = (ROOT / name).read_text(encoding="utf-8") if (ROOT / name).exists() else ""
        gone |= runs(texts(git("show", f"{start}:{name}"))) - runs(texts(now))
    return gone


def texts(source):
    """The strings in a module that read like an error: a few words on one line, of f-strings the parts between the values."""
    values = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {value for value in values if isinstance(value, str) and len(value.split()) > 2 and "\n" not in value}


def runs(found):
    """Every two to `RUN` words that follow each other in one of the texts."""
    split = [words(text) for text in found]
    return {tuple(text[at : at + length]) for text in split for length in range(2, RUN + 1) for at in range(len(text) - length + 1)}


def words(text):
    """Of a text, or of a pattern that it must match; comparisons are words too, by which texts may differ alone."""
    return re.findall(r"\w+|[<>]=?", re.sub(r"\\(.)", r"\1", text))


def quoting(root, gone):
    """Test files with a string that has one of these runs of words: `RUN` of them, or all of a shorter string's."""
    tests = [path for folder in PACKAGES.values() for path in (root / folder).rglob("test_*.py")] if gone else []
    return [str(path.relative_to(root)) for path in tests if any(quotes(text, gone) for text in strings(path))]


def quotes(text, gone):
    said = words(text)
    length = min(RUN, len(said))
    return any(tuple(said[at : at + length]) in gone for at in range(len(said) - length + 1))


def strings(path):
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def chosen_tests(root, changed):
    chosen = set()
    for name in changed:
        path = root / name
        package = next((package for package in PACKAGES if name.startswith(package)), None)
        in_tests = name.startswith(tuple(PACKAGES.values()))
        if in_tests and re.fullmatch(r"test_\w+\.py", path.name):
            chosen |= {path} if path.exists() else set()
        elif in_tests and path.suffix == ".py":
            chosen |= naming(path.parent, [path.stem])
        elif package and path.suffix == ".py":
            chosen |= tests_of_module(root / package, root / PACKAGES[package], path)
        elif not in_tests and path.suffix not in CPP:
            chosen |= naming(root / "tests", [path.name])
    changes_hushvec = any(name.startswith("python/hushvec/") and name.endswith((".py", ".pyi")) for name in changed)
    return sorted(str(path.relative_to(root)) for path in chosen) + STRUCTURE * changes_hushvec


def tests_of_module(package, tests, path):
    room, *packages = path.relative_to(package).parts[:-1] or ("",)
    folder = tests / room if (tests / room).is_dir() else tests
    module = path.parent.name if path.name == "__init__.py" else path.stem
    found = importing(folder, module) | naming(folder, names_of_module(path))
    for name in reversed(packages):
        found = found or importing(folder, name)
    return found or set(folder.rglob("test_*.py"))


def importing(folder, name):
    """Test files below the folder that name a module where Python would: a module's name may be an ordinary word elsewhere."""
    pattern = re.compile(rf"\.{re.escape(name)}\b|\bimport\b.*\b{re.escape(name)}\b")
    return {path for path in folder.rglob("test_*.py") if pattern.search(path.read_text(encoding="utf-8"))}


def names_of_module(path):
    """Those of the module's functions and classes. Of a package and of a deleted module, none are known."""
    if path.name == "__init__.py" or not path.exists():
        return []
    defined = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if hasattr(node, "name"))
    return [node.name for node in defined]


def naming(folder, names):
    """Test files below the folder that hold one of the names as a whole word."""
    if not names:
        return set()
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])|\.(?:{'|'.join(map(re.escape, names))})\b")
    return {path for path in folder.rglob("test_*.py") if pattern.search(path.read_text(encoding="utf-8"))}


def commands(changed, tests):
    """Those of one list run one after another, the lists beside each other."""
    python = sys.executable
    checks = [["ruff", "check", "--quiet", *(name for name in LINTED if (ROOT / name).is_dir())]]
    cpp = [name for name in changed if Path(name).suffix in CPP and (ROOT / name).exists()]
    if cpp:
        checks.append(["clang-format", "--dry-run", "--Werror", *cpp])
    if any(name.endswith((".py", ".pyi")) or name == "pyproject.toml" for name in changed):
        checks.append(["mypy"])
    runs = []
    if tests:
        workers = ["--numprocesses", "auto", "--maxprocesses", "4", "--dist", "loadfile"] if len(tests) > 4 else []
        runs.append([python, "-m", "pytest", "--quiet", *workers, "-m", "not alone", *tests])
    if cpp:
        runs.append(["scripts/check_native.sh", "dev"])
    return [checks, runs]


def run_all(queues):
    began = time.monotonic()
    with ThreadPoolExecutor(len(queues)) as pool:
        failed = any(code for codes in pool.map(run_in_order, queues) for code in codes)
    print(f"quick: {'failed' if failed else 'passed'} in {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def run_in_order(queue):
    codes = []
    for command in queue:
        codes.append(subprocess.run(command, cwd=ROOT).returncode)
        print(f"{'failed' if codes[-1] else 'passed'}: {' '.join(command)[:120]}", flush=True)
    return codes


if __name__ == "__main__":
    sys.exit(main())
