"""Rows of a study that nobody ran: every column filled by a simple law, so that tables, figures and reports have something to show."""

import math

from hushvec_studies.retrieval.columns import NAMES, empty_row

KS = (1, 5, 10)
EPSILONS = (20.0, 10.0, 5.0, 2.5)
SIDES = ("document", "query", "score", "document+query")
NOISES = ("gaussian", "pure")
_COLUMNS = {"document": "epsilon_doc", "query": "epsilon_query", "score": "epsilon_score"}
_STRENGTH = {"gaussian": 14.0, "pure": 6.0}
_FOUND = {"score": 0.95, "document+query": 0.8}


def made_row(sides="none", noise="none", epsilon=math.inf, k=10, **changes):
    """A row in which recall and attack grow with epsilon and k; only noise on documents or scores stops the attack."""
    row = empty_row()
    kept = 1.0 if sides == "none" else epsilon / (epsilon + _STRENGTH.get(noise, 9.0))
    guarded = "document" in sides or "score" in sides
    recall = {depth: 0.9 * kept * _FOUND.get(sides, 1.0) * (depth / 10) ** 0.2 for depth in KS}
    auc = 0.5 + 0.4 * (kept**2 if guarded else 0.9) * (0.8 + 0.02 * k)
    row.update(
        run_id=f"{sides}-{noise}-{epsilon}",
        timestamp="2025-06-01T12:00:00+00:00",
        git_commit="0" * 40,
        config_hash=f"{abs(hash((sides, noise, epsilon))):016x}",
        mechanism={"none": "none", "document": "doc_ldp", "query": "query_ldp", "score": "score_ldp"}.get(sides, "combined"),
        embedding_model="all-MiniLM-L6-v2",
        dataset_split="train",
        num_documents=5177,
        num_queries=15531,
        k=k,
        study="default",
        sides=sides,
        noise=noise,
        delta=1e-5,
        projection="none",
        queries_per_document=3,
        seed=2025,
        theoretical_cosine=kept,
        num_candidates=2000,
        attack_queries=3,
        shadow_models=16,
        avg_membership_score=0.5,
        latency_mean_ms=0.8,
        latency_std_ms=0.1,
        latency_p99_ms=1.3,
        index_build_time_s=0.02,
        peak_memory_gb=0.61,
        hushvec_version="0.1.0",
        run_seconds=11.0,
        epsilon_claimed=epsilon if guarded else math.inf,
        delta_claimed=1e-5,
        epsilon_lower=0.3 * auc,
        lira_epsilon_lower=0.6 * auc,
        exposed=False,
    )
    for side, column in _COLUMNS.items():
        row[column] = epsilon if side in sides.split("+") else math.inf
        row[f"noise_{column[8:]}"] = noise if side in sides.split("+") else "none"
    claim = row["epsilon_claimed"]
    for rate in (0.001, 0.01):
        row[f"tpr_{rate}_fpr_bound"] = 1.0 if claim == math.inf else min(1.0, math.exp(claim) * rate + 1e-5)
    row["auc_bound"] = 1.0 if claim == math.inf else 1 / (1 + math.exp(-claim))
    estimates = {
        **{f"recall_at_{depth}": recall[depth] for depth in KS},
        "recall_at_k": recall[k],
        "mrr": 0.95 * recall[1],
        "ndcg_at_10": 0.9 * recall[10],
        "category_precision_at_10": 0.4 + 0.4 * kept,
        "mean_cosine": kept,
        "recall_at_1_difference": recall[1] - 0.9 * 0.1**0.2,
        "mia_auc": 0.5 + 0.8 * (auc - 0.5),
        "lira_auc": auc,
        "tpr_0.001_fpr": 0.02 * (auc - 0.45),
        "tpr_0.01_fpr": 0.2 * (auc - 0.45),
        "lira_tpr_0.001_fpr": 0.1 * (auc - 0.48),
        "lira_tpr_0.01_fpr": 0.6 * (auc - 0.48),
    }
    for name, value in estimates.items():
        row[name], row[f"{name}_ci_lower"], row[f"{name}_ci_upper"] = value, value - 0.008, value + 0.008
    row["recall_at_1_p_value"], row["recall_at_1_cohens_d"] = 0.001, -0.4 * (1 - kept)
    row.update(changes)
    assert tuple(row) == NAMES
    return row


def made_rows(sides=SIDES, noises=NOISES, epsilons=EPSILONS, ks=KS, **changes):
    """The rows of a grid, the run without noise first."""
    rows = [made_row(k=k, **changes) for k in ks]
    return rows + [made_row(s, n, e, k, **changes) for s in sides for n in noises for e in epsilons for k in ks]


def whole_study():
    """A grid with ablations of queries and maps, other splits and other seeds."""
    rows = made_rows()
    for queries in (1, 5):
        rows += made_rows(queries_per_document=queries)
    rows += made_rows(projection="mean")
    rows += made_rows(dataset_split="val")
    for seed in (2026, 2027):
        rows += made_rows(seed=seed)
    return rows
