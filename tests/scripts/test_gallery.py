"""The gallery has every example, with its picture."""

import re
from xml.etree import ElementTree

import pytest

from scripts.test_loop_scripts import ROOT, script

gallery = script("gallery")

NAMES = [name for names in gallery.GROUPS.values() for name in names]


def test_every_example_is_in_one_group():
    found = [str(path.relative_to(gallery.EXAMPLES).with_suffix("")) for path in gallery.EXAMPLES.rglob("*.py")]
    assert sorted([*NAMES, gallery.APPLICATION.removesuffix(".py")]) == sorted(found)


def test_the_page_is_what_the_script_writes():
    assert gallery.PAGE.read_text("utf-8") == re.sub(r"\n{3,}", "\n\n", gallery.page())


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_shows_a_run(name):
    root = ElementTree.parse(gallery.picture_of(name)).getroot()
    lines = [(element.text or "").replace(gallery.NO_BREAK, " ") for element in root if element.tag.endswith("text")]
    assert lines[0] == f"$ python examples/{name}.py" and len(lines) >= 2


def test_pictures_are_small_and_all_used():
    pictures = set(gallery.PICTURES.glob("*.svg"))
    assert {gallery.picture_of(name) for name in NAMES} <= pictures
    assert sum(path.stat().st_size for path in pictures) < 1_000_000


def test_long_outputs_are_wrapped_and_cut():
    root = ElementTree.fromstring(gallery.drawn("x", "\n".join(f"  {'<& ' * 60}{number}" for number in range(40))))
    lines = [element.text.replace(gallery.NO_BREAK, " ") for element in root if element.tag.endswith("text")]
    assert len(lines) == gallery.LINES and lines[-1] == "…"
    assert max(map(len, lines)) <= gallery.WIDTH
    assert lines[1].startswith("  <& <&") and lines[2].startswith("      <& <&")


def test_a_failing_example_is_named(monkeypatch, tmp_path):
    (tmp_path / "broken.py").write_text("raise ValueError('no')")
    monkeypatch.setattr(gallery, "EXAMPLES", tmp_path)
    with pytest.raises(RuntimeError, match=r"broken: [\s\S]*ValueError: no"):
        gallery.output_of("broken")


def test_links_of_the_page_lead_somewhere():
    text = gallery.PAGE.read_text("utf-8")
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "docs" / link).exists(), link
