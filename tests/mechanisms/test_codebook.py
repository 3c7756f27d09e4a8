"""Public codebooks: codes, decoding, fit, files, the law of a release, and what must be refused."""

import math
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import hushvec as hv
from hushvec.accounting import PureDP
from hushvec.budget import PrivacyBudget
from hushvec.mechanisms import Gaussian, PrivUnit, PublicCodebook, PublicProjection, codebook
from hushvec.mechanisms.recommend import PublicData, recommend
from hushvec.receipts.labels import LabelReceipt, labels_digest

RNG = np.random.default_rng(0)


def grouped(count, dimension=32, groups=24, spread=0.5, seed=0):
    """Rows around directions that all seeds share."""
    centers = np.random.default_rng(99).standard_normal((groups, dimension))
    rng = np.random.default_rng(seed)
    return (centers[rng.integers(0, groups, count)] + spread * rng.standard_normal((count, dimension))).astype(np.float32)


def unit(rows):
    rows = np.asarray(rows, np.float64)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


PUBLIC, PRIVATE, SAMPLE = grouped(600, seed=1), grouped(200, seed=2), grouped(300, seed=3)


@pytest.fixture(scope="module")
def fitted():
    pytest.importorskip("faiss")
    return PublicCodebook.fit(PUBLIC, epsilon=8.0)


@pytest.fixture(scope="module")
def of_rows():
    return PublicCodebook.of(PUBLIC)


class TestCodes:
    def test_the_nearest_code_by_cosine(self, of_rows):
        wanted = np.argmax(unit(PRIVATE) @ unit(PUBLIC).T, axis=1)
        np.testing.assert_array_equal(of_rows.encode(PRIVATE), wanted)
        np.testing.assert_array_equal(of_rows.encode(PRIVATE * np.float32(37.5)), wanted)
        assert of_rows.encode(PRIVATE[3]).tolist() == [wanted[3]]

    @pytest.mark.parametrize("dtype", ["float64", "float16"])
    def test_other_dtypes(self, of_rows, dtype):
        rows = PUBLIC.astype(dtype)
        np.testing.assert_array_equal(of_rows.encode(rows), np.arange(len(PUBLIC)))

    def test_rows_beyond_float32_have_directions_too(self, of_rows):
        np.testing.assert_array_equal(of_rows.encode(PUBLIC[:5].astype(np.float64) * 1e200), np.arange(5))

    def test_a_row_is_encoded_by_itself(self, of_rows):
        """Blocks, neighbours and order do not matter: replacing one row changes one label."""
        whole = of_rows.encode(PRIVATE)
        np.testing.assert_array_equal(np.concatenate([of_rows.encode(row[None]) for row in PRIVATE]), whole)
        np.testing.assert_array_equal(of_rows.encode(PRIVATE[::-1]), whole[::-1])

    def test_of_equal_codes_the_first(self):
        book = PublicCodebook.of(np.repeat(np.eye(3, dtype=np.float32), 2, axis=0))
        assert book.encode(np.eye(3, dtype=np.float32)).tolist() == [0, 2, 4]

    def test_torch(self, of_rows):
        torch = pytest.importorskip("torch")
        rows = torch.from_numpy(PRIVATE)
        np.testing.assert_array_equal(of_rows.encode(rows), of_rows.encode(PRIVATE))
        release = hv.privatize(rows.double(), mechanism=of_rows.mechanism(20.0))
        assert isinstance(release.values, torch.Tensor)
        assert (release.values.dtype, release.values.shape) == (torch.float64, rows.shape)


