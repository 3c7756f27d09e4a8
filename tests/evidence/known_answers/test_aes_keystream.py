"""The AES-256 key stream against published vectors, another library's AES-CTR, and the independent reference.

An implementation is chosen when hushvec is imported, hence a process for each.
"""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from evidence.reference import aes, chacha, stream
from hushvec._native import _core

IMPLEMENTATIONS = ("vaes512", "vaes256", "aesni", "neon", "portable")
KEY = bytes(range(7, 39))
NONCE = 0xFEDCBA9876543210
STANDARD_KEY = "603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4"
STANDARD_PLAIN = (
    "6bc1bee22e409f96e93d7e117393172aae2d8a571e03ac9c9eb76fac45af8e5130c81c46a35ce411e5fbc1191a0a52eff69f2445df4f9b17ad2b417be66c3710"
)

# (domain, first group, groups)
PLACES = [(domain, 0, 3) for domain in (0, 1, 8, 16, 17, 18, 20, 25, 32, 36)] + [
    (0, 1, 1),
    (0, (1 << 18) - 2, 5),  # block 2^24, where a segment ends
    (18, (1 << 26) - 3, 7),  # the number of the block crosses 2^32
    (0, (1 << 42) - 2, 4),
    (36, (1 << 50) - 3, 3),  # the last blocks of a domain
]


def other_library(key, nonce, domain, first_group, groups):
    """The words of groups by `cryptography`'s AES: ECB for the keys, CTR for the words, a segment at a time."""
    words = []
    for group in range(first_group, first_group + groups):
        number = group * aes.GROUP_BLOCKS
        tail = nonce.to_bytes(8, "little") + (number >> aes.SEGMENT_BITS).to_bytes(4, "little")
        ecb = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
        derived = b"".join(ecb.update((2 + i).to_bytes(4, "little") + tail)[:8] for i in range(4))
        counter = bytes(8) + bytes([domain]) + number.to_bytes(7, "big")
        words.append(Cipher(algorithms.AES(derived), modes.CTR(counter)).encryptor().update(bytes(4 * chacha.GROUP)))
    return np.frombuffer(b"".join(words), dtype="<u4")


# ---- the reference ----


@pytest.mark.parametrize(
    ("key", "plain", "cipher"),
    [
        (
            "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
            "00112233445566778899aabbccddeeff",
            "8ea2b7ca516745bfeafc49904b496089",
        ),
        (
            STANDARD_KEY,
            STANDARD_PLAIN,
            "f3eed1bdb5d2a03c064b5a7e3db181f8591ccb10d410ed26dc5ba74a31362870b6ed21b99ca6f4f9f153e7b1beafed1d23304b7a39f9f3ff067d8d8f9e24ecc7",
        ),
    ],
    ids=("FIPS 197 C.3", "SP 800-38A F.1.5"),
)
def test_reference_gives_the_published_blocks(key, plain, cipher):
    blocks = np.frombuffer(bytes.fromhex(plain), dtype=np.uint8).reshape(-1, 16)
    assert aes.encrypted(bytes.fromhex(key), blocks).tobytes().hex() == cipher


@pytest.mark.parametrize(
    ("key", "nonce", "derived"),
    [
        ("01" + 31 * "00", "03" + 11 * "00", "b914f4742be9e1d7a2f84addbf96dec3456e3c6c05ecc157cdbf0700fedad222"),
        (
            "e66021d5eb8e4f4066d4adb9c33560e4f46e44bb3da0015c94f7088736864200",
            "e0eaf5284d884a0e77d31646",
            "7c7c3d9a542cef53dde0e6de9b5800400f82e73ec5f7ee41b7ba8dcb9ba078c3",
        ),
    ],
)
def test_reference_derives_the_keys_of_rfc_8452(key, nonce, derived):
    """Appendix C.2; the nonce's last four bytes are the segment."""
    nonce = bytes.fromhex(nonce)
    segment = int.from_bytes(nonce[8:], "little")
    assert aes.derived_key(bytes.fromhex(key), int.from_bytes(nonce[:8], "little"), segment).hex() == derived


