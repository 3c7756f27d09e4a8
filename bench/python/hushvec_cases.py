"""hushvec as contestants, by cipher; instructions that are forced get a process of their own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

import numpy as np

import laws
import workloads
from contestant import Contestant, Unavailable

CIPHERS = ("aes256", "chacha20", "chacha12", "chacha8")
# What runs with several threads too.
THREADED_CIPHERS = ("aes256", "chacha20")
FORCED_CHACHA = ("chacha20", "chacha12")
FORCED_BACKEND = "avx2"
# AES-256 of processors with AVX2 and without AVX-512: on 32-byte registers, or on the 16-byte ones that all of them have.
FORCED_AES = ("vaes256", "aesni")

PRIVUNIT_EPSILON = 10.0
JOBS_DELTA = 1e-5

WORKER = Path(__file__).with_name("hushvec_worker.py")
WORKER_STOP_SECONDS = 10.0


def noise_name(cipher: str, threads: int = 1) -> str:
    return f"hushvec {cipher}" + _threads_suffix(threads)


def clip_name(exact: bool, cipher: str, threads: int = 1) -> str:
    grade = "exact" if exact else "float"
    return f"hushvec {grade} {cipher}" + _threads_suffix(threads)


def whole_words_name(cipher: str) -> str:
    """The exact pass as it was before version 3 of the release format."""
    return f"{clip_name(True, cipher)}, whole words"


def privunit_name(cipher: str) -> str:
    return f"hushvec PrivUnitG {cipher}"


def forced_name(name: str, backend: str = FORCED_BACKEND, aes: str | None = None) -> str:
    return f"{name}, {backend} forced" if aes is None else f"{name}, {backend} and {aes} forced"


def _threads_suffix(threads: int) -> str:
    return f", {threads} threads" if threads > 1 else ""


JOBS_NAME = "hushvec noise_batch"
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

    def __init__(self, cipher: str, threads: int = 1) -> None:
        super().__init__(threads, cipher=cipher)
        self.name = noise_name(cipher, threads)
        self._cipher = cipher

    def open(self) -> None:
        super().open()
        self._generator = self._hushvec.Generator(cipher=self._cipher)

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

    def __init__(self, exact: bool, cipher: str, threads: int = 1) -> None:
        super().__init__(threads, cipher=cipher, exact=exact)
        self.name = clip_name(exact, cipher, threads)
        self.exact = exact
        self._cipher = cipher

    def open(self) -> None:
        super().open()
        self._generator = self._hushvec.Generator(cipher=self._cipher)

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        return self._hushvec.clip_and_noise(
            x, clip_norm, sigma, exact=self.exact, out=out, generator=self._generator
        )


class HushvecWholeWords(HushvecClip):
    """The exact pass of versions 1 and 2 of the release format: a seed draws by them."""

    secure_key_stream = False

    def __init__(self, cipher: str) -> None:
        super().__init__(True, cipher)
        self.name = whole_words_name(cipher)

    def open(self) -> None:
        super().open()
        self._generator = self._hushvec.Generator.unsafe_seeded(1, cipher=self._cipher)


class HushvecPrivUnit(HushvecCase):
    """PrivUnitG by its kernel: `privatize` writes a receipt as well.  `sigma` follows from epsilon."""

    secure_key_stream = True
    exact = True

    def __init__(self, cipher: str) -> None:
        super().__init__(cipher=cipher)
        self.name = privunit_name(cipher)
        self._cipher = cipher

    def open(self) -> None:
        super().open()
        from hushvec._native import kernels
        from hushvec.mechanisms import PrivUnit

        self._kernel = kernels.privunit
        self._mechanism = PrivUnit
        self._laws: dict[int, Any] = {}
        self._generator = self._hushvec.Generator(cipher=self._cipher)

    def _law(self, dimension: int) -> Any:
        # Found once: its threshold takes longer to find than a small call takes.
        if dimension not in self._laws:
            self._laws[dimension] = self._mechanism(epsilon=PRIVUNIT_EPSILON, dimension=dimension)
        return self._laws[dimension]

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        law = self._law(x.shape[1])
        self._kernel(x, law.cap_probability, law.threshold, law.sigma, out, self._generator, out_is_fresh=False)
        return out

    def complaint(self, workload: workloads.Workload) -> str:
        self.enter_turn()
        call = self.bind(workload)
        first = call().copy()
        return laws.privunit_complaint(workload.x, first, call(), self._law(workload.row_length).sigma)


class HushvecJobs(HushvecCase):
    """`noise_batch`: a key stream for each row, and a new array each time."""

    name = JOBS_NAME
    secure_key_stream = True
    exact = True

    def open(self) -> None:
        super().open()
        from hushvec.jobs import NoiseJob, noise_batch

        self._start = NoiseJob.start
        self._noise_batch = noise_batch
        self._job: Any = None
        self._partition = 0

    def enter_turn(self) -> None:
        super().enter_turn()
        self._job = None

    def clip_and_noise(
        self, x: np.ndarray, clip_norm: float, sigma: float, out: np.ndarray
    ) -> np.ndarray:
        if self._job is None:
            # The epsilon that sigma is calibrated for: a job chooses its sigma itself.
            epsilon = self._hushvec.gaussian_epsilon(JOBS_DELTA, sigma, 2.0 * clip_norm)
            self._job = self._start(dimension=x.shape[1], clip_norm=clip_norm, epsilon=epsilon, delta=JOBS_DELTA)
        self._partition += 1   # a job gives the same rows in the same place the same noise
        return self._noise_batch(x, self._job, partition=self._partition)


class HushvecSigma(HushvecCase):
    """`gaussian_sigma` over arrays."""

    name = SIGMA_NAME

    def calibrate(self, epsilon: np.ndarray, delta: np.ndarray) -> np.ndarray:
        return self._hushvec.gaussian_sigma(epsilon, delta)


KINDS = {kind.__name__: kind for kind in (HushvecNoise, HushvecClip)}


def case_from_spec(spec: dict[str, Any]) -> HushvecCase:
    arguments = dict(spec)
    return KINDS[arguments.pop("kind")](**arguments)


class BackendWorker:
    """A Python process in which HUSHVEC_BACKEND and HUSHVEC_AES were set before the import.

    They are read once, so one process holds one choice.  The process waits on
    its input between turns and takes no CPU time from the others.
    """

    def __init__(self, backend: str, aes: str) -> None:
        self._variables = {"HUSHVEC_BACKEND": backend, "HUSHVEC_AES": aes}
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, str(WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, **self._variables},
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
            raise Unavailable(f"the worker with {self._variables} ended before it answered")
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

    def __init__(self, case: HushvecCase, worker: BackendWorker, backend: str, aes: str | None = None) -> None:
        self.name = forced_name(case.name, backend, aes)
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
    """Every case of ours, unopened; `threads` beyond 1 for `THREADED_CIPHERS`."""
    cases: list[Contestant] = []
    for count in threads:
        for cipher in CIPHERS if count == 1 else THREADED_CIPHERS:
            cases.append(HushvecNoise(cipher, count))
            cases.append(HushvecClip(True, cipher, count))
            cases.append(HushvecClip(False, cipher, count))
    cases += [HushvecWholeWords(cipher) for cipher in THREADED_CIPHERS]
    cases += [HushvecPrivUnit(cipher) for cipher in CIPHERS]
    cases += [*_forced_cases(), HushvecJobs(), HushvecSigma()]
    return cases


def _forced_cases() -> list[Contestant]:
    """AES-256 by each of `FORCED_AES`; ChaCha with the AES-256 that every processor has, since it uses none."""
    chacha = BackendWorker(FORCED_BACKEND, "portable")
    chosen = [(cipher, chacha, None) for cipher in FORCED_CHACHA]
    chosen += [("aes256", BackendWorker(FORCED_BACKEND, aes), aes) for aes in FORCED_AES]
    return [
        ForcedBackend(case, worker, FORCED_BACKEND, aes)
        for cipher, worker, aes in chosen
        for case in (HushvecNoise(cipher), HushvecClip(True, cipher))
    ]


def backends() -> Any:
    """What `hushvec.backends()` says and which compiled core says so, or None where hushvec is not installed."""
    try:
        import hushvec
        from hushvec._native import _core
    except ImportError:
        return None
    digest = hashlib.sha256(Path(_core.__file__).read_bytes()).hexdigest()
    return {**hushvec.backends(), "core_sha256": digest[:16]}


def in_use() -> tuple[str | None, str | None]:
    """The instruction set and the AES-256 of this process; None where hushvec is not installed."""
    described = backends()
    return (None, None) if described is None else (described["active"], described["aes"]["active"])
