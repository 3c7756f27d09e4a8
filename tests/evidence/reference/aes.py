"""The AES-256 key stream of docs/format.md section 13, on numpy columns of blocks.

The cipher is FIPS 197 by the book: the S-box from the inverse in the field and the affine map, products by repeated doubling.
Counter blocks are those of SP 800-38A section 6.5, keys are derived as in RFC 8452 section 4. The tests hold it against the
published vectors and against another library.
"""

import numpy as np

from . import chacha

ROUNDS = 14
BLOCK_BYTES = 16
GROUP_BLOCKS = chacha.GROUP // 4
LONE_BLOCKS = chacha.WORDS // 4  # those of one block that stands alone
SEGMENT_BITS = 24
FIRST_KEY_COUNTER = 2
ATTEMPT_BITS = 10

# Byte 4 c + r of a block is row r, column c; row r moves r columns to the left.
SHIFTED = np.array([(4 * ((place // 4 + place % 4) % 4)) + place % 4 for place in range(BLOCK_BYTES)])


def _doubled(a):
    return (a << 1 ^ 0x1B) & 0xFF if a & 0x80 else a << 1


def _product(a, b):
    result = 0
    while b:
        if b & 1:
            result ^= a
        a, b = _doubled(a), b >> 1
    return result


def _s_box():
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if _product(x, y) == 1), 0)
        rotations = [(inverse << shift | inverse >> (8 - shift)) & 0xFF for shift in range(5)]
        box.append(rotations[0] ^ rotations[1] ^ rotations[2] ^ rotations[3] ^ rotations[4] ^ 0x63)
    return np.array(box, dtype=np.uint8)


S_BOX = _s_box()
DOUBLED = np.array([_doubled(a) for a in range(256)], dtype=np.uint8)


def round_keys(key):
    """uint8[15, 16] of a key of 32 bytes."""
    if len(key) != 32:
        raise ValueError(f"key must have 32 bytes, got {len(key)}")
    words = [np.frombuffer(key[4 * i : 4 * i + 4], dtype=np.uint8) for i in range(8)]
    round_constant = 1
    for i in range(8, 4 * (ROUNDS + 1)):
        word = words[i - 1]
        if i % 8 == 0:
            word = S_BOX[np.roll(word, -1)] ^ np.array([round_constant, 0, 0, 0], dtype=np.uint8)
            round_constant = _doubled(round_constant)
        elif i % 8 == 4:
            word = S_BOX[word]
        words.append(words[i - 8] ^ word)
    return np.concatenate(words).reshape(ROUNDS + 1, BLOCK_BYTES)


def _mixed(state):
    columns = state.reshape(-1, 4, 4)
    below = np.roll(columns, -1, axis=2)
    both = np.roll(columns ^ below, -2, axis=2)
    return (DOUBLED[columns ^ below] ^ below ^ both).reshape(-1, BLOCK_BYTES)


def encrypted(key, blocks):
    """uint8[n, 16] of uint8[n, 16]."""
    keys = round_keys(key)
    state = blocks ^ keys[0]
    for number in range(1, ROUNDS):
        state = _mixed(S_BOX[state][:, SHIFTED]) ^ keys[number]
    return S_BOX[state][:, SHIFTED] ^ keys[ROUNDS]


def derived_key(key, nonce, segment):
    """RFC 8452 section 4: half of each of four blocks."""
    tail = nonce.to_bytes(8, "little") + segment.to_bytes(4, "little")
    counters = [(FIRST_KEY_COUNTER + i).to_bytes(4, "little") + tail for i in range(4)]
    blocks = np.frombuffer(b"".join(counters), dtype=np.uint8).reshape(4, BLOCK_BYTES)
    return encrypted(key, blocks)[:, :8].tobytes()


def counter_blocks(domain, numbers):
    """uint8[n, 16]: eight zero bytes, the domain, the number in seven bytes with the highest first."""
    numbers = np.asarray(numbers, dtype=np.uint64)
    if numbers.size and int(numbers.max()) >= 1 << 56:
        raise ValueError(f"the number of a block must be below 2^56, got {int(numbers.max())}")
    counters = np.zeros((numbers.size, BLOCK_BYTES), dtype=np.uint8)
    counters[:, 8] = domain
    counters[:, 9:] = numbers.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 1:]
    return counters


def blocks(key, nonce, domain, numbers):
    """uint32[n, 4]: AES blocks of one domain by their numbers, each under the key of its segment."""
    numbers = np.asarray(numbers, dtype=np.uint64)
    segments = numbers >> np.uint64(SEGMENT_BITS)
    counters = counter_blocks(domain, numbers)
    result = np.empty_like(counters)
    for segment in np.unique(segments):
        here = segments == segment
        result[here] = encrypted(derived_key(key, nonce, int(segment)), counters[here])
    return result.view("<u4")


def words(key, nonce, first_group, groups, domain):
    """uint32[groups * 256]: the words of groups in sample order, which is that of the blocks."""
    first = np.uint64(first_group * GROUP_BLOCKS)
    return blocks(key, nonce, domain, first + np.arange(groups * GROUP_BLOCKS, dtype=np.uint64)).reshape(-1)


def lone_blocks(key, nonce, domain, indices):
    """uint32[n, 16]: the blocks of 16 words of a domain that is not laid out in groups."""
    first = np.asarray(indices, dtype=np.uint64)[:, None] * np.uint64(LONE_BLOCKS)
    numbers = first + np.arange(LONE_BLOCKS, dtype=np.uint64)
    return blocks(key, nonce, domain, numbers.reshape(-1)).reshape(-1, chacha.WORDS)
