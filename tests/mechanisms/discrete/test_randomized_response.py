"""Randomized response as users call it: answers, batches, the law, bad input."""

import math

import numpy as np
import pytest

import hushvec as hv
from evidence.reference import chacha, stream
from evidence.reference.sizes import scaled
from hushvec._native import _core
from hushvec.mechanisms.randomized_response import RandomizedResponse, randomized_response
from mechanisms.discrete import discrete_reference as reference
from mechanisms.discrete.laws import ALPHA, p_value

ANSWERS = scaled(2_000_000, 50_000_000)


def next_nonce(generator):
    return _core._state_words(generator._reserve())[4]


def answers_to(code, k, epsilon, count, seed):
    return RandomizedResponse(epsilon=epsilon, k=k).respond(
        np.full(count, code, dtype=np.int32), generator=hv.Generator.unsafe_seeded(seed)
    )


def private_law(k, epsilon, code):
    """Probabilities by label, from the formula."""
    p = math.exp(epsilon) / (math.exp(epsilon) + k - 1)
    law = np.full(k, (1 - p) / (k - 1))
    law[code] = p
    return law


# ---- the law ----


@pytest.mark.parametrize("code", [0, 7, 9])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_law_of_the_answers(epsilon, code):
    """Chi-square with 9 degrees of freedom on 2 * 10^6 answers (5 * 10^7 in the full run), alpha = 1e-6."""
    counts = np.bincount(answers_to(code, 10, epsilon, ANSWERS, seed=1), minlength=10)
    assert p_value(counts, private_law(10, epsilon, code)) > ALPHA


@pytest.mark.parametrize("k", [2, 3, 1000])
def test_law_for_other_numbers_of_labels(k):
    """As above with k - 1 degrees of freedom."""
    counts = np.bincount(answers_to(1, k, 2.0, ANSWERS, seed=2), minlength=k)
    assert p_value(counts, private_law(k, 2.0, 1)) > ALPHA


def wrong_laws(k, epsilon, code):
    e = math.exp(epsilon)
    uniform = np.full(k, 1 / k)
    truth = np.eye(k)[code]
    never = np.where(np.arange(k) == (code + 1) % k, 1e-4, private_law(k, epsilon, code))
    return {
        "dictionary rule: truth with e/(e + 1), else a uniform label": e / (e + 1) * truth + 1 / (e + 1) * uniform,
        "k in place of k - 1": (lambda p: p * truth + (1 - p) / (k - 1) * (1 - truth))(e / (e + k)),
        "a lie may be the truth": (lambda p: p * truth + (1 - p) * uniform)(e / (e + k - 1)),
        "e^epsilon 2 % too large": private_law(k, math.log(1.02 * e), code),
        "one other label hardly ever": never / never.sum(),
        "always uniform": uniform,
    }


@pytest.mark.parametrize("name", wrong_laws(10, 1.0, 7))
def test_wrong_laws_are_rejected(name):
    """Both ways: answers of a wrong law against the right one, and our answers against the wrong law."""
    wrong = wrong_laws(10, 1.0, 7)[name]
    drawn = np.random.default_rng(3).multinomial(2_000_000, wrong)
    assert p_value(drawn, private_law(10, 1.0, 7)) < ALPHA
    ours = np.bincount(answers_to(7, 10, 1.0, 2_000_000, seed=3), minlength=10)
    assert p_value(ours, wrong) < ALPHA


def test_the_dictionary_rule_costs_what_the_notes_say():
    k, epsilon = 10_000, 1.0
    law = wrong_laws(k, epsilon, 0)["dictionary rule: truth with e/(e + 1), else a uniform label"]
    assert math.log(law[0] / law[1]) == pytest.approx(math.log(1 + k * math.e), abs=1e-9) == pytest.approx(10.21, abs=0.005)


def test_answers_are_independent_of_each_other():
    """Pairs of neighbouring answers and of answers half a group apart: chi-square with 8 degrees of freedom, 10^6 pairs each."""
    answers = answers_to(0, 3, 1.0, 2_000_128, seed=4)
    law = private_law(3, 1.0, 0)
    for first, second in ((answers[0:-128:2], answers[1:-127:2]), (answers[:1_000_000], answers[128:1_000_128])):
        counts = np.bincount(3 * first + second, minlength=9)
        assert p_value(counts, np.outer(law, law).ravel()) > ALPHA


# ---- known answers ----


