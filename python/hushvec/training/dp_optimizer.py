"""`DPOptimizer`: any torch optimizer, fed with clipped, summed and noisy gradients, with an account of the privacy cost."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hushvec.training.schedule import (  # isort: skip
    BATCH, PLACES, Account, Clipping, Settings, account_of, clipping_of, norms_of, require_norm_for_each,
)
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.keywords import moved
from hushvec._util.recording import require_no_recorder
from hushvec.accounting import Accountant, CorrelatedNoise
from hushvec.extend import Budget, key_fields
from hushvec.receipts import TrainingReceipt
from hushvec.training import batch_gradients, ranks, shards
from hushvec.training.batch_gradients import BatchSum, Named, require_no_scaler
from hushvec.training.global_generators import draws_forgotten
from hushvec.training.guarantee import TrainingGuarantee, guarantee_of, receipt_of
from hushvec.training.journal import StepFlags
from hushvec.training.model_watch import OTHERS_PARAMETERS, ModelWatch, leave, model_of, stepped_by_another
from hushvec.training.run_account import RunAccount, account_written, require_loadable, take_over
from hushvec.training.sampler import require_public_size


def _of_wrapped(name: str) -> Any:
    return property(lambda self: getattr(self.optimizer, name), lambda self, value: setattr(self.optimizer, name, value))


class WrappingOptimizer(torch.optim.Optimizer):
    """Looks like an optimizer to learning-rate schedulers and isinstance; all state is that of the wrapped one."""

    param_groups, state, defaults = map(_of_wrapped, ("param_groups", "state", "defaults"))

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        validate.instance("optimizer", optimizer, torch.optim.Optimizer, "a torch.optim.Optimizer")
        if isinstance(optimizer, WrappingOptimizer):
            raise TypeError("optimizer must be an ordinary one, got a DPOptimizer: noise would be added twice and counted once")
        closure = inspect.signature(type(optimizer).step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise ValueError(f"optimizer must step without a closure, got {type(optimizer).__name__}")
        if not batch_gradients.trainable(optimizer.param_groups):
            raise ValueError("optimizer must have a parameter that requires a gradient, got none")
        self.optimizer = optimizer


WHY_NOT_BATCH = (
    'clipping="batch" clips the gradient of a whole batch, which one example can move by 2 clip_norm and not by clip_norm: '
    "most runs that do so claim half the epsilon they have. allow_batch_level=True accounts for it as it is"
)


class DPOptimizer(WrappingOptimizer):
    """DP-SGD around any torch optimizer that steps without a closure.

    Args:
        optimizer: whose parameters are trained: those that require a gradient. Learning-rate schedulers take the DPOptimizer.
        clip_norm: C, the largest norm of one example's gradient over all parameters; in [2^-100, 2^20]. What is below C 2^-25 is
            dropped. A list clips by layer: one norm for the gradient of each parameter, in the order of the optimizer's
            parameters; C is then the L2 norm of the list.
        noise_multiplier: sigma / C, >= 0. `noise_multiplier_for` solves for it. 0 trains without privacy, and says so.
        expected_batch_size: what the noisy sum is divided by, > 0; public. sampling_probability times about how many examples there
            are: a rounded number, as both are in the receipt (under add-remove one made of the exact number is refused).
        sampling_probability: of each example in each batch, in (0, 1]; what `PoissonSampler` was given. None with `noise`. Nothing
            is gained from it once a step has gradients of anything but one new sample (docs/training.md, "One batch, one release").
        delta: of `epsilon`, `guarantee` and the budget's charge; in (0, 1).
        steps: the most steps there will be. Needed with a budget; one more is refused.
        model: the whole module that forward passes go through; of a DistributedDataParallel around it, the module in it. Its
            parameters and buffers must change in private steps only. None: the model that `per_example_gradients` or `GhostClipping`
            was given, from its first gradients on; with gradients of another source no model is known, and no claim is made.
            Needed with `fully_shard`.
        noise: a `CorrelatedNoise`: the noise of a step is a combination of its own and of earlier steps' raw noise, drawn again from
            their key streams. noise_multiplier is then of the whole run: `noise_multiplier_for(epsilon, delta, 1.0, 1)`. Batches are
            those of a `CyclicSampler`; parameters stay on the CPU, or on CUDA. None: independent noise.
        clipping: a `Clipping`, or its method: adaptive and automatic clipping, a loss scale, clipping of whole batches.
        account: an `Account`: adjacency, accountant, budget, journal, key stream, and what is taken as given.
        distributed: True: all processes of torch.distributed are one run, each with examples of its own; noise is drawn and charged
            once, on rank 0. False: each has a run of its own. None is enough in a single process.

    Raises:
        TypeError: steps or delta missing beside a budget.
        ValueError: the accountant is another DPOptimizer's; a parameter is not the model's; `distributed` is None among several
            processes; shards of another kind than `fully_shard`'s; DistributedDataParallel inside the model.

    Guarantees:
        One step is the Gaussian mechanism on a Poisson sample: sum of gradients of norm at most C in real arithmetic, plus
        N(0, (noise_multiplier C)^2) over the reals, rounded to a public grid. k steps are (epsilon(delta), delta)-DP under the
        adjacency, for a reader of all parameters after every step. With `noise` all steps together are one Gaussian mechanism of
        noise_multiplier, if every example is in at most max_participations batches, min_separation or more steps apart; it is
        accounted for by the first step. The accountant, and the budget before it, are charged before noise is drawn; a step that is
        refused leaves parameters, optimizer state and accountant as they were. What forward passes write into the watched model is
        refused; what a module keeps in Python attributes is not seen. After each step torch's, NumPy's and Python's global generators
        have a state that depends on torch.initial_seed() and the number of steps alone, as hosts write it down. docs/training.md says
        what is left to the model and the sampler.

    Edge cases:
        An empty Poisson batch is a step of noise alone: gradients of 0 rows, or `empty_batch()`. Gradients are taken once: `step`
        clears p.grad_sample and p.clipped_sum, and p.grad of parameters that do not require a gradient. If the wrapped optimizer
        itself raises, its step was drawn and is charged. Once a part of a batch has failed, its sum is dropped and `discard()`
        has to be called before the batch is given again, whole. torch's GradScaler is refused: the steps that it skips depend on
        the batch, and so does its scale; a constant `loss_scale` does not, and bfloat16 needs none.

    Reference:
        Abadi et al. (2016); Mironov, Talwar, Zhang (2019); docs/proofs/dp_sgd.md. By layer: McMahan, Ramage, Talwar, Zhang (2018),
        section 2.

    Example:
        >>> import torch
        >>> from hushvec.training import DPOptimizer, PoissonSampler, per_example_gradients
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = DPOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=1.0,
        ...                         expected_batch_size=10, sampling_probability=0.01, delta=1e-5)
        >>> def squared_error(predict, rows, targets):
        ...     return ((predict(rows) - targets) ** 2).mean()
        >>> rows, targets = torch.ones(1000, 3), torch.zeros(1000, 1)
        >>> for batch in PoissonSampler(1000, 0.01, steps=1):
        ...     losses = per_example_gradients(model, squared_error, rows[batch], targets[batch])
        ...     optimizer.step()
        >>> round(optimizer.epsilon(), 4)
        0.1995
    """

    # torch's GradScaler then calls step() in every iteration, with itself as an argument, in place of skipping it silently.
    _step_supports_amp_scaling = True

    @moved(PLACES)
    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float | Sequence[float],
        noise_multiplier: float,
        expected_batch_size: float,
        sampling_probability: float | None = None,
        delta: float | None = None,
        steps: int | None = None,
        model: torch.nn.Module | None = None,
        noise: CorrelatedNoise | None = None,
        clipping: str | Clipping = "auto",
        account: Account | None = None,
        distributed: bool | None = None,
    ) -> None:
        super().__init__(optimizer)
        if sampling_probability is None and noise is None:
            raise TypeError("sampling_probability must be given, or noise=CorrelatedNoise, got neither")
        clipped, terms, model = clipping_of(clipping), account_of(account), ranks.unwrapped(model)
        self._steps = ranks.steps_of(distributed, self._all_parameters(), model, clips_batches=clipped.method == BATCH)
        norm, norms = norms_of(clip_norm)
        self.settings = Settings(
            clip_norm=norm, clip_norms=norms, noise_multiplier=noise_multiplier, expected_batch_size=expected_batch_size,
            sampling_probability=1.0 if sampling_probability is None else sampling_probability,
            adjacency=terms.adjacency, clipping=clipped.method, steps=steps, noise=noise, loss_scale=clipped.loss_scale,
            adaptive=clipped.adaptive, normalize=clipped.normalize,
        )
        require_norm_for_each(norms, self._parameters())
        self.schedule = self.settings.schedule
        if not validate.flag("allow_batch_level", clipped.allow_batch_level) and clipped.method == BATCH:
            raise ValueError(WHY_NOT_BATCH)
        self.delta = None if delta is None else validate.delta(delta)
        self.generator = require_generator(terms.generator)
        self._watch = ModelWatch(model, self._named, allow_buffers=terms.allow_buffers)
        if model is not None and not self._watch.covers(self._named().values()):
            raise ValueError("model must have all parameters of the optimizer, got one that is not among model.parameters()")
        self._account = RunAccount(self.settings, terms, generator=self.generator, delta=self.delta, charges=self._steps.is_first)
        self._batch = BatchSum(self.settings)

    @property
    def accountant(self) -> Accountant:
        """The accountant that counts all releases about the same people."""
        return self._account.accountant

    @property
    def budget(self) -> Budget | None:
        """The budget that is charged for the whole run before its first step."""
        return self._account.budget

    @property
    def clip_norm(self) -> float:
        """That the next batch's examples are clipped to; with a list of clip norms the L2 norm of them."""
        return self._batch.norm.clip_norm

    @property
    def sigma(self) -> float:
        """Standard deviation of the raw noise on the next batch's sum, in the unit of the gradients."""
        return self.settings.sigma_of(self._batch.norm.of_rows)

    @property
    def overflowed(self) -> int:
        """Examples whose gradient was not finite, with a `loss_scale`; for you alone: the number is not private."""
        return self._batch.overflowed

    @property
    def steps_taken(self) -> int:
        """Steps accounted for, including those of a journal."""
        return self._account.record.steps

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """`add_param_group` of the wrapped optimizer; not allowed between the parts of a batch."""
        self._require_no_batch("add_param_group")
        self._watch.require_unchanged(exact=True)
        self.optimizer.add_param_group(param_group)
        if self._watch.model is None:
            self._watch.rebase()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear p.grad and per-example gradients. Parts of a batch that `accumulate` took are kept."""
        batch_gradients.clear(batch_gradients.all_of(self.optimizer.param_groups))
        self.optimizer.zero_grad(set_to_none)

    def accumulate(self) -> None:
        """Take the gradients of one part of a batch into the sum, and clear them.

        The parts of a batch are different examples; an example in two of them would count twice, which is not detected. After an
        error the parts before are dropped, and `discard()` has to be called before anything else is taken: otherwise repeating a
        batch would count its first parts twice. It raises what `step` does.
        """
        if self.settings.clips_batches:
            raise ValueError('accumulate() needs examples to be clipped, got clipping="batch"')
        with self._batch.dropped_on_error(), self._steps.failing_together():
            parameters = self._parameters()
            self._require_untouched(parameters)
            if not self._batch.take(parameters):
                raise ValueError("accumulate() needs gradients of examples on the parameters, got none")
            batch_gradients.clear(self._all_parameters())

    def empty_batch(self) -> None:
        """Record that the Poisson sample was empty, so that no backward pass could run. `step` then adds noise alone."""
        parameters = self._parameters()
        if any(getattr(parameter, "grad_sample", None) is not None for _, parameter in parameters):
            raise ValueError("empty_batch() must be called where there are no gradients of examples, got some")
        self._batch.take_nothing(parameters)

    def discard(self) -> None:
        """Drop the parts of a batch that `accumulate` took, or a failed batch, so that a new one can begin."""
        self._batch.discard()

    def accept_changes(self) -> None:
        """Accept the model after a change that used no private data (loading weights, say); the guarantee then states this."""
        self._require_no_batch("accept_changes")
        self._take_as_is()
        self._account.record.accepted = True

    @torch.no_grad()
    @draws_forgotten()
    def step(  # type: ignore[override]
        self, closure: Callable[[], float] | None = None, *, grad_scaler: Any = None
    ) -> float | None:
        """Clip, sum, charge, add noise, divide by the expected batch size, and let the wrapped optimizer step.

        Args:
            closure: called once, first: a backward pass that leaves gradients of examples, and returns the loss.

        Raises:
            ValueError, TypeError: no batch, or gradients that cannot be used; a part of the batch has failed before.
            ModelChangedError: the model has changed since the last step.
            PrivacyBudgetExhaustedError: the budget has not enough left, or all planned steps are taken.
            BudgetError, OSError: the budget's store or the journal cannot be used.
            RuntimeError: another process of the run has failed, or the caller is being exported, traced or transformed by
                torch.func.

        After an error parameters, optimizer state and accountant are as before, and the sum of a batch is empty.
        """
        require_no_recorder()
        self._steps.require_declared()
        value = None
        with self._batch.dropped_on_error():
            with self._steps.failing_together():
                require_no_scaler(self, grad_scaler)
                if closure is not None:
                    with torch.enable_grad():
                        value = closure()
                parameters = self._parameters()
                self._require_untouched(parameters)
                taken = self._batch.take(parameters)
                if not (taken or self._batch.begun):
                    raise ValueError(_NO_BATCH[self.settings.clips_batches])
                key_fields(self.generator, on_device=_on_cuda(parameters))  # refused before the step is charged
                if (sample := self._batch.sample) is not None and self.settings.adjacency == "add-remove":
                    require_public_size(self.settings.sampling_probability, self.settings.expected_batch_size, sample.size)
            watched = not self._batch.has_examples or self._watch.covers(parameter for _, parameter in parameters)
            flags = (
                StepFlags.FLOAT_SUMS * self._batch.is_float
                | StepFlags.SEEDED * (self.generator.seeded or self._batch.has_seeded_sample)
                | StepFlags.UNWATCHED * (not watched)
                | StepFlags.UNNAMED * (not self._account.can_name(self._batch.sample))
            )
            everything, before = self._all_parameters(), self.steps_taken
            try:
                summed = self._batch.with_coordinate(parameters)
                noisy = self._batch.followed(self._steps.noisy(self._batch, summed, self._account, StepFlags(flags), self.generator))
                self._account.record.row_norm = self._batch.norm.of_rows if self._batch.norm.adapts else None
            finally:
                if self.steps_taken > before:  # charged: from here on the batch is used up, even on failure
                    batch_gradients.clear(everything)
        for _, parameter in everything:
            parameter.grad = None  # a raw gradient on a parameter that is not stepped privately would step it
        divisor = 1.0 if self.settings.clips_batches else self.settings.expected_batch_size
        for (_, parameter), gradient in zip(parameters, noisy):
            parameter.grad = shards.part_of((gradient / divisor).to(parameter.dtype), parameter)
        try:
            self.optimizer.step()
        finally:
            self._watch.stepped((parameter for _, parameter in parameters), self.steps_taken, self._account)
        return value

    def epsilon(self, delta: float | None = None) -> float:
        """Epsilon of everything in the accountant, rounded up; math.inf if a step had no noise, 0.0 before the first."""
        return self._account.epsilon(delta)

    def guarantee(self, delta: float | None = None) -> TrainingGuarantee:
        """The guarantee so far. `delta` as in `epsilon`. Hashes everything that the last step did not change: about a second per
        gigabyte."""
        return guarantee_of(self._account, delta, key_is_seeded=self.generator.seeded, changes=self._watch.changes(exact=True))

    def describe(self, delta: float | None = None) -> str:
        """`guarantee` as text."""
        return str(self.guarantee(delta))

    def receipt(self, delta: float | None = None) -> TrainingReceipt:
        """The receipt of this run's steps so far, for `hushvec.verify_receipt`."""
        return receipt_of(self._account, self.guarantee(delta), self.generator, on_device=_on_cuda(self._parameters()))

    def state_dict(self) -> dict[str, Any]:
        """The wrapped optimizer's state and the account, in types that torch.save keeps and `weights_only` loads.

        It holds no key, nonce or seed: a resumed run draws fresh noise. Sums without noise are not written down: a batch that was
        begun has to be stepped or dropped first.
        """
        self._require_no_batch("state_dict")
        return {"optimizer": self.optimizer.state_dict(), "privacy": account_written(self._account)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load what `state_dict` returned, into an optimizer that has not stepped and has the same settings; else ValueError.

        Refused too: an accountant with other releases (their cost would be forgotten), a journal of another run, one older than
        the state.
        """
        self._require_no_batch("load_state_dict")
        privacy = require_loadable(self._account, state_dict)
        self.optimizer.load_state_dict(state_dict["optimizer"])
        take_over(self._account, privacy)
        if self._account.record.row_norm is not None:
            self._batch.norm.of_rows = self._account.record.row_norm
        self._take_as_is()

    def require_unchanged(self, model: torch.nn.Module) -> None:
        """Refuse a model that changed outside of the private steps (ModelChangedError), before it is written or published.

        Args:
            model: what is to be written. Where no model is watched, it is from now on; the steps before stay without a claim.
        """
        if self._watch.model is None:
            self._watch.require_unchanged(exact=True)
            self._watch = ModelWatch(model)
        self._watch.require_unchanged(exact=True)
        self._watch.require_all_of(model)

    def __repr__(self) -> str:
        return f"DPOptimizer({type(self.optimizer).__name__}, {self.settings}, steps_taken={self.steps_taken})"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a DPOptimizer cannot be copied or pickled: two copies would account for half of what they do")

    def _parameters(self) -> Named:
        return batch_gradients.trainable(self.optimizer.param_groups)

    def _all_parameters(self) -> Named:
        return batch_gradients.all_of(self.optimizer.param_groups)

    def _named(self) -> dict[str, torch.Tensor]:
        return dict(self._all_parameters())

    def _take_as_is(self) -> None:
        self._watch.rebase()
        leave((parameter for _, parameter in self._parameters()), self._account)

    def _require_untouched(self, parameters: Named) -> None:
        """Nothing but private steps has changed the model since the last one, and those of its parameters are in this account."""
        shards.require_same_cut(self._watch.model, parameters)
        stepped = (parameter for _, parameter in parameters)
        if not self._account.independent_batches and stepped_by_another(stepped, self._account):
            raise ValueError(OTHERS_PARAMETERS)
        self._watch.require_before_step(self.steps_taken)
        if self._watch.model is None and (model := model_of(parameter for _, parameter in parameters)) is not None:
            self._watch = ModelWatch(model)
        if allowed := self._watch.allowed:
            self._account.record.allowed_buffers = sorted(allowed.union(self._account.record.allowed_buffers))

    def _require_no_batch(self, name: str) -> None:
        if self._batch.begun:
            raise ValueError(f"{name}() needs a batch to be finished: call step() or discard() first")


def _on_cuda(parameters: Named) -> bool:
    return any(parameter.is_cuda for _, parameter in parameters)


_NO_BATCH = {
    False: "step() needs gradients of examples, got none: p.grad_sample (per_example_gradients, Opacus's GradSampleModule) or "
    "p.clipped_sum (GhostClipping); call empty_batch() where the sample was empty",
    True: "step() needs a gradient of the batch, got none: call backward(), or empty_batch() where the sample was empty",
}
