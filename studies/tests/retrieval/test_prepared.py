"""Kept indexes and attack models: a rerun loads them, gives the same figures, and refuses what belongs to another run."""

import json
import shutil

import numpy as np
import pytest
import study_stand_ins as stand_ins

from hushvec.retrieval import PrivateIndex
from hushvec_studies.retrieval import runs as module
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.records import StudyFolder
from hushvec_studies.retrieval.runs import do_runs

EVERY_LAW = [
    "privacy.mechanisms=[none, combined]",
    "privacy.combined=[document+query]",
    "privacy.noise=[gaussian, pure, laplacian, {name: l2, vectors: l2_laplace, scores: gaussian}]",
    "data.max_documents=40",
    "attack.attacks=[released]",
    "attack.shadow_models=2",
    "retrieval.k=[5]",
    "statistics.resamples=10",
]
FEWER = ["privacy.mechanisms=[doc_ldp]", "privacy.noise=[pure]"]


def study(folder, name, *overrides):
    configuration = stand_ins.small(folder, *overrides)
    done = do_runs(configuration, planned(configuration), folder / name, workers=0, embedder=stand_ins.model, progress=False)
    return stand_ins.figures(done.rows)


def kept_by(folder):
    return f"retrieval.prepared={folder / 'prepared'}"


def without_difference(row):
    return {name: value for name, value in row.items() if not name.startswith("recall_at_1_") or "_1_ci_" in name}


@pytest.fixture
def nothing_is_made(monkeypatch):
    """From here on no index is filled and no game is played."""

    def refused(*arguments, **others):
        raise AssertionError("made again")

    def forbid():
        monkeypatch.setattr(PrivateIndex, "add", refused)
        monkeypatch.setattr(module, "play", refused)
        # the search without noise that a run is compared with is not kept
        monkeypatch.setattr(module, "_difference", lambda *arguments: {})

    return forbid


def test_a_rerun_loads_everything_and_gives_the_same_figures(tmp_path, nothing_is_made):
    """Every law of vectors before noise on queries: a loaded index must go on in the key stream where it had stopped."""
    plain = study(tmp_path, "plain", *EVERY_LAW)
    first = study(tmp_path, "first", *EVERY_LAW, kept_by(tmp_path))
    assert first == plain
    nothing_is_made()
    second = study(tmp_path, "second", *EVERY_LAW, kept_by(tmp_path))
    assert len(second) == 1 + 4
    for one, other in zip(first, second, strict=True):
        assert without_difference(one) == without_difference(other)
    ranks = [[record.ranks for record in StudyFolder(tmp_path / name).records()] for name in ("first", "second")]
    assert ranks[0] == ranks[1]


def test_other_attacks_and_intervals_are_judged_on_what_is_kept(tmp_path, nothing_is_made):
    first = study(tmp_path, "first", *FEWER, kept_by(tmp_path))
    others = ("attack.attacks=[logistic]", "statistics.resamples=30", "statistics.confidence=0.5")
    clean = [row for row in first if row["sides"] == "none"]
    nothing_is_made()
    second = study(tmp_path, "second", *FEWER, kept_by(tmp_path), *others)
    for one, other in zip(first, second, strict=True):
        assert (one["mia_auc"], one["recall_at_1"]) == (other["mia_auc"], other["recall_at_1"])
        assert other["mia_auc_ci_upper"] - other["mia_auc_ci_lower"] <= one["mia_auc_ci_upper"] - one["mia_auc_ci_lower"]
        assert other["lira_auc"] is None
    assert clean and len({row["config_hash"] for row in first + second}) == 4


def test_another_epsilon_has_an_index_of_its_own(tmp_path):
    study(tmp_path, "a", *FEWER, "attack.attacks=[]", kept_by(tmp_path))
    assert len(list((tmp_path / "prepared").iterdir())) == 2
    study(tmp_path, "b", *FEWER, "attack.attacks=[]", "privacy.epsilons=[20, 10]", kept_by(tmp_path))
    folders = list((tmp_path / "prepared").iterdir())
    assert len(folders) == 3
    assert {json.loads((folder / "run.json").read_text())["key"]["epsilon"] for folder in folders} == {"inf", 20.0, 10.0}


