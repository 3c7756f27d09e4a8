"""What a machine without a CUDA device sees: nothing at import, one clear error at the first call. Fake tensors stand in for CUDA ones."""

import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import arrays
from hushvec._native import cuda as dispatch
from hushvec._util import recording

torch = pytest.importorskip("torch")

no_device = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")


@pytest.fixture
def on_cuda(monkeypatch):
    """Makes tensors without memory that say they are on cuda:0, or another device.

    Calls under FakeTensorMode are refused before anything else (tests/_util/test_torch_recording.py), so that check is off here.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    from hushvec._util import torch_recording

    monkeypatch.setattr(arrays, "_is_fake", lambda x: False)
    monkeypatch.setattr(recording, "_recorder", lambda: None)
    monkeypatch.setattr(torch_recording, "keeps_operators", lambda: False)
    with FakeTensorMode():
        yield lambda *shape, **options: torch.empty(*shape, **{"device": "cuda:0", **options})


@pytest.fixture
def cupy(monkeypatch):
    """A module that looks like CuPy as far as checks go."""
    module = types.ModuleType("cupy")

    class ndarray:  # noqa: N801
        def __init__(self, shape=(2, 8), dtype="float32", device=0):
            self.shape, self.ndim, self.dtype = shape, len(shape), np.dtype(dtype)
            self.device = types.SimpleNamespace(id=device)

    module.ndarray = ndarray
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def calls(x):
    return {
        "clip": lambda: hv.clip(x, 1.0),
        "clip_and_noise": lambda: hv.clip_and_noise(x, 1.0, 1.0),
        "float grade": lambda: hv.clip_and_noise(x, 1.0, 1.0, exact=False),
        "privatize": lambda: hv.privatize(x, epsilon=1.0),
        "laplacian": lambda: hv.privatize(x, epsilon=1.0, mechanism="laplacian"),
        "empirical": lambda: hv.privatize(x, mechanism="empirical", sigma=1.0),
        "privunit": lambda: hv.privatize(x, epsilon=1.0, mechanism="privunit"),
    }


def test_import_loads_no_cuda_and_the_backend_loads_without_a_driver(cuda):
    code = "import sys, hushvec; assert 'hushvec._native._cuda' not in sys.modules; import hushvec._native._cuda; print(hushvec._native._cuda.__version__)"
    printed = subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, capture_output=True, text=True).stdout
    assert printed.strip() == hv.__version__


@no_device
@pytest.mark.parametrize("name", calls(None))
def test_no_driver_is_one_clear_error(cuda, on_cuda, name):
    with pytest.raises(RuntimeError, match=r"^the CUDA backend of hushvec needs an NVIDIA driver 5\d\d or newer \(CUDA 1\d\.\d\), found ") as caught:
        calls(on_cuda(2, 8))[name]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", calls(None))
def test_a_build_without_the_backend_says_so(monkeypatch, on_cuda, name):
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    with pytest.raises(RuntimeError, match="x is on cuda:0, but this build of hushvec has no CUDA backend: ") as caught:
        calls(on_cuda(2, 8))[name]()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("noise", [hv.gaussian_noise, hv.laplacian_noise])
def test_noise_without_the_backend(monkeypatch, on_cuda, noise):
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    for arguments in ({"like": on_cuda(1)}, {"out": on_cuda(2, 8)}):
        with pytest.raises(RuntimeError, match="out is on cuda:0, but this build"):
            noise((2, 8), **arguments)


@pytest.mark.parametrize("mechanism", ["gaussian", "l2_laplace", "privunit"])
def test_a_refused_release_is_not_charged(monkeypatch, on_cuda, mechanism):
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    charges = []
    budget = types.SimpleNamespace(consume=lambda *cost: charges.append(cost))
    with pytest.raises((RuntimeError, ValueError)):
        hv.privatize(on_cuda(2, 8), epsilon=1.0, budget=budget, mechanism=mechanism)
    assert charges == []


@pytest.mark.parametrize("law", ["gaussian", "l2_laplace"])
def test_the_law_decides_how_much_memory_a_call_takes(monkeypatch, cupy, law):
    sizes = {"gaussian": 64, "l2_laplace": 4096}
    used = []
    backend = types.ModuleType("hushvec._native._cuda")
    backend.__version__, backend.check_driver = hv.__version__, lambda: None
    backend.load_kernels = lambda index: None
    backend.write_state = lambda state, source, index, stream: None
    backend.workspace_bytes = lambda x, law="gaussian": sizes[law]
    backend.current_stream = lambda x, index: 7
    backend.is_capturing = lambda stream, index: False
    backend.fill = lambda out, law, scale, drawn, workspace, stream: used.append(workspace and workspace.shape)
    backend.clip_and_noise = lambda x, clip_norm, noise, out, drawn, law, exact, workspace, stream, whole: used.append(workspace.shape)
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    monkeypatch.setattr(dispatch, "new_array", lambda like, shape, dtype=None: cupy.ndarray(shape, dtype))
    monkeypatch.setattr(dispatch, "_states", {})
    x = cupy.ndarray()
    dispatch.fill(x, law, 1.0, hv.Generator())
    dispatch.clip_and_noise(x, 1.0, 1.0, x, hv.Generator(), law, False)
    assert used == [(4096,) if law == "l2_laplace" else None, (sizes[law],)]


MIXED = [
    (lambda make: {"device": "cpu"}, ValueError, "out must be on cuda:0 like x, got cpu"),
    (lambda make: {"device": "cuda:1"}, ValueError, "out must be on cuda:0 like x, got cuda:1"),
    (lambda make: {"dtype": torch.float16}, TypeError, "out must be float32, got float16"),
]


@pytest.mark.parametrize(("options", "error", "text"), MIXED, ids=[text for _, _, text in MIXED])
def test_outputs_that_do_not_fit(on_cuda, options, error, text):
    x = on_cuda(2, 8)
    out = on_cuda(2, 8, **options(on_cuda))
    for call in (lambda: hv.clip(x, 1.0, out=out), lambda: hv.clip_and_noise(x, 1.0, 1.0, out=out)):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"dtype": torch.int32}, TypeError, "x must be float32 or float64 or float16 or bfloat16, got int32"),
        ({"requires_grad": True}, ValueError, "x must not require grad"),
        ({"device": "meta"}, ValueError, "x must be on the CPU or a CUDA device, got meta"),
    ],
)
def test_tensors_that_are_refused(on_cuda, options, error, text):
    for call in calls(on_cuda(2, 8, **options)).values():
        with pytest.raises(error, match=text):
            call()


def test_another_number_of_dimensions(on_cuda):
    for shape in ((), (2, 3, 4)):
        with pytest.raises(ValueError, match=f"x must have 1 or 2 dimensions, got {len(shape)}"):
            hv.clip(on_cuda(shape), 1.0)


def test_cupy_arrays_are_told_from_the_others(monkeypatch, cupy, on_cuda):
    with pytest.raises(TypeError, match=r"out must be of the kind of x, FakeTensor, got cupy.ndarray"):
        hv.clip(on_cuda(2, 8), 1.0, out=cupy.ndarray())
    with pytest.raises(TypeError, match=r"out must be of the kind of x, ndarray, got cupy.ndarray"):
        hv.clip(np.ones((2, 8), np.float32), 1.0, out=cupy.ndarray())
    with pytest.raises(TypeError, match="x must be float32 or float64 or float16, got int32"):
        hv.clip(cupy.ndarray(dtype="int32"), 1.0)
    with pytest.raises(ValueError, match="out must be on cuda:0 like x, got cuda:1"):
        hv.clip(cupy.ndarray(), 1.0, out=cupy.ndarray(device=1))
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    with pytest.raises(RuntimeError, match="x is on cuda:0, but this build of hushvec has no CUDA backend"):
        hv.clip(cupy.ndarray(), 1.0, out=cupy.ndarray())


@pytest.mark.parametrize("capturing", [True, False])
def test_a_captured_graph_keeps_the_scratch_memory_of_cupy_calls(monkeypatch, cupy, capturing):
    """CuPy's pool would give it to the next array, and every replay writes to it; torch has pools of graphs."""

    class Scratch(cupy.ndarray):
        pass

    used = []
    backend = types.ModuleType("hushvec._native._cuda")
    backend.__version__, backend.check_driver = hv.__version__, lambda: None
    backend.workspace_bytes = lambda x, law: 4096
    backend.current_stream = lambda x, index: 7
    backend.is_capturing = lambda stream, index: capturing
    backend.clip = lambda x, clip_norm, out, workspace, stream: used.append(workspace)
    monkeypatch.setitem(sys.modules, backend.__name__, backend)
    monkeypatch.setattr(dispatch, "new_array", lambda like, shape, dtype=None: Scratch(shape, dtype))
    monkeypatch.setattr(dispatch, "_captured", kept := [])
    x = cupy.ndarray()
    dispatch.clip(x, 1.0, x)
    assert len(used) == 1 and used[0].shape == (4096,)
    assert [array is used[0] for array in kept] == ([True] if capturing else [])


