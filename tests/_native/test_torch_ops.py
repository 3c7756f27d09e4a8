"""The custom operators on the CPU: eager bits, and what torch.compile may not do to them."""

import copy
import io
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core

torch = pytest.importorskip("torch")

from hushvec._native import torch_ops  # noqa: E402
from hushvec._native.torch_ops import _source, traced_clip, traced_clip_and_noise  # noqa: E402
from hushvec.integrations.torch_ops import (  # noqa: E402
    clip,
    clip_,
    clip_and_laplacian_noise,
    clip_and_noise,
    clip_and_noise_,
    gaussian_noise_,
    laplacian_noise_,
    stream_state,
)

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
NONCE, ROUNDS = 4, 5


def some_rows(dtype=torch.float32):
    return torch.from_numpy(np.random.default_rng(0).standard_normal((6, 130))).to(dtype)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch.compiler.reset()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("exact", [True, False])
def test_bits_are_those_of_the_eager_functions(dtype, exact):
    x, state, generator = some_rows(dtype), stream_state(seed=7, rounds=12), hv.Generator.unsafe_seeded(7, rounds=12)
    for _ in range(3):
        expected = hv.clip_and_noise(x, 1.0, 0.5, exact=exact, generator=generator)
        assert torch.equal(torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, exact, state), expected)
        expected = hv.clip_and_noise(x, 1.0, scale=0.5, exact=exact, generator=generator)
        assert torch.equal(torch.ops.hushvec.clip_and_laplacian_noise(x, 1.0, 0.5, exact, state), expected)
    for fill, eager in ((gaussian_noise_, hv.gaussian_noise), (laplacian_noise_, hv.laplacian_noise)):
        out = torch.empty(6, 130, dtype=dtype)
        fill(out, 2.0, state)
        assert torch.equal(out, eager((6, 130), 2.0, like=x, generator=generator))
    assert state[NONCE] == 8


def layouts(dtype):
    """Rows as they come: in order, transposed, every other one, a run of columns, one row, none."""
    x = some_rows(dtype)
    return x, x.t(), x[::2], x[:, 3:90:2], x[4], x[:0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_is_the_eager_one_compiled(dtype):
    def program(x):
        return hv.clip(x + x, 1.5) * 2

    compiled = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=True)
    for x in layouts(dtype):
        assert torch.equal(compiled(x), program(x)), x.stride()


@pytest.mark.full   # a compiler runs
def test_clip_compiled_by_inductor():
    def program(x, clip_norm):
        return hv.clip(x + x, clip_norm) * 2, hv.clip(x.bfloat16(), clip_norm)

    compiled = torch.compile(program, fullgraph=True)
    for clip_norm in (1.0, 0.5):
        for ours, expected in zip(compiled(some_rows(), clip_norm), program(some_rows(), clip_norm)):
            assert torch.equal(ours, expected)


@pytest.mark.filterwarnings("ignore")  # torch's, of its own export
@pytest.mark.parametrize("strict", [False, True])
def test_an_exported_program_keeps_clip(strict, tmp_path):
    class Clipped(torch.nn.Module):
        def forward(self, x):
            return hv.clip(x, 1.0) + 1

    program = torch.export.export(Clipped(), (some_rows(),), dynamic_shapes=({0: torch.export.Dim("rows")},), strict=strict)
    torch.export.save(program.run_decompositions(), tmp_path / "clipped.pt2")
    loaded = torch.export.load(tmp_path / "clipped.pt2")
    assert [str(node.target) for node in loaded.graph.nodes].count("hushvec.clip.default") == 1
    x = torch.full((9, 130), 3.0)
    assert torch.equal(loaded.module()(x), Clipped()(x))
    with pytest.raises(ValueError, match="x must be finite, got inf in row 8"):
        loaded.module()(torch.cat([x[:8], torch.full((1, 130), float("inf"))]))


def test_a_state_holds_a_seed_but_no_key():
    seed = 2**255 + 12345
    seeded, keyed_by_os = stream_state(seed=seed, rounds=8), stream_state(rounds=12)
    assert seeded.numpy()[:4].tobytes() == seed.to_bytes(32, "little")
    assert seeded[NONCE] == 0 and seeded[ROUNDS] == 8
    assert not keyed_by_os[:ROUNDS].any() and keyed_by_os[ROUNDS] == 12
    assert not torch.equal(seeded[6:], keyed_by_os[6:])


