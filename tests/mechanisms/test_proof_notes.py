"""Every proof note names code and tests that exist, and every mechanism has a note.

Read in a note's paragraphs with "Code:", "Test:", "Tests:" or "Carried by:": what stands in backticks is a path, a test file or
folder, a test, or a name (dotted or not) that Python, C++ or CUDA sources define.
"""

import ast
import re
from pathlib import Path

import pytest

from hushvec.mechanisms import INTEGER_MECHANISMS, MECHANISMS, MetricLaplace, PublicCodebook, PublicProjection

ROOT = Path(__file__).parents[2]
NOTES = sorted((ROOT / "docs" / "proofs").glob("*.md"))
SOURCES = [path for folder in ("python", "cpp", "cuda", "tests") for path in (ROOT / folder).rglob("*") if path.is_file()]
PYTHON = [path for path in SOURCES if path.suffix == ".py" and "tests" not in path.relative_to(ROOT).parts]
COMPILED = [path for path in SOURCES if path.suffix in (".cpp", ".hpp", ".cu", ".cuh") and "tests" not in path.relative_to(ROOT).parts]
TESTS = [path for path in SOURCES if path.is_relative_to(ROOT / "tests") and path.suffix in (".py", ".cpp", ".cu")]
NOTE_OF = {
    **{kind: f"{name}.md" for name, kind in MECHANISMS.items()},
    **dict.fromkeys(INTEGER_MECHANISMS.values(), "discrete_gaussian.md"),
    MECHANISMS["empirical"]: "empirical_gaussian.md",
    MetricLaplace: "metric_dp.md",
    PublicCodebook: "codebook.md",
    PublicProjection: "projection.md",
}


def python_names(paths):
    """What modules and classes define: "name", and for members "Class.name"."""
    names = set()
    for path in paths:
        for node in ast.parse(path.read_text()).body:
            names |= defined(node)
            if isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{name}" for member in node.body for name in defined(member)}
    return names


def defined(node):
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


PYTHON_NAMES = python_names(PYTHON)
COMPILED_WORDS = {word for path in COMPILED for word in re.findall(r"\w+", path.read_text())}
TESTS_OF = {
    path: {test for name in python_names([path]) if (test := name.rpartition(".")[2]).startswith("test_")}
    for path in TESTS
    if path.suffix == ".py"
}


def paragraphs(text):
    """Tokens in backticks of each paragraph that names code and tests, from there on."""
    for paragraph in re.split(r"\n\s*\n", text):
        found = re.search(r"\b(Code|Tests?|Carried by):", paragraph)
        if found:
            yield re.findall(r"`([^`\n]+)`", paragraph[found.start() :])


def files_of_tests(token):
    """The test files that a token names: by path, by folder, or by file name alone."""
    path = ROOT / token
    if token.startswith("tests/"):
        return [file for file in TESTS if file == path or file.is_relative_to(path)]
    return [file for file in TESTS if file.name == token]


def is_test(token, among):
    """A file or folder of tests, or a test in one of these files."""
    if re.fullmatch(r"test_\w+", token):
        return any(token in TESTS_OF.get(file, ()) for file in among)
    return bool(files_of_tests(token))


def is_code(token):
    """A path or file name, or a name that is defined: function, Class.member, module.function, Namespace::function."""
    if "/" in token or token.endswith((".py", ".cpp", ".hpp")):
        return (ROOT / token).exists() or any(path.name == token for path in SOURCES)
    if "::" in token:
        return set(token.split("::")) <= COMPILED_WORDS
    words = token.removesuffix("()").split(".")
    if len(words) == 1:
        # members, and the ends that follow a name written in full: `bound_upper`, `_lower`
        ends = (f".{token}", token if token.startswith("_") else f".{token}")
        return token in PYTHON_NAMES or token in COMPILED_WORDS or any(name.endswith(ends) for name in PYTHON_NAMES)
    if (ROOT / "python").joinpath(*words).with_suffix(".py").is_file() or (ROOT / "python").joinpath(*words).is_dir():
        return True
    owners = [path for path in PYTHON if words[-2] in (path.stem, path.parent.name)]
    return ".".join(words[-2:]) in PYTHON_NAMES or words[-1] in python_names(owners)


def kinds(tokens):
    """Each token with "code" or "test" if it exists, else None. A test has to be in a file of its paragraph, if that names any."""
    named = [file for token in tokens for file in files_of_tests(token)] or TESTS
    for token in tokens:
        if token.startswith(("tests/", "test_")):
            yield token, "test" if is_test(token, named) else None
        else:
            yield token, "code" if is_code(token) else None


def missing(text):
    """What a note names and is not there; what it does not name at all."""
    found = [pair for tokens in paragraphs(text) for pair in kinds(tokens)]
    absent = [token for token, kind in found if kind is None]
    return absent + [f"no {kind}" for kind in ("code", "test") if kind not in dict(map(reversed, found))]


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.name)
def test_a_note_names_what_exists(note):
    assert missing(note.read_text()) == []


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.name)
def test_every_claim_is_carried(note):
    """A note that ties its claims one by one leaves none out."""
    text = note.read_text()
    if "Carried by:" in text:
        claims = re.split(r"^\*\*(?=Claim|No claim)", text, flags=re.MULTILINE)[1:]
        assert claims
        for claim in claims:
            assert {kind for tokens in paragraphs(claim) for _, kind in kinds(tokens)} >= {"code", "test"}, claim[:60]


@pytest.mark.parametrize("kind", NOTE_OF, ids=lambda kind: kind.__name__)
def test_every_mechanism_has_a_note(kind):
    text = (ROOT / "docs" / "proofs" / NOTE_OF[kind]).read_text()
    assert re.search(rf"`[\w.]*\b{kind.__name__}\b", text)


@pytest.mark.parametrize(
    "text",
    [
        "Code: `no_such_function` in `python/hushvec/mechanisms/additive.py`; `test_root_up` in `tests/mechanisms/test_additive.py`.",
        "Code: `root_up` in `python/hushvec/mechanisms/gone.py`; `test_root_up` in `tests/mechanisms/test_additive.py`.",
        "Code: `root_up` in `python/hushvec/mechanisms/base.py`; `test_gone` in `tests/mechanisms/test_additive.py`.",
        "Code: `root_up` in `python/hushvec/mechanisms/base.py`; `test_root_up` in `tests/api/test_gone.py`.",
        "Code: `root_up` in `python/hushvec/mechanisms/base.py`; `test_root_up` in `tests/structure/test_package.py`.",
        "Code: `Gaussian.gone`. Test: `test_root_up`.",
        "Code: `Laplacian.sigma`. Test: `test_root_up`.",
        "Code: `root_up`. No test.",
        "Test: `test_root_up`. No code.",
        "A note about `root_up` and `test_root_up` that ties nothing.",
    ],
)
def test_a_broken_note_is_noticed(text):
    assert missing(text)


def test_a_good_note_passes():
    good = "Code: `root_up`, `Gaussian.sigma`, `hushvec.release.privatize`. Test: `test_root_up` in `tests/mechanisms/test_additive.py`."  # noqa: E501
    assert missing(f"Words.\n\n{good}\n") == []
