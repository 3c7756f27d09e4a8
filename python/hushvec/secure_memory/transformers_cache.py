"""A key-value cache for transformers in locked memory, and the encrypted file of a prefix."""

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
from numpy.typing import NDArray
from transformers import cache_utils
from transformers.cache_utils import CacheLayerMixin

from hushvec._util.validate import kind, whole_number
from hushvec.errors import SecureMemoryError
from hushvec.secure_memory.buffer import SecureBuffer
from hushvec.secure_memory.sealed_file import key_bytes, seal, unsealed

_ALIGNMENT = 64
Key: TypeAlias = "bytes | bytearray | memoryview | SecureBuffer"
_NOT_THE_MODEL = {"architectures", "transformers_version"}   # fields of a configuration, as are those that begin with "_"


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

    def is_like(self, states: tuple[torch.Tensor, torch.Tensor]) -> bool:
        return all(
            tensor.dtype == self.dtype and tensor.dim() == 4 and (*tensor.shape[:2], tensor.shape[3]) == (*shape[:2], shape[3])
            for tensor, shape in zip(states, self.shapes)
        )


class SecureLayer(CacheLayerMixin):  # type: ignore[misc]
    """A cache layer as transformers uses it: full attention, or a sliding window over a cache that keeps every position.

    Room for `capacity` positions doubles when it is used up, and the old pages are zeroed. `sliding_window` counts the positions that
    a token attends to, itself included.
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
        self.was_cut = False   # since it was empty: the last bits depend on positions or rows that are gone

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

    def copy(self) -> SecureLayer:
        self._require_contents()
        twin = SecureLayer(self._first_capacity, strict=self._strict, sliding_window=self.sliding_window)
        if self.held is not None:
            like = self.held.tensors()
            held = KeysAndValues(like, like[0].shape[0], self.held.capacity, strict=self._strict)
            _copy_positions(self.held, held, self._length, range(like[0].shape[0]))
            twin._adopt(held)
            twin._length, twin.was_cut = self._length, self.was_cut
            twin._show(0)
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
        self._spare, self.was_cut = old, True
        self._adopt(new)
        self._show(self._length)

    def _cut_to(self, length: int) -> None:
        self._require_contents()
        if self.held is None:
            return
        for tensor in self.held.tensors():
            tensor[:, :, length : self._length].zero_()
        self.was_cut = length > 0 and (self.was_cut or length < self._length)
        self._length = length
        self._show(length)

    def _forget(self) -> None:
        self._length, self._interrupted, self.was_cut = 0, False, False

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

    def __init__(self, config: Any = None, *, capacity: int = 256, strict: bool = False) -> None:
        self.capacity = whole_number("capacity", capacity, at_least=1)
        self.strict = strict
        layer = partial(SecureLayer, self.capacity, strict=strict)
        if config is None:
            super().__init__(layer_class_to_replicate=layer)
        else:
            super().__init__(layers=[layer(sliding_window=window) for window in _windows(config)])
        self._weights: bytes | None = None

    @classmethod
    def for_model(cls, model: Any, *, capacity: int = 256, strict: bool = False) -> SecureCache:
        """A cache that can be saved and loaded, for the model's weights of this moment, which are read once for a digest."""
        weights = _digest_of_model(model)
        cache = cls(model.config, capacity=capacity, strict=strict)
        cache._weights = weights
        return cache

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for layer in self.layers:
            yield layer.keys, layer.values, layer.sliding_window

    def scrub(self) -> None:
        """Zeros, now; the cache is empty and can be used again."""
        for layer in self.layers:
            layer.scrub()

    def interrupt(self) -> None:
        """Zeros, now, and SecureMemoryError for every use until `scrub` or `release`: for a program that is stopped or paused.

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
        twin = SecureCache(capacity=self.capacity, strict=self.strict)
        twin.layers = [layer.copy() for layer in self.layers]
        twin.layer_class_to_replicate = self.layer_class_to_replicate
        twin._weights = self._weights
        return twin

    def __reduce__(self) -> Any:
        raise TypeError("a SecureCache cannot be pickled: the copy would be ordinary memory")

    def save(self, path: str | PathLike[str], key: Key, *, tokens: Any) -> None:
        """Write what the cache holds, the keys and values of a public or shared prefix, encrypted with AES-256-GCM.

        The cache must hold the prefix alone: run the system prompt and examples through the model by themselves, and save before
        anything of a user follows. After `crop` or a change of rows nothing can be saved: the last bits of what is left depend on how
        many other positions there were.

        Args:
            path: of the file, which is replaced as a whole; only its owner may read it.
            key: 32 bytes, uniformly random and secret; not kept. One is good for 2^32 files (NIST SP 800-38D, section 8.3).
            tokens: whole numbers, [batch, positions]: what the cache was computed from.

        Guarantees:
            Without the key the file shows its size. It opens with the same key, weights and tokens only.

        Raises:
            ValueError: tokens that are not those of all positions; a cache that was not made by `for_model`, or was cut.
        """
        secret, ids = key_bytes(key), _token_ids(tokens)
        bound_to, shape = self._bound_to(ids), (self._batch(), self.get_seq_length())
        if ids.shape != shape or 0 in shape:
            raise ValueError(f"tokens must be those of all positions that the cache holds, {list(shape)}, got {list(ids.shape)}")
        if any(layer.was_cut for layer in self.layers):
            raise ValueError("the cache must hold a prefix that was run by itself, got one with positions or rows taken out")
        states = [tensor[:, :, : shape[1]] for layer in self.layers for tensor in layer.held.tensors()]
        described = json.dumps([[str(one.dtype).removeprefix("torch."), list(one.shape)] for one in states]).encode()
        described += b" " * (-(4 + len(described)) % _ALIGNMENT)

        def pieces() -> Iterator[Any]:
            yield len(described).to_bytes(4, "little") + described
            yield from (head.view(torch.uint8).numpy() for one in states for row in one for head in row)

        seal(Path(path), secret, bound_to, pieces())

    def load(self, path: str | PathLike[str], key: Key, *, tokens: Any) -> None:
        """Replace what the cache holds by a prefix that `save` wrote, with the same bits; nothing changes if that fails.

        Args:
            path, key, tokens: as for `save`.

        Raises:
            SecureMemoryError: the file was cut or changed, or saved under another key, for other weights or other tokens.
            OSError: the file cannot be read.
        """
        with unsealed(Path(path), key_bytes(key), self._bound_to(_token_ids(tokens)), strict=self.strict) as buffer:
            whole, states = buffer.memory(), []
            begin = 4 + int.from_bytes(whole[:4], "little")
            for dtype, shape in json.loads(bytes(whole[4:begin])):
                states.append(buffer.torch(getattr(torch, dtype), shape, offset=begin))
                begin += states[-1].nbytes
            self.release()
            for number in range(len(states) // 2):
                self.update(*states[2 * number : 2 * number + 2], number)

    def _batch(self) -> int:
        return self.layers[0]._batch() if self.layers else 0

    def _bound_to(self, ids: NDArray[np.int64]) -> bytes:
        """What a file is for: digests of the weights and of the tokens."""
        if self._weights is None:
            raise ValueError("the cache must be made by SecureCache.for_model to be saved or loaded, got one of unknown weights")
        return self._weights + hashlib.sha256(np.array([*ids.shape, *ids.ravel()], "<i8").tobytes()).digest()


def _token_ids(tokens: Any) -> NDArray[np.int64]:
    ids = np.asarray(tokens)
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise ValueError(f"tokens must be whole numbers [batch, positions], got {list(ids.shape)} {ids.dtype}")
    return ids.astype(np.int64)


def _digest_of_model(model: Any) -> bytes:
    """SHA-256 of the configuration and all weights."""
    if not isinstance(model, torch.nn.Module) or not hasattr(model, "config"):
        raise TypeError(f"model must be a transformers model, got {kind(model)}")
    if getattr(model, "peft_config", None):
        raise ValueError("model must have no adapters, which can be switched off and on: merge them into its weights first")
    settings: Any = model.config
    config = {name: value for name, value in settings.to_dict().items() if name not in _NOT_THE_MODEL and name[0] != "_"}
    digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.state_dict().items()):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"model must have plain tensors as weights, got {kind(tensor)} for {name}")
        digest.update(f"\0{name} {tensor.dtype} {list(tensor.shape)}\0".encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.digest()


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