class TestDecoding:
    @pytest.mark.parametrize("epsilon", [0.5, 4.0, 12.0])
    def test_the_direction_of_the_posterior_mean(self, fitted, epsilon):
        """By the definition: sum over public rows of P(code | row) row."""
        rows, cells = unit(PUBLIC), fitted.encode(PUBLIC)
        truth = math.exp(epsilon) / (math.exp(epsilon) + len(fitted) - 1)
        chance = np.full((len(fitted), len(rows)), (1 - truth) / (len(fitted) - 1))
        chance[cells, np.arange(len(rows))] = truth
        wanted = unit(chance @ rows)
        found = fitted.decode(np.arange(len(fitted)), epsilon)
        assert np.abs(found - wanted).max() < 1e-5
        np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)

    def test_it_is_the_best_single_answer_for_public_rows(self, fitted):
        """No other table of unit rows keeps more of the cosine of the rows that it is made from."""
        best = fitted.mechanism(3.0).expected_cosine()
        rows, cells, law = unit(PUBLIC), fitted.encode(PUBLIC), fitted.mechanism(3.0).response

        def kept(table):
            hit = (rows * table[cells]).sum(1)
            return ((law.probability_of_truth - law.probability_of_each_other) * hit
                    + law.probability_of_each_other * (rows @ table.sum(0))).mean()

        assert abs(kept(fitted.mechanism(3.0).table.astype(np.float64)) - best) < 1e-6
        assert kept(fitted.codes.astype(np.float64)) < best
        for seed in range(20):
            noise = np.random.default_rng(seed).standard_normal(fitted.codes.shape)
            assert kept(unit(fitted.mechanism(3.0).table + 0.1 * noise)) < best

    @pytest.mark.parametrize("codes, error", [([0.5], TypeError), ([-1], ValueError), ([600], ValueError)])
    def test_bad_codes(self, of_rows, codes, error):
        with pytest.raises(error, match="codes must be"):
            of_rows.decode(codes, 4.0)


class TestFit:
    def test_the_number_of_codes_grows_with_epsilon(self):
        pytest.importorskip("faiss")
        rows = grouped(2000, groups=200, seed=5)
        few, many = (len(PublicCodebook.fit(rows, epsilon=epsilon)) for epsilon in (1.0, 12.0))
        assert few <= 32 < many

    def test_it_is_about_the_best_number_on_rows_held_out(self, fitted):
        def kept(codebook):
            return codebook.check(SAMPLE, epsilon=8.0).expected_cosine

        others = [PublicCodebook.fit(PUBLIC, codes=count) for count in (2, 8, 64, 256, 600)]
        assert kept(fitted) > max(map(kept, others)) - 0.02
        assert kept(others[0]) < kept(fitted) - 0.1

    def test_check_predicts_what_a_release_keeps(self, fitted):
        """20 releases of the sample; n = 6,000 cosines, tolerance 5 standard errors."""
        found = fitted.check(SAMPLE, epsilon=4.0)
        cosines = np.concatenate(
            [(unit(SAMPLE) * hv.privatize(SAMPLE, mechanism=fitted.mechanism(4.0)).values).sum(1) for _ in range(20)]
        )
        error = cosines.std() / math.sqrt(len(cosines))
        assert abs(cosines.mean() - found.expected_cosine) < 5 * error
        assert abs(cosines.mean() - found.nearest_cosine) > 5 * error
        assert found.privunit_cosine == PrivUnit(epsilon=4.0, dimension=32).expected_cosine()
        assert found.is_worth_it and "codebook is expected to do better" in str(found)

    def test_rows_of_another_kind_are_told(self, fitted):
        strangers = np.random.default_rng(7).standard_normal((300, 32)).astype(np.float32)
        found = fitted.check(strangers, epsilon=60.0)
        assert not found.is_worth_it and "PrivUnit is expected to do better" in str(found)

    @pytest.mark.parametrize(
        "sample, error, text",
        [
            (SAMPLE[:, :31], ValueError, "public_sample must have 32 columns, got 31"),
            (SAMPLE[0], ValueError, "public_sample must have at least two rows"),
            (np.zeros((4, 32), np.float32), ValueError, "public_sample must have no row of zeros"),
            (np.full((4, 32), np.inf, np.float32), ValueError, "public_sample must be finite"),
            ([["a"] * 32] * 2, TypeError, "public_sample must hold numbers, got str in it"),
        ],
    )
    def test_a_bad_sample(self, of_rows, sample, error, text):
        with pytest.raises(error, match=text):
            of_rows.check(sample, epsilon=8.0)

    def test_without_faiss(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "faiss", None)
        with pytest.raises(hv.errors.MissingExtraError, match="faiss"):
            PublicCodebook.fit(PUBLIC, codes=4)

    @pytest.mark.parametrize(
        "arguments, error, text",
        [
            (dict(public_rows=PUBLIC), TypeError, "epsilon must be given"),
            (dict(public_rows=PUBLIC, codes=601), ValueError, "codes must be at most 600"),
            (dict(public_rows=PUBLIC, codes=1), ValueError, "codes must be >= 2"),
            (dict(public_rows=PUBLIC, codes="best"), ValueError, "codes must be"),
            (dict(public_rows=PUBLIC, epsilon=0.0), ValueError, "epsilon must be > 0"),
            (dict(public_rows=PUBLIC[:15], epsilon=1.0), ValueError, "at least 16"),
            (dict(public_rows=PUBLIC[0], codes=2), ValueError, "at least two rows"),
            (dict(public_rows=np.zeros((4, 3), np.float32), codes=2), ValueError, "no row of zeros"),
            (dict(public_rows=np.full((4, 3), np.nan, np.float32), codes=2), ValueError, "finite"),
            (dict(public_rows=[["a", "b"]], codes=2), TypeError, "public_rows must hold numbers, got str in it"),
        ],
    )
    def test_bad_input(self, arguments, error, text):
        pytest.importorskip("faiss")
        with pytest.raises(error, match=text):
            PublicCodebook.fit(**arguments)


