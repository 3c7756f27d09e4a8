"""docs/studies.md prints figures of the study `records`, whose rows are in results/records.csv."""

import math
import re
from pathlib import Path

from hushvec_studies.retrieval.columns import ATTACKS, attack_column, read_rows
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.plan import planned

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8").partition("## A first study")[2].partition("\n## ")[0]
ROWS = read_rows(ROOT / "studies/hushvec_studies/retrieval/results/records.csv")


def test_the_rows_are_those_of_the_configuration():
    configuration = load_configuration("records")
    assert len({row["run_id"] for row in ROWS}) == len(planned(configuration)) == 25
    assert {row["study"] for row in ROWS} == {"records"}
    assert f"does {len(planned(configuration))} runs" in GUIDE


def test_the_table_of_the_guide():
    printed = re.findall(r"^\| (\S+?)(?:, no noise)? \| (\S+ \[\S+ \S+\]) \| (\S+) \| (\S+) \|$", GUIDE, re.MULTILINE)
    shown = [row for row in ROWS if row["k"] == 10 and (row["sides"], row["noise"]) in (("none", "none"), ("document", "pure"))]
    assert printed == [line(row) for row in shown]
    assert len(printed) == 7


def line(row):
    areas = [row[attack_column(attack, "auc")] for attack in ATTACKS]
    return (
        f"{row['epsilon_doc']:g}",
        f"{row['recall_at_k']:.3f} [{row['recall_at_k_ci_lower']:.3f}, {row['recall_at_k_ci_upper']:.3f}]",
        f"{row['category_precision_at_10']:.3f}",
        f"{max(area for area in areas if area is not None):.3f}",
    )


def test_a_reader_sees_the_whole_way_from_full_search_to_guessing():
    """What the shipped epsilons are chosen for: at one end search hardly suffers, at the other no attack does better than chance."""
    pure = (row for row in ROWS if row["k"] == 10 and row["noise"] in ("none", "pure") and row["noise_score"] == "none")
    documents = {row["epsilon_doc"]: row for row in pure}
    full = documents[math.inf]["recall_at_k"]
    assert full > 0.95
    assert documents[200]["recall_at_k"] > 0.95 * full
    assert documents[5]["recall_at_k"] < 0.1 * full
    assert documents[5]["lira_auc_ci_upper"] < 0.55 < documents[10]["lira_auc_ci_lower"]