def saved_and_loaded(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


@pytest.mark.parametrize("copied", [torch.clone, copy.copy, copy.deepcopy, saved_and_loaded])
def test_a_copy_of_a_state_never_repeats_its_noise(copied):
    state = stream_state()
    gaussian_noise_(torch.empty(4), 1.0, state)
    drawn = [torch.empty(4) for _ in range(4)]
    for out, source in zip(drawn, [state, copied(state)] * 2):
        gaussian_noise_(out, 1.0, source)
    assert all_different(drawn)


@pytest.mark.parametrize("seed", [None, pytest.param(3, marks=pytest.mark.full)])
def test_another_process_refuses_a_state(seed, tmp_path):
    torch.save(stream_state(seed=seed), tmp_path / "state")
    code = (
        "import sys, torch; from hushvec.integrations.torch_ops import clip_and_noise; "
        "clip_and_noise(torch.ones(2, 4), 1.0, 0.5, True, torch.load(sys.argv[1]))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "state")], capture_output=True, text=True)
    assert "RuntimeError: state must come from stream_state in this process" in done.stderr


def test_streams_apart_from_a_generator():
    """What a device counts by itself never meets what the generator hands out on the host."""
    generator = hv.Generator.unsafe_seeded(7)
    words = [_core._state_words(generator._apart(place)) for place in (0, 3)]
    assert [int(w[NONCE]) % 2**64 for w in words] == [2**63, 2**63 + (3 << 40)]
    assert all(w[:4].tobytes() == (7).to_bytes(32, "little") for w in words)
    assert int(_core._state_words(generator._reserve())[NONCE]) == 0
    keyed_by_os = hv.Generator()
    apart, own = _core._state_words(keyed_by_os._apart(0)), _core._state_words(keyed_by_os._reserve())
    assert (apart[:4] != own[:4]).all() and apart[NONCE] == own[NONCE] == 0


def test_a_compiled_program_draws_what_the_eager_one_draws():
    def program(x, state):
        first = torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, True, state)
        noise = torch.empty(5)
        torch.ops.hushvec.gaussian_noise_(noise, 1.0, state)
        second = torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, True, state)
        torch.ops.hushvec.laplacian_noise_(noise[:2], 1.0, state)
        return first, noise, second, torch.ops.hushvec.clip_and_laplacian_noise(x, 1.0, 0.5, True, state)

    x, eager_state, state = some_rows(), stream_state(seed=1), stream_state(seed=1)
    compiled = torch.compile(program, fullgraph=True)
    for calls in (5, 10):
        for ours, expected in zip(compiled(x, state), program(x, eager_state)):
            assert torch.equal(ours, expected)
        assert state[NONCE] == calls


def all_different(tensors):
    return all(not torch.equal(a, b) for i, a in enumerate(tensors) for b in tensors[:i])


@pytest.mark.parametrize(
    "call",
    [
        lambda x: hv.clip_and_noise(x, 1.0, 0.5),
        lambda x: hv.clip_and_noise(x, 1.0, 0.5, exact=False, out=torch.empty_like(x)),
        lambda x: hv.clip_and_noise(x, 1.0, scale=0.5),
        lambda x: hv.gaussian_noise(tuple(x.shape), 0.5, like=x),
        lambda x: hv.laplacian_noise((6, 130), 0.5, out=torch.empty(6, 130)),
    ],
)
def test_equal_calls_are_neither_merged_nor_replayed(call):
    """Two equal calls in one program, and two runs of it, have noise of their own: the public functions, without graph breaks."""
    compiled = torch.compile(lambda x: (call(x), call(x)), fullgraph=True)
    x = some_rows()
    assert all_different([*compiled(x), *compiled(x)])


