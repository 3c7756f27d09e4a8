"""A device gives the bits of the CPU: same key, same nonce, same rows. Needs a device."""

import numpy as np
import pytest

import hushvec as hv
import hushvec.mechanisms
from hushvec._native import kernels, rowwise

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
# One row and many; columns below, at and above a vector, a group of samples and a block of threads; odd ones.
SHAPES = [(1, 1), (3, 7), (5, 15), (4, 16), (4, 17), (300, 33), (2, 255), (2, 256), (3, 257), (64, 384), (33, 1000), (7, 1536), (2, 70_001)]
LAWS = {
    "gaussian": lambda d: hv.mechanisms.Gaussian(epsilon=8.0, dimension=d),
    "laplacian": lambda d: hv.mechanisms.Laplacian(epsilon=50.0, dimension=d),
    "empirical": lambda d: hv.mechanisms.EmpiricalGaussian(chosen_sigma=0.01, dimension=d),
}


def some_rows(shape, dtype):
    """Rows of norms from far below to far above 1, a zero row among them where there are several."""
    rng = np.random.default_rng(shape)
    x = rng.standard_normal(shape) / np.sqrt(shape[-1]) * np.exp2(rng.integers(-6, 7, size=(*shape[:-1], 1)))
    if len(shape) == 2 and shape[0] > 1:
        x[shape[0] // 2] = 0
    return torch.from_numpy(x).to(dtype)


def seeded(rounds=20):
    return hv.Generator.unsafe_seeded(9, rounds=rounds)


def assert_same_bits(on_device, on_host):
    assert on_device.is_cuda and on_device.dtype == on_host.dtype
    np.testing.assert_array_equal(on_device.cpu().contiguous().view(torch.uint8).numpy(), on_host.contiguous().view(torch.uint8).numpy())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clip(shape, dtype):
    x = some_rows(shape, dtype)
    assert_same_bits(hv.clip(x.cuda(), 1.0), hv.clip(x, 1.0))


@pytest.mark.parametrize("rounds", [20, 12, 8])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_clip_and_noise(shape, dtype, rounds):
    x = some_rows(shape, dtype)
    device_generator, host_generator = seeded(rounds), seeded(rounds)
    for _ in range(2):  # nonces count alike
        on_device = hv.clip_and_noise(x.cuda(), 1.0, 0.3, generator=device_generator)
        assert_same_bits(on_device, hv.clip_and_noise(x, 1.0, 0.3, generator=host_generator))


@pytest.mark.parametrize("cipher", ["chacha20", "chacha12", "chacha8"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_stream_of_version_3(shape, dtype, cipher, monkeypatch):
    """The bindings take the version from the stream."""
    x = some_rows(shape, dtype)
    on_device, on_host = (hv.Generator.unsafe_seeded(9, cipher=cipher, format_version=3) for _ in range(2))
    monkeypatch.setattr(hv.Generator, "_reserve_for_device", hv.Generator._reserve)   # a device's own streams are of version 1
    for law, scale in (("gaussian", 0.3), ("laplacian", 0.02)):
        ours, expected = torch.empty_like(x, device="cuda"), torch.empty_like(x)
        kernels.clip_and_noise(x.cuda(), 1.0, scale, ours, on_device, law, exact=True, out_is_fresh=True)
        kernels.clip_and_noise(x, 1.0, scale, expected, on_host, law, exact=True, out_is_fresh=True)
        assert_same_bits(ours, expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("shape", [(5, 15), (300, 33), (64, 384)], ids=str)
def test_every_exact_law(name, shape, dtype):
    x = some_rows(shape, dtype)
    mechanism = LAWS[name](shape[-1])
    ours, expected = torch.empty_like(x, device="cuda"), torch.empty_like(x)
    mechanism.apply(x.cuda(), ours, seeded())
    mechanism.apply(x, expected, seeded())
    assert_same_bits(ours, expected)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "empirical"])
def test_privatize(name):
    x = some_rows((64, 384), torch.float32)
    parameters = {"mechanism": name, "epsilon": None if name == "empirical" else 8.0, "sigma": 0.2 if name == "empirical" else None}
    ours = hv.privatize(x.cuda(), generator=seeded(), **parameters)
    expected = hv.privatize(x, generator=seeded(), **parameters)
    assert_same_bits(ours.values, expected.values)
    assert ours.receipt == expected.receipt


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["gaussian", "empirical", "privunit"])
@pytest.mark.parametrize("shape", [(384,), (0, 5), (300, 33), (64, 384), (2, 70_001)], ids=str)
def test_int8_values(name, shape, dtype):
    x = some_rows(shape, dtype)
    parameters = {"mechanism": name, "dtype": "int8", "normalize": name == "empirical"}
    parameters |= {"sigma": 0.24} if name == "empirical" else {"epsilon": 8.0}
    on_device, on_host = seeded(), seeded()
    for _ in range(2):  # nonces count alike
        ours, expected = hv.privatize(x.cuda(), generator=on_device, **parameters), hv.privatize(x, generator=on_host, **parameters)
        assert_same_bits(ours.values, expected.values)
        assert ours.values.dtype == torch.int8 and ours.receipt == expected.receipt
        assert torch.equal(ours.to_float32().cpu(), expected.to_float32())


def test_a_one_dimensional_row_and_empty_arrays():
    x = some_rows((384,), torch.float32)
    assert_same_bits(hv.clip_and_noise(x.cuda(), 1.0, 0.3, generator=seeded()), hv.clip_and_noise(x, 1.0, 0.3, generator=seeded()))
    for shape in ((0, 5), (5, 0), (0,)):
        empty = torch.empty(shape, device="cuda")
        assert hv.clip(empty, 1.0).shape == hv.clip_and_noise(empty, 1.0, 1.0).shape == hv.gaussian_noise(shape, like=empty).shape == shape


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("noise", [hv.gaussian_noise, hv.laplacian_noise])
def test_the_float_grade_agrees_to_its_precision(noise, dtype):
    """Last places may differ: the same words through another logarithm and sine."""
    shape = (300, 257)
    ours = noise(shape, 2.0, like=torch.empty(1, dtype=dtype, device="cuda"), generator=seeded()).cpu().double()
    expected = noise(shape, 2.0, like=torch.empty(1, dtype=dtype), generator=seeded()).double()
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1.3e-1}[dtype]
    assert (ours - expected).abs().max() < tolerance
    x = some_rows(shape, dtype)
    added = hv.clip_and_noise(x.cuda(), 1.0, 0.5, exact=False, generator=seeded()).cpu().double()
    wanted = hv.clip_and_noise(x, 1.0, 0.5, exact=False, generator=seeded()).double()
    assert (added - wanted).abs().max() < tolerance


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_l2_laplace_agrees_to_its_precision(shape, dtype):
    """The same radius and direction for every row, and the same receipt. Twice: nonces count alike."""
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]

    def agree(ours, expected):
        assert ours.is_cuda and ours.dtype == expected.dtype
        largest = expected.double().abs().amax(1, keepdim=True)
        assert ((ours.cpu().double() - expected.double()).abs() <= tolerance * largest).all()

    x = some_rows(shape, dtype)
    on_device, on_host = seeded(), seeded()
    for _ in range(2):
        empty = torch.empty(1, dtype=dtype)
        agree(
            hv.l2_laplace_noise(shape, 0.01, like=empty.cuda(), generator=on_device),
            hv.l2_laplace_noise(shape, 0.01, like=empty, generator=on_host),
        )
        ours = hv.privatize(x.cuda(), epsilon=100.0, mechanism="l2_laplace", generator=on_device)
        expected = hv.privatize(x, epsilon=100.0, mechanism="l2_laplace", generator=on_host)
        agree(ours.values, expected.values)
        assert ours.receipt == expected.receipt and ours.receipt.grade == "float"


