"""The CUDA backend on this machine's device: builds it, checks it, times it, in calls of under ten minutes.

    python bench/cuda/run.py [--folder F] [--steps a,b,c] [--prebuilt DIR] [--logs DIR] [--limit SECONDS]
                             [--most STEP=SECONDS,...] [--quick] [--out FILE.json]
    python bench/cuda/run.py --plan                 what would be run
    python bench/cuda/run.py --device cpu --quick --folder F --prebuilt DIR     a rehearsal: everything but the device

A second call with the same --folder goes on where the first stopped: steps that passed on the same sources are not repeated, unless --steps
names them. The result is written after every step, to F/result.json and, with all outputs, to the folder of --logs.
Needs nvcc, cmake, pybind11 and torch for CUDA; cupy, pytest, ncu and compute-sanitizer take part where they are there. Nothing is
downloaded, and no setting of the device is touched. Exits 1 if a step failed or had no time.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import stat
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import build
import cases
import steps
import table
from steps import Step

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"
TESTS = build.ROOT / "tests"

NCU = (
    "--clock-control", "none", "--kernel-name", "regex:rows_kernel", "--launch-count", "4", "--print-details", "all",
    *(word for section in ("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "LaunchStats", "Occupancy",
                           "SchedulerStats", "WarpStateStats", "InstructionStats") for word in ("--section", section)),
)  # fmt: skip
# One launch for each dtype and number of rounds: 0.4 GB, several times the second-level cache.
PROFILED = (
    "--work", "rows", "--law", "gaussian", "--grade", "exact", "--dtype", "float32,bfloat16", "--rounds", "12,20", "--d", "768",
    "--rows", "131072", "--bytes", "67108864", "--repeats", "1", "--warm-up", "0",
)  # fmt: skip

# Arguments of the programs for a smoke test; and for a rehearsal, where the device is emulated and a sample takes microseconds.
SHORTER = {
    "check_device_bounds": ("--every", "65537"),
    "count_open_samples": ("--samples", "1048576"),
    "time_kernels": ("--bytes", str(64 << 20), "--repeats", "5"),
}
REHEARSED = {
    "check_device_bounds": ("--every", "65537"),
    "count_open_samples": ("--samples", "65536"),
    "time_kernels": ("--bytes", "16384", "--rows", "2", "--repeats", "1", "--warm-up", "0"),
    "test_launchers": ("fills", "bad_rows"),
}

# What timings.py writes.
TIMED = ("machine", "card", "timings", "overheads_us", "left_out")


class FolderOfAnotherRun(Exception):
    pass


def plan(folder: Path, arguments: argparse.Namespace) -> list[Step]:
    """What is run, in order: what matters most comes before what may take long."""
    prebuilt, rehearsal = arguments.prebuilt, arguments.device == "cpu"
    programs = build.programs(folder, prebuilt)
    python = {"PYTHONPATH": os.pathsep.join([str(folder / "package"), str(TESTS)])}
    ours = ["--device", arguments.device, *(["--quick"] if arguments.quick else [])]
    sizes = {} if not arguments.quick else REHEARSED if rehearsal else SHORTER

    def native(name: str, program: str, *words: str, tool: tuple[str, ...] = (), on_path: str = "", **more: Any) -> Step:
        missing = ""
        if prebuilt is not None and not programs[program].exists():
            missing = f"{program} is not in {prebuilt}"
        if on_path and shutil.which(on_path) is None:
            missing = f"{on_path} is not on PATH"
        command = [*tool, str(programs[program]), *words]
        return Step(name, command, missing=missing, needs="" if prebuilt else "build", may_refuse=bool(on_path), **more)

    def of_python(name: str, *words: str, **more: Any) -> Step:
        return Step(name, [sys.executable, *words], environment=python, needs="build", **more)

    def sanitizer(tool: str) -> Step:
        command = (sys.executable, str(HERE / "sanitize.py"), tool)
        return native(tool, "test_launchers", tool=command, on_path="compute-sanitizer", shows="SUMMARY: 0")

    def sized(name: str, program: str, **more: Any) -> Step:
        return native(name, program, *sizes.get(program, ()), **more)

    # Programs beside time_kernels are its variants.
    variants = native("variants", "time_kernels", str(folder / "variants.json"), "--", *sizes.get("time_kernels", ()),
                      tool=(sys.executable, str(HERE / "variants.py")), shows="again:")
    build_words = [str(folder), "--architectures", arguments.architectures, *(["--prebuilt", str(prebuilt)] if prebuilt else [])]
    each = ["--timeout", "60"] if importlib.util.find_spec("pytest_timeout") else []
    # A configuration of its own: the project's names plugins that this machine need not have.
    tests = ["-m", "pytest", "-c", str(HERE / "pytest.ini"), "--rootdir", str(build.ROOT), "-v", "-m", "gpu", *each, str(TESTS / "native/cuda")]
    return [
        sized("bounds", "check_device_bounds", shows="not finite 0"),
        sized("launchers", "test_launchers", shows=" passed, 0 failed"),
        sized("open-samples", "count_open_samples", shows="leave level 1"),
        sized("kernels", "time_kernels", shows=cases.fused("exact", "float32", cases.PEER_DIMENSION, 12)),
        Step("build", [sys.executable, str(HERE / "build.py"), *build_words]),
        of_python("same-bits", str(HERE / "same_bits.py"), *ours, shows=" 0 differ"),
        of_python("pytest", *tests, shows=" skipped" if rehearsal else " passed",
                  missing="" if importlib.util.find_spec("pytest") else "pytest is not installed"),
        of_python("timings", str(HERE / "timings.py"), str(folder / "timings.json"), *ours),
        native("ncu", "time_kernels", *PROFILED, tool=("ncu", *NCU), on_path="ncu", shows="rows_kernel"),
        sanitizer("memcheck"),
        sanitizer("racecheck"),
        variants,
    ]  # fmt: skip


class Run:
    """The steps of one call, and what is known of them from this call and earlier ones."""

    def __init__(self, folder: Path, arguments: argparse.Namespace) -> None:
        self._start = time.monotonic()
        self._folder, self._arguments = folder, arguments
        self._sources = build.sources_digest()
        self._background: steps.Running | None = None
        self._foreground: steps.Running | None = None
        self._log_folder = folder / "logs"
        self._earlier = self._earlier_result()
        self.checks: dict[str, dict[str, Any]] = dict(self._earlier.get("checks", {}))
        self._log_folder.mkdir(parents=True, exist_ok=True)

    def _earlier_result(self) -> dict[str, Any]:
        path = self._folder / "result.json"
        if not path.exists():
            return {}
        result = json.loads(path.read_text())
        facts = self._facts()
        if any(result.get(name) != value for name, value in facts.items()):
            raise FolderOfAnotherRun(f"{self._folder} holds another kind of run: this one is {facts}")
        if result["sources"] == self._sources:
            return dict(result)
        print(f"the sources changed: what {self._folder} holds goes to its folder of-{result['sources']}", flush=True)
        for path in [path, *(self._folder / name for name in ("timings.json", "variants.json", "logs"))]:
            if path.exists():
                target = self._folder / f"of-{result['sources']}"
                target.mkdir(exist_ok=True)
                os.replace(path, target / path.name)
        return {}

    def _facts(self) -> dict[str, bool]:
        return {"rehearsal": self._arguments.device == "cpu", "quick": self._arguments.quick}

    def _elapsed(self) -> float:
        return time.monotonic() - self._start

    def _passed(self, name: str) -> bool:
        """In this call or an earlier one; a build has to be there still."""
        there = name != "build" or (self._folder / "package").exists()
        return self.checks.get(name, {}).get("passed") is True and there

    def _seconds_for(self, name: str) -> float:
        """What a step may take, or 0 where that is too little to begin."""
        most = self._arguments.most.get(name, steps.BUDGET[name])
        return steps.allowance(most, self._arguments.limit - self._elapsed())

    def pending(self, planned: list[Step]) -> list[Step]:
        """Of the chosen steps those without a pass; what failed before comes last, so that it takes no time from the others.

        A build that passed and is gone, on a machine that starts bare every time, is repeated where a step needs it.
        """
        named = self._arguments.steps
        chosen = [step for step in planned if (step.name in named if named else self.checks.get(step.name, {}).get("passed") is not True)]
        needed = any(step.needs == "build" for step in chosen) and not self._passed("build")
        if needed and all(step.name != "build" for step in chosen):
            chosen += [step for step in planned if step.name == "build"]
        return sorted(chosen, key=lambda step: self.checks.get(step.name, {}).get("passed") is False)

    def all(self, planned: list[Step]) -> None:
        waiting = self.pending(planned)
        try:
            for step in [step for step in waiting if step.name == steps.BACKGROUND]:
                waiting.remove(step)
                self._background = self._begun(step)
            while waiting:
                step = self._next(waiting)
                if step is not None:
                    waiting.remove(step)
                    self._foreground = self._begun(step)
                if step is None or self._foreground is not None:
                    self._wait_for_one()
            while self._background is not None:
                self._wait_for_one()
        finally:
            for running in (self._background, self._foreground):
                if running is not None:
                    running.stop()

    def _next(self, waiting: list[Step]) -> Step | None:
        """The first that needs nothing unfinished; None while all wait for the build."""
        if self._background is None:
            return waiting[0]
        return next((step for step in waiting if not step.needs), None)

    def _begun(self, step: Step) -> steps.Running | None:
        print(f"[{self._elapsed():4.0f} s] {step.name}", flush=True)
        seconds = self._seconds_for(step.name)
        if step.missing:
            self._record(step.name, {"passed": None, "why": step.missing})
        elif step.needs and not self._passed(step.needs):
            self._leave(step.name, f"needs {step.needs}")
        elif seconds == 0:
            self._leave(step.name, "no time left")
        else:
            return steps.Running(step, seconds, self._log_folder / f"{step.name}.log")
        return None

    def _leave(self, name: str, why: str) -> None:
        """To a later call. What an earlier one found stays."""
        if self.checks.get(name, {}).get("passed") is None:
            self._record(name, {"passed": None, "why": why, "left": True})

    def _wait_for_one(self) -> None:
        """Until the step in the foreground ends, or the build if there is none; a build that ends meanwhile is recorded."""
        while True:
            if self._background is not None and self._background.over():
                ended, self._background = self._background, None
                self._record(ended.step.name, ended.result())
                if self._foreground is None:
                    return
            if self._foreground is not None and self._foreground.over():
                ended, self._foreground = self._foreground, None
                self._record(ended.step.name, ended.result())
                return
            if self._foreground is None and self._background is None:
                return
            time.sleep(steps.GRACE)

    def _record(self, name: str, check: dict[str, Any]) -> None:
        self.checks[name] = check
        print(f"{check.get('output', '')}{name}: {steps.word(check)} [{self._elapsed():.0f} s]", flush=True)
        self.write()
        if name == "build" and self._arguments.logs is not None:   # for DIR/modules of --prebuilt, where a machine starts bare every time
            for module in (self._folder / "modules").glob("*"):
                shutil.copy2(module, self._arguments.logs / module.name)

    def result(self) -> dict[str, Any]:
        facts, earlier = self._facts(), self._earlier
        timed = self._folder / "timings.json"
        known = json.loads(timed.read_text()) if timed.exists() else {name: earlier[name] for name in TIMED if name in earlier}
        known = {"machine": {"device": "unknown device"}, "timings": {}, **known}
        kernel_log, open_log = self._log_folder / "kernels.log", self._log_folder / "open-samples.log"
        kernels = table.kernels(text_of(kernel_log)) if kernel_log.exists() else earlier.get("kernels", table.kernels(""))
        variants = self._folder / "variants.json"
        prebuilt = self._arguments.prebuilt
        no_figures = facts["rehearsal"] or facts["quick"]
        device = kernels["machine"].get("device", known["machine"]["device"])
        return {
            **known,
            **facts,
            "date": time.strftime("%Y-%m-%d"),
            "note": cases.REHEARSAL if facts["rehearsal"] else "",
            "sources": self._sources,
            "prebuilt_from_these_sources": prebuilt is None or build.from_these_sources(prebuilt),
            "checks": {name: self.checks[name] for name in steps.NAMES if name in self.checks},
            "kernels": kernels,
            "variants": json.loads(variants.read_text()) if variants.exists() else earlier.get("variants", {}),
            "over_peers": table.over_peers(known["timings"]),
            "level_1": table.level_1(text_of(open_log)) if open_log.exists() else earlier.get("level_1", {}),
            "aims": judged(cases.aims(device), {} if no_figures else known["timings"]),
            "kernel_aims": judged(cases.kernel_aims(device), {} if no_figures else kernels["timings"]),
        }

    def write(self) -> None:
        result = self.result()
        write(self._folder / "result.json", result)
        logs = self._arguments.logs
        if logs is None:
            return
        write(logs / "result.json", result)
        outputs = [(path.stem, text_of(path)) for path in sorted(self._log_folder.glob("*.log"))]
        write_text(logs / "outputs.txt", "\n".join(f"==== {name}\n{text}" for name, text in outputs))


def judged(aims: list[cases.Aim], timings: dict[str, Any]) -> list[dict[str, Any]]:
    verdicts = [cases.judge(aim, timings) for aim in aims]
    return [{"text": v.aim.text, "bound": v.aim.bound, "at_most": v.aim.at_most, "measured": v.measured, "verdict": v.word} for v in verdicts]


def text_of(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def show_plan(planned: list[Step], limit: float) -> None:
    for step in planned:
        print(f"{step.name} (at most {steps.BUDGET[step.name]} s){step.missing and ', not run: ' + step.missing}: {' '.join(step.command)}")
    print(f"\nat most {limit:.0f} s a call; timed:")
    print("\n".join(f"  {name}" for name in cases.all_names()))


def show(result: dict[str, Any]) -> None:
    if result["note"]:
        print(f"\n{result['note']}")
    for timings in (result["kernels"]["timings"], result["timings"]):
        if timings:
            print(f"\n{table.table(timings)}")
    if result["over_peers"]:
        print(f"\n{table.peer_table(result['timings'])}")
    if result.get("overheads_us"):
        print(f"\n{table.overhead_table(result['overheads_us'])}")
    note = "; a quick run: the sizes are not those of the aims" if result["quick"] else ""
    print(f"\nAims, called from Python{note}\n{table.aims_table(result['aims'])}")
    print(f"\nAims, kernels alone{note}\n{table.aims_table(result['kernel_aims'])}\n")
    for name, share in result["level_1"].items():
        print(f"leaves level 1, {name}: {share:.2e}")
    for name, why in result.get("left_out", {}).items():
        print(f"left out, {name}: {why}")
    if not result["prebuilt_from_these_sources"]:
        print("the programs in --prebuilt were built from other sources")
    for name, check in result["checks"].items():
        print(f"{name}: {steps.word(check)}")


def write_text(path: Path, text: str) -> None:
    """Beside its final name and then renamed: whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.part")
    beside.write_text(text)
    os.replace(beside, path)


