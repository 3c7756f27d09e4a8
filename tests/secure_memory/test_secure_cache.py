"""SecureCache in transformers' hands: the bits of DynamicCache, in memory that forgets."""

import copy
import os
import pickle
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from transformers import (  # noqa: E402
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
)

from hushvec.secure_memory import SecureBuffer, SecureCache, SecureMemoryError  # noqa: E402
from secure_memory.memory_counts import counts  # noqa: E402
from secure_memory.memory_scan import SECRET_BYTES, Scanner, write_secret  # noqa: E402
from secure_memory.no_locking import forbid_locking  # noqa: E402

SMALL = dict(vocab_size=64, bos_token_id=0, eos_token_id=None, pad_token_id=0)
LLAMA = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **SMALL)


def make_model(kind):
    torch.manual_seed(0)
    if kind == "gpt2":
        return GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=64, **SMALL)).eval()
    if kind == "llama":
        return LlamaForCausalLM(LlamaConfig(**LLAMA)).eval()
    return MistralForCausalLM(MistralConfig(sliding_window=6, **LLAMA)).eval()


@pytest.fixture(scope="module", params=["gpt2", "llama", "mistral"])
def model(request):
    return make_model(request.param)


@pytest.fixture(scope="module")
def gpt2():
    return make_model("gpt2")


PROMPT = torch.arange(2 * 9).reshape(2, 9) * 7 % 61 + 1


def states(batch=1, heads=2, positions=3, width=4, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(batch, heads, positions, width, generator=generator).to(dtype) for _ in range(2))


@pytest.mark.parametrize("how", [{}, {"num_beams": 3}], ids=["greedy", "beams"])
def test_generates_what_dynamic_cache_generates(model, how):
    expected = model.generate(PROMPT, max_new_tokens=8, do_sample=False, past_key_values=DynamicCache(config=model.config), **how)
    cache = SecureCache(model.config, capacity=4)   # grows on the way
    assert torch.equal(model.generate(PROMPT, max_new_tokens=8, do_sample=False, past_key_values=cache, **how), expected)
    assert cache.get_seq_length() == PROMPT.shape[1] + 7


def test_generates_by_looking_up_the_prompt():
    """Guessed tokens that prove wrong are cropped again."""
    model, prompt = make_model("llama"), torch.tensor([[1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]])
    expected = model.generate(prompt, max_new_tokens=12, do_sample=False)
    how = dict(max_new_tokens=12, do_sample=False, prompt_lookup_num_tokens=3)
    assert torch.equal(model.generate(prompt, past_key_values=SecureCache(model.config), **how), expected)


def test_encoder_and_decoder():
    torch.manual_seed(0)
    config = transformers.T5Config(d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, **SMALL)
    model = transformers.T5ForConditionalGeneration(config).eval()
    caches = transformers.EncoderDecoderCache(SecureCache(), SecureCache())
    expected = model.generate(PROMPT, max_new_tokens=6, do_sample=False)
    assert torch.equal(model.generate(PROMPT, max_new_tokens=6, do_sample=False, past_key_values=caches), expected)


def test_logits_have_the_same_bits(model):
    with torch.no_grad():
        caches = [DynamicCache(config=model.config), SecureCache(model.config, capacity=2)]
        for begin, end in ((0, 5), (5, 6), (6, 9)):
            plain, secure = (model(PROMPT[:, begin:end], past_key_values=cache).logits for cache in caches)
            assert torch.equal(plain, secure)


