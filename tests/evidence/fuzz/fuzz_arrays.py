"""Random arrays of every kind into every function that takes one.

    PYTHONPATH=tests python -m evidence.fuzz.fuzz_arrays [--seconds S | --cases N] [--seed K]

What must hold for each call:
  - what is no usable array or number is refused with ValueError, TypeError, RuntimeError or BufferError and a message, and no
    byte of memory has changed;
  - what is usable is accepted, the result has the bits of the same call on fresh contiguous copies with the same key, and no
    byte outside the elements of `out` has changed.
Where the library may refuse more than it must (arrays that interleave without sharing a byte), both are fine.

For memory errors that write nothing visible, run it on a core built with -DHUSHVEC_SANITIZE=address,undefined:

    LD_PRELOAD=$(g++ -print-file-name=libasan.so) PYTHONMALLOC=malloc ASAN_OPTIONS=detect_leaks=0 PYTHONPATH=tests \\
        python -m evidence.fuzz.fuzz_arrays
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import hushvec as hv
from evidence.fuzz import array_layouts as al
from evidence.fuzz import broken_arrays
from evidence.fuzz.array_layouts import Layout, torch
from hushvec._native import _core

REFUSALS = (ValueError, TypeError, RuntimeError, BufferError)
ACCEPT, REFUSE, EITHER = "accept", "refuse", "either"
LAWS = ("gaussian", "laplacian", "l2_laplace")
BAD_NUMBERS = (float("nan"), float("inf"), -1.0, 1e300, "1", None, 1j)
CLIP_NORMS = (1.0, 0.25, 7.0, 2.0**-20, 1e6)
NOISE_TO_NORM = (0.01, 0.6, 3.0, 1e-5)


class Violation(AssertionError):
    """The library broke its word; the message says how."""


@dataclass(frozen=True)
class Parameters:
    clip_norm: Any
    sigma: Any
    law: str
    exact: bool
    rounds: int
    seed: int
    bad: str = ""   # the name of the one that is out of range

    def generator(self) -> _core.Generator:
        return _core.Generator.unsafe_seeded(self.seed, self.rounds)


def random_parameters(rng: np.random.Generator) -> Parameters:
    clip_norm: Any = float(rng.choice(CLIP_NORMS))
    sigma: Any = clip_norm * float(rng.choice(NOISE_TO_NORM))
    law = str(rng.choice(LAWS))
    exact = law != "l2_laplace" and bool(rng.random() < 0.7)
    wrong = BAD_NUMBERS[int(rng.integers(len(BAD_NUMBERS)))]
    bad = str(rng.choice(("", "clip_norm", "sigma"), p=(0.95, 0.025, 0.025)))
    if bad:
        clip_norm, sigma = (wrong, sigma) if bad == "clip_norm" else (clip_norm, wrong)
    return Parameters(clip_norm, sigma, law, exact, int(rng.choice((8, 12, 20))), int(rng.integers(2**63)), bad)


# ---- the functions under test: call(x, out, parameters) -> result or None; `out` is written ----


@dataclass(frozen=True)
class Call:
    run: Callable[[Any, Any, Parameters], Any]
    reads: bool = True            # takes x
    writes: bool = True           # takes out
    public: bool = True           # refuses what is neither numpy nor torch, and mixtures
    direct: bool = True           # hands x itself to the core: no library resolves what its tensors hide
    finite_only: bool = True
    scalars: tuple[str, ...] = ("clip_norm",)


def _core_clip(x: Any, out: Any, p: Parameters) -> None:
    _core.clip(x, p.clip_norm, out)


def _core_clip_and_noise(x: Any, out: Any, p: Parameters) -> None:
    _core.clip_and_noise(x, p.clip_norm, p.sigma, out, p.generator(), p.law, p.exact)


def _core_fill(x: Any, out: Any, p: Parameters) -> None:
    {"gaussian": _core.fill_gaussian, "laplacian": _core.fill_laplacian, "l2_laplace": _core.fill_l2_laplace}[p.law](
        out, p.clip_norm, p.generator()
    )


def _noise_function(p: Parameters) -> Callable[..., Any]:
    return {"gaussian": hv.gaussian_noise, "laplacian": hv.laplacian_noise, "l2_laplace": hv.l2_laplace_noise}[p.law]


def _noise_into(x: Any, out: Any, p: Parameters) -> Any:
    return _noise_function(p)(getattr(out, "shape", (3, 16)), p.clip_norm, out=out, generator=p.generator())


def _noise_like(x: Any, out: Any, p: Parameters) -> Any:
    return _noise_function(p)((2, 300), p.clip_norm, like=x, generator=p.generator())


def _privatize(x: Any, out: Any, p: Parameters) -> Any:
    normalize = p.clip_norm == 1.0
    return hv.privatize(
        x, epsilon=4.0, clip_norm=p.clip_norm, mechanism=p.law, normalize=normalize, renormalize=p.exact, generator=p.generator()
    ).values


CALLS: dict[str, Call] = {
    "_core.clip": Call(_core_clip, public=False),
    "_core.clip_and_noise": Call(_core_clip_and_noise, public=False, scalars=("clip_norm", "sigma")),
    "_core.fill": Call(_core_fill, reads=False, public=False),
    "clip(out)": Call(lambda x, out, p: hv.clip(x, p.clip_norm, out=out)),
    "clip": Call(lambda x, out, p: hv.clip(x, p.clip_norm), writes=False),
    "clip_and_noise(out)": Call(
        lambda x, out, p: hv.clip_and_noise(x, p.clip_norm, p.sigma, exact=p.exact, out=out, generator=p.generator()),
        scalars=("clip_norm", "sigma"),
    ),
    "clip_and_noise": Call(
        lambda x, out, p: hv.clip_and_noise(x, p.clip_norm, p.sigma, exact=p.exact, generator=p.generator()),
        writes=False,
        scalars=("clip_norm", "sigma"),
    ),
    "noise(out)": Call(_noise_into, reads=False),
    "noise(like)": Call(_noise_like, writes=False, direct=False, finite_only=False),
    "add_noise": Call(lambda x, out, p: hv.add_noise(x, x), writes=False, direct=False, scalars=()),
    "privatize": Call(_privatize, writes=False, direct=False),
}


# ---- one case on arrays that are sound or nearly so ----


@dataclass(frozen=True)
class Shown:
    """A layout as the library sees it."""

    layout: Layout
    kind: str
    array: Any
    flaw: str = ""   # why it must be refused although its layout is fine

    @property
    def library(self) -> str:
        """The one that works on it: numpy on an export that it can read."""
        return "numpy" if self.kind == "capsule" and self.layout.dtype != "bfloat16" else self.kind.replace("capsule", "torch")


def show(rng: np.random.Generator, layout: Layout, *, output: bool, like: str = "") -> Shown | None:
    kinds = [kind for kind in al.SHOW if al.can_be(kind, layout)]
    if not kinds:
        return None
    kind = like if like in kinds and rng.random() < 0.8 else str(rng.choice(kinds))
    array = al.SHOW[kind](layout)
    flaw = ""
    if kind == "numpy" and rng.random() < 0.06:
        array.flags.writeable = False
        flaw = "read-only" if output else ""
    elif kind == "torch" and rng.random() < 0.06:
        if rng.random() < 0.5:
            array, flaw = torch._neg_view(array), "negated"
        else:
            array, flaw = array.detach().requires_grad_(True), "gradient"
    return Shown(layout, kind, array, flaw)


def random_output(rng: np.random.Generator, x: Layout, whole_items: bool, forward: bool) -> Layout:
    """A layout of x's shape and dtype, mostly: apart from x, on top of it, or beside it in the same memory."""
    shape, dtype = x.shape, x.dtype
    fate = rng.random()
    if fate < 0.25:
        return x
    if fate < 0.45:   # the same memory, moved, turned or laid out anew where that fits
        offset, strides = x.offset, x.strides
        way = int(rng.integers(3))
        if way == 0:
            offset += int(rng.integers(-8, 9)) * (x.item if whole_items else 1)
        elif way == 1 and not forward and shape:
            axis = int(rng.integers(len(shape)))
            offset += strides[axis] * (shape[axis] - 1)
            strides = tuple(-s if i == axis else s for i, s in enumerate(strides))
        else:
            strides = al.random_strides(rng, shape, x.item, whole_items, forward)
        low, high = al.extent(shape, strides, x.item)
        if 0 <= offset + low and offset + high <= x.arena.size and 0 not in shape and all(abs(s) < 2**40 for s in strides):
            return Layout(x.arena, offset, shape, strides, dtype)
    elif fate < 0.50:
        shape = al.random_shape(rng)
    elif fate < 0.53:
        dtype = "bfloat16" if dtype == "bfloat16" else str(rng.choice(("float16", "float32", "float64")))
    elif fate < 0.58 and shape and 0 not in shape and min(x.strides) > 0:   # x and out are the odd and even columns of one array
        wide = al.random_layout(rng, dtype, (*shape[:-1], 2 * shape[-1]), whole_items=whole_items, forward=forward)
        return Layout(wide.arena, wide.offset, shape, (*wide.strides[:-1], 2 * wide.strides[-1]), dtype)
    return al.random_layout(rng, dtype, shape, whole_items=whole_items, forward=forward)


