"""Every Laplace integer that is released is the exact rounding of the ideal value, on every backend."""

from functools import lru_cache

import numpy as np
import pytest

from evidence.exact.calls import Call, outputs
from evidence.exact.rows import around_the_ball
from evidence.reference import adversarial, chacha, exact, release
from evidence.reference import stream as key_stream
from evidence.reference.sizes import scaled

CIPHERS = ("chacha20", "chacha12", "chacha8", "aes256")
CHACHA = (bytes(range(50, 82)), 1 << 40, 12)  # key, nonce, rounds
AES = (*CHACHA[:2], key_stream.AES256)
STREAMS = pytest.mark.parametrize("stream", (CHACHA, AES), ids=("chacha", "aes256"))
LONG_STREAMS = pytest.mark.parametrize("stream", (CHACHA, pytest.param(AES, marks=pytest.mark.full)), ids=("chacha", "aes256"))
SCALES = (64.0, 96.0, float(np.float32(127.99)), 1.0, 2.0**-9)
FIRST_SAMPLE = (1 << 32) - 1000
SAMPLES_PER_SET = scaled(2_000, 80_000)
CANDIDATES = 100 * SAMPLES_PER_SET
MUTANT_BOUND_FACTOR = 0.25

CLIP_NORM_AND_SCALE = (
    (1.0, 1.0),
    (1.0, 27.7),
    (2.5, 1e-4),
    (1.0, 2.0**-20),
    (1.0, 2.0**-30),
    (1e-3, 50.0),
    (2.0**100, 2.0**100),
    (2.0**-100, 2.0**-100),
)


def releases():
    rng = np.random.default_rng(21)
    shapes = ((1, 1), (3, 15), (1, 256), (5, 257), (7, 768), (130, 96))
    found = []
    for k, (clip_norm, scale) in enumerate(CLIP_NORM_AND_SCALE):
        for j, dtype in enumerate(("float32", "float64")):
            count, dimension = shapes[(2 * k + j) % len(shapes)]
            found.append(
                Call(
                    around_the_ball(rng, count, dimension, clip_norm, dtype),
                    dtype,
                    law="laplacian",
                    clip_norm=clip_norm,
                    sigma=scale,
                    seed=int(rng.integers(1 << 62)),
                    cipher=CIPHERS[(k + j) % 4],
                    earlier_calls=k % 3,
                )
            )
    large = around_the_ball(rng, 400, 768, 1.0, "float32")
    found.append(Call(large, law="laplacian", sigma=0.37, threads=2))
    halves = around_the_ball(rng, 131, 384, 1.0, "float32")   # rows of whole half groups
    found.append(Call(halves, law="laplacian", sigma=0.37, threads=2))
    return found


@lru_cache(maxsize=1)
def expected_releases():
    calls = releases()
    return calls, [
        release.clip_and_noise(
            call.rows,
            call.clip_norm,
            call.sigma,
            key=chacha.seed_key(call.seed),
            nonce=call.earlier_calls,
            rounds=call.rounds,
            law="laplacian",
            dtype=call.dtype,
        )
        for call in calls
    ]


def test_releases_are_the_exact_ones(backend):
    calls, expected = expected_releases()
    for call, got, want in zip(calls, outputs(backend, calls), expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=repr(call))
        assert not np.any(np.signbit(got) & (got == 0)), f"-0 released by {call!r}"


def hard_words(rng, count):
    part = count // 4
    return np.concatenate(
        [
            adversarial.random_words(rng, count - 2 * part),
            adversarial.end_words(rng, part),
            adversarial.words_near(rng, part, adversarial.window_edges()),
        ]
    )


def with_large_inputs(rng, count, s):
    """float32 X up to 2^21: candidates, of which those that came close to a boundary are kept."""
    words, x = adversarial.laplace(rng, count, s, reach=2.0 ** rng.uniform(3, 21, count), dtype="float32")
    z = exact.laplace_values(words)
    near = adversarial.closeness(x, s * z, adversarial.laplace_bound(s, np.abs(z))) < 1.5
    return words[near], x[near]


