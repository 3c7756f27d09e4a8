"""DP-SGD in two processes (gloo): one sum, one noise, one account; Opacus with DDP; what is refused. Both processes run once, in
`two_processes.py`, and the tests look at what they have seen."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import hushvec as hv
from evidence.reference.checks import dithered_uniforms, uniformity
from hushvec.training import GhostClipping, PoissonSampler, per_example_gradients
from training.small_runs import examples_of, loss, model_of, step_on
from training.two_processes import EXAMPLES, optimizer_of, share_of, weights

ALPHA = 1e-6

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "training.two_processes", str(rank), str(folder)],
            env={**os.environ, "PYTHONPATH": paths},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in (0, 1)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0, 0], "\n".join(outputs)
    return [torch.load(folder / f"seen{rank}.pt") for rank in (0, 1)]


def of_both(seen, name):
    return [one[name] for one in seen]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def of_one_process(batches):
    """Weights after steps without noise on all examples, in this process."""
    model = model_of()
    optimizer = optimizer_of(model, noise_multiplier=0.0, distributed=None)
    for rows, labels in batches:
        per_example_gradients(model, loss, rows, labels)
        optimizer.step()
    return weights(model)


def test_the_sum_has_the_bits_of_one_process(seen):
    first, second = of_both(seen, "without_noise")
    everything = [torch.cat(parts) for parts in zip(share_of(0), share_of(1))]
    assert len(everything[0]) == EXAMPLES
    assert same(first, second)
    assert same(first, of_one_process([everything, everything, share_of(0)]))


def test_ghost_sums_are_added_up(seen):
    (first, grade), (second, second_grade) = of_both(seen, "ghost")
    model = model_of()
    optimizer = optimizer_of(model, noise_multiplier=0.0, distributed=None)
    rows, labels = share_of(0)
    with GhostClipping(model, clip_norm=0.5) as clipping:
        clipping.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
    optimizer.step()
    assert same(first, second) and same(first, weights(model))
    assert grade == second_grade == "float"  # also where there was nothing to add up


def variance_is(noise, sigma):
    """Whether normal noise of this sigma would have such a variance, two-sided at ALPHA."""
    tail = stats.chi2(len(noise)).cdf(float((noise.double() ** 2).sum()) / sigma**2)
    return ALPHA / 2 < tail < 1 - ALPHA / 2


def test_noise_is_drawn_once(seen):
    """n = 100,000 elements, sigma = 1 on a grid of 1 / 8; chi-square of the variance and Kolmogorov-Smirnov test of the law at
    alpha = 1e-6. Two noises, added or averaged, are rejected."""
    first, second = of_both(seen, "noise")
    assert torch.equal(first["one run"], second["one run"])
    assert variance_is(first["one run"], 1.0)
    n = 8 * first["one run"].numpy().astype("float64")
    assert uniformity(dithered_uniforms(n, 0.0, 8.0, stats.norm.cdf, np.random.default_rng(1))) > ALPHA
    apart = [one["two runs"] for one in (first, second)]
    assert not torch.equal(*apart) and all(variance_is(noise, 1.0) for noise in apart)
    assert not variance_is(apart[0] + apart[1], 1.0)
    assert not variance_is((apart[0] + apart[1]) / 2, 1.0)
    assert abs(torch.corrcoef(torch.stack(apart))[0, 1]) < 0.02


def test_sum_and_noise_have_the_bits_of_one_process_with_the_same_noise(seen):
    first, second = of_both(seen, "seeded_noise")
    model = model_of()
    optimizer = optimizer_of(model, distributed=None, generator=hv.Generator.unsafe_seeded(7), model=model)
    everything = [torch.cat(parts) for parts in zip(share_of(0), share_of(1))]
    for _ in range(2):
        per_example_gradients(model, loss, *everything)
        optimizer.step()
    assert same(first, second) and same(first, weights(model))
    other = model_of()
    optimizer = optimizer_of(other, distributed=None, generator=hv.Generator.unsafe_seeded(8), model=other)
    per_example_gradients(other, loss, *everything)
    optimizer.step()
    assert not same(first, weights(other)), "with the noise of the second process they would be other weights"


def test_a_model_in_ddp_has_the_bits_of_one_process_and_one_charge(seen):
    model = model_of()
    optimizer = optimizer_of(model, distributed=None, generator=hv.Generator.unsafe_seeded(7), model=model)
    everything = [torch.cat(parts) for parts in zip(share_of(0), share_of(1))]
    for _ in range(2):
        per_example_gradients(model, loss, *everything)
        optimizer.step()
    for rank, found in enumerate(of_both(seen, "wrapped")):
        assert same(found["weights"], weights(model)) and same(found["checkpoint"], weights(model))
        assert len(found["charges"]) == (rank == 0) and found["claim"]


def test_there_is_one_charge_in_the_ledger(seen):
    """Both processes had the same ledger open, as a job that starts the same program twice does."""
    (rows, epsilon, charge), (second_rows, second_epsilon, second_charge) = of_both(seen, "ledger")
    assert rows == second_rows and epsilon == second_epsilon
    charged = [row for row in rows if row["kind"] == "charge"]
    assert len(charged) == 1 and float(charged[0]["epsilon"]) >= epsilon
    assert charge["entry_hash"] == charged[0]["entry_hash"] and second_charge is None


def test_there_is_one_account(seen):
    first, second = of_both(seen, "account")
    alone = optimizer_of(model_of(), sampling_probability=0.5, steps=3, distributed=None)
    for batch in PoissonSampler(50, 0.5, steps=3):
        step_on(alone, batch, examples_of(50)[0])
    assert first["epsilon"] == second["epsilon"] == alone.epsilon()
    assert first["steps"] == second["steps"] == 3
    assert len(first["charges"]) == 1 and second["charges"] == []
    assert same(first["weights"], second["weights"])
    assert first["claim"] and second["claim"]
    for one in (first, second):
        assert any(note.startswith("several processes took part") for note in one["notes"])
    assert not any(note.startswith("several processes") for note in alone.guarantee().notes)
    assert first["one more"].startswith("PrivacyBudgetExhaustedError") and "error on rank 0" in second["one more"]


FAILURES = {
    "NaN": ("an error on rank 1: nothing was charged", "must be finite, got nan in row 3"),
    "refused charge": ("nothing is left", "an error on rank 0: nothing was charged"),
    "other settings": ("must be those of rank 0 in all processes, got others on rank 1",) * 2,
    "other weights": ("must be those of rank 0 in all processes, got others on rank 1",) * 2,
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_in_one_process_fails_in_both(name, seen):
    for found, text in zip(of_both(seen, "failures"), FAILURES[name]):
        assert text in found[name]["error"]
        assert found[name]["same"] and found[name]["steps"] == 0 and found[name]["charges"] == []


def test_the_next_step_works_after_a_failure(seen):
    first, second = of_both(seen, "failures")
    assert first["after NaN"]["steps"] == second["after NaN"]["steps"] == 1
    assert len(first["after NaN"]["charges"]) == 1 and second["after NaN"]["charges"] == []


def test_a_resumed_run_counts_what_the_journal_of_rank_0_knows(seen):
    (steps, epsilon, first), (second_steps, second_epsilon, second) = of_both(seen, "checkpoint")
    assert steps == second_steps == 3  # one in the checkpoint, one after it, one since
    assert epsilon == second_epsilon and same(first, second)


WRAPPED = (
    "model must not be wrapped, got DistributedDataParallel for {}: it averages raw gradients. Give its .module, and distributed=True "
    "to the DPOptimizer, which adds up clipped ones"
)
SHARDED = (
    "an example is clipped by its norm over all parameters: give each process the whole model, with distributed=True, or a model of "
    "fully_shard() (FSDP2) to per_example_gradients and as DPOptimizer(model=)"
)
REFUSALS = {
    "undeclared": "distributed must be True or False where torch.distributed has 2 processes, got None",
    "batch": "clipping must clip examples in a run of several processes",
    "DDP inside gradients": WRAPPED.format("0"),
    "DDP inside": WRAPPED.format("0"),
    "DDP ghost": WRAPPED.format("the model"),
    "FSDP parameters": "parameters must be whole, got DTensor for param_groups[0]['params'][0]: " + SHARDED,
    "FSDP Opacus": "model must have whole parameters, got FSDP for the model: " + SHARDED,
    "unwrapped Opacus": "module must be in Opacus's DifferentiallyPrivateDistributedDataParallel",
    "ghost Opacus": "grad_sample_mode must have per-example gradients in distributed training",
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name, seen):
    for found in of_both(seen, "refusals"):
        assert found[name].startswith("ValueError: " + REFUSALS[name])


def test_distributed_needs_a_group():
    with pytest.raises(ValueError, match=r"distributed must be False or None without torch\.distributed, got True"):
        optimizer_of(model_of())
    with pytest.raises(TypeError, match="distributed must be True or False, got int"):
        optimizer_of(model_of(), distributed=1)


class TestOpacus:
    def test_the_sum_is_that_of_one_process(self, seen):
        """With SGD at learning rate 1 and 8 expected examples, for both wrappers, from the weights of rank 0."""
        first, second = of_both(seen, "opacus")
        model = model_of()
        optimizer = optimizer_of(model, noise_multiplier=0.0, expected_batch_size=4.0, distributed=None)  # at rate 0.5
        per_example_gradients(model, loss, *examples_of(EXAMPLES))
        optimizer.step()
        for name in ("DPDDP", "DDP"):
            assert same(first[name], second[name])
            for ours, expected in zip(first[name], weights(model)):
                torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)

    def test_noise_is_drawn_once(self, seen):
        """n = 60,000 elements of sigma / expected batch = 0.5 / 8, chi-square at alpha = 1e-6."""
        first, second = of_both(seen, "opacus")
        assert torch.equal(first["noise"], second["noise"]) and len(first["noise"]) == 60_000
        assert variance_is(first["noise"] * 8, 0.5)
        assert not variance_is(first["noise"] * 8, 0.5 * 2**0.5) and not variance_is(first["noise"] * 8, 0.5 / 2**0.5)

    def test_weights_and_accounts_stay_together(self, seen):
        first, second = of_both(seen, "opacus")
        assert same(first["weights"], second["weights"])
        assert first["steps"] == second["steps"] == 5
        assert first["expected batch"] == second["expected batch"] == 8

    def test_batches_are_poisson_samples_of_separate_shares(self, seen):
        for rank, found in enumerate(of_both(seen, "opacus")):
            assert set(found["drawn"]) == set(range(rank, EXAMPLES, 2))
            assert stats.binomtest(len(found["drawn"]), 40 * 5 * EXAMPLES // 2, 0.2).pvalue > ALPHA

    def test_what_fails_in_one_process_fails_in_both(self, seen):
        first, second = of_both(seen, "opacus")
        assert "an error on rank 1" in first["error"] and "must be finite, got inf in row 2" in second["error"]
