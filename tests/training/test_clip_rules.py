"""Clip norms that adapt, by layer, and automatic clipping: what enters the sum, its account, and attacks on each."""

import math
import re

import numpy as np
import pytest

import hushvec as hv
from evidence.reference.sizes import scaled

torch = pytest.importorskip("torch")

from hushvec._native import _core  # noqa: E402
from hushvec.training import (  # noqa: E402
    AdaptiveClip,
    Clipping,
    CorrelatedNoise,
    DPOptimizer,
    GhostClipping,
    StepSchedule,
    clipped_sums,  # noqa: E402
    load_checkpoint,
    per_example_gradients,
    save_checkpoint,
)
from hushvec.training.clip_rules import ClipRule  # noqa: E402
from hushvec.training.clipped_sums import ClippedSum  # noqa: E402
from training.small_runs import examples_of, gradients_by_loop, loss, model_of, optimizer_of, seeded  # noqa: E402

ADAPTIVE = AdaptiveClip(count_sigma=2.0)
BESIDE = 1 / math.sqrt(15)   # 1 / sqrt((2 count_sigma / z)^2 - 1) at z = 1
LAYERS = [0.2, 0.1, 0.3, 0.05]
RULES = [{"adaptive": ADAPTIVE, "clip_norm": 1.05}, {"normalize": 0.01, "clip_norm": 1.05}, {"clip_norm": LAYERS}]
NORMALIZED_LAYERS = {"normalize": 0.1, "clip_norm": LAYERS}
NAMES = ["adaptive", "normalized", "by layer"]


def norms_of(gradients):
    """[parameters, examples], float64."""
    return torch.stack([part.double().flatten(1).norm(dim=1) for part in gradients])


def expected_sum(gradients, options):
    """The sum that the papers write, in float64, with the coordinate beside it for an adaptive clip."""
    clip_norm, gamma = options["clip_norm"], options.get("normalize")
    norms = norms_of(gradients)
    limits = torch.tensor(clip_norm if isinstance(clip_norm, list) else [clip_norm], dtype=torch.float64)[:, None]
    if len(limits) == 1:
        norms = norms.norm(dim=0, keepdim=True)
    scales = limits / (norms + gamma) if gamma else torch.clamp(limits / norms, max=1.0)
    found = [torch.tensordot(scale, part.double(), 1) for scale, part in zip(scales.expand(len(gradients), -1), gradients)]
    if "adaptive" in options:
        found.append((torch.where(norms[0] <= clip_norm, 1.0, -1.0).double().sum() * BESIDE * clip_norm)[None])
    return found


def summed(model, rows, labels, **options):
    """What the optimizer would release, without noise."""
    optimizer = optimizer_of(model, **options)
    per_example_gradients(model, loss, rows, labels)
    optimizer.accumulate()
    total = optimizer._batch.sum
    unit = 2.0 ** (math.ceil(math.log2(total._clip_norm)) - 25)
    return optimizer, [torch.as_tensor(units) * unit for units in total._units()]


