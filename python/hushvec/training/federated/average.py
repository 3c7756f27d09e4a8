"""`PrivateAverage`: clients' updates averaged on a trusted server, with noise once for each round."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

from hushvec._native import _core
from hushvec._native.arrays import DEFAULT_DTYPE, new_array, on_cuda
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.publish import published_text
from hushvec.accounting import ADJACENCIES
from hushvec.extend import Budget
from hushvec.receipts import NOTE_CLIENTS, TrainingReceipt
from hushvec.training.clip_rules import AdaptiveClip as AdaptiveClip  # of hushvec.federated too
from hushvec.training.clipped_sums import ClippedSum
from hushvec.training.federated.updates import UpdateRelease, noise_of_rounds
from hushvec.training.gradients import named_arrays, require_scales, restored
from hushvec.training.guarantee import Unit, guarantee_of, receipt_of
from hushvec.training.journal import StepFlags
from hushvec.training.run_account import RunAccount
from hushvec.training.samples import drawn
from hushvec.training.schedule import Account, Settings

NOTE_SAMPLED = (
    "each client was in each round with sampling_probability, independently, and an answer that is missing does not depend on other "
    "clients; the server cannot see how clients were drawn"
)
CLIENTS = Unit(NOTE_CLIENTS, NOTE_SAMPLED)


class PrivateAverage:
    """Rounds of federated averaging on a trusted server: exact sums of clipped updates, noise once, one account for the run.

    Args:
        clip_norm: C in [2^-100, 2^20], the largest L2 norm of a client's update, over all of its arrays together.
        clients: what the noisy sum is divided by: a public constant, the expected number in a round, never the number that answered.
        delta: in (0, 1), for all rounds together.
        epsilon: > 0, for all rounds together. The noise is what `noise_multiplier_for` gives.
        noise_multiplier: sigma / C > 0, in place of epsilon.
        rounds: how many there are at most.
        sampling_probability: of every client in every round, independently (Poisson sampling, `hushvec.training.PoissonSampler`);
            for a fixed number of chosen clients, or for all of them, the honest value is 1.
        adjacency: "add-remove": a client with all of its data is there or not. "replace-one": it has any other data.
        adaptive: how the clip norm, which is then that of the first round, changes from round to round.
        budget: charged once for all rounds, before the first noise.
        journal: a file that counts rounds (`StepJournal`): a restarted server goes on where it was and pays once. An adaptive clip
            norm is kept beside it, as JOURNAL.clip.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy.

    Guarantees:
        All rounds together are (epsilon, delta)-DP for one client, for anyone who sees every released average. The sensitivity of a
        sum is C under "add-remove" and 2 C under "replace-one"; it follows from the clip and cannot be given. The server sees
        updates without noise: `clip_and_noise_update` is for clients that do not trust it.

    Reference:
        McMahan, Ramage, Talwar, Zhang (2018), "Learning differentially private recurrent language models", algorithm 1, with sums
        divided by a constant; docs/proofs/dp_sgd.md, theorem 1, with a client as the example; docs/proofs/clipped_sum.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.federated import PrivateAverage
        >>> average = PrivateAverage(clip_norm=1.0, clients=50, epsilon=4.0, delta=1e-5, rounds=10)
        >>> updates = [{"weight": np.ones((10, 3), np.float32)} for _ in range(50)]
        >>> values, receipt = average.aggregate(updates)
        >>> values["weight"].shape, receipt.steps, receipt.planned_steps, receipt.sensitivity
        ((10, 3), 1, 10, 1.0)
    """

    def __init__(
        self,
        *,
        clip_norm: float,
        clients: float,
        delta: float,
        epsilon: float | None = None,
        noise_multiplier: float | None = None,
        rounds: int = 1,
        sampling_probability: float = 1.0,
        adjacency: str = "add-remove",
        adaptive: AdaptiveClip | None = None,
        budget: Budget | None = None,
        journal: str | PathLike[str] | None = None,
        generator: _core.Generator | None = None,
    ) -> None:
        divisor = validate.positive("clients", clients)
        rounds = validate.whole_number("rounds", rounds, at_least=1)
        probability = validate.sampling_probability(sampling_probability)
        validate.choice("adjacency", adjacency, ADJACENCIES)
        self._delta, self._source = validate.delta(delta), require_generator(generator)
        multiplier, _ = noise_of_rounds(
            epsilon, noise_multiplier, self._delta, rounds, adjacency=adjacency, sampling_probability=probability
        )
        self._settings = Settings(
            clip_norm=clip_norm, noise_multiplier=multiplier, adaptive=adaptive, expected_batch_size=divisor,
            sampling_probability=probability, adjacency=adjacency, clipping="exact", steps=rounds,
        )
        self._account = RunAccount(self._settings, Account(budget=budget, journal=journal), generator=self._source, delta=self._delta)
        self._norm, self._kept = self._settings.row_norm(), None if journal is None else Path(f"{journal}.clip")
        self._extra = int(self._norm.adapts)   # coordinates of a row
        if adaptive is not None and self.rounds_released and self._kept is not None and self._kept.exists():
            try:   # one from before the last round is as private: any will do that depends on released values alone
                self._norm.of_rows = require_scales(float(self._kept.read_text(encoding="utf-8")), multiplier)[0]
            except ValueError as error:
                raise ValueError(f"{self._kept}: must hold a clip norm: {error}") from None

    @property
    def clip_norm(self) -> float:
        """That the next round clips updates to."""
        return self._norm.clip_norm

    @property
    def left(self) -> int:
        """How many rounds can still be released."""
        return (self._settings.steps or 0) - self.rounds_released

    @property
    def rounds_released(self) -> int:
        """So far, those of a journal included."""
        return self._account.record.steps

    def aggregate(self, updates: Iterable[Any], *, like: Any = None) -> UpdateRelease:
        """One round: the noisy average of these clients' updates, and the receipt of all rounds so far.

        Args:
            updates: one for each client that answered, as in `clip_and_noise_update`, all with the same names, shapes and library.
                They are read one after the other, also from a generator.
            like: arrays of these names and shapes, such as the model's parameters: needed where there may be no updates, as a round
                without clients must be released like any other.

        Returns:
            UpdateRelease(values, receipt): float32 arrays, and a `TrainingReceipt` of all rounds so far.

        Raises:
            ValueError: an update of another form than the first, or with NaN or Inf (the array is named); nothing is charged.
            PrivacyBudgetExhaustedError: all rounds are used up, or the budget has too little left. Nothing is released.
        """
        total, first, model = None, like, [] if like is None else named_arrays("like", like)[1]
        for number, update in enumerate(updates):
            names, parts = named_arrays(f"updates[{number}]", update)
            first, model = (update, parts) if first is None else (first, model)
            if _form(update, parts) != _form(first, model):
                wanted, got = _form(first, model), _form(update, parts)
                raise ValueError(f"updates[{number}] must have the names and shapes {wanted!r:.300}, got {got!r:.300}")
            total = total or self._sum_of(model)
            total.add([part[None] for part in parts], names, self._settings.rule(self._norm))
        if first is None:
            raise ValueError("updates must hold at least 1 update, or like be given, got none")
        source, total = self._source, total or self._sum_of(model)
        read = list(drawn.take()[0].values()) if self._settings.sampling_probability < 1 else []
        sample = read[0] if len(read) == 1 and self._account.can_name(read[0]) else None
        seeded = source.seeded or any(one.seeded for one in read)
        self._account.charge_step(StepFlags.SEEDED if seeded else StepFlags(0), sample)
        noisy = total.release(source, [new_array(model[0], shape, dtype=DEFAULT_DTYPE) for shape in self._shapes(model)])
        for part in noisy:
            part /= self._settings.expected_batch_size
        receipt = self._receipt(on_device=on_cuda(model[0]))
        if self._norm.adapts:
            self._adapt(float(noisy.pop()[0]))
        return UpdateRelease(restored(first, noisy), receipt)

    def _shapes(self, parts: list[Any]) -> list[tuple[int, ...]]:
        return [*(tuple(part.shape) for part in parts), *[(1,)] * self._extra]

    def _sum_of(self, parts: list[Any]) -> ClippedSum:
        norm = self._norm.of_rows
        return ClippedSum(self._shapes(parts), clip_norm=norm, sigma=self._settings.sigma_of(norm), clipping="exact")

    def _adapt(self, beside: float) -> None:
        """The next clip norm, from the noisy sum of coordinates divided by `clients`."""
        self._norm.follow(beside)
        if self._kept is not None:
            with published_text(self._kept) as file:
                file.write(repr(self._norm.of_rows))

    def _receipt(self, *, on_device: bool) -> TrainingReceipt:
        self._account.record.row_norm = self._norm.of_rows if self._norm.adapts else None
        guarantee = guarantee_of(self._account, self._delta, key_is_seeded=self._source.seeded, unit=CLIENTS)
        return receipt_of(self._account, guarantee, self._source, on_device=on_device)


def aggregate_updates(updates: Iterable[Any], *, like: Any = None, **terms: Any) -> UpdateRelease:
    """One round of federated averaging on a trusted server: `PrivateAverage(**terms).aggregate(updates, like=like)`.

    Arguments, result, errors and guarantee are those of the two, for one round; for several keep one `PrivateAverage`, which
    composes them.
    """
    return PrivateAverage(**terms).aggregate(updates, like=like)


def _form(update: Any, parts: list[Any]) -> list[tuple[Any, ...]]:
    """Names, or places, and shapes."""
    return [(name, *part.shape) for name, part in zip(update if hasattr(update, "keys") else range(len(parts)), parts)]
