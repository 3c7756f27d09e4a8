"""Discrete choices for arrays on a device, without one: what the binding refuses, and what Python passes on to it."""

import sys
import types

import numpy as np
import pytest
from native.cuda.device_stand_in import Backend, cupy_module
from native.cuda.fake_arrays import Interface, OnDevice, workspace

import hushvec as hv
from hushvec._native import _core
from hushvec.mechanisms import PublicCodebook, RandomizedResponse

torch = pytest.importorskip("torch")


def seeded():
    return hv.Generator.unsafe_seeded(9)


def next_nonce(generator):
    return _core._state_words(generator._reserve())[4]


@pytest.fixture
def cupy(monkeypatch):
    module = cupy_module()
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


@pytest.fixture
def device(monkeypatch):
    module = Backend()
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


# ---- the binding ----

CODES = OnDevice((4, 8), dtype="int32")
LAW = _core.response_law(1.0, 100)

BAD_CODES = [
    (np.zeros(4, np.int32), ValueError, "codes must be in CUDA memory, got the CPU"),
    (torch.zeros(4, dtype=torch.int32), ValueError, "codes must be in CUDA memory, got the CPU"),
    ([1], TypeError, "codes must be an array in CUDA memory (DLPack or __cuda_array_interface__), got list"),
    (OnDevice((4, 8)), TypeError, "codes must be an array of integers, got float32"),
    (OnDevice((4, 8), dtype="int32", lanes=2), TypeError, "codes must be an array of integers, got int32"),
    (Interface((4,), "<f4"), TypeError, "codes must be an array of integers, got another"),
    (OnDevice((4, 8), (1, 4), dtype="int32"), ValueError, "codes must be contiguous in row-major order, got strides (1, 4)"),
    (OnDevice((4, 8), dtype="int32", offset=2), ValueError, "codes must be aligned to its elements, got an odd address"),
    (OnDevice((4, 8), dtype="int32", data=None), ValueError, "codes must have memory of its own, got a tensor without"),
    (OnDevice((4, 8), dtype="int8"), ValueError, "codes must have a dtype that holds 199, got int8"),
]


@pytest.mark.parametrize(("codes", "error", "text"), BAD_CODES, ids=[text for _, _, text in BAD_CODES])
def test_codes_that_are_refused(cuda, codes, error, text):
    law = _core.response_law(1.0, 200)
    for call in (
        lambda: cuda.copy_codes(codes, codes, 200, workspace(), 0),
        lambda: cuda.randomized_response(codes, 200, law, seeded()._reserve_for_device(), 0),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda cuda: cuda.copy_codes(CODES, OnDevice((4, 8), dtype="int64"), 100, workspace(), 0), TypeError, "out must have dtype int32, got int64"),
        (lambda cuda: cuda.copy_codes(CODES, OnDevice((4, 7), dtype="int32"), 100, workspace(), 0), ValueError, "out must have 32 elements, got 28"),
        (
            lambda cuda: cuda.copy_codes(CODES, OnDevice((4, 8), dtype="int32", device=1), 100, workspace(), 0),
            ValueError,
            "out must be on cuda:0, got cuda:1",
        ),
        (lambda cuda: cuda.copy_codes(CODES, CODES, 1, workspace(), 0), ValueError, "labels must be in [2, 2^24], got 1"),
        (lambda cuda: cuda.copy_codes(CODES, CODES, 2**24 + 1, workspace(), 0), ValueError, f"labels must be in [2, 2^24], got {2**24 + 1}"),
        (
            lambda cuda: cuda.copy_codes(CODES, CODES, 100, workspace(1), 0),
            ValueError,
            "workspace must be contiguous and have 256 bytes, got 4",
        ),
        (
            lambda cuda: cuda.randomized_response(CODES, 100, (LAW[0] + 1, LAW[1]), seeded()._reserve_for_device(), 0),
            ValueError,
            "law must be that of 100 labels",
        ),
        (lambda cuda: cuda.randomized_response(CODES, 101, LAW, seeded()._reserve_for_device(), 0), ValueError, "law must be that of 101 labels"),
        (
            lambda cuda: cuda.randomized_response(CODES, 100, LAW, OnDevice((6,), dtype="int64"), 0),
            TypeError,
            "source must be a stream that a generator reserved",
        ),
        (
            lambda cuda: cuda.randomized_response(CODES, 100, LAW, hv.Generator.unsafe_seeded(1, cipher="aes256")._reserve(), 0),
            ValueError,
            "source must be a stream of ChaCha on a device, got one of aes256",
        ),
    ],
)
def test_other_arguments_that_are_refused(cuda, call, error, text):
    with pytest.raises(error) as caught:
        call(cuda)
    assert str(caught.value) == text


