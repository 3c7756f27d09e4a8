"""A decoder of one's own: what it learns, that a run is repeatable and resumable to the bit, and what is refused."""

import csv
import json
import shutil
import signal

import numpy as np
import pytest
from inverters.toy_decoder import DIMENSION, SMALL, TEXTS, ToyEmbedder, interrupt, send

from hushvec.embedders.checkpoints import Tokens
from hushvec.mechanisms import Gaussian, PrivUnit, PublicProjection
from hushvec.text.inverters.protocol import LawInverter
from hushvec.text.inverters.trained import TrainedInverter
from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter
from hushvec.text.inverters.vec2text.loading import load_inversion
from hushvec_studies.inverters import SIZES, DecoderSize, network, train_inverter
from hushvec_studies.inverters.corpus import END_ID, IGNORED, Batches, labels_of, learned_tokens, split_corpus
from hushvec_studies.inverters.network import ReleaseLaw, public_generator

pytest.importorskip("tokenizers")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

LEARNING = {
    **SMALL,
    "size": DecoderSize(width=48, layers=1, heads=2, feed_forward=96, positions=4, bottleneck=48),
    "epochs": 15,
    "learning_rate": 1e-2,
    "dropout": 0.0,
    "validation": 0.2,
    "checkpoint_every": 1000,
}


def train(folder, **more):
    return train_inverter(more.pop("corpus", TEXTS), folder, **{"embedder": ToyEmbedder(), **SMALL, **more})


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def losses(folder):
    with (folder / "curve.csv").open(newline="") as file:
        return [(row["step"], row["training_loss"], row["validation_loss"]) for row in csv.DictReader(file)]


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def share_of_words(texts, decoded):
    """How many words stand in their places."""
    found = [word == other for text, other in zip(texts, decoded, strict=True) for word, other in zip(text.split(), other.split())]
    return sum(found) / (4 * len(texts))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoders") / "clean"
    return folder, train(folder, **LEARNING)


# ---- what it learns ----


def test_it_decodes_texts_that_it_was_never_trained_on(trained):
    """52 of 256 sentences are held out; guessing puts a quarter of the words right."""
    folder, summary = trained
    held_out = split_corpus(TEXTS, 0.2).texts[: summary.held_out_texts]
    decoded = TrainedInverter.from_folder(folder, device="cpu").invert(ToyEmbedder().embed(held_out))
    assert len(held_out) > 30
    assert share_of_words(held_out, decoded) > 0.9
    assert summary.finished and summary.stopped_by is None
    assert summary.validation_loss < 0.2


def test_noise_in_training_helps_with_released_rows(trained, tmp_path):
    """Cross-entropy of a token on rows released in a stream that training never saw: one decoder knows how unsure to be."""
    mechanism = Gaussian(epsilon=16.0, delta=1e-3, clip_norm=1.0, dimension=DIMENSION)
    named = {"mechanism": "gaussian", "epsilon": 16.0, "delta": 1e-3, "clip_norm": 1.0}
    train(tmp_path / "noisy", **{**LEARNING, "epochs": 8, **named})
    released = ReleaseLaw(mechanism).released(ToyEmbedder().embed(TEXTS), public_generator(1, "test", 0))

    def loss(folder):
        checkpoint = load_inversion(folder, device="cpu")
        labels = torch.from_numpy(labels_of(checkpoint.tokens.ids(TEXTS, LEARNING["max_tokens"])))
        with torch.no_grad():
            return float(checkpoint.model(torch.from_numpy(released), labels))

    assert loss(tmp_path / "noisy") < 0.7 * loss(trained[0])


# ---- the same run again, and in parts ----

NOISY = {"mechanism": "gaussian", "epsilon": 20.0, "projection": 8, "epochs": 2, "dropout": 0.2}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(folder, **NOISY)
    return folder


