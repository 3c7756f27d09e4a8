"""The Explorer's curves: their data is the study's, and their colors can be told from the page."""

import json
import re
from pathlib import Path

import pytest

import hushvec

FOLDER = Path(hushvec.__file__).parent / "serve" / "page"
STUDY = Path(__file__).parents[2] / "studies/hushvec_studies/overview/results/utility_and_attack.json"
CSS = (FOLDER / "page.css").read_text(encoding="utf-8")
PALETTES = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in CSS.split("@media (prefers-color-scheme: dark)")]
SCHEMES = dict(zip(("light", "dark"), PALETTES))


def test_the_curves_are_those_of_the_study():
    if not STUDY.exists():
        pytest.skip("studies are not part of this distribution")
    study, shipped = json.loads(STUDY.read_text()), json.loads((FOLDER / "study.json").read_text())
    measured = {(row["mechanism"], row["epsilon"]): row for row in study["rows"]}
    clean = measured.pop(("none", None))["utility"][0]
    drawn = {}
    for line in shipped["lines"]:
        for epsilon, found, recognized in zip(line["epsilons"], line["on_topic"], line["recognized"], strict=True):
            drawn[line["mechanism"], epsilon] = (found, recognized)
    assert drawn.keys() == measured.keys() and len(drawn) == 27
    for key, (found, recognized) in drawn.items():
        assert abs(found - measured[key]["utility"][0]) < 1e-5 and abs(recognized - measured[key]["attack"][0]) < 1e-5, key
    assert shipped["private"] == study["private"] and shipped["public"] == study["public"]
    assert abs(shipped["clean"] - clean) < 1e-5 and abs(shipped["chance"] - study["utility_by_chance"]) < 1e-5


def test_the_lines_have_one_axis():
    """The page reads the epsilons of the first line for all of them."""
    shipped = json.loads((FOLDER / "study.json").read_text())
    assert len({tuple(line["epsilons"]) for line in shipped["lines"]}) == 1


def luminance(color):
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lines_and_words_of_the_charts_stand_out(scheme):
    """WCAG 2: 3 for graphics, 4.5 for text."""
    colors = SCHEMES[scheme]
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    for name in ("codebook", "privunit", "gaussian"):
        assert contrast(colors[name], colors["sunk"]) >= 3 and contrast(colors[name], colors["card"]) >= 3, name
    for name in ("quiet", "ink"):
        assert contrast(colors[name], colors["sunk"]) >= 4.5, name