def write(path: Path, result: dict[str, Any]) -> None:
    write_text(path, json.dumps(result, indent=1) + "\n")


def budgets(text: str) -> dict[str, float]:
    """Of "bounds=20,ncu=60"."""
    return {name: float(seconds) for name, _, seconds in (part.partition("=") for part in text.split(","))}


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="kept between calls; without it a call starts from nothing and keeps nothing")
    parser.add_argument("--steps", type=lambda text: text.split(","), default=[], help=f"of {', '.join(steps.NAMES)}")
    parser.add_argument("--most", type=budgets, default={}, metavar="STEP=SECONDS,...", help="other limits for some steps")
    parser.add_argument("--logs", type=Path, help="gets the result and the outputs after every step")
    parser.add_argument("--prebuilt", type=Path, help="the folder that prebuild.py made")
    parser.add_argument("--limit", type=float, default=steps.LIMIT, help="seconds for this call")
    parser.add_argument("--quick", action="store_true", help="smaller arrays and fewer repeats: a smoke test, not a figure")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu is a rehearsal: nothing in its result is a figure")
    parser.add_argument("--out", type=Path, help="the JSON file")
    parser.add_argument("--architectures", default="native", help="as CMAKE_CUDA_ARCHITECTURES takes them")
    parser.add_argument("--plan", action="store_true", help="print what would be run, and run nothing")
    arguments = parser.parse_args()
    unknown = [name for name in [*arguments.steps, *arguments.most] if name not in steps.NAMES]
    if unknown:
        parser.error(f"the steps are {', '.join(steps.NAMES)}, got {', '.join(unknown)}")
    for name in ("folder", "logs", "prebuilt"):
        if getattr(arguments, name) is not None:
            setattr(arguments, name, getattr(arguments, name).resolve())
    return arguments


