"""The study of personalisation as a command: tiny models, its files, going on after an interruption, bad options."""

import argparse
import csv
import json

import pytest

pytest.importorskip("torch")
pytest.importorskip("peft")
pytest.importorskip("transformers")

from hushvec.training import StepSchedule  # noqa: E402
from hushvec.training.lora import AdapterUnchangedError  # noqa: E402
from hushvec_studies.harness.settings import checked  # noqa: E402
from hushvec_studies.personalize import adapter, command, measure  # noqa: E402
from hushvec_studies.personalize.base import SHAPES, Shape, ready  # noqa: E402
from hushvec_studies.personalize.command import add_arguments, run_personalize, settings_of  # noqa: E402
from hushvec_studies.personalize.plan import Settings, audited, planned  # noqa: E402

SMALL = [
    *("--notes", "120", "--batch", "20", "--steps", "6", "--rank", "2", "--epsilons", "inf", "2"),
    *("--delta", "1e-3"),
]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """A base model of seconds, on one thread."""
    import torch

    monkeypatch.setitem(SHAPES, "tiny", Shape(width=16, layers=1, heads=2, vocabulary=400, context=30, steps=8, batch=16))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def options(folder, *words):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(["-o", str(folder), *SMALL, "--config", "tiny", *words])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A study, done once."""
    folder = tmp_path_factory.mktemp("study")
    shape = SHAPES["tiny"]
    SHAPES["tiny"] = Shape(width=16, layers=1, heads=2, vocabulary=400, context=30, steps=8, batch=16)
    try:
        run_personalize(options(folder))
    finally:
        SHAPES["tiny"] = shape
    return folder


def test_the_files_of_a_study(done):
    names = sorted(path.name for path in done.iterdir())
    assert names == ["measured", "models", "personalize.csv", "personalize.json"]
    study = json.loads((done / "personalize.json").read_text())
    assert "no private releases" in study["note"]
    with (done / "personalize.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(study["rows"]) == 2
    ordinary, private = study["rows"]
    assert ordinary["epsilon"] is None and ordinary["noise_multiplier"] == 0 and ordinary["grade"] is None
    assert ordinary["perplexity_before"] == private["perplexity_before"] > 1
    assert ordinary["perplexity_after"] < ordinary["perplexity_before"]
    assert private["grade"] == "float" and private["clip_norm"] == 1.0
    assert all(0 <= row[f"{name}_{when}"] <= 1 for row in study["rows"] for name in ("f1", "accuracy") for when in ("before", "after"))


def test_epsilon_is_that_of_the_schedule(done):
    private = json.loads((done / "personalize.json").read_text())["rows"][1]
    schedule = StepSchedule(noise_multiplier=private["noise_multiplier"], sampling_probability=20 / 120)
    assert private["epsilon"] == schedule.epsilon(6, 1e-3) <= 2
    assert private["epsilon"] > 1.99 and private["sampling_probability"] == 20 / 120


def test_an_interrupted_study_goes_on_where_it_was(done, tmp_path, monkeypatch, capsys):
    """A run that is there is not done again, nor is the base model; the files come out the same."""
    import shutil

    before = (done / "personalize.csv").read_bytes()
    shutil.copytree(done, tmp_path / "again")
    (tmp_path / "again" / "personalize.json").unlink()
    monkeypatch.setattr(command, "measure", lambda cell: pytest.fail("done again"))
    assert run_personalize(options(tmp_path / "again", "--json")) == 0
    assert (tmp_path / "again" / "personalize.csv").read_bytes() == before
    assert json.loads(capsys.readouterr().out) == json.loads((done / "personalize.json").read_text())


def test_an_adapter_that_does_not_learn_is_no_result(done, monkeypatch, tmp_path):
    """An optimizer that does nothing: the study stops instead of writing a row."""

    class Idle:
        def __init__(self, parameters):
            self.param_groups = [{"params": parameters}]

        def zero_grad(self):
            pass

        def step(self):
            pass

    monkeypatch.setattr(adapter, "_adam", lambda parameters, learning_rate: Idle(parameters))
    settings = settings_of(options(tmp_path, "--epsilons", "inf"))
    with pytest.raises(AdapterUnchangedError, match="must change in every layer"):
        command.personalize_study(settings, tmp_path)
    assert not list(tmp_path.glob("measured/*"))


def test_base_models_are_made_once(done, tmp_path):
    settings = settings_of(options(tmp_path))
    model, coding = ready(settings.base, done / "models")
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert coding.entities == settings.texts.entities and len(list((done / "models").iterdir())) == 1


def with_canaries(folder, *words, **audit):
    """The settings of a study with audits, on few notes."""
    settings = settings_of(options(folder, *words))
    return checked(Settings, dict(settings) | {"audit_notes": 120} | audit)


def audit_of(folder, *words, **more):
    """The audit of a run with 200 canaries at delta 1e-8."""
    schedule = ["--rank", "4", "--batch", "100", "--steps", "20"]
    settings = with_canaries(folder, *schedule, *words, canaries=200, audit_delta=1e-8, **more)
    return audited(planned(settings, folder)[1][0])


def test_an_audit_states_the_claim_at_its_own_delta(done, tmp_path):
    private = audit_of(tmp_path, "--epsilons", "2")
    assert private.epsilon_claimed > 2 and private.delta == 1e-8 and not private.flagged


def test_an_audit_sees_training_without_dp_and_not_training_with_it(done, tmp_path, monkeypatch):
    """Confidence 1 - 1e-6 for the run that must not be flagged."""
    private = audit_of(tmp_path, "--epsilons", "0.5", confidence=0.999999)
    assert private.could_flag and not private.flagged
    ordinary = audit_of(tmp_path, "--epsilons", "inf")
    assert private.epsilon_claimed < 2 < ordinary.epsilon_lower
    monkeypatch.setattr(adapter, "_with_noise", measure.batch_level)
    posing = audit_of(tmp_path, "--epsilons", "0.5")
    assert posing.epsilon_claimed == private.epsilon_claimed
    assert posing.flagged


BAD = [
    (["--batch", "0"], "batch must be >= 1"),
    (["--batch", "121"], "batch must be <= the 120 texts"),
    (["--steps", "0"], "steps must be >= 1"),
    (["--rank", "0"], "rank must be >= 1"),
    (["--delta", "0"], "delta must be > 0"),
    (["--epsilons", "0"], "epsilons[0] must be > 0, got 0.0"),
    (["--clip-norm", "0"], "clip_norm must be > 0"),
    (["--seeds", "-1"], "seeds[0] must be >= 0"),
    (["--notes", "0"], "notes must be >= 1"),
]


@pytest.mark.parametrize("words, said", BAD, ids=[said for _, said in BAD])
def test_options_that_are_refused_before_anything_is_trained(tmp_path, words, said):
    with pytest.raises(ValueError) as caught:
        run_personalize(options(tmp_path / "out", *words))
    assert said in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "audit, said",
    [
        ({"canaries": 8}, "canaries must be 0 or >= 32"),
        ({"canaries": 32, "audit_notes": 10}, "audit_notes must be >= batch = 20"),
        ({"canaries": 32, "confidence": 1.0}, "confidence must be"),
    ],
)
def test_audits_that_are_refused(tmp_path, audit, said):
    with pytest.raises(ValueError, match=said):
        with_canaries(tmp_path, **audit)


@pytest.mark.parametrize("words", [["--epsilons", "small"], ["--epsilons", "nan"], ["--learning-rate", "nan"], ["--config", "huge"]])
def test_words_that_argparse_refuses(tmp_path, words):
    with pytest.raises(SystemExit):
        options(tmp_path, *words)


@pytest.mark.full
def test_the_smallest_preset_says_something(tmp_path, monkeypatch):
    """`--config tiny` as it is: F1 is above chance by its 95 % interval before and after an adapter without DP, and frequent words
    are guessed more often than rare ones."""
    monkeypatch.undo()
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = parser.parse_args(["-o", str(tmp_path), "--config", "tiny", "--epsilons", "inf"])
    (row,) = command.personalize_study(settings_of(given), tmp_path)["rows"]
    for when in ("before", "after"):
        assert row[f"f1_least_{when}"] > 2 * row[f"f1_chance_{when}"] > 0
    assert row["accuracy_frequent_after"] > row["accuracy_rare_after"]
    assert row["perplexity_after"] < row["perplexity_before"]


def test_it_is_a_subcommand():
    from hushvec.cli import main

    with pytest.raises(SystemExit) as left:
        main(["study", "personalize", "--help"])
    assert left.value.code == 0
