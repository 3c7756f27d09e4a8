"""`Encoder`: sums bit for bit, errors beside a trusted server, the law and norm of what is sent, claims, charges, refusals."""

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.linalg import hadamard

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.training.secagg import Encoder, bounds, encoder, workflow_arguments
from training.secagg.test_bounds import exact_delta, pair

seeded = hv.Generator.unsafe_seeded
GUIDE = Path(__file__).parents[3] / "docs/federated_measured.md"
TERMS = {"dimension": 100, "clip_norm": 1.0, "bits": 16, "clients": 100, "epsilon": 2.0, "delta": 1e-5}
FEW = {**TERMS, "clients": 5, "bits": 10}


def unit_vectors(rows, columns, seed=0):
    vectors = np.random.default_rng(seed).standard_normal((rows, columns))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def without_noise(monkeypatch):
    drawn = encoder.discrete_gaussian
    monkeypatch.setattr(
        encoder, "discrete_gaussian", lambda shape, sigma, **given: drawn(shape, sigma, **given) * (sigma == bounds.MOST_SIGMA)
    )


# ---- sums ----


@pytest.mark.parametrize("dimension", [1, 3, 100])
def test_the_sum_modulo_2_to_the_bits_decodes_to_the_bits_of_the_whole_sum(dimension):
    """Masks that cancel modulo 2^16, as in secure aggregation, and additive shares for two servers, as in Prio3."""
    one = Encoder(**{**TERMS, "dimension": dimension})
    encodings = [one.encode(vector, generator=seeded(i)) for i, vector in enumerate(unit_vectors(100, dimension))]
    centered = [((one.astype(np.int64) + 2**15) % 2**16) - 2**15 for one in encodings]
    expected = one.decode(sum(centered))
    masks = np.random.default_rng(1).integers(0, 2**16, (100, one.length), dtype=np.uint32)
    masked = [(encoding + masks[i] - masks[i - 1]) % 2**16 for i, encoding in enumerate(encodings)]
    helper = np.add.reduce(masks) % 2**16
    leader = np.add.reduce([(encoding - mask) % 2**16 for encoding, mask in zip(encodings, masks)]) % 2**16
    for total in (np.add.reduce(masked) % 2**16, (leader.astype(np.uint16) + helper.astype(np.uint16)), sum(centered).astype(object)):
        total = total.astype(np.int64) if total.dtype == object else total
        assert one.decode(total).tobytes() == expected.tobytes()


def test_integers_that_are_not_reduced_add_up_too():
    """As in Prio3's field: shifted by half of the modulus, no encoding wraps alone."""
    one = Encoder(**TERMS)
    encodings = [one.encode(vector, generator=seeded(i)) for i, vector in enumerate(unit_vectors(100, 100))]
    total = sum((encoding.astype(np.int64) + 2**15) % 2**16 for encoding in encodings) - 100 * 2**15
    assert np.abs(total).max() < 2**15
    assert one.decode(total).tobytes() == one.decode(np.add.reduce(encodings)).tobytes()
    exponent = (2**15 - math.sqrt(one.square_norm)) ** 2 / (2 * one.sigma**2) - math.log(2 * 100 * one.length)
    assert exponent > 250 * math.log(10)  # what docs/proofs/secagg.md adds to delta; docs/federated_client.md calls it small


def test_the_error_is_that_of_a_trusted_server():
    """n = 4096 squared errors, whose mean is within 10 % of a central Gaussian's at alpha below 1e-5 (it varies by 2.2 %)."""
    one, vectors = Encoder(**{**TERMS, "dimension": 4096}), unit_vectors(100, 4096)
    total = np.add.reduce([one.encode(vector, generator=seeded(i)) for i, vector in enumerate(vectors)])
    error = np.mean((one.decode(total) - vectors.mean(0)) ** 2)
    central = (hv.gaussian_sigma(2.0, 1e-5, 1.0) / 100) ** 2
    assert 0.9 < error / central < 1.1
    assert 1 < one.error_ratio < 1.01


