"""The reference itself: a second multiprecision library agrees with it, its fast filter agrees with its slow proof, and
its clipped row follows the format in cases small enough to work out by hand."""

import mpmath
import numpy as np
import pytest

from evidence.reference import adversarial, chacha, clip, exact, half, release, stream

STREAM = dict(key=bytes(range(32)), nonce=7, rounds=12)
HARD_SCALES = (64.0, 96.0, float(np.float32(127.99)), 1.0, 2.0**-9)


def second_opinion_gaussian(a, b, x_cosine, x_sine, s, pair):
    """mpmath at 2,300 bits with all 2,080 bits of the uniforms; returns the integers and the distance from a tie."""
    mpmath.mp.prec = 2300
    u = mpmath.mpf(int(a)) / 2**32
    b = int(b)
    low = b % 2**31
    v = mpmath.mpf(low) / 2**31 - ((low >> 30) & 1)
    for step in range(1, 9):
        words = chacha.block(STREAM["key"], chacha.counter(step, int(pair)), STREAM["nonce"], STREAM["rounds"])
        for place in range(8):
            position = 32 * (8 * (step - 1) + place + 1)
            u += mpmath.ldexp(words[place], -32 - position)
            v += mpmath.ldexp(words[8 + place], -31 - position)
    radius = mpmath.sqrt(-2 * mpmath.log(u))
    angle = mpmath.pi * (v + (b >> 31))
    return [
        _round_by_hand(mpmath.mpf(float(x)) + mpmath.mpf(float(s)) * radius * circular(angle))
        for x, circular in ((x_cosine, mpmath.cos), (x_sine, mpmath.sin))
    ]


