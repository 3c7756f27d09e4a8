"""load_corpus: sources, cleaning, what is left out, splits, and one clear error for each thing that is no corpus."""

import gzip
import json
import lzma
from collections import Counter
from urllib.error import URLError

import pytest

from data_files import data_file
from hushvec.data import records as shipped
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.corpora import Corpus, cleaned, load_corpus, stratified_split

POSTS, needs_posts = data_file("20newsgroups_8.jsonl.xz")
WORDS = "some words of a text that is long enough to be kept"


def records(count, category="cars", **more):
    return [
        {"id": f"{category}/{number}", "text": f"{WORDS}, number {number} of {category}", "category": category, **more}
        for number in range(count)
    ]


def json_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def posts(tmp_path):
    return json_lines(tmp_path / "posts.jsonl", [*records(20), *records(10, "space")])


# ---- sources ----


@pytest.mark.parametrize(("suffix", "pack"), [("", bytes), (".xz", lzma.compress), (".gz", gzip.compress)])
def test_json_lines(posts, suffix, pack):
    packed = posts.with_name(f"packed.jsonl{suffix}")
    packed.write_bytes(pack(posts.read_bytes()))
    corpus = load_corpus(packed, min_tokens=5)
    assert len(corpus) == 30 and corpus.ids[0] == "cars/0" and corpus.texts[0] == f"{WORDS}, number 0 of cars"
    assert Counter(corpus.categories) == {"cars": 20, "space": 10}
    assert corpus == load_corpus(posts, min_tokens=5) and corpus.digest == load_corpus(posts, min_tokens=5).digest


def test_what_a_line_may_leave_out(tmp_path):
    path = json_lines(tmp_path / "notes.jsonl", [{"text": "first one"}, {"text": "second", "id": 7}, {"text": "third"}])
    corpus = load_corpus(path, min_tokens=0, splits=(1.0, 0.0, 0.0))
    assert corpus.ids == ("1", "7", "3") and set(corpus.categories) == {"notes"}


def test_the_records_that_ship():
    corpus = load_corpus("hushvec.data", min_tokens=8)
    assert (len(corpus), corpus.left_out) == (1200, ())
    assert (corpus.ids[0], corpus.texts[0], corpus.categories[0]) == (shipped()[0].id, shipped()[0].text, shipped()[0].category)
    assert set(corpus.categories) == {"bank", "clinic", "home", "school", "travel", "work"}


class FakeBunch:
    target_names = ("alt.atheism", "sci.space")

    def __init__(self, part):
        self.data = [f"From: {name}\nSubject: {WORDS} {part}" for name in ("ann", "bob")]
        self.target = [0, 1]
        self.filenames = [f"/home/data/20news/{part}/alt.atheism/4{part}", f"/home/data/20news/{part}/sci.space/5{part}"]


def test_newsgroups_of_scikit_learn(monkeypatch, tmp_path):
    from sklearn import datasets

    asked = []

    def fetch(**arguments):
        asked.append(arguments)
        return FakeBunch(arguments["subset"])

    monkeypatch.setattr(datasets, "fetch_20newsgroups", fetch)
    corpus = load_corpus("20newsgroups", data_home=tmp_path, categories=["sci.space"], min_tokens=3, splits="given")
    assert corpus.ids == ("sci.space/5train", "sci.space/5test") and corpus.splits == ("train", "test")
    assert corpus.left_out == (("another category", 2),)
    assert [call["subset"] for call in asked] == ["train", "test"]
    assert {call["data_home"] for call in asked} == {str(tmp_path)} and not any(call["shuffle"] for call in asked)


def test_scikit_learns_own_files(tmp_path):
    """What its fetch leaves in data_home, made here with two posts: read without a download."""
    import codecs
    import pickle

    from sklearn.utils import Bunch

    parts = {
        part: Bunch(
            data=[f"From: ann\n\n{WORDS} {part}"],
            target=[0],
            target_names=["sci.space"],
            filenames=[f"x/sci.space/1{part}"],
            DESCR="",
        )
        for part in ("train", "test")
    }
    import numpy as np

    for bunch in parts.values():
        bunch.target, bunch.filenames = np.array(bunch.target), np.array(bunch.filenames)
    (tmp_path / "20news-bydate_py3.pkz").write_bytes(codecs.encode(pickle.dumps(parts), "zlib_codec"))
    corpus = load_corpus("20newsgroups", data_home=tmp_path, min_tokens=3, splits="given")
    assert corpus.ids == ("sci.space/1train", "sci.space/1test") and corpus.texts[0].startswith("From: ann\n")


