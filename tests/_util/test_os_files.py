"""What differs from system to system. Linux as it is; Windows and macOS as `other_systems.py` makes this process look like them, with
their branches of the code. It shows that no module needs what they lack, and not what their kernels do.
"""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from hushvec._util import os_files

PROGRAM = Path(__file__).with_name("other_systems.py")


def as_on(system, folder):
    folder.mkdir()
    done = subprocess.run([sys.executable, PROGRAM, system, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["win32", "darwin"])
def used(request, tmp_path_factory):
    return request.param, as_on(request.param, tmp_path_factory.mktemp("systems") / request.param)


def test_every_module_that_needs_no_more_packages_is_imported(used):
    _, said = used
    assert len(said["found"]) > 200
    assert {"hushvec.secure_memory.buffer", "hushvec.budget.sqlite", "hushvec.training.journal"} <= set(said["found"])
    wanting = re.compile(r"No module named '(?!hushvec|fcntl|resource|termios|pwd|grp)\w+'|.* needs more packages: .*")
    assert [name for name, reason in said["missing"].items() if not wanting.fullmatch(reason)] == []


def test_files_of_each_kind_are_written_and_read_back(used):
    _, said = used
    assert (said["consumed"], said["steps"], said["same_report"], said["index"]) == (2.0, 12, True, 8)
    assert re.fullmatch(r"hushvec-steps/2 0{32} [0-9a-f]{16} 0{64}\n\.{12}", said["journal"])
    assert said["second_votes"].startswith("journal must be in use by one PrivateVotes, got one that is in use already")
    assert said["votes_again"] == ["a", "b"]
    assert (said["first"], said["content"], said["link"]) == ([True, False], "a\nc\n", "OSError")
    assert (said["privatize"], said["verify"][0]) == (0, 0) and said["verify"][1].startswith("holds")


def test_what_the_system_cannot_promise_is_said(used):
    system, said = used
    lock = {"win32": "VirtualLock was refused (Cannot allocate memory)", "darwin": "mlock was refused (Cannot allocate memory"}[system]
    assert said["refused"][0].startswith(lock) and said["refused"][0].endswith("): the memory may be swapped out to disk")
    assert said["refused"][1:] == [
        "this system has no call by which memory is left out of core dumps: a core dump of this process has the contents in it"
    ]
    assert said["status"]["wiped in forked children"] == ("yes: this system has no fork" if system == "win32" else "yes")
    for name, value in said["status"].items():
        assert re.search(rf"^  memory {name} +{re.escape(value)}$", said["backends"], re.MULTILINE)


def test_windows_files_are_bytes_and_locks_are_where_nobody_reads(used):
    system, said = used
    if system == "darwin":
        assert said["full_syncs"] > 10
        assert said["mounts"] == [[], [], []]
    else:
        assert (said["opened_as_text"], said["locked_at"]) == ([], [2**31 - 2])
        assert said["mounts"] == [[], [], [["Z:", "remote"]]]


def test_a_remote_drive_holds_what_is_on_it(monkeypatch):
    monkeypatch.setattr(os, "sep", "\\")
    assert os_files.holding("Z:\\x\\b.sqlite", [("Z:", "remote")]) == ("Z:", "remote")
    assert os_files.holding(r"\\host\share\b", [(r"\\host\share", "remote")]) == (r"\\host\share", "remote")
    assert os_files.holding("C:\\x", [("Z:", "remote")]) is None


def test_a_lock_is_waited_for_or_refused(tmp_path):
    first, second = (os.open(tmp_path / "lock", os.O_CREAT | os.O_WRONLY) for _ in range(2))
    os_files.lock(first)
    with pytest.raises(BlockingIOError):
        os_files.lock(second, wait=False)
    waiting = threading.Thread(target=os_files.lock, args=(second,))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    os.close(first)
    waiting.join(10)
    assert not waiting.is_alive()
    os.close(second)


def test_what_a_scanner_holds_open_is_tried_again(tmp_path, monkeypatch):
    refusals, rename = [PermissionError(13, "held")] * 3, os.replace

    def held(source, target):
        if refusals:
            raise refusals.pop()
        rename(source, target)

    monkeypatch.setattr(os, "replace", held)
    (tmp_path / "new").write_text("new")
    with pytest.raises(PermissionError):
        os_files.replace(tmp_path / "new", tmp_path / "old")   # Linux refuses for a reason, and is asked once
    assert len(refusals) == 2
    monkeypatch.setattr(sys, "platform", "win32")
    os_files.replace(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old").read_text() == "new"


def test_a_taken_name_is_refused(tmp_path):
    (tmp_path / "new").write_text("new")
    (tmp_path / "there").write_text("there")
    with pytest.raises(FileExistsError):
        os_files.take_free_name(tmp_path / "new", tmp_path / "there")
    os_files.take_free_name(tmp_path / "new", tmp_path / "free")
    assert [(tmp_path / name).read_text() for name in ("free", "there")] == ["new", "there"]


def test_links_are_refused_where_no_flag_does_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(OSError, match=r"is a symbolic link: .*link"):
        os_files.open_unlinked(tmp_path / "link", os.O_CREAT | os.O_WRONLY, 0o600)
    assert not (tmp_path / "nowhere").exists()


def test_standard_output_takes_every_text():
    """UTF-8 where a program or a file reads it; a terminal keeps its encoding, and what does not fit into that is escaped."""
    code = (
        "import sys\nfrom hushvec._util import os_files\nassert sys.stdout.encoding != 'utf-8'\n"
        "if sys.argv[1] == 'terminal': sys.stdout.isatty = lambda: True\n"
        "os_files.print_utf8()\nprint('Zo\\xeb \\u2603')"
    )
    for encoding, shown in (("cp1252", b"Zo\xeb \\u2603\n"), ("ascii", b"Zo\\xeb \\u2603\n")):
        for where, expected in (("file", "Zo\xeb \u2603\n".encode()), ("terminal", shown)):
            finished = subprocess.run(
                [sys.executable, "-c", code, where], capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, check=True
            )
            assert finished.stdout == expected


INFINITE = -1


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
@pytest.mark.parametrize(
    ("limits", "after"),
    [
        ((100, 5000), (1000, 5000)),
        ((100, 500), (500, 500)),
        ((100, INFINITE), (1000, INFINITE)),
        ((1000, 5000), None),
        ((4000, 5000), None),
        ((INFINITE, INFINITE), None),
    ],
    ids=str,
)
def test_the_limit_of_open_files_is_raised_and_never_lowered(monkeypatch, limits, after):
    asked = []
    monkeypatch.setattr(os_files.resource, "RLIM_INFINITY", INFINITE)
    monkeypatch.setattr(os_files.resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(os_files.resource, "setrlimit", lambda _, limit: asked.append(limit))
    os_files.allow_open_files(1000)
    assert asked == ([] if after is None else [after])


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize(
    ("status", "ignores"),
    [
        ("Name:\tx\nCapEff:\t0000000000004000\n", True),
        ("CapEff:\t000001ffffffffff\n", True),
        ("CapEff:\t000001ffffffbfff\n", False),
        ("CapEff:\t0000000000000000\n", False),
        ("CapPrm:\t000001ffffffffff\n", False),
        ("", False),
    ],
)
def test_the_limit_of_locked_memory_is_ignored_with_the_capability_alone(monkeypatch, status, ignores):
    monkeypatch.setattr(Path, "read_text", lambda *_: status)
    assert os_files.ignores_lock_limit() is ignores
