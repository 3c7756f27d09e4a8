"""hushvec demo: from every source of text, honest about what is left, one clear line for what cannot be read."""

import io
import json
import os
import re
from statistics import NormalDist

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here
from evidence.reference.sizes import scaled
from hushvec._util.display import Progress, announced
from hushvec._util.lines import SHIPPED_NOTES, SHIPPED_SENTENCES, shipped_texts
from hushvec.cli._demo_attack import NOTE_TOPICS, TOPIC_OF, TOPICS, StolenVectors, TooFewPeople, cosines, learned_topics, nearest
from hushvec.data import private_note_vectors, private_notes, public_sentence_vectors, public_sentences
from hushvec.mechanisms import PrivUnit
from hushvec.receipts.aggregates import AggregateReceipt
from hushvec.text.corpus import PublicCorpus

needs_model = pytest.mark.skipif(
    __import__("importlib.util").util.find_spec("sentence_transformers") is None,
    reason="sentence_transformers is not installed: pip install '.[text]'"
)


FIXED = ("--unsafe-seed", 1)


@pytest.fixture(autouse=True, scope="module")
def every_text_is_embedded_once():
    """In this process: most of a demo's time goes into the same public sentences."""
    from hushvec.cli import demo
    from hushvec.embedders.minilm import MiniLMEmbedder

    known = {}

    class Remembering(MiniLMEmbedder):
        def embed(self, texts):
            new = [text for text in dict.fromkeys(texts) if text not in known]
            known.update(zip(new, super().embed(new)))
            return np.array([known[text] for text in texts])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "MiniLMEmbedder", Remembering)
        yield


def demo(*arguments, run=hushvec_here, **settings):
    finished = run("demo", *arguments, "--json", **settings)
    assert finished.code == 0, finished.err
    assert finished.err == ""
    return json.loads(finished.out)


def test_the_shipped_notes():
    found = demo(run=scaled(hushvec_here, hushvec))
    assert len(found["texts"]) == len(shipped_texts(SHIPPED_NOTES)) == 80
    receipt = hv.Receipt.from_dict(found["receipt"])
    assert hv.verify_receipt(receipt).status == "holds"
    assert (receipt.mechanism, receipt.epsilon, receipt.delta, receipt.rows, receipt.dimension) == ("privunit", 8.0, 0.0, 80, 384)
    assert found["mean_cosine"] == pytest.approx(PrivUnit(epsilon=8.0, dimension=384).expected_cosine(), abs=0.03)
    corpus = set(shipped_texts(SHIPPED_SENTENCES))
    assert all(text["nearest_before"] in corpus and text["nearest_after"] in corpus for text in found["texts"])
    assert all(text["cosine_before"] >= text["cosine_after"] - 1e-6 for text in found["texts"])
    assert set(found["seconds"]) == {"read vectors", "release and decode", "other epsilons", "topics in aggregate"}
    assert list(found["mechanisms"]) == ["gaussian", "laplacian", "privunit", "randomized_response"]


def test_what_a_thief_gets():
    """Without noise every text. The list is the 80 notes among 240 public sentences, so chance is 1 in 320."""
    found = demo()
    assert (found["candidates"], found["picked_without_noise"]) == (320, 1.0)
    picked = {line["epsilon"]: line["picked"] for line in found["sweep"]}
    assert list(picked) == [1.0, 2.0, 4.0, 8.0, 16.0]
    # 800 releases each: at epsilon 1 about 4 are picked, at 16 about 760.
    assert picked[1.0] < 0.05 < 0.8 < picked[16.0]
    topics = [line["same_topic"] for line in found["public_choice"]["sweep"]]
    assert topics[0] < 0.4 < 0.8 < topics[3] <= topics[4] + 0.1