def test_compiled_laplacian_noise_has_the_bits_of_the_eager_one(monkeypatch):
    """The public function, whose state is that of the process: a seeded one in its place shows the bits."""
    from hushvec._native import torch_ops

    monkeypatch.setattr(torch_ops, "_default_state_on_cpu", stream_state(seed=5))
    compiled = torch.compile(lambda x: hv.clip_and_noise(x, 1.0, scale=0.5), fullgraph=True, backend="aot_eager", dynamic=True)
    generator = hv.Generator.unsafe_seeded(5)
    for x in layouts(torch.float32)[:4]:
        assert torch.equal(compiled(x), hv.clip_and_noise(x, 1.0, scale=0.5, generator=generator))


def test_a_result_nobody_reads_still_uses_its_nonce():
    def program(x, state):
        torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, True, state)
        return torch.ops.hushvec.clip_and_noise(x, 1.0, 0.5, True, state)

    x, state = some_rows(), stream_state(seed=1)
    released = torch.compile(program, fullgraph=True)(x, state)
    assert state[NONCE] == 2
    generator = hv.Generator.unsafe_seeded(1)
    hv.clip_and_noise(x, 1.0, 0.5, generator=generator)
    assert torch.equal(released, hv.clip_and_noise(x, 1.0, 0.5, generator=generator))


def test_a_program_writes_the_callers_output():
    x, out = some_rows(), torch.zeros(6, 130)
    address = out.data_ptr()
    result = torch.compile(lambda x, out: hv.clip_and_noise(x, 1.0, 0.5, out=out), fullgraph=True)(x, out)
    assert out.data_ptr() == address
    assert torch.equal(result, out) and (out != 0).any()


WRITERS = {
    "clip": lambda x, out, **generator: hv.clip(x, 1.0, out=out),
    "gaussian": lambda x, out, **generator: hv.clip_and_noise(x, 1.0, 0.5, out=out, **generator),
    "laplacian": lambda x, out, **generator: hv.clip_and_noise(x, 1.0, scale=0.5, exact=False, out=out, **generator),
}


NIGHTLY = [pytest.param(name, "inductor", marks=pytest.mark.full) for name in WRITERS]   # a compiler runs


@pytest.mark.parametrize(("name", "compiler"), [("gaussian", "aot_eager"), *NIGHTLY])
def test_a_program_in_place_has_the_bits_of_eager_calls(name, compiler, monkeypatch):
    from hushvec._native import torch_ops

    monkeypatch.setattr(torch_ops, "_default_state_on_cpu", stream_state(seed=5))
    write, generator = WRITERS[name], {"generator": hv.Generator.unsafe_seeded(5)}
    compiled = torch.compile(lambda x, out: write(x, out), fullgraph=True, backend=compiler, dynamic=True)
    for x in layouts(torch.float32)[:5]:
        expected, given = write(x, None, **generator), x.clone()
        assert compiled(x, x) is x and torch.equal(x, expected), x.stride()
        expected, out = write(given, None, **generator), torch.zeros_like(given)
        assert compiled(given, out) is out and torch.equal(out, expected), x.stride()


def allocated(program, *arguments):
    """Bytes of every allocation that the second run of a program makes in CPU memory."""
    program(*arguments)
    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True)
    with profile:
        program(*arguments)
    return sum(max(0, event.self_cpu_memory_usage) for event in profile.events())


@pytest.mark.skipif(torch.__version__ < "2.13", reason="Inductor of torch 2.10 copies x for clip")
@pytest.mark.parametrize("name", WRITERS)
def test_a_compiled_program_makes_no_copy(name):
    """By the compiler that torch.compile uses unless told otherwise; "aot_eager" copies what any operator writes to."""
    write, x, out = WRITERS[name], torch.randn(64, 384), torch.empty(64, 384)
    assert allocated(torch.compile(lambda x: write(x, None), fullgraph=True), x) >= x.nbytes, "what is measured"
    assert allocated(torch.compile(lambda x: write(x, x), fullgraph=True), x) < 1024
    assert allocated(torch.compile(lambda x, out: write(x, out), fullgraph=True), x, out) < 1024


def test_a_compiled_program_works_on_what_it_made_in_place():
    compiled = torch.compile(lambda x: WRITERS["clip"](y := x + x, y) * 2, fullgraph=True)
    x = torch.randn(64, 384)
    assert torch.equal(compiled(x), hv.clip(x + x, 1.0) * 2)
    assert allocated(compiled, x) < 2 * x.nbytes  # y, and the result in its place or beside it


