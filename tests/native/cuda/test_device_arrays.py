"""How arrays on a device are read, by all three protocols, and what is refused before anything is launched. Needs no device."""

import numpy as np
import pytest
from native.cuda.fake_arrays import ARENA, CPU, CUDA, Interface, OldExporter, OnDevice, Versioned, workspace

import hushvec as hv

torch = pytest.importorskip("torch")

FLOAT, BFLOAT = 2, 4


@pytest.mark.parametrize(
    ("dtype", "code", "bits"),
    [(torch.float32, FLOAT, 32), (torch.float64, FLOAT, 64), (torch.float16, FLOAT, 16), (torch.bfloat16, BFLOAT, 16), (torch.int64, 0, 64)],
)
def test_a_tensor_through_the_exchange_table(cuda, dtype, code, bits):
    x = torch.zeros(6, 10, dtype=dtype)[1:, 2:8:2]
    assert cuda._testing.describe(x) == {
        "way": "exchange table",
        "data": x.data_ptr(),
        "dtype": (code, bits, 1),
        "shape": (5, 3),
        "strides": (10, 2),
        "device": (CPU, 0),
        "writable": True,
    }


def test_a_tensor_subclass_has_the_table_of_its_base(cuda):
    class Mine(torch.Tensor):
        pass

    x = torch.zeros(3).as_subclass(Mine)
    assert cuda._testing.describe(x)["data"] == x.data_ptr()


@pytest.mark.parametrize("writable", [True, False])
def test_a_versioned_capsule(cuda, writable):
    x = np.zeros((3, 4), np.float32).T
    x.flags.writeable = writable
    found = cuda._testing.describe(Versioned(x))
    assert found == {
        "way": "versioned capsule",
        "data": x.ctypes.data,
        "dtype": (FLOAT, 32, 1),
        "shape": (4, 3),
        "strides": (1, 4),
        "device": (CPU, 0),
        "writable": writable,
    }


@pytest.mark.parametrize("kind", [OnDevice, OldExporter])
def test_a_capsule_is_read_and_freed(cuda, kind):
    x = kind((4, 8), offset=64, device=3)
    assert cuda._testing.describe(x) == {
        "way": "capsule",
        "data": ARENA.ctypes.data + 64,
        "dtype": (FLOAT, 32, 1),
        "shape": (4, 8),
        "strides": (8, 1),
        "device": (CUDA, 3),
        "writable": True,
    }
    assert x.live == 0


def test_the_cuda_array_interface(cuda):
    x = Interface((2, 3), "<f8", strides=(64, 16), read_only=True, address=4096)
    assert cuda._testing.describe(x) == {
        "way": "CUDA array interface",
        "data": 4096,
        "dtype": (FLOAT, 64, 1),
        "shape": (2, 3),
        "strides": (8, 2),
        "device": None,
        "writable": False,
    }
    assert cuda._testing.describe(Interface((2, 3), address=4096))["strides"] == (3, 1)


BAD_X = [
    (np.zeros((4, 8), np.float32), ValueError, "x must be in CUDA memory, got the CPU"),
    (torch.zeros(4, 8), ValueError, "x must be in CUDA memory, got the CPU"),
    ([1.0], TypeError, "x must be an array in CUDA memory (DLPack or __cuda_array_interface__), got list"),
    (OnDevice((2, 3, 4)), ValueError, "x must have 1 or 2 dimensions, got 3"),
    (OnDevice(()), ValueError, "x must have 1 or 2 dimensions, got 0"),
    (OnDevice((4, 8), (1, 4)), ValueError, "x must be contiguous in row-major order, got strides (1, 4)"),
    (OnDevice((4, 8), (16, 1)), ValueError, "x must be contiguous in row-major order, got strides (16, 1)"),
    (OnDevice((4, 8), (0, 1)), ValueError, "x must be contiguous in row-major order, got strides (0, 1)"),
    (OnDevice((4, 8), offset=2), ValueError, "x must be aligned to its elements, got an odd address"),
    (OnDevice(code=0), TypeError, "x must have dtype float32, float64, float16 or bfloat16, got float32"),
    (OnDevice(lanes=2), TypeError, "x must have dtype float32, float64, float16 or bfloat16, got float32"),
    (OnDevice(data=None), ValueError, "x must have memory of its own, got a tensor without"),
    (OnDevice(device_type=10), ValueError, "x must be in CUDA memory, got DLPack device type 10"),
    (Interface(()), ValueError, "x must have 1 or 2 dimensions, got 0"),
    (Interface((2, 3, 4)), ValueError, "x must have 1 or 2 dimensions, got 3"),
    (Interface(typestr="<i4"), TypeError, "x must have dtype float32, float64, float16 or bfloat16, got another"),
    (Interface(typestr=">f4"), TypeError, "x must have dtype float32, float64, float16 or bfloat16, got >f4"),
    (Interface(typestr="<V2"), TypeError, "x must have dtype float32, float64, float16 or bfloat16, got <V2"),
    (Interface(strides=(4, 16)), ValueError, "x must be contiguous in row-major order, got strides (1, 4)"),
    (Interface(strides=(32, 3)), ValueError, "x must have strides of whole elements, got (32, 3)"),
    (Interface(mask=object()), TypeError, "x must be a plain array, got one with a mask"),
]


