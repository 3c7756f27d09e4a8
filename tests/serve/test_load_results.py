"""The table of speeds in docs/serve.md is that of the committed run of bench/serve/load.py."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench/results/serve-amd-epyc-avx2-2-cores.json"


def rows(run):
    """The table's cells from the third column on, in its order."""
    for clients in (1, 4):
        found = run["embeddings"][f"{clients}_clients"]
        share = f"{100 * found['ratio_to_model']:.0f} %" + (" of the model alone" if clients == 1 else "")
        yield f"{found['texts_per_s']:.0f} texts/s, {share} | {found['p50_ms']:.0f} ms | {found['p99_ms']:.0f} ms |"
    found = run["arrow"]["1_clients"]
    yield f"{found['mb_per_s']:.0f} MB/s | {found['p50_ms']:.0f} ms | {found['p99_ms']:.0f} ms |"
    yield f"| {run['memory']['p50_ms']:.1f} ms | {run['memory']['p99_ms']:.1f} ms |"


def test_the_guide_has_the_measured_figures():
    if not RESULTS.parent.is_dir():
        pytest.skip("bench/results is not part of a source distribution")
    run, guide = json.loads(RESULTS.read_text()), (ROOT / "docs/serve.md").read_text()
    assert run["embeddings"]["batch"] == 32 and round(run["arrow"]["body_mb"]) == 32
    for row in rows(run):
        assert row in guide, row
    held, requests = run["memory"]["resident_mb"], run["memory"]["requests"]
    assert f"held {held[0]:.0f} MB at the beginning of {requests:,} requests and {held[-1]:.0f} MB at their end" in guide
