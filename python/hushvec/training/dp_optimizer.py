"""`DPOptimizer`: any torch optimizer, fed with clipped, summed and noisy gradients, and an account of what that has cost."""

from __future__ import annotations

import inspect
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import torch

from hushvec import _core, _validate
from hushvec._clipped_sums import ClippedSum
from hushvec.accounting import Accountant
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.receipts import LedgerEntry
from hushvec.release import Budget, require_budget, require_secret_key
from hushvec.training import batch_gradients
from hushvec.training.batch_gradients import Named, Rows, Sums
from hushvec.training.gradients import CLIPPINGS, add_rows, sigma_of
from hushvec.training.guarantee import TrainingGuarantee, notes_of
from hushvec.training.journal import StepJournal
from hushvec.training.schedule import StepSchedule

BATCH = "batch"
STATE_VERSION = 1

WHY_NOT_BATCH = (
    'clipping="batch" clips the gradient of a whole batch, which one example can move by 2 clip_norm and not by clip_norm: '
    "most runs that do so claim half the epsilon they have. allow_batch_level=True accounts for it as it is"
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What must not change between a checkpoint and the run that goes on from it."""

    clip_norm: float
    noise_multiplier: float
    expected_batch_size: float
    sampling_probability: float
    adjacency: str
    clipping: str
    steps: int | None

    def require_same(self, stored: Mapping[str, Any]) -> None:
        for name, value in asdict(self).items():
            if name not in stored:
                raise ValueError(f"the checkpoint must have the setting {name}, got none")
            if stored[name] != value:
                raise ValueError(f"{name} must be {stored[name]!r} as in the checkpoint, got {value!r}")

    @property
    def schedule(self) -> StepSchedule:
        return StepSchedule(
            noise_multiplier=self.noise_multiplier,
            sampling_probability=self.sampling_probability,
            adjacency=self.adjacency,
            clipped="batch" if self.clipping == BATCH else "example",
        )


class DPOptimizer(torch.optim.Optimizer):
    """DP-SGD around any torch optimizer that steps without a closure.

    Args:
        optimizer: whose parameters are trained: those that require a gradient. Learning-rate schedulers take the DPOptimizer.
        clip_norm: C, the largest norm of one example's gradient over all parameters; in [2^-100, 2^100].
        noise_multiplier: sigma / C, >= 0. `noise_multiplier_for` solves for it. 0 trains without privacy, and says so.
        expected_batch_size: what the noisy sum is divided by, > 0; public. sampling_probability times the number of examples.
        sampling_probability: of each example in each batch, in (0, 1]; what `PoissonSampler` was given.
        adjacency: "add-remove": an example is there or not. "replace-one": it is another one; the noise multiplier then buys half.
        clipping: "auto", "exact", "estimated": each example, as in `clip_and_noise_gradients`. "batch": p.grad as a whole; refused
            unless allow_batch_level is True.
        accountant: a hushvec.accounting.Accountant that other releases about the same people are counted in; a new one if None.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged once, for all `steps`, before the first
            step's noise is drawn. Needs steps and delta.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy: the
            guarantee says so, and together with a budget it is refused.
        delta: of `epsilon`, `guarantee` and the budget's charge; in (0, 1).
        steps: the most steps there will be. Needed with a budget; one more is refused.
        journal: path of a file that counts steps before they are drawn, for runs whose lost steps may have been seen.
        allow_batch_level: account for clipping="batch" with its sensitivity 2 C.

    Raises:
        TypeError: wrong kinds; steps or delta missing beside a budget.
        ValueError: a value out of its range; the optimizer needs a closure; no parameter requires a gradient.

    Guarantees:
        One step is the Gaussian mechanism on a Poisson sample: sum of gradients of norm at most C in real arithmetic, plus
        N(0, (noise_multiplier C)^2) over the reals, rounded to a public grid. k steps are (epsilon(delta), delta)-DP under the
        adjacency, for a reader of all parameters after every step. The accountant, and the budget before it, are charged before
        noise is drawn; a step that is refused leaves parameters, optimizer state and accountant as they were. docs/training.md
        says what is left to the model and the sampler.

    Edge cases:
        An empty Poisson batch is a step of noise alone: gradients of 0 rows, or `empty_batch()`. Gradients are taken once: `step`
        clears p.grad_sample and p.clipped_sum. If the wrapped optimizer itself raises, its step was drawn and is charged.

    Reference:
        Abadi et al. (2016); Mironov, Talwar, Zhang (2019); docs/proofs/dp_sgd.md.

    Example:
        >>> import torch
        >>> from hushvec.training import DPOptimizer, per_example_gradients
        >>> model = torch.nn.Linear(3, 1)
        >>> optimizer = DPOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=1.0,
        ...                         expected_batch_size=8, sampling_probability=0.01, delta=1e-5)
        >>> def squared_error(predict, rows, targets):
        ...     return ((predict(rows) - targets) ** 2).mean()
        >>> losses = per_example_gradients(model, squared_error, torch.ones(8, 3), torch.zeros(8, 1))
        >>> optimizer.step()
        >>> round(optimizer.epsilon(), 4)
        0.1995
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        clip_norm: float,
        noise_multiplier: float,
        expected_batch_size: float,
        sampling_probability: float,
        adjacency: str = "add-remove",
        clipping: str = "auto",
        accountant: Accountant | None = None,
        budget: Budget | None = None,
        generator: _core.Generator | None = None,
        delta: float | None = None,
        steps: int | None = None,
        journal: str | PathLike[str] | None = None,
        allow_batch_level: bool = False,
    ) -> None:
        # The base class is there for what asks isinstance; everything it would hold is the wrapped optimizer's.
        self.optimizer = _require_optimizer(optimizer)
        self.settings = Settings(
            clip_norm=_validate.clip_norm(clip_norm),
            noise_multiplier=_validate.not_negative("noise_multiplier", noise_multiplier),
            expected_batch_size=_validate.positive("expected_batch_size", expected_batch_size),
            sampling_probability=_validate.positive("sampling_probability", sampling_probability),
            adjacency=adjacency,
            clipping=_validate.choice("clipping", clipping, (*CLIPPINGS, BATCH)),
            steps=None if steps is None else _validate.whole_number("steps", steps, at_least=1),
        )
        self.schedule = self.settings.schedule
        if not _validate.flag("allow_batch_level", allow_batch_level) and clipping == BATCH:
            raise ValueError(WHY_NOT_BATCH)
        self.sigma = sigma_of(self.settings.noise_multiplier, self.settings.clip_norm)
        self.delta = None if delta is None else _validate.delta(delta)
        self.generator = _validate.generator(generator)
        self.accountant = _require_accountant(accountant, self.schedule)
        self.budget = budget
        self._cost = self._planned_cost()
        self._charge: dict[str, Any] | None = None
        self._charged = False
        self._run_id = secrets.token_hex(16)
        self._steps = self._resumed = 0
        self._drawn_here = False
        self._float_sums = self._noise_free = self._seeded = False
        self._has_batch = False
        self._totals: list[torch.Tensor] | None = None
        self._sum: ClippedSum | None = None
        self._sum_shapes: list[tuple[int, ...]] = []
        self._journal = None if journal is None else StepJournal(journal)
        if self._journal is not None and self._journal.run_id is not None:
            self._run_id = self._journal.run_id
            self._count(self._journal.steps)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Those of the wrapped optimizer."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def state(self) -> Any:
        """That of the wrapped optimizer."""
        return self.optimizer.state

    @state.setter
    def state(self, state: Any) -> None:
        self.optimizer.state = state

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the wrapped optimizer."""
        return self.optimizer.defaults

    @defaults.setter
    def defaults(self, defaults: dict[str, Any]) -> None:
        self.optimizer.defaults = defaults

    @property
    def steps_taken(self) -> int:
        """Steps that are accounted for, those of a journal included."""
        return self._steps

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """That of the wrapped optimizer; not between the parts of a batch."""
        self._require_no_batch("add_param_group")
        self.optimizer.add_param_group(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget p.grad and the gradients of examples. Parts of a batch that `accumulate` took are kept."""
        batch_gradients.clear(self._parameters())
        self.optimizer.zero_grad(set_to_none)

    def accumulate(self) -> None:
        """Take the gradients of one part of a batch into the sum, and clear them.

        The parts of a batch are different examples. An example in two parts would count twice, which nothing here can see.

        Raises:
            ValueError, TypeError: as `step`; there are no gradients; a whole batch's gradient is clipped, which has no parts.
        """
        if self.settings.clipping == BATCH:
            raise ValueError('accumulate() needs examples to be clipped, got clipping="batch"')
        parameters = self._parameters()
        if not self._take(parameters):
            raise ValueError("accumulate() needs gradients of examples on the parameters, got none")
        batch_gradients.clear(parameters)

    def empty_batch(self) -> None:
        """Say that the Poisson sample held no example, where no backward pass could run. `step` then adds noise alone."""
        if any(getattr(parameter, "grad_sample", None) is not None for _, parameter in self._parameters()):
            raise ValueError("empty_batch() must be called where there are no gradients of examples, got some")
        self._clipped_sum(self._parameters())
        self._has_batch = True

    def discard(self) -> None:
        """Forget the parts of a batch that `accumulate` took."""
        if self._sum is not None:
            self._sum.reset()
        self._totals = None
        self._has_batch = False

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Clip, sum, charge, add noise, divide by the expected batch size, and let the wrapped optimizer step.

        Args:
            closure: called once, first: a backward pass that leaves gradients of examples, and returns the loss.

        Returns:
            What the closure returned, or None.

        Raises:
            ValueError, TypeError: no batch, or gradients that cannot be used: NaN, Inf, shapes, dtypes, a parameter without one.
            PrivacyBudgetExhaustedError: the budget has not enough left, or all planned steps are taken.
            BudgetError, OSError: the budget's store or the journal cannot be used.
            Parameters, optimizer state and accountant are then as before, and the sum of a batch is empty.
        """
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        parameters = self._parameters()
        taken = self._take(parameters)
        if not (taken or self._has_batch):
            raise ValueError(_NO_BATCH[self.settings.clipping == BATCH])
        try:
            self._charge_step()
        except BaseException:
            self.discard()
            raise
        noisy = self._draw(parameters)
        batch_gradients.clear(parameters)
        divisor = 1.0 if self.settings.clipping == BATCH else self.settings.expected_batch_size
        for (_, parameter), gradient in zip(parameters, noisy):
            parameter.grad = (gradient / divisor).to(parameter.dtype)
        self.optimizer.step()
        return value

    def epsilon(self, delta: float | None = None) -> float:
        """Of everything in the accountant, rounded up; math.inf where a step had no noise, 0.0 before the first.

        Args:
            delta: in (0, 1); that of the constructor if None.
        """
        checked = self._delta(delta)
        return math.inf if self._noise_free else self.accountant.epsilon(checked)

    def guarantee(self, delta: float | None = None) -> TrainingGuarantee:
        """What holds so far. `delta` as in `epsilon`."""
        checked = self._delta(delta)
        settings, priced = self.settings, len(self.accountant) > 0 and not self._noise_free
        composition = self.accountant.compose(delta=checked) if priced else None
        batch = settings.clipping == BATCH
        seeded = self._seeded or self.generator.seeded
        return TrainingGuarantee(
            epsilon=composition.epsilon if composition else (math.inf if self._noise_free else 0.0),
            delta=checked,
            adjacency=settings.adjacency,
            theorem=composition.theorem if composition else "",
            steps=self._steps,
            planned_steps=settings.steps,
            noise_multiplier=settings.noise_multiplier,
            sensitivity=self.schedule.sensitivity_factor * settings.clip_norm,
            sigma=self.sigma,
            clip_norm=settings.clip_norm,
            clipping=settings.clipping,
            sampling_probability=settings.sampling_probability,
            expected_batch_size=settings.expected_batch_size,
            grade="float" if self._float_sums else "exact",
            key_source="seed" if seeded else "os",
            resumed=self._resumed,
            is_dp_claim=not (self._noise_free or self._float_sums or seeded or settings.noise_multiplier == 0),
            charge=self._charge,
            notes=notes_of(
                noise_free=self._noise_free or settings.noise_multiplier == 0,
                float_sums=self._float_sums,
                seeded=seeded,
                batch=batch,
                sampled=settings.sampling_probability < 1,
                lost=self._resumed > 0 and self._journal is None,
                budget=self._charged,
            ),
        )

    def describe(self, delta: float | None = None) -> str:
        """`guarantee` as text."""
        return str(self.guarantee(delta))

    def receipt(self, delta: float | None = None) -> dict[str, Any]:
        """`guarantee` as a mapping for JSON."""
        return self.guarantee(delta).to_dict()

    def state_dict(self) -> dict[str, Any]:
        """The wrapped optimizer's state and the account, in types that torch.save keeps and `weights_only` loads.

        No key, nonce or seed is in it: what goes on from here draws noise of its own.

        Raises:
            ValueError: a batch was taken in parts and not stepped: sums without noise are not written down.
        """
        self._require_no_batch("state_dict")
        return {
            "optimizer": self.optimizer.state_dict(),
            "privacy": {
                "version": STATE_VERSION,
                "settings": asdict(self.settings),
                "run_id": self._run_id,
                "steps": self._steps,
                "resumed": self._resumed,
                "accountant": self.accountant.to_dict(),
                "float_sums": self._float_sums,
                "noise_free": self._noise_free,
                "seeded": self._seeded,
                "charged": self._charged,
                "charge": self._charge,
            },
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from what `state_dict` returned, in an optimizer that has not stepped and has the same settings.

        Raises:
            ValueError: this optimizer has stepped, or its accountant holds other releases (their cost would be forgotten); a
                setting differs; the state is of something else; the journal is of another run, or older than the state.
        """
        privacy = self._require_loadable(state_dict)
        before = Accountant.from_dict(privacy["accountant"])
        saved = privacy["steps"]
        self.optimizer.load_state_dict(state_dict["optimizer"])
        for loss, count in _others(before, self.schedule, saved):
            self.accountant.add(loss, count)
        self._run_id = privacy["run_id"]
        self._count(max(0, saved - self._steps))
        self._resumed = privacy["resumed"] + 1
        self._float_sums, self._noise_free = privacy["float_sums"], privacy["noise_free"] or self._noise_free
        self._seeded = privacy["seeded"]
        self._charge = privacy["charge"]
        # A PrivacyBudget is asked again, under the same charge_id; what another budget was told is not told twice.
        self._charged = privacy["charged"] and not _is_ledger(self.budget)

    def __repr__(self) -> str:
        return f"DPOptimizer({type(self.optimizer).__name__}, {self.settings}, steps_taken={self._steps})"

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a DPOptimizer cannot be copied or pickled: two copies would account for half of what they do")

    def _parameters(self) -> Named:
        return batch_gradients.trainable(self.optimizer.param_groups)

    def _take(self, parameters: Named) -> bool:
        """Gradients on the parameters into the sums; False where there are none. If it raises, nothing has changed."""
        if not parameters:
            raise ValueError("optimizer must have a parameter that requires a gradient, got none")
        total = self._clipped_sum(parameters)
        found: Rows | Sums | None
        if self.settings.clipping == BATCH:
            found = batch_gradients.of_batch(parameters)
        else:
            found = batch_gradients.of_examples(parameters, self.settings.clip_norm)
        if found is None:
            return False
        if isinstance(found, Rows):
            if self._totals is not None:
                raise ValueError("gradients must be of one kind within a batch, got grad_sample after clipped_sum")
            if found.count:
                add_rows(total, found.parts, found.names)
        else:
            if total.rows:
                raise ValueError("gradients must be of one kind within a batch, got clipped_sum after grad_sample")
            wide = [part.double() for part in found.parts]
            self._totals = wide if self._totals is None else [a + b for a, b in zip(self._totals, wide)]
        self._has_batch = True
        return True

    def _clipped_sum(self, parameters: Named) -> ClippedSum:
        """The sum for these parameters: a new one where they have changed, which they must not within a batch."""
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        if self._sum is None or shapes != self._sum_shapes:
            if self._has_batch:
                raise ValueError("parameters must not change within a batch, got other shapes than before")
            clipping = "exact" if self.settings.clipping == BATCH else self.settings.clipping
            self._sum = ClippedSum(
                shapes, clip_norm=self.settings.clip_norm, sigma=self.sigma, most_rows=self._most_rows(), clipping=clipping
            )
            self._sum_shapes = shapes
        return self._sum

    def _most_rows(self) -> int:
        """A public bound on the examples of a batch that a Poisson sample of the expected size never reaches."""
        if self.settings.clipping == BATCH:
            return 1
        return 1 << math.ceil(math.log2(8 * self.settings.expected_batch_size + 64))

    def _draw(self, parameters: Named) -> list[torch.Tensor]:
        """The noisy sum for every parameter; the sums are empty afterwards."""
        out = [torch.empty(parameter.shape, dtype=torch.float32, device=parameter.device) for _, parameter in parameters]
        totals, self._totals = self._totals, None
        assert self._sum is not None
        noisy: list[torch.Tensor] = self._sum.release(self.generator, out)
        if totals is not None:
            noisy = [total.to(torch.float64) + part for total, part in zip(totals, noisy)]
        self.discard()
        return noisy

    def _charge_step(self) -> None:
        """Everything that a step costs, before its noise: the budget, then the journal, then the accountant."""
        planned = self.settings.steps
        if planned is not None and self._steps >= planned:
            raise PrivacyBudgetExhaustedError(
                f"the schedule of {planned} steps is used up", hint="plan a longer run: more steps cost more epsilon"
            )
        self._charge_budget()
        if self._journal is not None:
            self._journal.append(self._run_id)
        self._count(1)
        self._drawn_here = True
        self._float_sums = self._float_sums or self._totals is not None
        self._seeded = self._seeded or self.generator.seeded

    def _count(self, steps: int) -> None:
        if steps == 0:
            return
        if self.settings.noise_multiplier == 0:
            self._noise_free = True
        else:
            self.accountant.add(self.schedule.loss, steps)
        self._steps += steps

    def _charge_budget(self) -> None:
        if self.budget is None or self._charged:
            return
        assert self._cost is not None
        epsilon, delta, rho = self._cost
        if _is_ledger(self.budget):
            purpose = f"training, {self.settings.steps} steps, {self.settings.adjacency}"
            charge = self.budget.consume(  # type: ignore[call-arg]
                epsilon, delta, rho=rho, charge_id=f"training-{self._run_id}", purpose=purpose
            )
            self._charge = asdict(LedgerEntry.of(charge))
        else:
            self.budget.consume(epsilon, delta)
        self._charged = True

    def _planned_cost(self) -> tuple[float, float, float] | None:
        """(epsilon, delta, rho) of all planned steps, for the budget; None without one."""
        if self.budget is None:
            return None
        require_budget(self.budget)
        require_secret_key(self.generator)
        if self.settings.steps is None or self.delta is None:
            raise TypeError("steps and delta must be given with a budget, which is charged for the whole run before its first step")
        if self.settings.noise_multiplier == 0:
            raise ValueError("noise_multiplier must be > 0 with a budget, got 0.0")
        return self.schedule.epsilon(self.settings.steps, self.delta), self.delta, self.schedule.rho(self.settings.steps)

    def _delta(self, value: float | None) -> float:
        if value is not None:
            return _validate.delta(value)
        if self.delta is None:
            raise TypeError("delta must be given, here or to the constructor")
        return self.delta

    def _require_no_batch(self, name: str) -> None:
        if self._has_batch:
            raise ValueError(f"{name}() needs a batch to be finished: call step() or discard() first")

    def _require_loadable(self, state: Any) -> dict[str, Any]:
        self._require_no_batch("load_state_dict")
        privacy = state.get("privacy") if isinstance(state, Mapping) else None
        if not isinstance(privacy, dict) or "optimizer" not in state or set(privacy) != _PRIVACY_FIELDS:
            raise ValueError("state_dict must be that of a DPOptimizer, got something else")
        if privacy["version"] != STATE_VERSION:
            raise ValueError(f"version must be {STATE_VERSION}, got {privacy['version']!r}")
        if self._drawn_here:
            raise ValueError(
                f"load_state_dict() needs an optimizer that has not stepped, got one with {self._steps} steps: going back would "
                "forget them (the wrapped optimizer's own state can be loaded through .optimizer)"
            )
        if len(self.accountant) != (0 if self._noise_free else self._steps):
            raise ValueError("load_state_dict() needs an accountant of this run alone, got one with other releases in it")
        self.settings.require_same(privacy["settings"])
        _validate.whole_number("steps", privacy["steps"], at_least=0)
        if self._journal is not None and self._journal.run_id is not None:
            if self._journal.run_id != privacy["run_id"]:
                raise ValueError(f"the journal must be that of run {privacy['run_id']}, got that of run {self._journal.run_id}")
            if self._journal.steps < privacy["steps"]:
                raise ValueError(f"the journal must have at least {privacy['steps']} steps, got {self._journal.steps}")
        if self._journal is not None and self._journal.run_id is None and privacy["steps"]:
            raise ValueError("the journal must be that of the run in the checkpoint, got an empty one")
        return privacy


