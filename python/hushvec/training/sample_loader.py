"""A DataLoader whose batches are of known samples, also where workers make them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from hushvec.training.global_generators import UndisturbedLoader
from hushvec.training.samples import Sample, drawn


class SampleLoader(UndisturbedLoader):
    """A DataLoader that counts a sample as read when the batch made of it is handed out. Workers get plain lists, ahead of time."""

    def __init__(self, dataset: Any, *, batch_sampler: Any, **arguments: Any) -> None:
        remembered = _Remembered(batch_sampler)
        super().__init__(dataset, batch_sampler=remembered, **arguments)
        self._remembered = remembered

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        return map(_handed_out, super().__iter__(), self._remembered.handed_out())


class _Remembered:
    """Batches of another sampler, kept in `indices` until they are handed out."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler
        self.indices: deque[list[int]] = deque()

    def __iter__(self) -> Iterator[list[int]]:
        kept = self.indices = deque()

        def remembered(batch: list[int]) -> list[int]:
            kept.append(batch)
            return batch

        return map(remembered, self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)

    def handed_out(self) -> Iterator[list[int]]:
        """Indices of the iteration that has begun when the first of them is asked for."""
        kept = self.indices
        while kept:
            yield kept.popleft()


def _handed_out(batch: Any, indices: list[int]) -> Any:
    if isinstance(indices, Sample):
        drawn.read(indices)
    return batch
