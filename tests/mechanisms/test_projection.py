"""Public projections: the map, where it comes from, what it is called, and that it costs nothing only because it is public.

Statistic, alpha = 1e-6: Kolmogorov-Smirnov of how much of a fixed vector a random subspace keeps, Beta(m/2, (d - m)/2),
n = 5,000 seeds.
"""

import hashlib
import os
import struct

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference import checks
from hushvec.mechanisms import PublicProjection
from hushvec.mechanisms.recommend import PublicData, recommend

ALPHA = 1e-6
RNG = np.random.default_rng(7)
# rows that crowd: a common mean, and directions of very different spread
PUBLIC = RNG.standard_normal((300, 12)) * np.linspace(3, 0.1, 12) @ np.linalg.qr(RNG.standard_normal((12, 12)))[0] + 2.0
PRIVATE = RNG.standard_normal((20, 12)) + 2.0


def kinds_of_map():
    return {
        "mean": PublicProjection.mean_only(PUBLIC),
        "pca": PublicProjection.fit(PUBLIC, components=5),
        "uncentred": PublicProjection.fit(PUBLIC, components=5, remove_mean=False),
        "whitened": PublicProjection.fit(PUBLIC, components=5, whiten=True),
        "random": PublicProjection.johnson_lindenstrauss(12, 5, seed=3),
    }


@pytest.fixture(params=list(kinds_of_map()))
def projection(request):
    return kinds_of_map()[request.param]


def by_hand(projection, x):
    rows = np.atleast_2d(np.asarray(x, np.float64))
    matrix = np.eye(12) if projection.components is None else projection.components.astype(np.float64)
    scales = np.ones(len(matrix)) if projection.scales is None else projection.scales.astype(np.float64)
    return np.stack([scales * (matrix @ (row - projection.mean)) for row in rows])


# ---- what the map does ----


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_transform_is_the_formula(projection, dtype):
    x = PRIVATE.astype(dtype)
    found = projection.transform(x)
    assert found.dtype == np.float32 and found.shape == (20, projection.output_dimension)
    np.testing.assert_allclose(found, by_hand(projection, x), rtol=1e-6, atol=1e-6)
    assert np.array_equal(x, PRIVATE.astype(dtype))
    np.testing.assert_allclose(projection.transform(x[4]), found[4], rtol=1e-6, atol=1e-7)


def test_lift_is_the_inverse_on_what_is_kept(projection):
    low = projection.transform(PRIVATE)
    lifted = projection.lift(low)
    assert lifted.shape == PRIVATE.shape and lifted.dtype == np.float32
    np.testing.assert_allclose(projection.transform(lifted), low, rtol=1e-4, atol=1e-5)
    left_out = PRIVATE - lifted
    if projection.components is None:
        np.testing.assert_allclose(left_out, 0, atol=1e-6)
    else:   # orthogonal to everything kept: the nearest point of the subspace
        np.testing.assert_allclose(left_out @ projection.components.T, 0, atol=1e-5)


