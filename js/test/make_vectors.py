#!/usr/bin/env python3
"""Writes what the tests in this folder compare with, as the Python package has it: js/test/vectors.

    python js/test/make_vectors.py

releases.csv has 1,000 seeded releases of random shape with digests of their values and of their receipts' JSON; the split of privunit,
whose solver calls the C library's logarithms, is in a column of its own. errors.json has calls that are refused, with their texts;
receipts.json receipts, true and forged, with what `verify_receipt` says; codebook.npz is a codebook, and codebook.json has releases by
it. The kernels are the portable ones, whose inner products are those of the browser's module.
"""

import dataclasses
import hashlib
import itertools
import json
import os
import random
import sys
from pathlib import Path

if __name__ == "__main__":
    os.environ["HUSHVEC_BACKEND"] = "portable"

import numpy as np  # noqa: E402

import hushvec as hv  # noqa: E402
from hushvec.mechanisms import PublicCodebook  # noqa: E402

VECTORS = Path(__file__).parent / "vectors"
COUNT = 1000
COLUMNS = "seed,mechanism,epsilon,delta,rows,dimension,clip_norm,normalize,renormalize,per,cipher,format_version"
MASK = 2**64 - 1


def words(seed, count):
    """SplitMix64."""
    found = []
    for _ in range(count):
        seed = (seed + 0x9E3779B97F4A7C15) & MASK
        z = seed
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        found.append(z ^ (z >> 31))
    return found