@pytest.mark.parametrize("cipher", ["aes256", "chacha20", "chacha12", "chacha8"])
@pytest.mark.parametrize("k", [2, 10, 200, 2**24])
@pytest.mark.parametrize("epsilon", [0.5, 17.0])
def test_bits_are_those_of_the_reference(cipher, k, epsilon):
    codes = np.random.default_rng(5).integers(0, k, 700)
    generator = hv.Generator.unsafe_seeded(2**200 + 1, cipher=cipher)
    generator._reserve()
    got = RandomizedResponse(epsilon=epsilon, k=k).respond(codes, generator=generator)
    assert got.tolist() == reference.responses(chacha.seed_key(2**200 + 1), 1, stream.ROUNDS[cipher], codes.tolist(), k, epsilon)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 255, 256, 257, 2047, 2048, 2049, 5000])
def test_lengths_at_and_beside_groups(count):
    codes = (np.arange(count) % 5).astype(np.uint8)
    got = RandomizedResponse(epsilon=1.0, k=5).respond(codes, generator=hv.Generator.unsafe_seeded(6))
    assert got.tolist() == reference.responses(chacha.seed_key(6), 0, 20, codes.tolist(), 5, 1.0)


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", ">u2"])
def test_integer_dtypes_agree(dtype):
    codes = np.arange(3000) % 100
    got = RandomizedResponse(epsilon=2.0, k=100).respond(codes.astype(dtype), generator=hv.Generator.unsafe_seeded(7))
    expected = RandomizedResponse(epsilon=2.0, k=100).respond(codes, generator=hv.Generator.unsafe_seeded(7))
    assert got.dtype == np.dtype(dtype).newbyteorder("=")
    assert (got == expected).all()


@pytest.mark.parametrize("layout", ["fortran", "every other", "backwards", "read-only"])
def test_any_layout_gives_the_same_answers(layout):
    codes = np.arange(60 * 40).reshape(60, 40) % 9
    arranged = {
        "fortran": np.asfortranarray(codes),
        "every other": np.repeat(codes, 2, axis=1)[:, ::2],
        "backwards": codes[::-1].copy()[::-1],
        "read-only": codes.copy(),
    }[layout]
    arranged.flags.writeable = layout != "read-only"
    got = RandomizedResponse(epsilon=1.0, k=9).respond(arranged, generator=hv.Generator.unsafe_seeded(8))
    expected = RandomizedResponse(epsilon=1.0, k=9).respond(codes, generator=hv.Generator.unsafe_seeded(8))
    assert got.shape == codes.shape
    assert (got == expected).all()


def test_input_is_left_alone():
    codes = np.arange(1000) % 7
    before = codes.copy()
    RandomizedResponse(epsilon=0.1, k=7).respond(codes)
    assert (codes == before).all()


# ---- labels ----


def test_scalar_list_tuple_and_array_take_the_same_draws():
    labels = ["a", "b", "c", "d"]
    truths = list("abcdabcd" * 20)
    codes = np.array([labels.index(x) for x in truths])
    expected = [labels[i] for i in RandomizedResponse(epsilon=1.0, k=4).respond(codes, generator=hv.Generator.unsafe_seeded(9))]
    for batch in (truths, tuple(truths), np.array(truths), np.array(truths, dtype=object)):
        got = randomized_response(batch, labels, 1.0, generator=hv.Generator.unsafe_seeded(9))
        assert list(got) == expected
        assert type(got) is (np.ndarray if isinstance(batch, np.ndarray) else list)
    first = randomized_response("a", labels, 1.0, generator=hv.Generator.unsafe_seeded(9))
    assert first == expected[0]


def test_labels_may_be_anything_hashable():
    labels = [None, ("x", 1), 3.5, "text", frozenset({1}), True]
    generator = hv.Generator.unsafe_seeded(10)
    assert randomized_response(("x", 1), labels, 700.0, generator=generator) == ("x", 1)
    assert randomized_response(None, labels, 700.0, generator=generator) is None
    assert randomized_response([None, True, 3.5], labels, 700.0, generator=generator) == [None, True, 3.5]
    answers = randomized_response([None] * 500, labels, 0.01, generator=generator)
    assert set(answers) == set(labels)


def test_the_true_label_itself_never_comes_back():
    """1.0 == 1 == True: an answer of the caller's own type would show that it is the truth."""
    labels = [1, 2]
    for own in (1.0, True, np.int64(1), np.float64(1)):
        answers = RandomizedResponse(epsilon=0.5, labels=["x", *labels]).respond(
            [own] * 100, generator=hv.Generator.unsafe_seeded(11)
        )
        assert {type(answer) for answer in answers} == {int, str}
        assert all(type(answer) is int for answer in answers if answer == 1)


