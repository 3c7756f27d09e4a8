"""Processes that measure. Each has one thread, so that figures do not depend on how many there are.

When the study's own process is killed its workers leave. A worker that dies ends the study with an error; what is done is on disk.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hushvec_studies.harness import logs

Task = Callable[[Any], Any]

# Read by BLAS and OpenMP when they are loaded, which in a worker is after its start.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "HUSHVEC_NUM_THREADS")


def results_of(task: Task, jobs: Sequence[Any], workers: int) -> Iterator[Any]:
    """task(job) for every job, by so many processes, in the order in which they end; by this one if there are 0.

    Args:
        task: a function of a module, which a new process can import. Jobs and results are picklable.

    Raises:
        ChildProcessError: a worker died.
        Exception: what the task raised. The other jobs that were begun are abandoned.
    """
    if workers == 0:
        yield from map(task, jobs)
    if workers == 0 or not jobs:
        return
    before = set(multiprocessing.active_children())
    spawned = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(workers, len(jobs)), spawned, initializer=_begin, initargs=(logs.current_file(),))
    # No more jobs than workers at a time: after an error none is begun.
    left = iter(jobs)
    done = partial(_done, task)
    team: set[BaseProcess] = set()
    try:
        with _environment():
            busy = {pool.submit(done, job) for job in islice(left, workers)}
            team = set(multiprocessing.active_children()) - before
        while busy:
            ended, busy = wait(busy, return_when=FIRST_COMPLETED)
            for future in ended:
                failed, value = future.result()
                if failed:
                    raise value
                yield value
                busy |= {pool.submit(done, job) for job in islice(left, 1)}
    except BrokenProcessPool:
        # The pool waits for its workers in a thread of its own. Of two waits for one process, one does not learn the exit code.
        pool.shutdown(cancel_futures=True)
        raise ChildProcessError(
            f"a worker died ({_how(team)}); runs that are done are kept, the same command goes on with the others"
        ) from None
    except BaseException:
        for worker in team:
            worker.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(log: Path | None) -> None:
    """In a new worker: leave Ctrl-C to the study's own process, which ends its workers, and leave with that process."""
    logs.join(log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def leave() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=leave, daemon=True).start()


def _done(task: Task, job: Any) -> tuple[bool, Any]:
    """(False, the result) or (True, an error that can be sent)."""
    try:
        return False, task(job)
    except Exception as error:
        return True, _sendable(error)


def _sendable(error: Exception) -> Exception:
    """The error, or one of its kind with its message where the error itself does not survive the way between processes."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        kind = next((kind for kind in (ImportError, OSError, TypeError, ValueError) if isinstance(error, kind)), RuntimeError)
        return kind(str(error))


def _how(team: set[BaseProcess]) -> str:
    """What became of the worker that died; the pool has ended the others by a signal."""
    for worker in team:
        worker.join()
    codes = sorted({worker.exitcode or 0 for worker in team}, key=lambda code: code in (0, -signal.SIGTERM))
    return f"signal {signal.Signals(-codes[0]).name}" if codes[0] < 0 else f"exit code {codes[0]}"


@contextmanager
def _environment() -> Iterator[None]:
    """One thread for everything that is loaded in a process that starts in here."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
