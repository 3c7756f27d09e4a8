"""What a run measures: every column filled, figures that agree with each other, noise where it is said to be."""

import math
import pickle

import numpy as np
import pytest
import study_stand_ins as stand_ins

from hushvec.retrieval import PrivateIndex
from hushvec.retrieval.attacks.bounds import membership_auc_bound, membership_bound
from hushvec_studies.retrieval.columns import COLUMNS, NAMES
from hushvec_studies.retrieval.inputs import AllInputs, public_split
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.runs import do_runs

# Columns that a kind of run has no value for.
ONLY_WITH_NOISE = {name for name in NAMES if name.startswith("recall_at_1_") and "ci" not in name} | {
    "recall_at_1_difference_ci_lower",
    "recall_at_1_difference_ci_upper",
}

# Rows are attacked where they were released with noise, and where nothing else is claimed.
ONLY_WITH_ROWS = {name for name in NAMES if name.startswith("released_")}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of every side, once for this module."""
    folder = tmp_path_factory.mktemp("study")
    configuration = stand_ins.small(folder, "privacy.noise=[pure]", "retrieval.k=[2, 10]", "privacy.delta=1e-6")
    return do_runs(configuration, planned(configuration), folder / "s", workers=0, embedder=stand_ins.model, progress=False)


def rows_of(study, sides):
    return [row for row in study.rows if row["sides"] == sides]


def test_every_column_has_a_value_of_its_kind(study):
    kinds = {"text": str, "whole": int, "number": float, "flag": bool}
    for row in study.rows:
        assert tuple(row) == NAMES
        clean = row["sides"] == "none"
        for column in COLUMNS:
            without = (ONLY_WITH_NOISE if clean else set()) | (set() if "document" in row["sides"] else ONLY_WITH_ROWS)
            may_be_none = column.name in {"git_commit", "delta_claimed"} | without
            value = row[column.name]
            assert (value is None and may_be_none) or isinstance(value, kinds[column.kind]), (row["sides"], column.name, value)


def test_rows_say_where_the_noise_is(study):
    shown = [
        (row["mechanism"], row["sides"], row["epsilon_doc"], row["epsilon_query"], row["epsilon_score"])
        for row in study.rows
        if row["k"] == 2
    ]
    inf = math.inf
    assert shown == [
        ("none", "none", inf, inf, inf),
        ("doc_ldp", "document", 20.0, inf, inf),
        ("query_ldp", "query", inf, 20.0, inf),
        ("score_ldp", "score", inf, inf, 20.0),
        ("combined", "document+query", 20.0, 20.0, inf),
    ]
    noise = [(row["noise_doc"], row["noise_query"], row["noise_score"]) for row in study.rows if row["k"] == 2]
    assert noise == [
        ("none", "none", "none"),
        ("privunit", "none", "none"),
        ("none", "privunit", "none"),
        ("none", "none", "laplacian"),
        ("privunit", "privunit", "none"),
    ]


def test_values_lie_in_their_intervals(study):
    for row in study.rows:
        for name in NAMES:
            if f"{name}_ci_lower" in NAMES and row[name] is not None:
                assert row[f"{name}_ci_lower"] <= row[name] + 1e-12 and row[name] <= row[f"{name}_ci_upper"] + 1e-12, name


def test_rows_of_one_run_differ_in_k_alone(study):
    of_k = ("k", "recall_at_k", "mia_", "lira_", "tpr_", "avg_", "epsilon_lower", "exposed")
    for first, second in zip(study.rows[::2], study.rows[1::2]):
        assert (first["k"], second["k"]) == (2, 10)
        assert first["run_id"] == second["run_id"]
        assert {name for name in NAMES if first[name] != second[name]} <= {name for name in NAMES if name.startswith(of_k)}
        assert second["recall_at_k"] == second["recall_at_10"]
        assert first["recall_at_1"] <= first["recall_at_k"] <= first["recall_at_5"] <= second["recall_at_10"]


def test_claims_are_those_of_the_index_for_the_queries_asked(study):
    claims = {row["sides"]: (row["epsilon_claimed"], row["attack_queries"]) for row in study.rows}
    # three key phrases and the own vector
    assert claims["none"] == claims["query"] == (math.inf, 4)
    assert claims["document"] == claims["document+query"] == (20.0, 4)
    # four queries about a candidate: no more than their sum
    assert 20.0 < claims["score"][0] <= 80.0
    for row in study.rows:
        if row["epsilon_claimed"] < math.inf:
            promise = row["epsilon_claimed"], row["delta_claimed"]
            assert row["auc_bound"] == membership_auc_bound(*promise)
            assert row["tpr_0.001_fpr_bound"] == membership_bound(*promise, 0.001)
        assert not row["exposed"]


def test_an_adversary_may_ask_with_key_phrases_alone(tmp_path, study):
    changes = "attack.own_vector=false", "privacy.mechanisms=[none, score_ldp]", "privacy.noise=[pure]", "retrieval.k=[2, 10]"
    configuration = stand_ins.small(tmp_path, *changes, "privacy.delta=1e-6")
    phrases = do_runs(configuration, planned(configuration), tmp_path / "s", workers=0, embedder=stand_ins.model, progress=False)
    clean, scores = phrases.rows[1], phrases.rows[3]
    assert clean["attack_queries"] == scores["attack_queries"] == 3
    assert clean["recall_at_1"] == rows_of(study, "none")[1]["recall_at_1"]
    assert scores["epsilon_claimed"] < rows_of(study, "score")[1]["epsilon_claimed"]


def test_without_noise_everything_is_found_and_the_attack_succeeds(study):
    row = rows_of(study, "none")[1]
    assert row["recall_at_1"] > 0.9
    assert row["mean_cosine"] == pytest.approx(1)
    assert row["lira_auc_ci_lower"] > 0.5
    noisy = rows_of(study, "document")[1]
    assert noisy["mean_cosine"] == pytest.approx(noisy["theoretical_cosine"], abs=0.05)
    assert noisy["recall_at_1_difference"] == pytest.approx(noisy["recall_at_1"] - row["recall_at_1"])


def test_gumbel_empirical_and_maps(tmp_path):
    empirical = "{name: own, vectors: empirical, sigma: 0.2}"
    split = ["data.split=train", "attack.attacks=[]", "privacy.projections=['pca:8']", "data.max_documents=30"]
    configuration = stand_ins.small(
        tmp_path, *split, f"privacy.noise=[gumbel, {empirical}]", "privacy.mechanisms=[doc_ldp, score_ldp]"
    )
    rows = do_runs(
        configuration, planned(configuration), tmp_path / "s", workers=0, embedder=stand_ins.model, progress=False
    ).rows
    gumbel = {row["k"]: row for row in rows if row["noise"] == "gumbel"}
    assert (
        gumbel[1]["recall_at_1"] is not None
        and gumbel[1]["recall_at_5"] is None
        and gumbel[1]["category_precision_at_10"] is None
    )
    assert gumbel[5]["recall_at_5"] == gumbel[5]["recall_at_k"]
    own = next(row for row in rows if row["noise"] == "own")
    # the classical 0.2 for unit rows: what it really buys
    assert own["epsilon_doc"] == pytest.approx(91.8, abs=0.05)
    assert own["mia_auc"] is None
    assert {row["projection"] for row in rows} == {"pca:8"}


def test_a_public_map_is_never_fitted_on_what_it_protects(tmp_path):
    assert public_split(stand_ins.small(tmp_path, "data.split=train")) == "val"
    assert public_split(stand_ins.small(tmp_path, "data.split=val")) == "train"
    for overrides in (["data.split=all"], ["data.split=test", "privacy.public_split=test"]):
        configuration = stand_ins.small(tmp_path, *overrides, "privacy.projections=[mean]")
        with pytest.raises(ValueError, match=r"must be another split than data\.split"):
            AllInputs(tmp_path / "cache", stand_ins.model).of(planned(configuration)[0])


def test_inputs(tmp_path):
    configuration = stand_ins.small(tmp_path, "data.max_documents=20", "queries.per_document=2")
    of_study = AllInputs(tmp_path / "cache", stand_ins.model, progress=False)
    inputs = of_study.of(planned(configuration)[0])
    assert inputs.documents.shape == (20, 256)
    assert len(inputs.queries) == len(inputs.query_documents) <= 40
    assert len(np.unique(inputs.categories)) == 3
    documents, asked = inputs.asked
    assert asked.shape == (len(documents), 2, 256)
    for place, document in enumerate(documents):
        own = inputs.queries[inputs.query_documents == document]
        assert np.array_equal(asked[place], own[np.arange(2) % len(own)])
    # of all runs on the same texts they are the same object, and elsewhere equal ones
    assert all(of_study.of(run) is inputs for run in planned(configuration))
    again = pickle.loads(pickle.dumps(inputs))
    assert again == inputs and hash(again) == hash(inputs)
    other = stand_ins.small(tmp_path, "data.max_documents=21", "queries.per_document=2")
    assert of_study.of(planned(other)[0]) != inputs


def test_noise_is_really_in_the_index(tmp_path, monkeypatch):
    """The mutant: an index that forgets the noise of its documents. The attack's bound and the cosine both show it."""

    def forgetful(*arguments, documents, **others):
        index = PrivateIndex(*arguments, **others)
        index.document_guarantee = lambda queries=1: (documents.epsilon, 0.0)
        return index

    configuration = stand_ins.small(
        tmp_path, "privacy.epsilons=[0.5]", "privacy.mechanisms=[doc_ldp]", "privacy.noise=[gaussian]"
    )
    (run,) = planned(configuration)
    from hushvec_studies.retrieval import runs as module

    monkeypatch.setattr(module, "PrivateIndex", forgetful)
    rows = do_runs(configuration, [run], tmp_path / "s", workers=0, embedder=stand_ins.model, progress=False).rows
    assert all(row["mean_cosine"] == pytest.approx(1) for row in rows)
    assert all(row["auc_bound"] < row["lira_auc_ci_lower"] for row in rows)
    assert any(row["exposed"] for row in rows)
