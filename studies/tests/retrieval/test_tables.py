"""Tables: what stands in them, that CSV gives the numbers back, that LaTeX is whole, and what rows they need."""

import csv
import itertools
import math
import re

import pytest
from made_rows import EPSILONS, KS, NOISES, SIDES, made_row, made_rows, whole_study

from hushvec_studies.harness.tables import PAGE, Estimate, Heading, Table, cell_text, latex_table, latex_text
from hushvec_studies.retrieval.points import AUC, Conditions, points_of, undominated
from hushvec_studies.retrieval.tables import holm, study_tables, write_each

STUDY = whole_study()


@pytest.fixture(scope="module")
def tables():
    return {table.name: table for table in study_tables(STUDY)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    write_each(study_tables(STUDY), place)
    return place


def column(table, name):
    return [line[[heading.name for heading in table.headings].index(name)] for line in table.lines]


# ---- what stands in them ----


def test_which_tables_there_are(tables):
    assert list(tables) == [
        "summary",
        "frontier",
        "attacks",
        "best_settings",
        "statistical_analysis",
        "ablation_k",
        "ablation_queries",
        "ablation_projection",
        "robustness",
    ]
    for table in tables.values():
        assert all(len(line) == len(table.headings) for line in table.lines) and table.title and table.note.endswith(".")


def test_a_grid_has_no_table_of_what_it_did_not_vary():
    names = {table.name for table in study_tables(made_rows())}
    assert names == {"summary", "frontier", "attacks", "best_settings", "statistical_analysis", "ablation_k"}
    assert "ablation_k" not in {table.name for table in study_tables(made_rows(ks=(10,)))}


def test_the_summary_has_every_setting_once(tables):
    summary = tables["summary"]
    settings = {tuple(line[:8]) for line in summary.lines}
    runs = len(KS) * (1 + len(SIDES) * len(NOISES) * len(EPSILONS))
    # 3 numbers of queries, one other map, one other split; two other seeds are lines of their own nowhere
    assert len(settings) == len(summary.lines) == 5 * runs
    assert [heading.name for heading in summary.headings[:6]] == [
        "dataset_split",
        "queries_per_document",
        "projection",
        "sides",
        "noise",
        "epsilon",
    ]
    assert set(column(summary, "seeds")) == {1, 3}


def test_the_main_conditions_come_first_whatever_the_order_of_rows(tables):
    backwards = {table.name: table for table in study_tables(STUDY[::-1])}
    assert backwards["attacks"].lines[::-1] == tables["attacks"].lines
    told = {table.name: table for table in study_tables(STUDY, Conditions("val", "all-MiniLM-L6-v2", 3, "none"))}
    assert told["summary"].lines[0][0] == "val" and tables["summary"].lines[0][0] == "train"


def test_the_center_of_ablations_is_the_main_one():
    """As many rows for each of four conditions: only (3, none) is one step from all others."""
    rows = made_rows(queries_per_document=1) + made_rows(projection="mean") + made_rows() + made_rows(queries_per_document=5)
    assert points_of(rows)[0].setting.conditions == Conditions("train", "all-MiniLM-L6-v2", 3, "none")


def test_the_frontier_is_what_nothing_beats(tables):
    """Against a direct comparison of all pairs."""
    points = [point for point in points_of(made_rows(seed=2025)) if point.setting.sides != "query" and point.setting.k == 10]
    figures = [(point.estimate("recall_at_k").value, point.strongest(AUC).value, point) for point in points]
    best = {
        point.setting[1:4]
        for gain, cost, point in figures
        if not any((g >= gain and c < cost) or (g > gain and c <= cost) for g, c, _ in figures)
    }
    lines = [line for line in tables["frontier"].lines if line[0] == 10]
    assert len(lines) == len(best) < len(points)
    assert not any(line[1] == "query" for line in tables["frontier"].lines)
    assert [line[4].value for line in lines] == sorted((line[4].value for line in lines), reverse=True)


def test_undominated_keeps_equal_points_and_leaves_out_unknown_ones():
    points = points_of([made_row(k=k) for k in (1, 5, 10)])
    use = {1: 0.5, 5: 0.5, 10: None}
    assert len(undominated(points, lambda point: use[point.setting.k], lambda point: 0.1)) == 2
    assert (
        undominated(points, lambda point: use[point.setting.k], lambda point: {1: 0.1, 5: 0.2}.get(point.setting.k)) == points[:1]
    )


def test_the_stronger_attack_decides(tables):
    weak = made_row("document", "pure", 5.0, mia_auc=0.9, mia_auc_ci_lower=0.88, mia_auc_ci_upper=0.92)
    (table,) = (table for table in study_tables([weak]) if table.name == "attacks")
    assert column(table, "attack_auc") == [Estimate(0.9, 0.88, 0.92)]
    assert all(a.value > 0.5 for a in column(tables["attacks"], "attack_auc"))


def test_targets_are_met_by_both_attacks_upper_ends():
    safe = made_row("document", "gaussian", 2.5, **{"lira_tpr_0.01_fpr_ci_upper": 0.015, "tpr_0.01_fpr_ci_upper": 0.0199})
    unsafe = made_row("document", "pure", 20.0, **{"lira_tpr_0.01_fpr_ci_upper": 0.015, "tpr_0.01_fpr_ci_upper": 0.0201})
    lenient = made_row("query", "pure", 20.0, **{"lira_tpr_0.01_fpr_ci_upper": 0.001, "tpr_0.01_fpr_ci_upper": 0.001})
    (table,) = (table for table in study_tables([safe, unsafe, lenient]) if table.name == "best_settings")
    measured = [line for line in table.lines if line[2] == "measured"]
    assert measured[0][:6] == (10, 0.02, "measured", "document", "gaussian", "2.5") and measured[0][7] == 0.0199
    assert measured[1][3:6] == ("document", "pure", "20")
    proven = [line for line in table.lines if line[2] == "proven"]
    assert [line[3] for line in proven] == ["–", "–", "–", "document"] and proven[3][5] == "2.5"


def test_over_several_seeds_the_interval_is_the_widest():
    rows = [
        made_row(seed=seed, recall_at_k=value, recall_at_k_ci_lower=low, recall_at_k_ci_upper=high)
        for seed, value, low, high in [(1, 0.5, 0.4, 0.6), (2, 0.6, 0.55, 0.7), (3, 0.4, 0.39, 0.41)]
    ]
    (point,) = points_of(rows)
    assert point.estimate("recall_at_k") == Estimate(0.5, 0.39, 0.7)
    (robustness,) = (table for table in study_tables(rows) if table.name == "robustness")
    assert column(robustness, "seed") == [1, 2, 3] and column(robustness, "recall_at_k")[1] == Estimate(0.6, 0.55, 0.7)


def test_an_interval_that_one_seed_lacks_is_unknown():
    rows = [made_row(seed=1), made_row(seed=2, mrr_ci_lower=None), made_row(seed=3, mrr=None)]
    estimate = points_of(rows)[0].estimate("mrr")
    assert estimate.low is None and estimate.high is not None
    assert points_of([made_row(mrr=None)])[0].estimate("mrr") is None


def test_differences_have_one_line_for_each_run(tables):
    table = tables["statistical_analysis"]
    assert len(table.lines) == 1 + len(SIDES) * len(NOISES) * len(EPSILONS)
    assert set(column(table, "p_value_holm")) == {0.001 * len(table.lines)}


def test_holm_against_the_definition():
    values = [0.04, 0.01, 0.03, 0.005]
    expected = {}
    for rank, value in enumerate(sorted(values)):
        expected[value] = max([min(1.0, (len(values) - r) * v) for r, v in enumerate(sorted(values)[: rank + 1])])
    assert holm(values) == [expected[value] for value in values]
    assert holm([None, 0.9, 0.8]) == [None, 1.0, 1.0] and holm([]) == []


def test_rows_without_attacks_still_have_their_use():
    bare = dict.fromkeys(
        name for name in made_row() if name.startswith(("mia", "lira", "tpr", "auc", "epsilon_lower", "exposed"))
    )
    rows = [row | bare for row in made_rows()]
    names = {table.name for table in study_tables(rows)}
    assert "attacks" not in names and "frontier" not in names and {"summary", "ablation_k"} <= names


def test_no_rows():
    with pytest.raises(ValueError, match="rows must hold at least one, got none"):
        study_tables([])


# ---- cells ----


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (-0.0001, "0.000"),
        (-0.25, "−0.250"),
        (3, "3"),
        ("pure", "pure"),
        (Estimate(0.5), "0.500"),
        (Estimate(-0.5, -0.6, math.inf), "−0.500 [−0.600, ∞]"),
        (Estimate(0.5, None, 0.6), "0.500"),
    ],
)
def test_cells(cell, text):
    assert cell_text(cell, 3) == text