def test_long_vectors_are_clipped_and_short_ones_are_not(monkeypatch):
    without_noise(monkeypatch)
    one, (vector,) = Encoder(**{**TERMS, "clients": 1}), unit_vectors(1, 100)
    for scale, expected in ((0.5, 0.5), (1.0, 1.0), (700.0, 1.0)):
        mean = one.decode(one.encode(scale * vector, generator=seeded(0)))
        assert np.abs(mean - expected * vector).max() < 4 / one.scale


def test_fewer_answers_are_divided_by_their_number():
    one = Encoder(**{**TERMS, "dropouts": 10})
    total = np.add.reduce([one.encode(np.full(100, 0.1), generator=seeded(i)) for i in range(90)])
    assert (one.decode(total, clients=90) * 90).tolist() == pytest.approx((one.decode(total) * 100).tolist())


def test_clients_and_server_agree_by_their_terms_alone():
    first, second = Encoder(**TERMS), Encoder(**TERMS)
    vector = unit_vectors(1, 100)[0]
    assert first.encode(vector, generator=seeded(0)).tobytes() == second.encode(vector, generator=seeded(0)).tobytes()
    other = Encoder(**TERMS, public_seed=1)
    assert first.encode(vector, generator=seeded(0)).tobytes() != other.encode(vector, generator=seeded(0)).tobytes()


# ---- what is sent ----


def test_the_noise_of_all_clients_is_what_was_planned():
    """n = 25,600 whole numbers of 25 clients: their mean square over sigma^2 is 1 within 4.9 standard deviations of it, alpha 1e-6.

    A share with 0.96 of sigma is refused.
    """
    one = Encoder(**{**TERMS, "dimension": 1024, "clients": 25})
    sent = np.concatenate([one.encode(np.zeros(1024), generator=seeded(i)).astype(np.int64) for i in range(25)])
    noise = (sent + 2**15) % 2**16 - 2**15
    statistic = np.mean(noise.astype(float) ** 2) / one.sigma**2
    assert abs(statistic - 1) < 4.9 * math.sqrt(2 / len(noise))
    assert abs(0.96**2 * statistic - 1) > 4.9 * math.sqrt(2 / len(noise))


def test_rounded_vectors_never_exceed_the_norm(monkeypatch):
    """Halves everywhere round to the longest vectors: with the bound at their median, half of the draws are made again."""
    without_noise(monkeypatch)
    one = Encoder(**{**TERMS, "dimension": 64, "bits": 20})
    monkeypatch.setattr(one, "_signs", np.ones(64, np.int8))
    monkeypatch.setattr(one, "scale", 4.0)
    halves = np.full(64, 0.5 / 4)   # before the rotation, which the core undoes: its square is the identity
    spread = halves.copy()
    encoder._core.hadamard_transform(spread)
    vector, squares = spread / 8, []
    for i in range(100):
        sent = (one.encode(vector, generator=seeded(i)).astype(np.int64) + 2**19) % 2**20 - 2**19
        squares.append(int(sent @ sent))
    median = sorted(squares)[50]
    assert min(squares) < median < max(squares) <= one.square_norm
    monkeypatch.setattr(one, "square_norm", median)
    again = [one._rounded(np.full(64, 0.5), seeded(i)) for i in range(100)]
    assert max(int(whole @ whole) for whole in again) <= median
    monkeypatch.setattr(one, "square_norm", -1)
    with pytest.raises(RuntimeError, match=r"^rounded vector must be within its norm bound, got 1000 that are not$"):
        one._rounded(np.full(64, 0.5), seeded(0))


def test_rounding_is_unbiased():
    """n = 4096 roundings of each of 16 numbers: the mean is off by at most 4.9 standard deviations of it, alpha 2e-5."""
    one, scaled = Encoder(**TERMS), np.linspace(-3, 3, 16) + 0.1
    whole = one._rounded(np.tile(scaled, 4096), seeded(0)).reshape(4096, 16)
    assert np.abs(whole - scaled).max() < 1
    assert np.abs(whole.mean(0) - scaled).max() < 4.9 * 0.5 / math.sqrt(4096)


