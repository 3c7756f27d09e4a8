"""What the test_bench files share: which contestants to time, and one timed and checked test."""

from __future__ import annotations

from typing import Any

import pytest

import hushvec_cases
import peers
from contestant import Contestant
from workloads import Workload, standard_workloads


def workload(name: str) -> Workload:
    """A workload of the quick run: pytest-benchmark repeats each call many times."""
    return next(w for w in standard_workloads(quick=True) if w.name == name)


def contestants(operation: str) -> list[Any]:
    """All of them that can be timed in this process, as parameters with readable names."""
    return [
        pytest.param(contestant, id=contestant.name)
        for contestant in (*hushvec_cases.all_cases(), *peers.all_peers())
        if contestant.offers(operation)
        and not isinstance(contestant, hushvec_cases.ForcedBackend)
    ]


def time_and_check(benchmark: Any, contestant: Contestant, work: Workload) -> None:
    """Skips with the reason, fails on a wrong law, and otherwise times."""
    available, reason = contestant.available()
    if not available:
        pytest.skip(reason)
    try:
        assert contestant.complaint(work) == ""
        benchmark.group = work.operation
        benchmark.extra_info.update(
            items_per_call=contestant.items_of(work),
            bytes_per_item=contestant.bytes_per_item(work.operation),
            secure_key_stream=contestant.secure_key_stream,
            exact=contestant.exact,
        )
        contestant.enter_turn()
        benchmark(contestant.bind(work))
    finally:
        contestant.close()
