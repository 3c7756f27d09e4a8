"""The steps of a run as processes: each with its share of the time, its output in a file, and a verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Seconds: what takes longer is stopped and counts as failed.
BUDGET = {
    "bounds": 40, "launchers": 40, "open-samples": 30, "kernels": 90, "build": 300, "same-bits": 120, "pytest": 120, "timings": 200,
    "ncu": 120, "memcheck": 120, "racecheck": 150, "variants": 120,
}  # fmt: skip
NAMES = tuple(BUDGET)
BACKGROUND = "build"  # runs beside the others
LIMIT = 560.0  # of a whole call: under ten minutes with its end
MARGIN = 5.0  # of the limit, for stopping and writing
# A step that finds less than this share of its budget waits for the next call.
LEAST_SHARE = 0.25

NO_DEVICE = 77  # exit code of the native programs
# compute-sanitizer and ncu on a system that does not let them at the device.
REFUSALS = ("Device not supported", "not supported on this system", "Failed to initialize", "ERR_NVGPUCTRPERM")
TAIL = 4000
GRACE = 0.05  # seconds between looks at a process


def allowance(most: float, left: float) -> float:
    """Seconds for a step that may take `most` where a call has so many left; 0 where that is too little to begin."""
    seconds = min(most, left - MARGIN)
    return seconds if seconds >= LEAST_SHARE * most else 0.0


@dataclass(frozen=True)
class Step:
    """`shows`: what the output of a passed step holds, for tools that exit with 0 when they did nothing. `missing`: why it cannot run.

    `needs` names a step that has to pass before. `may_refuse`: a tool that says so where it is not let at the device.
    """

    name: str
    command: Sequence[str]
    shows: str = ""
    missing: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = ""
    may_refuse: bool = False


def outcome(code: int | None, output: str, shows: str, may_refuse: bool) -> tuple[bool | None, str]:
    """(passed, why): passed is None where the step could not say anything. `code` None: stopped."""
    if code is None:
        return False, "stopped, out of time"
    if code == NO_DEVICE:
        return None, "no CUDA device"
    refusal = next((text for text in REFUSALS if may_refuse and text in output), None)
    if refusal is not None:
        return None, f"the tool refuses this device: {refusal}"
    if code != 0:
        return False, f"exit code {code}"
    return (True, "") if shows in output else (False, f"exit code 0 without {shows!r} in the output")


def tail(output: str) -> str:
    """The end of an output, from the beginning of a line."""
    return output if len(output) <= TAIL else output[-TAIL:].split("\n", 1)[-1]


class Running:
    """A step under way. Whatever it started ends with it."""

    def __init__(self, step: Step, seconds: float, log: Path) -> None:
        self.step, self._log, self._start = step, log, time.monotonic()
        self._deadline = self._start + seconds
        self._code: int | None = None
        self._refused = ""
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with log.open("w") as file:
                self._process = subprocess.Popen(
                    step.command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                    env={**os.environ, **step.environment}, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            self._refused = f"{step.command[0]}: {error.strerror}"

    def over(self) -> bool:
        """Whether it ended, by itself or now, at its limit."""
        if self._process is None:
            return True
        self._code = self._process.poll()
        if self._code is None and time.monotonic() < self._deadline:
            return False
        self.stop()
        return True

    def stop(self) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def result(self) -> dict[str, Any]:
        if self._refused:
            return {"passed": False, "why": self._refused}
        output = self._log.read_text(errors="replace")
        passed, why = outcome(self._code, output, self.step.shows, self.step.may_refuse)
        return {"passed": passed, "why": why, "seconds": round(time.monotonic() - self._start, 1), "output": tail(output)}


def run(step: Step, seconds: float, log: Path) -> dict[str, Any]:
    """Runs one step to its end."""
    running = Running(step, seconds, log)
    try:
        while not running.over():
            time.sleep(GRACE)
    finally:
        running.stop()
    return running.result()


def word(result: Mapping[str, Any]) -> str:
    verdict = {True: "passed", False: "FAILED", None: "not run"}[result["passed"]]
    return verdict + (f" ({result['why']})" if result.get("why") else "")