def test_torch_in_torch_out(projection):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        x = torch.from_numpy(PRIVATE).to(dtype)
        low = projection.transform(x)
        assert isinstance(low, torch.Tensor) and low.dtype == torch.float32
        np.testing.assert_allclose(low.numpy(), by_hand(projection, x.double().numpy()), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(projection.lift(low).numpy(), projection.lift(low.numpy()), rtol=1e-6, atol=1e-6)


def test_other_layouts_give_the_same(projection):
    plain = projection.transform(PRIVATE)
    for view in (np.asfortranarray(PRIVATE), np.repeat(PRIVATE, 2, axis=1)[:, ::2], PRIVATE[::-1][::-1]):
        np.testing.assert_allclose(projection.transform(view), plain, rtol=1e-6, atol=1e-7)
    assert projection.transform(np.zeros((0, 12))).shape == (0, projection.output_dimension)


# ---- where it comes from ----


def test_fit_is_principal_components():
    projection = PublicProjection.fit(PUBLIC, components=5)
    centred = PUBLIC - PUBLIC.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    np.testing.assert_allclose(projection.mean, PUBLIC.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(np.abs(projection.components @ axes[:5].T), np.eye(5), atol=1e-4)
    spread = projection.transform(PUBLIC).std(axis=0)
    np.testing.assert_allclose(spread, values[:5] / np.sqrt(300), rtol=1e-4)
    assert (np.diff(spread) < 0).all()
    largest = np.abs(projection.components).argmax(axis=1)
    assert (projection.components[np.arange(5), largest] > 0).all()


def test_whitening_makes_all_directions_alike():
    projection = PublicProjection.fit(PUBLIC, components=5, whiten=True)
    low = projection.transform(PUBLIC).astype(np.float64)
    np.testing.assert_allclose(low.T @ low / 300, np.eye(5) / 5, atol=1e-5)
    assert (low**2).sum(axis=1).mean() == pytest.approx(1, rel=1e-5)
    plain = PublicProjection.fit(PUBLIC, components=5)
    assert np.array_equal(plain.components, projection.components)


def test_without_the_mean_the_rows_stay_uncentred():
    projection = PublicProjection.fit(PUBLIC, components=5, remove_mean=False)
    assert (projection.mean == 0).all()
    common = PUBLIC.mean(axis=0) / np.linalg.norm(PUBLIC.mean(axis=0))
    assert abs(projection.components[0] @ common) > 0.95   # the mean is what these rows have most of


def test_mean_only():
    low = PublicProjection.mean_only(PUBLIC).transform(PUBLIC)
    np.testing.assert_allclose(low.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(low, PUBLIC - PUBLIC.mean(axis=0), atol=1e-6)


def kept_share_p_value(maps, dimension, count):
    vector = np.zeros(dimension)
    vector[0] = 1.0
    shares = [np.sum(np.square(matrix @ vector)) for matrix in maps]
    return checks.law(shares, stats.beta(count / 2, (dimension - count) / 2).cdf)


def test_a_random_subspace_is_uniform():
    dimension, count, seeds = 20, 6, 5000
    maps = [PublicProjection.johnson_lindenstrauss(dimension, count, seed).components.astype(float) for seed in range(seeds)]
    assert kept_share_p_value(maps, dimension, count) > ALPHA
    rng = np.random.default_rng(1)
    gaussian = [rng.standard_normal((count, dimension)) / np.sqrt(dimension) for _ in range(seeds)]
    signs = [np.linalg.qr(rng.uniform(0, 1, (dimension, count)))[0].T for _ in range(seeds)]
    assert kept_share_p_value(gaussian, dimension, count) < ALPHA   # not orthonormal
    assert kept_share_p_value(signs, dimension, count) < ALPHA   # orthonormal, but not uniform
    signed = np.mean([matrix[0, 0] > 0 for matrix in maps])
    assert abs(signed - 0.5) < 5 * 0.5 / np.sqrt(seeds)   # without the sign rule every one of them is negative


@pytest.mark.parametrize("components", [40, 160])
def test_distances_shrink_alike(components):
    rows = np.random.default_rng(5).standard_normal((60, 384))
    projection = PublicProjection.johnson_lindenstrauss(384, components, seed=8)
    low = projection.transform(rows).astype(np.float64)
    pairs = np.triu_indices(60, 1)
    before = np.linalg.norm(rows[pairs[0]] - rows[pairs[1]], axis=1)
    after = np.linalg.norm(low[pairs[0]] - low[pairs[1]], axis=1)
    ratio = after / before / np.sqrt(components / 384)
    # the squared ratio is d/m times Beta(m/2, (d - m)/2): its 1e-9 quantiles for 1,770 pairs
    law = stats.beta(components / 2, (384 - components) / 2)
    assert law.ppf(1e-9) < (ratio**2).min() * components / 384 and (ratio**2).max() * components / 384 < law.isf(1e-9)


def test_the_same_seed_gives_the_same_map():
    first, again, other = (PublicProjection.johnson_lindenstrauss(384, 40, seed) for seed in (5, 5, 6))
    assert first == again and hash(first) == hash(again) and first != other and first != "a map"
    assert np.array_equal(first.components, again.components)


# ---- which map it is ----


def test_the_digest_is_of_every_bit():
    mean, components = np.array([0.5, -1.0], np.float32), np.array([[0.0, 1.0]], np.float32)
    content = b"hushvec public projection 1\n"
    content += b"mean (2,)\n" + struct.pack("<2f", 0.5, -1.0)
    content += b"components (1, 2)\n" + struct.pack("<2f", 0.0, 1.0)
    content += b"scales (1,)\n" + struct.pack("<f", 3.0)
    projection = PublicProjection(mean, components, np.array([3.0], np.float32))
    assert projection.digest == hashlib.sha256(content).hexdigest()
    next_mean = np.nextafter(mean, np.float32(9))
    changed = [
        PublicProjection(next_mean, components, np.array([3.0], np.float32)),
        PublicProjection(mean, components),
        PublicProjection(mean),
        PublicProjection(mean, components, np.nextafter(np.array([3.0], np.float32), np.float32(9))),
    ]
    assert len({projection.digest, *(one.digest for one in changed)}) == 5
    # the two zeros are one number, and one map
    assert PublicProjection(mean, -0.0 + np.array([[-0.0, 1.0]], np.float32)) == PublicProjection(mean, components)


def test_the_map_cannot_be_changed(projection):
    digest = projection.digest
    with pytest.raises(ValueError, match="read-only"):
        projection.mean[0] = 9.0
    with pytest.raises(AttributeError):
        projection.mean = projection.mean
    mean = np.zeros(3, np.float32)
    other = PublicProjection(mean)
    mean[0] = 5.0
    assert other.mean[0] == 0 and projection.digest == digest
    assert projection.digest[:12] in repr(projection)


# ---- on disk ----


def test_saved_and_loaded(projection, tmp_path):
    path = tmp_path / "map.npz"
    projection.save(path)
    loaded = PublicProjection.load(path)
    assert loaded == projection and loaded.digest == projection.digest
    assert np.array_equal(loaded.transform(PRIVATE), projection.transform(PRIVATE))
    assert [entry.name for entry in tmp_path.iterdir()] == ["map.npz"]
    projection.save(str(path))   # over itself, from a str
    assert PublicProjection.load(str(path)) == projection


def test_all_components_are_the_directions_in_which_rows_vary():
    few = PublicProjection.fit(PUBLIC[:4], components="all", whiten=True)
    assert few == PublicProjection.fit(PUBLIC[:4], components=3, whiten=True)
    assert PublicProjection.fit(PUBLIC, components="all").output_dimension == 12


def test_a_failed_save_leaves_the_old_file(projection, tmp_path, monkeypatch):
    path = tmp_path / "map.npz"
    projection.save(path)
    before = path.read_bytes()

    def full(*arguments, **fields):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        PublicProjection.mean_only(PUBLIC).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["map.npz"]


def test_a_damaged_file_is_refused(tmp_path):
    path, damaged = tmp_path / "map.npz", tmp_path / "damaged.npz"
    PublicProjection.fit(PUBLIC, components=5, whiten=True).save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        damaged.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"damaged\.npz is not a saved projection"):
            PublicProjection.load(damaged)
    position = content.index(PublicProjection.mean_only(PUBLIC).mean.tobytes())
    damaged.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
    with pytest.raises(ValueError, match=r"damaged\.npz"):
        PublicProjection.load(damaged)


def stored(**changes):
    projection = PublicProjection.fit(PUBLIC, components=5, whiten=True)
    fields = {"format": 1, "digest": projection.digest, "mean": projection.mean}
    fields |= {"components": projection.components, "scales": projection.scales, "fitted_rows": projection.fitted_rows.words} | changes
    return {name: value for name, value in fields.items() if value is not None}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"digest": "0" * 64}, "has digest [0-9a-f]{64}, but says 0000"),
        ({"mean": np.ones(12, np.float32)}, "has digest"),
        ({"format": 2}, "format must be 1, got 2"),
        ({"scales": None}, "fields must be"),
        ({"extra": np.ones(1)}, "fields must be"),
        ({"mean": np.ones(12)}, "mean must be a float32 numpy array"),
        ({"mean": np.full(12, np.nan, np.float32)}, "mean must be finite"),
        ({"components": np.ones((5, 12), np.float32)}, "components must be orthonormal"),
        ({"mean": np.array([{"pickled": 1}], dtype=object)}, "not a saved projection"),
    ],
)
def test_a_file_that_is_something_else_is_refused(changes, text, tmp_path):
    path = tmp_path / "other.npz"
    np.savez(path, **stored(**changes))
    with pytest.raises(ValueError, match=text):
        PublicProjection.load(path)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        PublicProjection.load(tmp_path / "none.npz")
    with pytest.raises(FileNotFoundError):
        PublicProjection.mean_only(PUBLIC).save(tmp_path / "no folder" / "map.npz")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: PublicProjection.fit(PUBLIC, components=0), ValueError, "components must be >= 1"),
        (lambda: PublicProjection.fit(PUBLIC, components=13), ValueError, "components must be at most 12"),
        (lambda: PublicProjection.fit(PUBLIC[:4], components=4), ValueError, "at most 3, the directions"),
        (lambda: PublicProjection.fit(np.ones((5, 3)), components=1), ValueError, "at most 0, the directions"),
        (lambda: PublicProjection.fit(PUBLIC, components=2.0), TypeError, "components must be a whole number"),
        (lambda: PublicProjection.fit(PUBLIC, components=2, remove_mean=1), TypeError, "remove_mean must be True or False"),
        (lambda: PublicProjection.fit(PUBLIC, components=2, whiten="yes"), TypeError, "whiten must be True or False"),
        (lambda: PublicProjection.fit(PUBLIC[0], components=2), ValueError, "public_embeddings must have at least two rows"),
        (lambda: PublicProjection.fit(PUBLIC[:1], components=1), ValueError, "public_embeddings must have at least two rows"),
        (lambda: PublicProjection.fit([["a", "b"]], components=1), TypeError, "public_embeddings must hold numbers, got str in it"),
        (lambda: PublicProjection.mean_only(np.array([[1.0, np.nan], [0, 0]])), ValueError, "nan in row 0"),
        (lambda: PublicProjection.mean_only(np.ones((3, 2), bool)), TypeError, "public_embeddings must be float32"),
        (lambda: PublicProjection.johnson_lindenstrauss(8, 9, 1), ValueError, "components must be at most 8"),
        (lambda: PublicProjection.johnson_lindenstrauss(8, 4, -1), ValueError, "seed must be >= 0"),
        (lambda: PublicProjection.johnson_lindenstrauss(8, 4, 2**32), ValueError, r"seed must be at most 2\^32 - 1"),
        (lambda: PublicProjection.johnson_lindenstrauss(8, 4, True), TypeError, "seed must be a whole number"),
        (lambda: PublicProjection([0.0]), TypeError, "mean must be a float32 numpy array, got list"),
        (lambda: PublicProjection(np.zeros((2, 2), np.float32)), ValueError, "mean must have 1 dimension"),
        (lambda: PublicProjection(np.zeros(0, np.float32)), ValueError, "none empty"),
        (lambda: PublicProjection(np.zeros(2, np.float32), np.eye(3, dtype=np.float32)), ValueError, r"shape \(m, 2\)"),
        (lambda: PublicProjection(np.zeros(2, np.float32), 2 * np.eye(2, dtype=np.float32)), ValueError, "orthonormal within"),
        (lambda: PublicProjection(np.zeros(2, np.float32), None, np.ones(2, np.float32)), ValueError, "one for each of 0"),
        (
            lambda: PublicProjection(np.zeros(1, np.float32), np.eye(1, dtype=np.float32), np.zeros(1, np.float32)),
            ValueError,
            "scales must be > 0, got 0.0",
        ),
        (lambda: PublicProjection.mean_only(PUBLIC).transform(np.ones((2, 11))), ValueError, "x must have 12 columns, got 11"),
        (lambda: PublicProjection.mean_only(PUBLIC).transform(np.full((2, 12), np.inf)), ValueError, "inf in row 0"),
        (lambda: PublicProjection.mean_only(PUBLIC).transform(np.full((2, 12), 1e300)), ValueError, "range of float32"),
        (lambda: PublicProjection.fit(PUBLIC, components=2).lift(np.ones((2, 12))), ValueError, "y must have 2 columns, got 12"),
        (lambda: PublicProjection.mean_only(PUBLIC).transform([["a"]]), TypeError, "x must hold numbers, got str in it"),
    ],
)
def test_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