@pytest.mark.parametrize(
    ("out", "text"),
    [
        (torch.zeros(1, 130), r"out must have shape \(6, 130\), got \(1, 130\)"),  # which copy_ would fill
        (torch.zeros(6, 130, dtype=torch.float64), "out must be float32, got float64"),
        (torch.zeros(6, 130, requires_grad=True), "out must not require grad"),
    ],
)
@pytest.mark.parametrize("call", [lambda x, out: hv.clip(x, 1.0, out=out), lambda x, out: hv.clip_and_noise(x, 1.0, 1.0, out=out)])
def test_a_program_refuses_the_outputs_that_eager_calls_refuse(call, out, text):
    for run in (call, torch.compile(call, fullgraph=True, backend="eager")):
        with pytest.raises(Exception, match=text):
            run(some_rows(), out)
    assert not out.any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_torchs_own_checks_of_an_operator(dtype):
    x = some_rows(dtype)
    torch.library.opcheck(clip_and_noise, (x, 1.0, 0.5, True, stream_state(seed=1)))
    torch.library.opcheck(clip_and_laplacian_noise, (x, 1.0, 0.5, True, stream_state(seed=1)))
    torch.library.opcheck(clip, (x, 1.0))
    torch.library.opcheck(clip, (x.t()[::2], 1.0))
    for given in (None, x):
        torch.library.opcheck(clip_, (x.clone(), given, 1.0))
        torch.library.opcheck(clip_and_noise_, (x.clone(), given, 1.0, "gaussian", 0.5, True, stream_state(seed=1)))
    torch.library.opcheck(gaussian_noise_, (torch.empty_like(x), 0.5, stream_state(seed=1)))
    torch.library.opcheck(laplacian_noise_, (torch.empty_like(x), 0.5, stream_state(seed=1)))


def test_schemas():
    assert str(torch.ops.hushvec.clip_and_noise.default._schema) == (
        "hushvec::clip_and_noise(Tensor x, float clip_norm, float sigma, bool exact, Tensor(a4!) state) -> Tensor"
    )
    assert str(torch.ops.hushvec.clip_and_laplacian_noise.default._schema) == (
        "hushvec::clip_and_laplacian_noise(Tensor x, float clip_norm, float scale, bool exact, Tensor(a4!) state) -> Tensor"
    )
    assert str(torch.ops.hushvec.clip.default._schema) == "hushvec::clip(Tensor x, float clip_norm) -> Tensor"
    assert str(torch.ops.hushvec.clip_.default._schema) == "hushvec::clip_(Tensor(a0!) out, Tensor? x, float clip_norm) -> ()"
    assert str(torch.ops.hushvec.clip_and_noise_.default._schema) == (
        "hushvec::clip_and_noise_(Tensor(a0!) out, Tensor? x, float clip_norm, str law, float noise, bool exact, "
        "Tensor(a6!) state) -> ()"
    )
    assert str(torch.ops.hushvec.gaussian_noise_.default._schema) == (
        "hushvec::gaussian_noise_(Tensor(a0!) out, float sigma, Tensor(a2!) state) -> ()"
    )
    assert str(torch.ops.hushvec.laplacian_noise_.default._schema) == (
        "hushvec::laplacian_noise_(Tensor(a0!) out, float scale, Tensor(a2!) state) -> ()"
    )


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: clip_and_noise(torch.ones(3, 4, requires_grad=True), 1.0, 1.0, True, s), ValueError, "x must not require grad"),
        (lambda s: gaussian_noise_(torch.ones(3, requires_grad=True), 1.0, s), ValueError, "out must not require grad"),
        (lambda s: clip_and_noise(torch.ones(2, 3, 4), 1.0, 1.0, True, s), ValueError, "x must have 1 or 2 dimensions, got 3"),
        (lambda s: clip_and_noise(torch.ones(3, 4), 0.0, 1.0, True, s), ValueError, "clip_norm must be > 0, got 0.0"),
        (lambda s: clip_and_noise(torch.ones(3, 4), 1.0, 0.0, True, s), ValueError, "sigma must be > 0, got 0.0"),
        (lambda s: laplacian_noise_(torch.ones(3), -1.0, s), ValueError, "scale must be >= 0, got -1.0"),
        (lambda s: clip_and_laplacian_noise(torch.ones(3, 4), 1.0, 0.0, True, s), ValueError, "scale must be > 0, got 0.0"),
        (lambda s: clip(torch.ones(3, 4, requires_grad=True), 1.0), ValueError, "x must not require grad"),
        (lambda s: clip(torch.ones(3, 4).int(), 1.0), TypeError, "x must be float32 or .*, got int32"),
        (lambda s: clip(torch.ones(3, 4), -1.0), ValueError, "clip_norm must be > 0, got -1.0"),
        (lambda s: clip(torch.tensor([[1.0], [float("inf")]]), 1.0), ValueError, "x must be finite, got inf in row 1"),
        (
            lambda s: clip_and_noise(torch.tensor([[1.0], [float("nan")]]), 1.0, 1.0, True, s),
            ValueError,
            "x must be finite, got nan in row 1",
        ),
        (lambda s: clip_(torch.ones(2, 4), torch.ones(3, 4), 1.0), ValueError, r"out must have shape \(3, 4\), got \(2, 4\)"),
        (lambda s: clip_(torch.ones(3), torch.ones(3, dtype=torch.float64), 1.0), TypeError, "out must be float64, got float32"),
        (lambda s: clip_and_noise_(torch.ones(3), None, 1.0, "cauchy", 1.0, True, s), ValueError, "law must be .*, got 'cauchy'"),
        (lambda s: clip_and_noise_(torch.ones(3), None, 1.0, "laplacian", 0.0, True, s), ValueError, "scale must be > 0, got 0.0"),
        (lambda s: gaussian_noise_(torch.ones(3), 1.0, s[:5]), ValueError, r"state must be a tensor of 8 int64 words .*\(5,\)"),
        (lambda s: gaussian_noise_(torch.ones(3), 1.0, s.float()), ValueError, "state must be a tensor of 8 int64 words"),
        (lambda s: _source(s.to("meta"), "x", torch.ones(3)), ValueError, "state must be on cpu like x, got meta"),
        (lambda s: gaussian_noise_(torch.ones(3), 1.0, torch.ones_like(s)), RuntimeError, "state must come from stream_state"),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call(stream_state())


