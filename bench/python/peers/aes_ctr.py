"""AES bytes from `cryptography` turned into noise: the best secure recipe without a compiler.

Two grades of it:

* OpenSSL's AES-256 in counter mode, transformed by numpy: Box-Muller, vectorised
  in blocks.  What one writes from the two packages that are always there.
* AES-256-GCM with the tag thrown away (the same counter mode, but OpenSSL gives
  it twice the speed on CPUs with VAES), transformed by MKL's vector maths.

Both work in blocks that stay in L2 and allocate nothing per block.
"""

from __future__ import annotations

import math
import os

import numpy as np

from contestant import Contestant
from peers import mkl_library

WORD_BYTES = 4

# Samples in a block.  Each needs 18 bytes of working set.  On a Xeon (Sapphire
# Rapids, 2 MB L2) 2^14 costs 15 % more, where the price of a numpy call shows, and
# 2^18 costs 5 % more, where L2 is full.
BLOCK = 1 << 16

# One GCM nonce ends at 2^36 - 32 bytes; a new key well before.
BYTES_PER_KEY = 1 << 35

WORD_TO_UNIT = np.float32(2.0**-32)
WORD_TO_ANGLE = np.float32(math.pi * 2.0**-31)
SIGN_BIT = np.uint32(1 << 31)
MAGNITUDE_BITS = np.uint32((1 << 31) - 1)
MAGNITUDE_TO_UNIT = np.float32(2.0**-31)


class KeyStream:
    """Cipher bytes as uint32 words, under fresh keys from the operating system."""

    def __init__(self, mode: str) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._new_cipher = {
            "CTR": lambda: Cipher(algorithms.AES(os.urandom(32)), modes.CTR(os.urandom(16))),
            "GCM": lambda: Cipher(algorithms.AES(os.urandom(32)), modes.GCM(os.urandom(12))),
        }[mode]
        self._zeros = memoryview(bytes(WORD_BYTES * BLOCK))
        self._left = 0

    def fill(self, words: np.ndarray) -> None:
        """Overwrites `words`, at most BLOCK of them."""
        size = WORD_BYTES * words.size
        if self._left < size:
            self._encryptor = self._new_cipher().encryptor()
            self._left = BYTES_PER_KEY
        self._left -= size
        self._encryptor.update_into(self._zeros[:size], memoryview(words).cast("B"))


class NumpyMaths:
    """log and sine with cosine by numpy, in place."""

    def open(self) -> None:
        pass

    def multiple_of_log(self, values: np.ndarray, factor: float) -> None:
        # numpy's float32 log2 is half the time of its log.
        np.log2(values, out=values)
        np.multiply(values, np.float32(factor * math.log(2.0)), out=values)

    def sqrt(self, values: np.ndarray) -> None:
        np.sqrt(values, out=values)

    def sin_cos(self, angle: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> None:
        np.cos(angle, out=cosine)
        np.sin(angle, out=sine)


class MklMaths:
    """The same by MKL's vector maths."""

    def open(self) -> None:
        self._mkl = mkl_library.load()
        self._mkl.vmlSetMode(mkl_library.VML_LOW_ACCURACY)

    def multiple_of_log(self, values: np.ndarray, factor: float) -> None:
        self._mkl.vsLn(values.size, values.ctypes.data, values.ctypes.data)
        np.multiply(values, np.float32(factor), out=values)

    def sqrt(self, values: np.ndarray) -> None:
        self._mkl.vsSqrt(values.size, values.ctypes.data, values.ctypes.data)

    def sin_cos(self, angle: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> None:
        self._mkl.vsSinCos(angle.size, angle.ctypes.data, sine.ctypes.data, cosine.ctypes.data)


class AesRecipe(Contestant):
    """A cipher mode and the maths that turns its words into noise."""

    secure_key_stream = True

    def __init__(self, name: str, mode: str, maths: NumpyMaths | MklMaths) -> None:
        self.name = name
        self._mode = mode
        self._maths = maths

    def open(self) -> None:
        self._maths.open()
        self._stream = KeyStream(self._mode)
        self._words = np.empty(BLOCK, dtype=np.uint32)
        self._radius, self._angle, self._cosine = np.empty((3, BLOCK // 2), dtype=np.float32)

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        flat = out.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            self._gaussian_block(flat[start : start + BLOCK], sigma)
        return out

    def _gaussian_block(self, out: np.ndarray, sigma: float) -> None:
        """Box-Muller: sigma * sqrt(-2 ln u1) * (cos, sin)(2 pi u2)."""
        pairs = (out.size + 1) // 2
        words = self._words[: 2 * pairs]
        radius, angle, cosine = (a[:pairs] for a in (self._radius, self._angle, self._cosine))
        self._stream.fill(words)

        # An odd word is never 0, where the logarithm ends.
        radius_words = words[:pairs]
        np.bitwise_or(radius_words, np.uint32(1), out=radius_words)
        np.copyto(radius, radius_words, casting="unsafe")
        np.multiply(radius, WORD_TO_UNIT, out=radius)
        self._maths.multiple_of_log(radius, -2.0 * sigma * sigma)
        self._maths.sqrt(radius)

        # As a signed word the angle needs no offset, and the conversion is faster.
        np.copyto(angle, words[pairs:].view(np.int32), casting="unsafe")
        np.multiply(angle, WORD_TO_ANGLE, out=angle)
        self._maths.sin_cos(angle, angle, cosine)

        np.multiply(radius, cosine, out=out[:pairs])
        rest = out.size - pairs
        np.multiply(radius[:rest], angle[:rest], out=out[pairs:])

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        flat = out.reshape(-1)
        for start in range(0, flat.size, BLOCK):
            self._laplace_block(flat[start : start + BLOCK], scale)
        return out

    def _laplace_block(self, out: np.ndarray, scale: float) -> None:
        """sign * -scale * ln u: one bit of a word is the sign, 31 are u."""
        words = self._words[: out.size]
        self._stream.fill(words)
        raw = out.view(np.uint32)
        np.bitwise_and(words, MAGNITUDE_BITS, out=raw)
        np.bitwise_or(raw, np.uint32(1), out=raw)
        # Below 2^31 the signed conversion is the same, and faster.
        np.copyto(out, raw.view(np.int32), casting="unsafe")
        np.multiply(out, MAGNITUDE_TO_UNIT, out=out)
        self._maths.multiple_of_log(out, -scale)
        np.bitwise_and(words, SIGN_BIT, out=words)
        np.bitwise_xor(raw, words, out=raw)


def numpy_recipe() -> AesRecipe:
    return AesRecipe("OpenSSL AES-256-CTR + numpy maths", "CTR", NumpyMaths())


def mkl_maths_recipe() -> AesRecipe:
    return AesRecipe("OpenSSL AES-256-GCM + MKL vector maths", "GCM", MklMaths())