class TestReleases:
    def test_the_receipt_holds_and_names_the_codebook(self, of_rows):
        values, receipt = hv.privatize(PRIVATE, mechanism=of_rows.mechanism(epsilon=8.0))
        assert values.shape == PRIVATE.shape and values.dtype == np.float32
        assert isinstance(receipt, LabelReceipt) and receipt.codebook == of_rows.digest
        assert (receipt.epsilon, receipt.delta, receipt.label_count, receipt.answers) == (8.0, 0.0, 600, 200)
        assert receipt.labels_digest == labels_digest(range(600))
        assert hv.verify_receipt(receipt).status == "holds"
        assert LabelReceipt.from_json(receipt.to_json()) == receipt

    def test_every_value_is_of_the_public_table(self, of_rows):
        mechanism = of_rows.mechanism(epsilon=2.0)
        table = {row.tobytes() for row in mechanism.table}
        assert all(row.tobytes() in table for row in hv.privatize(PRIVATE, mechanism=mechanism).values)

    def test_ratios_of_answers(self):
        """n = 400,000 releases for each of two rows; every frequency within 4 standard errors of T / 2^64 or M / 2^64, so that
        ratios are; the law of 5 labels for 6, and that of 1.1 epsilon, are rejected."""
        n, epsilon = 400_000, 1.5
        book = PublicCodebook.of(np.eye(6, dtype=np.float32))
        truth, other = (value / 2**64 for value in book.mechanism(epsilon).response.law)

        def off(wanted_truth, wanted_other):
            """The largest distance in standard errors."""
            wanted = np.full((2, 6), wanted_other)
            wanted[[0, 1], [1, 4]] = wanted_truth
            return (np.abs(counts / n - wanted) / np.sqrt(wanted * (1 - wanted) / n)).max()

        counts = np.zeros((2, 6))
        for place, code in enumerate((1, 4)):
            rows = np.repeat(2 * np.eye(6, dtype=np.float32)[code][None], n, axis=0)   # the codes themselves are refused
            released = hv.privatize(rows, mechanism=book.mechanism(epsilon)).values
            counts[place] = np.bincount(np.argmax(released, axis=1), minlength=6)
        assert off(truth, other) < 4
        assert off(math.exp(epsilon) / (math.exp(epsilon) + 4), 1 / (math.exp(epsilon) + 4)) > 4
        assert off(math.exp(1.1 * epsilon) / (math.exp(1.1 * epsilon) + 5), 1 / (math.exp(1.1 * epsilon) + 5)) > 4

    def test_one_person_with_several_rows(self, of_rows):
        rows = PRIVATE[:4]
        release = hv.privatize(rows, mechanism=of_rows.mechanism(8.0, rows_per_person=4), per="release")
        assert (release.receipt.epsilon, release.receipt.per) == (8.0, "release")
        assert of_rows.mechanism(8.0, rows_per_person=4).response.epsilon == 2.0
        assert hv.verify_receipt(release.receipt).status == "holds"
        with pytest.raises(ValueError, match="rows_per_person must be 4"):
            hv.privatize(rows, mechanism=of_rows.mechanism(8.0), per="release")

    def test_a_budget_is_charged_once(self, of_rows):
        budget = PrivacyBudget(max_epsilon=10.0)
        receipt = hv.privatize(PRIVATE, mechanism=of_rows.mechanism(8.0), budget=budget).receipt
        assert budget.consumed() == 8.0 and receipt.charge is not None
        assert hv.verify_charges([receipt], budget.export()).status == "holds"
        with pytest.raises(hv.errors.PrivacyBudgetExhaustedError):
            hv.privatize(PRIVATE, mechanism=of_rows.mechanism(8.0), budget=budget)

    @pytest.mark.parametrize(
        "x, settings, text",
        [
            (PUBLIC, {}, "codebook must be fitted on public rows"),
            (PUBLIC.astype(np.float64), {}, "codebook must be fitted on public rows"),
            (np.concatenate([PRIVATE[:3], PUBLIC[9:10]]), {}, "row 3 of x is one that it was fitted on"),
            (PRIVATE[:, :31], {}, "mechanism.dimension must be 31"),
            (np.full((2, 32), np.nan, np.float32), {}, "x must be finite"),
            (PRIVATE, dict(epsilon=8.0), "epsilon and sigma must be left out"),
            (PRIVATE, dict(projection=PublicProjection.mean_only(PUBLIC)), "projection must be None with a codebook"),
        ],
    )
    def test_refused_before_the_charge(self, of_rows, x, settings, text):
        budget = PrivacyBudget(max_epsilon=100.0)
        with pytest.raises(ValueError, match=text):
            hv.privatize(x, mechanism=of_rows.mechanism(8.0), budget=budget, **settings)
        assert budget.consumed() == 0

    def test_a_seed_makes_no_claim(self, of_rows):
        source = hv.Generator.unsafe_seeded(5)
        receipt = hv.privatize(PRIVATE, mechanism=of_rows.mechanism(8.0), generator=source).receipt
        assert not receipt.is_dp_claim and hv.verify_receipt(receipt).status != "holds"

    @pytest.mark.parametrize(
        "arguments, text",
        [
            (dict(epsilon=0.0), "epsilon must be > 0"),
            (dict(epsilon=math.inf), "epsilon must be finite"),
            (dict(epsilon=1.0, rows_per_person=0), "rows_per_person must be >= 1"),
        ],
    )
    def test_bad_mechanisms(self, of_rows, arguments, text):
        with pytest.raises(ValueError, match=text):
            of_rows.mechanism(**arguments)

    def test_describe_says_the_price_and_the_harm(self, of_rows):
        text = "\n".join(of_rows.mechanism(8.0).describe())
        assert "600 public codes" in text and "epsilon = 8.0" in text and "expected cosine" in text


