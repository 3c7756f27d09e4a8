"""docs/protections.md prints the figures of the study `protections`."""

import itertools
import json
from pathlib import Path

import pytest

import hushvec as hv
from hushvec_studies.protections import command, measure, protections

ROOT = Path(__file__).parents[3]
STUDY = json.loads((ROOT / "studies/hushvec_studies/protections/results/protections.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/protections.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
COLLECTIONS = [one["name"] for one in STUDY["collections"]]
BOUNDED = ("privunit-16", "privunit-8", "codebook-8")
SAME, PAIRS = "same space: rows named", "known pairs: rows named"
READ, CLASSIFIER = "reading: labels right", "classifier, labels right"


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_the_tables(collection):
    assert command.table(STUDY, collection) + "\n" in PAGE
    assert command.caption(STUDY, collection) in WORDS


def test_every_protection_was_measured_and_its_version_is_named():
    assert COLLECTIONS == list(measure.COLLECTIONS)
    for name, chosen in protections.PROTECTIONS.items():
        made = [one["made_by"] for one in STUDY["protections"] if one["protection"] == name]
        assert len(made) == len(COLLECTIONS)
        if chosen.package not in (None, "hushvec"):
            assert made[0].startswith(f"{chosen.package} ") and all(f"`{one}`" in PAGE for one in made)


def test_every_figure_has_an_interval_and_every_attack_its_chance():
    for line in STUDY["lines"]:
        value, low, high = line["value"]
        assert 0 <= low <= value <= high <= 1 and low < high
        assert ("chance" in line) != ("before" in line)


def test_what_has_no_bound_is_weak_and_no_receipt_is_refuted():
    for one in STUDY["protections"]:
        bounded = one["protection"] in BOUNDED
        assert (one["epsilon"] is not None, one["weak"], one["refuted"]) == (bounded, not bounded, False)
    assert all((line["allowed"] is not None) == (line["protection"] in BOUNDED) for line in STUDY["lines"] if "chance" in line)


def test_the_file_names_no_machine():
    said = json.dumps({**STUDY, "lines": []})
    assert "/" not in said.replace("MiniLM", "") and set(STUDY["surroundings"]) == {"hushvec", "python", "numpy"}


def figures(protection, what, pairs=None):
    """Of the collections, as the page says them: 0.620 and 0.579."""
    lines = [command.figure(STUDY, collection, protection, what, pairs) for collection in COLLECTIONS]
    return " and ".join(f"{line['value'][0]:.3f}" for line in lines)


def halves(protection):
    return " and ".join(str(one["half"]) for one in STUDY["protections"] if one["protection"] == protection)


def values(names, is_meant):
    """By protection and collection, the largest of some figures."""
    for name, collection in itertools.product(names, COLLECTIONS):
        lines = [one for one in STUDY["lines"] if (one["collection"], one["protection"]) == (collection, name)]
        yield max(one["value"][0] for one in lines if is_meant(one))


def test_the_sentences():
    alike = [name for name in protections.PROTECTIONS if name not in (*BOUNDED, "noise-0.1")]
    kept = min(values(alike, lambda one: one["what"] in (measure.KEPT, measure.KEPT_CLEAN)))
    read = min(values(alike, lambda one: one.get("pairs") == 1000))
    named = max(values(BOUNDED[1:], lambda one: one["what"].endswith("rows named")))
    allowed = command.figure(STUDY, COLLECTIONS[0], "privunit-8", SAME)["allowed"]
    for said in (
        f"{halves('rotation')} pairs name half of the rotation's rows",
        f"200 name {figures('rotation', PAIRS, 200)}",
        f"with clear rows of other texts {figures('rotation', command.NAMED)} are named",
        f"keep at least {kept:.3f} of the first ten, and at least {read:.3f} of their rows are named with 1,000 pairs",
        f"factor 2.5 asks for {halves('dcpe-2.5')} pairs",
        f"names {figures('bounded-noise', command.NAMED)} of a rotation's rows with bounded noise",
        f"Sigma 0.1 leaves {figures('noise-0.1', measure.KEPT_CLEAN)} of the first ten to clear questions, and "
        f"{figures('noise-0.1', SAME)} of the rows are named as they are",
        f"no attack names more than {named:.3f} of the rows, {allowed:.3f} being allowed",
        f"PrivUnit then keeps {figures('privunit-8', measure.KEPT_CLEAN)} of the first ten, the codebook "
        f"{figures('codebook-8', measure.KEPT_CLEAN)}",
        f"{figures('codebook-8', READ)} of them are, and {figures('rotation', CLASSIFIER)} of clear rows",
        f"names {figures('privunit-16', SAME)} of PrivUnit's rows",
    ):
        assert said in WORDS, said


def test_published_noise_has_these_epsilons():
    for sigma, said in ((0.01, "20,852"), (0.1, "284"), (0.2, "91.8"), (1.0, "10.0")):
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {sigma} |"))
        epsilon = hv.gaussian_epsilon(1e-5, sigma, sensitivity=2.0)
        assert line.endswith(f"| {said} |") and said in (f"{epsilon:,.0f}", f"{epsilon:.1f}")
