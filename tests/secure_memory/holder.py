"""A process that holds two secrets, one in a SecureBuffer and one in a mutant of it, and does with both what it is told.

    python holder.py SECURE PLAIN

Reads one word a line, answers one line. The mutant has the same methods on ordinary memory.
"""

import ctypes
import os
import sys
from typing import ClassVar

import numpy as np
from memory_scan import Scanner, write_secret

from hushvec.secure_memory import SecureBuffer

NBYTES = 4096
LEAK = ctypes.pythonapi.Py_IncRef
LEAK.argtypes = [ctypes.py_object]


class PlainBuffer:
    """The mutant: a buffer that forgets nothing. What free() leaves of a block is chance, so the blocks are kept."""

    kept: ClassVar = []

    def __init__(self, nbytes):
        self._array = np.zeros(nbytes, np.uint8)
        self.kept.append(self._array)

    def numpy(self):
        return self._array

    def scrub(self):
        pass

    def release(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.release()


class Holder:
    def __init__(self, secure_name, plain_name):
        self._names = {SecureBuffer: secure_name, PlainBuffer: plain_name}
        self._held = []

    def plant(self):
        for kind, name in self._names.items():
            buffer = kind(NBYTES)
            write_secret(name, memoryview(buffer.numpy()))
            self._held.append(buffer)
        return "planted"

    def scrub(self):
        for buffer in self._held:
            buffer.scrub()
        return "scrubbed"

    def release(self):
        while self._held:
            self._held.pop().release()
        return "released"

    def drop(self):
        self._held.clear()
        return "dropped"

    def exception(self):
        """Both blocks end by an exception."""
        for kind, name in self._names.items():
            try:
                with kind(NBYTES) as buffer:
                    write_secret(name, memoryview(buffer.numpy()))
                    raise KeyError
            except KeyError:
                pass
        return "raised"

    def fork(self):
        """The number of a child that waits until it is killed."""
        child = os.fork()
        if child == 0:
            sys.stdin.read()
            os._exit(0)
        return str(child)

    def count(self):
        """What the process finds in its own memory: secure, plain."""
        return " ".join(str(Scanner(name).in_process(os.getpid())) for name in self._names.values())

    def leak(self):
        """Objects that no teardown of Python reaches, as a crash of an extension may leave them."""
        for buffer in self._held:
            LEAK(buffer)
            LEAK(buffer.numpy())
        return "leaked"

    def fail(self):
        raise KeyError("nobody catches this")

    def abort(self):
        os.abort()


def main():
    holder = Holder(int(sys.argv[1]), int(sys.argv[2]))
    for line in sys.stdin:
        print(getattr(holder, line.strip())(), flush=True)


if __name__ == "__main__":
    main()