# ---- CSV ----


def test_csv_gives_the_numbers_back(tables, folder):
    for name, table in tables.items():
        with (folder / "csv" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file))
        assert len(lines) == len(table.lines)
        for read, line in zip(lines, table.lines, strict=True):
            for heading, cell in zip(table.headings, line, strict=True):
                if isinstance(cell, Estimate):
                    ends = (f"{heading.name}_ci_lower", f"{heading.name}_ci_upper")
                    assert (float(read[heading.name]), *(float(read[end]) for end in ends)) == cell
                elif isinstance(cell, float):
                    assert float(read[heading.name]) == cell
                elif cell is None or cell == "–":
                    assert read[heading.name] == ""
                else:
                    assert read[heading.name] == ("inf" if cell == "∞" else str(cell))


def test_columns_of_csv_have_names_of_their_own(folder):
    for path in (folder / "csv").iterdir():
        header = path.read_text(encoding="utf-8").splitlines()[0].split(",")
        assert len(set(header)) == len(header), path.name


# ---- LaTeX ----


def body_rows(text):
    return [line for line in text.splitlines() if line.endswith(r"\\") and not line.startswith(r"\caption")]


def test_latex_is_whole(tables, folder):
    """Environments closed in order, as many cells in a row as columns, no character that LaTeX would take for its own."""
    for name, table in tables.items():
        text = (folder / "latex" / f"{name}.tex").read_text(encoding="utf-8")
        opened = []
        for word, environment in re.findall(r"\\(begin|end)\{(\w+)\}", text):
            if word == "begin":
                opened.append(environment)
            else:
                assert opened.pop() == environment
        assert not opened and text.count("{") == text.count("}")
        (columns,) = re.findall(r"\\begin\{(?:tabular|longtable)\}\{([lr]+)\}", text)
        assert len(columns) == len(table.headings)
        rows = body_rows(text)
        heads = 2 if "longtable" in text else 1
        assert len(rows) == len(table.lines) + heads
        assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {len(columns) - 1}
        assert text.isascii()
        assert not re.search(r"(?<!\\)[%#_^~]", text.partition("\n")[2].replace(rf"\label{{tab:{name}}}", ""))
        for rule in (r"\toprule", r"\midrule", r"\bottomrule"):
            assert rule in text
        assert rf"\label{{tab:{name}}}" in text
        assert text.startswith("% needs \\usepackage{booktabs" + (",longtable}" if len(table.lines) > PAGE else "}"))


