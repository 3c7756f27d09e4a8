"""The steps of a run as processes: each with its share of ten minutes, its output in a file, and a verdict."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Seconds. Together under ten minutes: what takes longer is stopped and counts as failed.
BUDGET = {
    "build": 150, "bounds": 30, "level 1": 30, "launchers": 30, "same bits": 60, "pytest": 70, "timings": 120, "memcheck": 45, "racecheck": 45,
}  # fmt: skip
TOTAL = sum(BUDGET.values())

NO_DEVICE = 77  # exit code of the native programs
# compute-sanitizer on a system that does not let it at the device.
REFUSALS = ("Device not supported", "not supported on this system", "Failed to initialize")
TAIL = 4000


def allowance(name: str, elapsed: float) -> float:
    """Seconds that a step may take: its budget, or what is left of the whole where that is less."""
    return max(0.0, min(float(BUDGET[name]), TOTAL - elapsed))


@dataclass(frozen=True)
class Step:
    """`shows`: what the output of a passed step holds, for tools that exit with 0 when they did nothing. `missing`: why it cannot run."""

    name: str
    command: Sequence[str]
    shows: str = ""
    missing: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


def outcome(code: int | None, output: str, shows: str, sanitizer: bool) -> tuple[bool | None, str]:
    """(passed, why): passed is None where the step could not say anything. `code` None: stopped."""
    if code is None:
        return False, "stopped, out of time"
    if code == NO_DEVICE:
        return None, "no CUDA device"
    refusal = next((text for text in REFUSALS if sanitizer and text in output), None)
    if refusal is not None:
        return None, f"the tool refuses this device: {refusal}"
    if code != 0:
        return False, f"exit code {code}"
    return (True, "") if shows in output else (False, f"exit code 0 without {shows!r} in the output")


def tail(output: str) -> str:
    """The end of an output, from the beginning of a line."""
    return output if len(output) <= TAIL else output[-TAIL:].split("\n", 1)[-1]


def run(step: Step, seconds: float, log: Path) -> dict[str, Any]:
    """Runs one step; whatever it started ends with it."""
    if step.missing:
        return {"passed": None, "why": step.missing}
    if seconds <= 0:
        return {"passed": False, "why": "no time left"}
    start = time.monotonic()
    with log.open("w") as file:
        try:
            process = subprocess.Popen(
                step.command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **step.environment}, start_new_session=True
            )
        except OSError as error:
            return {"passed": False, "why": f"{step.command[0]}: {error.strerror}"}
        try:
            code: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    output = log.read_text(errors="replace")
    passed, why = outcome(code, output, step.shows, sanitizer="compute-sanitizer" in Path(step.command[0]).name)
    return {"passed": passed, "why": why, "seconds": round(time.monotonic() - start, 1), "output": tail(output)}


def word(result: Mapping[str, Any]) -> str:
    verdict = {True: "passed", False: "FAILED", None: "not run"}[result["passed"]]
    return verdict + (f" ({result['why']})" if result.get("why") else "")
