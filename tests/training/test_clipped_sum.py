"""Sums of clipped rows: their bits, the norm of what a row adds in exact integers, splits, parts, dtypes, refusals."""

import math
import weakref

import numpy as np
import pytest

from evidence.exact.rows import representable
from evidence.reference import clipped_sum as reference
from hushvec.training.clipped_sums import ClippedSum

torch = pytest.importorskip("torch")

CLIP_NORMS = (1.0, 0.1, 2.0**-100, 3.7e-20, 2.0**100)


def summed(parts, clip_norm=1.0, clipping="exact", sigma=0.0, **options):
    shapes = [tuple(part.shape[1:]) for part in parts]
    total = ClippedSum(shapes, clip_norm=clip_norm, sigma=sigma, clipping=clipping, **options)
    total.add(parts)
    return total


def units_of(parts, clip_norm, clipping="exact"):
    """What the core holds after these rows: whole numbers."""
    return summed(parts, clip_norm, clipping)._units()


def awkward_rows(rng, dimension, clip_norm, dtype):
    normal = rng.standard_normal((3, dimension))
    unit = normal / np.linalg.norm(normal, axis=1, keepdims=True)
    single = np.zeros((2, dimension))
    single[0, -1], single[1, dimension // 2] = clip_norm * (1 + 2.0**-23), -1e4 * clip_norm
    rows = [
        clip_norm * unit * np.array([[0.3], [1.0], [1e4]]),
        clip_norm * (1 - 2.0**-20) * unit * (1 + rng.integers(-40, 41, (3, 1)) * 2.0**-26),
        normal * 10.0 ** rng.uniform(-30, 30, (3, dimension)),
        np.full((1, dimension), clip_norm / math.sqrt(dimension)),
        np.full((1, dimension), 3e38),
        np.full((1, dimension), 1e-45),
        single,
        np.zeros((1, dimension)),
    ]
    return representable(np.concatenate(rows), dtype)


# ---- the bits ----


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip_norm", CLIP_NORMS)
def test_exactly_clipped_rows_have_the_bits_of_the_format(dtype, clip_norm):
    rng = np.random.default_rng(1)
    for dimension in (1, 31, 257, 8193):
        rows = awkward_rows(rng, dimension, clip_norm, dtype)
        expected = reference.units([rows], clip_norm, "exact")[0]
        assert np.array_equal(units_of([rows], clip_norm)[0], expected.sum(0)), dimension
        for row in (0, 3, 7):
            assert np.array_equal(units_of([rows[row : row + 1]], clip_norm)[0], expected[row])


def parts_of(rng, rows, dtypes):
    shapes = [(40, 17), (), (9000,), (3, 5, 2), (1,)]
    return [rng.standard_normal((rows, *shape)).astype(dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]


MIXED = ["float64", "float32", "float32", "float16", "float64"]


@pytest.mark.parametrize("dtypes", [["float32"] * 5, MIXED], ids=["float32", "mixed"])
def test_parts_are_clipped_together(dtypes):
    parts = parts_of(np.random.default_rng(2), 7, dtypes)
    flat = [part.reshape(7, -1).astype(np.float32 if part.dtype == np.float16 else part.dtype) for part in parts]
    expected = reference.units(flat, 1.5, "exact")
    assert all(np.array_equal(a.ravel(), b.sum(0)) for a, b in zip(units_of(parts, 1.5), expected, strict=True))


def gradients(rng, rows, length):
    """Smooth, drifting, heavy-tailed, sparse, short, and zero rows; one whose only element lies between the samples."""
    x = rng.standard_normal((rows, length)) * 0.02
    x[1] *= np.linspace(1, 5, length)
    x[2] = rng.standard_t(2.5, length) * 0.02
    x[3] *= rng.random(length) < 0.001
    x[4] *= 1e-4
    x[5] = 0
    x[6] = 0
    x[6, 12345] = 7.0
    x[7, 12345] = 50.0
    return x.astype(np.float32)


@pytest.mark.parametrize("clip_norm", [1.0, 0.3])
def test_estimated_rows_have_the_bits_of_the_format(clip_norm):
    x = gradients(np.random.default_rng(3), 9, 700_001)
    bias = (0.02 * np.random.default_rng(4).standard_normal((9, 65))).astype(np.float32)
    expected = reference.units([x, bias], clip_norm, "estimated")
    wrong = reference.estimated_scales([x, bias], clip_norm)[1]
    total = summed([x, bias], clip_norm, "estimated")
    assert all(np.array_equal(a, b.sum(0)) for a, b in zip(total._units(), expected, strict=True))
    assert total.corrected_rows == wrong.sum() >= 2


# ---- the norm ----


def assert_inside(row_units, clip_norm):
    assert reference.square_norm(row_units) <= reference.largest_square_norm(clip_norm)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip_norm", CLIP_NORMS)
def test_no_row_adds_more_than_the_clip_norm(dtype, clip_norm):
    rng = np.random.default_rng(5)
    for dimension in (1, 2, 33, 768):
        rows = awkward_rows(rng, dimension, clip_norm, dtype)
        for row in rows:
            assert_inside(units_of([row[None]], clip_norm), clip_norm)
            half = dimension // 2
            assert_inside(units_of([row[None, :half], row[None, half:]], clip_norm), clip_norm)


@pytest.mark.parametrize("clip_norm", [1.0, 0.3, 1e-20])
def test_no_estimated_row_adds_more_than_the_clip_norm_nor_much_less(clip_norm):
    x = gradients(np.random.default_rng(6), 9, 550_000)
    for row in x:
        added = units_of([row[None]], clip_norm, "estimated")
        assert_inside(added, clip_norm)
        due = min(clip_norm, float(np.linalg.norm(row.astype(np.float64))))
        assert math.sqrt(reference.square_norm(added)) * reference.unit(clip_norm) >= (0.97 - 1e-4) * due - 1e-3 * clip_norm


def test_the_norm_test_can_fail():
    """Rows scaled in plain float32, and rows clipped to 2 C: both leave the ball."""
    rng = np.random.default_rng(7)
    rows = rng.standard_normal((50, 768)).astype(np.float32)
    scaled = rows * (np.float32(1) / np.linalg.norm(rows, axis=1).astype(np.float32))[:, None]
    plain = [[np.rint(row.astype(np.float64) / reference.unit(1.0))] for row in scaled]
    assert any(reference.square_norm(row) > reference.largest_square_norm(1.0) for row in plain)
    doubled = units_of([rows[:1]], 2.0)[0] * reference.unit(2.0) / reference.unit(1.0)
    assert reference.square_norm([doubled]) > reference.largest_square_norm(1.0)


# ---- the sum ----


@pytest.mark.parametrize("clipping", ["exact", "estimated"])
def test_splits_orders_and_threads_change_no_bit(clipping, core):
    rows = 12
    x = gradients(np.random.default_rng(8), rows, 600_003)
    expected = units_of([x], 1.0, clipping)[0]
    threads = core.get_num_threads()
    try:
        for count, order in ((1, slice(None)), (3, slice(None, None, -1)), (2, np.random.default_rng(9).permutation(rows))):
            core.set_num_threads(count)
            shuffled = x[order]
            total = ClippedSum([(600_003,)], clip_norm=1.0, sigma=0.0, clipping=clipping)
            for first, last in ((0, 1), (1, 9), (9, rows)):
                total.add([shuffled[first:last]])
            assert total.rows == rows
            assert np.array_equal(total._units()[0], expected)
    finally:
        core.set_num_threads(threads)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_torch_and_strided_parts_add_the_same(dtype):
    source = torch.randn(6, 4, 30, generator=torch.Generator().manual_seed(1)).to(getattr(torch, dtype))
    wide = source.double().numpy() if dtype == "float64" else source.float().numpy()
    expected = units_of([wide], 1.0)[0]
    assert np.array_equal(units_of([source], 1.0)[0], expected)
    transposed = source.transpose(1, 2).contiguous().transpose(1, 2)
    assert not transposed.is_contiguous()
    assert np.array_equal(units_of([transposed], 1.0)[0], expected)
    assert np.array_equal(units_of([wide[::-1]], 1.0)[0], expected)


def test_added_rows_are_not_kept():
    total = ClippedSum([(5,)], clip_norm=1.0, sigma=0.0)
    for make in (lambda: row(2, 5), lambda: torch.ones(2, 5)):
        rows = make()
        total.add([rows])
        kept = weakref.ref(rows)
        del rows
        assert kept() is None
    assert total.rows == 4


def test_float64_rows_beyond_the_range_of_squares():
    rows = np.array([[3e200, -4e200, 0.0], [1e308, 1e308, 1e308]])
    added = summed([rows], 1.0).release()[0]
    assert np.allclose(added, [0.6 + 3**-0.5, -0.8 + 3**-0.5, 3**-0.5], atol=1e-5)


def test_estimated_is_chosen_by_shape_alone():
    def chosen(*shapes, clipping="auto"):
        return ClippedSum(shapes, clip_norm=1.0, sigma=0.0, clipping=clipping).clipping

    assert chosen((2**20,)) == chosen((2**19,), (2**19,)) == "estimated"
    assert chosen((2**20 - 1,)) == chosen((2**20,), clipping="exact") == "exact"


# ---- refusals: one error, nothing changed ----


def row(*shape, dtype=np.float32, value=1.0):
    return np.full(shape, value, dtype)


BAD_PARTS = {
    "too few parts": ([row(2, 3)], ValueError, "parts must have 2 arrays, got 1"),
    "another shape": ([row(2, 3), row(2, 3)], ValueError, r"parts\[1\] must have shape \(2, 2, 2\), got \(2, 3\)"),
    "another number of rows": ([row(2, 3), row(1, 2, 2)], ValueError, r"parts\[1\] must have shape \(2, 2, 2\), got \(1, 2, 2\)"),
    "no rows": ([row(0, 3), row(0, 2, 2)], ValueError, "parts must have at least 1 row, got 0"),
    "too many rows": ([row(9, 3), row(9, 2, 2)], ValueError, "rows of the sum must be <= most_rows = 10, got 2 [+] 9"),
    "NaN": ([row(2, 3), row(2, 2, 2, value=np.nan)], ValueError, r"parts\[1\] must be finite, got nan in row 0"),
    "Inf": ([row(2, 3, value=-np.inf), row(2, 2, 2)], ValueError, r"parts\[0\] must be finite, got -inf in row 0"),
    "whole numbers": ([row(2, 3, dtype=np.int64), row(2, 2, 2)], TypeError, r"parts\[0\] must be float32 or"),
    "a list": ([[[1.0] * 3] * 2, row(2, 2, 2)], TypeError, r"parts\[0\] must be a numpy array"),
    "numpy and torch": ([row(2, 3), torch.ones(2, 2, 2)], TypeError, r"parts\[1\] must be of the kind of parts\[0\]"),
    "a graph": ([torch.ones(2, 3, requires_grad=True), torch.ones(2, 2, 2)], ValueError, "must not require grad"),
}


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (row(2, 3), r"^bias must have shape \(2, 2, 2\), got \(2, 3\)$"),
        (row(2, 2, 2, value=np.nan), "^bias must be finite, got nan in row 0$"),
        (row(2, 2, 2).tolist(), "^bias must be a numpy array, a torch tensor or a CuPy array, got list$"),
        (torch.ones(2, 2, 2), "^bias must be of the kind of weight"),
    ],
)
def test_errors_have_the_names_of_the_parts(second, text):
    total = ClippedSum([(3,), (2, 2)], clip_norm=1.0, sigma=0.0)
    with pytest.raises((TypeError, ValueError), match=text):
        total.add([row(2, 3), second], ["weight", "bias"])
    assert total.rows == 0


