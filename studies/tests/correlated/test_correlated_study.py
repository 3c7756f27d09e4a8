"""docs/training_noise.md prints the figures of the study `correlated`, and its program trains as it says."""

import json
from pathlib import Path

import numpy as np
import pytest

from hushvec_studies.aggregates.measure import labelled
from hushvec_studies.correlated import measure

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/correlated/results/correlated.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/training_noise.md").read_text(encoding="utf-8")


def test_the_table_and_what_it_is_of():
    lines = [line.strip() for line in PAGE.splitlines()]
    assert all(line in lines for line in measure.table(STUDY).strip().splitlines())
    settings = STUDY["settings"]
    words = " ".join(PAGE.split())
    assert f"{settings['batches']} batches an epoch and {settings['batches'] * settings['epochs']} steps" in words
    assert f"{STUDY['people']:,} questions" in words and f"mean accuracy of {settings['seeds']} seeds" in words


def test_the_sentences():
    """Which interval lies above which."""

    def ends(model, way, epsilon):
        mean, half = measure.interval(STUDY, model, way, epsilon)
        return mean - half, mean + half

    def better(model, epsilon, one, other):
        return ends(model, one, epsilon)[0] > ends(model, other, epsilon)[1]

    for model in ("head", "adapter"):
        assert all(better(model, epsilon, "correlated", "cyclic") for epsilon in STUDY["settings"]["epsilons"])
        assert better(model, 1.0, "poisson", "correlated")
        assert measure.interval(STUDY, model, "correlated", 8.0)[0] > measure.interval(STUDY, model, "poisson", 8.0)[0]
    assert better("adapter", 8.0, "correlated", "poisson") and better("head", 4.0, "poisson", "correlated")
    assert not better("adapter", 4.0, "poisson", "correlated") and not better("adapter", 4.0, "correlated", "poisson")


def test_every_run_spent_its_epsilon():
    for row in STUDY["rows"]:
        assert row["epsilon"] * 0.999 < row["spent"] <= row["epsilon"]


@pytest.mark.parametrize("model", ["head", "adapter"])
def test_a_small_study(tmp_path, model):
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 3, 300)
    rows = rng.standard_normal((300, 8)) + 4 * np.eye(8)[classes]
    data = labelled("made", rows, classes, np.array(["train"] * 250 + ["test"] * 50))
    settings = measure.Settings(models=(model,), epsilons=(50.0,), batches=5, epochs=2, rates=(1.0, 4.0), seeds=2)
    found = measure.study(settings, data, tmp_path)
    assert len(found["rows"]) == 2 * len(measure.WAYS) and len(found["rates"]) == 2 * len(measure.WAYS)
    assert min(row["accuracy"] for row in found["rows"]) > 0.8   # one in three by guessing
    assert found == measure.study(settings, data, tmp_path)   # nothing is measured again
    assert measure.table(found).count("±") == len(measure.WAYS)
