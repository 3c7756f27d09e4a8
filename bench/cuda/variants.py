"""Times variants of the kernels against each other, then the best of each case again, longer.

    python bench/cuda/variants.py TIME_KERNELS FILE.json [-- arguments of time_kernels, in place of the repeats]

Variants are the programs time_kernels.NAME beside TIME_KERNELS (prebuild.py --variant). One whose test_launchers.NAME does not pass is left
out: it would be fast and wrong. All times are ratios to the copy or the fill of the same process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import table

# What the aims are about, and the dimensions beside it.
CASES = ("--law", "gaussian", "--grade", "exact", "--dtype", "float32,bfloat16", "--rounds", "12,20", "--work", "rows,fill")
FIRST, AGAIN = ("--repeats", "20"), ("--repeats", "200", "--warm-up", "20")
PLAIN = "plain"
SECONDS = 60  # for a program


def programs(plain: Path) -> dict[str, Path]:
    """Every variant by name."""
    beside = sorted(plain.parent.glob(f"{plain.name}.*"))
    return {PLAIN: plain, **{path.name.removeprefix(f"{plain.name}."): path for path in beside}}


def output_of(program: Path, *words: str) -> tuple[int | None, str]:
    """Exit code, None if it was stopped, and what it printed."""
    try:
        done = subprocess.run([str(program), *words], stdout=subprocess.PIPE, timeout=SECONDS, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return done.returncode, done.stdout


def timed(program: Path, words: Sequence[str]) -> dict[str, Any]:
    code, output = output_of(program, *CASES, *words)
    if code == 77:
        raise SystemExit(code)
    timings = table.kernels(output)["timings"]
    return {name: entry for name, entry in timings.items() if "ratio" in entry and "work" in entry and not entry.get("peer")}


def why_left_out(name: str, plain: Path) -> str:
    if name == PLAIN:
        return ""
    launchers = plain.with_name(f"test_launchers.{name}")
    if not launchers.exists():
        return f"{launchers.name} is missing"
    code, output = output_of(launchers)
    return "" if code == 0 and " passed, 0 failed" in output else f"{launchers.name} did not pass"


def best(first: dict[str, dict[str, Any]]) -> dict[str, str]:
    """For each case the variant of the highest ratio."""
    names = {case for timings in first.values() for case in timings}
    return {case: max((v for v in first if case in first[v]), key=lambda v: first[v][case]["ratio"]) for case in sorted(names)}


def say(when: str, variant: str, timings: dict[str, Any]) -> None:
    for case, entry in timings.items():
        print(f"{when}: {variant}  {case}  {entry['median_ms']:.3f} ms  {entry['ratio']:.3f} of the {entry['ceiling']}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("time_kernels", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    result: dict[str, Any] = {"left_out": {}, "first": {}, "best": {}, "again": {}}
    found = programs(arguments.time_kernels)
    for name, program in found.items():
        if why := why_left_out(name, arguments.time_kernels):
            result["left_out"][name] = why
            print(f"{name} is left out: {why}", flush=True)
            continue
        result["first"][name] = timed(program, arguments.words or FIRST)
        say("first", name, result["first"][name])
        arguments.file.write_text(json.dumps(result))
    result["best"] = best(result["first"])
    for name in [PLAIN, *sorted(set(result["best"].values()) - {PLAIN})]:
        result["again"][name] = timed(found[name], arguments.words or AGAIN)
        say("again", name, result["again"][name])
        arguments.file.write_text(json.dumps(result))
    return 0 if result["again"].get(PLAIN) else 1


if __name__ == "__main__":
    sys.exit(main())
