"""Another thread writes to the caller's array while a call reads it: each released row is still the release of one reading.

Every row has a single element that is not zero, and the writer switches it between a short and a long row. A reading of the row is
then one of the two, whatever moment it falls on, and with a seed each has one right answer. A norm from one reading and values from
another give a third.
"""

import contextlib
import threading

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.mechanisms import PrivUnit
from hushvec.mechanisms.top_k import GumbelTopK

ROWS, COLUMNS = 2_000, 256
SHORT, LONG = 0.5, 30_000.0
TRIES = 12  # without the stage the first fails, nearly always


@contextlib.contextmanager
def written_to(array, *contents):
    """A thread that writes the contents to the array, one after the other, again and again."""
    done = threading.Event()

    def write():
        while not done.is_set():
            for content in contents:
                array[...] = content

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        done.set()
        writer.join()


def rows(dtype, element, columns=COLUMNS):
    x = np.zeros((ROWS, columns), dtype)
    x[:, 0] = element
    return x


def assert_of_one_reading(release, dtype, columns=COLUMNS):
    """Each row of release(x) is that of the short or of the long row, which must differ for this to say anything."""
    short, long = (release(rows(dtype, element, columns)) for element in (SHORT, LONG))
    x = rows(dtype, SHORT, columns)
    with written_to(x[:, 0], SHORT, LONG):
        for _ in range(TRIES):
            released = release(x)
            is_right = (released == short).all(axis=1) | (released == long).all(axis=1)
            assert is_right.all(), f"rows {np.flatnonzero(~is_right)[:5]}, the first {released[~is_right][:1, :4]}"


def seeded():
    return hv.Generator.unsafe_seeded(11, rounds=8)


@pytest.mark.parametrize("columns", (256, 200, 1))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("law", ("gaussian", "laplacian", "l2_laplace"))
def test_clip_and_noise(threads, law, dtype, columns):
    def release(x, *, fresh, exact):
        out = np.empty_like(x)
        _core.clip_and_noise(x, 1.0, 0.25, out, seeded(), law, exact, out_is_fresh=fresh)
        return out

    for fresh in (True, False):
        for exact in (False,) if law == "l2_laplace" else (True, False):
            assert_of_one_reading(lambda x, f=fresh, e=exact: release(x, fresh=f, exact=e), dtype, columns)


@pytest.mark.parametrize("columns", (256, 200, 1))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_clip(threads, dtype, columns):
    assert_of_one_reading(lambda x: hv.clip(x, 1.0), dtype, columns)
    assert_of_one_reading(lambda x: hv.clip(x, 1.0, out=np.empty_like(x)), dtype, columns)


@pytest.mark.parametrize("columns", (256, 200, 1))
@pytest.mark.parametrize("dtype", ("int64", "int32"))
@pytest.mark.parametrize("laplacian", (True, False))
def test_rows_of_whole_numbers(threads, laplacian, dtype, columns):
    assert_of_one_reading(lambda x: _core.clip_and_add_discrete(x, 10.0, laplacian, 2.0, seeded()), dtype, columns)


def test_rows_that_are_not_contiguous(threads):
    assert_of_one_reading(lambda x: hv.clip_and_noise(x[::-1, ::2], 1.0, 0.25, generator=seeded()), "float32")


def test_one_long_row(threads):
    """With two threads both work at it, after one copy."""
    x = np.full((1, 2**20), 2.0, np.float32)
    with written_to(x, 2.0, 3.0):
        for _ in range(TRIES):
            assert np.linalg.norm(hv.clip(x, 1.0).astype(np.float64)) <= 1


def test_one_long_row_has_the_same_bits_on_any_number_of_threads():
    x = np.random.default_rng(3).standard_normal((1, 2**19 + 77)).astype(np.float32)
    before = _core.get_num_threads()
    noisy = []
    for count in (1, 3):
        hv.set_num_threads(count)
        noisy.append(hv.clip_and_noise(x, 1.0, 0.25, generator=seeded()))
    hv.set_num_threads(before)
    np.testing.assert_array_equal(*noisy)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_privunit(threads, dtype):
    law = PrivUnit(epsilon=6.0, dimension=COLUMNS)

    def release(x, fresh):
        out = np.empty_like(x)
        law.apply(x, out, seeded(), out_is_fresh=fresh)
        return out

    # Both rows have one direction, and a norm of the one with values of the other has none.
    assert_of_one_reading(lambda x: release(x, True), dtype)
    assert_of_one_reading(lambda x: release(x, False), dtype)


