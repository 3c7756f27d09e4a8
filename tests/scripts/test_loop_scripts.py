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
    "python/hushvec/errors.py": "class HushvecError(Exception):\n    pass\n",
    "tests/budget/checks.py": "",
    "tests/budget/test_amounts.py": "from hushvec.budget.amounts import Amount\n",
    "tests/budget/test_chain.py": "from budget.checks import chain  # docs/budget.md\n",
    "tests/jobs/test_errors.py": "from hushvec.errors import HushvecError\n",
}


@pytest.fixture
def root(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "chosen"),
    [
        ("python/hushvec/budget/amounts.py", ["tests/budget/test_amounts.py"]),  # names Amount
        ("python/hushvec/budget/store.py", ["tests/budget/test_amounts.py", "tests/budget/test_chain.py"]),  # nothing names it
        ("python/hushvec/budget/absent.py", ["tests/budget/test_amounts.py", "tests/budget/test_chain.py"]),  # deleted
        ("python/hushvec/budget/__init__.py", ["tests/budget/test_amounts.py", "tests/budget/test_chain.py"]),
        ("python/hushvec/errors.py", ["tests/jobs/test_errors.py"]),  # no folder of its own
        ("tests/budget/test_chain.py", ["tests/budget/test_chain.py"]),
        ("tests/budget/test_absent.py", []),
        ("tests/budget/checks.py", ["tests/budget/test_chain.py"]),
        ("docs/budget.md", ["tests/budget/test_chain.py"]),
        ("cpp/src/clip/clip.cpp", []),
    ],
)
def test_chosen_tests(root, changed, chosen):
    assert quick.chosen_tests(root, [changed]) == chosen + quick.STRUCTURE * changed.startswith("python/")


def test_the_name_of_a_module_is_no_ordinary_word(root):
    (root / "tests/budget/test_other.py").write_text("# amounts of money\n")
    assert "tests/budget/test_other.py" not in quick.chosen_tests(root, ["python/hushvec/budget/amounts.py"])


def test_a_module_that_nothing_names_has_the_tests_of_its_package(root):
    module = root / "python/hushvec/budget/ledgers/rows.py"
    module.parent.mkdir()
    module.write_text("def _read():\n    pass\n")
    (root / "tests/budget/test_ledger.py").write_text("from hushvec.budget.ledgers import Ledger\n")
    assert quick.chosen_tests(root, [str(module.relative_to(root))])[0] == "tests/budget/test_ledger.py"
    assert "tests/budget/test_amounts.py" not in quick.chosen_tests(root, [str(module.relative_to(root))])


def test_texts_are_what_errors_say_between_their_values():
    source = 'raise ValueError(f"{name} must be > 0, got {value!r}")\nkind = "two words"\n"""Two lines\nof a docstring."""\n'
    assert quick.texts(source) == {" must be > 0, got "}


def test_texts_that_differ_by_a_comparison_differ():
    gone = quick.runs({" must be > 0, got "}) - quick.runs({" must be >= 0, got "})
    assert quick.quotes("limit must be > 0, got -1", gone) and not quick.quotes("limit must be >= 0, got -1", gone)


def test_tests_that_quote_a_text_are_chosen_in_every_folder(root):
    (root / "tests/jobs/test_other.py").write_text('assert str(error) == "limit must be > 0, got -1"\n')
    assert quick.quoting(root, quick.runs({" must be > 0, got "})) == ["tests/jobs/test_other.py"]
    assert quick.quoting(root, quick.runs({" must be finite, got "})) == []
    assert quick.quoting(root, set()) == []


@pytest.mark.parametrize(
    ("quoted", "is_chosen"),
    [
        ('match=r"must be opened with the key that"', True),
        ('match=r"^names\\.vault: must be opened with"', True),
        ('match="with the key"', True),
        ('assert "v: must be opened with the key, unchanged" in text', True),
        ('match="must be opened"', True),
        ('match="must be a vault of pseudonyms, opened"', False),
        ('match="vault"', False),
    ],
)
def test_a_part_of_a_changed_text_is_a_quotation(root, quoted, is_chosen):
    (root / "tests/jobs/test_other.py").write_text(f"f({quoted})\n" if quoted.startswith("match") else f"{quoted}\n")
    gone = quick.runs({": must be opened with the key that it was written with"}) - quick.runs({": must be a vault", "the key that"})
    assert quick.quoting(root, gone) == ["tests/jobs/test_other.py"] * is_chosen


def test_structure_names_tests_that_exist():
    for name in quick.STRUCTURE:
        file, _, test = name.partition("::")
        text = (ROOT / file).read_text()
        assert not test or f"def {test}(" in text


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
