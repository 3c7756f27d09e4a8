"""Opacus with hushvec's clipping, noise and sampling: what `secure_mode` is meant to do, without torchcsprng.

Opacus makes its optimizers and data loaders in two methods of PrivacyEngine, which it calls by name and which no option replaces.
So an engine becomes one of a class that overrides these two, and everything else of it stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer as OpacusOptimizer
from opacus.optimizers import DPOptimizerFastGradientClipping as OpacusGhostOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import DataLoader

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec.accounting import Accountant, PoissonSampledGaussianDP
from hushvec.training import batch_gradients
from hushvec.training.batch_gradients import Named, Rows, most_rows, released
from hushvec.training.clipped_sums import ClippedSum
from hushvec.training.global_generators import UndisturbedLoader, before_forward, forget_draws, undisturbed
from hushvec.training.gradients import require_scales, sigma_of
from hushvec.training.model_watch import OTHERS_PARAMETERS, ModelWatch, leave, stepped_by_another
from hushvec.training.ranks import Processes, process_count, require_unsharded
from hushvec.training.run_account import require_accountant_alone
from hushvec.training.sampler import OneRowEach, PoissonSampler, public_size_of


class _Guarded:
    """Shared base: what a step refuses, and how it cleans up after a failure."""

    hushvec_generator: _core.Generator
    hushvec_watch: ModelWatch
    hushvec_independent: bool
    hushvec_steps: int = 0
    hushvec_processes: Processes | None = None  # of one run, if it has several
    hushvec_met = False  # in this step
    # torch's GradScaler then calls step() in every iteration, with itself as an argument, in place of skipping it silently.
    _step_supports_amp_scaling = True

    original_optimizer: Any
    param_groups: Any
    pre_step: Callable[[], Any]

    def step(self, closure: Callable[[], float] | None = None, *, grad_scaler: Any = None) -> Any:
        """As Opacus. Raises ValueError for a GradScaler, ModelChangedError for a model that a forward pass has written to."""
        self.hushvec_met = False
        try:
            batch_gradients.require_no_scaler(self, grad_scaler)
            if closure is not None:
                with torch.enable_grad():
                    closure()
            parameters = [parameter for _, parameter in _named(self)]
            if not parameters:
                raise ValueError("optimizer must have a parameter that requires a gradient, got none")
            if not self.hushvec_independent and stepped_by_another(parameters, self):
                raise ValueError(OTHERS_PARAMETERS)
            self.hushvec_watch.require_before_step(self.hushvec_steps)
            steps = self.pre_step()
        except BaseException as error:
            self._drop_batch()
            forget_draws()
            if self.hushvec_processes is not None and not self.hushvec_met and isinstance(error, Exception):
                self.hushvec_processes.tell_of_failure()
            raise
        if not steps:
            return None
        for _, parameter in batch_gradients.all_of(self.param_groups):
            if not parameter.requires_grad:
                parameter.grad = None  # a raw gradient that was left there would step it
        self.hushvec_steps += 1
        try:
            return self.original_optimizer.step()
        finally:
            forget_draws()
            self.hushvec_watch.stepped(parameters, self.hushvec_steps, self)

    def accept_changes(self) -> None:
        """Accept the model as it is now, after a change that used no private data."""
        self.hushvec_watch.rebase()
        leave((parameter for _, parameter in _named(self)), self)

    def _drop_batch(self) -> None:
        """Drop sums and gradients, so that a repeated batch counts once."""
        for _, parameter in _named(self):
            parameter.summed_grad = parameter.grad = None  # type: ignore[attr-defined]


class ExactOptimizer(_Guarded, OpacusOptimizer):  # type: ignore[misc]
    """Opacus's optimizer with exact clipping, sums and noise."""

    _sum: ClippedSum | None = None
    _sum_made_for: tuple[list[tuple[int, ...]], float, float] | None = None

    def clip_and_accumulate(self) -> None:
        """Add per-example gradients to the exact sum, in place of p.summed_grad."""
        parameters = _named(self)
        for _, parameter in parameters:
            if getattr(parameter.grad_sample, "_processed", False):  # type: ignore[attr-defined]
                raise ValueError("grad_sample must be new: call zero_grad() after every step")
        rows = batch_gradients.of_examples(parameters, self.max_grad_norm)
        if not isinstance(rows, Rows):
            raise ValueError("step() needs grad_sample on every parameter, got none")
        total = self._current_sum(parameters)
        if rows.count:
            total.add(rows.parts, rows.names)
        for _, parameter in parameters:
            passes = parameter.grad_sample if isinstance(parameter.grad_sample, list) else [parameter.grad_sample]  # type: ignore[attr-defined]
            for part in passes:
                part._processed = True

    def _drop_batch(self) -> None:
        super()._drop_batch()
        if self._sum is not None:
            self._sum.reset()

    def add_noise(self) -> None:
        parameters = _named(self)
        total = self._current_sum(parameters)
        if self.hushvec_processes is None:
            parts = released(total, parameters, self.hushvec_generator)
        else:
            self.hushvec_met = True
            settings = f"{self.noise_multiplier!r} {self.max_grad_norm!r} {self.expected_batch_size!r}"
            parts = self.hushvec_processes.noisy_sum(total, settings, parameters, self.hushvec_generator)
        for (_, parameter), noisy in zip(parameters, parts):
            parameter.grad = noisy.to(parameter.dtype)

    def _current_sum(self, parameters: Named) -> ClippedSum:
        """The sum for these parameters, clip norm and noise, which schedulers of Opacus may change between batches."""
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        sigma = sigma_of(float(self.noise_multiplier), float(self.max_grad_norm))
        wanted = (shapes, self.max_grad_norm, sigma)
        if self._sum is None or wanted != self._sum_made_for:
            if self._sum is not None and self._sum.rows:
                raise ValueError("max_grad_norm, noise_multiplier and parameters must not change within a batch")
            most = most_rows(self.expected_batch_size or 2**14)
            self._sum = ClippedSum(shapes, clip_norm=self.max_grad_norm, sigma=sigma, most_rows=most)
            self._sum_made_for = wanted
        return self._sum


