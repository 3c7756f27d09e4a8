"""bench/cuda/run.py from end to end, without a device: its programs on the emulated one in the rehearsal, else scripts."""

import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from native.cuda.conftest import WITHOUT_CUDA
from native.cuda.ptx.build import NotBuilt
from native.cuda.stand_ins import ROOT, StandIns

NATIVE = "bounds,launchers,open-samples,kernels"
HANGS = "sleep 600 &\necho $! >'{pid}'\nwait"


@pytest.fixture
def stand_ins(tmp_path):
    return StandIns(tmp_path)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")   # a killed child waits as a zombie for whoever takes it in
    return not status.exists() or "State:\tZ" not in status.read_text()


def pid_in(path):
    """Of a process that a stand-in started, once it wrote it."""
    for _ in range(200):
        if path.exists() and path.read_text().strip():
            return int(path.read_text())
        time.sleep(0.05)
    raise AssertionError(f"{path} was not written")


def ended(pid):
    for _ in range(100):
        if not alive(pid):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.full
@pytest.mark.skipif(importlib.util.find_spec("hushvec._native._cuda") is None, reason=WITHOUT_CUDA)
def test_a_whole_rehearsal(stand_ins, tmp_path):
    """Every step with its own arguments, by the real programs; ncu, compute-sanitizer, cmake and the variants are scripts.

    Variants: one better, and one faster but wrong.
    """
    pytest.importorskip("torch")
    try:
        stand_ins.emulated()
    except NotBuilt as reason:
        pytest.skip(str(reason))
    stand_ins.compiler()
    for variant, launchers in [("better", "317 passed, 0 failed"), ("wrong", "300 passed, 17 failed")]:
        # 10 more in every ratio.
        stand_ins.script(f"time_kernels.{variant}", f"""'{stand_ins.prebuilt}/time_kernels' "$@" | sed 's/"ratio": /"ratio": 1/'""")
        stand_ins.program(f"test_launchers.{variant}", launchers)
    code, output = stand_ins.run("--quick", "--logs", str(tmp_path / "logs"))
    assert code == 0, output
    assert set(stand_ins.checks().values()) == {True} and len(stand_ins.checks()) == 12

    result = stand_ins.result()
    assert result["rehearsal"] is True and "no number in it is a figure" in result["note"]
    assert "rehearsal" in result["machine"]["device"]
    assert {aim["verdict"] for aim in [*result["aims"], *result["kernel_aims"]]} == {"no aim"}
    # No time passes on the emulated device: the fill writes the bytes of the plain one.
    assert result["kernels"]["machine"]["device"] == "emulated device"
    assert result["kernels"]["timings"]["gaussian fill, float32, 12 rounds"]["ratio"] == 1.0
    assert len(result["level_1"]) == 6 and all(1e-5 < share < 1e-3 for share in result["level_1"].values())
    for step in NATIVE.split(","):
        said = result["checks"][step]["output"]
        assert re.search(r"^emulated device: .* [1-9]\d* launches, .*, 0 faults$", said, re.MULTILINE), said
    assert set(result["variants"]["best"].values()) == {"better"} and set(result["variants"]["again"]) == {"plain", "better"}
    assert result["variants"]["left_out"] == {"wrong": "test_launchers.wrong did not pass"}
    names = set(result["timings"])
    assert {"device copy", "torch eager, float32, d = 768", "exact clip and noise, float32, d = 768, 12 rounds"} <= names
    assert {"PrivUnitG, float32, d = 384, 20 rounds", "clip and L2-Laplace noise, bfloat16, d = 768, 12 rounds"} <= names
    assert {"nearest of 256 codes, float32, d = 384", "randomized response, int64, 8 rounds"} <= names
    assert "torch.compile, float32, d = 768" in names | {f"{name}, d = 768" for name in result["left_out"]}
    assert result["left_out"]["cupy fills"] == "RuntimeError: CuPy needs a CUDA device"

    logs = tmp_path / "logs"
    assert json.loads((logs / "result.json").read_text()) == result
    assert "==== ncu\n==PROF==" in (logs / "outputs.txt").read_text()
    assert len(list(logs.iterdir())) <= 8
    # Modules of this build serve a machine that starts bare; those of other sources do not.
    (stand_ins.prebuilt / "modules").mkdir()
    for path in [*logs.glob("*.so"), logs / "sources.txt"]:
        (stand_ins.prebuilt / "modules" / path.name).write_bytes(path.read_bytes())
    stand_ins.calls()
    assert stand_ins.run("--quick", "--steps", "build")[0] == 0 and stand_ins.calls() == []
    (stand_ins.prebuilt / "modules/sources.txt").write_text("others")
    assert stand_ins.run("--quick", "--steps", "build")[0] == 0 and stand_ins.calls() == ["cmake", "cmake"]


