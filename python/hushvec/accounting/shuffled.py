"""The loss of reports that are seen in random order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hushvec._util import validate
from hushvec.accounting import shuffling
from hushvec.accounting.closed_forms import (
    randomized_response_delta,
)
from hushvec.accounting.guarantees import PureDP
from hushvec.accounting.privacy_loss import ADJACENCIES, OneEpsilonLoss, PrivacyLoss


@dataclass(frozen=True, kw_only=True, repr=False, init=False)
class Shuffled(OneEpsilonLoss):
    """Local reports of n people, one each, seen only after a shuffler has put them in random order.

    Args:
        loss: PureDP of one report, or an object whose `loss` is that (a mechanism, a receipt).
        n: >= 1, how many people's reports are shuffled together. Only people who follow the protocol count.
        epsilon: > 0, of one report: instead of `loss`.
        adjacency: "replace-one", and nothing else.

    Raises:
        ValueError: another adjacency; both of loss and epsilon, or neither; a value breaks its rule.
        TypeError: the loss is not PureDP, n is no whole number.

    Guarantees:
        delta and epsilon hold against an observer who sees only the output of an honest shuffler: the reports in uniformly random
        order, without names, times or anything else that tells them apart. Against the shuffler itself, and anyone who sees a
        report on its way to it, only the local guarantee holds. Several batches compose only with fresh reports of everyone and a
        fresh order for each. All n people use the same local randomizer, which may be any of this epsilon; or they are asked in
        random order, each by a randomizer that may depend on the answers so far but not on who is asked. Both numbers are never
        below the exact profile of the pair in docs/proofs/shuffling.md. delta = 0, rho and rdp are those of one report, which
        shuffling cannot make worse.

    Edge cases:
        Under add-remove it is refused: the number of reports is seen, and tells whether a person is there. Where absent people
        send the report of a fixed input, leaving is being replaced by that input, and this loss covers it. n = 1 costs what
        one report does. Above n = 2^30, n counts in the closed form alone, and as 2^30 otherwise.

    Reference:
        Feldman, McMillan, Talwar, "Hiding Among the Clones" (2021); docs/proofs/shuffling.md, whose claim 1 is the pair used here.

    Example:
        >>> from hushvec.accounting import PureDP, Shuffled
        >>> loss = Shuffled(PureDP(epsilon=8.0), 1_000_000)
        >>> round(loss.epsilon(1e-6), 4), loss.epsilon(0.0)
        (0.3037, 8.0)
    """

    name = "shuffled"
    n: int

    def __init__(
        self, loss: Any = None, n: Any = None, *, epsilon: float | None = None, adjacency: str | None = None
    ) -> None:
        if loss is not None and epsilon is not None:
            raise ValueError(f"loss and epsilon must not both be given, got {loss!r:.80} and {epsilon!r}")
        if loss is not None:
            report = loss if isinstance(loss, PrivacyLoss) else getattr(loss, "loss", loss)
            if not isinstance(report, PureDP):
                raise TypeError(f"loss must be PureDP, that of one person's report, got {validate.kind(report)}")
            if adjacency not in (None, report.adjacency):
                raise ValueError(f"adjacency must be that of the loss, {report.adjacency!r}, got {adjacency!r}")
            epsilon, adjacency = report.epsilon_bound, report.adjacency
        self._store(epsilon_bound=epsilon, n=n, adjacency=ADJACENCIES[0] if adjacency is None else adjacency)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adjacency != "replace-one":
            raise ValueError(
                f"adjacency must be 'replace-one' for Shuffled, as the number of shuffled reports is public, got {self.adjacency!r}"
            )
        self._store_checked(n=validate.whole_number("n", self.n, at_least=1))

    @property
    def unamplified(self) -> PureDP:
        return PureDP(epsilon=self.epsilon_bound, adjacency=self.adjacency)

    def _delta(self, epsilon: float) -> float:
        local = randomized_response_delta(self.epsilon_bound, epsilon)
        return min(local, shuffling.shuffled_delta(self.epsilon_bound, self.n, epsilon)) if local else local
