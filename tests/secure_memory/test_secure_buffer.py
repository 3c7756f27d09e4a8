"""SecureBuffer as a user meets it: views, lifetimes, refusals, bad input."""

import copy
import gc
import os
import pickle
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from hushvec.secure_memory import SecureBuffer, SecureMemoryError, overwrite_freed_memory
from secure_memory.memory_counts import counts

NO_COPIES = "a SecureBuffer cannot be copied or pickled: the copy would be ordinary memory"


def test_views_are_the_buffer():
    buffer = SecureBuffer(100)
    whole = buffer.numpy()
    assert whole.shape == (100,) and not whole.any()
    part = buffer.numpy("<f4", (2, 3), offset=4)
    part[:] = 1.0
    assert whole[4:28].view("<f4").tolist() == [1.0] * 6 and not whole[28:].any()
    assert buffer.numpy("float64").shape == (12,)
    assert buffer.numpy("uint8", 7).shape == (7,)
    assert buffer.numpy("uint8", (0, 3)).shape == (0, 3)
    assert buffer.numpy("uint8", (), offset=99).shape == ()
    assert np.shares_memory(whole, part)


def test_torch_views_are_the_buffer():
    torch = pytest.importorskip("torch")
    buffer = SecureBuffer(64)
    for dtype in (torch.uint8, torch.float32, torch.float16, torch.bfloat16, torch.int64):
        view = buffer.torch(dtype, (2, 4))
        view.fill_(1)
        assert view.data_ptr() == buffer.numpy().ctypes.data
        assert bytes(buffer.numpy()[: view.nbytes]) == bytes(torch.ones(8, dtype=dtype).view(torch.uint8).numpy())
    assert buffer.torch().shape == (64,)
    assert buffer.torch(torch.float32, (0, 2)).shape == (0, 2)


def test_views_outlive_the_buffer_and_read_zeros():
    torch = pytest.importorskip("torch")
    before = counts()["buffer_bytes"]
    buffer = SecureBuffer(4096)
    array, tensor = buffer.numpy("int32"), buffer.torch(torch.int32)
    array[:] = 7
    buffer.release()
    assert buffer.released and not array.any() and not tensor.any()
    array[:] = 8                     # late, and still on protected pages
    assert int(tensor.sum()) == 8 * 1024
    del buffer, array
    gc.collect()
    assert counts()["buffer_bytes"] == before + 4096
    assert int(tensor[-1]) == 8
    del tensor
    gc.collect()
    assert counts()["buffer_bytes"] == before


def test_scrub_keeps_the_buffer_in_use():
    buffer = SecureBuffer(16)
    view = buffer.numpy()
    view[:] = 1
    buffer.scrub()
    assert not view.any()
    view[:] = 2
    assert buffer.numpy()[3] == 2


def test_a_block_releases_by_its_end_and_by_an_exception():
    with SecureBuffer(16) as buffer:
        view = buffer.numpy()
        view[:] = 1
    assert buffer.released and not view.any()
    views = []

    def fail():
        with SecureBuffer(16) as buffer:
            views.append(buffer.numpy())
            views[0][:] = 1
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert not views[0].any()


def test_after_release():
    buffer = SecureBuffer(16)
    buffer.release()
    buffer.release()
    assert repr(buffer) == "SecureBuffer(16, released)"
    for use in (buffer.numpy, buffer.torch, buffer.scrub, lambda: buffer.refused, lambda: buffer.wiped_by_fork, buffer.__enter__):
        with pytest.raises(SecureMemoryError, match=r"^this buffer was released$"):
            use()