class ExactNoiseOptimizer(_Guarded, OpacusGhostOptimizer):  # type: ignore[misc]
    """Opacus's optimizer of ghost clipping with this library's noise on Opacus's sums."""

    def add_noise(self) -> None:
        parameters = _named(self)
        if any(getattr(parameter.summed_grad, "_processed", False) for _, parameter in parameters):  # type: ignore[attr-defined]
            raise ValueError("summed_grad must be new: call zero_grad() after every step")
        sums = [parameter.summed_grad for _, parameter in parameters]  # type: ignore[attr-defined]
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        multiplier: Any = getattr(self, "_adjusted_noise_multiplier", self.noise_multiplier)
        sigma = sigma_of(float(multiplier), float(self.max_grad_norm))
        noise = ClippedSum(shapes, clip_norm=self.max_grad_norm, sigma=sigma, most_rows=1)
        for (_, parameter), noisy, summed in zip(parameters, released(noise, parameters, self.hushvec_generator), sums):
            parameter.grad = noisy.to(parameter.dtype)
            parameter.grad += summed.view_as(parameter)
            summed._processed = True


def _named(optimizer: Any) -> Named:
    return batch_gradients.trainable(optimizer.param_groups)


# The releases of Opacus that this was tested with.
OPACUS_RELEASES = ("1.6",)
GHOST = "ghost"
ROW_MODES = ("hooks", "functorch", "ew")


