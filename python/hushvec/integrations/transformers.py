"""DP-SGD in transformers' Trainer: `PrivateTrainer`, and `PrivacyCallback` for a Trainer of your own that steps a DPOptimizer."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from os import PathLike
from pathlib import Path
from typing import Any

from hushvec._util import publish, validate
from hushvec._util.keywords import moved
from hushvec._util.lazy import needs_extra

with needs_extra("hushvec.integrations.transformers", "peft"):
    import torch
    from transformers import Trainer, TrainerCallback

    from hushvec.training import (
        Account,
        Clipping,
        DPOptimizer,
        GhostClipping,
        noise_multiplier_for,
        per_example_gradients,
        poisson_loader,
        require_independent_examples,
    )
    from hushvec.training.global_generators import undisturbed
    from hushvec.training.per_example import batch_size, map_tensors
    from hushvec.training.sampler import SeparateExamples, public_size_of
    from hushvec.training.schedule import BATCH, PLACES, account_of, clipping_of

PER_EXAMPLE, GHOST = "per-example", "ghost"

# What the Trainer publishes about batches: losses and norms of private examples, and numbers that grow with the size of a batch.
_PRIVATE_LOGS = ("loss", "grad_norm", "train_loss", "total_flos", "num_input_tokens_seen", "train_tokens_per_second")

# Arguments that would break the guarantee, or that nothing here would do: the value that each must have, and why.
_REQUIRED: tuple[tuple[str, tuple[Any, ...], str], ...] = (
    ("gradient_accumulation_steps", (1,), "a step is one Poisson sample; per_device_train_batch_size examples are computed at once"),
    ("auto_find_batch_size", (False,), "it repeats steps whose noise is drawn already"),
    ("fp16", (False,), "its GradScaler skips steps by what is in the batch; use bf16"),
    ("include_num_input_tokens_seen", ("no", False), "it publishes the sizes of private batches"),
    ("skip_memory_metrics", (True,), "it publishes how much memory private batches took"),
    ("debug", ([], ""), "it prints what forward passes of private batches compute"),
    ("label_smoothing_factor", (0.0,), "losses are made by the model or by losses="),
    ("train_sampling_strategy", ("random",), "batches are Poisson samples"),
    ("group_by_length", (False,), "batches are Poisson samples"),
    ("deepspeed", (None,), "an example is clipped by its norm over all parameters, which one process must hold"),
    ("world_size", (1,), "several processes need a DPOptimizer with distributed=True: see docs/training.md"),
)


def require_private_arguments(arguments: Any) -> None:
    """Refuse transformers.TrainingArguments that break the guarantee or would be ignored. The error says what to do instead."""
    for name, allowed, reason in _REQUIRED:
        value = getattr(arguments, name, allowed[0])
        if value not in allowed:
            raise ValueError(f"{name} must be {allowed[0]!r} in private training, got {value!r}: {reason}")
    if getattr(arguments, "n_gpu", 1) > 1:
        raise ValueError(f"n_gpu must be at most 1 in private training, got {arguments.n_gpu}: set CUDA_VISIBLE_DEVICES")
    if arguments.max_steps <= 0:
        raise ValueError(
            f"max_steps must be > 0 in private training, got {arguments.max_steps}: noise and account are for a number of steps that "
            "is fixed in advance"
        )


class PrivacyCallback(TrainerCallback):  # type: ignore[misc]
    """Keeps a Trainer to the account of its DPOptimizer.

    It refuses options that break the guarantee, ends the training when the planned steps are spent, puts epsilon into the logs,
    and writes the receipt. RuntimeError when a step of the Trainer was not exactly one step of the account. It guarantees nothing
    about gradients and batches, which it does not see, and leaves losses of private batches in the logs: `PrivateTrainer` has
    this callback and takes care of both.

        trainer = MyTrainer(..., optimizers=(optimizer, None), callbacks=[PrivacyCallback(optimizer, receipt="run.receipt.json")])

    Args:
        optimizer: the DPOptimizer that the Trainer steps.
        receipt: file for the receipt of the steps taken, written with every checkpoint and at the end.
    """

    def __init__(self, optimizer: DPOptimizer, *, receipt: str | PathLike[str] | None = None) -> None:
        if not isinstance(optimizer, DPOptimizer):
            raise TypeError(f"optimizer must be a DPOptimizer, got {validate.kind(optimizer)}")
        self._optimizer = optimizer
        self._receipt = None if receipt is None else Path(receipt)
        self._steps = optimizer.steps_taken

    def on_train_begin(self, args: Any, state: Any, control: Any, *, optimizer: Any = None, **_: Any) -> None:
        require_private_arguments(args)
        if getattr(optimizer, "optimizer", optimizer) is not self._optimizer and optimizer is not self._optimizer:
            raise ValueError(f"the Trainer must step the DPOptimizer of its PrivacyCallback, got {validate.kind(optimizer)}")
        self._steps = self._optimizer.steps_taken

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        taken = self._optimizer.steps_taken - self._steps
        if taken != 1:
            raise RuntimeError(f"a step of the Trainer must be 1 step of the DPOptimizer, got {taken}")
        self._steps = self._optimizer.steps_taken

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        planned = self._optimizer.settings.steps
        if planned is not None and self._steps >= planned:
            control.should_training_stop = True
            if state.max_steps > state.global_step:
                lost = planned - state.global_step
                by = f", {lost} of them by an earlier process whose weights are lost, and each one counts" if lost > 0 else ""
                warnings.warn(
                    f"training stops at step {state.global_step} of {state.max_steps}: all {planned} steps of the account are taken"
                    f"{by}; a longer run is a new account",
                    RuntimeWarning, stacklevel=2,
                )

    def on_log(self, args: Any, state: Any, control: Any, *, logs: dict[str, Any] | None = None, **_: Any) -> None:
        if logs is not None and self._optimizer.delta is not None:
            logs["epsilon"] = self._optimizer.epsilon()

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._receipt is not None:
            with publish.published_text(self._receipt, mode=publish.SHARED) as file:
                file.write(self._optimizer.receipt().to_json() + "\n")

    on_train_end = on_save


class PrivateTrainer(Trainer):  # type: ignore[misc]
    """transformers' Trainer with DP-SGD: Poisson batches, clipped and summed gradients of examples, noise, and one account.

    Args:
        epsilon, delta: of the whole training, as `noise_multiplier_for` takes them. epsilon=None with a noise_multiplier.
        clip_norm: C, the largest L2 norm of an example's gradient.
        expected_batch_size: of a step. Each example of train_dataset is in each step with probability expected_batch_size /
            public_size, independently; the number of those that are is private.
        public_size: about how many examples train_dataset has: a public, rounded number, which receipt and weights may tell. None:
            their number itself, under add-remove only if it is round (two digits and zeros).
        noise_multiplier: sigma / clip_norm, in place of epsilon.
        gradients: "per-example": exact sums, a receipt that makes a claim. "ghost": `GhostClipping`, far less memory, grade "float",
            no claim.
        losses: `losses(model, inputs) -> [B]`, one for each example, each depending on its own example alone. Needed for "ghost".
            None: the model's own loss of each example as a batch of one.
        vectorize: as for `per_example_gradients`; the default works with attention masks.
        clipping, account: as for `DPOptimizer`; `Clipping(adaptive=)` for "per-example" gradients only. A resumed run needs a journal
            to count steps that were lost with their process.
        receipt: as for `PrivacyCallback`.
        **trainer: arguments of Trainer. Of TrainingArguments, max_steps is the number of steps, and per_device_train_batch_size how
            many examples of a step are computed at once: larger ones are computed in parts, as one step. max_grad_norm is ignored.

    Options of TrainingArguments that would break the guarantee are refused (`require_private_arguments`), and, before the first
    step, a data_collator that does not make one row of each example, such as DataCollatorWithFlattening, and gradients of examples
    that depend on the batch (`require_independent_examples`). With "per-example" gradients each example is collated by itself: it
    gets no padding from longer ones. With "ghost" a batch is collated as a whole, and padding that the model sees is refused.

    Guarantees:
        Those of `DPOptimizer`, which `privacy.describe()` states, against anyone who sees weights, checkpoints and logs. The losses,
        gradient norms and counts that the Trainer makes of private batches are left out of logs and state: `training_loss` is 0.
        Epsilon is in the logs. Dropout and the collator draw from the operating system; the generators' states in a checkpoint, and
        those that callbacks see, depend on args.seed and the number of steps alone. Not hidden: times, which grow with the size of a
        batch, the length of train_dataset, and what your own model, collator and callbacks write.
        What `evaluate` logs is about eval_dataset as it is: use public examples, or those of people who are protected otherwise.

    Example:
        trainer = PrivateTrainer(model=model, args=TrainingArguments("out", max_steps=100, per_device_train_batch_size=16),
                                 train_dataset=notes, epsilon=2.0, delta=1e-5, clip_norm=1.0, expected_batch_size=64)
        trainer.train()
        print(trainer.privacy.describe())
    """

    @moved(PLACES)
    def __init__(
        self,
        *,
        epsilon: float | None = None,
        delta: float,
        clip_norm: float,
        expected_batch_size: float,
        public_size: int | None = None,
        noise_multiplier: float | None = None,
        gradients: str = PER_EXAMPLE,
        losses: Callable[[Any, dict[str, Any]], torch.Tensor] | None = None,
        vectorize: bool = False,
        clipping: str | Clipping = "auto",
        account: Account | None = None,
        receipt: str | PathLike[str] | None = None,
        **trainer: Any,
    ) -> None:
        if (epsilon is None) == (noise_multiplier is None):
            raise ValueError(f"exactly one of epsilon and noise_multiplier must be given, got {epsilon!r} and {noise_multiplier!r}")
        if gradients not in (PER_EXAMPLE, GHOST):
            raise ValueError(f"gradients must be {PER_EXAMPLE!r} or {GHOST!r}, got {gradients!r:.40}")
        if losses is not None and not callable(losses):
            raise TypeError(f"losses must be callable or None, got {validate.kind(losses)}")
        if losses is None and gradients == GHOST:
            raise ValueError('losses must be given with gradients="ghost": one loss for each example')
        clipped, terms = clipping_of(clipping), account_of(account)
        if clipped.method == BATCH or clipped.loss_scale != 1:
            raise ValueError(f"clipping must be of examples and have loss_scale 1.0 in private training, got {clipped}")
        if clipped.adaptive is not None and gradients == GHOST:
            raise ValueError('adaptive must be None with gradients="ghost", got an AdaptiveClip')
        if trainer.get("compute_loss_func") is not None:
            raise ValueError("compute_loss_func must be None in private training: give losses=, one loss for each example")
        super().__init__(**trainer)
        require_private_arguments(self.args)
        self.args.ignore_data_skip = True  # a resumed run draws new samples, and none to skip
        if not hasattr(self.train_dataset, "__len__"):
            raise TypeError(f"train_dataset must have a length, got {validate.kind(self.train_dataset)}")
        exact = len(self.train_dataset)
        size = exact if public_size is None and terms.adjacency != "add-remove" else public_size_of(public_size, exact)
        self._probability = validate.positive("expected_batch_size", expected_batch_size) / size
        if self._probability > 1:
            raise ValueError(f"expected_batch_size must be at most the {size} examples of train_dataset, got {expected_batch_size!r}")
        if noise_multiplier is None and epsilon is not None:
            noise_multiplier = noise_multiplier_for(epsilon, delta, self._probability, self.args.max_steps, adjacency=terms.adjacency)
        self._options = dict(
            clip_norm=clip_norm, noise_multiplier=noise_multiplier, expected_batch_size=expected_batch_size,
            sampling_probability=self._probability, delta=delta, steps=self.args.max_steps, model=self.model,
            clipping=replace(clipped, normalize=None) if gradients == GHOST else clipped,
            account=terms,
        )
        self._gradients, self._losses, self._normalize = gradients, losses, clipped.normalize
        self._vectorize = validate.flag("vectorize", vectorize)
        self._receipt_path = receipt
        self._private: DPOptimizer | None = None

    @property
    def privacy(self) -> DPOptimizer:
        """The optimizer that keeps the account: `epsilon()`, `describe()`, `receipt()`."""
        if self._private is None:
            self.create_optimizer()
        assert self._private is not None
        return self._private

    def create_optimizer(self, model: Any = None) -> Any:
        """The Trainer's own optimizer, or the one that it was given, inside a DPOptimizer."""
        inner = super().create_optimizer(model)
        if self._private is None:
            self._private = self.optimizer = DPOptimizer(inner, **self._options)
            self.add_callback(PrivacyCallback(self._private, receipt=self._receipt_path))
        return self.optimizer

    def get_train_dataloader(self) -> Any:
        """Poisson samples of train_dataset, as many as there are steps, through the Trainer's own collator: by itself for each example
        with "per-example" gradients. Raises what `require_independent_examples` does."""
        given = super().get_train_dataloader()
        loader = poisson_loader(
            given.dataset, self._probability, steps=self.args.max_steps, collate_fn=given.collate_fn,
            separate=self._gradients == PER_EXAMPLE, num_workers=given.num_workers, pin_memory=given.pin_memory,
        )
        self.model.train()
        if self._gradients == PER_EXAMPLE:
            require_independent_examples(self.model, self._loss_of_one, loader)
        else:
            require_independent_examples(self.model, None, loader, losses=self._losses)
        return loader

    @undisturbed()
    def get_batch_samples(self, *arguments: Any) -> Any:
        """The Trainer's `get_batch_samples`; what a collator draws moves no generator that others see."""
        return super().get_batch_samples(*arguments)

    @undisturbed()
    def training_step(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """The clipped gradients of one sample, in parts of per_device_train_batch_size. Returns 0: its loss is private."""
        self.model.train()
        # num_items_in_batch is left out: a loss that it divides depends on the other examples.
        batch = map_tensors(inputs, lambda part: part.to(self.args.device))
        size, at_once = batch_size((batch,)), self.args.per_device_train_batch_size
        if size == 0 and self._gradients == GHOST:
            self._ghost.empty_batch()  # not the optimizer's, which would show in the grade that there was none
        elif size == 0:
            self.privacy.empty_batch()
        for start in range(0, size, at_once):
            with self.compute_loss_context_manager():
                some, separate = itemgetter(slice(start, start + at_once)), isinstance(batch, SeparateExamples)
                self._clip(SeparateExamples(some(batch)) if separate else map_tensors(batch, some))
            if size > at_once:
                self.privacy.accumulate()
        return torch.zeros((), device=self.args.device)

    def _clip(self, part: Any) -> None:
        """Leave what a DPOptimizer takes on the parameters."""
        if self._gradients == PER_EXAMPLE:
            per_example_gradients(self.model, self._loss_of_one, part, vectorize=self._vectorize)
            return
        assert self._losses is not None
        ghost, losses, rows = self._ghost, self._losses(self.model, part), batch_size((part,))  # in this order
        if isinstance(losses, torch.Tensor) and tuple(losses.shape) != (rows,):
            raise ValueError(f"losses must return a tensor [{rows}], one loss for each example, got {list(losses.shape)}")
        ghost.backward(losses)

    @cached_property
    def _ghost(self) -> GhostClipping:
        clip_norm, allowed = self.privacy.settings.clip_norm, self._options["account"].allow_buffers
        return GhostClipping(self.model, clip_norm, normalize=self._normalize, allow_buffers=allowed)

    def _loss_of_one(self, predict: Callable[..., Any], example: dict[str, Any]) -> Any:
        return predict(**example).loss if self._losses is None else self._losses(predict, example)[0]

    def floating_point_ops(self, inputs: Mapping[str, Any]) -> int:
        """0: the Trainer writes the sum into its state, and it grows with the sizes of private batches."""
        return 0

    def log(self, logs: dict[str, float], *arguments: Any, **named: Any) -> None:
        """The Trainer's `log` without what it knows from private batches, and with epsilon."""
        kept = {name: value for name, value in logs.items() if name not in _PRIVATE_LOGS}
        super().log(kept | ({"epsilon": self._private.epsilon()} if self._private is not None else {}), *arguments, **named)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """The Trainer's `save_model`, after a look whether anything but private steps has changed the model."""
        if self._private is not None:
            self._private.require_unchanged(self.model)
        super().save_model(output_dir, _internal_call)
