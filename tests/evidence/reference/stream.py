"""The words of a call, whichever its cipher. `rounds` names it: 20, 12 or 8 are ChaCha's (docs/format.md section 1), 14 are those of
AES-256 (section 13)."""

import numpy as np

from . import aes, chacha

AES256 = aes.ROUNDS
ROUNDS = {"aes256": AES256, "chacha20": 20, "chacha12": 12, "chacha8": 8}


def named(stream):
    """A (key, nonce, rounds) as the arguments of `exact` and of a whole call."""
    return dict(zip(("key", "nonce", "rounds"), stream, strict=True))


def words(key, nonce, rounds, first_group, groups, domain=chacha.DOMAIN_MAIN):
    """uint32[groups * 256]: the key stream in sample order, element i for sample first_group * 256 + i."""
    if rounds == AES256:
        return aes.words(key, nonce, first_group, groups, domain)
    return chacha.words(key, nonce, rounds, first_group, groups, domain)


def lone_blocks(key, nonce, rounds, domain, indices):
    """uint32[n, 16]: blocks of a domain that is not laid out in groups."""
    if rounds == AES256:
        return aes.lone_blocks(key, nonce, domain, indices)
    counters = np.uint64(chacha.counter(domain, 0)) | np.asarray(indices, dtype=np.uint64)
    return chacha.blocks(key, counters, nonce, rounds)


def extension(key, nonce, rounds, step, indices):
    """uint32[n, 16]: extension block `step` (1 to 8) of each pair (Gaussian) or sample (Laplace) in `indices`."""
    if not 1 <= step <= chacha.EXTENSIONS:
        raise ValueError(f"step must be in 1..{chacha.EXTENSIONS}, got {step}")
    return lone_blocks(key, nonce, rounds, chacha.DOMAIN_EXTENSION + step - 1, indices)


def lane(key, nonce, rounds, domain, group, number):
    """The 16 words of one lane of a group, as Python integers."""
    return words(key, nonce, rounds, group, 1, domain)[number :: chacha.LANES].tolist()


def attempt_lane(key, nonce, rounds, attempt, row):
    """The 16 words of one attempt at a row's component (section 8)."""
    group, number = divmod(row, chacha.LANES)
    if rounds == AES256:
        return lane(key, nonce, rounds, chacha.DOMAIN_COMPONENTS, group << aes.ATTEMPT_BITS | attempt, number)
    index = chacha.counter(chacha.DOMAIN_COMPONENTS, attempt << 40 | row)
    return chacha.block(key, index, nonce, rounds)
