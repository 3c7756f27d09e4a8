"""Section 12 of docs/format.md, written from that page alone: whole numbers and hashlib."""

import hashlib

import numpy as np

from evidence.reference import chacha, stream
from mechanisms.discrete.discrete_reference import response_law

DIGITS, MORE_DIGITS, CELL_HIGH, CELL_LOW, COLUMN = 32, 33, 34, 35, 36
UNIT = 512


def group_words(key, nonce, rounds, domain, group):
    """[word][lane] of one group of section 2."""
    return stream.words(key, nonce, rounds, group, 1, domain=domain)[: chacha.GROUP].reshape(16, 16).tolist()


def unit_uniforms(key, nonce, rounds, unit):
    """512 whole numbers of 64 bits."""
    groups = [group_words(key, nonce, rounds, DIGITS, unit)]
    groups += [group_words(key, nonce, rounds, MORE_DIGITS, unit * 3 + part) for part in range(3)]
    uniforms = []
    for lane in range(16):
        for bit in range(32):
            digits = [groups[t][w][lane] >> bit & 1 for t in range(4) for w in range(16)]
            uniforms.append(int("".join(map(str, digits)), 2))
    return uniforms


def drawn_bits(key, nonce, rounds, truth, p1, p0):
    """Rows of 0 and 1 in, rows of 0 and 1 out."""
    bits = len(truth[0])
    units = -(-bits // UNIT)
    rows = []
    for report, row in enumerate(truth):
        uniforms = [u for unit in range(units) for u in unit_uniforms(key, nonce, rounds, report * units + unit)]
        rows.append([int(u < (p1 if bit else p0)) for bit, u in zip(row, uniforms)])
    return rows


def packed(rows):
    """Rows of 0 and 1 as uint32 words."""
    width = -(-len(rows[0]) // 32)
    words = np.zeros((len(rows), width), np.uint32)
    for i, row in enumerate(rows):
        for b, bit in enumerate(row):
            words[i, b // 32] |= np.uint32(bit << (b % 32))
    return words


def unary_reports(key, nonce, rounds, codes, k, epsilon):
    truth = [[int(i == code) for i in range(k)] for code in codes]
    return packed(drawn_bits(key, nonce, rounds, truth, 1 << 63, response_law(epsilon, 2)[1]))


def hadamard_reports(key, nonce, rounds, codes, blocks, order, epsilon):
    groups = -(-len(codes) // chacha.GROUP)
    high, low, column = (
        stream.words(key, nonce, rounds, 0, groups, domain=domain).tolist() for domain in (CELL_HIGH, CELL_LOW, COLUMN)
    )
    truth, other = response_law(epsilon, 2 * blocks)
    reports = []
    for i, code in enumerate(codes):
        row, u = code // blocks + 1, high[i] << 32 | low[i]
        j = 0 if u < truth else 1 + (u - truth) // other
        cell = (2 * (code % blocks) + j) % (2 * blocks)
        v = column[i] % order
        if bin(row & v).count("1") % 2 != cell % 2:
            v ^= row & -row
        reports.append(cell // 2 * order + v)
    return reports


def bloom_bits(word, cohort, bits, hashes, salt):
    """Places of the ones."""
    places = []
    for i in range(hashes):
        message = cohort.to_bytes(4, "little") + (i // 8).to_bytes(4, "little") + word.encode()
        digest = hashlib.blake2b(message, digest_size=8 * min(hashes, 8), salt=salt, person=b"hushvec bloom").digest()
        places.append(int.from_bytes(digest[8 * (i % 8) : 8 * (i % 8) + 8], "little") * bits >> 64)
    return places


def memo_key(secret, digest, word):
    return hashlib.blake2b(bytes.fromhex(digest) + word.encode(), digest_size=32, key=secret, person=b"hushvec report").digest()


def memo_cohort(secret, digest, cohorts):
    number = hashlib.blake2b(bytes.fromhex(digest), digest_size=8, key=secret, person=b"hushvec cohort").digest()
    return int.from_bytes(number, "little") * cohorts >> 64


def vocabulary_digest(mechanism, epsilon, words_per_person, labels, words):
    hashed = hashlib.sha256(f"hushvec vocabulary 1\n{mechanism}\n{epsilon.hex()}\n{words_per_person}\n{labels}\n".encode())
    for word in words:
        hashed.update(len(word.encode()).to_bytes(8, "little") + word.encode())
    return hashed.hexdigest()


def sketch_bytes(kind, digest, reports, numbers):
    body = b"hushvec sketch\0\0" + (1).to_bytes(4, "little") + kind.to_bytes(4, "little") + bytes.fromhex(digest)
    body += reports.to_bytes(8, "little") + len(numbers).to_bytes(8, "little")
    body += b"".join(int(number).to_bytes(8, "little", signed=True) for number in numbers)
    return body + hashlib.sha256(body).digest()
