"""One run in several processes: torch.distributed with DP-SGD.

Each process has a share of the examples and adds up their clipped gradients. The sums meet on rank 0, which alone charges and draws
noise, once, and sends the noisy sum to all. Sums of rows are whole units, so that no number of processes changes a bit of them.

A step has two meetings, in which every process hears of every other one: before anything is charged, and after rank 0 has drawn.
So a step fails on all processes or on none.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import or_
from typing import Any

import torch

from hushvec._native import _core
from hushvec._util import validate
from hushvec.errors import HushvecError
from hushvec.training import shards
from hushvec.training.batch_gradients import BatchSum, Named, exact_units, released
from hushvec.training.clipped_sums import ClippedSum
from hushvec.training.journal import StepFlags
from hushvec.training.model_watch import digest_of
from hushvec.training.run_account import RunAccount

_SHARDED = (
    "an example is clipped by its norm over all parameters: give each process the whole model, with distributed=True, or a model of "
    "fully_shard() (FSDP2) to per_example_gradients and as DPOptimizer(model=)"
)
_NOT_ALIKE = (
    "all processes must gather the shards of a model together, got some that step and some that gather: call per_example_gradients "
    "and save_checkpoint as often in each, with tensors of 0 rows, and not empty_batch(), where there are no examples"
)
_OTHER_FAILED = "the step must succeed in all processes, got an error on rank {rank}: {what}, and the batch is dropped in all of them"
_DDP = torch.nn.parallel.DistributedDataParallel
_OK, _FAILED, _FAILED_AFTER_CHARGE, _GATHERS, _SAVES = range(5)


def process_count() -> int:
    """Processes of torch.distributed's default group; 1 where there is none."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def steps_of(
    distributed: bool | None, parameters: Named, model: torch.nn.Module | None, *, clips_batches: bool
) -> OneProcess | Processes:
    """How a DPOptimizer of these parameters steps. Refuses several processes that the user has not said what they are."""
    sharded = isinstance(model, torch.nn.Module) and bool(shards.modules_of(model))
    if not sharded:
        require_whole(parameters)
    if isinstance(model, torch.nn.Module):
        require_plain(model, or_sharded=True)
    if sharded and distributed is not True:
        raise ValueError(f"distributed must be True with a model of fully_shard(), got {distributed}")
    if distributed is None or not validate.flag("distributed", distributed):
        return OneProcess(declared=distributed is False)
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        raise ValueError("distributed must be False or None without torch.distributed, got True: call init_process_group() first")
    if clips_batches:
        raise ValueError('clipping must clip examples in a run of several processes, got "batch"')
    return Processes()


def require_whole(parameters: Named) -> None:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    for name, parameter in parameters:
        if hasattr(parameter, "placements") or (fsdp is not None and isinstance(parameter, fsdp.FlatParameter)):
            raise ValueError(f"parameters must be whole, got {validate.kind(parameter)} for {name}: " + _SHARDED)


def unwrapped(model: Any) -> Any:
    """The module in a DistributedDataParallel, whose own passes would average raw gradients; else the model itself."""
    return model.module if isinstance(model, _DDP) else model


def require_plain(model: torch.nn.Module, *, or_sharded: bool = False) -> None:
    """Refuse a model with wrappers whose backward pass averages or shards raw gradients, but for `fully_shard` with `or_sharded`."""
    for name, module in model.named_modules():
        if isinstance(module, _DDP):
            raise ValueError(
                f"model must not be wrapped, got DistributedDataParallel for {name or 'the model'}: it averages raw gradients. Give "
                "its .module, and distributed=True to the DPOptimizer, which adds up clipped ones"
            )
    require_unsharded(model, or_sharded=or_sharded)


