"""JAX programs that clip and add noise: the bits of numpy, new noise in each run, nothing merged, dropped or repeated."""

import gc
import json
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv

jax = pytest.importorskip("jax")

from hushvec.integrations import jax as ours  # noqa: E402

jnp = jax.numpy


def rows(dtype="float32", shape=(6, 40)):
    return np.random.default_rng(0).standard_normal(shape).astype(dtype)


def seeded():
    return hv.Generator.unsafe_seeded(3)


def all_different(results):
    return len({np.asarray(result).tobytes() for result in results}) == len(results)


@pytest.fixture(params=["in the program", "by callback"])
def way(request, monkeypatch):
    """As on the CPU, and as on an accelerator."""
    if request.param == "by callback":
        monkeypatch.setattr(ours, "_platforms", lambda jax: ())
    for programs in (ours._clip_program, ours._noise_program):
        programs.cache_clear()
    yield request.param
    for programs in (ours._clip_program, ours._noise_program):
        programs.cache_clear()


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("compiled", [True, False])
def test_bits_are_those_of_numpy(dtype, compiled, way):
    wrap = jax.jit if compiled else (lambda function: function)
    with jax.enable_x64(dtype == "float64"):
        for x in (rows(dtype), rows(dtype)[0], rows(dtype)[:0], rows(dtype)[:, :0]):
            given = jnp.asarray(x)
            assert np.array_equal(wrap(lambda x: ours.clip(x, 1.5))(given), hv.clip(x, 1.5))
            for noise in ({"sigma": 0.5}, {"scale": 0.5}, {"sigma": 0.5, "exact": False}):
                generator, expected = seeded(), hv.clip_and_noise(x, 1.5, generator=seeded(), **noise)
                found = wrap(lambda x: ours.clip_and_noise(x, 1.5, generator=generator, **noise))(given)  # noqa: B023
                assert isinstance(found, jax.Array) and found.dtype == dtype and np.array_equal(found, expected)


def test_which_way_a_program_goes(way):
    text = jax.jit(lambda x: ours.clip_and_noise(x, 1.0, 0.5)).trace(jnp.ones(8)).lower(lowering_platforms=("cpu",)).as_text()
    assert ("@hushvec_clip_and_noise" in text, "callback" in text) == ((True, False) if way == "in the program" else (False, True))


def test_bfloat16_has_the_bits_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(rows()).bfloat16()
    given, generator = jnp.asarray(rows()).astype("bfloat16"), seeded()
    noised = jax.jit(lambda x: ours.clip_and_noise(x, 1.5, 0.5, generator=generator))(given)
    clipped = jax.jit(lambda x: ours.clip(x, 1.5))(given)
    for found, expected in ((clipped, hv.clip(x, 1.5)), (noised, hv.clip_and_noise(x, 1.5, 0.5, generator=seeded()))):
        assert found.dtype == "bfloat16" and np.array_equal(np.asarray(found).view(np.int16), expected.view(torch.int16).numpy())


def test_subnormal_numbers_are_kept():
    """XLA flushes them to zero on the threads that run its programs."""
    x = np.full((4, 40), 1e-40, np.float32)
    assert np.array_equal(np.asarray(jax.jit(lambda x: ours.clip(x, 1.0))(jnp.asarray(x))).view(np.int32), x.view(np.int32))


def test_equal_calls_and_runs_draw_anew(way):
    program = jax.jit(lambda x: (ours.clip_and_noise(x, 1.0, 0.5), ours.clip_and_noise(x, 1.0, 0.5)))
    x = jnp.asarray(rows())
    assert all_different([*program(x), *program(x)])
    constant = jax.jit(lambda: ours.clip_and_noise(jnp.ones((2, 8)), 1.0, 0.5))  # nothing that XLA may fold
    assert all_different([constant(), constant()])


def test_a_result_nobody_reads_is_drawn(way):
    generator = seeded()

    def program(x):
        ours.clip_and_noise(x, 1.0, 0.5, generator=generator)
        return x + 1

    for _ in range(3):
        jax.block_until_ready(jax.jit(program)(jnp.ones((2, 8))))
    jax.effects_barrier()
    expected = seeded()
    for _ in range(3):
        hv.clip_and_noise(np.ones((2, 8), np.float32), 1.0, 0.5, generator=expected)
    assert np.array_equal(hv.gaussian_noise(4, generator=generator), hv.gaussian_noise(4, generator=expected))


