"""The CUDA backend on this machine's device: builds it, checks it, times it, in one call of under ten minutes.

    python bench/cuda/run.py [--quick] [--out FILE.json] [--plan]

Writes bench/results/<device>.json, or FILE.json, and prints tables last. Exits 1 if a check failed or the timings did not end.
Needs nvcc, cmake, pybind11 and torch for CUDA; cupy, pytest and compute-sanitizer take part where they are there. Nothing is
downloaded, and no setting of the device is touched.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import build
import cases
import steps
import table
from steps import Step

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"


def plan(folder: Path, quick: bool, architectures: str) -> list[Step]:
    """What is run, in order: what matters most comes before what may take long."""
    at = build.paths(folder)
    python = {"PYTHONPATH": os.pathsep.join([str(at["package"]), str(build.ROOT / "tests")])}
    shorter = ["--quick"] if quick else []
    launchers = str(at["test_launchers"])
    sanitizer = shutil.which("compute-sanitizer")
    no_sanitizer = "" if sanitizer else "compute-sanitizer is not on PATH"
    no_pytest = "" if importlib.util.find_spec("pytest") else "pytest is not installed"
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", str(build.ROOT / "tests/native/cuda")]
    return [
        Step("build", [sys.executable, str(HERE / "build.py"), str(folder), "--architectures", architectures]),
        Step("bounds", [str(at["check_device_bounds"])]),
        Step("level 1", [str(at["count_open_samples"])]),
        Step("launchers", [launchers], shows=" passed, 0 failed"),
        Step("same bits", [sys.executable, str(HERE / "same_bits.py"), *shorter], shows=" 0 differ", environment=python),
        Step("timings", [sys.executable, str(HERE / "timings.py"), str(folder / "timings.json"), *shorter], environment=python),
        Step("pytest", tests, shows=" passed", missing=no_pytest, environment=python),
        *(
            Step(
                tool, [sanitizer or "compute-sanitizer", "--tool", tool, "--error-exitcode", "1", launchers],
                shows="SUMMARY: 0", missing=no_sanitizer,
            )
            for tool in ("memcheck", "racecheck")
        ),  # fmt: skip
    ]


def show_plan(arguments: argparse.Namespace) -> None:
    for step in plan(Path("FOLDER"), arguments.quick, arguments.architectures):
        print(f"{step.name} (at most {steps.BUDGET[step.name]} s){step.missing and ', not run: ' + step.missing}: {' '.join(step.command)}")
    print(f"\nat most {steps.TOTAL} s; timed:")
    print("\n".join(f"  {name}" for name in cases.all_names()))


def run_all(folder: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    start = time.monotonic()
    checks: dict[str, dict[str, Any]] = {}
    for step in plan(folder, arguments.quick, arguments.architectures):
        print(f"[{time.monotonic() - start:4.0f} s] {step.name}", flush=True)
        log = folder / f"{step.name.replace(' ', '-')}.log"
        checks[step.name] = steps.run(step, steps.allowance(step.name, time.monotonic() - start), log)
        print(f"{checks[step.name].get('output', '')}{step.name}: {steps.word(checks[step.name])}", flush=True)
        if step.name == "build" and not checks["build"]["passed"]:
            break
    measured = folder / "timings.json"
    known = json.loads(measured.read_text()) if measured.exists() else {"machine": {"device": "unknown device"}, "timings": {}}
    return {
        "quick": arguments.quick,
        **known,
        "checks": checks,
        "over_peers": table.over_peers(known["timings"]),
        "level_1": table.level_1(checks.get("level 1", {}).get("output", "")),
    }


def show(result: dict[str, Any], verdicts: list[cases.Verdict]) -> None:
    timings = result["timings"]
    if timings:
        print(f"\n{table.table(timings)}\n\n{table.peer_table(timings)}")
    if result.get("overheads_us"):
        print(f"\n{table.overhead_table(result['overheads_us'])}")
    note = "; a quick run: the sizes are not those of the aims" if result["quick"] else ""
    print(f"\nAims{note}\n{table.aims_table(verdicts)}\n")
    for name, share in result["level_1"].items():
        print(f"leaves level 1, {name}: {share:.2e}")
    for name, why in result.get("left_out", {}).items():
        print(f"left out, {name}: {why}")
    for name, check in result["checks"].items():
        print(f"{name}: {steps.word(check)}")


def write(path: Path, result: dict[str, Any]) -> None:
    """Beside its final name and then renamed: whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    os.replace(beside, path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="smaller arrays and fewer repeats: a smoke test, not a figure")
    parser.add_argument("--out", type=Path, help="the JSON file")
    parser.add_argument("--architectures", default="native", help="as CMAKE_CUDA_ARCHITECTURES takes them")
    parser.add_argument("--plan", action="store_true", help="print what would be run, and run nothing")
    arguments = parser.parse_args()
    if arguments.plan:
        show_plan(arguments)
        return 0

    with tempfile.TemporaryDirectory(prefix="hushvec-cuda-") as folder:
        result = run_all(Path(folder), arguments)
    verdicts = [cases.judge(aim, result["timings"]) for aim in cases.aims()]
    result["aims"] = [
        {"text": v.aim.text, "bound": v.aim.bound, "at_most": v.aim.at_most, "measured": v.measured, "verdict": v.word} for v in verdicts
    ]
    path = arguments.out or RESULTS / f"{table.slug(result['machine']['device'])}.json"
    write(path, result)
    show(result, verdicts)
    print(f"written: {path}")
    return 1 if any(check["passed"] is False for check in result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
