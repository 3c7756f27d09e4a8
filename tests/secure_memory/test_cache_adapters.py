"""Adapters of several people in one model: a cache belongs to those that computed it."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("cryptography")
peft = pytest.importorskip("peft")

from hushvec.secure_memory import CacheFileError, SecureCache, model_digest  # noqa: E402
from secure_memory.small_model import KEY, TOKENS, make_model  # noqa: E402

# Of what peft asks transformers, and of several adapters in one model.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning"),
    pytest.mark.filterwarnings("ignore:Already found a `peft_config` attribute:UserWarning"),
]


@pytest.fixture
def two_adapters():
    """One model, and LoRA adapters of two people in it."""
    settings = peft.LoraConfig(r=2, target_modules=["c_attn"], task_type="CAUSAL_LM", fan_in_fan_out=True)
    model = peft.get_peft_model(make_model(), settings, adapter_name="ada")
    model.add_adapter("bob", settings)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(generator=torch.Generator().manual_seed(len(name)))
    return model.eval()


def test_a_digest_tells_active_adapters_apart(two_adapters):
    model = two_adapters
    layer = model.base_model.model.transformer.h[1].attn.c_attn
    ada = model_digest(model)
    seen = [ada]
    model.set_adapter("bob")
    seen.append(model_digest(model))
    with model.disable_adapter():
        seen.append(model_digest(model))
    model.base_model.set_adapter(["ada", "bob"])
    seen.append(model_digest(model))
    model.base_model.set_adapter(["bob", "ada"])
    model.set_adapter("ada")
    with torch.no_grad():
        model(TOKENS)
    assert model_digest(model) == ada
    layer.scaling["ada"] *= 2
    seen.append(model_digest(model))
    layer.scaling["ada"] /= 2
    model.merge_adapter()
    seen.append(model_digest(model))
    assert len(set(seen)) == len(seen) == 6


def test_a_digest_of_a_loaded_adapter_is_that_of_the_saved_one(two_adapters, tmp_path):
    two_adapters.save_pretrained(tmp_path, selected_adapters=["ada", "bob"])
    again = peft.PeftModel.from_pretrained(make_model(), tmp_path / "ada", adapter_name="ada")
    again.load_adapter(tmp_path / "bob", adapter_name="bob")
    assert model_digest(again.eval()) == model_digest(two_adapters)


def test_the_cache_of_one_person_does_not_load_for_another(two_adapters, tmp_path):
    path = tmp_path / "ada.kv"
    with SecureCache.for_model(two_adapters) as cache, torch.no_grad():
        two_adapters(TOKENS, past_key_values=cache)
        cache.save(path, KEY, positions=9)
    two_adapters.set_adapter("bob")
    with SecureCache.for_model(two_adapters) as cache, pytest.raises(CacheFileError, match="belongs to the model"):
        cache.load(path, KEY)
    two_adapters.set_adapter("ada")
    with SecureCache.for_model(two_adapters) as cache:
        assert cache.load(path, KEY) == 9


def test_adapters_that_transformers_put_in_count_too():
    model = make_model()
    plain = model_digest(model)
    for name in ("ada", "bob"):
        model.add_adapter(peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True), adapter_name=name)
    seen = [plain, model_digest(model)]
    model.set_adapter("ada")
    seen.append(model_digest(model))
    model.disable_adapters()
    seen.append(model_digest(model))
    assert len(set(seen)) == 4