def expectation(call: Call, x: Shown, out: Shown, p: Parameters) -> str:
    used = [shown for shown, uses in ((x, call.reads), (out, call.writes)) if uses]
    if p.bad in call.scalars or any(shown.flaw for shown in used) or any(len(shown.layout.shape) not in (1, 2) for shown in used):
        return REFUSE
    if call.public and (len({shown.library for shown in used}) > 1 or (call.writes and out.kind == "capsule")):
        return REFUSE   # numpy makes what a capsule without a version exports read-only
    if call.reads and call.finite_only and not al.all_finite(x.layout):
        return REFUSE
    if call.run is _privatize and len(x.layout.shape) and x.layout.shape[-1] == 0:
        return REFUSE
    if not call.writes:
        return ACCEPT
    written = out.layout.addresses()
    if len(np.unique(written)) < len(written):
        return REFUSE
    certain = nested(out.layout)
    if call.reads:
        if x.layout.shape != out.layout.shape or x.layout.dtype != out.layout.dtype:
            return REFUSE
        read = x.layout.addresses()
        if not np.array_equal(read, written):
            if np.intersect1d(read, written).size:
                return REFUSE
            certain &= not (read.size and read.min() <= written.max() and written.min() <= read.max())
    return ACCEPT if certain else EITHER