def test_a_second_call_goes_on_where_the_first_stopped(stand_ins):
    stand_ins.program("test_launchers", "316 passed, 1 failed", code=1)
    (stand_ins.prebuilt / "check_device_bounds").chmod(0o644)   # as after a copy that keeps no modes
    code, output = stand_ins.run("--steps", NATIVE)
    assert code == 1 and "launchers: FAILED (exit code 1)" in output
    assert stand_ins.calls() == ["check_device_bounds", "test_launchers", "count_open_samples", "time_kernels"]
    assert stand_ins.checks() == {"bounds": True, "launchers": False, "open-samples": True, "kernels": True}
    # Each program found the result of those before it.
    assert stand_ins.seen_by("check_device_bounds") == []
    assert stand_ins.seen_by("count_open_samples") == ["bounds", "launchers"]
    assert stand_ins.seen_by("time_kernels") == ["bounds", "launchers", "open-samples"]

    stand_ins.program("test_launchers", "317 passed, 0 failed")
    stand_ins.tool("cmake", "exit 1")
    code, _ = stand_ins.run()
    calls = stand_ins.calls()
    assert code == 1 and "check_device_bounds" not in calls and "count_open_samples" not in calls
    # What never ran comes first; what failed before comes last.
    assert calls[-1] == "test_launchers" and {"cmake", "ncu", "compute-sanitizer", "time_kernels"} <= set(calls)
    checks = stand_ins.checks()
    assert checks["launchers"] is True and checks["build"] is False and checks["memcheck"] is True and checks["variants"] is True
    assert stand_ins.result()["checks"]["timings"] == {"passed": None, "why": "needs build", "left": True}

    assert stand_ins.run("--steps", "bounds")[0] == 1   # the build still failed
    assert stand_ins.calls() == ["check_device_bounds"]


def test_a_hang_ends_at_its_limit_and_others_run(stand_ins, tmp_path):
    stand_ins.script("check_device_bounds", HANGS.format(pid=tmp_path / "pid"))
    start = time.monotonic()
    code, _ = stand_ins.run("--steps", NATIVE, "--most", "bounds=1")
    assert code == 1 and time.monotonic() - start < 30
    assert stand_ins.checks() == {"bounds": False, "launchers": True, "open-samples": True, "kernels": True}
    assert stand_ins.result()["checks"]["bounds"]["why"] == "stopped, out of time"
    assert ended(pid_in(tmp_path / "pid"))


def test_a_call_ends_at_its_limit(stand_ins, tmp_path):
    """With a build that hangs in the background: programs run beside it, what needs it is left to the next call."""
    stand_ins.tool("cmake", HANGS.format(pid=tmp_path / "pid"))
    start = time.monotonic()
    code, output = stand_ins.run("--limit", "9", "--most", "build=12,bounds=10,launchers=10,open-samples=10,kernels=10")
    assert time.monotonic() - start < 14 and code == 1
    checks = stand_ins.result()["checks"]
    assert checks["build"]["why"] == "stopped, out of time", output
    assert checks["bounds"]["passed"] is True and checks["kernels"]["passed"] is True
    assert checks["timings"]["left"] is True and checks["ncu"] == {"passed": None, "why": "no time left", "left": True}
    assert ended(pid_in(tmp_path / "pid"))


def test_a_stopped_call_ends_what_it_started(stand_ins, tmp_path):
    stand_ins.script("check_device_bounds", HANGS.format(pid=tmp_path / "pid"))
    call = subprocess.Popen(stand_ins.command("--steps", "bounds"), env=stand_ins.environment(), stdout=subprocess.DEVNULL)
    pid = pid_in(tmp_path / "pid")
    call.send_signal(signal.SIGTERM)
    assert call.wait(20) == 1 and ended(pid)


