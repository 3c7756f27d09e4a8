"""Queries and judgments of the user's own in a study from a YAML file."""

import json

import numpy as np
import pytest
import study_stand_ins as stand_ins
from evaluation.invented import beir_folder, write_lines

from cli.command import assert_one_line, hushvec_here
from hushvec_studies.retrieval.columns import read_rows
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.inputs import AllInputs
from hushvec_studies.retrieval.plan import ablations, planned
from hushvec_studies.retrieval.runs import ranks_of

YAML = """\
extends: doc_ldp
data: {{source: {source}, categories: null, min_tokens: 5, split: all}}
embedding: {{model: hashed-words}}
queries: {{file: {queries}, judgments: {judgments}}}
privacy: {{epsilons: [.inf, 20], noise: [pure]}}
retrieval: {{k: [1, 5], latency_queries: 4}}
attack: {{attacks: [logistic], shadow_models: 4}}
statistics: {{resamples: 20}}
ablate: {{queries.per_document: [1, 3, 5]}}
"""


def configured(tmp_path, source, queries="null", judgments="null"):
    path = tmp_path / "study.yaml"
    path.write_text(YAML.format(source=source, queries=queries, judgments=judgments))
    return path


def inputs_of(path, tmp_path):
    inputs = AllInputs(tmp_path / "cache", stand_ins.model, progress=False)
    return inputs.of(planned(load_configuration(path))[0]), inputs.left_out


def test_a_beir_folder_from_a_file_to_figures(tmp_path):
    """24 of the 30 queries are judged; each is the beginning of its document, which is found without noise."""
    mine = beir_folder(tmp_path / "mine")
    path = configured(tmp_path, mine, mine)
    finished = hushvec_here("study", "run", path, "-o", tmp_path / "study", "--workers", 0, "--json")
    assert finished.code == 0, finished.err
    assert json.loads(finished.out)["left_out"] == {"queries without a relevant document": 6}
    clean, *_ = read_rows(tmp_path / "study" / "results.csv")
    assert (clean["num_queries"], clean["num_documents"], clean["noise"]) == (24, 80, "none")
    assert clean["recall_at_1"] > 0.8
    assert clean["mia_auc"] > 0.6


def test_judgments_of_several_documents(tmp_path):
    """q0 has two documents of which the second is better: it is counted as found by either, and asks about the better one."""
    mine = beir_folder(tmp_path / "mine")
    (tmp_path / "judged.txt").write_text("q0 0 d7 1\nq0 0 d3 2\nq1 0 d1 1\nq2 0 d2 0\nq9 0 gone 1\n")
    path = configured(tmp_path, mine / "corpus.jsonl", mine / "queries.jsonl", tmp_path / "judged.txt")
    found, left_out = inputs_of(path, tmp_path)
    assert found.query_documents.tolist() == [1, 3]
    assert found.relevant == [{1: 1.0}, {7: 1.0, 3: 2.0}]
    assert found.groups.tolist() == [0, 1]
    assert ranks_of(found, np.array([[5, 1, 3], [9, 7, 3]])) == (2, 2)
    assert dict(left_out) == {
        "relevant documents that are not among the documents": 1,
        "queries without a relevant document": 28 - 1,
        "queries whose relevant documents were left out": 1,
    }
    documents, asked = found.asked
    assert documents.tolist() == [1, 3] and asked.shape == (2, 1, 256)


def test_key_phrases_are_what_they_were(tmp_path):
    """Without a file of queries neither the key of a run nor its inputs know of one."""
    run = planned(stand_ins.small(tmp_path))[0]
    assert set(run.settings()["queries"]) == {"per_document", "tokens"}
    inputs = AllInputs(tmp_path / "cache", stand_ins.model, progress=False)
    found = inputs.of(run)
    assert found.judged is None
    assert found.relevant is found.query_documents and found.groups is found.query_documents


def test_other_queries_are_other_inputs(tmp_path):
    mine = beir_folder(tmp_path / "mine")
    path = configured(tmp_path, mine, mine)
    first, _ = inputs_of(path, tmp_path)
    lines = (mine / "qrels" / "test.tsv").read_text().splitlines()
    (mine / "qrels" / "test.tsv").write_text("\n".join(lines[:-1]) + "\n")
    second, _ = inputs_of(path, tmp_path)
    assert first.digest != second.digest and len(first.queries) == len(second.queries) + 1
    assert not np.array_equal(first.judged, second.judged)


def test_settings_of_key_phrases_are_not_varied(tmp_path):
    mine = beir_folder(tmp_path / "mine")
    own = load_configuration(configured(tmp_path, mine, mine))
    assert len(ablations(own)) == len(planned(own)) == 2
    assert len(ablations(load_configuration(configured(tmp_path, mine)))) == 2 * 3


@pytest.mark.parametrize(
    ("queries", "judgments", "said"),
    [
        ("null", "judged.txt", "queries.judgments must come with queries.file, got 'judged.txt' alone"),
        ("mine/queries.jsonl", "null", "queries.judgments must be given, as queries.file is no BEIR folder: mine/queries.jsonl"),
        ("gone.jsonl", "judged.txt", "queries.file must be a file, gone.jsonl is not there"),
        ("mine", "gone.txt", "queries.judgments must be a file, gone.txt is not there"),
        ("mine", "judged.txt", "queries.file must have a query that a searched document answers, got none (left out: 1 judgments"),
        ("asked.jsonl", "judged.txt", "asked.jsonl: line 1 must have 'text'"),
    ],
)
def test_what_is_refused(tmp_path, monkeypatch, queries, judgments, said):
    monkeypatch.chdir(tmp_path)
    beir_folder(tmp_path / "mine")
    (tmp_path / "judged.txt").write_text("nobody 0 d1 1\n")
    write_lines(tmp_path / "asked.jsonl", [{"id": "q1"}])
    path = configured(tmp_path, "mine", queries, judgments)
    finished = hushvec_here("study", "run", path, "-o", tmp_path / "study", "--workers", 0)
    assert_one_line(finished, said)
    assert not (tmp_path / "study" / "results.csv").exists()