def test_bounds_are_those_of_the_claims():
    """(1 + v) / 2 with the total variation v: (e^epsilon - 1) / (e^epsilon + 1) for pure epsilon, p (1 - e^-epsilon) for PrivUnitG,
    (e^epsilon - 1) / (e^epsilon + k - 1) among k; Phi(1 / sigma) for a Gaussian of sensitivity 2. No claim, no bound."""
    found = demo("--no-sweep")
    grown = np.exp(8.0)
    receipts = {name: outcome["receipt"] for name, outcome in found["mechanisms"].items()}
    variations = {
        "laplacian": (grown - 1) / (grown + 1),
        "privunit": receipts["privunit"]["cap_probability"] * (1 - 1 / grown),
        "randomized_response": (grown - 1) / (grown + receipts["randomized_response"]["label_count"] - 1),
    }
    for name, variation in variations.items():
        assert found["mechanisms"][name]["right_one_of_two"] == pytest.approx((1 + variation) / 2, rel=1e-9)
    gaussian = found["mechanisms"]["gaussian"]
    assert gaussian["right_one_of_two"] == pytest.approx(NormalDist().cdf(1 / gaussian["receipt"]["sigma"]), rel=1e-6)
    assert gaussian["right_one_of_two"] == pytest.approx(0.7976, abs=1e-4)
    seeded = demo("--no-sweep", *FIXED)
    assert [one["right_one_of_two"] for one in seeded["mechanisms"].values()] == [None] * 4
    assert "no claim" in hushvec_here("demo", "--no-sweep", *FIXED).out