def test_latex_text():
    assert latex_text("a_b & 1 % #2 {x} \\ ~ ^ < > $") == (
        r"a\_b \& 1 \% \#2 \{x\} \textbackslash{} \textasciitilde{} \textasciicircum{} \textless{} \textgreater{} \$"
    )


def test_an_interval_is_small_in_latex():
    text = latex_table(["a", "b"], [["x [y]", "0.5 [0.4, 0.6]"]], [False, True], caption="50 %", label="l")
    assert r"x [y] & 0.5 {\scriptsize [0.4, 0.6]} \\" in text and r"\caption{50 \%}" in text


@pytest.mark.parametrize(("lines", "environment"), [(PAGE, "tabular"), (PAGE + 1, "longtable")])
def test_a_table_longer_than_a_page(lines, environment):
    text = latex_table(["a"], [["1"]] * lines, [True], caption="c", label="l")
    assert rf"\begin{{{environment}}}{{r}}" in text and text.count("1 \\\\") == lines


def test_files_are_the_same_again(folder, tmp_path):
    again = write_each(study_tables(STUDY), tmp_path)
    assert len(again) == 18
    for path in again:
        assert path.read_bytes() == (folder / path.relative_to(tmp_path)).read_bytes()


def test_names_of_the_user_are_escaped(tmp_path):
    rows = made_rows(noises=("50% & more_",), sides=("document",), embedding_model="m{#}_1")
    write_each(study_tables([row | {"noise": "50% & more_"} for row in rows]), tmp_path)
    assert r"50\% \& more\_" in (tmp_path / "latex" / "summary.tex").read_text()


def test_a_table_is_plain_data():
    table = Table("t", "T", "N.", (Heading("a", "A"),), ((1,),))
    assert table == Table("t", "T", "N.", (Heading("a", "A", 3),), ((1,),))
    assert list(itertools.chain(*table.lines)) == [1]