def test_l2_laplace_leaves_no_noise_in_its_workspace(cuda):
    x = some_rows((64, 384), torch.float32).cuda()
    memory = torch.full((cuda.workspace_bytes(x, "l2_laplace"),), 7, dtype=torch.uint8, device="cuda")
    stream = seeded()._reserve_for_device()
    cuda.clip_and_noise(x, 1.0, 0.5, torch.empty_like(x), stream, "l2_laplace", False, memory, torch.cuda.current_stream().cuda_stream)
    assert (memory[cuda.workspace_bytes(x) :] == 0).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_unit_rows(shape, dtype):
    x = some_rows(shape, dtype)
    expected = rowwise.unit_rows(x, torch.empty_like(x))
    on_device = x.cuda()
    assert_same_bits(rowwise.unit_rows(on_device, torch.empty_like(on_device)), expected)
    assert_same_bits(rowwise.checked_unit_rows("x", on_device, torch.empty_like(on_device)), expected)
    assert_same_bits(on_device, x)
    assert_same_bits(rowwise.unit_rows(on_device, on_device), expected)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_unit_rows_of_every_size(dtype):
    """The largest and smallest numbers, alone and in one row; a row that is part of a larger array; columns that are not."""
    limits = torch.finfo(dtype)
    x = torch.ones((6, 130), dtype=dtype) * torch.tensor([[limits.max], [limits.tiny], [limits.smallest_normal / 8], [1], [0], [1]], dtype=dtype)
    x[5, ::2], x[5, 1::2] = limits.max, limits.smallest_normal / 4
    expected = rowwise.unit_rows(x, torch.empty_like(x))
    whole = x.cuda()
    assert_same_bits(rowwise.unit_rows(whole, torch.empty_like(whole)), expected)
    assert_same_bits(rowwise.unit_rows(whole[5], torch.empty_like(whole[5])), expected[5])
    apart = torch.zeros((6, 260), dtype=dtype, device="cuda")
    apart[:, ::2] = whole
    assert_same_bits(rowwise.unit_rows(apart[:, ::2], torch.empty_like(whole)), expected)


