"""Runs calls of the library in a process with one backend forced, and returns what they wrote.

The backend is chosen when hushvec is imported, hence a process for each. The layouts below are the ways an array
reaches the library; the released bits must not depend on them.
"""

import atexit
import dataclasses
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from evidence.reference import stream


@dataclass(frozen=True)
class Call:
    """One call. rows is the input widened to float32 or float64; dtype is what the library gets ("bfloat16" too)."""

    rows: np.ndarray
    dtype: str = "float32"
    function: str = "clip_and_noise"  # "clip", "int8", "privunit_int8", or "fill": rows then only gives the shape
    law: str = "gaussian"
    clip_norm: float = 1.0
    sigma: float = 1.0
    epsilon: float = 8.0  # of "privunit_int8"
    seed: int = 1
    cipher: str = "chacha20"
    version: int | None = None  # of the format; None is that of the cipher
    earlier_calls: int = 0  # nonces that other calls have used up
    threads: int = 1
    layout: str = "new"  # where the output goes and how the input lies, see _arranged

    @property
    def rounds(self):
        return stream.ROUNDS[self.cipher]

    def __repr__(self):
        return (
            f"{self.function} {self.law} {self.dtype}{list(self.rows.shape)} "
            f"clip_norm={self.clip_norm!r} sigma={self.sigma!r} seed={self.seed} {self.cipher} version={self.version} "
            f"earlier={self.earlier_calls} threads={self.threads} {self.layout}"
        )


LAYOUTS = ("new", "out", "in_place", "wide_rows", "every_other_column", "fortran", "wide_out", "torch")


def once_for_all_layouts(expected_of):
    """The reference of a call, computed once: calls that differ in layout or threads alone have the same bits, on every backend."""
    kept = {}

    def asked(call):
        key = repr(dataclasses.replace(call, layout="new", threads=1)), call.epsilon, call.rows.dtype.str, call.rows.tobytes()
        if key not in kept:
            kept[key] = expected_of(call)
        return kept[key]

    return asked


def _python_path():
    tests = str(Path(__file__).parents[2])
    return os.pathsep.join(filter(None, (tests, os.environ.get("PYTHONPATH"))))


def outputs(backend, calls, aes=None):
    """The widened outputs of the calls, made by `backend` and one implementation of AES-256 in a process of their own."""
    process, errors = _started(backend, aes)
    try:
        pickle.dump(list(calls), process.stdin)
        process.stdin.flush()
        return pickle.load(process.stdout)
    except (BrokenPipeError, EOFError):
        _started.cache_clear()
        errors.seek(0)
        raise RuntimeError(f"backend {backend} exited with {process.wait()}:\n{errors.read().decode()[-4000:]}") from None


@cache
def _started(backend, aes):
    """One process for all tests of a file: importing torch takes longer than most of them."""
    environment = dict(os.environ, HUSHVEC_BACKEND=backend, PYTHONPATH=_python_path())
    if aes is not None:
        environment["HUSHVEC_AES"] = aes
    errors = tempfile.TemporaryFile()   # noqa: SIM115  # closed at the end
    process = subprocess.Popen(
        [sys.executable, "-m", "evidence.exact.calls"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
    )

    @atexit.register
    def stop():
        process.stdin.close()
        process.stdout.close()
        process.wait()
        errors.close()

    return process, errors


def _to_torch(rows, dtype):
    import torch

    return torch.from_numpy(np.array(rows)).to(getattr(torch, dtype))


def _widened(array, dtype):
    if dtype == "bfloat16" and not isinstance(array, np.ndarray):
        return array.float().numpy()
    return np.asarray(array)


def _arranged(rows, dtype, layout):
    """(x, out): the input as `layout` has it, and the output array or None for the library's own."""
    count, dimension = rows.shape
    if dtype == "bfloat16" or layout == "torch":
        x = _to_torch(rows, dtype)
        return x, (x if layout == "in_place" else None)
    x = rows.astype(dtype)
    if layout == "out":
        return x, np.full_like(x, np.nan)
    if layout == "in_place":
        return x, x
    if layout == "wide_rows":
        wide = np.full((count, dimension + 5), np.nan, dtype=dtype)
        wide[:, :dimension] = x
        return wide[:, :dimension], None
    if layout == "every_other_column":
        wide = np.full((count, 2 * dimension), np.nan, dtype=dtype)
        wide[:, ::2] = x
        return wide[:, ::2], None
    if layout == "fortran":
        return np.asfortranarray(x), None
    if layout == "wide_out":
        return x, np.full((count, dimension + 3), np.nan, dtype=dtype)[:, :dimension]
    return x, None


def _empty_like(x):
    if isinstance(x, np.ndarray):
        return np.empty(x.shape, dtype=x.dtype)
    return x.new_empty(x.shape)


def _run(call, hv, core):
    hv.set_num_threads(call.threads)
    generator = hv.Generator.unsafe_seeded(call.seed, cipher=call.cipher, format_version=call.version)
    for _ in range(call.earlier_calls):
        core.fill_gaussian(np.empty(1, dtype=np.float32), 1.0, generator)
    if call.function == "fill":
        out = np.empty(call.rows.shape, dtype=call.dtype)
        fill = {"gaussian": core.fill_gaussian, "laplacian": core.fill_laplacian}[call.law]
        fill(out, call.sigma, generator)
        return out
    x, out = _arranged(call.rows, call.dtype, call.layout)
    if call.function == "clip":
        return hv.clip(x, call.clip_norm, out=out)
    if call.function in ("int8", "privunit_int8"):
        return _int8_values(call, core, x, generator)
    if call.law == "gaussian":
        return hv.clip_and_noise(x, call.clip_norm, call.sigma, exact=True, out=out, generator=generator)
    fresh = out is None
    out = _empty_like(x) if fresh else out
    core.clip_and_noise(x, call.clip_norm, call.sigma, out, generator, call.law, True, out_is_fresh=fresh)
    return out


def _int8_values(call, core, x, generator):
    rows, dimension = x.shape
    apart = call.layout == "every_other_column"
    out = np.zeros((rows, 2 * dimension), np.int8)[:, ::2] if apart else np.empty((rows, dimension), np.int8)
    if call.layout == "torch":
        import torch

        out = torch.from_numpy(out)
    if call.function == "int8":
        core.clip_and_noise(x, call.clip_norm, call.sigma, out, generator, "gaussian", True)
    else:
        core.privunit(x, *core.privunit_law(call.epsilon), call.sigma, out, generator)
    return out


def _main():
    import hushvec as hv
    from hushvec._native import _core as core

    asked = os.environ["HUSHVEC_BACKEND"]
    found = core.backends()
    if found["active"] != asked:
        raise SystemExit(f"asked for backend {asked}, got {found['active']}")
    if os.environ.get("HUSHVEC_AES", found["aes"]["active"]) != found["aes"]["active"]:
        raise SystemExit(f"asked for {os.environ['HUSHVEC_AES']}, got {found['aes']['active']}")
    while sys.stdin.buffer.peek(1):
        calls = pickle.load(sys.stdin.buffer)
        pickle.dump([_widened(_run(call, hv, core), call.dtype) for call in calls], sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _main()