@pytest.mark.parametrize(("parts", "kind", "text"), BAD_PARTS.values(), ids=BAD_PARTS)
@pytest.mark.parametrize("clipping", ["exact", "estimated"])
def test_bad_parts_are_refused_and_change_nothing(parts, kind, text, clipping):
    total = ClippedSum([(3,), (2, 2)], clip_norm=1.0, sigma=0.0, most_rows=10, clipping=clipping)
    total.add([row(2, 3), row(2, 2, 2)])
    before = [part.copy() for part in total._units()]
    with pytest.raises(kind, match=text):
        total.add(parts)
    assert total.rows == 2
    assert all(np.array_equal(a, b) for a, b in zip(total._units(), before, strict=True))


@pytest.mark.parametrize("bad_row", [0, 5])
def test_a_bad_row_among_estimated_rows_changes_nothing(bad_row):
    x = gradients(np.random.default_rng(10), 9, 600_003)
    total = ClippedSum([(600_003,)], clip_norm=1.0, sigma=0.0, clipping="estimated")
    total.add([x])
    before = total._units()[0].copy()
    bad = x.copy()
    bad[bad_row, 33_333] = np.nan
    with pytest.raises(ValueError, match=f"got nan in row {bad_row}"):
        total.add([bad])
    assert np.array_equal(total._units()[0], before)
    total.reset()
    assert total.rows == 0
    with pytest.raises(ValueError, match=f"got nan in row {bad_row}"):
        total.add([bad])
    assert total.rows == 0 and not total.release()[0].any()


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"clip_norm": -1.0}, ValueError, "clip_norm must be > 0, got -1.0"),
        ({"clip_norm": math.nan}, ValueError, "clip_norm must be finite"),
        ({"sigma": -1.0}, ValueError, "sigma must be >= 0, got -1.0"),
        ({"sigma": True}, TypeError, "sigma must be a number, got bool"),
        ({"sigma": 1e-12}, ValueError, r"clip_norm / sigma must be <= 2\^30"),
        ({"most_rows": 0}, ValueError, "most_rows must be >= 1, got 0"),
        ({"most_rows": 2**28}, ValueError, r"most_rows must be <= 2\^27"),
        ({"clipping": "guess"}, ValueError, "clipping must be one of"),
        ({"shapes": []}, ValueError, "shapes must name at least one part, got none"),
        ({"shapes": [(-1,)]}, ValueError, "shapes must be >= 0, got -1"),
    ],
)
def test_bad_parameters(options, kind, text):
    with pytest.raises(kind, match=text):
        ClippedSum(**{"shapes": [(3,)], "clip_norm": 1.0, "sigma": 1.0} | options)


