"""Every Gaussian integer that is released is the exact rounding of the ideal value, on every backend."""

from functools import lru_cache

import numpy as np
import pytest

from evidence.exact.calls import Call, outputs
from evidence.exact.rows import around_the_ball
from evidence.reference import adversarial, chacha, exact, release
from evidence.reference import stream as key_stream
from evidence.reference.sizes import scaled

CHACHA = (bytes(range(100, 132)), 3, 20)  # key, nonce, rounds
AES = (*CHACHA[:2], key_stream.AES256)
STREAMS = pytest.mark.parametrize("stream", (CHACHA, AES), ids=("chacha", "aes256"))
LONG_STREAMS = pytest.mark.parametrize("stream", (CHACHA, pytest.param(AES, marks=pytest.mark.full)), ids=("chacha", "aes256"))
SCALES = (64.0, 96.0, float(np.float32(127.99)), 1.0, 2.0**-9)  # s; below 64 where clip_norm / sigma is large
FIRST_PAIR = (1 << 32) - 1000  # so that the index of the extension blocks crosses a word
PAIRS_PER_SET = scaled(1_500, 60_000)
CANDIDATES = 100 * PAIRS_PER_SET
MUTANT_BOUND_FACTOR = 0.25

CIPHERS = ("chacha20", "chacha12", "chacha8", "aes256")
CLIP_NORM_AND_SIGMA = (
    (1.0, 1.0),
    (1.0, 0.73),
    (2.5, 1e-4),  # X up to 2^15
    (1.0, 2.0**-20),  # s = 2
    (1.0, 2.0**-30),  # s = 2^-9
    (0.9999, 1.23456789e-9),
    (3.0, 0.11),
    (1e-3, 50.0),
    (2.0**100, 2.0**100),
    (2.0**100, 2.0**70),
    (2.0**-100, 2.0**-100),
    (2.0**-100, 2.0**-40),
)


def releases():
    rng = np.random.default_rng(11)
    shapes = ((1, 1), (3, 15), (2, 128), (1, 256), (5, 257), (7, 768), (130, 96))
    found = []
    for k, (clip_norm, sigma) in enumerate(CLIP_NORM_AND_SIGMA):
        for j, dtype in enumerate(("float32", "float64")):
            count, dimension = shapes[(2 * k + j) % len(shapes)]
            found.append(
                Call(
                    around_the_ball(rng, count, dimension, clip_norm, dtype),
                    dtype,
                    clip_norm=clip_norm,
                    sigma=sigma,
                    seed=int(rng.integers(1 << 62)),
                    cipher=CIPHERS[(k + j) % 4],
                    earlier_calls=k % 4,
                )
            )
    large = around_the_ball(rng, 400, 768, 1.0, "float32")
    found.append(Call(large, sigma=0.37, seed=(1 << 256) - 1, threads=2))
    for dtype, dimension in (("float32", 384), ("float64", 384), ("float32", 640)):   # rows of whole half groups
        halves = around_the_ball(rng, 131, dimension, 1.0, dtype)
        found.append(Call(halves, dtype, sigma=0.37, seed=dimension, threads=2))
    return found


def expected_of(call):
    return release.clip_and_noise(
        call.rows,
        call.clip_norm,
        call.sigma,
        key=chacha.seed_key(call.seed),
        nonce=call.earlier_calls,
        rounds=call.rounds,
        law=call.law,
        dtype=call.dtype,
    )


@lru_cache(maxsize=1)
def expected_releases():
    calls = releases()
    return calls, [expected_of(call) for call in calls]


def test_releases_are_the_exact_ones(backend):
    calls, expected = expected_releases()
    for call, got, want in zip(calls, outputs(backend, calls), expected, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=repr(call))
        assert not np.any(np.signbit(got) & (got == 0)), f"-0 released by {call!r}"


@pytest.mark.parametrize("clip_norm", (1.0, 3e-16))
def test_releases_of_rows_whose_squares_overflow(backend, clip_norm):
    """The second clip_norm makes the scale a multiple of the smallest float64, between 0 and some dozens."""
    rows = around_the_ball(np.random.default_rng(15), 20, 300, 1e307, "float64")
    call = Call(rows, "float64", clip_norm=clip_norm, sigma=0.4 * clip_norm)
    (got,) = outputs(backend, [call])
    np.testing.assert_array_equal(got, expected_of(call))


