"""What a contestant in a benchmark is: the one protocol that we and the peers follow."""

from __future__ import annotations

import time
from typing import Callable

import numpy as np

import laws
from workloads import CLIP_NORM, SCALE, SIGMA, Workload

OPERATIONS = ("gaussian", "laplace", "clip_and_noise", "calibrate")


class Unavailable(Exception):
    """This contestant cannot run here; the message says why."""


class Contestant:
    """One way to do one or more of `OPERATIONS`.

    A subclass overrides the operations it offers.  Each returns the array that
    holds the result, which is `out` unless the contestant's whole point is to
    allocate a fresh one.

    Attributes:
        name: shown in tables, and the key in the results file.
        secure_key_stream: the randomness comes from a cipher that is believed
            secure, with a key from the operating system.
        exact: the released floats are those of the ideal mechanism, rounded.
        sample_limit: most samples in one call; for contestants that would need
            minutes for a whole array.
    """

    name = ""
    secure_key_stream = False
    exact = False
    sample_limit: int | None = None

    def open(self) -> None:
        """Imports and allocates.  Runs once, untimed."""

    def close(self) -> None:
        """Lets go of what `open` took, also where it failed half way."""

    def available(self) -> tuple[bool, str]:
        """Opens the contestant.  Returns (True, "") or (False, the reason)."""
        try:
            self.open()
        except ImportError as error:
            return False, f"not installed ({error})"
        except (Unavailable, OSError) as error:
            return False, str(error)
        return True, ""

    def offers(self, operation: str) -> bool:
        """Whether the subclass implements `operation`, a name in `OPERATIONS`."""
        return getattr(type(self), operation) is not getattr(Contestant, operation)

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        """Fills float32 `out` with independent N(0, sigma^2)."""
        raise NotImplementedError

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        """Fills float32 `out` with independent Laplace(0, scale)."""
        raise NotImplementedError

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        """Clips each row of float32 `x` to L2 norm `clip_norm`, adds N(0, sigma^2)."""
        raise NotImplementedError

    def calibrate(self, epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
        """Smallest sigma per pair that is (epsilon, delta)-DP at sensitivity 1."""
        raise NotImplementedError

    def bytes_per_item(self, operation: str) -> int:
        """Bytes of user data that must be read and written for each item."""
        return {"gaussian": 4, "laplace": 4, "clip_and_noise": 8, "calibrate": 24}[operation]

    def rows_of(self, workload: Workload) -> int:
        """How many rows (or samples of a flat shape) one call makes."""
        if self.sample_limit is None:
            return workload.shape[0]
        return min(workload.shape[0], max(1, self.sample_limit // workload.row_length))

    def items_of(self, workload: Workload) -> int:
        return self.rows_of(workload) * workload.row_length

    def bind(self, workload: Workload) -> Callable[[], np.ndarray]:
        """The call to time, with every argument in place."""
        rows = self.rows_of(workload)
        if workload.operation == "calibrate":
            epsilon, delta = (values[:rows] for values in workload.pairs)
            return lambda: self.calibrate(epsilon, delta)
        out = workload.out[:rows]
        if workload.operation == "gaussian":
            return lambda: self.gaussian(out, SIGMA)
        if workload.operation == "laplace":
            return lambda: self.laplace(out, SCALE)
        x = workload.x[:rows]
        return lambda: self.clip_and_noise(x, CLIP_NORM, SIGMA, out)

    def enter_turn(self) -> None:
        """Untimed: sets what other contestants may have changed, such as threads."""

    def measure(self, workload: Workload, calls: int) -> int:
        """Nanoseconds for `calls` calls in a row, after one untimed call.

        The untimed call lets the contestant's own code and buffers, not its
        predecessor's, be in the caches when the clock starts.
        """
        self.enter_turn()
        call = self.bind(workload)
        call()
        start = time.perf_counter_ns()
        for _ in range(calls):
            call()
        return time.perf_counter_ns() - start

    def complaint(self, workload: Workload) -> str:
        """Why the output is not what the workload asks for, or an empty string."""
        self.enter_turn()
        call = self.bind(workload)
        first = call().copy()
        return laws.complaint(workload, self.rows_of(workload), first, call())
