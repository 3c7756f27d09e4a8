"""The scripts of the contributor's loop: which tests `make quick` chooses, which subjects of commits pass."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quick = script("quick")

FILES = {
    "python/hushvec/budget/amounts.py": "class Amount:\n    pass\n",
    "python/hushvec/budget/store.py": "def opened():\n    pass\n",
    "python/hushvec/_native/arrays.py": "def rows_of():\n    pass\n",
    "tests/structure/test_package.py": "",
    "tests/api/test_rows.py": "from hushvec._native.arrays import rows_of\n",
    "tests/budget/checks.py": "",
    "tests/budget/test_amounts.py": "from hushvec.budget.amounts import Amount\n",
    "tests/budget/test_chain.py": "from budget.checks import chain  # docs/budget.md\n",
}
WHOLE = "tests/structure/test_package.py"


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("python/hushvec/budget/amounts.py", [WHOLE, "tests/budget/test_amounts.py"]),  # names Amount
        ("python/hushvec/budget/store.py", [WHOLE, "tests/budget/test_amounts.py", "tests/budget/test_chain.py"]),  # nothing names it
        ("python/hushvec/budget/absent.py", [WHOLE, "tests/budget/test_amounts.py", "tests/budget/test_chain.py"]),  # deleted
        ("python/hushvec/_native/arrays.py", [WHOLE, "tests/api/test_rows.py"]),  # no folder of its own
        ("tests/budget/test_chain.py", ["tests/budget/test_chain.py"]),
        ("tests/budget/test_absent.py", []),
        ("tests/budget/checks.py", ["tests/budget/test_chain.py"]),
        ("docs/budget.md", ["tests/budget/test_chain.py"]),
        ("cpp/src/clip/clip.cpp", []),
    ],
)
def test_chosen_tests(root, changed, chosen):
    assert quick.chosen_tests(root, [changed]) == chosen


def test_names_are_whole_words(root):
    (root / "tests/budget/test_other.py").write_text("AmountOf, my_amounts, amounts_of\n")
    assert "tests/budget/test_other.py" not in quick.chosen_tests(root, ["python/hushvec/budget/amounts.py"])


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Add a loop\n\nAnd why.\n# a comment of git\n", None),
        ("Merge branch 'x' of a repository whose name is so long that the subject has more than 72 characters\n", None),
        ("x" * 73, "the subject must have at most 72 characters, got 73"),
        ("add a loop", "the subject must begin with a capital, got 'add a loop'"),
        ("Add a loop.", "the subject must not end with a full stop, got 'Add a loop.'"),
        ("Added a loop", "the subject must be in the imperative, got 'Added a loop'"),
        ("Add a loop\nAnd why", "the second line must be empty, got 'And why'"),
    ],
)
def test_subjects_of_commits(message, fault):
    assert list(script("check_subject").faults(message))[:1] == ([fault] if fault else [])