def with_expected(sets, stream):
    """Adds the reference's integers to each (s, dtype, samples)."""
    return [
        (s, dtype, samples, exact.laplace(*samples, s, samples=FIRST_SAMPLE + np.arange(samples[0].size), **key_stream.named(stream)))
        for s, dtype, samples in sets
    ]


@lru_cache
def hard_sets(stream):
    """[(s, dtype, (word, X), expected)]"""
    rng = np.random.default_rng(22)
    found = []
    for s in SCALES:
        for dtype in ("float32", "float64"):
            for reach in (1.0, 2.0**5 if dtype == "float32" else 2.0**21):
                words = hard_words(rng, SAMPLES_PER_SET)
                found.append((s, dtype, adversarial.laplace(rng, words.size, s, reach=reach, dtype=dtype, words=words)))
        found.append((s, "float32", with_large_inputs(rng, 40 * SAMPLES_PER_SET, s)))
    return with_expected(found, stream)


def float32_output(hooks, backend, words):
    """The backend's float32 -ln u with its sign, before the scale."""
    magnitude = np.abs(np.asarray(hooks.exponentials(backend, words), dtype=np.float64))
    return np.where(words & np.uint32(1), -magnitude, magnitude)


def float32_bound(bounds, s, magnitude):
    return bounds["constant"] + s * (bounds["per_scale"] + bounds["per_radius"] * magnitude)


def worst_words(hooks, backend, rng, s):
    """Words whose float32 logarithm errs most for its bound, and the edges of the accept window."""
    bounds = hooks.error_bounds(backend)["laplacian"]
    words = adversarial.random_words(rng, CANDIDATES)
    z = float32_output(hooks, backend, words)
    excess = np.abs(z - exact.laplace_values(words)) * s / float32_bound(bounds, s, np.abs(z))
    excess[(words < bounds["smallest_word"]) | (words > bounds["largest_word"])] = 0.0
    return np.concatenate(
        [words[np.argsort(excess)[-SAMPLES_PER_SET:]], adversarial.words_inside(rng, SAMPLES_PER_SET, bounds)]
    )


@lru_cache
def worst_sets(hooks, backend, stream):
    """Like hard_sets, of worst_words.

    X puts the exact sum, extension bits included, and the float32 one on different sides of a boundary, so that only
    the accept test saves the sample.
    """
    rng = np.random.default_rng(24)
    found = []
    for s in SCALES:
        words = worst_words(hooks, backend, rng, s)
        extensions = key_stream.extension(*stream, 1, FIRST_SAMPLE + np.arange(words.size))
        noise = s * exact.laplace_values_64(words, extensions[:, 0])
        error = s * float32_output(hooks, backend, words) - noise
        for dtype in ("float32", "float64"):
            found.append((s, dtype, (words, adversarial.across_a_boundary(rng, noise, error, dtype))))
    return with_expected(found, stream)


def mismatches(hooks, backend, stream, **options):
    """(wrong integers, samples) over the hard and the worst sets, and the first wrong one in words."""
    wrong = samples_seen = 0
    example = ""
    for s, dtype, (words, x), want in hard_sets(stream) + worst_sets(hooks, backend, stream):
        n = np.asarray(hooks.exact_laplace(backend, *stream, FIRST_SAMPLE, words, x.astype(dtype), s, **options))
        bad = np.flatnonzero(n != want)
        wrong += bad.size
        samples_seen += words.size
        if bad.size and not example:
            k = bad[0]
            example = (
                f"s={s!r} {dtype} sample={FIRST_SAMPLE + k} word={words[k]} X={x[k].hex()}: got {n[k]}, want {want[k]}"
            )
    return wrong, samples_seen, example