def test_loops_branches_and_vmap(way):
    def turn(carry, _):
        return carry, ours.clip_and_noise(carry, 1.0, 0.5)

    x = jnp.asarray(rows())
    _, turns = jax.jit(lambda x: jax.lax.scan(turn, x, length=4))(x)
    assert turns.shape == (4, 6, 40) and all_different(turns)
    for wrap in (jax.jit, lambda function: function):
        mapped = wrap(jax.vmap(lambda row: ours.clip_and_noise(row, 1.0, 0.5)))(jnp.ones((5, 40)))
        assert mapped.shape == (5, 40) and all_different(mapped)
        assert np.array_equal(wrap(jax.vmap(lambda row: ours.clip(row, 1.0)))(x), hv.clip(rows(), 1.0))
    branch = jax.jit(lambda wanted, x: jax.lax.cond(wanted, lambda x: ours.clip_and_noise(x, 1.0, 0.5), lambda x: x, x))
    assert np.array_equal(branch(False, x), x) and all_different([branch(True, x), branch(True, x)])


def test_vmap_is_one_release_of_all_rows():
    generator = seeded()
    release = lambda x: ours.clip_and_noise(x, 1.0, 0.5, generator=generator)  # noqa: E731
    expected, reference = seeded(), lambda x: hv.clip_and_noise(x, 1.0, 0.5, generator=expected)  # noqa: E731
    x = rows(shape=(3, 4, 40))
    assert np.array_equal(jax.vmap(release)(jnp.asarray(x[0])), reference(x[0]))
    assert np.array_equal(jax.jit(jax.vmap(jax.vmap(release)))(jnp.asarray(x)), reference(x.reshape(12, 40)).reshape(x.shape))
    assert np.array_equal(jax.vmap(release, in_axes=1)(jnp.asarray(x[0])), reference(np.ascontiguousarray(x[0].T)))
    assert jax.vmap(release)(jnp.ones((0, 8))).shape == (0, 8) and jax.vmap(release)(jnp.ones((8, 0))).shape == (8, 0)


def test_large_arrays_do_not_wait_for_themselves():
    x = np.ones((20_000, 256), np.float32)
    noisy = jax.jit(lambda x: ours.clip_and_noise(x * 1.0, 1.0, 0.5) * 2)(jnp.asarray(x))
    assert abs(float(jnp.std(noisy)) - 1) < 0.01


def test_a_generator_lives_as_long_as_a_program_that_draws_from_it():
    def compiled_with(generator):
        return jax.jit(lambda x: ours.clip_and_noise(x, 1.0, 0.5, generator=generator)).lower(jnp.asarray(rows())).compile()

    compiled = compiled_with(seeded())
    jax.clear_caches()
    ours._noise_program.cache_clear()
    gc.collect()
    expected = seeded()
    for _ in range(2):
        assert np.array_equal(compiled(jnp.asarray(rows())), hv.clip_and_noise(rows(), 1.0, 0.5, generator=expected))


def test_a_generator_of_another_process_is_refused():
    """As a program finds it that was compiled elsewhere: its names were given by that process."""
    ours.clip(jnp.ones(8), 1.0)
    attributes = {"clip_norm": np.float64(1), "noise": np.float64(1), "law": "gaussian", "exact": True}
    result = jax.ShapeDtypeStruct((8,), "float32")
    call = jax.ffi.ffi_call("hushvec_clip_and_noise", result, has_side_effect=True)
    for name in ("0" * 32, "1"):
        with pytest.raises(Exception, match="generator must be of the process that runs the program, got one of another process"):
            jax.block_until_ready(jax.jit(lambda x: call(x, generator=name, **attributes))(jnp.ones(8)))  # noqa: B023


def test_a_call_of_another_version_is_refused():
    ours.clip(jnp.ones(8), 1.0)
    call = jax.ffi.ffi_call("hushvec_clip", jax.ShapeDtypeStruct((8,), "float32"))
    for attributes in ({}, {"norm": np.float64(1)}, {"clip_norm": "1"}):
        with pytest.raises(Exception, match="clip_norm must be an attribute of the call: trace the program again with this version"):
            call(jnp.ones(8), **attributes)
    with pytest.raises(Exception, match="clip_norm must have XLA's type 12, got 11"):
        call(jnp.ones(8), clip_norm=np.float32(1))
    with pytest.raises(Exception, match="the result must have the form of x"):
        call(jnp.ones(9), clip_norm=np.float64(1))


