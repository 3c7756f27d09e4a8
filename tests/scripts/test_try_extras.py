"""scripts/try_extras.py: every extra has a job, and a job that fails is told with what is newer. The nightly run runs the jobs."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts import try_extras

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(try_extras.__file__).parents[1]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = SETTINGS["project"]["optional-dependencies"]


def test_every_extra_has_a_job():
    assert {*try_extras.JOBS, *try_extras.WITHOUT} == set(EXTRAS)
    assert not try_extras.WITHOUT & {*try_extras.JOBS}
    assert "test-all" in SETTINGS["dependency-groups"]
    assert all((ROOT / folder).is_dir() for folder in try_extras.TESTS)


@pytest.mark.parametrize("extra", try_extras.JOBS)
def test_every_job_is_a_program(extra):
    assert compile(try_extras.JOBS[extra], extra, "exec").co_code


def worked(monkeypatch, tmp_path, job):
    """`works` in this environment, with a uv that installs nothing and says that it installed two packages."""
    uv = tmp_path / "uv"
    link = f'[ $1 = pip ] || ln -s {Path(sys.executable).parent} "$6/bin"'
    uv.write_text(f"#!/bin/sh\necho ' + numpy==99.0'; echo ' + brand_new==1.0'\n{link}\n")
    uv.chmod(0o755)
    monkeypatch.setattr(try_extras, "WORK", tmp_path)
    monkeypatch.setitem(try_extras.JOBS, "sklearn", job)
    return try_extras.works(uv, tmp_path / "hushvec.whl", "sklearn")


def test_a_job_that_works(monkeypatch, tmp_path, capsys):
    assert worked(monkeypatch, tmp_path, "import json")
    assert capsys.readouterr().out.startswith("sklearn: works with 2 packages, ")


def test_a_job_that_fails_is_told_with_what_is_newer(monkeypatch, tmp_path, capsys):
    assert not worked(monkeypatch, tmp_path, "import json; json.gone")
    told = capsys.readouterr().out
    assert told.startswith("sklearn: FAILED") and "has no attribute 'gone'" in told
    assert "newer: numpy 99.0 (" in told and "brand_new 1.0 (new)" in told


def test_an_unknown_extra_is_refused():
    done = subprocess.run([sys.executable, try_extras.__file__, "gone"], capture_output=True, text=True)
    assert done.returncode == 2 and "EXTRA must be among torch, text, " in done.stderr and "got gone" in done.stderr