def test_dtype_of_the_answers_says_nothing():
    for k_labels, dtype in (
        (["aa", "b"], "<U2"),
        ([False, True], "bool"),
        ([5, 7], "int64"),
        ([0.5, 1.5], "float64"),
        (["a", 1], "O"),
    ):
        for own in k_labels:
            batch = np.array([own], dtype=object)
            assert randomized_response(batch, k_labels, 1.0).dtype == np.dtype(dtype)


def test_numpy_strings_that_would_lose_their_end_stay_objects():
    labels = ["a", "a\0"]
    answers = randomized_response(np.array(["a"] * 50, dtype=object), labels, 0.1, generator=hv.Generator.unsafe_seeded(12))
    assert set(answers.tolist()) == set(labels)


def test_shapes_of_arrays():
    assert RandomizedResponse(epsilon=1.0, k=3).respond(np.zeros((2, 3, 4), dtype=int)).shape == (2, 3, 4)
    assert RandomizedResponse(epsilon=1.0, k=3).respond(np.array(1)).shape == ()
    assert randomized_response(np.array([], dtype="U1"), ["a", "b"], 1.0).shape == (0,)
    assert randomized_response([], ["a", "b"], 1.0) == []


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
def test_tensors_have_the_answers_of_arrays(dtype):
    torch = pytest.importorskip("torch")
    codes = (np.arange(600) % 100).astype(dtype).reshape(3, 200)
    mechanism = RandomizedResponse(epsilon=1.0, k=100)
    for given in (torch.from_numpy(codes.copy()), torch.from_numpy(np.ascontiguousarray(codes.T)).T):
        answers = mechanism.respond(given, generator=hv.Generator.unsafe_seeded(3))
        assert isinstance(answers, torch.Tensor) and answers.dtype == given.dtype
        expected = mechanism.respond(codes, generator=hv.Generator.unsafe_seeded(3))
        np.testing.assert_array_equal(answers.numpy(), expected)
        np.testing.assert_array_equal(given.numpy(), codes)


def test_tensors_that_are_refused():
    torch = pytest.importorskip("torch")
    mechanism = RandomizedResponse(epsilon=1.0, k=4)
    for given, error, text in [
        (torch.zeros(3), TypeError, "true_label must be whole numbers, got float32"),
        (torch.zeros(3, dtype=torch.bool), TypeError, "true_label must be whole numbers, got bool"),
        (torch.zeros(3, dtype=torch.int64).to_sparse(), TypeError, "true_label must be a dense tensor, got layout torch.sparse_coo"),
        (torch.zeros(3, dtype=torch.int64, device="meta"), ValueError, "true_label must be on the CPU or a CUDA device, got meta"),
        (torch.tensor([0, 4]), ValueError, "codes must be in [0, 4), got 4 at position 1"),
    ]:
        with pytest.raises(error) as caught:
            mechanism.respond(given)
        assert str(caught.value) == text
    with pytest.raises(ValueError, match=r"^labels must be 0 \.\. k - 1 \(k=\) for a Tensor, got 'a' among them$"):
        RandomizedResponse(epsilon=1.0, labels=["a", "b"]).respond(torch.zeros(3, dtype=torch.int64))


def test_large_epsilon_does_not_overflow():
    for epsilon in (700.0, 1e5, 1.7e308):
        mechanism = RandomizedResponse(epsilon=epsilon, k=10)
        assert mechanism.respond(np.arange(10).repeat(1000)).tolist() == np.arange(10).repeat(1000).tolist()
        assert mechanism.cost == (epsilon, 0.0)
        assert mechanism.epsilon_as_sampled == pytest.approx(64 * math.log(2))


# ---- bad input: one clear error, nothing drawn ----

