"""Adapters that learn, and every way known to us in which one silently does not."""

import warnings

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from hushvec.training.lora import AdapterCheck, AdapterUnchangedError, BaseChangedError, add_lora  # noqa: E402

ROWS = torch.linspace(-1, 1, 12).reshape(3, 4)


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 5), torch.nn.Linear(5, 2)

    def forward(self, rows):
        return self.second(torch.tanh(self.first(rows)))


def adapted(targets=("first", "second")):
    torch.manual_seed(0)
    return add_lora(Small(), rank=2, target_modules=list(targets), seed=1)


def trained(model, optimizer, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        model(ROWS).square().sum().backward()
        optimizer.step()
    return model


def sgd(model):
    return torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)


def test_an_adapter_that_learned():
    model = adapted()
    optimizer = sgd(model)
    check = AdapterCheck(model, probe=ROWS, optimizer=optimizer)
    trained(model, optimizer)
    change = check.require_changed()
    assert set(change.layers) == {"first", "second"} and min(change.layers.values()) > 0 and change.outputs > 0
    check.require_base_unchanged()


def test_the_model_is_the_same_until_it_is_trained():
    torch.manual_seed(0)
    plain = Small()
    answer = plain(ROWS)
    assert torch.equal(add_lora(plain, rank=2, target_modules=["first"])(ROWS), answer)


def test_first_values_come_from_the_seed():
    before = torch.random.get_rng_state()
    one, other = (adapted(["first"]).base_model.model.first.lora_A["default"].weight for _ in range(2))
    assert torch.equal(one, other)
    torch.random.set_rng_state(before)


TARGETS = [
    (["frist"], ValueError, "got 'frist'; there are first, second"),
    (["first", "thrid"], ValueError, "got 'thrid'"),  # PEFT itself accepts this one: the first name matches
    ([], ValueError, "target_modules must name a layer, got none"),
    ("first", TypeError, "must be a sequence of strings, got str"),
]


@pytest.mark.parametrize("targets, error, said", TARGETS)
def test_names_that_no_layer_has(targets, error, said):
    with pytest.raises(error, match=said):
        add_lora(Small(), rank=2, target_modules=targets)


def test_peft_accepts_a_name_that_no_layer_has():
    """Why every name is looked at."""
    from peft import LoraConfig, get_peft_model

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = get_peft_model(Small(), LoraConfig(r=2, target_modules=["first", "thrid"]))
    assert not any("thrid" in name for name, _ in model.named_modules())


@pytest.mark.parametrize(
    "settings, error",
    [({"rank": 0}, ValueError), ({"rank": True}, TypeError), ({"alpha": -1.0}, ValueError), ({"dropout": 1.0}, ValueError)],
)
def test_settings(settings, error):
    with pytest.raises(error, match=next(iter(settings))):
        add_lora(Small(), target_modules=["first"], **settings)


def test_layers_that_have_no_matrix():
    with pytest.raises(ValueError, match="must be Linear or Conv1D layers, got 1 of LayerNorm"):
        add_lora(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)), target_modules=["0", "1"])
    with pytest.raises(ValueError, match="no adapter yet"):
        add_lora(adapted(), target_modules=["first"])


# ---- silent no-ops ----


def test_no_adapter_was_put_in():
    with pytest.raises(AdapterUnchangedError, match="must have LoRA layers, got none"):
        AdapterCheck(Small())


def test_matrices_that_require_no_gradient():
    model = adapted()
    model.base_model.model.second.lora_B["default"].weight.requires_grad_(False)
    with pytest.raises(AdapterUnchangedError, match=r"must require gradients, got second.lora_B.default"):
        AdapterCheck(model)


def test_an_adapter_that_is_switched_off():
    model = adapted()
    with model.disable_adapter(), pytest.raises(AdapterUnchangedError, match="switched off"):
        AdapterCheck(model)


def test_an_optimizer_made_before_the_adapter():
    plain = Small()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    model = add_lora(plain, rank=2, target_modules=["first"])
    with pytest.raises(AdapterUnchangedError, match=r"got one without first.lora_A.default: make it after the adapter"):
        AdapterCheck(model, optimizer=optimizer)
    check = AdapterCheck(model, probe=ROWS)
    trained(model, optimizer)
    with pytest.raises(AdapterUnchangedError, match="got the old B A in first"):
        check.require_changed()


def test_an_optimizer_of_a_copy():
    import copy

    model = adapted()
    with pytest.raises(AdapterUnchangedError, match="must hold the adapter's matrices"):
        AdapterCheck(model, optimizer=sgd(copy.deepcopy(model)))


def test_only_some_layers_learn():
    model = adapted()
    check = AdapterCheck(model)
    held = [one for name, one in model.named_parameters() if "first.lora" in name]
    trained(model, torch.optim.SGD(held, lr=0.1))
    with pytest.raises(AdapterUnchangedError, match="got the old B A in second"):
        check.require_changed()


def test_one_matrix_alone_is_no_change():
    """A moves, B stays zero: the layer adds what it added before, nothing."""
    model = adapted(["first"])
    check = AdapterCheck(model, probe=ROWS)
    with torch.no_grad():
        model.base_model.model.first.lora_A["default"].weight.add_(1.0)
    with pytest.raises(AdapterUnchangedError, match="the old B A"):
        check.require_changed()


def test_an_adapter_that_learned_and_is_not_in_use():
    model = adapted()
    check = AdapterCheck(model, probe=ROWS)
    trained(model, sgd(model))
    with model.disable_adapter(), pytest.raises(AdapterUnchangedError, match="changed and is not in use"):
        check.require_changed()


def test_a_loaded_adapter_whose_names_do_not_fit(tmp_path):
    """PEFT warns and leaves the fresh matrices where they are."""
    from peft import set_peft_model_state_dict

    model = adapted()
    check = AdapterCheck(model, probe=ROWS)
    trained(model, sgd(model))
    kept = {name: one.clone() for name, one in model.state_dict().items() if "lora_" in name}
    fresh = adapted()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        set_peft_model_state_dict(fresh, {f"encoder.{name}": one for name, one in kept.items()})
    with pytest.raises(AdapterUnchangedError, match="the old B A"):
        check.require_changed(fresh)
    fresh.load_state_dict(kept, strict=False)
    assert check.require_changed(fresh).outputs > 0


def test_matrices_that_are_not_finite():
    model = adapted()
    check = AdapterCheck(model)
    with torch.no_grad():
        model.base_model.model.first.lora_B["default"].weight.fill_(float("nan"))
    with pytest.raises(AdapterUnchangedError, match="must be finite, got NaN or Inf in first"):
        check.require_changed()


def test_a_base_that_changed():
    model = adapted()
    check = AdapterCheck(model)
    with torch.no_grad():
        model.base_model.model.first.base_layer.weight[0, 0].mul_(1 + 2**-20)
    with pytest.raises(BaseChangedError, match=r"got another .*first.base_layer.weight"):
        check.require_base_unchanged()


@pytest.mark.parametrize("probe", [3, "text", [1.0]])
def test_probes(probe):
    with pytest.raises(TypeError, match="probe must be a tensor or a mapping"):
        AdapterCheck(adapted(), probe=probe)