@pytest.mark.parametrize("renormalize", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_release_of_unit_rows(dtype, renormalize):
    x = some_rows((64, 384), dtype)
    settings = {"epsilon": 100.0, "normalize": True, "renormalize": renormalize}
    ours, expected = hv.privatize(x.cuda(), generator=seeded(), **settings), hv.privatize(x, generator=seeded(), **settings)
    assert_same_bits(ours.values, expected.values)
    assert ours.receipt == expected.receipt


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_row_that_is_not_finite(dtype):
    for rows, columns in ((1, 1), (7, 13), (3000, 384), (2, 70_001)):
        x = torch.zeros((rows + 1, columns), dtype=dtype, device="cuda")[1:]  # at any alignment
        assert rowwise.first_nonfinite_row(x) is None
        for row, column in {(0, 0), (rows // 2, columns - 1), (rows - 1, columns // 2), (rows - 1, columns - 1)}:
            for value in (torch.nan, torch.inf, -torch.inf):
                bad = x.clone()
                bad[row, column] = bad[-1, -1] = value
                assert rowwise.first_nonfinite_row(bad) == row
                assert rowwise.first_nonfinite_row(bad.T.contiguous().T) == row
                with pytest.raises(ValueError, match=f"x must be finite, got {value} in row {row + 5}"):
                    rowwise.checked_unit_rows("x", bad, torch.empty_like(bad), first_row=5)
                with pytest.raises(ValueError, match=f"x must be finite, got NaN or Inf in row {row}"):
                    rowwise.checked_unit_rows("x", bad, bad)


def test_out_is_filled_in_place():
    x = some_rows((64, 384), torch.float32).cuda()
    expected = hv.clip_and_noise(x, 1.0, 0.3, generator=seeded())
    out = torch.empty_like(x)
    assert hv.clip_and_noise(x, 1.0, 0.3, out=out, generator=seeded()) is out
    assert torch.equal(out, expected)
    address = x.data_ptr()
    assert hv.clip_and_noise(x, 1.0, 0.3, out=x, generator=seeded()) is x
    assert x.data_ptr() == address and torch.equal(x, expected)


def test_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    x = some_rows((64, 384), torch.float32)
    ours = hv.clip_and_noise(cupy.asarray(x.numpy()), 1.0, 0.3, generator=seeded())
    assert isinstance(ours, cupy.ndarray)
    np.testing.assert_array_equal(cupy.asnumpy(ours), hv.clip_and_noise(x.numpy(), 1.0, 0.3, generator=seeded()))
    out = cupy.empty((5, 9), "float16")
    assert hv.gaussian_noise((5, 9), out=out) is out
    assert isinstance(hv.laplacian_noise((5, 9), like=out), cupy.ndarray)
    released = hv.privatize(cupy.asarray(x.numpy()), epsilon=100.0, normalize=True, renormalize=True).values
    np.testing.assert_allclose(cupy.asnumpy(cupy.linalg.norm(released, axis=1)), 1.0, atol=1e-6)
    with pytest.raises(TypeError, match=r"out must be of the kind of x, Tensor, got cupy\.ndarray"):
        hv.clip(x.cuda(), 1.0, out=cupy.empty((64, 384), "float32"))
    bad = cupy.ones((4, 8), "float32")
    bad[2, 3] = cupy.nan
    with pytest.raises(ValueError, match="x must be finite, got nan in row 2"):
        hv.clip(bad, 1.0)