@pytest.mark.parametrize("place", PLACES)
def test_reference_agrees_with_another_library(place):
    domain, first_group, groups = place
    np.testing.assert_array_equal(aes.words(KEY, NONCE, first_group, groups, domain), other_library(KEY, NONCE, *place))


# ---- the library ----

STREAMS = """
import pickle, sys
import numpy as np
from hushvec._native import _core
asked, backends, places, key, nonce = pickle.load(sys.stdin.buffer)
assert _core.backends()["aes"]["active"] == asked
words = [np.asarray(_core._testing.keystream(backend, key, nonce, 14, *place)) for backend in backends for place in places]
pickle.dump(words, sys.stdout.buffer)
"""


def words_of(implementation, key=KEY, nonce=NONCE, places=PLACES):
    """The words of each backend and place."""
    backends = _core.backends()["available"]
    process = subprocess.run(
        [sys.executable, "-c", STREAMS],
        input=pickle.dumps((implementation, backends, places, key, nonce)),
        env=dict(os.environ, HUSHVEC_AES=implementation),
        capture_output=True,
        check=True,
        timeout=120,
    )
    return zip([(backend, place) for backend in backends for place in places], pickle.loads(process.stdout), strict=True)


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_every_implementation_gives_the_words_of_another_library(implementation):
    if implementation not in _core.backends()["aes"]["available"]:
        pytest.skip(f"this machine or build has no {implementation} AES")
    for (backend, place), words in words_of(implementation):
        np.testing.assert_array_equal(words, other_library(KEY, NONCE, *place), err_msg=f"{backend}, (domain, group, groups) {place}")


def test_every_implementation_is_known_here():
    assert set(_core.backends()["aes"]["compiled"]) <= set(IMPLEMENTATIONS)


def test_backends_in_this_process(backend, hooks):
    for domain, first_group, groups in PLACES:
        got = hooks.keystream(backend, KEY, NONCE, stream.AES256, domain, first_group, groups)
        np.testing.assert_array_equal(got, other_library(KEY, NONCE, domain, first_group, groups))


@pytest.mark.parametrize("index", (0, 1, 12345, 1 << 22, (1 << 54) - 1))
def test_lone_blocks(index):
    """Four AES blocks in a row."""
    generator = _core.Generator.unsafe_seeded(3, cipher="aes256")
    group, place = divmod(4 * index, aes.GROUP_BLOCKS)
    for nonce, domain in enumerate((1, 17, 24, 255)):
        got = list(_core.stream_block(generator._reserve(), domain, index))
        assert got == stream.lone_blocks(chacha.seed_key(3), nonce, stream.AES256, domain, [index])[0].tolist()
        assert got == other_library(chacha.seed_key(3), nonce, domain, group, 1)[4 * place :][:16].tolist()


def test_the_last_lone_block():
    generator = _core.Generator.unsafe_seeded(3, cipher="aes256")
    with pytest.raises(ValueError, match=rf"^index must be below 2\^54, got {1 << 54}$"):
        _core.stream_block(generator._reserve(), 1, 1 << 54)


def test_every_part_of_the_address_reaches_the_cipher(backend, hooks):
    base = dict(key=KEY, nonce=NONCE, domain=0, first_group=5)
    changes = [{}, dict(key=KEY[:-1] + b"\x00"), dict(nonce=NONCE ^ (1 << 63)), dict(nonce=NONCE ^ 1), dict(domain=1)]
    changes += [dict(domain=16), dict(domain=255)]
    changes += [dict(first_group=group) for group in (6, 5 + (1 << 18), 5 + (1 << 49))]
    blocks = set()
    for change in changes:
        at = base | change
        words = hooks.keystream(backend, at["key"], at["nonce"], stream.AES256, at["domain"], at["first_group"], 1)
        blocks |= {part.tobytes() for part in np.asarray(words).reshape(-1, 4)}
    assert len(blocks) == len(changes) * aes.GROUP_BLOCKS
