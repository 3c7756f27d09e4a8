"""torch CPU tensors: the same values as numpy, without a copy, and what is refused."""

import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv

torch = pytest.importorskip("torch")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def seeded(seed=1):
    return hv.Generator.unsafe_seeded(seed)


def some_rows(shape=(6, 130), dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(0).standard_normal(shape)).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip(dtype):
    x = some_rows(dtype=dtype)
    clipped = hv.clip(x, 1.0)
    assert isinstance(clipped, torch.Tensor)
    assert clipped.dtype == dtype
    assert (clipped.double().norm(dim=1) <= 1).all()
    if dtype != torch.bfloat16:
        np.testing.assert_array_equal(clipped.numpy(), hv.clip(x.numpy(), 1.0))


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_and_noise_in_place_writes_the_tensor_itself(dtype):
    x = some_rows(dtype=dtype)
    expected = hv.clip_and_noise(x.clone(), 1.0, 0.5, generator=seeded())
    address = x.data_ptr()
    assert hv.clip_and_noise(x, 1.0, 0.5, out=x, generator=seeded()) is x
    assert x.data_ptr() == address
    assert torch.equal(x, expected)


def test_bfloat16_is_the_float32_release_rounded():
    x = some_rows(dtype=torch.bfloat16)
    wide = hv.clip_and_noise(x.float(), 1.0, 0.5, generator=seeded())
    assert torch.equal(hv.clip_and_noise(x, 1.0, 0.5, generator=seeded()), wide.bfloat16())


@pytest.mark.parametrize("noise", [hv.gaussian_noise, hv.laplacian_noise, hv.l2_laplace_noise])
@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_like_and_out(noise, dtype):
    made = noise((3, 65), like=torch.zeros(1, dtype=dtype), generator=seeded())
    assert made.dtype == dtype
    assert made.shape == (3, 65)
    out = torch.zeros(3, 65, dtype=dtype)
    assert noise((3, 65), out=out, generator=seeded()) is out
    assert torch.equal(out, made)
    assert noise(torch.Size([2, 4])).shape == (2, 4)


def test_dtype_of_torch_names_a_numpy_dtype():
    assert hv.gaussian_noise(3, dtype=torch.float64).dtype == np.float64
    with pytest.raises(TypeError, match="dtype must be float32, float64 or float16, got bfloat16"):
        hv.gaussian_noise(3, dtype=torch.bfloat16)


def test_strided_tensors():
    x = some_rows((130, 6))
    assert torch.equal(hv.clip(x.T, 1.0), hv.clip(x.T.contiguous(), 1.0))
    row = torch.ones(8).expand(3, 8)
    assert torch.equal(hv.clip(row, 1.0), hv.clip(row.contiguous(), 1.0))


def test_add_noise():
    x = some_rows(dtype=torch.bfloat16)
    assert torch.equal(hv.add_noise(x, torch.ones_like(x)), x + 1)
    with pytest.raises(TypeError, match="noise must be of the kind of embedding, Tensor, got ndarray"):
        hv.add_noise(torch.zeros(3), np.zeros(3, np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("normalize", [False, True])
def test_privatize(dtype, normalize):
    x = some_rows((4, 384), dtype)
    before = x.clone()
    values, receipt = hv.privatize(x, epsilon=8.0, normalize=normalize, renormalize=normalize)
    assert values.dtype == dtype
    assert values.shape == x.shape
    assert receipt.dtype == str(dtype).removeprefix("torch.")
    assert hv.verify_receipt(receipt).status == "holds"
    assert torch.equal(x, before)
    if normalize:
        torch.testing.assert_close(values.double().norm(dim=1), torch.ones(4).double(), atol=5e-3, rtol=0)


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        (lambda: torch.ones(3, 4, requires_grad=True), ValueError, r"x must not require grad, .*x.detach\(\)"),
        (lambda: torch.ones(3, 4, device="meta"), ValueError, "x must be on the CPU or a CUDA device, got meta"),
        (lambda: torch.ones(3, 4).to_sparse(), TypeError, "x must be a dense tensor, got layout torch.sparse_coo"),
        (lambda: torch.ones(3, 4, dtype=torch.bool), TypeError, "x must be float32 or .*, got bool"),
        (lambda: torch.ones(3, 4, dtype=torch.complex64), TypeError, "x must be float32 or .*, got complex64"),
        (lambda: torch.ones(2, 3, 4), ValueError, "x must have 1 or 2 dimensions, got 3"),
        (lambda: torch.tensor([[1.0], [float("nan")]]), ValueError, "x must be finite, got nan in row 1"),
    ],
)
def test_refused(x, error, text):
    for function in (
        lambda t: hv.clip(t, 1.0),
        lambda t: hv.clip_and_noise(t, 1.0, 1.0),
        lambda t: hv.privatize(t, epsilon=1.0),
        lambda t: hv.privatize(t, epsilon=1.0, normalize=True),
    ):
        with pytest.raises(error, match=text):
            function(x())


def test_out_of_another_kind_is_refused():
    with pytest.raises(TypeError, match="out must be of the kind of x, Tensor, got ndarray"):
        hv.clip(torch.ones(3, 4), 1.0, out=np.zeros((3, 4), np.float32))
    with pytest.raises(ValueError, match="out must not overlap itself"):
        hv.clip(torch.ones(3, 4), 1.0, out=torch.zeros(4).expand(3, 4))


def test_numpy_work_does_not_import_torch():
    code = (
        "import sys, numpy as np, hushvec as hv; hv.privatize(np.ones((2, 8), np.float32), epsilon=1.0); "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_negated_view_is_refused_before_the_budget_is_charged(normalize):
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ValueError, match="x must hold its own signs, got a negated view"):
        hv.privatize(torch._neg_view(torch.ones(2, 8)), epsilon=1.0, normalize=normalize, budget=budget)
    assert budget.consumed() == 0
