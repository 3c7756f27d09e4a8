"""Arrays in every layout, inside memory whose every other byte is watched.

A layout is an offset, a shape and strides in bytes within an arena of bytes. The same layout can be shown to the library as a
numpy array, a torch tensor or an object that exports a DLPack capsule.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evidence.fuzz.dlpack_exporter import Exporter

try:
    import torch
except ImportError:
    torch = None

ITEM_SIZE = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
LENGTHS = (0, 1, 1, 2, 3, 7, 16, 17, 31, 64, 255, 256, 257, 300, 512, 1024)
FAR = (2**62, -(2**62), 2**31 + 1, -3)   # strides of axes that are never stepped along


@dataclass(frozen=True)
class Layout:
    arena: np.ndarray   # uint8
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]   # bytes
    dtype: str

    @property
    def item(self) -> int:
        return ITEM_SIZE[self.dtype]

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=object))

    def bytes_in(self, arena: np.ndarray) -> np.ndarray:
        """The bytes of the elements, as shape + (item,), of this or another arena of the same length."""
        return np.ndarray((*self.shape, self.item), np.uint8, arena, self.offset, (*self.strides, 1))

    def raw(self) -> bytes:
        """The elements in row-major order."""
        return self.bytes_in(self.arena).tobytes()

    def addresses(self) -> np.ndarray:
        """Address of every byte of every element."""
        if 0 in self.shape:
            return np.empty(0, np.int64)
        at = np.full((*self.shape, self.item), self.arena.ctypes.data + self.offset, np.int64)
        for axis, stride in enumerate((*self.strides, 1)):
            if at.shape[axis] > 1:
                steps = np.arange(at.shape[axis], dtype=np.int64) * stride
                at += steps.reshape([-1 if i == axis else 1 for i in range(at.ndim)])
        return at.ravel()

    def outside(self) -> np.ndarray:
        """Mask of the arena's bytes that belong to no element."""
        mask = np.ones_like(self.arena)
        self.bytes_in(mask)[...] = 0
        return mask.astype(bool)


def extent(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, int]:
    """First and one-past-last byte, from the first element."""
    if 0 in shape:
        return 0, 0
    reach = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    return sum(min(0, r) for r in reach), sum(max(0, r) for r in reach) + item


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    if rng.random() < 0.005:
        return (2**40, 0)   # more rows than fit in memory, all of them empty
    ndim = int(rng.choice(5, p=(0.03, 0.2, 0.69, 0.05, 0.03)))
    if ndim == 1 and rng.random() < 0.1:
        return (int(rng.integers(1000, 6000)),)
    if ndim == 2 and rng.random() < 0.02:
        return (int(rng.integers(20, 60)), int(rng.choice((1000, 1024))))   # enough for several threads
    if ndim <= 2:
        rows = (int(rng.choice((0, 1, 2, 3, 5, 9), p=(0.05, 0.15, 0.2, 0.2, 0.2, 0.2))),)
        return (rows if ndim == 2 else ()) + ((int(rng.choice(LENGTHS)),) if ndim else ())
    return tuple(int(n) for n in rng.integers(0, 5, ndim))


def random_strides(rng: np.random.Generator, shape: tuple[int, ...], item: int, whole_items: bool, forward: bool) -> tuple[int, ...]:
    """Nested axes with gaps, in any order and direction; sometimes arbitrary ones, which may overlap."""
    unit = item if whole_items or rng.random() < 0.7 else 1
    if rng.random() < 0.2:
        strides = [int(s) * unit for s in rng.integers(0 if forward else -4, 5, len(shape))]
    else:
        strides = [0] * len(shape)
        step = item * int(rng.choice((1, 1, 1, 2, 3)))
        order = range(len(shape))[::-1] if rng.random() < 0.6 else rng.permutation(len(shape))
        for axis in order:
            strides[axis] = step if forward or rng.random() < 0.7 else -step
            step = abs(step) * max(1, shape[axis]) + (unit * int(rng.integers(0, 4)) if rng.random() < 0.4 else 0)
        if rng.random() < 0.1 and shape:
            strides[int(rng.integers(len(shape)))] = 0
    if not forward and not whole_items and rng.random() < 0.05:
        strides = [int(rng.choice(FAR)) if n == 1 else s for n, s in zip(shape, strides, strict=True)]
    return tuple(strides)


