"""A key-value cache for transformers in locked memory, with an encrypted file of its first positions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from transformers import cache_utils

from hushvec._util.validate import kind, whole_number
from hushvec.errors import CacheFileError
from hushvec.secure_memory.buffer import SecureBuffer
from hushvec.secure_memory.cache_layer import KeysAndValues, SecureLayer
from hushvec.secure_memory.digests import model_digest
from hushvec.secure_memory.sealed_file import Header, Layer, SealedFile, key_bytes, write

Key: TypeAlias = "bytes | bytearray | memoryview | SecureBuffer"

_DIGEST_BYTES = 32
_NO_TOKENS = bytes(_DIGEST_BYTES)
_DTYPES = {name: getattr(torch, name) for name in ("float32", "float16", "bfloat16", "float64")}


class SecureCache(cache_utils.Cache):  # type: ignore[misc]
    """A cache that `generate` and models take as `past_key_values`, whose keys and values lie in SecureBuffers.

    Args:
        config: of the model, which says what kind each layer is; None makes every layer attend to all positions.
        capacity: positions to make room for at first. It doubles as needed; the old pages are zeroed. Enough for a whole conversation
            saves the copies.
        strict: True raises where the operating system refuses a part of the protection, before a state is written.
        model_id: names the weights; files are saved and loaded under it. `for_model` takes `model_digest(model)`.

    Raises:
        TypeError: capacity is not a whole number, model_id is not a string, or the cache is pickled.
        ValueError: capacity < 1, or the model has layers that are neither full nor sliding-window attention.

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

        Raises:
            MissingExtraError: cryptography is not installed.
            TypeError, ValueError: a bad key, more positions than there are, tokens of another shape, no model_id, or a pass that went
                on behind the positions.
            SecureMemoryError: the contents were lost to a fork.

        Guarantees:
            Without the key the file shows only the model_id, the shapes and the number of positions; a changed file is refused. With
            the key it shows nothing of what came after the positions. One key is good for 2^32 files (NIST SP 800-38D, section 8.3).
        """
        secret = key_bytes(key)
        count = whole_number("positions", positions, at_least=1)
        if count > self.get_seq_length():
            raise ValueError(f"positions must be <= {self.get_seq_length()}, the positions in the cache, got {count}")
        held: list[KeysAndValues] = [layer.held for layer in self.layers]   # all of one length, which is not 0
        header = self._header(held, count)
        digest = _NO_TOKENS if tokens is None else _digest_of(tokens, header.batch, count)
        self._require_own_pass(count)

        def pieces() -> Iterator[memoryview]:
            yield memoryview(digest)
            for one in held:
                yield from one.pieces(count)

        write(Path(path), header, secret, pieces())

    def load(self, path: str | PathLike[str], key: Key, *, tokens: Any = None) -> int:
        """Replace what the cache holds by a file's positions.

        Args:
            path: of a file that `save` wrote.
            key: the 32 bytes it was saved under.
            tokens: [batch, at least as many as the file's positions] token ids; refused if their digest is not the file's.

        Returns:
            The number of positions that the cache now holds.

        Raises:
            CacheFileError: another key, another model, other tokens, a changed or truncated file, no such kind of file.
            FileNotFoundError, MissingExtraError, TypeError, ValueError: as for `save`. After every error the cache is as it was
                before.
        """
        secret = key_bytes(key)
        model_id = self._named()
        with Path(path).open("rb") as file:
            sealed = SealedFile(file, Path(path))
            header = sealed.header
            self._require_fit(header, model_id, path)
            expected = None if tokens is None else _digest_of(tokens, header.batch, header.positions)
            fresh = [self._room_for(layer, header) for layer in header.layers]
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
        self._take_over(fresh, header)
        return header.positions

    def _require_own_pass(self, positions: int) -> None:
        """Refuse positions whose last bits depend on others."""
        ends = sorted(set.intersection(*(set(layer.pass_ends) for layer in self.layers)))
        if positions not in ends:
            shown = "at none here" if not ends else f"here at {', '.join(map(str, ends[:8]))}{', ...' if len(ends) > 8 else ''}"
            raise ValueError(
                f"positions must be where a pass of the model ended ({shown}), got {positions}: their bits depend on the length of "
                "the pass, so run the prefix through the model by itself"
            )

    def _named(self) -> str:
        if self.model_id is None:
            raise ValueError("model_id must be given before a cache is saved or loaded: see SecureCache.for_model")
        return self.model_id

    def _header(self, held: list[KeysAndValues], positions: int) -> Header:
        layers = tuple(
            Layer(one.shapes[0][1], one.shapes[0][3], one.shapes[1][3], layer.sliding_window)
            for one, layer in zip(held, self.layers)
        )
        dtype = str(held[0].dtype).removeprefix("torch.")
        batch = held[0].shapes[0][0]
        return Header(self._named(), dtype, batch, positions, _plain_bytes(layers, held[0].dtype, batch, positions), layers)

    def _require_fit(self, header: Header, model_id: str, path: str | PathLike[str]) -> None:
        """Check a file's header before any memory is allocated for it."""
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

    def _room_for(self, layer: Layer, header: Header) -> KeysAndValues:
        widths, dtype = (layer.key_width, layer.value_width), _DTYPES[header.dtype]
        keys, values = (torch.empty((header.batch, layer.heads, 0, width), dtype=dtype) for width in widths)
        return KeysAndValues((keys, values), header.batch, max(self.capacity, header.positions), strict=self.strict)

    def _take_over(self, fresh: list[KeysAndValues], header: Header) -> None:
        if not self.layers:
            self.layers = [SecureLayer(self.capacity, strict=self.strict, sliding_window=layer.window) for layer in header.layers]
        for layer, held in zip(self.layers, fresh):
            layer.hold(held, header.positions, [header.positions])


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