def test_the_same_seed_gives_the_same_bits_and_another_seed_others(uninterrupted, tmp_path):
    before = torch.get_rng_state()
    train(tmp_path / "again", **NOISY)
    assert torch.equal(torch.get_rng_state(), before)
    assert weights(tmp_path / "again") == weights(uninterrupted)
    assert losses(tmp_path / "again") == losses(uninterrupted)
    train(tmp_path / "other", **NOISY, seed=1)
    assert weights(tmp_path / "other") != weights(uninterrupted)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_goes_on_to_the_same_bits(uninterrupted, tmp_path, monkeypatch, number):
    folder, handlers = tmp_path / "parts", [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    interrupt(monkeypatch, 8, send(number))
    stopped = train(folder, **NOISY)
    assert (stopped.step, stopped.finished, stopped.stopped_by) == (8, False, number)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
    embedder = ToyEmbedder()
    resumed = train(folder, **NOISY, embedder=embedder, resume=True)
    assert resumed.finished and resumed.step == resumed.steps > 8
    assert embedder.texts == 1  # one text tells the dimension; the rest is in the folder
    assert weights(folder) == weights(uninterrupted)
    assert losses(folder) == losses(uninterrupted)
    assert files(folder) == files(uninterrupted)


def test_a_killed_run_goes_on_from_its_last_checkpoint_to_the_same_bits(uninterrupted, tmp_path, monkeypatch):
    def die():
        raise MemoryError

    interrupt(monkeypatch, 8, die)  # checkpoints are after steps 5, 10, ...
    with pytest.raises(MemoryError):
        train(tmp_path / "killed", **NOISY)
    assert train(tmp_path / "killed", **NOISY, resume=True).finished
    assert weights(tmp_path / "killed") == weights(uninterrupted)
    assert losses(tmp_path / "killed") == losses(uninterrupted)


def test_a_finished_run_is_resumed_to_nothing_new(uninterrupted):
    before = weights(uninterrupted)
    assert train(uninterrupted, **NOISY, resume=True).finished
    assert weights(uninterrupted) == before


def test_the_second_signal_is_not_waited_with(tmp_path, monkeypatch):
    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    interrupt(monkeypatch, 3, twice)
    # A shell starts what runs in its background with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "run")
    finally:
        signal.signal(signal.SIGINT, before)


def test_embedding_goes_on_where_it_was_interrupted(tmp_path, monkeypatch):
    class Interrupted(ToyEmbedder):
        def embed(self, texts):
            if self.texts > 100:
                raise KeyboardInterrupt
            return super().embed(texts)

    monkeypatch.setattr("hushvec_studies.harness.embeddings.SHARD", 32)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "run", embedder=Interrupted())
    embedder = ToyEmbedder()
    train(tmp_path / "run", embedder=embedder, resume=True)
    assert embedder.texts == 1 + 256 - 4 * 32


# ---- the checkpoint ----


def test_the_loader_of_vec2text_reads_it(trained):
    folder, _ = trained
    rows = ToyEmbedder().embed(TEXTS[::7])
    ours = TrainedInverter.from_folder(folder, device="cpu").invert(rows)
    theirs = Vec2TextInverter.from_pretrained(folder, device="cpu", max_length=SMALL["max_tokens"] + 1).invert(rows)
    assert ours == [text.strip() for text in theirs]


def test_published_weights_read_embeddings_as_they_are(uninterrupted, tmp_path):
    """The network learned on rows divided by their root mean square: both give one loss, and without the fold they do not."""
    saved = torch.load(uninterrupted / "checkpoint.pt", weights_only=True)
    published = load_inversion(uninterrupted, device="cpu").model
    learned = network.new_network(published.config).eval()
    learned.load_state_dict(saved["network"])
    rows, labels = torch.from_numpy(ToyEmbedder().embed(TEXTS[:8])), torch.full((8, 3), 5)
    assert saved["state"]["best_step"] == saved["state"]["step"]
    with torch.no_grad():
        loss, of_scaled, of_others = (
            float(loss) for loss in (published(rows, labels), learned(rows / saved["scale"], labels), learned(rows, labels))
        )
    assert loss == pytest.approx(of_scaled, rel=1e-5)
    assert abs(loss - of_others) > 1e-4


@pytest.mark.parametrize("name, millions", [("tiny", 1.85), ("small", 6.3), ("base", 54.8)])
def test_sizes_have_the_parameters_that_the_documentation_says(name, millions):
    from hushvec_studies.inverters.settings import Settings

    numbers = {key: SMALL[key] for key in ("max_tokens", "epochs", "batch_size", "checkpoint_every")}
    settings = Settings(size=SIZES[name], vocabulary=4096, learning_rate=1e-3, dropout=0.1, validation=0.1, seed=0, **numbers)
    with torch.device("meta"):
        model = network.new_network(network.network_config(settings, 4096, 384, "toy"))
    assert round(sum(parameter.numel() for parameter in model.parameters()) / 1e6, 2 if millions < 2 else 1) == millions


def test_beams_and_rows_at_once_change_no_contract(trained):
    inverter = TrainedInverter.from_folder(trained[0], device="cpu", beams=3)
    assert inverter.invert(np.empty((0, DIMENSION), np.float32)) == []
    rows = ToyEmbedder().embed(TEXTS[:70])
    assert share_of_words(TEXTS[:70], inverter.invert(rows)) > 0.9
    assert inverter.invert(rows[:3].astype(np.float64)) == inverter.invert(rows[:3])