# ---- claims ----


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("terms", [{}, {"dropouts": 3}, {"epsilon": 0.5}, {"rounds": 4}], ids=str)
def test_the_claim_holds_for_the_exact_law_of_the_longest_vector(adjacency, terms):
    """A vector along one axis of the integers, and its opposite: no other has a larger Gaussian loss."""
    one = Encoder(**{**FEW, "dimension": 1, "adjacency": adjacency, **terms})
    shift = math.isqrt(one.square_norm) * (2 if adjacency == "replace-one" else 1)
    for missing, epsilon in enumerate(one.guarantee.epsilon_of_missing):
        assert one.epsilon_with(missing) == epsilon
        single = one.epsilon_with(missing, rounds=1)
        laws = pair(one.sigma, one.clients - missing, (shift,))
        assert exact_delta(*laws, single) <= 1e-5 < exact_delta(*laws, 0.85 * single)
    assert one.guarantee.epsilon == epsilon <= terms.get("epsilon", 2.0)
    assert exact_delta(*pair(0.9 * one.sigma, one.clients - one.dropouts, (shift,)), single) > 1e-5   # a share that is too small


def test_missing_clients_and_rounds_are_paid_for_in_noise():
    plain, spare, long = Encoder(**TERMS), Encoder(**TERMS, dropouts=50), Encoder(**TERMS, rounds=16)
    assert spare.error_ratio / plain.error_ratio == pytest.approx(2, rel=0.01)
    assert long.sigma / long.scale == pytest.approx(4 * plain.sigma / plain.scale, rel=0.01)
    known = spare.guarantee.epsilon_of_missing
    assert sorted(known) == list(known) and len(known) == 51 and known[-1] <= 2 < spare.epsilon_with(51)


def test_the_scale_is_the_largest_that_wraps_seldom_enough():
    for bits in (12, 16, 24):
        one = Encoder(**{**TERMS, "bits": bits}, max_wrap_probability=1e-6)
        assert one.wrap_probability <= 1e-6
        wider = Encoder(**{**TERMS, "bits": bits}, max_wrap_probability=1e-3)
        assert wider.scale > one.scale
        norm = one.scale * (1 + 1 / 16)
        assert bounds.ModularSum(bits, norm, 100 * norm, one.sigma * (1 + 1 / 16), 100, 128).wrap_probability > 1e-6


MANY = {**TERMS, "dimension": 250, "clients": 1000, "epsilon": 4.0, "bits": 14}


@pytest.mark.parametrize("terms", [MANY, {**MANY, "max_sum_norm": 126.5}, *({**TERMS, "bits": bits} for bits in (8, 12, 20))], ids=str)
def test_without_a_wrap_probability_the_scale_has_the_smallest_error(terms):
    """Beside the scales of six probabilities from 1e-9 to 0.9: none is better by more than half of a percent."""
    others = []
    for wraps in (*np.geomspace(1e-9, 0.1, 5), 0.9):
        try:
            others.append(Encoder(**terms, max_wrap_probability=wraps).error_ratio)
        except ValueError:   # too few bits for so rare a wrap
            continue
    assert 1 < Encoder(**terms).error_ratio <= 1.005 * min(others)


def test_the_claim_does_not_depend_on_how_often_sums_wrap():
    """The same epsilon where every sum wraps, and the noise is that for the norm of the whole numbers alone."""
    seldom = Encoder(**TERMS)
    for wrong in ({"max_wrap_probability": 0.999}, {"max_sum_norm": 1e-3}):
        often = Encoder(**{**TERMS, "bits": 10}, **wrong)
        assert often.guarantee.epsilon == pytest.approx(seldom.guarantee.epsilon, rel=1e-4) and often.guarantee.epsilon <= 2
        most_rho = bounds.rho_for(2.0, 1e-5)
        assert often.sigma == bounds.sigma_for(2.0, 1e-5, often.square_norm, 100, 128, 1, most_rho)


