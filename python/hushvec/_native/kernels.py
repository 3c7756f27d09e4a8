"""The operations of the core for arrays on any device: CPU or CUDA is chosen here, and nowhere else.

Also what a call draws from, and what this build and this machine have. `source` is what noise is drawn from: a Generator, or a state,
six 64-bit words on the device of the arrays (key, next nonce, rounds) whose nonce the call advances.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Sequence
from typing import Any

from hushvec._native import _core, cuda
from hushvec._native.arrays import empty_like, in_order, is_torch, library_of, new_array, on_cuda
from hushvec._util.recording import require_no_recorder
from hushvec._util.validate import kind, whole_number

__all__ = ["backends", "joined", "require_generator", "set_num_threads"]

# One object for as long as the process lives: what is kept for a generator on a device is found by it.
_DEFAULT_GENERATOR = _core.default_generator()


def _of_this_process() -> _core.Generator:
    return _DEFAULT_GENERATOR


def _sent(generator: _core.Generator) -> Any:
    """For pickle: that of one process becomes that of the other, which has a key of its own."""
    return (_of_this_process, ()) if generator is _DEFAULT_GENERATOR else generator.__reduce__()


copyreg.pickle(_core.Generator, _sent)


def require_generator(value: Any) -> _core.Generator:
    """The given generator, or the one of the process, for a draw: refused where the caller is being recorded into a program."""
    require_no_recorder()
    if value is None:
        return _DEFAULT_GENERATOR
    if not isinstance(value, _core.Generator):
        raise TypeError(f"generator must be a hushvec.Generator or None, got {kind(value)}")
    return value


def set_num_threads(n: int) -> None:
    """Set how many threads a large call may use.

    Never changes a bit of a result. The environment variable HUSHVEC_NUM_THREADS sets the value at start.

    Args:
        n: number of threads, 0 for all cores (the default).

    Example:
        >>> import hushvec as hv
        >>> hv.set_num_threads(1)
        >>> hv.set_num_threads(0)
    """
    _core.set_num_threads(whole_number("n", n, at_least=0))


def backends() -> dict[str, Any]:
    """Say which instruction sets this build has, which this machine runs, and which is in use; the same for AES-256.

    HUSHVEC_BACKEND=portable|avx2|avx512|neon and HUSHVEC_AES=portable|aesni|vaes256|vaes512|neon, read at import, force one. Exact
    releases have the same bits on all. With portable AES the default cipher is ChaCha20.

    Returns:
        {"compiled": [...], "available": [...], "active": name, "aes": the same three, "default_cipher": "aes256" or "chacha20",
        "cuda": state}; widest first; the state of the CUDA backend is "not built", "of another version" (calls refuse it), "built"
        (but no driver or device is here) or "available". The default cipher is that of a generator on the CPU that is keyed by the
        operating system.

    Example:
        >>> import hushvec as hv
        >>> "portable" in hv.backends()["compiled"]
        True
    """
    return {**_core.backends(), "cuda": cuda.state()}


_FILLS = {"gaussian": _core.fill_gaussian, "laplacian": _core.fill_laplacian, "l2_laplace": _core.fill_l2_laplace}


def require_release(x: Any, law: str) -> None:
    """Raise whatever would prevent a release of x, except for the values in x."""
    if on_cuda(x):
        cuda.require_release(x, law)


def fill(out: Any, law: str, scale: float, source: Any) -> None:
    """out = scale * Z."""
    if on_cuda(out):
        cuda.fill(out, law, scale, source)
    else:
        _FILLS[law](out, scale, _on_host(source))


def fill_discrete(out: Any, laplacian: bool, scale: float, source: _core.Generator) -> None:
    """out = samples of discrete noise; contiguous int64 or int32."""
    if on_cuda(out):
        cuda.fill_discrete(out, laplacian, scale, source)
    else:
        _core.fill_discrete(out.numpy() if is_torch(out) else out, laplacian, scale, source)


def joined(runs: Sequence[Any]) -> Any:
    """The elements of one-dimensional arrays of one kind and dtype, one after the other, in a new one."""
    if on_cuda(runs[0]):
        library = library_of(runs[0])
        return library.cat(runs) if is_torch(runs[0]) else library.concatenate(runs)
    out = new_array(runs[0], (sum(map(len, runs)),))
    _core.join(runs, out)
    return out


def clip(x: Any, clip_norm: float, out: Any, *, out_is_fresh: bool) -> None:
    """out = x with long rows scaled down to clip_norm."""
    if on_cuda(x):
        cuda.clip(x, clip_norm, out)
    else:
        _core.clip(x, clip_norm, out, out_is_fresh=out_is_fresh)


def clip_and_noise(x: Any, clip_norm: float, noise: float, out: Any, source: Any, law: str, exact: bool, *, out_is_fresh: bool) -> Any:
    """clip(x) + noise of the law in `out`, or in a new array if that is None; `noise` is its sigma or scale."""
    target = empty_like(x) if out is None else out
    if on_cuda(x):
        cuda.clip_and_noise(x, clip_norm, noise, target, source, law, exact)
    else:
        fresh = out_is_fresh or out is None
        _core.clip_and_noise(x, clip_norm, noise, target, _on_host(source), law, exact, fresh)
    return target


def privunit(x: Any, cap_probability: float, threshold: float, sigma: float, out: Any, source: Any, *, out_is_fresh: bool) -> Any:
    """sigma * W for the direction of every row of x, in `out` or in a new array if that is None."""
    target = empty_like(x) if out is None else out
    if on_cuda(x):
        cuda.privunit(x, cap_probability, threshold, sigma, target, source)
    else:
        fresh = out_is_fresh or out is None
        _core.privunit(x, cap_probability, threshold, sigma, target, _on_host(source), out_is_fresh=fresh)
    return target


def randomized_response(codes: Any, labels: int, law: tuple[int, int], source: _core.Generator) -> Any:
    """An answer for each code of an array of integers, in a new array like it."""
    if on_cuda(codes):
        return cuda.randomized_response(in_order(codes), labels, law, source)
    if is_torch(codes):
        return sys.modules["torch"].from_numpy(_core.randomized_response(in_order(codes).numpy(), labels, law, source))
    return _core.randomized_response(codes, labels, law, source)


def require_device(x: Any) -> None:
    """Raise where x lies on a device that hushvec cannot use here."""
    cuda.backend("x", x)


def nearest_codes(x: Any, codes: Any) -> Any:
    """For each row of x on a device, the number of the nearest of `codes`, rows beside it."""
    return cuda.nearest_codes(x, codes)


def _on_host(source: Any) -> Any:
    return source if isinstance(source, _core.Generator) else _core._take_from_state(source.numpy())
