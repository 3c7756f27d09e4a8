"""The cipher of a receipt: what it must agree with."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.collect import BloomFilter, Memo
from hushvec.jobs import NoiseJob
from hushvec.release.labels import privatize_labels
from hushvec.release.vectors import plan_release
from hushvec.retrieval import PrivateIndex, ScoreNoise
from hushvec.training import CorrelatedNoise
from receipts.forgeries import SCRIPT, aggregate_receipt, genuine, module_of, training_receipt

CIPHERS = {"aes256": (14, 2), "chacha20": (20, 1), "chacha12": (12, 1), "chacha8": (8, 1)}
ROWS = np.ones((4, 8), np.float32)


def selection(generator):
    index = PrivateIndex(8, scores=ScoreNoise(epsilon=1.0, mechanism="gumbel"), store="numpy", generator=generator)
    index.add(ROWS)
    return index.search(ROWS[:1], k=2).score_receipt


RELEASES = {
    "vectors": lambda generator: hv.privatize(ROWS, epsilon=8.0, generator=generator).receipt,
    "labels": lambda generator: privatize_labels([1], range(5), epsilon=1.5, generator=generator).receipt,
    "reports": lambda generator: vocabulary(30, 2.0, "k_rr").release("word1", generator=generator).receipt,
    "selection": selection,
}
WRITTEN = {"training": training_receipt, "aggregate": aggregate_receipt}


OF_VERSION_3 = ("vectors", "training")


def version_of(kind, cipher):
    """Of a release by a generator that is keyed by the operating system."""
    return 3 if kind in OF_VERSION_3 else CIPHERS[cipher][1]


def fields(receipt):
    return receipt.cipher, receipt.rounds, receipt.format_version


@pytest.fixture(scope="module")
def script():
    return module_of(SCRIPT.read_text())


def independent_status(script: types.ModuleType, receipt: dict) -> str:
    return script.check_receipt(json.loads(json.dumps(receipt)))[0]


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("kind", RELEASES)
def test_a_release_states_its_cipher(kind, cipher, script):
    receipt = RELEASES[kind](hv.Generator(cipher=cipher))
    assert fields(receipt) == (cipher, CIPHERS[cipher][0], version_of(kind, cipher))
    assert hv.verify_receipt(receipt).status == independent_status(script, receipt.to_dict()) == "holds"
    assert type(receipt).from_json(receipt.to_json()) == receipt


@pytest.mark.parametrize("kind", RELEASES)
def test_the_process_wide_generator_draws_from_the_default_cipher(kind):
    assert RELEASES[kind](None).cipher == hv.backends()["default_cipher"]


def test_a_seed_draws_from_chacha20_unless_told_otherwise():
    assert hv.privatize(ROWS, epsilon=8.0, generator=hv.Generator.unsafe_seeded(1)).receipt.cipher == "chacha20"
    seeded = hv.Generator.unsafe_seeded(1, cipher="aes256")
    assert fields(hv.privatize(ROWS, epsilon=8.0, generator=seeded).receipt) == ("aes256", 14, 2)


@pytest.mark.parametrize("cipher", CIPHERS)
@pytest.mark.parametrize("kind", [*RELEASES, *WRITTEN])
def test_rounds_and_format_version_must_be_those_of_the_cipher(kind, cipher, script):
    receipt = WRITTEN[kind]() if kind in WRITTEN else RELEASES[kind](hv.Generator(cipher="chacha20"))
    rounds, version = CIPHERS[cipher]
    changed = dataclasses.replace(receipt, cipher=cipher, rounds=rounds, format_version=version_of(kind, cipher))
    assert hv.verify_receipt(changed).status == independent_status(script, changed.to_dict()) == "holds"
    for other in {14, 20, 12, 8} - {rounds}:
        wrong = dataclasses.replace(changed, rounds=other)
        assert hv.verify_receipt(wrong) == ("does not hold", (f"rounds must be {rounds} for {cipher}, got {other}",))
        assert script.check_receipt(wrong.to_dict()) == ("does not hold", [f"rounds are not those of {cipher}"])
    wrong = dataclasses.replace(changed, format_version=3 - version if kind in OF_VERSION_3 else 3)
    known = f"{version} or 3" if kind in OF_VERSION_3 else version
    reason = f"format_version must be {known} for {cipher}, got {wrong.format_version}"
    if kind == "vectors":  # on the grid of the version that it states
        wrong = dataclasses.replace(wrong, grid=wrong.grid / 8)
    assert hv.verify_receipt(wrong) == ("does not hold", (reason,))
    assert script.check_receipt(wrong.to_dict()) == ("does not hold", [f"format_version is not that of {cipher}"])


def test_correlated_noise_has_no_version_3(script):
    noise = CorrelatedNoise(coefficients=(1.0, -0.5), steps=100, min_separation=100)
    sigma = math.nextafter(noise.sensitivity * 4.0, math.inf)
    receipt = training_receipt(correlation=noise, planned_steps=100, sigma=sigma)
    assert hv.verify_receipt(receipt).status == independent_status(script, receipt.to_dict()) == "holds"
    wrong = dataclasses.replace(receipt, format_version=3)
    assert hv.verify_receipt(wrong) == ("does not hold", ("format_version must be 1 for chacha20, got 3",))
    assert script.check_receipt(wrong.to_dict()) == ("does not hold", ["format_version is not that of chacha20"])


@pytest.mark.parametrize("other", CIPHERS)
def test_the_name_of_another_cipher_alone_is_refused(other, script):
    """On receipts of every kind and currency."""
    for receipts, _ in genuine():
        for receipt in receipts:
            if receipt["cipher"] != other:
                forged = {**receipt, "cipher": other}
                assert hv.verify_receipt(forged).status == independent_status(script, forged) == "does not hold"


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"cipher": "aes128"}, "cipher must be one of 'aes256', 'chacha20', 'chacha12', 'chacha8', got 'aes128'"),
        ({"cipher": None}, "cipher must be one of 'aes256', 'chacha20', 'chacha12', 'chacha8', got None"),
        ({"rounds": 10}, "rounds must be one of 14, 20, 12, 8, got 10"),
        ({"format_version": 4}, "format_version must be one of 1, 2, 3, got 4"),
        ({"format_version": True}, "format_version must be one of 1, 2, 3, got True"),
    ],
)
def test_what_is_no_receipt(changes, rule, script):
    receipt = hv.privatize(ROWS, epsilon=8.0).receipt.to_dict() | changes
    with pytest.raises(hv.ReceiptError) as caught:
        hv.verify_receipt(receipt)
    assert str(caught.value) == rule
    with pytest.raises(script.Unreadable):
        script.check_receipt(receipt)


def planned(generator):
    return plan_release(
        rows=4, dimension=8, dtype="float32", epsilon=8.0, delta=1e-5, clip_norm=1.0, mechanism="gaussian", sigma=None,
        normalize=False, renormalize=False, per="record", generator=generator,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("generator", "cipher"), [(None, "chacha20"), (hv.Generator(), "chacha20"), (hv.Generator(cipher="chacha8"), "chacha8")]
)
def test_a_release_on_a_device_draws_from_chacha(generator, cipher):
    assert planned(generator).receipt(4, on_device=True).cipher == cipher


def test_aes_that_was_asked_for_is_refused_on_a_device():
    with pytest.raises(ValueError) as caught:
        planned(hv.Generator(cipher="aes256")).receipt(4, on_device=True)
    assert str(caught.value) == "cipher must be chacha20, chacha12 or chacha8 on a device, got aes256"


@pytest.mark.parametrize("cipher", CIPHERS)
def test_training_states_its_cipher(cipher, monkeypatch):
    torch = pytest.importorskip("torch")
    from hushvec.training import Account, DPOptimizer

    optimizer = DPOptimizer(
        torch.optim.SGD(torch.nn.Linear(2, 1).parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8.0,
        sampling_probability=1.0, account=Account(generator=hv.Generator(cipher=cipher)),
    )  # fmt: skip
    assert fields(optimizer.receipt(1e-5)) == (cipher, CIPHERS[cipher][0], 3)
    on_device = [("weight", types.SimpleNamespace(is_cuda=True))]
    monkeypatch.setattr(optimizer, "_parameters", lambda: on_device)
    if cipher != "aes256":
        assert optimizer.receipt(1e-5).cipher == cipher
        return
    with pytest.raises(ValueError, match="cipher must be chacha20, chacha12 or chacha8 on a device, got aes256"):
        optimizer.receipt(1e-5)


@pytest.mark.parametrize("cipher", ["aes256", "chacha20"])
def test_a_job_states_its_cipher(cipher, script):
    setting = dict(dimension=8, epsilon=4.0, cipher=cipher)
    for job, version in ((NoiseJob.start(**setting), 3), (NoiseJob.unsafe_seeded(1, **setting), CIPHERS[cipher][1])):
        receipt = job.receipt(3)
        assert (job.cipher, job.format_version) == (cipher, version)
        assert fields(receipt) == (cipher, CIPHERS[cipher][0], version)
        assert hv.verify_receipt(receipt).status == independent_status(script, receipt.to_dict())
    assert NoiseJob.start(dimension=8, epsilon=4.0).cipher == hv.backends()["default_cipher"]
    assert NoiseJob.unsafe_seeded(1, dimension=8, epsilon=4.0).cipher == "chacha20"


@pytest.mark.parametrize("collection", [vocabulary(30, 2.0, "k_rr"), BloomFilter(64, 2, epsilon=2.0)], ids=["k_rr", "bloom"])
def test_permanent_reports_draw_from_chacha20(collection):
    receipt = collection.release("word1", per="release", memo=Memo(), generator=hv.Generator(cipher="aes256")).receipt
    assert fields(receipt) == ("chacha20", 20, 1)
