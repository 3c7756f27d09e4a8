"""docs/mechanisms.md: computed figures are the code's, measured ones the study's, and what it tells the reader to run is there."""

import json
import re
from pathlib import Path

import pytest

from hushvec import mechanisms
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, PrivUnit, top_1_bound

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "mechanisms.md").read_text()


STUDY = json.loads((ROOT / "studies/hushvec_studies/projections/results/newsgroups_minilm.json").read_text())
EPSILONS = (5, 8, 10, 16, 20, 32)


def tables_below(heading):
    """The tables of a section, each a list of rows of cells, header and rule left out."""
    section = GUIDE[GUIDE.index(heading) + len(heading) :].split("\n## ")[0]
    blocks = re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE)
    return [[[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()[2:]] for block in blocks]


def test_expected_cosines_are_the_codes():
    (rows,) = tables_below("## How much of a row remains")
    assert len(rows) >= 5
    for epsilon, privunit, gaussian, laplacian, l2_laplace in rows:
        price = {"epsilon": float(epsilon), "dimension": 384}
        stated = (privunit, gaussian, laplacian, l2_laplace)
        kinds = (PrivUnit(**price), Gaussian(delta=1e-5, **price), Laplacian(**price), L2Laplace(**price))
        assert [f"{kind.expected_cosine():.4f}" for kind in kinds] == list(stated)


def test_bounds_are_the_codes():
    (rows,) = tables_below("## Choosing a mechanism")
    for count, *cells in rows:
        stated = [top_1_bound(epsilon, int(count.replace(",", ""))) for epsilon in (4, 8, 10, 12, 16)]
        assert cells == [f"{100 * bound:.1f}" for bound in stated]


def test_documents_have_a_bound_at_most_7_percent_larger():
    pairs = [(epsilon, count) for epsilon in (1, 4, 8, 10, 12, 16) for count in (100, 2000, 100_000, 10**6)]
    ratios = [top_1_bound(*pair, noise_on="documents") / top_1_bound(*pair) for pair in pairs]
    assert 1 < min(ratios) and 1.05 < max(ratios) <= 1.07


def test_measured_shares_are_the_studys():
    tables = tables_below("## A public projection first")
    kinds = [("privunit", 0, False), ("privunit", 2, True), ("gaussian", 2, True)]
    assert len(tables) == len(kinds)
    for table, (mechanism, figure, with_clean) in zip(tables, kinds):
        for name, *cells in table:
            measured = STUDY["retrieval"][name]
            columns = [f"{mechanism} {epsilon}" for epsilon in EPSILONS] + ["no noise"] * with_clean
            assert cells == [f"{100 * measured[column][figure]:.1f}" for column in columns], name


def test_gaussian_noise_does_not_find_the_same_post():
    assert "stays under 5 % up to epsilon = 20 with every map" in GUIDE
    names = [f"gaussian {epsilon}" for epsilon in EPSILONS if epsilon <= 20]
    assert all(measured[name][0] < 0.05 for measured in STUDY["retrieval"].values() for name in names if name in measured)


def test_measured_splits_are_the_studys():
    figures = []
    for epsilon in ("8", "10"):
        shares = {float(offset): row[1] for offset, row in STUDY["split"][f"whitened 380, epsilon {epsilon}"].items()}
        figures += [f"{100 * share:.0f}" for share in (max(shares.values()), shares[0.0])]
    said = "at epsilon 8 it finds {} % of whitened rows where the default finds {} %, at 10 {} % and {} %".format(*figures)
    assert said in " ".join(GUIDE.split())


def test_figures_with_corpus_size_are_the_studys():
    (rows,) = tables_below("## The split of PrivUnit")
    assert [row[0] for row in rows] == ["none", "whitened 380"]
    for name, *cells in rows:
        assert cells == shares_found(STUDY["corpus_size"][name])


def test_what_the_readme_says_of_finding_the_same_row():
    share = STUDY["retrieval"]["none"]["privunit 16"][0]
    assert f"at 16 to find its own row among 2,000 in {100 * share:.0f} % of cases" in (ROOT / "README.md").read_text()


def shares_found(measured):
    return [f"{100 * measured[f'privunit {epsilon}'][0]:.1f}" for epsilon in EPSILONS]


def test_every_mechanism_is_in_the_guide():
    for name, kind in mechanisms.MECHANISMS.items():
        assert f"`{kind.__name__}`" in GUIDE and f'"{name}"' in GUIDE
    for name in ("MetricLaplace", "RandomizedResponse", "GumbelTopK", "PublicProjection"):
        assert f"`{name}`" in GUIDE and hasattr(mechanisms, name)


@pytest.mark.parametrize("path", sorted(set(re.findall(r"(?:docs|examples|bench|python|studies)/[\w/]+\.(?:py|md)", GUIDE))))
def test_files_that_it_names_exist(path):
    assert (ROOT / path).is_file()
