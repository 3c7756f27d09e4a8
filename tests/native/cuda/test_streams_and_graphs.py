"""On the caller's stream, on the array's device, and in captured graphs: each replay draws anew. Needs a device."""

import pytest

import hushvec as hv
from hushvec._native import _core, rowwise
from hushvec._native import cuda as dispatch
from hushvec.mechanisms import L2Laplace

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.gpu


def rows(shape=(64, 384)):
    return torch.randn(shape, device="cuda")


def test_the_current_stream_is_used(cuda):
    x = rows()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        assert cuda.current_stream(x, 0) == side.cuda_stream
    assert cuda.current_stream(x, 0) == torch.cuda.current_stream().cuda_stream


def test_work_waits_for_what_the_stream_did_before():
    """The input is still being written on the stream when the call is made; on another stream it would be read too early."""
    side = torch.cuda.Stream()
    source = rows((1 << 14, 1024))
    expected = hv.clip(source, 1.0)
    torch.cuda.synchronize()
    for _ in range(5):
        with torch.cuda.stream(side):
            x = torch.zeros_like(source)
            torch.cuda._sleep(20_000_000)
            x.copy_(source)
            clipped = hv.clip(x, 1.0)
        side.synchronize()
        assert torch.equal(clipped, expected)


def test_a_search_waits_for_what_the_stream_did_before():
    side = torch.cuda.Stream()
    source = rows((1 << 14, 1024))
    source[12_345, 1023] = torch.nan
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        x = torch.zeros_like(source)
        torch.cuda._sleep(20_000_000)
        x.copy_(source)
        assert rowwise.first_nonfinite_row(x) == 12_345
        with pytest.raises(ValueError, match="got nan in row 12345"):
            rowwise.checked_unit_rows("x", x, torch.empty_like(x))


def test_rows_are_not_checked_in_a_capture():
    x = rows()
    for call in (rowwise.first_nonfinite_row, lambda x: rowwise.checked_unit_rows("x", x, torch.empty_like(x))):
        call(x)
        with pytest.raises(RuntimeError, match="rows cannot be checked for NaN and Inf in a CUDA graph capture"):
            captured(lambda call=call: call(x))


def test_another_device():
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices, this machine has one")
    x = rows().to("cuda:1")
    generator, same = hv.Generator.unsafe_seeded(1), hv.Generator.unsafe_seeded(1)
    released = hv.clip_and_noise(x, 1.0, 0.5, generator=generator)
    assert released.device == x.device and torch.cuda.current_device() == 0
    assert torch.equal(released.cpu(), hv.clip_and_noise(x.cpu(), 1.0, 0.5, generator=same))
    with pytest.raises(ValueError, match="out must be on cuda:1 like x, got cuda:0"):
        hv.clip(x, 1.0, out=torch.empty_like(x, device="cuda:0"))


def captured(call):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.zeros(1, device="cuda")  # torch warns of an empty graph, which a refused call would leave; memory of the graph's own
        result = call()
    return graph, result


def all_different(tensors):
    return all(not torch.equal(a, b) for i, a in enumerate(tensors) for b in tensors[:i])


@pytest.mark.parametrize(
    "call",
    [
        lambda x, generator: hv.clip_and_noise(x, 1.0, 0.5, generator=generator),
        lambda x, generator: hv.clip_and_noise(x, 1.0, 0.5, exact=False, generator=generator),
        lambda x, generator: hv.gaussian_noise((64, 384), like=x, generator=generator),
        lambda x, generator: hv.laplacian_noise((64, 384), like=x, generator=generator),
        lambda x, generator: hv.l2_laplace_noise((64, 384), like=x, generator=generator),
        lambda x, generator: L2Laplace(epsilon=8.0, dimension=384).apply(x, None, generator),
    ],
)
@pytest.mark.parametrize("make", [hv.Generator, lambda: hv.Generator.unsafe_seeded(5)])
def test_every_replay_and_every_call_in_a_graph_draws_anew(call, make):
    x, generator = rows(), make()
    seen = [call(x, generator)]
    graph, (first, second) = captured(lambda: (call(x, generator), call(x, generator)))
    for _ in range(3):
        graph.replay()
        torch.cuda.synchronize()
        seen += [first.clone(), second.clone()]
        seen.append(call(x, generator))
    assert all_different(seen)


def test_a_graph_that_cupy_captured():
    cupy = pytest.importorskip("cupy")
    x, generator = cupy.asarray(rows().cpu().numpy()), hv.Generator()
    seen = [hv.clip_and_noise(x, 1.0, 0.5, generator=generator)]
    out, stream = cupy.empty_like(x), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        hv.clip_and_noise(x, 1.0, 0.5, out=out, generator=generator)
        graph = stream.end_capture()
        # Whoever gets the memory that the call had no longer needs it back: the graph writes to its own.
        others = [cupy.zeros(1 << size, "uint8") for size in range(10, 22)]
        for _ in range(3):
            graph.launch(stream)
            stream.synchronize()
            seen.append(out.copy())
        stream.synchronize()
    assert all(not bool(other.any()) for other in others)
    assert all(not bool((a == b).all()) for i, a in enumerate(seen) for b in seen[:i])


