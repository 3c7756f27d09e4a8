"""Figures: what is drawn where, and that the drawn files are whole, the same again, and fit into one page."""

import re
import xml.etree.ElementTree as ET

import pytest
from made_rows import EPSILONS, NOISES, made_row, made_rows, whole_study

from hushvec_studies.harness import charts
from hushvec_studies.harness.charts import COLOURS, FAINT, GRID, INK, MARKERS, RAMP, svg_of
from hushvec_studies.retrieval.figures import save_figures, study_figures
from hushvec_studies.retrieval.points import AUC, points_of

FOLDERS = ("privacy_utility", "ablations", "comparison")

SMALL = made_rows(sides=("document",), epsilons=(10.0, 2.5), ks=(10,))


@pytest.fixture(scope="module")
def named():
    return {figure.name: figure for figure in study_figures(whole_study())}


def series_of(figure, panel, label):
    return next(one for one in figure.panels[panel].series if one.label == label)


# ---- what is drawn where ----


def test_which_figures_there_are(named):
    assert set(named) == {
        *(f"frontier_auc_k{k}" for k in (1, 5, 10)),
        *(
            f"ablation_{what}_{kind}_{noise}"
            for what in ("k", "queries", "projection")
            for kind in ("recall", "attack")
            for noise in NOISES
        ),
        "recall_difference",
    }
    for figure in named.values():
        assert figure.folder in FOLDERS and figure.title and figure.caption.endswith(".")
        assert [panel.title for panel in figure.panels] == [
            "noise on documents",
            "noise on queries",
            "noise on scores",
            "noise on documents + queries",
        ]


def test_the_frontier_is_the_rows(named):
    """Every point of every line against the row it comes from: recall up, the stronger attack across, intervals of both."""
    rows = {
        (row["sides"], row["noise"], row["epsilon_doc"]): row for row in whole_study() if row["k"] == 10 and row["seed"] == 2025
    }
    for noise in NOISES:
        line = series_of(named["frontier_auc_k10"], 0, noise)
        assert line.names == ("2.5", "5", "10", "20") and line.kind == "line"
        for epsilon, x, y in zip(sorted(EPSILONS), line.x, line.y, strict=True):
            row = rows["document", noise, epsilon]
            assert y == pytest.approx((row["recall_at_k"], row["recall_at_k_ci_lower"], row["recall_at_k_ci_upper"]))
            assert x == pytest.approx((row["lira_auc"], row["lira_auc_ci_lower"], row["lira_auc_ci_upper"]))
            assert row["lira_auc"] > row["mia_auc"]
    assert named["frontier_auc_k10"].panels[0].chance == 0.5


def test_a_mechanism_keeps_its_style(named):
    styles = {}
    for name in ("frontier_auc_k10", "frontier_auc_k1", "recall_difference"):
        for panel in named[name].panels:
            for one in panel.series:
                styles.setdefault(one.label, set()).add(one.style)
    assert styles == {"gaussian": {0}, "pure": {1}, "no noise": {INK}}


def test_the_search_without_noise_is_in_every_panel(named):
    clean = points_of(whole_study())[2]
    assert not clean.setting.has_noise and clean.setting.k == 10
    for panel in named["frontier_auc_k10"].panels:
        point = next(one for one in panel.series if one.label == "no noise")
        assert point.x == (clean.strongest(AUC),) and point.kind == "points"


def test_ablations_have_a_line_for_each_epsilon(named):
    figure = named["ablation_queries_recall_pure"]
    assert [label for _, label in figure.ticks] == ["1", "3", "5"]
    labels = [one.label for one in figure.panels[0].series]
    assert labels == ["ε = 2.5", "ε = 5", "ε = 10", "ε = 20", "no noise"]
    assert [one.style for one in figure.panels[0].series] == [RAMP[0], RAMP[1], RAMP[3], RAMP[4], INK]
    assert [label for _, label in named["ablation_projection_attack_pure"].ticks] == ["none", "mean"]
    depth = series_of(named["ablation_k_recall_pure"], 0, "ε = 20")
    assert [y.value for y in depth.y] == sorted(y.value for y in depth.y) and len(depth.y) == 3


def test_sides_with_different_epsilons_have_names_of_their_own():
    rows = made_rows(sides=("document+query",), ks=(10,)) + [
        made_row("document+query", "gaussian", 20.0, epsilon_doc=5.0, epsilon_query=20.0)
    ]
    figure = next(one for one in study_figures(rows) if one.name == "frontier_auc_k10")
    assert series_of(figure, 0, "gaussian").names == ("2.5", "5", "5 / 20", "10", "20")


