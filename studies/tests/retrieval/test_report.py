"""The report: one file that loads nothing, with every section, table and figure of the study, whatever its names are."""

import html.parser
import re

import pytest
from made_rows import made_rows
from markupsafe import escape

from hushvec_studies.harness.measurements import Measurement, Measurements
from hushvec_studies.retrieval import figures
from hushvec_studies.retrieval.columns import NAMES
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.figures import study_figures
from hushvec_studies.retrieval.findings import finding
from hushvec_studies.retrieval.records import Record, StudyFolder
from hushvec_studies.retrieval.report import write_report
from hushvec_studies.retrieval.tables import study_tables


class Made(Measurement):
    """A run that nobody did."""

    label = "made"

    def __init__(self, number):
        self._number = number

    @property
    def key(self):
        return {"run": self._number}


def save_study(folder, rows):
    """A study's folder with these rows as its runs."""
    study = StudyFolder(folder)
    study.open_for(load_configuration("default", ["data.categories=[sci.space]", "name='<b>bold</b> & co'"]))
    runs = {}
    for row in rows:
        key = tuple(row[column] for column in ("sides", "noise", "epsilon_doc", "epsilon_query", "queries_per_document"))
        one = runs.setdefault(key, [Made(len(runs))])[0]
        runs[key].append(row | {"config_hash": one.digest, "run_id": one.digest})
    for one, *own in runs.values():
        Measurements(folder).save(one, Record(rows=tuple(own)).to_dict())
    return folder


ROWS = made_rows(sides=("document", "query"), noises=("pure",), epsilons=(10.0, 2.5), ks=(5, 10))
ROWS += made_rows(sides=("document",), noises=("pure",), epsilons=(10.0,), ks=(5, 10), queries_per_document=1)


@pytest.fixture(scope="module", autouse=True)
def _without_pdf():
    """PDF files are the subject of test_figures.py; here they only take time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "drawn_as", lambda figure, kind: b"%PDF-")
        yield


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = save_study(tmp_path_factory.mktemp("study"), ROWS)
    return folder, write_report(folder)


@pytest.fixture(scope="module")
def text(study):
    return study[1].read_text(encoding="utf-8")


class Outline(html.parser.HTMLParser):
    """Elements that are open, ids, links, and headings."""

    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.loads, self.headings, self.seen = [], [], [], [], [], set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        said = dict(attributes)
        if "id" in said:
            self.ids.append(said["id"])
        if tag == "a":
            self.links.append(said["href"])
        self.loads += [said[name] for name in ("src", "srcset", "data", "action", "poster") if name in said]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2"):
            self.headings.append(data)


@pytest.fixture(scope="module")
def outline(text):
    outline = Outline()
    outline.feed(text)
    outline.close()
    return outline


def test_the_page_is_well_formed(text, outline):
    assert text.startswith("<!DOCTYPE html>\n") and outline.open == []
    assert len(set(outline.ids)) == len(outline.ids)
    assert outline.links and all(link.startswith("#") and link[1:] in outline.ids for link in outline.links)


def test_the_page_loads_nothing(text, outline):
    """No script, no address but names of XML vocabularies, and a policy that would stop the rest."""
    assert outline.loads == [] and not outline.seen & {"script", "link", "img", "iframe", "object", "embed", "base", "form"}
    assert not re.search(r"@import|url\((?!#)|\bon\w+=", text)
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert """content="default-src 'none'; style-src 'unsafe-inline'\"""" in text


def test_sections(outline):
    assert outline.headings == [
        "Private retrieval: <b>bold</b> & co",
        "Finding",
        "Use against attack",
        "Attacks and their bounds",
        "What is still found",
        "One thing changed at a time",
        "Every setting",
        "Configuration",
        "How to read this",
    ]


def test_names_of_the_user_are_escaped(text):
    assert "<b>bold" not in text and "&lt;b&gt;bold" in text


def test_the_finding_leads(study, text):
    found = finding([row for record in StudyFolder(study[0]).records() for row in record.rows])
    assert f'<p class="lead">{escape(found.sentences[0])}</p>' in text and escape(found.rules.to_text()) in text
    assert len(found.frontiers) == 6 and len(found.details) >= 2
    assert all(str(escape(detail)) in text for detail in found.details)


