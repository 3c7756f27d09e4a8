"""Refusals with real memory on a device: one clear error; only NaN and Inf are found after the launch. Needs a device."""

import pytest

import hushvec as hv

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu

SENTINEL = 12345.0


def rows(shape=(4, 8), dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="cuda")


def writers(x, out):
    return [
        lambda: hv.clip(x, 1.0, out=out),
        lambda: hv.clip_and_noise(x, 1.0, 1.0, out=out),
        lambda: hv.clip_and_noise(x, 1.0, 1.0, exact=False, out=out),
    ]


@pytest.mark.parametrize(
    ("x", "out", "error", "text"),
    [
        (lambda: rows().T, lambda: rows((8, 4)), ValueError, r"x must be contiguous in row-major order, got strides \(1, 8\)"),
        (lambda: rows(), lambda: rows((8, 4)).T, ValueError, r"out must be contiguous in row-major order, got strides \(1, 4\)"),
        (lambda: rows((4, 16))[:, ::2], lambda: rows(), ValueError, "x must be contiguous in row-major order"),
        (lambda: rows(), lambda: rows().cpu(), ValueError, "out must be on cuda:0 like x, got cpu"),
        (lambda: rows().cpu(), lambda: rows(), ValueError, "out must be on cpu like x, got cuda:0"),
        (lambda: rows(), lambda: rows(dtype=torch.float16), TypeError, "out must be float32, got float16"),
        (lambda: rows(), lambda: rows((5, 8)), ValueError, r"out must have shape \(4, 8\), got \(5, 8\)"),
        (lambda: torch._neg_view(rows()), lambda: rows(), ValueError, "x must hold its own signs, got a negated view"),
        (lambda: rows().requires_grad_(True), lambda: rows(), ValueError, "x must not require grad"),
        (lambda: rows(()), lambda: rows(()), ValueError, "x must have 1 or 2 dimensions, got 0"),
        (lambda: rows((2, 3, 4)), lambda: rows((2, 3, 4)), ValueError, "x must have 1 or 2 dimensions, got 3"),
    ],
)
def test_nothing_is_written(x, out, error, text):
    x, out = x(), out().fill_(SENTINEL)
    for call in writers(x, out):
        with pytest.raises(error, match=text):
            call()
    torch.cuda.synchronize()
    assert (out == SENTINEL).all()


def test_overlap():
    memory = torch.arange(40.0, device="cuda")
    before = memory.clone()
    for call in writers(memory[:32].view(4, 8), memory[8:].view(4, 8)):
        with pytest.raises(ValueError, match="out must be x itself or not overlap it"):
            call()
    assert torch.equal(memory, before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("value", "printed"), [(float("nan"), "nan"), (float("inf"), "inf"), (-float("inf"), "-inf")])
@pytest.mark.parametrize("row", [0, 3])
def test_bad_rows_are_named(dtype, value, printed, row):
    x = rows(dtype=dtype)
    x[row:, 5] = value
    out = torch.full_like(x, SENTINEL)
    for call in (*writers(x, None), *writers(x, out), lambda: hv.privatize(x, epsilon=1.0), lambda: hv.privatize(x, epsilon=1.0, normalize=True)):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == f"x must be finite, got {printed} in row {row}"
    with pytest.raises(ValueError, match=f"x must be finite, got NaN or Inf in row {row}"):
        hv.clip_and_noise(x, 1.0, 1.0, out=x)


def test_out_holds_a_release_of_zero_rows_then():
    x, out = rows(), rows()
    x[2] = torch.inf
    with pytest.raises(ValueError, match="in row 2"):
        hv.clip(x, 1.0, out=out)
    assert (out[2] == 0).all() and (out[0] != 0).all()


def test_a_budget_is_not_charged_for_a_refused_release():
    class Budget:
        charges = 0

        def consume(self, epsilon, delta):
            self.charges += 1

    budget = Budget()
    bad = rows()
    bad[1] = torch.nan
    for x, mechanism in ((rows().T, "gaussian"), (bad, "privunit"), (bad, "gaussian")):
        with pytest.raises(ValueError):
            hv.privatize(x, epsilon=1.0, mechanism=mechanism, budget=budget)
    assert budget.charges == 0
