"""Who is recognized: the attack against a known answer, and against the bound of the claim."""

import numpy as np
import pytest
from evaluation.invented import class_rows

import hushvec as hv
from hushvec_studies.evaluation.attacks.rows import attack_interval, bounds, recognized_rows, released_codes
from hushvec_studies.evaluation.contenders import CODEBOOK, MECHANISMS, clean, contender

PUBLIC, PRIVATE = class_rows(240, 8, seed=1, spread=1.0)[0], class_rows(120, 8, seed=2, spread=1.0)[0]


def made(name, epsilon, seed=3):
    generator = hv.Generator.unsafe_seeded(seed)
    found = contender(
        name, PUBLIC, epsilon, 1e-5, rows=len(PRIVATE), purpose="cosine", side="documents", seed=0, generator=generator
    )
    return found, found.released(PRIVATE, generator)


def test_clean_rows_are_all_recognized():
    assert recognized_rows(clean(), clean().released(PRIVATE, hv.Generator.unsafe_seeded(1)), PRIVATE).all()


@pytest.mark.parametrize("name", MECHANISMS)
def test_little_noise_gives_rows_away_and_much_noise_does_not(name):
    """A codebook gives away one row of each cell at most."""
    weak, released = made(name, 200.0)
    most = min(weak.chosen, len(PRIVATE)) / len(PRIVATE) if name == CODEBOOK else 1.0
    assert recognized_rows(weak, released, PRIVATE).mean() > 0.5 * most
    strong, released = made(name, 0.5)
    assert recognized_rows(strong, released, PRIVATE).mean() < 0.1


def test_a_codebook_is_attacked_by_its_cells():
    """Every release of the true code whose cell has one private row names that row."""
    codebook, released = made(CODEBOOK, 200.0)
    codes = released_codes(codebook.mechanism, released)
    cells = (PRIVATE @ codebook.mechanism.codebook.codes.T).argmax(axis=1)
    assert (codes == cells).mean() > 0.99
    alone = np.bincount(cells, minlength=codebook.chosen)[cells] == 1
    assert alone.any()
    assert recognized_rows(codebook, released, PRIVATE)[alone & (codes == cells)].all()


def test_the_attack_stays_below_the_bound():
    """PrivUnit and the codebook at epsilon 3: the share expected over 20 releases, whose interval may not lie above the bound."""
    for name in ("privunit", CODEBOOK):
        hits = np.concatenate([recognized_rows(*made(name, 3.0, seed), PRIVATE) for seed in range(20)])
        assert attack_interval(hits, 0.999).low < bounds(3.0, 0.0, len(PRIVATE))["bound"]


def test_bounds_by_hand():
    found = bounds(2.0, 0.0, 1000)
    assert found["bound"] == pytest.approx(np.exp(2) / (np.exp(2) + 999))
    assert 1 / 1000 < found["top_1_bound"] < found["bound"]
    assert bounds(2.0, 1e-5, 1000)["top_1_bound"] is None
    assert bounds(2.0, 1e-5, 1000)["bound"] > found["bound"]
    assert bounds(None, 0.0, 1000) == {"bound": None, "top_1_bound": None}


def test_an_interval_of_no_hits_has_a_width():
    """3 / n, the rule of three, is the one-sided 95 % end; the two-sided one is -ln(0.025) / n."""
    found = attack_interval(np.zeros(1000, bool), 0.95)
    assert (found.value, found.low) == (0.0, 0.0)
    assert found.high == pytest.approx(-np.log(0.025) / 1000, rel=0.01)