class TestMisuse:
    def test_a_codebook_of_the_private_rows_shows_them(self):
        """Why the rows it was made from are refused: the codes are the rows, whatever epsilon is."""
        private = PRIVATE[:50]
        leaked = PublicCodebook.of(private)
        assert np.abs(leaked.codes - unit(private)).max() < 1e-6
        with pytest.raises(ValueError, match="not on those to be released"):
            hv.privatize(private, mechanism=leaked.mechanism(0.5))

    def test_one_private_row_in_it_decides_every_release(self):
        """A data-dependent codebook: with the other row in its place no release is what it was, whatever epsilon is."""
        first, second = (PublicCodebook.of(np.concatenate([PUBLIC[:7], row[None]])) for row in PRIVATE[:2])
        assert first.digest != second.digest
        tables = [book.mechanism(0.1).table for book in (first, second)]
        assert not {row.tobytes() for row in tables[0]} & {row.tobytes() for row in tables[1]}


class TestFiles:
    def test_saved_and_loaded(self, fitted, tmp_path):
        fitted.save(tmp_path / "book.npz")
        again = PublicCodebook.load(tmp_path / "book.npz")
        assert again == fitted and again.digest == fitted.digest and hash(again) == hash(fitted)
        assert again.rows == fitted.rows and np.array_equal(again.fitted_rows.words, fitted.fitted_rows.words)
        with pytest.raises(ValueError, match="not on those to be released"):
            hv.privatize(PUBLIC, mechanism=again.mechanism(8.0))

    def test_it_is_shown_by_the_start_of_its_digest(self, fitted):
        size, dimension = fitted.codes.shape
        assert repr(fitted) == f"PublicCodebook({size} codes, dimension {dimension}, digest {fitted.digest[:12]})"

    @pytest.mark.parametrize("name", ["codes", "sums"])
    def test_the_digest_is_of_every_bit(self, fitted, name):
        arrays = {"codes": fitted.codes.copy(), "sums": fitted.sums.copy()}
        arrays[name][3, 4] = np.nextafter(arrays[name][3, 4], np.float32(9))
        assert PublicCodebook(**arrays, rows=fitted.rows).digest != fitted.digest

    def test_a_damaged_file_is_refused(self, fitted, tmp_path):
        path = tmp_path / "book.npz"
        fitted.save(path)
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(ValueError, match=str(path)):
            PublicCodebook.load(path)
        PublicProjection.mean_only(PUBLIC).save(path)
        with pytest.raises(ValueError, match="is not a saved codebook"):
            PublicCodebook.load(path)

    @pytest.mark.parametrize(
        "arrays, text",
        [
            (dict(codes=np.eye(3, dtype=np.float32)[:1], sums=np.eye(3, dtype=np.float32)[:1]), "at least 2"),
            (dict(codes=2 * np.eye(3, dtype=np.float32), sums=np.eye(3, dtype=np.float32)), "unit length"),
            (dict(codes=np.eye(3, dtype=np.float32), sums=np.eye(4, dtype=np.float32)), "sums must have shape"),
            (dict(codes=np.eye(3, dtype=np.float32), sums=np.full((3, 3), np.inf, np.float32)), "sums must be finite"),
        ],
    )
    def test_bad_arrays(self, arrays, text):
        with pytest.raises(ValueError, match=text):
            PublicCodebook(**arrays, rows=3)