@pytest.mark.parametrize(
    "embeddings, message",
    [
        (np.zeros(DIMENSION, np.float32), "embeddings must have shape (n, 16), got (16,)"),
        (np.zeros((2, 5), np.float32), "embeddings must have shape (n, 16), got (2, 5)"),
        (np.full((2, DIMENSION), np.nan, np.float32), "embeddings must be finite in float32, got NaN or Inf in row 0"),
        (np.full((1, DIMENSION), 1e300), "embeddings must be finite in float32, got NaN or Inf in row 0"),
        (np.zeros((2, DIMENSION), int), "embeddings must be a numpy array of floats, got int64"),
        ([[0.0] * DIMENSION], "embeddings must be a numpy array of floats, got list"),
    ],
)
def test_rows_that_cannot_be_decoded(trained, embeddings, message):
    with pytest.raises((ValueError, TypeError)) as error:
        TrainedInverter.from_folder(trained[0], device="cpu").invert(embeddings)
    assert str(error.value) == message


def test_rewriting_takes_the_mechanism_that_a_decoder_was_trained_for(uninterrupted):
    """Another one would be decoded too, only worse."""
    from hushvec.text.rewriting.choices import best_mechanism

    for inverter in (uninterrupted, str(uninterrupted), TrainedInverter.from_folder(uninterrupted)):
        assert best_mechanism(inverter) == "gaussian"


def test_it_is_an_inverter_for_releases_behind_its_own_map(uninterrupted):
    inverter = TrainedInverter.from_folder(uninterrupted, device="cpu")
    assert isinstance(inverter, LawInverter)
    assert (inverter.dimension, inverter.embedder_name) == (DIMENSION, "toy")
    projection = inverter.projection_for("gaussian", 20.0)
    assert projection.output_dimension == 8 and inverter.projection_for("privunit", 20.0) is None
    mechanism = Gaussian(epsilon=20.0, delta=1e-3, dimension=8)
    inside = projection.transform(ToyEmbedder().embed(TEXTS[:5]))
    assert inverter.for_release(mechanism, projection).invert(inside) == inverter.invert(projection.lift(inside))
    assert inverter.for_release(mechanism, None) is inverter


# ---- noise ----


def test_noise_is_fresh_in_every_step_and_the_same_when_asked_again():
    law = ReleaseLaw(Gaussian(epsilon=8.0, dimension=DIMENSION))
    rows = ToyEmbedder().embed(TEXTS)
    first, again, next_step, held_out, other_seed = (
        law.released(rows, public_generator(*arguments))
        for arguments in [(0, "step", 1), (0, "step", 1), (0, "step", 2), (0, "held-out", 1), (1, "step", 1)]
    )
    assert (first == again).all()
    for other in (next_step, held_out, other_seed):
        # 4,096 differences of independent noises: their standard deviation is that of one times sqrt(2), within 8 standard errors
        assert np.std(first - other) == pytest.approx(np.sqrt(2) * law.mechanism.sigma, rel=8 / np.sqrt(2 * 4096))


def test_rows_behind_a_map_come_back_to_the_space_of_the_embedder():
    rows = ToyEmbedder().embed(TEXTS)
    projection = PublicProjection.fit(rows, components=5)
    released = ReleaseLaw(PrivUnit(epsilon=16.0, dimension=5), projection).released(rows, public_generator(0, "step", 0))
    assert released.shape == rows.shape and released.dtype == np.float32
    assert np.allclose(projection.lift(projection.transform(released)), released, atol=1e-4)
    assert not np.allclose(projection.lift(projection.transform(rows)), released, atol=0.1)


# ---- texts, tokens, batches ----


def test_what_is_held_out_depends_on_the_text_alone():
    part = split_corpus(TEXTS[:120][::-1], 0.2)
    whole = split_corpus(TEXTS, 0.2)
    assert set(part.texts[: part.held_out]) == set(whole.texts[: whole.held_out]) & set(TEXTS[:120])
    assert split_corpus(["one", "two"], 1e-9).held_out == split_corpus(["one", "two"], 0.999999).held_out == 1
    assert split_corpus(["one", "two"], 1e-9).digest != split_corpus(["one", "six"], 1e-9).digest


def test_a_vocabulary_gives_every_text_back():
    tokens = learned_tokens(TEXTS, 300)
    texts = ["red cats eat fish", "  Größe \t 你好 🙂 \x00 </b> don't .", "<pad"]
    ids = tokens.ids(texts, 200)
    assert tokens.size <= 300 and tokens.texts(ids) == texts
    assert all(row[-1] == END_ID for row in ids)
    assert tokens.ids(texts, 4)[0][-1] == END_ID and len(tokens.ids(texts, 4)[0]) == 4


