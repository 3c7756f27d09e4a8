"""`PrivateTrainer` and `PrivacyCallback`: sums and account of transformers' Trainer, and the options that they refuse."""

import json
import math
import os
from functools import partial

import pytest

import hushvec as hv

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
from transformers import (  # noqa: E402
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithFlattening,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from hushvec.integrations.transformers import PrivacyCallback, PrivateTrainer  # noqa: E402
from hushvec.training import Account, AdaptiveClip, Clipping, DPOptimizer, per_example_gradients  # noqa: E402

NOTES = 24
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:torch.*", "ignore::UserWarning:transformers.*")


@pytest.fixture(autouse=True)
def _offline(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def note(number):
    """With an attention mask, as tokenizers make it: notes have 3 to 6 words."""
    words = 3 + number % 4
    ids = [1 + (number * 7 + place) % 30 if place < words else 0 for place in range(6)]
    return {"input_ids": ids, "attention_mask": [int(place < words) for place in range(6)], "labels": number % 2}


DATA = [note(number) for number in range(NOTES)]


def classifier():
    torch.manual_seed(0)
    shape = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=8)
    dropout = dict(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = BertForSequenceClassification(BertConfig(vocab_size=40, **shape, **dropout))
    for name, one in model.named_parameters():
        one.requires_grad_("classifier" in name or "query" in name)
    return model


def arguments(folder, **changed):
    plain = dict(
        max_steps=3, per_device_train_batch_size=8, use_cpu=True, report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True,
        learning_rate=0.1, lr_scheduler_type="constant", optim="sgd", weight_decay=0.0,
    )
    return TrainingArguments(str(folder), **{**plain, **changed})


def private(folder, model=None, *, options=None, **changed):
    given = dict(delta=1e-5, clip_norm=0.5, expected_batch_size=NOTES, noise_multiplier=1.0)
    model = classifier() if model is None else model
    return PrivateTrainer(model=model, args=arguments(folder, **(options or {})), train_dataset=DATA, **{**given, **changed})


def batch_of(notes):
    return {name: torch.tensor([one[name] for one in notes]) for name in notes[0]}


def losses(model, inputs):
    inputs = dict(inputs)
    labels = inputs.pop("labels")
    return torch.nn.functional.cross_entropy(model(**inputs).logits, labels, reduction="none")


def trained(model):
    return {name: one.detach().clone() for name, one in model.named_parameters() if one.requires_grad}


def by_hand(steps, model=None, **rule):
    """The same steps without a Trainer: every note is in every batch, and there is no noise."""
    model = classifier() if model is None else model
    optimizer = DPOptimizer(
        torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1),
        clip_norm=0.5, noise_multiplier=0.0, expected_batch_size=NOTES, sampling_probability=1.0, model=model,
        **rule,
    )
    for _ in range(steps):
        per_example_gradients(model, lambda predict, one: predict(**one).loss, batch_of(DATA), vectorize=False)
        optimizer.step()
    return trained(model)


WAYS = {
    "one part": {"options": {"per_device_train_batch_size": 64}},
    "parts of 7": {"options": {"per_device_train_batch_size": 7}},
    "losses of one's own": {"losses": losses},
    "automatic": {"clipping": Clipping(normalize=0.1)},
    "ghost, automatic": {"clipping": Clipping(normalize=0.1), "gradients": "ghost", "losses": losses},
    "ghost, in parts": {"gradients": "ghost", "losses": losses, "options": {"per_device_train_batch_size": 10}},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_weights_are_those_of_steps_made_by_hand(way, tmp_path):
    trainer = private(tmp_path, noise_multiplier=0.0, **WAYS[way])
    trainer.train()
    ours, expected = trained(trainer.model), by_hand(3, clipping=WAYS[way].get("clipping", "auto"))
    start = trained(classifier())
    for name, one in expected.items():
        torch.testing.assert_close(ours[name], one, rtol=0, atol=1e-6)
    assert all(not torch.equal(start[name], one) for name, one in expected.items() if "weight" in name)
    assert trainer.privacy.steps_taken == 3 and trainer.privacy.guarantee().grade == ("float" if "ghost" in way else "exact")


def test_one_step_of_the_account_for_each_step_and_one_charge(tmp_path):
    budget = hv.PrivacyBudget(max_epsilon=9.0, max_delta=1e-4)
    trainer = private(tmp_path / "run", epsilon=2.0, noise_multiplier=None, expected_batch_size=4, account=Account(budget=budget),
                      receipt=tmp_path / "run.receipt.json")
    trainer.train()
    guarantee = trainer.privacy.guarantee()
    assert guarantee.steps == guarantee.planned_steps == trainer.state.global_step == 3
    assert guarantee.is_dp_claim and guarantee.grade == "exact" and 1.9 < guarantee.epsilon <= 2.0
    assert guarantee.resumed == 0, "Accelerate loads the state back when it wraps the optimizer"
    assert guarantee.sampling_probability == 4 / NOTES
    assert [row["kind"] for row in budget.export()["rows"]].count("charge") == 1
    receipt = json.loads((tmp_path / "run.receipt.json").read_text())
    assert hv.verify_receipt(receipt).status == "holds" and receipt["steps"] == 3
    with pytest.raises(hv.PrivacyBudgetExhaustedError):   # a second training has no steps left
        trainer.train()
    assert trainer.privacy.steps_taken == 3


def test_batches_are_poisson_samples(tmp_path):
    """600 batches of 24 notes, each with probability 1/8. n = 14,400 draws, binomial test at alpha = 1e-6; the sizes vary as those of
    independent draws do (chi-square of the variance), which batches of a fixed size do not."""
    from scipy import stats

    trainer = private(tmp_path, expected_batch_size=3, options={"max_steps": 600})
    sizes = torch.tensor([len(batch) for batch in trainer.get_train_dataloader()], dtype=torch.float64)
    assert len(sizes) == 600
    assert stats.binomtest(int(sizes.sum()), 600 * NOTES, 1 / 8).pvalue > 1e-6
    assert stats.binomtest(int(sizes.sum() * 1.2), 600 * NOTES, 1 / 8).pvalue < 1e-6, "20 % more would be seen"

    def variance_fits(counted):
        ratio = float(((counted - 3) ** 2).sum()) / (NOTES * (1 / 8) * (7 / 8))
        return 5e-7 < stats.chi2(600).cdf(ratio) < 1 - 5e-7

    assert variance_fits(sizes) and not variance_fits(torch.full((600,), 3.0))
    assert (sizes == 0).any(), "empty samples are delivered too"


def test_empty_samples_are_steps(tmp_path):
    trainer = private(tmp_path, expected_batch_size=1e-6)
    trainer.train()
    assert trainer.privacy.steps_taken == 3
    ghostly = private(tmp_path, expected_batch_size=1e-6, gradients="ghost", losses=losses)
    ghostly.train()
    assert ghostly.privacy.steps_taken == 3


def test_nothing_of_private_batches_is_published(tmp_path, capsys):
    trainer = private(tmp_path, options={"save_strategy": "steps", "save_steps": 3})
    result = trainer.train()
    state = json.loads((tmp_path / "checkpoint-3" / "trainer_state.json").read_text())
    published = json.dumps([trainer.state.log_history, result.metrics, state])
    printed = capsys.readouterr().out
    epsilons = [entry["epsilon"] for entry in trainer.state.log_history if "learning_rate" in entry]
    assert epsilons == sorted(epsilons) and len(epsilons) == 3 and math.isfinite(epsilons[-1])
    for word in ("loss", "grad_norm"):
        assert f'"{word}"' not in published and f"'{word}'" not in printed
    assert state["total_flos"] == state["num_input_tokens_seen"] == result.training_loss == trainer.state.total_flos == 0
    plain = Trainer(model=classifier(), args=arguments(tmp_path), train_dataset=DATA)
    plain.train()
    assert any("loss" in entry for entry in plain.state.log_history) and plain.state.total_flos > 0, "an ordinary one publishes them"


def test_a_resumed_run_goes_on_with_its_account(tmp_path):
    options = {"max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    first = private(tmp_path / "run", options=options, account=Account(journal=tmp_path / "journal"))
    first.train()
    second = private(tmp_path / "run", options=options, account=Account(journal=tmp_path / "journal2"))
    with pytest.raises(ValueError, match="the journal must be that of the run in the checkpoint"):
        second.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    lost = private(tmp_path / "run", options=options, account=Account(journal=tmp_path / "journal"))
    with pytest.raises(hv.PrivacyBudgetExhaustedError):   # two steps are lost, and all four are spent
        lost.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert lost.privacy.steps_taken == 4 and first.privacy.guarantee().resumed == 0
    third = private(tmp_path / "run", options=options)
    third.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert third.privacy.steps_taken == 4 and third.privacy.guarantee().resumed == 1
    assert third.privacy.epsilon() == first.privacy.epsilon()


class StopsAt(TrainerCallback):
    """A process that ends here."""

    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **_):
        control.should_training_stop = state.global_step >= self.step


@pytest.mark.parametrize("stopped", [3, 4, 5])
def test_a_resumed_run_that_stops_early_says_why(tmp_path, stopped):
    """Steps after the checkpoint are in the journal, and count without their weights."""
    options = {"max_steps": 6, "save_strategy": "steps", "save_steps": 2}
    account = Account(journal=tmp_path / "journal")
    private(tmp_path / "run", options=options, account=account, callbacks=[StopsAt(stopped)]).train()
    again = private(tmp_path / "run", options=options, account=account)
    lost = stopped - 2
    said = f"training stops at step {6 - lost} of 6: all 6 steps of the account are taken, {lost} of them by an earlier process"
    with pytest.warns(RuntimeWarning, match=said):
        again.train(resume_from_checkpoint=str(tmp_path / "run" / "checkpoint-2"))
    assert (again.state.global_step, again.privacy.steps_taken) == (6 - lost, 6)


REFUSED = {
    "gradient_accumulation_steps": (2, "gradient_accumulation_steps must be 1 in private training, got 2"),
    "auto_find_batch_size": (True, "auto_find_batch_size must be False"),
    "include_num_input_tokens_seen": ("all", "include_num_input_tokens_seen must be 'no'"),
    "skip_memory_metrics": (False, "skip_memory_metrics must be True in private training, got False: it publishes how much memory"),
    "debug": ("underflow_overflow", r"debug must be \[\] in private training, got .*: it prints what forward passes of private"),
    "label_smoothing_factor": (0.1, "label_smoothing_factor must be 0.0"),
    "train_sampling_strategy": ("group_by_length", "train_sampling_strategy must be 'random'"),
    "max_steps": (-1, "max_steps must be > 0 in private training, got -1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_options(name, tmp_path):
    value, said = REFUSED[name]
    with pytest.raises(ValueError, match=said):
        private(tmp_path, options={name: value})


def test_gradient_scalers_and_processes_are_refused(tmp_path):
    changed = arguments(tmp_path)
    changed.fp16 = True   # TrainingArguments itself refuses it on the CPU
    with pytest.raises(ValueError, match=r"fp16 must be False .* GradScaler"):
        PrivateTrainer(
            model=classifier(), args=changed, train_dataset=DATA, delta=1e-5, clip_norm=1.0, expected_batch_size=4, epsilon=1.0
        )
    from hushvec.integrations.transformers import require_private_arguments

    class Several:
        max_steps, world_size = 3, 2

    with pytest.raises(ValueError, match=r"world_size must be 1 .*distributed=True"):
        require_private_arguments(Several())


BAD = {
    "both": (dict(epsilon=1.0), ValueError, "exactly one of epsilon and noise_multiplier must be given, got 1.0 and 1.0"),
    "neither": (dict(noise_multiplier=None), ValueError, "exactly one of epsilon and noise_multiplier"),
    "gradients": (dict(gradients="opacus"), ValueError, "gradients must be 'per-example' or 'ghost', got 'opacus'"),
    "losses": (dict(losses=3), TypeError, "losses must be callable or None, got int"),
    "ghost": (dict(gradients="ghost"), ValueError, 'losses must be given with gradients="ghost"'),
    "loss function": (dict(compute_loss_func=max), ValueError, "compute_loss_func must be None in private training"),
    "too large a batch": (dict(expected_batch_size=25), ValueError, "expected_batch_size must be at most the 24 examples"),
    "clip norm": (dict(clip_norm=-1.0), ValueError, "clip_norm"),
    "adaptive": (
        dict(clipping=Clipping(adaptive=AdaptiveClip()), gradients="ghost", losses=losses),
        ValueError,
        "adaptive must be None with gradients=",
    ),
    "little noise": (dict(clipping=Clipping(adaptive=AdaptiveClip(count_sigma=0.5))), ValueError, "count_sigma must be > noise_"),
    "whole batches": (dict(clipping="batch"), ValueError, r"clipping must be of examples and .* got Clipping\(method='batch'"),
    "scaled losses": (dict(clipping=Clipping(loss_scale=2.0)), ValueError, r"and have loss_scale 1\.0 in private training, got"),
    "earlier names": (
        dict(budget=hv.PrivacyBudget(max_epsilon=1.0)),
        TypeError,
        r"budget must be given as account=Account\(budget=\.\.\.\), got PrivateTrainer\(budget=\.\.\.\)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments(name, tmp_path):
    changed, error, said = BAD[name]
    with pytest.raises(error, match=said):
        private(tmp_path, **changed).create_optimizer()


def test_a_model_that_was_changed_is_not_saved(tmp_path):
    trainer = private(tmp_path)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    with torch.no_grad():
        trainer.model.classifier.bias.add_(1.0)
    with pytest.raises(ValueError, match=r"classifier\.bias"):
        trainer.save_model(str(tmp_path / "changed"))
    assert not os.path.exists(tmp_path / "changed")


class OwnTrainer(Trainer):
    """A Trainer that makes per-example gradients itself, some steps twice or not at all."""

    steps_of_the_account = 1

    def training_step(self, model, inputs, num_items_in_batch=None):
        for number in range(self.steps_of_the_account):
            if number:
                self.optimizer.optimizer.step()
            per_example_gradients(self.model, lambda predict, one: predict(**one).loss, dict(inputs), vectorize=False)
        return torch.zeros(())


def optimizer_of(model, **changed):
    given = dict(clip_norm=0.5, noise_multiplier=1.0, expected_batch_size=8, sampling_probability=1.0, delta=1e-5, model=model)
    inner = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.1)
    return DPOptimizer(inner, **{**given, **changed})


def stepping(kind, model, optimizer, args):
    """A Trainer of this kind that steps the optimizer and has its callback."""
    return kind(model=model, args=args, train_dataset=DATA, optimizers=(optimizer, None), callbacks=[PrivacyCallback(optimizer)])


def test_a_trainer_of_ones_own_is_kept_to_the_account(tmp_path):
    model = classifier()
    optimizer = optimizer_of(model, steps=2)
    trainer = stepping(OwnTrainer, model, optimizer, arguments(tmp_path, max_steps=5))
    with pytest.warns(RuntimeWarning, match="training stops at step 2 of 5: all 2 steps of the account are taken; a longer run"):
        trainer.train()
    assert trainer.state.global_step == optimizer.steps_taken == 2, "it stops when the planned steps are spent"
    model = classifier()
    optimizer = optimizer_of(model)
    trainer = stepping(OwnTrainer, model, optimizer, arguments(tmp_path))
    trainer.steps_of_the_account = 2
    with pytest.raises(RuntimeError, match="a step of the Trainer must be 1 step of the DPOptimizer, got 2"):
        trainer.train()


def test_an_optimizer_that_the_trainer_does_not_step(tmp_path):
    model = classifier()
    with pytest.raises(ValueError, match="the Trainer must step the DPOptimizer of its PrivacyCallback"):
        Trainer(model=model, args=arguments(tmp_path), train_dataset=DATA, callbacks=[PrivacyCallback(optimizer_of(model))]).train()
    with pytest.raises(TypeError, match="optimizer must be a DPOptimizer, got SGD"):
        PrivacyCallback(torch.optim.SGD(model.parameters(), lr=0.1))


def test_an_ordinary_training_step_leaves_no_gradient_to_step_with(tmp_path):
    """Raw gradients of a Trainer that is not private are refused by the optimizer."""
    model = classifier()
    optimizer = optimizer_of(model)
    trainer = stepping(Trainer, model, optimizer, arguments(tmp_path))
    with pytest.raises(ValueError, match=r"step\(\) needs gradients of examples, got none"):
        trainer.train()
    assert optimizer.steps_taken == 0


def twice(notes):
    return {name: torch.cat([part, part]) for name, part in batch_of(notes).items()}


def flattened(notes):
    return DataCollatorWithFlattening(return_tensors="pt")([{**one, "labels": one["input_ids"]} for one in notes])


@pytest.mark.parametrize("collator, said", [
    (twice, "got 6 rows in 'input_ids' for 3 examples"),
    (lambda notes: {name: part.reshape(1, -1) for name, part in batch_of(notes).items()}, "got 1 rows in 'input_ids' for 3 examples"),
    (flattened, "got 1 rows in 'input_ids' for 3 examples"),
], ids=["two rows of each", "one row of all", "flattened"])
def test_a_collator_makes_one_row_of_each_note_or_nothing_is_charged(collator, said, tmp_path):
    budget = hv.PrivacyBudget(max_epsilon=9.0, max_delta=1e-4)
    trainer = private(tmp_path, data_collator=collator, account=Account(budget=budget))
    with pytest.raises(ValueError, match=said):
        trainer.train()
    assert trainer.privacy.steps_taken == 0 and budget.consumed() == 0.0


def test_ghost_clipping_takes_one_loss_for_each_note(tmp_path):
    """Two views of each, made by the losses: every layer then has two rows of a note, and as many losses."""

    def of_two_views(model, inputs):
        return losses(model, {name: torch.cat([part, part]) for name, part in inputs.items()})

    trainer = private(tmp_path, gradients="ghost", losses=of_two_views)
    with pytest.raises(ValueError, match=r"losses must return a tensor \[\d+\], one loss for each example, got \[\d+\]"):
        trainer.train()
    assert trainer.privacy.steps_taken == 0


def words(length, label=0):
    return {"input_ids": [1 + 5 * (length + place) % 30 for place in range(length)], "labels": label}


def padded_left(notes, longest=0):
    """As the collators of transformers do with a tokenizer that pads on the left, GPT-2's or Llama's, say."""
    longest = longest or max(len(one["input_ids"]) for one in notes)
    missing = [longest - len(one["input_ids"]) for one in notes]
    return {
        "input_ids": torch.tensor([[0] * less + one["input_ids"] for less, one in zip(missing, notes)]),
        "attention_mask": torch.tensor([[0] * less + [1] * (longest - less) for less in missing]),
        "labels": torch.tensor([one["labels"] for one in notes]),
    }


def losses_without_a_mask(model, inputs):
    """torch.func.vmap cannot compute a model of transformers that looks at a mask's values."""
    return torch.nn.functional.cross_entropy(model(inputs["input_ids"]).logits, inputs["labels"], reduction="none")


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_long_note_moves_the_sum_by_no_more_than_the_clip_norm(vectorize, tmp_path):
    """Of one step without noise, whose sample is all notes. It was 2.2 clip norms when notes were padded to the longest of a batch."""
    def summed(notes):
        model = classifier()
        model.requires_grad_(False).bert.embeddings.position_embeddings.requires_grad_(True)
        before = trained(model)
        trainer = PrivateTrainer(
            model=model, args=arguments(tmp_path, max_steps=1, learning_rate=1.0), train_dataset=notes, data_collator=padded_left,
            delta=1e-5, clip_norm=0.01, expected_batch_size=len(notes), noise_multiplier=0.0, vectorize=vectorize,
            losses=losses_without_a_mask if vectorize else None,
        )
        trainer.train()
        return {name: (before[name] - one) * len(notes) for name, one in trained(model).items()}

    short = [words(2 + number % 2, number % 2) for number in range(NOTES)]
    together, without = summed([*short, words(8)]), summed(short)
    moved = math.hypot(*(float((together[name] - one).double().norm()) for name, one in without.items()))
    assert 0.009 < moved <= 0.01 * (1 + 1e-4), "weights are rounded to float32"


def test_ghost_clipping_refuses_notes_that_padding_ties_together(tmp_path):
    notes, budget = [words(2 + number % 3, number % 2) for number in range(NOTES)], hv.PrivacyBudget(max_epsilon=9.0, max_delta=1e-4)
    given = dict(
        model=classifier(), args=arguments(tmp_path), train_dataset=notes, delta=1e-5, clip_norm=0.5, expected_batch_size=NOTES,
        noise_multiplier=1.0, gradients="ghost", losses=losses, account=Account(budget=budget),
    )
    trainer = PrivateTrainer(data_collator=padded_left, **given)
    with pytest.raises(ValueError, match="an example's gradient must be what it is alone, got another one beside another example"):
        trainer.train()
    assert trainer.privacy.steps_taken == 0 and budget.consumed() == 0.0
    to_a_fixed_length = PrivateTrainer(data_collator=partial(padded_left, longest=8), **given)
    assert len(to_a_fixed_length.get_train_dataloader()) == 3
