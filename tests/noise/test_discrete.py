"""Arguments of discrete noise, and what its samples do not depend on. Their values are checked in tests/evidence/exact."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import hushvec as hv

DRAWS = (hv.discrete_gaussian, hv.discrete_laplacian)
SCALES = (2.0**-6, 0.3, 4.0, 300.1, 3.2e5, 2.0**23)


def seeded(cipher="aes256"):
    return hv.Generator.unsafe_seeded(5, cipher=cipher)


def digests():
    """Of all that a program of its own prints, with one backend and one number of threads."""
    for draw in DRAWS:
        for cipher in ("aes256", "chacha20"):
            for scale in SCALES[1:]:
                yield hashlib.sha256(draw(600_001, scale, generator=seeded(cipher)).tobytes()).hexdigest()


@pytest.fixture(scope="module")
def plain():
    return list(digests())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_same_samples_everywhere(backend, threads, plain, request):
    printed = request.getfixturevalue("digests")(Path(__file__), backend, threads)
    assert len(set(plain)) == len(DRAWS) * 2 * (len(SCALES) - 1)
    assert printed == plain


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("scale", SCALES)
def test_a_sample_depends_on_its_position_alone(draw, scale):
    long = draw(3 * 2048 + 77, scale, generator=seeded())
    for count in (0, 1, 255, 256, 2048, 5000):
        np.testing.assert_array_equal(draw(count, scale, generator=seeded()), long[:count])
    np.testing.assert_array_equal(draw((7, 11, 13), scale, generator=seeded()).ravel(), long[:1001])
    narrow = draw(long.size, scale, dtype="int32", generator=seeded())
    assert narrow.dtype == np.int32
    np.testing.assert_array_equal(narrow, long)


@pytest.mark.parametrize("draw", DRAWS)
def test_out_is_filled(draw):
    for dtype in (np.int64, np.int32):
        out = np.zeros((40, 50), dtype)
        assert draw((40, 50), 9.0, out=out, generator=seeded()) is out
        np.testing.assert_array_equal(out, draw((40, 50), 9.0, dtype=dtype, generator=seeded()))
        tensor = torch.zeros(40, 50, dtype=getattr(torch, np.dtype(dtype).name))
        assert draw((40, 50), 9.0, out=tensor, generator=seeded()) is tensor
        np.testing.assert_array_equal(out, tensor.numpy())
    for dtype in (np.dtype("int32"), np.int32, "int32", torch.int32):
        assert draw(4, 1.0, dtype=dtype).dtype == np.int32


def test_calls_differ():
    assert (hv.discrete_gaussian(100, 1e6) != hv.discrete_gaussian(100, 1e6)).mean() > 0.9


READ_ONLY = np.zeros(4, np.int64)
READ_ONLY.flags.writeable = False
BAD = [
    ({"scale": 2.0**-7}, ValueError, "must be in [2^-6, 2^40], got 0.0078125"),
    ({"scale": 2.0**41}, ValueError, "must be in [2^-6, 2^40], got 2199023255552.0"),
    ({"scale": float("nan")}, ValueError, "nan"),
    ({"scale": "1"}, TypeError, "must be a number, got str"),
    ({"scale": 2.0**28, "dtype": "int32"}, ValueError, " for int32, got 268435456.0"),
    ({"scale": 2.0**28, "out": np.zeros(4, np.int32)}, ValueError, " for int32, got 268435456.0"),
    ({"shape": -1}, ValueError, "shape must be >= 0, got -1"),
    ({"shape": 1.5}, TypeError, "shape must be a whole number, got float"),
    ({"dtype": "float32"}, TypeError, "dtype must be int64 or int32, got 'float32'"),
    ({"dtype": None}, TypeError, "dtype must be int64 or int32, got None"),
    ({"out": [0, 0, 0, 0]}, TypeError, "out must be a numpy array, a torch tensor or a CuPy array, got list"),
    ({"out": np.zeros(4)}, TypeError, "out must be whole numbers, got float64"),
    ({"out": np.zeros(4, np.uint64)}, TypeError, "out must be int64 or int32, got uint64"),
    ({"out": np.zeros(8, np.int64)[::2]}, TypeError, "out must be contiguous, aligned and in native byte order, got one that is not"),
    ({"out": np.zeros(4, ">i8")}, TypeError, "out must be contiguous, aligned and in native byte order, got one that is not"),
    ({"out": torch.zeros(4)}, TypeError, "out must be whole numbers, got float32"),
    ({"out": torch.zeros(8, dtype=torch.int32)[::2]}, TypeError, "out must be contiguous"),
    ({"out": torch.zeros(4, dtype=torch.int64, device="meta")}, ValueError, "out must be on the CPU or a CUDA device, got meta"),
    ({"dtype": torch.float32}, TypeError, "dtype must be int64 or int32, got torch.float32"),
    ({"out": np.zeros(5, np.int64)}, ValueError, "out must have shape (4,), got (5,)"),
    ({"out": np.zeros(4, np.int64), "dtype": "int32"}, TypeError, "out must be int32, the dtype asked for, got int64"),
    ({"out": READ_ONLY}, ValueError, "out must be writable, got a read-only array"),
    ({"generator": 3}, TypeError, "generator must be a hushvec.Generator or None, got int"),
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("arguments", "error", "text"), BAD, ids=lambda value: value if isinstance(value, str) else "")
def test_bad_input(draw, arguments, error, text):
    arguments = {"shape": 4, "scale": 1.0, **arguments}
    with pytest.raises(error) as raised:
        draw(arguments.pop("shape"), arguments.pop("scale"), **arguments)
    assert text in str(raised.value)


def test_the_core_refuses_too(core):
    for scale, dtype in ((2.0**-7, np.int64), (2.0**41, np.int64), (2.0**28, np.int32), (float("nan"), np.int64)):
        with pytest.raises(ValueError, match="must be in"):
            core.fill_discrete(np.zeros(4, dtype), False, scale, seeded())
    with pytest.raises(TypeError, match="int64 or int32"):
        core.fill_discrete(np.zeros(4), False, 1.0, seeded())


if __name__ == "__main__":
    sys.stdout.writelines(f"{one}\n" for one in digests())