def test_refused_while_recorded():
    x, generator = some_rows(), hv.Generator()
    with pytest.raises(Exception, match=r"generator must be None under torch\.compile"):
        torch.compile(lambda x: hv.clip_and_noise(x, 1.0, 1.0, generator=generator), fullgraph=True)(x)
    with pytest.raises(Exception, match=r"x must not require grad"):
        torch.compile(lambda x: hv.clip_and_noise(x, 1.0, 1.0), fullgraph=True)(x.requires_grad_(True))
    with pytest.raises(Exception, match=r"x must not require grad"):
        torch.compile(lambda x: hv.clip(x, 1.0), fullgraph=True)(x.requires_grad_(True))
    with pytest.raises(Exception, match=r"sigma must be left out where scale is given"):
        torch.compile(lambda x: hv.clip_and_noise(x, 1.0, 1.0, scale=1.0), fullgraph=True)(x.detach())


@pytest.mark.parametrize("rounds", [7, 0])
def test_bad_states_are_not_made(rounds):
    with pytest.raises(ValueError, match=f"rounds must be 20, 12 or 8, got {rounds}"):
        stream_state(rounds=rounds)


def test_a_forked_child_has_streams_of_its_own():
    keyed_by_os, seeded = stream_state(), stream_state(seed=3)
    gaussian_noise_(torch.empty(4), 1.0, keyed_by_os)
    reader, writer = os.pipe()
    child = os.fork()
    out = torch.empty(4)
    if child == 0:
        try:
            gaussian_noise_(torch.empty(4), 1.0, seeded)
        except RuntimeError as error:
            gaussian_noise_(out, 1.0, keyed_by_os)
            os.write(writer, out.numpy().tobytes() + str(error).encode())
        os._exit(0)
    gaussian_noise_(out, 1.0, keyed_by_os)
    report = os.read(reader, 1000)
    os.waitpid(child, 0)
    assert report[16:].startswith(b"state must come from stream_state in this process")
    assert len(report) > 16 and report[:16] != out.numpy().tobytes()
    gaussian_noise_(out, 1.0, seeded)