KEPT = """
import json, sys
import jax, numpy as np
import hushvec as hv
from hushvec.integrations.jax import clip_and_noise
jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
found = []
jax.monitoring.register_event_listener(lambda name, **_: found.append(name) if name == "/jax/compilation_cache/cache_hits" else None)
generator = hv.Generator() if sys.argv[2] == "given" else None
program = jax.jit(lambda x: clip_and_noise(x, 1.0, 0.5, generator=generator))
x = np.ones((2, 8), np.float32)
print(json.dumps({"noise": [np.asarray(program(x)).tobytes().hex() for _ in range(2)], "found": len(found)}))
"""


@pytest.mark.parametrize("generator", ["none", "given"])
def test_a_program_kept_on_disk_repeats_no_noise(tmp_path, generator):
    """The second process runs what the first compiled if that draws from the process-wide generator; a given one is another there."""
    runs = []
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KEPT, str(tmp_path), generator], capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    assert [run["found"] for run in runs] == ([0, 1] if generator == "none" else [0, 0])
    assert len({noise for run in runs for noise in run["noise"]}) == 4


SPREAD = """
import jax, numpy as np
import hushvec as hv
from jax.sharding import NamedSharding, PartitionSpec
from hushvec.integrations.jax import clip, clip_and_noise
mesh = jax.make_mesh((2,), ("devices",))
everywhere = NamedSharding(mesh, PartitionSpec())
rows = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
for spec in (("devices",), (None, "devices"), ()):
    x = jax.device_put(rows, NamedSharding(mesh, PartitionSpec(*spec)))
    generator, expected = hv.Generator.unsafe_seeded(3), hv.Generator.unsafe_seeded(3)
    program = jax.jit(lambda x: clip_and_noise(x, 1.0, 0.5, generator=generator), out_shardings=everywhere)
    for _ in range(2):
        wanted = hv.clip_and_noise(rows, 1.0, 0.5, generator=expected)
        copies = [np.asarray(shard.data) for shard in program(x).addressable_shards]
        assert len(copies) == 2 and all(np.array_equal(copy, wanted) for copy in copies), (spec, copies, wanted)
    assert np.array_equal(jax.jit(lambda x: clip(x, 1.0), out_shardings=everywhere)(x), hv.clip(rows, 1.0))
"""


def test_a_program_on_several_devices_draws_once(monkeypatch):
    """Where every device has a copy of the result, the copies are one release."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_program_is_not_exported():
    with pytest.raises(ValueError, match="custom calls whose targets have no compatibility guarantees"):
        jax.export.export(jax.jit(lambda x: ours.clip_and_noise(x, 1.0, 0.5)))(jnp.ones((2, 8)))


def test_no_gradient():
    for call in (lambda x: ours.clip(x, 1.0), lambda x: ours.clip_and_noise(x, 1.0, 0.5)):
        with pytest.raises(ValueError, match="cannot be differentiated"):
            jax.grad(lambda x: call(x).sum())(jnp.ones(8))  # noqa: B023


@pytest.mark.parametrize("wrap", [jax.jit, lambda function: function])
@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ours.clip_and_noise(x, 0.0, 1.0), ValueError, "clip_norm must be > 0, got 0.0"),
        (lambda x: ours.clip_and_noise(x, 1.0, 0.0), ValueError, "sigma must be > 0, got 0.0"),
        (lambda x: ours.clip_and_noise(x, 1.0, scale=-1.0), ValueError, "scale must be > 0, got -1.0"),
        (lambda x: ours.clip_and_noise(x, 1.0), TypeError, "sigma must be given, or scale"),
        (lambda x: ours.clip_and_noise(x, 1.0, 1.0, generator=1), TypeError, "generator must be"),
        (lambda x: ours.clip(x[None], 1.0), ValueError, "x must have 1 or 2 dimensions, got 3"),
        (lambda x: ours.clip(x.astype("int8"), 1.0), TypeError, "x must be float32 or .* or bfloat16, got int8"),
        (lambda x: ours.clip_and_noise(x.astype("int32"), 1.0, 1.0), TypeError, "x must be float32 or .*, got int32"),
        (lambda x: ours.clip(np.ones(3), 1.0), TypeError, "x must be a jax.Array, got ndarray"),
        (lambda x: ours.clip(x * jnp.inf, 1.0), Exception, "x must be finite, got inf in row 0"),
        (lambda x: ours.clip_and_noise(x, 1.0, 1e-10), Exception, r"clip_norm / sigma must be <= 2\^30"),
    ],
)
def test_refused(call, error, text, wrap, way):
    with pytest.raises(error, match=text):
        jax.block_until_ready(wrap(call)(jnp.ones((2, 8))))