def nested(layout: Layout) -> bool:
    """One axis steps over whole runs of the other, as in every array made by slicing."""
    axes = sorted((abs(s), n) for n, s in zip(layout.shape, layout.strides, strict=True) if n > 1)
    reach = layout.item
    for stride, length in axes:
        if stride < reach:
            return False
        reach += stride * (length - 1)
    return True


def on_copies(call: Call, x: Shown, out: Shown, p: Parameters) -> bytes:
    """The result of the same call on contiguous memory: in numpy, unless only torch has the dtype or torch does some of the sums."""

    def copy(shown: Shown, raw: bytes) -> Any:
        torch_only = shown.layout.dtype == "bfloat16" or (shown.kind == "torch" and not call.direct)
        return al.contiguous(raw, shown.layout.shape, shown.layout.dtype, "torch" if torch_only else "numpy")

    source = copy(x, x.layout.raw()) if call.reads else None
    target = copy(out, bytes(len(out.layout.raw()))) if call.writes else None
    result = call.run(source, target, p)
    return al.raw_of(target if call.writes else result)


def array_case(rng: np.random.Generator, calls: dict[str, Call]) -> tuple[str, str]:
    dtype = str(rng.choice(("float32", "float32", "float64", "float16", "bfloat16")))
    if dtype == "bfloat16" and torch is None:
        dtype = "float32"
    forward = dtype == "bfloat16" or bool(rng.random() < 0.4)
    whole_items = forward or bool(rng.random() < 0.4)
    layout = al.random_layout(rng, dtype, al.random_shape(rng), whole_items=whole_items, forward=forward)
    target = random_output(rng, layout, whole_items, forward)
    al.write_values(rng, layout)
    x = show(rng, layout, output=False)
    out = x if target is layout and rng.random() < 0.7 else show(rng, target, output=True, like=x.kind if x else "")
    if x is None or out is None:
        return "skipped", "skipped"
    if out is x and x.kind == "numpy" and not x.array.flags.writeable:
        out = Shown(layout, "numpy", x.array, "read-only")
    p = random_parameters(rng)
    name = str(rng.choice(list(calls)))
    if undecided(calls[name], x):
        return name, "skipped"
    return name, judge(name, calls[name], x, out, p)


def undecided(call: Call, x: Shown) -> bool:
    """Where Python code works on x itself, torch may resolve a negation, and NaNs come out with other bits."""
    return not call.direct and (x.flaw == "negated" or (call.run is CALLS["add_noise"].run and not al.all_finite(x.layout)))


def judge(name: str, call: Call, x: Shown, out: Shown, p: Parameters) -> str:
    expected = expectation(call, x, out, p)
    about = f"{name} x={describe(x)} out={describe(out)} {p}"
    wanted = on_copies(call, x, out, p) if expected != REFUSE else b""
    before = {id(shown.layout.arena): shown.layout.arena.copy() for shown in (x, out)}
    try:
        result = call.run(x.array, out.array, p)
    except REFUSALS as error:
        if expected == ACCEPT:
            raise Violation(f"refused: {error!r}; {about}") from error
        if not str(error):
            raise Violation(f"refused without a message: {error!r}; {about}") from error
        if any((shown.layout.arena != before[id(shown.layout.arena)]).any() for shown in (x, out)):
            raise Violation(f"refused and wrote; {about}") from error
        outcome = "refused"
    except Exception as error:
        raise Violation(f"raised {error!r}; {about}") from error
    else:
        if expected == REFUSE:
            raise Violation(f"accepted; {about}")
        check_result(call, x, out, before, wanted, result, about)
        outcome = "accepted"
    for shown in (x, out):
        if shown.kind == "capsule" and shown.array.live != 0:
            raise Violation(f"{shown.array.live} capsules not freed; {about}")
    return outcome


