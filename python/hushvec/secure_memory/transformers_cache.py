"""A key-value cache for transformers in locked memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from transformers import cache_utils
from transformers.cache_utils import CacheLayerMixin

from hushvec._util.validate import kind, whole_number
from hushvec.errors import SecureMemoryError
from hushvec.secure_memory.buffer import SecureBuffer

_ALIGNMENT = 64


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
            twin._length = self._length
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
        self._spare = old
        self._adopt(new)
        self._show(self._length)

    def _cut_to(self, length: int) -> None:
        self._require_contents()
        if self.held is None:
            return
        for tensor in self.held.tensors():
            tensor[:, :, length : self._length].zero_()
        self._length = length
        self._show(length)

    def _forget(self) -> None:
        self._length, self._interrupted = 0, False

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
        return twin

    def __reduce__(self) -> Any:
        raise TypeError("a SecureCache cannot be pickled: the copy would be ordinary memory")



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
