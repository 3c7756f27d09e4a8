"""Public and private parts of the benchmarks have nothing in common."""

import json
import lzma

import numpy as np

from hushvec_studies.evaluation.collection import scifact
from hushvec_studies.evaluation.vectors import banking, newsgroups


def pack(path, objects):
    path.write_bytes(lzma.compress("".join(json.dumps(one) + "\n" for one in objects).encode()))


def numbered(texts):
    """Rows that tell texts apart: the number at the end of each."""
    return np.array([[float(text.split()[-1]), 1.0] for text in texts], np.float32)


def numbers(rows):
    return set(rows[:, 0].astype(int).tolist())


def test_banking_is_split_by_class_and_questions_are_there_once(tmp_path):
    questions = [{"split": "train", "text": f"What is {n}", "label": "ab"[n % 2]} for n in range(40)]
    questions += [{"split": "test", "text": f"what  IS {n}", "label": "ab"[n % 2]} for n in range(35, 60)]
    pack(tmp_path / "banking77.jsonl.xz", questions)
    found = banking(tmp_path, numbered)
    public, training, test = numbers(found.public), numbers(found.training), numbers(found.test)
    assert (len(public), len(training), len(test)) == (20, 20, 20)
    assert not (public & training or public & test or training & test)
    assert np.bincount(found.training_classes).tolist() == [10, 10]
    assert found.left_out == (("questions that were there before", 5),)


def test_posts_are_public_or_private_by_date(tmp_path):
    posts = [{"id": str(n), "split": ("train", "test")[n // 30], "category": "ab"[n % 2], "text": f"post {n}"} for n in range(60)]
    posts.append({"id": "again", "split": "test", "category": "a", "text": "post 3"})
    pack(tmp_path / "20newsgroups_8.jsonl.xz", posts)
    found = newsgroups(tmp_path, numbered, 1)
    assert (numbers(found.public), numbers(found.private)) == (set(range(30)), set(range(30, 60)))
    assert found.groups.tolist() == [int(n) % 2 for n in found.private[:, 0]]
    assert found.left_out == (("the text of another", 1),)


def test_claims_of_the_validation_split_or_all(tmp_path):
    pack(tmp_path / "scifact_corpus.jsonl.xz", [{"id": n, "title": "T", "text": f"text {n}"} for n in range(4)])
    claims = [{"id": n, "split": split, "claim": "ab"[n], "relevant": [n + 1]} for n, split in enumerate(("train", "validation"))]
    pack(tmp_path / "scifact_claims.jsonl.xz", claims)
    found = scifact(tmp_path, validation=True)
    assert (found.queries, found.grades, found.documents["2"]) == ({"1": "b"}, {"1": {"2": 1.0}}, "T. text 2")
    assert found.left_out == (("claims of the train split", 1),)
    assert list(scifact(tmp_path, validation=False).queries) == ["0", "1"]