class TestInTheLibrary:
    def test_middleware(self, of_rows):
        noise = hv.dp_embedding_middleware(mechanism=of_rows.mechanism(8.0))
        model = hv.wrap_embedding_model(lambda texts: PRIVATE[: len(texts)], noise)
        rows = model.embed(["a", "b", "c"])
        assert rows.shape == (3, 32) and rows.receipt.codebook == of_rows.digest

    @pytest.mark.parametrize("side", ["documents", "queries"])
    def test_an_index_is_saved_with_it(self, of_rows, side, tmp_path):
        from hushvec.retrieval import PrivateIndex, VectorNoise

        index = PrivateIndex(32, store="numpy", **{side: VectorNoise(mechanism=of_rows.mechanism(9.0))})
        index.add(PRIVATE)
        index.save(tmp_path / "index")
        again = PrivateIndex.load(tmp_path / "index")
        assert again.settings == index.settings and again.receipts == index.receipts
        found = again.search(SAMPLE[:3], k=5)
        assert found.ids.shape == (3, 5)
        if side == "queries":
            assert (found.query_receipt.codebook, found.query_receipt.epsilon) == (of_rows.digest, 27.0)
            assert again.query_guarantee(3) == (27.0, 0.0)
        else:
            assert again.document_guarantee() == (9.0, 0.0)

    def test_an_index_refuses_it_behind_a_projection(self, of_rows):
        from hushvec.retrieval import PrivateIndex, VectorNoise

        noise, projection = VectorNoise(mechanism=of_rows.mechanism(9.0)), PublicProjection.mean_only(PUBLIC)
        with pytest.raises(ValueError, match="projection must be None with a codebook"):
            PrivateIndex(32, documents=noise, projection=projection, store="numpy")

    def test_the_rest_of_a_mechanism(self, of_rows):
        mechanism = of_rows.mechanism(8.0)
        assert mechanism.loss == mechanism.response.loss and mechanism.cost == (8.0, 0.0)
        assert mechanism.loss.total_variation < PureDP(epsilon=8.0).total_variation
        assert Gaussian(epsilon=8.0, dimension=32).expected_cosine() < mechanism.expected_cosine() <= 1

    def test_recommend_asks_for_public_rows_and_takes_them(self, fitted):
        asked = recommend(32, 8.0)
        assert asked.mechanism.name == "privunit"
        assert "Are there public rows of the same kind?" in asked.why
        measured = recommend(32, 8.0, public=PublicData(codebook=fitted, sample=SAMPLE))
        assert measured.options[0].figures["expected cosine"] == fitted.check(SAMPLE, epsilon=8.0).expected_cosine
        strangers = np.random.default_rng(7).standard_normal((300, 32)).astype(np.float32)
        with pytest.warns(hv.errors.UtilityWarning, match="PrivUnit is expected to do better") as caught:
            other = recommend(32, 60.0, public=PublicData(codebook=fitted, sample=strangers))
        assert other.mechanism.name == "privunit" and [warning.filename for warning in caught] == [__file__]
        found = recommend(32, 8.0, public=PublicData(codebook=fitted))
        assert found.mechanism == fitted.mechanism(8.0) and "codebook: expected cosine" in found.why
        with pytest.raises(ValueError, match="codebook must be for 31 elements"):
            recommend(31, 8.0, public=PublicData(codebook=fitted))
        with pytest.raises(ValueError, match="codebook must be None for task 'release'"):
            recommend(32, 8.0, task="release", public=PublicData(codebook=fitted))