@pytest.mark.parametrize("mechanism", ("gaussian", "laplacian", "privunit"))
@pytest.mark.parametrize("normalize", (False, True))
def test_privatize(mechanism, normalize):
    def release(x):
        return hv.privatize(x, epsilon=8.0, mechanism=mechanism, normalize=normalize, renormalize=True, generator=seeded()).values

    assert_of_one_reading(release, "float32")


@pytest.mark.parametrize("normalize", (False, True))
@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
@pytest.mark.parametrize("mechanism", ("gaussian", "privunit"))
def test_noise_batch(mechanism, dtype, normalize):
    """A row's stream is keyed by the very bytes that are released: other bytes under it would show the difference of the two, bare."""
    job = NoiseJob.unsafe_seeded(7, dimension=COLUMNS, epsilon=8.0, mechanism=mechanism, dtype=dtype, normalize=normalize)
    assert_of_one_reading(lambda x: noise_batch(x, job), dtype)


@pytest.mark.parametrize("dtype", ("float32", "float64", "float16"))
def test_unit_rows(threads, dtype):
    def release(x):
        out = np.empty_like(x)
        _core.unit_rows(x, out)
        return out

    assert_of_one_reading(release, dtype)


@pytest.mark.parametrize("fresh", (True, False))
def test_a_row_that_becomes_infinite_is_refused(fresh):
    """Never released, neither as NaN nor as a row beyond the ball."""
    x = rows("float32", SHORT)
    out = np.zeros_like(x)
    with written_to(x[:, 0], SHORT, np.inf, np.nan):
        for _ in range(TRIES):
            with contextlib.suppress(ValueError):
                _core.clip_and_noise(x, 1.0, 0.25, out, seeded(), "gaussian", True, out_is_fresh=fresh)
            assert np.abs(out).max() < 10
            with contextlib.suppress(ValueError):
                assert np.isfinite(hv.privatize(x, epsilon=8.0, mechanism="privunit").values).all()


# ---- codes ----


def outcome(call, *arguments):
    """What the call returned, or None where it refused: by the rule, and not because it met an odd number later on."""
    try:
        return call(*arguments)
    except ValueError as refusal:
        if "must be in [0, 4)" not in str(refusal) and "must be finite" not in str(refusal):
            raise
        return None


@pytest.mark.parametrize("dtype", (np.uint8, np.int32, np.int64))
def test_codes_stay_in_range(dtype):
    """An answer outside the labels would be the code itself, and an index outside of memory a write elsewhere."""
    codes = np.zeros(400_000, dtype)
    law = _core.response_law(1.0, 4)
    wide = codes if dtype == np.int64 else codes.astype(np.int64)
    groups = np.zeros(len(codes), np.uint32)
    bits = np.zeros((len(codes), 1), np.uint32)
    with written_to(codes[200_000:], 1, 120), written_to(wide[200_000:], 1, 120), written_to(groups[200_000:], 1, 2**20):
        for _ in range(TRIES):
            answers = outcome(_core.randomized_response, codes, 4, law, seeded())
            assert answers is None or int(answers.max()) < 4
            reports = outcome(_core.bit_reports, wide, 4, (2**63, 2**62), seeded())
            assert reports is None or int(reports.max()) < 16
            columns = outcome(_core.hadamard_reports, wide, 4, 1, 8, _core.response_law(1.0, 2), seeded())
            assert columns is None or int(columns.max()) < 8
            counts = np.zeros(4, np.int64)
            outcome(_core.count_codes, codes, counts)
            assert counts.sum() in (0, len(codes))
            by_group = np.zeros((4, 8), np.int64)
            outcome(_core.count_bits_by_group, bits, 8, groups, by_group)
            assert not by_group.any()


def test_scores_are_read_once():
    scores = np.zeros(200_000)
    selection = GumbelTopK(k=3, sensitivity=1.0, epsilon=1.0)
    with written_to(scores[100_000:], 1.0, np.nan):
        for _ in range(TRIES):
            chosen = outcome(selection.select, scores)
            assert chosen is None or len(set(chosen.tolist())) == 3
