"""The noise-only fills follow their laws.

Statistic: Kolmogorov-Smirnov distance on n = 4 * 10^6 samples (5 * 10^7 in the full run), two-sided, alpha = 1e-6: it
rejects a distance above 2.69 / sqrt(n) = 1.3e-3 (3.8e-4).
"""

import numpy as np
import pytest

from evidence.reference import checks
from evidence.reference.sizes import scaled
from evidence.statistical.draws import ALPHA, CDF, CIPHERS, noise

SAMPLES = scaled(4_000_000, 50_000_000)
SCALE = 2.5
LAWS = ("gaussian", "laplacian")


def p_value(law, samples):
    return checks.law(samples, CDF[law])


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", ("float32", "float64"))
def test_law(law, dtype, cipher):
    samples = noise(law, SAMPLES, scale=SCALE, dtype=dtype, seed=101, cipher=cipher) / SCALE
    assert p_value(law, samples) > ALPHA


@pytest.mark.parametrize("law", LAWS)
def test_wrong_laws_are_rejected(law):
    samples = noise(law, SAMPLES, seed=102).astype(np.float64)
    other = noise("laplacian" if law == "gaussian" else "gaussian", SAMPLES, seed=102).astype(np.float64)
    mutants = {
        "scale 5 % too small": samples * 0.95,
        "scale 5 % too large": samples * 1.05,
        "shift of 0.01": samples + 0.01,
        "the other law": other,
        "the other law with the same variance": other * (np.sqrt(2.0) if law == "laplacian" else np.sqrt(0.5)),
        "absolute values": np.abs(samples),
        "coarse grid": np.rint(samples * 64) / 64,
    }
    for name, mutant in mutants.items():
        assert p_value(law, mutant) < ALPHA, name
