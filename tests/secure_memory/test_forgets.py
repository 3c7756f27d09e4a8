"""What a SecureBuffer held is nowhere in memory afterwards, nor in a core dump.

Every process here holds a second secret in ordinary memory. The same scan, at the same moment, must find that one: a scan that
finds nothing anywhere shows nothing.
"""

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from secure_memory import tracing
from secure_memory.memory_scan import Scanner

HOLDER = Path(__file__).with_name("holder.py")
SECURE, PLAIN = 11, 12


class Process:
    """holder.py, and what a scan finds in it."""

    def __init__(self, **options):
        command = [sys.executable, str(HOLDER), str(SECURE), str(PLAIN)]
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)
        self.pid = self.child.pid

    def say(self, word):
        self.child.stdin.write(word + "\n")
        self.child.stdin.flush()

    def ask(self, word):
        self.say(word)
        return self.child.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.child.kill()
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait()


def found(pid):
    return Scanner(SECURE).in_process(pid), Scanner(PLAIN).in_process(pid)


def test_scrub_release_exception_and_last_reference():
    with Process() as process:
        assert process.ask("plant") == "planted"
        assert found(process.pid) == (1, 1)   # both are there to be found
        assert process.ask("count") == "1 1"
        for planted, word in enumerate(("scrub", "release", "drop"), 1):
            process.ask(word)
            assert found(process.pid) == (0, planted), word
            assert process.ask("count") == f"0 {planted}"
            process.ask("plant")
        process.ask("release")
        assert process.ask("exception") == "raised"
        assert found(process.pid) == (0, 5)


def test_a_forked_child_has_zeros():
    with Process() as process:
        process.ask("plant")
        child = int(process.ask("fork"))
        try:
            assert found(child) == (0, 1)
            assert found(process.pid) == (1, 1)
        finally:
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("ending", ["", "fail"], ids=["normal", "uncaught exception"])
def test_after_the_exit_handlers(ending):
    with Process(stderr=subprocess.DEVNULL) as process:
        process.ask("plant")
        process.ask("leak")
        if not tracing.stop_at_exit(process.pid):
            pytest.skip("ptrace is not permitted: run as root or in a container with --cap-add SYS_PTRACE")
        if ending:
            process.say(ending)
        else:
            process.child.stdin.close()
        tracing.wait_for_exit(process.pid)
        try:
            assert found(process.pid) == (0, 1)
        finally:
            tracing.let_go(process.pid)


def test_a_core_dump_of_the_kernel(tmp_path):
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if "/" in pattern or "|" in pattern:
        pytest.skip(f"core dumps go to {pattern}: set /proc/sys/kernel/core_pattern to a plain file name")
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("core dumps are forbidden: raise the hard limit (ulimit -Hc unlimited)")
    allow = lambda: resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    with Process(cwd=tmp_path, preexec_fn=allow, stderr=subprocess.DEVNULL) as process:
        process.ask("plant")
        process.say("abort")
        assert process.child.wait() == -signal.SIGABRT
    dumps = list(tmp_path.iterdir())
    if not dumps:
        pytest.skip("the kernel wrote no core dump, though its limits allow one")
    assert (Scanner(SECURE).in_file(dumps[0]), Scanner(PLAIN).in_file(dumps[0])) == (0, 1)
    dumps[0].unlink()


@pytest.mark.skipif(shutil.which("gcore") is None, reason="gcore is not installed: install gdb")
def test_a_core_dump_of_a_debugger(tmp_path):
    with Process() as process:
        process.ask("plant")
        subprocess.run(["gcore", "-o", str(tmp_path / "core"), str(process.pid)], check=True, capture_output=True)
    dump = tmp_path / f"core.{process.pid}"
    assert (Scanner(SECURE).in_file(dump), Scanner(PLAIN).in_file(dump)) == (0, 1)
    dump.unlink()