def test_newsgroups_that_cannot_be_downloaded(monkeypatch, tmp_path):
    from sklearn import datasets

    monkeypatch.setattr(datasets, "fetch_20newsgroups", lambda **arguments: (_ for _ in ()).throw(URLError("no route")))
    with pytest.raises(
        OSError, match=rf"20newsgroups: not in {tmp_path}, and scikit-learn could not download it there .*no route"
    ):
        load_corpus("20newsgroups", data_home=tmp_path)


@needs_posts
def test_the_posts_of_the_study():
    corpus = load_corpus(POSTS)
    assert set(corpus.categories) == set(load_configuration("default").data.categories)
    assert len(corpus) + sum(count for _, count in corpus.left_out) == 7623
    shares = Counter(corpus.splits)
    assert [round(shares[part] / len(corpus), 2) for part in ("train", "val", "test")] == [0.70, 0.15, 0.15]


# ---- cleaning ----


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain <ann@example.org> a<b and c>d", "plain <ann@example.org> a<b and c>d"),
        ("<P>one<br/>two</P>", " one two "),
        ('<a href="x?a=1&amp;b=2">link</a>', " link "),
        ("<input disabled><hr noshade size=2>", "  "),
        ("<I wrote> <big foot>", "<I wrote> <big foot>"),
        ("a<!-- b --> c<!-- d", "a  c<!-- d"),
        ("<script>if (a<b) f();</script>x<STYLE type='t'>p{}</style >y", " x y"),
        ("<!DOCTYPE html><html>x</html>", "  x "),
        ("AT&T &amp; R&D &lt;b&gt; &#65;&#x42; &nosuch;", "AT&T & R&D <b> AB &nosuch;"),
        ("ﬁne ① Å", "fine 1 Å"),
    ],
)
def test_cleaning(text, shown):
    assert cleaned(text) == shown


def test_cleaning_takes_linear_time():
    """A comment that nothing closes, 20,000 times: one look for the end, not one for each."""
    text = "<!--<script><style>" * 20_000
    assert cleaned(text) == text


# ---- what is left out ----


def test_short_and_repeated_texts(tmp_path):
    rows = [*records(3), {"id": "short", "text": "too short"}, {"id": "blank", "text": " \n"}]
    rows.append({"id": "twin", "text": rows[1]["text"].replace("number", "&#110;umber")})
    corpus = load_corpus(json_lines(tmp_path / "p.jsonl", rows), min_tokens=3, splits=(1.0, 0.0, 0.0))
    assert corpus.ids == ("cars/0", "cars/1", "cars/2")
    assert dict(corpus.left_out) == {"fewer than 3 words": 2, "the text of another": 1}


def test_a_part(posts):
    corpus = load_corpus(posts, min_tokens=0)
    test = corpus.part("test")
    assert Counter(test.categories) == {"cars": 3, "space": 1}
    assert set(test.ids) == {name for name, split in zip(corpus.ids, corpus.splits, strict=True) if split == "test"}
    with pytest.raises(ValueError, match="part must be one of 'train', 'val', 'test', got 'dev'"):
        corpus.part("dev")
    with pytest.raises(ValueError, match="got none in 'val'"):
        test.part("val")


def test_the_digest_is_of_everything():
    base = Corpus(("a", "b"), ("x", "y"), ("c", "c"), ("train", "test"))
    others = [
        Corpus(("a", "d"), ("x", "y"), ("c", "c"), ("train", "test")),
        Corpus(("a", "b"), ("x", "z"), ("c", "c"), ("train", "test")),
        Corpus(("a", "b"), ("x", "y"), ("c", "d"), ("train", "test")),
        Corpus(("a", "b"), ("x", "y"), ("c", "c"), ("train", "val")),
        Corpus(("ax", "b"), ("", "y"), ("c", "c"), ("train", "test")),
    ]
    assert len({corpus.digest for corpus in [base, *others]}) == 6


# ---- splits ----


def test_a_split_is_stratified_and_the_same_in_any_order():
    ids = [f"{category}-{number}" for category in "abc" for number in range(40)]
    categories = [name[0] for name in ids]
    parts = dict(zip(ids, stratified_split(ids, categories), strict=True))
    for category in "abc":
        assert Counter(parts[name] for name in ids if name[0] == category) == {"train": 28, "val": 6, "test": 6}
    backwards = dict(zip(ids[::-1], stratified_split(ids[::-1], categories[::-1]), strict=True))
    alone = dict(zip(ids[:40], stratified_split(ids[:40], categories[:40]), strict=True))
    assert backwards == parts and alone == {name: parts[name] for name in ids[:40]}
    assert dict(zip(ids, stratified_split(ids, categories, seed=1), strict=True)) != parts