def test_eager_work_loads_no_operators():
    code = (
        "import sys, torch, hushvec as hv; hv.clip_and_noise(torch.ones(2, 8), 1.0, 1.0); hv.gaussian_noise(3, like=torch.ones(1)); "
        "assert 'hushvec._native.torch_ops' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


IN_PLACE = {
    "gaussian_noise_": lambda x, state: gaussian_noise_(x, 1.0, state),
    "laplacian_noise_": lambda x, state: laplacian_noise_(x, 1.0, state),
    "clip_and_noise_": lambda x, state: clip_and_noise_(x, None, 1.0, "gaussian", 1.0, True, state),
    "clip_": lambda x, state: clip_(x, None, 1.0),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_a_recorder_knows_what_an_operator_in_place_returns(name):
    """Nothing: tensors without memory go through, and nothing is drawn."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    state = stream_state(seed=1)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert IN_PLACE[name](torch.ones(3, 4), mode.from_tensor(state)) is None
    assert state[NONCE] == stream_state(seed=1)[NONCE]


@pytest.mark.parametrize("in_place", [True, False])
def test_what_clip_becomes_in_a_program_clips_what_it_is_given(in_place):
    x = some_rows()
    wanted, out = hv.clip(x, 1.0), x if in_place else torch.zeros_like(x)
    assert traced_clip(x, 1.0, out) is out and torch.equal(out, wanted)
    assert torch.equal(traced_clip(some_rows(), 1.0, None), wanted)


@pytest.mark.parametrize("law", ["gaussian", "laplacian"])
@pytest.mark.parametrize("in_place", [True, False])
def test_what_noise_becomes_in_a_program_starts_from_what_it_is_given(law, in_place):
    x = some_rows()
    clipped, out = hv.clip(x, 1.0), x if in_place else torch.zeros_like(x)
    assert traced_clip_and_noise(x, 1.0, law, 2.0**-6, False, out, None) is out
    assert 0.001 < float((out - clipped).abs().mean()) < 0.05
    new = traced_clip_and_noise(some_rows(), 1.0, law, 2.0**-6, False, None, None)
    assert 0.001 < float((new - clipped).abs().mean()) < 0.05


@pytest.mark.parametrize(
    "change",
    [lambda state: state.int(), lambda state: state.reshape(2, 4), lambda state: torch.stack([state, state], 1)[:, 0]],
    ids=["dtype", "shape", "gaps"],
)
def test_a_state_has_one_form(change):
    with pytest.raises(ValueError, match=r"^state must be a tensor of 8 int64 words \(stream_state\), got torch\.int\d\d \("):
        _source(change(stream_state()), "x", torch.ones(3))


class OnDevice:
    """A state in CUDA memory, as far as the choice of a source looks at it."""

    dtype, shape, device = torch.int64, (8,), SimpleNamespace(type="cuda")

    def is_contiguous(self):
        return True

    def data_ptr(self):
        return -1

    def __getitem__(self, place):
        return "its words", place


def test_a_state_on_a_device_is_a_generator_with_a_key_or_the_words_of_a_seed(monkeypatch):
    for kept, source in [("a generator", "a generator"), (None, ("its words", slice(None, 6)))]:
        monkeypatch.setitem(torch_ops._on_device, -1, kept)
        assert _source(OnDevice(), "x", OnDevice()) == source
    monkeypatch.delitem(torch_ops._on_device, -1)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match=r"^state must be the tensor that stream_state returned while .* got a copy$"):
        _source(OnDevice(), "x", OnDevice())


@pytest.mark.parametrize("name", IN_PLACE)
def test_an_export_refuses_noise_in_place_and_keeps_clip(monkeypatch, name):
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(torch_ops, "is_exporting", lambda: True)
    state = stream_state(seed=1)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        call = lambda: IN_PLACE[name](torch.ones(3, 4), mode.from_tensor(state))
        if name == "clip_":
            assert call() is None
        else:
            with pytest.raises(RuntimeError, match=r"torch\.export"):
                call()
