"""Noisy gradients in JAX programs: the bits of `clip_and_noise_gradients`, the law of the noise, optax's and jax_privacy's loops."""

import dataclasses
import inspect
import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core
from hushvec.training import clip_and_noise_gradients

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")
special = pytest.importorskip("scipy.special")

from docs.blocks import program_of, python_blocks  # noqa: E402
from evidence.reference import checks  # noqa: E402
from hushvec.integrations import jax as ours  # noqa: E402

jnp = jax.numpy
ALPHA = 1e-6
SHAPES = {"bias": (5,), "empty": (0,), "scale": (), "weight": (3, 2)}   # in jax's order
WRAPS = pytest.mark.parametrize("wrap", [jax.jit, lambda function: function], ids=["jit", "eager"])


def seeded():
    return hv.Generator.unsafe_seeded(3)


def gradients(rows=8, dtype="float32"):
    rng = np.random.default_rng(0)
    return {name: jnp.asarray(rng.standard_normal((rows, *shape))).astype(dtype) for name, shape in SHAPES.items()}


def expected(tree, multiplier=0.7, **options):
    """What numpy's function makes of the same rows; bfloat16 widens exactly."""
    arrays = [np.asarray(part).astype(part.dtype if part.dtype != "bfloat16" else "float32") for part in tree.values()]
    noisy = clip_and_noise_gradients(arrays, 1.0, multiplier, clipping="exact", generator=seeded(), allow_empty=True, **options)
    return {name: jnp.asarray(part).astype(tree[name].dtype) for name, part in zip(tree, noisy)}


def same(found, wanted):
    """Whether both have the same names, dtypes, shapes and bits."""
    return list(found) == list(wanted) and all(
        (found[name].dtype, found[name].shape) == (wanted[name].dtype, wanted[name].shape)
        and np.asarray(found[name]).tobytes() == np.asarray(wanted[name]).tobytes()
        for name in wanted
    )


@pytest.fixture(params=["in the program", "by callback"])
def way(request, monkeypatch):
    """As on the CPU, and as on an accelerator."""
    if request.param == "by callback":
        monkeypatch.setattr(ours, "_platforms", lambda jax: ())
    ours._noise_program.cache_clear()
    yield request.param
    ours._noise_program.cache_clear()


@WRAPS
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
def test_bits_are_those_of_numpy(dtype, wrap, way):
    with jax.enable_x64(dtype == "float64"):
        tree = gradients(dtype=dtype)
        transformation = ours.differentially_private_aggregate(1.0, 0.7, generator=seeded())
        found, state = wrap(transformation.update)(tree, transformation.init(tree))
        assert same(found, expected(tree, divisor=8.0)) and state == optax.EmptyState()


def test_which_way_a_program_goes(way):
    update = ours.differentially_private_aggregate(1.0, 0.7).update
    text = jax.jit(update).trace(gradients(), ()).lower(lowering_platforms=("cpu",)).as_text()
    assert ("@hushvec_noisy_sums" in text, "callback" in text) == ((True, False) if way == "in the program" else (False, True))


@WRAPS
def test_padding_does_not_count(wrap, way):
    """NaN and all: the bits are those of the rows that count, also of none."""
    tree = gradients()
    for real in (8, 5, 0):
        padding = np.arange(8) >= real
        padded = {name: part.at[real:].set(jnp.nan) for name, part in tree.items()}
        update = ours.differentially_private_aggregate(1.0, 0.7, divisor=4.0, generator=seeded()).update
        found, _ = wrap(update)(padded, (), is_padding_example=padding)
        assert same(found, expected({name: part[:real] for name, part in tree.items()}, divisor=4.0))


@WRAPS
def test_a_batch_of_nobody_is_noise_alone(wrap, way):
    tree = gradients(rows=0)
    found, _ = wrap(ours.differentially_private_aggregate(1.0, 0.7, divisor=4.0, generator=seeded()).update)(tree, ())
    assert same(found, expected(tree, divisor=4.0)) and found["weight"].std() > 0