@pytest.mark.parametrize(("x", "error", "text"), BAD_X, ids=[f"{type(x).__name__}: {text}" for x, _, text in BAD_X])
def test_bad_input(cuda, x, error, text):
    stream = hv.Generator()._reserve_for_device()
    for call in (
        lambda: cuda.clip(x, 1.0, OnDevice(), workspace(), 0),
        lambda: cuda.clip_and_noise(x, 1.0, 1.0, OnDevice(), stream, "gaussian", True, workspace(), 0),
        lambda: cuda.workspace_bytes(x),
        lambda: cuda.find_bad_row(x, workspace(), 0),
        lambda: cuda.unit_rows(x, OnDevice(), workspace(), 0),
        lambda: cuda.unit_rows(x, OnDevice(), None, 0),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text
    with pytest.raises(error) as caught:
        cuda.fill(x, "gaussian", 1.0, stream, None, 0)
    assert str(caught.value) == text.replace("x must", "out must")


X = OnDevice()
BAD_OUT = [
    (OnDevice((8, 4)), ValueError, "out must have shape (4, 8) like x, got (8, 4)"),
    (OnDevice(dtype="bfloat16"), TypeError, "out must have dtype float32 like x, got bfloat16"),
    (OnDevice(device=1), ValueError, "out must be on cuda:0 like x, got cuda:1"),
    (OnDevice(offset=32), ValueError, "out must be x itself or not overlap it, got a partial overlap"),
    (Interface(read_only=True), ValueError, "out must be writable, got a read-only array"),
    (torch.zeros(4, 8), ValueError, "out must be in CUDA memory, got the CPU"),
]


@pytest.mark.parametrize(("out", "error", "text"), BAD_OUT, ids=[text for _, _, text in BAD_OUT])
def test_bad_output(cuda, out, error, text):
    for call in (
        lambda: cuda.clip(X, 1.0, out, workspace(), 0),
        lambda: cuda.unit_rows(X, out, workspace(), 0),
        lambda: cuda.unit_rows(X, out, None, 0),
    ):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


def test_l2_laplace_needs_a_workspace_with_room_for_its_normals(cuda):
    stream, needed = hv.Generator()._reserve_for_device(), cuda.workspace_bytes(X, "l2_laplace")
    assert needed >= cuda.workspace_bytes(X) + 4 * 32 + 8 * 4   # normals, and a factor for each row
    assert cuda.workspace_bytes(OnDevice(dtype="float64"), "l2_laplace") - cuda.workspace_bytes(OnDevice(dtype="float64")) >= 8 * 32 + 8 * 4
    short = OnDevice((cuda.workspace_bytes(X) // 4,), offset=1 << 15)
    for call in (
        lambda: cuda.fill(X, "l2_laplace", 1.0, stream, short, 0),
        lambda: cuda.clip_and_noise(X, 1.0, 1.0, X, stream, "l2_laplace", False, short, 0),
    ):
        with pytest.raises(ValueError, match=f"workspace must be contiguous and have {needed} bytes, got {cuda.workspace_bytes(X) // 4 * 4}"):
            call()


def test_bad_workspace_and_state(cuda):
    with pytest.raises(ValueError, match=r"workspace must be contiguous and have \d+ bytes, got 4"):
        cuda.clip(X, 1.0, X, workspace(1), 0)
    for call in (lambda memory: cuda.find_bad_row(X, memory, 0), lambda memory: cuda.unit_rows(X, X, memory, 0)):
        with pytest.raises(ValueError, match=f"workspace must be contiguous and have {cuda.report_bytes()} bytes, got 4"):
            call(workspace(1))
    for call in (
        lambda memory: cuda.clip(X, 1.0, X, memory, 0),
        lambda memory: cuda.find_bad_row(X, memory, 0),
        lambda memory: cuda.unit_rows(X, X, memory, 0),
    ):
        with pytest.raises(ValueError, match="workspace must be on cuda:0 like the array, got cuda:1"):
            call(OnDevice((1 << 14,), device=1))
    with pytest.raises(ValueError, match="state must be contiguous and have 48 bytes, got 40"):
        cuda.fill(X, "gaussian", 1.0, OnDevice((5,), dtype="float64"), None, 0)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda cuda, s: cuda.clip(X, 0.0, X, workspace(), 0), "clip_norm must be > 0, got 0"),
        (lambda cuda, s: cuda.fill(X, "gaussian", -1.0, s, None, 0), "sigma must be >= 0, got -1"),
        (lambda cuda, s: cuda.fill(X, "laplacian", 2e30, s, None, 0), "scale must be <= 2^100, got 2e+30"),
        (lambda cuda, s: cuda.fill(X, "l2_laplace", -1.0, s, workspace(), 0), "scale must be >= 0, got -1"),
        (lambda cuda, s: cuda.fill(X, "privunit", 1.0, s, None, 0), "law must be gaussian, laplacian or l2_laplace on CUDA, got privunit"),
        (
            lambda cuda, s: cuda.clip_and_noise(X, 1.0, 1.0, X, s, "l2_laplace", True, workspace(), 0),
            "exact must be False for law l2_laplace, got True",
        ),
        (
            lambda cuda, s: cuda.clip_and_noise(X, 1.0, 1e-10, X, s, "gaussian", True, workspace(), 0),
            "clip_norm / sigma must be <= 2^30, got 1e+10",
        ),
    ],
)
def test_bad_parameters(cuda, call, text):
    with pytest.raises(ValueError) as caught:
        call(cuda, hv.Generator()._reserve_for_device())
    assert str(caught.value) == text