def test_a_saved_vocabulary_is_the_same_in_the_words_of_every_release(uninterrupted):
    """tokenizers 0.19, which transformers 4.44 needs, reads no merges that are lists."""
    corpus = split_corpus(TEXTS, 0.05)
    learned = learned_tokens(corpus.texts[corpus.held_out :], SMALL["vocabulary"])
    saved = Tokens.read(uninterrupted)
    assert saved.tokenizer.get_vocab() == learned.tokenizer.get_vocab()
    assert saved.ids(TEXTS, 99) == learned.ids(TEXTS, 99)
    merges = json.loads((uninterrupted / "tokenizer.json").read_text())["model"]["merges"]
    assert merges and all(isinstance(merge, str) and merge.count(" ") == 1 for merge in merges)


def test_every_epoch_has_every_text_once_in_another_order():
    lengths = np.random.default_rng(0).integers(2, 40, 1000)
    batches = Batches(lengths, 32, seed=3)
    epochs = [np.concatenate([batches.at(step) for step in range(first, first + 32)]) for first in (0, 32)]
    assert batches.in_epoch == 32
    assert all((np.sort(epoch) == np.arange(1000)).all() for epoch in epochs)
    assert (epochs[0] != epochs[1]).any()
    assert (Batches(lengths, 32, seed=3).at(40) == batches.at(40)).all()
    padded = sum(labels_of([[0] * lengths[each] for each in batches.at(step)]).size for step in range(32))
    assert padded < 1.2 * lengths.sum()
    assert labels_of([[3], [4, 5]]).tolist() == [[3, IGNORED], [4, 5]]


# ---- bad input: one line, and nothing half-written ----


class Wrong(ToyEmbedder):
    """Right for the one text that tells the dimension, wrong for the many that follow."""

    def __init__(self, change):
        super().__init__()
        self.change = change

    def embed(self, texts):
        rows = super().embed(texts)
        return rows if len(texts) == 1 else self.change(rows)


def nan_in_row_17(rows):
    rows[17, 3] = np.nan
    return rows


