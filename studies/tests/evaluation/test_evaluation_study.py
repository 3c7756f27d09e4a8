"""hushvec study evaluation: the command, from a user's files to the page."""

import json
import re

import pytest
from evaluation.invented import beir_folder

from cli.command import assert_one_line, hushvec_here


def study(folder, *arguments):
    return hushvec_here("study", "evaluation", "-o", folder / "out", "--model", "hashed-words", *arguments)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study of the user's own data at two values of epsilon."""
    folder = tmp_path_factory.mktemp("evaluation")
    corpus = beir_folder(folder / "mine")
    given = ("--corpus", corpus, "--epsilons", "4", "32", "--draws", "1", "--mechanisms", "privunit", "public codebook")
    finished = study(folder, *given, "--resamples", "50")
    assert finished.code == 0, finished.err
    return folder, given, finished


def test_the_files(done):
    folder, _, finished = done
    found = json.loads((folder / "out" / "evaluation.json").read_text())
    # without noise, two mechanisms and, for questions, private queries, at two epsilons
    assert len(found["rows"]) == (1 + 2 * 2) + (1 + 3 * 2)
    assert found["sources"][0]["left_out"] == "6 queries without a relevant document"
    assert str(folder) not in json.dumps(found)
    for told in found["findings"]:
        assert told["choice"] in finished.out
    for row in found["rows"]:
        for name in ("ndcg_at_10", "recall_at_10", "mrr", "attack"):
            value, low, high = row[name]
            assert 0 <= low <= value <= high <= 1


def test_the_other_attacks(done):
    """Without noise and two mechanisms at two epsilons, on private documents: each figure with its chance and its bound."""
    folder, _, _ = done
    found = json.loads((folder / "out" / "evaluation.json").read_text())
    assert len(found["attacks"]) == 1 + 2 * 2
    for row in found["attacks"]:
        # 20 documents were not released: too few for rates of 1 % and less, and for 100 pairs
        assert set(row["figures"]) == {"pair", "membership_auc", "alignment tfidf-svd 10"}
        for figure in row["figures"].values():
            value, low, high = figure["value"]
            assert 0 <= low <= value <= high <= 1 and 0 < figure["chance"] <= 0.5
            assert (figure["bound"] is None) == (row["epsilon"] is None)
    (told,) = found["attack_findings"]
    assert "one of two rows told apart" in told["choice"] and "is refuted" not in json.dumps(told)


def test_the_page_needs_nothing_else(done):
    folder, _, _ = done
    page = (folder / "out" / "evaluation.html").read_text()
    assert page.count("<svg") == 1
    assert not re.search(r'(src|href)="(?!#)', page)
    assert "measurements, and no private releases" in page
    assert (
        "hushvec study evaluation -o DIR --corpus corpus.jsonl --queries queries.jsonl --qrels test.tsv --mechanisms privunit "
        "&#39;public codebook&#39; --epsilons 4 32 --draws 1 --model hashed-words --resamples 50"
    ) in page
    for color in ("#0a66b0", "#1d2329"):
        assert color not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_what_is_there_is_not_measured_again(done):
    folder, given, _ = done
    measured = folder / "out" / "measured"
    before = {path.name: path.stat().st_mtime_ns for path in measured.iterdir()}
    removed = sorted(before)[0]
    (measured / removed).unlink()
    assert study(folder, *given, "--resamples", "50").code == 0
    after = {path.name: path.stat().st_mtime_ns for path in measured.iterdir()}
    assert [name for name in before if after[name] != before[name]] == [removed]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), "--data or --corpus must be given, and not both: benchmarks, or data of your own"),
        (("--data", ".", "--corpus", "."), "--data or --corpus must be given, and not both: benchmarks, or data of your own"),
        (("--data", ".", "--qrels", "judged.tsv"), "--queries and --qrels must go with --corpus"),
        (("--data", ".", "--benchmarks", "scifcat"), "must be one of scifact, newsgroups, banking77, sentences, got 'scifcat'"),
        (("--data", ".", "--epsilons", "0"), "epsilons[0] must be > 0, got 0.0"),
    ],
)
def test_options_that_are_refused(tmp_path, given, said):
    finished = study(tmp_path, *given)
    assert_one_line(finished, said)
    assert not (tmp_path / "out" / "measured").exists()


def test_a_stranger_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hushvec_studies.evaluation.attacks.decoders.find_spec", lambda name: None)
    finished = study(tmp_path, "--data", tmp_path, "--strangers", "wordllama")
    assert_one_line(finished, "strangers: wordllama needs the package wordllama, which is not installed")
    assert not (tmp_path / "out").exists()


def test_a_collection_that_is_too_small_is_refused(tmp_path):
    corpus = beir_folder(tmp_path / "mine")
    kept = (corpus / "corpus.jsonl").read_text().splitlines()[:60]
    (corpus / "corpus.jsonl").write_text("\n".join(kept) + "\n")
    finished = study(tmp_path, "--corpus", corpus)
    assert_one_line(finished, "mine: must have at least 64 documents, half of which are public, got 60")


def test_workers_give_the_same_rows(done, tmp_path):
    """Two processes measure what one did; only times differ."""
    folder, given, _ = done
    assert study(tmp_path, *given, "--resamples", "50", "--workers", "2").code == 0

    def rows(path):
        found = json.loads((path / "out" / "evaluation.json").read_text())["rows"]
        return [{name: value for name, value in row.items() if name != "seconds"} for row in found]

    assert rows(tmp_path) == rows(folder)