def test_a_thief_is_no_better_than_the_bound_allows():
    """Told one of two texts, by the likelihood of either: 4,000 trials at epsilon 1, Hoeffding at alpha = 1e-6."""
    from hushvec.cli._demo_attack import releaser

    embedder = np.eye(2, 384, dtype=np.float32)
    corpus = PublicCorpus(("yes", "no"), embedder)
    texts = ["yes", "no"] * 2000
    stolen = StolenVectors(texts, np.tile(embedder, (2000, 1)), corpus)
    settings = {"epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.0, "sigma": None, "per": "record", "generator": None}
    margin = np.sqrt(np.log(1e6) / (2 * len(texts)))
    for name in ("gaussian", "laplacian", "privunit", "randomized_response"):
        outcome = releaser(stolen, name, settings)()
        assert outcome.picked < outcome.right_one_of_two + margin
    assert outcome.picked > outcome.right_one_of_two - margin  # randomized response over two texts is the worst there is
    assert stolen.picked_clean() == 1.0


def test_public_sentences_keep_most():
    """80 notes at epsilon = 8 among 318 sentences: 72 are expected to get their nearest one, with a standard deviation of 2.6; fewer
    than 56 would be six of these. Noisy vectors at epsilon = 8 keep fewer than half of that."""
    found = demo("--no-sweep")
    chosen = found["public_choice"]
    receipt = hv.LabelReceipt.from_dict(chosen["receipt"])
    assert hv.verify_receipt(receipt).status == "holds" and receipt.is_dp_claim
    assert (receipt.epsilon, receipt.delta, receipt.answers) == (8.0, 0.0, 80)
    assert chosen["same_sentence"] >= 56 / 80 > 2 * found["same_sentence"]
    kept = sum(text["public_choice"] == text["nearest_before"] for text in found["texts"])
    assert kept == round(80 * chosen["same_sentence"]) and f"{kept} of 80 texts" in chosen["verdict"]


def test_topics_in_aggregate():
    """Of 320 sentences 20 draws got .73 right (deviation .013), from rows at epsilon 1 .35: .6 is ten deviations from both."""
    found = demo("--no-sweep")["aggregate"]
    rows = {line["epsilon"]: line for line in found["rows"]}
    assert found["people"] == 8000 and found["right_without_noise"] == 238 / 320
    assert rows[1.0]["right"] < 0.6 < min(found["right"], rows[8.0]["right"])
    receipt = AggregateReceipt.from_dict(found["receipt"])
    assert (receipt.epsilon, receipt.delta, receipt.adjacency, receipt.rows) == (1.0, 1e-5, "replace-one", 8000)
    assert hv.verify_receipt(receipt).status == "holds"
    # Phi(1 / (2 noise_multiplier)) for the centroids, (1 + p (1 - e^-epsilon)) / 2 for a row
    assert found["right_one_of_two"] == pytest.approx(NormalDist().cdf(0.5 / receipt.noise_multiplier), rel=1e-6)
    cap = PrivUnit(epsilon=1.0, dimension=384).cap_probability
    assert rows[1.0]["right_one_of_two"] == pytest.approx((1 + cap * (1 - np.exp(-1.0))) / 2, rel=1e-9)
    assert demo("--no-sweep", *FIXED)["aggregate"]["right_one_of_two"] is None


def test_topics_of_too_few_people_are_not_released():
    """From `enough` people on the noise of a centroid, sigma sqrt(d) of n / k rows, is shorter than a row; a topic may have none."""
    notes = StolenVectors(private_notes(), private_note_vectors(), PublicCorpus(tuple(public_sentences()), public_sentence_vectors()))
    few = learned_topics(notes, NOTE_TOPICS, 80, 1e-5, None)
    assert isinstance(few, TooFewPeople) and few.times == few.enough / 80
    assert few.enough == int(np.ceil(2 * 3.7306316 * 8 * np.sqrt(384)))
    enough = learned_topics(notes, np.minimum(NOTE_TOPICS, 3), few.enough, 1e-5, None)
    assert enough.people == few.enough and 0 < enough.clean < 0.75


def test_topics_are_those_of_the_sentences():
    sentences = shipped_texts(SHIPPED_SENTENCES)
    assert sum(TOPICS.values()) == len(sentences) == len(TOPIC_OF)
    topic_of = dict(zip(sentences, (list(TOPICS)[number] for number in TOPIC_OF)))
    for sentence, topic in (
        ("Sugar feeds the bacteria that harm teeth.", "health"),
        ("Credit card debt grows quickly when payments are missed.", "money"),
        ("Vineyards need years before the first good harvest.", "money"),
        ("Users who change their phone number may lose access to an account.", "customers"),
        ("Employees should tell their manager when they will be late.", "work"),
        ("Courts decide about custody in the interest of the child.", "law"),
        ("Passengers can ask for a wheelchair at the airport.", "travel"),
        ("Dyslexia makes learning to read difficult.", "school"),
        ("A leaking pipe can damage the ceiling below.", "home"),
    ):
        assert topic_of[sentence] == topic


def test_the_story_fits_two_screens():
    lines = hushvec_here("demo").out.splitlines()
    assert len(lines) <= 60 and max(map(len, lines)) <= 80
    titles = [line for line in lines if line[:1].isdigit()]
    assert [title[0] for title in titles] == list("123456")
    assert [title[3:] for title in titles] == [
        "Someone stole your vectors",
        "Release the first of them at epsilon 8",
        "A smaller epsilon: more privacy, less use",
        "What survives in aggregate at epsilon 1",
        "The receipt of public text, verified",
        "Next",
    ]
    text = "\n".join(lines)
    assert "the right text\n   for 80 of 80." in text
    assert "is Marisa Quell came in with chest pain" in text
    assert "holds: (8.0, 0.0)-DP under replacement" in text


def test_colors_leave_the_story_as_it_is(monkeypatch):
    plain = hushvec_here("demo", *FIXED).out
    monkeypatch.setattr("hushvec.cli._style.is_colored", lambda stream: True)
    colored = hushvec_here("demo", *FIXED).out
    assert "\x1b[" in colored and "\x1b[" not in plain
    bare = re.sub(r"\x1b\[[0-9;]*m", "", colored)
    assert [line.rstrip() for line in bare.splitlines()] == plain.splitlines()
    assert "guarantee  none" in plain and "! key from a user-given seed" in plain


def test_printed_bounds_are_rounded_up():
    printed = hushvec_here("demo", "--epsilon", 1, "--no-sweep").out
    bounds = {"laplacian": "<= 73.2 %", "privunit": "<= 68.7 %", "public text": "<= 68.3 %"}  # 73.106, 68.626 and 68.228
    found = {name: line for line in printed.splitlines() for name in bounds if line.strip().startswith(name)}
    assert {name: line[-9:] for name, line in found.items()} == bounds
    assert any(line.split() == ["centroids,", "epsilon", "1", *line.split()[3:5], "<=", "55.4", "%"] for line in printed.splitlines())


@needs_model
def test_releases_of_own_texts_are_added_up():
    printed = hushvec_here("demo", "-", "--no-sweep", stdin=b"One line only").out
    told = " ".join(printed.split())
    assert "published together, they cost epsilon 32, delta 1e-05 (only one of them: its own)." in told
    assert "Nothing of 1 text: the noise in the centroid of a topic would be 1,170 times" in told
    assert "Only the receipts and the released sentences are protected." in told
    assert "hushvec rewrite notes.txt --lines" in told


@needs_model
def test_texts_of_one_person_have_no_shares_and_no_claim_has_no_sum():
    """Reports of one person's texts would cost epsilon each."""
    told = hushvec_here("demo", "-", "--per", "release", "--no-sweep", stdin=b"One line only").out
    assert "in aggregate" not in told and "they cost epsilon 32, delta 1e-05" in " ".join(told.split())
    assert "they cost" not in hushvec_here("demo", "-", "--no-sweep", *FIXED, stdin=b"One line only").out
    assert "they cost" not in hushvec_here("demo", "-", "--no-sweep", "--mechanism", "privunit", stdin=b"One line only").out


def test_a_mechanism_that_is_named_is_the_only_release():
    assert demo("--mechanism", "gaussian", "--no-sweep")["public_choice"] is None
    printed = hushvec_here("demo", "--mechanism", "privunit", "--no-sweep").out
    assert "public text" not in printed and "The receipt of privunit, verified" in printed
    assert demo("--epsilon", 3, "--no-sweep")["public_choice"]["receipt"]["epsilon"] == 3.0


def test_the_verdict_follows_the_measurement():
    only = ("--mechanism", "gaussian", "--no-sweep", *FIXED)
    assert demo("--epsilon", 1, *only)["verdict"].startswith("Nothing useful survives")
    assert demo("--epsilon", 5000, *only)["verdict"].startswith("Most of the meaning survives")
    assert demo("--epsilon", 100, *only)["verdict"].startswith("Little survives")
    printed = hushvec_here("demo", "--epsilon", 1, *only).out
    assert "Nothing useful survives" in printed
    assert "guarantee  none" in printed


def test_without_useful_noise_decoding_is_unchanged():
    found = demo("--mechanism", "empirical", "--sigma", 1e-4)
    assert found["same_sentence"] == 1.0
    assert found["sweep"] == []
    assert found["receipt"]["epsilon"] > 1e6


@needs_model
def test_file_folder_and_standard_input(tmp_path):
    (tmp_path / "b.txt").write_text("Second note.\n\n  Third note.  \n")
    (tmp_path / "a.md").write_text("Erste Notiz: Überweisung.\n")
    (tmp_path / "ignored.pdf").write_bytes(b"\xff\xfe")
    texts = ["Erste Notiz: Überweisung.", "Second note.", "Third note."]
    shown = ("--no-sweep", "--show-original")
    assert [text["text"] for text in demo(tmp_path, *shown)["texts"]] == texts
    assert [text["text"] for text in demo(tmp_path / "b.txt", *shown)["texts"]] == texts[1:]
    assert [text["text"] for text in demo("-", *shown, stdin=b"One line only")["texts"]] == ["One line only"]


@needs_model
def test_a_text_of_the_user_is_not_printed_unasked():
    asked = ("demo", "-", "--no-sweep", *FIXED)
    for options in ((), ("--json",)):
        assert "quokka" not in hushvec_here(*asked, *options, stdin=b"The quokka is overdue.").out
    assert [list(text) for text in demo(*asked[1:], stdin=b"The quokka is overdue.")["texts"]] == [["nearest_after", "public_choice"]]
    assert "The quokka is overdue." in hushvec_here(*asked, "--show-original", stdin=b"The quokka is overdue.").out


def test_settings_reach_the_receipt():
    receipt = demo("--mechanism", "laplacian", "--epsilon", 500, "--per", "release", "--unsafe-seed", 3, "--no-sweep")["receipt"]
    assert (receipt["mechanism"], receipt["per"], receipt["key_source"]) == ("laplacian", "release", "seed")
    assert receipt["is_dp_claim"] is False


@needs_model
def test_the_embedder():
    from hushvec.embedders.minilm import MiniLMEmbedder

    embedder = MiniLMEmbedder()
    vectors = embedder.embed(["A doctor saw a patient.", "A physician met a patient.", "Shares fell sharply."])
    assert vectors.shape == (3, 384)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert vectors[0] @ vectors[1] > 0.6 > 0.3 > vectors[0] @ vectors[2]
    assert embedder.embed([]).shape == (0, 384)
    for wrong in ("one string", ["text", None]):
        with pytest.raises(TypeError, match="texts must be a sequence of strings"):
            embedder.embed(wrong)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["absent.txt"], "absent.txt: No such file or directory"),
        (["empty.txt"], "empty.txt: must hold at least one line of text"),
        (["folder"], "folder: must hold at least one line of text"),
        (["binary.txt"], "binary.txt: must be UTF-8 text"),
        (["--epsilon", "0"], "epsilon must be > 0, got 0.0"),
        (["--delta", "2"], "delta must be > 0 and < 1, got 2.0"),
        (["--clip-norm", "-1"], "clip_norm must be > 0, got -1.0"),
        (["--mechanism", "empirical"], "sigma must be given for mechanism 'empirical'"),
        (["--show", "-1"], "show must be >= 0, got -1"),
    ],
)
def test_bad_input(tmp_path, monkeypatch, arguments, text):
    (tmp_path / "empty.txt").write_text("\n  \n")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert_one_line(hushvec_here("demo", *arguments), text)


