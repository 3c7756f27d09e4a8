"""Intel MKL's vector statistics: the fastest noise a Python user can reach.  Not secure.

ARS5 is five rounds of AES without a key schedule, a generator for simulation.
The other generators of MKL (MCG59, SFMT19937, Philox) are as fast or slower.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np

from contestant import Contestant, Unavailable
from peers import mkl_library

# mkl_vsl_defines.h numbers the generators in steps of 2^20; ARS5 is the fifteenth.
BRNG_STEP = 1 << 20
BRNG_ARS5 = 15 * BRNG_STEP
# Inverse CDF is faster than both Box-Muller methods (0 and 1) for float32.
GAUSSIAN_ICDF = 2
LAPLACE_ICDF = 0


class MklARS5(Contestant):
    name = "MKL ARS5 (five AES rounds), inverse CDF"

    def __init__(self) -> None:
        self._stream = mkl_library.STREAM()

    def open(self) -> None:
        self._mkl = mkl_library.load()
        seed = int.from_bytes(os.urandom(4), "little")
        status = self._mkl.vslNewStream(ctypes.byref(self._stream), BRNG_ARS5, seed)
        if status != 0:
            raise Unavailable(f"vslNewStream must return 0, got {status}")
        generator = self._mkl.vslGetStreamStateBrng(self._stream)
        if generator != BRNG_ARS5:
            raise Unavailable(f"stream must be generator {BRNG_ARS5}, got {generator}")

    def close(self) -> None:
        if self._stream:
            # Sets the handle to null, so that a second close finds nothing.
            self._mkl.vslDeleteStream(ctypes.byref(self._stream))

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        status = self._mkl.vsRngGaussian(
            GAUSSIAN_ICDF, self._stream, out.size, out.ctypes.data, 0.0, sigma
        )
        if status != 0:
            raise RuntimeError(f"vsRngGaussian must return 0, got {status}")
        return out

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        status = self._mkl.vsRngLaplace(
            LAPLACE_ICDF, self._stream, out.size, out.ctypes.data, 0.0, scale
        )
        if status != 0:
            raise RuntimeError(f"vsRngLaplace must return 0, got {status}")
        return out