@pytest.mark.parametrize("options", [*RULES, NORMALIZED_LAYERS], ids=[*NAMES, "normalized by layer"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_enters_the_sum(options, dtype):
    model, (rows, labels) = model_of(dtype=dtype), examples_of(40, dtype=dtype)
    gradients = gradients_by_loop(model, rows, labels)
    norms = norms_of(gradients).norm(dim=0)
    assert 10 < int((norms <= 1.05).sum()) < 30
    _, found = summed(model, rows, labels, **options)
    wanted = expected_sum(gradients, options)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other.reshape(one.shape), rtol=3e-6, atol=5e-6)   # 40 truncations to units of 6e-8
    plain = expected_sum(gradients, {"clip_norm": 1.05})
    assert "adaptive" in options or not torch.allclose(found[0], plain[0], rtol=1e-3)


@pytest.mark.parametrize("options", [*RULES, NORMALIZED_LAYERS], ids=[*NAMES, "normalized by layer"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_rows_are_scaled_on_a_device_as_in_the_core(options, dtype, monkeypatch):
    monkeypatch.setattr(clipped_sums, "_BLOCK", 26 * 7)   # in several blocks
    optimizer = optimizer_of(model_of(), **options)
    rule, norm = optimizer.settings.rule(optimizer._batch.norm), optimizer._batch.norm.of_rows
    parts = [part.to(dtype) for part in gradients_by_loop(model_of(), *examples_of(40))]
    shapes = [tuple(part.shape[1:]) for part in parts] + [(1,)] * (rule.beside is not None)
    core, blocks = (ClippedSum(shapes, clip_norm=norm, sigma=0.0) for _ in range(2))
    core.add(parts, rule=rule)
    names = [f"part {number}" for number in range(4)]
    for block in clipped_sums._scaled_on_device([part.reshape(40, -1) for part in parts], names, rule):
        blocks.add([part.reshape(-1, *shape) for part, shape in zip(block, shapes, strict=True)])
    for one, other in zip(core._units(), blocks._units()):
        assert abs(one - other).max() <= 40 + 3e-6 * abs(one).max()   # truncations, and roundings of float32
    parts[2][3] = math.nan
    with pytest.raises(ValueError, match="part 2 must be finite, got nan in row 3"):
        next(clipped_sums._scaled_on_device([part.reshape(40, -1) for part in parts], names, rule))


def test_finite_rows_whose_norm_is_infinite_and_factors_that_are_refused():
    huge = np.array([[1e200, 1e200], [3.0, 4.0]])
    total = ClippedSum([(2,)], clip_norm=1.0, sigma=0.0)
    total.add([huge], rule=ClipRule((1.0,), 0.0, None))
    assert total.release()[0] == pytest.approx([0.6, 0.8], abs=1e-6)
    core = _core.ClippedSum([2], 1.0, 0.0, 8, "exact")
    squares = _core.squares_of_parts([huge])
    negative = "factors must be >= 0"
    for factor, text in ((-1.0, negative), (math.nan, negative), (1.0, "must make a finite norm, .* row 0")):
        with pytest.raises(ValueError, match=text):
            core.add_scaled([huge], squares, np.full((1, 2), factor))
    with pytest.raises(ValueError, match="one number for each part of each row"):
        core.add_scaled([huge], squares[:, :1], np.ones((1, 1)))
    assert core.rows == 0


@pytest.mark.parametrize("options", [*RULES, NORMALIZED_LAYERS])
def test_a_loss_scale_changes_nothing_but_roundings(options):
    rows, labels = examples_of(20)
    weights = []
    for scale in (1.0, 2.0**10):
        model = model_of()
        optimizer = optimizer_of(model, generator=seeded(), loss_scale=scale, **options)
        for _ in range(2):
            per_example_gradients(model, lambda *batch, scale=scale: scale * loss(*batch), rows, labels)
            optimizer.step()
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
        assert optimizer.overflowed == 0
    for one, other in zip(*weights):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_norm_follows_the_quantile_of_the_gradients():
    """Norms of 1 to 3, batches of 100: after 60 steps the mean norm of ten is within 0.25 of the quantile's."""
    rows = torch.nn.functional.normalize(torch.randn(100, 10, generator=torch.Generator().manual_seed(3)), dim=1)
    rows *= torch.linspace(1, 3, 100)[:, None]
    for quantile in (0.2, 0.8):
        parameter = torch.nn.Parameter(torch.zeros(10))
        optimizer = optimizer_of(
            torch.nn.ParameterList([parameter]), clip_norm=0.5, expected_batch_size=100.0, generator=seeded(4),
            adaptive=AdaptiveClip(quantile=quantile),
        )  # fmt: skip
        norms = []
        for _ in range(60):
            parameter.grad_sample = rows.clone()
            optimizer.step()
            norms.append(optimizer.clip_norm)
        assert abs(np.mean(norms[50:]) - (1 + 2 * quantile)) < 0.25
    assert optimizer.epsilon() == StepSchedule(noise_multiplier=1.0, sampling_probability=1.0).epsilon(60, 1e-5)


def test_an_adaptive_run_and_its_receipt(tmp_path):
    rows, labels = examples_of(8)

    def run():
        model = model_of()
        return model, optimizer_of(model, adaptive=ADAPTIVE, clip_norm=0.5, journal=tmp_path / "journal", steps=5)

    model, optimizer = run()
    assert optimizer.clip_norm == pytest.approx(0.5) and optimizer.sigma == pytest.approx(0.5 * math.sqrt(16 / 15))
    per_example_gradients(model, loss, rows, labels)
    optimizer.step()
    assert optimizer.clip_norm != pytest.approx(0.5)   # the second step may undo the first, once in 100 runs
    optimizer.empty_batch()
    optimizer.step()
    receipt = optimizer.receipt()
    assert hv.verify_receipt(receipt).status == "holds" and receipt.is_dp_claim and any("follows" in note for note in receipt.notes)
    assert receipt.clip_norm == pytest.approx(optimizer.clip_norm * math.sqrt(16 / 15)) and receipt.sensitivity == receipt.clip_norm
    save_checkpoint(tmp_path / "checkpoint", optimizer, model)
    other, resumed = run()
    assert resumed.steps_taken == 2 and resumed.clip_norm == pytest.approx(0.5)
    load_checkpoint(tmp_path / "checkpoint", resumed, other)
    assert resumed.clip_norm == optimizer.clip_norm and resumed.epsilon() == optimizer.epsilon()
    state = optimizer.state_dict()
    for wrong in (math.nan, -1.0, 2.0**21):
        state["privacy"]["row_norm"] = wrong
        with pytest.raises(ValueError, match="clip_norm must be"):
            run()[1].load_state_dict(state)
    changed = optimizer_of(model_of(), adaptive=AdaptiveClip(count_sigma=3.0), clip_norm=0.5, steps=5)
    with pytest.raises(ValueError, match=r"adaptive must be .* as in the checkpoint"):
        load_checkpoint(tmp_path / "checkpoint", changed, model_of())


@pytest.mark.parametrize("options", [RULES[1], RULES[2], NORMALIZED_LAYERS])
def test_ghost_clipping_has_the_same_rules(options):
    model, (rows, labels) = model_of(), examples_of(40)
    wanted = expected_sum(gradients_by_loop(model, rows, labels), options)
    with GhostClipping(model, **options) as ghost:
        ghost.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
        norm = ghost.clip_norm
    for parameter, other in zip(model.parameters(), wanted):
        torch.testing.assert_close(parameter.clipped_sum.double(), other, rtol=1e-5, atol=1e-6)
    optimizer = optimizer_of(model, clip_norm=norm)
    optimizer.step()
    assert optimizer.receipt().grade == "float"
    with pytest.raises(ValueError, match="clip_norm must have a norm for each of 4 parameters, got 1"):
        GhostClipping(model, [1.0])
    with pytest.raises(ValueError, match="normalize must be > 0"):
        GhostClipping(model, 1.0, normalize=-1.0)


# ---- attacks: a canary whose gradient is the longest that there can be, known to the attacker; n runs, the mean of the best statistic

RUNS = scaled(400, 4000)
WITHIN = 5 / math.sqrt(RUNS)   # deviations: alpha = 6e-7
EXPECTED = 16.0   # what sums are divided by: with so many the share that the clip norm shows is not cut to [0, 1]


def mean_statistic(direction, options, *, multiplier=0.5, scale=1.0, count_too=False):
    """How far one step points along the canary, in deviations of the noise, on average; 1 / noise_multiplier is what was promised."""
    found = []
    for _ in range(RUNS):
        parameters = [torch.nn.Parameter(torch.zeros(len(part))) for part in direction]
        inner = torch.optim.SGD(parameters, lr=1.0)
        optimizer = optimizer_of(None, inner, noise_multiplier=multiplier, expected_batch_size=EXPECTED, **options)
        norm, sigma, beside = optimizer.clip_norm, optimizer.sigma, optimizer._batch.norm.beside
        for parameter, part in zip(parameters, direction):
            parameter.grad_sample = scale * torch.tensor(part)[None]
        optimizer.step()
        seen = EXPECTED * np.concatenate([-parameter.detach().numpy().astype("float64") for parameter in parameters])
        limits = options["clip_norm"] if isinstance(options["clip_norm"], list) else [norm]
        signal = np.concatenate([np.array(part) for part in direction])
        if len(limits) == len(direction) > 1:
            signal = np.concatenate([limit * np.array(part) / np.linalg.norm(part) for limit, part in zip(limits, direction)])
        else:
            signal *= norm / np.linalg.norm(signal)
        if count_too:   # the next clip norm shows the noisy coordinate
            share = options["adaptive"].quantile - math.log(optimizer.clip_norm / norm) / options["adaptive"].learning_rate
            seen, signal = np.append(seen, EXPECTED * (share - 0.5) * 2 * beside), np.append(signal, -beside)
        found.append(seen @ signal / np.linalg.norm(signal) / sigma)
    return float(np.mean(found))


DIRECTION = [[0.6, 0.8, 0.0], [1.0]]


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6])
def test_a_canary_of_automatic_clipping(size):
    """Whatever its length, an example has no more than C in the sum; with gamma of its length it has half of that."""
    options = {"normalize": 1e-6 * size, "clip_norm": 0.5}
    assert abs(mean_statistic(DIRECTION, options, scale=size) - 2.0) < WITHIN
    half = mean_statistic(DIRECTION, {**options, "normalize": math.sqrt(2) * size}, scale=size)
    assert abs(half - 1.0) < WITHIN


def test_a_canary_by_layer_and_noise_for_the_largest_layer_alone():
    options = {"clip_norm": [0.3, 0.4]}
    assert abs(mean_statistic(DIRECTION, options, scale=10.0) - 2.0) < WITHIN
    assert mean_statistic(DIRECTION, options, scale=10.0, multiplier=0.5 * 0.4 / 0.5) - 2.0 > WITHIN   # sigma = z max C_j


def test_a_canary_of_a_clip_norm_that_adapts(monkeypatch):
    """Gradient and count together give what was promised; noise that forgets the count gives more."""
    options = {"adaptive": AdaptiveClip(count_sigma=0.3, quantile=0.9), "clip_norm": 0.5}
    found = mean_statistic(DIRECTION, options, scale=10.0, count_too=True)
    assert abs(found - 2.0) < WITHIN
    gradient_alone = mean_statistic(DIRECTION, options, scale=10.0)
    assert gradient_alone < 2.0 - WITHIN
    monkeypatch.setattr("hushvec.training.schedule.Settings.sigma_of", lambda self, row_norm: 0.5 * self.clip_norm)
    assert mean_statistic(DIRECTION, options, scale=10.0) - gradient_alone > WITHIN


@pytest.mark.parametrize("options", RULES, ids=NAMES)
def test_a_rule_that_scales_wrongly_cannot_exceed_the_clip(options, monkeypatch):
    """The sum clips whole rows exactly: factors a thousand times too large move it by no more than its norm."""
    monkeypatch.setattr("hushvec.training.clip_rules._ROOM", 1000.0)
    small = {**options, "clip_norm": [0.1] * 4 if isinstance(options["clip_norm"], list) else 0.2}
    optimizer, found = summed(model_of(), *examples_of(1), **small)
    norm = float(torch.cat([part.flatten() for part in found]).norm())
    assert 0.99 * optimizer._batch.norm.of_rows < norm <= optimizer._batch.norm.of_rows


# ---- what is refused

@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"adaptive": "yes"}, TypeError, "adaptive must be a hushvec.training.AdaptiveClip or None, got str"),
        ({"adaptive": AdaptiveClip(count_sigma=0.5)}, ValueError, "count_sigma must be > noise_multiplier / 2 = 0.5, got 0.5"),
        ({"adaptive": ADAPTIVE, "noise_multiplier": 0.0}, ValueError, "noise_multiplier must be > 0 with an adaptive clip norm"),
        ({"adaptive": ADAPTIVE, "normalize": 0.1}, ValueError, "adaptive must be None with normalize"),
        ({"adaptive": ADAPTIVE, "clip_norm": LAYERS}, ValueError, "adaptive must be None with a list of clip norms"),
        (
            {"adaptive": ADAPTIVE, "sampling_probability": None, "noise": CorrelatedNoise.bisr(bands=2, steps=4, min_separation=2)},
            ValueError,
            "adaptive must be None with correlated noise",
        ),
        ({"normalize": 0.0}, ValueError, "normalize must be > 0, got 0.0"),
        ({"normalize": 1e-40}, ValueError, "normalize must be at least clip_norm 2^-100"),
        ({"normalize": 0.1, "clipping": "batch", "allow_batch_level": True}, ValueError, "clipping must clip examples with normalize"),
        ({"clip_norm": []}, ValueError, "clip_norm must have one norm for each parameter, got none"),
        ({"clip_norm": [1.0, 1.0]}, ValueError, "clip_norm must have a norm for each of 4 parameters, got 2"),
        ({"clip_norm": [1.0, 0.0, 1.0, 1.0]}, ValueError, "clip_norm[1] must be > 0, got 0.0"),
    ],
)
def test_what_the_optimizer_refuses(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        optimizer_of(model_of(), **options)


def test_gradients_that_cannot_be_scaled_are_refused_before_a_charge():
    model, (rows, labels) = model_of(), examples_of(6)
    optimizer = optimizer_of(model, clip_norm=LAYERS)
    with GhostClipping(model, optimizer.clip_norm) as ghost:
        ghost.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
    with pytest.raises(ValueError, match=r"gradients must be p\.grad_sample with adaptive, normalize or a list"):
        optimizer.step()
    optimizer.zero_grad()
    rows[4, 1] = math.nan
    per_example_gradients(model, loss, rows, labels)
    with pytest.raises(ValueError, match="must be finite, got nan in row 4"):
        optimizer.step()
    optimizer.zero_grad()
    model[0].bias.requires_grad_(False)
    per_example_gradients(model, loss, *examples_of(6))
    with pytest.raises(ValueError, match="clip_norm must have a norm for each of 3 parameters, got 4"):
        optimizer.step()
    assert optimizer.steps_taken == 0


def test_correlated_noise_takes_norms_by_layer_and_automatic_clipping():
    noise = CorrelatedNoise.bisr(bands=2, steps=4, min_separation=2)
    model = model_of()
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=LAYERS, noise_multiplier=1.0, expected_batch_size=8.0,
        clipping=Clipping(normalize=0.1),
        noise=noise, delta=1e-5,
    )  # fmt: skip
    for _ in range(2):
        per_example_gradients(model, loss, *examples_of(8))
        optimizer.step()
    assert hv.verify_receipt(optimizer.receipt()).status == "holds"
