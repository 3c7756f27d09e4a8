"""A table of all runs of a study with intervals: one line for each run, at the largest k. docs/studies.md shows some of them.

python -m hushvec_studies.retrieval.source_table grid/results.csv
"""

import argparse
import math
from pathlib import Path

from hushvec_studies.harness.tables import interval_text
from hushvec_studies.retrieval.columns import ATTACKS, attack_column, read_rows
from hushvec_studies.retrieval.findings import epsilon_of, finding

HEADER = (
    "| sides | noise | epsilon | recall at 1 | recall at {k} | same category in 10 "
    "| AUC logistic | AUC likelihood | AUC rows | TPR at 1 % | bound |"
)


def interval(row, name):
    return "" if row[name] is None else interval_text(row[name], row[f"{name}_ci_lower"], row[f"{name}_ci_upper"])


def bound(row):
    """What the claim allows the rate of true positives at 1 % false ones."""
    return "-" if row["epsilon_claimed"] == math.inf else f"{row['tpr_0.01_fpr_bound']:.3g}"


def strongest(row):
    """The column of the largest rate of true positives at 1 % false ones."""
    names = [attack_column(attack, "tpr_0.01_fpr") for attack in ATTACKS]
    return max((name for name in names if row[name] is not None), key=row.get)


def line(row):
    noise = {row[name] for name in ("noise_doc", "noise_query", "noise_score")} - {"none"}
    cells = [
        row["sides"],
        ", ".join(sorted(noise)) or "none",
        f"{epsilon_of(row):g}",
        *(interval(row, name) for name in ("recall_at_1", "recall_at_k", "category_precision_at_10")),
        *(interval(row, name) for name in ("mia_auc", "lira_auc", "released_auc")),
        interval(row, strongest(row)),
        bound(row),
    ]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    rows = read_rows(parser.parse_args().results)
    k = max(row["k"] for row in rows)
    print(HEADER.format(k=k))
    print("|" + "---|" * HEADER.count(" | ") + "---|")
    print("\n".join(line(row) for row in rows if row["k"] == k))
    print()
    print("\n".join(finding(rows).sentences))


if __name__ == "__main__":
    main()
