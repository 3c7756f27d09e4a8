"""The figures of scripts/house.py, and that the names used beyond faces become fewer."""

import ast
import inspect

import pytest

import hushvec as hv
from hushvec.jobs import NoiseJob
from hushvec.receipts import AggregateReceipt
from hushvec.text import Chunking, Rewriter, rewrite
from scripts.test_loop_scripts import ROOT, script

house = script("house")

# Names of each room of the core that its wings and the studies use although they are in no face. They may only become fewer:
# `python scripts/house.py --beyond` lists them.
MOST_BEYOND_FACES = {
    "_util": 17, "_native": 6, "noise": 1, "accounting": 1, "budget": 7, "mechanisms": 13, "receipts": 5, "release": 0,
}


# Calls of more than 12 arguments, and why.
LONG_CALLS = {
    "hushvec.release.vectors.privatize": "the front door: README and the source documents have these names",
    "hushvec.middleware.privacy.dp_embedding_middleware": "a source document has sensitivity and model_id; the rest is privatize's",
    "hushvec.text.rewriting.rewriter.rewrite": "a text, a budget and what Rewriter takes: the one call of a source document",
}
# What the library fills and others read: as many fields as there are facts.
RECORDS = {
    "AggregateReceipt", "BudgetState", "LabelReceipt", "MembershipResult", "Receipt", "ReportReceipt", "Rewriting", "SelectionReceipt",
    "TrainingGuarantee", "TrainingReceipt",
}  # fmt: skip


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


def test_settings_that_are_handed_on_and_fields_count_as_arguments():
    for call in (hv.privatize, Rewriter, rewrite, hv.recommend, NoiseJob.start):
        module, name = inspect.unwrap(call).__module__, call.__qualname__
        path = f"python/{module.replace('.', '/')}.py"
        found = house.arguments_of(dict(house.public_functions(house.tree_of(path)))[name])
        assert found == {one for one, kind in inspect.signature(call).parameters.items() if kind.kind is not kind.VAR_KEYWORD}
    for record in (hv.Receipt, AggregateReceipt, Chunking):
        assert house.fields_of(record.__name__) == {*inspect.signature(record).parameters}


def test_no_call_has_more_than_12_arguments():
    found = house.long_calls()
    assert {name for name in found if name.rpartition(".")[2] not in RECORDS} == {*LONG_CALLS}
    assert {name.rpartition(".")[2] for name in found} >= RECORDS


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
