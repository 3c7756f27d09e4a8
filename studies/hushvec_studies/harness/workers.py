"""Processes that do runs. Each has one thread, so that figures do not depend on how many there are.

A worker lives as long as its pipe: when the study's own process is killed, the pipe ends and the worker leaves after the run that
it is at. A worker that dies ends the study with an error; what is done is on disk.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

Task = Callable[[Any], Any]

# Read by BLAS and OpenMP when they are loaded, which in a worker is after its start.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "HUSHVEC_NUM_THREADS")
_LEAVE_SECONDS = 5.0


class _Worker(NamedTuple):
    process: BaseProcess
    pipe: Connection


def results_of(task: Task, jobs: Sequence[Any], workers: int) -> Iterator[Any]:
    """task(job) for every job, by so many processes, in the order in which they end.

    Args:
        task: a function of a module, which a new process can import.
        jobs: what it takes, one after the other; picklable, like what it returns.
        workers: >= 1.

    Raises:
        ChildProcessError: a worker died.
        Exception: what the task raised. The other jobs that were begun are abandoned.
    """
    left = iter(jobs)
    with _started(task, min(workers, len(jobs))) as team:
        busy = [worker for worker in team if _give(worker, left)]
        while busy:
            ready = wait([worker.pipe for worker in busy])
            for worker in [worker for worker in busy if worker.pipe in ready]:
                yield _taken(worker)
                if not _give(worker, left):
                    busy.remove(worker)


def _give(worker: _Worker, left: Iterator[Any]) -> bool:
    for job in left:
        try:
            worker.pipe.send(job)
        except (BrokenPipeError, ConnectionResetError):
            raise _died(worker) from None
        return True
    return False


def _taken(worker: _Worker) -> Any:
    try:
        failed, value = worker.pipe.recv()
    except (EOFError, ConnectionResetError):
        raise _died(worker) from None
    if failed:
        raise value
    return value


def _died(worker: _Worker) -> ChildProcessError:
    worker.process.join(_LEAVE_SECONDS)
    code = worker.process.exitcode
    how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
    return ChildProcessError(f"a worker died ({how}); runs that are done are kept, the same command goes on with the others")


@contextmanager
def _started(task: Task, count: int) -> Iterator[list[_Worker]]:
    team: list[_Worker] = []
    try:
        with _environment():
            context = multiprocessing.get_context("spawn")
            for _ in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(task, theirs), daemon=True)
                process.start()
                theirs.close()
                team.append(_Worker(process, ours))
        yield team
    except BaseException:
        for worker in team:
            worker.process.terminate()
        raise
    finally:
        for worker in team:
            worker.pipe.close()
        for worker in team:
            worker.process.join(_LEAVE_SECONDS)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


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


def _sendable(error: Exception) -> Exception:
    """The error, or one of its kind with its message where the error itself does not survive the way between processes."""
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        kind = next((kind for kind in (ImportError, OSError, TypeError, ValueError) if isinstance(error, kind)), RuntimeError)
        return kind(str(error))


def _work(task: Task, pipe: Connection) -> None:
    """Body of a worker."""
    # The study's own process hears Ctrl-C too, and ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        try:
            answer = (False, task(job))
        except Exception as error:
            answer = (True, _sendable(error))
        try:
            pipe.send(answer)
        except (BrokenPipeError, ConnectionResetError):
            return
