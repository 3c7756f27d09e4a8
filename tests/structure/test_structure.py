"""The shape of the package: no circle of imports, no reach into private names, small files, few modules at its top level."""

import ast
from pathlib import Path

import hushvec as hv

PACKAGE = Path(hv.__file__).parent
MODULES = {
    ".".join(("hushvec", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}

LARGEST_FILE = 800
MOST_AT_TOP_LEVEL = 8
LARGEST_SHARE = 0.25
# Packages whose private names belong to the whole of hushvec.
SHARED = {"_native", "_util"}


def imports(source):
    """(module, name or None) of every import of hushvec, nested ones and those for type checkers included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            found = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [(alias.name, None) for alias in node.names]
        else:
            continue
        yield from (pair for pair in found if pair[0].split(".")[0] == "hushvec")


def imported_modules(source, modules):
    """The modules that a module imports; a name that is no module counts for the module that has it."""
    found = set()
    for module, name in imports(source):
        whole = f"{module}.{name}"
        found.add(whole if whole in modules else module)
    return found & set(modules)


def circles(arrows):
    """Sets of modules that reach each other, by Tarjan's algorithm."""
    number, low, stack, found = {}, {}, [], []

    def visit(module):
        number[module] = low[module] = len(number)
        stack.append(module)
        for other in arrows[module]:
            if other not in number:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == number[module]:
            place = stack.index(module)
            if len(stack) - place > 1 or module in arrows[module]:
                found.append(set(stack[place:]))
            del stack[place:]

    for module in arrows:
        if module not in number:
            visit(module)
    return found


def private_reaches(source, package):
    """Imports of private names or modules of another package."""
    for module, name in imports(source):
        parts = [part for part in (*module.split(".")[1:], name) if part]
        other = bool(parts) and parts[0] not in SHARED and parts[0] != package
        if other and any(part.startswith("_") and not part.startswith("__") for part in parts):
            yield f"{module}.{name}" if name else module


def lines(path):
    return len(path.read_text().splitlines())


def test_the_finders_find():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set(), "e": {"e"}}) == [{"a", "b", "c"}, {"e"}]
    nested = "def f():\n    from hushvec.a import b, d\n    import hushvec.c\nimport numpy"
    assert imported_modules(nested, {"hushvec.a", "hushvec.a.b", "hushvec.c"}) == {"hushvec.a", "hushvec.a.b", "hushvec.c"}
    source = "from hushvec.a import _x\nfrom hushvec.a._y import z\nfrom hushvec.b import _w\nfrom hushvec._util import lines"
    assert list(private_reaches(source, "b")) == ["hushvec.a._x", "hushvec.a._y.z"]


def test_no_circle_of_imports():
    arrows = {name: imported_modules(path.read_text(), MODULES) for name, path in MODULES.items()}
    assert circles(arrows) == []


def test_no_private_name_of_another_package():
    found = {
        name: list(private_reaches(path.read_text(), name.split(".")[1] if "." in name else "")) for name, path in MODULES.items()
    }
    assert {name: reached for name, reached in found.items() if reached} == {}


def test_no_file_is_long():
    assert {name: lines(path) for name, path in MODULES.items() if lines(path) > LARGEST_FILE} == {}


def test_few_names_at_the_top_level():
    single = sorted(path.name for path in PACKAGE.iterdir() if path.is_file())
    assert len(single) <= MOST_AT_TOP_LEVEL, single


def test_no_package_is_most_of_the_library():
    sizes: dict[str, int] = {}
    for path in MODULES.values():
        room = path.relative_to(PACKAGE).parts[0]
        sizes[room] = sizes.get(room, 0) + lines(path)
    largest = max(sizes, key=lambda room: sizes[room])
    assert sizes[largest] <= LARGEST_SHARE * sum(sizes.values()), f"{largest} has {sizes[largest]} lines"
