"""Calls on arrays in CUDA memory: the compiled backend loaded at the first one, the caller's stream, scratch memory, key streams.

A call draws from a nonce that its generator reserves on the host. Inside a CUDA graph capture that would make every replay
repeat it, so there the noise comes from a state in device memory, whose nonce the kernels advance. The first ordinary call that
draws on a device makes it, with a key of its own, for all generators of that cipher but seeded ones, which have their own states
with their own nonces. Kernels draw from ChaCha.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from hushvec._native.arrays import (  # isort: skip
    device_of, device_scope, dtype_name, empty_like, is_contiguous, is_torch, new_array, nonfinite_error,
)
from hushvec._native import _core

# Where the compiled backend may be, and what to install if it is of another version: that of a build with nvcc, then the wheels.
_PLACES = {"hushvec._native._cuda": "hushvec", "hushvec_cuda13._cuda": "hushvec-cuda13", "hushvec_cuda12._cuda": "hushvec-cuda12"}

# What captured graphs draw from, by process (a forked child finds no state of its parent), device and cipher. Kernels take the nonces
# of a state one by one, so any number of generators and graphs may share it.
_States = dict[tuple[int, str, str], Any]
_states: _States = {}
_seeded_states: WeakKeyDictionary[_core.Generator, _States] = WeakKeyDictionary()

# Graphs hold addresses, not references: what a captured call needs lives as long as the process. Torch sees to its own tensors, which
# a capture takes from a pool of the graph.
_captured: list[Any] = []


def state() -> str:
    """ "not built", "of another version", "built" (but no driver or device here) or "available"."""
    cuda = _installed()
    if cuda is None:
        return "not built"
    if cuda.__version__ != _core.__version__:
        return "of another version"
    try:
        cuda.check_driver()
    except RuntimeError:
        return "built"
    return "available"


def require_release(x: Any, law: str) -> None:
    """Refuse here what a release of x would be refused for later, when its budget is charged."""
    cuda = backend("x", x)
    size = cuda.privunit_workspace_bytes if law == "privunit" else cuda.workspace_bytes
    size(x)  # refuses what the kernels cannot take
    if cuda.is_capturing(_current_stream(cuda, x), _index(x)):
        raise RuntimeError("privatize cannot be captured in a CUDA graph: every replay would be a release without a receipt")


def fill(out: Any, law: str, scale: float, source: Any) -> None:
    cuda = backend("out", out)
    stream = _current_stream(cuda, out)
    drawn = _stream_or_state(cuda, source, out, stream)
    is_state = hasattr(drawn, "shape")  # and not the capsule of a stream
    workspace = None
    if law == "l2_laplace":
        workspace = _workspace(cuda, out, law)
    elif is_state:
        workspace = _scratch(cuda, out, cuda.fill_workspace_bytes())
    cuda.fill(out, law, scale, drawn, workspace, stream)


def fill_discrete(out: Any, laplacian: bool, scale: float, source: _core.Generator) -> None:
    """Waits: what a word does not decide is settled on the host."""
    cuda = backend("out", out)
    workspace = new_array(out, (cuda.discrete_workspace_bytes(math.prod(out.shape)),), dtype="uint8")
    cuda.fill_discrete(out, laplacian, scale, source._reserve_for_device(), workspace, _current_stream(cuda, out))


def clip(x: Any, clip_norm: float, out: Any) -> None:
    cuda = backend("x", x)
    stream = _current_stream(cuda, x)
    _finish(cuda, x, cuda.clip(x, clip_norm, out, _workspace(cuda, x), stream), out, out, stream)


def clip_and_noise(x: Any, clip_norm: float, noise: float, out: Any, source: Any, law: str, exact: bool) -> None:
    cuda = backend("x", x)
    workspace = _workspace(cuda, x, law)
    stream = _current_stream(cuda, x)
    drawn = _stream_or_state(cuda, source, x, stream)
    values = _float_values(cuda, x, out)
    bad_row = cuda.clip_and_noise(x, clip_norm, noise, values, drawn, law, exact, workspace, stream, values is not out)
    _finish(cuda, x, bad_row, values, out, stream)


def privunit(x: Any, cap_probability: float, threshold: float, sigma: float, out: Any, source: _core.Generator) -> None:
    """out = sigma * W for the direction of every row of x. Waits: what float64 cannot decide is settled on the host."""
    cuda = backend("x", x)
    stream = _current_stream(cuda, x)
    if cuda.is_capturing(stream, _index(x)):
        raise RuntimeError("privunit cannot be captured in a CUDA graph: the host settles what float64 cannot decide")
    workspace = new_array(x, (cuda.privunit_workspace_bytes(x),), dtype="uint8")
    drawn = source._reserve_for_device()
    values = _float_values(cuda, x, out)
    bad_row = cuda.privunit(x, cap_probability, threshold, sigma, values, drawn, workspace, stream, values is not out)
    _finish(cuda, x, bad_row, values, out, stream)


def takes(*arrays: Any) -> bool:
    """Whether the kernels can work on arrays in CUDA memory: there is a backend that can be used, and rows lie one after the other."""
    return state() == "available" and all(map(is_contiguous, arrays))


def find_bad_row(x: Any) -> int | None:
    """The first row with NaN or Inf."""
    cuda = backend("x", x)
    row: int | None = cuda.find_bad_row(x, _report(cuda, x), _current_stream(cuda, x))
    return row


def unit_rows(x: Any, out: Any, *, check: bool) -> int | None:
    """out = x with rows of unit length. With `check` the call waits for the device and returns the first row with NaN or Inf."""
    cuda = backend("x", x)
    row: int | None = cuda.unit_rows(x, out, _report(cuda, x) if check else None, _current_stream(cuda, x))
    return row


def most_rows_of_sum(x: Any, clip_norm: float, sigma: float) -> int:
    """The most rows like x in a sum: exact rounding on a device takes sums of at most 2^21 grids."""
    most: int = backend("parts", x).most_rows_of_sum(clip_norm, sigma)
    return most


def sum_scales(parts: Sequence[Any], clip_norm: float) -> tuple[Any, int | None]:
    """The scales that `add_to_sum` reads, and the first row with NaN or Inf: docs/format.md section 7."""
    cuda = backend("parts", parts[0])
    workspace = new_array(parts[0], (cuda.sum_workspace_bytes(parts),), dtype="uint8")
    return workspace, cuda.sum_scales(parts, clip_norm, workspace, _current_stream(cuda, parts[0]))


def add_to_sum(part: Any, scales: Any, sums: Any) -> None:
    """sums[d] += the whole units of part[n, d]."""
    cuda = backend("parts", part)
    cuda.add_to_sum(part, scales, sums, _current_stream(cuda, part))


def release_sums(sums: Sequence[Any], clip_norm: float, sigma: float, out: Sequence[Any], source: _core.Generator) -> None:
    """out[i][d] = sums[i][d] + N(0, sigma^2), exactly rounded, with a nonce for each part."""
    cuda = backend("out", out[0])
    size = cuda.release_workspace_bytes([part.shape[0] for part in out])
    workspace = new_array(out[0], (size,), dtype="uint8")
    drawn = source._reserve_for_device(len(sums))
    cuda.release_sums(sums, clip_norm, sigma, out, drawn, workspace, _current_stream(cuda, out[0]))


def release_correlated(
    sums: Sequence[Any], clip_norm: float, sigma: float, out: Sequence[Any], streams: Sequence[Any], coefficients: Sequence[float]
) -> None:
    """out[i][d] = sums[i][d] + sigma (c_0 Z_0 + ...), exactly rounded once, with Z_j of the stream j, all parts from one nonce."""
    cuda = backend("out", out[0])
    size = cuda.release_workspace_bytes([part.shape[0] for part in out], coefficients)
    workspace = new_array(out[0], (size,), dtype="uint8")
    cuda.release_correlated(sums, clip_norm, sigma, out, streams, coefficients, workspace, _current_stream(cuda, out[0]))


def randomized_response(codes: Any, labels: int, law: tuple[int, int], source: _core.Generator) -> Any:
    """Answers for codes, in a new array. `law`: what `_core.response_law` returned."""
    cuda = backend("true_label", codes)
    stream = _current_stream(cuda, codes)
    answers = new_array(codes, tuple(codes.shape))
    place = cuda.copy_codes(codes, answers, labels, _report(cuda, codes), stream)
    if place is not None:
        raise ValueError(f"codes must be in [0, {labels}), got {int(answers.reshape(-1)[place])} at position {place}")
    cuda.randomized_response(answers, labels, law, source._reserve_for_device(), stream)
    return answers


def nearest_codes(x: Any, codes: Any) -> Any:
    """For each row of x, int32[n], the code of the largest inner product, of equal ones the first. x is finite and not float64."""
    cuda = backend("x", x)
    nearest = new_array(x, (x.shape[0],), dtype="int32")
    cuda.nearest_codes(x, codes, nearest, _current_stream(cuda, x))
    return nearest


def backend(name: str, array: Any) -> ModuleType:
    """The compiled backend; raises where there is none that can be used."""
    cuda, ours = _installed(), _core.__version__
    if cuda is None:
        raise RuntimeError(
            f"{name} is on {device_of(array)}, but this build of hushvec has no CUDA backend: pip install hushvec-cuda12=={ours} or "
            f"hushvec-cuda13=={ours} (nvidia-smi shows the CUDA version), build it where nvcc is found (HUSHVEC_CUDA=ON), or move "
            f"{name} to the CPU"
        )
    if cuda.__version__ != ours:
        found, package = cuda.__version__, _PLACES[cuda.__name__]
        raise RuntimeError(f"the CUDA backend must be of hushvec's version, {ours}, got {found}: pip install {package}=={ours}")
    cuda.check_driver()
    return cuda


def _installed() -> ModuleType | None:
    """The compiled backend, or None. What is loaded is found without a search, which every call would repeat."""
    for name in _PLACES:
        if (module := sys.modules.get(name)) is not None:
            return module
    for name in _PLACES:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return None


def _workspace(cuda: ModuleType, x: Any, law: str = "gaussian") -> Any:
    return _scratch(cuda, x, cuda.workspace_bytes(x, law))


def _scratch(cuda: ModuleType, x: Any, size: int) -> Any:
    return _kept_in_capture(cuda, x, new_array(x, (size,), dtype="uint8"))


def _float_values(cuda: ModuleType, x: Any, out: Any) -> Any:
    """Where the kernels of a release write: `out`, or for int8 a new array like x, for whole numbers."""
    return _kept_in_capture(cuda, x, empty_like(x)) if dtype_name(out) == "int8" else out


def _kept_in_capture(cuda: ModuleType, x: Any, scratch: Any) -> Any:
    if not is_torch(x) and cuda.is_capturing(_current_stream(cuda, x), _index(x)):
        _captured.append(scratch)
    return scratch


def _report(cuda: ModuleType, x: Any) -> Any:
    return new_array(x, (cuda.report_bytes(),), dtype="uint8")


def _current_stream(cuda: ModuleType, x: Any) -> int:
    """Handle of the stream that the caller's library works on, on the device of x."""
    handle: int | None = cuda.current_stream(x, _index(x))
    if handle is not None:
        return handle
    if is_torch(x):
        return int(sys.modules["torch"].cuda.current_stream(x.device).cuda_stream)
    with device_scope(x):
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)