def test_the_sum_is_exact_and_an_example_moves_it_by_at_most_the_norm(way):
    """Sums without noise, of rows whose float32 sums depend on their order; the norm is that over all arrays of a row."""
    clip_norm = 0.75
    rng = np.random.default_rng(1)
    lengths = 10.0 ** rng.uniform(-6, 6, 300)
    tree = {name: (rng.standard_normal((300, *shape)).T * lengths).T.astype("float32") for name, shape in SHAPES.items()}
    update = jax.jit(ours.differentially_private_aggregate(clip_norm, 0.0, divisor=1.0).update)

    def total(rows):
        return jnp.concatenate([part.ravel() for part in update({name: part[rows] for name, part in tree.items()}, ())[0].values()])

    order = rng.permutation(300)
    assert np.array_equal(total(order), total(np.arange(300)))
    theirs = optax.contrib.differentially_private_aggregate(clip_norm, 0.0, 0).update
    float_sums = [theirs({name: part[rows] for name, part in tree.items()}, optax.contrib.DifferentiallyPrivateAggregateState(
        jax.random.key(0)))[0]["bias"] for rows in (order, np.arange(300))]
    assert not np.array_equal(*float_sums), "else the test of the order shows nothing"
    norms = [float(np.linalg.norm(np.float64(total(np.array([row]))))) for row in range(0, 300, 7)]
    assert max(norms) <= clip_norm and max(norms) > clip_norm * (1 - 2**-18)
    whole = np.linalg.norm(np.concatenate([part.reshape(300, -1) for part in tree.values()], axis=1).astype("float64"), axis=1)
    assert all(abs(norm - min(of_row, clip_norm)) < 2**-20 for norm, of_row in zip(norms, whole[::7], strict=True))


def p_value(noisy, x, sigma, clip_norm, by=1.0):
    """Kolmogorov-Smirnov of uniform points in the cells of n = round(x / g + s Z), exactly uniform under the law."""
    s, g = _core.exact_grid(sigma, clip_norm)
    n = np.float64(noisy) / g
    assert np.array_equal(n, np.rint(n))
    return checks.uniformity(checks.dithered_uniforms(n, x / g, by * s / g, special.ndtr, np.random.default_rng(2)))


def test_the_law_of_the_noise_of_optax():
    """n = 400,000 elements in two arrays, Kolmogorov-Smirnov on the grid, alpha = 1e-6; a scale that is 2 % wrong is rejected."""
    tree = {name: np.zeros((4, 200_000), "float32") for name in "ab"}
    update = jax.jit(ours.differentially_private_aggregate(1.5, 0.8, divisor=1.0, generator=seeded()).update)
    found, _ = update(tree, ())
    noise = np.concatenate([found["a"], found["b"]])
    assert p_value(noise, 0.0, 1.2, 1.5) > ALPHA
    assert p_value(noise, 0.0, 1.2, 1.5, by=1.02) < ALPHA and p_value(noise, 0.0, 1.2, 1.5, by=0.98) < ALPHA
    assert checks.independent(found["a"], found["b"]) > ALPHA


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_law_of_the_noise_of_jax_privacy(dtype, way):
    """n = 400,000 elements, Kolmogorov-Smirnov on the grid, alpha = 1e-6; rejects a scale that is 2 % wrong, and a shift by 2 %."""
    sigma = 2.2
    with jax.enable_x64(dtype == "float64"):
        x = np.random.default_rng(4).uniform(-9, 9, (400, 1000)).astype(dtype)
        privatizer = ours.gaussian_privatizer(stddev=sigma, generator=seeded())
        noisy, _ = jax.jit(privatizer.update)({"x": jnp.asarray(x)}, privatizer.init(x))
        assert noisy["x"].dtype == dtype and noisy["x"].shape == x.shape
        given = np.float64(x).ravel(), sigma, sigma * 2**17
        assert p_value(np.asarray(noisy["x"]).ravel(), *given) > ALPHA
        for wrong in (1.02, 0.98):
            assert p_value(np.asarray(noisy["x"]).ravel(), *given, by=wrong) < ALPHA
        assert p_value(np.asarray(noisy["x"]).ravel(), given[0] + 0.02 * sigma, *given[1:]) < ALPHA


