"""Training with correlated noise on a device: the bits of a run on the CPU with the same key."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise

torch = pytest.importorskip("torch")

from hushvec.training import Account, CorrelatedNoise, DPOptimizer  # noqa: E402

pytestmark = pytest.mark.gpu

SHAPES = [(40, 7), (), (300,)]
CIPHERS = ["chacha20", "chacha12", "chacha8"]


def seeded(cipher="chacha20"):
    return hv.Generator.unsafe_seeded(11, cipher=cipher)


def noise_of(bands):
    return CorrelatedNoise.bisr(bands=bands, steps=6, min_separation=3)


def optimizer_of(device, noise, generator):
    parameters = [torch.nn.Parameter(torch.zeros(shape, device=device)) for shape in SHAPES]
    inner = torch.optim.SGD(parameters, lr=0.5, momentum=0.5)   # powers of two: their products are exact with and without fused operations
    return parameters, DPOptimizer(
        inner, clip_norm=1.0, noise_multiplier=0.7, expected_batch_size=4, noise=noise, delta=1e-5,
        account=Account(generator=generator),
    )


def take(parameters, optimizer, number):
    """One step of a squared loss: gradients follow the parameters. The third batch is empty."""
    if number == 2:
        optimizer.empty_batch()
    else:
        for i, parameter in enumerate(parameters):
            targets = np.random.default_rng([number, i]).standard_normal((4, *parameter.shape)).astype("float32")
            parameter.grad_sample = parameter.detach()[None] - torch.from_numpy(targets).to(parameter.device)
    optimizer.step()


def values(parameters):
    return [parameter.detach().cpu().numpy().copy() for parameter in parameters]


def trained(device, bands, cipher):
    parameters, optimizer = optimizer_of(device, noise_of(bands), seeded(cipher))
    seen = []
    for number in range(6):
        take(parameters, optimizer, number)
        seen += values(parameters)
    return seen, optimizer


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("bands", [1, 2, 4])
def test_a_run_has_the_bits_of_the_cpu(bands, cipher):
    (ours, on_device), (expected, on_cpu) = (trained(device, bands, cipher) for device in ("cuda", "cpu"))
    for one, other in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    assert len({part.tobytes() for part in ours}) == len(ours)   # every step moved every parameter
    assert on_device.epsilon() == on_cpu.epsilon()
    mine, theirs = on_device.receipt().to_dict(), on_cpu.receipt().to_dict()
    same = [name for name in mine if name not in ("time", "run")]
    assert [mine[name] for name in same] == [theirs[name] for name in same] and mine["grade"] == "exact"


def test_each_step_takes_back_noise_of_the_one_before():
    """Two steps without rows: with coefficients (1, -1) their sum is the noise of the second alone."""
    total, earlier = ClippedSum([(5000,)], clip_norm=1.0, sigma=1.0), EarlierNoise((1.0, -1.0))
    out = [torch.empty(5000, device="cuda") for _ in range(2)]
    for one in out:
        total.release(seeded() if one is out[0] else hv.Generator(), [one], earlier)
    first, second = (one.cpu().double() for one in out)
    assert abs(float((first + second).std()) - 1) < 0.05 < abs(float(second.std()) - 1)


def test_a_run_does_not_change_between_cpu_and_device():
    parameters, optimizer = optimizer_of("cpu", noise_of(2), hv.Generator())
    take(parameters, optimizer, 0)
    moved = [torch.nn.Parameter(parameter.detach().cuda()) for parameter in parameters]
    optimizer.optimizer.param_groups[0]["params"] = moved
    optimizer.accept_changes()
    with pytest.raises(ValueError, match="be on the CPU or CUDA throughout, in a run with correlated noise"):
        take(moved, optimizer, 1)
    assert optimizer.steps_taken == 1


@pytest.mark.parametrize(
    ("coefficients", "message"),
    [((1.5,), r"coefficients must be in \[-1, 1\]"), ((0.0,), "more than 0"), ((1.0,) * 17, "at most 16"), ((0.1,) * 33, "at most 32 on a device")],
)
def test_what_a_device_refuses(cuda, coefficients, message):
    sums, out = [torch.zeros(9, dtype=torch.float64, device="cuda")], [torch.zeros(9, device="cuda")]
    workspace = torch.zeros(cuda.release_workspace_bytes([9], coefficients), dtype=torch.uint8, device="cuda")
    generator = hv.Generator()
    streams = [generator._reserve_for_device() for _ in coefficients]
    for sigma, given, said in (
        (1.0, streams, message), (0.0, streams, "sigma must be > 0"), (1.0, streams[1:], "sources must be as many as coefficients"),
        (1.0, [hv.Generator(cipher="aes256")._reserve()] * len(streams), "at most 32" if len(streams) > 32 else "ChaCha on a device"),
    ):   # fmt: skip
        with pytest.raises(ValueError, match=said):
            cuda.release_correlated(sums, 1.0, sigma, out, given, coefficients, workspace, 0)
    assert not out[0].any()
