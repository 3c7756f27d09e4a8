"""Which runs a configuration makes, and what makes two runs the same."""

import math

import pytest

from hushvec_studies.retrieval.configuration import load_configuration, to_values
from hushvec_studies.retrieval.plan import ablations, first_difference, grid, planned, robustness


def of(*overrides, base="default"):
    return load_configuration(base, overrides)


def labels(runs):
    return [run.label for run in runs]


def test_the_grid():
    runs = planned(of())
    # no noise; three sides and one combination, two families, four epsilons
    assert len(runs) == 1 + 4 * 2 * 4
    assert labels(runs)[:2] == ["no noise", "document, gaussian, epsilon 20"]
    assert {run.mechanism for run in runs} == {"none", "doc_ldp", "query_ldp", "score_ldp", "combined"}
    assert all(run.ks == (1, 5, 10) for run in runs)
    assert labels(grid(of(base="doc_ldp"))) == labels(runs)


def test_no_noise_is_one_run_for_each_map():
    runs = planned(of("privacy.projections=[none, mean]", "privacy.mechanisms=[doc_ldp]", "privacy.epsilons=[inf, 5]"))
    assert [run.projection for run in runs if run.noise is None] == ["none", "mean"]
    assert labels(planned(of("privacy.mechanisms=[doc_ldp]", "privacy.epsilons=[5]"))) == [
        "document, gaussian, epsilon 5",
        "document, pure, epsilon 5",
    ]


def test_families_run_where_they_have_a_mechanism():
    own = "{name: own, vectors: empirical, sigma: 0.2}"
    runs = planned(of(f"privacy.noise=[gumbel, {own}]", "privacy.mechanisms=[doc_ldp, score_ldp]", "privacy.epsilons=[5]"))
    # the noise of gumbel depends on k, that of a given sigma has no epsilon
    assert [(run.sides, run.noise.name, run.epsilon, run.ks) for run in runs] == [
        (("document",), "own", None, (1, 5, 10)),
        (("score",), "gumbel", 5.0, (1,)),
        (("score",), "gumbel", 5.0, (5,)),
        (("score",), "gumbel", 5.0, (10,)),
    ]


def test_ablations_change_one_thing():
    runs = ablations(of("privacy.mechanisms=[none]", "privacy.epsilons=[5]"))
    changed = [(run.configuration.queries.per_document, run.projection) for run in runs]
    assert changed == [(3, "none"), (1, "none"), (5, "none"), (3, "mean"), (3, "whiten")]


def test_robustness_changes_texts_models_and_seeds():
    runs = robustness(of("privacy.mechanisms=[none]", "privacy.epsilons=[5]", "robustness.models=[other]"))
    found = [(run.configuration.data.split, run.configuration.embedding.model, run.configuration.seed) for run in runs]
    minilm = "all-MiniLM-L6-v2"
    assert found == [
        ("train", minilm, 2025),
        ("val", minilm, 2025),
        ("test", minilm, 2025),
        ("train", "other", 2025),
        ("train", minilm, 2026),
        ("train", minilm, 2027),
    ]


@pytest.mark.parametrize(
    "override",
    [
        "seed=1",
        "data.min_tokens=51",
        "data.max_documents=100",
        "embedding.model=hashed-words",
        "queries.per_document=2",
        "privacy.delta=1e-6",
        "privacy.renormalize=false",
        "retrieval.k=[1, 5]",
        "retrieval.store=numpy",
        "attack.shadow_models=18",
        "attack.attacks=[logistic]",
        "statistics.confidence=0.9",
    ],
)
def test_what_decides_figures_is_in_the_fingerprint(override):
    before, after = planned(of())[1], planned(of(override))[1]
    assert before.fingerprint("i", "v") != after.fingerprint("i", "v")
    assert first_difference(of(override), to_values(of())) is not None


@pytest.mark.parametrize(
    "override", ["name=x", "privacy.epsilons=[20]", "embedding.cache=elsewhere", "ablate={seed: [1]}", "robustness.seeds=[]"]
)
def test_what_decides_no_figure_is_not(override):
    before, after = planned(of())[1], next(run for run in planned(of(override)) if run.epsilon == 20)
    assert before.fingerprint("i", "v") == after.fingerprint("i", "v")
    assert first_difference(of(override), to_values(of())) is None


def test_the_fingerprint_stays():
    """Seeds are made from it, and results name it: another one is another study."""
    clean, noisy, *_ = planned(load_configuration("doc_ldp"))
    assert clean.fingerprint("i", "v") == "a2eb0b616711da1598ce0de12f0ff64f"
    assert noisy.fingerprint("i", "v") == "19064029ed978491287e222954c562b2"


def test_texts_and_version_are_in_the_fingerprint():
    run = planned(of())[0]
    assert len({run.fingerprint("i", "v"), run.fingerprint("j", "v"), run.fingerprint("i", "w")}) == 3
    assert len({run.fingerprint("i", "v") for run in robustness(of())}) == len(robustness(of()))
    assert planned(of())[0].epsilon == math.inf
