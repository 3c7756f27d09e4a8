"""docs/studies.md names every family and shipped configuration there is, its example is one, and the help has settings and columns."""

import re
from pathlib import Path

import hushvec_studies.retrieval
from cli.command import hushvec_here
from hushvec_studies.command import interval, line, strongest
from hushvec_studies.retrieval.columns import COLUMNS, OF_THE_MOMENT, read_rows
from hushvec_studies.retrieval.configuration import FAMILIES, KEYS, load_configuration, shipped
from hushvec_studies.retrieval.findings import Rules

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")


def rows_of_table(header):
    lines = GUIDE[GUIDE.index(header) :].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[: lines.index("")]]


def help_of(command):
    done = hushvec_here("study", command, "--help")
    assert done.code == 0
    return " ".join(str(done.out).split())


def test_the_help_has_every_setting_with_its_default_and_meaning():
    text = help_of("run")
    for name, key in KEYS.items():
        assert re.search(rf" {re.escape(name)}: \S.*? {re.escape(key.meaning)} ", f"{text} "), name
    assert 'privacy.noise: ["gaussian", "pure"] families' in text and "data.splits: [0.7, 0.15, 0.15] shares" in text


def test_the_help_has_every_column_with_its_meaning():
    text = help_of("report")
    for column in COLUMNS:
        if not column.name.endswith(("_ci_lower", "_ci_upper")):
            assert f" {column.name} {column.meaning} " in text, column.name


def test_what_differs_from_run_to_run_is_named():
    for name in OF_THE_MOMENT:
        assert f"`{name}`" in GUIDE or "latency" in name


def test_families_and_shipped_configurations_are_named():
    for name in [*FAMILIES, *shipped()]:
        assert f"`{name}`" in GUIDE, name


def test_the_rules_are_those_of_the_guide():
    rules = Rules()
    assert f"at least {rules.kept:g} of recall at k without noise" in GUIDE
    assert f"is at most {rules.largest_auc:g}, and" in GUIDE
    assert rules.largest_rate == 2 and "at most twice those rates" in GUIDE


def test_the_example_is_a_configuration(tmp_path):
    (tmp_path / "small.yaml").write_text(re.search(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)[1])
    configuration = load_configuration(tmp_path / "small.yaml")
    assert (configuration.name, configuration.attack.shadow_models) == ("small", 32)
    assert configuration.privacy.noise[1].sigma == 0.2


def test_the_measured_lines_are_those_of_the_results():
    results = Path(hushvec_studies.retrieval.__file__).parent / "results"
    told = rows_of_table("| sides | noise | epsilon | recall at 10 |")
    measured = []
    for name in ("source_grid", "wider_epsilons"):
        for row in (one for one in read_rows(results / f"{name}.csv") if one["k"] == 10):
            sides, noise, epsilon = line(row)[:3]
            names = ("category_precision_at_10", "lira_auc", "released_auc", strongest(row))
            shares = ("" if row[name] is None else f"{row[name]:.3f}" for name in names)
            measured.append([sides, noise, epsilon, interval(row, "recall_at_k"), *shares])
    assert len(told) == 13
    assert [one for one in told if one not in measured] == []


def test_shipped_configurations_can_be_read():
    assert shipped()
    for name in shipped():
        assert load_configuration(name).name == name