def test_the_bound_holds_at_both_ends_of_a_word(backend, hooks):
    """The float32 logarithm is within the bound of every value that the word stands for, over a dense part of the
    accept window: all words by its edges, random ones between."""
    bounds = hooks.error_bounds(backend)["laplacian"]
    smallest, largest = int(bounds["smallest_word"]), int(bounds["largest_word"])
    random = np.random.default_rng(26).integers(smallest, largest + 1, scaled(1 << 20, 1 << 24))
    edges = np.arange(0, 1 << 18)
    words = np.concatenate([smallest + edges, largest - edges, random]).astype(np.uint32)
    z = float32_output(hooks, backend, words)
    ends = [exact.laplace_values_64(words, np.full_like(words, low)) for low in (0, 0xFFFFFFFF)]
    needed = np.maximum(*(np.abs(z - end) for end in ends))
    excess = needed / (bounds["per_scale"] + bounds["per_radius"] * np.abs(z))
    print(f"{backend}: needed / bound is at most {excess.max():.3f}, word {words[excess.argmax()]}")
    assert excess.max() <= 1.0, f"word {words[excess.argmax()]} needs {excess.max():.3f} of the bound"


@LONG_STREAMS
def test_no_adversarial_sample_is_wrong(backend, hooks, stream):
    wrong, samples, example = mismatches(hooks, backend, stream)
    assert samples > 20 * SAMPLES_PER_SET
    assert wrong == 0, f"{wrong} of {samples} wrong; first: {example}"


@LONG_STREAMS
def test_a_quarter_of_the_bound_is_caught(backend, hooks, stream, record_property):
    wrong, samples, _ = mismatches(hooks, backend, stream, bound_factor=MUTANT_BOUND_FACTOR)
    record_property("mutant_mismatches", f"{wrong} of {samples}")
    print(f"{backend}: bound / 4 gives {wrong} wrong integers of {samples}")
    assert wrong > 0


@lru_cache
def deep_samples(stream):
    """Samples whose X is the float64 next to a boundary of the *extended* value: only further bits can settle them."""
    rng = np.random.default_rng(23)
    found = []
    for s in SCALES:
        words = hard_words(rng, 60)
        for k in range(words.size):
            sample = FIRST_SAMPLE + k
            draw = exact.LaplaceSample(words[k])
            draw.extend(key_stream.extension(*stream, 1, [sample])[0])
            (z,) = draw.outputs()
            boundary = np.rint(float((z * s).mid())) + rng.choice((-0.5, 0.5))
            x = float((float(boundary) - z * s).mid())
            want = exact.laplace([words[k]], [x], s, samples=[sample], **key_stream.named(stream))[0]
            found.append((sample, int(words[k]), x, s, int(want)))
    return found


@pytest.mark.parametrize("level", (2, 3, 4))
@STREAMS
def test_each_level_of_the_ladder_settles_it_right(hooks, level, stream):
    deepest = 0
    for sample, word, x, s, want in deep_samples(stream):
        got, used = hooks.settle_laplace(level, *stream, sample, word, x, s)
        assert (got, used >= level) == (want, True), f"sample={sample} W={word} X={x.hex()} s={s!r} level used {used}"
        deepest = max(deepest, used)
    assert deepest >= 3  # the samples do ask for further bits


@STREAMS
def test_unbounded_magnitude_follows_the_extension_bits(backend, hooks, stream):
    """Words 0 and 1 say only that u is below 2^-31: every sample must go on to its own extension block."""
    count = 2000
    words = np.arange(count, dtype=np.uint32) % 2
    x = np.zeros(count, dtype=np.float32)
    got = np.asarray(hooks.exact_laplace(backend, *stream, 0, words, x, 100.0))
    want = exact.laplace(words, x, 100.0, samples=np.arange(count), **key_stream.named(stream))
    np.testing.assert_array_equal(got, want)
    assert len(set(got.tolist())) > 100
