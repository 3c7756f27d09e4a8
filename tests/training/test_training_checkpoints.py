"""Checkpoints: a run killed at any moment goes on with the account of one that was not."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import hushvec as hv
from hushvec.accounting import Accountant, PureDP
from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.training import StepJournal, load_checkpoint, per_example_gradients, save_checkpoint
from hushvec.training.guarantee import NOTE_RESUMED
from training.killed_run import fresh, train
from training.small_runs import examples_of, loss, model_of, optimizer_of, same_state, seeded, state_of

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"
# How many steps a child has said before it is killed, while it computes, writes or moves a checkpoint of the next.
MOMENTS = (1, 8, 13, 26, 40) if FULL else (13,)


def killed(folder, after, steps=4000, every=5):
    """Run a child until it has said `after` steps, kill it at once, and return the steps that it said."""
    here = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    child = subprocess.Popen(
        [sys.executable, str(here / "killed_run.py"), str(folder), str(steps), str(every)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    lines = [child.stdout.readline() for _ in range(after)]
    child.send_signal(signal.SIGKILL)
    lines += child.stdout.read().splitlines()
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return [int(line.split()[1]) for line in lines if line.strip()]


@pytest.mark.parametrize("after", MOMENTS)
def test_a_killed_run_has_the_account_of_one_that_was_not(after, tmp_path):
    """Resumed and uninterrupted: the same releases, the same epsilon, the same number of steps."""
    (tmp_path / "with-journal").touch()
    said = killed(tmp_path, after)
    journal = StepJournal(tmp_path / "journal")
    assert journal.steps in (said[-1], said[-1] + 1)
    planned = said[-1] + 20

    counted = fresh_at(tmp_path, planned=4000)
    assert counted.steps_taken == journal.steps == sum(dict(counted.accountant).values())

    (tmp_path / "with-journal").unlink()
    _, resumed = train_from_checkpoint(tmp_path, planned)
    (tmp_path / "other").mkdir()
    _, uninterrupted = train(tmp_path / "other", planned, 5)
    assert resumed.accountant == uninterrupted.accountant and resumed.steps_taken == planned
    assert resumed.epsilon() == uninterrupted.epsilon()
    assert NOTE_RESUMED in resumed.guarantee().notes or said[-1] < 5
    assert not list(tmp_path.glob(".checkpoint*")) or len(list(tmp_path.glob(".checkpoint*"))) == 1   # of the killed child


def fresh_at(folder, planned):
    model, optimizer = fresh(folder, planned)
    if (folder / "checkpoint.pt").exists():
        load_checkpoint(folder / "checkpoint.pt", optimizer, model)
    return optimizer


def train_from_checkpoint(folder, planned):
    """As if the run had been planned for so many steps from the start."""
    path = folder / "checkpoint.pt"
    if path.exists():
        content = torch.load(path, weights_only=True)
        content["optimizer"]["privacy"]["settings"]["steps"] = planned
        torch.save(content, path)
    return train(folder, planned, 5)


def run(model, optimizer, steps):
    for _ in range(steps):
        per_example_gradients(model, loss, *examples_of(4))
        optimizer.step()


def test_weights_optimizer_state_and_account_come_back(tmp_path):
    model = model_of()
    optimizer = optimizer_of(model, torch.optim.Adam(model.parameters()))
    run(model, optimizer, 3)
    save_checkpoint(tmp_path / "c", optimizer, model, extra={"epoch": 2, "order": [1, 2]})
    other = model_of(seed=9)
    resumed = optimizer_of(other, torch.optim.Adam(other.parameters()))
    assert load_checkpoint(tmp_path / "c", resumed, other) == {"epoch": 2, "order": [1, 2]}
    assert same_state(state_of(optimizer, model), state_of(resumed, other))
    assert resumed.guarantee().resumed == 1 and NOTE_RESUMED in resumed.guarantee().notes
    run(other, resumed, 2)
    assert resumed.steps_taken == 5


def test_no_noise_is_drawn_twice(tmp_path):
    """Two runs from one checkpoint: different noise in every coordinate, and no key in the file."""
    model = model_of()
    optimizer = optimizer_of(model)
    run(model, optimizer, 1)
    save_checkpoint(tmp_path / "c", optimizer, model)
    gradients = []
    for _ in range(2):
        other = model_of()
        resumed = optimizer_of(other)
        load_checkpoint(tmp_path / "c", resumed, other)
        resumed.empty_batch()
        resumed.step()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in other.parameters()]))
    # 26 values on a grid, of which 1 in 28 is equal by chance: 13 of them in 1 run of 10^12
    assert float((gradients[0] == gradients[1]).double().mean()) < 0.5
    assert not {"key", "nonce", "seed", "generator"} & set(optimizer.state_dict()["privacy"])


def test_a_seed_stays_known(tmp_path):
    model = model_of()
    optimizer = optimizer_of(model, generator=seeded())
    run(model, optimizer, 1)
    resumed = optimizer_of(model_of())
    resumed.load_state_dict(optimizer.state_dict())
    assert not resumed.guarantee().is_dp_claim


def test_other_releases_of_the_account_come_back():
    accountant = Accountant(adjacency="add-remove")
    accountant.add(PureDP(epsilon=0.5, adjacency="add-remove"), 2)
    model = model_of()
    optimizer = optimizer_of(model, accountant=accountant)
    run(model, optimizer, 2)
    resumed = optimizer_of(model_of())
    resumed.load_state_dict(optimizer.state_dict())
    assert resumed.accountant == optimizer.accountant and len(resumed.accountant) == 4 and resumed.steps_taken == 2


def test_a_budget_is_not_charged_twice_for_one_run(tmp_path):
    with PrivacyBudget(20.0, 1e-3, persist_key="run", store=tmp_path / "budget.sqlite") as budget:
        model = model_of()
        optimizer = optimizer_of(model, budget=budget, steps=6, journal=tmp_path / "j")
        run(model, optimizer, 2)
        save_checkpoint(tmp_path / "c", optimizer, model)
        run(model, optimizer, 1)   # lost with the process
        charged = budget.consumed()
    with PrivacyBudget.reopen("run", store=tmp_path / "budget.sqlite") as budget:
        model = model_of()
        optimizer = optimizer_of(model, budget=budget, steps=6, journal=tmp_path / "j")
        load_checkpoint(tmp_path / "c", optimizer, model)
        run(model, optimizer, 3)
        assert budget.consumed() == charged == optimizer.epsilon() and budget.state().rows == 2
        with pytest.raises(PrivacyBudgetExhaustedError):
            run(model, optimizer, 1)


class Told:
    """A budget of the caller's own."""

    def __init__(self):
        self.charges = []

    def consume(self, epsilon, delta):
        self.charges.append(epsilon)


