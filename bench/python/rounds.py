"""Times contestants round-robin (A B C, A B C, ...), so that drift hits all alike."""

from __future__ import annotations

import gc
import math
import statistics
from dataclasses import dataclass, field
from typing import Callable, Sequence

from contestant import Contestant
from workloads import Workload

# Long enough that the clock's own cost and its jitter vanish.
TURN_NS = 5_000_000
MAX_CALLS = 1_000


@dataclass
class Series:
    """The turns of one contestant in one workload."""

    contestant: Contestant
    items: int
    bytes_per_item: int
    calls: int = 1
    turns_ns: list[int] = field(default_factory=list)

    @property
    def ns_per_item(self) -> list[float]:
        return [turn / (self.calls * self.items) for turn in self.turns_ns]

    @property
    def median(self) -> float:
        return statistics.median(self.ns_per_item)

    @property
    def fastest(self) -> float:
        return min(self.ns_per_item)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        values = self.ns_per_item
        if len(values) < 2:
            return 0.0
        low, _, high = statistics.quantiles(values, n=4, method="inclusive")
        return (high - low) / (2.0 * self.median)

    @property
    def gigabytes_per_second(self) -> float:
        return self.bytes_per_item / self.median


@dataclass
class Outcome:
    """All that came of one workload."""

    workload: Workload
    series: dict[str, Series] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    def reason(self, name: str) -> str:
        """Why `name` has no figures."""
        return self.not_run.get(name) or self.wrong.get(name) or "not part of this run"

    def ratio(self, numerator: str, denominator: str) -> float | None:
        """Median over the rounds of numerator / denominator, both in ns per item.

        The two times of one round are taken seconds apart, so what slows the
        machine slows both; a ratio of two medians would not cancel that.
        """
        if numerator not in self.series or denominator not in self.series:
            return None
        pairs = zip(self.series[numerator].ns_per_item, self.series[denominator].ns_per_item)
        return statistics.median(above / below for above, below in pairs)


def calls_per_turn(one_call_ns: int) -> int:
    return max(1, min(MAX_CALLS, math.ceil(TURN_NS / max(1, one_call_ns))))


def run_rounds(
    workload: Workload,
    contestants: Sequence[Contestant],
    rounds: int,
    progress: Callable[[str], None],
) -> Outcome:
    """Checks, warms up, then times every contestant that offers the workload's operation."""
    outcome = Outcome(workload)
    for contestant in contestants:
        if not contestant.offers(workload.operation):
            continue
        progress(f"checking {contestant.name}")
        try:
            complaint = contestant.complaint(workload)
        except Exception as error:  # one broken peer must not cost the others their figures
            complaint = f"{type(error).__name__}: {error}"
        if complaint:
            outcome.wrong[contestant.name] = complaint
            continue
        outcome.series[contestant.name] = Series(
            contestant,
            contestant.items_of(workload),
            contestant.bytes_per_item(workload.operation),
            calls_per_turn(contestant.measure(workload, 1)),
        )
    gc.collect()
    gc.disable()
    try:
        for index in range(rounds):
            progress(f"round {index + 1} of {rounds}")
            for series in outcome.series.values():
                series.turns_ns.append(series.contestant.measure(workload, series.calls))
    finally:
        gc.enable()
    return outcome
