"""Long files begin first, and all of them are there."""

from types import SimpleNamespace

import pytest

from order import LONG_FILES, TESTS, longest_first


@pytest.mark.parametrize("file", LONG_FILES)
def test_a_long_file_exists(file):
    assert (TESTS / file).is_file()


def test_long_files_come_first_and_nothing_else_moves():
    first, second = (TESTS / file for file in LONG_FILES[:2])
    paths = [TESTS / "zoo/test_b.py", second, TESTS / "zoo/test_a.py", first, second]
    items = [SimpleNamespace(path=path) for path in paths]
    longest_first(items)
    assert [item.path for item in items] == [first, second, second, TESTS / "zoo/test_b.py", TESTS / "zoo/test_a.py"]