@WRAPS
def test_the_privatizer_has_the_bits_of_clip_and_noise(wrap, way):
    """Array after array, in the order of jax; bfloat16 by float32."""
    tree = {"half": jnp.full((3, 4), 100.0, "bfloat16"), "scalar": jnp.float32(7), "row": jnp.arange(6.0)}
    privatizer = ours.gaussian_privatizer(stddev=2.0, generator=seeded())
    found, _ = wrap(privatizer.update)(tree, privatizer.init(tree))
    assert {name: (part.dtype, part.shape) for name, part in found.items()} == {n: (p.dtype, p.shape) for n, p in tree.items()}
    if wrap is not jax.jit:   # XLA does not fix the order of several calls in one program
        generator = seeded()
        for name in jax.tree.unflatten(jax.tree.structure(tree), sorted(tree)).values():
            row = np.asarray(tree[name], "float32").ravel()
            noisy = hv.clip_and_noise(row, 2.0**18, 2.0, generator=generator).reshape(tree[name].shape)
            assert np.array_equal(found[name], jnp.asarray(noisy).astype(tree[name].dtype))


def test_every_step_draws_anew(way):
    tree = {"w": jnp.ones((4, 30))}
    for transformation in (ours.differentially_private_aggregate(1.0, 0.7), ours.gaussian_privatizer(stddev=1.0)):
        state = transformation.init(tree)
        update = jax.jit(transformation.update)
        steps = [update(tree, state)[0]["w"] for _ in range(2)]
        steps += [transformation.update(tree, state)[0]["w"]]
        steps += jax.jit(lambda tree: [transformation.update(tree, ())[0]["w"] for _ in range(2)])(tree)  # noqa: B023
        turn = lambda state, _: transformation.update(tree, state)[::-1]  # noqa: B023, E731
        steps += list(jax.lax.scan(turn, state, length=3)[1]["w"])
        assert len(steps) == 8 and len({np.asarray(step).tobytes() for step in steps}) == 8


def examples():
    rng = np.random.default_rng(6)
    x = rng.standard_normal((2000, 10)).astype("float32")
    return x, (x[:, :3].sum(axis=1) > 0).astype("float32")


def loss(parameters, x, y):
    return optax.sigmoid_binary_cross_entropy(x @ parameters["w"].astype("float32") + parameters["b"], y)


def accuracy(parameters):
    x, y = examples()
    return float(np.mean((x @ np.asarray(parameters["w"], "float32") + float(parameters["b"]) > 0) == y))


def trained(aggregate, dtype="float32", steps=60):
    """optax's loop: Adam behind the aggregation, compiled, on batches of 100."""
    x, y = examples()
    optimizer = optax.chain(aggregate, optax.adam(0.1))
    parameters = {"w": jnp.zeros(10, dtype), "b": jnp.zeros(())}
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters, state, x, y):
        per_example = jax.vmap(jax.grad(loss), (None, 0, 0))(parameters, x, y)
        updates, state = optimizer.update(per_example, state, parameters)
        return optax.apply_updates(parameters, updates), state

    rng = np.random.default_rng(7)
    for _ in range(steps):
        batch = rng.choice(2000, 100, replace=False)
        parameters, state = step(parameters, state, x[batch], y[batch])
    return parameters


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_optax_trains_with_it(dtype):
    learned = trained(ours.differentially_private_aggregate(1.0, 1.0), dtype)
    assert learned["w"].dtype == dtype and accuracy(learned) > 0.85
    drowned = trained(ours.differentially_private_aggregate(1.0, 1000.0), dtype)
    assert accuracy(drowned) < 0.8


