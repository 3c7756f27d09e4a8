"""The projection study's own PrivUnitG, written without the package: its figures follow its law, and its script runs.

Statistic, alpha = 1e-6: the mean of <V, u> over n = 200,000 releases against `strength`, a normal test with the sample's standard
error, and the share above the threshold against the probability p, a binomial test.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from hushvec_studies.projections import measure as study

ALPHA = 1e-6


@pytest.mark.parametrize("epsilon", [0.5, 5.0, 16.0, 50.0])
def test_the_best_split_maximises_the_strength(epsilon):
    best = study.best_threshold(epsilon)
    assert study.strength(best, epsilon) == pytest.approx(best, abs=1e-6)  # so it is at the optimum, and nowhere else
    for offset in (-0.1, 0.1):
        assert study.strength(best + offset, epsilon) < study.strength(best, epsilon)


@pytest.mark.parametrize("threshold", [0.5, 3.0])
def test_the_split_spends_epsilon_exactly(threshold):
    """The density ratio to the orthogonal Gaussian is p / (1 - q) in the cap and (1 - p) / q outside."""
    p = special.expit(study.log_odds_of_cap(threshold, 8.0))
    q = stats.norm.cdf(threshold)
    assert np.log(p / (1 - q)) - np.log((1 - p) / q) == pytest.approx(8.0, rel=1e-9)


def p_values(threshold, epsilon, released_at):
    u = np.zeros((200_000, 3), np.float32)
    u[:, 1] = 1
    along = study.privunit(u, epsilon, np.random.default_rng(41), released_at)[:, 1].astype(np.float64)
    spread = along.std(ddof=1) / np.sqrt(len(along))
    p = special.expit(study.log_odds_of_cap(threshold, epsilon))
    mean = 2 * stats.norm.sf(abs(along.mean() - study.strength(threshold, epsilon)) / spread)
    return mean, stats.binomtest(int((along >= threshold).sum()), len(along), p).pvalue


@pytest.mark.parametrize("epsilon", [2.0, 10.0])
@pytest.mark.parametrize("offset", [-0.3, 0.0, 0.4])
def test_releases_have_that_strength(epsilon, offset):
    threshold = study.best_threshold(epsilon) + offset
    assert min(p_values(threshold, epsilon, threshold)) > ALPHA
    assert min(p_values(threshold, epsilon, threshold + 0.05)) < ALPHA


def test_the_script_runs(tmp_path):
    rng = np.random.default_rng(43)
    rows = rng.standard_normal((80, 12)).astype(np.float32)
    np.save(tmp_path / "embeddings.npy", rows)
    np.save(tmp_path / "splits.npy", np.array(["train", "test"] * 40))
    np.save(tmp_path / "categories.npy", np.array(["a", "b"] * 40))
    code = (
        "from hushvec_studies.projections import measure as study; "
        "study.DIMENSIONS, study.SPLIT_MAPS, study.EPSILONS = (4,), ('none', 'whitened 4'), (5, 16); study.main()"
    )
    arguments = [str(tmp_path / f"{name}.npy") for name in ("embeddings", "splits", "categories")]
    output = tmp_path / "results.json"
    finished = subprocess.run(
        [sys.executable, "-c", code, *arguments, "-o", str(output), "--draws", "1", "--split-draws", "1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    results = json.loads(output.read_text())
    assert results["public rows"] == results["private rows"] == 40
    assert results["retrieval"]["whitened 4"]["no noise"][0] == 1.0
    assert set(results["corpus_size"]) == {"none", "whitened 4"}
    assert results["corpus_size"]["none"].keys() == {"privunit 5", "privunit 16"}
    assert set(results["split"]) == {f"{name}, epsilon {epsilon}" for name in ("none", "whitened 4") for epsilon in (5, 16)}