def require_unsharded(model: torch.nn.Module, *, or_sharded: bool = False) -> None:
    """Refuse a model of which a process has only shards of the parameters, or with `or_sharded` only other shards than FSDP2's."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    names = ("FullyShardedDataParallel", "FSDPModule")[: 1 if or_sharded else 2]
    sharded = tuple(getattr(fsdp, name) for name in names if hasattr(fsdp, name))
    for name, module in model.named_modules():
        if isinstance(module, sharded):
            raise ValueError(f"model must have whole parameters, got FSDP for {name or 'the model'}: " + _SHARDED)
    if or_sharded and shards.modules_of(model):
        shards.reshard(model)
        shards.require_cut_by_fsdp(model, process_count())
    else:
        require_whole(list(model.named_parameters()))


def gathered(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """The sharded parameters of a model by name, whole, in every process."""
    if sharded := shards.parameters_of(model):
        meet_to_gather(sharded, _GATHERS)
    return {name: shards.whole_of(parameter.detach()) for name, parameter in sharded}


def meet_to_gather(parameters: Named, purpose: int = _SAVES) -> None:
    """Before shards are gathered: another process that steps, or has failed, is then an error in all of them, and no deadlock."""
    Processes().meet([purpose, 0, 0, 0], "", parameters)


class OneProcess:
    """Steps of a run that is this process's own."""

    count, is_first = 1, True

    def __init__(self, *, declared: bool) -> None:
        self._declared = declared
        self.require_declared()

    def require_declared(self) -> None:
        if not self._declared and (count := process_count()) > 1:
            raise ValueError(
                f"distributed must be True or False where torch.distributed has {count} processes, got None: True for one run of all "
                "of them, False for a run of its own, with noise and account of its own, in each"
            )

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        yield

    def noisy(
        self, batch: BatchSum, parameters: Named, account: RunAccount, flags: StepFlags, generator: _core.Generator
    ) -> list[torch.Tensor]:
        """Charge the step, and return the noisy sum for every parameter."""
        account.charge_step(flags, batch.sample)
        return batch.draw(parameters, generator)


