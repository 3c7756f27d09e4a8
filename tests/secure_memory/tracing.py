"""Holds a process at the moment of its death, after all its exit handlers, with its memory still there (ptrace, Linux)."""

import ctypes
import os

_SEIZE, _CONT = 0x4206, 7
_TRACE_EXIT = 0x40
_EVENT_EXIT = 6
_SIGTRAP = 5
_ANY_CHILD = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def stop_at_exit(pid: int) -> bool:
    """False where this machine lets nobody trace."""
    return _libc.ptrace(_SEIZE, pid, None, _TRACE_EXIT) == 0


def wait_for_exit(pid: int) -> None:
    """Until the process stands at its end."""
    while True:
        _, status = os.waitpid(pid, _ANY_CHILD)
        if not os.WIFSTOPPED(status):
            raise AssertionError(f"the process ended before it could be looked at: {status}")
        if status >> 8 == _SIGTRAP | _EVENT_EXIT << 8:
            return
        _libc.ptrace(_CONT, pid, None, os.WSTOPSIG(status))


def let_go(pid: int) -> None:
    _libc.ptrace(_CONT, pid, None, None)
    os.waitpid(pid, _ANY_CHILD)
