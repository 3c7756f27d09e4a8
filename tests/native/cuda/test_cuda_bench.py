"""The parts of bench/cuda that need no device: names, medians, ratios, aims, tables, and the verdict on a step."""

import importlib
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "bench/cuda"
MODULES = ("cases", "table", "steps", "build", "run")


@pytest.fixture(scope="module")
def bench():
    """The modules of bench/cuda; the name `run` is bench/python's too, so none of them stays behind."""
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.remove(str(FOLDER))
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def timing(milliseconds, **facts):
    return {"median_ms": milliseconds, "spread": 0.01, "bytes": 4_000_000_000, "samples": 1_000_000_000, **facts}


def test_slug(bench):
    assert bench["table"].slug("NVIDIA H200") == "nvidia-h200"
    assert bench["table"].slug("  A100-SXM4 (80GB) ") == "a100-sxm4-80gb"


def test_summary_is_median_least_and_quartile_spread(bench):
    summary = bench["table"].summary
    assert summary([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median_ms": 3.0, "min_ms": 1.0, "spread": pytest.approx(1 / 3)}
    assert summary([2.0]) == {"median_ms": 2.0, "min_ms": 2.0, "spread": 0.0}


def test_rates_and_shares(bench):
    table, copy = bench["table"], timing(1.0)
    ours = timing(2.0, ceiling="copy")
    assert table.rates(copy) == {"gb_per_s": pytest.approx(4000.0), "ns_per_sample": pytest.approx(0.001)}
    assert table.share_of_ceiling(ours, {"copy": copy}) == pytest.approx(0.5)
    assert table.share_of_ceiling(ours, {}) is None
    assert table.share_of_ceiling(copy, {"copy": copy}) is None


def test_peers_are_compared_on_the_same_work_only(bench):
    timings = {
        "ours": timing(2.0, work="a"),
        "same": timing(6.0, work="a", peer=True),
        "other": timing(9.0, work="b", peer=True),
        "no peer": timing(1.0, work="c"),
    }
    assert bench["table"].over_peers(timings) == {"ours": {"same": pytest.approx(3.0)}}


def test_tables_line_up(bench):
    table = bench["table"]
    lines = table.table({"copy": timing(1.0), "ours": timing(2.0, ceiling="copy")}).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["copy", "ours"]
    assert lines[2].split()[-1] == "50%"
    assert len({len(line) for line in lines}) == 1


def test_level_1_is_read_from_the_counter(bench):
    output = "gaussian  s 64.0  samples 1000  leave level 1 5  one in 200\nlaplacian s 76.8  samples 10  leave level 1 0  one in inf\n"
    assert bench["table"].level_1(output) == {"gaussian s 64.0": 0.005, "laplacian s 76.8": 0.0}


def test_every_aim_is_about_something_timed(bench):
    names = bench["cases"].all_names()
    assert len(names) == len(set(names))
    for aim in bench["cases"].aims("NVIDIA H200"):
        assert {aim.above, aim.below} <= set(names), aim.text


@pytest.mark.parametrize(
    "device, shares",
    [("NVIDIA H100 80GB HBM3", [0.90, 0.62, 0.42, 0.46]), ("NVIDIA H200", [0.62, 0.43, 0.29, 0.32]), ("NVIDIA A100", [None] * 4),
     ("NVIDIA GH200 480GB", [None] * 4)],
)  # fmt: skip
def test_a_device_is_judged_by_its_own_aims(bench, device, shares):
    cases = bench["cases"]
    aims = cases.aims(device)
    assert [aim.bound for aim in aims if aim.text.startswith("share of")] == shares
    fast = {name: {"median_ms": 1.0, "bytes": 1} for name in cases.all_names()}
    words = {cases.judge(aim, fast).word for aim in aims}
    assert words == ({"no aim"} if None in shares else {"reached", "not reached"})
    judged = bench["run"].judged(aims, fast)
    assert ("none for this device" in bench["table"].aims_table(judged)) == (None in shares)
    assert json.loads(json.dumps(judged))[0]["bound"] == shares[0]


def test_no_aim_is_about_the_time_of_a_generator_that_is_not_secure(bench):
    assert not any("randn" in aim.above for aim in bench["cases"].aims("NVIDIA H100"))


@pytest.mark.parametrize(
    "above, below, bound, at_most, word",
    [(3.0, 1.0, 2.0, False, "reached"), (3.0, 2.0, 2.0, False, "not reached"), (3.0, 1.0, 2.0, True, "not reached"),
     (3.0, 2.0, 2.0, True, "reached")],
)  # fmt: skip
def test_an_aim_is_judged_by_time_per_byte(bench, above, below, bound, at_most, word):
    cases = bench["cases"]
    aim = cases.Aim("text", "above", "below", bound, at_most)
    # Half the bytes in half the time is as fast.
    timings = {"above": timing(above), "below": {**timing(below / 2), "bytes": 2_000_000_000}}
    verdict = cases.judge(aim, timings)
    assert verdict.measured == pytest.approx(above / below)
    assert verdict.word == word
    assert cases.judge(aim, {"above": timing(1.0)}).word == "not measured"


def test_a_step_takes_its_budget_or_what_is_left_of_the_call(bench):
    steps = bench["steps"]
    assert steps.LIMIT + steps.MARGIN < 600
    assert steps.allowance(100, 500) == 100
    assert steps.allowance(100, 60 + steps.MARGIN) == 60
    assert steps.allowance(100, 20 + steps.MARGIN) == 0  # too little to begin
    assert steps.allowance(100, -1) == 0


def test_the_first_steps_of_the_plan_fit_one_call(bench):
    """With the programs prebuilt, beside the build."""
    budget, limit = bench["steps"].BUDGET, bench["steps"].LIMIT
    assert sum(budget[name] for name in ("bounds", "launchers", "open-samples", "kernels")) < budget["build"] < limit
    assert sum(budget[name] for name in ("same-bits", "pytest", "timings")) < limit
    assert sum(budget[name] for name in ("ncu", "memcheck", "racecheck", "variants")) < limit


@pytest.mark.parametrize(
    "code, output, sanitizer, passed",
    [
        (0, "3 passed, 0 failed", False, True),
        (0, "317 skipped", False, False),
        (1, "3 passed, 0 failed", False, False),
        (None, "", False, False),
        (77, "no CUDA device", False, None),
        (1, "Error: Device not supported", True, None),
        (1, "Error: Device not supported", False, False),
    ],
)
def test_verdict_on_a_step(bench, code, output, sanitizer, passed):
    assert bench["steps"].outcome(code, output, " passed", sanitizer)[0] is passed


def test_kernel_lines_are_read_up_to_where_they_were_cut_off(bench):
    output = '{"device": "H", "driver": 1}\n{"name": "device copy", "median_ms": 1.0}\nnoise\n{"name": "plain fi'
    assert bench["table"].kernels(output) == {"machine": {"device": "H", "driver": 1}, "timings": {"device copy": {"median_ms": 1.0}}}


def test_aims_of_kernels_are_those_that_need_no_other_library(bench):
    cases = bench["cases"]
    aims = cases.kernel_aims("NVIDIA H200")
    assert aims[:4] == cases.aims("NVIDIA H200")[:4] and not any("torch" in aim.text for aim in aims)
    entry = {"bytes": 4_000_000_000}
    timings = {cases.COPY: {**entry, "median_ms": 1.0}, cases.fused("exact", "float32", 768, 12): {**entry, "median_ms": 1.25}}
    (verdict,) = [v for v in (cases.judge(aim, timings) for aim in aims) if v.measured is not None]
    assert verdict.measured == pytest.approx(0.8) and verdict.word == "reached"


def test_modules_of_other_sources_or_another_python_are_not_used(bench, tmp_path):
    build = bench["build"]
    for name in build.MODULES:
        (tmp_path / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}").touch()
    (tmp_path / build.STAMP).write_text(build.sources_digest())
    assert [path.name.split(".")[0] for path in build.modules_in(tmp_path)] == ["_core", "_cuda"]
    (tmp_path / build.STAMP).write_text("other sources")
    assert build.modules_in(tmp_path) == []
    (tmp_path / build.STAMP).write_text(build.sources_digest())
    next(tmp_path.glob("_core*")).rename(tmp_path / "_core.cpython-399-x86_64-linux-gnu.so")
    assert build.modules_in(tmp_path) == []


def test_the_digest_follows_what_is_compiled(bench, tmp_path):
    digest = bench["build"].sources_digest
    (tmp_path / "cuda").mkdir()
    (tmp_path / "CMakeLists.txt").write_text("project()")
    (tmp_path / "cuda/a.cu").write_text("one")
    first = digest(tmp_path)
    (tmp_path / "cuda/README.md").write_text("text")
    assert digest(tmp_path) == first
    (tmp_path / "cuda/a.cu").write_text("two")
    assert digest(tmp_path) != first


def test_steps_run_within_their_time(bench, tmp_path):
    steps = bench["steps"]

    def run(code, **options):
        return steps.run(steps.Step("pytest", [sys.executable, "-c", code], **options), 5.0, tmp_path / "log")

    assert run("print('fine')", shows="fine")["passed"] is True
    assert run("import os; print(os.environ['WORD'])", shows="fine", environment={"WORD": "fine"})["passed"] is True
    assert run("raise SystemExit(3)")["why"] == "exit code 3"
    # A child that ignores its parent's end goes too.
    stuck = ("import subprocess, sys; print('begun', flush=True); "
             "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])")  # fmt: skip
    result = steps.run(steps.Step("pytest", [sys.executable, "-c", stuck]), 1.0, tmp_path / "log")
    assert result["passed"] is False and "out of time" in result["why"] and "begun" in result["output"]


def test_a_step_that_cannot_start_is_a_failed_one(bench, tmp_path):
    steps = bench["steps"]
    result = steps.run(steps.Step("bounds", [str(tmp_path / "nothing")]), 5.0, tmp_path / "log")
    assert result["passed"] is False and "nothing" in result["why"]


def test_rows_of_zeros_are_finite(monkeypatch):
    """Of millions of rows of one element, some are 0."""
    torch = pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(FOLDER))
    random_rows = importlib.import_module("random_rows")
    assert (random_rows.rows_of(100, 1, torch.float32, "cpu").abs() > 0.1).all()
    monkeypatch.setattr(torch, "randn", torch.zeros)
    assert (random_rows.rows_of(100, 1, torch.float32, "cpu") == 0).all()


def test_plan_runs_without_a_device():
    plan = subprocess.run([sys.executable, str(FOLDER / "run.py"), "--plan"], capture_output=True, text=True, check=True).stdout
    programs, tools = ("check_device_bounds", "time_kernels"), ("memcheck", "racecheck", "--clock-control none")
    for expected in (*programs, *tools, "device copy", "torch.compile, float32, d = 768"):
        assert expected in plan