def test_room_for_four_deviations_is_too_little_for_equal_vectors():
    """20,000 draws of signs, noise and rounding as a Gaussian of their variance: the mean error varies by 0.6, and by 0.002."""
    rng, rotation, errors = np.random.default_rng(5), hadamard(256) / 16, []
    central = hv.gaussian_sigma(4.0, 1e-5, 1.0) ** 2
    for terms in ({"max_wrap_probability": 2 * math.e * 256 * math.exp(-(4**2) / 2)}, {}):
        one = Encoder(**MANY, **terms)
        vectors = np.zeros((20_000, 256))
        vectors[:, :250] = rng.standard_normal((20_000, 250))   # directions as good as signs, of one vector
        vectors *= 1000 * one.scale / np.linalg.norm(vectors, axis=1, keepdims=True)
        sums = vectors @ rotation
        noisy = sums + rng.standard_normal(sums.shape) * math.sqrt(1000 * (one.sigma**2 + 0.25))
        errors.append(np.mean(((noisy + 2**13) % 2**14 - 2**13 - sums) ** 2) / one.scale**2 / central)
        assert errors[-1] <= one.error_ratio
    assert errors[0] > 5 and 1.9 < errors[1] < 2.1


def test_a_planned_length_of_the_sum_saves_bits():
    """1,000 vectors in many directions at 14 bits and epsilon 4, 250 elements.

    n = 1000 squared errors over a trusted server's: their mean varies by 4.5 % (chi-squared), so that 28 % are 6.2 standard
    deviations, alpha 6e-10; with room for any sum it is above. Equal vectors, whose sum is 8 times as long as planned, wrap.
    """
    planned, central = Encoder(**MANY, max_sum_norm=126.5), (hv.gaussian_sigma(4.0, 1e-5, 1.0) / 1000) ** 2

    def measured(one, vectors, rounds):
        errors = []
        for start in range(0, 1000 * rounds, 1000):
            total = np.add.reduce([one.encode(vector, generator=seeded(start + i)) for i, vector in enumerate(vectors)])
            errors.append(np.mean((one.decode(total) - vectors.mean(0)) ** 2) / central)
        return np.mean(errors)

    vectors = unit_vectors(1000, 250)
    assert np.linalg.norm(vectors.sum(0)) < planned.max_sum_norm
    error = measured(planned, vectors, 4)
    assert planned.error_ratio < 1.04 and abs(error / planned.error_ratio - 1) < 0.28
    assert measured(Encoder(**MANY), vectors, 4) > 1.28 * planned.error_ratio
    assert measured(planned, np.tile(vectors[:1], (1000, 1)), 1) > 100


def test_a_modulus_that_is_too_small_is_seen():
    """100 equal vectors at 16 bits: within half of the modulus, and not within that of 12 bits."""
    one, vector = Encoder(**TERMS), unit_vectors(1, 100)[0]
    total = np.add.reduce([one.encode(vector, generator=seeded(i)) for i in range(100)])
    assert np.abs(one.decode(total) - vector).max() < 0.1
    assert np.abs(one.decode(total % 2**12) - vector).max() > 0.1


def test_choose_takes_the_fewest_bits():
    terms = {name: value for name, value in TERMS.items() if name != "bits"}
    one = Encoder.choose(**terms, max_error_ratio=1.05)
    assert one.error_ratio <= 1.05 < Encoder(**terms, bits=one.bits - 1).error_ratio
    assert one.bits < 16 and one.guarantee.epsilon <= 2


