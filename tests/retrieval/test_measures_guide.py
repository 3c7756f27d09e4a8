"""docs/retrieval_measures.md prints the figures of studies/hushvec_studies/retrieval/results/intervals.json, and its example runs."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "retrieval_measures.md").read_text(encoding="utf-8")
RESULTS = json.loads((ROOT / "studies/hushvec_studies/retrieval/results/intervals.json").read_text(encoding="utf-8"))


def test_coverage():
    for row in RESULTS["queries of one document"]:
        assert f"| {row['queries each']} | {row['together']:.3f} | {row['alone']:.3f} |" in GUIDE
    errors = [row["error"] for name in ("queries of one document", "independent queries") for row in RESULTS[name]]
    assert max(errors) <= 0.008 and f"{RESULTS['data sets']:,} data sets" in GUIDE


def test_paired_differences():
    """The size of the test: at most 0.05 but for three standard errors of 4,000 data sets."""
    rows = RESULTS["paired differences"]
    lines = {f"| {row['queries each']} | {row['difference']:g} | {row['coverage']:.3f} | {row['rejected']:.3f} |" for row in rows}
    shown = re.findall(r"^\| \d+ \| 0(?:\.1)? \|.*$", GUIDE, re.MULTILINE)
    assert len(shown) == 3 and set(shown) <= lines
    for row in rows:
        assert row["coverage"] > 0.94 and (row["difference"] > 0 or row["rejected"] <= 0.05 + 3 * (0.05 * 0.95 / 4000) ** 0.5)


def test_the_example_runs(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    exec(example, {})  # noqa: S102
    printed = capsys.readouterr().out
    assert "recall_at_1" in printed and "mean_cosine" in printed
