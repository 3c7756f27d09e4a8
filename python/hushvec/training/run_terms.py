"""`Clipping` and `Account`: arguments of `DPOptimizer` that belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

from hushvec._native import _core
from hushvec._util import validate
from hushvec.accounting import Accountant
from hushvec.extend import Budget
from hushvec.training.adaptive_clip import AdaptiveClip


@dataclass(frozen=True)
class Clipping:
    """How `DPOptimizer` clips, beside the clip norm. It checks what is in here.

    Args:
        method: "auto", "exact", "estimated": each example, as in `clip_and_noise_gradients`. "batch": p.grad as a whole; refused
            unless allow_batch_level is True.
        adaptive: an `AdaptiveClip`, with which the clip norm follows a quantile of the norms of gradients; clip_norm is the first one.
            The noise on gradients is a little larger for it, so that both cost as much as without. p.grad_sample only.
        normalize: gamma > 0, in the unit of the gradients, for automatic clipping: a gradient g counts as g C / (|g| + gamma), so
            that C and the learning rate are one number to tune (the paper takes 0.01). By layer with a list of clip norms.
            p.grad_sample only.
        loss_scale: a public power of two in [1, 2^24] by which you multiply losses before their backward pass, as float16 needs;
            gradients are divided by it after clipping. Above 1 an example whose gradient overflows (NaN or Inf) counts as zero
            instead of an error, and in `overflowed`.
        allow_batch_level: account for the method "batch" with its sensitivity 2 C.

    Reference:
        Automatic: Bu, Wang, Zha, Karypis (2023), equation 1.
    """

    method: str = "auto"
    adaptive: AdaptiveClip | None = None
    normalize: float | None = None
    loss_scale: float = 1.0
    allow_batch_level: bool = False


@dataclass(frozen=True, kw_only=True)
class Account:
    """How the steps of a `DPOptimizer` are accounted for, and what is taken as given. It checks what is in here.

    Args:
        adjacency: "add-remove": an example is there or not. "replace-one": it is another one; the noise multiplier then buys half.
        accountant: a hushvec.accounting.Accountant that other releases about the same people are counted in; a new one if None.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged once, for all `steps`, before the first
            step's noise is drawn. Needs steps and delta.
        journal: path of a file that counts steps before they are drawn, for runs whose lost steps may have been seen.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy: the
            guarantee says so, and together with a budget it is refused.
        independent_batches: whether other optimizers with this accountant, budget or these parameters draw separate batches.
            Without it they are refused: two releases of one batch cost more than two batches.
        allow_buffers: names of the model's buffers that a forward pass may write, since they hold nothing of the examples.
    """

    adjacency: str = "add-remove"
    accountant: Accountant | None = None
    budget: Budget | None = None
    journal: str | PathLike[str] | None = None
    generator: _core.Generator | None = None
    independent_batches: bool = False
    allow_buffers: Sequence[str] = ()


# Where arguments are that `DPOptimizer` and `PrivateTrainer` had by themselves.
PLACES = {
    **{name: f"clipping=Clipping({name}=...)" for name in ("adaptive", "normalize", "loss_scale", "allow_batch_level")},
    **{name: f"account=Account({name}=...)" for name in Account.__dataclass_fields__},
}


def clipping_of(value: str | Clipping) -> Clipping:
    """Return a method alone as a `Clipping`."""
    return value if isinstance(value, Clipping) else Clipping(value)


def account_of(value: Account | None) -> Account:
    return validate.instance("account", value, Account | None, "a hushvec.training.Account or None") or Account()