def test_without_a_config_layers_come_as_they_are_used():
    cache = SecureCache()
    assert len(cache) == 0 and cache.get_seq_length() == 0
    keys, values = states()
    got = cache.update(keys, values, 1)
    assert len(cache) == 2 and torch.equal(got[0], keys) and torch.equal(got[1], values)
    assert [kept is None for kept, *_ in cache] == [True, False]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_operations_are_those_of_dynamic_cache(dtype):
    plain, secure = DynamicCache(), SecureCache(capacity=2)
    for step in range(4):
        keys, values = states(batch=3, positions=step + 1, dtype=dtype, seed=step)
        for cache in (plain, secure):
            cache.update(keys, values, 0)
    for change in (
        lambda cache: cache.reorder_cache(torch.tensor([2, 0, 0])),
        lambda cache: cache.reorder_cache(torch.tensor([0, 1, 1])),
        lambda cache: cache.crop(-3),
        lambda cache: cache.batch_repeat_interleave(2),
        lambda cache: cache.batch_select_indices(torch.tensor([0, 3, 5])),
        lambda cache: cache.batch_select_indices(torch.tensor([True, False, True])),
        lambda cache: cache.update(*states(batch=2, positions=5, dtype=dtype, seed=9), 0),
    ):
        change(plain)
        change(secure)
        assert secure.get_seq_length() == plain.get_seq_length()
        assert torch.equal(secure.layers[0].keys, plain.layers[0].keys)
        assert torch.equal(secure.layers[0].values, plain.layers[0].values)
    assert secure.get_mask_sizes(1, 0) == plain.get_mask_sizes(1, 0)
    secure.crop(4)
    assert secure.get_seq_length() == 4


def test_a_deep_copy_is_another_cache(gpt2):
    with SecureCache(gpt2.config) as first, torch.no_grad():
        gpt2(PROMPT, past_key_values=first)
        second = copy.deepcopy(first)
    assert first.get_seq_length() == 0 and second.get_seq_length() == 9
    expected = gpt2.generate(PROMPT, max_new_tokens=4, do_sample=False)
    second.crop(-1)
    assert torch.equal(gpt2.generate(PROMPT, max_new_tokens=4, do_sample=False, past_key_values=second), expected)


def test_scrub_and_reset_empty_it_and_release_gives_it_back(gpt2):
    before = counts()["buffer_bytes"]
    cache = SecureCache(gpt2.config, capacity=16)
    for empty in (cache.scrub, cache.reset, cache.release):
        with torch.no_grad():
            gpt2(PROMPT, past_key_values=cache)
        seen = cache.layers[1].values
        assert seen.any()
        empty()
        assert not seen.any() and cache.get_seq_length() == 0
    del seen
    assert counts()["buffer_bytes"] == before
    cache.update(*states(batch=5), 0)       # another batch, once it is empty
    cache.scrub()
    cache.update(*states(batch=2), 0)
    assert cache.get_seq_length() == 3


# ---- in memory ----


def planted(name, batch=1, heads=2, positions=3, width=4):
    """Keys and values whose first row of positions begins with a secret, themselves in a SecureBuffer."""
    shape = (batch, heads, positions, width)
    buffer = SecureBuffer(2 * 4 * int(np.prod(shape)))
    write_secret(name, memoryview(buffer.numpy()[:SECRET_BYTES]))
    return buffer, buffer.torch(torch.float32, (2, *shape))


def times(name):
    return Scanner(name).in_process(os.getpid())


class PlainCache(DynamicCache):
    """The mutant: scrubbed, it begins anew, and what it held stays where it was."""

    def scrub(self):
        self.left = [(layer.keys, layer.values) for layer in self.layers]
        self.reset()


@pytest.mark.parametrize("kind, name, expected", [(SecureCache, 21, 0), (PlainCache, 22, 1)], ids=["secure", "mutant"])
def test_a_scan_after_scrub(kind, name, expected):
    cache = kind()
    buffer, (keys, values) = planted(name)
    cache.update(keys, values, 0)
    assert times(name) == 2
    buffer.release()
    assert times(name) == 1
    cache.scrub()
    assert times(name) == expected


def test_a_state_lies_in_one_place_at_a_time():
    """After growth, reordering, repeating, selecting, cropping; and nowhere after each end there is."""
    cache = SecureCache(capacity=3)
    buffer, (keys, values) = planted(23, batch=2)
    cache.update(keys, values, 0)
    buffer.release()
    for change in (
        lambda: cache.update(*states(batch=2, positions=2, seed=1), 0),
        lambda: cache.update(*states(batch=2, positions=9, seed=2), 0),
        lambda: cache.reorder_cache(torch.tensor([1, 0])),
        lambda: cache.batch_select_indices(torch.tensor([1])),
        lambda: cache.crop(-2),
    ):
        change()
        assert times(23) == 1
    twin = copy.deepcopy(cache)
    assert times(23) == 2
    twin.release()
    cache.crop(-cache.get_seq_length())
    assert times(23) == 0