def secure_opacus(
    privacy_engine: Any, *, generator: _core.Generator | None = None, allow_buffers: Sequence[str] = (),
    independent_batches: bool = False, public_size: int | None = None,
) -> Any:
    """Make an Opacus PrivacyEngine clip, add noise and draw batches with hushvec.

    Args:
        privacy_engine: an opacus.PrivacyEngine without secure_mode, before `make_private`. It is changed, and keeps its accountant.
        generator: key stream of noise and batches; the process-wide one, keyed by the operating system, if None.
        allow_buffers: names of the module's buffers that a forward pass may write, since they hold nothing of the examples.
        independent_batches: whether `make_private` may be called several times with one accountant, or on parameters that another
            optimizer has stepped: each of them then draws separate batches.
        public_size: about how many examples there are, a public, rounded number: the sample rate, the length of the loader and what
            sums are divided by follow from it. None: their number itself, if that is a round one (two digits and zeros).

    Returns:
        The same engine. `make_private` and `make_private_with_epsilon` then return an optimizer whose noise is exactly rounded
        Gaussian noise from the core's generator, whose clipping keeps every norm at most max_grad_norm in real arithmetic, and a
        loader whose Poisson batches come from the same generator.

    Raises:
        ValueError: secure_mode, which asks for another source; Opacus in a release that this was not tested with. `make_private`
            raises it for what is not covered: docs/training_hosts.md, "With Opacus", lists it.
        ModelChangedError: from the optimizer's `step`, `save_checkpoint` of the engine and `opacus_accounting`, where a forward
            pass has written into a parameter or buffer.

    Guarantees:
        Those of `clip_and_noise_gradients` for the modes with per-example gradients. In mode "ghost" the noise alone is this
        library's: the sum is Opacus's, in floating point, and so is its clipping.
        Accounting stays with the engine's accountant; `opacus_accounting` compares it with this library's. There is no receipt.

    Edge cases:
        In distributed training every process has each n-th example of the dataset, and every process's accountant counts the same
        steps. Two backward passes before one step are refused: an example in both would count twice. A step that fails drops the
        sum of its batch, with the parts before. Several runs from one checkpoint of the engine are separate runs, and Opacus's
        account counts each as if it were the only one.

    Reference:
        Yousefpour et al. (2021); docs/training_hosts.md, "With Opacus".

    Example:
        >>> import torch, warnings
        >>> from opacus import PrivacyEngine
        >>> from hushvec.training import secure_opacus
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")   # "Secure RNG turned off": it is ours from here on
        ...     engine = secure_opacus(PrivacyEngine(accountant="rdp"))
        >>> model = torch.nn.Linear(3, 1)
        >>> data = torch.utils.data.TensorDataset(torch.ones(64, 3), torch.zeros(64, 1))
        >>> model, optimizer, loader = engine.make_private(
        ...     module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        ...     data_loader=torch.utils.data.DataLoader(data, batch_size=8), noise_multiplier=1.0, max_grad_norm=1.0)
        >>> type(optimizer).__name__, len(loader)
        ('ExactOptimizer', 8)
    """
    validate.instance("privacy_engine", privacy_engine, PrivacyEngine, "an opacus.PrivacyEngine")
    if type(privacy_engine) not in (PrivacyEngine, ExactPrivacyEngine):
        raise TypeError(f"privacy_engine must be a PrivacyEngine itself, got the derived {validate.kind(privacy_engine)}")
    if privacy_engine.secure_mode:
        raise ValueError("privacy_engine must be without secure_mode, which asks for noise of another source")
    installed = version("opacus")
    if installed.rpartition(".")[0] not in OPACUS_RELEASES:
        raise ValueError(f"opacus must be of release {' or '.join(OPACUS_RELEASES)}, got {installed}")
    source = require_generator(generator)
    validate.strings("allow_buffers", allow_buffers)
    independent = validate.flag("independent_batches", independent_batches)
    privacy_engine.hushvec_size = None if public_size is None else validate.whole_number("public_size", public_size, at_least=1)
    privacy_engine.__class__ = ExactPrivacyEngine
    privacy_engine.hushvec_generator = source
    privacy_engine.independent_batches = independent
    privacy_engine.hushvec_allowed = tuple(allow_buffers)
    privacy_engine.__dict__.setdefault("hushvec_watches", [])  # a second call forgets no model
    return privacy_engine


