"""docs/protections.md prints the figures of the study `protections`."""

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
CLEAR = [name for name, chosen in protections.PROTECTIONS.items() if chosen.clean_questions]
SAME = "same space: rows named"


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_the_tables(collection):
    assert command.table(STUDY, collection) + "\n" in PAGE
    assert command.caption(STUDY, collection) in WORDS


def test_every_protection_was_measured_and_its_version_is_named():
    assert COLLECTIONS == list(measure.COLLECTIONS)[: len(COLLECTIONS)]
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


def value(protection, what, pairs=None, collection="banking77"):
    return command.figure(STUDY, collection, protection, what, pairs)["value"][0]


def naming(protection):
    """By the attack that names most."""
    lines = [one for one in STUDY["lines"] if (one["collection"], one["protection"]) == ("banking77", protection)]
    return max(one["value"][0] for one in lines if one["what"].endswith("rows named"))


def test_the_sentences():
    half = {one["protection"]: one["half"] for one in STUDY["protections"] if one["collection"] == "banking77"}
    pairs, alike = "known pairs: rows named", [name for name in protections.PROTECTIONS if name not in (*BOUNDED, "noise-0.1")]
    kept = {name: max(value(name, what) for what in (measure.KEPT, measure.KEPT_CLEAN)[: 1 + (name in CLEAR)]) for name in alike}
    for said in (
        f"50 pairs name {value('rotation', pairs, 50):.3f} of the rotation's rows on Banking77, and 200 name "
        f"{value('rotation', pairs, 200):.3f}; {half['rotation']} name half",
        f"with clear rows of other questions {value('rotation', command.NAMED):.3f} are named",
        f"keep at least {min(kept.values()):.3f} of the first ten there, and at least "
        f"{min(value(name, pairs, 1000) for name in alike):.3f} of their rows are named with 1,000 pairs",
        f"factor 2.5 asks for {half['dcpe-2.5']} pairs instead of {half['rotation']}",
        f"Sigma 0.1 leaves {value('noise-0.1', measure.KEPT_CLEAN):.3f} of the first ten to a clear question, and "
        f"{value('noise-0.1', SAME):.3f} of the rows are named as they are",
        f"no attack names more than {max(map(naming, BOUNDED[1:])):.3f} of the rows, "
        f"{command.figure(STUDY, 'banking77', 'privunit-8', SAME)['allowed']:.3f} being allowed",
        f"PrivUnit keeps {value('privunit-8', measure.KEPT_CLEAN):.3f} of the first ten then and the codebook "
        f"{value('codebook-8', measure.KEPT_CLEAN):.3f}",
        f"{value('codebook-8', 'reading: labels right'):.3f} of 77 labels",
        f"somebody with all clear rows names {naming('privunit-16'):.3f} of PrivUnit's",
    ):
        assert said in WORDS


def test_published_noise_has_these_epsilons():
    for sigma, said in ((0.01, "20,852"), (0.1, "284"), (0.2, "91.8"), (1.0, "10.0")):
        (line,) = (line for line in PAGE.splitlines() if line.startswith(f"| {sigma} |"))
        epsilon = hv.gaussian_epsilon(1e-5, sigma, sensitivity=2.0)
        assert line.endswith(f"| {said} |") and said in (f"{epsilon:,.0f}", f"{epsilon:.1f}")