def test_a_stream_of_aes_is_refused(cuda):
    stream = hv.Generator.unsafe_seeded(1, cipher="aes256")._reserve()
    with pytest.raises(ValueError) as caught:
        cuda.fill(OnDevice(), "gaussian", 1.0, stream, None, 0)
    assert str(caught.value) == "source must be a stream of ChaCha on a device, got one of aes256"


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda cuda: cuda.sum_scales([], 1.0, workspace(), 0), ValueError, "parts must hold at least one array, got none"),
        (
            lambda cuda: cuda.sum_scales([OnDevice((4, 8)), OnDevice((3, 8))], 1.0, workspace(), 0),
            ValueError,
            "parts must have the same number of rows",
        ),
        (
            lambda cuda: cuda.sum_scales([OnDevice((4, 8)), OnDevice((4, 8), device=1)], 1.0, workspace(), 0),
            ValueError,
            "parts must be on one device",
        ),
        (
            lambda cuda: cuda.add_to_sum(OnDevice((4, 8)), workspace(), OnDevice((4,), dtype="float64"), 0),
            ValueError,
            "sums must have shape (8,), got (4,)",
        ),
        (
            lambda cuda: cuda.add_to_sum(OnDevice((4, 8)), workspace(), OnDevice((8,)), 0),
            TypeError,
            "sums must have dtype float64, got float32",
        ),
        (lambda cuda: released(cuda, OnDevice((8,))), ValueError, "out must have 2 arrays, got 1"),
        (lambda cuda: cuda.release_sums([], 1.0, 1.0, [], None, workspace(), 0), ValueError, "sums must hold at least one array, got none"),
        (
            lambda cuda: released(cuda, OnDevice((8,)), OnDevice((5,), dtype="float16")),
            TypeError,
            "out[1] must have dtype float32, got float16",
        ),
        (lambda cuda: released(cuda, OnDevice((8,)), OnDevice((8,))), ValueError, "out[1] must have shape (5,), got (8,)"),
        (lambda cuda: released(cuda, OnDevice((8,), device=1), OnDevice((5,))), ValueError, "out[0] must be on the device of the sum"),
    ],
)
def test_bad_arguments_of_a_sum(cuda, call, kind, text):
    with pytest.raises(kind) as caught:
        call(cuda)
    assert str(caught.value) == text


def released(cuda, *out):
    source = hv.Generator()._reserve_for_device(2)
    sums = [OnDevice((length,), dtype="float64") for length in (8, 5)]
    cuda.release_sums(sums, 1.0, 1.0, out, source, workspace(), 0)


def test_the_most_rows_of_a_sum(cuda):
    """2^21 grids, which are a 64th to a 128th of sigma, over clip_norm."""
    assert cuda.most_rows_of_sum(1.0, 0.0) == 2**27
    assert cuda.most_rows_of_sum(1.0, 2.0**-12) == 8
    assert cuda.most_rows_of_sum(1.0, 1.0) == 2**15
