"""What a study shows follows from its rows by rules: rows made by hand, with the answer known."""

import math

import pytest

from hushvec_studies.retrieval.columns import empty_row
from hushvec_studies.retrieval.findings import Rules, epsilon_of, finding


def row(sides="document", epsilon=10.0, recall=0.5, auc=0.5, rate=0.0, **others):
    """A row whose intervals are 0.01 to both sides; both attacks alike."""
    noise = {"document": "epsilon_doc", "query": "epsilon_query", "score": "epsilon_score"}
    made = empty_row() | dict.fromkeys(noise.values(), math.inf)
    made |= {
        "dataset_split": "train",
        "embedding_model": "m",
        "seed": 1,
        "queries_per_document": 3,
        "projection": "none",
        "k": 10,
    }
    made |= {"mechanism": "none" if sides == "none" else "some", "sides": sides, "noise": "pure", "epsilon_claimed": math.inf}
    made |= {"noise_doc": "none", "noise_query": "none", "noise_score": "none"}
    for side in [] if sides == "none" else sides.split("+"):
        made[noise[side]] = epsilon
        made[{"document": "noise_doc", "query": "noise_query", "score": "noise_score"}[side]] = "privunit"
    if sides not in ("none", "query"):
        made["epsilon_claimed"] = epsilon
    estimates = {"recall_at_k": recall, "mia_auc": auc, "lira_auc": auc}
    estimates |= {f"{attack}tpr_{fpr}_fpr": rate for attack in ("", "lira_") for fpr in ("0.001", "0.01")}
    for name, value in estimates.items():
        made |= {name: value, f"{name}_ci_lower": value - 0.01, f"{name}_ci_upper": value + 0.01}
    return made | others


CLEAN = row("none", recall=0.5, auc=0.9)


def frontier(*rows, rules=None):
    (only,) = finding([CLEAN, *rows], rules).frontiers
    return only


def test_retrieval_survives_and_the_attacks_fail():
    """Kept: 0.8 * 0.5 = 0.40 at the lower end, so recall above 0.41; failed: area <= 0.55 at the upper end, so below 0.54."""
    found = frontier(
        row(epsilon=40.0, recall=0.50, auc=0.70),
        row(epsilon=20.0, recall=0.45, auc=0.53),
        row(epsilon=10.0, recall=0.42, auc=0.52),
        row(epsilon=5.0, recall=0.40, auc=0.50),
    )
    assert (found.survives_from, found.fails_to, found.both, found.promise) == (10.0, 20.0, (20.0, 10.0), 20.0)
    sentences = finding([CLEAN, *found.rows]).sentences
    assert (
        sentences[0]
        == "Retrieval survives while the attacks fail with noise on document (privunit) at epsilon 20, 10 with k = 10."
    )
    assert "retrieval survives from epsilon 10 up, the attacks fail up to epsilon 20." in sentences[1]


def test_the_order_of_rows_does_not_matter():
    rows = [row(epsilon=20.0, recall=0.5), row(epsilon=5.0, recall=0.1), row(epsilon=10.0, recall=0.5)]
    for order in (rows, rows[::-1], [rows[1], rows[0], rows[2]]):
        assert frontier(*order).survives_from == 10.0
        assert [epsilon_of(one) for one in frontier(*order).rows] == [20.0, 10.0, 5.0]


def test_a_gap_ends_the_range():
    found = frontier(row(epsilon=20.0, recall=0.5), row(epsilon=10.0, recall=0.1), row(epsilon=5.0, recall=0.5))
    assert found.survives_from == 20.0
    assert found.both == (20.0, 5.0)


