"""The pure functions of bench/cuda: names, medians, ratios, the table."""

import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).resolve().parents[2] / "bench/cuda/table.py"


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("cuda_bench_table", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_slug(table):
    assert table.slug("NVIDIA H200") == "nvidia-h200"
    assert table.slug("  A100-SXM4 (80GB) ") == "a100-sxm4-80gb"


def test_summary_is_median_least_and_quartile_spread(table):
    assert table.summary([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median_ms": 3.0, "min_ms": 1.0, "spread": pytest.approx(1 / 3)}
    assert table.summary([2.0]) == {"median_ms": 2.0, "min_ms": 2.0, "spread": 0.0}


def test_rates_and_shares(table):
    copy = {"median_ms": 1.0, "spread": 0.0, "bytes": 4_000_000_000, "samples": 1_000_000_000}
    ours = {**copy, "median_ms": 2.0, "ceiling": "copy"}
    assert table.rates(copy) == {"gb_per_s": pytest.approx(4000.0), "ns_per_sample": pytest.approx(0.001)}
    assert table.share_of_ceiling(ours, {"copy": copy}) == pytest.approx(0.5)
    assert table.share_of_ceiling(ours, {}) is None
    assert table.share_of_ceiling(copy, {"copy": copy}) is None


def test_table_has_a_line_for_each_timing(table):
    copy = {"median_ms": 1.0, "spread": 0.01, "bytes": 4_000_000_000, "samples": 1_000_000_000}
    lines = table.table({"copy": copy, "ours": {**copy, "median_ms": 2.0, "ceiling": "copy"}}).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["copy", "ours"]
    assert lines[2].split()[-1] == "50%"
    assert len({len(line) for line in lines}) == 1