@pytest.mark.parametrize("count", [*range(3, 12), 97])
@pytest.mark.parametrize("fractions", [(0.7, 0.15, 0.15), (0.34, 0.33, 0.33), (0.98, 0.01, 0.01), (0.01, 0.01, 0.98)])
def test_sizes_of_parts(count, fractions):
    parts = Counter(stratified_split([str(number) for number in range(count)], ["c"] * count, fractions))
    for part, fraction in zip(("train", "val", "test"), fractions, strict=True):
        assert parts[part] == max(1, parts[part]) and abs(parts[part] - count * fraction) < 2
    assert sum(parts.values()) == count


def test_parts_of_fraction_zero_are_empty():
    assert set(stratified_split(["a", "b"], ["c", "c"], (0.5, 0.0, 0.5))) == {"train", "test"}


# ---- bad input ----


def test_a_source_that_is_not_there(tmp_path):
    words = r"source must be '20newsgroups', 'hushvec\.data', or a file \.jsonl, .* got '.*nowhere'"
    with pytest.raises(ValueError, match=words):
        load_corpus(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        load_corpus(tmp_path / "nowhere.jsonl")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "must hold at least one document, got none"),
        (b"\n \n", "must hold at least one document, got none"),
        (b'{"text": "one"}\n{"te', "line 2: not JSON: "),
        (b"[1]\n", "line 1: must be an object, got list"),
        (b'{"body": "one"}\n', "line 1: has no key 'text'"),
        (b'{"text": 3}\n', "line 1: 'text' must be a string, got int"),
        (b'{"text": "one", "id": [1]}\n', "line 1: 'id' must be a string, got list"),
        (b'{"text": "one", "id": true}\n', "line 1: 'id' must be a string, got bool"),
        (b'{"text": "one", "category": 1}\n', "line 1: 'category' must be a string, got int"),
        (b'{"text": "one", "split": 1}\n', "line 1: 'split' must be a string, got int"),
        (b'{"text": "\\ud800"}\n', "line 1: must be text that UTF-8 can hold, got half of a surrogate pair"),
        (b"\xff\n", "must be UTF-8 text, got byte 0xff at 0"),
        (b'{"text": "one", "id": "a"}\n{"text": "two", "id": "a"}\n', "line 2: id must be there once, got 'a' of"),
        (b'{"text": "one"}\n', "must hold a document that is kept, got none (1 fewer than 2 words)"),
    ],
)
def test_json_lines_that_are_no_corpus(tmp_path, content, words):
    (tmp_path / "p.jsonl").write_bytes(content)
    with pytest.raises(ValueError, match=r"p\.jsonl") as refused:
        load_corpus(tmp_path / "p.jsonl", min_tokens=2)
    assert words in str(refused.value) and "\n" not in str(refused.value)


@pytest.mark.parametrize(("suffix", "pack"), [("xz", lzma.compress), ("gz", gzip.compress)])
@pytest.mark.parametrize(
    "damage", [lambda packed: packed[:-9], lambda packed: b"PK" + packed, lambda packed: b"", lambda packed: packed[:40]]
)
def test_a_torn_archive(posts, suffix, pack, damage):
    torn = posts.with_name(f"torn.jsonl.{suffix}")
    torn.write_bytes(damage(pack(posts.read_bytes())))
    with pytest.raises(ValueError, match=rf"torn\.jsonl\.{suffix}"):
        load_corpus(torn)


def test_a_category_of_one_document(tmp_path):
    path = json_lines(tmp_path / "p.jsonl", [*records(5), *records(1, "space")])
    with pytest.raises(ValueError, match="category 'space' must have at least 3 documents to be split, got 1"):
        load_corpus(path, min_tokens=0)
    assert len(load_corpus(path, min_tokens=0, splits=(1.0, 0.0, 0.0))) == 6


def test_a_category_that_is_not_there(posts):
    with pytest.raises(ValueError, match=r"categories must be in .*posts.jsonl, which has no 'sport' \(it has cars, space\)"):
        load_corpus(posts, categories=["cars", "sport"], min_tokens=0)


def test_splits_that_were_to_be_given(posts, tmp_path):
    with pytest.raises(ValueError, match="line 1: split must be one of train, val, test, got None"):
        load_corpus(posts, splits="given", min_tokens=0)
    rows = [{"text": "one", "split": "dev"}, {"text": "two", "split": "test"}]
    assert load_corpus(json_lines(tmp_path / "g.jsonl", rows), splits="given", min_tokens=0).splits == ("val", "test")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"data_home": "x"}, ValueError, "data_home must be left out unless source is '20newsgroups'"),
        ({"source": "hushvec.data", "data_home": "x"}, ValueError, "data_home must be left out unless source is '20newsgroups'"),
    ],
)
def test_bad_arguments(posts, change, error, words):
    with pytest.raises(error, match=words):
        load_corpus(**{"source": posts, **change})