class Processes:
    """Steps of a run of all processes of the default group."""

    def __init__(self) -> None:
        self.rank, self.count = torch.distributed.get_rank(), torch.distributed.get_world_size()
        self._checked = False

    @property
    def is_first(self) -> bool:
        """Whether this is rank 0, whose account, budget and journal are the run's."""
        return self.rank == 0

    def require_declared(self) -> None:
        if process_count() != self.count:
            raise ValueError(
                f"torch.distributed must have {self.count} processes as when the optimizer was made, got {process_count()}"
            )

    @contextmanager
    def failing_together(self) -> Iterator[None]:
        """An error in here, before the first meeting of a step, fails on all processes."""
        try:
            yield
        except Exception:
            self.tell_of_failure()
            raise

    def tell_of_failure(self) -> None:
        """Meet the others in place of a step, which then fails on all processes."""
        self.meet([_FAILED, 0, 0, 0], "")

    def noisy(
        self, batch: BatchSum, parameters: Named, account: RunAccount, flags: StepFlags, generator: _core.Generator
    ) -> list[torch.Tensor]:
        """Add up the sums on rank 0, charge and draw there, and return the noisy sum for every parameter."""
        rows = batch.sum.rows if batch.sum is not None else 0
        settings = f"{account.settings.digest} {batch.norm.of_rows!r}"
        met = self.meet([_OK, account.record.steps, int(flags), rows], settings, parameters)
        if any(one[1] > met[0][1] for one in met):
            raise ValueError("rank 0 must have as many steps as the others, got fewer: load its checkpoint and its journal there")
        account.count(met[0][1] - account.record.steps)  # of rank 0's journal, that a checkpoint does not have
        flags = StepFlags(reduce(or_, (one[2] for one in met))) | StepFlags.DISTRIBUTED
        total_rows, is_float = sum(one[3] for one in met), StepFlags.FLOAT_SUMS in flags
        if is_float and total_rows:
            raise ValueError("gradients must be of one kind on all processes, got grad_sample on some and clipped_sum on others")
        total = batch.sum_for(parameters)
        sums = self.add_up(batch.float_totals_for(parameters) if is_float else exact_units(total, parameters))

        def draw() -> list[torch.Tensor]:
            assert sums is not None
            if is_float:
                batch.float_totals = sums
            else:
                total.replace([part.reshape(-1) for part in sums], total_rows)
            account.charge_step(flags, batch.sample)
            return batch.draw(parameters, generator)

        before = account.record.steps
        dtype = torch.float64 if is_float else torch.float32
        try:
            noisy = self.drawn_by_first(draw, parameters, dtype, was_charged=lambda: account.record.steps > before)
        except OtherProcessError as error:
            if error.charged:
                account.note_step(flags, batch.sample)
            raise
        if not self.is_first:
            account.note_step(flags, batch.sample)
            batch.discard()
        return noisy

    def noisy_sum(self, total: ClippedSum, settings: str, parameters: Named, generator: _core.Generator) -> list[torch.Tensor]:
        """The noisy sum of all processes' rows for every parameter, where the caller's own account is charged in each of them."""
        met = self.meet([_OK, 0, 0, total.rows], settings, parameters)
        sums, rows = self.add_up(exact_units(total, parameters)), sum(one[3] for one in met)

        def draw() -> list[torch.Tensor]:
            assert sums is not None
            total.replace([part.reshape(-1) for part in sums], rows)
            return released(total, parameters, generator)

        noisy = self.drawn_by_first(draw, parameters, torch.float32, was_charged=lambda: False)
        if not self.is_first:
            total.reset()
        return noisy

    def meet(self, facts: Sequence[int], settings: str, parameters: Named = ()) -> list[list[int]]:  # type: ignore[assignment]
        """The facts of every process; the first of `facts` is _FAILED where it has failed.

        Raises OtherProcessError where another one has, and ValueError where one has other settings, or other parameters at first.
        """
        failed = facts[0] == _FAILED
        digest = b"" if failed else self._digest(settings, parameters)
        words = [int.from_bytes(digest[i : i + 7], "little") for i in (0, 7)]
        mine = torch.tensor([*facts, *words], dtype=torch.int64, device=_wire(parameters))
        found = [torch.empty_like(mine) for _ in range(self.count)]
        torch.distributed.all_gather(found, mine)
        met: list[list[int]] = [one.tolist() for one in found]
        if failed:
            return met
        for rank, one in enumerate(met):
            if one[0] == _FAILED:
                raise OtherProcessError(_OTHER_FAILED.format(rank=rank, what="nothing was charged"))
        if any(one[0] != facts[0] for one in met):
            raise ValueError(_NOT_ALIKE)
        for rank, one in enumerate(met):
            if one[-2:] != met[0][-2:]:
                raise ValueError(f"settings and parameters must be those of rank 0 in all processes, got others on rank {rank}")
        self._checked = True
        return met

    def add_up(self, parts: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """The float64 sums of all processes, on rank 0; None on the others."""
        home = parts[0].device
        flat = torch.cat([part.reshape(-1) for part in parts]).to(_wire_of(home))
        torch.distributed.reduce(flat, dst=0)
        if not self.is_first:
            return None
        runs = torch.split(flat.to(home), [part.numel() for part in parts])
        return [run.reshape(part.shape) for run, part in zip(runs, parts)]

    def drawn_by_first(
        self, draw: Callable[[], list[torch.Tensor]], parameters: Named, dtype: torch.dtype, *, was_charged: Callable[[], bool]
    ) -> list[torch.Tensor]:
        """The result of `draw` on rank 0, for every process; OtherProcessError on the others, if it raises there."""
        home, wire = parameters[0][1].device, _wire(parameters)
        noisy: list[torch.Tensor] = []
        status, error = _OK, None
        if self.is_first:
            try:
                noisy = draw()
            except Exception as failure:
                status, error = (_FAILED_AFTER_CHARGE if was_charged() else _FAILED), failure
        word = torch.tensor([status], dtype=torch.int64, device=wire)
        torch.distributed.broadcast(word, src=0)
        if error is not None:
            raise error
        if (status := int(word)) != _OK:
            charged = status == _FAILED_AFTER_CHARGE
            failed = OtherProcessError(_OTHER_FAILED.format(rank=0, what="it was charged" if charged else "nothing was charged"))
            failed.charged = charged
            raise failed
        sizes = [parameter.numel() for _, parameter in parameters]
        if self.is_first:
            flat = torch.cat([part.reshape(-1) for part in noisy]).to(wire, dtype)
        else:
            flat = torch.empty(sum(sizes), dtype=dtype, device=wire)
        torch.distributed.broadcast(flat, src=0)
        return [run.reshape(parameter.shape) for run, (_, parameter) in zip(torch.split(flat.to(home), sizes), parameters)]

    def _digest(self, settings: str, parameters: Named) -> bytes:
        found = hashlib.sha256(f"{settings} {[tuple(parameter.shape) for _, parameter in parameters]}".encode())
        if not self._checked:  # afterwards all of them take the same steps
            for _, parameter in parameters:
                if not shards.is_sharded(parameter):
                    found.update(repr(digest_of(parameter)).encode())
        return found.digest()


class OtherProcessError(HushvecError, RuntimeError):
    """The step failed in another process of the run; `charged` says whether rank 0 had charged it."""

    charged = False


def _wire(parameters: Named) -> torch.device:
    return _wire_of(parameters[0][1].device if parameters else None)


def _wire_of(device: torch.device | None) -> torch.device:
    if torch.distributed.get_backend() != "nccl":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device()) if device is None else device
