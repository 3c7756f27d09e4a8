"""Memory that is put back to an earlier moment, as a restored snapshot of a process or a virtual machine does, repeats no noise.

The child's writable memory is copied, the child draws, the copy is written back, and it draws again. A seeded generator must then
repeat itself: that shows that the memory was really put back.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

DRAWS = r"""
import os
import numpy as np
import hushvec as hv

generator = {generator}
zeros = np.zeros((1, 8), np.float32)
calls = dict(
    gaussian=lambda: hv.privatize(zeros, epsilon=8.0, generator=generator).values,
    privunit=lambda: hv.privatize(zeros, epsilon=8.0, mechanism="privunit", generator=generator).values,
    fill=lambda: hv.gaussian_noise(8, generator=generator),
    clipped=lambda: hv.clip_and_noise(zeros, 1.0, 1.0, generator=generator),
    labels=lambda: hv.randomized_response([0] * 64, range(1000), 1.0, generator=generator),
)
asked, byte = open(0, "rb", buffering=0), bytearray(1)
os.write(1, b"ready\n")
while asked.readinto(byte):   # into memory that is in one place, before and after: the kernel writes there when all is put back
    for name, call in calls.items():
        os.write(1, (name + " " + repr(np.asarray(call()).tolist()) + "\n").encode())
    os.write(1, b"end\n")
"""


class Child:
    def __init__(self, generator):
        one_thread = dict.fromkeys(("HUSHVEC_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
        # Nothing is given back to the kernel, so what the allocator knows of mappings is as true after as it was before.
        heap = {"PYTHONMALLOC": "malloc", "MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRAWS.format(generator=generator)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **one_thread, **heap},
        )
        assert self._line() == "ready"

    def _line(self):
        line = self.process.stdout.readline().decode().strip()
        assert line, "the child ended"
        return line

    def draw(self):
        """What every call returned, by name."""
        self.process.stdin.write(b".")
        self.process.stdin.flush()
        return dict(line.split(" ", 1) for line in iter(self._line, "end"))

    def wait_until_it_sleeps(self):
        """It has nothing left to do but to read its standard input: no call is under way."""
        while Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "S":
            time.sleep(0.01)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def writable_memory(pid):
    """(address, bytes) of every mapping that the process can write."""
    copies = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            extent = re.match(r"(\w+)-(\w+) rw.p", line)
            if extent and "[v" not in line:
                begin, end = (int(bound, 16) for bound in extent.groups())
                memory.seek(begin)
                try:
                    copies.append((begin, memory.read(end - begin)))
                except OSError:
                    continue
    return copies


def put_back(pid, copies):
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        for begin, contents in copies:
            memory.seek(begin)
            memory.write(contents)


def draws_before_and_after(generator):
    with Child(generator) as child:
        for _ in range(3):
            child.draw()
        child.wait_until_it_sleeps()
        try:
            copies = writable_memory(child.process.pid)
        except PermissionError:
            pytest.skip("the memory of a child cannot be read: run as root or in a container with --cap-add SYS_PTRACE")
        first = child.draw()
        child.wait_until_it_sleeps()
        put_back(child.process.pid, copies)
        return first, child.draw()


def test_a_seeded_generator_repeats_itself():
    first, again = draws_before_and_after("hv.Generator.unsafe_seeded(7)")
    assert first == again


@pytest.mark.parametrize("generator", ["None", "hv.Generator(8)"], ids=["default", "own"])
def test_a_restored_snapshot_repeats_no_noise(generator):
    first, again = draws_before_and_after(generator)
    assert [name for name in first if first[name] == again[name]] == []
