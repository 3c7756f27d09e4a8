"""The reference's key stream against published vectors, and its fast form against its plain one."""

import numpy as np
import pytest

from evidence.known_answers.known_answers import known_blocks
from evidence.reference import chacha


def test_blocks_are_the_published_ones():
    for known in known_blocks():
        assert chacha.block(known.key, known.counter, known.nonce, known.rounds) == known.words.tolist(), known.name
        got = chacha.blocks(known.key, [known.counter], known.nonce, known.rounds)
        np.testing.assert_array_equal(got[0], known.words, err_msg=known.name)


@pytest.mark.parametrize("rounds", (20, 12, 8))
@pytest.mark.parametrize("first_group", (0, 3, (1 << 28) - 1))
def test_layout_puts_word_w_of_block_b_at_its_sample(rounds, first_group):
    key, nonce = bytes(range(32)), 0x0123456789ABCDEF
    words = chacha.words(key, nonce, rounds, first_group, 2, domain=16)
    for sample in (0, 1, 15, 16, 17, 255, 256, 257, 511):
        group, word, lane = first_group + sample // 256, sample % 256 // 16, sample % 16
        expected = chacha.block(key, (16 << 56) + group * 16 + lane, nonce, rounds)[word]
        assert words[sample] == expected


def test_extension_blocks_are_addressed_by_domain_and_index():
    key = bytes(32)
    got = chacha.extension(key, 5, 12, 8, [0, 1 << 32, (1 << 40) + 3])
    expected = [chacha.block(key, (8 << 56) + index, 5, 12) for index in (0, 1 << 32, (1 << 40) + 3)]
    assert got.tolist() == expected


def test_seed_is_the_key_in_little_endian_order():
    assert chacha.seed_key(1) == b"\x01" + bytes(31)
    assert chacha.seed_key((1 << 256) - 1) == b"\xff" * 32
    with pytest.raises(OverflowError):
        chacha.seed_key(1 << 256)
