"""The ChaCha key stream and the sample layout of docs/format.md, sections 1 and 2.

`block` is the cipher by the book (Bernstein, "ChaCha, a variant of Salsa20", 2008; RFC 8439 section 2.3 with the 64-bit
counter and 64-bit nonce of the original). `blocks` is the same arithmetic on numpy columns, for volume; the tests hold
the two against each other and both against published vectors.
"""

import numpy as np

CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)  # "expand 32-byte k"
WORD = 0xFFFFFFFF

COLUMNS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15))
DIAGONALS = ((0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))

DOMAIN_MAIN = 0
DOMAIN_EXTENSION = 1  # the first of eight
EXTENSIONS = 8
DOMAIN_LOW_WORDS = 16
DOMAIN_ROWS = 17
DOMAIN_COMPONENTS = 18

LANES = 16
WORDS = 16
GROUP = LANES * WORDS  # samples
PAIRS_PER_GROUP = GROUP // 2


def counter(domain, index):
    """Block counter of block `index` in `domain`."""
    if not 0 <= index < 1 << 56:
        raise ValueError(f"index must be in [0, 2^56), got {index}")
    return (domain << 56) | index


def seed_key(seed):
    """The 32-byte key of `Generator.unsafe_seeded(seed)`."""
    return int(seed).to_bytes(32, "little")


def _initial_state(key, block_counter, nonce):
    if len(key) != 32:
        raise ValueError(f"key must have 32 bytes, got {len(key)}")
    return [
        *CONSTANTS,
        *(int.from_bytes(key[4 * i : 4 * i + 4], "little") for i in range(8)),
        block_counter & WORD,
        block_counter >> 32,
        nonce & WORD,
        nonce >> 32,
    ]


def _rotate(x, n):
    return ((x << n) | (x >> (32 - n))) & WORD


def _quarter_round(state, a, b, c, d):
    for first, second, changed, amount in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[first] = (state[first] + state[second]) & WORD
        state[changed] = _rotate(state[changed] ^ state[first], amount)


def block(key, block_counter, nonce, rounds=20):
    """The 16 words of one block, in plain Python integers."""
    start = _initial_state(key, block_counter, nonce)
    state = list(start)
    for _ in range(rounds // 2):
        for quarter in COLUMNS + DIAGONALS:
            _quarter_round(state, *quarter)
    return [(x + y) & WORD for x, y in zip(state, start, strict=True)]


def _quarter_round_columns(state, a, b, c, d):
    for first, second, changed, amount in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[first] += state[second]
        mixed = state[changed] ^ state[first]
        state[changed] = (mixed << np.uint32(amount)) | (mixed >> np.uint32(32 - amount))


def blocks(key, counters, nonce, rounds=20):
    """uint32[n, 16]: one block for each 64-bit counter."""
    counters = np.asarray(counters, dtype=np.uint64)
    scalars = _initial_state(key, 0, nonce)
    start = [np.full(counters.shape, x, dtype=np.uint32) for x in scalars]
    start[12] = (counters & np.uint64(WORD)).astype(np.uint32)
    start[13] = (counters >> np.uint64(32)).astype(np.uint32)
    state = [x.copy() for x in start]
    for _ in range(rounds // 2):
        for quarter in COLUMNS + DIAGONALS:
            _quarter_round_columns(state, *quarter)
    return np.stack([x + y for x, y in zip(state, start, strict=True)], axis=-1)


def words(key, nonce, rounds, first_group, groups, domain=DOMAIN_MAIN):
    """uint32[groups * 256]: the key stream in sample order, element i for sample first_group * 256 + i."""
    first = counter(domain, first_group * LANES)
    counters = np.uint64(first) + np.arange(groups * LANES, dtype=np.uint64)
    by_block = blocks(key, counters, nonce, rounds)
    return by_block.reshape(groups, LANES, WORDS).transpose(0, 2, 1).reshape(-1)


def extension(key, nonce, rounds, step, indices):
    """uint32[n, 16]: extension block `step` (1 to 8) of each pair (Gaussian) or sample (Laplace) in `indices`."""
    if not 1 <= step <= EXTENSIONS:
        raise ValueError(f"step must be in 1..{EXTENSIONS}, got {step}")
    base = np.uint64(counter(DOMAIN_EXTENSION + step - 1, 0))
    return blocks(key, base | np.asarray(indices, dtype=np.uint64), nonce, rounds)