class TestBranches:
    """Runs that go on from one checkpoint. Without a journal nothing proves that there is only one."""

    @staticmethod
    def branch(path, budget, **changed):
        model = model_of()
        optimizer = optimizer_of(model, budget=budget, steps=4, independent_batches=True, **changed)
        load_checkpoint(path, optimizer, model)
        run(model, optimizer, 1)
        return optimizer

    @pytest.mark.parametrize("steps_before", [0, 1])
    @pytest.mark.parametrize("made", [lambda: PrivacyBudget(100.0, 1e-3), Told], ids=["ledger", "own"])
    def test_every_branch_is_charged_for_its_own_run(self, tmp_path, made, steps_before):
        model, budget = model_of(), made()
        optimizer = optimizer_of(model, budget=budget, steps=4)
        run(model, optimizer, steps_before)
        save_checkpoint(tmp_path / "c", optimizer, model)
        branches = [self.branch(tmp_path / "c", budget) for _ in range(3)]
        cost = optimizer.schedule.epsilon(4, 1e-5)
        runs = 3 + min(1, steps_before)
        if isinstance(budget, Told):
            assert budget.charges == [cost] * runs
        else:
            assert budget.consumed() == pytest.approx(runs * cost) and budget.state().rows == 1 + runs
            assert len({one.guarantee().charge["charge_id"] for one in branches}) == 3
        assert all(NOTE_RESUMED in one.guarantee().notes for one in branches)

    def test_a_branch_that_does_not_fit_the_budget_is_refused(self, tmp_path):
        model = model_of()
        budget = PrivacyBudget(optimizer_of(model).schedule.epsilon(4, 1e-5) * 1.5, 1e-3)
        optimizer = optimizer_of(model, budget=budget, steps=4)
        run(model, optimizer, 1)
        save_checkpoint(tmp_path / "c", optimizer, model)
        run(model, optimizer, 1)
        with pytest.raises(PrivacyBudgetExhaustedError):
            self.branch(tmp_path / "c", budget)

    @pytest.mark.parametrize("made", [lambda: PrivacyBudget(100.0, 1e-3), Told], ids=["ledger", "own"])
    def test_the_journal_proves_that_branches_are_one_run(self, tmp_path, made):
        model, budget = model_of(), made()
        optimizer = optimizer_of(model, budget=budget, steps=4, journal=tmp_path / "j")
        run(model, optimizer, 1)
        save_checkpoint(tmp_path / "c", optimizer, model)
        branches = [self.branch(tmp_path / "c", budget, journal=tmp_path / "j") for _ in range(3)]
        assert [one.steps_taken for one in branches] == [2, 3, 4]
        with pytest.raises(PrivacyBudgetExhaustedError) as caught:
            self.branch(tmp_path / "c", budget, journal=tmp_path / "j")
        assert str(caught.value) == (
            "the schedule of 4 steps is used up; a resumed run has steps - optimizer.steps_taken left, as a journal counts those "
            "after the checkpoint too; a longer run costs more epsilon"
        )
        charges = budget.charges if isinstance(budget, Told) else budget.export()["rows"][1:]
        assert len(charges) == 1

    def test_a_copy_of_the_journal_proves_nothing(self, tmp_path):
        model, budget = model_of(), PrivacyBudget(100.0, 1e-3)
        optimizer = optimizer_of(model, budget=budget, steps=4, journal=tmp_path / "j")
        run(model, optimizer, 1)
        save_checkpoint(tmp_path / "c", optimizer, model)
        (tmp_path / "copy").write_bytes((tmp_path / "j").read_bytes())
        with pytest.raises(ValueError, match="must be the file that the run began, got a copy of it"):
            self.branch(tmp_path / "c", budget, journal=tmp_path / "copy")
        alone = optimizer_of(model_of(), budget=budget, steps=4, journal=tmp_path / "copy")   # no checkpoint is loaded
        alone.empty_batch()
        with pytest.raises(ValueError, match="got a copy of it"):
            alone.step()
        (tmp_path / "j").rename(tmp_path / "moved")
        assert self.branch(tmp_path / "c", budget, journal=tmp_path / "moved").steps_taken == 2

    def test_a_fork_cannot_go_on_with_the_run(self):
        optimizer = optimizer_of(model_of(), budget=PrivacyBudget(100.0, 1e-3), steps=4)
        optimizer.empty_batch()
        optimizer._account._process += 1   # what os.getpid() says in a child
        with pytest.raises(ValueError, match="got a fork of it"):
            optimizer.step()
        assert optimizer.steps_taken == 0 and optimizer.budget.consumed() == 0


