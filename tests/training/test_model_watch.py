"""What forward passes write into a model is refused: by the gradients' source, by the step, in the guarantee and in a checkpoint."""

import pytest
import torch

from hushvec.training import ModelChangedError, load_checkpoint, per_example_gradients, save_checkpoint
from hushvec.training.ghost import GhostClipping
from hushvec.training.guarantee import NOTE_ACCEPTED, NOTE_ALLOWED, NOTE_CHANGED, NOTE_UNWATCHED
from training.small_runs import examples_of, loss, model_of, optimizer_of

F = torch.nn.functional


class Writing(torch.nn.Module):
    """A layer that writes in forward, and a Linear that learns."""

    def __init__(self, write):
        super().__init__()
        self.write = write
        self.out = torch.nn.Linear(3, 2)
        self.register_buffer("average", torch.zeros(3))
        self.table = torch.nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, rows):
        with torch.no_grad():
            self.write(self, rows)
        return self.out(rows * self.table)


def replaced(module, rows):
    module.average = 0.9 * module.average + 0.1 * rows.mean(0)


def added(module, rows):
    module.register_buffer("seen", rows.mean(0))


WRITES = {
    "in place": lambda module, rows: module.average.add_(rows.mean(0)),
    "replaced": replaced,
    "added": added,
    "behind the counter, small": lambda module, rows: module.average.data.add_(rows.mean(0)),
    "storage swapped": lambda module, rows: setattr(module.average, "data", rows.mean(0)),
    "frozen parameter": lambda module, rows: module.table.mul_(1 + rows.mean(0)),
    "frozen parameter, behind the counter": lambda module, rows: module.table.data.mul_(1 + rows.mean(0)),
    "trained parameter": lambda module, rows: module.out.bias.add_(rows.mean()),
    "trained parameter, behind the counter": lambda module, rows: module.out.bias.data.add_(rows.mean()),
    "statistics that torch does not count": lambda module, rows: F.batch_norm(
        rows, module.average, torch.ones(3), training=True
    ),
}
LAYERS = {
    "max_norm": lambda: torch.nn.Sequential(torch.nn.Embedding(5, 3, max_norm=0.1), torch.nn.Flatten(), torch.nn.Linear(3, 2)),
    "bag with max_norm": lambda: torch.nn.Sequential(torch.nn.EmbeddingBag(5, 3, max_norm=0.1), torch.nn.Linear(3, 2)),
    "instance norm": lambda: torch.nn.Sequential(
        torch.nn.Embedding(5, 3), torch.nn.InstanceNorm1d(1, track_running_stats=True), torch.nn.Flatten(), torch.nn.Linear(3, 2)
    ),
    "batch norm in training mode": lambda: torch.nn.Sequential(
        torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)
    ),
    "observer": lambda: torch.nn.Sequential(
        torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.ao.quantization.MinMaxObserver(), torch.nn.Linear(3, 2)
    ),
}


def leave_gradients(model):
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.grad_sample = torch.zeros(4, *parameter.shape)


@pytest.mark.parametrize("write", WRITES)
def test_a_step_refuses_what_its_model_has_written(write, tmp_path):
    model = Writing(WRITES[write])
    optimizer = optimizer_of(model, model=model)
    leave_gradients(model)
    optimizer.step()
    assert optimizer.guarantee().is_dp_claim
    save_checkpoint(tmp_path / "before", optimizer, model)
    model(examples_of(4)[0])
    leave_gradients(model)
    with pytest.raises(ModelChangedError, match=r"outside of the private steps, got another '(average|seen|table|out\.bias)'"):
        optimizer.step()
    assert optimizer.steps_taken == 1
    guarantee = optimizer.guarantee()
    assert not guarantee.is_dp_claim and any(note.startswith(NOTE_CHANGED[:40]) for note in guarantee.notes)
    with pytest.raises(ModelChangedError):
        save_checkpoint(tmp_path / "after", optimizer, model)
    assert not (tmp_path / "after").exists()
    optimizer.accept_changes()
    optimizer.step()
    assert optimizer.guarantee().is_dp_claim and NOTE_ACCEPTED in optimizer.guarantee().notes


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_layers_that_write(layer, frozen):
    model = LAYERS[layer]()
    for parameter in list(model.parameters())[:-2]:
        parameter.requires_grad_(not frozen)
    model.eval() if layer.startswith("batch norm") else None
    optimizer = optimizer_of(model, model=model)
    model.train()
    model(torch.tensor([[1], [2], [3], [3]]))
    leave_gradients(model)
    with pytest.raises(ModelChangedError):
        optimizer.step()


def test_a_layer_that_the_optimizer_trains_needs_no_model():
    model = LAYERS["max_norm"]()
    optimizer = optimizer_of(model)
    model(torch.tensor([[1], [2]]))
    leave_gradients(model)
    with pytest.raises(ModelChangedError, match=r"got another \"param_groups\[0\]\['params'\]\[0\]\""):
        optimizer.step()


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
@pytest.mark.parametrize("layer", ["max_norm", "bag with max_norm", "batch norm in training mode", "observer"])
def test_gradients_of_examples_are_refused_with_the_reason(layer, frozen):
    """By name where the layer is known to mix examples, by the write where it is not; vmap refuses some writes itself."""
    model = LAYERS[layer]()
    model[0].weight.requires_grad_(not frozen)
    with pytest.raises((ValueError, RuntimeError)):
        per_example_gradients(model, lambda predict, ids: predict(ids).sum(), torch.tensor([[1], [2], [3]]))
    assert all(getattr(parameter, "grad_sample", None) is None for parameter in model.parameters())