def test_a_tool_that_refuses_or_is_missing_is_no_failure(stand_ins):
    stand_ins.tool("ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'; exit 1")
    stand_ins.tool("compute-sanitizer", "echo '========= Error: Device not supported'; exit 1")
    (stand_ins.prebuilt / "count_open_samples").unlink()
    code, _ = stand_ins.run("--steps", "open-samples,ncu,memcheck,racecheck")
    assert code == 0
    assert {name: check["why"] for name, check in stand_ins.result()["checks"].items()} == {
        "open-samples": f"count_open_samples is not in {stand_ins.prebuilt}",
        "ncu": "the tool refuses this device: ERR_NVGPUCTRPERM",
        "memcheck": "the tool refuses this device: Device not supported",
        "racecheck": "the tool refuses this device: Device not supported",
    }


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('[ "$6" != sums ] || { echo "Invalid read of size 4"; exit 1; }', "Invalid read of size 4\nsums: FAILED (exit code 1)"),
        ('[ "$6" != codes ] || SUMMARY="2 errors"', "codes: FAILED (exit code 0 without 'SUMMARY: 0' in the output)"),
    ],
)
def test_an_error_in_one_case_fails_the_step_and_names_it(stand_ins, script, says):
    stand_ins.tool("compute-sanitizer", f'SUMMARY="0 errors"\n{script}\necho "SUMMARY: $SUMMARY"')
    code, _ = stand_ins.run("--steps", "memcheck")
    output = stand_ins.result()["checks"]["memcheck"]["output"]
    assert code == 1 and says in output and "rows: passed" in output
    assert "memcheck SUMMARY: 1 of 13 cases did not pass" in output


def test_results_of_other_sources_are_put_aside(stand_ins):
    stand_ins.run("--steps", "bounds,kernels")
    path = stand_ins.folder / "result.json"
    path.write_text(path.read_text().replace(stand_ins.result()["sources"], "0123456789abcdef"))
    stand_ins.calls()
    code, output = stand_ins.run("--steps", "open-samples")
    assert code == 0 and "the sources changed" in output
    assert stand_ins.checks() == {"open-samples": True} and stand_ins.result()["kernels"]["timings"] == {}
    assert (stand_ins.folder / "of-0123456789abcdef/logs/kernels.log").exists()


def test_a_result_alone_is_enough_to_go_on_on_a_bare_machine(stand_ins):
    stand_ins.run("--steps", NATIVE)
    before = stand_ins.result()
    shutil.rmtree(stand_ins.folder)
    stand_ins.folder.mkdir()
    (stand_ins.folder / "result.json").write_text(json.dumps({**before, "checks": {**before["checks"], "build": {"passed": True}}}))
    stand_ins.tool("cmake", "exit 1")
    stand_ins.calls()
    assert stand_ins.run("--steps", "memcheck")[0] == 0
    assert set(stand_ins.calls()) == {"compute-sanitizer"}
    after = stand_ins.result()
    assert after["kernels"] == before["kernels"] and after["level_1"] == before["level_1"]
    # The build that passed is gone, and same-bits needs it.
    assert stand_ins.run("--steps", "same-bits")[0] == 1
    assert stand_ins.calls() == ["cmake"] and stand_ins.checks()["build"] is False


def test_a_folder_holds_one_kind_of_run(stand_ins):
    stand_ins.run("--steps", "bounds")
    code, output = stand_ins.run("--quick", "--steps", "bounds")
    assert code == 2 and "holds another kind of run" in output


def test_steps_are_named_correctly(stand_ins):
    code, output = stand_ins.run("--steps", "bound")
    assert code == 2 and "the steps are bounds, launchers," in output and "got bound" in output


def test_the_program_names_its_cases_as_the_aims_do(monkeypatch):
    """time_kernels as it was last built here; ctest checks two of its names wherever it is built."""
    program = next((path for path in ROOT.glob("build/*/cuda/tools/time_kernels")), None)
    if program is None:
        pytest.skip("time_kernels was not built: scripts/check_native.sh cuda")
    listed = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    spec = importlib.util.spec_from_file_location("cases", ROOT / "bench/cuda/cases.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "cases", module)   # dataclasses look their module up
    spec.loader.exec_module(module)
    for dtype in module.FUSED_DTYPES:
        assert module.fill("gaussian", dtype, 12) in listed
        for d in module.DIMENSIONS:
            for grade in ("exact", "float"):
                assert {module.fused(grade, dtype, d, rounds) for rounds in module.ROUNDS} <= set(listed)
    for dtype in module.RELEASED_DTYPES:
        for d in module.RELEASED_DIMENSIONS:
            names = {name(dtype, d, rounds) for name in (module.privunit, module.l2_laplace) for rounds in module.ROUNDS}
            assert names | {module.nearest(dtype, d)} <= set(listed)
    assert {module.response(rounds) for rounds in module.ROUNDS} <= set(listed)