def second_opinion_laplace(word, x, s, sample):
    mpmath.mp.prec = 4300
    word = int(word)
    u = mpmath.mpf(word // 2) / 2**31
    for step in range(1, 9):
        words = chacha.block(STREAM["key"], chacha.counter(step, int(sample)), STREAM["nonce"], STREAM["rounds"])
        for place in range(16):
            u += mpmath.ldexp(words[place], -31 - 32 * (16 * (step - 1) + place + 1))
    z = -mpmath.log(u) * (-1 if word % 2 else 1)
    return _round_by_hand(mpmath.mpf(float(x)) + mpmath.mpf(float(s)) * z)


def _round_by_hand(t):
    n = int(mpmath.floor(t + 0.5))
    assert abs(abs(t - n) - 0.5) > mpmath.mpf(2) ** -1000
    return n


def hard_gaussian_words(rng, count):
    a = np.concatenate([adversarial.random_words(rng, count), adversarial.end_words(rng, count, reach=20)])
    b = np.concatenate([adversarial.special_angles(rng, count), adversarial.random_words(rng, count)])
    return a, b


@pytest.mark.parametrize("s", HARD_SCALES)
def test_gaussian_agrees_with_mpmath(s):
    rng = np.random.default_rng(1)
    a, b, x_cosine, x_sine = adversarial.gaussian(
        rng, 60, s, reach=4.0, dtype="float64", factors=(1e-9, 1.0), words=hard_gaussian_words(rng, 30)
    )
    pairs = np.arange(a.size) + (1 << 32) - 30
    got = exact.gaussian(a, b, x_cosine, x_sine, s, pairs=pairs, **STREAM)
    for k in range(a.size):
        assert [got[0][k], got[1][k]] == second_opinion_gaussian(a[k], b[k], x_cosine[k], x_sine[k], s, pairs[k])


@pytest.mark.parametrize("s", HARD_SCALES)
def test_laplace_agrees_with_mpmath(s):
    rng = np.random.default_rng(2)
    words = np.concatenate([adversarial.random_words(rng, 20), adversarial.end_words(rng, 20, reach=20)])
    words, x = adversarial.laplace(rng, 40, s, reach=4.0, dtype="float64", factors=(1e-9, 1.0), words=words)
    samples = np.arange(words.size) + (1 << 32) - 20
    got = exact.laplace(words, x, s, samples=samples, **STREAM)
    for k in range(words.size):
        assert got[k] == second_opinion_laplace(words[k], x[k], s, samples[k])


def test_fast_filter_gives_the_proved_integers():
    rng = np.random.default_rng(3)
    count = 20_000
    a = np.concatenate([adversarial.random_words(rng, count), adversarial.end_words(rng, 500)])
    b = adversarial.random_words(rng, a.size)
    x_cosine, x_sine = rng.uniform(-(2.0**21), 2.0**21, (2, a.size)).astype(np.float32)
    pairs = np.arange(a.size)
    for s in HARD_SCALES:
        slow = exact.gaussian(a, b, x_cosine, x_sine, s, pairs=pairs, **STREAM)
        fast = exact.gaussian(a, b, x_cosine, x_sine, s, pairs=pairs, use_filter=True, **STREAM)
        np.testing.assert_array_equal(slow, fast)
        np.testing.assert_array_equal(
            exact.laplace(a, x_sine, s, samples=pairs, **STREAM),
            exact.laplace(a, x_sine, s, samples=pairs, use_filter=True, **STREAM),
        )


def test_a_word_of_zero_is_continued_by_its_extension():
    """u = E1/2^(32 + 256): the radius follows the extension block, and differs between pairs."""
    n, _ = exact.gaussian([0] * 4, [0] * 4, [0.0] * 4, [0.0] * 4, 64.0, pairs=[0, 1, 2, 3], **STREAM)
    first_words = chacha.extension(STREAM["key"], STREAM["nonce"], STREAM["rounds"], 1, [0, 1, 2, 3])[:, 0]
    expected = 64.0 * np.sqrt(-2.0 * np.log((first_words + 0.5) / 2.0**64))
    np.testing.assert_array_equal(n, np.rint(expected))
    assert len(set(n.tolist())) > 1


def test_all_extensions_undecided_is_an_error(monkeypatch):
    monkeypatch.setattr(stream, "extension", lambda *stream_and_place: np.zeros((1, 16), dtype=np.uint32))
    with pytest.raises(exact.Undecided):
        exact.gaussian([0], [0], [0.0], [0.0], 1.0, pairs=[0], **STREAM)


def test_integer_saturates():
    n = exact.laplace([1 << 31], [3.0 * exact.SATURATION], 1.0, samples=[0], **STREAM)
    assert n[0] == exact.SATURATION


@pytest.mark.parametrize(
    ("sigma", "clip_norm", "expected"),
    [
        (1.0, 1.0, (1.0, 2.0**-6)),
        (1.9999998, 1.0, (1.9999998807907104, 2.0**-6)),
        (1.9999999, 1.0, (2.0, 2.0**-5)),
        (0.1, 1.0, (float(np.nextafter(np.float32(0.1), np.float32(0))) + 2.0**-27, 2.0**-10)),
        (2.0**-20, 1.0, (2.0**-20, 2.0**-21)),
        (2.0**-20, 1.0000001, (2.0**-20, 2.0**-20)),
        (2.0**-30, 1.0, (2.0**-30, 2.0**-21)),
        (2.0**100, 2.0**100, (2.0**100, 2.0**94)),
    ],
)
def test_grid_by_hand(sigma, clip_norm, expected):
    assert clip.grid(sigma, clip_norm) == expected


def test_half_words_by_hand():
    words, more = [0xABCD1234, 0xFFFFFFFF, 0], [0x56789ABD, 0xFFFFFFFF, 1]
    assert [w.tolist() for w in half.gaussian_words(words, more)] == [[0xABCD5678, 0xFFFFFFFF, 0], [0x12349ABD, 0xFFFFFFFF, 1]]
    assert [w.tolist() for w in half.laplace_words(words, more)] == [[0xABCCACF1, 0xFFFFFFFF, 0], [0x1235357A, 0xFFFFFFFF, 2]]
    assert half.pair_of_sample([0, 127, 128, 255, 256, 511, 2**20 + 130]).tolist() == [0, 127, 0, 127, 128, 255, 2**19 + 2]


def test_sigma_is_rounded_up_never_down():
    for sigma in np.random.default_rng(4).lognormal(0.0, 5.0, 1000):
        up = float(clip.round_up_to_float32(sigma))
        assert up >= sigma
        assert float(np.nextafter(np.float32(up), np.float32(0))) < sigma


def test_rows_inside_the_ball_are_only_divided_by_the_grid():
    rows = np.array([[0.25, -0.5, 0.0]], dtype=np.float32)
    np.testing.assert_array_equal(clip.clipped_rows(rows, 1.0, 2.0**-6), rows * 64)


def test_sum_of_squares_keeps_the_order_of_the_format():
    """2^60 swallows ones in its own accumulator (j mod 32 = 0) and lets those of another be added up first."""
    row = np.ones((1, 96))
    row[0, 0] = 2.0**30
    assert clip.sum_of_squares(row)[0] == 2.0**60
    ones_first = np.ones((1, 4096))
    ones_first[0, 4095] = 2.0**30
    assert clip.sum_of_squares(ones_first)[0] == 2.0**60 + 4096 - 256


def test_a_float64_row_whose_squares_overflow_is_still_clipped():
    rows = np.array([[1e308, -1e308, 3.0]])
    clipped = clip.clipped_rows(rows, 1.0)
    assert clip.exact_square_norm(clipped[0]) <= 1
    np.testing.assert_allclose(clipped[0, :2], [2**-0.5, -(2**-0.5)], rtol=2e-6)


def test_rounding_to_zero():
    values = np.array([1.0 + 2.0**-30, -1.0 - 2.0**-30, 1e-50, 65535.0, -1e30])
    np.testing.assert_array_equal(
        clip.round_to_zero(values, np.float16), np.array([1, -1, 0, 65504, -65504], dtype=np.float16)
    )
    np.testing.assert_array_equal(clip.round_to_zero(np.float32([1.99, -1.99]), "bfloat16"), [1.984375, -1.984375])


def test_output_rounding_is_to_nearest_even_and_saturates():
    values = np.array([1.0 + 2.0**-11, 1.0 + 3 * 2.0**-11, 1e6, -1e6, 65519.0])
    np.testing.assert_array_equal(
        release.round_to_output(values, "float16"),
        np.array([1.0, 1.0 + 2.0**-9, 65504, -65504, 65504], dtype=np.float16),
    )
    halves = np.array([1.0 + 2.0**-8, 1.0 + 3 * 2.0**-8, -1.0 - 2.0**-8 - 2.0**-20])
    np.testing.assert_array_equal(
        release.round_to_output(halves, "bfloat16"), np.array([1.0, 1.0 + 2.0**-6, -1.0 - 2.0**-7])
    )


def test_exact_square_norm():
    assert clip.exact_square_norm(np.array([3.0, 4.0])) == 25
    assert clip.exact_square_norm(np.array([5e-324, 0.0])) * 2**2148 == 1
