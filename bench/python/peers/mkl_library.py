"""Where Intel's MKL is, and the C signatures of the few functions used from it."""

from __future__ import annotations

import ctypes
import functools
import importlib.metadata
import sys
from pathlib import Path

from contestant import Unavailable

STREAM = ctypes.c_void_p
FLOATS = ctypes.c_void_p
MKL_INT = ctypes.c_int

# Accuracy of MKL's vector maths: 4 ulp at most, like the transforms it competes with.
VML_LOW_ACCURACY = 1


def _candidates() -> list[Path]:
    names = ("libmkl_rt.so*", "libmkl_rt*.dylib", "mkl_rt*.dll")
    found: list[Path] = []
    try:
        files = importlib.metadata.files("mkl") or []
        found += [Path(str(f.locate())) for f in files if any(f.match(name) for name in names)]
    except importlib.metadata.PackageNotFoundError:
        pass
    for folder in (Path(sys.prefix, "lib"), Path(sys.prefix, "Library", "bin")):
        for name in names:
            found += sorted(folder.glob(name))
    return [path for path in found if path.exists()]


@functools.lru_cache(maxsize=None)
def load() -> ctypes.CDLL:
    """The single dynamic library of MKL, with its signatures declared."""
    candidates = _candidates()
    if not candidates:
        raise Unavailable("not installed (package mkl: no libmkl_rt in this environment)")
    library = ctypes.CDLL(str(candidates[0]))
    real, integer = ctypes.c_float, ctypes.c_int
    for name, arguments, result in (
        ("vslNewStream", [ctypes.POINTER(STREAM), integer, ctypes.c_uint], integer),
        ("vslDeleteStream", [ctypes.POINTER(STREAM)], integer),
        ("vslGetStreamStateBrng", [STREAM], integer),
        ("vsRngGaussian", [integer, STREAM, MKL_INT, FLOATS, real, real], integer),
        ("vsRngLaplace", [integer, STREAM, MKL_INT, FLOATS, real, real], integer),
        ("vmlSetMode", [ctypes.c_uint], ctypes.c_uint),
        ("vsLn", [MKL_INT, FLOATS, FLOATS], None),
        ("vsSqrt", [MKL_INT, FLOATS, FLOATS], None),
        ("vsSinCos", [MKL_INT, FLOATS, FLOATS, FLOATS], None),
    ):
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library


def version() -> str:
    return importlib.metadata.version("mkl")
