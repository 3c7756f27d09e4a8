"""The cases of test_launchers under a tool of compute-sanitizer, side by side: one after the other they take many minutes.

    python bench/cuda/sanitize.py memcheck|racecheck TEST_LAUNCHERS [--seconds S] [--cases a,b,c]

Prints what became of each case; open_samples, which takes longer than two minutes, only where it is named. A case that takes longer than S seconds is stopped. Exits 1 unless all end without an error.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import cases
from steps import GRACE, Running, Step, tail, word

NONE_FOUND = "SUMMARY: 0"  # both tools end so
SECONDS = 100.0


def running(tool: str, program: Path, seconds: float, names: list[str], folder: Path) -> list[Running]:
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", str(program)]
    return [Running(Step(name, [*command, name], shows=NONE_FOUND, may_refuse=True), seconds, folder / name) for name in names]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=("memcheck", "racecheck"))
    parser.add_argument("program", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(cases.SANITIZED))
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="hushvec-sanitize-") as folder:
        under_way = running(arguments.tool, arguments.program, arguments.seconds, arguments.cases, Path(folder))
        try:
            while under_way:
                time.sleep(GRACE)
                for one in [one for one in under_way if one.over()]:
                    under_way.remove(one)
                    result = one.result()
                    failed += result["passed"] is not True
                    output = "" if result["passed"] else tail(result.get("output", ""))
                    print(f"{output}{one.step.name}: {word(result)}, {result.get('seconds', 0):.0f} s", flush=True)
        finally:
            for one in under_way:
                one.stop()
    print(f"{arguments.tool} SUMMARY: {failed} of {len(arguments.cases)} cases did not pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
