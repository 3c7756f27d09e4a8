"""JAX programs that clip and add noise: the bits of numpy, new noise in each run, nothing merged, dropped or kept."""

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


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
@pytest.mark.parametrize("compiled", [True, False])
def test_bits_are_those_of_numpy(dtype, compiled):
    wrap = jax.jit if compiled else (lambda function: function)
    with jax.enable_x64(dtype == "float64"):
        for x in (rows(dtype), rows(dtype)[0], rows(dtype)[:0]):
            given = jnp.asarray(x)
            assert np.array_equal(wrap(lambda x: ours.clip(x, 1.5))(given), hv.clip(x, 1.5))
            for noise in ({"sigma": 0.5}, {"scale": 0.5}, {"sigma": 0.5, "exact": False}):
                generator, expected = seeded(), hv.clip_and_noise(x, 1.5, generator=seeded(), **noise)
                found = wrap(lambda x: ours.clip_and_noise(x, 1.5, generator=generator, **noise))(given)  # noqa: B023
                assert isinstance(found, jax.Array) and found.dtype == dtype and np.array_equal(found, expected)


def test_equal_calls_and_runs_draw_anew():
    program = jax.jit(lambda x: (ours.clip_and_noise(x, 1.0, 0.5), ours.clip_and_noise(x, 1.0, 0.5)))
    x = jnp.asarray(rows())
    assert all_different([*program(x), *program(x)])
    constant = jax.jit(lambda: ours.clip_and_noise(jnp.ones((2, 8)), 1.0, 0.5))  # nothing that XLA may fold
    assert all_different([constant(), constant()])


def test_a_result_nobody_reads_is_drawn():
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


def test_loops_branches_and_vmap():
    def turn(carry, _):
        return carry, ours.clip_and_noise(carry, 1.0, 0.5)

    x = jnp.asarray(rows())
    _, turns = jax.jit(lambda x: jax.lax.scan(turn, x, length=4))(x)
    assert turns.shape == (4, 6, 40) and all_different(turns)
    mapped = jax.vmap(lambda row: ours.clip_and_noise(row, 1.0, 0.5))(jnp.ones((5, 40)))
    assert mapped.shape == (5, 40) and all_different(mapped)
    assert np.array_equal(jax.vmap(lambda row: ours.clip(row, 1.0))(x), hv.clip(rows(), 1.0))
    branch = jax.jit(lambda wanted, x: jax.lax.cond(wanted, lambda x: ours.clip_and_noise(x, 1.0, 0.5), lambda x: x, x))
    assert np.array_equal(branch(False, x), x) and all_different([branch(True, x), branch(True, x)])


def test_large_arrays_do_not_wait_for_themselves():
    x = np.ones((20_000, 256), np.float32)
    noisy = jax.jit(lambda x: ours.clip_and_noise(x * 1.0, 1.0, 0.5) * 2)(jnp.asarray(x))
    assert abs(float(jnp.std(noisy)) - 1) < 0.01


def test_noise_is_not_kept_in_a_program():
    with pytest.raises(Exception, match=r"callback|serializ"):
        jax.export.export(jax.jit(lambda x: ours.clip_and_noise(x, 1.0, 0.5)))(jnp.ones((2, 8))).serialize()


def test_no_gradient():
    for call in (lambda x: ours.clip(x, 1.0), lambda x: ours.clip_and_noise(x, 1.0, 0.5)):
        with pytest.raises(ValueError, match="do not support JVP"):
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
        (lambda x: ours.clip(x.astype("bfloat16"), 1.0), TypeError, "x must be float32 or .*, got bfloat16"),
        (lambda x: ours.clip_and_noise(x.astype("int32"), 1.0, 1.0), TypeError, "x must be float32 or .*, got int32"),
        (lambda x: ours.clip(np.ones(3), 1.0), TypeError, "x must be a jax.Array, got ndarray"),
        (lambda x: ours.clip(x * jnp.inf, 1.0), Exception, "x must be finite, got inf in row 0"),
        (lambda x: ours.clip_and_noise(x, 1.0, 1e-10), Exception, r"clip_norm / sigma must be <= 2\^30"),
    ],
)
def test_refused(call, error, text, wrap):
    with pytest.raises(error, match=text):
        jax.block_until_ready(wrap(call)(jnp.ones((2, 8))))
