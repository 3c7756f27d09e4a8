"""Amplified releases compose as such only where their samples are independent: receipts show it, or the caller says it."""

import dataclasses
import itertools
import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import hushvec_here
from hushvec.accounting import Accountant, GaussianDP, PoissonSampledGaussianDP, PureDP, Repeated, Shuffled, compose, composition
from hushvec.accounting.releases import SampleRange, collect, shared
from receipts.forgeries import SCRIPT, module_of, training_receipt
from receipts.test_check_receipt import run as run_script

ONE, OTHER = "a" * 32, "b" * 32
STEPS, NOISE, DELTA = 400, 0.7, 2e-5
# dp-accounting 0.6.0, PLDAccountant at delta = 2e-5: two trainings on batches of their own, and on the same (noise 0.7/sqrt(2)).
ON_THEIR_OWN, ON_THE_SAME = 3.99451, 9.27934


def run_of(first=None, last=None, process=ONE, **changed):
    settings = {"sampling_probability": 0.01, "noise_multiplier": NOISE, "sigma": 0.5, "steps": STEPS, **changed}
    samples = None if first is None else (SampleRange(process, first, last),)
    return dataclasses.replace(training_receipt(**settings), samples=samples)


def unamplified(steps):
    return compose([(GaussianDP(noise_multiplier=NOISE, adjacency="add-remove"), steps)], delta=DELTA).epsilon


def test_ranges_that_meet_are_shared():
    """Against comparing all pairs, for random ranges of three processes."""
    rng = np.random.default_rng(5)
    met = 0
    for _ in range(2000):
        recorded = []
        for _ in range(rng.integers(1, 6)):
            firsts = rng.integers(1, 40, size=rng.integers(0, 4))
            recorded.append([SampleRange("abc"[rng.integers(3)], int(n), int(n + rng.integers(0, 12))) for n in firsts])
        expected = set()
        for (i, some), (j, others) in itertools.combinations(enumerate(recorded), 2):
            if any(a.process == b.process and a.first <= b.last and b.first <= a.last for a in some for b in others):
                expected |= {i, j}
        assert shared(recorded) == expected
        met += bool(expected)
    assert 500 < met < 1900
    assert shared([None]) == set() and shared([None, [SampleRange("a", 1, 2)]]) == {0, 1}


@pytest.mark.parametrize(
    ("others", "amplified"),
    [
        ((401, 800), True),
        ((1, 400, OTHER), True),
        ((400, 800), False),
        ((1, 400), False),
        ((None,), False),
    ],
)
def test_two_trainings_count_with_amplification_if_their_samples_are_apart(others, amplified):
    both = [run_of(1, 400), run_of(*others)]
    together = compose(both, delta=DELTA)
    assert together.unamplified == (0 if amplified else 2)
    assert together.epsilon == pytest.approx(ON_THEIR_OWN, rel=1e-3) if amplified else together.epsilon == unamplified(2 * STEPS)
    assert ("count without amplification" in str(together)) is not amplified
    assert compose(both, delta=DELTA, independent_samples=True).epsilon == pytest.approx(ON_THEIR_OWN, rel=1e-3)
    assert ON_THE_SAME < unamplified(2 * STEPS)


def test_a_range_meets_all_that_begin_before_its_end():
    ranges = [[SampleRange(ONE, 1, 10)], [SampleRange(ONE, 5, 20)], [SampleRange(ONE, 15, 16)], [SampleRange(OTHER, 15, 16)]]
    assert shared(ranges) == {0, 1, 2}


def test_samples_may_be_shared_unless_the_caller_says_no(monkeypatch):
    both = [run_of()] * 2
    monkeypatch.setattr(composition, "compose_collected", lambda releases, **_: releases)
    assert compose(both, delta=DELTA) == collect(both, independent_samples=False) != collect(both, independent_samples=True)


def test_only_those_that_may_share_lose_their_amplification():
    runs = [run_of(1, 400), run_of(300, 700), run_of(701, 1200)]
    together = compose([*runs, GaussianDP(noise_multiplier=20.0, adjacency="add-remove")], delta=DELTA)
    assert (together.unamplified, together.releases) == (2, 3 * STEPS + 1)
    sampled = runs[0].loss
    parts = [(GaussianDP(noise_multiplier=NOISE, adjacency="add-remove"), 2 * STEPS), sampled]
    expected = compose([*parts, GaussianDP(noise_multiplier=20.0, adjacency="add-remove")], delta=DELTA)
    assert together.epsilon == expected.epsilon


def test_a_receipt_twice_rests_on_one_sample():
    for twice in ([run_of()] * 2, [(run_of(1, 400), 2)], [Repeated(run_of(1, 400), 2)], [[Repeated(run_of(1, 400), 1), 2]]):
        assert compose(twice, delta=DELTA).epsilon == unamplified(2 * STEPS)
    assert compose([run_of()], delta=1e-5).epsilon == run_of().epsilon   # alone it holds as before
    unsampled = training_receipt()
    assert compose([unsampled] * 2, delta=1e-5).unamplified == 0


def test_a_bare_loss_is_the_callers_word():
    loss = PoissonSampledGaussianDP(noise_multiplier=NOISE, sampling_probability=0.01)
    assert compose([(loss, STEPS), (loss, STEPS)], delta=DELTA).epsilon == pytest.approx(ON_THEIR_OWN, rel=1e-3)


