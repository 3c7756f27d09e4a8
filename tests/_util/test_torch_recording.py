"""Noise under everything of torch that records a program: refused, with nothing drawn, charged or left behind."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core

torch = pytest.importorskip("torch")

from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from hushvec._native import torch_ops  # noqa: E402
from hushvec._util import torch_recording  # noqa: E402
from hushvec.jobs import NoiseJob, noise_batch  # noqa: E402
from hushvec.training import DPOptimizer, clip_and_noise_gradients  # noqa: E402

REFUSED = "noise cannot be recorded into a program, which would repeat or lose it: got a call under "


class Charged(Exception):
    pass


class Budget:
    def consume(self, epsilon, delta):
        raise Charged


private = hv.wrap_embedding_model(
    lambda texts: np.ones((len(texts), 4), np.float32), hv.dp_embedding_middleware(epsilon=1.0, clip_norm=1.0, budget=Budget())
)
with pytest.raises(Charged):
    private.embed(["a", "b"])  # its plan is kept
job = NoiseJob.start(dimension=4, epsilon=1.0)


model = torch.nn.Linear(4, 1)


def trained(x):
    settings = dict(noise_multiplier=1.0, clip_norm=1.0, expected_batch_size=2, sampling_probability=0.1)
    optimizer = DPOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **settings)
    optimizer.empty_batch()
    optimizer.step()
    return x + model.weight

# What a program that is recorded would call; x has 4 columns.
DRAWS = {
    "gaussian_noise": lambda x: x + hv.gaussian_noise(x.shape, like=x),
    "gaussian_noise without x": lambda x: x + torch.from_numpy(hv.gaussian_noise(4)),
    "laplacian_noise": lambda x: hv.laplacian_noise((2, 4), like=x),
    "l2_laplace_noise": lambda x: hv.l2_laplace_noise((2, 4), like=x),
    "noise into out": lambda x: hv.gaussian_noise(x.shape, out=x),
    "clip_and_noise": lambda x: hv.clip_and_noise(x, 1.0, 0.5),
    "clip and Laplace noise": lambda x: hv.clip_and_noise(x, 1.0, scale=0.5),
    "privatize": lambda x: hv.privatize(x, epsilon=1.0, budget=Budget()).values,
    "clip_and_noise_gradients": lambda x: clip_and_noise_gradients(x, 1.0, 1.0),
    "noise_batch": lambda x: x + torch.from_numpy(noise_batch(np.ones((2, 4), np.float32), job)),
    "randomized_response": lambda x: x + hv.randomized_response(1, range(4), 1.0),
    "middleware": lambda x: x + torch.from_numpy(private.embed(["a", "b"])),
    "DPOptimizer": trained,
}


class Module(torch.nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        return self.draw(x)


def fake(draw, x):
    with FakeTensorMode() as mode:
        return draw(mode.from_tensor(x))


RECORDERS = {
    "torch.export": lambda draw, x: torch.export.export(Module(draw), (x,)),
    "torch.jit.trace": lambda draw, x: torch.jit.trace(draw, (x,)),
    "torch.fx.symbolic_trace": lambda draw, x: torch.fx.symbolic_trace(Module(draw)),
    "make_fx real": lambda draw, x: make_fx(draw)(x),
    "make_fx fake": lambda draw, x: make_fx(draw, tracing_mode="fake")(x),
    "make_fx symbolic": lambda draw, x: make_fx(draw, tracing_mode="symbolic")(x),
    "make_fx pre-dispatch": lambda draw, x: make_fx(draw, pre_dispatch=True)(x),
    "fake tensors": fake,
    "vmap": lambda draw, x: torch.vmap(draw)(x),
    "functionalize": lambda draw, x: torch.func.functionalize(draw)(x),
    "grad": lambda draw, x: torch.func.grad(lambda x: draw(x).sum())(x),
    "jvp": lambda draw, x: torch.func.jvp(draw, (x,), (x,)),
    "onnx by tracing": lambda draw, x: torch.onnx.export(Module(draw), (x,), io.BytesIO(), dynamo=False),
}


def next_nonce():
    return int(_core._state_words(_core.default_generator()._reserve())[4])


def draws_anew(program, *arguments):
    first, second = program(*arguments), program(*arguments)
    return bool(first.isfinite().all()) and not torch.equal(first, second)


@pytest.mark.filterwarnings("ignore")  # torch's, of what a trace fixes
@pytest.mark.parametrize("recorder", RECORDERS)
@pytest.mark.parametrize("draw", DRAWS)
def test_refused(draw, recorder):
    nonce = next_nonce()
    with pytest.raises(RuntimeError, match=REFUSED):
        RECORDERS[recorder](DRAWS[draw], torch.ones(2, 4))
    assert next_nonce() == nonce + 1


@pytest.mark.parametrize(
    "draw", ["gaussian_noise", "laplacian_noise", "l2_laplace_noise", "noise into out", "clip_and_noise", "privatize"]
)
def test_a_strict_export_is_refused(draw):
    nonce = next_nonce()
    with pytest.raises(Exception, match=REFUSED + "torch.export"):
        torch.export.export(Module(DRAWS[draw]), (torch.ones(2, 4),), strict=True)
    assert next_nonce() == nonce + 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recorder", ["torch.fx.symbolic_trace", "vmap", "functionalize", "grad", "jvp"])
def test_clip_is_refused(recorder):
    with pytest.raises(RuntimeError, match="clip cannot be recorded into a program"):
        RECORDERS[recorder](lambda x: hv.clip(x, 1.0), torch.ones(2, 4))


def test_clip_of_an_array_is_refused():
    """It would be a constant."""
    with pytest.raises(RuntimeError, match="clip cannot be recorded into a program"):
        RECORDERS["torch.export"](lambda x: x + torch.from_numpy(hv.clip(np.ones(4, np.float32), 1.0)), torch.ones(2, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recorder", ["torch.jit.trace", "make_fx real", "make_fx fake", "make_fx symbolic", "make_fx pre-dispatch"])
def test_a_recorded_clip_clips(recorder):
    program = RECORDERS[recorder](lambda x: hv.clip(x, 1.0), torch.zeros(2, 4))
    x = torch.full((2, 4), 3.0)
    assert torch.equal(program(x), hv.clip(x, 1.0))


def test_clip_of_fake_tensors_is_fake():
    result = RECORDERS["fake tensors"](lambda x: hv.clip(x.t(), 1.0), torch.ones(2, 4))
    assert type(result) is not torch.Tensor and result.shape == (4, 2) and result.is_contiguous()


@pytest.mark.filterwarnings("ignore")
def test_clip_is_not_exported_to_onnx():
    with pytest.raises(Exception, match="hushvec::clip"):
        RECORDERS["onnx by tracing"](lambda x: hv.clip(x, 1.0), torch.ones(2, 4))


def test_a_tensor_whose_mode_is_over_is_refused():
    x = FakeTensorMode().from_tensor(torch.ones(2, 4))
    for draw in ("clip_and_noise", "privatize"):
        with pytest.raises(RuntimeError, match=REFUSED + "FakeTensorMode"):
            DRAWS[draw](x)


def test_a_mode_that_only_watches_is_no_recorder():
    with FlopCounterMode(display=False):
        assert draws_anew(DRAWS["clip_and_noise"], torch.ones(2, 4))


def test_torch_compile_works_after_every_recorder():
    """Whatever was refused leaves nothing behind: no fake tensor, and the state of the process draws."""
    for record in (RECORDERS["torch.export"], RECORDERS["make_fx symbolic"], RECORDERS["fake tensors"], RECORDERS["functionalize"]):
        with pytest.raises(RuntimeError, match=REFUSED):
            record(DRAWS["clip_and_noise"], torch.ones(2, 4))
    assert type(torch_ops._default_state_on_cpu) is torch.Tensor
    assert draws_anew(torch.compile(DRAWS["clip_and_noise"], backend="aot_eager", fullgraph=True), torch.ones(2, 4))


def test_operators_are_not_imported_into_a_recording():
    code = (
        "import torch; from torch._subclasses.fake_tensor import FakeTensorMode\n"
        "try:\n"
        "    with FakeTensorMode(): import hushvec.integrations.torch_ops\n"
        "except RuntimeError as error: print(error)\n"
        "from hushvec.integrations.torch_ops import clip_and_noise, stream_state\n"
        "clip_and_noise(torch.ones(2, 4), 1.0, 0.5, True, stream_state())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("hushvec.integrations.torch_ops cannot be recorded into a program")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("recorder", RECORDERS)
def test_a_torch_without_the_private_functions_is_refused_all_the_same(recorder, monkeypatch):
    monkeypatch.setattr(torch_recording, "_modes", torch_recording._private("_gone", lambda: 1))
    monkeypatch.setattr(torch_recording, "_transform", torch_recording._private("_functorch.gone", lambda: 1))
    for draw in ("gaussian_noise without x", "privatize"):
        with pytest.raises(RuntimeError, match=REFUSED):
            RECORDERS[recorder](DRAWS[draw], torch.ones(2, 4))
    with FlopCounterMode(display=False):
        assert draws_anew(DRAWS["clip_and_noise"], torch.ones(2, 4))


# ---- the operators, which take their state as an argument ----


class Operator(torch.nn.Module):
    """Its state is a buffer: what is exported or saved would contain it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch_ops.stream_state())

    def forward(self, x):
        return torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, True, self.state)


