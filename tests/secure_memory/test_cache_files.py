"""Encrypted files of a cache: the first positions and no others, under the right key, for the right model, or nothing."""

import json
import os
import stat

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("cryptography")

from hushvec.secure_memory import CacheFileError, SecureBuffer, SecureCache, model_digest, status  # noqa: E402
from hushvec.secure_memory.sealed_file import MAGIC  # noqa: E402
from secure_memory.small_model import KEY, TOKENS, make_model  # noqa: E402

HEADER_AT = 16


@pytest.fixture(scope="module")
def model():
    return make_model()


@pytest.fixture(scope="module")
def filled(model):
    cache = SecureCache.for_model(model)
    with torch.no_grad():
        for first, last in ((0, 2), (2, 5), (5, 9)):
            model(TOKENS[:, first:last], past_key_values=cache)
    return cache


@pytest.fixture
def saved(filled, tmp_path):
    path = tmp_path / "prefix.kv"
    filled.save(path, KEY, positions=5, tokens=TOKENS)
    return path


def contents(cache):
    return [tensor.clone() for layer in cache.layers for tensor in (layer.keys, layer.values)]


def same(first, second):
    return len(first) == len(second) and all(torch.equal(one, other) for one, other in zip(first, second))


def test_the_first_positions_come_back(model, filled, saved):
    cache = SecureCache.for_model(model, capacity=2)
    assert cache.load(saved, KEY, tokens=TOKENS[:, :5]) == 5
    assert cache.get_seq_length() == 5
    assert same(contents(cache), [tensor[:, :, :5] for tensor in contents(filled)])
    expected = model.generate(TOKENS, max_new_tokens=6, do_sample=False)
    assert torch.equal(model.generate(TOKENS, max_new_tokens=6, do_sample=False, past_key_values=cache), expected)


def test_a_cache_without_config_takes_the_layers_of_the_file(filled, saved):
    cache = SecureCache(model_id=filled.model_id)
    cache.load(saved, bytearray(KEY))
    assert same(contents(cache), [tensor[:, :, :5] for tensor in contents(filled)])


def test_the_key_may_lie_in_a_secure_buffer(filled, saved):
    with SecureBuffer(32) as key:
        memoryview(key.numpy())[:] = KEY
        assert SecureCache(model_id=filled.model_id).load(saved, key) == 5
        key.scrub()
        with pytest.raises(ValueError, match=r"^key must not be all zeros: was its buffer scrubbed, or wiped by a fork\?$"):
            filled.save(saved, key, positions=1)


def test_the_file_has_nothing_plain_and_no_later_positions(filled, saved, tmp_path):
    body = saved.read_bytes()
    for tensor in contents(filled):
        rows = tensor.contiguous().view(torch.uint8).reshape(-1, 32)
        assert not any(bytes(row) in body for row in rows.numpy())
    assert TOKENS[:, :5].numpy().tobytes() not in body
    length = int.from_bytes(body[12:16], "little")
    header = json.loads(body[HEADER_AT : HEADER_AT + length])
    assert set(header) == {"model_id", "dtype", "batch", "positions", "plain_bytes", "layers"}
    # 2 layers x keys and values x 2 rows x 4 heads x 5 positions x 8 floats, and the digest of the tokens
    assert header["plain_bytes"] == 2 * 2 * 2 * 4 * 5 * 8 * 4 + 32
    assert len(body) == HEADER_AT + length + 12 + header["plain_bytes"] + 16
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [saved]


def test_every_file_has_a_nonce_of_its_own(filled, saved, tmp_path):
    again = tmp_path / "again.kv"
    filled.save(again, KEY, positions=5, tokens=TOKENS)
    first, second = saved.read_bytes(), again.read_bytes()
    start = len(first) - 12 - (2 * 2 * 2 * 4 * 5 * 8 * 4 + 32) - 16
    assert first[:start] == second[:start] and first[start : start + 12] != second[start : start + 12]
    assert sum(a == b for a, b in zip(first[start + 12 :], second[start + 12 :])) < 100   # 5,168 bytes, 20 by chance