def test_what_belongs_to_another_run_is_refused(tmp_path):
    study(tmp_path, "a", *FEWER, "attack.attacks=[]", kept_by(tmp_path))
    noisy, clean = sorted((tmp_path / "prepared").iterdir(), key=lambda folder: "inf" in (folder / "run.json").read_text())
    shutil.rmtree(noisy)
    shutil.copytree(clean, noisy)
    with pytest.raises(ValueError, match="must belong to this run, got one of another configuration: epsilon is 'inf' there"):
        study(tmp_path, "b", *FEWER, "attack.attacks=[]", kept_by(tmp_path))


@pytest.mark.parametrize("place", [0, 100, 5000, -30])
def test_damaged_attack_models_are_refused(tmp_path, place):
    study(tmp_path, "a", *FEWER, kept_by(tmp_path))
    for path in (tmp_path / "prepared").glob("*/attack/game.npz"):
        content = bytearray(path.read_bytes())
        content[place] ^= 1
        path.write_bytes(content)
    with pytest.raises(ValueError, match="must hold the attack models of a run; remove it"):
        study(tmp_path, "b", *FEWER, kept_by(tmp_path))


@pytest.mark.parametrize("said", ["", "[]", '{"key": {}}', '{"key": 1, "index_build_time_s": 1}'])
def test_a_file_that_does_not_say_its_run_is_refused(tmp_path, said):
    study(tmp_path, "a", *FEWER, "attack.attacks=[]", kept_by(tmp_path))
    for path in (tmp_path / "prepared").glob("*/run.json"):
        path.write_text(said)
    with pytest.raises(ValueError, match="must say what run it is of; remove the folder"):
        study(tmp_path, "b", *FEWER, "attack.attacks=[]", kept_by(tmp_path))


def test_the_classifier_is_loaded_and_not_trained_again(tmp_path):
    """A classifier that was changed by hand changes the attack, so it is the one that is used."""
    first = study(tmp_path, "a", *FEWER, "attack.attacks=[logistic]", kept_by(tmp_path))
    for path in (tmp_path / "prepared").glob("*/attack/game.npz"):
        arrays = dict(np.load(path))
        for k in (1, 5):
            arrays[f"classifier {k}"][14:21] *= -1  # the weights of the seven features, behind their means and spreads
        np.savez(path, **arrays)
    second = study(tmp_path, "b", *FEWER, "attack.attacks=[logistic]", kept_by(tmp_path))
    for one, other in zip(first, second, strict=True):
        assert other["mia_auc"] == pytest.approx(1 - one["mia_auc"])


def test_the_noise_of_a_run_does_not_depend_on_how_it_is_judged(tmp_path):
    (_, run) = planned(stand_ins.small(tmp_path, *FEWER))
    for change in ("attack.attacks=[logistic]", "statistics.resamples=77", "statistics.confidence=0.9", "retrieval.latency_queries=9"):
        (_, other) = planned(stand_ins.small(tmp_path, *FEWER, change))
        assert other.seed("index") == run.seed("index") != run.seed("game")
        assert other.fingerprint("", "") != run.fingerprint("", "")
    (_, other) = planned(stand_ins.small(tmp_path, *FEWER, "attack.shadow_models=6"))
    assert other.seed("index") != run.seed("index")


@pytest.mark.parametrize("name", ["source_grid", "wider_epsilons", "records"])
def test_the_committed_results_keep_their_noise(name):
    """They were measured when a run's seed was made from its whole fingerprint."""
    for run in planned(load_configuration(name)):
        assert run.seed("index") == int(run.fingerprint("index", "")[:15], 16)