@pytest.mark.parametrize(
    ("out", "kind", "text"),
    [
        ([], ValueError, "out must have 1 arrays, got 0"),
        ([np.empty(4, np.float32)], ValueError, r"out must have shape \(3,\), got \(4,\)"),
        ([np.empty(3)], TypeError, "out must be float32, got float64"),
        ([[0.0] * 3], TypeError, "out must be a numpy array"),
    ],
)
def test_bad_outputs_release_nothing(out, kind, text):
    total = summed([row(1, 3)], sigma=1.0)
    with pytest.raises(kind, match=text):
        total.release(out=out)
    with pytest.raises(TypeError, match="generator must be a"):
        total.release(7)
    assert total.rows == 1


@pytest.mark.parametrize("counts", [(3, 5), (0, 4), (200, 90)])
def test_sums_of_two_processes_are_that_of_one(counts):
    """Whole units, added up and put back, have the bits of one sum of all rows: in integers and, of many rows, in float64."""
    rng = np.random.default_rng(7)
    shapes, rows = [(33,), (2, 5)], [rng.standard_normal((sum(counts), 33)), rng.standard_normal((sum(counts), 2, 5))]
    sums = [ClippedSum(shapes, clip_norm=0.7, sigma=0.0) for _ in counts]
    places = (slice(0, counts[0]), slice(counts[0], None))
    for total, place in zip(sums, places):
        if len(rows[0][place]):
            total.add([part[place] for part in rows])
    found = [total.units(rows[0]) for total in sums]
    sums[0].replace([a + b for a, b in zip(*found)], sum(counts))
    assert sums[0].rows == sum(counts)
    expected = summed(rows, 0.7)
    for ours, theirs in zip(sums[0].units(rows[0]), expected.units(rows[0]), strict=True):
        assert np.array_equal(ours, theirs)
    sums[0].add([part[:2] for part in rows])  # and it goes on
    expected.add([part[:2] for part in rows])
    assert all(np.array_equal(a, b) for a, b in zip(sums[0].release(), expected.release(), strict=True))


