"""Commands of other distributions: imported when they are called, listed in the help, and named where they are not installed."""

import sys
from importlib.metadata import EntryPoint

import pytest

from cli.command import assert_one_line, hushvec_here
from hushvec.cli import _map

MODULE = '''
from hushvec.cli._arguments import add_command

def add_to(subparsers):
    parser = add_command(subparsers, "weigh", lambda options: print(options.what) or 0, "help", "text")
    parser.add_argument("what")
'''


@pytest.fixture
def weigh(tmp_path, monkeypatch):
    """A distribution with the command `weigh`."""
    (tmp_path / "weighing.py").write_text(MODULE)
    metadata = tmp_path / "weighing-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: weighing\nVersion: 1.0\nSummary: weigh what there is\n")
    (metadata / "entry_points.txt").write_text("[hushvec.commands]\nweigh = weighing:add_to\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("weighing", None)


def test_a_command_that_is_installed(weigh):
    finished = hushvec_here("weigh", "this")
    assert (finished.code, finished.out) == (0, "this\n")


def test_help_shows_the_summary_and_imports_nothing(weigh):
    finished = hushvec_here("--help")
    assert finished.code == 0
    assert "weigh what there is" in finished.out
    assert "weighing" not in sys.modules


def test_a_study_without_its_package(monkeypatch):
    monkeypatch.setattr(_map, "added_commands", dict)
    finished = hushvec_here("study", "run", "default")
    assert_one_line(finished)
    assert finished.err == "hushvec study: needs hushvec-studies; in a clone of the repository: pip install . ./studies\n"
    assert "needs hushvec-studies; in a clone" in " ".join(hushvec_here("--help").out.split())


def test_a_command_that_cannot_be_imported(monkeypatch):
    broken = {"weigh": EntryPoint("weigh", "no_such_module_here:add_to", _map.GROUP)}
    monkeypatch.setattr(_map, "added_commands", lambda: broken)
    finished = hushvec_here("weigh")
    assert_one_line(finished)
    assert finished.err == "hushvec weigh: No module named 'no_such_module_here'\n"


def test_a_wrong_command_is_named_with_the_one_that_was_meant(weigh):
    finished = hushvec_here("wiegh")
    assert_one_line(finished)
    assert finished.err == "hushvec: invalid choice: 'wiegh', did you mean 'weigh'? (hushvec alone lists the commands)\n"
    assert "weighing" not in sys.modules
