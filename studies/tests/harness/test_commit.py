"""The commit of a folder's repository, as git says it."""

import subprocess

import pytest

from hushvec_studies.harness.outputs import commit_of


def git(folder, *arguments):
    who = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org")
    return subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    git(tmp_path, "init", "--quiet")
    return tmp_path


def test_a_commit_also_below_and_in_a_linked_work_tree(repository):
    assert commit_of(repository) is None  # before its first commit
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "first")
    inside = repository / "sub" / "folder"
    inside.mkdir(parents=True)
    assert commit_of(inside) == commit_of(repository) == git(repository, "rev-parse", "HEAD")
    git(repository, "worktree", "add", "--quiet", repository / "linked", "--detach")
    assert commit_of(repository / "linked") == commit_of(repository)


def test_nothing_without_git_or_outside_a_repository(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "outside").mkdir()
    assert commit_of(tmp_path / "outside") is None
    monkeypatch.setenv("PATH", "")
    assert commit_of(tmp_path) is None
