"""numpy.random: the generators everyone has.  Fast to reach for, not secure."""

from __future__ import annotations

import numpy as np

from contestant import Contestant

# The samples and the temporaries of one block stay in a 1 MB L2.
BLOCK = 1 << 16


def flip_signs(values: np.ndarray, random_bytes: bytes) -> None:
    """Flips the sign of each float32 by one random bit; eight values to a byte, rounded up."""
    bits = np.unpackbits(np.frombuffer(random_bytes, dtype=np.uint8), count=values.size)
    signs = bits.astype(np.uint32)
    np.left_shift(signs, np.uint32(31), out=signs)
    raw = values.view(np.uint32)
    np.bitwise_xor(raw, signs, out=raw)


class GeneratorPeer(Contestant):
    """`numpy.random.Generator` over one bit generator, float32, into `out`."""

    def make_bit_generator(self) -> np.random.BitGenerator:
        raise NotImplementedError

    def open(self) -> None:
        self._generator = np.random.Generator(self.make_bit_generator())

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        self._generator.standard_normal(out=out, dtype=np.float32)
        return np.multiply(out, np.float32(sigma), out=out)

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        # Generator.laplace is float64 and scalar inside, 14 to 28 ns a sample; an
        # exponential with a random sign has the same law at about a third of it.
        for start in range(0, out.size, BLOCK):
            block = out[start : start + BLOCK]
            self._generator.standard_exponential(out=block, dtype=np.float32)
            np.multiply(block, np.float32(scale), out=block)
            flip_signs(block, self._generator.bytes(-(-block.size // 8)))
        return out


class NumpyPCG64(GeneratorPeer):
    name = "numpy PCG64"

    def make_bit_generator(self) -> np.random.BitGenerator:
        return np.random.PCG64()


class NumpySFC64(GeneratorPeer):
    name = "numpy SFC64"

    def make_bit_generator(self) -> np.random.BitGenerator:
        return np.random.SFC64()
