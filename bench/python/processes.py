"""Processes of other interpreters, for libraries that cannot share one: each answers one question at a time, in lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HUSHVEC_NUM_THREADS")}


class Process:
    """`python program --worker`, which runs `answer_all`."""

    def __init__(self, python: str, program: str | Path, variables: Mapping[str, str] | None = None) -> None:
        command = [python, str(Path(program).resolve()), "--worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(variables or {})}
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        """The answer, or {"failed": why}."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"failed": f"ended with code {self._process.wait()}"}

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # of a question that an ended process never read
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def answer_all(answer: Callable[..., dict[str, Any]]) -> None:
    """Answers until the input ends. What a library prints is no answer; one that breaks says so and goes on."""
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            found = answer(**json.loads(line))
        except ImportError as error:
            found = {"failed": f"not installed ({error})"[:200]}
        except Exception as error:  # one broken peer must not cost the others their figures
            found = {"failed": f"{type(error).__name__}: {error}"[:200]}
        os.write(answers, (json.dumps(found) + "\n").encode())


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Those that are installed here."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
