"""Opacus with hushvec's clipping, noise and sampling: what `secure_mode` is meant to do, without torchcsprng.

Opacus makes its optimizers and data loaders in two methods of PrivacyEngine, which it calls by name and which no option replaces.
So an engine becomes one of a class that overrides these two, and everything else of it stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import torch
from opacus import PrivacyEngine
from opacus.optimizers import DPOptimizer as OpacusOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch.utils.data import DataLoader

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec.training.collating import OneRowEach
from hushvec.training.gradients import require_scales
from hushvec.training.model_watch import ModelWatch
from hushvec.training.opacus_optimizers import ExactNoiseOptimizer, ExactOptimizer
from hushvec.training.ranks import Processes, process_count, require_unsharded
from hushvec.training.sampler import PoissonSampler
from hushvec.training.shared import require_accountant_alone

# The releases of Opacus that this was tested with.
OPACUS_RELEASES = ("1.6",)
GHOST = "ghost"
ROW_MODES = ("hooks", "functorch", "ew")


def secure_opacus(
    privacy_engine: Any,
    *,
    generator: _core.Generator | None = None,
    allow_buffers: Sequence[str] = (),
    independent_batches: bool = False,
) -> Any:
    """Make an Opacus PrivacyEngine clip, add noise and draw batches with hushvec.

    Args:
        privacy_engine: an opacus.PrivacyEngine without secure_mode, before `make_private`. It is changed, and keeps its accountant.
        generator: key stream of noise and batches; the process-wide one, keyed by the operating system, if None.
        allow_buffers: names of the module's buffers that a forward pass may write, since they hold nothing of the examples.
        independent_batches: whether `make_private` may be called several times with one accountant, or on parameters that another
            optimizer has stepped: each of them then draws separate batches.

    Returns:
        The same engine. `make_private` and `make_private_with_epsilon` then return an optimizer whose noise is exactly rounded
        Gaussian noise from the core's generator, whose clipping keeps every norm at most max_grad_norm in real arithmetic, and a
        loader whose Poisson batches come from the same generator.

    Raises:
        TypeError: it is no PrivacyEngine, or one of a class derived from it.
        ValueError: secure_mode, which asks for another source; Opacus in a release that this was not tested with.
            `make_private` raises ValueError for what is not covered: clipping other than "flat", sharded parameters (FSDP), several
            processes without DistributedDataParallel or Opacus's own wrapper, mode "ghost" in several, poisson_sampling=False, a
            noise_generator, and modes other than "hooks", "functorch", "ew" and "ghost"; for an accountant that another
            optimizer has; and for a collate function that does not make one row of each example.
            The optimizer's `step`, `save_checkpoint` of the engine and `opacus_accounting` raise ModelChangedError (a ValueError)
            where a parameter or buffer has changed outside of the private steps: by a forward pass that writes.

    Guarantees:
        Those of `clip_and_noise_gradients` for the modes with per-example gradients. In mode "ghost" the noise alone is this
        library's: the sum is Opacus's, in floating point, and so is its clipping.
        Accounting stays with the engine's accountant; `opacus_accounting` compares it with this library's. There is no receipt.

    Edge cases:
        In distributed training every process has each n-th example of the dataset. Clipped sums are added up exactly on rank 0, which
        draws the noise once; every process's accountant counts the same steps.
        Opacus's BatchMemoryManager works: parts of a batch are added up exactly. Two backward passes before one step are refused:
        an example in both would count twice. A step that fails drops the sum of its batch, with the parts before. torch's GradScaler
        is refused. After a change of the model that no private data came into, call `accept_changes()` of the optimizer.
        Several runs from one checkpoint of the engine are separate runs, and Opacus's account counts each as if it were the only one.

    Reference:
        Yousefpour et al. (2021); docs/training.md, "With Opacus".

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
    if not isinstance(privacy_engine, PrivacyEngine):
        raise TypeError(f"privacy_engine must be an opacus.PrivacyEngine, got {validate.kind(privacy_engine)}")
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
    independent_batches: bool
    _model: torch.nn.Module  # that the next optimizer is for

    def _prepare_model(self, module: torch.nn.Module, **arguments: Any) -> Any:
        self._model = module
        return super()._prepare_model(module, **arguments)

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
        self,
        *,
        optimizer: Any,
        noise_multiplier: float,
        max_grad_norm: Any,
        expected_batch_size: int,
        loss_reduction: str = "mean",
        distributed: bool = False,
        clipping: str = "flat",
        noise_generator: Any = None,
        grad_sample_mode: str = "hooks",
        **arguments: Any,
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
            expected_batch_size=expected_batch_size if processes is None else round(expected_batch_size * processes.count),
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
        collate.try_out()
        share = range(sampler.num_samples)
        if distributed:
            share = share[torch.distributed.get_rank() :: torch.distributed.get_world_size()]
        return DataLoader(
            loader.dataset,
            batch_sampler=_ExactSampler(share, sampler.sample_rate, sampler.steps, self.hushvec_generator),
            collate_fn=collate,
            num_workers=loader.num_workers,
            pin_memory=loader.pin_memory,
            timeout=loader.timeout,
            worker_init_fn=loader.worker_init_fn,
            multiprocessing_context=loader.multiprocessing_context,
            generator=loader.generator,
            prefetch_factor=loader.prefetch_factor,
            persistent_workers=loader.persistent_workers,
        )


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
