"""The commit of a folder's repository, read from files that git would have written."""

import pytest

from hushvec_studies.harness.outputs import commit_of

HASH = "0123456789abcdef0123456789abcdef01234567"


def repository(folder, head, **files):
    (folder / ".git" / "refs" / "heads").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text(head)
    for name, content in files.items():
        (folder / ".git" / name.replace("__", "/").replace("_", "-")).write_text(content)
    return folder


def test_a_branch_a_bare_commit_and_a_packed_branch(tmp_path):
    inside = repository(tmp_path / "a", "ref: refs/heads/main\n", refs__heads__main=HASH + "\n") / "sub" / "folder"
    inside.mkdir(parents=True)
    assert commit_of(inside) == HASH
    assert commit_of(repository(tmp_path / "b", HASH + "\n")) == HASH
    packed = f"# pack-refs\n{HASH[::-1]} refs/heads/other\n{HASH} refs/heads/main\n"
    assert commit_of(repository(tmp_path / "c", "ref: refs/heads/main\n", packed_refs=packed)) == HASH


def test_a_linked_work_tree(tmp_path):
    main = repository(tmp_path / "main", "ref: refs/heads/main\n", refs__heads__side=HASH)
    own = main / ".git" / "worktrees" / "side"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/side\n")
    (own / "commondir").write_text("../..\n")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {own}\n")
    assert commit_of(linked) == HASH


@pytest.mark.parametrize("head", ["ref: refs/heads/none\n", "", b"\xff\xfe"])
def test_nothing_where_there_is_no_commit(tmp_path, head):
    folder = repository(tmp_path, "")
    (folder / ".git" / "HEAD").write_bytes(head if isinstance(head, bytes) else head.encode())
    assert commit_of(folder) is None


def test_nothing_outside_a_repository(tmp_path):
    assert not (tmp_path / ".git").exists()
    if not any((place / ".git").exists() for place in tmp_path.parents):
        assert commit_of(tmp_path) is None
