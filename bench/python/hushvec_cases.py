"""hushvec through its public API, as contestants; a forced backend gets its own process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

import numpy as np

import workloads
from contestant import Contestant, Unavailable

ROUNDS = (20, 12, 8)
FORCED_BACKEND = "avx2"
FORCED_ROUNDS = (20, 12)

WORKER = Path(__file__).with_name("hushvec_worker.py")
WORKER_STOP_SECONDS = 10.0


def noise_name(rounds: int, threads: int = 1) -> str:
    return f"hushvec {rounds} rounds" + _threads_suffix(threads)


def clip_name(exact: bool, rounds: int, threads: int = 1) -> str:
    grade = "exact" if exact else "float"
    return f"hushvec {grade} {rounds} rounds" + _threads_suffix(threads)


def forced_name(name: str, backend: str = FORCED_BACKEND) -> str:
    return f"{name}, {backend} forced"


def _threads_suffix(threads: int) -> str:
    return f", {threads} threads" if threads > 1 else ""


SIGMA_NAME = "hushvec gaussian_sigma"


class HushvecCase(Contestant):
    """Imports the library and holds its number of threads; `spec` rebuilds it elsewhere."""

    def __init__(self, threads: int = 1, **spec: Any) -> None:
        self._threads = threads
        self.spec = {"kind": type(self).__name__, "threads": threads, **spec}

    def open(self) -> None:
        import hushvec

        self._hushvec = hushvec

    def enter_turn(self) -> None:
        self._hushvec.set_num_threads(self._threads)


class HushvecNoise(HushvecCase):
    """`gaussian_noise` and `laplacian_noise` into `out`."""

    secure_key_stream = True

    def __init__(self, rounds: int, threads: int = 1) -> None:
        super().__init__(threads, rounds=rounds)
        self.name = noise_name(rounds, threads)
        self._rounds = rounds

    def open(self) -> None:
        super().open()
        self._generator = self._hushvec.Generator(rounds=self._rounds)

    def gaussian(self, out: np.ndarray, sigma: float) -> np.ndarray:
        return self._hushvec.gaussian_noise(
            out.shape, sigma, out=out, generator=self._generator
        )

    def laplace(self, out: np.ndarray, scale: float) -> np.ndarray:
        return self._hushvec.laplacian_noise(
            out.shape, scale, out=out, generator=self._generator
        )


class HushvecClip(HushvecCase):
    """`clip_and_noise`, exact or float grade."""

    secure_key_stream = True

    def __init__(self, exact: bool, rounds: int, threads: int = 1) -> None:
        super().__init__(threads, rounds=rounds, exact=exact)
        self.name = clip_name(exact, rounds, threads)
        self.exact = exact
        self._rounds = rounds

    def open(self) -> None:
        super().open()
        self._generator = self._hushvec.Generator(rounds=self._rounds)

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        return self._hushvec.clip_and_noise(
            x, clip_norm, sigma, exact=self.exact, out=out, generator=self._generator
        )


class HushvecSigma(HushvecCase):
    """`gaussian_sigma` over arrays."""

    name = SIGMA_NAME

    def calibrate(self, epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
        return self._hushvec.gaussian_sigma(epsilon, delta)


KINDS = {kind.__name__: kind for kind in (HushvecNoise, HushvecClip, HushvecSigma)}


def case_from_spec(spec: dict[str, Any]) -> HushvecCase:
    arguments = dict(spec)
    return KINDS[arguments.pop("kind")](**arguments)


class BackendWorker:
    """A Python process in which HUSHVEC_BACKEND was set before the import.

    The variable is read once, so one process holds one backend.  The process
    waits on its input between turns and takes no CPU time from the others.
    """

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "HUSHVEC_BACKEND": self._backend},
            )

    def ask(self, action: str, case: HushvecCase, **arguments: Any) -> Any:
        """Runs one action there.  Raises Unavailable with the worker's own words."""
        assert self._process is not None and self._process.stdin and self._process.stdout
        request = {"action": action, "case": case.spec, **arguments}
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the empty reply below says that the worker ended
        line = self._process.stdout.readline()
        if not line:
            raise Unavailable(f"the {self._backend} worker ended before it answered")
        reply = json.loads(line)
        if "error" in reply:
            raise Unavailable(reply["error"])
        return reply["result"]

    def stop(self) -> None:
        if self._process is not None:
            # Closes the pipes too, also when the worker has ended by itself.
            self._process.communicate(timeout=WORKER_STOP_SECONDS)
            self._process = None


class ForcedBackend(Contestant):
    """A case that runs, and is timed, in a worker's process."""

    def __init__(self, case: HushvecCase, worker: BackendWorker, backend: str) -> None:
        self.name = forced_name(case.name, backend)
        self.secure_key_stream = case.secure_key_stream
        self.exact = case.exact
        self._case = case
        self._worker = worker

    def open(self) -> None:
        self._worker.start()
        self._worker.ask("open", self._case)

    def close(self) -> None:
        self._worker.stop()

    def offers(self, operation: str) -> bool:
        return self._case.offers(operation)

    def measure(self, workload: workloads.Workload, calls: int) -> int:
        return self._worker.ask("measure", self._case, workload=workload.spec(), calls=calls)

    def complaint(self, workload: workloads.Workload) -> str:
        return self._worker.ask("complaint", self._case, workload=workload.spec())


def all_cases(threads: Sequence[int] = (1,)) -> list[Contestant]:
    """Every case of ours, unopened; `threads` beyond 1 for 20 and 12 rounds."""
    cases: list[Contestant] = []
    for count in threads:
        for rounds in ROUNDS if count == 1 else FORCED_ROUNDS:
            cases.append(HushvecNoise(rounds, count))
            cases.append(HushvecClip(True, rounds, count))
            cases.append(HushvecClip(False, rounds, count))
    worker = BackendWorker(FORCED_BACKEND)
    for rounds in FORCED_ROUNDS:
        for case in (HushvecNoise(rounds), HushvecClip(True, rounds)):
            cases.append(ForcedBackend(case, worker, FORCED_BACKEND))
    cases.append(HushvecSigma())
    return cases


def backends() -> Any:
    """What `hushvec.backends()` says, or None where hushvec is not installed."""
    try:
        import hushvec
    except ImportError:
        return None
    return hushvec.backends()


def active_backend() -> str | None:
    """The instruction set in use in this process, or None where hushvec is not installed."""
    described = backends()
    return None if described is None else described["active"]
