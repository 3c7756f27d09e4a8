"""The encrypted prefix of a cache: the same bits again, nothing readable in the file, and one error for whatever is not right."""

import os
import stat

import pytest

from hushvec.errors import SecureMemoryError
from hushvec.secure_memory import SecureBuffer, SecureCache

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("cryptography")
from secure_memory.memory_counts import counts  # noqa: E402
from secure_memory.small_model import TOKENS, make_model  # noqa: E402

KEY = bytes(range(32))
PREFIX, REST = TOKENS[:, :5], TOKENS[:, 5:]


@pytest.fixture(scope="module")
def model():
    return make_model()


def filled(model, tokens=PREFIX):
    cache = SecureCache.for_model(model, capacity=16)
    with torch.no_grad():
        model(tokens, past_key_values=cache)
    return cache


@pytest.fixture
def saved(model, tmp_path):
    path = tmp_path / "prefix.kv"
    filled(model).save(path, KEY, tokens=PREFIX)
    return path


def contents(cache):
    return [tensor.clone() for layer in cache.layers for tensor in (layer.keys, layer.values)]


def same(left, right):
    return len(left) == len(right) and all(torch.equal(*pair) for pair in zip(left, right, strict=True))


@pytest.mark.parametrize("make", [make_model, lambda: make_model().to(torch.bfloat16)], ids=["float32", "bfloat16"])
def test_a_session_that_begins_with_a_loaded_prefix_has_the_same_bits(make, tmp_path):
    model, path = make(), tmp_path / "prefix.kv"
    cache = filled(model)
    before = contents(cache)
    with SecureBuffer(32) as key:
        key.memory()[:] = KEY
        cache.save(path, key, tokens=PREFIX)
    with torch.no_grad():
        expected = model(REST, past_key_values=cache).logits
    with SecureCache.for_model(make(), capacity=2) as again, torch.no_grad():   # another session, with the same weights
        again.load(path, KEY, tokens=PREFIX)
        assert again.get_seq_length() == 5 and same(contents(again), before)
        assert torch.equal(model(REST, past_key_values=again).logits, expected)
        again.load(path, KEY, tokens=PREFIX)   # in place of what was there
        assert same(contents(again), before)


def test_layers_with_a_sliding_window_come_back(tmp_path):
    torch.manual_seed(0)
    config = transformers.MistralConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=64,
        sliding_window=3,
    )  # fmt: skip
    model = transformers.MistralForCausalLM(config).eval()
    cache = filled(model)
    cache.save(tmp_path / "prefix.kv", KEY, tokens=PREFIX)
    again = SecureCache.for_model(model)
    again.load(tmp_path / "prefix.kv", KEY, tokens=PREFIX)
    with torch.no_grad():
        assert torch.equal(model(REST, past_key_values=again).logits, model(REST, past_key_values=cache).logits)


def test_the_file_shows_its_size_and_is_its_owners(model, saved, tmp_path):
    body = saved.read_bytes()
    for tensor in contents(filled(model)):
        assert not any(row.numpy().tobytes() in body for row in tensor.reshape(-1, 8))
    assert b"float32" not in body and stat.S_IMODE(saved.stat().st_mode) == 0o600 and list(tmp_path.iterdir()) == [saved]
    filled(model).save(tmp_path / "again.kv", KEY, tokens=PREFIX)
    again = (tmp_path / "again.kv").read_bytes()
    assert len(again) == len(body) and again[:16] == body[:16]
    assert sum(a == b for a, b in zip(again[16:], body[16:], strict=True)) < 100   # some 5,300 bytes, 21 by chance


def test_the_layout_is_what_the_documentation_says(model, saved):
    from hashlib import sha256

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cache, body = SecureCache.for_model(model), saved.read_bytes()
    tokens = sha256(b"".join(int(one).to_bytes(8, "little") for one in (2, 5, *PREFIX.reshape(-1)))).digest()
    plain = AESGCM(KEY).decrypt(body[16:28], body[28:], body[:16] + cache._weights + tokens)
    expected = b"".join(tensor.numpy().tobytes() for tensor in contents(filled(model)))
    assert body[:16] == b"hushvec cache 1\n" and plain.endswith(expected)


