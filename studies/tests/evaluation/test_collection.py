"""The user's documents, queries and judgments: what is read, what is left out and counted, what is refused."""

import pytest
from evaluation.invented import beir_folder, write_lines

from hushvec_studies.evaluation.collection import SCIFACT, own, paths_of
from hushvec_studies.harness.texts import grades_of, records_of


def test_a_beir_folder(tmp_path):
    source, found = own(beir_folder(tmp_path / "mine"), None, None)
    assert (found.name, len(found.documents), len(found.queries)) == ("mine", 80, 24)
    assert found.grades["q3"] == {"d3": 1.0}
    assert found.left_out == (("queries without a relevant document", 6),)
    assert source.files == ("corpus.jsonl", "queries.jsonl", "test.tsv")


def test_trec_judgments_with_files_of_their_own(tmp_path):
    write_lines(tmp_path / "notes.jsonl", [{"id": 1, "title": "One", "text": "first note"}, {"id": 2, "text": "second note"}])
    write_lines(tmp_path / "asked.jsonl", [{"id": "a", "text": "first"}, {"id": "b", "text": "second"}])
    (tmp_path / "judged.txt").write_text("a 0 1 2\na 0 2 0\nb 0 2 1\n")
    _, found = own(tmp_path / "notes.jsonl", tmp_path / "asked.jsonl", tmp_path / "judged.txt")
    assert found.documents["1"] == "One. first note"
    assert found.grades == {"a": {"1": 2.0}, "b": {"2": 1.0}}
    assert found.left_out == ()


def test_everything_that_is_left_out_is_counted(tmp_path):
    documents = {"long": "three words here", "short": "one", "x": " "}
    write_lines(tmp_path / "notes.jsonl", [{"id": name, "text": text} for name, text in documents.items()])
    write_lines(tmp_path / "asked.jsonl", [{"id": n, "text": "what"} for n in "abc"] + [{"id": "blank", "text": ""}])
    (tmp_path / "judged.tsv").write_text("a\tlong\t1\nb\tshort\t1\na\tnowhere\t1\nz\tlong\t1\n")
    _, found = own(tmp_path / "notes.jsonl", tmp_path / "asked.jsonl", tmp_path / "judged.tsv", min_tokens=2)
    assert dict(found.left_out) == {
        "documents without text": 1,
        "queries without text": 1,
        "documents of fewer than 2 words": 1,
        "judgments of a query that is not among the queries": 1,
        "relevant documents that are not among the documents": 2,
        "queries whose relevant documents were left out": 1,
        "queries without a relevant document": 1,
    }
    assert list(found.queries) == ["a"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a 0 1\nb 2\n", "line 2 must have 4 columns (TREC) or 3 (BEIR), got 2"),
        ("a 0 1 1\na 0 1 1\n", "line 2 must not judge '1' for 'a' again"),
        ("a 0 1 1\na 0 2 much\n", "line 2 must end in a grade, got 'much'"),
    ],
)
def test_judgments_that_are_refused(tmp_path, content, said):
    path = tmp_path / "judged.txt"
    path.write_text(content)
    with pytest.raises(ValueError) as error:
        grades_of(path)
    assert str(error.value) == f"{path}: {said}"


def test_files_that_are_refused(tmp_path):
    folder = beir_folder(tmp_path / "mine")
    with pytest.raises(ValueError, match="must come with --queries and --qrels, or be a BEIR folder"):
        own(folder / "corpus.jsonl", None, None)
    (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
    (folder / "qrels" / "train.tsv").write_text("")
    with pytest.raises(ValueError, match=r"must hold test.tsv or one .tsv file \(else name one\), got dev.tsv, train.tsv"):
        own(folder, None, None)
    (folder / "qrels" / "test.tsv").write_text("q1\tnowhere\t1\n")
    with pytest.raises(ValueError, match="must have a query with a relevant document, got none"):
        own(folder, None, None)
    write_lines(folder / "corpus.jsonl", [{"_id": "a", "text": "one"}, {"_id": "a", "text": "two"}])
    with pytest.raises(ValueError, match="line 2 must have an id of its own, got 'a' again"):
        own(folder, None, None)
    write_lines(folder / "corpus.jsonl", [{"_id": "a", "words": "one"}])
    with pytest.raises(ValueError, match="line 1 must have 'text'"):
        records_of(folder / "corpus.jsonl", "text")


def test_a_benchmark_that_is_missing_says_where_it_comes_from(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        paths_of(SCIFACT, tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'scifact_corpus.jsonl.xz'}: must be a file of scifact (https://github.com/allenai/scifact, also a BEIR "
        "dataset), is not there"
    )