def _index(x: Any) -> int:
    return int(device_of(x).removeprefix("cuda:"))


def _stream_or_state(cuda: ModuleType, source: Any, array: Any, stream: int) -> Any:
    if not isinstance(source, _core.Generator):
        return source
    if not cuda.is_capturing(stream, _index(array)):
        prepare_capture(source, array)
        return source._reserve_for_device()
    states, place = _states_of(source, array)
    if place not in states:
        raise RuntimeError(f"generator must have been used on {place[1]} before a graph is captured: run the call once outside")
    _captured.append(states[place])
    return states[place]


def prepare_capture(generator: _core.Generator, array: Any) -> None:
    """Make the state that a graph captured on the device of `array` draws from, unless it exists. Not inside a capture."""
    states, place = _states_of(generator, array)
    if place not in states:
        cuda, index = backend("the array", array), _index(array)
        _load_kernels(place[0], cuda, index)
        state = new_array(array, (6,), dtype="int64")
        cuda.write_state(state, generator._apart(index), index, _current_stream(cuda, array))
        states.setdefault(place, state)  # another thread may have been faster, and a graph have its state


def _states_of(generator: _core.Generator, array: Any) -> tuple[_States, tuple[int, str, str]]:
    states = _seeded_states.setdefault(generator, {}) if generator.seeded else _states
    return states, (os.getpid(), device_of(array), generator.device_cipher)


@cache
def _load_kernels(process: int, cuda: ModuleType, index: int) -> None:
    cuda.load_kernels(index)


def _finish(cuda: ModuleType, x: Any, bad_row: int | None, values: Any, out: Any, stream: int) -> None:
    """Refuse NaN and Inf; for int8 turn the whole numbers into integers."""
    if bad_row is not None:
        raise nonfinite_error("x", x, bad_row)
    if values is not out:
        cuda.int8_values(values, out, stream)