BAD = [
    (("x", ["a", "b"], 1.0), ValueError, "true_label must be one of the 2 labels, got 'x'"),
    ((["a", "x"], ["a", "b"], 1.0), ValueError, "true_label must be one of the 2 labels, got 'x'"),
    ((np.array(["a", "x"]), ["a", "b"], 1.0), ValueError, "true_label must be one of the 2 labels, got 'x'"),
    ((3, range(3), 1.0), ValueError, "true_label must be one of the 3 labels, got 3"),
    ((-1, range(3), 1.0), ValueError, "true_label must be >= 0, got -1"),
    ((np.array([0, 3]), range(3), 1.0), ValueError, "codes must be in [0, 3), got 3 at position 1"),
    ((np.array([0, 1, -1]), range(3), 1.0), ValueError, "codes must be in [0, 3), got -1 at position 2"),
    ((np.zeros(4, dtype=np.uint8), range(257), 1.0), ValueError, "codes must have a dtype that holds 256, got uint8"),
    (("a", ["a", "b", "a"], 1.0), ValueError, "labels must be all different, got 'a' twice"),
    ((1, [1, 2, True], 1.0), ValueError, "labels must be all different, got True twice"),
    (("a", ["a"], 1.0), ValueError, "labels must be at least 2, got 1"),
    (("a", [], 1.0), ValueError, "labels must be at least 2, got 0"),
    ((0, range(2**24 + 1), 1.0), ValueError, "labels must be at most 2^24, got 16777217"),
    ((1.0, [1.0, math.nan], 1.0), ValueError, "labels must equal themselves, got nan"),
    (("a", "ab", 1.0), TypeError, "labels must be a sequence of labels, got str"),
    (("a", 7, 1.0), TypeError, "labels must be a sequence of labels, got int"),
    (("a", [["a"], "b"], 1.0), TypeError, "labels must be hashable, got list"),
    (({}, ["a", "b"], 1.0), TypeError, "true_label must be hashable, got dict"),
    ((0.5, range(3), 1.0), TypeError, "true_label must be a whole number, got float"),
    (("a", ["a", "b"], 0.0), ValueError, "epsilon must be > 0, got 0.0"),
    (("a", ["a", "b"], -1.0), ValueError, "epsilon must be > 0, got -1.0"),
    (("a", ["a", "b"], math.nan), ValueError, "epsilon must be finite, got nan"),
    (("a", ["a", "b"], math.inf), ValueError, "epsilon must be finite, got inf"),
    (("a", ["a", "b"], True), TypeError, "epsilon must be a number, got bool"),
    (("a", ["a", "b"], "1"), TypeError, "epsilon must be a number, got str"),
    (("a", ["a", "b", "c"], 1e-20), ValueError, "epsilon must be larger for 3 labels"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), BAD)
def test_bad_input_is_refused_before_anything_is_drawn(arguments, error, message):
    generator = hv.Generator.unsafe_seeded(13)
    with pytest.raises(error) as caught:
        randomized_response(*arguments, generator=generator)
    assert message in str(caught.value)
    assert next_nonce(generator) == 0


def test_a_wrong_generator_is_refused():
    with pytest.raises(TypeError, match=r"generator must be a hushvec.Generator or None, got int"):
        randomized_response("a", ["a", "b"], 1.0, generator=1)


@pytest.mark.parametrize("k", [True, False, 1, 0.5, "3"])
def test_k_must_be_a_whole_number_of_at_least_2(k):
    with pytest.raises((TypeError, ValueError)):
        RandomizedResponse(epsilon=1.0, k=k)


def test_labels_and_k_exclude_each_other():
    with pytest.raises(TypeError, match="give labels or k, not both"):
        RandomizedResponse(epsilon=1.0, k=2, labels=["a", "b"])


def test_the_core_refuses_what_the_package_would_have_turned_into_codes():
    generator = hv.Generator.unsafe_seeded(14)
    for codes in (np.zeros(3), np.zeros((4, 4), dtype=int)[:, ::2], np.array(["a"])):
        with pytest.raises(TypeError, match="codes must be a C-contiguous integer array"):
            _core.randomized_response(codes, 2, _core.response_law(1.0, 2), generator)
    for labels, law in (
        (1, (0, 1)),
        (3, _core.response_law(1.0, 2)),
        (2, (2**62, 2**64 - 2**62)),
        (2**25, (2**39, 2**39)),
        (2, (0, 0)),
    ):
        with pytest.raises(ValueError, match=f"law must be that of {labels} labels"):
            _core.randomized_response(np.zeros(3, dtype=int), labels, law, generator)
    with pytest.raises(ValueError, match=r"labels must be in \[2, 2\^24\], got 1"):
        _core.response_law(1.0, 1)
    with pytest.raises(ValueError, match="epsilon must be > 0 and finite"):
        _core.response_law(math.nan, 2)
    assert next_nonce(generator) == 0