def hard_words(rng, count):
    """Random radius and angle words, then each kind of special word beside random ones."""
    part = count // 5
    rest = count - 4 * part
    radius = [
        adversarial.random_words(rng, rest),
        adversarial.end_words(rng, part),
        adversarial.random_words(rng, part),
    ]
    angle = [adversarial.random_words(rng, rest + part), adversarial.special_angles(rng, part)]
    radius += [
        adversarial.words_near(rng, part, adversarial.window_edges()),
        adversarial.end_words(rng, part, reach=20),
    ]
    angle += [adversarial.random_words(rng, part), adversarial.special_angles(rng, part)]
    return np.concatenate(radius), np.concatenate(angle)


def with_large_inputs(rng, count, s):
    """float32 X up to 2^21, whose spacing is far above the bound: candidates, of which the close ones are kept."""
    reach = 2.0 ** rng.uniform(3, 21, count)
    a, b, x_cosine, x_sine = adversarial.gaussian(rng, count, s, reach=reach, dtype="float32")
    radius = np.sqrt(-2.0 * np.log((a + 0.5) / 2.0**32))
    near = np.zeros(count, dtype=bool)
    for x, z in zip((x_cosine, x_sine), exact.gaussian_values(a, b), strict=True):
        near |= adversarial.closeness(x, s * z, adversarial.gaussian_bound(s, radius)) < 1.5
    return a[near], b[near], x_cosine[near], x_sine[near]


def with_expected(sets, stream):
    """Adds the reference's integers to each (s, dtype, samples)."""
    return [
        (s, dtype, samples, exact.gaussian(*samples, s, pairs=FIRST_PAIR + np.arange(samples[0].size), **key_stream.named(stream)))
        for s, dtype, samples in sets
    ]


@lru_cache
def hard_sets(stream):
    """[(s, dtype, (A, B, X cosine, X sine), expected)]"""
    rng = np.random.default_rng(12)
    found = []
    for s in SCALES:
        for dtype in ("float32", "float64"):
            for reach in (1.0, 2.0**5 if dtype == "float32" else 2.0**21):
                words = hard_words(rng, PAIRS_PER_SET)
                found.append(
                    (s, dtype, adversarial.gaussian(rng, words[0].size, s, reach=reach, dtype=dtype, words=words))
                )
        found.append((s, "float32", with_large_inputs(rng, 40 * PAIRS_PER_SET, s)))
    return with_expected(found, stream)


def float32_outputs(hooks, backend, a, b):
    """(radius, (cosine output, sine output)) of the backend's float32 functions, before the scale."""
    radius, cosine, sine = (np.asarray(part, dtype=np.float64) for part in hooks.normals(backend, a, b))
    return np.abs(radius), (radius * cosine, radius * sine)


def float32_bound(bounds, s, radius):
    return bounds["constant"] + s * (bounds["per_scale"] + bounds["per_radius"] * radius)