def test_codes_are_looked_for_among_directions(monkeypatch):
    """Centers get the length of one after each round, and every cluster may be as small as one row: so is faiss asked."""
    asked = []

    class Kmeans:
        def __init__(self, dimension, count, **options):
            asked.append((dimension, count, options))

        def train(self, rows):
            self.centroids = 3 * rows[: asked[-1][1]]

    monkeypatch.setitem(sys.modules, "faiss", SimpleNamespace(Kmeans=Kmeans))
    book = PublicCodebook.fit(PUBLIC, codes=5, seed=7)
    options = {"niter": codebook._ROUNDS, "seed": 7, "spherical": True, "min_points_per_centroid": 1, "verbose": False}
    assert asked == [(PUBLIC.shape[1], 5, options)]
    np.testing.assert_allclose(np.linalg.norm(book.codes, axis=1), 1.0, rtol=1e-6)


def test_densities_are_the_chances_of_what_is_released():
    """Over the different rows that can be released they add up to 1; two codes with one row have the chances of both."""
    codes = unit([[1, 0], [0, 1], [-1, 0], [-1, 0.5]]).astype(np.float32)
    book = PublicCodebook(codes, codes, 4, None)
    mechanism = book.mechanism(2.0)
    truth, other = mechanism.response.probability_of_truth, mechanism.response.probability_of_each_other
    table = mechanism.table.copy()
    table[3] = table[2]
    mechanism.__dict__["table"] = table
    found = np.exp(mechanism.log_densities(np.concatenate([table[:3], table[:1] + np.float32(1e-4)]), book.codes))
    first, both = [truth, other, other, other], truth + other
    wanted = [first, [other, truth, other, other], [2 * other, 2 * other, both, both], first]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(found[:3].sum(axis=0), 1.0, rtol=1e-12)