# ---- what it costs ----


def test_no_row_moves_another(projection):
    """The map of a row is of that row alone: replacing one leaves every bit of the others."""
    neighbour = PRIVATE.copy()
    neighbour[7] = 1e6
    same = np.delete(np.arange(20), 7)
    assert np.array_equal(projection.transform(PRIVATE)[same], projection.transform(neighbour)[same])


def test_clipping_after_the_map_bounds_what_a_person_moves(projection):
    """Whatever two rows are, after the map and the clip they are at most 2 C apart, which is what the mechanism counts on."""
    clip_norm = 0.5
    extremes = np.concatenate([1e4 * np.eye(12), -1e4 * np.eye(12), PRIVATE])
    clipped = hv.clip(projection.transform(extremes), clip_norm).astype(np.float64)
    distances = np.linalg.norm(clipped[:, None] - clipped[None], axis=2)
    assert distances.max() <= 2 * clip_norm
    assert distances.max() > 1.9 * clip_norm   # the bound is met: the map hides nobody
    release = hv.privatize(projection.transform(extremes), epsilon=4.0, clip_norm=clip_norm)
    assert release.receipt.sensitivity == 2 * clip_norm and release.receipt.is_dp_claim


def test_fitted_on_the_private_rows_one_person_moves_everyone():
    """The counterexample of the proof note: 50 people near an axis, and one who replaces their row by a long one across it."""
    people = np.tile(np.array([[1.0, 0.0]]), (51, 1)) + np.random.default_rng(2).standard_normal((51, 2)) * [0.1, 0.01]
    neighbour = people.copy()
    neighbour[50] = [1.0, 100.0]
    others = slice(0, 50)
    moved = [hv.clip(PublicProjection.fit(rows, components=1).transform(rows), 1.0)[others] for rows in (people, neighbour)]
    public = PublicProjection.fit(np.random.default_rng(3).standard_normal((30, 2)) * [2.0, 1.0], components=1)
    kept = [hv.clip(public.transform(rows), 1.0)[others] for rows in (people, neighbour)]
    assert np.linalg.norm(moved[0] - moved[1]) > 2.0   # more than the 2 C that the noise was made for
    assert np.linalg.norm(kept[0] - kept[1]) == 0.0