def rows_of(seed, rows, dimension):
    """Rows whose norms are from about 0 to 4."""
    top = np.array(words(seed, rows * dimension), np.uint64) >> np.uint64(32)
    elements = top.astype(np.uint32).view(np.int32) * 2.0**-31 * (4 / dimension**0.5)
    return (elements * (np.arange(rows * dimension) // dimension % 4 / 4)).astype(np.float32).reshape(rows, dimension)


def setting(seed):
    """A random release, from its number."""
    draw = random.Random(seed)
    mechanism = draw.choice(["gaussian", "gaussian", "laplacian", "privunit"])
    normalize = draw.random() < 0.25
    return dict(
        seed=seed,
        mechanism=mechanism,
        epsilon=round(10 ** draw.uniform(-1, 2), draw.randint(1, 6)),
        delta=draw.choice([1e-5, 1e-9, 0.001, 3.7e-7]),
        rows=draw.randint(0, 5),
        dimension=draw.choice([draw.randint(1, 9), draw.randint(10, 300), 384]),
        clip_norm=1.0 if normalize else draw.choice([1.0, 0.5, 2.5, 1e-3, 123.456]),
        normalize=normalize,
        renormalize=draw.random() < 0.2,
        per=draw.choice(["record", "record", "release"]),
        cipher=draw.choice(["chacha20", "chacha20", "chacha12", "chacha8"]),
        format_version=draw.choice([1, 3]),
    )


def released(setting):
    given = dict(setting)
    seed, rows, dimension = (given.pop(name) for name in ("seed", "rows", "dimension"))
    generator = hv.Generator.unsafe_seeded(seed, cipher=given.pop("cipher"), format_version=given.pop("format_version"))
    return hv.privatize(rows_of(seed, rows, dimension), generator=generator, **given)


def digest(content):
    return hashlib.sha256(content).hexdigest()[:16]


def line_of(seed):
    given = setting(seed)
    release = released(given)
    texts = [json.dumps(value) if isinstance(value, bool) else str(value) for value in given.values()]
    receipt = dataclasses.replace(release.receipt, cap_probability=None, threshold=None)
    split = release.receipt.threshold or ""
    return ",".join([*texts, digest(release.values.tobytes()), digest(receipt.to_json().encode()), str(split)])


# What is refused: a call in each language, x being three rows of ones.
CALLS = [
    ("hv.gaussian_sigma(-1.0, 1e-5)", "hv.gaussianSigma(-1, 1e-5)"),
    ("hv.gaussian_sigma(1.0, 1.0)", "hv.gaussianSigma(1, 1)"),
    ("hv.gaussian_sigma(1.0, 1e-5, 0.0)", "hv.gaussianSigma(1, 1e-5, 0)"),
    ("hv.gaussian_epsilon(0.0, 1.0)", "hv.gaussianEpsilon(0, 1)"),
    ("hv.gaussian_delta(-0.5, 1.0)", "hv.gaussianDelta(-0.5, 1)"),
    ("hv.laplace_scale(float('inf'), 1.0)", "hv.laplaceScale(Infinity, 1)"),
    ("hv.laplace_scale(1e-300, 1e300)", "hv.laplaceScale(1e-300, 1e300)"),
    ("hv.privatize(x, epsilon=0.0)", "hv.privatize(x, { epsilon: 0 })"),
    ("hv.privatize(x, epsilon=float('nan'))", "hv.privatize(x, { epsilon: NaN })"),
    ("hv.privatize(x, epsilon=1.0, delta=0.0)", "hv.privatize(x, { epsilon: 1, delta: 0 })"),
    ("hv.privatize(x, epsilon=1.0, clip_norm=-2.5)", "hv.privatize(x, { epsilon: 1, clipNorm: -2.5 })"),
    ("hv.privatize(x, epsilon=1.0, clip_norm=1e40)", "hv.privatize(x, { epsilon: 1, clipNorm: 1e40 })"),
    ("hv.privatize(x, epsilon=1.0, clip_norm=2.0, normalize=True)", "hv.privatize(x, { epsilon: 1, clipNorm: 2, normalize: true })"),
    ("hv.privatize(x, epsilon=1.0, per='row')", "hv.privatize(x, { epsilon: 1, per: 'row' })"),
    ("hv.privatize(x)", "hv.privatize(x, {})"),
    ("hv.privatize(x, epsilon=5000.0, mechanism='privunit')", "hv.privatize(x, { epsilon: 5000, mechanism: 'privunit' })"),
    ("hv.privatize([[1.0, 2.0], [3.0]], epsilon=1.0)", "hv.privatize([[1, 2], [3]], { epsilon: 1 })"),
    ("hv.privatize([[1.0], [float('-inf')]], epsilon=1.0)", "hv.privatize([[1], [-Infinity]], { epsilon: 1 })"),
    ("hv.privatize(bad, epsilon=1.0)", "hv.privatize(bad, { epsilon: 1, dimension: 4 })"),
    ("hv.privatize([[1e300]], epsilon=1.0)", "hv.privatize([[1e300]], { epsilon: 1 })"),
    ("hv.privatize_labels(['a', 'c'], ['a', 'b'], epsilon=1.0)", "hv.privatizeLabels(['a', 'c'], ['a', 'b'], { epsilon: 1 })"),
    ("hv.privatize_labels(['a'], ['a', 'b'], epsilon=1e-30)", "hv.privatizeLabels(['a'], ['a', 'b'], { epsilon: 1e-30 })"),
    ("hv.gaussian_noise(3, sigma=-1.0)", "hv.gaussianNoise(3, -1)"),
    ("hv.laplacian_noise(3, scale=1e40)", "hv.laplacianNoise(3, 1e40)"),
    ("hv.clip_and_noise(x, 1.0, 1e-25)", "hv.clipAndNoise(x, { clipNorm: 1, sigma: 1e-25 })"),
]


def refusal(call):
    bad = np.ones((3, 4), np.float32)
    bad[2, 1] = np.nan
    try:
        eval(call, {"hv": hv, "x": np.ones((3, 4), np.float32), "bad": bad})
    except (TypeError, ValueError) as error:
        return str(error)
    raise AssertionError(f"{call} was not refused")


def forged(receipt):
    """The receipt, and copies that claim what does not follow."""
    changes = [{}, {"rounds": 14}, {"notes": ('a "note" of\nä\u2028\x7f',)}]
    changes += [{"epsilon": receipt.epsilon * factor} for factor in (0.5, 2)]
    if isinstance(receipt, hv.Receipt):
        grid = receipt.grid
        changes += [{"clip_norm": receipt.clip_norm * 2}, {"sensitivity": receipt.sensitivity / 2}, {"delta": 0.0}]
        changes += [{"rows": 10**9, "per": "release"}, {"grid": grid and grid * 2}, {"grade": "float"}, {"key_source": "seed"}]
        changes += [{"normalize": True}, {"sigma": None}, {"sigma": 0.1}]
    else:
        changes += [{"truth_values": receipt.truth_values + 1}, {"answers": 10**6, "per": "release"}]
        changes += [{"scores": "source"}, {"delta": 0.5}]
    return [dataclasses.replace(receipt, **change) for change in changes]


def receipts():
    x = rows_of(1, 3, 16)
    keys = [{}, {"generator": hv.Generator.unsafe_seeded(3)}]
    for name in ("gaussian", "laplacian", "privunit"):
        for key in keys:
            yield hv.privatize(x, epsilon=8.0, mechanism=name, **key).receipt
        yield hv.privatize(x, epsilon=3.7, mechanism=name, per="release", generator=hv.Generator(cipher="chacha20")).receipt
    yield hv.privatize(x, sigma=0.7, mechanism="empirical").receipt
    labels = ["no", "yes", "ä\x7f\U0001f600"]
    for epsilon, per, key in itertools.product((0.5, 60.0), ("record", "release"), keys):
        yield hv.privatize_labels(["no"] * 3, labels, epsilon=epsilon, per=per, **key).receipt


def codebook():
    return PublicCodebook.of(rows_of(77, 40, 12)[[row for row in range(40) if row % 4]])


def codebook_releases(made):
    for seed in range(12):
        x = rows_of(1000 + seed, 7, 12)
        x[0] += 0.5
        generator = hv.Generator.unsafe_seeded(seed)
        release = hv.privatize(x, mechanism=made.mechanism(epsilon=0.5 + seed / 4), generator=generator)
        yield dict(codes=made.encode(x).tolist(), values=digest(release.values.tobytes()), receipt=release.receipt.to_json())


def write(name, value):
    (VECTORS / name).write_text(json.dumps(value, indent=1) + "\n")


def main():
    VECTORS.mkdir(exist_ok=True)
    (VECTORS / "releases.csv").write_text("\n".join([f"{COLUMNS},values,receipt,threshold", *map(line_of, range(COUNT))]) + "\n")
    write("errors.json", [dict(python=python, javascript=javascript, text=refusal(python)) for python, javascript in CALLS])
    checked = [(receipt.to_json(), hv.verify_receipt(receipt)) for made in receipts() for receipt in forged(made)]
    write("receipts.json", [dict(json=text, status=found.status, reasons=found.reasons) for text, found in checked])
    made = codebook()
    made.save(VECTORS / "codebook.npz")
    write("codebook.json", list(codebook_releases(made)))


if __name__ == "__main__":
    sys.exit(main())