@pytest.mark.parametrize(
    ("units", "rows", "text"),
    [
        ([np.zeros(3)], 1, r"units must have 2 arrays, got 1"),
        ([np.zeros(3), np.zeros(5)], 1, r"units\[1\] must have 4 elements, got 5"),
        ([np.zeros(3), np.zeros(4)], 9, "rows of the sum must be <= most_rows = 8, got 9"),
        ([np.zeros(3), np.full(4, 0.5)], 1, r"units\[1\] must hold whole numbers"),
        ([np.full(3, 2.0**26), np.zeros(4)], 1, r"units\[0\] must hold whole numbers of at most 2\^25 for each row"),
        ([np.full(3, np.nan), np.zeros(4)], 1, r"units\[0\] must hold whole numbers"),
    ],
)
def test_what_is_no_sum_is_refused_and_changes_nothing(units, rows, text):
    total = ClippedSum([(3,), (2, 2)], clip_norm=1.0, sigma=0.0, most_rows=8)
    total.add([np.ones((2, 3)), np.ones((2, 2, 2))])
    before = total.units(units[0])
    with pytest.raises(ValueError, match=text):
        total.replace(units, rows)
    assert total.rows == 2 and all(np.array_equal(a, b) for a, b in zip(before, total.units(units[0]), strict=True))
