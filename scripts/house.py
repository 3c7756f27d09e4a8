"""The house in figures: rooms, floors, arrows, names used beyond faces, sizes, long calls and the words of the documents.

    python scripts/house.py              # a table
    python scripts/house.py --beyond     # every name used beyond a face, with the rooms that use it
    python scripts/house.py --json       # the figures alone, to compare two commits

A room is a folder of `python/hushvec`, or a module beside them. An arrow is an import between two rooms, nested imports and those
for type checkers included; floors are the rooms of the longest chain of arrows. A face is what a room offers to the others: the
`__all__` of its package or of a module, `hushvec` itself and `hushvec.extend`. Files are those that git knows.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# What a reviewer of a guarantee reads; it is drawn as one room, too.
CORE = ("errors", "_util", "_native", "noise", "accounting", "budget", "mechanisms", "receipts", "release")
# They hand on the names of other rooms: of the package's top level, and of those who write their own release.
DOORPLATES = ("__init__", "__main__", "extend")
SHORT_FILE = 80
MOST_ARGUMENTS = 12
LONGEST_LINE = 130
DOCUMENTS = ("README.md", "docs", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md")

ROOMS = {path.stem for path in (ROOT / "python/hushvec").iterdir() if path.is_dir() or path.suffix == ".py"}
Arrows = Mapping[str, set[str]]


def listed(*patterns: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in done.stdout.splitlines() if (ROOT / path).is_file()]


@cache
def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"))


def library() -> dict[str, str]:
    """Path of each module of the library -> its room."""
    return {path: Path(path).parts[2].removesuffix(".py") for path in listed("python/hushvec/*.py")}


def imported_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(room, what is imported) of every import of hushvec: "module.name" below the room, or "" for the room as a whole. The package's
    top level is the room `__init__`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        for name in found:
            package, _, rest = name.partition(".")
            if package == "hushvec":
                room, _, inner = rest.partition(".")
                yield (room, inner) if room in ROOMS else ("__init__", rest)


# ---- rooms, arrows and floors


def arrows_between(rooms: Mapping[str, str]) -> dict[str, set[str]]:
    """Room -> the rooms that it imports."""
    arrows: dict[str, set[str]] = {room: set() for room in rooms.values()}
    for path, room in rooms.items():
        arrows[room] |= {other for other, _ in imported_names(tree_of(path))} - {room}
    return arrows


def with_core_as_one(arrows: Arrows) -> dict[str, set[str]]:
    """The same arrows with one room for the core and `hushvec.extend`, its face for those who build on it."""
    name = {room: "core" if room in (*CORE, "extend") else room for room in arrows}
    drawn: dict[str, set[str]] = {one: set() for one in name.values()}
    for room, others in arrows.items():
        drawn[name[room]] |= {name[other] for other in others} - {name[room]}
    return drawn


def floors(arrows: Arrows) -> int:
    """Rooms in the longest chain of arrows. Raises RecursionError in a circle, which tests/structure refuses."""

    @cache
    def height(room: str) -> int:
        return 1 + max(map(height, arrows[room]), default=0)

    return max(map(height, arrows))


# ---- faces


@cache
def face_of(path: str) -> set[str]:
    """The names in the `__all__` of a module; none where there is no such file."""
    if not (ROOT / path).is_file():
        return set()
    lists = (node for node in tree_of(path).body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
    return {name for node in lists for name in ast.literal_eval(node.value)}


def is_in_a_face(room: str, inner: str) -> bool:
    """Whether a name below a room is one of its package, of the module that it is imported from, or of `hushvec` itself."""
    module, _, name = inner.rpartition(".")
    file = "/".join((room, *filter(None, module.split("."))))
    return any(name in face_of(f"python/hushvec/{one}") for one in (f"{room}/__init__.py", f"{file}.py")) or name in names_at_the_top()


def beyond_faces() -> dict[str, dict[str, set[str]]]:
    """Room of the core -> name that is used from above and is in no face -> who uses it: a room, or the studies. These are a package
    of their own: the faces of private rooms are not for them."""
    rooms = library()
    users = {path: room for path, room in rooms.items() if room not in (*CORE, *DOORPLATES)}
    users |= dict.fromkeys(listed("studies/hushvec_studies/*.py"), "studies")
    found: dict[str, dict[str, set[str]]] = {room: {} for room in CORE if room != "errors"}
    for path, user in users.items():
        for room, inner in imported_names(tree_of(path)):
            is_public = not room.startswith("_") or inner.rpartition(".")[2] in names_at_the_top()
            if room in found and inner and not (is_in_a_face(room, inner) and (is_public or user != "studies")):
                found[room].setdefault(inner, set()).add(user)
    return found


def names_at_the_top() -> set[str]:
    """The names of `hushvec` itself, which may be imported from where they are defined."""
    return face_of("python/hushvec/__init__.py")


# ---- sizes


def functions_in(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def lines_of(path: str) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def long_calls() -> dict[str, int]:
    """Public functions, methods and classes with more than 12 arguments -> how many. Keys of an `Unpack[...]` count, and the fields of
    dataclasses that are in a face or an integration."""
    found: dict[str, int] = {}
    for path, room in library().items():
        where = path.removeprefix("python/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        if any(part.startswith("_") for part in where.split(".")):
            continue
        calls = {name: arguments_of(function) for name, function in public_functions(tree_of(path))}
        for node in classes_in(path):
            is_made = any(ast.unparse(one).startswith("dataclass") for one in node.decorator_list)
            if is_made and (room == "integrations" or is_in_a_face(room, f"{where}.{node.name}".split(".", 2)[2])):
                calls.setdefault(node.name, fields_of(node.name))
        found |= {f"{where}.{name}": len(names) for name, names in calls.items() if len(names) > MOST_ARGUMENTS}
    return found


def arguments_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    taken = function.args
    names = {one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)} - {"self", "cls"}
    unpacked = re.fullmatch(r"Unpack\[(\w+)\]", ast.unparse(taken.kwarg.annotation or taken.kwarg) if taken.kwarg else "")
    return names | (fields_of(unpacked[1]) if unpacked else set())


def classes_in(path: str) -> Iterator[ast.ClassDef]:
    return (node for node in tree_of(path).body if isinstance(node, ast.ClassDef))


@cache
def classes() -> dict[str, ast.ClassDef]:
    return {node.name: node for path in library() for node in classes_in(path)}


def fields_of(name: str) -> set[str]:
    """The fields that a dataclass or a TypedDict is made of, those of its bases included."""
    node, found = classes()[name], set()
    for base in node.bases:
        found |= fields_of(base.id) if isinstance(base, ast.Name) and base.id in classes() else set()
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and not re.match("ClassVar|KW_ONLY", ast.unparse(one.annotation)):
            found |= set() if one.value is not None and "init=False" in ast.unparse(one.value) else {ast.unparse(one.target)}
    return found


def public_functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for method in functions_in(ast.Module(node.body, [])):
                if method.name == "__init__":
                    yield node.name, method
                elif not method.name.startswith("_"):
                    yield f"{node.name}.{method.name}", method
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield node.name, node


def words_in(paths: list[str]) -> int:
    return sum(len(re.findall(r"\S+", (ROOT / path).read_text(encoding="utf-8"))) for path in paths)


def measured() -> dict[str, Any]:
    rooms = library()
    arrows = arrows_between(rooms)
    drawn = with_core_as_one(arrows)
    lines: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for path, room in rooms.items():
        lines[room] += len(lines_of(path))
        functions[room] += sum(1 for _ in functions_in(tree_of(path)))
    markdown = listed("*.md")
    documents = [path for path in markdown if path.split("/")[0] in DOCUMENTS]
    return {
        "rooms": len(arrows),
        "floors": floors(arrows),
        "arrows": sum(map(len, arrows.values())),
        "rooms with the core as one": len(drawn),
        "floors with the core as one": floors(drawn),
        "arrows with the core as one": sum(map(len, drawn.values())),
        "names beyond faces": {room: len(names) for room, names in beyond_faces().items()},
        "files": len(rooms),
        f"files below {SHORT_FILE} lines": sum(len(lines_of(path)) < SHORT_FILE for path in rooms),
        "lines": dict(sorted(lines.items())),
        "functions": dict(sorted(functions.items())),
        f"calls with more than {MOST_ARGUMENTS} arguments": long_calls(),
        "words of the documents": words_in(documents),
        "words of all markdown": words_in(markdown),
        f"lines of markdown above {LONGEST_LINE} characters": sum(
            len(line) > LONGEST_LINE for path in markdown for line in lines_of(path)
        ),
    }


def table(figures: Mapping[str, Any]) -> str:
    parts = []
    for name, value in figures.items():
        if not isinstance(value, dict):
            parts.append(f"{name:48} {value:>8,}")
            continue
        counted = name.startswith("calls")
        parts.append(f"{name:48} {len(value) if counted else sum(value.values()):>8,}")
        parts += [f"    {one:44} {count:>8,}" for one, count in value.items()]
    return "\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beyond", action="store_true", help="list the names used beyond faces")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if arguments.beyond:
        beyond = {room: {name: sorted(users) for name, users in sorted(names.items())} for room, names in beyond_faces().items()}
        if arguments.json:
            print(json.dumps(beyond, indent=1))
            return
        for room, names in beyond.items():
            print(f"{room}: {len(names)}")
            print("".join(f"    {name}: {', '.join(users)}\n" for name, users in names.items()), end="")
        return
    figures = measured()
    print(json.dumps(figures, indent=1) if arguments.json else table(figures))


if __name__ == "__main__":
    main()