class TestJournal:
    def test_lost_steps_are_counted_and_end_the_schedule(self, tmp_path):
        model = model_of()
        optimizer = optimizer_of(model, steps=6, journal=tmp_path / "j")
        run(model, optimizer, 2)
        save_checkpoint(tmp_path / "c", optimizer, model)
        run(model, optimizer, 3)   # lost with the process, and perhaps seen
        model = model_of()
        resumed = optimizer_of(model, steps=6, journal=tmp_path / "j")
        assert resumed.steps_taken == 5
        load_checkpoint(tmp_path / "c", resumed, model)
        assert resumed.steps_taken == 5 and dict(resumed.accountant) == dict(optimizer.accountant)
        assert NOTE_RESUMED not in resumed.guarantee().notes
        run(model, resumed, 1)
        with pytest.raises(PrivacyBudgetExhaustedError):
            run(model, resumed, 1)
        assert StepJournal(tmp_path / "j").steps == 6

    def test_one_of_another_run_or_an_older_moment_is_refused(self, tmp_path):
        model = model_of()
        optimizer = optimizer_of(model, journal=tmp_path / "j")
        run(model, optimizer, 2)
        state = optimizer.state_dict()
        (tmp_path / "old").write_bytes((tmp_path / "j").read_bytes()[:-1])
        for name, text in (("old", "at least 2 steps, got 1"), ("none", "got an empty one")):
            resumed = optimizer_of(model_of(), journal=tmp_path / name)
            with pytest.raises(ValueError, match=text):
                resumed.load_state_dict(state)
        other = model_of()
        run(other, optimizer_of(other, journal=tmp_path / "other"), 2)
        with pytest.raises(ValueError, match="the journal must be that of run"):
            optimizer_of(model_of(), journal=tmp_path / "other").load_state_dict(state)

    def test_one_of_other_settings_is_refused(self, tmp_path):
        """Its steps would be counted at the price of these."""
        model = model_of()
        run(model, optimizer_of(model, journal=tmp_path / "j", noise_multiplier=0.7), 2)
        with pytest.raises(ValueError, match="must be the journal of a run with the settings of this one"):
            optimizer_of(model_of(), journal=tmp_path / "j", noise_multiplier=2.0)

    def test_it_knows_what_cannot_be_claimed_of_its_steps(self, tmp_path):
        model = model_of()
        run(model, optimizer_of(model, journal=tmp_path / "j", generator=hv.Generator.unsafe_seeded(1)), 1)
        another = model_of()
        run(another, optimizer_of(another, journal=tmp_path / "j"), 1)
        receipt = optimizer_of(model_of(), journal=tmp_path / "j").receipt()
        assert (receipt.steps, receipt.key_source, receipt.is_dp_claim) == (2, "seed", False)

    def test_two_writers_notice_each_other(self, tmp_path):
        model = model_of()
        first = optimizer_of(model, journal=tmp_path / "j")
        run(model, first, 1)
        second = optimizer_of(model_of(), journal=tmp_path / "j")
        run(model, first, 1)
        before = second.steps_taken
        second.empty_batch()
        with pytest.raises(ValueError, match="two processes write to it"):
            second.step()
        assert second.steps_taken == before

    @pytest.mark.parametrize("content", [b"", b"something else", b"hushvec-steps/1 " + b"0" * 32 + b"\n..x", b"hushvec-steps/1 zz\n"])
    def test_another_file_is_refused(self, content, tmp_path):
        (tmp_path / "j").write_bytes(content)
        with pytest.raises(ValueError, match="must be a journal of steps"):
            optimizer_of(model_of(), journal=tmp_path / "j")
        assert (tmp_path / "j").read_bytes() == content

    def test_a_journal_that_cannot_be_written_stops_the_step(self, tmp_path):
        model = model_of()
        optimizer = optimizer_of(model, journal=tmp_path / "missing" / "j")
        per_example_gradients(model, loss, *examples_of(4))
        before = state_of(optimizer, model)
        with pytest.raises(OSError):
            optimizer.step()
        assert same_state(before, state_of(optimizer, model))