def published(result: dict[str, Any]) -> dict[str, Any]:
    """What a reader of bench/results needs: without the outputs of the steps, which name folders of the machine."""
    checks = {name: {key: value for key, value in check.items() if key != "output"} for name, check in result["checks"].items()}
    return {**result, "checks": checks}


def out_path(arguments: argparse.Namespace, result: dict[str, Any]) -> Path | None:
    """Where the result goes besides the folder. Only a whole run on a device goes to bench/results by itself."""
    if arguments.out is not None or result["rehearsal"] or result["quick"] or not result["timings"]:
        return arguments.out
    return RESULTS / f"{table.slug(result['machine']['device'])}.json"


def main() -> int:
    arguments = read_arguments()
    if arguments.plan:
        show_plan(plan(arguments.folder or Path("FOLDER"), arguments), arguments.limit)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))   # so that what was started ends too
    for program in arguments.prebuilt.glob("*") if arguments.prebuilt else ():
        with suppress(OSError):   # a copy may have lost the right to run
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with tempfile.TemporaryDirectory(prefix="hushvec-cuda-") as temporary:
        folder = arguments.folder or Path(temporary)
        try:
            run = Run(folder, arguments)
        except FolderOfAnotherRun as error:
            print(error, file=sys.stderr)
            return 2
        run.all(plan(folder, arguments))
        run.write()
        result = run.result()
    show(result)
    path = out_path(arguments, result)
    if path is not None:
        write(path, published(result))
        print(f"written: {path}")
    return 1 if any(check["passed"] is False or check.get("left") for check in result["checks"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
