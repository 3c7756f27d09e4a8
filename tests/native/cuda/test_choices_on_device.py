"""Discrete choices on a device have the answers of the CPU: same key, same nonce, same codes. Needs a device."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import PublicCodebook, RandomizedResponse

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

DTYPES = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def seeded(rounds=20):
    return hv.Generator.unsafe_seeded(9, rounds=rounds)


@pytest.mark.parametrize("rounds", [20, 12, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (255,), (257,), (3, 5, 7), (70_001,)], ids=str)
def test_answers(shape, dtype, rounds):
    codes = (torch.arange(int(np.prod(shape))) % 100).reshape(shape).to(dtype)
    mechanism = RandomizedResponse(epsilon=1.0, k=100)
    on_device, on_host = seeded(rounds), seeded(rounds)
    for _ in range(2):  # nonces count alike
        given = codes.cuda()
        answers = mechanism.respond(given, generator=on_device)
        assert answers.is_cuda and answers.dtype == dtype and answers.shape == given.shape
        assert torch.equal(answers.cpu(), mechanism.respond(codes, generator=on_host))
        assert torch.equal(given.cpu(), codes)


@pytest.mark.parametrize("draw", [hv.discrete_gaussian, hv.discrete_laplacian])
@pytest.mark.parametrize("scale", [0.3, 300.0, 2.0**20])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_whole_numbers(dtype, scale, draw):
    expected, out = torch.empty(5, 601, dtype=dtype), torch.empty(5, 601, dtype=dtype, device="cuda")
    draw((5, 601), scale, out=expected, generator=seeded())
    assert draw((5, 601), scale, out=out, generator=seeded()) is out and torch.equal(out.cpu(), expected)


def test_whole_numbers_in_a_capture():
    out = torch.zeros(100, dtype=torch.int64, device="cuda")
    hv.discrete_gaussian(100, 3.0, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out.add_(0)  # torch warns of an empty graph
        with pytest.raises(RuntimeError, match="discrete noise cannot be captured in a CUDA graph"):
            hv.discrete_gaussian(100, 3.0, out=out)


@pytest.mark.parametrize("k", [2, 3, 1000, 2**24])
@pytest.mark.parametrize("epsilon", [0.01, 2.0, 50.0])
def test_answers_of_every_law(k, epsilon):
    codes = torch.arange(10_000) * 7919 % k
    expected = hv.randomized_response(codes, range(k), epsilon, generator=seeded())
    assert torch.equal(hv.randomized_response(codes.cuda(), range(k), epsilon, generator=seeded()).cpu(), expected)


def test_codes_in_any_order_of_memory():
    codes = torch.arange(600, device="cuda").reshape(20, 30)
    for part in (codes.T, codes[:, ::2], codes[3:, 5:]):
        answers = hv.randomized_response(part, range(600), 1.0, generator=seeded())
        assert torch.equal(answers.cpu(), hv.randomized_response(part.cpu(), range(600), 1.0, generator=seeded()))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("place", [0, 500, 99_999])
def test_the_first_code_out_of_range(dtype, place):
    codes = torch.zeros(100_000, dtype=dtype, device="cuda")
    for value in (-1, 100, torch.iinfo(dtype).max, torch.iinfo(dtype).min):
        bad = codes.clone()
        bad[place] = bad[-1] = value
        with pytest.raises(ValueError) as caught:
            hv.randomized_response(bad, range(100), 1.0)
        assert str(caught.value) == f"codes must be in [0, 100), got {value} at position {place}"


def test_work_waits_for_what_the_stream_did_before():
    side = torch.cuda.Stream()
    source = torch.arange(1 << 20, device="cuda") % 100
    expected = hv.randomized_response(source, range(100), 1.0, generator=seeded())
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        codes = torch.zeros_like(source)
        torch.cuda._sleep(20_000_000)
        codes.copy_(source)
        answers = hv.randomized_response(codes, range(100), 1.0, generator=seeded())
    side.synchronize()
    assert torch.equal(answers, expected)


def test_a_capture_is_refused():
    codes = torch.zeros(100, dtype=torch.int64, device="cuda")
    hv.randomized_response(codes, range(2), 1.0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        codes.add_(0)  # torch warns of an empty graph
        with pytest.raises(RuntimeError, match="randomized response cannot be captured in a CUDA graph"):
            hv.randomized_response(codes, range(2), 1.0)


def test_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    codes = np.arange(600, dtype=np.int32).reshape(20, 30)
    answers = hv.randomized_response(cupy.asarray(codes), range(600), 1.0, generator=seeded())
    assert isinstance(answers, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(answers), hv.randomized_response(codes, range(600), 1.0, generator=seeded()))


# ---- codebooks ----


def close_rows(count, columns):
    """Rows of which the last places of a product decide which is nearest."""
    rng = np.random.default_rng(columns)
    return (rng.standard_normal(columns) * (1 + rng.integers(0, 4, (count, columns)) * 2.0**-22)).astype(np.float32)


@pytest.mark.skipif(hv.backends()["active"] == "portable", reason="the portable backend rounds a product twice a step")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("codes", [2, 63, 64, 65, 1000])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (7, 15), (8, 16), (9, 17), (1000, 384), (33, 1000)])
def test_codes_of_rows(rows, columns, codes, dtype):
    x = torch.from_numpy(np.random.default_rng(rows).standard_normal((rows, columns))).to(dtype)
    x[rows // 2] = 0
    for book in (PublicCodebook.of(close_rows(codes, columns)), PublicCodebook.of(np.random.default_rng(1).standard_normal((codes, columns)))):
        encoded = book.encode(x.cuda())
        assert encoded.is_cuda and encoded.dtype == torch.int32
        np.testing.assert_array_equal(encoded.cpu().numpy(), book.encode(x))
        np.testing.assert_array_equal(book.encode(x.cuda().T.contiguous().T).cpu().numpy(), book.encode(x))


def test_float64_rows_have_their_nearest_code_up_to_rounding():
    x, book = torch.randn(1000, 384, dtype=torch.float64) * 1e200, PublicCodebook.of(np.random.default_rng(1).standard_normal((500, 384)))
    encoded = book.encode(x.cuda()).cpu().numpy()
    scores = (x.numpy() / np.linalg.norm(x.numpy() / 1e200, axis=1, keepdims=True) / 1e200) @ book.codes.T.astype(np.float64)
    assert (scores.max(axis=1) - scores[np.arange(1000), encoded] < 1e-6).all()


@pytest.mark.skipif(hv.backends()["active"] == "portable", reason="the portable backend rounds a product twice a step")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_a_release_of_codes(dtype):
    x = torch.randn(300, 64).to(dtype)
    mechanism = PublicCodebook.of(np.random.default_rng(1).standard_normal((200, 64))).mechanism(epsilon=4.0)
    ours = hv.privatize(x.cuda(), mechanism=mechanism, generator=seeded())
    expected = hv.privatize(x, mechanism=mechanism, generator=seeded())
    assert ours.values.is_cuda and torch.equal(ours.values.cpu(), expected.values)
    assert ours.receipt == expected.receipt


def test_rows_with_nan_are_refused():
    x = torch.randn(300, 64, device="cuda")
    x[17, 3] = torch.nan
    book = PublicCodebook.of(np.random.default_rng(1).standard_normal((200, 64)))
    for call in (lambda: book.encode(x), lambda: hv.privatize(x, mechanism=book.mechanism(epsilon=4.0))):
        with pytest.raises(ValueError, match="x must be finite, got nan in row 17"):
            call()
