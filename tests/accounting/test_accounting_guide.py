"""docs/accounting.md: figures that the page computes are the code's."""

import re
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

from hushvec.accounting import PureDP, compose

GUIDE = (Path(__file__).parents[2] / "docs" / "accounting.md").read_text(encoding="utf-8")
DELTA = 1e-6


def normal_limit(epsilons):
    """epsilon of a Gaussian of the losses' variance: the central limit theorem for many small losses."""
    mu = np.sqrt(np.sum(epsilons**2))
    return brentq(lambda e: norm.sf(e / mu - mu / 2) - np.exp(e) * norm.sf(e / mu + mu / 2) - DELTA, 0.1, 50)


def test_ten_thousand_different_epsilons():
    epsilons = np.linspace(0.001, 0.02, 10_000)
    found = compose([PureDP(epsilon=float(epsilon)) for epsilon in epsilons], delta=DELTA)
    stated = re.search(r"from 0\.001 to 0\.02, at\s+delta = 1e-6 it gives ([\d.]+); the normal limit, .*, is ([\d.]+)\.", GUIDE)
    assert found.theorem == "optimal"
    assert stated.groups() == (f"{found.epsilon:.3f}", f"{normal_limit(epsilons):.3f}")


def test_what_the_first_block_prints():
    shown = re.search(r"delta=1e-5\)\)\n```\n\n((?:    .*\n)+)", GUIDE)[1]
    assert shown == "".join(f"    {line}\n" for line in str(compose([(PureDP(epsilon=0.5), 10)], delta=1e-5)).split("\n"))