@pytest.mark.parametrize("strict", [False, True])
def test_operators_are_not_exported(strict):
    with pytest.raises(Exception, match="noise cannot be recorded into a program"):
        torch.export.export(Operator(), (torch.ones(2, 4),), strict=strict)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "record",
    [lambda module: torch.jit.trace(module, torch.ones(2, 4), check_trace=False), torch.jit.script, torch.fx.symbolic_trace],
)
def test_a_program_that_calls_an_operator_draws_anew(record):
    assert draws_anew(record(Operator()), torch.ones(2, 4))


def test_a_saved_program_holds_no_key_and_draws_nothing_elsewhere(tmp_path):
    torch.jit.script(Operator()).save(str(tmp_path / "program"))
    code = (
        "import sys, torch, hushvec.integrations.torch_ops; program = torch.jit.load(sys.argv[1]); "
        "assert not program.state[:5].any(); program(torch.ones(2, 4))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "program")], capture_output=True, text=True)
    assert "state must come from stream_state in this process" in done.stderr


# ---- what torch.compile itself saves ----


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_a_compiled_program_draws_anew_without_compiling_again(compiler):
    counter = CompileCounterWithBackend(compiler)
    program = torch.compile(lambda x: hv.clip_and_noise(x, 1.0, 0.5), backend=counter, fullgraph=True, dynamic=True)
    for rows in (2, 3, 4):
        assert draws_anew(program, torch.ones(rows, 4))
    assert counter.frame_count == 1


COMPILED = """
import sys, torch, hushvec as hv, hushvec._native.torch_ops as ops
x = torch.zeros(2, 4)

def program(x):
    return hv.clip_and_noise(x, 1.0, 0.5), hv.gaussian_noise((2, 4), like=x)

compiled = [torch.compile(program, fullgraph=True)]
if hasattr(torch.compiler, "load_compiled_function"):
    if sys.argv[1] == "save":
        torch.compile(program, fullgraph=True).aot_compile(((x,), {})).save_compiled_function(sys.argv[2])
        assert ops._keyed_by_os not in open(sys.argv[2], "rb").read()
    compiled.append(torch.compiler.load_compiled_function(open(sys.argv[2], "rb")))
for one in compiled * 2:
    for noise in one(x):
        print(noise.tolist())
"""


@pytest.mark.full
def test_processes_with_one_saved_program_and_one_cache_draw_apart(tmp_path):
    outputs = []
    for step in ("save", "load"):
        command = [sys.executable, "-c", COMPILED, step, str(tmp_path / "program")]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
        outputs += subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()
    assert len(outputs) >= 8 and len(set(outputs)) == len(outputs)
