"""Makes this Linux process look like Windows or macOS to what is imported from here on: names of `os` that those do not have are gone,
modules cannot be imported, and files behave as far as Python can show it. It is no Windows: paths, and what SQLite does, stay.

    python other_systems.py win32|darwin FOLDER
"""

import builtins
import contextlib
import errno
import importlib
import io
import json
import ntpath
import os
import pkgutil
import stat
import sys
import types
from pathlib import Path

import numpy

NOT_ON_WINDOWS = """
    O_NOFOLLOW O_CLOEXEC O_DIRECTORY O_NONBLOCK O_SYNC fchmod fchown fork forkpty getegid geteuid getgid getuid getloadavg initgroups
    killpg lchown mkfifo nice pread preadv pwrite pwritev register_at_fork sched_getaffinity setsid statvfs sync sysconf uname wait
    wait3 wait4 waitid
"""
SIGNALS_NOT_ON_WINDOWS = "SIGTSTP SIGTTIN SIGTTOU SIGCONT SIGSTOP SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGALRM SIGPIPE SIGCHLD"
O_BINARY = 1 << 28


class Refused:
    """A finder of modules that are not there: those of another system, and every package but numpy and hushvec."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if name in self.names or top not in sys.stdlib_module_names | {"hushvec", "numpy"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def like_windows():
    import asyncio  # noqa: F401  these ask for the system when they are imported, and would want modules of Windows
    import ctypes
    import fcntl
    import multiprocessing  # noqa: F401
    import shutil  # noqa: F401
    import signal
    import subprocess  # noqa: F401
    import tempfile  # noqa: F401
    import uuid  # noqa: F401

    flock, exclusive, at_once = fcntl.flock, fcntl.LOCK_EX, fcntl.LOCK_NB
    msvcrt = types.ModuleType("msvcrt")
    msvcrt.LK_NBLCK, msvcrt.asked = 2, []

    def locking(descriptor, mode, count):
        """Refuses with EACCES, and says where it was asked to lock."""
        msvcrt.asked.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        try:
            flock(descriptor, exclusive | at_once)
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    msvcrt.locking = locking
    for name in ("fcntl", "resource", "grp", "pwd", "termios"):
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, Refused({"fcntl", "resource", "grp", "pwd", "termios"}))
    sys.modules["msvcrt"] = msvcrt
    kernel32 = types.SimpleNamespace(GetDriveTypeW=lambda root: 4 if root.startswith("Z:") else 3)
    ctypes.windll = types.SimpleNamespace(kernel32=kernel32)

    open_file, rename, link_status = os.open, os.rename, os.lstat
    opened_as_text = []

    def open_as_windows(path, flags, mode=0o777, **options):
        if not flags & O_BINARY:
            opened_as_text.append(str(path))
        if stat.S_ISDIR(link_status(path).st_mode) if os.path.lexists(path) else False:
            raise PermissionError(13, "Permission denied", path)   # no folder can be opened
        return open_file(path, flags & ~O_BINARY, mode, **options)

    def rename_to_a_free_name(source, target, **options):
        if os.path.lexists(target):
            raise FileExistsError(17, "File exists", source, None, target)
        rename(source, target, **options)

    def replace_what_is_closed(source, target, **options):
        held = {os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")}
        for path in (source, target):
            if os.path.realpath(path) in held:
                raise PermissionError(13, "Access is denied", path)
        rename(source, target, **options)

    os.open, os.rename, os.replace = open_as_windows, rename_to_a_free_name, replace_what_is_closed
    os.O_BINARY, os.path.splitdrive = O_BINARY, ntpath.splitdrive
    os.opened_as_text = opened_as_text
    for name in NOT_ON_WINDOWS.split():
        if hasattr(os, name):
            delattr(os, name)
    for name in SIGNALS_NOT_ON_WINDOWS.split():
        delattr(signal, name)
    sys.platform = "win32"


def like_macos():
    import asyncio  # noqa: F401
    import fcntl
    import multiprocessing  # noqa: F401

    fcntl.F_FULLFSYNC = 51
    control, synced = fcntl.fcntl, []
    fcntl.fcntl = lambda handle, call, *more: synced.append(handle) if call == 51 else control(handle, call, *more)
    opened = builtins.open

    def open_without_proc(file, *arguments, **options):
        if str(file).startswith("/proc"):
            raise FileNotFoundError(2, "No such file or directory", file)
        return opened(file, *arguments, **options)

    builtins.open = open_without_proc
    sys.meta_path.insert(0, Refused(set()))
    os.full_syncs = synced
    sys.platform = "darwin"


def import_everything():
    """The modules of hushvec that could be imported, and why the others could not: a library that is not installed."""
    import hushvec

    found, missing = [], {}
    for module in pkgutil.walk_packages(hushvec.__path__, "hushvec."):
        if module.name.rpartition(".")[2].startswith("__"):
            continue
        try:
            importlib.import_module(module.name)
            found.append(module.name)
        except (ModuleNotFoundError, hushvec.MissingExtraError) as error:
            missing[module.name] = str(error)
    return found, missing


def command(*words):
    from hushvec.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main(words)
    return code, printed.getvalue()


def use_everything(folder):
    """Files of each kind, written and read back. Returns what the test looks at."""
    import hushvec as hv
    from hushvec._util import os_files
    from hushvec.aggregates import PrivateVotes
    from hushvec.collect import Memo, Vocabulary
    from hushvec.retrieval import PrivateIndex, ScoreNoise
    from hushvec.secure_memory import SecureBuffer, status
    from hushvec.secure_memory.buffer import sentences
    from hushvec.training import StepJournal

    rows = numpy.eye(8, dtype=numpy.float32)
    numpy.save(folder / "rows.npy", rows)
    said = {}

    with hv.PrivacyBudget(max_epsilon=4.0, max_delta=1e-5, persist_key="k", store=folder / "budgets" / "budget.sqlite") as budget:
        budget.consume(1.0, 0.0)
        hv.privatize(rows, epsilon=1.0, delta=1e-6, budget=budget)
    with hv.PrivacyBudget.reopen("k", store=folder / "budgets" / "budget.sqlite") as again:
        said["consumed"] = again.consumed()

    journal = StepJournal(folder / "steps")
    for _ in range(12):
        journal.append("0" * 32)
    said["steps"] = StepJournal(folder / "steps").steps
    said["journal"] = (folder / "steps").read_bytes().decode()

    words = Vocabulary([f"word{number}" for number in range(50)], epsilon=1.0)
    first = words.report("word7", per="release", memo=Memo.open(folder / "memo"))
    second = words.report("word7", per="release", memo=Memo.open(folder / "memo"))
    said["same_report"] = bool((first == second).all())

    terms = {"labels": ["a", "b"], "threshold": 0.5, "epsilon_per_document": 2.0, "delta": 1e-6, "journal": folder / "votes"}
    votes = PrivateVotes(rows, ["a", "b"] * 4, **terms)
    votes.ask(rows[0])
    try:
        PrivateVotes(rows, ["a", "b"] * 4, **terms)
    except ValueError as error:
        said["second_votes"] = str(error)
    votes._journal._unlock()
    said["votes_again"] = PrivateVotes(rows, ["a", "b"] * 4, **terms).labels

    index = PrivateIndex(8, store="numpy", scores=ScoreNoise(epsilon=1.0))
    index.add(rows)
    index.save(folder / "index")
    index.save(folder / "index")
    said["index"] = len(PrivateIndex.load(folder / "index"))

    from hushvec._util.publish import append_bytes, is_first_to_write

    said["first"] = [is_first_to_write(folder / "first", b"a\n"), is_first_to_write(folder / "first", b"b\n")]
    append_bytes(folder / "first", b"c\n")
    said["content"] = (folder / "first").read_bytes().decode()
    (folder / "link").symlink_to(folder / "first")
    try:
        append_bytes(folder / "link", b"d\n")
    except OSError as error:
        said["link"] = type(error).__name__

    said["privatize"] = command("privatize", str(folder / "rows.npy"), "-o", str(folder / "out.npy"), "--epsilon", "8")[0]
    said["verify"] = command("verify", str(folder / "out.npy.receipt.json"))
    said["backends"] = command("backends")[1]
    said["status"] = status()["protections"]
    said["refused"] = sentences({"lock": errno.ENOMEM, "leave_out_of_dumps": errno.ENOSYS, "wipe_on_fork": 0})
    with SecureBuffer(8) as buffer:
        buffer.numpy()[:] = 1
    said["mounts"] = [os_files.mounts(path) for path in ("/", "C:\\x\\b.sqlite", "Z:\\x\\b.sqlite")]
    return said


if __name__ == "__main__":
    {"win32": like_windows, "darwin": like_macos}[sys.argv[1]]()
    found, missing = import_everything()
    said = use_everything(Path(sys.argv[2]))
    said |= {"found": found, "missing": missing}
    said["opened_as_text"], said["full_syncs"] = getattr(os, "opened_as_text", []), len(getattr(os, "full_syncs", []))
    said["locked_at"] = sorted(set(sys.modules["msvcrt"].asked)) if "msvcrt" in sys.modules else []
    print(json.dumps(said))