@pytest.mark.parametrize("write", [name for name in WRITES if not name.startswith("trained")])
def test_ghost_clipping_refuses_what_the_forward_pass_writes(write):
    model = Writing(WRITES[write])
    rows = examples_of(4)[0]
    with GhostClipping(model, 1.0) as ghost:
        with pytest.raises(ModelChangedError):
            ghost.backward(model(rows).square().sum(1))
        assert getattr(model.out.weight, "clipped_sum", None) is None


def test_ghost_clipping_sees_a_mode_that_is_switched_after_the_check():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3).requires_grad_(False)).eval()
    with GhostClipping(model, 1.0, check=False) as ghost:
        ghost.backward(model(torch.randn(4, 3)).square().sum(1))
        model.train()
        with pytest.raises(ValueError, match="1 is a BatchNorm1d that normalises by the batch"):
            ghost.backward(model(torch.randn(4, 3)).square().sum(1))


def test_what_the_source_of_gradients_was_given_is_watched_from_then_on():
    model = Writing(lambda module, rows: None)
    optimizer = optimizer_of(model)
    per_example_gradients(model, loss, *examples_of(4))
    optimizer.step()
    assert optimizer.guarantee().is_dp_claim
    model.average.add_(1.0)
    per_example_gradients(model, loss, *examples_of(4))
    with pytest.raises(ModelChangedError, match="'average'"):
        optimizer.step()


def test_without_a_model_no_claim_is_made():
    model = model_of()
    optimizer = optimizer_of(model)
    leave_gradients(model)
    optimizer.step()
    guarantee = optimizer.guarantee()
    assert not guarantee.is_dp_claim and NOTE_UNWATCHED in guarantee.notes
    resumed = optimizer_of(model_of())
    resumed.load_state_dict(optimizer.state_dict())
    assert NOTE_UNWATCHED in resumed.guarantee().notes
    empty = optimizer_of(model_of())
    empty.empty_batch()   # noise alone: there is nothing that a forward pass could have seen
    empty.step()
    assert empty.guarantee().is_dp_claim


def test_named_buffers_may_be_written():
    """The vectors of a spectral norm are a function of the weights."""
    normed = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(3, 2))
    model = torch.nn.Sequential(normed)
    names = [name for name, _ in model.named_buffers()]
    for allowed in ([], names):
        optimizer = optimizer_of(model, model=model, allow_buffers=allowed)
        model(examples_of(4)[0])
        leave_gradients(model)
        if not allowed:
            with pytest.raises(ModelChangedError, match="_u'"):
                optimizer.step()
            continue
        optimizer.step()
        assert optimizer.guarantee().is_dp_claim
        assert NOTE_ALLOWED.format(", ".join(sorted(names))) in optimizer.guarantee().notes
    with pytest.raises(ValueError, match="allow_buffers must name buffers of the model, got 'u'"):
        optimizer_of(model, model=model, allow_buffers=["u"])


def test_a_model_must_have_the_parameters_and_be_the_one_that_is_saved(tmp_path):
    model, other = model_of(), Writing(lambda module, rows: None)
    with pytest.raises(ValueError, match="model must have all parameters of the optimizer"):
        optimizer_of(model, model=other)
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module or None, got dict"):
        optimizer_of(model, model={})
    optimizer = optimizer_of(model, model=model)
    with pytest.raises(ValueError, match="model must be the one that the optimizer watches, got one with 'table'"):
        save_checkpoint(tmp_path / "c", optimizer, other)

    class WithState(torch.nn.Linear):
        def get_extra_state(self):
            return {"mean": 0.5}

    stateful = WithState(3, 2)
    with pytest.raises(ValueError, match=r"which are watched, got get_extra_state\(\) of the model beside them"):
        save_checkpoint(tmp_path / "c", optimizer_of(stateful, model=stateful), stateful)


def test_a_checkpoint_is_loaded_into_a_watched_model(tmp_path):
    model = Writing(lambda module, rows: None)
    optimizer = optimizer_of(model)
    per_example_gradients(model, loss, *examples_of(4))
    optimizer.step()
    save_checkpoint(tmp_path / "c", optimizer, model)
    resumed = optimizer_of(model, model=model)
    load_checkpoint(tmp_path / "c", resumed, model)
    per_example_gradients(model, loss, *examples_of(4))
    resumed.step()
    assert resumed.steps_taken == 2 and resumed.guarantee().is_dp_claim
    with GhostClipping(model, 1.0) as ghost:   # made before the weights are loaded, frozen ones among them
        again = optimizer_of(model, model=model)
        load_checkpoint(tmp_path / "c", again, model)
        ghost.backward(model(examples_of(4)[0]).square().sum(1))
        again.step()
    assert again.steps_taken == 2