# ---- does it fit ----


def of_a_kind(count, kind, seed, dimension=128, directions=16):
    """Rows that vary in 16 directions, others for every kind, around 30 wide centers, with a little of everything."""
    rng = np.random.default_rng(1000 + kind)
    axes = np.linalg.qr(rng.standard_normal((dimension, directions)))[0].T
    centers = rng.standard_normal((30, directions))
    drawn = np.random.default_rng(seed)
    low = centers[drawn.integers(0, 30, count)] + drawn.standard_normal((count, directions))
    return (low @ axes + 0.1 * drawn.standard_normal((count, dimension)) + 0.5).astype(np.float32)


SAMPLE = of_a_kind(600, 0, seed=1)


@pytest.mark.ranks
@pytest.mark.parametrize(
    "projection, fits",
    [
        (PublicProjection.fit(of_a_kind(800, 0, seed=2), components=16), True),
        (PublicProjection.fit(of_a_kind(800, 0, seed=2), components=5), True),
        (PublicProjection.fit(of_a_kind(800, 0, seed=2), components=100, whiten=True), True),
        (PublicProjection.mean_only(of_a_kind(800, 1, seed=2)), True),
        (PublicProjection.johnson_lindenstrauss(128, 100, seed=0), True),
        (PublicProjection.fit(of_a_kind(800, 1, seed=2), components=16), False),
        (PublicProjection.fit(of_a_kind(800, 1, seed=2), components=5), False),
        (PublicProjection.fit(of_a_kind(800, 1, seed=2), components=10, whiten=True), False),
    ],
)
def test_a_map_of_another_kind_is_told(projection, fits):
    found = projection.check(SAMPLE)
    assert found.fits == fits
    assert ("it fits" in str(found)) == fits and ("fit one on public rows of this kind" in str(found)) != fits