_PRIVACY_FIELDS = {
    "version",
    "settings",
    "run_id",
    "steps",
    "resumed",
    "accountant",
    "float_sums",
    "noise_free",
    "seeded",
    "charged",
    "charge",
}

_NO_BATCH = {
    False: "step() needs gradients of examples, got none: p.grad_sample (per_example_gradients, Opacus's GradSampleModule) or "
    "p.clipped_sum (GhostClipping); call empty_batch() where the sample was empty",
    True: "step() needs a gradient of the batch, got none: call backward(), or empty_batch() where the sample was empty",
}


def _require_optimizer(value: Any) -> torch.optim.Optimizer:
    if not isinstance(value, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {_validate.kind(value)}")
    if isinstance(value, DPOptimizer):
        raise TypeError("optimizer must be an ordinary one, got a DPOptimizer: noise would be added twice and counted once")
    closure = inspect.signature(type(value).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(f"optimizer must step without a closure, got {type(value).__name__}")
    if not batch_gradients.trainable(value.param_groups):
        raise ValueError("optimizer must have a parameter that requires a gradient, got none")
    return value


def _require_accountant(value: Any, schedule: StepSchedule) -> Accountant:
    if value is None:
        return Accountant(adjacency=schedule.adjacency)
    if not isinstance(value, Accountant):
        raise TypeError(f"accountant must be a hushvec.accounting.Accountant or None, got {_validate.kind(value)}")
    if value.adjacency not in (None, schedule.adjacency):
        raise ValueError(f"adjacency must be that of the accountant, {value.adjacency!r}, got {schedule.adjacency!r}")
    return value


def _is_ledger(budget: Any) -> bool:
    from hushvec.budget import PrivacyBudget

    return isinstance(budget, PrivacyBudget)


def _others(accountant: Accountant, schedule: StepSchedule, steps: int) -> list[tuple[Any, int]]:
    """What an accountant holds beside the run's own steps.

    Raises:
        ValueError: it does not hold those steps.
    """
    own = None if schedule.noise_multiplier == 0 else schedule.loss
    counts = dict(accountant)
    if own is not None:
        if counts.get(own, 0) < steps:
            raise ValueError(f"the checkpoint's accountant must hold its {steps} steps, got {counts.get(own, 0)}")
        counts[own] = counts.get(own, 0) - steps
    return [(loss, count) for loss, count in counts.items() if count]
