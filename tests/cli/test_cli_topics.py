"""`hushvec topics`: the page, figures and receipt, growth since an earlier file, and nothing charged or written on bad input."""

import json
import re

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here
from hushvec.aggregates import PrivateTopics
from hushvec.receipts import AggregateReceipt

KINDS, DIMENSION, PEOPLE = 6, 16, 1500


def around(codes, rng):
    return (np.eye(DIMENSION)[codes] + 0.1 * rng.standard_normal((len(codes), DIMENSION))).astype(np.float32)


@pytest.fixture
def files(tmp_path):
    """A pool with a text that HTML must not take as markup; two periods, of which the second has more of the kind 3."""
    rng = np.random.default_rng(1)
    np.save(tmp_path / "pool.npy", around(np.arange(120) % KINDS, rng))
    (tmp_path / "texts.txt").write_text("".join(f"<b>kind</b> {row % KINDS}\n" for row in range(120)))
    codes = rng.integers(0, KINDS, PEOPLE)
    np.save(tmp_path / "one.npy", around(codes, rng))
    np.save(tmp_path / "two.npy", around(np.where(rng.random(PEOPLE) < 0.2, 3, codes), rng))
    lines = (json.dumps({"embedding": row.tolist(), "who": number // 2}) for number, row in enumerate(around(codes, rng)))
    (tmp_path / "notes.jsonl").write_text("\n".join(lines))
    return tmp_path


COMMAND = ("topics", "one.npy", "--public", "pool.npy", "--public-texts", "texts.txt", "--topics", KINDS)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_page_its_figures_and_its_receipt(files):
    done = hushvec_here(*COMMAND, "-o", "topics.html", "--epsilon", 1, cwd=files)
    assert done.code == 0, done.err
    page, figures = (files / "topics.html").read_text(), PrivateTopics.from_json((files / "topics.json").read_text())
    receipt = AggregateReceipt.from_json((files / "topics.html.receipt.json").read_text())
    assert receipt == figures.receipt and hv.verify_receipt(receipt).status == "holds"
    assert f"votes for {KINDS} topics" in done.out and "uncovered" in done.out
    assert "epsilon 1.0, delta 1e-05 for one person" in done.out
    assert page.count("<li>") == KINDS + 1 and "&lt;b&gt;kind&lt;/b&gt; 3" in page and "<b>kind" not in page
    assert "hushvec topics one.npy --public pool.npy" in page and "What grew" not in page
    assert not re.search(r"(?:src|href)=|url\(|<script|@import", page) and "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page and "@media print" in page


def test_what_grew_since_an_earlier_file(files):
    assert hushvec_here(*COMMAND, "-o", "one.html", "--epsilon", 4, cwd=files).code == 0
    later = ("topics", "two.npy", *COMMAND[2:], "--before", "one.json", "-o", "two.html", "--epsilon", 4, "--json")
    done = hushvec_here(*later, cwd=files)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    most = max(found["growth"], key=lambda one: one["difference"])
    assert most["topic"] == "<b>kind</b> 3" and most["p_value"] < 0.001 and len(found["topics"]) == KINDS + 1
    assert "What grew, and what fell" in (files / "two.html").read_text()


def test_people_with_several_rows_are_bounded(files):
    words = ("topics", "notes.jsonl", *COMMAND[2:], "-o", "t.html", "--epsilon", 64, "--people-key", "who")
    done = hushvec_here(*words, cwd=files)
    assert done.code == 0, done.err
    figures = PrivateTopics.from_json((files / "t.json").read_text())
    assert abs(figures.total - PEOPLE / 2) < 10 and figures.receipt.rows_bound == "people"


def test_texts_of_notes_and_of_the_pool_are_embedded(tmp_path):
    pytest.importorskip("sentence_transformers")
    kinds = {"weather": ("rain", "snow", "wind"), "money": ("invoice", "loan", "tax")}
    texts = [f"The {word} on day {day}." for words in kinds.values() for word in words for day in range(4)]
    (tmp_path / "public.txt").write_text("\n".join(texts))
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps({"text": f"{text} Again."}) + "\n" for text in texts[:12] * 2))
    words = ("topics", "notes.jsonl", "--text-key", "text", "--public", "public.txt", "-o", "t.html", "--topics", 2, "--epsilon", 64)
    done = hushvec_here(*words, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    shares = [one["share"] for one in json.loads(done.out)["topics"][:2]]
    assert max(shares) > 0.5 and "embeddings of texts" in (tmp_path / "t.html").read_text()


def test_an_old_page_is_replaced_by_force_alone(files):
    command = (*COMMAND, "-o", "topics.html", "--epsilon", 1)
    assert hushvec_here(*command, cwd=files).code == 0
    for name in ("topics.html", "topics.html.receipt.json"):
        (files / name).unlink()
    assert_one_line(hushvec_here(*command, cwd=files), "topics.json: must not exist")
    assert hushvec_here(*command, "--force", cwd=files).code == 0


_OUT = ("-o", "topics.html", "--epsilon", "1")
WRONG = {
    "another suffix": ((*COMMAND, "-o", "topics.json", "--epsilon", "1"), "topics.json: must end in .html"),
    "no pool": (("topics", "one.npy", "--public", "absent.npy", *_OUT), "absent.npy"),
    "too few texts": (("topics", "one.npy", "--public", "pool.npy", "--public-texts", "few.txt", *_OUT), "texts must have 120"),
    "texts twice": (("topics", "one.npy", "--public", "few.txt", "--public-texts", "few.txt", *_OUT), "--public-texts must be left"),
    "topics": ((*COMMAND[:-1], "121", *_OUT), "topics must be <= 120"),
    "other columns": (("topics", "wide.npy", "--public", "pool.npy", *_OUT), "rows must have 16 columns, those of pool, got 3"),
    "no earlier": ((*COMMAND, "--before", "absent.json", *_OUT), "absent.json"),
    "a damaged earlier": ((*COMMAND, "--before", "few.txt", *_OUT), "few.txt: text must be of PrivateTopics.to_json"),
    "other topics": ((*COMMAND[:-1], "5", "--before", "earlier.json", *_OUT), "earlier.json: must be of the topics"),
    "epsilon": ((*COMMAND, "-o", "topics.html", "--epsilon", "0"), "epsilon must be > 0, got 0.0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_line_and_charges_nothing(files, case):
    (files / "few.txt").write_text("one\n")
    np.save(files / "wide.npy", np.ones((4, 3), np.float32))
    assert hushvec_here(*COMMAND, "-o", "earlier.html", "--epsilon", 1, cwd=files).code == 0
    hv.PrivacyBudget(2.0, persist_key="notes", store=files / "ledger.db").close()
    before = names(files)
    words, part = WRONG[case]
    assert_one_line(hushvec_here(*words, "--budget", "notes", "--budget-store", "ledger.db", cwd=files), part)
    assert names(files) == before
    with hv.PrivacyBudget.reopen("notes", store=files / "ledger.db") as budget:
        assert budget.consumed() == 0
