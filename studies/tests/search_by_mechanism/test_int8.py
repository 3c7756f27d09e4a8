"""docs/retrieval.md prints the figures of studies/hushvec_studies/search_by_mechanism/results/int8.json."""

import json
import re
from pathlib import Path

import numpy as np

from hushvec_studies.search_by_mechanism.int8 import compared, rounded

ROOT = Path(__file__).parents[3]
ROWS = json.loads((ROOT / "studies/hushvec_studies/search_by_mechanism/results/int8.json").read_text())
SECTION = re.search(r"## int8 releases\n(.*?)\n## ", (ROOT / "docs/retrieval.md").read_text(), re.DOTALL)[1]


def test_the_sentences():
    assert all(row["ends"] == 0 for row in ROWS) and "no value was at the ends of the range" in SECTION
    differing = [row for row in ROWS if row["difference"]["int8"][1] > 0 or row["difference"]["int8"][2] < 0]
    assert [(row["mechanism"], row["epsilon"]) for row in differing] == [("privunit", 64.0)]
    (row,) = differing
    assert len(ROWS) == 6 and 'of six settings measured only "privunit" at epsilon 64' in SECTION
    assert f"{row['ndcg']['int8']:.3f} instead of {row['ndcg']['float32']:.3f}, because s = {row['s']:.1f}" in SECTION


def test_the_program():
    rng = np.random.default_rng(0)
    documents = rng.standard_normal((60, 32)).astype(np.float32)
    claims = documents[:5]
    row = compared(documents, claims, [[place] for place in range(5)], "gaussian", 4096.0)
    assert row["ndcg"]["int8"] > 0.9
    assert np.abs(rounded(claims)).max() == 127
