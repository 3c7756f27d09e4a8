"""The key stream of the library against published vectors and the independent reference, on every backend."""

import numpy as np
import pytest

from evidence.known_answers.known_answers import known_blocks
from evidence.reference import chacha

INDEX_BITS = 56
KEY = bytes(range(7, 39))
NONCE = 0xFEDCBA9876543210


def test_portable_block_is_the_published_one(hooks):
    for known in known_blocks():
        got = hooks.chacha_block(known.key, known.counter, known.nonce, known.rounds)
        np.testing.assert_array_equal(got, known.words, err_msg=known.name)


def test_every_backend_gives_the_published_blocks(backend, hooks):
    """A published block is lane index mod 16 of group index div 16, its words 16 samples apart."""
    for known in known_blocks():
        domain, index = known.counter >> INDEX_BITS, known.counter % (1 << INDEX_BITS)
        group, lane = divmod(index, chacha.LANES)
        stream = hooks.keystream(backend, known.key, known.nonce, known.rounds, domain, group, 1)
        np.testing.assert_array_equal(np.asarray(stream)[lane :: chacha.LANES], known.words, err_msg=known.name)


@pytest.mark.parametrize("rounds", (20, 12, 8))
@pytest.mark.parametrize(
    ("first_group", "groups"),
    (
        (0, 1),
        (0, 37),
        ((1 << 28) - 3, 7),  # the block index crosses 2^32
        ((1 << 32) - 2, 4),  # the sample index divided by 256 does
        ((1 << 52) - 5, 5),  # the last blocks of a domain
    ),
)
def test_layout_on_every_backend(backend, hooks, rounds, first_group, groups):
    for domain in (0, 1, 8, 16, 17):
        got = hooks.keystream(backend, KEY, NONCE, rounds, domain, first_group, groups)
        want = chacha.words(KEY, NONCE, rounds, first_group, groups, domain)
        np.testing.assert_array_equal(got, want, err_msg=f"domain {domain}")


def test_domains_rounds_keys_and_nonces_give_different_streams(backend, hooks):
    """Each part of the address reaches the cipher."""
    base = dict(key=KEY, nonce=NONCE, rounds=20, domain=0, first_group=5)
    changes = [{}, dict(key=KEY[:-1] + b"\x00"), dict(nonce=NONCE ^ (1 << 63)), dict(nonce=NONCE ^ 1), dict(rounds=12)]
    changes += [dict(rounds=8), dict(domain=1), dict(domain=16), dict(first_group=6), dict(first_group=5 + (1 << 28))]
    seen = set()
    for change in changes:
        address = base | change
        stream = hooks.keystream(
            backend, address["key"], address["nonce"], address["rounds"], address["domain"], address["first_group"], 1
        )
        seen.add(np.asarray(stream).tobytes())
    assert len(seen) == len(changes)