class TestRefusals:
    @pytest.fixture
    def saved(self, tmp_path):
        model = model_of()
        optimizer = optimizer_of(model)
        run(model, optimizer, 2)
        save_checkpoint(tmp_path / "c", optimizer, model)
        return tmp_path / "c"

    def refused(self, path, model, optimizer, text):
        before = state_of(optimizer, model)
        with pytest.raises(ValueError, match=text):
            load_checkpoint(path, optimizer, model)
        assert same_state(before, state_of(optimizer, model))

    @pytest.mark.parametrize(
        "changed", [dict(noise_multiplier=1.1), dict(clip_norm=2.0), dict(sampling_probability=0.2), dict(adjacency="replace-one")]
    )
    def test_other_settings(self, saved, changed):
        model = model_of(seed=5)
        self.refused(saved, model, optimizer_of(model, **changed), f"{next(iter(changed))} must be")

    def test_another_model(self, saved):
        model = torch.nn.Linear(3, 4)
        self.refused(saved, model, optimizer_of(model), "model must have '0.bias'")

    def test_an_optimizer_that_has_stepped(self, saved):
        model = model_of(seed=5)
        optimizer = optimizer_of(model)
        run(model, optimizer, 1)
        self.refused(saved, model, optimizer, "going back would forget them")

    def test_an_account_with_other_releases(self, saved):
        model, accountant = model_of(seed=5), Accountant(adjacency="add-remove")
        accountant.add(PureDP(epsilon=0.5, adjacency="add-remove"))
        self.refused(saved, model, optimizer_of(model, accountant=accountant), "needs an accountant of this run alone")

    @pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "other"])
    def test_another_file(self, saved, damage, tmp_path):
        content = bytearray(saved.read_bytes())
        path = tmp_path / "damaged"
        if damage == "other":
            torch.save({"weights": torch.ones(2)}, path)
        else:
            content[:100] = bytes(100) if damage == "flipped" else content[:100]
            path.write_bytes({"cut": content[:-200], "flipped": content, "empty": b"", "text": b"no checkpoint"}[damage])
        model = model_of(seed=5)
        self.refused(path, model, optimizer_of(model), "must be a checkpoint of save_checkpoint")

    def test_states_of_something_else(self):
        model = model_of()
        optimizer = optimizer_of(model)
        good = optimizer.state_dict()
        wrong = {
            "must be that of a DPOptimizer": [optimizer.optimizer.state_dict(), {}, None, {**good, "privacy": {}}],
            "version must be 3, got 1": [{**good, "privacy": {**good["privacy"], "version": 1}}],
            "must hold its 3 steps, got 0": [{**good, "privacy": {**good["privacy"], "steps": 3}}],
            "setting steps, got none": [{**good, "privacy": {**good["privacy"], "settings": {
                name: value for name, value in good["privacy"]["settings"].items() if name != "steps"}}}],
        }
        for text, states in wrong.items():
            for state in states:
                before = state_of(optimizer, model)
                with pytest.raises(ValueError, match=text):
                    optimizer.load_state_dict(state)
                assert same_state(before, state_of(optimizer, model))

    def test_a_batch_that_is_begun_is_not_written(self, tmp_path):
        model = model_of()
        optimizer = optimizer_of(model)
        per_example_gradients(model, loss, *examples_of(4))
        optimizer.accumulate()
        with pytest.raises(ValueError, match=r"state_dict\(\) needs a batch to be finished"):
            save_checkpoint(tmp_path / "c", optimizer, model)
        assert not list(tmp_path.iterdir())
        optimizer.discard()
        save_checkpoint(tmp_path / "c", optimizer, model)

    def test_a_file_that_cannot_be_written_leaves_the_old_one(self, saved):
        content = saved.read_bytes()
        model = model_of()

        class Unwritable:
            def __reduce__(self):
                raise RuntimeError("not to be written")

        with pytest.raises(RuntimeError, match="not to be written"):
            save_checkpoint(saved, optimizer_of(model), model, extra={"bad": Unwritable()})
        assert saved.read_bytes() == content and list(saved.parent.iterdir()) == [saved]

    def test_kinds(self, saved):
        model = model_of()
        with pytest.raises(TypeError, match="optimizer must be a DPOptimizer, got SGD"):
            save_checkpoint(saved, torch.optim.SGD(model.parameters()), model)
        with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, got dict"):
            load_checkpoint(saved, optimizer_of(model), {})