def test_the_layout_is_what_the_documentation_says(filled, saved):
    """Decrypted by the page alone, in one call of another interface."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    body = saved.read_bytes()
    assert body[:8] == MAGIC and body[8:12] == (1).to_bytes(4, "little")
    start = HEADER_AT + int.from_bytes(body[12:16], "little")
    plain = AESGCM(KEY).decrypt(body[start : start + 12], body[start + 12 :], body[: start + 12])
    expected = b"".join(bytes(tensor[:, :, :5].contiguous().view(torch.uint8).numpy()) for tensor in contents(filled))
    assert plain[32:] == expected


# ---- the prefix alone ----


def prefix_file(model, path, follows, tokens=40):
    """What is in the file of a prefix that a pass of so many tokens followed."""
    prompt = torch.arange(tokens + follows)[None] * 11 % 61 + 1
    with SecureCache.for_model(model) as cache, torch.no_grad():
        model(prompt[:, :tokens], past_key_values=cache)
        if follows:
            model(prompt[:, tokens:], past_key_values=cache)
        cache.save(path, KEY, positions=tokens)
    with SecureCache.for_model(model) as cache:
        cache.load(path, KEY)
        return contents(cache)


def test_a_file_does_not_tell_how_much_followed(model, tmp_path):
    first, *others = (prefix_file(model, tmp_path / "prefix.kv", follows) for follows in (0, 1, 4, 8, 16, 23))
    assert all(same(first, other) for other in others)


def test_positions_of_a_longer_pass_are_refused(model, tmp_path):
    """Their bits depend on the length of the pass, by the kernels of the machine."""
    prompt = torch.arange(60)[None] * 11 % 61 + 1
    path = tmp_path / "prefix.kv"
    with SecureCache.for_model(model) as cache, torch.no_grad():
        model(prompt, past_key_values=cache)
        with pytest.raises(ValueError, match=r"^positions must be where a pass of the model ended \(here at 60\), got 40: their bits"):
            cache.save(path, KEY, positions=40)
        cache.crop(-20)
        with pytest.raises(ValueError, match=r"\(at none here\), got 40"):
            cache.save(path, KEY, positions=40)
        model(prompt[:, 40:], past_key_values=cache)   # behind 40 positions of a longer pass
        with pytest.raises(ValueError, match=r"\(at none here\), got 60"):
            cache.save(path, KEY, positions=60)
        cache.crop(-60)
        model(prompt[:, :40], past_key_values=cache)
        cache.save(path, KEY, positions=40)
    assert path.exists()


def test_a_loaded_prefix_can_be_saved_again_and_no_part_of_it(model, saved, tmp_path):
    with SecureCache.for_model(model) as cache, torch.no_grad():
        cache.load(saved, KEY)
        model(TOKENS[:, 5:], past_key_values=cache)
        cache.crop(-4)
        cache.save(tmp_path / "again.kv", KEY, positions=5)
        with pytest.raises(ValueError, match=r"\(here at 5\), got 3"):
            cache.save(tmp_path / "part.kv", KEY, positions=3)


def test_rows_that_were_computed_beside_others_are_refused(model, tmp_path):
    with SecureCache.for_model(model) as cache, torch.no_grad():
        model(TOKENS, past_key_values=cache)
        cache.batch_repeat_interleave(2)
        cache.save(tmp_path / "all.kv", KEY, positions=9)
        cache.batch_select_indices(torch.tensor([0, 1]))
        with pytest.raises(ValueError, match=r"\(at none here\), got 9"):
            cache.save(tmp_path / "one.kv", KEY, positions=9)


# ---- what is refused, and that nothing changes by it ----


def cut(path, length):
    path.write_bytes(path.read_bytes()[:length])


def flip(path, place):
    body = bytearray(path.read_bytes())
    body[place] ^= 1
    path.write_bytes(body)


def rewrite_header(path, **fields):
    body = path.read_bytes()
    length = int.from_bytes(body[12:16], "little")
    header = json.dumps({**json.loads(body[16 : 16 + length]), **fields}, sort_keys=True).encode()
    path.write_bytes(body[:12] + len(header).to_bytes(4, "little") + header + body[16 + length :])


DAMAGE = {
    "another key": (None, {"key": KEY[::-1]}, "cannot be decrypted: it was saved under another key, or changed since"),
    "a changed byte": (lambda path: flip(path, -100), {}, "cannot be decrypted"),
    "a changed tag": (lambda path: flip(path, -1), {}, "cannot be decrypted"),
    "a changed nonce": (lambda path: flip(path, -16 - 5152 - 1), {}, "cannot be decrypted"),
    "a changed name": (lambda path: rewrite_header(path, model_id="B"), {"model_id": "B"}, "cannot be decrypted"),
    "cut by one byte": (lambda path: cut(path, -1), {}, "cut short, or changed"),
    "longer by a byte": (lambda path: path.write_bytes(path.read_bytes() + b"\0"), {}, "cut short, or changed"),
    "cut in the header": (lambda path: cut(path, 60), {}, "is cut short"),
    "cut in the beginning": (lambda path: cut(path, 10), {}, "is cut short"),
    "empty": (lambda path: path.write_bytes(b""), {}, "is cut short"),
    "another kind of file": (lambda path: path.write_bytes(b"PK\3\4" + bytes(1000)), {}, "is no encrypted cache"),
    "another version": (lambda path: flip(path, 9), {}, "has version 257, and only version 1 can be read"),
    "a header that is none": (lambda path: flip(path, HEADER_AT), {}, "its header cannot be read"),
    "a header with other fields": (lambda path: rewrite_header(path, more=1), {}, "its header cannot be read"),
    "a negative size": (lambda path: rewrite_header(path, batch=-1), {}, "its header cannot be read"),
    "sizes that do not agree": (lambda path: rewrite_header(path, batch=3), {}, "its header contradicts itself"),
    "sizes beyond the file": (lambda path: rewrite_header(path, plain_bytes=2**60), {}, "cut short, or changed"),
    "an unknown dtype": (lambda path: rewrite_header(path, dtype="int8"), {}, "its header contradicts itself"),
    "another model": (None, {"model_id": "A"}, "belongs to the model"),
    "other tokens": (None, {"tokens": TOKENS + 1}, "was computed from other tokens"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_one_clear_error_and_the_cache_as_it_was(name, filled, saved):
    damage, call, text = DAMAGE[name]
    if damage:
        damage(saved)
    cache = SecureCache(model_id=call.get("model_id", filled.model_id), capacity=16)
    cache.update(*(torch.ones(1, 2, 3, 4) for _ in range(2)), 0)
    cache.update(*(torch.ones(1, 2, 3, 4) for _ in range(2)), 1)
    before, bytes_before = contents(cache), status()["buffer_bytes"]
    with pytest.raises(CacheFileError, match=f"prefix.kv: .*{text}"):
        cache.load(saved, call.get("key", KEY), tokens=call.get("tokens"))
    assert same(contents(cache), before)
    assert status()["buffer_bytes"] == bytes_before


@pytest.mark.parametrize(
    "use, error, text",
    [
        (
            lambda cache, at: cache.save(at, KEY[:16], positions=1),
            ValueError,
            "key must be 32 bytes long, got 16",
        ),
        (
            lambda cache, at: cache.save(at, "k" * 32, positions=1),
            TypeError,
            "key must be 32 bytes or a SecureBuffer, got str",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=10),
            ValueError,
            "positions must be <= 9, the positions in the cache, got 10",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=0),
            ValueError,
            "positions must be >= 1, got 0",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=True),
            TypeError,
            "positions must be a whole number, got bool",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=3),
            ValueError,
            "positions must be where a pass of the model ended (here at 2, 5, 9), got 3: their bits depend on the length of the pass, "
            "so run the prefix through the model by itself",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=3, tokens=TOKENS[:, :2]),
            ValueError,
            "tokens must be [2, at least 3], got [2, 2]",
        ),
        (
            lambda cache, at: cache.save(at, KEY, positions=3, tokens=TOKENS * 1.0),
            TypeError,
            "tokens must be whole numbers, got float32",
        ),
        (
            lambda cache, at: cache.load(at, bytes(32)),
            ValueError,
            "key must not be all zeros: was its buffer scrubbed, or wiped by a fork?",
        ),
    ],
)
def test_bad_calls_write_nothing(use, error, text, filled, tmp_path):
    with pytest.raises(error) as raised:
        use(filled, tmp_path / "none.kv")
    assert str(raised.value) == text
    assert not list(tmp_path.iterdir())
    assert filled.get_seq_length() == 9


def test_a_name_is_needed_and_empty_caches_have_nothing_to_save(tmp_path):
    cache = SecureCache()
    with pytest.raises(ValueError, match=r"^positions must be <= 0, the positions in the cache, got 1$"):
        cache.save(tmp_path / "none.kv", KEY, positions=1)
    cache.update(*(torch.ones(1, 2, 3, 4) for _ in range(2)), 0)
    with pytest.raises(ValueError, match=r"^model_id must be given before a cache is saved or loaded"):
        cache.save(tmp_path / "none.kv", KEY, positions=1)
    with pytest.raises(FileNotFoundError):
        SecureCache(model_id="A").load(tmp_path / "none.kv", KEY)


def test_tokens_can_only_be_compared_if_they_were_saved(filled, tmp_path):
    path = tmp_path / "prefix.kv"
    filled.save(path, KEY, positions=5)
    cache = SecureCache(model_id=filled.model_id)
    assert cache.load(path, KEY) == 5
    with pytest.raises(CacheFileError, match="has no tokens to compare with"):
        cache.load(path, KEY, tokens=TOKENS)


def test_a_failed_save_leaves_the_old_file(filled, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        filled.save(saved, KEY, positions=2)
    assert saved.read_bytes() == before and list(saved.parent.iterdir()) == [saved]


def test_a_digest_tells_trainings_apart(model):
    assert model_digest(model) == model_digest(make_model()) != model_digest(make_model(seed=1))
    changed = make_model()
    with torch.no_grad():
        changed.transformer.wte.weight[3, 3] += 1e-3
    assert model_digest(changed) != model_digest(model)
    changed = make_model()
    changed.config.attn_pdrop = 0.5
    assert model_digest(changed) != model_digest(model)
    with pytest.raises(TypeError, match=r"^model must be a torch module, got str$"):
        model_digest("gpt2")


def test_packed_weights_have_no_digest():
    class Packed(torch.nn.Module):
        def _save_to_state_dict(self, destination, prefix, keep_vars):
            destination[f"{prefix}packed"] = (torch.zeros(1), None)

    with pytest.raises(TypeError, match=r"^weights must be plain tensors to be told apart, got tuple for packed: give a model_id"):
        model_digest(Packed())
