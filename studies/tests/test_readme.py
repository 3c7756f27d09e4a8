"""studies/README.md: every command is one, every folder of results is there, and every program is listed."""

import re
from importlib.util import find_spec
from pathlib import Path

import hushvec_studies
from hushvec_studies.retrieval.configuration import shipped

STUDIES = Path(__file__).parents[1]
PACKAGE = Path(hushvec_studies.__file__).parent
README = (STUDIES / "README.md").read_text(encoding="utf-8")
PROGRAMS = set(re.findall(r"python -m (hushvec_studies[\w.]+)", README))


def test_every_program_is_listed():
    written = {
        ".".join(("hushvec_studies", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in PACKAGE.rglob("*.py")
        if 'if __name__ == "__main__":\n    main()' in path.read_text(encoding="utf-8")
    }
    assert PROGRAMS == written
    assert all(find_spec(name) for name in PROGRAMS)


def test_configurations_and_results_are_there():
    assert set(re.findall(r"study run (\w+)", README)) <= set(shipped())
    for place in re.findall(r"\| `(\w+/results[\w/.*]*)`", README):
        assert list(PACKAGE.glob(place)), place


def test_guides_are_there():
    for name in re.findall(r"\]\((\.\./docs/\w+\.md)\)", README):
        assert (STUDIES / name).is_file(), name
