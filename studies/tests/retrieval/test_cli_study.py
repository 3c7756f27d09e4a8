"""hushvec study: the command, in this process."""

import json

import pytest
import study_stand_ins as stand_ins

from cli.command import assert_one_line, hushvec_here
from hushvec_studies.retrieval.columns import read_rows


def study(folder, action, *arguments, overrides=(), configuration="doc_ldp"):
    """A command on small texts, in this process."""
    given = [*stand_ins.settings(folder), "attack.attacks=[logistic]", "privacy.noise=[pure]", *overrides]
    sets = [word for one in given for word in ("--set", one)]
    return hushvec_here("study", action, configuration, "-o", folder / "study", "--workers", 0, *sets, *arguments)


def answer(finished):
    assert finished.code == 0, finished.err
    return json.loads(finished.out)


def test_run_says_what_was_measured_and_what_it_shows(tmp_path):
    finished = study(tmp_path, "run")
    assert finished.code == 0, finished.err
    lines = finished.out.splitlines()
    assert " ".join(lines[0].split()) == (
        "sides noise epsilon k recall at 1 recall at k same category in 10 AUC logistic AUC likelihood AUC rows TPR at 1 % bound"
    )
    assert lines[1].split()[:4] == ["none", "none", "inf", "5"]
    assert lines[2].split()[:4] == ["document", "privunit", "20", "5"]
    assert "retrieval survives" in finished.out
    assert "2, 0 of them from before" in finished.out
    assert lines[-2].split() == ["documents", "left", "out", "none"]
    assert lines[-1].split() == ["page", "hushvec", "study", "report", str(tmp_path / "study")]
    rows = read_rows(tmp_path / "study" / "results.csv")
    assert [(row["sides"], row["k"]) for row in rows] == [("none", 1), ("none", 5), ("document", 1), ("document", 5)]
    again = answer(study(tmp_path, "run", "--json"))
    assert (again["runs"], again["runs_before"], again["rows"]) == (2, 2, 4)
    assert {one["k"] for one in again["frontiers"]} == {1, 5}
    assert "Retrieval survives where" in again["rules"]
    # a wider plan in the same folder: the runs that are there stay
    fewest = ["privacy.combined=[document+query]", "privacy.epsilons=[20]"]
    assert answer(study(tmp_path, "grid", "--json", overrides=fewest))["runs_before"] == 2
    assert {row["sides"] for row in read_rows(tmp_path / "study" / "results.csv")} == {
        "none", "document", "query", "score", "document+query"
    }  # fmt: skip


def test_documents_that_min_tokens_leaves_out_are_counted(tmp_path):
    """Texts of the stand-in have 14 words; two more are too short, and one is a second copy."""
    sets = [word for one in [*stand_ins.settings(tmp_path), "data.min_tokens=14"] for word in ("--set", one)]
    source = tmp_path / "texts.jsonl"
    first = json.loads(source.read_text().splitlines()[0])
    with source.open("a", encoding="utf-8") as file:
        for name, text in (("s1", "too short"), ("s2", "short too"), ("copy", first["text"])):
            file.write(json.dumps({"id": name, "text": text, "category": first["category"]}) + "\n")
    finished = hushvec_here("study", "run", "baseline", "-o", tmp_path / "study", "--workers", 0, "--json", *sets)
    assert answer(finished)["left_out"] == {"fewer than 14 words": 2, "the text of another": 1}


def test_ablate_and_robustness(tmp_path):
    plain = ["privacy.mechanisms=[none]", "privacy.epsilons=[inf]", "attack.attacks=[]"]
    ablated = [*plain, "ablate={queries.per_document: [1, 2]}"]
    assert answer(study(tmp_path, "ablate", "--json", overrides=ablated))["runs"] == 3
    checked = [*plain, "robustness.splits=[val]", "robustness.seeds=[7]"]
    assert answer(study(tmp_path, "robustness", "--json", overrides=checked))["runs"] == 3
    rows = read_rows(tmp_path / "study" / "results.csv")
    assert sorted({(row["dataset_split"], row["seed"], row["queries_per_document"]) for row in rows}) == [
        ("all", 7, 3), ("all", 2025, 1), ("all", 2025, 2), ("all", 2025, 3), ("val", 2025, 3)
    ]  # fmt: skip


