"""Runs the command line: in a process of its own, as a user does, or in this one, where loading a model anew is all it would add."""

import contextlib
import io
import os
import subprocess
import sys
from dataclasses import dataclass

TIME_LIMIT_SECONDS = 300


@dataclass
class Finished:
    code: int
    out: str
    err: str


def hushvec(*arguments, stdin=None, cwd=None, environment=None):
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "hushvec", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", **(environment or {})},
        timeout=TIME_LIMIT_SECONDS,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout.decode(), finished.stderr.decode())


def hushvec_here(*arguments, stdin=b"", cwd=None):
    from hushvec.cli import main

    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(stdin), "utf-8")
    folder, colors = os.getcwd(), os.environ.get("NO_COLOR")
    os.chdir(cwd or folder)
    os.environ["NO_COLOR"] = "1"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main([str(argument) for argument in arguments])
    except SystemExit as stop:  # argparse
        code = stop.code
    finally:
        sys.stdin = before
        os.chdir(folder)
        os.environ.pop("NO_COLOR") if colors is None else os.environ.update(NO_COLOR=colors)
    return Finished(code, *(_text(stream) for stream in (out, err)))


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


def assert_one_line(finished, *parts):
    """Bad input: exit code 2, nothing on standard output, one line that holds all parts."""
    assert finished.code == 2, finished.err
    assert finished.out == ""
    assert finished.err.count("\n") == 1, finished.err
    assert finished.err.startswith("hushvec")
    assert "Traceback" not in finished.err
    for part in parts:
        assert part in finished.err