def test_rows_without_attacks_have_no_figures_of_attacks():
    bare = dict.fromkeys(name for name in made_row() if name.startswith(("mia", "lira", "tpr", "auc")))
    names = {figure.name for figure in study_figures([row | bare for row in made_rows(ks=(10,))])}
    assert names == {"recall_difference"}


def test_one_run_has_no_figures():
    assert study_figures([made_row()]) == []


def test_no_rows():
    with pytest.raises(ValueError, match="rows must hold at least one, got none"):
        study_figures([])


# ---- files ----


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")
    return folder, save_figures(study_figures(SMALL), folder)


def test_every_figure_is_drawn_twice(drawn):
    folder, paths = drawn
    names = [figure.name for figure in study_figures(SMALL)]
    assert sorted(path.name for path in paths) == sorted(f"{name}.{kind}" for name in names for kind in ("svg", "pdf"))
    assert {path.parent.name for path in paths} <= set(FOLDERS) and {path.parent.parent for path in paths} == {folder}
    for path in paths:
        if path.suffix == ".pdf":
            content = path.read_bytes()
            assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF") and b"CreationDate" not in content


def test_svg_is_whole_and_says_what_it_shows(drawn):
    for path in drawn[1]:
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8")
            root = ET.fromstring(text)
            assert root.tag.endswith("svg") and root.get("role") == "img" and root.get("aria-label")
            assert re.findall(r"<text[ >]", text)
            assert not re.search(r"<image|<script|data:", text)


def test_ids_of_different_figures_differ_and_lead_somewhere(drawn):
    seen = set()
    for path in drawn[1]:
        if path.suffix == ".svg":
            text = path.read_text(encoding="utf-8")
            ids = set(re.findall(r'\bid="([^"]+)"', text))
            assert not ids & seen
            assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= ids
            seen |= ids


def test_colours_are_those_that_a_page_replaces(drawn):
    known = {*COLOURS, *RAMP, INK, FAINT, GRID}
    for path in drawn[1]:
        if path.suffix == ".svg":
            assert set(re.findall(r"#[0-9a-f]{6}\b", path.read_text(encoding="utf-8"))) <= known


def test_the_same_rows_give_the_same_bytes(drawn):
    folder, _ = drawn
    figure = study_figures(SMALL)[0]
    assert (folder / figure.folder / f"{figure.name}.svg").read_text(encoding="utf-8") == svg_of(figure)


def test_every_series_and_interval_is_in_the_drawing(drawn):
    """Counted in the SVG: a marker for each point, and a bar for each interval."""
    text = svg_of(next(figure for figure in study_figures(SMALL) if figure.name == "frontier_auc_k10"))
    names = re.findall(r"<text[^>]*>([^<]+)</text>", text)
    assert names.count("10") >= 2 and names.count("2.5") == 2 and "gaussian" in names and "no noise" in names
    # two mechanisms and the point without noise, in the panel and in the legend
    assert len(re.findall(r'id="frontier_auc_k10-LineCollection_\d+"', text)) == 2 * 3 + 2 * 3


@pytest.mark.parametrize("sides", [1, 3, 4])
def test_panels_of_any_number_are_as_wide_as_the_page_allows(sides):
    columns, rows, width = charts._grid(sides, 4)
    assert columns * rows >= sides and rows == 1 and columns * (width + 0.2) + 0.68 <= 10.9 + 1e-9
    assert charts._grid(5, 4)[:2] == (3, 2) and charts._grid(7, 4)[:2] == (4, 2) and charts._grid(9, 4)[:2] == (3, 3)
    assert charts._grid(4, 2)[:2] == (2, 2)


def test_more_mechanisms_than_colours(tmp_path):
    rows = made_rows(sides=("document",), noises=[f"noise {n}" for n in range(len(COLOURS) + 1)], epsilons=(5.0,), ks=(10,))
    figure = next(figure for figure in study_figures(rows) if figure.name == "frontier_auc_k10")
    assert len(figure.panels[0].series) == len(COLOURS) + 2 == len(MARKERS) + 2  # and the point without noise
    assert "noise 8" in svg_of(figure)


def test_names_of_the_user_are_escaped(tmp_path):
    rows = [
        row | {"noise": "_<b>&\"' $x_1$"} for row in made_rows(sides=("document",), noises=("pure",), epsilons=(5.0,), ks=(10,))
    ]
    figure = next(figure for figure in study_figures(rows) if figure.name == "frontier_auc_k10")
    (path, _) = save_figures([figure], tmp_path)
    text = "".join(ET.fromstring(path.read_text(encoding="utf-8")).itertext())
    assert "_<b>&\"' $x_1$" in text