def worst_words(hooks, backend, rng, s, output):
    """Pairs of words: those whose float32 output errs most for its bound, and the edges of the accept window."""
    bounds = hooks.error_bounds(backend)["gaussian"]
    a, b = adversarial.random_words(rng, CANDIDATES), adversarial.random_words(rng, CANDIDATES)
    b[: CANDIDATES // 4] = adversarial.special_angles(rng, CANDIDATES // 4)
    radius, outputs_of = float32_outputs(hooks, backend, a, b)
    excess = np.abs(outputs_of[output] - exact.gaussian_values(a, b)[output]) * s / float32_bound(bounds, s, radius)
    excess[(a < bounds["smallest_word"]) | (a > bounds["largest_word"])] = 0.0
    worst = np.argsort(excess)[-PAIRS_PER_SET:]
    edge_a = adversarial.words_inside(rng, PAIRS_PER_SET, bounds)
    return np.concatenate([a[worst], edge_a]), np.concatenate([b[worst], adversarial.special_angles(rng, edge_a.size)])


@lru_cache
def worst_sets(hooks, backend, stream):
    """Like hard_sets, of worst_words; the cosine or the sine output is the adversarial one.

    X puts the exact sum, extension bits included, and the float32 one on different sides of a boundary, so that only
    the accept test saves the sample.
    """
    rng = np.random.default_rng(14)
    found = []
    for s in SCALES:
        for output in (0, 1):
            a, b = worst_words(hooks, backend, rng, s, output)
            extensions = key_stream.extension(*stream, 1, FIRST_PAIR + np.arange(a.size))
            noise = s * exact.gaussian_values_64(a, b, extensions[:, 0], extensions[:, 8])[output]
            error = s * float32_outputs(hooks, backend, a, b)[1][output] - noise
            for dtype in ("float32", "float64"):
                x = adversarial.across_a_boundary(rng, noise, error, dtype)
                found.append((s, dtype, (a, b, x, x)))
    return with_expected(found, stream)


def mismatches(hooks, backend, stream, **options):
    """(wrong integers, samples) over the hard and the worst sets, and the first wrong one in words."""
    wrong = samples_seen = 0
    example = ""
    for s, dtype, (a, b, x_cosine, x_sine), expected in hard_sets(stream) + worst_sets(hooks, backend, stream):
        got = hooks.exact_gaussian(
            backend, *stream, FIRST_PAIR, a, b, x_cosine.astype(dtype), x_sine.astype(dtype), s, **options
        )
        for name, x, n, want in zip(("cosine", "sine"), (x_cosine, x_sine), got, expected, strict=True):
            bad = np.flatnonzero(np.asarray(n) != want)
            wrong += bad.size
            samples_seen += a.size
            if bad.size and not example:
                k = bad[0]
                example = f"{name} s={s!r} {dtype} pair={FIRST_PAIR + k} A={a[k]} B={b[k]} X={x[k].hex()}"
                example += f": got {n[k]}, want {want[k]}"
    return wrong, samples_seen, example


def test_the_bound_holds_at_both_ends_of_a_word(backend, hooks):
    """At angle 0 the float32 radius is within the bound of every radius that the word stands for, over a dense part of
    the accept window: all words by its edges, random ones between."""
    bounds = hooks.error_bounds(backend)["gaussian"]
    smallest, largest = int(bounds["smallest_word"]), int(bounds["largest_word"])
    random = np.random.default_rng(16).integers(smallest, largest + 1, scaled(1 << 20, 1 << 24))
    edges = np.arange(0, 1 << 18)
    words = np.concatenate([smallest + edges, largest - edges, random]).astype(np.uint32)
    angle = np.zeros_like(words)
    radius, (cosine_output, _) = float32_outputs(hooks, backend, words, angle)
    ends = [exact.gaussian_values_64(words, angle, np.full_like(words, low), angle)[0] for low in (0, 0xFFFFFFFF)]
    needed = np.maximum(*(np.abs(cosine_output - end) for end in ends))
    excess = needed / (bounds["per_scale"] + bounds["per_radius"] * radius)
    print(f"{backend}: needed / bound is at most {excess.max():.3f}, word {words[excess.argmax()]}")
    assert excess.max() <= 1.0, f"word {words[excess.argmax()]} needs {excess.max():.3f} of the bound"


@LONG_STREAMS
def test_no_adversarial_sample_is_wrong(backend, hooks, stream):
    wrong, samples, example = mismatches(hooks, backend, stream)
    assert samples > 40 * PAIRS_PER_SET
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
    rng = np.random.default_rng(13)
    found = []
    for s in SCALES:
        a, b = hard_words(rng, 60)
        for k in range(a.size):
            pair = FIRST_PAIR + k
            draw = exact.GaussianPair(a[k], b[k])
            draw.extend(key_stream.extension(*stream, 1, [pair])[0])
            for sine, z in enumerate(draw.outputs()):
                noise = float((z * s).mid())
                boundary = np.rint(noise) + rng.choice((-0.5, 0.5))
                x = float((float(boundary) - z * s).mid())
                want = exact.gaussian([a[k]], [b[k]], [x], [x], s, pairs=[pair], **key_stream.named(stream))[sine][0]
                found.append((pair, bool(sine), int(a[k]), int(b[k]), x, s, int(want)))
    return found


@pytest.mark.parametrize("level", (2, 3, 4))
@STREAMS
def test_each_level_of_the_ladder_settles_it_right(hooks, level, stream):
    deepest = 0
    for pair, sine, a, b, x, s, want in deep_samples(stream):
        got, used = hooks.settle_gaussian(level, *stream, pair, sine, a, b, x, s)
        assert (got, used >= level) == (want, True), (
            f"pair={pair} sine={sine} A={a} B={b} X={x.hex()} s={s!r} level used {used}"
        )
        deepest = max(deepest, used)
    assert deepest >= 3  # the samples do ask for further bits


@STREAMS
def test_unbounded_radius_follows_the_extension_bits(backend, hooks, stream):
    """A = 0 says only that u is below 2^-32: every sample must go on to its own extension block."""
    count = 2000
    zeros = np.zeros(count, dtype=np.uint32)
    x = np.zeros(count, dtype=np.float32)
    got, _ = hooks.exact_gaussian(backend, *stream, 0, zeros, zeros, x, x, 100.0)
    want, _ = exact.gaussian(zeros, zeros, x, x, 100.0, pairs=np.arange(count), **key_stream.named(stream))
    np.testing.assert_array_equal(got, want)
    assert len(set(np.asarray(got).tolist())) > 50
