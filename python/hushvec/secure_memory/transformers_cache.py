"""A key-value cache for transformers in locked memory, with an encrypted file of its first positions, and the name of a model."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from transformers import cache_utils
from transformers.cache_utils import CacheLayerMixin

from hushvec._util.validate import kind, whole_number
from hushvec.errors import CacheFileError, SecureMemoryError
from hushvec.secure_memory.buffer import SecureBuffer
from hushvec.secure_memory.sealed_file import Header, Layer, SealedFile, key_bytes, write

_ALIGNMENT = 64
Key: TypeAlias = "bytes | bytearray | memoryview | SecureBuffer"
_DIGEST_BYTES = 32
_NO_TOKENS = bytes(_DIGEST_BYTES)
_DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16", "float64")}


# Fields of a configuration that do not affect the numbers that a model computes.
_NOT_THE_MODEL = {"_name_or_path", "architectures", "transformers_version"}
_NOT_THE_ADAPTER = {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version", "revision"}

# Of an adapter layer: scratch space, how it was loaded, and what the property active_adapters says in one form.
_NOT_THE_LAYER = {"_caches", "kwargs", "active_adapter", "_active_adapter"}


class KeysAndValues:
    """One SecureBuffer with room for `capacity` positions: keys [batch, heads, capacity, key_width], then values."""

    def __init__(self, like: tuple[torch.Tensor, torch.Tensor], batch: int, capacity: int, *, strict: bool) -> None:
        self.capacity = capacity
        self.dtype = like[0].dtype
        self.shapes = tuple((batch, states.shape[1], capacity, states.shape[3]) for states in like)
        sizes = [math.prod(shape) * self.dtype.itemsize for shape in self.shapes]
        self.offsets = (0, -(-sizes[0] // _ALIGNMENT) * _ALIGNMENT)
        self.buffer = SecureBuffer(max(self.offsets[1] + sizes[1], 1), strict=strict)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor]:
        """New views of all of it: a tensor made under torch.inference_mode could not be written to outside it."""
        first, second = (self.buffer.torch(self.dtype, shape, offset=at) for shape, at in zip(self.shapes, self.offsets))
        return first, second

    def pieces(self, positions: int) -> Iterator[memoryview]:
        """The bytes of the first positions, in contiguous runs: keys of each row and head, then values."""
        whole = self.buffer.memory()
        for (batch, heads, capacity, width), at in zip(self.shapes, self.offsets):
            position_bytes = width * self.dtype.itemsize
            for row in range(batch * heads):
                begin = at + row * capacity * position_bytes
                yield whole[begin : begin + positions * position_bytes]

    def is_like(self, states: tuple[torch.Tensor, torch.Tensor]) -> bool:
        return all(
            tensor.dtype == self.dtype and tensor.dim() == 4 and (*tensor.shape[:2], tensor.shape[3]) == (*shape[:2], shape[3])
            for tensor, shape in zip(states, self.shapes)
        )


class SecureLayer(CacheLayerMixin):  # type: ignore[misc]
    """A cache layer as transformers uses it: full attention, or a sliding window over a cache that keeps every position.

    Room for `capacity` positions doubles when it is used up, and the old pages are zeroed. `sliding_window` counts the positions that
    a token attends to, itself included.

    `pass_ends` are the lengths at which a pass of the model ended. Bits of a position depend on how many others its pass had, cropped
    ones too, and on the rows of its batch, also those that are gone.
    """

    is_compileable = False
    is_croppable = True
    keys: Any
    values: Any

    def __init__(self, capacity: int, *, strict: bool, sliding_window: int | None = None) -> None:
        super().__init__()
        self.is_sliding = sliding_window is not None
        self.sliding_window = sliding_window
        self.held: KeysAndValues | None = None
        self._spare: KeysAndValues | None = None
        self._first_capacity = capacity
        self._strict = strict
        self._length = 0
        self._interrupted = False
        self.pass_ends: list[int] = []

    # ---- what transformers calls ----

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        self._make_room((key_states, value_states), self._first_capacity)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Copy the new states behind the old ones; return views of all that the new positions may attend to."""
        states = (key_states, value_states)
        self._check(states)
        if self.held is not None and not self.held.is_like(states):   # empty, and of another batch
            self.release()
        held, before, after = self.held, self._length, self._length + key_states.shape[2]
        if held is None or after > held.capacity:
            held = self._make_room(states, max(after, self._first_capacity if held is None else 2 * held.capacity))
        for kept, new in zip(held.tensors(), states):
            kept[:, :, before:after].copy_(new)
        if before == (self.pass_ends[-1] if self.pass_ends else 0):
            self.pass_ends.append(after)
        self._length = after
        self._show(before)
        return self.keys, self.values

    def get_seq_length(self) -> int:
        self._require_contents()
        return self._length

    def get_max_length(self) -> int:
        return -1

    get_max_cache_shape = get_max_length

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        # Before transformers 5 the argument was a tensor, the positions of the new tokens.
        length = query_length if isinstance(query_length, int) else int(query_length.shape[0])
        first = self._first_visible(self._length)
        return self._length + length - first, first

    def crop(self, tokens_to_remove: int) -> None:
        """Zero the last positions: that many for a negative number, all but that many (transformers 4) for a positive one."""
        kept = self._length + tokens_to_remove if tokens_to_remove <= 0 else tokens_to_remove
        self._cut_to(max(min(kept, self._length), 0))

    def reset(self) -> None:
        self.scrub()

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        self._take_rows(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._take_rows([row for row in range(self._batch()) for _ in range(repeats)])

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        self._take_rows(torch.arange(self._batch())[indices].tolist())

    # ---- what SecureCache calls ----

    def scrub(self) -> None:
        """Zeros, now, and no positions; the room stays."""
        if self.held is not None:
            self.held.buffer.scrub()
        self._drop_spare()
        self._forget()
        self._show(0)

    def interrupt(self) -> None:
        """Zeros, now, and no use until `scrub` or `release`: whoever is in the middle of a pass must not go on."""
        if self.held is None:
            return
        self.held.buffer.scrub()
        if self._spare is not None:
            self._spare.buffer.scrub()
        self._interrupted = True

    def release(self) -> None:
        """Zeros, now, and the pages go back when no view of them is left."""
        if self.held is not None:
            self.held.buffer.release()
        self._drop_spare()
        self.held = None
        self._forget()
        self.keys = self.values = None
        self.is_initialized = False

    def hold(self, held: KeysAndValues, length: int, pass_ends: Sequence[int]) -> None:
        """Take over what was filled elsewhere; what was here before is zeroed."""
        self.release()
        self._adopt(held)
        self._length, self.pass_ends = length, list(pass_ends)
        self._show(0)

    def copy(self) -> SecureLayer:
        self._require_contents()
        twin = SecureLayer(self._first_capacity, strict=self._strict, sliding_window=self.sliding_window)
        if self.held is not None:
            like = self.held.tensors()
            held = KeysAndValues(like, like[0].shape[0], self.held.capacity, strict=self._strict)
            _copy_positions(self.held, held, self._length, range(like[0].shape[0]))
            twin.hold(held, self._length, self.pass_ends)
        return twin

    # ---- inside ----

    def _check(self, states: tuple[torch.Tensor, torch.Tensor]) -> None:
        self._require_contents()
        for tensor in states:
            if tensor.device.type != "cpu":
                raise ValueError(f"a SecureCache keeps CPU tensors, got {tensor.device}: device memory cannot be locked")
            if tensor.requires_grad and torch.is_grad_enabled():
                raise ValueError("a SecureCache is for inference: use torch.no_grad(), a graph would keep copies of every state")
        keys, values = states
        if keys.dim() != 4 or values.dim() != 4 or keys.shape[:3] != values.shape[:3] or keys.dtype != values.dtype:
            raise ValueError(f"keys and values must be [batch, heads, positions, width] alike, got {_shown(states)}")
        if self.held is not None and self._length > 0 and not self.held.is_like(states):
            raise ValueError(f"keys and values must go with {_shown(self.held.tensors())}, got {_shown(states)}")

    def _require_contents(self) -> None:
        if self._interrupted:
            raise SecureMemoryError("this cache was scrubbed when the program went to the background: scrub() it and begin again")
        if self.held is not None and self.held.buffer.wiped_by_fork:
            raise SecureMemoryError("this cache was filled in the parent process and is zeros here: scrub() it, or make another")

    def _batch(self) -> int:
        return 0 if self.held is None else int(self.held.shapes[0][0])

    def _first_visible(self, before: int) -> int:
        """The first position that a token at position `before` attends to."""
        return 0 if self.sliding_window is None else max(before - self.sliding_window + 1, 0)

    def _show(self, before: int) -> None:
        if self.held is not None:
            first = self._first_visible(before)
            self.keys, self.values = (tensor[:, :, first : self._length] for tensor in self.held.tensors())

    def _adopt(self, held: KeysAndValues) -> None:
        self.held = held
        self.batch_size = self._batch()
        self.dtype, self.device = held.dtype, torch.device("cpu")
        self.is_initialized = True

    def _make_room(self, like: tuple[torch.Tensor, torch.Tensor], capacity: int) -> KeysAndValues:
        batch = like[0].shape[0]
        held = KeysAndValues(like, batch, capacity, strict=self._strict)
        if self.held is not None:
            _copy_positions(self.held, held, self._length, range(batch))
            self.held.buffer.release()
        self._drop_spare()
        self._adopt(held)
        return held

    def _take_rows(self, rows: Sequence[int]) -> None:
        """Row i of the batch becomes what row rows[i] was. Two sets of pages are swapped, so that no copy exists elsewhere."""
        self._require_contents()
        if self.held is None or list(rows) == list(range(self._batch())):
            return
        old, new = self.held, self._spare
        if new is None or new.capacity != old.capacity or new.shapes[0][0] != len(rows):
            new = KeysAndValues(old.tensors(), len(rows), old.capacity, strict=self._strict)
        _copy_positions(old, new, self._length, rows)
        old.buffer.scrub()
        self._spare = old
        if not set(range(old.shapes[0][0])) <= set(rows):
            self.pass_ends = []
        self._adopt(new)
        self._show(self._length)

    def _cut_to(self, length: int) -> None:
        self._require_contents()
        if self.held is None:
            return
        for tensor in self.held.tensors():
            tensor[:, :, length : self._length].zero_()
        self._length = length
        self.pass_ends = [end for end in self.pass_ends if end <= length]
        self._show(length)

    def _forget(self) -> None:
        self._length, self.pass_ends, self._interrupted = 0, [], False

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.buffer.release()
            self._spare = None


# Row by row, from pages to pages: indexing would make a temporary.
def _copy_positions(old: KeysAndValues, new: KeysAndValues, length: int, rows: Sequence[int]) -> None:
    for source, target in zip(old.tensors(), new.tensors()):
        for place, row in enumerate(rows):
            target[place, :, :length].copy_(source[row, :, :length])


def _shown(states: tuple[torch.Tensor, torch.Tensor]) -> str:
    return " and ".join(f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}" for tensor in states)


class SecureCache(cache_utils.Cache):  # type: ignore[misc]
    """A cache that `generate` and models take as `past_key_values`, whose keys and values lie in SecureBuffers.

    Args:
        config: of the model, which says what kind each layer is: full or sliding-window attention, others are refused. None makes
            every layer attend to all positions.
        capacity: positions to make room for at first. It doubles as needed; the old pages are zeroed. Enough for a whole conversation
            saves the copies.
        strict: True raises where the operating system refuses a part of the protection, before a state is written.
        model_id: names the weights; files are saved and loaded under it. `for_model` takes `model_digest(model)`.

    Guarantees:
        What the cache itself holds is protected as `SecureBuffer` says, never exists in two places, and is zeroed by `scrub`, `reset`,
        `crop`, `release`, growth, the end of a `with` block, a fork and the end of the program. The bits are those of
        transformers' DynamicCache. What the model computes on the way (projections, attention weights, hidden states, logits) is in
        torch's memory: docs/secure_memory.md measures how much of it stays and says what helps.

    Edge cases:
        Gradients are refused: use `torch.no_grad()`. Tensors on devices are refused. A forked child gets SecureMemoryError until
        `scrub`. `copy.deepcopy` gives a second cache in separate pages. Views that an earlier step returned read zeros after
        growth, reordering and scrubbing.

    Example:
        >>> import torch
        >>> from hushvec.secure_memory import SecureCache
        >>> with SecureCache(capacity=8) as cache:
        ...     keys, values = cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
        ...     cache.get_seq_length()
        3
        >>> float(keys.sum())
        0.0
    """

    layers: list[Any]

    def __init__(self, config: Any = None, *, capacity: int = 256, strict: bool = False, model_id: str | None = None) -> None:
        if model_id is not None and (not isinstance(model_id, str) or not model_id):
            raise TypeError(f"model_id must be a text that names the weights, got {model_id!r}")
        self.capacity = whole_number("capacity", capacity, at_least=1)
        self.strict = strict
        self.model_id = model_id
        layer = partial(SecureLayer, self.capacity, strict=strict)
        if config is None:
            super().__init__(layer_class_to_replicate=layer)
        else:
            super().__init__(layers=[layer(sliding_window=window) for window in _windows(config)])

    @classmethod
    def for_model(cls, model: Any, *, capacity: int = 256, strict: bool = False) -> SecureCache:
        """A cache for this model with its present weights, which are read once for their digest, and adapters: use another cache for
        another adapter."""
        return cls(model.config, capacity=capacity, strict=strict, model_id=model_digest(model))

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for layer in self.layers:
            yield layer.keys, layer.values, layer.sliding_window

    def scrub(self) -> None:
        """Zeros, now; the cache is empty and can be used again."""
        for layer in self.layers:
            layer.scrub()

    def interrupt(self) -> None:
        """Zeros, now, and SecureMemoryError for every use until `scrub`, `release` or `load`. What `BackgroundScrub` calls.

        It may come in the middle of a pass, which must not go on from zeros. An empty cache has nothing to lose and stays in use.
        """
        for layer in self.layers:
            layer.interrupt()

    def release(self) -> None:
        """Zeros, now, and the pages go back to the operating system when no view of them is left. The cache can be used again."""
        for layer in self.layers:
            layer.release()

    def __enter__(self) -> SecureCache:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> SecureCache:
        twin = SecureCache(capacity=self.capacity, strict=self.strict, model_id=self.model_id)
        twin.layers = [layer.copy() for layer in self.layers]
        twin.layer_class_to_replicate = self.layer_class_to_replicate
        return twin

    def __reduce__(self) -> Any:
        raise TypeError("a SecureCache cannot be pickled: save() writes it encrypted")

    def save(self, path: str | PathLike[str], key: Key, *, positions: int, tokens: Any = None) -> None:
        """Write the first positions, and no others, encrypted with AES-256-GCM under a nonce drawn for this file.

        The last bits of keys and values depend on how many positions the same pass had, because kernels of matrix products choose
        their blocks by it. So run the prefix through the model by itself: positions that were computed together with later ones, or
        in a batch with rows dropped since, are refused.

        Args:
            path: of the file; it is written atomically.
            key: 32 bytes, uniformly random and secret; not kept.
            positions: how many, from the first; a pass of the model must have ended there.
            tokens: [batch, at least `positions`] token ids that the positions were computed from; a digest of them is saved inside
                the encryption, and `load` can compare it.

        Guarantees:
            Without the key the file shows only the model_id, the shapes and the number of positions; a changed file is refused. With
            the key it shows nothing of what came after the positions. One key is good for 2^32 files (NIST SP 800-38D, section 8.3).
        """
        secret = key_bytes(key)
        count = whole_number("positions", positions, at_least=1)
        if count > self.get_seq_length():
            raise ValueError(f"positions must be <= {self.get_seq_length()}, the positions in the cache, got {count}")
        held: list[KeysAndValues] = [layer.held for layer in self.layers]   # all of one length, which is not 0
        layers = tuple(
            Layer(one.shapes[0][1], one.shapes[0][3], one.shapes[1][3], layer.sliding_window) for one, layer in zip(held, self.layers)
        )
        dtype, batch = held[0].dtype, held[0].shapes[0][0]
        plain_bytes = _plain_bytes(layers, dtype, batch, count)
        header = Header(self._named(), str(dtype).removeprefix("torch."), batch, count, plain_bytes, layers)
        digest = _NO_TOKENS if tokens is None else _digest_of(tokens, header.batch, count)
        ends = sorted(set.intersection(*(set(layer.pass_ends) for layer in self.layers)))
        if count not in ends:  # the last bits depend on other positions
            shown = "at none here" if not ends else f"here at {', '.join(map(str, ends[:8]))}{', ...' if len(ends) > 8 else ''}"
            raise ValueError(
                f"positions must be where a pass of the model ended ({shown}), got {count}: their bits depend on the length of "
                "the pass, so run the prefix through the model by itself"
            )

        def pieces() -> Iterator[memoryview]:
            yield memoryview(digest)
            for one in held:
                yield from one.pieces(count)

        write(Path(path), header, secret, pieces())

    def load(self, path: str | PathLike[str], key: Key, *, tokens: Any = None) -> int:
        """Replace what the cache holds by a file's positions, and return how many there are.

        Args:
            path, key: of a file that `save` wrote, and the 32 bytes it was saved under.
            tokens: [batch, at least as many as the file's positions] token ids; refused if their digest is not the file's.

        Returns the number of positions that the cache now holds. CacheFileError for another key, model or tokens and for a changed or
        truncated file; after every error the cache is as it was before.
        """
        secret = key_bytes(key)
        model_id = self._named()
        with Path(path).open("rb") as file:
            sealed = SealedFile(file, Path(path))
            header = sealed.header
            self._require_fit(header, model_id, path)
            expected = None if tokens is None else _digest_of(tokens, header.batch, header.positions)
            capacity, fresh = max(self.capacity, header.positions), []
            for layer in header.layers:
                shape, dtype = (header.batch, layer.heads, 0), _DTYPES[header.dtype]
                like = torch.empty((*shape, layer.key_width), dtype=dtype), torch.empty((*shape, layer.value_width), dtype=dtype)
                fresh.append(KeysAndValues(like, header.batch, capacity, strict=self.strict))
            digest = bytearray(_DIGEST_BYTES)

            def pieces() -> Iterator[memoryview]:
                yield memoryview(digest)
                for one in fresh:
                    yield from one.pieces(header.positions)

            try:
                sealed.read_into(secret, pieces(), strict=self.strict)
                if expected is not None and expected != digest:
                    reason = "has no tokens to compare with" if digest == _NO_TOKENS else "was computed from other tokens"
                    raise CacheFileError(f"{path}: {reason}")
            except BaseException:
                for one in fresh:
                    one.buffer.release()
                raise
        if not self.layers:
            self.layers = [SecureLayer(self.capacity, strict=self.strict, sliding_window=layer.window) for layer in header.layers]
        for layer, held in zip(self.layers, fresh):
            layer.hold(held, header.positions, [header.positions])
        return header.positions

    def _named(self) -> str:
        if self.model_id is None:
            raise ValueError("model_id must be given before a cache is saved or loaded: see SecureCache.for_model")
        return self.model_id

    def _require_fit(self, header: Header, model_id: str, path: str | PathLike[str]) -> None:
        if header.model_id != model_id:
            raise CacheFileError(f"{path}: belongs to the model {header.model_id!r:.80}, not to {model_id!r:.80}")
        windows = [layer.sliding_window for layer in self.layers]
        if windows and windows != [layer.window for layer in header.layers]:
            raise CacheFileError(f"{path}: has {len(header.layers)} layers of other kinds than the {len(windows)} here")
        dtype = _DTYPES.get(header.dtype)
        if (
            dtype is None
            or not header.layers
            or min(header.batch, header.positions) < 1
            or header.plain_bytes != _plain_bytes(header.layers, dtype, header.batch, header.positions)
        ):
            raise CacheFileError(f"{path}: its header contradicts itself")


def _windows(config: Any) -> list[int | None]:
    """The sliding window of each layer, None for full attention: as transformers itself reads the configuration."""
    windows: list[int | None] = []
    for number, layer in enumerate(cache_utils.DynamicCache(config=config).layers):
        if type(layer) is cache_utils.DynamicSlidingWindowLayer:
            windows.append(layer.sliding_window)
        elif type(layer) is cache_utils.DynamicLayer:
            windows.append(None)
        else:
            raise ValueError(f"layers must be full or sliding-window attention, layer {number} is {kind(layer)}")
    return windows


def _plain_bytes(layers: tuple[Layer, ...], dtype: torch.dtype, batch: int, positions: int) -> int:
    widths = sum(layer.heads * (layer.key_width + layer.value_width) for layer in layers)
    return _DIGEST_BYTES + batch * positions * widths * int(dtype.itemsize)


def _digest_of(tokens: Any, batch: int, positions: int) -> bytes:
    ids = np.asarray(tokens)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens must be whole numbers, got {ids.dtype}")
    if ids.ndim != 2 or ids.shape[0] != batch or ids.shape[1] < positions:
        raise ValueError(f"tokens must be [{batch}, at least {positions}], got {list(ids.shape)}")
    return hashlib.sha256(ids[:, :positions].astype("<i8").tobytes()).digest()


def model_digest(model: Any) -> str:
    """SHA-256 over a model's configuration, all its weights and the state of its adapters, as 64 hexadecimal digits.

    Two trainings of one architecture, an adapter before and after a step, two precisions of one checkpoint, and one model with
    another PEFT adapter active, disabled, merged or scaled: each has its own digest. Every weight is read, inactive adapters too.

    Edge cases:
        Weights that are not plain tensors (packed ones of torch's own quantization) are refused. Adapters count as they are at the
        call: ask again after switching them. Hooks, replaced methods and the attention kernel are not seen. Another release of
        transformers may write a configuration with other fields: the digest then differs, and a cache saved before is refused.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch module, got {type(model).__name__}")
    config: Any = getattr(model, "config", None)
    fields = config.to_dict() if hasattr(config, "to_dict") else None
    described = {} if fields is None else {name: value for name, value in fields.items() if name not in _NOT_THE_MODEL}
    digest = hashlib.sha256(b"" if fields is None else json.dumps(described, sort_keys=True, default=str).encode())
    state = _adapter_state(model)
    digest.update(len(state).to_bytes(8, "little") + state)
    for name, weight in sorted(model.state_dict().items()):
        if not isinstance(weight, torch.Tensor) or weight.is_quantized:
            found = f"{kind(weight)} for {name}"
            raise TypeError(f"weights must be plain tensors to be told apart, got {found}: give a model_id of your own")
        header = json.dumps([name, str(weight.dtype), list(weight.shape)])
        digest.update(len(header).to_bytes(8, "little") + header.encode())
        content: Any = weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        digest.update(content)
    return digest.hexdigest()


def _adapter_state(model: Any) -> bytes:
    """The active adapters, and how they are active. PEFT keeps that in its layers: inactive adapters have weights too."""
    own = vars(torch.nn.Module()).keys() | _NOT_THE_LAYER
    layers = []
    for name, module in model.named_modules():
        if isinstance(getattr(type(module), "active_adapters", None), property):
            fields = {field: value for field, value in vars(module).items() if field not in own}
            layers.append([name, type(module).__name__, _plain(module.active_adapters), _plain(fields)])
    return json.dumps(layers, sort_keys=True).encode() if layers else b""


def _plain(value: Any) -> Any:
    """A value as JSON has it, the same in every process; for any other object its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(one), sort_keys=True) for one in value)
    if callable(getattr(value, "to_dict", None)):
        return _plain({name: one for name, one in value.to_dict().items() if name not in _NOT_THE_ADAPTER})
    return kind(value)
