"""The figures of scripts/house.py, and that the names used beyond faces become fewer."""

import ast

import pytest

from scripts.test_loop_scripts import ROOT, script

house = script("house")

# Names of each room of the core that its wings and the studies use although they are in no face. They may only become fewer:
# `python scripts/house.py --beyond` lists them.
MOST_BEYOND_FACES = {
    "_util": 18, "_native": 6, "noise": 1, "accounting": 1, "budget": 7, "mechanisms": 13, "receipts": 5, "release": 0,
}


@pytest.fixture(autouse=True)
def in_a_clone():
    if not (ROOT / ".git").exists():
        pytest.skip("the house is measured on the files that git knows")


def test_imports_are_found():
    source = "import hushvec\nimport hushvec.audit.targets\nfrom hushvec import budget, clip"
    source += "\ndef f():\n    from hushvec.noise.fills import clip"
    found = [("__init__", ""), ("audit", "targets"), ("budget", ""), ("__init__", "clip"), ("noise", "fills.clip")]
    assert list(house.imported_names(ast.parse(source))) == found


def test_floors_are_the_longest_chain():
    arrows = {"errors": set(), "noise": {"errors"}, "budget": {"errors", "noise"}, "audit": {"budget"}, "text": {"errors"}}
    assert house.floors(arrows) == 4
    drawn = house.with_core_as_one(arrows)
    assert drawn == {"core": set(), "audit": {"core"}, "text": {"core"}} and house.floors(drawn) == 2


def test_public_calls_are_counted_by_their_arguments():
    source = "def f(a, /, b, *, c): ...\ndef _i(): ...\n"
    source += "class A:\n    def __init__(self, a): ...\n    def g(self, b): ...\n    def _h(self): ..."
    assert [(name, len(one.args.args)) for name, one in house.public_functions(ast.parse(source))] == [("f", 1), ("A", 2), ("A.g", 2)]


def test_a_name_is_in_the_face_of_its_package_its_module_or_hushvec():
    shown = ("budget", "charge.Charge"), ("_util", "display.plural"), ("_util", "validate"), ("_native", "_core.Generator")
    hidden = ("_util", "display.array_shown"), ("_util", "display"), ("_native", "kernels.fill"), ("budget", "chain.Walk")
    assert all(house.is_in_a_face(*name) for name in shown) and not any(house.is_in_a_face(*name) for name in hidden)


def test_names_beyond_faces_become_fewer():
    found = house.beyond_faces()
    assert found.keys() == MOST_BEYOND_FACES.keys()
    assert {room: sorted(names) for room, names in found.items() if len(names) > MOST_BEYOND_FACES[room]} == {}


def test_the_table_has_every_room():
    figures = house.measured()
    printed = house.table(figures)
    assert sum(figures["lines"].values()) > 10_000 and all(f"    {room} " in printed for room in figures["lines"])