def test_without_the_text_extra(tmp_path):
    """A module of that name that cannot be imported stands for a missing one. The shipped notes need no model."""
    (tmp_path / "sentence_transformers.py").write_text("raise ImportError('absent')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    own = hushvec("demo", "-", environment={"PYTHONPATH": path}, stdin=b"A note.")
    assert_one_line(own, "embedding texts needs more packages: pip install 'hushvec[text]'")
    assert demo("--no-sweep", run=hushvec, environment={"PYTHONPATH": path})["picked_without_noise"] == 1.0


def test_the_next_command_says_what_it_needs(monkeypatch):
    monkeypatch.setattr("hushvec.cli._demo_steps.find_spec", lambda name: None)
    lines = hushvec_here("demo", "--no-sweep").out.splitlines()
    assert "   hushvec demo notes.txt  your own texts (first: pip install 'hushvec[text]')" in lines
    assert max(map(len, lines)) <= 80


def test_shipped_sentences():
    private, public = shipped_texts(SHIPPED_NOTES), shipped_texts(SHIPPED_SENTENCES)
    assert 60 <= len(private) <= 100
    assert len(public) >= 300
    assert len(set(public)) == len(public)
    assert not set(private) & set(public)


def test_nearest_is_the_largest_cosine():
    corpus = np.eye(5, dtype=np.float32)
    vectors = np.random.default_rng(0).standard_normal((10_000, 5)).astype(np.float32)
    np.testing.assert_array_equal(nearest(vectors, corpus), vectors.argmax(axis=1))
    assert cosines(vectors, vectors) == pytest.approx(1)
    assert cosines(np.zeros((1, 5), np.float32), vectors[:1])[0] == 0


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_to_a_person_only(monkeypatch):
    monkeypatch.setattr("hushvec._util.display.SHOW_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("hushvec._util.display.REDRAW_SECONDS", 0.0)
    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        with Progress("rows", 4, stream) as progress:
            progress.advance(1)
            progress.advance(3)
        assert ("rows [" in stream.getvalue()) is shown
        assert ("4/4" in stream.getvalue()) is shown
    with Progress("rows", 0, Terminal()) as progress:
        progress.advance(0)


def test_progress_says_how_long_the_rest_takes(monkeypatch):
    moments = iter([0.0, 10.0, 10.0, 10.0])
    monkeypatch.setattr("time.monotonic", lambda: next(moments))
    terminal = Terminal()
    Progress("rows", 4, terminal).advance(1)
    assert "1/4 30 s left" in terminal.getvalue()


def test_what_is_announced_is_gone_when_it_is_done():
    terminal, pipe = Terminal(), io.StringIO()
    with announced("loading the model", terminal), announced("loading the model", pipe):
        assert "loading the model ..." in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")
    assert pipe.getvalue() == ""


def test_the_first_announcement_stays_until_its_work_is_done():
    terminal = Terminal()
    with announced("loading the models", terminal), announced("loading the corrector", terminal):
        pass
    assert terminal.getvalue() == "\rloading the models ...\033[K\r\033[K"


def test_short_work_shows_no_progress():
    terminal = Terminal()
    with Progress("rows", 4, terminal) as progress:
        progress.advance(4)
    assert terminal.getvalue() == ""