def check_result(call: Call, x: Shown, out: Shown, before: dict[int, np.ndarray], wanted: bytes, result: Any, about: str) -> None:
    if call.writes and call.public and result is not out.array:
        raise Violation(f"returned something else than out; {about}")
    if (out.layout.raw() if call.writes else al.raw_of(result)) != wanted:
        raise Violation(f"differs from the call on copies; {about}")
    for shown in (x, out):
        was = before[id(shown.layout.arena)]
        watched = out.layout.outside() if call.writes and shown.layout.arena is out.layout.arena else slice(None)
        if (shown.layout.arena[watched] != was[watched]).any():
            raise Violation(f"wrote outside of out; {about}")


def describe(shown: Shown) -> str:
    layout = shown.layout
    return (f"[{shown.kind} {layout.dtype} {layout.shape} strides {layout.strides} offset {layout.offset} "
            f"of {layout.arena.size} at {layout.arena.ctypes.data:#x} {shown.flaw}]")


# ---- one case with a broken array ----


# Releases integers into an array of int8.
INT8_OUT = ("_core.clip_and_noise",)


def broken_case(rng: np.random.Generator, calls: dict[str, Call]) -> tuple[str, str]:
    name, kind = str(rng.choice(list(calls))), str(rng.choice(list(broken_arrays.BROKEN)))
    call, junk = calls[name], broken_arrays.BROKEN[kind]()
    p = Parameters(1.0, 0.5, "gaussian", True, 20, 1)
    sound = np.full(broken_arrays.SHAPE, 0.25, broken_arrays.DTYPE)
    was = sound.copy()
    first = call.reads and (not call.writes or rng.random() < 0.5)
    if call.public and kind == "None" and not first:
        return name, "skipped"   # out=None asks for a new array
    if kind == "None" and call.run is _noise_like:
        return name, "skipped"
    try:
        call.run(junk if first else sound, sound if first else junk, p)
    except (*REFUSALS, broken_arrays.JunkError) as error:
        if not str(error):
            raise Violation(f"refused without a message: {error!r}; {name} with {kind}") from error
    except Exception as error:
        raise Violation(f"raised {error!r}; {name} with {kind}") from error
    else:
        if not call.direct and kind in broken_arrays.READABLE_BY_TORCH:
            return name, "accepted"
        if call.public and first and kind in broken_arrays.NUMBERS:
            return name, "accepted"
        if name in INT8_OUT and not first and kind in ("numpy int8", "torch int8") and (sound == was).all():
            return name, "accepted"
        raise Violation(f"accepted; {name} with {kind} as {'x' if first else 'out'}")
    if (sound != was).any():
        raise Violation(f"refused and wrote; {name} with {kind}")
    return name, "refused"


def one_case(seed: int, number: int, calls: dict[str, Call] = CALLS) -> tuple[str, str]:
    """Case `number` of run `seed`: (function, outcome). Raises Violation."""
    rng = np.random.default_rng((seed, number))
    _core.set_num_threads(int(rng.integers(1, 4)))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")   # overflow in sums of extreme rows; torch about what it exports
            return broken_case(rng, calls) if rng.random() < 0.15 else array_case(rng, calls)
    except Violation as violation:
        raise Violation(f"case {number} of seed {seed}: {violation}") from violation.__cause__
    finally:
        _core.set_num_threads(0)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Random arrays of every kind into every function that takes one.")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long (default 20)")
    parser.add_argument("--cases", type=int, help="how many cases, instead of how long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to repeat one")
    options = parser.parse_args(arguments)

    counts: Counter[tuple[str, str]] = Counter()
    violations: list[Violation] = []
    end = time.monotonic() + options.seconds
    number = options.first
    while time.monotonic() < end if options.cases is None else number < options.first + options.cases:
        try:
            counts[one_case(options.seed, number)] += 1
        except Violation as violation:
            violations.append(violation)
            print(violation, flush=True)
        number += 1

    for name in CALLS:
        print(f"{name:22s} {counts[name, 'accepted']:8d} accepted {counts[name, 'refused']:8d} refused")
    print(f"seed {options.seed}: {number - options.first} cases, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