def test_losses_without_amplification():
    sampled = PoissonSampledGaussianDP(noise_multiplier=2.0, sampling_probability=0.1, adjacency="replace-one")
    assert sampled.unamplified == GaussianDP(noise_multiplier=2.0)
    shuffled = Shuffled(PureDP(epsilon=3.0), 1000)
    assert shuffled.unamplified == PureDP(epsilon=3.0)
    everyone = dataclasses.replace(sampled, sampling_probability=1.0)
    for loss in (everyone, PureDP(epsilon=1.0), GaussianDP(noise_multiplier=1.0)):
        assert loss.unamplified is loss


def test_an_accountant_takes_a_second_training_only_on_the_callers_word():
    accountant = Accountant()
    accountant.add(run_of(1, 400))
    before = accountant.to_dict()
    for release, count in ((run_of(401, 800), 1), (run_of(), 1)):
        with pytest.raises(ValueError, match="independent_samples must be True for a receipt of training beside other amplified"):
            accountant.add(release, count)
    with pytest.raises(ValueError, match="independent_samples must be True"):
        Accountant().add(run_of(1, 400), 2)
    assert accountant.to_dict() == before
    accountant.add(run_of(401, 800), independent_samples=True)
    accountant.add(GaussianDP(noise_multiplier=20.0, adjacency="add-remove"))
    assert len(accountant) == 2 * STEPS + 1


@pytest.fixture
def files(tmp_path):
    def write(*receipts):
        paths = [tmp_path / f"{number}.json" for number in range(len(receipts))]
        for path, receipt in zip(paths, receipts):
            path.write_text(receipt.to_json())
        return paths

    return write


def test_the_command_states_no_amplified_sum_for_shared_samples(files):
    paths = files(run_of(1, 400), run_of(1, 400))
    report = json.loads(hushvec_here("verify", *paths, "--json").out)["together"]
    assert report["epsilon"] == unamplified(2 * STEPS)
    assert "2 of them count without amplification, as they may rest on the same samples" in report["reasons"][0]
    assert hushvec_here("verify", *paths, "--epsilon", "10").code == 1
    stated = json.loads(hushvec_here("verify", *paths, "--independent-samples", "--json").out)["together"]
    assert stated["epsilon"] == pytest.approx(ON_THEIR_OWN, rel=1e-3)
    assert "is your word" in stated["reasons"][0]
    apart = hushvec_here("verify", *files(run_of(1, 400), run_of(401, 800)), "--epsilon", "4")
    assert apart.code == 0 and "without amplification" not in apart.out


def charged(budget, *receipts):
    paid = []
    for receipt in receipts:
        charge = budget.consume(receipt.epsilon, receipt.delta, rho=receipt.rho)
        paid.append(dataclasses.replace(receipt, charge=hv.receipts.LedgerEntry.of(charge)))
    return paid


@pytest.mark.parametrize(
    ("second", "holds"),
    [
        ((401, 800), True), ((200, 800), False), ("unknown", False),
        pytest.param((None,), False, marks=pytest.mark.full), pytest.param((1, 400, OTHER), True, marks=pytest.mark.full),
    ],
)
def test_charges_of_epsilon_add_up_for_independent_samples_only(files, tmp_path, second, holds):
    budget = hv.PrivacyBudget(100.0, 0.1)
    unknown = dataclasses.replace(training_receipt(), samples=None)   # without a gain of its own, it may rest on the first one's
    whole = dataclasses.replace(training_receipt(), samples=())
    paid = charged(budget, run_of(1, 400), unknown if second == "unknown" else run_of(*second), whole)
    found = hv.verify_charges(paid, budget.export())
    assert found.status == ("holds" if holds else "does not hold")
    assert holds or [reason[:9] for reason in found.reasons] == ["receipt 1", "receipt 2"][: 1 if second == "unknown" else 2]
    assert hv.verify_charges(paid, budget.export(), independent_samples=True).status == "holds"
    ledger = tmp_path / "ledger.json"
    ledger.write_text(json.dumps(budget.export()))
    # The script answers "undecided" for sampled trainings that hold as issued: it is told a larger epsilon.
    checker = module_of(SCRIPT.read_text())
    sampled = []
    reasons = [checker.check_samples(receipt.to_dict(), sampled) for receipt in paid]
    assert [reason is None for reason in reasons] == [True, holds, True]
    for word, code in (((), 0 if holds else 1), (("--independent-samples",), 0)):
        assert hushvec_here("verify", *files(*paid[:2]), "--ledger", ledger, *word).code == code


def test_charges_of_rho_add_up_for_any_samples():
    budget = hv.PrivacyBudget(max_rho=5000.0)
    assert hv.verify_charges(charged(budget, run_of(1, 400), run_of(1, 400)), budget.export()).status == "holds"


def test_the_script_asks_for_independent_samples_too(files, tmp_path):
    """Of one step, which it decides: 1.02 times the epsilon."""
    budget, few = hv.PrivacyBudget(100.0, 0.1), {"steps": 1, "sampling_probability": 0.2, "noise_multiplier": 2.0, "sigma": 1.0}
    runs = [run_of(1, last, **few) for last in (1, 2)]
    paid = charged(budget, *(dataclasses.replace(one, epsilon=1.02 * one.epsilon) for one in runs))
    ledger = tmp_path / "ledger.json"
    ledger.write_text(json.dumps(budget.export()))
    found = run_script(*files(*paid), "--ledger", ledger)
    assert found.returncode == 1 and "1.json: does not hold: it may rest on samples of another training" in found.stdout
    assert run_script(*files(*paid), "--ledger", ledger, "--independent-samples").returncode == 0