def test_the_shipped_ablation_runs_on_few_documents_and_one_that_cannot_is_refused_first(tmp_path):
    plain = ["data.split=train", "privacy.mechanisms=[none]", "privacy.epsilons=[inf]", "attack.attacks=[]"]
    assert answer(study(tmp_path, "ablate", "--json", overrides=plain))["runs"] == 5
    assert {row["projection"] for row in read_rows(tmp_path / "study" / "results.csv")} == {"none", "mean", "whiten"}
    (tmp_path / "other").mkdir()
    finished = study(tmp_path / "other", "ablate", overrides=[*plain, "ablate={privacy.projections: [['whiten:256']]}"])
    assert_one_line(finished, "privacy.projections must have at most")
    assert not (tmp_path / "other" / "study" / "results.csv").exists()


def test_the_records_that_ship_need_no_file(tmp_path):
    """The shipped configuration on few of them, and without the model that its figures are made with."""
    few = ["embedding.model=hashed-words", "data.max_documents=40", "privacy.epsilons=[20]", "statistics.resamples=20",
           "attack.shadow_models=4", "attack.target_models=1", "retrieval.latency_queries=4"]   # fmt: skip
    sets = [word for one in few for word in ("--set", one)]
    found = answer(hushvec_here("study", "run", "records", "-o", tmp_path / "study", "--workers", 0, "--json", *sets))
    assert found["runs"] == 5
    rows = read_rows(tmp_path / "study" / "results.csv")
    assert {(row["sides"], row["noise"]) for row in rows} == {
        ("none", "none"), ("document", "gaussian"), ("document", "pure"), ("score", "gaussian"), ("score", "pure")
    }  # fmt: skip
    assert {(row["num_documents"], row["num_queries"]) for row in rows} == {(40, 40)}


def test_report(tmp_path, monkeypatch):
    """The page itself has tests of its own; here it is enough that it is asked for."""
    import hushvec_studies.retrieval.report

    asked = []

    def write_report(folder):
        asked.append(folder)
        return folder / "report.html"

    monkeypatch.setattr(hushvec_studies.retrieval.report, "write_report", write_report)
    assert study(tmp_path, "run").code == 0
    results = tmp_path / "study" / "results.csv"
    results.unlink()
    found = answer(hushvec_here("study", "report", tmp_path / "study", "--json"))
    assert found["report"] == str(tmp_path / "study" / "report.html")
    assert (found["rows"], len(found["frontiers"]), len(read_rows(results))) == (4, 2, 4)
    shown = hushvec_here("study", "report", tmp_path / "study").out
    assert shown.splitlines()[-len(found["finding"]) - 1 :] == [found["report"], *found["finding"]]
    assert asked == [tmp_path / "study"] * 2


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (["run", "doc_lpd"], ["doc_lpd: no such file", "did you mean 'doc_ldp'?"]),
        (["run", "doc_ldp", "--set", "atack.shadow_models=4"], ["atack.shadow_models", "did you mean 'attack.shadow_models'?"]),
        (["run", "doc_ldp", "--set", "privacy.delta=2"], ["privacy.delta must be < 1, got 2"]),
        (["grid", "doc_ldp", "--workers", "-1", "-o", "unused"], ["workers must be >= 0, got -1"]),
        (["grid", "doc_ldp", "--workers", "two"], ["--workers"]),
        (["run"], ["CONFIG"]),
        (["rnu", "doc_ldp"], ["rnu"]),
        (["report", "nowhere"], ["nowhere: must be the folder of a study"]),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, arguments, parts):
    monkeypatch.chdir(tmp_path)
    assert_one_line(hushvec_here("study", *arguments), *parts)
    assert list(tmp_path.iterdir()) == []


def test_texts_that_cannot_be_used(tmp_path):
    finished = study(tmp_path, "run", overrides=["data.source=nowhere.jsonl"])
    assert_one_line(finished, "nowhere.jsonl")
    # nothing was done in the folder, so another study may begin there
    finished = study(tmp_path, "run", overrides=["data.split=train", "retrieval.k=[200]"])
    assert_one_line(finished, "run 'no noise': k must be at most 56, the columns of ids, got 200")


def test_a_study_without_a_run_has_no_report(tmp_path):
    from hushvec_studies.retrieval.records import StudyFolder

    StudyFolder(tmp_path / "study").open_for(stand_ins.small(tmp_path))
    assert_one_line(hushvec_here("study", "report", tmp_path / "study"), "no run of this study is done yet")


def test_help_names_the_shipped_configurations():
    for action in ("run", "grid", "ablate", "robustness"):
        finished = hushvec_here("study", action, "--help")
        assert finished.code == 0
        assert "baseline, combined, default, doc_ldp, query_ldp, records, score_ldp" in " ".join(finished.out.split())