def test_what_is_not_right_has_one_error_and_changes_nothing(model, saved):
    """Every byte changed, every length, another key, other weights, other tokens."""
    body, cache = saved.read_bytes(), filled(model, TOKENS)
    before, locked = contents(cache), counts()["buffer_bytes"]
    text = "cannot be opened: it was cut or changed, or saved under another key, for other weights or other tokens"

    def refused(key=KEY, tokens=PREFIX, cache=cache):
        with pytest.raises(SecureMemoryError) as raised:
            cache.load(saved, key, tokens=tokens)
        assert str(raised.value) == f"{saved} {text}"

    places = [*range(64), *range(64, len(body), 97), *range(len(body) - 17, len(body))]
    for place in places:
        saved.write_bytes(body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :])
        refused()
        saved.write_bytes(body[:place])
        refused()
    saved.write_bytes(body + b"\0")
    refused()
    saved.write_bytes(body)
    refused(key=KEY[::-1])
    refused(tokens=PREFIX + 1)
    refused(tokens=PREFIX.reshape(1, 10))
    other = make_model()
    with torch.no_grad():
        other.transformer.wte.weight[3, 3] += 1e-3
    refused(cache=SecureCache.for_model(other))
    other = make_model()
    other.config.scale_attn_weights = False
    refused(cache=SecureCache.for_model(other))
    assert same(contents(cache), before) and counts()["buffer_bytes"] == locked
    cache.load(saved, KEY, tokens=PREFIX)


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda cache, at: cache.save(at, KEY[:16], tokens=PREFIX), "key must be 32 bytes long, got 16"),
        (lambda cache, at: cache.save(at, "k" * 32, tokens=PREFIX), "key must be 32 bytes or a SecureBuffer, got str"),
        (lambda cache, at: cache.load(at, bytes(32), tokens=PREFIX),
         "key must not be all zeros: was its buffer scrubbed, or wiped by a fork?"),
        (lambda cache, at: cache.save(at, KEY, tokens=PREFIX[:, :4]),
         "tokens must be those of all positions that the cache holds, [2, 5], got [2, 4]"),
        (lambda cache, at: cache.save(at, KEY, tokens=PREFIX * 1.0),
         "tokens must be whole numbers [batch, positions], got [2, 5] float32"),
        (lambda cache, at: cache.load(at, KEY, tokens=[1, 2]), "tokens must be whole numbers [batch, positions], got [2] int64"),
        (lambda cache, at: SecureCache().save(at, KEY, tokens=PREFIX),
         "the cache must be made by SecureCache.for_model to be saved or loaded, got one of unknown weights"),
    ],
)  # fmt: skip
def test_bad_calls_write_nothing(use, text, model, tmp_path):
    cache = filled(model)
    with pytest.raises((TypeError, ValueError)) as raised:
        use(cache, tmp_path / "none.kv")
    assert str(raised.value) == text
    assert not list(tmp_path.iterdir()) and cache.get_seq_length() == 5


def test_a_prefix_beside_something_else_is_refused(model, tmp_path):
    """Its last bits depend on how much followed, or on who was beside it."""
    text = "the cache must hold a prefix that was run by itself, got one with positions or rows taken out"
    cropped, selected = filled(model, TOKENS), filled(model)
    cropped.crop(-4)
    selected.batch_select_indices(torch.tensor([0]))
    for cache, tokens in ((cropped, PREFIX), (selected, PREFIX[:1])):
        with pytest.raises(ValueError) as raised:
            cache.save(tmp_path / "none.kv", KEY, tokens=tokens)
        assert str(raised.value) == text and not list(tmp_path.iterdir())
        cache.scrub()
        with torch.no_grad():
            model(tokens, past_key_values=cache)
        cache.save(tmp_path / "prefix.kv", KEY, tokens=tokens)
        (tmp_path / "prefix.kv").unlink()


def test_a_failed_save_leaves_the_old_file(model, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        filled(model).save(saved, KEY, tokens=PREFIX)
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]


def test_models_without_a_digest_are_refused(model):
    adapted = make_model()
    adapted.peft_config = {"default": object()}
    for given, error, text in (
        ("gpt2", TypeError, "model must be a transformers model, got str"),
        (adapted, ValueError, "model must have no adapters, which can be switched off and on: merge them into its weights first"),
    ):
        with pytest.raises(error) as raised:
            SecureCache.for_model(given)
        assert str(raised.value) == text