@pytest.mark.parametrize(
    "make, error, text",
    [
        (lambda: SecureBuffer(0), ValueError, "nbytes must be >= 1, got 0"),
        (lambda: SecureBuffer(-1), ValueError, "nbytes must be >= 1, got -1"),
        (lambda: SecureBuffer(True), TypeError, "nbytes must be a whole number, got bool"),
        (lambda: SecureBuffer(1.5), TypeError, "nbytes must be a whole number, got float"),
        (lambda: SecureBuffer("8"), TypeError, "nbytes must be a whole number, got str"),
        (lambda: SecureBuffer(8, strict=1), TypeError, "strict must be True or False, got int"),
        (lambda: SecureBuffer(8).numpy(object), TypeError, "dtype must hold no Python objects, got object"),
        (lambda: SecureBuffer(8).numpy("S"), ValueError, "dtype must have a size"),
        (lambda: SecureBuffer(8).numpy("f4", 3), ValueError, "shape (3,) must fit: 3 elements of 4 bytes from byte 0 of 8"),
        (lambda: SecureBuffer(8).numpy("f4", (1, -1)), ValueError, "shape must be >= 0, got -1"),
        (lambda: SecureBuffer(8).numpy("f4", 1.0), TypeError, "shape must be a whole number, got float"),
        (lambda: SecureBuffer(8).numpy(offset=-1), ValueError, "offset must be >= 0, got -1"),
        (lambda: SecureBuffer(8).numpy(offset=9), ValueError, "offset must be <= 8, got 9"),
        (lambda: SecureBuffer(8).numpy("f4", offset=2), ValueError, "offset must be a multiple of the 4 bytes of an element, got 2"),
        (lambda: copy.copy(SecureBuffer(8)), TypeError, NO_COPIES),
        (lambda: copy.deepcopy(SecureBuffer(8)), TypeError, NO_COPIES),
        (lambda: pickle.dumps(SecureBuffer(8)), TypeError, NO_COPIES),
    ],
)
def test_bad_input(make, error, text):
    with pytest.raises(error) as raised:
        make()
    assert str(raised.value) == text


def test_bad_torch_dtype():
    pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"^dtype must be a torch.dtype, got str$"):
        SecureBuffer(8).torch("float32")


def test_more_memory_than_there_is():
    with pytest.raises(MemoryError):
        SecureBuffer(2**62)


def test_status_counts_pages_and_keys():
    import hushvec as hv

    before = counts()
    buffer, generator = SecureBuffer(5000), hv.Generator()
    now = counts()
    assert now["buffer_bytes"] - before["buffer_bytes"] == 2 * os.sysconf("SC_PAGESIZE") or os.sysconf("SC_PAGESIZE") > 4096
    assert now["keys"] == before["keys"] + 1 and now["key_bytes"] > 0
    del generator
    assert counts()["keys"] == before["keys"]
    buffer.release()


# ---- where the operating system refuses ----