@pytest.mark.parametrize(
    "change, message",
    [
        ({"corpus": []}, "corpus: must hold at least 2 different texts, got 0"),
        ({"corpus": [" a text ", "a text", " "]}, "corpus: must hold at least 2 different texts, got 1"),
        ({"corpus": ["a text", None]}, "corpus must be a path or a sequence of strings, got NoneType in it"),
        ({"corpus": ["a text", "\ud800"]}, "corpus: text 1: must be text that UTF-8 can hold, got half of a surrogate pair"),
        ({"text_key": "text"}, "text_key must be left out where corpus is a sequence of texts"),
        ({"size": "huge"}, "size must be one of 'tiny', 'small', 'base', got 'huge'"),
        ({"vocabulary": 10}, "vocabulary must be >= 300, got 10"),
        ({"max_tokens": 513}, "max_tokens must be <= 512, got 513"),
        ({"epochs": 0}, "epochs must be >= 1, got 0"),
        ({"batch_size": True}, "batch_size must be a whole number, got true or false"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite, got nan"),
        ({"dropout": 1.0}, "dropout must be < 1, got 1.0"),
        ({"validation": 0.0}, "validation must be > 0, got 0.0"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
        ({"device": "abacus"}, "device must be a device of torch, such as 'cpu' or 'cuda', got 'abacus'"),
        ({"mechanism": "gaussian"}, "epsilon must be given for mechanism 'gaussian'"),
        ({"mechanism": "magic", "epsilon": 1.0}, "mechanism must be one of"),
        ({"epsilon": 1.0}, "epsilon must be left out without the name of a mechanism, got 1.0"),
        ({"projection": 4}, "projection must be left out without a mechanism, before which it would stand"),
        ({"projection": 17, "mechanism": "privunit", "epsilon": 1.0}, "projection must have at most 16 components"),
        ({"embedder": 3}, "model must have embed(texts)"),
        ({"embedder": Wrong(nan_in_row_17)}, "model output must be finite, got nan in row 17"),
        ({"embedder": Wrong(lambda rows: rows[:, 1:])}, "model output must have 16 columns, as for the first text, got 15"),
        ({"embedder": Wrong(lambda rows: rows[1:])}, "model output must have 256 rows, one for each text, got 255"),
        ({"embedder": Wrong(lambda rows: "rows")}, "model output must be rows of numbers, got str"),
    ],
    ids=lambda value: value[:60] if isinstance(value, str) else "",
)
def test_what_is_refused_leaves_nothing_behind(tmp_path, change, message):
    with pytest.raises((ValueError, TypeError)) as error:
        train(tmp_path / "run", **change)
    assert str(error.value).startswith(message)
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    "content, key, message",
    [
        (b"", None, "must hold at least 2 different texts, got 0"),
        (b"one\xff\ntwo\n", None, "must be UTF-8 text, got byte 0xff at 3"),
        (b'{"text": "one"}\n{"text": 2}\n', "text", "line 2: 'text' must be a string, got int"),
        (b'{"text": "one"}\n\n{"tex\n', "text", "line 3: not JSON: "),
        (b'{"text": "one"}\n{"text": "\\ud800"}\n', "text", "line 2: must be text that UTF-8 can hold"),
    ],
)
def test_files_that_are_refused(tmp_path, content, key, message):
    (tmp_path / "corpus").write_bytes(content)
    with pytest.raises(ValueError) as error:
        train(tmp_path / "run", corpus=tmp_path / "corpus", text_key=key)
    assert str(error.value).startswith(f"{tmp_path / 'corpus'}: {message}")
    assert files(tmp_path) == ["corpus"]


def test_lines_and_json_lines_are_the_same_corpus(tmp_path):
    (tmp_path / "lines").write_text("".join(f"{text} \r\n\n" for text in TEXTS[:20]), encoding="utf-8")
    (tmp_path / "json").write_text("".join(json.dumps({"t": text, "x": 1}) + "\n" for text in TEXTS[:20] * 2))
    for corpus, key in [("lines", None), ("json", "t")]:
        train(tmp_path / f"of {corpus}", corpus=tmp_path / corpus, text_key=key)
    assert weights(tmp_path / "of lines") == weights(tmp_path / "of json")


def test_folders_that_are_refused(uninterrupted, tmp_path):
    def message(folder, **more):
        with pytest.raises(ValueError) as error:
            train(folder, **more)
        return str(error.value)

    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    assert message(tmp_path / "full") == f"{tmp_path / 'full'}: must be empty or not exist, so that nothing in it is overwritten"
    assert message(tmp_path / "full" / "letter.txt").endswith("letter.txt: must be a folder or not exist")
    assert message(tmp_path / "no" / "run") == f"{tmp_path / 'no' / 'run'}: the folder {tmp_path / 'no'} must exist"
    assert message(uninterrupted) == f"{uninterrupted} holds a training run already: resume it, or choose another folder"
    assert message(tmp_path / "none", resume=True) == f"{tmp_path / 'none'} holds no training run: run.json is missing"
    different = message(uninterrupted, **{**NOISY, "epochs": 3, "epsilon": 21.0, "corpus": TEXTS[1:]}, resume=True)
    assert different.startswith(f"{uninterrupted} holds a run of other settings: corpus.digest is ")
    assert different.endswith("mechanism.epsilon is 20.0, asked for 21.0; settings.epochs is 2, asked for 3")
    assert files(tmp_path) == ["full"] and files(tmp_path / "full") == ["letter.txt"]


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    """A full disk, in the place of a missing permission: root has every one."""

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hushvec._util.publish.os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        train(tmp_path / "run")
    assert files(tmp_path) == []


def test_damaged_files_of_a_run(uninterrupted, tmp_path):
    def copied(name, content):
        shutil.copytree(uninterrupted, tmp_path / name.replace(".", " "))
        (tmp_path / name.replace(".", " ") / name).write_bytes(content)
        return tmp_path / name.replace(".", " ")

    for name, action, message in [
        ("checkpoint.pt", lambda folder: train(folder, **NOISY, resume=True), "cannot be read as a checkpoint of this run"),
        ("run.json", lambda folder: train(folder, **NOISY, resume=True), "cannot be read as JSON"),
        ("model.safetensors", TrainedInverter.from_folder, "cannot be read as safetensors"),
        ("tokenizer.json", TrainedInverter.from_folder, "cannot be read as a tokenizer"),
    ]:
        with pytest.raises(ValueError, match=message):
            action(copied(name, b"nonsense"))


def test_a_run_without_a_decoder_yet(tmp_path, monkeypatch):
    interrupt(monkeypatch, 2, send(signal.SIGTERM))
    assert train(tmp_path / "run").best_step == 0
    with pytest.raises(ValueError, match="has no decoder yet: the run in it ended before its first validation; resume it"):
        TrainedInverter.from_folder(tmp_path / "run")


def test_a_loss_that_overflows_ends_the_run(tmp_path):
    with pytest.raises(ValueError, match="learning_rate must be lower: the loss of step"):
        train(tmp_path / "run", learning_rate=1e30)