def int32(*shape, **said):
    return OnDevice(shape, dtype="int32", **said)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((np.zeros((4, 8), np.float32), OnDevice((9, 8)), int32(4)), ValueError, "x must be in CUDA memory, got the CPU"),
        ((OnDevice((4, 8), dtype="float64"), OnDevice((9, 8)), int32(4)), TypeError, "x must have dtype float32, float16 or bfloat16, got float64"),
        ((OnDevice((4, 8)), OnDevice((9, 8), dtype="float16"), int32(4)), TypeError, "codes must have dtype float32, got float16"),
        ((OnDevice((4, 8)), OnDevice((9, 7)), int32(4)), ValueError, "codes must have the columns of x, (4, 8), got shape (9, 7)"),
        ((OnDevice((4, 8)), OnDevice((0, 8)), int32(4)), ValueError, "codes must be in [1, 2^24], got 0"),
        ((OnDevice((4, 8)), OnDevice((9, 8), device=1), int32(4)), ValueError, "codes must be on the device of x"),
        ((OnDevice((4, 8)), OnDevice((9, 8)), int32(5)), ValueError, "nearest must have 4 elements, got 5"),
        ((OnDevice((4, 8)), OnDevice((9, 8)), OnDevice((4,), dtype="int64")), TypeError, "nearest must have dtype int32, got int64"),
        ((OnDevice((4, 8)), OnDevice((9, 8)), int32(4, device=1)), ValueError, "nearest must be on cuda:0, got cuda:1"),
    ],
)
def test_rows_and_codes_that_are_refused(cuda, arguments, error, text):
    with pytest.raises(error) as caught:
        cuda.nearest_codes(*arguments, 0)
    assert str(caught.value) == text


# ---- what Python does ----


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_answers_are_arrays_like_the_codes(cupy, device, dtype):
    codes = (np.arange(600) % 100).astype(dtype).reshape(3, 200)
    given = cupy.asarray(codes)
    answers = hv.randomized_response(given, range(100), 1.0, generator=seeded())
    assert isinstance(answers, cupy.ndarray) and answers.dtype == dtype
    np.testing.assert_array_equal(answers.host, hv.randomized_response(codes, range(100), 1.0, generator=seeded()))
    np.testing.assert_array_equal(given.host, codes)
    assert device.calls == ["copy_codes", "randomized_response"]


def test_codes_in_any_order_of_memory(cupy, device):
    codes = np.arange(12, dtype=np.int32).reshape(3, 4)
    answers = RandomizedResponse(epsilon=1.0, k=12).respond(cupy.asarray(codes)[:, ::2], generator=seeded())
    np.testing.assert_array_equal(answers.host, RandomizedResponse(epsilon=1.0, k=12).respond(codes[:, ::2], generator=seeded()))


@pytest.mark.parametrize(("place", "value"), [(0, -1), (7, 100), (11, 2**31 - 1), (4, -(2**31))])
def test_a_code_out_of_range_is_named_and_nothing_is_drawn(cupy, device, place, value):
    codes = np.zeros(12, np.int32)
    codes[place] = codes[11] = value
    generator, untouched = seeded(), seeded()
    with pytest.raises(ValueError) as on_device:
        hv.randomized_response(cupy.asarray(codes), range(100), 1.0, generator=generator)
    with pytest.raises(ValueError) as on_host:
        hv.randomized_response(codes, range(100), 1.0, generator=seeded())
    assert str(on_device.value) == str(on_host.value) == f"codes must be in [0, 100), got {value} at position {place}"
    assert device.calls == ["copy_codes"] and next_nonce(generator) == next_nonce(untouched)


def test_a_capture_is_refused_before_anything_is_drawn(cupy, device):
    device.capturing = True
    generator, untouched = seeded(), seeded()
    with pytest.raises(RuntimeError, match="randomized response cannot be captured"):
        hv.randomized_response(cupy.asarray(np.zeros(3, np.int32)), range(2), 1.0, generator=generator)
    assert next_nonce(generator) == next_nonce(untouched)


def test_a_generator_of_aes_is_refused(cupy, device):
    with pytest.raises(ValueError, match="aes256"):
        hv.randomized_response(cupy.asarray(np.zeros(3, np.int32)), range(2), 1.0, generator=hv.Generator.unsafe_seeded(1, cipher="aes256"))
    assert "randomized_response" not in device.calls


def test_other_labels_and_numbers_that_are_not_whole(cupy, device):
    with pytest.raises(ValueError, match=r"^labels must be 0 \.\. k - 1 \(k=\) for a cupy\.ndarray, got 'yes' among them$"):
        hv.randomized_response(cupy.asarray(np.zeros(3, np.int32)), ["yes", "no"], 1.0)
    for dtype in ("float32", "bool"):
        with pytest.raises(TypeError, match=f"^true_label must be whole numbers, got {dtype}$"):
            hv.randomized_response(cupy.asarray(np.zeros(3, dtype)), range(2), 1.0)
    assert device.calls == []


