"""Configurations: what may stand in them, and what an error says about what may not."""

import math

import pytest

from hushvec_studies.retrieval.configuration import (
    FAMILIES,
    KEYS,
    Configuration,
    NoiseFamily,
    from_values,
    load_configuration,
    shipped,
    suggestion,
    to_values,
    with_settings,
)
from hushvec_studies.retrieval.plan import ablations, grid, planned, robustness


def written(folder, text, name="own.yaml"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_shipped_configurations():
    assert shipped() == [
        "baseline", "combined", "default", "doc_ldp", "query_ldp", "records", "score_ldp", "source_grid", "wider_epsilons"
    ]  # fmt: skip
    for name in shipped():
        configuration = load_configuration(name)
        assert configuration.name == name
        assert configuration.seed == 2025
        assert from_values(to_values(configuration)) == configuration


def test_the_default_is_the_grid_of_the_published_study():
    configuration = load_configuration("default")
    assert len(configuration.data.categories) == 8
    assert configuration.data.splits == (0.70, 0.15, 0.15)
    assert configuration.privacy.epsilons == (math.inf, 20, 10, 5, 2.5)
    assert configuration.privacy.delta == 1e-5
    assert configuration.retrieval.k == (1, 5, 10)
    assert (configuration.queries.per_document, configuration.queries.tokens) == (3, (3, 5))
    assert configuration.statistics.resamples == 1000
    assert configuration.ablate["queries.per_document"] == (1, 3, 5)


def test_the_records_need_nothing_but_the_package():
    configuration = load_configuration("records")
    assert (configuration.data.source, configuration.data.split, configuration.data.categories) == ("hushvec.data", "all", None)
    assert not configuration.robustness.splits   # the split "all" has no other
    for plan in (planned, grid, ablations, robustness):
        assert all(run.projection == "none" for run in plan(configuration))   # which would need another split


def test_every_setting_has_a_valid_default_and_a_meaning():
    assert all(key.meaning for key in KEYS.values())
    assert Configuration() == from_values({}) == from_values(to_values(Configuration()))


def test_files_extend_files_and_overrides_win(tmp_path):
    written(tmp_path, "extends: doc_ldp\nseed: 3\nprivacy: {delta: 1e-6}\nname: base\n", "base.yaml")
    path = written(tmp_path, "extends: base.yaml\nprivacy:\n  epsilons: [1, inf]\n")
    configuration = load_configuration(path, ["seed=4", "retrieval.k=[2]", "seed=5"])
    assert configuration.name == "own"  # a name is not inherited
    assert configuration.seed == 5
    assert configuration.privacy.delta == 1e-6
    assert configuration.privacy.epsilons == (1.0, math.inf)
    assert configuration.privacy.mechanisms == ("none", "doc_ldp")
    assert configuration.retrieval.k == (2,)


def test_noise_families():
    spelled_out = "{name: own, vectors: empirical, sigma: 0.2}"
    configuration = load_configuration("default", [f"privacy.noise=[pure, {spelled_out}, gumbel]"])
    assert configuration.privacy.noise == (
        FAMILIES["pure"],
        NoiseFamily(name="own", vectors="empirical", sigma=0.2),
        FAMILIES["gumbel"],
    )
    assert from_values(to_values(configuration)) == configuration


def test_combined_sides_have_one_order():
    assert load_configuration("default", ["privacy.combined=[score + document]"]).privacy.combined == ("document+score",)


def test_settings_can_be_changed_by_name():
    configuration = load_configuration("default")
    changed = with_settings(configuration, {"data.split": "test"})
    assert changed.data.split == "test"
    assert with_settings(changed, {"data.split": "train"}) == configuration


@pytest.mark.parametrize(
    "override, error, parts",
    [
        ("attack.shadow_model=4", ValueError, ["attack.shadow_model is not a setting", "did you mean 'attack.shadow_models'?"]),
        ("data.spilt=train", ValueError, ["data.spilt", "'data.split'"]),
        ("delta=1e-5", ValueError, ["delta is not a setting", "'privacy.delta'"]),
        ("sed=1", ValueError, ["sed is not a setting", "'seed'"]),
        ("privcay.delta=1e-5", ValueError, ["'privacy.delta'"]),
        ("attack.zzz=1", ValueError, ["attack.zzz is not a setting", "attack.candidates"]),
        ("attack=4", ValueError, ["attack is a section", "attack.shadow_models"]),
        ("seed", ValueError, ["--set seed", "key=value"]),
        ("=1", ValueError, ["key=value"]),
        ("seed=1.5", TypeError, ["seed must be a whole number", "1.5"]),
        ("seed=true", TypeError, ["seed must be a whole number", "true or false"]),
        ("seed=-1", ValueError, ["seed must be >= 0, got -1"]),
        ("seed=[", ValueError, ["--set seed=[", "is not YAML"]),
        ("privacy.delta=1", ValueError, ["privacy.delta must be < 1, got 1"]),
        ("privacy.delta=.nan", ValueError, ["privacy.delta must be finite"]),
        ("privacy.delta=small", TypeError, ["privacy.delta must be a number, got a text"]),
        ("privacy.epsilons=[0]", ValueError, ["privacy.epsilons[0] must be > 0, got 0"]),
        ("privacy.epsilons=[.nan]", ValueError, ["privacy.epsilons[0] must be finite"]),
        ("privacy.epsilons=[]", ValueError, ["privacy.epsilons must not be empty"]),
        ("privacy.epsilons=5", TypeError, ["privacy.epsilons must be a list"]),
        ("privacy.epsilons=[5, 5.0]", ValueError, ["privacy.epsilons must not name anything twice, got 5.0 again"]),
        ("privacy.mechanisms=[doc_lpd]", ValueError, ["privacy.mechanisms[0] must be one of", "did you mean 'doc_ldp'?"]),
        ("privacy.mechanisms=[null]", TypeError, ["privacy.mechanisms[0]", "got nothing"]),
        ("privacy.combined=[document]", ValueError, ["privacy.combined[0] must join two or three different sides"]),
        ("privacy.combined=[document+querry]", ValueError, ["did you mean 'query'?"]),
        ("privacy.noise=[gausian]", ValueError, ["privacy.noise[0] must be one of", "did you mean 'gaussian'?"]),
        ("privacy.noise=[{name: a, vector: gaussian}]", ValueError, ["privacy.noise[0] has no vector, did you mean 'vectors'?"]),
        ("privacy.noise=[{name: a}]", ValueError, ["privacy.noise[0] must name a mechanism"]),
        (
            "privacy.noise=[{name: a, vectors: empirical}]",
            ValueError,
            ["privacy.noise[0] must have a sigma with vectors: empirical, and only then"],
        ),
        ("privacy.noise=[{name: a, vectors: gaussian, sigma: 1}]", ValueError, ["privacy.noise[0] must have a sigma with"]),
        (
            "privacy.noise=[{name: a, vectors: gaussian, corpus_size: true}]",
            ValueError,
            ["must have corpus_size with vectors: privunit only"],
        ),
        ("privacy.noise=[pure, pure]", ValueError, ["privacy.noise must not name anything twice, got 'pure' again"]),
        ("privacy.projections=[wihten:9]", ValueError, ["privacy.projections[0]", "did you mean 'whiten'?"]),
        ("privacy.projections=[mean:3]", ValueError, ["whiten:DIMENSION"]),
        ("privacy.projections=['pca:0']", ValueError, ["must name a dimension after 'pca:'"]),
        ("data.splits=[0.5, 0.6, 0.1]", ValueError, ["data.splits must add up to 1"]),
        ("data.splits=[0.5, 0.5]", ValueError, ["data.splits must have 3 elements, got 2"]),
        ("data.splits=givn", ValueError, ["data.splits must be three shares or 'given'"]),
        ("queries.tokens=[5, 3]", ValueError, ["queries.tokens must be the least and the most, got 5 before 3"]),
        ("retrieval.k=[1, 0]", ValueError, ["retrieval.k[1] must be >= 1, got 0"]),
        ("retrieval.store=fiass", ValueError, ["retrieval.store must be one of"]),
        ("attack.shadow_models=5", ValueError, ["attack.shadow_models must be a multiple of 2, got 5"]),
        ("attack.shadow_models=2", ValueError, ["attack.shadow_models must be >= 4 for the attack 'likelihood', got 2"]),
        (
            "ablate={queries.per_doc: [1]}",
            ValueError,
            ["ablate must name settings: queries.per_doc is not one", "'queries.per_document'"],
        ),
        ("ablate={queries.per_document: [0]}", ValueError, ["queries.per_document must be >= 1, got 0"]),
        ("ablate={name: [a]}", ValueError, ["ablate must name settings: name is not one"]),
        ("ablate=[1]", ValueError, ["ablate must be a mapping of settings to lists, got a list"]),
    ],
)
def test_a_bad_override_is_named(override, error, parts):
    with pytest.raises(error) as caught:
        load_configuration("default", [override])
    for part in parts:
        assert part in str(caught.value)


@pytest.mark.parametrize(
    "text, error, parts",
    [
        ("attack: {shadow_model: 4}", ValueError, ["own.yaml: attack.shadow_model", "'attack.shadow_models'"]),
        ("atack: {shadow_models: 4}", ValueError, ["own.yaml: atack is not a setting", "did you mean 'attack'?"]),
        ("extend: default", ValueError, ["own.yaml: extend is not a setting", "did you mean 'extends'?"]),
        ("extends: defalt", FileNotFoundError, ["own.yaml: extends: defalt", "did you mean 'default'?"]),
        ("extends: [default]", TypeError, ["own.yaml: extends must be the name"]),
        ("extends: own.yaml", ValueError, ["extends itself"]),
        ("seed: 1\nseed: 2", ValueError, ["own.yaml: line 2: seed stands twice"]),
        ("attack:\n  candidates: 9\n  candidates: 9", ValueError, ["line 3: candidates stands twice"]),
        ("attack: 4", TypeError, ["own.yaml: attack must be a mapping of settings, got int"]),
        ("- 1", TypeError, ["own.yaml: must be a mapping of settings, got list"]),
        ("a: [", ValueError, ["own.yaml: line 1: is not YAML"]),
        ("a: !!python/object:os.system {}", ValueError, ["own.yaml: line 1: is not YAML"]),
    ],
)
def test_a_bad_file_is_named(tmp_path, text, error, parts):
    with pytest.raises(error) as caught:
        load_configuration(written(tmp_path, text))
    for part in parts:
        assert part in str(caught.value)


def test_an_empty_file_is_the_defaults(tmp_path):
    assert load_configuration(written(tmp_path, "attack:\n"), ["name=study"]) == Configuration()


def test_files_in_a_circle(tmp_path):
    written(tmp_path, "extends: two.yaml", "one.yaml")
    written(tmp_path, "extends: one.yaml", "two.yaml")
    with pytest.raises(ValueError, match="extends itself"):
        load_configuration(tmp_path / "one.yaml")


def test_an_unknown_name():
    with pytest.raises(FileNotFoundError, match=r"doc_lpd: no such file, .* did you mean 'doc_ldp'\?"):
        load_configuration("doc_lpd")


def test_a_file_that_is_not_text(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_bytes(b"name: \xff")
    with pytest.raises(ValueError, match="must be UTF-8 text"):
        load_configuration(path)


def test_a_letter_that_is_missing_is_found():
    for key in KEYS:
        for place in range(key.index(".") + 2 if "." in key else 1, len(key)):
            typo = key[:place] + key[place + 1 :]
            if typo not in KEYS:
                assert f"did you mean '{key}'?" in suggestion(typo), typo


JUNK = [
    None, True, -1, 0, 1.5, float("nan"), float("-inf"), 10**400, "", " ", "x", "pca:x", "document+", [], [None], [[]], [1, "x"],
    ["train", "train"], {}, {"a": 1}, {None: None}, [{"name": "a", "vectors": {}}], [{"name": 1, "scores": "gaussian"}],
]  # fmt: skip


@pytest.mark.parametrize("key", sorted(KEYS))
def test_junk_is_taken_or_refused_by_name(key):
    """Whatever YAML may hold: the check of a setting gives back a value, or an error that names the setting."""
    messages = []
    for value in JUNK:
        try:
            KEYS[key].check(key, value)
        except (ValueError, TypeError) as error:
            messages.append(str(error))
    assert len(messages) >= 5
    assert [message for message in messages if key not in message] == []
