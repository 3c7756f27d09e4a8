"""Which Poisson sample the next gradients are of: samples are numbered, and notice when they are read."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from hushvec._util.os_files import call_around_fork


class Sample(list[int]):
    """The indices of one Poisson sample, which also says which draw it is: number `number` of the process of this random name.

    Whatever reads it to take examples (a loop, an index of a tensor or an array, `list`) is noticed, so that a step knows which
    sample its gradients are of. `len` is not reading, unless there is nothing to read. Slices, copies and pickles are plain lists,
    of no known sample.
    """

    __slots__ = ("number", "probability", "process", "seeded", "size", "used_by")

    def __init__(self, indices: Iterable[int], *, size: int, probability: float, seeded: bool) -> None:
        super().__init__(indices)
        self.size, self.probability, self.seeded = size, probability, seeded
        self.process, self.number = drawn.count_one()
        self.used_by: set[str] = set()  # runs that have released a sum over it

    def __iter__(self) -> Iterator[int]:
        drawn.read(self)
        return super().__iter__()

    def __len__(self) -> int:
        length = super().__len__()
        if length == 0:
            drawn.read(self)
        return length

    @property
    def __cuda_array_interface__(self) -> Any:
        """Where torch looks first when a tensor is indexed by a list, whose items it then reads without asking."""
        drawn.read(self)
        raise AttributeError("__cuda_array_interface__")

    def __reduce__(self) -> Any:
        return list, (list.copy(self),)


class DrawnSamples:
    """Numbers the Poisson samples of this process, and keeps those that were read for the gradients that come next. `process` is a
    random name, new after a fork."""

    def __init__(self) -> None:
        self._begin()
        call_around_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self.process, self.number = secrets.token_hex(16), 0
        self.forget()

    def count_one(self) -> tuple[str, int]:
        with self._lock:
            self.number += 1
            return self.process, self.number

    def forget(self) -> None:
        self._read: dict[int, Sample] = {}
        self._taken = True

    def read(self, sample: Sample) -> None:
        if id(sample) in self._read and list.__len__(sample) == 0:  # `len` again: there is nothing in it to use twice
            return
        if self._taken:
            self._read, self._taken = {}, False
        if len(self._read) < 2:  # already more than one
            self._read[id(sample)] = sample

    def take(self) -> tuple[dict[int, Sample], bool]:
        """The sample read since the last gradients, or two of several. Where none was, as before (these are parts of a batch, or it
        again), and False."""
        new, self._taken = not self._taken, True
        return dict(self._read), new


drawn = DrawnSamples()