def test_it_takes_the_place_of_optax_own():
    """Calls with the arguments of optax's, which is the same but for noise and rounding."""
    theirs, our_own = (inspect.signature(f.differentially_private_aggregate).parameters for f in (optax.contrib, ours))
    assert list(our_own)[: len(theirs)] == list(theirs)
    quiet = [
        trained(make(l2_norm_clip=0.5, noise_multiplier=1e-6, **options), steps=20)
        for make, options in (
            (ours.differentially_private_aggregate, {}),
            (optax.contrib.differentially_private_aggregate, {"key": jax.random.key(0)}),
        )
    ]
    assert np.allclose(quiet[0]["w"], quiet[1]["w"], atol=1e-3) and np.abs(quiet[0]["w"]).max() > 0.5


def test_the_example_of_the_page_runs():
    block = next(block for block in python_blocks("docs/training_hosts.md") if "hushvec.integrations.jax" in block.code)
    names = {}
    exec(compile(program_of(block), str(block), "exec"), names)
    # One of them alone is 0 with probability 0.05 at most, as the grid is sigma / 8 or finer: eight in 1 run of 10^8.
    assert names["weights"].shape == (10,) and np.count_nonzero(names["weights"]) > 2


@pytest.mark.filterwarnings("ignore:optax.global_norm is deprecated")   # which jax_privacy calls
def test_jax_privacy_trains_with_it():
    """The loop that its DPExecutionPlan describes, with padded Poisson batches, and our noise in place of its own."""
    jax_privacy = pytest.importorskip("jax_privacy")
    from jax_privacy.experimental import execution_plan

    config = execution_plan.BandMFExecutionPlanConfig(
        iterations=60, strategy=np.ones(1), epsilon=None, delta=None, noise_multiplier=1.0, sampling_prob=0.05
    )
    sensitivity = config.plan.clipped_grad(loss).sensitivity(config.accountant.neighboring_relation)
    plan = dataclasses.replace(config.plan, noise_addition_transform=ours.gaussian_privatizer(stddev=1.0 * sensitivity))
    assert isinstance(plan.noise_addition_transform, optax.GradientTransformation)
    clipped_sum = jax.jit(plan.clipped_grad(lambda p, x, y: loss(p, x, y).sum(), batch_argnums=(1, 2)))
    update = jax.jit(plan.noise_addition_transform.update)
    x, y = examples()
    parameters = {"w": jnp.zeros(10), "b": jnp.zeros(())}
    state, optimizer = plan.noise_addition_transform.init(parameters), optax.adam(0.1)
    optimizer_state = optimizer.init(parameters)
    seen = 0
    for indices in plan.batch_selection_strategy.batch_iterator(len(x), rng=0):
        indices, padding = np.resize(indices, 200), np.arange(200) >= len(indices)
        total = clipped_sum(parameters, x[indices], y[indices], is_padding_example=padding)
        noisy, state = update(sum_of_clipped_grads=total, noise_state=state)
        assert not np.array_equal(noisy["w"], total["w"])
        updates, optimizer_state = optimizer.update(noisy, optimizer_state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        seen += 1
    assert jax_privacy and seen == 60 and accuracy(parameters) > 0.85


SPREAD = """
import jax, numpy as np
import hushvec as hv
from jax.sharding import NamedSharding, PartitionSpec
from hushvec.integrations.jax import differentially_private_aggregate
from hushvec.training import clip_and_noise_gradients
mesh = jax.make_mesh((2,), ("devices",))
rows = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
for spec in (("devices",), (None, "devices"), ()):
    x = jax.device_put(rows, NamedSharding(mesh, PartitionSpec(*spec)))
    generator, expected = hv.Generator.unsafe_seeded(3), hv.Generator.unsafe_seeded(3)
    update = differentially_private_aggregate(1.0, 0.5, divisor=2.0, generator=generator).update
    program = jax.jit(lambda x: update(x, ())[0], out_shardings=NamedSharding(mesh, PartitionSpec()))
    for _ in range(2):
        wanted = clip_and_noise_gradients(rows, 1.0, 0.5, divisor=2.0, clipping="exact", generator=expected)
        copies = [np.asarray(shard.data) for shard in program(x).addressable_shards]
        assert len(copies) == 2 and all(np.array_equal(copy, wanted) for copy in copies), (spec, copies, wanted)
"""


def test_a_batch_on_several_devices_is_released_once(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    done = subprocess.run([sys.executable, "-c", SPREAD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def aggregate(updates, *, wrap=jax.jit, **options):
    update = ours.differentially_private_aggregate(1.0, 1.0, **options).update
    return lambda **more: jax.block_until_ready(wrap(update)(updates, (), **more))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: ours.differentially_private_aggregate(0.0, 1.0), ValueError, "clip_norm must be > 0, got 0.0"),
        (lambda: ours.differentially_private_aggregate(2.0**21, 1.0), ValueError, r"clip_norm must be <= 2\^20 for gradients"),
        (lambda: ours.differentially_private_aggregate(1.0, -1.0), ValueError, "noise_multiplier must be >= 0, got -1.0"),
        (lambda: ours.differentially_private_aggregate(1.0, 1.0, 0), TypeError, "key must be None: the operating system keys"),
        (lambda: ours.differentially_private_aggregate(1.0, 1.0, seed=0), TypeError, "seed must be None: the operating system"),
        (lambda: ours.differentially_private_aggregate(1.0, 1.0, divisor=0), ValueError, "divisor must be > 0, got 0"),
        (lambda: ours.differentially_private_aggregate(1.0, 1.0, generator=1), TypeError, "generator must be"),
        (lambda: ours.gaussian_privatizer(stddev=1.0, prng_key=jax.random.key(0)), TypeError, "prng_key must be None"),
        (lambda: ours.gaussian_privatizer(stddev=0.0), ValueError, "stddev must be > 0, got 0.0"),
        (lambda: aggregate(jnp.ones((0, 3)))(), ValueError, "divisor must be given for updates of 0 examples"),
        (lambda: aggregate([jnp.ones((2, 3)), jnp.ones((3, 3))])(), ValueError, r"updates must have one .* got \(3, 3\)"),
        (lambda: aggregate([jnp.ones((2, 3)), jnp.ones(())])(), ValueError, r"updates must have one number of examples B .* got \(\)"),
        (lambda: aggregate(jnp.ones((2, 3)))(is_padding_example=np.zeros(3, bool)), ValueError, r"must be bool \[2\], got bool \[3\]"),
        (lambda: aggregate(jnp.ones((2, 3)))(is_padding_example=np.zeros(2)), ValueError, r"must be bool \[2\], got float32 \[2\]"),
        (lambda: aggregate(jnp.ones((2, 3), "int32"))(), Exception, "dtype float32, float64, float16 or bfloat16, got XLA's type 4"),
        (lambda: aggregate(jnp.full((2, 3), jnp.inf))(), Exception, r"parts\[0\] must be finite, got inf in row 0"),
        (lambda: jax.vmap(lambda x: aggregate(x, wrap=lambda f: f)())(jnp.ones((2, 2, 3))), NotImplementedError, "vmap"),
    ],
)
def test_refused(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_a_call_of_another_form_is_refused():
    ours.clip(jnp.ones(8), 1.0)
    attributes = {"clip_norm": np.float64(1), "sigma": np.float64(1), "generator": ""}

    def call(results, *parts, **changed):
        given = {**attributes, **changed}
        found = jax.ffi.ffi_call("hushvec_noisy_sums", [jax.ShapeDtypeStruct(*result) for result in results])(*parts, **given)
        return jax.block_until_ready(found)

    rows = jnp.ones((2, 8))
    assert call([((8,), "float32")], rows)[0].shape == (8,)
    for results, parts, text in (
        ([((8,), "float32")] * 2, [rows], "a result for each array"),
        ([((8,), "float32")] * 2, [rows, jnp.ones((3, 8))], "all parts must have the same number of rows"),
        ([((7,), "float32")], [rows], "a result must be float32 and have the length of a row of its part"),
        ([((8,), "float16")], [rows], "a result must be float32"),
        ([((2, 8), "float32")], [rows], "a result must be float32"),
    ):
        with pytest.raises(Exception, match=text):
            call(results, *parts)
    with pytest.raises(Exception, match="generator must be of the process that runs the program"):
        call([((8,), "float32")], rows, generator="0" * 32)
