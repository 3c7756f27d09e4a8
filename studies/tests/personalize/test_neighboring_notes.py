"""What training an adapter leaves behind depends on a note only through what the noise covers."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
from transformers import GPT2Config, GPT2LMHeadModel  # noqa: E402

from hushvec_studies.personalize.adapter import Schedule, learn  # noqa: E402
from hushvec_studies.personalize.coding import Coded, Coding  # noqa: E402
from training.neighbor_runs import ALL, LEAKS, NEIGHBORS, differences, generators, left_by  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
COVERED = ("*.lora_?.*", "returned.moved")


class Seen(Coding):
    """Tells of every batch to a leak."""

    def __init__(self, data):
        super().__init__(None, (), 0, 31, ())
        self.data = data

    def batch(self, notes):
        self.data.saw([len(note.ids) for note in notes])
        return super().batch(notes)


def run(folder, data):
    model = GPT2LMHeadModel(GPT2Config(vocab_size=32, n_positions=16, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=31))
    for one in model.parameters():
        one.requires_grad_(False)
    notes = [Coded((*example.tokens, 31), (), ()) for example in data.examples]
    schedule = Schedule(epsilon=4.0, delta=1e-3, batch=8, steps=len(data.draws), clip_norm=1.0, learning_rate=0.1, rank=2)
    done = learn(model, ["c_attn"], Seen(data), notes, schedule, 1)
    torch.save({"weights": done.model.state_dict(), "random": generators()}, "adapter.pt")
    return {"model": done.model, "moved": done.moved, "accounting": done.accounting, "trainable": done.trainable,
            "seconds": done.seconds, "epsilon": done.epsilon_at(1e-4)}


@pytest.mark.parametrize("neighbor", NEIGHBORS)
def test_only_the_adapter_differs(neighbor, tmp_path, monkeypatch):
    first, other = (left_by(run, tmp_path / str(number), data, monkeypatch) for number, data in enumerate((ALL, NEIGHBORS[neighbor])))
    assert differences(first, other, COVERED) == []
    assert differences(first, other), "the adapter shows the note"


@pytest.mark.parametrize("leak", LEAKS)
def test_a_planted_leak_is_found(leak, tmp_path, monkeypatch):
    planted, neighbor, _ = LEAKS[leak]
    left = [
        left_by(run, tmp_path / str(number), replace(data, leak=planted), monkeypatch, protected=planted is not None)
        for number, data in enumerate((ALL, NEIGHBORS[neighbor]))
    ]
    assert differences(*left, COVERED)
