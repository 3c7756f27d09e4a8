"""One base for every exception class of the package."""

import ast
import builtins
import pickle
from pathlib import Path

import pytest

import hushvec as hv
from hushvec import errors

PACKAGE = Path(hv.__file__).parent


def is_builtin_error(name):
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning)


def exception_classes():
    """(where, names of bases) of every class that derives from a built-in exception which is no warning."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases = [base.id for base in node.bases if isinstance(base, ast.Name)]
                if any(map(is_builtin_error, bases)) or "HushvecError" in bases:
                    yield f"{path.relative_to(PACKAGE)}: {node.name}", bases


def test_every_exception_class_derives_from_the_base():
    found = dict(exception_classes())
    assert len(found) > 15
    base = found.pop("errors.py: HushvecError")
    assert base == ["Exception"]
    assert [where for where, bases in found.items() if bases[0] != "HushvecError"] == []


@pytest.mark.parametrize(
    "kind, builtin, arguments",
    [
        (errors.ReceiptError, ValueError, ("bad",)),
        (errors.MissingExtraError, ImportError, ("it", "text")),
        (errors.BudgetError, OSError, ("full",)),
        (errors.PrivacyBudgetExhaustedError, RuntimeError, ("spent",)),
        (errors.StoreError, OSError, ("locked",)),
        (errors.SecureMemoryError, RuntimeError, ("gone",)),
    ],
)
def test_public_errors_are_caught_as_both(kind, builtin, arguments):
    for caught in (hv.HushvecError, builtin):
        with pytest.raises(caught) as raised:
            raise kind(*arguments)
        assert arguments[0] in str(raised.value)


def test_errors_survive_pickling():
    for error in (errors.StoreError("locked"), errors.BudgetError("full", "c1", True), errors.PrivacyBudgetExhaustedError("spent")):
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