def random_layout(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], *, whole_items: bool, forward: bool) -> Layout:
    item = ITEM_SIZE[dtype]
    strides = random_strides(rng, shape, item, whole_items, forward)
    low, high = extent(shape, strides, item)
    unit = item if whole_items else int(rng.choice((1, item)))
    before, after = (int(rng.integers(0, 9)) * unit if rng.random() < 0.6 else 0 for _ in range(2))
    return Layout(new_arena(rng, max(1, before + high - low + after)), before - low, shape, strides, dtype)


def new_arena(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.integers(0, 256, size, np.uint8)


def write_values(rng: np.random.Generator, layout: Layout) -> None:
    """Ordinary rows, now and then with extreme or non-finite elements. Elements that overlap end up as whatever bytes they are."""
    values = rng.standard_normal(layout.shape) * float(rng.choice((1e-6, 0.05, 1.0, 300.0)))
    if rng.random() < 0.15 and values.size:
        tiny, huge = {"float16": (6e-8, 6e4), "float64": (5e-324, 1.7e308)}.get(layout.dtype, (1e-45, 3e38))
        values.flat[int(rng.integers(values.size))] = float(rng.choice((np.nan, np.inf, -np.inf, tiny, huge, -huge, -0.0)))
    with np.errstate(over="ignore"):
        if layout.dtype == "bfloat16":
            stored = (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        else:
            stored = np.asarray(values, layout.dtype)
    layout.bytes_in(layout.arena)[...] = np.frombuffer(stored.tobytes(), np.uint8).reshape(*layout.shape, layout.item)


def all_finite(layout: Layout) -> bool:
    raw = layout.raw()
    if layout.dtype == "bfloat16":
        return bool(np.isfinite((np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)).all())
    return bool(np.isfinite(np.frombuffer(raw, layout.dtype)).all())


# ---- what the library is shown ----


def can_be(kind: str, layout: Layout) -> bool:
    if kind == "numpy":
        return layout.dtype != "bfloat16"
    if any(s % layout.item for s in layout.strides):
        return False
    if kind == "capsule":
        return all(abs(s) < 2**40 for s in layout.strides)
    return torch is not None and min(layout.strides, default=0) >= 0 and layout.offset % layout.item == 0


def as_numpy(layout: Layout) -> np.ndarray:
    return np.ndarray(layout.shape, layout.dtype, layout.arena, layout.offset, layout.strides)


def as_torch(layout: Layout):
    items = layout.arena.size // layout.item
    if items == 0:
        return torch.empty(0, dtype=getattr(torch, layout.dtype)).as_strided(layout.shape, [s // layout.item for s in layout.strides])
    flat = torch.frombuffer(layout.arena, dtype=getattr(torch, layout.dtype), count=items)
    return flat.as_strided(layout.shape, [s // layout.item for s in layout.strides], layout.offset // layout.item)


def as_capsule(layout: Layout) -> Exporter:
    return Exporter(layout.arena, layout.offset, layout.shape, [s // layout.item for s in layout.strides], layout.dtype)


SHOW = {"numpy": as_numpy, "torch": as_torch, "capsule": as_capsule}


def contiguous(raw: bytes, shape: tuple[int, ...], dtype: str, kind: str):
    """Fresh row-major memory with these elements, in numpy or torch."""
    memory = np.frombuffer(raw, np.uint8).copy()
    if kind == "torch":
        tensor_dtype = getattr(torch, dtype)
        return torch.frombuffer(memory, dtype=tensor_dtype).reshape(shape) if raw else torch.empty(shape, dtype=tensor_dtype)
    return memory.view(dtype).reshape(shape)


def raw_of(array) -> bytes:
    """The elements of an array of either library in row-major order."""
    if isinstance(array, np.ndarray):
        return array.tobytes()
    return array.contiguous().view(torch.uint8).numpy().tobytes() if array.numel() else b""
