"""Which tests are run by which target: reads tests/groups.txt, which scripts/group_tests.py makes from measured durations.

A test that is not listed belongs to `make test`. The others are marked with their group: `hosts` needs packages that the environment
of `make test` leaves out, `site` a browser or the site, `device_code` a CUDA compiler, and `slow` takes a third of a second or more.

    python tests/groups.py hosts     the files that have tests of these groups, for pytest's command line; `quick` for `make test`
"""

import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GROUPS = ("hosts", "site", "device_code", "slow")
# Slower than others of `make test`, and there all the same. The other families of kernels have tests below a third of a second.
SENTINELS = (
    "tests/evidence/exact/test_same_bits.py::test_dtypes[portable-laplacian-chacha20]",   # fills, clip-and-noise
    "tests/evidence/exact/test_int8.py::test_gaussian[portable-aes256]",
    "tests/evidence/exact/test_clip_norm_bound.py::test_the_reference_never_exceeds_the_bound",
    "tests/evidence/exact/test_exact_gaussian.py::test_each_level_of_the_ladder_settles_it_right[chacha-4]",
    "tests/evidence/exact/test_exact_laplace.py::test_each_level_of_the_ladder_settles_it_right[chacha-4]",
)


@cache
def listed():
    """id of a test, a function or a file -> (group, seconds)."""
    found = {}
    for line in (ROOT / "tests/groups.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            group, seconds, name = line.split(" ", 2)
            found[name] = group, float(seconds)
    return found


def group_of(name):
    """The group of a test by its id, or None: its own line comes first, then its function's, then its file's."""
    return next((listed()[part][0] for part in (name, name.split("[")[0], name.split("::")[0]) if part in listed()), None)


def sort_and_mark(items, mark):
    """Marks each item with its group, and lets the files with the most seconds begin first: workers take whole files, and one that
    begins last would leave the other processors idle."""
    seconds = {}
    for name, (_, its_seconds) in listed().items():
        file = name.split("::")[0]
        seconds[file] = seconds.get(file, 0) + its_seconds
    for item in items:
        if group := group_of(item.nodeid):
            item.add_marker(getattr(mark, group))
    items.sort(key=lambda item: -seconds.get(item.nodeid.split("::")[0], 0))


def files_of(groups):
    """Test files that have tests of one of the groups, relative to the root."""
    tests = [path.relative_to(ROOT).as_posix() for folder in ("tests", "studies/tests") for path in (ROOT / folder).rglob("test_*.py")]
    if groups == ["quick"]:
        return sorted(file for file in tests if file not in listed())
    asked = {group.replace("-", "_") for group in groups}
    if unknown := asked - set(GROUPS):
        raise SystemExit(f"GROUPS must be among {', '.join(GROUPS)}, got {', '.join(sorted(unknown))}")
    have = {name.split("::")[0] for name, (group, _) in listed().items() if group in asked}
    return sorted(file for file in tests if file in have)


if __name__ == "__main__":
    print(*files_of(sys.argv[1:]))
