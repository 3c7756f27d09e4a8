"""Which system this is, is known in one module: `_util/os_files.py`."""

import ast

import pytest

from structure.test_structure import MODULES, PACKAGE

HOME = "_util/os_files.py"
MODULES_OF_ONE_SYSTEM = {"fcntl", "resource", "msvcrt", "winreg", "_winapi", "grp", "pwd", "termios"}
CALLS_OF_ONE_SYSTEM = {
    "fchmod", "fchown", "fork", "forkpty", "fsync", "getegid", "geteuid", "getgid", "getuid", "link", "name", "replace",
    "register_at_fork", "sched_getaffinity", "setsid", "statvfs", "sync", "sysconf", "uname", "O_BINARY", "O_CLOEXEC", "O_NOFOLLOW",
}   # fmt: skip
PATHS_OF_ONE_SYSTEM = ("/proc", "/dev/", "/sys/")


def _documentation(tree):
    """The strings that stand alone: docstrings."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def reaches(source):
    """What a module uses that not every system has."""
    tree = ast.parse(source)
    said = _documentation(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names if alias.name in MODULES_OF_ONE_SYSTEM)
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names} & {"os": CALLS_OF_ONE_SYSTEM, "sys": {"platform"}}.get(node.module, set())
            if node.module in MODULES_OF_ONE_SYSTEM or names:
                yield f"from {node.module} import"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            whole = f"{node.value.id}.{node.attr}"
            if (node.value.id == "os" and node.attr in CALLS_OF_ONE_SYSTEM) or whole == "sys.platform":
                yield whole
        elif isinstance(node, ast.Constant) and id(node) not in said and str(node.value).startswith(PATHS_OF_ONE_SYSTEM):
            yield repr(node.value)


@pytest.mark.parametrize(
    ("planted", "found"),
    [
        ("def f():\n    import fcntl", ["import fcntl"]),
        ("from resource import getrlimit", ["from resource import"]),
        ("from os import link", ["from os import"]),
        ("import os\nos.fchmod(1, 0o600)\nos.link('a', 'b')", ["os.fchmod", "os.link"]),
        ("import os\nif hasattr(os, 'fork'):\n    os.register_at_fork(before=print)", ["os.register_at_fork"]),
        ("import os\nos.open('a', os.O_NOFOLLOW)", ["os.O_NOFOLLOW"]),
        ("import sys\nif sys.platform == 'linux':\n    pass", ["sys.platform"]),
        ("open('/proc/self/status')", ["'/proc/self/status'"]),
        ('"""Like /proc."""\nimport os\nos.open("a", os.O_RDONLY)\nfrom importlib import resources\nfrom os import fspath', []),
    ],
)
def test_the_finder_finds(planted, found):
    assert sorted(reaches(planted)) == found


def test_one_module_knows_the_system():
    found = {path.relative_to(PACKAGE).as_posix(): list(reaches(path.read_text(encoding="utf-8"))) for path in MODULES.values()}
    assert {"import fcntl", "import msvcrt", "import resource", "os.link", "sys.platform"} <= set(found.pop(HOME))
    assert {name: reached for name, reached in found.items() if reached} == {}
