"""What redaction finds and flags: the measures by hand, the committed figures against today's rules, the page against the file."""

import json
from pathlib import Path

import pytest
from redaction.examples import EXAMPLES, PHONES, Example

from data_files import data_file
from hushvec.text import Redactor
from hushvec_studies.harness.texts import objects_of
from hushvec_studies.redaction import coverage, recall, tab

WRITTEN = Path(coverage.__file__).parent / "results" / "coverage.json"
PAGE = Path(__file__).parents[3] / "docs" / "redaction.md"
JUDGMENTS, needs_judgments = data_file(coverage.JUDGMENTS)
MOST_MORE_FINDS = 1.1
LEAST_DIRECT, LEAST_QUASI, LEAST_PRECISION = 0.97, 0.75, 0.75


@pytest.fixture(scope="module")
def written():
    return json.loads(WRITTEN.read_text(encoding="utf-8"))


def is_hidden(redactor, example):
    """Whether every letter and digit of the secret is redacted."""
    first = example.sentence.index(example.secret)
    covered = {place for span in redactor.detect(example.sentence) for place in range(span.start, span.end)}
    return all(first + at in covered for at, character in enumerate(example.secret) if character.isalnum())


def test_the_examples():
    assert len(EXAMPLES) == 42 and len({example.rule for example in EXAMPLES}) == 33
    redactor = Redactor()
    assert [example for example in EXAMPLES if not is_hidden(redactor, example)] == []
    pytest.importorskip("phonenumbers")
    assert [example for example in PHONES if not is_hidden(redactor, example)] == []


def test_an_example_counts_only_if_all_of_it_is_hidden():
    redactor = Redactor(patterns=["email"])
    assert is_hidden(redactor, Example("", "to a@b.com", "a@b.com"))
    assert is_hidden(redactor, Example("", "to a@b.com.", "a@b.com."))
    assert not is_hidden(redactor, Example("", "to a@b.com", "to a@b.com"))
    assert not is_hidden(redactor, Example("", "to ab.com", "ab.com"))


def test_finds_are_counted_for_1000_posts():
    assert coverage.finds_in_posts(Redactor(patterns=["email", "ip"]), ["a@b.com c@d.com", "10.0.0.1", "", ""]) == {
        "posts": 4,
        "finds": 3,
        "finds_for_1000_posts": {"email address": 500.0, "ip address": 250.0},
    }


def test_the_measure_of_judgments():
    """One direct identifier with two mentions of which one stays, one quasi identifier hidden but for its title and hyphen."""
    text = "Mr Ann-Lee Roe met Mr Roe in Rome, case 7/99."
    mentions = [("e1", "Mr Roe", "DIRECT", "PERSON"), ("e2", "Mr Ann-Lee", "QUASI", "PERSON"), ("e1", "Roe met", "DIRECT", "PERSON"),
                ("e3", "Rome", "NO_MASK", "LOC"), ("e4", "7/99", "DIRECT", "CODE")]  # fmt: skip
    entities = [
        {"start_offset": text.index(words), "end_offset": text.index(words) + len(words), "entity_id": name, "entity_type": kind,
         "identifier_type": identifier}
        for name, words, identifier, kind in mentions
    ]  # fmt: skip
    hidden = ("Ann", "Lee", "Mr Roe", "Rome", "7/99")
    spans = [(text.index(words), text.index(words) + len(words), "x") for words in hidden]
    result = tab.rates([{"text": text, "entities": entities}], lambda _: spans)
    assert result["entities"] == {"DIRECT": 2, "DIRECT CODE": 1, "DIRECT PERSON": 1, "QUASI": 1, "QUASI PERSON": 1}
    assert result["recall"] == {"DIRECT": 0.5, "DIRECT CODE": 1.0, "DIRECT PERSON": 0.0, "QUASI": 1.0, "QUASI PERSON": 1.0}
    assert (result["redacted_words"], result["precision_of_words"]) == (7, round(6 / 7, 4))


def test_each_rung_adds_to_the_one_before():
    class Fixed:
        def __init__(self, start, end):
            self.place = start, end

        def detect(self, text):
            from hushvec.text import Span

            return [Span(*self.place, "", "animal", "", "fixed", 0.5)]

    ladder = coverage.rungs({"one": Fixed(0, 3), "two": Fixed(4, 7)})
    text = "cat dog a@b.com"
    found = {name: sorted(one[:2] for one in detect(text)) for name, detect in ladder.items()}
    assert list(found) == ["rules", "one", "rules + one", "two", "rules + one + two"]
    assert found["rules"] == [(8, 15)] and found["two"] == [(4, 7)]
    assert found["rules + one + two"] == [(0, 3), (4, 7), (8, 15)]


def test_hardly_more_is_flagged_than_before(written):
    before, after = written["before"]["posts"], written["after"]["posts"]
    assert before["posts"] == after["posts"] == 7623
    assert after["finds"] <= MOST_MORE_FINDS * before["finds"]


def test_direct_identifiers_of_judgments(written):
    for name, judged in written["after"]["judgments"].items():
        if name.startswith("rules"):
            assert judged["recall"]["DIRECT"] >= LEAST_DIRECT
            assert judged["recall"]["DIRECT"] > written["before"]["judgments"]["rules"]["recall"]["DIRECT"]


def test_judgments_that_nobody_read_reach_the_aims_too(written):
    for name in ("rules", coverage.HELD_OUT):
        judged = written["after"]["judgments"][name]
        assert judged["recall"]["DIRECT"] >= LEAST_DIRECT and judged["recall"]["QUASI"] >= LEAST_QUASI
        assert judged["precision_of_words"] >= LEAST_PRECISION


@needs_judgments
def test_the_written_figures_of_judgments_are_the_measured_ones(written):
    judgments, detect = list(objects_of(JUDGMENTS)), recall.detect_with(Redactor())
    assert tab.rates(judgments, detect) == written["after"]["judgments"]["rules"]
    assert tab.rates(filter(tab.is_held_out, judgments), detect) == written["after"]["judgments"][coverage.HELD_OUT]


def test_the_page_has_the_ladder(written):
    assert coverage.ladder_table(written["after"]) in PAGE.read_text(encoding="utf-8")


def test_the_page_has_the_recall_of_the_file(written):
    found = written["after"]["sentences"]
    ours, held_out, presidio = found["rules"], found[coverage.TEMPLATES_HELD_OUT], found["presidio"]
    page = PAGE.read_text(encoding="utf-8")
    shown = {"aimed": "e-mail, card, IBAN, SSN, IP, phone, domain"} | {kind: kind for kind in ours if f"| {kind} |" in page}
    assert {"PHONE_NUMBER", "PERSON", "ORGANIZATION", "STREET_ADDRESS"} < set(shown)
    for kind, label in shown.items():
        rates = [ours[kind][name] for name in ("recall", "hidden", "precision")]
        rates += [of[kind]["recall"] for of in (held_out, presidio)]
        cells = ["-" if rate is None else f"{rate:.3f}" for rate in rates]
        assert f"| {label} | {ours[kind]['gold']} | {' | '.join(cells)} |" in page