def test_without_the_backend(monkeypatch, cupy):
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    with pytest.raises(RuntimeError, match="true_label is on cuda:0, but this build of hushvec has no CUDA backend: "):
        hv.randomized_response(cupy.asarray(np.zeros(3, np.int32)), range(2), 1.0)


# ---- codebooks ----

RNG = np.random.default_rng(0)
BOOK = PublicCodebook.of(RNG.standard_normal((70, 12)).astype(np.float32))
ROWS = RNG.standard_normal((40, 12))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_codes_of_rows_on_a_device(cupy, device, dtype):
    rows = ROWS.astype(dtype)
    for given, expected in ((rows, rows), (rows[3], rows[3]), (np.ascontiguousarray(rows.T), rows)):
        x = cupy.asarray(given)
        if expected is not given:
            x.host = x.host.T
        codes = BOOK.encode(x)
        assert isinstance(codes, cupy.ndarray) and codes.dtype == "int32"
        np.testing.assert_array_equal(codes.host, BOOK.encode(expected))
        np.testing.assert_array_equal(x.host, expected)
    assert ("unit_rows" in device.calls) == (dtype == "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_release_of_codes_on_a_device(cupy, device, dtype):
    rows, mechanism = ROWS.astype(dtype), BOOK.mechanism(epsilon=3.0)
    ours = hv.privatize(cupy.asarray(rows), mechanism=mechanism, generator=seeded())
    expected = hv.privatize(rows, mechanism=mechanism, generator=seeded())
    assert isinstance(ours.values, cupy.ndarray) and ours.values.dtype == dtype
    np.testing.assert_array_equal(ours.values.host, expected.values)
    assert ours.receipt == expected.receipt
    assert [name for name in device.calls if name != "unit_rows"] == ["find_bad_row", "nearest_codes", "copy_codes", "randomized_response"]


def test_the_receipt_names_the_cipher_of_the_device(cupy, device):
    receipt = hv.privatize(cupy.asarray(ROWS), mechanism=BOOK.mechanism(epsilon=3.0)).receipt
    assert receipt.cipher == "chacha20" == hv.Generator().device_cipher
    with pytest.raises(ValueError, match="aes256"):
        hv.privatize(cupy.asarray(ROWS), mechanism=BOOK.mechanism(epsilon=3.0), generator=hv.Generator(cipher="aes256"))
    assert device.calls.count("nearest_codes") == 1


def test_public_rows_are_copied_to_a_device_once(cupy, device, monkeypatch):
    copied = []
    plain = cupy.asarray
    monkeypatch.setattr(cupy, "asarray", lambda values, dtype=None: copied.append(np.shape(values)) or plain(values, dtype))
    book = PublicCodebook.of(RNG.standard_normal((70, 12)).astype(np.float32))
    mechanism, x = book.mechanism(epsilon=3.0), plain(ROWS.astype(np.float32))
    for _ in range(3):
        hv.privatize(x, mechanism=mechanism)
    assert copied == [(70, 12), (70, 12)]   # the codes and what is released for each


def test_bad_rows_are_refused_before_anything_is_drawn_or_charged(cupy, device):
    bad = ROWS.astype(np.float32)
    bad[7, 2] = np.nan
    charges, generator = [], seeded()
    budget = types.SimpleNamespace(consume=lambda *cost: charges.append(cost))
    for options in ({}, {"budget": budget, "generator": hv.Generator()}):
        with pytest.raises(ValueError, match="^x must be finite, got nan in row 7$"):
            hv.privatize(cupy.asarray(bad), mechanism=BOOK.mechanism(epsilon=3.0), **{"generator": generator, **options})
    assert next_nonce(generator) == next_nonce(seeded()) and charges == []
    device.capturing = True
    with pytest.raises(RuntimeError, match="privatize cannot be captured"):
        hv.privatize(cupy.asarray(ROWS), mechanism=BOOK.mechanism(epsilon=3.0), generator=generator)
    with pytest.raises(RuntimeError, match="rows cannot be checked in a capture"):
        BOOK.encode(cupy.asarray(ROWS))
    with pytest.raises(ValueError, match="^x must have 12 columns, got 11$"):
        BOOK.encode(cupy.asarray(ROWS[:, :11]))
    assert "nearest_codes" not in device.calls


def test_the_rows_a_codebook_was_made_from_are_refused(cupy, device):
    rows = ROWS.astype(np.float32)
    with pytest.raises(ValueError, match="codebook must be fitted on public rows"):
        hv.privatize(cupy.asarray(rows), mechanism=PublicCodebook.of(rows).mechanism(epsilon=3.0))
    assert "randomized_response" not in device.calls