def test_kernels_take_rows_in_order_where_there_is_a_backend(cuda, monkeypatch):
    x = torch.zeros(4, 8)
    monkeypatch.setattr(cuda, "check_driver", lambda: None)
    assert dispatch.takes(x) and dispatch.takes(x, x[1:])
    assert not dispatch.takes(x[:, :3]) and not dispatch.takes(x, x.T)

    def no_driver():
        raise RuntimeError("the CUDA backend needs a driver")

    monkeypatch.setattr(cuda, "check_driver", no_driver)
    assert not dispatch.takes(x)
    monkeypatch.setattr(cuda, "check_driver", lambda: None)
    monkeypatch.setattr(cuda, "__version__", "0.0.1")
    assert not dispatch.takes(x)
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    assert not dispatch.takes(x)


def test_backends_say_what_cuda_can_do(monkeypatch):
    usable = "available" if torch.cuda.is_available() else "built"
    assert hv.backends()["cuda"] in ("not built", usable)
    monkeypatch.setitem(sys.modules, "hushvec._native._cuda", None)
    assert hv.backends()["cuda"] == "not built"


def test_a_call_leaves_no_copy_of_its_key(cuda):
    program = Path(__file__).with_name("keys_in_memory.py")
    environment = {**os.environ, "PYTHONPATH": str(program.parents[2])}
    printed = subprocess.run([sys.executable, str(program)], env=environment, check=True, capture_output=True, text=True).stdout
    assert printed.split() == ["1", "0", "1"], "in the capsule, after it, and in an array"
