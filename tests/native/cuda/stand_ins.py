"""bench/cuda/run.py without a device: its programs on the emulated device, and scripts that print what programs and tools print.

Each script writes its name to the file `calls` and copies the result as it finds it to `seen/NAME.json`.
"""

import importlib.util
import json
import os
import shutil
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

from native.cuda.ptx import build

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "bench/cuda/run.py"
TOOLS = ("check_device_bounds", "count_open_samples", "time_kernels")

BOUNDS = """\
radius 1.1e-07  angle 1.7e-07  laplace 1.2e-07  words 4294967296  not finite 0
gaussian  needed 4.0e-07  in use 4.2e-07  (0.950)
laplace   needed 2.4e-07  in use 2.6e-07  (0.920)"""
LAUNCHERS = "317 passed, 0 failed"
OPEN_SAMPLES = """\
gaussian  s 64.0  samples 1073741824  leave level 1 43021  one in 24958
laplacian s 64.0  samples 1073741824  leave level 1 21010  one in 51106"""
NCU = """\
==PROF== Connected to process 71
  void rows_kernel<float, RowsBody<float, ...>>(T2) (8192, 1, 1)x(128, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    Memory Throughput                 %        61.20"""
SANITIZER = "========= COMPUTE-SANITIZER\n317 passed, 0 failed\n========= ERROR SUMMARY: 0 errors"


def kernel_lines():
    """Two ceilings and two kernels."""
    ceilings = [("device copy", 1.0, 4 << 30, {}), ("plain fill", 0.5, 2 << 30, {})]
    ours = [
        ("exact clip and noise, float32, d = 768, 12 rounds", 1.25, 4 << 30,
         {"ceiling": "device copy", "ratio": 0.8, "work": "clip and noise, float32, d = 768", "peer": False}),
        ("gaussian fill, float32, 12 rounds", 1.0, 2 << 30,
         {"ceiling": "plain fill", "ratio": 0.5, "work": "gaussian fill, float32", "peer": False}),
    ]  # fmt: skip
    lines = [{"device": "Stand-in", "multiprocessors": 1, "l2_bytes": 1, "driver": 13000, "runtime": 13000, "curand": False}]
    for name, milliseconds, size, more in [*ceilings, *ours]:
        lines.append({"name": name, "median_ms": milliseconds, "min_ms": milliseconds, "spread": 0.0, "bytes": size,
                      "samples": 1 << 29, "gb_per_s": size / milliseconds / 1e6, **more})  # fmt: skip
    return "\n".join(json.dumps(line) for line in lines)


class StandIns:
    """A folder of prebuilt programs and one of tools for PATH, and what was called."""

    def __init__(self, folder):
        self.folder, self.prebuilt, self.tools = folder / "run", folder / "prebuilt", folder / "tools"
        self._calls, self._seen = folder / "calls", folder / "seen"
        for made in (self.folder, self.prebuilt, self.tools, self._seen):
            made.mkdir()
        for name, output in [
            ("check_device_bounds", BOUNDS), ("test_launchers", LAUNCHERS), ("count_open_samples", OPEN_SAMPLES),
            ("time_kernels", kernel_lines()),
        ]:  # fmt: skip
            self.program(name, output)
        self.tool("ncu", f"cat <<'END'\n{NCU}\nEND")
        self.tool("compute-sanitizer", f"cat <<'END'\n{SANITIZER}\nEND")

    def _script(self, path, body):
        name = path.name
        path.write_text(
            f"#!/bin/sh\necho {name} >>'{self._calls}'\n"
            f"[ -f '{self.folder}/result.json' ] && cp '{self.folder}/result.json' '{self._seen}/{name}.json'\n{body}\n"
        )
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def program(self, name, output, code=0):
        self._script(self.prebuilt / name, f"cat <<'END'\n{output}\nEND\nexit {code}")

    def emulated(self):
        """The native programs as they are, on the emulated device."""
        for place in ("tests/native/cuda/test_launchers", *(f"cuda/tools/{tool}" for tool in TOOLS)):
            made = build.program(build.Settings(), place, has_kernels=place.startswith("cuda/tools"))
            shutil.copy2(made, self.prebuilt)

    def script(self, name, body):
        self._script(self.prebuilt / name, body)

    def tool(self, name, body):
        self._script(self.tools / name, body)

    def compiler(self):
        """A cmake that puts the modules of the package under test where a build would."""
        # Where they are imported from: an editable installation has them beside no sources.
        modules = [importlib.util.find_spec(f"hushvec._native.{name}").origin for name in ("_core", "_cuda")]
        body = textwrap.dedent(
            """\
            if [ "$1" = --build ]; then cp {modules} "$2"; fi
            while [ $# -gt 1 ]; do
                if [ "$1" = -B ]; then mkdir -p "$2"; fi
                shift
            done"""
        ).format(modules=" ".join(f"'{path}'" for path in modules))
        self.tool("cmake", body)

    def run(self, *words):
        """The exit code and the output of run.py."""
        done = subprocess.run(self.command(*words), capture_output=True, text=True, env=self.environment())
        return done.returncode, done.stdout + done.stderr

    def command(self, *words):
        return [sys.executable, str(RUN), "--folder", str(self.folder), "--prebuilt", str(self.prebuilt), "--device", "cpu", *words]

    def environment(self):
        return {**os.environ, "PATH": os.pathsep.join([str(self.tools), os.environ["PATH"]])}

    def calls(self):
        """Names since the last look, in order."""
        names = self._calls.read_text().split() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return names

    def checks(self):
        """Whether each step passed."""
        return {name: check["passed"] for name, check in self.result()["checks"].items()}

    def result(self):
        return json.loads((self.folder / "result.json").read_text())

    def seen_by(self, name):
        """The steps in the result when a program began."""
        path = self._seen / f"{name}.json"
        return list(json.loads(path.read_text())["checks"]) if path.exists() else []