def test_what_survives_by_hand():
    projection = PublicProjection.fit(of_a_kind(800, 0, seed=2), components=5)
    found = projection.check(SAMPLE)
    centered = SAMPLE.astype(np.float64) - SAMPLE.mean(axis=0, dtype=np.float64)
    kept = np.square(centered @ projection.components.T).sum() / np.square(centered).sum()
    best = np.linalg.eigvalsh(centered.T @ centered)[-5:].sum() / np.square(centered).sum()
    assert found.kept_length == pytest.approx(kept, abs=1e-6)
    assert found.kept_length - 0.02 < found.possible_length <= best + 0.02
    assert PublicProjection.mean_only(SAMPLE).check(SAMPLE).kept_length == 1.0


def test_all_neighbors_stay_where_cosines_do():
    """A map onto all directions turns rows and no cosine."""
    turned = PublicProjection.johnson_lindenstrauss(128, 128, seed=1).check(SAMPLE)
    assert turned.kept_neighbors > 0.99 and turned.kept_length == pytest.approx(1.0, abs=1e-6)


def test_recommend_warns_of_a_map_of_another_kind():
    of_kind, of_other = (PublicProjection.fit(of_a_kind(800, kind, seed=2), components=10) for kind in (0, 1))
    assert recommend(10, 8.0, public=PublicData(projection=of_kind, sample=SAMPLE)).mechanism.dimension == 10
    with pytest.warns(hv.errors.UtilityWarning, match="fit one on public rows of this kind, or use no map") as caught:
        recommend(10, 8.0, public=PublicData(projection=of_other, sample=SAMPLE))
    assert [warning.filename for warning in caught] == [__file__]
    recommend(10, 8.0, public=PublicData(projection=of_other))  # without a sample there is nothing to warn of


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (dict(sample=SAMPLE), ValueError, "sample must be None without codebook or projection"),
        (dict(projection=SAMPLE), TypeError, "projection must be a hushvec.mechanisms.PublicProjection"),
        (dict(projection=PublicProjection.mean_only(SAMPLE)), ValueError, "projection must lead to 10 elements, got one to 128"),
    ],
)
def test_recommend_refuses(arguments, error, text):
    with pytest.raises(error, match=text):
        recommend(10, 8.0, public=PublicData(**arguments))


@pytest.mark.parametrize(
    "sample, error, text",
    [
        (SAMPLE[:31], ValueError, "public_sample must have at least 32 rows, got 31"),
        (SAMPLE[:, :5], ValueError, "public_sample must have 128 columns, got 5"),
        (np.full((40, 128), np.nan), ValueError, "public_sample must be finite"),
        ([["a"]], TypeError, "public_sample must hold numbers, got str in it"),
    ],
)
def test_a_bad_sample(sample, error, text):
    with pytest.raises(error, match=text):
        PublicProjection.mean_only(SAMPLE).check(sample)
