"""randomgen: secure ciphers as bit generators below numpy's own distributions."""

from __future__ import annotations

import os

import numpy as np

from peers.numpy_generators import GeneratorPeer


class RandomgenChaCha20(GeneratorPeer):
    name = "randomgen ChaCha, 20 rounds"
    secure_key_stream = True

    def make_bit_generator(self) -> np.random.BitGenerator:
        from randomgen import ChaCha

        return ChaCha(key=int.from_bytes(os.urandom(32), "little"), rounds=20)


class RandomgenAESCounter(GeneratorPeer):
    """AES-128 in counter mode."""

    name = "randomgen AESCounter"
    secure_key_stream = True

    def make_bit_generator(self) -> np.random.BitGenerator:
        from randomgen import AESCounter

        return AESCounter(key=int.from_bytes(os.urandom(16), "little"))
