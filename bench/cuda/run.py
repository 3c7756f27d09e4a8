"""The CUDA backend on this machine's device: builds it, checks it, times it, in one call of under ten minutes.

    python bench/cuda/run.py [--quick] [--out FOLDER] [--plan]

Writes FOLDER/<device>.json (default bench/results) and prints the table. Exits 1 if a check failed. Needs torch for CUDA, nvcc, cmake
and pybind11; cupy and compute-sanitizer take part where they are there. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import build
from table import slug, table

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
# Seconds, out of ten minutes: what takes longer is stopped and recorded as failed.
BUDGET = {"bounds": 60, "launchers": 30, "memcheck": 60, "racecheck": 60, "pytest": 90, "timings": 210}


def plan(paths: dict[str, Path]) -> dict[str, list[str]]:
    """The commands behind each step of the check, in order."""
    sanitizer = shutil.which("compute-sanitizer") or "compute-sanitizer"
    launchers = str(paths["test_launchers"])
    return {
        "bounds": [str(paths["check_device_bounds"])],
        "launchers": [launchers],
        "memcheck": [sanitizer, "--tool", "memcheck", "--error-exitcode", "1", launchers],
        "racecheck": [sanitizer, "--tool", "racecheck", "--error-exitcode", "1", launchers],
        "pytest": [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(build.ROOT / "tests/cuda")],
    }


def check(name: str, command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Runs one check: passed True or False, or None where its tool is missing."""
    if shutil.which(command[0]) is None:
        return {"passed": None, "why": f"{command[0]} is not here"}
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUDGET[name], env=environment
        )
        passed, output = done.returncode == 0, done.stdout
    except subprocess.TimeoutExpired as stopped:
        passed, output = False, f"stopped after {BUDGET[name]} s\n{stopped.output or ''}"
    return {"passed": passed, "seconds": round(time.monotonic() - start, 1), "output": output[-2000:]}


def time_all(environment: dict[str, str], quick: bool) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "timings.py"), *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=BUDGET["timings"], env=environment, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return "unknown"
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,clocks.max.sm", "--format=csv,noheader"]
    return subprocess.run(query, capture_output=True, text=True).stdout.strip()


def write(folder: Path, result: dict[str, Any]) -> Path:
    """Beside and renamed, as every file of this project."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (slug(result["machine"]["device"]) + ".json")
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(beside, path)
    return path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller arrays and fewer repeats: a smoke test, not a figure")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the JSON file")
    parser.add_argument("--plan", action="store_true", help="print the commands and run nothing")
    arguments = parser.parse_args()
    if arguments.plan:
        nowhere = {name: Path("BUILD") / name for name in ("package", "test_launchers", "check_device_bounds")}
        for name, command in plan(nowhere).items():
            print(f"{name} (at most {BUDGET[name]} s): {' '.join(command)}")
        return 0

    with tempfile.TemporaryDirectory(prefix="hushvec-cuda-") as folder:
        start = time.monotonic()
        print("build", flush=True)
        paths = build.build(Path(folder))
        built = time.monotonic() - start
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(paths["package"]), str(build.ROOT / "tests"), str(HERE)])}
        checks = {}
        for name, command in plan(paths).items():
            print(f"check: {name}", flush=True)
            checks[name] = check(name, command, environment)
            print(checks[name].get("output") or checks[name].get("why"), flush=True)
        print("timings", flush=True)
        result = time_all(environment, arguments.quick)

    checks["same bits as the CPU"] = {"passed": not result["different_bits"], "output": ", ".join(result["different_bits"])}
    result |= {"quick": arguments.quick, "driver_and_clocks": driver(), "build_seconds": round(built, 1), "checks": checks}
    path = write(arguments.out, result)
    print(table(result["timings"]))
    for name, why in result["left_out"].items():
        print(f"left out, {name}: {why}")
    for name, outcome in checks.items():
        print(f"{name}: {'passed' if outcome['passed'] else 'not run' if outcome['passed'] is None else 'FAILED'}")
    print(f"written: {path}")
    return 1 if any(outcome["passed"] is False for outcome in checks.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