def test_the_guide_has_these_errors():
    rows = re.findall(r"^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) == 3
    planned = re.findall(r"^\| ([\d,.]+) \| ([\d.]+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert len(planned) == 4
    assert [f"{Encoder(**MANY, max_sum_norm=float(most.replace(',', ''))).error_ratio:.3f}" for most, _ in planned] == [
        ratio for _, ratio in planned
    ]
    for dimension, *ratios in rows:
        terms = {**TERMS, "dimension": int(dimension.replace(",", ""))}
        assert [f"{Encoder(**{**terms, 'bits': bits}).error_ratio:.3f}" for bits in (11, 12, 14, 16)] == ratios


def test_the_guarantee_is_plain_values_and_words():
    guarantee = Encoder(**TERMS, dropouts=2, rounds=3).guarantee
    fields = json.loads(json.dumps(guarantee.as_dict(), allow_nan=False))
    assert fields == guarantee.as_dict() and fields["epsilon"] == guarantee.epsilon and len(fields["epsilon_of_missing"]) == 3
    assert str(guarantee).startswith("Guarantee of a secure sum\n  claim ")
    assert "for 3 rounds, with up to 2 of 100 clients missing" in str(guarantee)
    assert hv.accounting.compose([(guarantee.loss, 3)], delta=1e-5).epsilon > guarantee.epsilon


# ---- charges and refusals ----


def test_a_budget_pays_for_a_round_before_its_noise():
    one, vector = Encoder(**TERMS, rounds=2), np.ones(100)
    budget = hv.PrivacyBudget(max_rho=2.5 * one.guarantee.rho, store="memory")
    for _ in range(2):
        one.encode(vector, budget=budget)
    charged = [row["rho"] for row in budget.export()["rows"] if row["kind"] == "charge"]
    assert charged == [repr(one.guarantee.rho)] * 2
    with pytest.raises(PrivacyBudgetExhaustedError):
        one.encode(vector, budget=budget)
    spent = []
    plain = type("Budget", (), {"consume": lambda self, epsilon, delta: spent.append((epsilon, delta))})()
    for wrong in (np.full(100, np.nan), np.ones(99), np.full(100, "1")):
        with pytest.raises((ValueError, TypeError)):
            one.encode(wrong, budget=plain)
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        one.encode(vector, budget=plain, generator=seeded(0))
    assert spent == []
    one.encode(vector, budget=plain)
    assert spent == [(one.epsilon_with(0, rounds=1), 1e-5)] and spent[0][0] < 2


@pytest.mark.parametrize(
    ("wrong", "error", "text"),
    [
        ({"dimension": 0}, ValueError, "dimension must be >= 1, got 0"),
        ({"dimension": 2**31}, ValueError, "dimension must be <= 1073741824, got 2147483648"),
        ({"clip_norm": 0.0}, ValueError, "clip_norm must be > 0, got 0.0"),
        ({"bits": 2}, ValueError, "bits must be >= 3, got 2"),
        ({"bits": 33}, ValueError, "bits must be <= 32, got 33"),
        ({"bits": 6}, ValueError, "bits must be larger for 100 clients and this epsilon, got 6"),
        ({"clients": True}, TypeError, "clients must be a whole number, got bool"),
        ({"epsilon": 0}, ValueError, "epsilon must be > 0, got 0.0"),
        ({"delta": 1.0}, ValueError, "delta must be > 0 and < 1, got 1.0"),
        ({"dropouts": 100}, ValueError, "dropouts must be <= 99, got 100"),
        ({"rounds": 0}, ValueError, "rounds must be >= 1, got 0"),
        ({"adjacency": "add"}, ValueError, "adjacency must be one of 'replace-one', 'add-remove', got 'add'"),
        ({"max_wrap_probability": 1.0}, ValueError, "max_wrap_probability must be > 0 and < 1, got 1.0"),
        ({"max_sum_norm": 0.0}, ValueError, "max_sum_norm must be > 0, got 0.0"),
        ({"public_seed": -1}, ValueError, "public_seed must be >= 0, got -1"),
    ],
)
def test_wrong_terms_are_refused(wrong, error, text):
    with pytest.raises(error) as refused:
        Encoder(**{**TERMS, **wrong})
    assert str(refused.value) == text


def test_wrong_vectors_and_totals_are_refused():
    one = Encoder(**TERMS)
    calls = [
        (lambda: one.encode(np.ones(99)), ValueError, "vector must have shape (100,), got (99,)"),
        (lambda: one.encode(np.full(100, "1")), TypeError, "vector must be numbers, got <U1"),
        (lambda: one.decode(np.ones(128)), TypeError, "total must be whole numbers, got float64"),
        (lambda: one.decode(np.ones(100, int)), ValueError, "total must have shape (128,), got (100,)"),
        (lambda: one.decode(np.ones(128, int), clients=99), ValueError, "clients must be >= 100, got 99"),
        (lambda: one.epsilon_with(100), ValueError, "missing must be <= 99, got 100"),
        (lambda: Encoder.choose(**TERMS, max_error_ratio=1.0), ValueError, "max_error_ratio must be > 1, got 1.0"),
        (lambda: workflow_arguments(Encoder(**{**TERMS, "bits": 32})), ValueError, "bits must be <= 31 for Flower, got 32"),
    ]
    for call, error, text in calls:
        with pytest.raises(error) as refused:
            call()
        assert str(refused.value) == text
    with pytest.raises(ValueError, match="finite"):
        one.encode(np.full(100, np.inf))