def test_a_replay_is_the_exact_release_of_the_nonce_on_the_device():
    x, generator = rows(), hv.Generator.unsafe_seeded(5)
    hv.clip_and_noise(x, 1.0, 0.5, generator=generator)
    graph, result = captured(lambda: hv.clip_and_noise(x, 1.0, 0.5, generator=generator))
    state = torch.from_numpy(_core._state_words(generator._apart(0)))
    expected = torch.empty_like(x, device="cpu")
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        stream = _core._take_from_state(state.numpy())
        _core.clip_and_noise(x.cpu(), 1.0, 0.5, expected, stream, "gaussian", True)
        assert torch.equal(result.cpu(), expected)


def test_a_captured_generator_may_go():
    x, generator = rows(), hv.Generator()
    hv.clip_and_noise(x, 1.0, 0.5, generator=generator)
    graph, result = captured(lambda: hv.clip_and_noise(x, 1.0, 0.5, generator=generator))
    graph.replay()
    first = result.clone()
    del generator
    filler = [torch.full((6,), 7, dtype=torch.int64, device="cuda") for _ in range(100)]  # would lie where the state was
    graph.replay()
    assert not torch.equal(result, first)
    assert all((words == 7).all() for words in filler)


def test_a_generator_that_was_not_used_before(monkeypatch):
    monkeypatch.setattr(dispatch, "_states", {})
    x, generator = rows(), hv.Generator()
    hv.clip(x, 1.0)
    with pytest.raises(RuntimeError, match="generator must have been used on cuda:0 before a graph is captured"):
        captured(lambda: hv.clip_and_noise(x, 1.0, 0.5, generator=generator))


def test_bad_rows_are_zero_rows_in_a_graph():
    x, generator = rows(), hv.Generator.unsafe_seeded(5)
    hv.clip_and_noise(x, 1.0, 0.5, generator=generator)
    x[3] = torch.nan
    graph, (clipped, noisy) = captured(lambda: (hv.clip(x, 1.0), hv.clip_and_noise(x, 1.0, 0.5, generator=generator)))
    graph.replay()
    torch.cuda.synchronize()
    assert (clipped[3] == 0).all() and noisy.isfinite().all()


def test_a_release_is_not_captured():
    x = rows()
    hv.privatize(x, epsilon=1.0)
    with pytest.raises(RuntimeError, match="privatize cannot be captured"):
        captured(lambda: hv.privatize(x, epsilon=1.0))


def test_the_operators_draw_from_their_state():
    from hushvec.integrations.torch_ops import clip_and_noise, gaussian_noise_, stream_state

    x, state, host_state = rows(), stream_state("cuda", seed=3), stream_state(seed=3)
    for nonce in range(1, 3):
        assert torch.equal(clip_and_noise(x, 1.0, 0.5, True, state).cpu(), clip_and_noise(x.cpu(), 1.0, 0.5, True, host_state))
        assert state[4] == nonce
    gaussian_noise_(torch.empty(5, device="cuda"), 1.0, state)
    assert state[4] == 3
    with pytest.raises(ValueError, match="state must be on cuda:0 like x, got cpu"):
        clip_and_noise(x, 1.0, 0.5, True, host_state)


def test_a_state_and_its_copies_draw_apart_and_a_graph_needs_the_state_itself():
    from hushvec.integrations.torch_ops import clip_and_noise, stream_state

    x, state = rows(), stream_state("cuda")
    copy = state.clone()
    assert not state[:5].any()
    graph, result = captured(lambda: clip_and_noise(x, 1.0, 0.5, True, state))
    seen = []
    for _ in range(2):
        graph.replay()
        torch.cuda.synchronize()
        seen += [result.clone(), clip_and_noise(x, 1.0, 0.5, True, state), clip_and_noise(x, 1.0, 0.5, True, copy)]
    assert all_different(seen)
    with pytest.raises(RuntimeError, match="state must be the tensor that stream_state returned"):
        captured(lambda: clip_and_noise(x, 1.0, 0.5, True, copy))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_programs_draw_anew(mode):
    x = rows()
    compiled = torch.compile(lambda x: (hv.clip_and_noise(x, 1.0, 0.5), hv.clip_and_noise(x, 1.0, 0.5)), fullgraph=True, mode=mode)
    seen = []
    for _ in range(4):
        seen += [part.clone() for part in compiled(x)]
    assert all_different(seen)