# ---- fork, refusals, bad input ----


def exit_code_of_a_child(work):
    """0 if `work` returned True in a forked child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)   # Python 3.12 warns of forks beside threads; the child starts none
        child = os.fork()
    if child == 0:
        code = 2
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_strict_raises_before_a_state_is_written():
    """Where locking is refused; the cache is as it was, and no secret lies anywhere but where it came from."""

    def work():
        forbid_locking()
        buffer = torch.zeros(2, 1, 2, 3, 4)
        write_secret(24, memoryview(buffer.view(-1).numpy()).cast("B")[:SECRET_BYTES])
        cache = SecureCache(strict=True)
        try:
            cache.update(buffer[0], buffer[1], 0)
        except SecureMemoryError as error:
            return "mlock was refused" in str(error) and cache.get_seq_length() == 0 and times(24) == 1
        return False

    assert exit_code_of_a_child(work) == 0


def test_a_forked_child_is_told():
    cache = SecureCache()
    cache.update(*states(), 0)

    def work():
        told = 0
        for use in (cache.get_seq_length, lambda: cache.update(*states(), 0), lambda: copy.deepcopy(cache)):
            try:
                use()
            except SecureMemoryError as error:
                told += "zeros here" in str(error)
        cache.scrub()
        return told == 3 and cache.get_seq_length() == 0

    assert exit_code_of_a_child(work) == 0
    assert cache.get_seq_length() == 3


GO_WITH = "keys and values must go with (1, 2, 8, 4) float32 and (1, 2, 8, 4) float32"


def graph():
    keys, values = states()
    return keys.requires_grad_(), values


@pytest.mark.parametrize(
    "new, text",
    [
        (graph, "a SecureCache is for inference: use torch.no_grad(), a graph would keep copies of every state"),
        (
            lambda: tuple(tensor.to("meta") for tensor in states()),
            "a SecureCache keeps CPU tensors, got meta: device memory cannot be locked",
        ),
        (
            lambda: (states()[0], states(positions=2)[1]),
            "keys and values must be [batch, heads, positions, width] alike, got (1, 2, 3, 4) float32 and (1, 2, 2, 4) float32",
        ),
        (
            lambda: tuple(tensor[0] for tensor in states()),
            "keys and values must be [batch, heads, positions, width] alike, got (2, 3, 4) float32 and (2, 3, 4) float32",
        ),
        (
            lambda: states(batch=2),
            f"{GO_WITH}, got (2, 2, 3, 4) float32 and (2, 2, 3, 4) float32",
        ),
        (
            lambda: states(dtype=torch.float16),
            f"{GO_WITH}, got (1, 2, 3, 4) float16 and (1, 2, 3, 4) float16",
        ),
    ],
)
def test_bad_states_change_nothing(new, text):
    cache = SecureCache(capacity=8)
    keys, values = states()
    cache.update(keys, values, 0)
    with pytest.raises(ValueError) as raised:
        cache.update(*new(), 0)
    assert str(raised.value) == text
    assert cache.get_seq_length() == 3 and torch.equal(cache.layers[0].keys, keys)


def test_bad_caches():
    for make, error, text in (
        (lambda: SecureCache(capacity=0), ValueError, "capacity must be >= 1, got 0"),
        (lambda: SecureCache(capacity=1.0), TypeError, "capacity must be a whole number, got float"),
        (lambda: pickle.dumps(SecureCache()), TypeError, "a SecureCache cannot be pickled: the copy would be ordinary memory"),
        (
            lambda: SecureCache(transformers.MambaConfig(num_hidden_layers=1)),
            ValueError,
            "layers must be full or sliding-window attention, layer 0 is LinearAttentionLayer",
        ),
    ):
        with pytest.raises(error) as raised:
            make()
        assert str(raised.value) == text