BEGINNING = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from no_locking import forbid_locking
forbid_locking({limit})
import hushvec as hv
from hushvec.secure_memory import SecureBuffer, SecureMemoryError, SecureMemoryWarning, status
"""
HERE = os.path.dirname(__file__)
REFUSED = "mlock was refused ({}; RLIMIT_MEMLOCK is {} bytes, see `ulimit -l`): the memory may be swapped out to disk"


def in_child(code, limit=0):
    program = BEGINNING.format(limit=limit) + textwrap.dedent(code)
    finished = subprocess.run([sys.executable, "-c", program, HERE], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.splitlines(), finished.stderr


def test_without_locking_one_warning_a_reason_and_strict_raises():
    printed, errors = in_child("""
        for _ in range(3):
            with SecureBuffer(10) as buffer:
                buffer.numpy()[:] = 1
                refused = buffer.refused
        try:
            SecureBuffer(10, strict=True)
        except SecureMemoryError as error:
            print(error)
        report = status()
        print(report["locked_buffer_bytes"], report["lock_limit_bytes"], report["ignores_lock_limit"])
        print(report["refused"] == refused)
        """)
    sentence = REFUSED.format("Operation not permitted", 0)
    assert printed == [sentence, "0 0 False", "True"]
    assert errors.count("SecureMemoryWarning") == 1 and errors.count(sentence) == 1
    assert "<string>" in errors   # the warning points at the caller


def test_without_locking_generators_go_on_in_silence():
    printed, errors = in_child("""
        hv.gaussian_noise(3)
        print(len(status()["keys_refused"]), status()["locked_key_bytes"])
        """)
    assert (printed, errors) == (["1 0"], "")


def test_a_limit_that_is_used_up():
    printed, _ = in_child(
        """
        first = SecureBuffer(65536, strict=True)      # with a page of keys at most, within the limit
        try:
            SecureBuffer(2**20, strict=True)
        except SecureMemoryError as error:
            print(error)
        second = SecureBuffer(4096, strict=True)
        """,
        limit=2**18,
    )
    assert printed == [REFUSED.format("Cannot allocate memory", 2**18)]


def test_a_forked_child_is_told_and_locks_anew():
    code = """
        import os
        buffer = SecureBuffer(4096, strict=True)
        buffer.numpy()[:] = 1
        if os.fork() == 0:
            ok = buffer.wiped_by_fork and not buffer.numpy().any() and buffer.refused == []
            buffer.scrub()
            os._exit(0 if ok and not buffer.wiped_by_fork else 1)
        print(os.waitstatus_to_exitcode(os.wait()[1]), buffer.wiped_by_fork, buffer.numpy().all())
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))
        if os.fork() == 0:
            try:
                buffer.numpy()
            except SecureMemoryError as error:
                os._exit(0 if "mlock was refused" in str(error) else 1)
            os._exit(2)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    assert in_child(code, limit=2**18)[0] == ["0 False True", "0"]


def test_the_kernel_knows_the_pages_as_locked_not_dumped_and_wiped_on_fork():
    buffer = SecureBuffer(3 * 4096)
    if buffer.refused:
        pytest.skip(buffer.refused[0])
    address = buffer.numpy().ctypes.data
    with open("/proc/self/smaps") as lines:
        inside = False
        for line in lines:
            extent = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if extent:
                inside = int(extent[1], 16) <= address < int(extent[2], 16)
            elif inside and line.startswith("VmFlags:"):
                assert {"lo", "dd", "wf"} <= set(line.split()[1:])
                return
    raise AssertionError("the kernel lists no such pages")


# ---- what libraries leave ----


def test_freed_memory_is_overwritten_once_it_is_asked_for():
    """A block of malloc, freed: its secret stays, and with the setting it does not. Scanned by the process itself."""
    finished = subprocess.run([sys.executable, "-c", FREED, HERE], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == ["1", "0", "1"]


FREED = """
import ctypes, os, sys
sys.path.insert(0, sys.argv[1])
from memory_scan import Scanner, write_secret
from hushvec.secure_memory import overwrite_freed_memory
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def left_of_a_freed_block(name):
    block = libc.malloc(100_000)            # from the heap: larger ones are mappings of their own
    libc.malloc(100_000)                    # its neighbour keeps it from going back to the system
    write_secret(name, memoryview((ctypes.c_char * 64).from_address(block + 90_000)).cast("B"))   # smaller requests take its beginning
    libc.free(block)
    return Scanner(name).in_process(os.getpid())

print(left_of_a_freed_block(31))
overwrite_freed_memory()
print(left_of_a_freed_block(32))
overwrite_freed_memory(False)
print(left_of_a_freed_block(33))
"""


def test_freed_memory_bad_input():
    with pytest.raises(TypeError, match=r"^on must be True or False, got int$"):
        overwrite_freed_memory(1)


def test_a_missing_library_names_the_extra():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import hushvec.secure_memory as memory\n"
        "from hushvec import MissingExtraError\n"
        "try: memory.SecureCache()\n"
        "except MissingExtraError as error: print(error.extra, hasattr(memory, 'SecureBuffer'))\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == "secure True\n"