def test_every_figure_and_table_is_in_the_page_and_beside_it(study, text):
    folder, _ = study
    rows = [row for record in StudyFolder(folder).records() for row in record.rows]
    shown = study_figures(rows)
    for figure in shown:
        assert f'aria-label="{escape(figure.title)}"' in text
        assert (folder / "figures" / figure.folder / f"{figure.name}.pdf").is_file()
    assert text.count("<figure>") == len(shown)
    for table in study_tables(rows):
        assert escape(table.title) in text
        assert (folder / "tables" / "latex" / f"{table.name}.tex").is_file()


def test_numbers_are_those_of_the_rows(text):
    for row in ROWS:
        if row["k"] == 10 and row["queries_per_document"] == 3:
            interval = f"[{row['recall_at_k_ci_lower']:.3f}, {row['recall_at_k_ci_upper']:.3f}]"
            assert f"{row['recall_at_k']:.3f} <small>{interval}</small>" in text


def test_figures_take_the_colours_of_the_page(text):
    """Each variable that is used has a value for light and another one for dark, and no colour of the drawings is left."""
    style, page = text.split("</style>", 1)
    used = set(re.findall(r"var\(--(\w+)\)", page))
    light, dark = style.split("prefers-color-scheme: dark", 1)
    for name in used:
        values = [re.search(rf"--{name}: (#[0-9a-f]{{6}});", part).group(1) for part in (light, dark)]
        assert values[0] != values[1]
    assert {"ink", "faint", "grid", "c0"} <= used
    assert not re.findall(r"#[0-9a-f]{6}\b", page)


def luminance(colour):
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("part", [0, 1], ids=["light", "dark"])
def test_contrast(text, part):
    """Text 4.5 to 1 and marks 3 to 1 against the paper (WCAG 2.2, 1.4.3 and 1.4.11); the ramp's first steps are faint on purpose."""
    style = text.partition("</style>")[0].split("prefers-color-scheme: dark", 1)[part]
    colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6});", style))
    paper = luminance(colours["paper"])
    for name, colour in colours.items():
        high, low = sorted((luminance(colour), paper), reverse=True)
        ratio = (high + 0.05) / (low + 0.05)
        least = 4.5 if name in ("ink", "faint", "link") else 3.0 if re.fullmatch(r"c\d|r[2-4]", name) else 1.0
        assert ratio >= least, (name, ratio)


def test_the_seed_and_the_configuration(text):
    assert "are no claims of differential privacy" in text
    assert '<th scope="row">attack.shadow_models</th><td>16</td>' in text
    assert all(f'<th scope="row">{name}</th>' in text for name in NAMES)


def test_print_has_a_form_of_its_own(text):
    assert "@media print" in text and "@page" in text


def test_the_report_is_the_same_again(study, text, monkeypatch):
    """From the same runs, without drawing again: drawings are the same again by a test of their own."""
    folder, _ = study
    kept = {path.stem: path.read_text(encoding="utf-8") for path in (folder / "figures").rglob("*.svg")}
    monkeypatch.setattr(figures, "svg_of", lambda figure: kept[figure.name])
    assert write_report(folder).read_text(encoding="utf-8") == text


def test_a_study_of_one_run_without_attacks(tmp_path):
    bare = dict.fromkeys(
        name for name in NAMES if name.startswith(("mia", "lira", "tpr", "auc", "epsilon_lower", "exposed", "latency"))
    )
    folder = save_study(tmp_path, [row | bare | {"timestamp": None} for row in made_rows(sides=(), ks=(10,))])
    text = write_report(folder).read_text(encoding="utf-8")
    assert "nothing can be said" in text and "<figure>" not in text


def test_a_folder_without_a_study(tmp_path):
    with pytest.raises(ValueError, match="must be the folder of a study"):
        write_report(tmp_path)


def test_a_study_without_runs(tmp_path):
    save_study(tmp_path, [])
    with pytest.raises(ValueError, match="must hold at least one run of the study that is done, got none"):
        write_report(tmp_path)


def test_a_torn_run(tmp_path):
    save_study(tmp_path, made_rows(sides=(), ks=(10,)))
    (path,) = (tmp_path / "measured").iterdir()
    path.write_text(path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    with pytest.raises(ValueError, match=rf"{path.name}"):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()