class ExactPrivacyEngine(PrivacyEngine):  # type: ignore[misc]
    """A PrivacyEngine whose optimizers and loaders draw from a hushvec.Generator. Made by `secure_opacus`."""

    hushvec_generator: _core.Generator
    hushvec_allowed: tuple[str, ...]
    hushvec_watches: list[ModelWatch]
    hushvec_size: int | None
    hushvec_expected: int  # examples of the next optimizer's batches
    independent_batches: bool
    _model: torch.nn.Module  # that the next optimizer is for

    def make_private(self, *, data_loader: DataLoader[Any], **arguments: Any) -> Any:
        """As Opacus, with the public number of examples in the place of their number."""
        return super().make_private(data_loader=self._of_public_length(data_loader), **arguments)

    def make_private_with_epsilon(self, *, data_loader: DataLoader[Any], **arguments: Any) -> Any:
        """As `make_private`."""
        return super().make_private_with_epsilon(data_loader=self._of_public_length(data_loader), **arguments)

    def _of_public_length(self, data_loader: DataLoader[Any]) -> DataLoader[Any]:
        if isinstance(data_loader, _PublicLength):
            return data_loader
        if not hasattr(data_loader.dataset, "__len__") or data_loader.batch_size is None:
            raise ValueError("data_loader must have a dataset with a length, and a batch_size, got one without")
        size = public_size_of(self.hushvec_size, len(data_loader.dataset))
        known = copy(data_loader)
        known.__class__, known.hushvec_size = _PublicLength, size
        self.hushvec_expected = max(1, size // len(known))
        return known

    def _prepare_model(self, module: torch.nn.Module, **arguments: Any) -> Any:
        self._model = module
        private = super()._prepare_model(module, **arguments)
        private.register_forward_pre_hook(before_forward)
        return private

    def save_checkpoint(self, *, module: Any, **arguments: Any) -> Any:
        """As Opacus; not of a model that has changed outside of the private steps."""
        for watch in self.hushvec_watches:
            watch.require_unchanged(exact=True)
        return super().save_checkpoint(module=module, **arguments)

    def load_checkpoint(self, **arguments: Any) -> Any:
        """As Opacus; the model is watched as it is afterwards."""
        loaded = super().load_checkpoint(**arguments)
        for watch in self.hushvec_watches:
            watch.rebase()
        return loaded

    def _prepare_optimizer(
        self, *, optimizer: Any, noise_multiplier: float, max_grad_norm: Any, expected_batch_size: int,
        loss_reduction: str = "mean", distributed: bool = False, clipping: str = "flat", noise_generator: Any = None,
        grad_sample_mode: str = "hooks", **arguments: Any,
    ) -> Any:
        _require_covered(clipping, noise_generator, grad_sample_mode)
        processes = _processes(distributed, self._model, grad_sample_mode)
        require_scales(max_grad_norm, noise_multiplier)
        if isinstance(optimizer, OpacusOptimizer):
            optimizer = optimizer.original_optimizer
        kind = ExactNoiseOptimizer if grad_sample_mode == GHOST else ExactOptimizer
        private = kind(
            optimizer=optimizer,
            noise_multiplier=noise_multiplier,
            max_grad_norm=max_grad_norm,
            expected_batch_size=self.hushvec_expected,  # not Opacus's, which tells the number of examples
            loss_reduction=loss_reduction,
            **arguments,
        )
        private.hushvec_processes = processes
        private.hushvec_generator = self.hushvec_generator
        private.hushvec_independent = self.independent_batches
        private.hushvec_watch = ModelWatch(self._model, allow_buffers=self.hushvec_allowed)
        require_accountant_alone(self)
        self.hushvec_watches.append(private.hushvec_watch)
        return private

    def _prepare_data_loader(self, data_loader: Any, *, poisson_sampling: bool, distributed: bool, **arguments: Any) -> Any:
        if not poisson_sampling:
            raise ValueError("poisson_sampling must be True: no amplification is proved for other batches, got False")
        loader = super()._prepare_data_loader(data_loader, poisson_sampling=poisson_sampling, distributed=False, **arguments)
        sampler = loader.batch_sampler
        collate = OneRowEach(loader.collate_fn, loader.dataset)
        with undisturbed():
            collate.try_out()
        share = range(sampler.num_samples)
        if distributed:
            share = share[torch.distributed.get_rank() :: torch.distributed.get_world_size()]
        return UndisturbedLoader(
            loader.dataset, batch_sampler=_ExactSampler(share, sampler.sample_rate, sampler.steps, self.hushvec_generator),
            collate_fn=collate,
            **{name: getattr(loader, name) for name in (
                "num_workers", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor",
                "persistent_workers",
            )},
        )


class _PublicLength(DataLoader[Any]):
    """A loader as long as one of `hushvec_size` examples: Opacus's sample rate is 1 / its length."""

    hushvec_size: int

    def __len__(self) -> int:
        assert self.batch_size is not None
        return max(1, self.hushvec_size // self.batch_size if self.drop_last else -(-self.hushvec_size // self.batch_size))


class _ExactSampler(UniformWithReplacementSampler):  # type: ignore[misc]
    """hushvec's Poisson batches of this process's share of the examples, in the place of Opacus's sampler."""

    def __init__(self, share: range, sampling_probability: float, steps: int, generator: _core.Generator) -> None:
        super().__init__(num_samples=len(share), sample_rate=sampling_probability, steps=steps)
        self._share = share
        self._batches = PoissonSampler(len(share), sampling_probability, steps=steps, generator=generator)

    def __iter__(self) -> Any:
        return ([self._share[index] for index in batch] for batch in self._batches)


def _processes(distributed: bool, model: torch.nn.Module, grad_sample_mode: str) -> Processes | None:
    """Those of one run, or None for a run in one process."""
    require_unsharded(model)
    if not distributed:
        if (count := process_count()) > 1:
            raise ValueError(
                f"module must be in Opacus's DifferentiallyPrivateDistributedDataParallel where torch.distributed has {count} "
                f"processes, got {validate.kind(model)}: each process would be a run of its own, on examples that others have too"
            )
        return None
    if grad_sample_mode == GHOST:
        raise ValueError("grad_sample_mode must have per-example gradients in distributed training with secure_opacus, got 'ghost'")
    return Processes()


def _require_covered(clipping: str, noise_generator: Any, grad_sample_mode: str) -> None:
    if clipping != "flat":
        raise ValueError(f"clipping must be 'flat' with secure_opacus, got {clipping!r}")
    if noise_generator is not None:
        raise ValueError("noise_generator must be None with secure_opacus, whose noise has a source of its own")
    if grad_sample_mode not in (*ROW_MODES, GHOST):
        raise ValueError(
            f"grad_sample_mode must be one of {', '.join(map(repr, (*ROW_MODES, GHOST)))} with secure_opacus, got {grad_sample_mode!r}"
        )


@dataclass(frozen=True, kw_only=True)
class OpacusAccounting:
    """The cost of an engine's steps for one delta: by its own accountant ("prv", "rdp" or "gdp"; the last is no bound), and by
    hushvec.accounting (`epsilon`, rounded up, by `theorem`)."""

    opacus_epsilon: float
    epsilon: float
    delta: float
    opacus_accountant: str
    theorem: str
    steps: int


def opacus_accounting(privacy_engine: Any, delta: float) -> OpacusAccounting:
    """Compare an engine's account with this library's for the same steps, add-remove.

    Args:
        privacy_engine: an opacus.PrivacyEngine that has stepped.
        delta: in (0, 1).

    Raises:
        ValueError: it has not stepped, or a step had no noise.
        ModelChangedError: an engine of `secure_opacus` whose model has changed outside of the private steps.

    Example:
        >>> import warnings
        >>> from opacus import PrivacyEngine
        >>> from hushvec.training import opacus_accounting
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     engine = PrivacyEngine(accountant="rdp")
        >>> for _ in range(100):
        ...     engine.accountant.step(noise_multiplier=1.0, sample_rate=0.01)
        >>> both = opacus_accounting(engine, 1e-5)
        >>> round(both.opacus_epsilon, 2), round(both.epsilon, 2), both.steps
        (1.21, 0.72, 100)
    """
    validate.instance("privacy_engine", privacy_engine, PrivacyEngine, "an opacus.PrivacyEngine")
    checked = validate.delta(delta)
    if isinstance(privacy_engine, ExactPrivacyEngine):
        for watch in privacy_engine.hushvec_watches:
            watch.require_unchanged(exact=True)
    accountant = Accountant(adjacency="add-remove")
    for noise_multiplier, sample_rate, steps in privacy_engine.accountant.history:
        accountant.add(
            PoissonSampledGaussianDP(noise_multiplier=float(noise_multiplier), sampling_probability=float(sample_rate)), steps
        )
    if not len(accountant):
        raise ValueError("privacy_engine must have stepped, got an engine without steps")
    ours = accountant.compose(delta=checked)
    return OpacusAccounting(
        opacus_epsilon=float(privacy_engine.accountant.get_epsilon(checked)), epsilon=ours.epsilon, delta=checked,
        opacus_accountant=privacy_engine.accountant.mechanism(), theorem=ours.theorem, steps=len(accountant),
    )