def test_no_setting_does_both():
    sentences = finding([CLEAN, row(epsilon=20.0, recall=0.5, auc=0.8), row(epsilon=5.0, recall=0.1)]).sentences
    assert sentences[0].startswith("At no setting tried does retrieval survive while the attacks fail.")
    assert "The smallest epsilon at which retrieval survives is 20" in sentences[0]
    assert sentences[0].endswith(
        "Where the attacks fail, at most 20% of recall is left, with noise on document (privunit) at epsilon 5 and k = 10."
    )
    assert finding([CLEAN, row(recall=0.1, auc=0.6)]).sentences[0] == (
        "At no setting tried that protects documents does retrieval survive."
    )


def test_what_differs_in_k_alone_is_one_sentence():
    clean = [CLEAN, row("none", auc=0.9, k=1), row("none", auc=0.9, k=5)]
    sentences = finding([*clean, row(k=1), row(k=5), row(recall=0.1)]).sentences
    assert sentences[1:] == (
        "document (privunit), k = 1, 5: retrieval survives from epsilon 10 up, the attacks fail up to epsilon 10.",
        "document (privunit), k = 10: retrieval survives at no epsilon tried, the attacks fail up to epsilon 10.",
    )


def test_one_attack_that_succeeds_is_enough():
    assert frontier(row(lira_auc_ci_upper=0.56)).fails_to is None
    assert frontier(row(mia_auc_ci_upper=0.56)).fails_to is None
    assert frontier(row(**{"tpr_0.001_fpr_ci_lower": 0.0021})).fails_to is None
    assert frontier(row(**{"lira_tpr_0.01_fpr_ci_lower": 0.021})).fails_to is None
    assert frontier(row(**{"lira_tpr_0.01_fpr_ci_lower": 0.02})).fails_to == 10.0


def test_attacks_that_were_not_tried_decide_nothing():
    nothing = {"lira_auc_ci_upper": None}
    assert frontier(row(auc=0.9, **nothing)).fails_to is None
    assert frontier(row(auc=0.5, **nothing)).fails_to == 10.0
    found = finding([CLEAN, row(mia_auc_ci_upper=None, **nothing), row(dataset_split="test")])
    assert found.frontiers == ()
    assert "nothing can be said" in found.sentences[0]
    assert finding([CLEAN, row(), row(dataset_split="test")]).sentences[-1].startswith("1 rows have no run without noise")


def test_noise_on_queries_alone_protects_no_document():
    found = finding([CLEAN, row("query", recall=0.5, auc=0.5)])
    assert found.frontiers[0].both == (10.0,)
    assert found.frontiers[0].promise == math.inf
    assert found.sentences[0] == "At no setting tried that protects documents does retrieval survive."
    assert found.sentences[-1].startswith("Noise on queries alone protects the asker.")
    assert finding([CLEAN, row("document+query")]).sentences[0].startswith("Retrieval survives")


def test_settings_are_compared_with_their_own_texts_and_k():
    clean = [CLEAN, row("none", recall=0.2, auc=0.9, k=1)]
    found = finding([*clean, row(recall=0.3), row(recall=0.3, k=1)]).frontiers
    assert [(one.k, one.survives_from) for one in found] == [(10, None), (1, 10.0)]


def test_public_maps_are_compared_with_no_map():
    mapped = [row("none", recall=0.1, projection="mean"), row(recall=0.3, projection="mean")]
    assert frontier(*mapped).survives_from is None


def test_rules_can_be_others():
    loose = Rules(kept=0.1, largest_auc=0.95, largest_rate=100)
    assert frontier(row(recall=0.1, auc=0.9), rules=loose).both == (10.0,)
    assert "0.1 times" in loose.to_text() and "0.95" in loose.to_text() and "100 times" in loose.to_text()
    for wrong in ({"kept": 0}, {"kept": 1.1}, {"largest_auc": 0.4}, {"largest_rate": 0.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            Rules(**wrong)


def test_the_conclusions_as_json():
    import json

    said = json.loads(json.dumps(finding([CLEAN, row("query")]).to_dict(), allow_nan=False))
    assert said["frontiers"][0]["promise"] == "inf"
    assert said["frontiers"][0]["dataset_split"] == "train"
